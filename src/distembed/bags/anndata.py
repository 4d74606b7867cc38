"""Bags from AnnData, the format of single cells: one row per cell, and a column of ``obs`` that says whose it is.

An object needs ``X``, ``obs``, ``obsm`` and ``var_names``. An .h5ad file is read by h5py alone, in blocks of rows that
go straight to their places among the points: sparse matrices are never dense twice. Both are seen through
:class:`AnnotatedData`: columns of ``obs`` by name, and a matrix in blocks.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, Message, closest_name
from .categories import factorise, given_labels, recode
from .checks import Rule, as_float, check_nan
from .flat import FloatArray, IntArray, Parts, few, gather_rows
from .frames import encode, own_labels, plain_categories
from .ids import bag_keys, column_keys, group
from .labels import check_label, rows_of_values
from .missing import LABEL, settle

BLOCK_VALUES = 1 << 22  # of a matrix that are dense at once beside the points
MOST_COLUMNS = 1 << 24  # of a sparse matrix; each has a name
_REMEDY = "name another column of obs, or correct those rows"


def anndata_parts(
    data: Any,
    bag: str | list[str],
    rep: str | None = None,
    layer: str | None = None,
    columns: Any = None,
    categorical: Any = None,
    nan: Any = "error",
) -> Parts:
    """Return the parts of the bags of an AnnData object or .h5ad file, in the order of pandas' ``groupby``.

    Points are rows of the matrix, followed by the codes of the categorical columns of ``obs``.
    """
    rule = check_nan("Bags.from_anndata", nan)
    given = given_labels(categorical)
    with _opened(data) as source:
        of_bag = bag if isinstance(bag, list) else [bag]
        keys = bag_keys(partial(source.column, "bag"), bag)
        matrix = source.matrix(rep, layer) if _names_some(columns, given) else _no_columns(len(keys))
        if matrix.shape[0] != len(keys):
            raise ValueError(
                f"{source.name}: {matrix.where} must have one row per row of obs, {len(keys):,}, got "
                f"{matrix.shape[0]:,}; check how it was written"
            )
        chosen = _chosen(matrix, columns, given, source.name)
        names = tuple(matrix.names[j] for j in chosen)
        _check_categorical(given, of_bag, names, source.name)
        rows, offsets, ids = _in_order(source, of_bag, *group(keys))
        places = np.arange(len(keys))
        if rows is not None:
            places[rows] = np.arange(len(keys))
        labels = {}
        points = matrix.dense(places, chosen, len(given))
        for j, name in enumerate(given, len(chosen)):
            column = source.column("categorical", name)
            wanted = _own_labels(source, name, column, rule) if given[name] is None else given[name]
            codes, labels[j] = encode(column, name, wanted, keys, rule)
            points[places, j] = codes
    return settle(Parts(points, offsets, None, ids, (*names, *given), tuple(labels.items()) or None), rule)


def _own_labels(source: AnnotatedData, name: str, column: Any, rule: Rule) -> list[Any] | None:
    """Return the labels of a column of categories, and one for missing values where these are filled in."""
    labels = source.labels(name)
    gaps = rule not in ("error", "drop") and column_keys(column)[1].size > 0
    return labels if labels is None or not gaps or LABEL in labels else [*labels, LABEL]


def _check_categorical(given: Mapping[Any, Any], of_bag: list[str], names: Sequence[str], where: str) -> None:
    """Refuse columns of labels that name bags, or are called as a coordinate; points need one column at least."""
    both = [name for name in given if name in of_bag]
    taken = [name for name in given if name in names]
    if both:
        raise ValueError(
            Message(f"{where}: ", Argument("categorical"), f" must not contain {few(both)}, the column of bag ids")
        )
    if taken:
        raise ValueError(
            Message(
                f"{where}: ", Argument("categorical"),
                f" names {few(taken)}, a coordinate too; rename that column of obs, or leave the coordinate out",
            )
        )  # fmt: skip
    if not names and not given:
        raise ValueError(Message(f"{where}: ", Argument("columns"), " must name at least one coordinate, got none"))


def _in_order(
    source: AnnotatedData, of_bag: list[str], rows: IntArray | None, offsets: IntArray, ids: NDArray[Any]
) -> tuple[IntArray | None, IntArray, NDArray[Any]]:
    """Return grouped rows in the order of pandas' ``groupby``: that of categories, or else of sorted values.

    ``obs.groupby(bag)`` is how tables of donors are made, and an array made of one fits the bags. Values that can't be
    sorted stay in order of first appearance, as there.
    """
    first = offsets[:-1] if rows is None else rows[offsets[:-1]]
    ranks = []
    for name in of_bag:
        values, _ = column_keys(source.column("bag", name))
        try:
            codes, distinct = factorise(values[first], f"column {name!r}")
        except TypeError:
            return rows, offsets, ids
        known = source.labels(name)
        ranks.append(codes if known is None else recode(codes, distinct, known))
    order = np.lexsort(ranks[::-1])
    if (np.diff(order) == 1).all():
        return rows, offsets, ids
    moved, bounds = gather_rows(offsets[order], np.diff(offsets)[order])
    return moved if rows is None else rows[moved], bounds, ids[order]


def labels_of(data: Any, bag: str | list[str], label: str) -> dict[Any, Any]:
    """Return the values of a column of ``obs`` that has one value per bag, by bag id.

    Parameters
    ----------
    data : AnnData, or path of an .h5ad file
        Whose ``obs``.
    bag, label : str
        The columns of bag ids, maybe several in a list, and of values.

    Returns
    -------
    dict of id to value
        In order of first appearance; a bag without any value is left out. A value that varies within a bag is an error.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> cells = SimpleNamespace(X=None, obsm={}, obs={"donor": ["b", "a", "b"], "age": [31, 64, 31]})
    >>> labels_of(cells, "donor", "age")
    {'b': 31, 'a': 64}
    """
    with _opened(data) as source:
        keys = bag_keys(partial(source.column, "bag"), bag)
        values, missing = column_keys(source.column("label", label))
        name = source.name
    begin = Message(f"{name}: ", Argument("label", label))
    ids, rows = rows_of_values(keys, values, missing, begin, _REMEDY)
    known = rows >= 0
    return dict(zip(ids[known].tolist(), values[rows[known]].tolist(), strict=True))


def bag_labels(data: Any, bag: str | list[str], label: str, ids: NDArray[Any]) -> NDArray[Any]:
    """Return the values of a column of ``obs``, one per bag, in the order of `ids`."""
    found = labels_of(data, bag, label)
    lost = [key for key in ids.tolist() if key not in found]
    if lost:
        raise ValueError(
            f"label={label!r} must have a value for every bag, got none for {few(lost)}; leave those rows out: "
            f"adata[adata.obs[{label!r}].notna()]"
        )
    return np.asarray([found[key] for key in ids.tolist()])


def bag_covariates(data: Any, bag: str | list[str], names: Any, ids: NDArray[Any]) -> Any:
    """Return columns of ``obs`` that have one value per bag, as a pandas DataFrame indexed by `ids`.

    A column that varies within a bag is an error that names the bag; one without any value in a bag is missing there.
    Columns of categories keep their labels.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError("covariates of AnnData are a pandas DataFrame: pip install 'distembed[frames]'") from error
    columns = {}
    with _opened(data) as source:
        keys = bag_keys(partial(source.column, "bag"), bag)
        for name in names:
            column = source.column("covariates", name)
            values, missing = column_keys(plain_categories(column))
            begin = Message(f"{source.name}: ", Argument("covariates", name))
            found, rows = rows_of_values(keys, values, missing, begin, _REMEDY)
            place = {key: i for i, key in enumerate(found.tolist())}
            rows = rows[[place[key] for key in ids.tolist()]]
            taken = [None if row < 0 else values[row] for row in rows.tolist()]
            labels = source.labels(name)
            columns[name] = taken if labels is None else pandas.Categorical(taken, categories=labels)
    return pandas.DataFrame(columns, index=pandas.Index(ids, name=bag if isinstance(bag, str) else None))


