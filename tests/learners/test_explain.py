"""Gradients of predictions in densities and in the weights of points, against differences of predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from distembed import KDE, Bags, Cosine, Fourier, Grid, HDDEmbedding, L2Embedding, MomentEmbedding, Sobol, UnitCube
from distembed.embeddings.gradients import MAP_FLOOR
from distembed.features import RandomFourierFeatures
from distembed.learners import DistributionClassifier, DistributionRegressor
from distembed.learners import density_map as module
from distembed.learners.explain import explain
from distembed.models import LinearRidge
from exact import (
    density_gradient,
    density_prediction,
    kde,
    point_values,
    tensor_basis,
    weight_derivatives,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning"),  # few functions, to be fast
    pytest.mark.filterwarnings("ignore:.* bags as a group differ"),  # many copies of one bag
]

DISTANCES = ["js", "hellinger", "chi2", "tv", "l2"]
WAVES = {
    "none": None,
    "orthogonal": {},
    "hadamard": {"frequencies": "hadamard"},
    "phase": {"features": "phase"},
    "hadamard phase": {"frequencies": "hadamard", "features": "phase"},
}
every_distance = pytest.mark.parametrize("distance", DISTANCES)
every_wave = pytest.mark.parametrize("waves", WAVES)


def make_bags(n_bags=16, n_dims=1, n_points=12, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.beta(*rng.uniform(1, 6, 2), size=(n_points + i % 3, n_dims)) for i in range(n_bags)]
    bags = Bags.from_arrays(arrays)
    return bags, np.array([array.mean() + array.std() for array in arrays])


def embedding_of(distance, **options):
    options = {"n_basis": 4, "bandwidth": 0.08, **options}
    return L2Embedding(**options) if distance == "l2" else HDDEmbedding(distance, n_lambdas=3, **options)


def pipeline(distance, waves="none", last=None, scaler=None, n_components=60, **options):
    steps = [UnitCube() if scaler is None else scaler, embedding_of(distance, **options)]
    if WAVES[waves] is not None:
        steps.append(RandomFourierFeatures(n_components, random_state=0, **WAVES[waves]))
    return make_pipeline(*steps, LinearRidge(0.01) if last is None else last)


def by_differences(score, bags, i):
    """Derivatives of the score of bag i in the weights of its points, through the whole model."""
    points = bags[i]
    weights = np.ones(len(points)) if bags.weights is None else bags.weights_of(i)

    def scores(rows):
        offsets = len(points) * np.arange(len(rows) + 1)
        return score(Bags(np.tile(points, (len(rows), 1)), offsets, rows.ravel()))

    return weight_derivatives(scores, weights)


def assert_close(found, expected, rtol=1e-5):
    """Within rtol of the largest."""
    assert np.max(np.abs(found - expected)) < rtol * np.max(np.abs(expected))


# --------------------------------------------------------------------------------------------------------------
# Points: differences of predictions of the whole model
# --------------------------------------------------------------------------------------------------------------


@every_distance
@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_values_are_derivatives_in_weights(distance, n_dims):
    bags, y = make_bags(n_dims=n_dims)
    options = {"nodes": Grid(8), "bandwidth": 0.12} if n_dims == 3 else {}
    for waves in ("none", "orthogonal", "hadamard"):
        model = pipeline(distance, waves, **options).fit(bags, y)
        found = explain(model, bags[:3])
        assert_allclose(found.predictions, model.predict(bags[:3]), rtol=1e-12)
        assert_close(found.of(1), by_differences(model.predict, bags, 1))


@every_wave
@pytest.mark.parametrize("n_components", [4, 300])  # parts of a block, several blocks
def test_values_through_all_random_features(waves, n_components):
    bags, y = make_bags()
    model = pipeline("js", waves, n_components=n_components).fit(bags, y)
    assert_close(explain(model, bags).of(2), by_differences(model.predict, bags, 2))


@pytest.mark.parametrize(
    ("n_dims", "options"),
    [
        (1, {"density": KDE(boundary="periodic"), "basis": "fourier"}),
        (1, {"density": KDE(boundary="none"), "basis": "legendre", "bandwidth": "distance"}),
        (2, {"density": KDE(boundary=("periodic", "reflect")), "basis": Fourier(index_set="hyperbolic_cross")}),
        (2, {"basis": Cosine(index_set="total_degree"), "n_basis": (5, 3)}),
        (2, {"nodes": Grid((9, 14)), "bandwidth": (0.2, 0.07)}),
        (3, {"basis": Cosine(index_set="hyperbolic_cross"), "nodes": Grid((6, 9, 7)), "bandwidth": 0.12}),
    ],
)
@pytest.mark.parametrize("distance", ["chi2", "l2"])
def test_values_for_other_densities_bases_and_grids(distance, n_dims, options):
    bags, y = make_bags(n_dims=n_dims, n_points=8)
    model = pipeline(distance, "orthogonal", **options).fit(bags, y)
    assert_close(explain(model, bags[:2]).of(0), by_differences(model.predict, bags, 0))


@pytest.mark.parametrize("scaler", [UnitCube(map="asinh"), UnitCube(map="rank"), UnitCube((0.2, 0.7)), "passthrough"])
@pytest.mark.filterwarnings("ignore:UnitCube. .* lie outside")
def test_values_with_other_scalers(scaler):
    bags, y = make_bags(n_dims=2)
    model = pipeline("js", scaler=scaler).fit(bags, y)
    found = explain(model, bags[:2])
    assert_close(found.of(0), by_differences(model.predict, bags, 0))
    low, high = ([0, 0], [1, 1]) if isinstance(scaler, str) else (model[0].low_, model[0].high_)
    for j, axis in enumerate(found.nodes):
        assert axis.shape == found.map.shape[1 + j : 2 + j]
        assert low[j] < axis[0] < axis[-1] < high[j]
        assert np.all(np.diff(axis) > 0)


def test_nodes_are_in_the_units_of_the_points():
    bags, y = make_bags()
    model = pipeline("l2").fit(bags, y)
    low, high = model[0].low_, model[0].high_
    axis = explain(model, bags).nodes[0]
    assert_allclose(axis, low + (high - low) * (np.arange(len(axis)) + 0.5) / len(axis))


@pytest.mark.parametrize("distance", ["js", "hellinger", "l2"])
def test_weighted_bags_and_points_of_weight_zero(distance):
    bags, y = make_bags(n_dims=2)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.1, 5, bags.n_points)
    weights[[2, 20]] = 0
    points = bags.points.copy()
    points[2] = points[[0, 1]].mean(axis=0)  # among others: the derivative there is moderate
    bags = Bags(points, bags.offsets, weights)
    model = pipeline(distance, "orthogonal", bandwidth=0.15).fit(bags, y)
    found = explain(model, bags)
    assert np.any(bags.weights_of(0) == 0)
    assert_close(found.of(0), by_differences(model.predict, bags, 0))
    assert np.all(np.isfinite(found.points))
    assert_allclose(np.add.reduceat(found.shares, bags.offsets[:-1]), 1)
    # Scale of weights is irrelevant, and weightless points change nothing for the others.
    again = explain(model, Bags(points, bags.offsets, weights * 1e30))
    assert_allclose(again.points, found.points, rtol=1e-9, atol=1e-12 * np.abs(found.points).max())
    assert_allclose(explain(model, bags.drop_weightless()).points, found.points[weights > 0], rtol=1e-12)


def test_a_weightless_point_far_from_all_others_has_a_finite_value():
    bags, y = make_bags(n_points=20)
    points = np.append(0.3 + 0.01 * np.arange(10.0), 0.95)[:, None]
    model = pipeline("hellinger", bandwidth=0.02).fit(bags, y)
    found = explain(model, Bags(points, [0, 11], np.append(np.ones(10), 0.0)))
    assert np.all(np.isfinite(found.points))
    assert abs(found.points[-1]) > 1e3 * np.abs(found.points[:-1]).max()
    assert np.abs(found.map).max() < 1e3 * np.abs(found.points[:-1]).max()


def test_points_that_the_scaler_drops_have_no_influence():
    bags, y = make_bags()
    model = pipeline("js", scaler=UnitCube((0.15, 0.8), outside="drop")).fit(bags, y)
    dropped = ((bags.points < 0.15) | (bags.points > 0.8))[:, 0]
    found = explain(model, bags)
    assert 0 < dropped.sum() < bags.n_points
    assert_array_equal(found.points[dropped], 0)
    assert_array_equal(found.shares[dropped], 0)
    assert_allclose(np.add.reduceat(found.shares, bags.offsets[:-1]), 1)
    i = int(np.argmax(np.add.reduceat(dropped, bags.offsets[:-1])))
    kept = 1 - dropped[bags.offsets[i] : bags.offsets[i + 1]].mean()  # shares are of what is kept
    assert_close(found.of(i), kept * by_differences(model.predict, bags, i))


def test_weightless_points_outside_of_the_cube_have_none():
    bags, y = make_bags()
    model = pipeline("js", scaler="passthrough").fit(bags, y)
    found = explain(model, Bags([[0.2], [0.6], [1.5]], [0, 3], [1, 1, 0]))
    assert_array_equal(np.isnan(found.points), [False, False, True])
    assert found.top(0)["point"].tolist()[-1] == 2
    assert "nan" not in repr(found)


def test_values_sum_to_zero_and_tell_what_happens_without_a_point():
    bags, y = make_bags(n_dims=2, n_points=150, n_bags=30)
    model = pipeline("js", "orthogonal", bandwidth=0.2).fit(bags, y)  # no point is alone
    found = explain(model, bags)
    sums = np.add.reduceat(found.shares * found.points, bags.offsets[:-1])
    assert np.abs(sums).max() < 1e-12 * np.abs(found.points).max()
    points, table = bags[0], found.top(0, n=10_000)
    without = Bags.from_arrays([np.delete(points, k, axis=0) for k in table["point"]])
    change = model.predict(without) - found.predictions[0]
    assert np.corrcoef(change, table["change"])[0, 1] > 0.99
    assert np.linalg.norm(change - table["change"]) < 0.1 * np.linalg.norm(change)


@pytest.mark.parametrize(("distance", "ratio"), [("hellinger", 2), ("l2", 1)])
def test_a_point_by_itself_matters_twice_as_much_as_its_derivative_says_where_roots_are_taken(distance, ratio):
    bags, y = make_bags(n_points=40)
    model = pipeline(distance, scaler="passthrough", bandwidth=0.03, n_basis=8).fit(bags, y)
    bag = np.append(np.linspace(0.2, 0.3, 199), 0.8)
    found = explain(model, [bag])
    table = found.top(0, n=200)
    change = model.predict([bag[:-1]])[0] - found.predictions[0]
    assert_allclose(change / table["change"][table["point"] == 199], ratio, rtol=0.05)


# --------------------------------------------------------------------------------------------------------------
# The map: differences in the density
# --------------------------------------------------------------------------------------------------------------


def density_on_nodes(embedding, bag):
    """What the embedding estimates for one bag in the cube, ndarray of shape (n_nodes,)."""
    estimate = embedding.stages_.density.prepare(embedding.nodes_, embedding.bandwidth_, np.dtype(float))
    return np.moveaxis(estimate(Bags(bag, [0, len(bag)])), -2, 0)[0].ravel()


def as_function_of_density(model, n_basis):
    """The twin of a pipeline without scaler from densities on, and the volumes of the nodes."""
    embedding, linear, features = model[0], model[-1], model[1] if len(model) == 3 else None
    rule = (embedding.lambdas_, embedding.lambda_weights_) if isinstance(embedding, HDDEmbedding) else None
    nodes = embedding.nodes_
    waves = {} if features is None else {"frequencies": features.frequencies_.T}
    if features is not None and features.features == "phase":
        waves["phases"] = features.phases_
    phi = tensor_basis(nodes.points, n_basis)
    return (lambda p: density_prediction(p, phi, nodes.weights, linear.coef_, linear.intercept_, rule, **waves)), nodes


@every_distance
@pytest.mark.parametrize(("n_dims", "grid"), [(1, 14), (2, (5, 6)), (3, (3, 4, 3))])
def test_map_is_the_gradient_in_the_density(distance, n_dims, grid):
    bags, y = make_bags(n_dims=n_dims, n_points=25)
    for waves in ("orthogonal", "hadamard") if n_dims == 3 else ("none", "orthogonal", "hadamard", "phase"):
        steps = pipeline(distance, waves, n_basis=3, bandwidth=0.3, nodes=Grid(grid), n_components=20)[1:]
        model = steps.fit(bags, y)
        f, nodes = as_function_of_density(model, 3)
        found = explain(model, bags[:3])
        p = density_on_nodes(model[0], bags[1])
        assert_allclose(f(p), model.predict(bags[1:2])[0], rtol=1e-10)
        g = density_gradient(f, p, nodes.weights)
        g -= np.sum(nodes.weights * p * g) / np.sum(nodes.weights * p)
        assert p.min() > MAP_FLOOR * p.max()
        assert_close(found.map[1].ravel(), g)


@pytest.mark.parametrize("distance", ["js", "tv"])
def test_map_has_the_slope_of_a_small_density_where_there_is_none(distance):
    bags, y = make_bags(n_points=8)
    model = pipeline(distance, n_basis=4, bandwidth=0.04, nodes=Grid(40))[1:].fit(bags, y)
    bag = 0.2 + 0.02 * np.arange(8.0)[:, None]
    f, nodes = as_function_of_density(model, 4)
    p = density_on_nodes(model[0], bag)
    assert p.min() == 0
    g = density_gradient(f, np.maximum(p, MAP_FLOOR * p.max()), nodes.weights)  # f is linear in powers of p
    g -= np.sum(nodes.weights * p * g) / np.sum(nodes.weights * p)
    assert_close(explain(model, [bag]).map[0], g)


@every_distance
def test_map_has_mean_zero_under_the_density(distance):
    bags, y = make_bags(n_dims=2)
    model = pipeline(distance, "orthogonal", scaler="passthrough").fit(bags, y)
    found = explain(model, bags)
    for i in range(3):
        p = density_on_nodes(model[1], bags[i])
        assert_allclose(found.density[i].ravel(), p)
        assert_allclose(p.mean(), 1)
        assert abs(found.map[i].ravel() @ p) < 1e-9 * np.abs(found.map[i].ravel()) @ p


@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
def test_values_are_the_map_seen_through_the_kernel(boundary):
    bags, y = make_bags(n_dims=2, n_points=60)
    density = KDE(boundary=boundary)
    model = pipeline("hellinger", scaler="passthrough", bandwidth=0.12, density=density, nodes=Grid(40)).fit(bags, y)
    found, nodes = explain(model, bags[:1]), model[1].nodes_
    p = kde(bags[0], nodes.points, 0.12, boundary)
    assert p.max() > 2
    values = point_values(found.map[0].ravel(), bags[0], nodes.points, nodes.weights, 0.12, boundary)
    assert_close(found.of(0), values, 0.02)  # binning, and the floor of the map


def test_l2_is_linear_in_the_density_and_its_map_the_same_for_all_bags():
    bags, y = make_bags()
    found = explain(pipeline("l2").fit(bags, y), bags)
    differences = np.diff(found.map, axis=0)  # constants: each map has its own mean
    assert_allclose(differences, np.broadcast_to(differences[:, :1], differences.shape), atol=1e-12)


# --------------------------------------------------------------------------------------------------------------
# Outputs
# --------------------------------------------------------------------------------------------------------------


def test_regression_with_two_outputs():
    bags, y = make_bags(n_dims=2)
    both = np.column_stack([y, np.cos(9 * y)])
    for last in (LinearRidge(0.01), Ridge(0.01)):
        model = pipeline("js", "orthogonal", last).fit(bags, both)
        for k in range(2):
            found = explain(model, bags[:2], output=k)
            assert found.output == k
            assert_allclose(found.predictions, model.predict(bags[:2])[:, k], rtol=1e-10)
            assert_close(found.of(0), by_differences(lambda b, m=model, k=k: m.predict(b)[:, k], bags, 0))


@pytest.mark.parametrize("last", [LogisticRegression(C=100), LinearSVC(C=10, random_state=0, max_iter=10_000)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_pipelines(last, n_classes):
    bags, y = make_bags(n_bags=24)
    names = np.array(["low", "middle", "high"])[np.argsort(np.argsort(y)) * n_classes // len(y)]
    model = pipeline("js", "orthogonal", last).fit(bags, names)
    for k, name in enumerate(model.classes_):

        def score(b, k=k):
            s = model.decision_function(b)
            return s[:, k] if n_classes == 3 else (2 * k - 1) * s

        found = explain(model, bags[:2], output=name)
        assert found.output == name
        assert_allclose(found.predictions, score(bags[:2]), rtol=1e-9)
        assert_close(found.of(1), by_differences(score, bags, 1))
    if n_classes == 2:
        assert_array_equal(explain(model, bags).points, explain(model, bags, output=model.classes_[1]).points)


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # copies of one bag
@pytest.mark.parametrize("kind", ["logistic", "svm", "ridge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_of_bags(kind, n_classes):
    bags, y = make_bags(n_bags=24)
    labels = 10 * (np.argsort(np.argsort(y)) * n_classes // len(y))
    model = DistributionClassifier("js", model=kind, n_components=50, tune=None, random_state=0).fit(bags, labels)
    found = explain(model, bags[:2], output=10)

    def score(b):
        if hasattr(model, "predict_proba"):
            return model.predict_proba(b)[:, 1]
        return model.model_.scores(b)[:, 1]

    assert_allclose(found.predictions, score(bags[:2]), rtol=1e-9)
    assert_close(found.of(0), by_differences(score, bags, 0))


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # copies of one bag
@pytest.mark.parametrize(("embedding", "n_components"), [("js", 100), ("js", None), ("l2", 100)])
def test_regressors_of_bags(embedding, n_components):
    bags, y = make_bags(n_dims=2)
    model = DistributionRegressor(embedding, n_components=n_components, tune=None, random_state=0).fit(bags, y)
    found = explain(model, bags)
    assert_allclose(found.predictions, model.predict(bags), rtol=1e-10)
    assert_close(found.of(0), by_differences(model.predict, bags, 0))


# --------------------------------------------------------------------------------------------------------------
# Meaning
# --------------------------------------------------------------------------------------------------------------


def with_bumps(n_bags, n_dims, centre, seed=0):
    """Uniform bags of which a share lies in a bump, the shares, and how far from the centre points are."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0, 0.4, n_bags)
    points = rng.uniform(size=(n_bags, 200, n_dims))
    chosen = rng.uniform(size=(n_bags, 200)) < share[:, None]
    points[chosen] = rng.normal(centre, 0.05, size=(chosen.sum(), n_dims))
    return points, share, np.linalg.norm(points - centre, axis=2)


