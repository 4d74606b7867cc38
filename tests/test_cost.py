"""Cost and memory, by counting: no clock in the tests."""

import tracemalloc

import numpy as np
import pytest

import distembed as de
from distembed.compute import parallel as _parallel
from distembed.compute.arrays import LinearBinning
from distembed.compute.parallel import n_threads, run_chunks
from distembed.embeddings import hdd
from distembed.features import fourier as random_features


def uniform(n_bags, n_points, n_dims=2, dtype=np.float32):
    points = np.random.default_rng(0).uniform(size=(n_bags * n_points, n_dims)).astype(dtype)
    return de.Bags(points, np.arange(n_bags + 1) * n_points)


@pytest.fixture
def work(monkeypatch):
    """Counts of points binned, node values put through lambda functions, and multiplications of matrix products."""
    counts = {"points": 0, "nodes": 0, "products": 0}

    def counting(function, key, size):
        def wrapper(*args, **kwargs):
            counts[key] += size(*args)
            return function(*args, **kwargs)

        return wrapper

    original = np.matmul

    def matmul(a, b, out=None):
        counts["products"] += a.shape[-1] * out.size
        return original(a, b, out=out)

    binning = counting(LinearBinning.__call__, "points", lambda self, points, *rest: len(points))
    functions = counting(hdd.lambda_functions, "nodes", lambda p, *rest: p.size)
    monkeypatch.setattr(LinearBinning, "__call__", binning)
    monkeypatch.setattr(hdd, "lambda_functions", functions)
    monkeypatch.setattr(np, "matmul", matmul)
    return counts


def count(work, embedding, bags):
    for key in work:
        work[key] = 0
    embedding.transform(bags)
    return dict(work)


@pytest.mark.parametrize("dtype", [np.float32, float])
def test_work_is_linear_in_bags_and_in_points(work, dtype):
    embedding = de.HDDEmbedding("js", bandwidth=0.05).fit(uniform(2, 10, dtype=dtype))
    base = count(work, embedding, uniform(100, 50, dtype=dtype))
    assert all(value > 0 for value in base.values())
    for factor in (2, 5, 10):
        more_bags = count(work, embedding, uniform(100 * factor, 50, dtype=dtype))
        assert more_bags == {key: factor * value for key, value in base.items()}
        more_points = count(work, embedding, uniform(100, 50 * factor, dtype=dtype))
        assert more_points == base | {"points": factor * base["points"]}


def test_products_separate_over_dimensions(work):
    # 3-D: 10 functions per dimension on 16 nodes take 6 (10 16^3 + 10^2 16^2 + 10^3 16) products, not 6 10^3 16^3.
    embedding = de.HDDEmbedding("js", n_lambdas=3, bandwidth=0.2).fit(uniform(2, 10, 3))
    assert embedding.nodes_.shape == (16, 16, 16)
    found = count(work, embedding, uniform(1, 10, 3))["products"]
    assert found == 6 * (10 * 16**3 + 10**2 * 16**2 + 10**3 * 16) + 3 * 16**4


def peak_beyond_output(function):
    function()  # imports that stay
    _parallel._idle.clear()  # memory kept from earlier runs would not be counted
    tracemalloc.start()
    out = function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - out.nbytes


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_transform_needs_its_output_and_a_fixed_working_set(n_jobs):
    embedding = de.HDDEmbedding("js", bandwidth=0.05, n_jobs=n_jobs).fit(uniform(2, 10))
    few, many = (peak_beyond_output(lambda n=n: embedding.transform(uniform_bags[n])) for n in (1000, 4000))
    if n_jobs == 1:  # two threads take one working set or two, as it happens
        assert many < 1.1 * few + 2**18
    assert max(few, many) < 24 * 2**20 * n_jobs


uniform_bags = {n: uniform(n, 40) for n in (1000, 4000)}


def test_a_large_bag_is_read_in_blocks():
    embedding = de.HDDEmbedding("js", bandwidth=0.05).fit(uniform(2, 10))
    bags = [uniform(1, n) for n in (500_000, 2_000_000)]
    few, many = (peak_beyond_output(lambda b=b: embedding.transform(b)) for b in bags)
    assert many < 1.1 * few + 2**18


def test_random_features_need_their_output_and_a_fixed_working_set(monkeypatch):
    monkeypatch.setattr(random_features, "_CHUNK_VALUES", 2**18)
    fitted = de.RandomFourierFeatures(500, n_jobs=1).fit(np.random.default_rng(0).normal(size=(100, 60)))
    rows = {n: np.random.default_rng(1).normal(size=(n, 60)) for n in (4000, 16_000)}
    few, many = (peak_beyond_output(lambda n=n: fitted.transform(rows[n])) for n in rows)
    assert many < 1.1 * few + 2**18


def test_chunks_run_once_each_and_errors_surface():
    seen = []
    run_chunks(lambda chunk, scratch: seen.append(chunk), range(50), 2)
    assert sorted(seen) == list(range(50))

    def fail(chunk, scratch):
        if chunk == 3:
            raise ValueError("chunk three")

    for n_jobs in (1, 2):
        with pytest.raises(ValueError, match="chunk three"):
            run_chunks(fail, range(6), n_jobs)


def test_threads_follow_blas_unless_told():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        assert n_threads(None) == 1
        assert n_threads(2) == 2
    with pytest.raises(TypeError, match=r"n_jobs: must be an integer or None, got 1\.5; -1 uses all cores"):
        n_threads(1.5)


def test_fitting_looks_at_a_fixed_number_of_bags():
    bags = uniform(5000, 20)
    chosen = de.bandwidth.spaced(bags)
    assert chosen.n_bags == de.bandwidth.MAX_BAGS
    np.testing.assert_allclose(de.HDDEmbedding().fit(bags).bandwidth_, de.HDDEmbedding().fit(chosen).bandwidth_)
