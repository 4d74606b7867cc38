"""Bags from and to tables and ragged arrays of other libraries."""

import sys
from collections import deque
from datetime import date, datetime

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.bags import Bags, as_bags
from distembed.bags.ids import join_ids

seeded = settings(deadline=None, derandomize=True, database=None, max_examples=40)
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dict": dict,
}
LIBRARIES = ["pandas", "polars", "pyarrow"]
ROWS = {
    "x": [1.0, 2.0, 3.0, 4.0, 5.0],
    "id": ["b", "a", "b", "c", "a"],
    "y": [10, 20, 30, 40, 50],
    "w": [0.5, 1.0, 1.5, 2.0, 2.5],
}
POINTS = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]]


def nested():
    return Bags.from_arrays([np.array(bag) for bag in POINTS])


# --------------------------------------------------------------------------------------------- from_frame
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_from_frame(make):
    bags = Bags.from_frame(make(ROWS), bag="id", weights="w")
    assert bags.ids.tolist() == ["b", "a", "c"]
    assert bags.ids.dtype.kind == "U"
    assert bags.columns == ("x", "y")
    assert [bag.tolist() for bag in bags] == [[[1, 10], [3, 30]], [[2, 20], [5, 50]], [[4, 40]]]
    assert bags.weights.tolist() == [0.5, 1.5, 1.0, 2.5, 2.0]
    assert bags.dtype == np.float64


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_from_frame_chooses_columns(make):
    bags = Bags.from_frame(make(ROWS), bag="id", columns=["y", "x"])
    assert bags.columns == ("y", "x")
    assert bags[2].tolist() == [[40.0, 4.0]]
    assert bags.weights is None
    assert Bags.from_frame(make(ROWS), bag="id", columns="y")[1].tolist() == [[20.0], [50.0]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"bag": "Id"}, r"^bag names column 'Id', which the table lacks; did you mean 'id'\?$"),
        ({"bag": ["y", "idd"]}, r"^bag names column 'idd', which the table lacks; did you mean 'id'\?$"),
        ({"bag": "id", "columns": ["x", "speed"]}, "^columns names column 'speed', which the table lacks; it has 'x'"),
        (
            {"bag": "id", "weights": "weight_of_point"},
            "^weights names column 'weight_of_point', which the table lacks; it",
        ),
        ({"bag": "id", "categorical": [" Y"]}, r"^categorical names column ' Y', which .*; did you mean 'y'\?$"),
        ({"bag": ["id", "id"]}, r"^bag must name a column, or several that differ, got \['id', 'id'\]; name each once"),
        ({"bag": []}, r"^bag must name a column, or several that differ, got \[\]"),
        ({"bag": ["id", "w"], "weights": "w"}, "^weights: must be another column than bag, got 'w' for both"),
        ({"bag": ["id", "y"], "columns": ["x", "y"]}, "^columns must not contain 'y'"),
    ],
)
def test_columns_that_a_table_lacks_get_a_suggestion(arguments, text):
    with pytest.raises(ValueError, match=text):
        Bags.from_frame(ROWS, **arguments)


def test_named_categories_get_a_suggestion():
    with pytest.raises(ValueError, match=r"got 'sexx'; did you mean 'sex'\?"):
        Bags([[0.0, 1.0]], [0, 1], columns=["age", "sex"], categories={"sexx": ["f", "m"]})


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_several_columns_name_a_bag(make):
    days = np.array(["2013-01-02", "2013-01-01", "2013-01-02", "2013-01-02"], "M8[us]")
    table = {"day": days, "origin": ["JFK", "LGA", "LGA", "JFK"], "n": [1.0, 2.0, 1.0, 1.0], "x": [1.0, 2.0, 3.0, 4.0]}
    bags = Bags.from_frame(make(table), bag=["day", "origin", "n"])
    assert bags.ids.tolist() == ["2013-01-02/JFK/1", "2013-01-01/LGA/2", "2013-01-02/LGA/1"]
    assert bags.columns == ("x",)
    assert bags[0].tolist() == [[1.0], [4.0]]
    assert Bags.from_frame(make(table), bag=["origin"], columns="x") == Bags.from_frame(make(table), "origin", "x")
    y = pd.DataFrame(table).groupby(["day", "origin", "n"])["x"].mean()
    assert bags.align(y).tolist() == [2.5, 2.0, 3.0]
    missing = {**table, "origin": ["JFK", None, "LGA", "JFK"]}
    with pytest.raises(ValueError, match=r"must name its bag, got 1 missing .* in column 'origin', the first in row 1"):
        Bags.from_frame(make(missing), bag=["day", "origin"], columns="x")


def test_joined_ids_differ_where_values_do():
    pairs = [("a/b", "c"), ("a", "b/c"), ("a\\", "/c"), ("a\\/", "c"), ("a", "c")]
    ids = join_ids([[a for a, _ in pairs], [b for _, b in pairs]])
    assert len(set(ids)) == len(pairs)
    assert join_ids([[True, False], [3, 4.5], [date(2024, 2, 29), datetime(2024, 2, 29, 5)]]).tolist() == [
        "True/3/2024-02-29", "False/4.5/2024-02-29T05:00",
    ]  # fmt: skip
    assert join_ids([[datetime(2024, 2, 29), datetime(2024, 2, 29)], ["x", "y"]])[0] == "2024-02-29/x"
    whole, halves = (
        join_ids([[1, 2, 1], list("abb")]),
        [join_ids([[1], ["a"]]), join_ids([[2.0, 1.0], list("bb")])],
    )
    assert whole.tolist() == np.concatenate(halves).tolist()  # pieces of a table have the ids of the whole
    with pytest.raises(TypeError, match="bag ids must be hashable, got list; use str"):
        join_ids([[[1], [2]], ["a", "b"]])