# Linear in the embedding, or smooth in it: maps are of the model, and one of many random features and little penalty
# finds the shares as well from wiggles that are largest elsewhere, where densities are low.
@pytest.mark.parametrize(("n_dims", "centre"), [(1, [0.7]), (2, [0.3, 0.65])])
@pytest.mark.parametrize(
    ("distance", "waves", "alpha"),
    [("js", "none", 0.1), ("hellinger", "none", 0.1), ("l2", "none", 0.1), ("l2", "orthogonal", 0.5)],
)
def test_the_map_is_largest_where_bags_differ(n_dims, centre, distance, waves, alpha):
    bags, share, far = with_bumps(160, n_dims, centre)
    model = pipeline(distance, waves, LinearRidge(alpha), "passthrough", n_basis=8, n_components=300)
    if waves != "none":
        model[-2].set_params(sigma_scale=3)
    found = explain(model.fit(bags[:150], share[:150]), bags[150:])
    for i, distances in enumerate(far[150:]):
        top = np.unravel_index(np.argmax(found.map[i]), found.map[i].shape)
        peak = [axis[k] for axis, k in zip(found.nodes, top, strict=True)]
        assert np.linalg.norm(np.subtract(peak, centre)) < 0.1
        assert found.of(i)[distances < 0.08].min() > 0.1
        assert found.of(i)[distances > 0.25].mean() < -0.05


