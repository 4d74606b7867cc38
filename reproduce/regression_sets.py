"""Real tables for regression: bags, a number for each, covariates where the table has some, and an honest split.

Files lie in the folder ``real`` of the data (docs/experiments.md shows where they come from).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from distembed.bags import Bags
from distembed.compute.arrays import Array

from .real_sets import in_file_order

N_FOLDS = 5


class Numbered(NamedTuple):
    """Bags and their numbers; ``groups`` are held out together in the grouped split, ``covariates`` are columns."""

    bags: Bags
    y: Array
    groups: Array | None
    covariates: Mapping[str, Array] | None


@dataclass(frozen=True)
class NumberSet:
    """A table whose bags have a number each.

    Attributes
    ----------
    name : str
    what : str
        What a bag and a point are.
    target : str
        Column of the labels.
    by : str
        What is held out together in the grouped split; "" without such a split.
    group : callable, optional
        Takes the columns of the labels and returns one label per bag.
    drop : tuple of str
        Columns of points that would give the target away.
    weight : str, optional
        Column of points that is their weight.
    covariates : tuple of str
        Columns of the labels.
    folds : bool
        Whether the groups are published folds, which are the only split.
    """

    name: str
    what: str
    target: str
    by: str = ""
    group: Callable[[Mapping[str, Array]], Array] | None = None
    drop: tuple[str, ...] = ()
    weight: str | None = None
    covariates: tuple[str, ...] = ()
    folds: bool = False

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits: "random", and "by ..." where groups are known."""
        return (*([] if self.folds else ["random"]), *([f"by {self.by}"] if self.by else []))

    def read(self, find: Callable[..., Path]) -> Numbered:
        """The table; ``find`` returns the path of a file of the data."""
        if self.name == "kidney_igan":
            path = find("real", "kidney_igan.h5ad")
            read = Bags.from_anndata(path, bag="sampleID", label=self.target)
            bags, y = in_file_order(path, "sampleID", *read)
            return Numbered(bags, np.asarray(y, float), None, None)
        import pandas
        import pyarrow.parquet

        points = pyarrow.parquet.read_table(find("real", f"{self.name}.points.parquet"))
        columns = [name for name in points.column_names if name not in ("bag", self.weight, *self.drop)]
        bags = Bags.from_frame(points, bag="bag", columns=columns, weights=self.weight)
        labels = pandas.read_csv(find("real", f"{self.name}.labels.csv"), dtype={"bag": str}).set_index("bag")
        labels = labels.loc[[str(own) for own in bags.ids]]
        table = {name: labels[name].to_numpy() for name in labels}
        groups = None if self.group is None else np.asarray(self.group(table | {"bag": labels.index.to_numpy()}))
        covariates = {name: table[name] for name in self.covariates} or None
        return Numbered(bags, table[self.target].astype(float), groups, covariates)


def split(found: Numbered, how: str, repeat: int, published: bool) -> Iterator[tuple[Array, Array]]:
    """Training and test bags of five folds, shuffled by the number of the repeat; or the published folds.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.0]] * 10)
    >>> found = Numbered(bags, np.arange(10.0), np.repeat(["a", "b", "c", "d", "e"], 2), None)
    >>> [test.tolist() for _, test in split(found, "by letter", 0, True)][:2]
    [[0, 1], [2, 3]]
    """
    if how == "random":
        yield from KFold(N_FOLDS, shuffle=True, random_state=repeat).split(found.y)
    elif published:
        for label in np.unique(np.asarray(found.groups)):
            yield np.flatnonzero(found.groups != label), np.flatnonzero(found.groups == label)
    else:
        yield from GroupKFold(N_FOLDS, shuffle=True, random_state=repeat).split(found.y, groups=found.groups)


def _month_first(columns: Mapping[str, Array]) -> Array:
    """Month and year of dates written as month/day/year."""
    return np.array(["/".join(np.take(day.split("/"), [0, 2])) for day in columns["bag"]])


def _year_month(columns: Mapping[str, Array]) -> Array:
    return np.array([day[:7] for day in columns["bag"]])


def _column(name: str) -> Callable[[Mapping[str, Array]], Array]:
    return lambda columns: np.array([str(value) for value in columns[name]])


SETS = (
    NumberSet("brexit_districts", "districts of England and their neighbourhoods", "Pct_Leave", "region",
              _column("Region")),
    NumberSet("vietnam_communes", "communes and their people", "log_expenditure_individuals"),
    NumberSet("flight_days", "days of an airport and their hours of weather", "log_delay", "date", _column("date"),
              covariates=("origin",)),
    NumberSet("bike_days", "days and their hours of weather", "rentals", "month", _month_first,
              covariates=("workingday", "season", "year")),
    NumberSet("beijing_days", "days and their hours of weather", "log_pm25", "month", _year_month),
    NumberSet("portal_rodents", "years of a plot and the animals caught", "n_species", "plot", _column("plot")),
    NumberSet("pisa_schools", "schools and their pupils", "math", "country", _column("country"), drop=("math",)),
    NumberSet("matbench_steels", "alloys and their elements", "target", "fold", _column("fold"),
              weight="weight fraction", folds=True),
    NumberSet("kidney_igan", "patients and their glomeruli", "Age"),
)  # fmt: skip
