"""Less bias: Richardson's extrapolation, grids for Legendre polynomials, enough functions, ellipsoids that are cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import distembed as de
from distembed.divergences import plugin


def mixtures(n_points, n_dims, seed=0, n_bags=10):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1.8, 6, size=(2, n_bags, 1, n_dims))
    return rng.beta(a, b, size=(n_bags, n_points, n_dims)), a[:, 0], b[:, 0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_richardson_takes_off_what_smoothing_takes_off():
    rng, means, pairs = np.random.default_rng(0), np.linspace(0.38, 0.62, 10), np.triu_indices(10, 1)
    bags = rng.normal(means[:, None, None], 0.08, size=(10, 40_000, 1)).clip(0, 1)
    truth = 1 - np.exp(-((means[pairs[0]] - means[pairs[1]]) ** 2) / (8 * 0.08**2))  # of equal Gaussians
    wide = de.HDDEmbedding("hellinger", bandwidth=0.02, n_basis=30).fit(bags)
    plain, better = (wide.squared_distances(bags, bias=bias)[pairs] for bias in (None, "richardson"))
    assert np.mean(plain - truth) < 0
    assert np.abs(np.mean(better - truth)) < np.abs(np.mean(plain - truth)) / 2
    both = wide.squared_distances(bags[:3], bags, bias="richardson")
    np.testing.assert_allclose(both, wide.squared_distances(bags, bias="richardson")[:3], atol=1e-12)
    np.testing.assert_allclose(wide.squared_distances(bags)[pairs], pdist(wide.transform(bags), "sqeuclidean"))
    near, far = (plugin(bags, distance="hellinger", bandwidth=0.02 * scale)[pairs] for scale in (1, np.sqrt(2)))
    found = plugin(bags, distance="hellinger", bandwidth=0.02, bias="richardson")[pairs]
    np.testing.assert_allclose(found, 2 * near - far, atol=1e-12)


def test_richardson_is_for_smoothed_densities_at_shared_nodes():
    bags, *_ = mixtures(50, 2)
    for given in ({"nodes": "pairs"}, {"density": "mixture"}):
        with pytest.raises(ValueError, match=r"plugin\(bias='richardson'\): needs kernel density estimates at nodes"):
            plugin(bags, bias="richardson", **given)
    with pytest.raises(ValueError, match="'richardson'"):
        plugin(bags, bias="jackknife")
    with pytest.raises(ValueError, match="'richardson'"):
        de.HDDEmbedding("js", bandwidth=0.2).fit(bags).squared_distances(bags, bias="jackknife")


@pytest.mark.parametrize(("n_dims", "n_basis"), [(1, 10), (1, 20), (2, 6), (2, 10)])
def test_automatic_grids_resolve_legendre_polynomials(n_dims, n_basis):
    bags, *_ = mixtures(500, n_dims)
    given = {"basis": "legendre", "n_basis": n_basis, "bandwidth": 0.1}
    embedding = de.HDDEmbedding("js", **given).fit(bags)
    finer = de.HDDEmbedding("js", nodes=de.Grid(tuple(4 * n for n in embedding.nodes_.shape)), **given)
    found, wanted = (pdist(rows, "sqeuclidean") for rows in (embedding.transform(bags), finer.fit_transform(bags)))
    np.testing.assert_allclose(found, wanted, rtol=0.02)
    assert np.abs(np.mean(found / wanted) - 1) < 0.005
    assert de.HDDEmbedding("js", nodes=de.Grid(12), **{**given, "n_basis": 10}).fit(bags).nodes_.shape[0] == 12


def test_enough_functions_are_chosen(tmp_path):
    rng = np.random.default_rng(0)
    narrow = np.clip(rng.normal(0.5, 0.02, size=(12, 300, 1)) + rng.uniform(-0.3, 0.3, size=(12, 1, 1)), 0, 1)
    auto = de.HDDEmbedding("js", n_basis="auto").fit(narrow)
    assert auto.n_basis_ > 10
    assert auto.lost_signal_ <= 0.05
    same = de.HDDEmbedding("js", n_basis=auto.n_basis_).fit(narrow)
    np.testing.assert_array_equal(auto.transform(narrow), same.transform(narrow))
    wide = mixtures(200, 2)[0]
    assert de.HDDEmbedding("js", n_basis="auto", bandwidth=0.2).fit(wide).n_basis_ == 10
    dots = de.as_bags(rng.uniform(size=(12, 2, 2)).repeat(10, axis=1))
    with pytest.warns(de.basis.LowEnergyWarning):  # the budget is 10,000 features
        most = de.HDDEmbedding("js", n_basis="auto", bandwidth=0.01, nodes=de.Grid(100)).fit(dots)
    assert most.stages_.n_features <= 10_000
    de.save(auto, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").transform(narrow), auto.transform(narrow))
    with pytest.raises((TypeError, ValueError), match=r"HDDEmbedding\(n_basis=...\): must be"):
        de.HDDEmbedding("js", n_basis="many").fit(wide)
    y = narrow.mean(axis=(1, 2))
    model = de.DistributionRegressor(de.HDDEmbedding("js", n_basis="auto"), n_components=100, random_state=0)
    assert np.isfinite(model.fit(narrow, y).predict(narrow)).all()


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_an_ellipsoid_that_is_cut_says_so():
    bags, ball = mixtures(50, 2)[0], de.SobolevEllipsoid(t=200)
    with pytest.warns(
        UserWarning, match=r"\(10, 10\) functions cut the ellipsoid of .*; use n_basis=\(15, 15\) for all"
    ):
        cut = de.HDDEmbedding("js", basis=de.Cosine(ball), bandwidth=0.2).fit(bags)
    whole = de.HDDEmbedding("js", basis=de.Cosine(ball), bandwidth=0.2, n_basis=(15, 15)).fit(bags)
    larger = de.HDDEmbedding("js", basis=de.Cosine(ball), bandwidth=0.2, n_basis=20).fit(bags)
    assert cut.n_basis_functions_ == 100 < whole.n_basis_functions_ == larger.n_basis_functions_
    with pytest.warns(UserWarning, match=r"use n_basis=\(7, 7\) for all of it"):
        de.HDDEmbedding("js", basis=de.Fourier(de.SobolevEllipsoid(t=9)), bandwidth=0.2, n_basis=5).fit(bags)
