"""The container: rules, indexing, files, and what scikit-learn does with it."""

import copy
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.utils import _safe_indexing

from distembed import bags as bags_module
from distembed.bags import Bags, as_bags, concat


def ragged(seed=0, sizes=(3, 1, 4, 2), n_dims=2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, n_dims)).astype(dtype) for size in sizes]


def full(seed=0, sizes=(3, 1, 4, 2), n_dims=2, dtype=np.float64):
    """Bags with everything: weights, ids, columns."""
    rng = np.random.default_rng(seed + 1)
    return Bags.from_arrays(
        ragged(seed, sizes, n_dims, dtype),
        weights=[rng.uniform(0.5, 2, size).astype(dtype) for size in sizes],
        ids=[f"id{i}" for i in range(len(sizes))],
        columns=[f"c{j}" for j in range(n_dims)],
    )


# Seeded, and without a clock or a database: a failure here is the same everywhere.
seeded = settings(deadline=None, derandomize=True, database=None, max_examples=50)


@st.composite
def ragged_arrays(draw):
    """Every legal ragged list: some bags, no bag empty, one width, one float dtype, finite values."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    n_dims = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    scale = draw(st.sampled_from([0.0, 1.0, 1e30]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [(scale * rng.normal(size=(size, n_dims))).astype(dtype) for size in sizes]


@st.composite
def any_bags(draw):
    """Every legal Bags, with and without weights, ids and columns."""
    arrays = draw(ragged_arrays())
    n_bags, dtype = len(arrays), arrays[0].dtype
    weights = ids = columns = None
    if draw(st.booleans()):
        weights = [np.arange(1, len(array) + 1, dtype=dtype) for array in arrays]
    kind = draw(st.sampled_from(["none", "int", "str"]))
    if kind == "int":
        ids = draw(st.lists(st.integers(-(2**40), 2**40), min_size=n_bags, max_size=n_bags, unique=True))
    elif kind == "str":
        letters = st.text("abcxyzéß", min_size=1, max_size=4)
        ids = draw(st.lists(letters, min_size=n_bags, max_size=n_bags, unique=True))
    if draw(st.booleans()):
        columns = [f"name{j}" for j in range(arrays[0].shape[1])]
    return Bags.from_arrays(arrays, weights, ids, columns)


# ----------------------------------------------------------------------------------- constructor
def test_attributes():
    points = np.arange(12.0).reshape(6, 2)
    bags = Bags(points, [0, 1, 4, 6], weights=np.ones(6), ids=["a", "b", "c"], columns=["x", "y"])
    assert (bags.n_bags, bags.n_points, bags.n_dims, len(bags)) == (3, 6, 2, 3)
    assert bags.shape == (3,)
    assert bags.sizes.tolist() == [1, 3, 2]
    assert bags.offsets.dtype == np.int64
    assert bags.dtype == np.float64
    assert bags.ids.dtype.kind == "U"
    assert bags.ids.tolist() == ["a", "b", "c"]
    assert bags.has_ids
    assert bags.columns == ("x", "y")
    assert [bag.shape for bag in bags] == [(1, 2), (3, 2), (2, 2)]
    assert np.array_equal(np.concatenate(list(bags)), points)


def test_defaults():
    bags = Bags(np.ones((3, 1)), [0, 1, 3])
    assert bags.weights is None
    assert bags.weights_of(0) is None
    assert bags.columns is None
    assert not bags.has_ids
    assert bags.ids.tolist() == [0, 1]


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
def test_ids_of_variable_width_text():
    ids = np.array(["a", "bb"], np.dtypes.StringDType())
    bags = Bags(np.ones((2, 1)), [0, 1, 2], ids=ids)
    assert bags.ids.dtype == np.dtype("U2")
    assert bags.ids.tolist() == ["a", "bb"]


def test_weights_of():
    bags = Bags(np.ones((3, 1)), [0, 1, 3], weights=[1.0, 2.0, 3.0])
    assert bags.weights_of(1).tolist() == [2.0, 3.0]
    assert bags.weights_of(-2).tolist() == [1.0]
    assert np.shares_memory(bags.weights_of(1), bags.weights)
    with pytest.raises(IndexError, match=r"bag 2 .* out of bounds for 2 bags"):
        bags.weights_of(2)
    with pytest.raises(TypeError, match="interpreted as an integer"):
        bags.weights_of("0")


@pytest.mark.parametrize(
    ("given_dtype", "kept"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16", "float32"),
        (">f8", "float64"),
        (">f4", "float32"),
        ("longdouble", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        ("bool", "float64"),
    ],
)
def test_dtypes(given_dtype, kept):
    bags = Bags(np.ones((2, 1), given_dtype), [0, 2], weights=np.ones(2))
    assert bags.dtype == np.dtype(kept)
    assert bags.dtype.isnative
    assert bags.weights.dtype == np.dtype(kept)


@pytest.mark.parametrize("values", [np.array([["a"]]), np.array([[1.0]], object), np.array([[1j]])])
def test_refused_dtypes(values):
    with pytest.raises(TypeError, match=f"points must be real numbers .* got dtype {values.dtype}"):
        Bags(values, [0, 1])


def test_zero_copy_and_the_users_flags():
    points, offsets, weights = np.ones((4, 2)), np.array([0, 1, 4]), np.ones(4)
    bags = Bags(points, offsets, weights)
    assert np.shares_memory(bags.points, points)
    assert np.shares_memory(bags.offsets, offsets)
    assert np.shares_memory(bags.weights, weights)
    assert points.flags.writeable
    assert offsets.flags.writeable
    assert weights.flags.writeable


def test_copies_only_what_is_not_contiguous():
    wide = np.asfortranarray(np.arange(8.0).reshape(4, 2))
    bags = Bags(wide, [0, 4])
    assert bags.points.flags.c_contiguous
    assert not np.shares_memory(bags.points, wide)
    assert np.array_equal(bags.points, wide)
    weights = np.arange(8.0)[::2] + 1
    assert Bags(wide, [0, 4], weights).weights.flags.c_contiguous


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"points": [1.0, 2.0]}, ValueError, r"points must be 2-D .*got shape \(2,\); points\[:, None\]"),
        ({"points": np.ones((1, 2, 3))}, ValueError, r"points must be 2-D .*\(1, 2, 3\); .*as_bags"),
        ({"points": np.ones((2, 0))}, ValueError, r"at least one coordinate, got shape \(2, 0\)"),
        ({"points": [[1.0], [2.0, 3.0]]}, ValueError, "points must be a rectangular array"),
        ({"offsets": [0]}, ValueError, r"no bags: offsets must have n_bags \+ 1 entries, got 1"),
        ({"offsets": []}, ValueError, "no bags: .*got 0"),
        ({"offsets": [[0, 2]]}, ValueError, r"offsets must be 1-D.*got shape \(1, 2\)"),
        ({"offsets": [0.0, 2.0]}, TypeError, "offsets must be integers, got dtype float64"),
        ({"offsets": [1, 2]}, ValueError, "offsets must start at 0, got 1"),
        ({"offsets": [0, 3]}, ValueError, "offsets must end at the number of points, 2, got 3"),
        ({"offsets": [0, 2, 1]}, ValueError, "offsets must increase, got 2 then 1 for bag 1"),
        ({"offsets": [0, 1, 1, 2], "ids": list("abc")}, ValueError, r"bag 1 \(id 'b'\) is empty"),
        ({"offsets": [0, 0, 2]}, ValueError, "bag 0 is empty, .*leave it out"),
        ({"weights": [1.0]}, ValueError, r"weights must be 1-D.*shape \(2,\), got shape \(1,\)"),
        ({"weights": [[1.0], [1.0]]}, ValueError, r"weights must be 1-D"),
        ({"weights": ["a", "b"]}, TypeError, "weights must be real numbers"),
        ({"weights": [1.0, -2.0]}, ValueError, r"weights must be nonnegative, got -2.0 at bag 0, row 1"),
        ({"weights": [1.0, np.inf]}, ValueError, r"weights must be finite, got inf at bag 0, row 1"),
        ({"weights": [0.0, 0.0]}, ValueError, "positive, finite sum in every bag, got 0.0 in bag 0"),
        ({"weights": [1e308, 1e308]}, ValueError, "positive, finite sum in every bag, got inf in bag 0"),
        ({"ids": ["a", "b"]}, ValueError, "one id a bag, got 2 ids for 1 bags"),
        ({"ids": "a"}, TypeError, "ids must be a sequence .* got str"),
        ({"ids": 3}, TypeError, "ids must be a sequence .* got int"),
        ({"ids": np.ones((1, 1))}, ValueError, r"ids must be 1-D.*shape \(1, 1\)"),
        ({"ids": [None]}, ValueError, "ids must not be missing, got None for bag 0"),
        ({"ids": [np.nan]}, ValueError, "ids must not be missing, got nan for bag 0"),
        ({"ids": np.array(["NaT"], "M8[s]")}, ValueError, "ids must not be missing"),
        ({"ids": [["a"]], "offsets": [0, 2]}, TypeError, "ids must be hashable, got list"),
        ({"offsets": [0, 1, 2], "ids": [7, 7]}, ValueError, "ids must be unique, got more than once: 7"),
        ({"offsets": [0, 1, 2], "ids": [(1, 2), (1, 2)]}, ValueError, r"more than once: \(1, 2\)"),
        ({"columns": ["x"]}, ValueError, "columns must be 2 unique names.*got 'x'"),
        ({"columns": ["x", "x"]}, ValueError, "columns must be 2 unique names"),
        ({"columns": "xy"}, TypeError, "columns must be a sequence of names"),
        ({"columns": [1, 2]}, TypeError, "columns must be text, got 1, 2"),
    ],
)
def test_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        Bags(**{"points": np.ones((2, 2)), "offsets": [0, 2], **arguments})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_not_finite_is_named(value, dtype):
    points = np.ones((6, 2), dtype)
    points[4, 1] = value
    with pytest.raises(ValueError, match=rf"must be finite, got {value} at bag 1, row 2, column 1 \(1 "):
        Bags(points, [0, 2, 6])
    points[0, 0] = -value
    where = r"bag 0 \(id 'p'\), row 0, column 'ra' \(2 such values in all\); remove those points"
    with pytest.raises(ValueError, match=where):
        Bags(points, [0, 2, 6], ids=["p", "q"], columns=["ra", "dec"])


def test_finite_values_whose_sum_overflows():
    points = np.full((4, 1), 3e38, np.float32)
    assert Bags(points, [0, 4]).n_points == 4


def test_masked_points_are_refused():
    masked = np.ma.masked_array(np.ones((2, 1)), [[True], [False]])
    with pytest.raises(ValueError, match="points must have no masked entries"):
        Bags(masked, [0, 2])
    assert Bags(np.ma.masked_array(np.ones((2, 1))), [0, 2]).n_points == 2


def test_overflowing_long_double_is_refused():
    huge = np.longdouble("1e400")
    if np.isinf(huge):
        pytest.skip("long double is no wider than double here")
    with pytest.raises(ValueError, match="points must be finite, got inf at bag 0, row 0"):
        Bags(np.full((1, 1), huge), [0, 1])


@pytest.mark.parametrize(
    ("ids", "kind", "values"),
    [
        (["a", "bb"], "U", ["a", "bb"]),
        (np.array(["a", "bb"], object), "U", ["a", "bb"]),
        ([3, 1], "i", [3, 1]),
        (np.array([3, 1], object), "i", [3, 1]),
        (range(2), "i", [0, 1]),
        ([0.5, 1.5], "f", [0.5, 1.5]),
        ([b"a", b"b"], "S", [b"a", b"b"]),
        (["a", 1], "O", ["a", 1]),
        ([(0, 1), (0, 2)], "O", [(0, 1), (0, 2)]),
    ],
)
def test_ids_are_canonical(ids, kind, values):
    bags = Bags(np.ones((2, 1)), [0, 1, 2], ids=ids)
    assert bags.ids.dtype.kind == kind
    assert bags.ids.tolist() == values


# ---------------------------------------------------------------------------------- immutability
def test_immutable():
    bags = full()
    for name in ("points", "offsets", "weights", "ids", "columns", "other", "_parts"):
        with pytest.raises(AttributeError, match=f"Bags is immutable: '{name}'"):
            setattr(bags, name, None)
    with pytest.raises(AttributeError, match="Bags is immutable"):
        del bags._parts
    for array in (bags.points, bags.offsets, bags.weights, bags.ids, bags[0], bags.weights_of(0)):
        assert not array.flags.writeable
    assert not hasattr(bags, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(bags)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copies_are_equal_and_read_only(duplicate):
    bags = full()
    other = duplicate(bags)
    assert other == bags
    assert other.has_ids
    assert other.columns == bags.columns
    for array in (other.points, other.offsets, other.weights, other.ids):
        assert not array.flags.writeable


def test_deepcopy_owns_its_memory():
    points = np.ones((2, 1))
    bags = Bags(points, [0, 2])
    other = copy.deepcopy(bags)
    points[0] = 5.0
    assert bags[0][0, 0] == 5.0
    assert other[0][0, 0] == 1.0


def test_equality():
    bags = full()
    same = Bags(bags.points.copy(), bags.offsets, bags.weights, bags.ids, bags.columns)
    assert bags == same
    assert (bags == same) is True
    points = bags.points.copy()
    points[0, 0] += 1
    assert bags != Bags(points, bags.offsets, bags.weights, bags.ids, bags.columns)
    assert bags != Bags(bags.points, [0, 4, 5, 8, 10], bags.weights, bags.ids, bags.columns)
    assert bags != Bags(bags.points, bags.offsets, bags.weights * 2, bags.ids, bags.columns)
    assert bags != Bags(bags.points, bags.offsets, None, bags.ids, bags.columns)
    assert bags != Bags(bags.points, bags.offsets, bags.weights, None, bags.columns)
    assert bags != Bags(bags.points, bags.offsets, bags.weights, bags.ids)
    assert bags != Bags(bags.points, bags.offsets, bags.weights, bags.ids, ["p", "q"])
    assert bags != bags[:2]
    assert bags != "bags"
    assert bags != Bags(bags.points, bags.offsets, bags.weights, np.arange("2026-01", "2026-05", dtype="M8[M]"))
    ones = Bags(np.ones((1, 1)), [0, 1])
    assert ones != ones.astype(np.float32)
    assert ones == Bags(np.ones((1, 1)), [0, 1], ids=[0], columns=["x0"])


def test_repr():
    assert repr(Bags.from_arrays(ragged())) == "Bags(n_bags=4, n_points=10, n_dims=2, sizes=1..4, dtype=float64)"
    text = repr(full(sizes=(2, 2), n_dims=5, dtype=np.float32))
    assert "sizes=2, dtype=float32, weighted, ids='id0'..'id1', columns=c0, c1, c2, c3, ...)" in text


def test_astype():
    bags = full()
    single = bags.astype("float32")
    assert single.dtype == single.weights.dtype == np.float32
    assert np.array_equal(single.points, bags.points.astype(np.float32))
    assert single.ids.tolist() == bags.ids.tolist()
    assert single.columns == bags.columns
    assert bags.astype(np.float64) is bags
    with pytest.raises(TypeError, match="dtype must be float32 or float64, got int64"):
        bags.astype(int)
    huge = Bags(np.array([[1.0], [1e300]]), [0, 1, 2], ids=["a", "b"])
    with pytest.raises(ValueError, match=r"points as float32 must be finite, got inf at bag 1 \(id 'b'\), row 0"):
        huge.astype(np.float32)
    with pytest.raises(ValueError, match="weights must have a positive, finite sum"):
        Bags(np.ones((1, 1)), [0, 1], weights=[1e-300]).astype(np.float32)


def test_replace_keeps_what_still_fits():
    bags = full()
    moved = bags.replace(points=bags.points.astype(np.float32) + 1)
    assert moved.ids.tolist() == bags.ids.tolist()
    assert moved.columns == bags.columns
    assert moved.weights.dtype == np.float32
    assert not moved.points.flags.writeable
    narrow = bags.replace(points=bags.points[:, :1])
    assert narrow.columns is None
    assert narrow.points.flags.c_contiguous
    heads = bags.offsets[:-1]
    firsts = bags.replace(points=bags.points[heads], offsets=np.arange(5), weights=None)
    assert firsts.sizes.tolist() == [1, 1, 1, 1]
    assert firsts.weights is None


# ----------------------------------------------------------------------------------- from_arrays
def test_from_arrays():
    arrays = ragged()
    bags = Bags.from_arrays(arrays)
    assert all(np.array_equal(bag, array) for bag, array in zip(bags, arrays, strict=True))
    assert Bags.from_arrays([[1, 2], [3]]).points.tolist() == [[1.0], [2.0], [3.0]]
    assert Bags.from_arrays([np.ones(2), np.ones((3, 1))]).sizes.tolist() == [2, 3]
    single = np.ones((2, 2), np.float32)
    assert Bags.from_arrays([single, single]).dtype == np.float32
    assert Bags.from_arrays([single, np.ones((1, 2))]).dtype == np.float64
    assert np.shares_memory(Bags.from_arrays([single]).points, single)
    lazy = Bags.from_arrays((a for a in arrays), weights=(np.ones(len(a)) for a in arrays))
    assert np.array_equal(lazy.points, bags.points)
    assert lazy.weights.tolist() == [1.0] * 10


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"arrays": []}, ValueError, "no bags: the sequence of arrays is empty"),
        ({"arrays": [[1.0], []]}, ValueError, "bag 1 is empty"),
        ({"arrays": [[1.0], []], "ids": ["a", "b"]}, ValueError, r"bag 1 \(id 'b'\) is empty"),
        ({"arrays": [[1.0], None]}, TypeError, "bag 1 is None; leave it out"),
        ({"arrays": [np.ones((2, 2)), np.ones((2, 3))]}, ValueError, "got 3 in bag 1 and 2 in bag 0"),
        ({"arrays": [np.ones((2, 2)), np.ones(2)]}, ValueError, "got 1 in bag 1 and 2 in bag 0"),
        ({"arrays": [1.0, 2.0]}, ValueError, r"bag 0 must be an array .* got shape \(\)"),
        ({"arrays": [np.ones((1, 1, 1))]}, ValueError, r"bag 0 must be an array .* got shape \(1, 1, 1\)"),
        ({"arrays": [[1.0], ["a"]]}, TypeError, "bag 1 must be real numbers .* got dtype <U1"),
        ({"arrays": [[[1.0], [2.0, 3.0]]]}, ValueError, "bag 0 must be a rectangular array"),
        ({"arrays": [[1.0], [np.nan]]}, ValueError, "points must be finite, got nan at bag 1, row 0"),
        ({"arrays": [[1.0]], "ids": ["a", "b"]}, ValueError, "one id a bag, got 2 ids for 1 bags"),
        ({"arrays": [[1.0]], "weights": []}, ValueError, "one array a bag, got 0 for 1 bags"),
        (
            {"arrays": [[1.0], [2.0]], "weights": [[1.0], [1.0, 2.0]], "ids": ["a", "b"]},
            ValueError,
            r"weights of bag 1 \(id 'b'\) must have shape \(1,\), got \(2,\)",
        ),
    ],
)
def test_from_arrays_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        Bags.from_arrays(**arguments)


def test_from_arrays_of_bags_points_to_concat():
    bags = full()
    with pytest.raises(TypeError, match="use concat"):
        Bags.from_arrays([bags, bags])
    with pytest.raises(TypeError, match="use concat"):
        as_bags([bags, bags])


@seeded
@given(ragged_arrays())
def test_from_arrays_round_trip(arrays):
    bags = Bags.from_arrays(arrays)
    assert bags.dtype == arrays[0].dtype
    assert bags.sizes.tolist() == [len(array) for array in arrays]
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(bags[i], array)
    assert as_bags(list(bags)) == bags


# -------------------------------------------------------------------------------------- indexing
def assert_selects(bags, key, positions):
    """`bags[key]` is what a loop over `positions` finds, part by part."""
    chosen = bags[key]
    assert isinstance(chosen, Bags)
    assert chosen.n_bags == len(positions)
    assert chosen.points.flags.c_contiguous
    assert chosen.offsets[0] == 0
    assert chosen.columns == bags.columns
    assert chosen.has_ids == bags.has_ids
    for new, old in enumerate(positions):
        np.testing.assert_array_equal(chosen[new], bags[old])
        if bags.weights is not None:
            np.testing.assert_array_equal(chosen.weights_of(new), bags.weights_of(old))
        if bags.has_ids:
            assert chosen.ids[new] == bags.ids[old]


@seeded
@given(bags=any_bags(), data=st.data())
def test_indexing_equals_list_indexing(bags, data):
    n = bags.n_bags
    everything = list(range(n))
    integers = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=2 * n))
    assert_selects(bags, integers, [everything[i] for i in integers])
    assert_selects(bags, (np.array(integers), ...), [everything[i] for i in integers])
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    assert_selects(bags, mask, [i for i in everything if mask[i]])
    key = data.draw(st.slices(n).filter(lambda s: everything[s]))
    assert_selects(bags, key, everything[key])


def test_one_bag():
    bags, arrays = full(), ragged()
    for i in (0, 3, -1, -4, np.int32(2), np.uint8(1)):
        assert np.array_equal(bags[i], arrays[i])
        assert np.shares_memory(bags[i], bags.points)
    assert np.array_equal(bags[2, ...], arrays[2])


def test_consecutive_bags_are_views_and_others_are_not():
    bags = full()
    for key in (slice(1, 3), slice(None), [1, 2], np.array([False, True, True, False]), slice(-2, None)):
        assert np.shares_memory(bags[key].points, bags.points)
        assert np.shares_memory(bags[key].weights, bags.weights)
    for key in ([1, 3], [1, 1], slice(None, None, -1), slice(0, 4, 2)):
        assert not np.shares_memory(bags[key].points, bags.points)


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (4, IndexError, "bag 4 .*is out of bounds for 4 bags; use positions from -4 to 3, and to select by id"),
        (-5, IndexError, "bag -5 .*is out of bounds for 4 bags"),
        ([0, 9], IndexError, r"bag 9 \(entry 1 of the selection\) is out of bounds for 4 bags"),
        ([-7], IndexError, "bag -7 .*is out of bounds"),
        ([True, False], IndexError, "one entry a bag, got 2 for 4 bags; make it from these bags, such as"),
        ([], ValueError, "no bags: the selection is empty"),
        ([False] * 4, ValueError, "no bags: the selection is empty"),
        (slice(2, 2), ValueError, "no bags: the selection is empty"),
        ([0.0], TypeError, "1-D array of positions, got list of dtype float64"),
        ("id0", TypeError, r"got str .*to select by id use bags.select\(wanted\)"),
        (True, TypeError, "bags are selected by an integer"),
        (None, TypeError, "bags are selected by an integer"),
        (np.zeros((2, 2), int), TypeError, r"shape \(2, 2\)"),
        ([[0, 1]], TypeError, r"shape \(1, 2\)"),
        ((0, 1), TypeError, "bags are selected by an integer.*got tuple"),
        ((slice(None), 0), TypeError, "bags are selected by an integer.*got tuple"),
    ],
)
def test_indexing_refusals(key, error, text):
    with pytest.raises(error, match=text):
        full()[key]


def test_repeated_selection_repeats_ids_and_is_refused_where_ids_must_differ(tmp_path):
    twice = full()[[1, 1]]
    assert twice.ids.tolist() == ["id1", "id1"]
    assert twice.align({"id1": 3.0}).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="more than once: 'id1'; a table would merge"):
        twice.to_frame("pyarrow")
    with pytest.raises(ValueError, match=r"more than once: 'id1'; .*before saving"):
        twice.save(tmp_path / "b.npz")
    assert not list(tmp_path.iterdir())


def test_a_gather_of_many_points_makes_no_python_loop_over_bags(monkeypatch):
    """A million points in a hundred thousand bags: every array operation is counted by bag views made."""
    n_bags = 100_000
    bags = Bags(np.arange(1e6)[:, None], np.arange(n_bags + 1) * 10)
    views = []
    monkeypatch.setattr(Bags, "_span", lambda self, i: views.append(i))
    chosen = bags[::-1]
    assert not views
    assert chosen.points[:10, 0].tolist() == list(range(999_990, 1_000_000))
    assert chosen.points[-10:, 0].tolist() == list(range(10))
    assert chosen.n_points == 1_000_000


# ---------------------------------------------------------------------------------- scikit-learn
class MeanSize(RegressorMixin, BaseEstimator):
    """Predicts scale times the number of points of a bag: enough to see that splits keep bags and targets."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y):
        assert isinstance(X, Bags)
        assert X.n_bags == len(y)
        self.n_bags_ = X.n_bags
        return self

    def predict(self, X):
        assert isinstance(X, Bags)
        return self.scale * X.sizes