def test_groups_of_pandas_are_bags():
    frame = pd.DataFrame({**ROWS, "day": [2, 1, 2, 1, 1]})
    bags = as_bags(frame.groupby("id"))
    assert bags.ids.tolist() == ["a", "b", "c"]  # the order of frame.groupby("id").mean()
    assert bags.columns == ("x", "y", "w", "day")
    assert as_bags(frame.groupby("id", sort=False)).ids.tolist() == ["b", "a", "c"]
    assert as_bags(frame.groupby("id")[["y"]]).columns == ("y",)
    assert as_bags(frame.groupby("id")["x"])[1].tolist() == [[1.0], [3.0]]
    both = as_bags(frame.groupby(["day", "id"])[["x", "y"]])
    assert both.ids.tolist() == ["1/a", "1/c", "2/b"]
    assert both == Bags.from_frame(frame, bag=["day", "id"], columns=["x", "y"]).select(both.ids)
    assert as_bags(frame.groupby(frame.x.round(-1))[["x", "y"]]).columns == ("x", "y")  # called x, but another column
    kinds = frame.assign(id=pd.Categorical(frame.id, categories=list("abcd")))
    assert as_bags(kinds.groupby("id", observed=False)).ids.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="some keys of the groups are missing; drop those rows before groupby"):
        as_bags(frame.assign(id=["b", None, "b", "c", "a"]).groupby("id"))


def test_groups_of_polars_are_bags():
    frame = pl.DataFrame(ROWS)
    assert as_bags(frame.group_by("id")) == Bags.from_frame(frame, "id")
    assert as_bags(frame.group_by("id", "y")).ids.tolist()[:2] == ["b/10", "a/20"]
    with pytest.raises(TypeError, match=r"groups by expressions; add their column, and use Bags.from_frame"):
        as_bags(frame.group_by(pl.col("y") > 20))


def loop_over_rows(keys, values):
    """The obvious grouping: one dictionary of lists."""
    groups = {}
    for key, value in zip(keys, values, strict=True):
        groups.setdefault(key, []).append([value])
    return groups


@seeded
@given(
    keys=st.lists(st.integers(-2, 3), min_size=1, max_size=30),
    kind=st.sampled_from(["int", "str", "float", "mixed"]),
    make=st.sampled_from([pd.DataFrame, pl.DataFrame, pa.table, dict]),
)
def test_grouping_equals_a_loop(keys, kind, make):
    convert = {
        "int": int,
        "str": lambda k: f"k{k}",
        "float": lambda k: k / 2,
        "mixed": lambda k: k if k < 2 else "x",
    }
    keys = [convert[kind](key) for key in keys]
    if kind == "mixed":
        make, keys = pd.DataFrame, np.array(keys, object)
    values = np.arange(float(len(keys)))
    bags = Bags.from_frame(make({"key": keys, "v": values}), bag="key")
    groups = loop_over_rows(keys, values)
    assert bags.ids.tolist() == list(groups)
    assert [bag.tolist() for bag in bags] == list(groups.values())


def test_grouped_rows_are_not_moved_nor_copied():
    values = np.arange(6.0)
    keys = np.array([3, 3, 1, 2, 2, 2])
    for frame in (
        {"k": keys, "v": values},
        pl.DataFrame({"k": keys, "v": values}),
        pa.table({"k": keys, "v": values}),
        pd.DataFrame({"k": keys, "v": values}),
    ):
        bags = Bags.from_frame(frame, bag="k")
        assert bags.ids.tolist() == [3, 1, 2]
        column = frame["v"]
        column = column.to_numpy() if hasattr(column, "to_numpy") else column
        assert np.shares_memory(bags.points, column)


