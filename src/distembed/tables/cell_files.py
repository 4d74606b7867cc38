"""Any table on disk by its suffix: long tables, and files of single cells, AnnData and FCS.

The latter are read whole, and then handed out as tables on disk are.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, anndata
from ..bags.fcs import list_fcs
from ..bags.missing import SUFFIX
from ..compute.checks import Argument, Message
from ..compute.progress import Progress
from .arrow import pa
from .bag_table import BagTable, cuts_of
from .files import check_names, is_pattern
from .formats import format_of
from .labels import CovariateTable, LabelTable, covariate_values, refuse_strays
from .paths import AnyPath, TableError, as_path


def open_bags(
    source: Any,
    *,
    bag: Any,
    rep: str | None = None,
    layer: str | None = None,
    cofactor: float | None = None,
    compensate: bool | None = None,
    **options: Any,
) -> BagTable:
    """Return the bags of any table on disk: a long table, an .h5ad file, or FCS files.

    Parameters
    ----------
    source : path, or sequence of paths
        As in :class:`BagTable`; or one .h5ad file; or .fcs files, or a folder that has some, whose other files are then
        ignored.
    bag : str
        The column of bag ids, in an .h5ad file one of ``obs``. FCS files are bags: it is what their names are called.
    rep, layer, cofactor, compensate : str, str, float and bool, optional
        The first two of .h5ad files, the others of FCS files, see :meth:`distembed.Bags.from_anndata` and
        :meth:`distembed.Bags.from_fcs`.
    **options
        The other options of :class:`BagTable`. Of .h5ad and FCS files `columns`, which are variables or channels, and
        `nan` count, and `categorical` of .h5ad files, columns of ``obs``; `weights` is refused, and what is about
        sorting has no meaning.

    Returns
    -------
    BagTable
        Bags sorted by id. Those of .h5ad and FCS files are in memory.

    Examples
    --------
    >>> import tempfile
    >>> import flowio
    >>> from distembed.tables import open_bags
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("p10.fcs", "p2.fcs"):
    ...         with open(f"{folder}/{name}", "wb") as file:
    ...             _ = flowio.create_fcs(file, [1.0, 2.0, 3.0, 4.0], ["CD4", "CD8"])
    ...     open_bags(folder, bag="patient", cofactor=5).ids().tolist()
    ['p10.fcs', 'p2.fcs']
    """
    kind = cell_file_kind(source)
    of_anndata = (("rep", rep, "AnnData"), ("layer", layer, "AnnData"))
    of_fcs = (("cofactor", cofactor, "FCS"), ("compensate", compensate, "FCS"))
    for name, value, wanted in (*of_anndata, *of_fcs):
        if value is not None and kind != wanted:
            raise TableError(Message(Argument(name), f" applies to {wanted} files only; leave it out"))
    if kind is None:
        return BagTable(source, bag=bag, **options)
    return CellFileTable(kind, _entries(source), bag, (rep, layer), (cofactor, compensate), options)


def cell_file_kind(source: Any) -> str | None:
    """Return "AnnData" or "FCS" if files are of these kinds, else None.

    Examples
    --------
    >>> cell_file_kind("kidney.h5ad"), cell_file_kind(["p1.fcs", "p2.fcs"]), cell_file_kind("points.csv")
    ('AnnData', 'FCS', None)
    """
    paths = _entries(source)
    suffixes = {path.suffix.lower() for path in paths}
    if ".h5ad" in suffixes:
        return "AnnData"
    folders = [path for path in paths if format_of(path) is None and path.is_dir()]
    inside = {file.suffix.lower() for folder in folders for file in folder.iterdir()}
    return "FCS" if ".fcs" in suffixes | inside else None


class CellFileTable(BagTable):
    """A table whose bags are in memory."""

    def __init__(
        self,
        kind: str,
        paths: list[AnyPath],
        bag: str,
        of_anndata: tuple[str | None, str | None],
        of_fcs: tuple[float | None, bool | None],
        options: dict[str, Any],
    ) -> None:
        columns = options.get("columns")
        nan = options.get("nan", "error")
        for name, what in (("weights", "of points"), ("categorical", "columns")):
            if options.get(name) is not None and (kind, name) != ("AnnData", "categorical"):
                raise TableError(Message(f"{kind} files have no ", Argument(name), f" {what}; leave it out"))
        check_names(paths if kind == "AnnData" else list(map(as_path, list_fcs(paths))))
        with _as_table_errors():
            if kind == "AnnData":
                self.files: tuple[AnyPath, ...] = (_only(paths),)
                rep, layer = of_anndata
                labels = options.get("categorical")
                bags = Bags.from_anndata(
                    self.files[0], bag, rep, layer=layer, columns=columns, categorical=labels, nan=nan
                )
            else:
                self.files = tuple(map(as_path, list_fcs(paths)))
                cofactor, compensate = of_fcs
                chosen = "auto" if compensate is None else compensate
                bags = Bags.from_fcs(self.files, columns, cofactor, nan, compensate=chosen)
        self.left_out: dict[str, str] = {}
        self.categorical = bags.category_labels
        self._bags = bags = bags[np.argsort(bags.ids, kind="stable")]
        self.bag = bag
        self.weights = None
        self.columns = bags.columns or ()
        self.nan = bags.missing_fills if nan == "indicator" else nan
        added = {f"{name}{SUFFIX}" for name in bags.missing_fills}
        self.file_columns = tuple(name for name in self.columns if name not in added)
        self.known_points = bags.n_points
        self.ids_are_text = bags.ids.dtype.kind in "UO"

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{str(self.files[0])!r}{more}"

    def __repr__(self) -> str:
        return f"BagTable({self}, bag={self.bag!r}, columns={list(self.columns)})"

    def ids(self, progress: Progress = False) -> NDArray[Any]:
        """Return the ids of all bags, sorted."""
        return self._bags.ids

    def _batches(self, max_points: int, max_bags: int, start: int) -> Generator[Bags, None, None]:
        bags = self._bags
        cuts = cuts_of(bags.offsets[:-1], bags.n_points, max_points, max_bags)
        for first, stop in list(pairwise(cuts))[start:]:
            yield bags[first:stop]


def obs_labels(source: Any, *, bag: str, label: str, classes: bool | None = None) -> LabelTable:
    """Return the labels of bags in a column of the ``obs`` of an .h5ad file; bags without one are left out.

    `classes` is as in `read_labels`.
    """
    path = _only(_entries(source))
    with _as_table_errors():
        found = anndata.labels_of(path, bag, label)
    if not found:
        raise TableError(
            Message(f"{str(path)!r}: ", Argument("label", label), " has no value at all; name another column")
        )
    table = LabelTable(list(found), list(found.values()))
    if not classes:
        refuse_strays(table.ids, table.labels, f"{str(path)!r}, column {label!r}")
    return table


def obs_covariates(
    source: Any, *, bag: str, covariates: Sequence[str], kinds: Mapping[str, str] | None = None
) -> CovariateTable:
    """Return columns of the ``obs`` of an .h5ad file that have one value per bag; see `read_covariates`."""
    path = _only(_entries(source))
    read = {}
    with _as_table_errors():
        ids = list(anndata.labels_of(path, bag, bag))
        for name in covariates:
            found = anndata.labels_of(path, bag, name)
            values = pa.array([np.asarray(found[key]).item() if key in found else None for key in ids])
            read[name] = covariate_values(values, f"{str(path)!r}: covariate {name!r}", (kinds or {}).get(name))
    return CovariateTable(ids, read)


def obs_columns(source: Any) -> list[str]:
    """Return the names of the columns of ``obs`` of an .h5ad file."""
    with _as_table_errors():
        return anndata.obs_columns(_only(_entries(source)))


def _entries(source: Any) -> list[AnyPath]:
    """Return paths; patterns are expanded, but for those of long tables: a store would be asked in vain."""
    if not isinstance(source, str | os.PathLike | list | tuple):
        return []
    found: list[AnyPath] = []
    for entry in [source] if isinstance(source, str | os.PathLike) else source:
        path = as_path(entry)
        matches = path.matches() if format_of(path) is None and is_pattern(path) and not path.exists() else []
        found += matches or [path]
    return found


def _only(paths: list[AnyPath]) -> AnyPath:
    if len(paths) != 1:
        raise TableError(f"an .h5ad file must be the only table, got {len(paths)}; join them by anndata.concat first")
    return paths[0]


@contextmanager
def _as_table_errors() -> Iterator[None]:
    """Turn the errors of values into those of tables."""
    try:
        yield
    except TableError:
        raise
    except ValueError as error:
        raise TableError(*error.args) from None