# --------------------------------------------------------------------------------------------------------------
# The answer
# --------------------------------------------------------------------------------------------------------------


def test_float32_bags_have_float32_answers_close_to_those_of_float64():
    bags, y = make_bags(n_dims=2, n_points=50)
    model = pipeline("js", "orthogonal").fit(bags, y)
    single, double = explain(model, bags.astype("float32")), explain(model, bags)
    for name in ("map", "density", "points", "predictions"):
        one, two = getattr(single, name), getattr(double, name)
        assert one.dtype == np.float32
        assert two.dtype == np.float64
        assert_close(one, two, 1e-4)
    trained = pipeline("js", "orthogonal").fit(bags.astype("float32"), y)
    found = explain(trained, bags.astype("float32"))
    assert_allclose(found.predictions, trained.predict(bags.astype("float32")), rtol=1e-3)


@pytest.mark.parametrize("distance", ["js", "l2"])
def test_answers_depend_on_neither_threads_nor_pieces(distance, monkeypatch):
    bags, y = make_bags(n_bags=90, n_dims=2)
    model = pipeline(distance, "orthogonal").fit(bags, y)
    whole = explain(model, bags)
    model[1].set_params(n_jobs=3)
    threaded = explain(model, bags)
    monkeypatch.setattr(module, "_PIECE_VALUES", 1)
    monkeypatch.setattr(module, "_LEAST_ROWS", 7)
    pieces = explain(model, bags)
    single = explain(model, bags[40:41])
    for name in ("map", "density", "points", "predictions"):
        assert_array_equal(getattr(threaded, name), getattr(whole, name))
        close = 1e-9 * np.abs(getattr(whole, name)).max()
        assert_allclose(getattr(pieces, name), getattr(whole, name), atol=close)
        assert_allclose(
            getattr(single, name), whole.of(40) if name == "points" else getattr(whole, name)[40:41], atol=close
        )


