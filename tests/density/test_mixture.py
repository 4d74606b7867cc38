"""Gaussian mixtures against scikit-learn's, and their mass in the cube."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from distembed.density import Mixture
from distembed.density.estimate import distinct_points
from distembed.density.mixture import fit_mixture


def blobs(n=150, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.3, 0.3], [0.7, 0.4], [0.5, 0.75]])
    return np.concatenate([rng.normal(c, 0.06, size=(n // 3, 2)) for c in centres])


def test_expectation_maximisation_is_scikit_learns():
    points, mass = distinct_points(blobs(), None)
    start, _ = fit_mixture(points, mass, 3, floor=1e-9, max_iter=1)
    found, log_likelihood = fit_mixture(points, mass, 3, floor=1e-9, tol=1e-12, max_iter=2000)
    covariances = [a @ np.diag(v) @ a.T for v, a in zip(start.variances, start.axes, strict=True)]
    judge = GaussianMixture(
        3,
        tol=1e-12,
        max_iter=2000,
        reg_covar=0,
        weights_init=start.shares,
        means_init=start.means,
        precisions_init=np.linalg.inv(covariances),
    ).fit(points)
    np.testing.assert_allclose(found.means, judge.means_, atol=1e-5)
    np.testing.assert_allclose(found.shares, judge.weights_, atol=1e-5)
    assert log_likelihood == pytest.approx(judge.score(points), abs=1e-8)


def test_the_criterion_finds_the_number_of_components():
    assert len(Mixture().of(blobs(), None, None).components.shares) == 3
    wide = np.clip(np.random.default_rng(0).normal(0.5, 0.15, size=(200, 2)), 0, 1)
    assert len(Mixture().of(wide, None, None).components.shares) == 1


def test_few_points_have_few_components_and_none_is_too_narrow():
    found = Mixture(5).of(np.array([[0.2, 0.2], [0.9, 0.9], [0.9, 0.9]]), None, None).components
    assert len(found.shares) == 2
    np.testing.assert_allclose(np.sort(found.shares), [1 / 3, 2 / 3])
    np.testing.assert_allclose(found.variances, 0.02**2)


def test_mass_outside_the_cube_is_left_out():
    one = Mixture(1, least_deviation=0.1).of(np.array([[0.0, 0.5]]), None, None)
    assert one.mass == pytest.approx(0.5, abs=0.01)
