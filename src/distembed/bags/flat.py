"""Bags flat in memory: storage, selection, and what computations need of it.

The points of all bags stand in one C-contiguous array `points` of shape (n_points, n_dims), and bag i owns
the rows ``points[offsets[i]:offsets[i + 1]]``. One flat array keeps reductions, products and sorts vectorised
over bags: nothing here loops over bags in Python.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import EllipsisType, MappingProxyType
from typing import Any, NamedTuple, NoReturn, Self, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

_KEEP: Any = object()

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
Label = str | int | float | bool
Categories = tuple[tuple[int, tuple[Label, ...]], ...]  # (column, its labels), in order of the columns


class Parts(NamedTuple):
    """What a `Bags` holds, before or after validation, in the order of its constructor."""

    points: FloatArray
    offsets: IntArray
    weights: FloatArray | None = None
    ids: NDArray[Any] | None = None
    columns: tuple[str, ...] | None = None
    categories: Categories | None = None

    def readonly(self) -> Parts:
        """Return the parts as read-only views, leaving the flags of the caller's own arrays alone."""
        points, offsets, weights, ids = (None if array is None else readonly(array) for array in self[:4])
        return Parts(points, offsets, weights, ids, *self[4:])  # type: ignore[arg-type]


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def few(values: Iterable[Any]) -> str:
    """Return up to five values as text, and how many there are if there are more."""
    shown = [_shown(value) for value in values]
    text = ", ".join(repr(value) for value in shown[:5])
    return text if len(shown) <= 5 else f"{text}, ... ({len(shown)} in all)"


def _shown(value: Any) -> Any:
    """Return a value as Python has it; dates as text, which NumPy makes whole numbers of, by their unit."""
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    return value.item() if isinstance(value, np.generic) else value


def bag_name(position: int, ids: Any = None) -> str:
    """Return how errors call a bag: its position, and its id where ids were given."""
    return f"bag {position}" if ids is None else f"bag {position} (id {few([ids[position]])})"


def place_of(row: int, offsets: IntArray) -> tuple[int, int]:
    """Return the bag that owns a row of points, and the row's position in it."""
    bag = int(np.searchsorted(offsets, row, side="right")) - 1
    return bag, int(row - offsets[bag])


def row_name(row: int, offsets: IntArray, ids: Any = None) -> str:
    """Return how errors call a row of points that are not bags yet: its bag, and its position in it."""
    bag, position = place_of(row, offsets)
    return f"{bag_name(bag, ids)}, row {position}"


def no_bags(why: str) -> ValueError:
    """Return the error for a collection without bags."""
    return ValueError(f"no bags: {why}, and Bags holds at least one bag; check what was selected or read")


