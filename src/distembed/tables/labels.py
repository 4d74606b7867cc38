"""Labels and covariates by bag id: read from a table, and joined to bags."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bags import Bags
from ..bags.coordinates import MISSING_WORDS, are_mostly_numbers, is_number_word
from ..bags.flat import few
from ..bags.ids import IdIndex, as_ids, canonical_text, near_match, plain_ids, repeated, two_spellings
from ..bags.labels import rows_of_values
from ..compute.checks import Argument, Message, check_choice
from .arrow import compute, pa
from .formats import Reading, check_reading
from .paths import TableError
from .plan import BAG_TYPES, Plan, id_values, make_plan
from .points import distinct_rows, read_labelled

_PLAIN = Reading()
_FEW = 10_000  # labels that are looked at for ids that look alike, in each batch
_DIGITS = r"^-?[0-9]{1,100}(\.[0-9]{1,100})?$"  # numbers that cannot be anything else
_LEADING_ZERO = r"^\s*[+-]?0[0-9]{1,100}(\.[0-9]{0,100})?\s*$"
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
        self.ids = as_ids(ids)
        self.labels = np.asarray(labels)
        if self.labels.shape != self.ids.shape:
            raise ValueError(
                f"labels must be 1-D, one per id, shape {self.ids.shape}, got {self.labels.shape}; give one per id"
            )
        twice = repeated(self.ids)
        if twice:
            said = _count(len(set(canonical_text(twice))), "id has", "ids have")
            raise TableError(f"{said} more than one label: {few(twice)}{two_spellings(twice)}; keep one")

    @cached_property
    def index(self) -> IdIndex:
        """Rows of ids."""
        return IdIndex(self.ids)

    def __getitem__(self, bag: Any) -> Any:
        row = int(self.index.rows_of([bag])[0])
        if row < 0:
            raise KeyError(bag)
        return self.labels[row]

    def __iter__(self) -> Iterator[Any]:
        return iter(plain_ids(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        ends = f"{few(self.ids[:1])}..{few(self.ids[-1:])}"
        return f"LabelTable({len(self)} labels of dtype {self.labels.dtype}, ids={ends})"


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def read_labels(
    source: Any,
    *,
    bag: str | Sequence[str],
    label: str,
    bag_type: str = "auto",
    delimiter: str | None = None,
    classes: bool | None = None,
    decimal: str = ".",
    missing: str = "error",
) -> LabelTable:
    """Return the labels in a table of one row per bag, or per point.

    Parameters
    ----------
    source, bag, bag_type, delimiter, decimal
        As in :class:`BagTable`.
    label : str
        The column of labels: numbers, booleans or text. In CSV, labels are whole numbers if all are, else numbers if
        all are, else text; spaces around numbers do not count.
    classes : bool, optional
        Whether labels are names of classes. If it is True, numbers with leading zeros in CSV make all labels text, so 1
        and 01 are two classes. Unless it is True, text with mostly numbers is an error that names the
        others.
    missing : {"error", "drop"}
        How to handle rows without a label; in CSV, NA, NULL and similar text are missing labels.

    Returns
    -------
    LabelTable
        In order of first appearance. A bag with two labels, or with a label in some of its rows alone, is an error
        that names it.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import read_labels, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"cluster": ["a", "b"], "mass": [14.1, 14.8]}, f"{folder}/labels.csv")
    ...     read_labels(f"{folder}/labels.csv", bag="cluster", label="mass").labels
    array([14.1, 14.8])
    """
    how = check_reading("read_labels", delimiter, decimal)
    check_choice("read_labels", "bag_type", bag_type, BAG_TYPES)
    check_choice("read_labels", "missing", missing, ("error", "drop"))
    plan = make_plan(source, bag, [label], None, how, bag_type, of_bags="label")
    plan = replace(plan, gaps="drop" if missing == "drop" else "")
    ids, labels = read_labelled(plan)
    known = np.flatnonzero(labels.is_valid())
    labels = labels.drop_null()
    if labels.type == pa.string() and not plan.format.typed:
        kept, labels = _guess_type(pa.array(known), labels, plan, bool(classes))
        known = np.asarray(kept)
    text = pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type)
    values = np.array(labels.to_pylist(), dtype=str) if text else np.asarray(labels)
    keys, values = _merge(id_values(ids, plan.ids), known, values, f"{plan}, column {label!r}")
    if not classes:
        refuse_strays(keys, values, f"{plan}, column {label!r}")
    try:
        return LabelTable(keys, values)
    except TableError as error:
        raise TableError(f"{plan}, column {plan.bag!r}: {error}") from None


def _merge(
    keys: NDArray[Any], known: NDArray[Any], values: NDArray[Any], begin: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ids that have values, and these, from the ids of all rows, the rows with values, and the values."""
    every = np.empty(len(keys), values.dtype)
    every[known] = values
    missing = np.setdiff1d(np.arange(len(keys)), known, assume_unique=True)
    remedy = "name another column, or correct those rows"
    try:
        ids, rows = rows_of_values(keys, every, missing, begin, remedy)
    except ValueError as error:
        raise TableError(*error.args) from None
    return ids[rows >= 0], every[rows[rows >= 0]]