def many():
    rng = np.random.default_rng(3)
    return full(sizes=tuple(rng.integers(1, 9, 24)))


def test_train_test_split():
    bags = many()
    first, second, y_first, y_second = train_test_split(bags, bags.sizes, random_state=0)
    assert isinstance(first, Bags)
    assert isinstance(second, Bags)
    assert np.array_equal(first.sizes, y_first)
    assert np.array_equal(second.sizes, y_second)
    assert sorted([*first.ids, *second.ids]) == sorted(bags.ids)


def test_folds():
    bags = many()
    for split in (KFold(4), KFold(3, shuffle=True, random_state=0), StratifiedKFold(2)):
        seen = []
        for train, test in split.split(bags, np.arange(24) % 2):
            assert bags[train].n_bags + bags[test].n_bags == 24
            seen += bags[test].ids.tolist()
        assert sorted(seen) == sorted(bags.ids)
    predicted = cross_val_predict(MeanSize(), bags, bags.sizes, cv=4)
    assert np.array_equal(predicted, bags.sizes)


def test_grid_search():
    bags = many()
    search = GridSearchCV(MeanSize(), {"scale": [0.5, 1.0, 2.0]}, cv=3).fit(bags, bags.sizes)
    assert search.best_params_ == {"scale": 1.0}
    assert search.best_score_ == 1.0
    assert np.array_equal(search.predict(bags[5:9]), bags.sizes[5:9])


