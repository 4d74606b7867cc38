"""The container of bags: what it is made from, and what it is written to.

Bags on disk: NumPy archives without pickle, written whole or not at all.

Bags as notebooks show them: sizes and columns, each with a small picture.

Points and weights from sequences with one array or data frame for each bag.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..compute.atomic_files import write_whole
from . import aligning, anndata, checks, fcs, frames, missing
from .categories import check_categories
from .checks import as_float, empty_bag, validate, wrong_number_of_ids
from .flat import FlatBags, FloatArray, IntArray, Parts, bag_name, few, no_bags

# Bags on disk: NumPy archives without pickle, written whole or not at all

# version 1 knew no categories; files without them are still written as such
_FORMAT = "distembed.Bags"
_VERSION = 2
# What np.load and the zip archive below it raise for bytes that are no archive, or a damaged one.
_UNREADABLE = (ValueError, TypeError, EOFError, OSError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error)


def write_npz(path: str | os.PathLike[str], parts: Parts, compress: bool) -> None:
    """Write parts to an .npz archive, whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"can't save bags to {str(target)!r}: folder {str(target.parent)!r} does not exist")
    if parts.ids is not None and parts.ids.dtype.kind == "O":
        kinds = sorted({type(value).__name__ for value in parts.ids})
        raise TypeError(f"ids must be numbers, text, bytes or dates to be saved, got objects ({', '.join(kinds)})")
    text = None if parts.categories is None else json.dumps(parts.categories)
    plain = {**parts._asdict(), "categories": text}
    entries: dict[str, Any] = {name: np.asarray(value) for name, value in plain.items() if value is not None}
    version = 1 if text is None else _VERSION
    # `format` lists the entries, so that one lost to a damaged directory is missed.
    head: dict[str, Any] = {"format": np.array([_FORMAT, *entries]), "version": np.array(version)}
    with write_whole(target) as file:
        (np.savez_compressed if compress else np.savez)(file, **head, **entries)


def read_npz(path: str | os.PathLike[str]) -> Parts:
    """Return the validated parts in an archive of `write_npz`, without pickle."""
    if Path(path).exists() and not Path(path).is_file():  # a pipe would wait for who writes
        raise ValueError(f"can't read bags from {os.fspath(path)!r}: it is not a regular file")
    with Path(path).open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array, and was not written by Bags.save")
            if not {"format", "version"} <= set(archive.files):
                raise ValueError("it was not written by Bags.save")
            found, *names = np.atleast_1d(archive["format"]).tolist()
            if found != _FORMAT:
                raise ValueError("it was not written by Bags.save")
            version = int(archive["version"])
            if version > _VERSION:
                raise ValueError(
                    f"its format version is {version}, and this distembed reads up to {_VERSION}; upgrade distembed"
                )
            absent = {"points", "offsets", *names} - set(archive.files)
            if absent:
                raise ValueError(f"it lacks {few(sorted(absent))}")
            entries = {key: archive[key] if key in names else None for key in Parts._fields}
            columns = None if entries["columns"] is None else entries["columns"].tolist()
            text = entries.pop("categories")
            parts = validate(**{**entries, "columns": columns})
            if text is not None:
                parts = parts._replace(categories=check_categories(json.loads(str(text)), parts))
            return parts
        except _UNREADABLE as error:
            raise ValueError(f"can't read bags from {os.fspath(path)!r}: {error}") from error


# Bags as notebooks show them: sizes and columns, each with a small picture

MOST_COLUMNS = 20
_MOST_POINTS = 100_000  # that are looked at
_BARS = 24