def check_names(
    bag: Any, groupby: Any, rep: Any, use_rep: Any, label: Any, covariates: Any, categorical: Any
) -> tuple[Any, Any, list[Any]]:
    """Return the columns of bag ids, the representation and the covariates, under whichever name they were given.

    Examples
    --------
    >>> check_names(None, "donor", None, "X_pca", "status", "age", None)
    ('donor', 'X_pca', ['age'])
    """
    bag = _either("bag", bag, "groupby", groupby)
    rep = _either("rep", rep, "use_rep", use_rep)
    if bag is None:
        raise TypeError("bag: name the column of obs that has the donor of each cell, such as bag='donor'")
    bag = list(bag) if isinstance(bag, tuple) else bag
    if bag == [] or (isinstance(bag, list) and len(set(bag)) < len(bag)):
        raise ValueError(f"bag must name a column of obs, or several that differ, got {bag!r}; name each once")
    covariates = [] if covariates is None else [covariates] if isinstance(covariates, str) else list(covariates)
    if label is not None:
        others = {"bag": bag if isinstance(bag, list) else [bag], "covariates": covariates}
        check_label(label, others | {"categorical": given_labels(categorical)})
    return bag, rep, covariates


def _either(name: str, value: Any, alias: str, other: Any) -> Any:
    """Return what was given under one of two names."""
    if value is not None and other is not None:
        raise TypeError(f"{name} and {alias} mean the same, got {value!r} and {other!r}; leave {alias} out")
    return other if value is None else value