def test_a_block_of_a_pandas_frame_is_not_copied():
    values = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(values, columns=list("xyz"), copy=False)
    frame.insert(0, "k", list("aabb"))
    for bags in (Bags.from_frame(frame, bag="k"), Bags.from_frame(frame, bag="k", columns=["x", "y", "z"])):
        assert np.array_equal(bags.points, values)
        if int(pd.__version__.split(".")[0]) >= 3:  # before, selecting columns copies
            assert np.shares_memory(bags.points, values)
    swapped = Bags.from_frame(frame, bag="k", columns=["y", "x"])
    assert np.array_equal(swapped.points, values[:, [1, 0]])
    moved = Bags.from_frame(frame.iloc[[0, 2, 1, 3]], bag="k")
    assert np.array_equal(moved.points, values)
    assert values.flags.writeable


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_from_frame_dtypes(make):
    data = {"k": [1, 1], "a": np.ones(2, np.float32), "b": np.ones(2, np.float32), "i": np.ones(2, np.int8)}
    assert Bags.from_frame(make(data), bag="k", columns=["a", "b"]).dtype == np.float32
    assert Bags.from_frame(make(data), bag="k", columns=["a"]).dtype == np.float32
    assert Bags.from_frame(make(data), bag="k").dtype == np.float64
    assert Bags.from_frame(make({"k": [1, 1], "t": [True, False]}), bag="k").points.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    "dtype",
    [
        "Int64",
        "Float32",
        "Float64",
        "boolean",
        "UInt8",
        "int64[pyarrow]",
        "float[pyarrow]",
        "double[pyarrow]",
    ],
)
def test_nullable_pandas_columns(dtype):
    frame = pd.DataFrame({"k": [1, 1], "v": pd.array([1, 0], dtype=dtype)})
    bags = Bags.from_frame(frame, bag="k")
    assert bags.points.tolist() == [[1.0], [0.0]]
    assert bags.dtype == (np.float32 if dtype in ("Float32", "float[pyarrow]") else np.float64)
    frame = pd.DataFrame({"k": ["p", "q"], "v": pd.array([1, None], dtype=dtype)})
    with pytest.raises(ValueError, match=r"points must be finite, got nan at bag 1 \(id 'q'\), row 0, column 'v'"):
        Bags.from_frame(frame, bag="k")


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["polars", "pyarrow"])
def test_nulls_in_coordinates(make):
    frame = make({"k": ["p", "q", "p"], "v": [1, 2, None], "u": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"got nan at bag 0 \(id 'p'\), row 1, column 'v'"):
        Bags.from_frame(frame, bag="k")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"k": ["a", None, None], "v": [1, 2, 3]}),
        pd.DataFrame({"k": pd.array([1, None, None], dtype="Int64"), "v": [1, 2, 3]}),
        pd.DataFrame({"k": [1.0, np.nan, np.nan], "v": [1, 2, 3]}),
        pd.DataFrame({"k": pd.Categorical(["a", None, None]), "v": [1, 2, 3]}),
        pd.DataFrame({"k": pd.to_datetime(["2026-01-01", None, None]), "v": [1, 2, 3]}),
        pl.DataFrame({"k": ["a", None, None], "v": [1, 2, 3]}),
        pl.DataFrame({"k": [1, None, None], "v": [1, 2, 3]}),
        pl.DataFrame({"k": [1.0, np.nan, np.nan], "v": [1, 2, 3]}),
        pa.table({"k": ["a", None, None], "v": [1, 2, 3]}),
        pa.table({"k": [1, None, None], "v": [1, 2, 3]}),
        {"k": np.array(["a", None, np.nan], object), "v": [1, 2, 3]},
        {"k": ["a", np.nan, np.nan], "v": [1, 2, 3]},
    ],
)
def test_missing_bag_ids(frame):
    with pytest.raises(ValueError, match=r"got 2 missing .* in column 'k', the first in row 1; drop those rows"):
        Bags.from_frame(frame, bag="k")


def test_kinds_of_bag_ids():
    days = pd.to_datetime(["2026-01-02", "2026-01-01"])
    assert Bags.from_frame(pd.DataFrame({"k": days, "v": [1, 2]}), bag="k").ids.dtype.kind == "M"
    named = pd.Categorical(["q", "p"], categories=["p", "q", "unused"])
    assert Bags.from_frame(pd.DataFrame({"k": named, "v": [1, 2]}), bag="k").ids.tolist() == ["q", "p"]
    category = pl.Series("k", ["q", "p"], dtype=pl.Categorical)
    assert Bags.from_frame(pl.DataFrame({"k": category, "v": [1, 2]}), bag="k").ids.tolist() == ["q", "p"]
    encoded = pa.table({"k": pa.array(["q", "p"]).dictionary_encode(), "v": [1, 2]})
    assert Bags.from_frame(encoded, bag="k").ids.tolist() == ["q", "p"]
    with pytest.raises(TypeError, match="bag ids must be hashable, got list"):
        Bags.from_frame({"k": np.array([["a"], ["b", "c"]], object), "v": [1, 2]}, bag="k")
    chunks = pa.concat_tables([pa.table({"k": [1, 2], "v": [1, 2]}), pa.table({"k": [2, 1], "v": [3, 4]})])
    assert [bag.tolist() for bag in Bags.from_frame(chunks, bag="k")] == [[[1], [4]], [[2], [3]]]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"bag": "cluster"}, "bag names column 'cluster', which the table lacks; it has 'x', 'id', 'y', 'w'"),
        ({"columns": ["x", "z"]}, "columns names column 'z', which the table lacks"),
        ({"weights": "mass"}, "weights names column 'mass', which the table lacks"),
        ({"columns": []}, "columns must name at least one coordinate"),
        ({"columns": ["x", "id"]}, "columns must not contain 'id', the column of bag ids"),
        ({"columns": ["x", "x"]}, "columns must be 2 unique names"),
    ],
)
def test_from_frame_refusals(make, arguments, text):
    with pytest.raises(ValueError, match=text):
        Bags.from_frame(make(ROWS), **{"bag": "id", **arguments})


@pytest.mark.parametrize(
    ("frame", "dtype"),
    [
        (pd.DataFrame({"k": [1], "s": ["a"]}), "str|object"),
        (pd.DataFrame({"k": [1], "s": pd.to_datetime(["2026-01-01"])}), "datetime64"),
        (pl.DataFrame({"k": [1], "s": ["a"]}), "String"),
        (pa.table({"k": [1], "s": ["a"]}), "string"),
        ({"k": [1], "s": [1j]}, "complex128"),
    ],
)
def test_columns_of_other_dtypes_are_named(frame, dtype):
    with pytest.raises(TypeError, match=f"column 's' must be real numbers .* got dtype ({dtype})"):
        Bags.from_frame(frame, bag="k")


