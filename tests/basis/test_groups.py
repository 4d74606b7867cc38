"""Symmetries: groups act on coefficients as on points, and kernels, features and predictions do not change."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
import exact
from distembed.basis import groups
from distembed.embeddings.symmetric import Orbit
from distembed.features.exact_kernel import averaged_kernel

CASES = [  # dimensions, basis, boundary, symmetries, the same for the judge
    (1, "cosine", "reflect", "dihedral", {"reflect": [0]}),
    (2, "cosine", "reflect", "reflections", {"reflect": [0, 1]}),
    (2, "cosine", "reflect", "dihedral", {"reflect": [0, 1], "swap": [0, 1]}),
    (2, de.Cosine("total_degree"), "none", "dihedral", {"reflect": [0, 1], "swap": [0, 1]}),
    (2, "legendre", "reflect", "dihedral", {"reflect": [0, 1], "swap": [0, 1]}),
    (3, "cosine", "reflect", de.Symmetries(reflect=(2,), swap=(0, 1)), {"reflect": [2], "swap": [0, 1]}),
    (1, "fourier", "periodic", de.Symmetries(reflect="all", shift="all", n_shifts=6), {"reflect": [0], "shift": [0]}),
    (2, "fourier", "periodic", de.Symmetries(shift=(1,), n_shifts=6), {"shift": [1]}),
    (2, "fourier", "periodic", de.Symmetries(swap="all", shift="all", n_shifts=3), {"swap": [0, 1], "shift": [0, 1]}),
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def fitted(n_dims, basis, boundary, symmetries, bags, **more):
    more = {"n_basis": 5, "n_lambdas": 2, "bandwidth": 0.15, **more}
    return de.HDDEmbedding("js", basis=basis, density=de.KDE(boundary), symmetries=symmetries, **more).fit(bags)


def images(points, symmetries, judged):
    return exact.cube_images(points, **judged, n_shifts=getattr(symmetries, "n_shifts", 8))


@pytest.mark.parametrize(("n_dims", "basis", "boundary", "symmetries", "judged"), CASES)
def test_the_group_acts_on_coefficients_as_on_points(rng, n_dims, basis, boundary, symmetries, judged):
    bags = rng.beta(2, 4, size=(6, 40, n_dims))
    embedding = fitted(n_dims, basis, boundary, symmetries, bags)
    group, A = embedding.group_, embedding.transform(bags)
    moved = zip(*(images(bag, symmetries, judged) for bag in bags), strict=True)
    wanted = [embedding.transform(list(image)) for image in moved]
    elements = [*groups.get(symmetries).elements(n_dims)]
    assert len(elements) == group.order == len(wanted)
    for i, element in enumerate(elements):
        found = group.act(i, A)
        by_points = embedding.transform([element.move(bag) for bag in bags])
        np.testing.assert_allclose(found, by_points, atol=1e-12)
        assert min(np.abs(found - each).max() for each in wanted) < 1e-12
        np.testing.assert_allclose(group.act(i, found, transposed=True), A, atol=1e-12)  # orthogonal
    np.testing.assert_allclose(group.mean(A), np.mean(wanted, axis=0), atol=1e-12)


@pytest.mark.parametrize(("n_dims", "basis", "boundary", "symmetries", "judged"), CASES)
def test_the_averaged_kernel_is_that_of_the_judge(rng, n_dims, basis, boundary, symmetries, judged):
    bags = rng.beta(2, 4, size=(3, 30, n_dims))
    embedding = fitted(n_dims, basis, boundary, symmetries, bags)
    A = embedding.transform(bags)
    orbits = [embedding.transform(images(bag, symmetries, judged)) for bag in bags]

    def rbf(x, y):
        return float(np.exp(-np.sum((x - y) ** 2) / (2 * 0.3**2)))

    wanted = [[exact.averaged_kernel(one, other, rbf) for other in orbits] for one in orbits]
    np.testing.assert_allclose(averaged_kernel(A, A, 0.3, embedding.group_), wanted, atol=1e-12)


def test_invariant_features_approximate_the_averaged_kernel_ever_better(rng):
    bags = rng.beta(2, 4, size=(12, 60, 2))
    embedding = fitted(2, "cosine", "reflect", "dihedral", bags)
    A = embedding.transform(bags)
    K, errors, biases = averaged_kernel(A, A, 0.2, embedding.group_), [], []
    for n in (100, 2_500):
        drawn = [de.RandomFourierFeatures(n, sigma=0.2, group=embedding.group_, random_state=i) for i in range(8)]
        apart = np.array([Z @ Z.T - K for Z in (rff.fit(A).transform(A) for rff in drawn)])
        errors.append(np.sqrt(np.mean(apart**2)))
        biases.append(np.abs(apart.mean()))
    assert errors[1] < min(0.01, errors[0] / 3)  # a fifth, but for chance
    assert biases[1] < 2 * errors[1] / np.sqrt(8)
    rff = drawn[0]
    Z = rff.transform(A)
    mirrored = embedding.transform([np.abs([1, 0] - bag)[:, ::-1] for bag in bags])
    np.testing.assert_allclose(rff.transform(mirrored), Z, atol=1e-12)
    assert rff.transform(A.astype(np.float32)).dtype == np.float32
    coef = rng.normal(size=n)
    step = 1e-6 * rng.normal(size=A.shape)
    change = (rff.transform(A + step) - rff.transform(A - step)) @ coef / 2
    np.testing.assert_allclose(np.sum(rff.gradients(A, Z, coef) * step, axis=1), change, rtol=1e-4)


def test_transform_does_not_change_with_symmetries(rng):
    bags = rng.beta(2, 4, size=(6, 40, 2))
    plain = de.HDDEmbedding("js", bandwidth=0.1).fit(bags)
    np.testing.assert_array_equal(
        de.HDDEmbedding("js", bandwidth=0.1, symmetries="dihedral").fit(bags).transform(bags), plain.transform(bags)
    )
    assert plain.group_ is None
    shared = de.HDDEmbedding("js", symmetries="dihedral").fit(bags * [1, 0.2]).bandwidth_
    each = de.HDDEmbedding("js").fit(bags * [1, 0.2]).bandwidth_
    np.testing.assert_allclose(shared, np.sqrt(each.prod()))


def turned(bags):
    """The images of bags in [-1, 1]² under one of the eight elements, another for each bag."""
    maps = [np.array([[a, 0], [0, b]]) @ p for a in (1, -1) for b in (1, -1) for p in (np.eye(2), np.eye(2)[::-1])]
    return np.stack([bag @ maps[i % 8].T for i, bag in enumerate(bags)])


@pytest.mark.parametrize("n_components", [200, "exact"])
@pytest.mark.parametrize("embedding", ["js", "hellinger", "l2"])
def test_predictions_do_not_change_with_symmetries(rng, tmp_path, embedding, n_components):
    bags = rng.beta(2, 4, size=(60, 40, 2)) * 2 - 1
    y = bags.std(axis=1).sum(axis=1)
    model = de.DistributionRegressor(
        embedding, scale=de.UnitCube((-1, 1)), symmetries="dihedral", n_components=n_components, random_state=0,
        bandwidth_scales=(1, 2),
    ).fit(bags, y)  # fmt: skip
    found = model.predict(bags)
    np.testing.assert_allclose(model.predict(turned(bags)), found, atol=1e-8)
    assert model.score(bags, y) > 0.8
    de.save(model, tmp_path / "m")
    np.testing.assert_allclose(de.load(tmp_path / "m").predict(bags), found, atol=1e-12)
    explained = model.explain(bags[:3])
    np.testing.assert_allclose(explained.predictions, found[:3], atol=1e-8)


def test_classes_do_not_change_with_symmetries(rng):
    wide = rng.uniform(0.5, 1, size=(80, 1, 1))
    bags, y = np.clip(rng.normal(size=(80, 40, 2)) * wide * [1, 0.3] / 3, -1, 1), (wide > 0.75).ravel()
    for kind in ("ridge", "svm", "logistic"):
        model = de.DistributionClassifier(
            "hellinger", model=kind, scale=de.UnitCube((-1, 1)), symmetries="dihedral", n_components=200,
            random_state=0,
        ).fit(bags, y)  # fmt: skip
        np.testing.assert_allclose(model.predict_proba(turned(bags)), model.predict_proba(bags), atol=1e-8)


def test_batches_have_symmetries_too(rng):
    bags = rng.beta(2, 4, size=(40, 30, 2)) * 2 - 1
    y = bags.std(axis=1).sum(axis=1)
    model = de.DistributionRegressor(
        "js", scale=de.UnitCube((-1, 1)), symmetries="dihedral", n_components=100, tune=None
    )
    model.fit_batches(lambda: iter([(bags[:20], y[:20]), (bags[20:], y[20:])]))
    np.testing.assert_allclose(model.predict(turned(bags)), model.predict(bags), atol=1e-8)


def test_a_learner_gives_swapped_columns_one_box(rng, tmp_path):
    bags = rng.normal(size=(40, 30, 3)) * [1, 2, 50]
    y = bags[..., 2].mean(axis=1)
    model = de.DistributionRegressor("js", symmetries=de.Symmetries(swap=(0, 1)), n_components=100, tune=None)
    model.fit(bags, y)
    low, high = model.scaler_.low_, model.scaler_.high_
    assert low[0] == low[1] > low[2]
    assert high[0] == high[1] < high[2]
    np.testing.assert_allclose(model.predict(bags[..., [1, 0, 2]]), model.predict(bags), atol=1e-8)
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict(bags), model.predict(bags))


def test_functions_of_points(rng, tmp_path):
    bags = rng.normal(size=(40, 30, 2)) * [1, 0.3]
    y = bags.std(axis=(1, 2))

    def turn(angle):
        c, s = np.cos(angle), np.sin(angle)
        return lambda points: points @ np.array([[c, s], [-s, c]])

    third, two_thirds = turn(2 * np.pi / 3), turn(4 * np.pi / 3)
    for embedding in ("js", "mmd", "covariance"):
        model = de.DistributionRegressor(
            embedding, symmetries=[third, two_thirds], n_components=100, tune=None, random_state=0
        ).fit(bags, y)
        other = np.stack([third(bag) for bag in bags])
        np.testing.assert_allclose(model.predict(other), model.predict(bags), atol=1e-5)
    with pytest.raises((TypeError, ValueError), match="function"):
        de.save(model, tmp_path / "m")
    tuned = de.DistributionRegressor("js", symmetries=[third], n_components=100, bandwidth_scales=(1, 2)).fit(bags, y)
    assert tuned.best_params_["bandwidth_scale"] in (1, 2)
    with pytest.raises(ValueError, match=r"Orbit\(functions=...\): each must map points"):
        Orbit(de.MomentEmbedding("mean"), [lambda points: points[:1]]).fit(bags)
    with pytest.raises(TypeError, match="must be functions of points, got 'reflections'"):
        Orbit(de.MomentEmbedding("mean"), ["reflections"]).fit(bags)


def frame():
    return {"bag": [0] * 5 + [1] * 5, "x": np.linspace(0, 1, 10), "sex": ["f", "m"] * 5}


REFUSED = [
    ({"symmetries": "dihedral", "n_basis": (4, 5)}, "swapped dimensions must have the same n_basis"),
    ({"symmetries": "dihedral", "nodes": de.Sobol(256)}, "needs kernel density estimates of one bandwidth on a grid"),
    (
        {"symmetries": "dihedral", "density": de.Histogram(5)},
        "needs kernel density estimates of one bandwidth on a grid",
    ),
    ({"symmetries": "rotations"}, "must be 'reflections', 'dihedral', a Symmetries object or None, got 'rotations'"),
    ({"symmetries": de.Symmetries(shift=(0,))}, "shifted dimensions must be periodic"),
    ({"symmetries": de.Symmetries(shift=(0,)), "density": de.KDE("periodic")}, "Cosine does not follow shifts"),
    (
        {"symmetries": de.Symmetries(shift=(0,)), "density": de.KDE("periodic"), "basis": "fourier", "n_basis": 4},
        "an odd n_basis",
    ),
    ({"symmetries": de.Symmetries(reflect=(2,))}, "different dimensions from 0 to 1, got"),
    ({"symmetries": de.Symmetries(reflect=(0,), swap=(0, 1))}, "do not form a group"),
    ({"symmetries": de.Symmetries(shift="all", n_shifts=30)}, "900 elements in 2 dimensions are more than 512"),
    ({"symmetries": [np.negative]}, "functions of points do not act on coefficients"),
]


@pytest.mark.parametrize(("given", "match"), REFUSED, ids=lambda case: str(case)[:60])
def test_what_has_no_symmetry_is_refused(rng, given, match):
    with pytest.raises(ValueError, match=match):
        de.HDDEmbedding("js", **given).fit(rng.uniform(size=(5, 30, 2)))


def test_learners_refuse_in_a_sentence(rng):
    bags, y = rng.normal(size=(20, 30, 2)), rng.normal(size=20)
    categorical = de.Bags.from_frame(frame(), bag="bag", columns=["x", "sex"], categorical=["sex"])
    with pytest.raises(ValueError, match="must be None for bags with categorical columns"):
        de.HDDEmbedding("js", symmetries="reflections").fit(categorical)
    for given, match in (
        ({"embedding": "mmd"}, "MeanEmbedding has none of its own"),
        ({"embedding": "auto"}, "applies to one embedding by name"),
        ({"embedding": "js", "n_components": None}, r"\(n_components=None\): the features of an embedding change"),
        ({"embedding": "js", "scale": de.UnitCube()}, "must share one box"),
    ):
        with pytest.raises(ValueError, match=match):
            de.DistributionRegressor(symmetries="dihedral", **given).fit(bags, y)
    for wrap in (de.Marginals, de.BlockAverage):
        with pytest.raises(ValueError, match="does not pass on the symmetries"):
            wrap(de.HDDEmbedding("js", symmetries="reflections")).fit(rng.uniform(size=(5, 30, 2)))
    group = groups.coefficient_group(de.Cosine(), np.arange(3)[:, None], groups.get("reflections"))
    with pytest.raises(ValueError, match="acts on blocks of 3 coefficients, got rows of 4 columns"):
        de.RandomFourierFeatures(10, group=group).fit(rng.normal(size=(9, 4)))