def looks_like_anndata(data: Any) -> bool:
    """Return whether an object is AnnData, or has what makes it one.

    Examples
    --------
    >>> looks_like_anndata(np.ones((3, 2)))
    False
    """
    return all(hasattr(data, name) for name in ("X", "obs", "obsm"))


def refuse_anndata(data: Any) -> TypeError:
    """Return the error for cells where bags are expected."""
    with _open_object(data) as source:
        known = source.obs_names()
    return TypeError(
        f"{type(data).__name__} holds cells and does not name their donors: use distembed.Bags.from_anndata(adata, "
        f"bag=<column of obs>), {f'such as one of {few(known)}' if known else 'but obs has no column yet'}"
    )


def obs_columns(data: Any) -> list[str]:
    """Return the names of the columns of ``obs``."""
    with _opened(data) as source:
        return source.obs_names()


class Contents(NamedTuple):
    """What an AnnData object or .h5ad file holds: number of points, variables of X, columns of obs, widths of obsm."""

    n_points: int
    variables: list[str]
    obs: dict[str, tuple[NDArray[Any], NDArray[np.int64]]]  # values, and the rows that have none
    reps: dict[str, int]


def contents(data: Any) -> Contents:
    """Look at all of an AnnData object or .h5ad file but its matrices.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> cells = SimpleNamespace(X=np.ones((3, 2)), obsm={"X_pca": np.ones((3, 1))}, obs={"donor": ["b", "a", "b"]})
    >>> found = contents(cells)
    >>> found.n_points, found.variables, list(found.obs), found.reps
    (3, ['X_0', 'X_1'], ['donor'], {'X_pca': 1})
    """
    with _opened(data) as source:
        variables: list[str] = []
        with suppress(ValueError):  # there is no X
            variables = list(source.matrix(None).names)
        obs = {name: column_keys(source.column("columns", name)) for name in source.obs_names()}
        reps = {key: source.matrix(key).shape[1] for key in source.reps()}
    n_points = len(next(iter(obs.values()))[0]) if obs else 0
    return Contents(n_points, variables, obs, reps)