def test_from_frame_other_refusals():
    twice = pd.DataFrame([[1, 2.0, 3.0]], columns=["k", "v", "v"])
    with pytest.raises(ValueError, match="column 'v', which the table has more than once"):
        Bags.from_frame(twice, bag="k")
    with pytest.raises(TypeError, match=r"got a LazyFrame; use .collect\(\)"):
        Bags.from_frame(pl.LazyFrame(ROWS), bag="id")
    for other in (np.ones((2, 2)), [1, 2], None):
        with pytest.raises(TypeError, match=f"df must be a pandas .* got {type(other).__name__}"):
            Bags.from_frame(other, bag="id")
    for make in FRAMES.values():
        with pytest.raises(ValueError, match="no bags: the table has no rows"):
            Bags.from_frame(make({"k": np.zeros(0), "v": np.zeros(0)}), bag="k")
    with pytest.raises(ValueError, match=r"column 'v' must have one value per row, shape \(2,\), got \(3,\)"):
        Bags.from_frame({"k": [1, 2], "v": [1, 2, 3]}, bag="k")
    with pytest.raises(ValueError, match="ids must be 1-D"):
        Bags.from_frame({"k": np.ones((2, 2)), "v": [1, 2]}, bag="k")
    with pytest.raises(ValueError, match=r"weights must be nonnegative, got -1.0 at bag 0 \(id 'a'\), row 1"):
        Bags.from_frame({"k": ["a", "a"], "v": [1, 2], "w": [1.0, -1.0]}, bag="k", weights="w")
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    with pytest.raises(ValueError, match=r"got nan at bag 0 .*row 1, column 'v'"):
        Bags.from_frame({"k": ["a", "a"], "v": masked}, bag="k")
    numbered = Bags.from_frame(pd.DataFrame(np.ones((2, 3))), bag=0)
    assert numbered.columns == ("1", "2")


# ----------------------------------------------------------------------------------------------- to_frame
def every_part(dtype=np.float64, ids=("p", "q")):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(size, 2)).astype(dtype) for size in (3, 2)]
    return Bags.from_arrays(arrays, weights=[[1, 2, 3], [4, 5]], ids=ids, columns=["ra", "dec"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("library", "ids"),
    [
        *((library, ids) for library in LIBRARIES for ids in (("p", "q"), (7, 3), (0.5, 1.5), None)),
        ("pandas", ("p", 3)),  # columns of mixed type exist in pandas alone
    ],
)
def test_frames_round_trip(library, dtype, ids):
    bags = every_part(dtype, ids)
    frame = bags.to_frame(library)
    assert type(frame).__module__.partition(".")[0] == library
    back = Bags.from_frame(frame, bag="bag", weights="weight")
    assert back == bags
    assert back.dtype == dtype
    plain = Bags(bags.points, bags.offsets)
    again = Bags.from_frame(plain.to_frame(library), bag="bag")
    assert again == plain
    assert again.columns == ("x0", "x1")


def test_to_frame_is_a_long_table():
    frame = every_part().to_frame(bag="cluster", weights="mass")
    assert list(frame.columns) == ["cluster", "ra", "dec", "mass"]
    assert frame["cluster"].tolist() == ["p", "p", "p", "q", "q"]
    assert frame["mass"].tolist() == [1, 2, 3, 4, 5]


def test_to_frame_refusals(monkeypatch):
    bags = every_part()
    with pytest.raises(ValueError, match="library must be 'pandas', 'polars' or 'pyarrow', got 'dask'"):
        bags.to_frame("dask")
    with pytest.raises(ValueError, match="bag='ra', weights='weight' and the columns 'ra', 'dec' must all differ"):
        bags.to_frame(bag="ra")
    with pytest.raises(ValueError, match="must all differ"):
        bags.to_frame(bag="weight")
    for library in LIBRARIES:
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ImportError, match=rf"needs {library}: pip install 'distembed\[frames\]'"):
            bags.to_frame(library)


# -------------------------------------------------------------------------------------------------- align
def test_align_with_pandas():
    bags = every_part()
    series = pd.Series([2.0, 1.0], index=["q", "p"])
    assert bags.align(series).tolist() == [1.0, 2.0]
    frame = pd.DataFrame({"y": [2, 1], "z": [4, 3]}, index=["q", "p"])
    assert bags.align(frame).tolist() == [[1, 3], [2, 4]]
    assert bags.align(frame[["y"]]).shape == (2, 1)
    assert every_part(ids=[10, 20]).align(pd.Series([1, 2], index=[20, 10])).tolist() == [2, 1]
    days = np.array(["2026-01-01", "2026-01-02"], "M8[D]")
    dated = pd.Series([2, 1], index=pd.to_datetime(days[::-1]))
    assert every_part(ids=days).align(dated).tolist() == [1, 2]


def test_align_refusals_with_frames():
    bags = every_part()
    with pytest.raises(ValueError, match="more than once: 'p'; the index of targets must name each bag once"):
        bags.align(pd.Series([1, 2, 3], index=["p", "q", "p"]))
    with pytest.raises(ValueError, match="every id of the bags, missing: 'q'"):
        bags.align(pd.Series([1], index=["p"]))
    with pytest.raises(ValueError, match="only ids of the bags, unknown: 'r'"):
        bags.align(pd.Series([1, 2, 3], index=["p", "q", "r"]))
    for other in (pl.Series([1, 2]), pl.DataFrame({"y": [1, 2]}), pa.array([1, 2])):
        with pytest.raises(TypeError, match=r"got \w+; from two columns use dict\(zip\(ids, values\)\)"):
            bags.align(other)


