"""Bags without points: how they are made, kept and refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import distembed as de
from distembed import Bags

POINTS = np.arange(8.0).reshape(4, 2)


def some(**more):
    return Bags(POINTS, [0, 0, 3, 3, 4, 4], empty="allow", **more)


def test_empty_bags_are_made_only_when_asked():
    with pytest.raises(ValueError, match="bag 0 is empty, and a bag has at least one point; leave it out"):
        Bags(POINTS, [0, 0, 4])
    with pytest.raises(ValueError, match=r"bag 1 is empty.* pass empty='allow'"):
        Bags.from_arrays([[1.0], []])
    with pytest.raises(ValueError, match="must be one of 'error', 'allow', got 'keep'"):
        Bags(POINTS, [0, 4], empty="keep")
    with pytest.raises(ValueError, match="offsets must increase, got 3 then 2"):
        Bags(POINTS, [0, 3, 2, 4], empty="allow")
    assert some().sizes.tolist() == [0, 3, 0, 1, 0]
    assert some().has_empty
    assert not some()[[1, 3]].has_empty
    assert "empty=3" in repr(some())
    assert "empty" not in repr(some()[[1]])


def test_selection_order_and_joining():
    bags = some(ids=list("abcde"))
    np.testing.assert_array_equal(bags[1], POINTS[:3])
    assert bags[0].shape == bags[4].shape == (0, 2)
    assert bags[[4, 3, 0]].sizes.tolist() == [0, 1, 0]
    assert bags[::-1].ids.tolist() == list("edcba")
    assert bags[2:4].sizes.tolist() == [0, 1]
    assert bags[[0]].n_points == 0
    assert de.concat([bags[[0]], bags[[1]]]).sizes.tolist() == [0, 3]
    assert [len(each) for each in bags] == [0, 3, 0, 1, 0]
    assert pickle.loads(pickle.dumps(bags)) == bags
    assert "highest" in bags._repr_html_()


def test_arrays_without_points_have_any_width():
    bags = Bags.from_arrays([[], POINTS, np.empty((0, 2))], empty="allow")
    assert bags.sizes.tolist() == [0, 4, 0]
    assert Bags.from_arrays([[], np.float32([[1.0]])], empty="allow").dtype == np.float32
    with pytest.raises(ValueError, match="same number of coordinates, got 3 in bag 1 and 2 in bag 0"):
        Bags.from_arrays([POINTS, np.empty((0, 3))], empty="allow")
    with pytest.raises(ValueError, match=r"all bags are empty.* give np.empty"):
        Bags.from_arrays([[], []], empty="allow")
    assert Bags.from_arrays([np.empty((0, 3))], empty="allow").n_dims == 3


def test_weights_skip_empty_bags():
    bags = some(weights=[1.0, 2.0, 3.0, 5.0])
    np.testing.assert_allclose(bags.shares(), [1 / 6, 2 / 6, 3 / 6, 1])
    filled = bags[[1, 3]]
    np.testing.assert_array_equal(bags.pooled_weights(), filled.pooled_weights())
    assert bags.keep_points(np.array([False, True, False, True])).sizes.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(ValueError, match=r"positive, finite sum in every bag, got 0\.0 in bag 3"):
        some(weights=[1.0, 2.0, 3.0, 0.0])


def test_files_keep_empty_bags(tmp_path):
    bags = some(ids=list("abcde"), columns=["x", "y"])
    bags.save(tmp_path / "b.npz")
    assert Bags.load(tmp_path / "b.npz") == bags
    assert Bags.load(tmp_path / "b.npz").has_empty


def test_frames_give_empty_bags_by_dropping_rows_and_by_ids():
    pd = pytest.importorskip("pandas")
    plots = pd.DataFrame({"plot": ["a", "b", "b"], "mass": [np.nan, 1.0, 2.0]})  # as a left join makes them
    with pytest.raises(ValueError, match="leaves none"):
        Bags.from_frame(plots, bag="plot", nan="drop")
    assert Bags.from_frame(plots, bag="plot", nan="drop", empty="allow").sizes.tolist() == [0, 2]
    bags = Bags.from_frame(plots.dropna(), bag="plot").select(["z", "b", "a", "b"], empty="allow")
    assert (bags.ids.tolist(), bags.sizes.tolist()) == (["z", "b", "a", "b"], [0, 2, 0, 2])
    with pytest.raises(ValueError, match="unknown: 'z'"):
        bags[[1]].select(["z"])


@pytest.mark.parametrize(
    "refuses",
    [
        de.as_bags,
        lambda bags: clone(de.Standardize()).fit(bags),
        lambda bags: de.UnitCube().fit(bags[[1, 3]]).transform(bags),
        lambda bags: de.MeanEmbedding(4).fit(bags),
        lambda bags: de.MomentEmbedding("mean").fit(bags[[1, 3]]).transform(bags),
        lambda bags: de.two_sample.groups_test(bags[:2], bags[2:]),
        lambda bags: de.divergences.knn(bags, k=1),
        lambda bags: de.sizes.split_half_distances(de.MomentEmbedding("mean").fit(bags[[1, 3]]), bags),
        lambda bags: bags.to_frame(),
    ],
)
def test_everything_but_learners_refuses(refuses):
    with pytest.raises(ValueError, match=r"bag 0 is empty \(\d such bags? of \d\), and only fit and predict of Dist"):
        refuses(some())