@pytest.mark.parametrize("indices", [[2, 0], (2, 0), np.array([2, 0]), slice(1, 3), np.arange(24) > 20])
def test_safe_indexing(indices):
    bags = many()
    key = list(indices) if isinstance(indices, tuple) else indices
    assert _safe_indexing(bags, indices) == bags[key]
    assert np.array_equal(_safe_indexing(bags, 3), bags[3])


# ---------------------------------------------------------------------------------------- concat
def test_concat_is_the_inverse_of_splitting():
    bags = full()
    assert concat([bags[:1], bags[1:3], bags[3:]]) == bags
    assert concat(part for part in (bags[[0]], bags[1:])) == bags
    assert concat([bags]) == bags


@seeded
@given(ragged_arrays(), st.data())
def test_concat_of_any_bags(arrays, data):
    cut = data.draw(st.integers(1, len(arrays)))
    parts = [chunk for chunk in (arrays[:cut], arrays[cut:]) if chunk]
    assert concat([Bags.from_arrays(chunk) for chunk in parts]) == Bags.from_arrays(arrays)


def test_concat_fills_weights_and_columns_and_widens():
    plain = Bags(np.ones((2, 1), np.float32), [0, 2])
    weighted = Bags(np.ones((1, 1)), [0, 1], weights=[3.0], columns=["x"])
    joined = concat([plain, weighted])
    assert joined.weights.tolist() == [1.0, 1.0, 3.0]
    assert joined.dtype == joined.weights.dtype == np.float64
    assert joined.columns == ("x",)
    assert not joined.has_ids
    both = concat([plain, plain.replace(weights=np.ones(2, np.float32))])
    assert both.dtype == both.weights.dtype == np.float32