def _chosen(matrix: Matrix, columns: Any, given: Mapping[Any, Any], name: str) -> NDArray[np.int64]:
    """Return the positions of the columns asked for, by default all; those of labels are in obs."""
    if columns is None:
        return np.arange(len(matrix.names))
    wanted = [each for each in ([columns] if isinstance(columns, str) else columns) if each not in given]
    position = {known: j for j, known in enumerate(matrix.names)}
    absent = [each for each in wanted if each not in position]
    if absent:
        raise ValueError(Message(f"{name}: ", Argument("columns"), f" names {_unknown(absent[0], matrix.names)}"))
    return np.array([position[each] for each in wanted], dtype=np.int64)


def _names_some(columns: Any, given: Mapping[Any, Any]) -> bool:
    """Return whether columns of a matrix are asked for, and not only labels."""
    return columns is None or isinstance(columns, str) or any(name not in given for name in columns)


def _no_columns(n_points: int) -> Matrix:
    return Matrix("obs", (), (n_points, 0), np.dtype(np.float64), np.empty((n_points, 0)))


def _unknown(name: Any, known: Sequence[str]) -> str:
    close = closest_name(name, known)
    return f"{name!r}, which is not there; " + (f"did you mean {close!r}?" if close else f"it has {few(known)}")


# --------------------------------------------------------------------------------------------------------------
# Matrices in blocks
# --------------------------------------------------------------------------------------------------------------


