r"""Columns that belong to bags and not to points, such as the age of a patient, as numbers.

A number x becomes (x - mean) / deviation, with the weighted mean and deviation of the bags in ``fit``. A label becomes
a column of 0 and 1 for each label that ``fit`` saw, and one for all others. What is missing is 0 in a column of
numbers, and has a column of 0 and 1 of its own where ``fit`` saw it.

The cost is O(n_bags) for each column of the result.
"""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.categories import factorise, plain_label, recode
from ..bags.flat import bag_name, few
from ..bags.frames import column_names
from ..bags.ids import column_keys, rows_by_id
from ..compute.arrays import Array
from ..compute.checks import InputError, closest_name
from ..compute.registry import storable
from ..scaling.standardize import mean_and_deviation

MOST_LABELS = 1000  # of one column, each of which becomes a column
_LABELLED = ("CategoricalDtype", "Categorical", "Enum", "DictionaryType")  # types of columns whose values are labels


class Column(NamedTuple):
    """A column of a table: its name, its values, which of them are missing, and what the others are."""

    name: str
    values: Array
    missing: Array  # of bool
    kind: str  # "number", "truth value", "text", "" if all are missing, or the name of a type that has no code
    labelled: bool  # whether the type of the column says that its values are labels

    @classmethod
    def read(cls, values: Any, name: str) -> Column:
        """Read a column of any table."""
        if isinstance(values, str | bytes) or getattr(values, "ndim", 1) != 1 or not hasattr(values, "__len__"):
            shape = getattr(values, "shape", None)
            raise ValueError(
                f"covariates: column {name!r} must hold one value per bag, got "
                f"{type(values).__name__ if shape is None else f'shape {shape}'}; give a list or a 1-D array"
            )
        dtype: Any = getattr(values, "dtype", getattr(values, "type", None))
        if np.ma.is_masked(values):
            values = np.where(values.mask, None, values.data)
        keys, rows = column_keys(values)
        missing = np.zeros(len(keys), bool)
        missing[rows] = True
        return cls(name, keys, missing, _kind(keys[~missing], name), type(dtype).__name__ in _LABELLED)

    @classmethod
    def join(cls, parts: list[Column]) -> Column:
        """Columns one below the other, of values of one kind."""
        values = [part.values for part in parts]
        if len({each.dtype.kind for each in values}) > 1:
            values = [each.astype(object) for each in values]
        made = np.concatenate(values)
        missing = np.concatenate([part.missing for part in parts])
        name = parts[0].name
        labelled = any(part.labelled for part in parts)
        return cls(name, made, missing, _kind(made[~missing], name), labelled)

    def numbers(self, ids: Any) -> Array:
        """The values as float64, NaN where they are missing; infinities are refused."""
        found = np.full(len(self.values), np.nan)
        found[~self.missing] = self.values[~self.missing].astype(np.float64)
        wrong = np.flatnonzero(np.isinf(found))
        if len(wrong):
            raise InputError(
                f"covariates: column {self.name!r} must be finite or missing, got {found[wrong[0]]} for "
                f"{bag_name(int(wrong[0]), ids)} ({len(wrong)} such values in all); write NaN for what is not known"
            )
        return found

    def codes(self, labels: tuple[Any, ...]) -> Array:
        """Positions of the values in labels, -1 for others and -2 for missing ones."""
        found = np.full(len(self.values), -2)
        codes, distinct = factorise(self.values[~self.missing], f"covariates: column {self.name!r}")
        found[~self.missing] = recode(codes, distinct, labels)
        return found


def _kind(values: Array, name: str) -> str:
    """What the values of a column are, all of the same kind."""
    if values.dtype.kind in "iuf":
        return "number"
    if values.dtype.kind in "bU":
        return "truth value" if values.dtype.kind == "b" else "text"
    kinds = {_kind_of(value) for value in values}
    if len(kinds) > 1:
        raise TypeError(
            f"covariates: column {name!r} must hold values of one kind, numbers or text, got "
            f"{' and '.join(sorted(kinds))}; convert them, with str if they are labels"
        )
    return kinds.pop() if kinds else ""