def test_concat_keeps_kinds_of_ids_apart():
    text, number, same = (Bags(np.ones((1, 1)), [0, 1], ids=[name]) for name in ("1", 2, 1))
    assert concat([text, number]).ids.tolist() == ["1", 2]
    with pytest.raises(ValueError, match=r"got more than once: '1', 1 \('1' and 1 are one id\); rename them"):
        concat([text, same])
    longer = Bags(np.ones((1, 1)), [0, 1], ids=["longer"])
    assert concat([text, longer]).ids.tolist() == ["1", "longer"]


def test_concat_refusals():
    bags = full()
    other = full(n_dims=3)
    text = "equal width, got n_dims=3 at position 1 and n_dims=2 at position 0; give all of them the same columns"
    with pytest.raises(ValueError, match=text):
        concat([bags, other])
    bare = Bags(bags.points, bags.offsets)
    with pytest.raises(ValueError, match=r"ids at position 0 and none at position 1; give those bags ids with Bags\("):
        concat([bags, bare])
    with pytest.raises(ValueError, match="ids at position 1 and none at position 0"):
        concat([bare, bags])
    with pytest.raises(ValueError, match="more than once: 'id0', 'id1', 'id2', 'id3'; rename them"):
        concat([bags, bags])
    renamed = Bags(bags.points, bags.offsets, ids=list("pqrs"), columns=["u", "v"])
    with pytest.raises(
        ValueError, match=r"equal columns, got \('u', 'v'\) at position 1 .*'c1'\) .*; reorder or rename"
    ):
        concat([bags, renamed])
    with pytest.raises(ValueError, match="no bags: concat got an empty list"):
        concat([])
    with pytest.raises(TypeError, match=r"got one Bags; write concat\(\[a, b\]\)"):
        concat(bags)
    with pytest.raises(TypeError, match="got list at position 1; use as_bags"):
        concat([bags, [[1.0]]])


