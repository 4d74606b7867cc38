"""Labels by bag id: read from a table, and joined to bags."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bags import Bags
from ..bags.checks import canonical_ids, repeated
from ..bags.flat import few
from ..compute.checks import Argument, Message, check_choice
from .files import TableError, check_delimiter, format_of, pa
from .plan import BAG_TYPES, Plan, id_values, make_plan
from .points import read_labelled

_KINDS = {"i": "whole numbers", "u": "whole numbers", "f": "numbers", "U": "text", "b": "booleans", "M": "dates"}
_MISSING = {"na", "nan", "n/a", "#n/a", "null", "none"}


class LabelTable(Mapping[Any, Any]):
    """Labels by bag id: a mapping, and two arrays in the order of the table.

    Attributes
    ----------
    ids, labels : ndarray of shape (n_labels,)
        The ids, all different, and their labels.

    Examples
    --------
    >>> from distembed.tables import LabelTable
    >>> table = LabelTable(["a", "b"], [0.5, 1.5])
    >>> float(table["b"]), len(table), list(table)
    (1.5, 2, ['a', 'b'])
    """

    def __init__(self, ids: ArrayLike, labels: ArrayLike) -> None:
        self.ids, self.labels = canonical_ids(ids), np.asarray(labels)
        if self.labels.shape != self.ids.shape:
            raise ValueError(
                f"labels must be 1-D, one an id: shape {self.ids.shape}, got {self.labels.shape}; give one label an id"
            )
        twice = repeated(self.ids)
        if twice:
            raise TableError(
                _counted(len(twice), "id has", "ids have") + f" more than one label: {few(twice)}; keep one"
            )
        self._rows = {key: row for row, key in enumerate(_keys(self.ids))}

    def __getitem__(self, bag: Any) -> Any:
        return self.labels[self._rows[_keys(canonical_ids([bag]))[0]]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids.tolist())

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        ends = f"{few(self.ids[:1])}..{few(self.ids[-1:])}"
        return f"LabelTable({len(self)} labels of dtype {self.labels.dtype}, ids={ends})"


def _keys(ids: NDArray[Any]) -> list[Any]:
    """Return ids as objects that hash by value: dates by the nanosecond, whatever their unit."""
    return list((ids.astype("M8[ns]") if ids.dtype.kind == "M" else ids).tolist())


def _counted(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def read_labels(
    source: Any, *, bag: str, label: str, bag_type: str = "auto", delimiter: str | None = None
) -> LabelTable:
    """Return the labels in a table of one row a bag.

    Parameters
    ----------
    source, bag, bag_type, delimiter
        As in :class:`BagTable`.
    label : str
        The column of labels: numbers, booleans or text. In CSV, labels are whole numbers if all are, else numbers if
        all are, else text.

    Returns
    -------
    LabelTable
        A missing label, or an id with two, is an error that names it.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import read_labels, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"cluster": ["a", "b"], "mass": [14.1, 14.8]}, f"{folder}/labels.csv")
    ...     read_labels(f"{folder}/labels.csv", bag="cluster", label="mass").labels
    array([14.1, 14.8])
    """
    check_delimiter("read_labels", delimiter)
    check_choice("read_labels", "bag_type", bag_type, BAG_TYPES)
    plan = make_plan(source, bag, None, None, delimiter, bag_type, label=label)
    ids, labels = read_labelled(plan)
    if labels.type == pa.string() and format_of(plan.files[0]) == "CSV":
        labels = _guessed(labels, plan)
    text = pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type)
    values = np.array(labels.to_pylist(), dtype=str) if text else np.asarray(labels)
    try:
        return LabelTable(id_values(ids, plan.ids), values)
    except TableError as error:
        raise TableError(f"{plan}, column {bag!r}: {error}") from None


def _guessed(labels: Any, plan: Plan) -> Any:
    """Return the labels of a CSV file as the simplest type that all of them fit."""
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        with suppress(pa.ArrowInvalid):
            return labels.cast(kind)
    words = labels.to_pylist()
    gaps = {word: None for word in words if word.strip().lower() in _MISSING}
    with suppress(pa.ArrowInvalid):  # else they are text, in which NA is a word like others
        pa.array([word for word in words if word not in gaps], pa.string()).cast(pa.float64())
        raise TableError(
            f"{plan}, column {plan.columns[0]!r}: every bag must have a label, got {next(iter(gaps))!r} among numbers; "
            "drop those rows"
        )
    return labels


class Joined(NamedTuple):
    """What `join` found: positions of the ids that have labels, these labels, and the ids left over on either side.

    Examples
    --------
    >>> from distembed.tables import join
    >>> join(["a"], {"a": 1}).labels
    array([1])
    """

    kept: NDArray[np.int64]
    labels: NDArray[Any]
    missing: NDArray[Any]
    unknown: NDArray[Any]


def join(ids: Any, labels: Mapping[Any, Any], *, missing: str = "error", unknown: str = "warn") -> Joined:
    """Return the labels of bags, by id.

    Parameters
    ----------
    ids : Bags, or array-like of ids
        The bags, for instance of one batch.
    labels : LabelTable or mapping of id to label
        From `read_labels`.
    missing : {"error", "drop"}
        What becomes of a bag without a label.
    unknown : {"warn", "error", "ignore"}
        What becomes of a label without a bag: an id without points. Batches by batches, ignore them.

    Returns
    -------
    Joined
        ``bags[joined.kept]`` has the labels ``joined.labels``, in the order of `ids`; ``joined.missing`` and
        ``joined.unknown`` are the ids without partner.

    Notes
    -----
    Ids are compared by value. Whole numbers stay whole numbers, and 7 equals 7.0; dates equal dates of another unit.
    The text ``"7"`` is no number: if one side is text and the other is not, that is an error.

    Examples
    --------
    >>> from distembed.tables import LabelTable, join
    >>> joined = join([1, 2, 3], LabelTable([3, 1], [30, 10]), missing="drop")
    >>> joined.kept, joined.labels, joined.missing
    (array([0, 2]), array([10, 30]), array([2]))
    """
    check_choice("join", "missing", missing, ("error", "drop"))
    check_choice("join", "unknown", unknown, ("warn", "error", "ignore"))
    bags = canonical_ids(ids.ids if isinstance(ids, Bags) else ids)
    table = labels if isinstance(labels, LabelTable) else LabelTable(list(labels), list(labels.values()))
    one, two = (_KINDS.get(side.dtype.kind) for side in (bags, table.ids))
    numbers = {"whole numbers", "numbers"}
    if len(bags) and len(table) and one and two and one != two and not {one, two} <= numbers:
        raise TableError(
            Message(
                f"ids are {one} in the bags ({few(bags[:1])}) and {two} in the labels ({few(table.ids[:1])}); make "
                "them one type, for example by ", Argument("bag_type", "text"), " in both readers",
            )
        )  # fmt: skip
    found = np.array([table._rows.get(key, -1) for key in _keys(bags)], dtype=np.int64)
    kept = np.flatnonzero(found >= 0)
    lost, seen = bags[found < 0], np.zeros(len(table), bool)
    seen[found[kept]] = True
    spare = table.ids[~seen]
    if len(lost) and (missing == "error" or not len(kept)):
        said = _counted(len(lost), "bag has", "bags have") + f" no label: {few(lost)}; "
        remedy = "add labels" if missing == "drop" else Message("add them, or pass ", Argument("missing", "drop"))
        raise TableError(Message(said, remedy))
    if len(spare) and unknown != "ignore":
        said = _counted(len(spare), "label has", "labels have") + f" no bag: {few(spare)}; check the ids, or pass "
        text = Message(said, Argument("unknown", "ignore"))
        if unknown == "error":
            raise TableError(text)
        warnings.warn(text, UserWarning, stacklevel=2)
    return Joined(kept, table.labels[found[kept]], lost, spare)