def bags_html(bags: FlatBags) -> str:
    """A table of the columns under a line of the sizes; O(n_points) at most, of a hundred thousand points.

    Examples
    --------
    >>> from distembed.bags import Bags
    >>> text = bags_html(Bags.from_arrays([[1.0, 2.0], [3.0]], columns=["<x>"]))
    >>> text.count("<svg"), "&lt;x&gt;" in text
    (2, True)
    """
    from ..compute.svg import html_table, number, sparkline  # loads SciPy

    parts = bags.named_parts()
    sizes = bags.sizes
    points = bags.points[:: max(1, bags.n_points // _MOST_POINTS)]
    rows = []
    for j, name in enumerate((parts.columns or ())[:MOST_COLUMNS]):
        values = points[:, j]
        labels = (bags.categories or {}).get(j)
        if labels is None:
            counts = np.histogram(values, _BARS)[0]
            facts = [number(each) for each in np.quantile(values, [0, 0.5, 1])]
        else:
            counts = np.bincount(values.astype(int), minlength=len(labels))
            facts = [f"{len(labels)} labels", str(labels[int(counts.argmax())]), ""]
        rows.append([name, *facts, sparkline(counts, f"distribution of {name}")])
    spread = np.histogram(np.log(sizes), _BARS)[0] if sizes.min() < sizes.max() else np.array([len(sizes)])
    facts = [number(each) for each in np.quantile(sizes, [0, 0.5, 1])]
    rows.insert(0, ["(points per bag)", *facts, sparkline(spread, "bag sizes, on a logarithmic scale")])
    left = bags.n_dims - MOST_COLUMNS
    title = f"Bags: {bags.n_bags:,} bags, {bags.n_points:,} points, {bags.n_dims} columns"
    note = f"... {left} more columns" if left > 0 else ""
    return html_table(["column", "lowest", "median", "highest", "distribution"], rows, title, note)


# Points and weights from sequences with one array or data frame for each bag


def stack(
    arrays: Sequence[Any], ids: Any = None, columns: Any = None
) -> tuple[FloatArray, IntArray, Sequence[str] | None]:
    """Return points, offsets and names of columns of a sequence of (n_i, n_dims) or (n_i,) arrays, or data frames.

    Columns of frames are put in one order by their names: that of `columns` if those are the names, else that of the
    first frame. Arrays have no names and go by position.
    """
    if ids is not None and len(ids) != len(arrays):
        raise wrong_number_of_ids(len(ids), len(arrays))
    parts: list[FloatArray] = []
    order: list[Any] | None = None
    for position, values in enumerate(arrays):
        name = bag_name(position, ids)
        if values is None:
            raise TypeError(f"{name} is None; leave it out")
        part = as_float(values, name)
        if part.ndim == 1:
            part = part[:, None]
        if part.ndim != 2:
            raise ValueError(
                f"{name} must be an array of shape (n_points, n_dims), or (n_points,) for 1-D points, "
                f"got shape {part.shape}; reshape it to two axes"
            )
        names = frame_names(values)
        if names is not None:
            if order is None:
                first = position
                order = list(columns) if _same_names(columns, names) else names
            part = _in_order(part, names, order, name, bag_name(first, ids))
        if not len(part):
            raise empty_bag(position, ids)
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"every bag must have the same number of coordinates, got {part.shape[1]} in {name} and "
                f"{parts[0].shape[1]} in {bag_name(0, ids)}; give all bags the same columns"
            )
        parts.append(part)
    if not parts:
        raise no_bags("the sequence of arrays is empty")
    sizes = np.fromiter((len(part) for part in parts), np.int64, len(parts))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if columns is None and order is not None and all(isinstance(name, str) for name in order):
        columns = order
    return parts[0] if len(parts) == 1 else np.concatenate(parts), offsets, columns


def frame_names(values: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame, or None for anything else."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    names = getattr(values, "column_names", None)
    names = getattr(values, "columns", None) if names is None else names
    return None if names is None else list(names)


def _same_names(columns: Any, names: list[Any]) -> bool:
    """Return whether both hold the same names, each once, in whatever order."""
    if columns is None or isinstance(columns, str):
        return False
    given = list(columns)
    return len(given) == len(names) == len(set(names)) and set(given) == set(names)


def _in_order(part: FloatArray, names: list[Any], order: list[Any], name: str, first: str) -> FloatArray:
    """Return the columns of a frame in the order of the first frame's."""
    if names == order:
        return part
    if not _same_names(names, order):
        raise ValueError(
            f"every bag must have the same columns, got {few(names)} in {name} and {few(order)} in {first}; give all "
            "bags the same columns"
        )
    return part[:, [names.index(wanted) for wanted in order]]


def stack_weights(weights: Sequence[Any], sizes: IntArray, ids: Any) -> FloatArray:
    """Return one flat array of weights from a sequence of one array a bag."""
    if len(weights) != len(sizes):
        raise ValueError(
            f"weights must hold one array a bag, got {len(weights)} for {len(sizes)} bags; for weights of all points "
            "in one array use Bags(points, offsets, weights)"
        )
    parts = [as_float(part, f"weights of {bag_name(i, ids)}") for i, part in enumerate(weights)]
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if part.shape != (size,):
            raise ValueError(
                f"weights of {bag_name(i, ids)} must have shape ({size},), got {part.shape}; give one per point"
            )
    return np.concatenate(parts)


_KEEP: Any = object()


class Bags(FlatBags):
    """Immutable, ragged collection of bags of points, flat in memory.

    Parameters
    ----------
    points : array-like of shape (n_points, n_dims)
        The points of all bags, bag after bag; finite. float32 and float64 are kept, float16 becomes float32;
        integers, booleans and long doubles become float64; text, objects and complex numbers are refused.
    offsets : array-like of int of shape (n_bags + 1,)
        Bag i is ``points[offsets[i]:offsets[i + 1]]``: from 0 to n_points, strictly increasing, no bag empty.
    weights : array-like of shape (n_points,), optional
        One number per point, in the dtype of `points`: finite, nonnegative, of positive sum in every bag.
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

    __slots__ = ()

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
        if categories is not None:
            parts = parts._replace(categories=check_categories(categories, parts))
        object.__setattr__(self, "_parts", parts.readonly())

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
        points, offsets, columns = stack(arrays, ids, columns)
        flat = None if weights is None else stack_weights(list(weights), np.diff(offsets), ids)
        return cls(points, offsets, flat, ids, columns, categories)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: str | Sequence[str],
        columns: Sequence[str] | str | None = None,
        weights: str | None = None,
        categorical: Sequence[str] | Mapping[str, Any] | str | None = None,
        nan: str | Mapping[str, float] = "error",
    ) -> Self:
        """Return bags from a long table with one row per point.

        Parameters
        ----------
        df : pandas or polars DataFrame, pyarrow Table, or mapping of names to arrays
            Rows in any order.
        bag : str or list of str
            The column that says which bag a row belongs to; its values become the ids. Values of several columns are
            joined by /, such as ``2013-01-01/JFK`` for ``bag=["date", "origin"]``: numbers and dates as text, the
            latter without the time where it is midnight, and a backslash before a / inside a value. A Series with
            these columns as its index fits such bags.
        columns, weights : sequence of str and str, optional
            The coordinates and the column of point weights. By default every other column is a coordinate, in order,
            except text, dates, constants, numbers of rows and an index without a name: a warning says which are left
            out, and why. A column of numbers with a stray word in it is an error.
        categorical : sequence of str, or mapping of str to sequence of labels, optional
            Those of `columns` that hold labels: text, whole numbers, booleans, categoricals. Labels are sorted, or as
            a pandas Categorical, polars Enum or ordered pyarrow dictionary has them. A mapping fixes them: new bags
            take those of old ones by ``categorical=old.category_labels``. A label that is not among these becomes
            "other", which is added to them, with a warning; to a model it is a label without any training point, unless
            the training bags had an "other".
        nan : {"error", "drop", "indicator"}, or mapping of column to number
            What becomes of missing values (NaN, None, null) in `columns`. "error" counts them by column. "drop" leaves
            out every point that lacks a value; a bag that loses all its points is an error. "indicator" fills a value
            in by the mean of all present ones of its column, and adds, after all columns, a column ``name missing`` of
            0 and 1 for every column that lacks values; a missing label becomes the label "missing". New bags take the
            columns and fills of old ones by ``nan=old.missing_fills``, or by ``nan=model.missing_fills_``.

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

        >>> flights = {"day": [1, 1, 2], "origin": ["JFK", "LGA", "JFK"], "delay": [5.0, -1.0, 30.0]}
        >>> Bags.from_frame(flights, bag=["day", "origin"]).ids.tolist()
        ['1/JFK', '1/LGA', '2/JFK']

        >>> people = {"age": [31, 64, 47], "sex": ["f", "m", "m"], "town": ["A", "A", "B"]}
        >>> train = Bags.from_frame(people, bag="town", categorical=["sex"])
        >>> train[0].tolist(), train.category_labels
        ([[31.0, 0.0], [64.0, 1.0]], {'sex': ('f', 'm')})
        >>> new = {"age": [25], "sex": ["m"], "town": ["C"]}
        >>> Bags.from_frame(new, bag="town", categorical=train.category_labels)[0].tolist()
        [[25.0, 1.0]]

        >>> gaps = {"age": [31, None, 47], "town": ["A", "A", "B"]}
        >>> train = Bags.from_frame(gaps, bag="town", nan="indicator")
        >>> train.columns, train[0].tolist()
        (('age', 'age missing'), [[31.0, 0.0], [39.0, 1.0]])
        >>> Bags.from_frame({"age": [25], "town": ["C"]}, bag="town", nan=train.missing_fills)[0].tolist()
        [[25.0, 0.0]]
        """
        return cls(*frames.frame_parts(df, bag, columns, weights, categorical, nan))

    @overload
    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: str | list[str],
        rep: str | None = ...,
        *,
        columns: Any = ...,
        label: None = ...,
        nan: Any = ...,
    ) -> Self: ...
    @overload
    @classmethod
    def from_anndata(
        cls, adata: Any, bag: Any, rep: str | None = ..., *, columns: Any = ..., label: str, nan: Any = ...
    ) -> tuple[Self, NDArray[Any]]: ...
    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: str | list[str],
        rep: str | None = None,
        *,
        columns: Sequence[str] | str | None = None,
        label: str | None = None,
        nan: str | Mapping[str, float] = "error",
    ) -> Self | tuple[Self, NDArray[Any]]:
        """Return bags from AnnData, one row of ``X`` per point.

        Parameters
        ----------
        adata : AnnData, or path of an .h5ad file
            Any object with ``X``, ``obs`` and ``obsm``. A file is read by h5py alone (``distembed[h5ad]``), block by
            block; matrices may be sparse.
        bag : str or list of str
            The column of ``obs`` that says which bag a row belongs to; its values become the ids. Several are joined as
            in `from_frame`.
        rep : str, optional
            A key of ``obsm``, such as "X_pca", whose columns are the coordinates X_pca_0, X_pca_1, ...; by default
            those of ``X``, called as the variables are. Points are dense: of thousands of genes, choose some or a rep.
        columns : sequence of str, optional
            Some of these columns.
        label : str, optional
            A column of ``obs`` with one value per bag, to be returned too; one that varies in a bag is an error.
        nan : {"error", "drop", "indicator"}, or mapping of column to number
            What becomes of missing values in points, as in `from_frame`.

        Returns
        -------
        Bags, or (Bags, ndarray of shape (n_bags,)) with `label`
            In order of first appearance. Memory is that of the points and a block of 4 million values.

        Notes
        -----
        Features of bags become AnnData, one row per bag, by two lines::

            obs = pandas.DataFrame({"status": y}, index=bags.ids.astype(str))
            donors = anndata.AnnData(features, obs=obs)

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> from distembed.bags import Bags
        >>> obs = {"donor": ["b", "a", "b"], "status": ["ill", "well", "ill"]}
        >>> cells = SimpleNamespace(X=np.eye(3), obs=obs, obsm={"X_pca": np.ones((3, 2))}, var_names=["g", "h", "k"])
        >>> bags, y = Bags.from_anndata(cells, bag="donor", label="status")
        >>> bags
        Bags(n_bags=2, n_points=3, n_dims=3, sizes=1..2, dtype=float64, ids='b'..'a', columns=g, h, k)
        >>> y.tolist(), Bags.from_anndata(cells, bag="donor", rep="X_pca").columns
        (['ill', 'well'], ('X_pca_0', 'X_pca_1'))
        """
        bags = cls(*anndata.anndata_parts(adata, bag, rep, columns, nan))
        return bags if label is None else (bags, anndata.bag_labels(adata, bag, label, bags.ids))

    @classmethod
    def from_fcs(
        cls,
        source: Any,
        channels: Sequence[str] | str | None = None,
        cofactor: float | None = None,
        nan: str | Mapping[str, float] = "error",
    ) -> Self:
        """Return bags from FCS files of flow cytometry, one bag per file.

        Parameters
        ----------
        source : path, or sequence of paths
            A folder, whose .fcs files are read in natural order (p2 before p10) and whose other files are ignored, or
            files in the order given. Needs flowio: ``distembed[fcs]``.
        channels : sequence of str, optional
            The coordinates, in this order, by their names $PnS or, where a channel has none of its own, $PnN. By
            default all, in the order of the first file. Files may have them in any order; one that lacks a channel is
            an error.
        cofactor : float, optional
            Take asinh(x / cofactor) of every value x; 5 is usual for mass cytometry, 150 for fluorescence. By default
            values are linear: gains and logarithmic amplifiers that the files state are undone.
        nan : {"error", "drop", "indicator"}, or mapping of column to number
            What becomes of missing values in points, as in `from_frame`.

        Returns
        -------
        Bags
            Their ids are the names of the files, with suffix.

        Examples
        --------
        >>> import tempfile
        >>> import flowio
        >>> from distembed.bags import Bags
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, channels in (("p10.fcs", ["CD4", "CD8"]), ("p2.fcs", ["CD8", "CD4"])):
        ...         with open(f"{folder}/{name}", "wb") as file:
        ...             _ = flowio.create_fcs(file, [1.0, 2.0, 3.0, 4.0], channels)
        ...     bags = Bags.from_fcs(folder)
        >>> bags.ids.tolist(), bags.columns, bags[1].tolist()
        (['p2.fcs', 'p10.fcs'], ('CD8', 'CD4'), [[2.0, 1.0], [4.0, 3.0]])
        """
        return cls(*fcs.fcs_parts(source, channels, cofactor, nan))

    @property
    def missing_fills(self) -> dict[str, float]:
        """What stands for missing values, by column: what `from_frame` takes as `nan` for new bags.

        Empty unless the bags were read with ``nan="indicator"``.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_frame({"x": [1.0, float("nan"), 4.0], "id": [0, 0, 1]}, "id", nan="indicator").missing_fills
        {'x': 2.5}
        """
        return missing.fills_of(self.points, self.columns)

    def align(self, targets: Any, extra: str = "error") -> NDArray[Any]:
        """Return one target per bag, in the order of `ids`.

        Parameters
        ----------
        targets : mapping of id to target, or pandas Series or DataFrame indexed by id
            The ids of these bags, in any order.
        extra : {"error", "ignore"}
            What becomes of targets of other ids.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_columns) for a DataFrame
            A missing, unknown or repeated id is an error that names it.

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> bags = Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"])
        >>> bags.align({"b": 20, "a": 10})
        array([10, 20])
        >>> bags.align({"b": 20, "c": 30, "a": 10}, extra="ignore")
        array([10, 20])
        """
        return aligning.aligned(self.ids, targets, extra)

    def select(self, ids: Any) -> Self:
        """Return the bags that have these ids, in the order of the ids; an unknown one is an error.

        Parameters
        ----------
        ids : sequence of ids
            Those of some bags, each as often as its bag is wanted.

        Returns
        -------
        Bags

        Examples
        --------
        >>> from distembed.bags import Bags
        >>> Bags.from_arrays([[1.0], [2.0], [3.0]], ids=["a", "b", "c"]).select(["c", "a"]).ids.tolist()
        ['c', 'a']
        """
        return self[aligning.positions(self.ids, ids)]

    def to_frame(self, library: str = "pandas", bag: str = "bag", weights: str = "weight") -> Any:
        """Return a long table with one row per point.

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
        return frames.build_frame(library, bag, weights, self.named_parts())

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
        write_npz(path, self.parts, compress)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the bags that `save` wrote; nothing in the file is run, and all of it is validated."""
        return cls.trusted(*read_npz(path))

    def _repr_html_(self) -> str:

        return bags_html(self)
