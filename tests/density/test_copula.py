"""Gaussian copulas: margins, correlations, and products of margins in many dimensions."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from distembed import Bags, Grid, MonteCarlo
from distembed.compute.arrays import bags_first
from distembed.density import KDE, Copula
from distembed.density.copula import margins_for

float64 = np.dtype(float)


def make(n_dims, sizes=(60, 1, 7), weighted=False):
    rng = np.random.default_rng(n_dims)
    arrays = [rng.beta(0.8, 1.5, size=(n, n_dims)) for n in sizes]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0, 2, n) + 0.01 for n in sizes] if weighted else None)


def values(estimate, nodes, bags, h=0.1, dtype=float64):
    prepared = estimate.prepare(nodes, None if h is None else np.full(bags.n_dims, h), dtype)
    return bags_first(prepared(bags, None, None)).reshape(bags.n_bags, -1)


def scattered(n_dims, n=200, kind=MonteCarlo):
    return kind(n).resolve(n_dims, random_state=np.random.RandomState(0))


@pytest.mark.parametrize("h", [0.02, 0.1, 0.5, 4.0])
def test_a_copula_of_one_dimension_is_the_kernel_estimate(h):
    bags, nodes = make(1, weighted=True), scattered(1)
    want = values(KDE(), nodes, bags, h)
    np.testing.assert_allclose(values(Copula(), nodes, bags, h), want, atol=2e-3 * want.max())


def correlated(n, r, seed=0):
    """Points, and their density, of a Gaussian copula with beta margins."""
    cov, margin = [[1, r], [r, 1]], stats.beta(2, 4)
    z = np.random.default_rng(seed).multivariate_normal([0, 0], cov, size=n)

    def pdf(u):
        z = ndtri(margin.cdf(u))
        log_copula = stats.multivariate_normal([0, 0], cov).logpdf(z) - stats.norm.logpdf(z).sum(axis=1)
        return np.exp(log_copula) * margin.pdf(u).prod(axis=1)

    return margin.ppf(ndtr(z)), pdf


@pytest.mark.parametrize("r", [-0.8, 0.5, 0.9])
def test_a_copula_finds_correlated_margins(r):
    points, truth = correlated(1000, r)
    one, nodes = Copula().of(points, None, np.full(2, 0.03)), Grid(64).resolve(2)
    assert one.correlation[0, 1] == pytest.approx(r, abs=0.03)
    found = one.pdf(nodes.points)
    assert found.mean() == pytest.approx(1.0, abs=2e-3)
    kernel = KDE().of(points, None, np.full(2, 0.03)).pdf(nodes.points)
    errors = [1 - np.mean(np.sqrt(p * truth(nodes.points))) for p in (found, kernel)]
    assert errors[0] < 0.015
    assert errors[0] < 0.8 * errors[1]


def hellinger_to_truth(estimate, points, truth, draws, h):
    """Squared Hellinger distance to the truth, by its own draws: 1 - E √(p̂ / p)."""
    return 1 - np.mean(np.sqrt(estimate.of(points, None, h).pdf(draws) / truth(draws)))


@pytest.mark.parametrize("n_dims", [5, 10])
@pytest.mark.parametrize("margin", [stats.beta(2, 3), stats.truncnorm(-2, 2, 0.5, 0.25)], ids=["beta", "normal"])
def test_products_of_margins_in_many_dimensions(n_dims, margin):
    rng = np.random.default_rng(0)
    points, draws = margin.rvs((400, n_dims), random_state=rng), margin.rvs((500, n_dims), random_state=rng)

    def truth(u):
        return margin.pdf(u).prod(axis=1)

    scott = points.std() * 400 ** (-1 / (n_dims + 4))
    copula = hellinger_to_truth(Copula(), points, truth, draws, np.full(n_dims, points.std() * 400**-0.2))
    best_kernel = min(
        hellinger_to_truth(KDE(), points, truth, draws, np.full(n_dims, c * scott)) for c in (0.7, 1.0, 1.4)
    )
    assert copula < 0.012 * n_dims
    assert copula < 0.5 * best_kernel


def test_margins_are_made_once_for_all_bags():
    bags, h = make(3), np.array([0.11, 0.12, 0.13])
    before = margins_for.cache_info().misses
    for points in bags:
        Copula().of(points, None, h)
    values(Copula(), scattered(3), bags, 0.11)
    assert margins_for.cache_info().misses == before + 2


def test_noise_is_not_taken_for_dependence():
    points = np.random.default_rng(0).uniform(size=(60, 8))
    h = np.full(8, 0.1)
    off = ~np.eye(8, dtype=bool)
    plain, shrunk, product = (Copula(s).of(points, None, h).correlation[off] for s in (0.0, "auto", 1.0))
    assert np.sum(shrunk**2) < 0.1 * np.sum(plain**2)
    assert not product.any()


@pytest.mark.parametrize("n_dims", [2, 6])
def test_dependent_coordinates_stay_positive_definite(n_dims):
    x = np.random.default_rng(0).uniform(size=(300, 1))
    one = Copula().of(np.repeat(x, n_dims, axis=1), None, np.full(n_dims, 0.03))
    assert np.linalg.eigvalsh(one.correlation)[0] > 1e-3
    assert 0.9 < one.correlation[0, 1] < 1