def test_input_and_model_stay_as_they_are():
    bags, y = make_bags()
    model = pipeline("js", "orthogonal").fit(bags, y)
    before = model.predict(bags)
    points = bags.points.copy()
    explain(model, bags)
    assert_array_equal(model.predict(bags), before)
    assert_array_equal(bags.points, points)


def test_pandas_output_of_a_pipeline_is_no_obstacle():
    bags, y = make_bags()
    plain = explain(pipeline("js", "orthogonal").fit(bags, y), bags)
    framed = pipeline("js", "orthogonal").set_output(transform="pandas").fit(bags, y)
    assert_allclose(explain(framed, bags).points, plain.points, rtol=1e-9, atol=1e-12)


def test_top_is_a_table_of_the_largest_changes():
    bags, y = make_bags(n_dims=2)
    weights = np.linspace(0.5, 2, bags.n_points)
    named = Bags(bags.points, bags.offsets, weights, columns=["age", "value"])
    found = explain(pipeline("js").fit(named, y), named)
    table = found.top(3, n=5)
    assert table.dtype.names == ("point", "age", "value_", "weight", "value", "change")
    assert len(table) == 5
    assert np.all(np.diff(np.abs(table["change"])) <= 0)
    assert_array_equal(table["value"], found.of(3)[table["point"]])
    assert_array_equal(table["age"], named[3][table["point"], 0])
    assert_allclose(table["weight"], named.weights_of(3)[table["point"]] / named.weights_of(3).sum())
    assert_allclose(table["change"], -table["weight"] * table["value"] / (1 - table["weight"]))
    assert len(found.top(3, n=1000)) == named.sizes[3]
    assert_array_equal(found.top(-1), found.top(named.n_bags - 1))
    with pytest.raises(ValueError, match=r"top\(n=...\): must be an integer in \[1, inf\), got 0"):
        found.top(0, n=0)
    with pytest.raises(IndexError):
        found.top(named.n_bags)