def _kind_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "truth value"
    if isinstance(value, Real | Decimal):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


class CovariateColumns(NamedTuple):
    """Columns by name, read and in the order of the bags, but not encoded yet.

    Examples
    --------
    >>> some = [CovariateColumns.read({"sex": each}, None) for each in (["f", "m"], ["m", None])]
    >>> CovariateColumns.join(some)[np.array([1, 2])].columns["sex"].values.tolist()
    ['m', 'm']
    """

    columns: dict[str, Column]

    @classmethod
    def read(cls, frame: Any, ids: Any, n_bags: int | None = None) -> CovariateColumns:
        """Read a table, see :func:`read_table`."""
        return cls(read_table(frame, ids, n_bags))

    def __getitem__(self, some: Any) -> CovariateColumns:  # type: ignore[override]
        taken = ((name, each._replace(values=each.values[some], missing=each.missing[some]))
                 for name, each in self.columns.items())  # fmt: skip
        return CovariateColumns(dict(taken))

    @classmethod
    def join(cls, tables: Any) -> CovariateColumns:
        """Tables one below the other, of the same columns."""
        first, *others = tables
        for other in others:
            if set(other.columns) != set(first.columns):
                raise ValueError(
                    f"covariates: all batches must have the same columns, got {few(list(other.columns))} after "
                    f"{few(list(first.columns))}; give every batch all of them"
                )
        return cls({name: Column.join([each.columns[name] for each in tables]) for name in first.columns})


@storable
class NumberColumn(NamedTuple):
    """How a column of numbers is encoded: (x - mean) / deviation, 0 where x is missing or fit saw one value alone.

    Attributes
    ----------
    name : str
        Of the column.
    mean, deviation : float
        Weighted, of the values that are not missing; the deviation of a constant column is 0.
    some_missing : bool
        Whether there is a second column, which is 1 where x is missing.
    """

    name: str
    mean: float
    deviation: float
    some_missing: bool

    @classmethod
    def of(cls, column: Column, weight: Array, ids: Any) -> NumberColumn:
        """Look at the values of a column."""
        there = ~column.missing & (weight > 0)
        mean = np.zeros(1)
        deviation = np.zeros(1)
        if there.any():
            mean, deviation = mean_and_deviation(column.numbers(ids)[there, None], weight[there])
        return cls(column.name, float(mean[0]), float(deviation[0]), bool(column.missing.any()))

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        return [self.name, *([f"{self.name}=missing"] if self.some_missing else [])]

    def encode(self, column: Column, ids: Any) -> Array:
        """Encoded columns, ndarray of shape (n_bags, 1 or 2)."""
        if column.kind not in ("number", "truth value", ""):
            raise TypeError(
                f"covariates: column {self.name!r} had numbers in fit, got {column.kind}; give numbers, or fit again"
            )
        found = np.nan_to_num(column.numbers(ids) - self.mean) / (self.deviation or np.inf)
        return np.column_stack([found, column.missing] if self.some_missing else [found])


@storable(labels="list[text | bool | number]")
class LabelColumn(NamedTuple):
    """How a column of labels is encoded: 0 and 1 for each label, for all others, and for missing ones.

    Attributes
    ----------
    name : str
        Of the column.
    labels : tuple of str, bool or number
        Those that ``fit`` saw, sorted.
    some_missing : bool
        Whether there is a column for missing labels. Without it they are among the others.
    """

    name: str
    labels: tuple[Any, ...]
    some_missing: bool

    @classmethod
    def of(cls, column: Column) -> LabelColumn:
        """Look at the labels of a column."""
        where = f"covariates: column {column.name!r}"
        _, distinct = factorise(column.values[~column.missing], where)
        if len(distinct) > MOST_LABELS:
            raise ValueError(
                f"{where} must have at most {MOST_LABELS:,} labels, got {len(distinct):,}, such as "
                f"{few(distinct[:2])}; leave it out if it names bags, or join rare labels"
            )
        return cls(column.name, tuple(plain_label(each, where) for each in distinct), bool(column.missing.any()))

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        return [f"{self.name}={each}" for each in (*self.labels, "other", *(["missing"] if self.some_missing else []))]

    def encode(self, column: Column, ids: Any) -> Array:
        """Encoded columns, ndarray of shape (n_bags, n_labels + 1 or 2)."""
        are_text = any(isinstance(label, str) for label in self.labels)
        if column.kind and self.labels and are_text != (column.kind == "text"):
            raise TypeError(
                f"covariates: column {self.name!r} had {'text' if are_text else 'no text'} in fit, such as "
                f"{self.labels[0]!r}, got {column.kind}; give labels as in fit, or fit again"
            )
        codes = column.codes(self.labels)
        n = len(self.labels)
        codes[codes == -1] = n
        codes[codes == -2] = n + self.some_missing
        return np.asarray(codes[:, None] == np.arange(n + 1 + self.some_missing), np.float64)