# ----------------------------------------------------------------------------------------- align
def test_align_mapping():
    bags = full()
    y = bags.align({"id3": 3, "id1": 1, "id0": 0, "id2": 2})
    assert y.tolist() == [0, 1, 2, 3]
    numbered = Bags(np.ones((2, 1)), [0, 1, 2], ids=[20, 10])
    assert numbered.align({10: "ten", 20: "twenty"}).tolist() == ["twenty", "ten"]
    assert Bags(np.ones((2, 1)), [0, 1, 2]).align({1: 0.5, 0: 1.5}).tolist() == [1.5, 0.5]


def test_align_refusals():
    bags = full(sizes=(1,) * 8)
    with pytest.raises(
        ValueError, match=r"missing: 'id1', .*'id5', \.\.\. \(7 in all\); add them, or leave those bags o"
    ):
        bags.align({"id0": 1})
    with pytest.raises(ValueError, match="only ids of the bags, unknown: 'z'; leave those out"):
        bags.align({**dict.fromkeys(bags.ids.tolist(), 1), "z": 2})
    for targets in (np.arange(8), list(range(8)), "id0"):
        with pytest.raises(TypeError, match=r"targets must be a mapping .*dict\(zip"):
            bags.align(targets)


# ----------------------------------------------------------------------------------------- files
@seeded
@given(bags=any_bags(), compress=st.booleans())
def test_save_round_trip(tmp_path_factory, bags, compress):
    path = tmp_path_factory.mktemp("bags") / "b.any"
    bags.save(path, compress=compress)
    assert [file.name for file in path.parent.iterdir()] == ["b.any"]
    back = Bags.load(str(path))
    assert back == bags
    assert back.has_ids == bags.has_ids
    assert back.columns == bags.columns
    assert not back.points.flags.writeable