# ------------------------------------------------------------------------------------------------ as_bags
def test_as_bags_of_bags_and_lists():
    bags = nested()
    assert as_bags(bags) is bags
    assert as_bags(POINTS) == bags
    assert as_bags(tuple(map(np.array, POINTS))) == bags
    assert as_bags(deque(map(np.array, POINTS))) == bags
    objects = np.empty(3, object)
    objects[:] = [np.array(bag) for bag in POINTS]
    assert as_bags(objects) == bags
    assert as_bags([[1.0, 2.0], [3.0]]).n_dims == 1
    assert as_bags([pd.DataFrame({"x": [1.0], "y": [2.0]})])[0].tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_frames_in_a_list_go_by_their_columns_names(make):
    first, second = make({"x": [1.0, 2.0], "y": [3.0, 4.0]}), make({"y": [30.0], "x": [10.0]})
    bags = as_bags([first, second])
    assert bags.columns == ("x", "y")
    assert [bag.tolist() for bag in bags] == [[[1, 3], [2, 4]], [[10, 30]]]
    turned = Bags.from_arrays([first, second], columns=["y", "x"])
    assert turned.columns == ("y", "x")
    assert turned[1].tolist() == [[30, 10]]
    renamed = Bags.from_arrays([first, second], columns=["u", "v"])
    assert renamed.columns == ("u", "v")
    assert renamed[1].tolist() == [[10, 30]]
    assert as_bags([first, np.array([[5.0, 6.0]])])[1].tolist() == [[5, 6]]
    text = r"the same columns, got 'x', 'z' in bag 1 and 'x', 'y' in bag 0; give all bags the same columns"
    with pytest.raises(ValueError, match=text):
        as_bags([first, make({"x": [1.0], "z": [2.0]})])


def test_frames_of_numbered_or_repeated_columns():
    numbered = pd.DataFrame([[1.0, 2.0]])
    assert as_bags([numbered, numbered[[1, 0]]])[1].tolist() == [[1, 2]]
    assert as_bags([numbered]).columns is None
    twice = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    with pytest.raises(
        ValueError, match=r"columns must be 2 unique names, one per coordinate, got 'x', 'x'; rename them"
    ):
        as_bags([twice])
    objects = pd.Series([pd.DataFrame({"x": [1.0], "y": [2.0]}), pd.DataFrame({"y": [20.0], "x": [10.0]})])
    assert as_bags(objects)[1].tolist() == [[10, 20]]