@storable(columns_="list[NumberColumn | LabelColumn]", names_="list[text]")
class CovariateEncoder(BaseEstimator):
    """Tables with one row per bag as matrices: numbers standardised, labels as columns of 0 and 1.

    Attributes
    ----------
    columns_ : tuple of NumberColumn or LabelColumn
        How each column of the table is encoded.
    names_ : list of str
        Names of the encoded columns, such as ``"age"``, ``"age=missing"``, ``"sex=f"``, ``"sex=other"``.

    Notes
    -----
    *Tables* are pandas or polars data frames, pyarrow tables, dictionaries of columns, structured arrays, or arrays of
    shape (n_bags, n_columns), whose columns are called x0, x1, ... Rows are in the order of the bags, but for data
    frames of pandas whose index is the ids of the bags: these are put in the order of the bags.

    *Numbers* become (x - mean) / deviation, missing ones 0. Where some are missing in ``fit``, an indicator column
    marks them. A column that is constant in ``fit`` is 0, whatever comes later.

    *Labels* are text, truth values, and whatever a categorical column holds. There is a column for each label in
    ``fit``, at most 1,000, one for others, and one for missing labels where ``fit`` had some.

    *Dates* are refused: whether a year, a month or an age matters is for the user to say.

    Examples
    --------
    >>> encoder = CovariateEncoder().fit({"age": [50, 70, None], "sex": ["f", "m", "f"]}, None)
    >>> encoder.names_
    ['age', 'age=missing', 'sex=f', 'sex=m', 'sex=other']
    >>> encoder.transform({"age": [80, None], "sex": ["m", "x"]}, None)
    array([[2., 0., 0., 1., 0.],
           [0., 1., 0., 0., 1.]])
    """

    def fit(self, frame: Any, ids: Any, weight: Any = None, *, n_bags: int | None = None) -> Self:
        """Look at the columns: means, deviations, labels, and where values are missing.

        Parameters
        ----------
        frame : table
            One row per bag, at least one column.
        ids : array-like of shape (n_bags,) or None
            Ids of the bags, None if they have none.
        weight : array-like of shape (n_bags,), optional
            Weights of bags in means and deviations.
        n_bags : int, optional
            Number of bags, if neither ids nor weights say it.

        Returns
        -------
        self
        """
        weight = None if weight is None else np.asarray(weight, np.float64)
        columns = read_table(frame, ids, n_bags if weight is None else len(weight))
        if weight is None:
            weight = np.ones(len(next(iter(columns.values())).values))
        self.columns_ = tuple(_choose_encoding(column, weight, ids) for column in columns.values())
        self.names_ = [name for column in self.columns_ for name in column.names]
        return self

    def transform(self, frame: Any, ids: Any, *, n_bags: int | None = None) -> Array:
        """Encode a table with the columns of ``fit``, in any order.

        Parameters
        ----------
        frame : table
            One row per bag.
        ids : array-like of shape (n_bags,) or None
            Ids of the bags, None if they have none.
        n_bags : int, optional
            Number of bags, if they have no ids.

        Returns
        -------
        ndarray of shape (n_bags, n_columns)
            In float64, finite; ``names_`` has the columns.
        """
        check_is_fitted(self, "columns_")
        columns = read_table(frame, ids, n_bags)
        known = [each.name for each in self.columns_]
        lacks = [name for name in known if name not in columns]
        strange = [name for name in columns if name not in known]
        if lacks or strange:
            close = closest_name(lacks[0], strange) if lacks else None
            hint = f" (is {close!r} meant for {lacks[0]!r}?)" if close else ""
            wrong = f"lacks {few(lacks)}{hint}; add it" if lacks else f"has {few(strange)} besides; leave it out"
            raise InputError(f"covariates: columns must be those of fit, {few(known)}; the table {wrong}")
        return np.hstack([each.encode(columns[each.name], ids) for each in self.columns_])