def test_the_only_point_of_a_bag_changes_nothing():
    bags, y = make_bags()
    found = explain(pipeline("js").fit(bags, y), Bags.from_arrays([[0.4], [0.2, 0.6]]))
    assert abs(found.points[0]) < 1e-12
    assert np.isnan(found.top(0)["change"][0])


def test_repr_is_a_table():
    bags, y = make_bags(n_bags=15, n_dims=2)
    found = explain(pipeline("js").fit(bags, y), bags)
    lines = repr(found).splitlines()
    size = " x ".join(str(len(axis)) for axis in found.nodes)
    assert lines[0] == f"Explanation of the prediction, 15 bags, on {size} nodes"
    assert lines[1].split("  ")[0] == "bag"
    assert len(lines) == 15
    assert lines[-1] == "... 3 more"
    names = np.where(y > np.median(y), "b", "a")
    classified = explain(pipeline("js", last=LogisticRegression()).fit(bags, names), bags)
    assert "Explanation of the score of class 'b', " in repr(classified)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_plot(n_dims):
    bags, y = make_bags(n_dims=n_dims)
    found = explain(pipeline("js", scaler=UnitCube(map="asinh")).fit(bags, y), bags)
    ax = found.plot(0)
    assert found.plot(1, ax=ax) is ax
    assert (ax.child_axes[0] if n_dims > 2 else ax).get_xlabel() == "x0"
    assert f"{found.predictions[1]:.4g}" in ax.get_title()


