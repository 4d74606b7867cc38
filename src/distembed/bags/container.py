"""Bags of points: the ragged container that every estimator of the package reads.

The points of all bags stand in one C-contiguous array `points` of shape (n_points, n_dims), and bag i owns
the rows ``points[offsets[i]:offsets[i + 1]]``. One flat array keeps reductions, products and sorts vectorised
over bags: nothing here loops over bags in Python, except to read a Python list of arrays.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import EllipsisType, MappingProxyType
from typing import Any, NoReturn, Self, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import categories as _categories
from . import checks as checks
from . import frames as _frames
from . import ragged as _interop
from . import selection as moves
from .checks import FloatArray, IntArray, Label, Parts

__all__ = ["Bags", "as_bags", "concat"]

_KEEP: Any = object()


class Bags:
    """Immutable, ragged collection of bags of points, flat in memory.

    Parameters
    ----------
    points : array-like of shape (n_points, n_dims)
        The points of all bags, bag after bag; finite. float32 and float64 are kept, float16 becomes float32;
        integers, booleans and long doubles become float64; text, objects and complex numbers are refused.
    offsets : array-like of int of shape (n_bags + 1,)
        Bag i is ``points[offsets[i]:offsets[i + 1]]``: from 0 to n_points, strictly increasing, no bag empty.
    weights : array-like of shape (n_points,), optional
        One number a point, in the dtype of `points`: finite, nonnegative, of positive sum in every bag.
    ids : array-like of shape (n_bags,), optional
        One unique id a bag; text becomes a 'U' array. Without ids, bags are numbered from zero.
    columns : sequence of str of length n_dims, optional
        The names of the coordinates.
    categories : mapping of column to sequence of labels, optional
        The categorical columns, by position or name, and their labels (text, numbers or booleans, distinct). Such a
        column holds codes: 0 stands for its first label. `from_frame` makes codes of labels.

    Notes
    -----
    C-contiguous float arrays are not copied: a `Bags` holds a read-only view, so writing into the original
    later changes the bags. The checks cost one pass over the points. Two `Bags` are equal if points, dtype,
    offsets, weights, ids, columns and categories are; absent ids count as 0, 1, ... and absent names as x0, x1, ...

    ``bags[i]`` is the read-only (n_i, n_dims) array of one bag. Slices, boolean masks and integer positions
    (repeats and negatives allowed) give `Bags`; ids repeat with their bags. Consecutive bags share memory
    with the original, all else is one gather, O(points selected). An empty selection is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.bags import Bags
    >>> bags = Bags(np.arange(10.0).reshape(5, 2), offsets=[0, 2, 5], ids=["a", "b"])
    >>> bags
    Bags(n_bags=2, n_points=5, n_dims=2, sizes=2..3, dtype=float64, ids='a'..'b')
    >>> bags[0]
    array([[0., 1.],
           [2., 3.]])
    >>> bags[[1]].ids.tolist(), bags[bags.sizes > 2].n_points
    (['b'], 3)

    A bag of people, each with an age and a sex:

    >>> Bags([[31, 0], [64, 1], [47, 1]], [0, 3], columns=["age", "sex"], categories={"sex": ["f", "m"]})
    Bags(n_bags=1, n_points=3, n_dims=2, sizes=3, dtype=float64, columns=age, sex, categorical=sex (2))
    """

    __slots__ = ("_parts",)
    _parts: Parts
    __hash__ = None  # type: ignore[assignment]  # equal by value, and the values may be large

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        weights: Any = None,
        ids: Any = None,
        columns: Any = None,
        categories: Any = None,
    ) -> None:
        parts = checks.validate(points, offsets, weights, ids, columns)
        parts = parts._replace(categories=_categories.check_categories(categories, parts))
        object.__setattr__(self, "_parts", parts.readonly())

    @classmethod
    def _trusted(
        cls,
        points: Any,
        offsets: Any,
        weights: Any = None,
        ids: Any = None,
        columns: Any = None,
        categories: Any = None,
    ) -> Self:
        """Return bags of arrays known to be valid, unchecked: right dtypes, contiguous, tuples of names and labels."""
        self = object.__new__(cls)
        object.__setattr__(self, "_parts", Parts(points, offsets, weights, ids, columns, categories).readonly())
        return self

    def replace(
        self,
        *,
        points: Any = _KEEP,
        offsets: Any = _KEEP,
        weights: Any = _KEEP,
        ids: Any = _KEEP,
        columns: Any = _KEEP,
        categories: Any = _KEEP,
    ) -> Self:
        """Return the same bags with other parts, which are trusted and not checked; what is not given stays.

        Points of another width leave columns and categories behind. For input of users there is the constructor.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> bags = Bags.from_arrays([[1.0, 2.0], [3.0]], ids=["a", "b"])
        >>> bags.replace(points=bags.points**2, ids=None)
        Bags(n_bags=2, n_points=3, n_dims=1, sizes=1..2, dtype=float64)
        """
        old = self._parts
        points = old.points if points is _KEEP else np.ascontiguousarray(points)
        offsets = old.offsets if offsets is _KEEP else offsets
        weights = old.weights if weights is _KEEP else weights
        weights = None if weights is None else weights.astype(points.dtype, copy=False)
        ids = old.ids if ids is _KEEP else ids
        same_width = points.shape[1] == self.n_dims
        columns = (old.columns if same_width else None) if columns is _KEEP else columns
        categories = (old.categories if same_width else None) if categories is _KEEP else categories
        return self._trusted(points, offsets, weights, ids, columns, categories)

    @classmethod
    def from_arrays(
        cls,
        arrays: Iterable[Any],
        weights: Iterable[Any] | None = None,
        ids: Any = None,
        columns: Any = None,
        categories: Any = None,
    ) -> Self:
        """Return bags from a sequence with one array a bag.

        Parameters
        ----------
        arrays : iterable of array-likes of shape (n_i, n_dims) or (n_i,)
            1-D arrays are 1-D points. The result is float32 only if every array is. Data frames are put in one
            order of columns by name, that of `columns` or else of the first of them.
        weights, ids, columns, categories : optional
            As in `Bags`, but weights bag by bag: an iterable of array-likes of shape (n_i,).

        Returns
        -------
        Bags
            Copied into one flat array, O(n_points).

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0, 2.0, 3.0], [4.0]]).sizes
        array([3, 1])
        """
        arrays = list(arrays)
        if any(isinstance(array, Bags) for array in arrays):
            raise TypeError("arrays must hold one array a bag, got Bags; to join several Bags use concat")
        ids = None if ids is None else checks.canonical_ids(ids)
        points, offsets, columns = moves.stack(arrays, ids, columns)
        flat = None if weights is None else moves.stack_weights(list(weights), np.diff(offsets), ids)
        return cls(points, offsets, flat, ids, columns, categories)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: str,
        columns: Sequence[str] | str | None = None,
        weights: str | None = None,
        categorical: Sequence[str] | Mapping[str, Any] | str | None = None,
    ) -> Self:
        """Return bags from a long table with one row a point.

        Parameters
        ----------
        df : pandas or polars DataFrame, pyarrow Table, or mapping of names to arrays
            Rows in any order.
        bag : str
            The column that says which bag a row belongs to; its values become the ids.
        columns, weights : sequence of str and str, optional
            The coordinates (by default every other column, in order) and the column of point weights.
        categorical : sequence of str, or mapping of str to sequence of labels, optional
            Those of `columns` that hold labels: text, whole numbers, booleans, categoricals. Labels are sorted, or as
            a pandas Categorical, polars Enum or ordered pyarrow dictionary has them. A mapping fixes them: new bags
            take those of old ones by ``categorical=old.category_labels``, and another value is an error. Missing
            values are refused: drop those rows, or make "missing" a label.

        Returns
        -------
        Bags
            In order of first appearance, rows of a bag in the order of the table. Rows that stand grouped are
            not moved; then a single column, or a C-ordered block of a pandas frame, is not even copied.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> bags = Bags.from_frame({"x": [1, 2, 3], "cluster": ["b", "a", "b"]}, bag="cluster")
        >>> bags.ids.tolist(), bags[0].tolist()
        (['b', 'a'], [[1.0], [3.0]])

        >>> people = {"age": [31, 64, 47], "sex": ["f", "m", "m"], "town": ["A", "A", "B"]}
        >>> train = Bags.from_frame(people, bag="town", categorical=["sex"])
        >>> train[0].tolist(), train.category_labels
        ([[31.0, 0.0], [64.0, 1.0]], {'sex': ('f', 'm')})
        >>> new = {"age": [25], "sex": ["m"], "town": ["C"]}
        >>> Bags.from_frame(new, bag="town", categorical=train.category_labels)[0].tolist()
        [[25.0, 1.0]]
        """
        return cls(*_frames.frame_parts(df, bag, columns, weights, categorical))

    @property
    def points(self) -> FloatArray:
        """Points of all bags, read-only ndarray of shape (n_points, n_dims)."""
        return self._parts.points

    @property
    def offsets(self) -> IntArray:
        """Where bags start and end in `points`, read-only int64 ndarray of shape (n_bags + 1,)."""
        return self._parts.offsets

    @property
    def weights(self) -> FloatArray | None:
        """Weights of the points, read-only ndarray of shape (n_points,), or None."""
        return self._parts.weights

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the bags, ndarray of shape (n_bags,); positions where none were given."""
        return checks.readonly(np.arange(self.n_bags)) if self._parts.ids is None else self._parts.ids

    @property
    def has_ids(self) -> bool:
        """Whether ids were given."""
        return self._parts.ids is not None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the coordinates, or None."""
        return self._parts.columns

    @property
    def categories(self) -> Mapping[int, tuple[Label, ...]] | None:
        """Labels of the categorical columns by position, read-only mapping, or None where there are none."""
        return None if self._parts.categories is None else MappingProxyType(dict(self._parts.categories))

    @property
    def category_labels(self) -> dict[str, tuple[Label, ...]]:
        """Labels of the categorical columns by name: what `from_frame` takes as `categorical`."""
        return {self._named().columns[j]: labels for j, labels in self._parts.categories or ()}  # type: ignore[index]

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self._parts.offsets) - 1

    @property
    def n_points(self) -> int:
        """Number of points in all bags."""
        return len(self._parts.points)

    @property
    def n_dims(self) -> int:
        """Number of coordinates of a point."""
        return int(self._parts.points.shape[1])

    @property
    def sizes(self) -> IntArray:
        """Number of points of each bag, ndarray of shape (n_bags,)."""
        return np.diff(self._parts.offsets)

    @property
    def shape(self) -> tuple[int]:
        """``(n_bags,)``, by which scikit-learn knows how many bags it can split."""
        return (self.n_bags,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of points and weights, float32 or float64."""
        return self._parts.points.dtype

    def drop_weightless(self) -> Self:
        """Return the same bags without points of weight zero; no bag loses all its points, because none weighs nothing.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags([[1.0], [2.0], [3.0]], [0, 2, 3], weights=[1, 0, 1]).drop_weightless().points.ravel()
        array([1., 3.])
        """
        weights = self._parts.weights
        if weights is None or weights.all():
            return self
        keep = weights > 0
        sizes = np.add.reduceat(keep, self.offsets[:-1], dtype=np.int64)
        return self.replace(points=self.points[keep], offsets=np.r_[0, np.cumsum(sizes)], weights=weights[keep])

    def shares(self) -> NDArray[np.float64] | None:
        """Return the share of each point in its bag's weight, of shape (n_points,); None where all points weigh the same.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags([[1.0], [2.0], [3.0]], [0, 2, 3], weights=[1, 3, 5]).shares()
        array([0.25, 0.75, 1.  ])
        """
        if self._parts.weights is None:
            return None
        starts, sizes = self.offsets[:-1], self.sizes
        shares = self._parts.weights.astype(np.float64)
        shares /= np.repeat(np.maximum.reduceat(shares, starts), sizes)  # sums of huge or tiny weights overflow
        shares /= np.repeat(np.add.reduceat(shares, starts), sizes)
        return shares

    def name_of(self, i: int) -> str:
        """Return how errors call bag `i`: its position, and its id where ids were given.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"]).name_of(1)
        "bag 1 (id 'b')"
        """
        return checks.bag_name(i, self._parts.ids)

    def weights_of(self, i: int) -> FloatArray | None:
        """Return the read-only weights of bag `i`, of shape (n_i,), or None if points have none."""
        span, weights = self._span(i), self._parts.weights
        return None if weights is None else weights[span]

    def _span(self, i: Any) -> slice:
        position, n_bags = operator.index(i), self.n_bags
        if not -n_bags <= position < n_bags:
            raise moves.out_of_bounds(position, n_bags)
        start, stop = self._parts.offsets[position % n_bags : position % n_bags + 2].tolist()
        return slice(start, stop)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> FloatArray: ...
    @overload
    def __getitem__(
        self, key: slice | Sequence[int] | Sequence[bool] | NDArray[Any] | tuple[Any, EllipsisType]
    ) -> Self: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn's way to take rows of anything that has a shape
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self.points[self._span(key)]
        if isinstance(key, slice) and key.step in (None, 1):
            return self._trusted(*moves.select_slice(self._parts, *key.indices(self.n_bags)[:2]))
        return self._trusted(*moves.select(self._parts, moves.as_positions(key, self.n_bags)))

    def __len__(self) -> int:
        return self.n_bags

    def __iter__(self) -> Iterator[FloatArray]:
        return (self._parts.points[start:stop] for start, stop in pairwise(self._parts.offsets.tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bags):
            return NotImplemented
        if (self.dtype, self._parts.categories) != (other.dtype, other._parts.categories):
            return False
        pairs: Iterator[Any] = zip(self._named()[:5], other._named()[:5], strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    def _named(self) -> Parts:
        """Return the parts with ids and names of columns made explicit."""
        columns = tuple(f"x{j}" for j in range(self.n_dims)) if self.columns is None else self.columns
        return self._parts._replace(ids=self.ids, columns=columns)

    def __repr__(self) -> str:
        sizes = self.sizes
        spread = f"{sizes[0]}" if sizes.min() == sizes.max() else f"{sizes.min()}..{sizes.max()}"
        text = f"n_bags={self.n_bags}, n_points={self.n_points}, n_dims={self.n_dims}, sizes={spread}"
        text += f", dtype={self.dtype}" + ("" if self._parts.weights is None else ", weighted")
        if self._parts.ids is not None:
            text += f", ids={checks.few(self._parts.ids[:1])}..{checks.few(self._parts.ids[-1:])}"
        if self._parts.columns is not None:
            text += f", columns={', '.join(self._parts.columns[:4])}" + (", ..." if self.n_dims > 4 else "")
        if self._parts.categories is not None:
            labelled = [f"{name} ({len(labels)})" for name, labels in self.category_labels.items()]
            text += f", categorical={', '.join(labelled[:4])}" + (", ..." if len(labelled) > 4 else "")
        return f"Bags({text})"

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise AttributeError(f"Bags is immutable: {name!r} can't be changed; make new bags instead")

    __delattr__ = __setattr__

    def __reduce__(self) -> tuple[Any, ...]:
        return self._trusted, tuple(self._parts)

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the bags with points and weights in `dtype`, float32 or float64; self if they are already.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0, 2.0]]).astype("float32").dtype
        dtype('float32')
        """
        target = np.dtype(dtype)
        return self if target == self.dtype else self._trusted(*moves.cast(self._parts, target))

    def align(self, targets: Any) -> NDArray[Any]:
        """Return one target a bag, in the order of `ids`.

        Parameters
        ----------
        targets : mapping of id to target, or pandas Series or DataFrame indexed by id
            Exactly the ids of these bags, in any order.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_columns) for a DataFrame
            A missing, unknown or repeated id is an error that names it.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"]).align({"b": 20, "a": 10})
        array([10, 20])
        """
        return moves.align_targets(self.ids, targets)

    def to_frame(self, library: str = "pandas", bag: str = "bag", weights: str = "weight") -> Any:
        """Return a long table with one row a point.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
            Whose table to make.
        bag, weights : str
            Names of the column of ids and, if the points have weights, of the column of weights.

        Returns
        -------
        DataFrame or Table of n_points rows
            Id, coordinates (x0, x1, ... where `columns` is None), weight. Categorical columns have their labels.
            `from_frame` reads it back, given the ``category_labels`` as `categorical`.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0, 2.0], [3.0]]).to_frame("pyarrow").column_names
        ['bag', 'x0']
        """
        checks.refuse_repeated(self.ids, "a table would merge those bags: give ids that differ")
        return _frames.build_frame(library, bag, weights, self._named())

    def save(self, path: str | os.PathLike[str], compress: bool = False) -> None:
        """Write the bags to a NumPy .npz archive, at exactly `path`, without pickle.

        The archive is written beside `path` and then moved there, so no reader meets half a file. Ids must be
        numbers, text, bytes or dates; other objects are refused.

        Examples
        --------
        >>> import tempfile
        >>> from distembed.bags import Bags
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Bags.from_arrays([[1.0, 2.0], [3.0]]).save(f"{folder}/b.npz")
        ...     Bags.load(f"{folder}/b.npz").sizes
        array([2, 1])
        """
        checks.refuse_repeated(self.ids, "give ids that differ before saving")
        _interop.write_npz(path, self._parts, compress)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the bags that `save` wrote; nothing in the file is run, and all of it is validated."""
        return cls._trusted(*_interop.read_npz(path))