def _choose_encoding(column: Column, weight: Array, ids: Any) -> NumberColumn | LabelColumn:
    """How a column is to be encoded."""
    if column.kind not in ("number", "truth value", "text", ""):
        raise TypeError(
            f"covariates: column {column.name!r} must hold numbers, text or truth values, got {column.kind}; make a "
            "number of it, such as an age in years, or text, or leave it out"
        )
    if column.labelled or column.kind in ("truth value", "text"):
        return LabelColumn.of(column)
    return NumberColumn.of(column, weight, ids)


def given_ids(bags: Bags) -> Array | None:
    """Ids of bags, None if they have none: then positions are not ids, and an index is ignored."""
    return bags.ids if bags.has_ids else None


def read_table(frame: Any, ids: Any, n_bags: int | None = None) -> dict[str, Column]:
    """Columns of a table by name, rows in the order of the bags.

    Parameters
    ----------
    frame : table
        See :class:`CovariateEncoder`.
    ids : array-like of shape (n_bags,) or None
        Ids of the bags, by which the rows of a data frame of pandas are ordered if its index holds just these. An index
        0, 1, ... stands for the order of the bags; any other is an error.
    n_bags : int, optional
        Number of bags, if they have no ids.

    Returns
    -------
    dict of str to Column

    Examples
    --------
    >>> read_table(np.array([[1.0, 2.0], [3.0, 4.0]]), None)["x1"].values
    array([2., 4.])
    """
    if isinstance(frame, CovariateColumns):
        return frame.columns
    table, names = _columns_by_name(frame)
    texts = [str(name) for name in names]
    if not texts:
        raise ValueError("covariates: must have at least one column, got none; leave covariates out")
    twice = [name for name in texts if texts.count(name) > 1]
    if twice:
        raise ValueError(f"covariates: names of columns must differ, got {few(twice)}; rename them")
    columns = {text: Column.read(table[name], text) for text, name in zip(texts, names, strict=True)}
    order = None if ids is None else rows_by_id(frame, ids, "covariates", "to_dict('list')")
    n_bags = n_bags if ids is None else len(ids)
    for name, column in columns.items():
        n_rows = len(column.values)
        wanted = len(columns[texts[0]].values) if n_bags is None else n_bags
        if n_rows != wanted:
            raise ValueError(
                f"covariates: must have one row per bag, got {n_rows} in column {name!r} for {wanted} bags; take the "
                "rows of these bags"
            )
        if not n_rows:
            raise ValueError("covariates: must have one row per bag, got no rows; leave covariates out")
        if order is not None:
            columns[name] = column._replace(values=column.values[order], missing=column.missing[order])
    return columns


def _columns_by_name(frame: Any) -> tuple[Any, list[Any]]:
    """A table whose columns are ``table[name]``, and their names."""
    if hasattr(frame, "toarray"):
        raise TypeError(f"covariates: must be a table, got a sparse {type(frame).__name__}; use .toarray()")
    if isinstance(frame, list):
        frame = np.array(frame, dtype=object)
    if isinstance(frame, np.ndarray) and frame.dtype.names is None:
        if frame.ndim != 2:
            raise ValueError(
                f"covariates: an array must have the shape (n_bags, n_columns), got {frame.shape}; for one column use "
                "covariates[:, None]"
            )
        frame = {f"x{j}": frame[:, j] for j in range(frame.shape[1])}
    elif isinstance(frame, np.ndarray):
        frame = {name: frame[name] for name in frame.dtype.names or ()}
    elif hasattr(frame, "to_frame") and not hasattr(frame, "columns"):
        frame = frame.to_frame()  # a series of pandas or polars
    return frame, column_names(frame, "covariates")