def test_save_dates_and_refuse_objects(tmp_path):
    days = np.array(["2026-01-01", "2026-01-02"], "M8[D]")
    bags = Bags(np.ones((2, 1)), [0, 1, 2], ids=days)
    bags.save(tmp_path / "b.npz")
    assert Bags.load(tmp_path / "b.npz").ids.dtype == days.dtype
    mixed = Bags(np.ones((2, 1)), [0, 1, 2], ids=["a", 1])
    with pytest.raises(TypeError, match=r"ids must be numbers, text, bytes or dates .* \(int, str\)"):
        mixed.save(tmp_path / "c.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["b.npz"]


def test_save_into_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder '.*nowhere' does not exist"):
        full().save(tmp_path / "nowhere" / "b.npz")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "b.npz"
    full().save(path)

    def fail(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        full(seed=5).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["b.npz"]
    assert Bags.load(path) == full()


def rewrite(path, **changes):
    with np.load(path) as archive:
        entries = {**archive, **changes}
    np.savez(path, **{name: value for name, value in entries.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"points": None}, "it lacks 'points'"),
        ({"offsets": None}, "it lacks 'offsets'"),
        ({"weights": None}, "it lacks 'weights'"),
        ({"ids": None, "columns": None}, "it lacks 'columns', 'ids'"),
        ({"format": None}, "it was not written by Bags.save"),
        ({"format": "other"}, "it was not written by Bags.save"),
        ({"version": 4}, "its format version is 4, and this distembed reads up to 3; upgrade distembed"),
        ({"offsets": np.array([0, 4, 5, 8, 11])}, "offsets must end at the number of points"),
        ({"points": np.full((10, 2), np.nan)}, r"points must be finite, got nan at bag 0 \(id 'id0'\)"),
        ({"ids": np.array(["a"] * 4)}, "ids must be unique"),
        ({"ids": np.array([1, "a", 2, 3], object)}, "allow_pickle=False"),
        ({"columns": np.array(["a"])}, "columns must be 2 unique names"),
        ({"columns": np.array("ab")}, "columns must be a sequence"),
    ],
)
def test_load_refuses(tmp_path, changes, text):
    path = tmp_path / "b.npz"
    full().save(path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=rf"can't read bags from '.*b\.npz': .*{text}"):
        Bags.load(path)