def as_bags(obj: Any) -> Bags:
    """Return `obj` as `Bags`, without copying points where their layout allows it.

    Parameters
    ----------
    obj : Bags, sequence of arrays, 3-D array, awkward Array, pyarrow list array, or Series of lists
        - a list, tuple or object array of one (n_i, n_dims) or (n_i,) array or data frame a bag, which are copied;
        - a 3-D array of shape (n_bags, n, n_dims) holds bags of equal size;
        - awkward ``n * var * d``, ``n * var`` and ``n * var * {x: ..., y: ...}``;
        - pyarrow lists (also large, fixed-size, chunked) of numbers, of lists of numbers, or of structs.

    Returns
    -------
    Bags
        `Bags` as they are. Names of record fields and of frames' columns become `columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.bags import as_bags
    >>> as_bags(np.zeros((10, 50, 3)))
    Bags(n_bags=10, n_points=500, n_dims=3, sizes=50, dtype=float64)
    """
    if isinstance(obj, Bags):
        return obj
    if isinstance(obj, list | tuple):
        return Bags.from_arrays(obj)
    return Bags(*_interop.ragged_parts(obj))


def concat(collections: Iterable[Bags]) -> Bags:
    """Return the bags of several `Bags`, one after another.

    Parameters
    ----------
    collections : iterable of Bags
        Of equal width and `categories`, and of equal `columns` where they have them. Either all have ids, which must
        not repeat, or none has. Where only some have weights, the points of the others weigh one.

    Returns
    -------
    Bags
        float32 only if all are.

    Examples
    --------
    >>> from distembed.bags import Bags, concat
    >>> concat([Bags.from_arrays([[1.0]]), Bags.from_arrays([[2.0, 3.0]])]).sizes
    array([1, 2])
    """
    if isinstance(collections, Bags):
        raise TypeError("concat takes a list of Bags, got one Bags; write concat([a, b])")
    parts = list(collections)
    for i, part in enumerate(parts):
        if not isinstance(part, Bags):
            raise TypeError(f"concat takes Bags, got {type(part).__name__} at position {i}; use as_bags")
    joined = moves.join([part._parts for part in parts])
    categories = _categories.common([part._parts for part in parts], joined.columns)
    return Bags._trusted(*joined._replace(categories=categories))