def test_as_bags_of_a_3d_array():
    array = np.arange(24.0).reshape(2, 4, 3)
    bags = as_bags(array)
    assert np.shares_memory(bags.points, array)
    assert np.array_equal(bags[1], array[1])
    assert bags.sizes.tolist() == [4, 4]
    assert np.array_equal(as_bags(array.transpose(0, 2, 1))[1], array[1].T)
    assert as_bags(array.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("obj", "error", "text"),
    [
        (
            np.ones((3, 2)),
            ValueError,
            r"2-D array is ambiguous .* \(3, 2\): write X\[:, :, None\] .* \[X\] if",
        ),
        (np.ones(3), ValueError, r"1-D array is not bags, got shape \(3,\): write \[x\]"),
        (np.ones((1, 1, 1, 1)), ValueError, "must be a 3-D array"),
        (np.float64(3), ValueError, "must be a 3-D array"),
        (np.ones((0, 2, 2)), ValueError, r"no bags: the array has shape \(0, 2, 2\)"),
        (np.ones((2, 0, 2)), ValueError, "bag 0 is empty"),
        (np.full((1, 1, 1), "a"), TypeError, "points must be real numbers"),
        (np.ma.masked_array(np.ones((1, 1, 1)), True), ValueError, "points must have no masked entries"),
        ([], ValueError, "no bags"),
        ((), ValueError, "no bags"),
        ((x for x in POINTS), TypeError, r"got generator; put it in a list: list\(...\)"),
        ({1, 2}, TypeError, r"got set; put it in a list"),
        (map(np.array, POINTS), TypeError, r"got map; put it in a list"),
        ("bags", TypeError, "got str$"),
        (b"bags", TypeError, "got bytes$"),
        (None, TypeError, "bags must be Bags, a list of .* got NoneType$"),
        (3, TypeError, "got int$"),
        (
            {"a": [1.0]},
            TypeError,
            r"from a mapping: use Bags.from_arrays\(list\(d.values\(\)\), ids=list\(d\)\)",
        ),
        (scipy.sparse.eye_array(3).tocsr(), TypeError, r"sparse csr_array: use .toarray\(\)"),
        (
            [scipy.sparse.eye_array(3).tocsr()],
            TypeError,
            r"bag 0 must be real .* sparse csr_array; use .toarray",
        ),
        (pd.DataFrame(ROWS), TypeError, r"from a DataFrame alone: use Bags.from_frame\(df, bag="),
        (pl.DataFrame(ROWS), TypeError, r"from a DataFrame alone: use Bags.from_frame"),
        (pl.LazyFrame(ROWS), TypeError, r"from a LazyFrame alone: use Bags.from_frame"),
        (pa.table(ROWS), TypeError, r"from a Table alone: use Bags.from_frame"),
        (pa.RecordBatch.from_pydict(ROWS), TypeError, r"from a RecordBatch alone: use Bags.from_frame"),
        (pd.Series([1.0, 2.0]), ValueError, r"bag 0 must be an array .* got shape \(\)"),
        (pd.Series([[1.0], None]), TypeError, "bag 1 is None"),
        (pl.Series([1.0, 2.0]), TypeError, "must be a list type, one list a bag, got double"),
        (pa.array([1.0, 2.0]), TypeError, "must be a list type, one list a bag, got double"),
        (pa.array([["a"]]), TypeError, "coordinates must be real numbers .* got string"),
        (pa.array([[[["a"]]]]), TypeError, "coordinates must be real numbers .* got list"),
        (pa.array([], pa.list_(pa.float64())), ValueError, "no bags: the pyarrow array is empty"),
        (pa.array([[1.0], None, None]), ValueError, r"bag 1 is null \(2 in all\); leave such bags out"),
        (pa.array([[1.0], [2.0, None]]), ValueError, "points must be finite, got nan at bag 1, row 1"),
        (pa.array([[True, None]]), ValueError, "points must be finite, got nan at bag 0, row 1"),
        (pa.array([[[1.0]], [[2.0], None]]), ValueError, "points must not be null, got null at bag 1, row 1"),
        (pa.array([[[1.0, 2.0]], [[3.0, None]]]), ValueError, "got nan at bag 1, row 0, column 1"),
        (pa.array([[{"x": 1.0}], [{"x": None}]]), ValueError, "got nan at bag 1, row 0, column 'x'"),
        (pa.array([[{"x": 1.0}], [None]]), ValueError, "points must not be null, got null at bag 1, row 0"),
        (
            pa.array([[[1.0, 2.0]], [[3.0, 4.0], [5.0]]]),
            ValueError,
            "got 1 at bag 1, row 1 and 2 at the first",
        ),
        (pa.array([[1.0], []]), ValueError, "bag 1 is empty"),
        (pa.array([[[1.0, 2.0]], []]), ValueError, "bag 1 is empty"),
        (pa.array([[], []], pa.list_(pa.list_(pa.float64()))), ValueError, "bag 0 is empty"),
        (pa.chunked_array([[[1.0]], [[2.0], None]]), ValueError, "bag 2 is null"),
        (pa.chunked_array([[[[1.0]]], [[[2.0], None]]]), ValueError, "got null at bag 1, row 1"),
        (ak.Array([1.0, 2.0]), ValueError, r"must be n \* var \* d or n \* var, got 2 \* float64"),
        (ak.Array([["a"]]), TypeError, "points must be real numbers"),
        (ak.Array(["ab", "c"]), ValueError, r"must be n \* var \* d or n \* var, got 2 \* string"),
        (ak.Array([[1.0], None]), ValueError, r"bag 1 is missing \(None\), 1 in all"),
        (ak.Array([[1.0], [2.0, None]]), ValueError, "got nan at bag 1, row 1"),
        (
            ak.Array([[[1.0, 2.0]], [[3.0, 4.0], [5.0]]]),
            ValueError,
            "got 1 at bag 1, row 1 and 2 at the first",
        ),
        (ak.Array([[[1.0, 2.0]], [[3.0, 4.0], None]]), ValueError, "at bag 1, row 1"),
        (ak.Array([[1.0], []]), ValueError, "bag 1 is empty"),
        (ak.Array(np.ones((0, 2, 2))), ValueError, "no bags: the awkward array is empty"),
        (ak.Array([[{"x": 1.0}], [{"x": None}]]), ValueError, "got nan at bag 1, row 0, column 'x'"),
    ],
)
def test_as_bags_refusals(obj, error, text):
    with pytest.raises(error, match=text):
        as_bags(obj)


ARROW_TYPES = {
    "list of list": pa.list_(pa.list_(pa.float64())),
    "large list of large list": pa.large_list(pa.large_list(pa.float64())),
    "list of fixed": pa.list_(pa.list_(pa.float64(), 2)),
    "large list of fixed": pa.large_list(pa.list_(pa.float64(), 2)),
}


@pytest.mark.parametrize("kind", ARROW_TYPES.values(), ids=ARROW_TYPES)
def test_arrow_lists_whole_sliced_and_chunked(kind):
    array, bags = pa.array(POINTS, kind), nested()
    assert as_bags(array) == bags
    assert as_bags(array[1:]) == bags[1:]
    assert as_bags(array[1:2]) == bags[1:2]
    assert as_bags(pa.chunked_array([array[:1], array[1:]])) == bags
    assert as_bags(pa.chunked_array([array])) == bags
    assert as_bags(pa.chunked_array([array[:0], array[2:], array[:0]])) == bags[2:]
    for whole in (array, array[1:], pa.chunked_array([array])):
        points = array.flatten().flatten().to_numpy()
        assert np.shares_memory(as_bags(whole).points, points)


