"""Columns of bags as numbers: what each kind of column becomes, from any table, and what is refused."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import distembed as de
from distembed.learners.covariates import MOST_LABELS, CovariateEncoder

AGE = [50, 70, None, 60]
SEX = ["f", "m", "f", None]
SMOKES = [True, False, True, True]
TABLE = {"age": AGE, "sex": SEX, "smokes": SMOKES}
NAMES = [
    "age",
    "age=missing",
    "sex=f",
    "sex=m",
    "sex=other",
    "sex=missing",
    "smokes=False",
    "smokes=True",
    "smokes=other",
]
DEVIATION = np.std([50, 70, 60])
ENCODED = np.array([
    [-10 / DEVIATION, 0, 1, 0, 0, 0, 0, 1, 0],
    [10 / DEVIATION, 0, 0, 1, 0, 0, 1, 0, 0],
    [0, 1, 1, 0, 0, 0, 0, 1, 0],
    [0, 0, 0, 0, 0, 1, 0, 1, 0],
])  # fmt: skip


def structured():
    rows = list(zip([50.0, 70.0, np.nan, 60.0], SEX, SMOKES, strict=True))
    return np.array(rows, dtype=[("age", float), ("sex", object), ("smokes", bool)])


TABLES = {
    "pandas": pd.DataFrame(TABLE),
    "pandas nullable": pd.DataFrame(TABLE).convert_dtypes(),
    "pandas category": pd.DataFrame(TABLE).astype({"sex": "category", "smokes": "category"}),
    "polars": pl.DataFrame(TABLE),
    "polars category": pl.DataFrame(TABLE).with_columns(pl.col("sex").cast(pl.Categorical)),
    "polars enum": pl.DataFrame(TABLE).with_columns(pl.col("sex").cast(pl.Enum(["m", "f"]))),
    "pyarrow": pa.table(TABLE),
    "pyarrow dictionary": pa.table(TABLE | {"sex": pa.array(SEX).dictionary_encode()}),
    "dict": TABLE,
    "dict of arrays": {"age": np.ma.array(AGE, mask=[0, 0, 1, 0]), "sex": np.array(SEX), "smokes": np.array(SMOKES)},
    "structured": structured(),
}


@pytest.mark.parametrize("name", TABLES)
def test_all_tables_say_the_same(name):
    encoder = CovariateEncoder().fit(TABLES[name], None)
    assert encoder.names_ == NAMES
    found = encoder.transform(TABLES[name], None)
    assert found.dtype == np.float64
    assert np.allclose(found, ENCODED)
    other = CovariateEncoder().fit(TABLE, None)
    assert np.allclose(other.transform(TABLES[name], None), ENCODED)


def test_arrays_have_numbered_columns():
    encoder = CovariateEncoder().fit(np.array([[1.0, 5.0], [3.0, 5.0]]), None)
    assert encoder.names_ == ["x0", "x1"]
    assert np.array_equal(encoder.transform(np.array([[5.0, 9.0]]), None), [[3.0, 0.0]])  # a constant stays zero
    mixed = CovariateEncoder().fit([[1.0, "a"], [3.0, "b"]], None)
    assert mixed.names_ == ["x0", "x1=a", "x1=b", "x1=other"]
    assert CovariateEncoder().fit(np.array([["a"], ["b"]]), None).names_ == ["x0=a", "x0=b", "x0=other"]
    assert CovariateEncoder().fit(pd.Series([1.0, 2.0], name="age"), None).names_ == ["age"]


def test_order_of_columns_is_irrelevant():
    encoder = CovariateEncoder().fit(TABLE, None)
    assert np.allclose(encoder.transform(dict(reversed(TABLE.items())), None), ENCODED)


def test_numbers_are_standardised_by_weight_whatever_their_unit():
    rng = np.random.default_rng(0)
    x, weight = rng.normal(3, 2, size=50), rng.integers(0, 3, size=50).astype(float)
    found = CovariateEncoder().fit({"x": x}, None, weight).transform({"x": x}, None)[:, 0]
    assert np.average(found, weights=weight) == pytest.approx(0)
    assert np.average(found**2, weights=weight) == pytest.approx(1)
    for unit in (1e-300, 1e-6, 1e6, 1e300):
        again = CovariateEncoder().fit({"x": unit * x}, None, weight).transform({"x": unit * x}, None)[:, 0]
        assert np.allclose(again, found)


def test_what_fit_has_not_seen():
    encoder = CovariateEncoder().fit({"age": [1.0, 3.0], "sex": ["f", "m"]}, None)
    assert encoder.names_ == ["age", "sex=f", "sex=m", "sex=other"]
    found = encoder.transform({"age": [None, 2.0], "sex": [None, "x"]}, None)
    assert np.array_equal(found, [[0, 0, 0, 1], [0, 0, 0, 1]])
    empty = CovariateEncoder().fit({"age": [None, np.nan]}, None)
    assert np.array_equal(empty.transform({"age": [None, 7.0]}, None), [[0, 1], [0, 0]])


def test_a_null_of_a_dictionary_is_missing_in_points_too():
    table = pa.table({"bag": [0, 0, 1], "sex": pa.array(["f", None, "m"]).dictionary_encode()})
    with pytest.raises(ValueError, match="got 1 missing"):
        de.Bags.from_frame(table, "bag", categorical=["sex"])


def test_numbers_of_a_categorical_column_are_labels():
    frame = pd.DataFrame({"site": pd.Categorical([3, 1, 3], categories=[1, 2, 3])})
    encoder = CovariateEncoder().fit(frame, None)
    assert encoder.names_ == ["site=1", "site=3", "site=other"]
    assert np.array_equal(encoder.transform({"site": [1, 2]}, None), [[1, 0, 0], [0, 0, 1]])


def test_an_index_of_ids_is_aligned():
    ids, frame = np.array(["a", "b", "c"]), pd.DataFrame({"age": [1.0, 2.0, 3.0]}, index=["c", "a", "b"])
    by_ids = CovariateEncoder().fit(frame, ids)
    in_order = {"age": [2.0, 3.0, 1.0]}
    assert np.array_equal(by_ids.transform(frame, ids), by_ids.transform(in_order, None))
    plain = frame.reset_index(drop=True)  # has no id of a bag: by position
    assert np.array_equal(by_ids.transform(plain, ids), by_ids.transform({"age": [1.0, 2.0, 3.0]}, None))
    assert np.array_equal(by_ids.transform(frame, None), by_ids.transform({"age": [1.0, 2.0, 3.0]}, None))
    days = pd.date_range("2026-01-01", periods=3)
    dated = pd.DataFrame({"age": [1.0, 2.0, 3.0]}, index=days[::-1])
    back = by_ids.transform({"age": [3.0, 2.0, 1.0]}, None)
    assert np.array_equal(by_ids.transform(dated, days.to_numpy().astype("M8[ns]")), back)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (
            ["a", "b", "x"],
            r"must hold the ids of all bags .*lacks 'c' and has 'x' besides; take covariates.loc\[bags.ids\]",
        ),
        (["a", "b", "b"], "lacks 'c'"),
        (["a", "b", "c", "d"], "has 'd' besides"),
        (["a", "b", "c", "c"], "must name each bag once"),
    ],
)
def test_an_index_that_shares_some_ids_is_refused(index, message):
    frame = pd.DataFrame({"age": np.arange(len(index))}, index=index)
    with pytest.raises(ValueError, match=message):
        CovariateEncoder().fit(frame, np.array(["a", "b", "c"]))


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        ({}, ValueError, "at least one column, got none"),
        (pd.DataFrame(index=range(3)), ValueError, "at least one column, got none"),
        ({"age": []}, ValueError, "got 0 in column 'age' for 3 bags"),
        ({"age": [1, 2]}, ValueError, "one row per bag, got 2 in column 'age' for 3 bags"),
        ({"age": [1, 2, 3], "sex": ["f"]}, ValueError, "got 1 in column 'sex' for 3 bags"),
        (np.zeros(3), ValueError, r"covariates\[:, None\]"),
        ({"age": 3}, ValueError, "column 'age' must hold one value per bag, got int"),
        ({"age": np.zeros((3, 2))}, ValueError, r"one value per bag, got shape \(3, 2\)"),
        ({"age": [1.0, np.inf, 2.0]}, ValueError, r"finite or missing, got inf for bag 1 \(id 'b'\) .*write NaN"),
        ({"age": [1, "old", 2]}, TypeError, "one kind, numbers or text, got number and text"),
        ({"born": pd.date_range("2000-01-01", periods=3)}, TypeError, "'born' .*got datetime64; make a number of it"),
        ({"born": [datetime.date(2000, 1, 1)] * 3}, TypeError, "got date; make a number of it, such as an age"),
        (pl.DataFrame({"age": [1, 2, 3]}).lazy(), TypeError, r"covariates must be in memory, .*collect"),
        (3, TypeError, "covariates must be a pandas or polars DataFrame"),
        (pd.DataFrame([[1, 2]] * 3, columns=["a", "a"]), ValueError, "names of columns must differ, got 'a'"),
    ],
)  # fmt: skip
def test_what_is_refused(frame, error, message):
    with pytest.raises(error, match=message):
        CovariateEncoder().fit(frame, np.array(["a", "b", "c"]))


def test_tables_must_match_that_of_fit():
    encoder = CovariateEncoder().fit(TABLE, None)
    with pytest.raises(ValueError, match="columns must be those of fit, 'age', 'sex', 'smokes'; the table lacks 'sex'"):
        encoder.transform({"age": [1], "smokes": [True]}, None)
    with pytest.raises(ValueError, match=r"lacks 'smokes' \(is 'Smoke' meant for 'smokes'\?\); add it"):
        encoder.transform({"age": [1], "sex": ["f"], "Smoke": [True]}, None)
    with pytest.raises(ValueError, match="the table has 'height' besides; leave it out"):
        encoder.transform(TABLE | {"height": [1, 2, 3, 4]}, None)
    with pytest.raises(TypeError, match="'age' had numbers in fit, got text"):
        encoder.transform(TABLE | {"age": ["1", "2", "3", "4"]}, None)
    with pytest.raises(TypeError, match="'sex' had text in fit, such as 'f', got number"):
        encoder.transform(TABLE | {"sex": [1, 2, 3, 4]}, None)
    with pytest.raises(ValueError, match="got 4 in column 'age' for 3 bags"):
        encoder.transform(TABLE, None, n_bags=3)


def test_a_column_of_names_is_refused():
    names = [f"patient {i}" for i in range(MOST_LABELS + 1)]
    with pytest.raises(ValueError, match=r"at most 1,000 labels, got 1,001, .*leave it out if it names bags"):
        CovariateEncoder().fit({"patient": names}, None)


def test_files_hold_it(tmp_path):
    encoder = CovariateEncoder().fit(TABLE, None)
    de.save(encoder, tmp_path / "encoder.dm")
    again = de.load(tmp_path / "encoder.dm")
    assert again.names_ == NAMES
    assert again.columns_ == encoder.columns_
    assert np.array_equal(again.transform(TABLE, None), encoder.transform(TABLE, None))


def test_an_index_is_nothing_to_bags_without_ids():
    rng = np.random.default_rng(0)
    bags, age = rng.normal(size=(30, 10, 1)), rng.normal(size=30)
    frame = pd.DataFrame({"age": age}, index=np.arange(30)[::-1])  # rows left after a selection, in their own order
    model = de.DistributionRegressor("mean", tune=None, n_components=20, random_state=0)
    found = model.fit(bags, age, covariates=frame).predict(bags, covariates={"age": age})
    np.testing.assert_array_equal(found, model.predict(bags, covariates=frame))
    assert np.corrcoef(found, age)[0, 1] > 0.9