def _guess_type(rows: Any, labels: Any, plan: Plan, classes: bool) -> tuple[Any, Any]:
    """Return rows, and the labels of a CSV file as the simplest type that all of them fit.

    Names of classes with leading zeros are text: 1 and 01 may be two of them.
    """
    if classes and compute.any(compute.match_substring_regex(labels, _LEADING_ZERO)).as_py():
        return rows, compute.utf8_trim_whitespace(labels)
    if plan.how.decimal == "." and compute.all(compute.match_substring_regex(labels, _DIGITS)).as_py():  # most tables
        with suppress(pa.ArrowInvalid):
            return rows, labels.cast(pa.int64())
        return rows, labels.cast(pa.float64())
    words = [plan.how.plain(word.strip()) for word in labels.to_pylist()]
    there = np.array([word.lower() not in _MISSING for word in words])
    if there.any() and all(is_number_word(word) for word, known in zip(words, there, strict=True) if known):
        gaps = [word for word, known in zip(words, there, strict=True) if not known]
        if gaps and not plan.gaps:  # else they are text, in which None is a word like others
            said = f"{plan}, column {plan.columns[0]!r}: every bag must have a label, got {gaps[0]!r} among numbers; "
            raise TableError(Message(said, "drop those rows, or pass ", Argument("missing", "drop")))
        rows = rows.filter(pa.array(there))
        words = [word for word, known in zip(words, there, strict=True) if known]
        with suppress(pa.ArrowInvalid):
            return rows, pa.array(words).cast(pa.int64())
        return rows, pa.array([float(word) for word in words])
    with suppress(pa.ArrowInvalid):
        return rows, pa.array(words).cast(pa.bool_())
    return rows, labels


