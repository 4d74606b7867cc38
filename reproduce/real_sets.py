"""Real tables of bags: what people bring, in their own units, as bags and classes.

Files lie in the folder ``real`` of the data (docs/experiments.md tells where they come from); digits come with
scikit-learn.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from distembed.bags import Bags
from distembed.bags.anndata import labels_of
from distembed.compute.arrays import Array


class Labelled(NamedTuple):
    """Bags and their classes; ``train`` tells which bags the publishers trained on, or is None."""

    bags: Bags
    y: Array
    train: Array | None = None


@dataclass(frozen=True)
class RealSet:
    """A set of labelled bags.

    Attributes
    ----------
    name : str
    what : str
        What a bag and a point are.
    files : tuple of str
        In the folder ``real``; none for what comes with scikit-learn.
    read : callable
        Takes the paths of the files and returns :class:`Labelled`.
    balanced : bool
        Whether classifiers are told to weigh classes equally, as balanced accuracy does.
    published : bool
        Whether there is one published split into training and test bags, instead of folds.
    """

    name: str
    what: str
    files: tuple[str, ...]
    read: Callable[..., Labelled]
    balanced: bool = False
    published: bool = False


def with_indicators(bags: Bags) -> Bags:
    """Bags in which one indicator column per label stands for a categorical column; of two labels, for the second.

    Examples
    --------
    >>> bags = Bags([[31, 0], [64, 2]], [0, 2], categories={1: ["a", "b", "c"]})
    >>> with_indicators(bags).points.tolist()
    [[31.0, 1.0, 0.0, 0.0], [64.0, 0.0, 0.0, 1.0]]
    """
    if not bags.categories:
        return bags
    columns = []
    for j, column in enumerate(bags.points.T):
        labels = bags.categories.get(j)
        if labels is None or len(labels) == 2:
            columns.append(column)
        else:
            columns += [(column == code).astype(float) for code in range(len(labels))]
    return Bags(np.column_stack(columns), bags.offsets, weights=bags.weights, ids=bags.ids)


def _csv_columns(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return {name: list(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)}


def _aligned(bags: Bags, ids: list[str], values: list[str]) -> Array:
    """Values in the order of bags, found by the text of their ids."""
    found = dict(zip(ids, values, strict=True))
    return np.array([found[str(own)] for own in bags.ids])


def read_long(
    points: Path, labels: Path, *, label: str, categorical: tuple[str, ...] = (), part: str | None = None
) -> Labelled:
    """Bags of a Parquet file with a column ``bag``, and classes of a CSV file with one row per bag.

    Parameters
    ----------
    points, labels : Path
    label : str
        Column of the classes.
    categorical : tuple of str
        Columns of `points`.
    part : str, optional
        Column of `labels` that says "train" or something else.
    """
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(points)
    coordinates = [name for name in table.column_names if name != "bag"]
    bags = Bags.from_frame(table, bag="bag", columns=coordinates, categorical=categorical or None)
    columns = _csv_columns(labels)
    train = None if part is None else _aligned(bags, columns["bag"], columns[part]) == "train"
    return Labelled(bags, _aligned(bags, columns["bag"], columns[label]), train)


def read_cells(path: Path) -> Labelled:
    """Donors of a Parquet file with one row per cell: principal components, ``sample_id`` and ``phenotype``."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    components = [name for name in table.column_names if name.startswith("PC")]
    bags = Bags.from_frame(table, bag="sample_id", columns=components)
    ids, phenotypes = (list(map(str, table[name].to_pylist())) for name in ("sample_id", "phenotype"))
    return Labelled(bags, _aligned(bags, ids, phenotypes))


def read_anndata(path: Path, *, bag: str, label: str) -> Labelled:
    """Bags of an ``.h5ad`` file, and the class that all points of a bag have in common."""
    bags, y = in_file_order(path, bag, *Bags.from_anndata(path, bag=bag, label=label))
    return Labelled(bags, y.astype(str))


def in_file_order(path: Path, bag: str, bags: Bags, y: Array) -> tuple[Bags, Array]:
    """Bags of an ``.h5ad`` file in order of first appearance, that of the folds of all results that are stored."""
    place = {name: i for i, name in enumerate(bags.ids.tolist())}
    order = np.array([place[name] for name in labels_of(path, bag, bag)])
    return bags[order], y[order]


def read_fcs(folder: Path) -> Labelled:
    """Patients of a folder of FCS files, with classes and the published split in ``fcs_info.csv``.

    Channels are taken as they are: of the fluorescence the machine wrote the logarithm.
    """
    columns = _csv_columns(folder / "fcs_info.csv")
    bags = Bags.from_fcs(folder)
    names = columns["fcsName"]
    train = _aligned(bags, names, columns["dataset"]) == "train"
    return Labelled(bags, _aligned(bags, names, columns["Label"]), train)


def read_digits() -> Labelled:
    """Images of digits as points (x, y) in the unit square: pixels of 8 x 8 that have ink, weighted by it.

    Examples
    --------
    >>> bags, y, _ = read_digits()
    >>> bags.n_bags, bags.n_dims, y[:3].tolist()
    (1797, 2, ['0', '1', '2'])
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    y, x = np.divmod(np.arange(64), 8)
    place = (np.column_stack([x, y]) + 0.5) / 8
    ink = [np.flatnonzero(image) for image in found.data]
    offsets = np.cumsum([0, *map(len, ink)])
    weights = np.concatenate([image[where] for image, where in zip(found.data, ink, strict=True)])
    bags = Bags(place[np.concatenate(ink)], offsets, weights=weights, columns=("x", "y"))
    return Labelled(bags, found.target.astype(str))


def _long(name: str, what: str, *, balanced: bool = False, **options: Any) -> RealSet:
    files = (f"{name}.points.parquet", f"{name}.labels.csv")
    return RealSet(name, what, files, partial(read_long, **options), balanced, published="part" in options)


SETS = (
    _long("hsb82", "schools and their pupils", label="sector", categorical=("sx", "minrty")),
    _long("birds_brown_creeper", "recordings and segments of their spectrograms", label="label"),
    _long("musk1", "molecules and their conformations", label="label"),
    _long("corel_dogs", "images and their regions", label="label", balanced=True),
    RealSet(
        "kidney_igan", "patients and their glomeruli", ("kidney_igan.h5ad",),
        partial(read_anndata, bag="sampleID", label="status"), balanced=True,
    ),
    _long("japanese_vowels", "utterances and their frames", label="speaker", part="part"),
    RealSet("aml_fcs", "patients and their cells", ("aml_fcs",), read_fcs, published=True),
    RealSet("covid_pbmc", "donors and their blood cells", ("covid_pbmc.cells.parquet",), read_cells, balanced=True),
    RealSet("digits", "images and their pixels, weighted by ink", (), read_digits),
)  # fmt: skip