def test_arrow_lists_of_numbers_structs_and_fixed_sizes():
    plain = pa.array([[1.0, 2.0], [3.0], [4.0, 5.0]])
    assert as_bags(plain[1:]).points.tolist() == [[3.0], [4.0], [5.0]]
    assert np.shares_memory(as_bags(plain[1:]).points, plain.values.to_numpy())
    assert as_bags(pa.array([[1, 2], [3]])).dtype == np.float64
    assert as_bags(pa.array([[1.0]], pa.list_(pa.float32()))).dtype == np.float32
    records = pa.array([[{"x": 1.0, "y": 2}], [{"x": 3.0, "y": 4}, {"x": 5.0, "y": 6}]])
    bags = as_bags(records[1:])
    assert bags.columns == ("x", "y")
    assert bags[0].tolist() == [[3.0, 4.0], [5.0, 6.0]]
    fixed = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2))
    assert as_bags(fixed[1:]).offsets.tolist() == [0, 2, 4]
    assert as_bags(fixed[1:]).points[:, 0].tolist() == [3.0, 4.0, 5.0, 6.0]
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12.0).reshape(2, 6))
    assert as_bags(tensors).sizes.tolist() == [6, 6]
    with_nulls_before = pa.array([None, [1.0], [2.0, 3.0]])[1:]
    assert as_bags(with_nulls_before).points.tolist() == [[1.0], [2.0], [3.0]]


@seeded
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8), data=st.data())
def test_arrow_slices_equal_bag_slices(sizes, data):
    values = np.arange(float(sum(sizes)))
    lists = np.split(values, np.cumsum(sizes)[:-1])
    start = data.draw(st.integers(0, len(sizes) - 1))
    stop = data.draw(st.integers(start + 1, len(sizes)))
    bags = as_bags(lists)[start:stop]
    assert as_bags(pa.array(lists)[start:stop]) == bags
    assert as_bags(ak.Array([part.tolist() for part in lists])[start:stop]) == bags


def test_series_of_lists():
    bags = nested()
    assert as_bags(pl.Series(POINTS)) == bags
    assert as_bags(pl.Series(POINTS, dtype=pl.List(pl.Array(pl.Float64, 2)))) == bags
    assert as_bags(pl.Series([[1.0, 2.0], [3.0]])).sizes.tolist() == [2, 1]
    arrays = [np.array(bag) for bag in POINTS]
    assert as_bags(pd.Series(arrays)) == as_bags(pd.Series(arrays, index=[0, 0, 1])) == bags
    assert as_bags(pd.Series(arrays, index=["a", None, "b"])) == bags


def test_a_series_of_arrays_has_the_ids_of_its_index():
    bags = as_bags(pd.Series([np.array(bag) for bag in POINTS], index=["b", "c", "a"]))
    assert bags.ids.tolist() == ["b", "c", "a"]
    assert bags.align(pd.Series([1, 2, 3], index=["a", "b", "c"])).tolist() == [2, 3, 1]
    mask = pd.Series([True, None, True], index=["a", "b", "c"], dtype="boolean")
    assert bags[mask.fillna(False)].ids.tolist() == ["c", "a"]
    with pytest.raises(ValueError, match="a mask must be True or False for every bag, got none for 'b'"):
        bags[mask]
    arrow = pd.Series(pa.array([[1.0, 2.0], [3.0]]), dtype=pd.ArrowDtype(pa.list_(pa.float64())))
    assert as_bags(arrow).sizes.tolist() == [2, 1]


def test_awkward():
    bags = nested()
    array = ak.Array(POINTS)
    assert as_bags(array) == bags
    assert as_bags(array[1:]) == bags[1:]
    assert as_bags(array[[2, 0]]) == bags[[2, 0]]
    assert as_bags(ak.Array([[1, 2], [3]])).points.tolist() == [[1.0], [2.0], [3.0]]
    assert as_bags(ak.Array(np.ones((2, 3, 4)))).offsets.tolist() == [0, 3, 6]
    records = ak.Array([[{"x": 1.0, "y": 2}], [{"x": 3.0, "y": 4}, {"x": 5.0, "y": 6}]])
    assert as_bags(records).columns == ("x", "y")
    assert as_bags(records)[1].tolist() == [[3.0, 4.0], [5.0, 6.0]]
    columns = ak.Array({"x": ak.Array([[1.0], [3.0, 5.0]]), "y": ak.Array([[2.0], [4.0, 6.0]])})
    assert as_bags(columns) == as_bags(records)


def test_awkward_is_not_copied():
    points = np.arange(20.0).reshape(10, 2)
    array = ak.unflatten(ak.Array(points), [4, 6])
    assert np.shares_memory(as_bags(array).points, points)
    assert np.shares_memory(as_bags(array[1:]).points, points)


# --------------------------------------------------------------------------------------------------------------
# Missing values
# --------------------------------------------------------------------------------------------------------------

