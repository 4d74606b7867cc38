"""Views: bags made of bags, their kernels summed with weights chosen on held-out bags, and what each view tells."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed.features.sums import SumFeatures
from distembed.learners.view_contributions import view_contributions


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# Bags to bags


def test_local_scale_is_the_log_of_sorted_distances(rng):
    bags = de.Bags.from_arrays([rng.normal(size=(n, 2)) for n in (30, 7, 1, 60)])
    found = de.LocalScale(k=(2, 10)).fit(bags)
    out = found.transform(bags)
    for i in range(4):
        apart = np.sort(np.linalg.norm(bags[i][:, None] - bags[i], axis=2), axis=1)
        wanted = apart[:, [min(2, len(apart) - 1), min(10, len(apart) - 1)]]
        np.testing.assert_allclose(np.exp(out[i]), np.maximum(wanted, found.floor_))
    np.testing.assert_allclose(out[2], np.log(found.floor_)[None])  # alone
    copies = found.transform([np.zeros((20, 2))])
    np.testing.assert_allclose(copies.points, np.broadcast_to(np.log(found.floor_), (20, 2)))
    moved = found.transform([bag @ [[0, 1], [-1, 0]] + 3 for bag in bags])
    np.testing.assert_allclose(moved.points, out.points, atol=1e-9)
    assert found.get_feature_names_out().tolist() == ["log_r2", "log_r10"]


def test_differences_of_a_picture_are_numpys_gradient(rng):
    pictures = rng.normal(size=(3, 5, 4))
    y, x = np.mgrid[:5, :4]
    shuffled = [rng.permutation(20) for _ in pictures]
    bags = [np.stack([x.ravel(), y.ravel(), p.ravel()], axis=1)[o] for p, o in zip(pictures, shuffled, strict=True)]
    each = de.Differences(kind="each").fit_transform(bags)
    size = de.Differences(of=(2,)).fit_transform(bags)
    for i, (picture, order) in enumerate(zip(pictures, shuffled, strict=True)):
        along_y, along_x = np.gradient(picture)
        np.testing.assert_allclose(each[i][:, 3:], np.stack([along_x.ravel(), along_y.ravel()], axis=1)[order])
        np.testing.assert_allclose(size[i][:, 3], np.hypot(along_x, along_y).ravel()[order])
    spaced = [bag * [0.1, 7, 1] for bag in bags]  # steps, not units, count
    np.testing.assert_allclose(de.Differences().fit_transform(spaced)[0][:, 3], size[0][:, 3])


def test_differences_of_a_series_with_gaps_and_names(rng):
    series = de.Bags(np.array([[0.0, 1.0], [10.0, 4.0], [5.0, 2.0], [3.0, 3.0]]), [0, 3, 4], columns=["t", "v"])
    out = de.Differences(along="t", kind="each").fit_transform(series)
    np.testing.assert_allclose(out.points[:, 2], [1, 2, 1.5, 0])
    assert out.columns == ("t", "v", "d_t_v")
    with pytest.raises(ValueError, match="must have different positions, got two at that of"):
        de.Differences(along=(0,)).fit_transform([np.array([[1.0, 2.0], [1.0, 3.0]])])
    with pytest.raises(ValueError, match="leaves no column whose values change"):
        de.Differences(along=(0, 1)).fit([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="must be columns of the bags, 't', 'v', got 'w'"):
        de.Differences(along="w").fit(series)


def test_select_keeps_names_and_categories():
    table = {"bag": [0, 0, 1], "x": [1.0, 2, 3], "sex": ["f", "m", "f"], "v": [4.0, 5, 6]}
    bags = de.Bags.from_frame(table, bag="bag", columns=["x", "sex", "v"], categorical=["sex"])
    out = de.Select(["v", "sex"]).fit_transform(bags)
    assert out.columns == ("v", "sex")
    assert out.category_labels == {"sex": ("f", "m")}
    np.testing.assert_array_equal(out.points[:, 0], [4, 5, 6])
    with pytest.raises(ValueError, match="one or more different columns"):
        de.Select((0, 0)).fit(bags)


# Views


def bags_and_clumps(rng, n=90):
    """Bags of which clumps tell the target, not where they are."""
    y = rng.integers(1, 6, size=n)
    arrays = []
    for k in y:
        centres = rng.uniform(-3, 3, size=(k, 2))
        arrays.append(centres[rng.integers(k, size=60)] + 0.15 * rng.normal(size=(60, 2)))
    return np.stack(arrays), y.astype(float)


def two_views(**more):
    position = make_pipeline(
        de.UnitCube((-4, 4)), de.HDDEmbedding("hellinger", n_basis=12, bandwidth=0.06, symmetries="dihedral")
    )
    clumps = make_pipeline(de.LocalScale((4, 20)), de.HDDEmbedding("hellinger", n_basis=8, bandwidth=0.1))
    return de.Views({"position": position, "clumps": clumps}, **more)


def test_rows_are_the_views_side_by_side(rng):
    bags, _ = bags_and_clumps(rng, 20)
    views = two_views(weights=(3, 1)).fit(bags)
    rows = views.transform(bags)
    alone = views.fitted_[1].transform(bags)
    np.testing.assert_allclose(rows[:, views.widths_[0] :], alone * np.sqrt(0.25) / views.spreads_[1])
    spread = np.sum((rows[:, : views.widths_[0]] - rows[:, : views.widths_[0]].mean(axis=0)) ** 2, axis=1).mean()
    assert spread == pytest.approx(0.75)
    assert len(views.get_feature_names_out()) == rows.shape[1]
    assert views.get_feature_names_out()[0].startswith("position_hellinger")
    assert clone(views).get_params()["clumps__localscale__k"] == (4, 20)
    assert clone(views).set_params(clumps__localscale__k=(3,)).views["clumps"].steps[0][1].k == (3,)
    assert views.views["clumps"].steps[0][1].k == (4, 20)


def test_features_of_views_approximate_the_sum_of_kernels(rng):
    bags, _ = bags_and_clumps(rng, 20)
    views = two_views(weights=(3, 1), sigma_scales=(0.5, 1.0)).fit(bags)
    rows = views.transform(bags)
    exact = views.kernel_features("exact", 0, None).fit_transform(rows)
    parts, start, wanted = rows, 0, 0.0
    for width, weight, scale, group in zip(views.widths_, (0.75, 0.25), (0.5, 1.0), views.groups_, strict=True):
        block = parts[:, start : start + width]
        start += width
        apart = np.linalg.norm(block[:, None] - block, axis=2)
        sigma = scale * np.median(apart[np.triu_indices(20, 1)])
        images = [block] if group is None else [group.act(i, block) for i in range(group.order)]
        squares = [np.sum((block[:, None] - image) ** 2, axis=2) for image in images]
        wanted = wanted + weight * np.mean([np.exp(-square / (2 * sigma**2)) for square in squares], axis=0)
    np.testing.assert_allclose(exact @ exact.T, wanted, atol=1e-8)
    random = views.kernel_features(20_000, 0, None)
    assert [part.n_components for part in random.parts] == [15_000, 5_000]
    Z = random.fit_transform(rows)
    np.testing.assert_allclose(Z @ Z.T, wanted, atol=0.03)


@pytest.mark.parametrize("n_components", [200, "exact"])
def test_a_learner_weighs_views(rng, tmp_path, n_components):
    bags, y = bags_and_clumps(rng, 150)
    settings = {"n_components": n_components, "random_state": 0, "bandwidth_scales": (1, 2), "sigma_scales": (1, 2)}
    model = de.DistributionRegressor(two_views(), **settings).fit(bags[:90], y[:90])
    assert model.embedding_.weights_.sum() == pytest.approx(1)
    alone = de.DistributionRegressor(two_views().views["position"], **settings).fit(bags[:90], y[:90])
    assert model.score(bags[90:], y[90:]) > alone.score(bags[90:], y[90:])
    assert isinstance(model.features_, SumFeatures)
    found = model.predict(bags)
    de.save(model, tmp_path / "m")
    np.testing.assert_allclose(de.load(tmp_path / "m").predict(bags), found, atol=1e-9)
    explained = view_contributions(model, bags)
    np.testing.assert_allclose(explained.predictions, found, atol=1e-4)
    np.testing.assert_allclose(explained.contributions.sum(axis=1) + explained.constant, found, atol=1e-4)
    assert "clumps" in repr(explained)
    flipped = model.predict(bags * [-1, 1])
    np.testing.assert_allclose(flipped, found, atol=1e-6)


def test_weights_as_given_batches_and_classes(rng):
    bags, y = bags_and_clumps(rng)
    model = de.DistributionRegressor(two_views(weights=(1, 0)), n_components=100, random_state=0)
    model.fit_batches(lambda: iter([(bags[:50], y[:50]), (bags[50:], y[50:])]))
    np.testing.assert_allclose(model.embedding_.weights_, [1, 0])
    assert model.features_.n_components == 100
    for kind in ("ridge", "svm", "logistic"):
        judged = de.DistributionClassifier(two_views(), model=kind, n_components=100, random_state=0)
        assert judged.fit(bags, y > 2).score(bags, y > 2) > 0.8
    untuned = de.DistributionRegressor(two_views(), n_components=100, tune=None, random_state=0).fit(bags, y)
    np.testing.assert_allclose(untuned.embedding_.weights_, [0.5, 0.5])
    linear = de.DistributionRegressor(two_views(), n_components=None, random_state=0).fit(bags, y)
    assert np.isfinite(linear.predict(bags)).all()
    assert view_contributions(linear, bags).contributions.shape == (90, 2)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"views": {}}, TypeError, "must be a dict of embeddings by name"),
        ({"views": {"a__b": de.MomentEmbedding("mean")}}, ValueError, "names must be text without two underlines"),
        ({"views": {"weights": de.MomentEmbedding("mean")}}, ValueError, "not those of parameters"),
        ({"views": {"a": de.MomentEmbedding("mean")}, "weights": (1, 2)}, ValueError, "or 1 numbers, one per view"),
        ({"views": {"a": de.MomentEmbedding("mean")}, "weights": (-1,)}, ValueError, "none negative"),
        ({"views": {"a": de.MomentEmbedding("mean")}, "weights": "equal"}, ValueError, "'search'"),
        ({"views": {"a": de.MomentEmbedding("mean")}, "sigma_scales": (1, 2)}, ValueError, "must be 1, one per view"),
        ({"views": {"a": 3}}, TypeError, "must be an embedding of bags"),
    ],
)
def test_what_is_no_view_is_refused(rng, given, error, match):
    with pytest.raises(error, match=match):
        de.Views(**given).fit(rng.normal(size=(5, 20, 2)))
