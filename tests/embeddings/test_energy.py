"""What a basis captures of the squared distances between bags, against the oracle; what it loses beyond noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import distembed as de
import exact
from distembed.basis import LowEnergyWarning
from distembed.embeddings.density_base import LITTLE_LOST
from distembed.embeddings.energy import Comoment, split_in_two

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast


def clouds(sizes=(50, 90, 30, 60), n_dims=1, seed=0):
    rng = np.random.default_rng(seed)
    return de.Bags.from_arrays([rng.normal(rng.uniform(0.3, 0.7), 0.1, (n, n_dims)).clip(0, 1) for n in sizes])


def captured_of_pairs(embedding, bags):
    """The captured share, from features of all functions that the nodes tell apart."""
    given = {"bandwidth": tuple(embedding.bandwidth_), "nodes": de.Grid(embedding.nodes_.shape)}
    whole = de.HDDEmbedding(embedding.distance, n_basis=embedding.nodes_.shape, **given).fit(bags)
    each = [pdist(fitted.transform(bags), "sqeuclidean") for fitted in (embedding, whole)]
    return each[0].sum() / each[1].sum()


def lambda_functions(bags, embedding):
    rule = embedding.lambdas_, embedding.lambda_weights_
    nodes = embedding.nodes_.points
    return [exact.lambda_functions(exact.kde(x, nodes, embedding.bandwidth_), *rule) for x in bags]


@pytest.mark.parametrize("distance", ["js", "hellinger"])
def test_energy_and_lost_signal_are_those_of_the_oracle(distance):
    bags = clouds()
    embedding = de.HDDEmbedding(distance, n_basis=4, bandwidth=0.05, nodes=de.Grid(128), n_lambdas=2).fit(bags)
    first, second = split_in_two(bags)
    basis = exact.tensor_basis(embedding.nodes_.points, 4)
    whole, *halves = (lambda_functions(each, embedding) for each in (bags, first, second))
    weights = embedding.nodes_.weights
    assert embedding.energy_ == pytest.approx(exact.captured_share(whole, basis, weights), abs=2e-3)
    assert embedding.lost_signal_ == pytest.approx(exact.lost_signal(whole, *halves, basis, weights), abs=2e-3)
    assert embedding.energy_ + embedding.lost_signal_ < 1  # and the rest is noise


def test_energy_is_the_captured_share_of_the_squared_distances_of_cells():
    bags = de.UnitCube().fit_transform(de.datasets.make_cells(60, random_state=0)[0])
    few = de.HDDEmbedding("js").fit(bags[:30])
    assert few.energy_ == pytest.approx(captured_of_pairs(few, bags[:30]), rel=1e-9)
    many = de.HDDEmbedding("js").fit(bags)  # looks at 32 of them
    assert many.energy_ == pytest.approx(captured_of_pairs(many, bags), abs=0.03)
    assert many.energy_ < 0.8  # most of what is missing is noise
    assert many.lost_signal_ < 0.05


def test_a_basis_that_misses_the_faces_warns():
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays([x for _ in range(3) for x in (rng.beta(0.5, 0.5, 5000), rng.uniform(size=5000))])
    with pytest.warns(LowEnergyWarning, match="distances come out too small; raise n_basis or bandwidth_scale"):
        embedding = de.HDDEmbedding("js").fit(bags)
    assert embedding.energy_ < 0.6
    assert embedding.lost_signal_ > 0.2


@pytest.mark.parametrize("distance", ["js", "hellinger"])
def test_noise_that_a_basis_misses_does_not_warn(distance):
    bags = np.random.default_rng(0).beta(3, 3, size=(40, 400, 1))  # differ by chance alone
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = de.HDDEmbedding(distance, bandwidth=0.01).fit(bags)
    assert embedding.energy_ < 0.6
    assert embedding.lost_signal_ < 0.1
    assert de.HDDEmbedding(distance, n_basis="auto", bandwidth=0.01).fit(bags).n_basis_ == 10


@pytest.mark.parametrize("n_points", [300, 3000])
def test_automatic_functions_are_enough_for_what_differs(n_points):
    rng = np.random.default_rng(0)
    places = np.linspace(0.05, 0.95, 12)
    modes = [rng.choice(places, n_points, p=rng.dirichlet(np.full(12, 2.0))) for _ in range(20)]
    bags = de.as_bags((np.array(modes) + rng.normal(0, 0.012, (20, n_points)))[..., None].clip(0, 1))
    auto = de.HDDEmbedding("hellinger", n_basis="auto").fit(bags)
    assert auto.lost_signal_ <= LITTLE_LOST
    assert 22 <= auto.n_basis_ <= 33  # true shares of 10, 15, 22, 33: .52, .71, .90, .99
    fewer = de.HDDEmbedding("hellinger", n_basis=round(auto.n_basis_ / 1.5)).fit(bags)
    assert fewer.lost_signal_ > LITTLE_LOST


@pytest.mark.parametrize(
    "bags",
    [[[0.2, 0.3, 0.9]], [[0.2, 0.3, 0.9]] * 3, [[0.2, 0.3, 0.9], [0.9, 0.3, 0.2]]],
    ids=["one", "copies", "order"],
)
def test_bags_that_do_not_differ_lose_nothing(bags):
    for embedding in (de.HDDEmbedding("js", n_basis=2), de.L2Embedding(2)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            embedding.set_params(bandwidth=0.02).fit(de.Bags.from_arrays(bags))
        assert (embedding.energy_, embedding.lost_signal_) == (1.0, 0.0)


@pytest.mark.parametrize("nodes", [de.Sobol(2048), de.MonteCarlo(4096), "importance"])
def test_scattered_nodes_find_the_share_of_the_distances_on_them(nodes):
    bags = clouds((100,) * 6, 2)
    embedding = de.L2Embedding(3, 0.08, nodes=nodes, random_state=0).fit(bags)
    p = np.array([exact.kde(x, embedding.nodes_.points, embedding.bandwidth_) for x in bags])
    whole = pdist(p * np.sqrt(embedding.nodes_.weights), "sqeuclidean").sum()
    assert embedding.energy_ == pytest.approx(pdist(embedding.transform(bags), "sqeuclidean").sum() / whole, rel=1e-6)


def test_energy_with_categories_is_that_of_the_features():
    rng = np.random.default_rng(0)
    arrays = [np.column_stack([rng.beta(a, 2, 80), rng.uniform(size=80) < a / 6]) for a in (1, 2, 3, 4, 5)]
    arrays.append(np.column_stack([rng.beta(2, 2, 40), np.zeros(40)]))  # no point in the other cell
    bags = de.Bags.from_arrays(arrays, categories={1: ["no", "yes"]})
    embedding = de.HDDEmbedding("hellinger", n_basis=3, bandwidth=0.05).fit(bags)
    assert embedding.energy_ == pytest.approx(captured_of_pairs(embedding, bags), rel=1e-9)
    assert embedding.node_mass_ == pytest.approx(1, abs=1e-6)


def test_the_order_of_bags_and_points_does_not_matter():
    bags = clouds()
    again = de.Bags.from_arrays([bags[i][::-1] for i in (2, 0, 3, 1)])
    found = [de.HDDEmbedding(n_basis=3, bandwidth=0.05).fit(each) for each in (bags, again)]
    assert found[0].energy_ == pytest.approx(found[1].energy_, rel=1e-9)
    assert found[0].lost_signal_ == pytest.approx(found[1].lost_signal_, rel=1e-9)


def test_halves_share_no_point():
    bags = de.Bags(np.arange(13.0)[:, None], [0, 6, 12, 13], weights=np.arange(1.0, 14.0))
    first, second = split_in_two(bags)
    assert first.sizes.tolist() == second.sizes.tolist() == [3, 3, 1]
    for half in (first, second):
        np.testing.assert_array_equal(half.weights, half.points[:, 0] + 1)
    assert sorted(np.concatenate([first.points[:6], second.points[:6]]).ravel()) == list(range(12))
    assert sorted(first[0].ravel() % 6) != sorted(first[1].ravel() % 6)  # not the same ranks in every bag


@pytest.mark.parametrize("cuts", [[], [1], [2, 3, 7]])
def test_comoments_of_chunks_are_those_of_the_whole(cuts):
    x, y = 100 + np.random.default_rng(0).normal(size=(2, 9, 4))
    found = Comoment()
    for rows in np.split(np.arange(9), cuts):
        found.add(x[rows], y[rows])
    assert found.value == pytest.approx(np.sum((x - x.mean(axis=0)) * (y - y.mean(axis=0))), rel=1e-9)


def test_energy_is_stored(tmp_path):
    embedding = de.HDDEmbedding(n_basis=3, bandwidth=0.05).fit(clouds())
    de.save(embedding, tmp_path / "m")
    again = de.load(tmp_path / "m")
    assert (again.energy_, again.lost_signal_) == (embedding.energy_, embedding.lost_signal_)