class Matrix(NamedTuple):
    """A matrix with named columns, in memory or on disk."""

    where: str  # how errors call it
    names: Sequence[str]
    shape: tuple[int, int]
    dtype: Any
    values: Any  # what gives rows by slices, or a `_Compressed`

    def dense(self, places: NDArray[np.int64], chosen: NDArray[np.int64], n_more: int = 0) -> FloatArray:
        """Return chosen columns, the rows moved to their places, read block by block, and `n_more` columns of zeros."""
        points = np.zeros((self.shape[0], len(chosen) + n_more), as_float(np.empty(0, self.dtype), self.where).dtype)
        width = len(chosen)
        every = len(chosen) == self.shape[1] and bool((chosen == np.arange(len(chosen))).all())
        if isinstance(self.values, _Compressed) and not self.values.by_rows:
            for k, block in self.values.lines(chosen):
                points[places, k] = block
            return points
        step = max(1, BLOCK_VALUES // max(self.shape[1], 1))
        for start in range(0, self.shape[0], step):
            block = self.values[start : start + step]
            block = np.asarray(block.toarray() if hasattr(block, "toarray") else block)
            points[places[start : start + step], :width] = block if every else block[:, chosen]
        return points


class _Compressed:
    """A sparse matrix of compressed rows or columns: three arrays, or three data sets of a file."""

    def __init__(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int], by_rows: bool) -> None:
        self._data = data
        self._indices = indices
        self._indptr = np.asarray(indptr[:], dtype=np.int64)
        self._shape = shape
        self.by_rows = by_rows
        # SciPy trusts these, and reads outside of its arrays where a damaged file makes them wrong
        lines = shape[0] if by_rows else shape[1]
        n_entries = min(len(data), len(indices))
        bounds = self._indptr
        if bounds.shape != (lines + 1,) or bounds[0] != 0 or bounds[-1] > n_entries or (np.diff(bounds) < 0).any():
            raise RuntimeError(f"indptr of a sparse matrix must rise from 0 to {n_entries:,} in {lines:,} steps")

    def _checked(self, entries: Any, n: int) -> Any:
        """Return positions in a row or column, which are inside of it."""
        if len(entries) and not 0 <= entries.min() <= entries.max() < n:
            raise RuntimeError(f"indices of a sparse matrix must be from 0 to {n - 1:,}")
        return entries

    def __getitem__(self, rows: slice) -> Any:
        from scipy.sparse import csr_matrix

        start, stop, _ = rows.indices(self._shape[0])
        bounds = self._indptr[start : stop + 1]
        inside = slice(bounds[0], bounds[-1])
        places = self._checked(self._indices[inside], self._shape[1])
        entries = (self._data[inside], places, bounds - bounds[0])
        return csr_matrix(entries, shape=(stop - start, self._shape[1]))

    def lines(self, chosen: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield columns one by one."""
        for k, j in enumerate(chosen):
            inside = slice(*self._indptr[j : j + 2].tolist())
            entries = self._checked(self._indices[inside], self._shape[0])
            yield k, np.bincount(entries, self._data[inside], minlength=self._shape[0])


# --------------------------------------------------------------------------------------------------------------
# Objects
# --------------------------------------------------------------------------------------------------------------


def _opened(data: Any) -> AbstractContextManager[AnnotatedData]:
    return _open_file(data) if isinstance(data, str | os.PathLike) else _open_object(data)


@contextmanager
def _open_object(data: Any) -> Iterator[AnnotatedData]:
    if not looks_like_anndata(data):
        raise TypeError(
            f"adata must be an AnnData object, which has X, obs and obsm, or the path of an .h5ad file, got "
            f"{type(data).__name__}; a long table is read by Bags.from_frame"
        )
    yield AnnotatedData(data)


class AnnotatedData:
    """What bags are made from: an AnnData object, or one that looks like it."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self.name = "adata"

    def column(self, argument: str, name: Any) -> Any:
        """Return a column of ``obs``."""
        known = self.obs_names()
        if name not in known:
            raise ValueError(
                Message(f"{self.name}: ", Argument(argument), f" names the column of obs {_unknown(name, known)}")
            )
        return self._column(name)

    def matrix(self, rep: str | None, layer: str | None = None) -> Matrix:
        """Return ``X``, a key of ``obsm``, or a layer."""
        if layer is not None:
            if rep is not None:
                said = f" and layer {layer!r} are two matrices; leave one out"
                raise ValueError(Message(f"{self.name}: ", Argument("rep", rep), said))
            keys = self.layers()
            if layer not in keys:
                there = f"there are {few(keys)}" if keys else "there is none; leave it out to take X"
                raise ValueError(
                    Message(f"{self.name}: ", Argument("layer"), f" must be a key of layers, got {layer!r}; {there}")
                )
            return self._layer(layer)
        if rep in (None, "X"):
            return self._x()
        keys = self.reps()
        if rep not in keys:
            there = f"obsm has {', '.join(map(repr, keys))}" if keys else "obsm is empty; leave it out to take X"
            raise ValueError(
                Message(f"{self.name}: ", Argument("rep"), f" must be a key of obsm, got {rep!r}; {there}")
            )
        return self._rep(str(rep))

    def obs_names(self) -> list[str]:
        """Return the names of the columns of ``obs``."""
        obs = self._data.obs
        return list(obs if isinstance(obs, Mapping) else obs.columns)

    def reps(self) -> list[str]:
        """Return the keys of ``obsm``."""
        return [str(key) for key in self._data.obsm]

    def layers(self) -> list[str]:
        """Return the keys of ``layers``."""
        return [str(key) for key in getattr(self._data, "layers", ())]

    def labels(self, name: str) -> list[Any] | None:
        """Return the labels that the type of a column of ``obs`` fixes, in their order, or None."""
        return own_labels(plain_categories(self._data.obs[name]))

    def _column(self, name: str) -> Any:
        return self._data.obs[name]

    def _x(self) -> Matrix:
        if self._data.X is None:
            raise self.no_x()
        return as_matrix("X", self._data.X, self._var_names())

    def _layer(self, layer: str) -> Matrix:
        return as_matrix(layer, self._data.layers[layer], self._var_names())

    def _var_names(self) -> list[str] | None:
        names = getattr(self._data, "var_names", None)
        return None if names is None else [str(name) for name in names]

    def _rep(self, rep: str) -> Matrix:
        found = self._data.obsm[rep]
        names = getattr(found, "columns", None)
        found = found.to_numpy() if hasattr(found, "to_numpy") else found
        return as_matrix(rep, found, None if names is None else [str(name) for name in names])

    def no_x(self) -> ValueError:
        """Return the error for data without ``X``."""
        keys = self.reps()
        remedy = f"name a key of obsm, one of {', '.join(map(repr, keys))}" if keys else "and obsm is empty"
        return ValueError(Message(f"{self.name}: there is no X; pass ", Argument("rep"), f": {remedy}"))


def as_matrix(where: str, values: Any, names: Sequence[str] | None) -> Matrix:
    """Return what has a 2-D shape and a dtype as a matrix with names of columns that differ."""
    if len(values.shape) == 1:
        values = np.asarray(values[:])[:, None]
    if len(values.shape) != 2:
        raise ValueError(f"{where} must have two axes, cells and columns, got shape {values.shape}; write it again")
    shape = (int(values.shape[0]), int(values.shape[1]))
    if values.__class__.__module__.startswith("scipy.sparse"):
        by_rows = values.format != "csc"
        found = values.tocsr() if by_rows else values
        values = _Compressed(found.data, found.indices, found.indptr, shape, by_rows)
        return Matrix(where, _distinct(where, shape[1], names), shape, found.dtype, values)
    return Matrix(where, _distinct(where, shape[1], names), shape, values.dtype, values)


def _distinct(where: str, width: int, names: Sequence[str] | None) -> Sequence[str]:
    """Return names of columns, with -1, -2, ... behind a name that comes again, as AnnData makes them unique."""
    if names is None or len(names) != width:
        return [f"{where}_{j}" for j in range(width)]
    if len(set(names)) == len(names):
        return names
    seen = set(names)
    found = []
    first: set[str] = set()
    for name in names:
        free = name
        k = 0
        while (k == 0 and free in first) or (k > 0 and free in seen):
            k += 1
            free = f"{name}-{k}"
        first.add(name)
        seen.add(free)
        found.append(free)
    return found


# --------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------


@contextmanager
def _open_file(path: str | os.PathLike[str]) -> Iterator[AnnotatedData]:
    name = repr(os.fspath(path))
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise ImportError("reading .h5ad files needs h5py: pip install 'distembed[h5ad]'") from error
    if not os.path.exists(path):
        raise ValueError(f"no such file: {name}; check the path")
    if not os.path.isfile(path):
        kind = "a folder" if os.path.isdir(path) else "not a regular file"
        raise ValueError(f"{name} is {kind}, and not an .h5ad file; name a file")
    try:
        file = h5py.File(path, "r")
    except OSError:
        raise ValueError(f"{name} is not a readable .h5ad file: it is damaged, cut off or of another format") from None
    with file:
        if "obs" not in file:
            raise ValueError(
                f"{name} is an HDF5 file without obs, so it is not AnnData; write it with adata.write_h5ad"
            )
        try:
            yield _File(file, name, h5py)
        except (OSError, LookupError, RuntimeError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{name} can't be read as AnnData: {error}; write it again by adata.write_h5ad") from error


class _File(AnnotatedData):
    """An .h5ad file, of today's encoding or of older ones: columns by reference, or rows as records."""

    def __init__(self, file: Any, name: str, h5py: Any) -> None:
        self._file = file
        self.name = name
        self._h5py = h5py

    def obs_names(self) -> list[str]:
        obs = self._file["obs"]
        if obs.dtype.names if self._is_array(obs) else False:
            return list(obs.dtype.names)
        order = [str(each) for each in obs.attrs.get("column-order", ())]
        hidden = {"__categories", *order}
        return order + [name for name in obs if name not in hidden]

    def reps(self) -> list[str]:
        obsm = self._file.get("obsm")
        if obsm is None:
            return []
        return list(obsm.dtype.names or ()) if self._is_array(obsm) else list(obsm)

    def layers(self) -> list[str]:
        return list(self._file.get("layers", ()))

    def labels(self, name: str) -> list[Any] | None:
        obs = self._file["obs"]
        if self._is_array(obs):
            found = self._file.get(f"uns/{name}_categories")
            return None if found is None else list(self._values(found).tolist())
        item = obs[name]
        if self._is_array(item):
            known = item.attrs.get("categories")
            return None if known is None else list(self._values(self._file[known]).tolist())
        return list(self._values(item["categories"]).tolist()) if "categories" in item else None

    def _is_array(self, item: Any) -> bool:
        return isinstance(item, self._h5py.Dataset)

    def _column(self, name: str) -> Any:
        obs = self._file["obs"]
        if not self._is_array(obs):
            return self._values(obs[name])
        # records of before 0.7
        values = obs[name]
        labels = self._file.get(f"uns/{name}_categories")
        return _text(values) if labels is None else _decoded(values, self._values(labels))

    def _values(self, item: Any) -> NDArray[Any]:
        """Return a column: numbers, text, categories, or values with a mask."""
        if not self._is_array(item):
            if "categories" in item:
                return _decoded(item["codes"][:], self._values(item["categories"]))
            if "mask" in item:
                return _decoded(
                    np.where(item["mask"][:], -1, np.arange(len(item["mask"]))), self._values(item["values"])
                )
            raise KeyError(f"{item.name} is of an encoding that is not known")
        labels = item.attrs.get("categories")
        if labels is not None:
            return _decoded(item[:], self._values(self._file[labels]))
        return _text(item.asstr()[:] if self._h5py.check_string_dtype(item.dtype) else item[:])

    def _index(self, item: Any) -> list[str]:
        """Return the names of the rows of a table."""
        if self._is_array(item):
            return [str(name) for name in _text(item["index" if "index" in item.dtype.names else "_index"])]
        return [str(name) for name in self._values(item[str(item.attrs.get("_index", "_index"))])]

    def _x(self) -> Matrix:
        item = self._file.get("X")
        if item is None or item.attrs.get("encoding-type") == "null":
            raise self.no_x()
        return self._as_matrix("X", item, self._var_names())

    def _layer(self, layer: str) -> Matrix:
        return self._as_matrix(layer, self._file["layers"][layer], self._var_names())

    def _var_names(self) -> list[str] | None:
        return self._index(self._file["var"]) if "var" in self._file else None

    def _rep(self, rep: str) -> Matrix:
        return self._as_matrix(rep, self._file["obsm"][rep], None)

    def _as_matrix(self, where: str, item: Any, names: Sequence[str] | None) -> Matrix:
        if self._is_array(item) or isinstance(item, np.ndarray):
            return as_matrix(where, item, names)
        kind = str(item.attrs.get("encoding-type", item.attrs.get("h5sparse_format", "")))
        if kind == "dataframe":
            names = [str(name) for name in item.attrs["column-order"]]
            return as_matrix(where, np.column_stack([self._values(item[name]) for name in names]), names)
        if "indptr" not in item:
            raise KeyError(f"{where} is of the encoding {kind!r}, which is not known")
        sizes = np.asarray(item.attrs.get("shape", item.attrs.get("h5sparse_shape")))
        if sizes.shape != (2,) or sizes.dtype.kind not in "iu" or sizes.min() < 0:
            raise RuntimeError(f"the shape of {where} must be two whole numbers")
        rows, width = sizes.tolist()
        if width > MOST_COLUMNS or (names is not None and len(names) != width):
            raise RuntimeError(f"{where} has {width:,} columns, and var {0 if names is None else len(names):,} rows")
        values = _Compressed(item["data"], item["indices"], item["indptr"], (rows, width), "csc" not in kind)
        return Matrix(where, _distinct(where, width, names), (rows, width), item["data"].dtype, values)


def _text(values: NDArray[Any]) -> NDArray[Any]:
    """Return bytes as text."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8")
    if values.dtype.kind == "O":
        return np.array([each.decode() if isinstance(each, bytes) else each for each in values], dtype=object)
    return values


def _decoded(codes: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels that codes stand for; None where a code is negative."""
    if (codes >= 0).all():
        return np.asarray(labels[codes])
    found = np.empty(len(codes), dtype=object)
    found[codes >= 0] = labels[codes[codes >= 0]]
    return found