# --------------------------------------------------------------------------------------------------------------
# Refusals
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (make_pipeline(UnitCube(), MomentEmbedding(), LinearRidge()), r"must be a fitted .*, got one of UnitCube, Mom"),
        (make_pipeline(UnitCube(), HDDEmbedding("js"), StandardScaler(), LinearRidge()), r"HDDEmbedding, StandardSc"),
        (make_pipeline(UnitCube(), HDDEmbedding("js"), SVC()), r"must end with a linear model with coef_, got SVC"),
        (make_pipeline(UnitCube(), HDDEmbedding("js", nodes=Sobol(256)), LinearRidge()), r"on a grid, got scattered"),
        (make_pipeline(UnitCube(), HDDEmbedding("js", density="histogram"), LinearRidge()), r"use density='kde'"),
        (
            make_pipeline(UnitCube(), HDDEmbedding("js", bandwidth="scott", density=KDE(per_bag=True)), LinearRidge()),
            r"one bandwidth on",
        ),
        (make_pipeline(UnitCube(), L2Embedding(method="points"), LinearRidge()), r"use method='density'"),
    ],
)
def test_models_without_a_known_gradient_are_refused(model, message):
    bags, y = make_bags()
    target = (y > np.median(y)).astype(int) if isinstance(model, Pipeline) and isinstance(model[-1], SVC) else y
    with pytest.raises(ValueError, match=message):
        explain(model.fit(bags, target), bags)