def refuse_strays(ids: NDArray[Any], labels: NDArray[Any], where: str) -> None:
    """Raise if most labels are numbers, as text, and some are not: each number would be a class.

    Numbers with signs, such as ``<30``, may be classes if most of them come again.
    """
    if labels.dtype.kind not in "UO":
        return
    words = [str(label) for label in labels]
    plain = 2 * sum(map(is_number_word, words)) > len(words)
    if not (plain or (are_mostly_numbers(words) and 2 * len(set(words)) > len(words))):
        return
    strays = [i for i, word in enumerate(words) if not is_number_word(word)]
    if strays:
        found = few(dict.fromkeys(words[i] for i in strays))
        said = f"{where}: most labels are numbers, and {_count(len(strays), 'is', 'are')} not: {found}, of the bags "
        remedy = "; correct them, drop those rows, or, if labels are names of classes, pass "
        raise TableError(Message(said, few(ids[strays]), remedy, Argument("classes", True)))


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
        How to handle a bag without a label.
    unknown : {"warn", "error", "ignore"}
        How to handle a label without a bag: an id without points. Batches by batches, ignore them.

    Returns
    -------
    Joined
        ``bags[joined.kept]`` has the labels ``joined.labels``, in the order of `ids`; ``joined.missing`` and
        ``joined.unknown`` are the ids without partner.

    Notes
    -----
    Ids are compared by their canonical form: 7, 7.0 and ``"7"`` are one id, and so are a date, its text and its
    Timestamp. Where bags lack labels and some ids differ in form alone, such as ``"001"`` and 1, the error, or with
    ``missing="drop"`` a warning, shows two of them.

    Examples
    --------
    >>> from distembed.tables import LabelTable, join
    >>> joined = join([1, 2, 3], LabelTable([3, 1], [30, 10]), missing="drop")
    >>> joined.kept, joined.labels, joined.missing
    (array([0, 2]), array([10, 30]), array([2]))
    """
    check_choice("join", "missing", missing, ("error", "drop"))
    check_choice("join", "unknown", unknown, ("warn", "error", "ignore"))
    bags = as_ids(ids.ids if isinstance(ids, Bags) else ids)
    table = labels if isinstance(labels, LabelTable) else LabelTable(list(labels), list(labels.values()))
    found = table.index.rows_of(bags)
    kept = np.flatnonzero(found >= 0)
    lost = bags[found < 0]
    spare = table.ids[table.index.unused(found)]
    if len(lost) and (missing == "error" or not len(kept)):
        alike = _alike(lost, spare, "labels")
        if not alike and not len(kept) and len(spare):
            alike = f" (labels are of ids such as {few(spare[:1])})"
        said = _count(len(lost), "bag has", "bags have") + f" no label: {few(lost)}{alike}; "
        remedy = "add labels" if missing == "drop" else Message("add them, or pass ", Argument("missing", "drop"))
        raise TableError(Message(said, remedy))
    alike = _alike(lost, spare[:_FEW], "labels")
    if alike:
        said = _count(len(lost), "bag without a label is", "bags without a label are")
        warnings.warn(f"{said} left out: {few(lost)}{alike}", UserWarning, stacklevel=2)
    if len(spare) and unknown != "ignore":
        said = _count(len(spare), "label has", "labels have") + f" no bag: {few(spare)}; check the ids, or pass "
        text = Message(said, Argument("unknown", "ignore"))
        if unknown == "error":
            raise TableError(text)
        warnings.warn(text, UserWarning, stacklevel=2)
    return Joined(kept, table.labels[found[kept]], lost, spare)


def _alike(lost: NDArray[Any], spare: NDArray[Any], where: str) -> str:
    """A word on ids without partner that differ in form alone."""
    near = near_match(lost, spare) if len(lost) and len(spare) else None
    return "" if near is None else f" ({near.text('bags', where)}: {near.remedy})"


# --------------------------------------------------------------------------------------------------------------
# Covariates
# --------------------------------------------------------------------------------------------------------------


class CovariateTable:
    """Columns that belong to bags, by bag id.

    Parameters
    ----------
    ids : array-like of shape (n_bags,)
        All different.
    columns : dict of str to ndarray of shape (n_bags,)
        Numbers, NaN where they are missing, or text, None where it is missing.

    Attributes
    ----------
    kinds : dict of str to str
        "number" or "text", by name.

    Examples
    --------
    >>> table = CovariateTable(["a", "b"], {"age": np.array([50.0, np.nan]), "sex": np.array(["f", None], object)})
    >>> table.kinds, table.of(["b", "a"])["age"]
    ({'age': 'number', 'sex': 'text'}, array([nan, 50.]))
    """

    def __init__(self, ids: ArrayLike, columns: Mapping[str, NDArray[Any]]) -> None:
        self._rows = LabelTable(ids, np.arange(len(np.asarray(ids))))
        self._columns = dict(columns)
        self.kinds = {name: "text" if values.dtype == object else "number" for name, values in columns.items()}

    def of(self, ids: ArrayLike) -> dict[str, NDArray[Any]]:
        """Return the columns for bags, in their order; a bag without a row is an error."""
        bags = as_ids(ids)
        rows = self._rows.index.rows_of(bags)
        if (rows < 0).any():
            lost = bags[rows < 0]
            said = _count(len(lost), "bag has", "bags have")
            alike = _alike(lost, self._rows.ids[self._rows.index.unused(rows)], "covariates")
            raise TableError(
                f"{said} no covariates: {few(lost)}{alike}; add rows for them, empty where nothing is known"
            )
        return {name: values[rows] for name, values in self._columns.items()}


def read_covariates(
    source: Any,
    *,
    bag: str | Sequence[str],
    covariates: Sequence[str],
    bag_type: str = "auto",
    delimiter: str | None = None,
    kinds: Mapping[str, str] | None = None,
    decimal: str = ".",
) -> CovariateTable:
    """Return columns that have one value per bag, from a table of one row per bag, or per point.

    Parameters
    ----------
    source, bag, bag_type, delimiter, decimal
        As in :class:`BagTable`.
    covariates : sequence of str
        The columns: numbers, text or truth values, which become text. Values may be missing; in CSV, NA, NULL and
        similar text are missing.
    kinds : mapping of str to str, optional
        Whether columns hold "number" or "text", by name. By default by type, and in CSV by the values.

    Returns
    -------
    CovariateTable
        A value that varies within a bag is an error.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"patient": ["a", "a", "b"], "age": [50, 50, 70], "cell": [1, 2, 3]}, f"{folder}/t.csv")
    ...     read_covariates(f"{folder}/t.csv", bag="patient", covariates=["age"]).of(["b", "a"])
    {'age': array([70., 50.])}
    """
    how = check_reading("read_covariates", delimiter, decimal)
    plan = make_plan(source, bag, covariates, None, how, bag_type, of_bags="covariates")
    rows = distinct_rows(plan)
    rows = rows.take(compute.sort_indices(rows.column(0)))
    ids = id_values(rows.column(0).combine_chunks(), plan.ids)
    columns = {name: rows.column(1 + j).combine_chunks() for j, name in enumerate(plan.columns)}
    again = np.flatnonzero(ids[1:] == ids[:-1])
    for name, values in columns.items() if again.size else ():
        pairs = ((i, values[int(i)].as_py(), values[int(i) + 1].as_py()) for i in again)
        varying = [(ids[i], one, two) for i, one, two in pairs if one != two]
        if varying:
            key, *both = varying[0]
            more = "" if len(varying) == 1 else f", and in {len({each[0] for each in varying}) - 1:,} more bags"
            got = " and ".join("none" if value is None else repr(value) for value in both)
            raise TableError(
                f"{plan}: covariate {name!r} must have one value per bag, got {got} in bag {few([key])}{more}; name "
                "another column, or correct those rows"
            )
    kinds = kinds or {}
    read = {
        name: covariate_values(each, f"{plan}: covariate {name!r}", kinds.get(name), how)
        for name, each in columns.items()
    }
    return CovariateTable(ids, read)


def covariate_values(values: Any, where: str, kind: str | None, how: Reading = _PLAIN) -> NDArray[Any]:
    """Return an arrow array as numbers with NaN, or as text with None; `kind` says which, or what it holds."""
    types = pa.types
    if types.is_string(values.type) or types.is_large_string(values.type) or types.is_null(values.type):
        texts = [None if word is None or word.strip() in MISSING_WORDS else word for word in values.to_pylist()]
        if kind != "text":
            with suppress(pa.ArrowInvalid):
                plain = [None if word is None else how.plain(word) for word in texts]
                return _floats(pa.array(plain, pa.string()).cast(pa.float64()))
        if kind == "number":
            wrong = next(word for word in texts if word is not None and not is_number_word(how.plain(word)))
            raise TableError(f"{where} must hold numbers, as when the model was fitted, got {wrong!r}; correct it")
        return np.array(texts, dtype=object)
    if types.is_boolean(values.type):
        return np.array([None if each is None else str(each).lower() for each in values.to_pylist()], dtype=object)
    if kind == "text":
        return np.array([None if each is None else str(each) for each in values.to_pylist()], dtype=object)
    return _floats(values.cast(pa.float64()))


def _floats(values: Any) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
