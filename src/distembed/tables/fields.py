"""Tables of the fields, AnnData and FCS: read whole, and then handed out as tables on disk are."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, anndata
from ..bags.fcs import list_fcs
from ..bags.missing import SUFFIX
from ..compute.checks import Argument, Message
from ..compute.progress import Progress
from .bag_table import BagTable, cuts_of, entries_of
from .files import TableError, pa
from .labels import CovariateTable, LabelTable, covariate_values, refuse_strays


def obs_labels(source: Any, *, bag: str, label: str, classes: bool | None = None) -> LabelTable:
    """Return the labels of bags in a column of the ``obs`` of an .h5ad file; bags without one are left out.

    `classes` is as in `read_labels`.
    """
    path = _only(entries_of(source))
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
    path = _only(entries_of(source))
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
        return anndata.obs_columns(_only(entries_of(source)))


class FieldTable(BagTable):
    """A table whose bags are in memory."""

    def __init__(
        self, kind: str, paths: list[Path], bag: str, rep: str | None, cofactor: float | None, options: dict[str, Any]
    ) -> None:
        columns = options.get("columns")
        nan = options.get("nan", "error")
        for name, what in (("weights", "of points"), ("categorical", "columns")):
            if options.get(name) is not None:
                raise TableError(Message(f"{kind} files have no ", Argument(name), f" {what}; leave it out"))
        with _as_table_errors():
            if kind == "AnnData":
                self.files: tuple[Path, ...] = (_only(paths),)
                bags = Bags.from_anndata(self.files[0], bag, rep, columns=columns, nan=nan)
            else:
                self.files = tuple(list_fcs(paths))
                bags = Bags.from_fcs(self.files, columns, cofactor, nan)
        self.left_out: dict[str, str] = {}
        self.categorical = {}
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


def _only(paths: list[Path]) -> Path:
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
