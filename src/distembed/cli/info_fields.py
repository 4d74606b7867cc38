"""``distembed info`` of the formats of the fields: what .h5ad and FCS files hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..bags.anndata import contents
from ..compute.arrays import Array
from ..tables import TableError, open_bags
from ..tables.files import format_of
from .app import Screen
from .info import show_bags

_MOST_VALUES = 4  # of a column that are shown, or names of variables
_WIDTH = 50  # of such a list
_NONE = -1  # code of a missing value
_INDEX = "_index"  # names of the rows of obs, which nobody gave


def show_anndata(paths: Sequence[str], bag: str | None, screen: Screen) -> dict[str, Any]:
    """Variables, columns of obs with their values, and keys of obsm."""
    if len(paths) > 1:
        raise TableError(f"an .h5ad file must be the only table, got {len(paths)}; name one of them")
    path, found = paths[0], contents(paths[0])
    if bag is not None and bag not in found.obs:
        raise TableError(f"{path!r}: obs has no column {bag!r}; it has {', '.join(map(repr, found.obs))}")
    coded = {name: _codes(*column) for name, column in found.obs.items() if name != _INDEX or bag == _INDEX}
    columns = {name: _Facts(*found.obs[name], *codes) for name, codes in coded.items()}
    if bag is not None:
        for name, facts in columns.items():
            facts.per_bag = _is_constant(coded[bag][0], coded[name][0])
    header = ("column of obs", "type", "missing", "values", *(["per bag"] if bag is not None else []))
    rows = [(name, *facts.cells()) for name, facts in columns.items()]
    screen.table(f"{path}: {found.n_points:,} points", header, rows)
    some = _few(found.variables, len(found.variables))
    screen.line(f"X has {len(found.variables):,} variables: {some}" if some else "there is no X; name a key by --rep")
    reps = ", ".join(f"{key} ({width} columns)" for key, width in found.reps.items())
    screen.line(f"obsm, for --rep: {reps}" if reps else "obsm is empty")
    told: dict[str, Any] = {"command": "info", "kind": "AnnData", "files": [path], "n_points": found.n_points}
    told |= {"variables": found.variables, "obs": {name: vars(facts) for name, facts in columns.items()}}
    told["obsm"] = found.reps
    if bag is None:
        screen.line("--bag COLUMN tells of bags")
        return told
    codes, names = coded[bag]
    sizes = Counter(dict(zip(names, np.bincount(codes[codes != _NONE], minlength=len(names)).tolist(), strict=True)))
    return told | {"bags": show_bags(sizes, bag, screen)}


class _Facts:
    """What is known of a column of obs."""

    def __init__(self, values: Array, missing: Array, codes: Array, names: list[Any]) -> None:
        kind = "truth value" if values.dtype == bool else "number" if values.dtype.kind in "iuf" else "text"
        self.type, self.missing, self.n_values = kind, len(missing), len(names)
        self.some = names[:_MOST_VALUES] if kind == "text" else names[:: max(1, len(names) - 1)]
        self.per_bag: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """For people."""
        if self.type == "text":
            shown = _few([str(name) for name in self.some], self.n_values)
        else:
            shown = " to ".join(f"{end:.6g}" for end in self.some) if self.some else "-"
        per_bag = () if self.per_bag is None else ("one" if self.per_bag else "several",)
        return (self.type, f"{self.missing:,}", f"{self.n_values:,}: {shown}", *per_bag)


def _codes(values: Array, missing: Array) -> tuple[Array, list[Any]]:
    """Positions of values among the distinct ones, sorted, and these; -1 for missing ones."""
    there = np.ones(len(values), bool)
    there[missing] = False
    known = values[there]
    names, codes = np.unique(known.astype(str) if known.dtype == object else known, return_inverse=True)
    found = np.full(len(values), _NONE)
    found[there] = codes
    return found, names.tolist()


def _is_constant(bags: Array, codes: Array) -> bool:
    """Whether a column has one value in each bag."""
    pairs = np.unique(np.stack([bags, codes]), axis=1)
    return bool(pairs.shape[1] == len(np.unique(bags)))


def _few(names: Sequence[str], n_names: int) -> str:
    """The first names, as many as fit, and whether there are more."""
    shown = list(names[:_MOST_VALUES])
    while len(shown) > 1 and len(", ".join(shown)) > _WIDTH:
        shown.pop()
    return ", ".join([*shown, *(["..."] if n_names > len(shown) else [])])


def show_fcs(paths: Sequence[str], screen: Screen) -> dict[str, Any]:
    """Channels with their ranges, numbers of events, and tables in the same folder, which may have the labels."""
    table = open_bags(list(paths), bag="file")
    (bags,) = table.batches(max_points=None)
    ends = [{"least": each.min(), "greatest": each.max()} for each in bags.points.T]
    rows = [(name, *(f"{end:.6g}" for end in each.values())) for name, each in zip(table.columns, ends, strict=True)]
    title = f"{paths[0]}: {bags.n_bags:,} FCS files, {bags.n_points:,} points"
    screen.table(title, ("channel", "least", "greatest"), rows)
    sizes = dict(zip(bags.ids.tolist(), bags.sizes.tolist(), strict=True))
    told = {"command": "info", "kind": "FCS", "files": [str(path) for path in table.files], "n_points": bags.n_points}
    found = told | {"columns": dict(zip(table.columns, ends, strict=True))}
    found |= {"bags": show_bags(Counter(sizes), "file", screen)}
    folders = [Path(path) for path in paths if Path(path).is_dir()]
    beside = [str(file) for folder in folders for file in sorted(folder.iterdir()) if format_of(file)]
    if beside:
        screen.line(f"tables in the same folder, perhaps of labels: {', '.join(beside)}")
    return found | {"tables": beside}
