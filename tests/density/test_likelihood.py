"""The leave-one-out likelihood against brute force, on grids, by pairs and by products."""

import numpy as np
import pytest
from scipy import optimize

import exact
from distembed import Bags, as_bags
from distembed.density import bandwidth, likelihood
from distembed.density.likelihood import WIDEST, LeaveOneOut
from distembed.density.subsets import Draws


def mixtures(n_bags=6, n_points=150, n_dims=2, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.2, 0.8, size=(n_bags, 3, n_dims))
    parts = rng.integers(3, size=(n_bags, n_points))
    points = np.take_along_axis(centres, parts[:, :, None], axis=1) + rng.normal(0, 0.05, (n_bags, n_points, n_dims))
    return Bags.from_arrays(list(np.clip(points, 0, 1)))


def reflect(n_dims):
    return ["reflect"] * n_dims


def loo_log_likelihood(points, h, weights):
    """Brute force: the density of the others at each point."""
    total = 0.0
    for i in range(len(points)):
        others = np.arange(len(points)) != i
        total += weights[i] * np.log(exact.kde(points[others], points[[i]], h, "reflect", weights[others])[0])
    return total / weights.sum()


@pytest.mark.parametrize("n_dims", [1, 2, 3, 4])
def test_likelihood_maximises_the_leave_one_out_likelihood(n_dims):
    rng = np.random.default_rng(0)
    plain = mixtures(2, 60, n_dims)
    weights = rng.uniform(0.5, 2, plain.n_points)
    bags = Bags(plain.points, plain.offsets, weights=weights)
    found = bandwidth.resolve("likelihood", bags, reflect(n_dims))

    def objective(scale):
        h = scale * found
        return np.mean([loo_log_likelihood(p, h, bags.weights_of(i)) for i, p in enumerate(bags)])

    values = [objective(scale) for scale in (0.75, 1.0, 1.33)]
    assert values[1] == max(values)
    # ... and close to the maximum of the parabola through the three.
    assert max(values[0], values[2]) < values[1] - 0.3 * abs(values[0] - values[2])


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_grid_that_resolves_a_bandwidth_tells_its_likelihood(n_dims):
    points = np.clip(np.random.default_rng(0).normal(0.5, 0.15, size=(5, 200, n_dims)), 0, 1)
    bags, boundaries = as_bags(points), ["reflect"] * n_dims
    chosen = Draws(np.random.RandomState(0)).rows(bags, 200)
    for h in (0.06, 0.1, 0.3):
        shape = likelihood.resolving_bins(np.full(n_dims, h), (160,) * n_dims)
        found = likelihood.GridLikelihood(bags, boundaries, shape, chosen)(np.full(n_dims, h))
        direct = likelihood.DirectLikelihood(bags, boundaries, Draws(np.random.RandomState(0)))
        assert max(shape) < 160
        assert found == pytest.approx(direct(np.full(n_dims, h)), abs=1e-3)


def test_likelihood_follows_boundaries():
    rng = np.random.default_rng(0)
    uniform = Bags.from_arrays([rng.uniform(size=500) for _ in range(4)])
    wide, narrow = (bandwidth.resolve("likelihood", uniform, [b])[0] for b in ("periodic", "none"))
    assert wide > 2 * narrow  # a uniform density wants all the smoothing that it can get, unless it leaks


def test_likelihood_is_not_misled_by_rounding_in_many_dimensions():
    bags = as_bags(np.random.default_rng(0).uniform(size=(3, 100, 12)))
    assert bandwidth.resolve("likelihood", bags, reflect(12)).min() > 0.2


def test_likelihood_in_many_dimensions_takes_some_points_of_large_bags():
    bags = mixtures(1, 480, 4)
    weighted = Bags(bags.points, bags.offsets, weights=np.random.default_rng(0).uniform(0.5, 2, bags.n_points))
    for given in (bags, weighted):
        found = {}
        for n in (80, 10_000):
            draws = Draws(np.random.RandomState(0), kernels=n)
            fewer = likelihood.fewer_points(given, draws)
            assert fewer.sizes.tolist() == [min(n, 480)]
            found[n] = bandwidth.RULES["likelihood"](given, reflect(4), draws)
        assert not np.array_equal(found[80], found[10_000])
        np.testing.assert_allclose(found[80], found[10_000], rtol=0.1)


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "none"])
def test_leave_one_out_products_are_brute_force(boundary):
    bags = mixtures(2, 12, 3)
    h = np.array([0.1, 0.3, WIDEST])
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, size=(2, 12))
    state = LeaveOneOut(Bags.from_arrays(list(bags), weights=list(weights)), [boundary] * 3)
    for j in (0, 1):
        state.move(j, h[j])
    want = [
        np.log(exact.kde(np.delete(x, i, 0), x[[i]], h, boundary, np.delete(w, i))[0])
        for x, w in zip(bags, weights, strict=True)
        for i in range(12)
    ]
    np.testing.assert_allclose(state.log_density(None), want, atol=0.02)
    ratio = state.ratio(2, 0.2)
    mean, error = state.gain(ratio, state.log_density(None))
    gains = state.log_density(ratio) - state.log_density(None)
    assert mean == pytest.approx(state.share @ gains, rel=1e-6)
    assert error > 0


@pytest.mark.parametrize("seed", range(8))
def test_searches_side_by_side_take_the_steps_of_scipy(seed):
    rng = np.random.default_rng(seed)
    terms, phases = rng.normal(size=4), rng.uniform(0, 6, 4)
    looked, wanted = [], []

    def f(x):
        return float(np.sum(terms * np.cos(np.arange(1, 5) * x + phases)))

    def seen(x):
        wanted.append(float(x))
        return f(x)

    best = optimize.minimize_scalar(seen, bounds=(-1, 2), method="bounded", options={"xatol": 0.003}).x
    search = likelihood.bounded_search(-1, 2, 0.003)
    looked.append(next(search))
    try:
        while True:
            looked.append(search.send(f(looked[-1])))
    except StopIteration as end:
        assert end.value == pytest.approx(best)  # noqa: PT017
    np.testing.assert_allclose(looked, wanted, rtol=1e-12)