GAPS = {
    "id": ["p", "q", "p", "q", "r"],
    "x": [1.0, None, 3.0, 4.0, 8.0],
    "y": [1.0, 2.0, 3.0, 4.0, 5.0],
    "z": [None, None, 3.0, 4.0, 5.0],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_missing_values_are_counted_left_out_or_filled_in(make):
    frame = make(GAPS)
    said = (
        r"got nan at bag 0 \(id 'p'\), row 0, column 'z'; missing values \(NaN, None or null\): 1 in 'x', 2 in 'z'; "
        r"pass nan='drop' to leave out such points, or nan='indicator' to fill the values in"
    )
    with pytest.raises(ValueError, match=said):
        Bags.from_frame(frame, bag="id")
    dropped = Bags.from_frame(frame, bag="id", nan="drop")
    assert dropped.points.tolist() == [[3, 3, 3], [4, 4, 4], [8, 5, 5]]
    assert dropped.sizes.tolist() == [1, 1, 1]
    filled = Bags.from_frame(frame, bag="id", nan="indicator")
    assert filled.columns == ("x", "y", "z", "x missing", "z missing")
    assert filled[1].tolist() == [[4, 2, 4, 1, 1], [4, 4, 4, 0, 0]]
    assert filled.missing_fills == {"x": 4.0, "z": 4.0}


def test_new_bags_take_the_fills_of_old_ones():
    train = Bags.from_frame(GAPS, bag="id", nan="indicator")
    new = {"id": [1, 1, 2], "x": [5.0, 6.0, None], "y": [1.0, 1.0, 1.0], "z": [1.0, 1.0, 1.0]}
    bags = Bags.from_frame(new, bag="id", nan=train.missing_fills)
    assert bags.points.tolist() == [[5, 1, 1, 0, 0], [6, 1, 1, 0, 0], [4, 1, 1, 1, 0]]
    assert bags[:1].missing_fills == {"x": 5.5, "z": 1.0}  # a part in which nothing is missing
    with pytest.raises(ValueError, match=r"column 'y' must have no missing values .* got one at bag 1 \(id 2\), row 0"):
        Bags.from_frame({**new, "y": [1.0, 1.0, None]}, bag="id", nan=train.missing_fills)
    with pytest.raises(ValueError, match=r"nan fills in 'z', which is not among the columns 'x', 'y'"):
        Bags.from_frame(new, bag="id", columns=["x", "y"], nan=train.missing_fills)


def test_weights_go_with_points_that_are_left_out():
    table = {"id": [0, 0, 1], "x": [1.0, np.nan, 2.0], "w": [0.25, 0.5, 0.75]}
    assert Bags.from_frame(table, bag="id", weights="w", nan="drop").weights.tolist() == [0.25, 0.75]


def test_a_bag_that_loses_all_its_points_is_named():
    table = {"id": ["p", "q", "q", "r"], "x": [1.0, np.nan, np.nan, np.nan]}
    said = r"bag 1 \(id 'q'\) has missing values in every point, .*'drop' leaves none \(2 such bags in all\)"
    with pytest.raises(ValueError, match=said):
        Bags.from_frame(table, bag="id", nan="drop")
    with pytest.raises(ValueError, match="column 'x' has no value at all"):
        Bags.from_frame({"id": [0], "x": [np.nan]}, bag="id", nan="indicator")


def test_missing_labels():
    table = {"id": [0, 0, 1], "sex": ["m", None, "f"], "x": [1.0, 2.0, 3.0]}
    with pytest.raises(ValueError, match=r"a label in every row, got 1 missing .* pass nan='drop'"):
        Bags.from_frame(table, bag="id", categorical=["sex"])
    assert Bags.from_frame(table, bag="id", categorical=["sex"], nan="drop").points.tolist() == [[1, 1], [0, 3]]
    train = Bags.from_frame(table, bag="id", categorical=["sex"], nan="indicator")
    assert train.category_labels == {"sex": ("f", "m", "missing")}
    assert train.points.tolist() == [[1, 1], [2, 2], [0, 3]]
    new = Bags.from_frame(
        {"id": [5], "sex": [None], "x": [1.0]}, bag="id", categorical=train.category_labels, nan=train.missing_fills
    )
    assert new[0].tolist() == [[2, 1]]
    with pytest.warns(UserWarning, match=r"labels that the training bags lack, such as 'missing', count as 'other'"):
        other = Bags.from_frame(table, bag="id", categorical={"sex": ["f", "m"]}, nan="indicator")
    assert other.category_labels == {"sex": ("f", "m", "other")}


def test_infinity_is_not_missing():
    for nan in ("error", "drop", "indicator", {"x": 1.0}):
        with pytest.raises(ValueError, match="points must be finite, got inf at bag 0"):
            Bags.from_frame({"id": [0, 0], "x": [np.inf, 1.0]}, bag="id", nan=nan)


def test_rules_of_missing_values_are_checked():
    for nan in ("mean", None, 3):
        with pytest.raises((ValueError, TypeError), match=r"Bags.from_frame\(nan=...\)"):
            Bags.from_frame({"id": [0], "x": [1.0]}, bag="id", nan=nan)
    with pytest.raises(ValueError, match="column 'x missing' would mark missing values"):
        Bags.from_frame({"id": [0, 0], "x": [1.0, np.nan], "x missing": [0, 0]}, bag="id", nan="indicator")


def test_models_remember_the_fills():
    from distembed import MomentEmbedding

    train = Bags.from_frame(GAPS, bag="id", nan="indicator")
    model = MomentEmbedding().fit(train)
    assert model.missing_fills_ == train.missing_fills
    new = {"id": [1, 1], "x": [5.0, 6.0], "y": [1.0, 1.0], "z": [1.0, 1.0]}
    assert np.isfinite(model.transform(Bags.from_frame(new, bag="id", nan=model.missing_fills_))).all()
    with pytest.raises(ValueError, match=r"read the bags with nan=model.missing_fills_"):
        model.transform(Bags.from_frame(new, bag="id"))
    model.fit(Bags.from_frame(new, bag="id"))
    assert not hasattr(model, "missing_fills_")
