"""The exact kernel against kernel ridge regression, and its limits."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.features.exact_kernel import KernelFeatures


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_exact_kernel_is_kernel_ridge_regression(rng):
    rows, new, y = rng.normal(size=(60, 5)), rng.normal(size=(20, 5)), rng.normal(size=60)
    features = KernelFeatures(sigma=2.0).fit(rows)
    Z = features.transform(rows)

    def kernel(a, b):
        return np.exp(-np.sum((a[:, None] - b) ** 2, axis=2) / 8)

    np.testing.assert_allclose(Z @ Z.T, kernel(rows, rows), atol=1e-9)
    model = de.LinearRidge(0.1).fit(Z, y)
    matrix = np.block([[kernel(rows, rows) + 0.1 * np.eye(60), np.ones((60, 1))], [np.ones((1, 60)), np.zeros((1, 1))]])
    solved = np.linalg.solve(matrix, np.append(y, 0.0))  # with an intercept that is not penalised
    wanted = kernel(new, rows) @ solved[:-1] + solved[-1]
    np.testing.assert_allclose(model.predict(features.transform(new)), wanted, atol=1e-6)
    slopes = features.gradients(new, features.transform(new), model.coef_.ravel())
    step = 1e-5 * rng.normal(size=new.shape)
    change = model.predict(features.transform(new + step)) - model.predict(features.transform(new - step))
    np.testing.assert_allclose(np.sum(slopes * step, axis=1), change / 2, rtol=1e-4, atol=1e-10)


def test_equal_rows_have_a_factor(rng):
    rows = np.repeat(rng.normal(size=(5, 3)), 4, axis=0)
    Z = KernelFeatures().fit_transform(rows)
    assert np.all(np.isfinite(Z))
    np.testing.assert_allclose(np.sum(Z**2, axis=1), 1, atol=1e-6)


def test_random_features_approach_the_exact_kernel(rng):
    bags = rng.normal(size=(80, 30, 1)) * rng.uniform(0.5, 2, size=(80, 1, 1))
    y = bags.std(axis=(1, 2))
    settings = {"tune": None, "random_state": 0, "embedding": "hellinger"}
    wanted = de.DistributionRegressor(n_components="exact", **settings).fit(bags[:50], y[:50]).predict(bags)
    apart = [
        np.abs(de.DistributionRegressor(n_components=n, **settings).fit(bags[:50], y[:50]).predict(bags) - wanted).max()
        for n in (200, 20_000)
    ]
    assert apart[1] < 0.02 < 2 * apart[1] + apart[0]


def test_exact_says_its_memory_before_it_starts_and_refuses_what_it_can_not_do(rng, monkeypatch):
    bags, y = rng.normal(size=(30, 20, 1)), rng.normal(size=30)

    class Watch:
        def __init__(self):
            self.stages = []

        def begin(self, stage, total):
            self.stages.append(stage)

        def advance(self, more):
            pass

    watch = Watch()
    de.DistributionRegressor("js", n_components="exact", tune=None).fit(bags, y, progress=watch)
    assert "fitting the embedding, and the exact kernel of 30 bags in 4.3e-05 GB" in watch.stages
    monkeypatch.setattr("distembed.features.exact_kernel.MAX_BAGS", 20)
    with pytest.raises(ValueError, match="takes at most 20 bags, got 30, for which it would need"):
        de.DistributionRegressor("js", n_components="exact", tune=None).fit(bags, y)
    with pytest.raises(ValueError, match="needs all bags at once"):
        de.DistributionRegressor("js", n_components="exact").partial_fit(bags, y)
    with pytest.raises(ValueError, match="applies to one embedding by name"):
        de.DistributionRegressor(n_components="exact").fit(bags, y)
    with pytest.raises((TypeError, ValueError), match="n_components"):
        de.DistributionRegressor("js", n_components="exakt").fit(bags, y)