def test_load_refuses_other_bytes(tmp_path):
    path = tmp_path / "b.npz"
    full().save(path)
    whole = path.read_bytes()
    array = tmp_path / "array.npy"
    np.save(array, np.ones(3))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "no bags")
    cases = [b"", b"text", whole[:200], whole[:-20], pickle.dumps({"a": 1})]
    for content in [*cases, array.read_bytes(), (tmp_path / "other.zip").read_bytes()]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"can't read bags from '.*b\.npz': "):
            Bags.load(path)
    with pytest.raises(FileNotFoundError):
        Bags.load(tmp_path / "absent.npz")


@pytest.mark.parametrize("compress", [False, True])
def test_no_flipped_byte_goes_unnoticed(tmp_path, compress):
    path, bags = tmp_path / "b.npz", full(sizes=(1, 2))
    bags.save(path, compress=compress)
    whole, refused = path.read_bytes(), 0
    for i in range(int(compress), len(whole), 7):
        damaged = bytearray(whole)
        damaged[i] ^= 0xFF
        path.write_bytes(damaged)
        try:
            back = Bags.load(path)
        except ValueError:
            refused += 1
        else:
            assert back == bags  # the byte was padding, a date or a permission
    assert refused > len(whole) // 14


# --------------------------------------------------------------------------------------- imports
def test_importing_bags_imports_no_frame_library():
    code = f"""
import sys, types
package = sys.modules["distembed"] = types.ModuleType("distembed")  # the modules of bags alone
package.__path__ = [{str(Path(bags_module.__file__).parents[1])!r}]
import numpy as np
from distembed.bags import Bags, as_bags
as_bags([np.ones((2, 1))]), as_bags(np.ones((2, 2, 2)))
Bags.from_frame({{"b": ["x", "y"], "v": [1.0, 2.0]}}, bag="b").align({{"x": 1, "y": 2}})
print([m for m in ("pandas", "polars", "pyarrow", "awkward", "sklearn", "scipy") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_integer_ids_beyond_int64_stay_integers():
    big = 2**63
    bags = Bags.from_frame({"g": [big + 1, big + 2, 5], "x": [1.0, 2.0, 3.0]}, bag="g")
    assert bags.n_bags == 3
    assert bags.align({big + 1: 1, big + 2: 2, 5: 3}).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="must be another column than bag"):
        Bags.from_frame({"g": [1], "x": [1.0]}, bag="g", weights="g")
