"""Sketches of pieces of bags: what they promise beyond the contract of the family."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import distembed as de
from distembed.embeddings.sketches import row_from_pieces

BAGS = de.Bags.from_arrays([np.random.default_rng(i).beta(2, 3, size=(50, 2)) for i in range(8)])
ADDITIVE = {
    "hdd": de.HDDEmbedding(n_basis=3),
    "histogram density": de.HDDEmbedding(n_basis=3, density="histogram"),
    "scattered nodes": de.HDDEmbedding(n_basis=3, nodes=de.Sobol(256)),
    "l2": de.L2Embedding(4),
    "l2 of points": de.L2Embedding(4, method="points"),
    "mean": de.MeanEmbedding(40, random_state=0),
    "spectrum": de.MeanEmbedding(40, method="spectrum"),
    "histogram": de.HistogramEmbedding(bins=4),
    "codebook": de.CodebookEmbedding(6, random_state=0),
    "d3": de.MomentEmbedding("d3"),
    "covariance": de.MomentEmbedding("covariance", scale=True),
    "fisher": de.FisherEmbedding(3, random_state=0),
    "improved fisher": de.FisherEmbedding(3, improved=True, covariance="whitened", random_state=0),
    "marginals": de.Marginals(de.HDDEmbedding(n_basis=3)),
    "marginals of moments": de.Marginals(de.MomentEmbedding("deviation"), "pairs"),
    "projections": de.Marginals(de.HistogramEmbedding(bins=4), 3, random_state=0),
}
OTHERS = {
    "bandwidth of each bag": (de.HDDEmbedding(n_basis=3, density=de.KDE(per_bag=True)), "a bandwidth of its own"),
    "neighbours": (de.HDDEmbedding(n_basis=3, density="knn"), "needs all of its points; use density='kde'"),
    "sorted projections": (de.SlicedWassersteinEmbedding(3), "no attribute 'partial'"),
    "marginals of these": (de.Marginals(de.SlicedWassersteinEmbedding(3)), "SlicedWassersteinEmbedding has none"),
}


@pytest.mark.parametrize("name", ADDITIVE)
@pytest.mark.parametrize("seed", [0, 1])
def test_pieces_of_any_number_in_any_order_make_the_row(name, seed):
    embedding, rng = ADDITIVE[name].fit(BAGS), np.random.default_rng(seed)
    points, weights = BAGS[0], rng.uniform(0.1, 3, size=50)
    cuts = np.sort(rng.choice(np.arange(1, 50), size=6, replace=False))
    order = rng.permutation(50)
    parts = np.split(order, cuts)
    wanted = embedding.transform(de.Bags(points, [0, 50], weights))[0]
    sketches = [embedding.partial(points[rows], weights[rows]) for rows in parts]
    for some in (sketches, sketches[::-1]):
        np.testing.assert_allclose(row_from_pieces(embedding, some), wanted, rtol=1e-9, atol=1e-12)
    single = [embedding.partial(points[rows].astype(np.float32)) for rows in parts]
    assert row_from_pieces(embedding, single).dtype == np.float32
    assert row_from_pieces(embedding, [*single, sketches[0]]).dtype == np.float64


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_where_statistics_do_not_add_up_there_are_none(name):
    embedding, reason = OTHERS[name]
    fitted = embedding.fit(BAGS)
    assert not hasattr(fitted, "partial")
    assert not hasattr(fitted, "merge")
    with pytest.raises(AttributeError) as caught:
        fitted.partial(BAGS[0])
    assert reason in str(caught.value) + str(caught.value.__cause__)


def test_a_point_of_no_weight_and_no_points_at_all_count_for_nothing():
    embedding = de.MomentEmbedding("mean").fit(BAGS)
    nothing = embedding.merge(embedding.partial(np.empty((0, 2))), embedding.partial([[9.0, 9.0]], [0.0]))
    assert (nothing.n_points, nothing.weight, nothing.means.size) == (1, 0.0, 0)
    one = embedding.partial([[1.0, 2.0]])
    for merged in (embedding.merge(nothing, one), embedding.merge(one, nothing)):
        assert (merged.n_points, merged.weight, merged.means.tolist()) == (2, 1.0, [1.0, 2.0])
    with pytest.raises(ValueError, match="points of positive weight, got none; merge it"):
        embedding.finish(nothing)


def test_categorical_columns():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(size=60), rng.integers(0, 3, size=60)])
    bags = de.Bags(points, [0, 20, 60], categories={1: ["a", "b", "c"]})
    embedding = de.HDDEmbedding("js", n_basis=4).fit(bags)
    pieces = [
        bags.replace(points=points[20:30], offsets=np.array([0, 10])),
        bags.replace(points=points[30:], offsets=np.array([0, 30])),
    ]
    row = row_from_pieces(embedding, [embedding.partial(piece) for piece in pieces])
    np.testing.assert_allclose(row, embedding.transform(bags)[1], atol=1e-12)


def test_offsets_cost_no_digits():
    """Deviations of points far from zero, and in units whose squares vanish or overflow."""
    for unit in (1.0, 1e-200, 1e150):
        x = np.random.default_rng(0).normal(size=(40, 1)) * unit + 1e9 * unit
        embedding = de.MomentEmbedding("deviation").fit([x])
        row = row_from_pieces(embedding, [embedding.partial(piece) for piece in np.split(x, 8)])
        np.testing.assert_allclose(row, embedding.transform([x])[0], rtol=1e-7)
    constant = de.MomentEmbedding("deviation").fit([[[0.1], [0.2]]])
    assert row_from_pieces(constant, [constant.partial([[0.1]] * n) for n in (1, 5, 7)])[1] == 0


def test_files(tmp_path):
    embedding = de.HistogramEmbedding(bins=3).fit(BAGS)
    sketch = embedding.partial(BAGS[0].astype(np.float32))
    sketch.save(tmp_path / "s.npz")
    again = de.Sketch.load(tmp_path / "s.npz")
    assert (again.owner, again.n_points, again.weight, again.dtype) == ("HistogramEmbedding", 50, 50.0, "float32")
    assert np.array_equal(embedding.finish(again), embedding.finish(sketch))
    (tmp_path / "t.npz").write_bytes(b"something else")
    np.savez(tmp_path / "u.npz", format=np.array("distembed.Sketch/1"), means=np.array([np.nan]))
    for name in ("t.npz", "u.npz"):
        with pytest.raises(ValueError, match=r"can't read a sketch from .*; give a file that Sketch.save wrote"):
            de.Sketch.load(tmp_path / name)
    fields = {"owner": "HistogramEmbedding", "n_points": 3, "weight": -1.0, "means": np.ones(9), "dtype": "float64"}
    np.savez(tmp_path / "v.npz", format=np.array("distembed.Sketch/1"), **fields)
    with pytest.raises(ValueError, match=r"is not a sketch as embedding.partial makes it"):
        de.Sketch.load(tmp_path / "v.npz")


def test_errors():
    embedding, other = de.HistogramEmbedding(bins=3).fit(BAGS), de.HistogramEmbedding(bins=4).fit(BAGS)
    with pytest.raises(NotFittedError):
        de.HistogramEmbedding().partial(BAGS[0])
    with pytest.raises(ValueError, match=r"of this embedding, of 9 statistics, got one of HistogramEmbedding with 16"):
        embedding.merge(embedding.partial(BAGS[0]), other.partial(BAGS[0]))
    with pytest.raises(TypeError, match=r"must be a sketch, got ndarray; make one of points by"):
        embedding.finish(np.ones(9))
    with pytest.raises(ValueError, match="points must lie in the unit cube"):
        embedding.partial([[0.5, 2.0]])
    with pytest.raises(ValueError, match="2 dimension"):
        embedding.partial([[0.5, 0.2, 0.1]])
    with pytest.raises(ValueError, match="Bags must be one bag, which has its own weights, got 8; use partials"):
        embedding.partial(BAGS)