def test_models_that_are_more_than_linear_are_refused():
    bags, y = make_bags()
    model = pipeline("js", last=PoissonRegressor()).fit(bags, y)
    with pytest.raises(ValueError, match=r"must predict coef_ times features plus intercept_, got PoissonRegressor"):
        explain(model, bags)


def test_other_objects_and_models_that_are_not_fitted_are_refused():
    bags, y = make_bags()
    with pytest.raises(TypeError, match=r"explain\(model=...\): must be a fitted DistributionRegressor .*got Ridge"):
        explain(Ridge(), bags)
    search = GridSearchCV(pipeline("js"), {"linearridge__alpha": [0.1, 1.0]}, cv=2).fit(bags, y)
    with pytest.raises(TypeError, match="of a search pass its best_estimator_"):
        explain(search, bags)
    assert explain(search.best_estimator_, bags).points.shape == (bags.n_points,)
    for model in (pipeline("js"), DistributionRegressor("js")):
        with pytest.raises(NotFittedError):
            explain(model, bags)


def test_outputs_that_are_not_there_are_refused():
    bags, y = make_bags()
    both = pipeline("js").fit(bags, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"explain\(output=...\): must be given for 2 outputs, got None"):
        explain(both, bags)
    with pytest.raises(ValueError, match=r"explain\(output=...\): must be an integer in \[0, 1\], got 2"):
        explain(both, bags, output=2)
    with pytest.raises(TypeError, match=r"explain\(output=...\): must be an integer"):
        explain(both, bags, output="first")
    names = np.array(["a", "b", "c"])[np.arange(len(y)) % 3]
    three = pipeline("js", last=LogisticRegression()).fit(bags, names)
    for wrong in (None, "d"):
        with pytest.raises(ValueError, match=r"explain\(output=...\): must be one of the classes 'a', 'b', 'c', got"):
            explain(three, bags, output=wrong)


def test_categories_are_refused_and_so_are_bags_of_another_width():
    bags, y = make_bags()
    model = pipeline("js").fit(bags, y)
    codes = np.column_stack([bags.points, np.arange(bags.n_points) % 2])
    mixed = Bags(codes, bags.offsets, columns=["x", "sex"], categories={"sex": ["f", "m"]})
    with pytest.raises(ValueError, match=r"explain: X must have continuous columns only, got .*\['sex'\]"):
        explain(model, mixed)
    with pytest.raises(ValueError, match=r"explain\(model=...\): must be of continuous columns only"):
        explain(pipeline("js").fit(mixed, y), bags)
    for other in (model, model[1:]):
        with pytest.raises(ValueError, match="must have points of 1 dimension"):
            explain(other, make_bags(n_dims=2)[0])
    with pytest.raises(ValueError, match="points must lie in the unit cube"):
        explain(model[1:], [np.array([0.5, 1.5])])