class FlatBags:
    """Storage of :class:`~distembed.Bags`: immutable, validated, ragged; see there for the parameters."""

    __slots__ = ("_parts",)
    _parts: Parts
    __hash__ = None  # type: ignore[assignment]  # equal by value, and the values may be large

    @classmethod
    def trusted(
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
        return self.trusted(points, offsets, weights, ids, columns, categories)

    @property
    def parts(self) -> Parts:
        """All that the bags hold, in the order of the constructor; ids and columns None where none were given."""
        return self._parts

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
        return readonly(np.arange(self.n_bags)) if self._parts.ids is None else self._parts.ids

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
        return {self.named_parts().columns[j]: labels for j, labels in self._parts.categories or ()}  # type: ignore[index]

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
    def has_empty(self) -> bool:
        """Whether some bags have no points."""
        return bool((self._parts.offsets[1:] == self._parts.offsets[:-1]).any())

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
        return self if weights is None or weights.all() else self.keep_points(weights > 0)

    def keep_points(self, keep: NDArray[np.bool_]) -> Self:
        """Return the same bags with the points that are marked alone, at least one of each bag, which is not checked.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> bags = Bags([[1.0], [2.0], [3.0]], [0, 2, 3])
        >>> bags.keep_points(bags.points[:, 0] != 2).sizes
        array([1, 1])
        """
        return self.trusted(*keep_points(self._parts, keep))

    def shares(self) -> NDArray[np.float64] | None:
        """Return the share of each point in its bag's weight, shape (n_points,); None where all points weigh the same.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags([[1.0], [2.0], [3.0]], [0, 2, 3], weights=[1, 3, 5]).shares()
        array([0.25, 0.75, 1.  ])
        """
        if self._parts.weights is None:
            return None
        filled = self.sizes > 0
        starts = self.offsets[:-1][filled]
        sizes = self.sizes[filled]
        shares = self._parts.weights.astype(np.float64)
        shares /= np.repeat(np.maximum.reduceat(shares, starts), sizes)  # sums of huge or tiny weights overflow
        shares /= np.repeat(np.add.reduceat(shares, starts), sizes)
        return shares

    def pooled_weights(self) -> NDArray[np.float64] | None:
        """Return weights of all points pooled, shape (n_points,), free of the scale of each bag's weights.

        A bag counts for its effective number of points, (Σw)² / Σw²: its size if its weights are equal, and no more for
        points of weight zero. None stands for equal weights.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags([[1.0], [2.0], [3.0]], [0, 2, 3], weights=[9, 9, 5]).pooled_weights()
        array([1., 1., 1.])
        """
        shares = self.shares()
        if shares is None:
            return None
        return np.asarray(shares / np.repeat(sum_by_bag(shares * shares, self.offsets), self.sizes))

    def name_of(self, i: int) -> str:
        """Return how errors call bag `i`: its position, and its id where ids were given.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"]).name_of(1)
        "bag 1 (id 'b')"
        """
        return bag_name(i, self._parts.ids)

    def name_of_point(self, row: int) -> str:
        """Return how errors call the point in row `row` of `points`: its position in its bag, and its bag.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0], [2.0, 3.0]], ids=["a", "b"]).name_of_point(2)
        "point 1 of bag 1 (id 'b')"
        """
        bag, position = place_of(row, self._parts.offsets)
        return f"point {position} of {self.name_of(bag)}"

    def weights_of(self, i: int) -> FloatArray | None:
        """Return the read-only weights of bag `i`, of shape (n_i,), or None if points have none."""
        span = self._span(i)
        weights = self._parts.weights
        return None if weights is None else weights[span]

    def _span(self, i: Any) -> slice:
        position = operator.index(i)
        n_bags = self.n_bags
        if not -n_bags <= position < n_bags:
            raise out_of_bounds(position, n_bags)
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
            return self.trusted(*select_slice(self._parts, *key.indices(self.n_bags)[:2]))
        if self.has_ids and hasattr(key, "index"):
            from .ids import positions_where  # which knows the bags that are defined here

            key = positions_where(key, self.ids)
        return self.trusted(*select(self._parts, as_positions(key, self.n_bags)))

    def __len__(self) -> int:
        return self.n_bags

    def __iter__(self) -> Iterator[FloatArray]:
        return (self._parts.points[start:stop] for start, stop in pairwise(self._parts.offsets.tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FlatBags):
            return NotImplemented
        if (self.dtype, self._parts.categories) != (other.dtype, other._parts.categories):
            return False
        pairs: Iterator[Any] = zip(self.named_parts()[:5], other.named_parts()[:5], strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    def named_parts(self) -> Parts:
        """Return the parts with ids and names of columns made explicit."""
        columns = tuple(f"x{j}" for j in range(self.n_dims)) if self.columns is None else self.columns
        return self._parts._replace(ids=self.ids, columns=columns)

    def __repr__(self) -> str:
        sizes = self.sizes
        spread = f"{sizes[0]}" if sizes.min() == sizes.max() else f"{sizes.min()}..{sizes.max()}"
        text = f"n_bags={self.n_bags}, n_points={self.n_points}, n_dims={self.n_dims}, sizes={spread}"
        text += f", empty={n_empty}" if (n_empty := int((sizes == 0).sum())) else ""
        text += f", dtype={self.dtype}" + ("" if self._parts.weights is None else ", weighted")
        if self._parts.ids is not None:
            text += f", ids={few(self._parts.ids[:1])}..{few(self._parts.ids[-1:])}"
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
        return self.trusted, tuple(self._parts)

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the bags with points and weights in `dtype`, float32 or float64; self if they are already.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0, 2.0]]).astype("float32").dtype
        dtype('float32')
        """
        target = np.dtype(dtype)
        if target == self.dtype:
            return self
        from .checks import cast  # which knows the parts that are defined here

        return self.trusted(*cast(self._parts, target))


def gather_rows(starts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the row numbers of the segments [start, start + size), one after another, and their offsets."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets


def as_positions(key: Any, n_bags: int) -> IntArray:
    """Return a slice, boolean mask or array of positions as non-negative positions of bags."""
    if isinstance(key, slice):
        return np.arange(*key.indices(n_bags))
    index = np.asarray(None if isinstance(key, tuple) else key)  # a tuple means axes, and bags have one
    if index.ndim == 1 and index.size == 0:
        return np.zeros(0, np.int64)
    if index.ndim != 1 or index.dtype.kind not in "iub":
        raise TypeError(
            "bags are selected by an integer, a slice, a 1-D boolean mask or a 1-D array of positions, got "
            f"{type(key).__name__} of dtype {index.dtype} and shape {index.shape}; to select by id use "
            "bags.select(wanted)"
        )
    if index.dtype.kind == "b":
        if len(index) != n_bags:
            raise IndexError(
                f"a boolean mask must have one entry a bag, got {len(index)} for {n_bags} bags; make it from these "
                "bags, such as bags.sizes > 10"
            )
        return np.flatnonzero(index)
    bad = np.flatnonzero((index < -n_bags) | (index >= n_bags))
    if bad.size:
        raise out_of_bounds(int(index[bad[0]]), n_bags, f" (entry {bad[0]} of the selection)")
    index = index.astype(np.int64, copy=False)
    return np.where(index < 0, index + n_bags, index)


def out_of_bounds(position: int, n_bags: int, where: str = "") -> IndexError:
    """Return the error for a bag that is not there."""
    return IndexError(
        f"bag {position}{where} is out of bounds for {n_bags} bags; use positions from {-n_bags} to {n_bags - 1}, and "
        "to select by id bags.select(wanted)"
    )


def select_slice(parts: Parts, start: int, stop: int) -> Parts:
    """Return the consecutive bags from `start` to `stop`, as views."""
    if stop <= start:
        raise no_bags("the selection is empty")
    points, offsets, weights, ids, columns, categories = parts
    bounds = offsets[start : stop + 1]
    span = slice(bounds[0], bounds[-1])
    weights = None if weights is None else weights[span]
    ids = None if ids is None else ids[start:stop]
    return Parts(points[span], bounds - bounds[0], weights, ids, columns, categories)


def sum_by_bag(values: NDArray[Any], offsets: IntArray) -> NDArray[Any]:
    """Return the sum of the values of each bag's points, shape (n_bags,); zero where a bag is empty.

    Examples
    --------
    >>> sum_by_bag(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3, 3]))
    array([3., 0., 3., 0.])
    """
    filled = np.diff(offsets) > 0
    if filled.all():
        return np.asarray(np.add.reduceat(values, offsets[:-1]))
    sums = np.zeros(len(filled), values.dtype)
    if filled.any():  # what reduceat gives for an empty segment is the value that follows
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled])
    return sums


def keep_points(parts: Parts, keep: NDArray[np.bool_]) -> Parts:
    """Return the bags with the points that are marked alone; a bag that keeps none is empty."""
    sizes = sum_by_bag(keep.astype(np.int64), parts.offsets)
    weights = None if parts.weights is None else parts.weights[keep]
    return parts._replace(points=parts.points[keep], offsets=np.append(0, np.cumsum(sizes)), weights=weights)


def select(parts: Parts, index: IntArray) -> Parts:
    """Return the bags at positions `index`: views of consecutive bags, else one gather."""
    if not index.size:
        raise no_bags("the selection is empty")
    if (np.diff(index) == 1).all():
        return select_slice(parts, int(index[0]), int(index[-1]) + 1)
    points, offsets, weights, ids, columns, categories = parts
    ids = None if ids is None else ids[index]
    rows, offsets = gather_rows(offsets[index], offsets[index + 1] - offsets[index])
    weights = None if weights is None else weights.take(rows)
    points = points.take(rows, axis=0)  # half the time of points[rows]
    return Parts(points, offsets, weights, ids, columns, categories)
