"""Contributions of columns, values of points and regions, of every kind of model, against planted causes."""

from __future__ import annotations

from itertools import combinations, product
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import distembed as de
from distembed.embeddings.weight_slopes import by_groups, weight_slopes
from distembed.learners.background import N_BAGS, Background
from distembed.learners.shapley import Columns, Game, Plan, _couple, contributions
from distembed.learners.targets import Numbers

pytestmark = pytest.mark.filterwarnings("ignore:.* bags as a group differ")  # many copies of one bag
NAMED = ["mmd", "mean", "statistics", "fisher", "sliced-wasserstein", "codebook-js", "statistics, forest"]


def planted(n_bags=60, n_points=60, n_dims=2, seed=0, moved=True):
    """Bags of which a share lies in a far cluster, seen in the first column; the target is the share."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0, 0.4, n_bags)
    points = rng.normal(size=(n_bags, n_points, n_dims))
    there = rng.uniform(size=(n_bags, n_points)) < share[:, None]
    if moved:
        points[..., 0] = np.where(there, 3 + 0.3 * points[..., 0], points[..., 0])
    return de.as_bags(points), there.mean(axis=1), there


def fitted(name, *given, **options):
    return de.DistributionRegressor(name, random_state=0, **options).fit(*given)


def by_weights(model, bags, i, step=1e-3, **more):
    """Derivatives of the prediction for bag i in the shares of its points, by predictions of it with one heavier."""
    points = bags[i]
    n = len(points)
    weights = np.ones((n, n)) + n * step * np.eye(n)
    heavier = bags.replace(
        points=np.tile(points, (n, 1)), offsets=n * np.arange(n + 1), weights=weights.ravel(), ids=None
    )
    more = {name: {key: [values[i]] * n for key, values in table.items()} for name, table in more.items()}
    return model.predict(heavier, **more)


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


# --------------------------------------------------------------------------------------------------------------
# Columns: the game
# --------------------------------------------------------------------------------------------------------------


def test_laid_points_have_the_shares_of_either_bag():
    rng = np.random.RandomState(0)
    for n, m in ((1, 7), (5, 5), (12, 8)):
        mine, theirs = (each / each.sum() for each in (rng.uniform(0.1, 1, n), rng.uniform(0.1, 1, m)))
        first, second, mass = _couple(mine, theirs, rng)
        assert_allclose(np.bincount(first, mass), mine, atol=1e-12)
        assert_allclose(np.bincount(second, mass), theirs, atol=1e-12)
        assert len(mass) < n + m


class Table:
    """A model whose rows are means of bags, and whose prediction is any function of these."""

    def __init__(self, function):
        self.function = function
        self.used_views = ["mean"]
        self.views = {"mean": self}
        self.embedding = self
        self.width = 1

    def rows(self, bags, covariates=None):
        shares = bags.shares()
        shares = np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares
        return np.add.reduceat(bags.points * shares[:, None], bags.offsets[:-1])

    def outputs_of_rows(self, rows):
        return self.function(rows["mean"])[:, None]


def shapley_by_definition(f, x, others):
    """Contributions by the formula: all coalitions, means of bags in place of bags."""
    d = len(x)
    found = np.zeros(d)
    for j in range(d):
        rest = [k for k in range(d) if k != j]
        for size in range(d):
            for coalition in combinations(rest, size):
                weight = factorial(size) * factorial(d - size - 1) / factorial(d)
                for own, sign in (([*coalition, j], 1), ([*coalition], -1)):
                    mixed = others.copy()
                    mixed[:, own] = x[own]
                    found[j] += sign * weight * f(mixed).mean()
    return found


def curved(m):
    return m[:, 0] * m[:, 1] + m[:, 2] ** 2 + np.sin(m.sum(axis=1))


@pytest.mark.parametrize(("d", "exact"), [(3, True), (4, True), (6, False)])
def test_contributions_against_their_definition(d, exact):
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays([rng.normal(size=(n, d)) + rng.normal(size=d) for n in (5, 9, 4, 7, 6, 8)])
    model = Table(curved)
    known = Background(bags[2:])
    columns = Columns([f"x{j}" for j in range(d)], [[j] for j in range(d)], [], False)
    found = []
    for seed in range(1 if exact else 60):
        game = Game(model, Numbers.of(np.zeros(4)), known, columns, Plan.of(d, 4, np.random.RandomState(seed)))
        game.prepare(bags[:2])
        predicted = model.outputs_of_rows({"mean": model.rows(bags[:2])})
        found.append(contributions(game, bags[:2], None, predicted, np.zeros(2, int)))
        assert_allclose(found[-1].values.sum(axis=1), predicted[:, 0] - found[-1].reference, atol=1e-12)
    others = model.rows(bags[2:])
    wanted = np.array([shapley_by_definition(curved, x, others) for x in model.rows(bags[:2])])
    values = np.mean([each.values for each in found], axis=0)
    if exact:
        assert_allclose(values, wanted, atol=1e-12)
        assert not found[0].errors.any()
    else:
        spread = np.std([each.values for each in found], axis=0)
        assert np.all(np.abs(values - wanted) < 4 * spread / np.sqrt(len(found)) + 1e-12)
        assert found[0].errors.min() > 0


def test_orders_use_every_bag_once_and_add_up():
    plan = Plan.of(6, 16, np.random.RandomState(0))
    assert_array_equal(plan.background, np.arange(16))
    assert plan.coalitions.shape == (16, 7, 6)
    assert_array_equal(plan.coefficients.sum(axis=2)[:, 1:-1], 0)
    assert_array_equal(plan.coefficients.sum(axis=2)[:, [0, -1]], [[-1, 1]] * 16)
    assert_array_equal(Plan.of(7, 16, np.random.RandomState(0)).background, [0, 3, 4, 7, 8, 11, 12, 15])
    assert len(Plan.of(40, 3, np.random.RandomState(0)).background) == 3


# --------------------------------------------------------------------------------------------------------------
# Every model
# --------------------------------------------------------------------------------------------------------------


def check_planted(why, model, bags, there, name, clearly=0.95):
    """The column, the points and the region are those of the planted cluster."""
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)
    assert_allclose(why.predictions, model.predict(bags))
    others = np.abs(why.contributions[:, 1:]).max(axis=1)
    clear = np.abs(why.predictions - why.reference) > 0.07
    assert clear.sum() >= 5
    assert np.mean(np.abs(why.contributions[clear, 0]) > others[clear]) >= 0.95
    values, inside = why.points, there.ravel()
    sums = np.add.reduceat(why.shares * values, bags.offsets[:-1])
    assert np.abs(sums).max() < 1e-9
    split = [(why.of(i)[there[i]], why.of(i)[~there[i]]) for i in range(bags.n_bags) if there[i].sum() > 2]
    assert np.mean([np.median(a) > np.median(b) for a, b in split]) >= clearly
    assert values[inside].mean() > values[~inside].mean() + 0.1
    full = there.mean(axis=1) > 0.1
    named = [why.regions[i][0] for i in np.flatnonzero(full)]
    assert np.mean([name in region.rule for region in named]) >= 0.9
    for i, regions in enumerate(why.regions):
        assert sum(region.share for region in regions) == pytest.approx(1)
        assert sum(region.training_share for region in regions) == pytest.approx(1)
        assert abs(sum(region.effect for region in regions)) < 1e-9, i


@pytest.mark.parametrize("name", NAMED)
def test_planted_clusters_are_found_by_named_models(name):
    bags, share, there = planted()
    model = fitted(name, bags[:45], share[:45])
    why = model.explain(bags[45:])
    assert why.column_names == ("x0", "x1")
    assert not why.errors.any()
    assert why.reference == pytest.approx(model.predict(bags[:45]).mean())
    check_planted(why, model, bags[45:], there[45:], "x0", 0.9 if "forest" in name else 0.95)  # forests have steps


@pytest.mark.parametrize("name", ["mmd", "mean", "fisher", "sliced-wasserstein", "codebook-js", "l2"])
def test_values_are_derivatives_in_weights(name):
    bags, share, _ = planted(n_dims=1 if name == "l2" else 2)
    model = fitted(name, bags[:45], share[:45])
    why = model.explain(bags[45:47])
    for i in range(2):
        slopes = (by_weights(model, bags[45:], i) - why.predictions[i]) / 1e-3
        assert correlation(slopes, why.of(i)) > (0.99 if name == "sliced-wasserstein" else 0.9999)
        assert_allclose(slopes, why.of(i), atol=(0.2 if name == "sliced-wasserstein" else 0.02) * np.ptp(slopes))


@pytest.mark.parametrize("name", ["statistics", "landmarks"])
def test_values_by_differences_are_those_of_points_left_out(name):
    bags, share, _ = planted()
    model = fitted(name, bags[:45], share[:45])
    why = model.explain(bags[45:46])
    points = bags[45]
    without = model.predict([np.delete(points, k, axis=0) for k in range(len(points))])
    table = why.top(0, 100)
    assert correlation(without - why.predictions[0], table["change"][np.argsort(table["point"])]) > 0.97


def test_ensembles_in_ten_columns():
    bags, share, there = planted(n_dims=10, n_bags=80)
    model = fitted(["mean", "mmd", "statistics"], bags[:60], share[:60])
    assert len(model.model_.members) > 1
    why = model.explain(bags[60:], random_state=0)
    check_planted(why, model, bags[60:], there[60:], "x0")
    assert why.errors.min() > 0
    assert np.median(why.errors) < 0.01
    assert why.point_errors.max() > 0
    again = model.explain(bags[60:62], random_state=0)
    assert_allclose(again.contributions, why.contributions[:2], atol=1e-12)
    other = model.explain(bags[60:], random_state=1)
    gap = np.abs(other.contributions - why.contributions) / np.hypot(why.errors, other.errors)
    assert np.mean(gap < 3) > 0.95


def test_a_column_that_the_model_does_not_see_contributes_nothing():
    bags, share, _ = planted(n_dims=6)

    class First(de.MomentEmbedding):
        def transform(self, X):
            return super().transform(X)[:, :1]

    model = de.DistributionRegressor(First("mean"), n_components=None, tune=None).fit(bags, share)
    why = model.explain(bags[:5], random_state=0)
    assert_allclose(why.contributions[:, 1:], 0, atol=1e-12)
    assert np.all(np.abs(why.contributions[:, 1:]) <= why.errors[:, 1:] + 1e-12)


def test_rows_of_others_that_are_means_are_exact_and_all_others_go_by_groups():
    bags, _, _ = planted(n_points=200)
    shares = np.random.default_rng(0).uniform(0, 2, 200)
    bag = bags[:1].replace(points=bags[0] + 4, weights=shares)

    class Cubes:
        def transform(self, X):
            return np.add.reduceat(X.points**3 * self.weights(X)[:, None], X.offsets[:-1])

        def weights(self, X):
            found = X.shares()
            return np.repeat(1 / X.sizes, X.sizes) if found is None else found

    class Roots(Cubes):
        def transform(self, X):
            return np.cbrt(super().transform(X))

    exact = weight_slopes(Cubes(), bag)
    assert_allclose(exact, bag.points**3 - Cubes().transform(bag), atol=1e-9)
    assert by_groups(Cubes(), bag).shape == exact.shape
    found = weight_slopes(Roots(), bag)
    assert len(np.unique(found.round(12), axis=0)) == 32
    row = Roots().transform(bag)[0]
    wanted = (bag.points**3 - row**3) / (3 * row**2)
    assert min(correlation(found[:, j], wanted[:, j]) for j in range(2)) > 0.8


def test_order_of_points_and_other_bags_change_nothing():
    bags, share, _ = planted(n_dims=5)
    model = fitted("statistics, rbf", bags, share)
    why = model.explain(bags[:3], random_state=0)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(60) for _ in range(3)]
    mixed = de.Bags.from_arrays([bag[order] for bag, order in zip(bags[:3], orders, strict=True)])
    again = model.explain(mixed, random_state=0)
    assert_allclose(again.contributions, why.contributions, atol=1e-9)
    assert_allclose(again.of(1), why.of(1)[orders[1]], atol=1e-9)
    assert_allclose(model.explain(bags[1:2], random_state=0).contributions[0], why.contributions[1], atol=1e-9)


def test_weights_of_points():
    bags, share, _ = planted(n_points=30)
    weights = np.random.default_rng(0).integers(0, 3, bags.n_points).astype(float)
    weights[bags.offsets[:-1]] = 1
    weighted = bags.replace(weights=weights)
    copies = de.Bags.from_arrays(
        [np.repeat(X, w.astype(int), axis=0) for X, w in zip(bags, np.split(weights, 60), strict=True)]
    )
    model = fitted("mmd", weighted, share)
    one, two = (model.explain(each[:4]) for each in (weighted, copies))
    assert_allclose(one.contributions.sum(axis=1), two.contributions.sum(axis=1), atol=1e-6)
    assert_allclose(one.contributions, two.contributions, atol=0.02)
    assert np.abs(np.add.reduceat(one.shares * one.points, weighted.offsets[:4])).max() < 1e-9


# --------------------------------------------------------------------------------------------------------------
# Covariates, categories, classes, outputs, batches
# --------------------------------------------------------------------------------------------------------------


def test_a_planted_covariate():
    bags, _, _ = planted(moved=False)
    rng = np.random.default_rng(1)
    table = {"age": rng.normal(50, 9, 60), "sex": np.where(rng.uniform(size=60) < 0.5, "f", "m")}
    y = 0.1 * table["age"] + np.where(table["sex"] == "f", 1.0, 0.0)
    take = lambda rows: {name: values[rows] for name, values in table.items()}  # noqa: E731
    model = de.DistributionRegressor("mean", random_state=0).fit(bags[:45], y[:45], covariates=take(slice(45)))
    why = model.explain(bags[45:], covariates=take(slice(45, None)))
    assert why.column_names == ("x0", "x1", "age", "sex")
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)
    assert correlation(why.contributions[:, 2], table["age"][45:]) > 0.98
    assert correlation(why.contributions[:, 3], table["sex"][45:] == "f") > 0.98
    assert np.abs(why.contributions[:, :2]).max() < 0.2 * np.abs(why.contributions[:, 2]).max()


def test_a_planted_category(tmp_path):
    rng = np.random.default_rng(0)
    share = rng.uniform(0.1, 0.9, 60)
    kinds = (rng.uniform(size=(60, 50)) < share[:, None]).astype(float) + (rng.uniform(size=(60, 50)) < 0.1)
    points = np.stack([rng.normal(size=(60, 50)), kinds], axis=-1)
    bags = de.Bags(
        points.reshape(-1, 2), 50 * np.arange(61), columns=["x", "kind"], categories={"kind": ["a", "b", "c"]}
    )
    model = fitted("js", bags[:45], share[:45])
    why = model.explain(bags[45:])
    assert why.column_names == ("x", "kind")
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)
    assert correlation(why.contributions[:, 1], share[45:]) > 0.9
    assert np.abs(why.contributions[:, 0]).max() < 0.5 * np.abs(why.contributions[:, 1]).max()
    assert sum("kind" in regions[0].rule for regions in why.regions) >= 14
    assert why.points[bags[45:].points[:, 1] == 0].mean() < why.points[bags[45:].points[:, 1] == 1].mean()
    de.save(model, tmp_path / "m")
    again = de.load(tmp_path / "m").explain(bags[45:])
    assert_allclose(again.contributions, why.contributions, atol=1e-9)


def test_a_planted_size():
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 200, 60)
    bags = de.Bags.from_arrays([rng.normal(size=(n, 2)) for n in sizes])
    y = np.log(sizes)
    model = de.DistributionRegressor(["mean", "size"], random_state=0).fit(bags[:45], y[:45])
    why = model.explain(bags[45:])
    assert why.column_names == ("x0", "x1", "size")
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)
    assert correlation(why.contributions[:, 2], y[45:]) > 0.98
    assert np.abs(why.contributions[:, :2]).max() < 0.1 * np.abs(why.contributions[:, 2]).max()


@pytest.mark.parametrize("name", ["mean, transformed-rbf", "mmd, ordered-rbf"])
def test_heads_that_learn_targets_in_another_form(name):
    bags, share, _ = planted(n_bags=80)
    if "ordered" in name:
        y = np.array(["a", "b", "c"])[np.argsort(np.argsort(share)) * 3 // 80]
        model = de.DistributionClassifier(name, ordered=["a", "b", "c"], random_state=0).fit(bags, y)
        why = model.explain(bags[:2], output="c")
        found = lambda b: model.predict_proba(b)[:, 2]  # noqa: E731
    else:
        model = fitted(name, bags, np.exp(6 * share))
        why, found = model.explain(bags[:2]), model.predict
    slopes = (found(heavier(bags, 0)) - why.predictions[0]) / 1e-3
    assert correlation(slopes, why.of(0)) > 0.999
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)


def test_columns_with_missing_values_are_one():
    rng = np.random.default_rng(0)
    frame = {"bag": np.repeat(np.arange(40), 20), "x": rng.normal(size=800), "y": rng.normal(size=800)}
    frame["y"][rng.uniform(size=800) < 0.2] = np.nan
    bags = de.Bags.from_frame(frame, bag="bag", nan="indicator")
    model = fitted("mean", bags, bags.points[:, 0].reshape(40, 20).mean(axis=1))
    assert model.explain(bags[:2]).column_names == ("x", "y")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes):
    bags, share, _ = planted(n_bags=80)
    names = np.array(["low", "middle", "top"])[np.argsort(np.argsort(share)) * n_classes // 80]
    model = de.DistributionClassifier("mmd, rbf", random_state=0).fit(bags, names)
    probabilities = model.predict_proba(bags)
    why = model.explain(bags[:8])
    best = probabilities[:8].argmax(axis=1) if n_classes == 3 else np.ones(8, int)
    assert_allclose(why.predictions, probabilities[np.arange(8), best])
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)
    assert_allclose(why.reference, probabilities.mean(axis=0)[best] if n_classes == 3 else probabilities[:, 1].mean())
    assert np.shape(why.reference) == (() if n_classes == 2 else (8,))
    for k, name in enumerate(model.classes_):
        found = model.explain(bags[:3], output=name)
        assert found.output == name
        assert_allclose(found.predictions, probabilities[:3, k])
        slopes = (model.predict_proba(heavier(bags, 0))[:, k] - found.predictions[0]) / 1e-3
        assert correlation(slopes, found.of(0)) > 0.999
    with pytest.raises(ValueError, match=r"explain\(output=...\): must be one of the classes 'low', .*got 'd'"):
        model.explain(bags, output="d")


def heavier(bags, i, step=1e-3):
    n = len(bags[i])
    weights = np.ones((n, n)) + n * step * np.eye(n)
    return de.Bags(np.tile(bags[i], (n, 1)), n * np.arange(n + 1), weights.ravel())


@pytest.mark.parametrize("kind", ["ridge", "logistic", "svm"])
def test_linear_models_of_random_features(kind):
    bags, share, _ = planted()
    y = share > 0.2
    model = de.DistributionClassifier("fisher", model=kind, n_components=50, tune=None, random_state=0).fit(bags, y)
    why = model.explain(bags[:2])
    found = (lambda b: model.predict_proba(b)[:, 1]) if kind != "svm" else (lambda b: model.model_.scores(b)[:, 1])
    assert_allclose(why.predictions, found(bags[:2]))
    slopes = (found(heavier(bags, 0, 1e-4)) - why.predictions[0]) / 1e-4
    assert correlation(slopes, why.of(0)) > 0.999


def test_several_outputs_must_be_named():
    bags, share, _ = planted()
    model = fitted("mean", bags, np.column_stack([share, -share]))
    with pytest.raises(ValueError, match=r"explain\(output=...\): must be given for 2 outputs, got None"):
        model.explain(bags)
    one, two = (model.explain(bags[:3], output=k) for k in range(2))
    assert_allclose(one.contributions, -two.contributions, atol=1e-9)
    assert_allclose(one.points, -two.points, atol=1e-9)


def test_models_of_batches_and_refit_ones():
    bags, share, _ = planted()
    model = de.DistributionRegressor("mean", random_state=0)
    model.fit_batches(lambda: iter([(bags[:30], share[:30]), (bags[30:], share[30:])]))
    why = model.explain(bags[:3])
    assert_allclose(why.contributions.sum(axis=1), why.predictions - why.reference, atol=1e-8)
    assert why.reference == pytest.approx(model.predict(bags).mean(), abs=0.05)
    model = fitted("mean", bags[:30], share[:30]).refit(bags[20:], 1 + share[20:])
    assert model.explain(bags[:3]).reference == pytest.approx(model.predict(bags[20:]).mean())


def test_heads_from_outside():
    from sklearn.ensemble import RandomForestRegressor

    bags, share, there = planted()
    head = RandomForestRegressor(60, random_state=0)
    model = de.DistributionRegressor("mmd", head=head, random_state=0).fit(bags[:45], share[:45])
    check_planted(model.explain(bags[45:]), model, bags[45:], there[45:], "x0")


# --------------------------------------------------------------------------------------------------------------
# Training bags that models keep
# --------------------------------------------------------------------------------------------------------------


def test_files_hold_training_bags_unless_they_are_left_out(tmp_path):
    bags, share, _ = planted(n_bags=100, n_points=300, n_dims=4)
    named = bags.replace(ids=np.array([f"patient {i}" for i in range(100)]))
    model = fitted("mean", named, share)
    assert model.background_.bags.n_bags == N_BAGS
    assert not model.background_.bags.has_ids
    assert model.background_.bags.points.dtype == np.float32
    de.save(model, tmp_path / "m")
    de.save(model, tmp_path / "n", background=False)
    sizes = [(tmp_path / name).stat().st_size for name in ("m", "n")]
    assert 0 < sizes[0] - sizes[1] < 120_000
    assert_allclose(de.load(tmp_path / "m").explain(bags[:2]).contributions, model.explain(bags[:2]).contributions)
    without = de.load(tmp_path / "n")
    assert_array_equal(without.predict(bags), model.predict(bags))
    with pytest.raises(ValueError, match=r"explain: needs training bags, .* pass some as background=bags"):
        without.explain(bags)
    assert without.explain(bags[:2], background=bags).reference == pytest.approx(model.predict(bags).mean())


def test_values_beyond_single_precision_stay_double():
    bags, share, _ = planted()
    far = bags.replace(points=bags.points * 1e-3 + 1.6e9)
    assert fitted("mean", far, share).background_.bags.points.dtype == np.float64


def test_what_explain_refuses():
    bags, share, _ = planted()
    model = fitted("mean", bags, share)
    with pytest.raises(ValueError, match="covariates were given, but fit had none"):
        model.explain(bags, covariates={"age": share})
    with pytest.raises(ValueError, match="must have points of 2 dimension"):
        model.explain(bags.points[:, :1].reshape(60, 60, 1))


# --------------------------------------------------------------------------------------------------------------
# What is shown
# --------------------------------------------------------------------------------------------------------------


def test_tables_and_frames():
    bags, share, _ = planted(n_dims=3)
    named = bags.replace(columns=("prediction", "a long name of a column", "z"), ids=np.arange(100, 160))
    model = fitted("mean", named, share)
    why = model.explain(named[:14])
    frame = why.to_frame()
    assert list(frame.columns) == ["prediction", "reference", "prediction_", "a long name of a column", "z"]
    assert frame.index.tolist() == list(range(100, 114))
    assert_allclose(frame.iloc[:, 2:].sum(axis=1), frame["prediction"] - frame["reference"])
    lines = repr(why).splitlines()
    assert lines[0] == "Explanation of the prediction, 14 bags"
    assert lines[-1] == "... 2 more"
    assert max(map(len, lines)) <= 80
    single = repr(model.explain(named[:1]))
    assert "contribution" in single
    assert "in training" in single
    assert "values of points" in why._repr_html_()


def test_values_go_back_to_rows():
    owner = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 5))
    frame = {"bag": owner, "x": np.sin(np.arange(100.0)), "y": np.arange(100.0) ** 2}
    read = de.Bags.from_frame(frame, bag="bag", columns=["x", "y"])
    y = read.points[:, 0].reshape(20, 5).mean(axis=1)
    model = fitted("mean", read, y, n_components=None)
    why = model.explain(read[3:])
    found = why.values_by_row(frame["bag"])
    assert np.isnan(found).sum() == 15
    for i, name in enumerate(why.bags.ids):
        assert_array_equal(found[owner == name], why.of(i))
    with pytest.raises(ValueError, match=r"values_by_row: bag .* must have its 5 points among the rows, got 4"):
        why.values_by_row(frame["bag"][:-1])


def test_pictures_without_a_map():
    bags, share, _ = planted(n_dims=20)
    model = fitted("mean", bags, share)
    ax = model.explain(bags[:2], random_state=0).plot(1)
    assert len(ax.patches) == 16
    assert ax.get_yticklabels()[-1].get_text() == "5 others"


def test_regions_name_labels_and_intervals():
    from distembed.learners.regions import find_regions

    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(size=900), rng.integers(0, 3, 900)])
    bags = de.Bags(points, [0, 900], columns=["x", "kind"], categories={"kind": ["a", "b", "c"]})
    inside = (points[:, 0] > 0.3) & (points[:, 0] <= 0.6) & (points[:, 1] == 1)
    (found,), places = find_regions(bags, inside - inside.mean(), np.full(900, 1 / 900), np.zeros(1, int), bags)
    assert [np.mean(places == r) for r in range(len(found))] == pytest.approx([region.share for region in found])
    assert inside[places == 0].mean() > 0.9
    assert "kind = b" in found[0].rule
    assert " < x <= 0.5" in found[0].rule or " < x <= 0.6" in found[0].rule
    assert found[0].share == pytest.approx(inside.mean(), abs=0.03)
    assert found[0].share == found[0].training_share
    (flat,), _ = find_regions(bags, np.zeros(900), np.full(900, 1 / 900), np.zeros(1, int), None)
    assert flat[0].rule == "everywhere"


def test_plans_weigh_coalitions():
    plan = Plan.of(3, 2, np.random.RandomState(0))
    masks = [*product([False, True], repeat=3)]
    assert_array_equal(plan.coalitions[1], masks)
    assert plan.exact
    assert_allclose(plan.coefficients[0].sum(axis=1)[[0, -1]], [-1, 1])
