"""HistogramEmbedding against the judge, against binned truth, and in front of random features."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import distembed as de
import exact
import exact as judge
from distembed.embeddings import HistogramEmbedding
from distembed.embeddings import histogram as module


def clouds(n_bags=6, n_points=40, n_dims=2, seed=0, dtype=float, weighted=False):
    rng = np.random.default_rng(seed)
    arrays = [
        np.clip(rng.normal(rng.uniform(0.3, 0.7, n_dims), 0.2, (n_points + i, n_dims)), 0, 1).astype(dtype)
        for i in range(n_bags)
    ]
    weights = [rng.uniform(0, 1, len(a)) * (rng.uniform(size=len(a)) > 0.2) for a in arrays] if weighted else None
    return de.Bags.from_arrays(arrays, weights=weights)


def judged(bags, bins):
    return np.array([judge.histogram(points, bins, bags.weights_of(i)) for i, points in enumerate(bags)])


def squared_distances(features):
    return np.sum((features[:, None] - features[None]) ** 2, axis=2)


# --------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [(7,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shares_are_the_judges(bins, weighted, dtype):
    bags = clouds(n_dims=len(bins), weighted=weighted, dtype=dtype)
    found = HistogramEmbedding("l2", bins).fit_transform(bags)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, judged(bags, bins), atol=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize(
    ("kernel", "options", "tolerance"),
    [
        ("js", {"order": 20}, 1e-6),
        ("js", {"map": "gauss", "order": 8}, 1e-5),
        ("chi2", {"order": 20}, 1e-5),
        ("hellinger", {}, 1e-13),
        ("tv", {"order": 64}, 0.01),
        ("intersection", {"map": "gauss", "order": 200}, 0.01),
        ("l2", {"map": "none"}, 1e-14),
    ],
)
def test_squared_distances_are_those_of_histograms(kernel, options, tolerance):
    bags = clouds(weighted=True)
    rows = judged(bags, (4, 3))
    name = "tv" if kernel == "intersection" else kernel
    wanted = [[judge.histogram_distance(h, g, name) for g in rows] for h in rows]
    found = squared_distances(HistogramEmbedding(kernel, (4, 3), **options).fit_transform(bags))
    np.testing.assert_allclose(found, wanted, atol=tolerance)


def test_three_values():
    bags = de.Bags.from_arrays([[0.1, 0.5, 0.9], [0.2, 0.5, 0.8]], weights=[[2, 3, 5], [5, 3, 2]])
    for kernel, wanted in {"js": 0.066414314, "hellinger": 0.067544468}.items():
        a, b = HistogramEmbedding(kernel, 3, order=40).fit_transform(bags)
        assert abs(np.sum((a - b) ** 2) - wanted) < 1e-9


# --------------------------------------------------------------------------------------------------------------
# Truth
# --------------------------------------------------------------------------------------------------------------


def ramps(n, seed):
    """A bag of p = 2x and one of the uniform density."""
    u = np.random.default_rng(seed).uniform(size=(2, n))
    return de.Bags.from_arrays([np.sqrt(u[0]), u[1]])


@pytest.mark.parametrize("kernel", ["js", "hellinger", "chi2"])
def test_distances_approach_the_binned_truth_as_points_grow(kernel):
    bins = 8
    ramp, flat = (2 * np.arange(bins) + 1) / bins**2, np.full(bins, 1 / bins)
    truth = judge.histogram_distance(ramp, flat, kernel)
    errors = []
    for n in (200, 3200, 51_200):
        embedding = HistogramEmbedding(kernel, bins, map="gauss", order=8)
        found = [embedding.fit_transform(ramps(n, seed)) for seed in range(12)]
        errors.append(np.mean([abs(np.sum((a - b) ** 2) - truth) for a, b in found]))
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.6 * errors[1]
    assert errors[2] < 0.02 * truth


def test_smaller_bins_see_more_up_to_the_distance_of_the_densities():
    bags = ramps(400_000, 0)
    found = []
    for bins in (2, 4, 16, 64):
        a, b = HistogramEmbedding("js", bins, map="gauss", order=8).fit_transform(bags)
        found.append(np.sum((a - b) ** 2))
    assert np.all(np.diff(found) > 0)
    assert abs(found[-1] - 0.053781946) < 0.001


def test_noise_of_histograms_is_the_documented_one():
    n, cells = 500, 10
    x = np.random.default_rng(0).uniform(size=(60, n, 1))
    rows = HistogramEmbedding("js", cells, map="gauss", order=6).fit_transform(x)
    noise = np.mean(np.sum((rows[::2] - rows[1::2]) ** 2, axis=1))
    assert 0.75 < noise / ((cells - 1) / (4 * n)) < 1.25


@pytest.mark.parametrize("kernel", ["js", "chi2"])
def test_random_features_on_top_give_the_generalised_rbf(kernel):
    bags, sigma = clouds(weighted=True), 0.4
    model = make_pipeline(
        HistogramEmbedding(kernel, 4, order=8), de.RandomFourierFeatures(20_000, sigma=sigma, random_state=0)
    )
    z = model.fit_transform(bags)
    rows = judged(bags, (4, 4))
    wanted = [[np.exp(-judge.histogram_distance(h, g, kernel) / (2 * sigma**2)) for g in rows] for h in rows]
    assert np.ptp(wanted) > 0.4
    np.testing.assert_allclose(z @ z.T, wanted, atol=0.02)


def test_it_agrees_with_hdd_embedding_on_the_same_histograms():
    bags = clouds(n_dims=1)
    a = HistogramEmbedding("js", 8, map="gauss", order=5).fit_transform(bags)
    hdd = de.HDDEmbedding("js", n_basis=8, density=de.Histogram(bins=8), nodes=de.Grid(8), n_lambdas=5)
    np.testing.assert_allclose(squared_distances(a), squared_distances(hdd.fit_transform(bags)), atol=1e-9)


# --------------------------------------------------------------------------------------------------------------
# Cells, chunks, names, errors
# --------------------------------------------------------------------------------------------------------------


def test_edges_belong_to_the_upper_bin_and_one_to_the_last():
    x = np.array([0.0, 0.25, 0.5, 0.75, 1.0])[:, None]
    assert module.number_cells(x, (4,)).tolist() == [0, 1, 2, 3, 3]


def test_float32_points_are_in_the_bins_of_their_values():
    below = np.nextafter(np.float32(0.7), np.float32(0))  # float32 arithmetic takes ten times that for seven
    wanted = int(float(below) * 10)
    assert module.number_cells(np.array([[below]], np.float32), (10,)).tolist() == [wanted]
    values = np.nextafter((np.arange(1, 1000) / 1000).astype(np.float32), np.float32(0))
    wanted = (values.astype(float) * 1000).astype(int)
    np.testing.assert_array_equal(module.number_cells(values[:, None], (1000,)), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_and_threads_change_nothing(dtype):
    bags = clouds(150, 10, weighted=True, dtype=dtype)
    wanted = HistogramEmbedding(bins=5, n_jobs=1).fit_transform(bags)
    for n_jobs in (1, 2, 3):
        embedding = HistogramEmbedding(bins=5, n_jobs=n_jobs)
        embedding.chunk_bytes = 20_000
        found = embedding.fit_transform(bags)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * np.finfo(dtype).eps)


def test_work_is_cut_by_points_and_by_features():
    sizes = np.array([10, 10, 1_000_000, 10, 10])
    slices = module.bag_slices(sizes, 48, 100, HistogramEmbedding.chunk_bytes)
    assert [(s.start, s.stop) for s in slices] == [(0, 2), (2, 3), (3, 5)]


def test_attributes_and_names():
    embedding = HistogramEmbedding("intersection", (2, 3), map="gauss", order=1).fit(clouds())
    assert (embedding.bins_, embedding.n_cells_, embedding.n_features_in_) == ((2, 3), 6, 2)
    names = embedding.get_feature_names_out().tolist()
    assert len(names) == 12
    assert names[:4] == ["tv_re0_0_0", "tv_re0_0_1", "tv_re0_0_2", "tv_re0_1_0"]
    names = HistogramEmbedding("js", 2, order=1).fit(clouds(n_dims=1)).get_feature_names_out().tolist()
    assert names == ["js_re0_0", "js_re0_1", "js_re1_0", "js_re1_1", "js_im1_0", "js_im1_1"]
    assert HistogramEmbedding("linear", 1).fit(clouds(n_dims=1)).get_feature_names_out().tolist() == ["l2_share_0"]


def test_a_feature_belongs_to_its_name():
    bags = de.Bags.from_arrays([np.array([[0.9, 0.1]])])
    embedding = HistogramEmbedding("js", (2, 3), order=1).fit(bags)
    names = embedding.get_feature_names_out()
    assert set(names[embedding.transform(bags)[0] != 0]) == {"js_re0_1_0", "js_re1_1_0"}  # log 1 = 0 has no sine


def test_points_without_weight_may_be_outside():
    inside = de.Bags.from_arrays([[0.1, 0.5], [0.7, 0.9]])
    more = de.Bags.from_arrays([[0.1, 7.0, 0.5], [0.7, 0.9, -1.0]], weights=[[1, 0, 1], [1, 1, 0]])
    embedding = HistogramEmbedding(bins=3).fit(more)
    np.testing.assert_array_equal(embedding.transform(more), embedding.transform(inside))


def test_points_outside_are_refused_with_a_remedy():
    good, bad = clouds(n_dims=1), de.Bags.from_arrays([[0.5], [0.2, 1.5]], ids=["a", "b"])
    text = r"HistogramEmbedding: points must lie in the unit cube \[0, 1\]\^1, but point 1 of bag 1 .*'b'.* has 1.5 .*"
    for call in (lambda: HistogramEmbedding().fit(bad), lambda: HistogramEmbedding().fit(good).transform(bad)):
        with pytest.raises(ValueError, match=text + r"make_pipeline\(UnitCube\(\), HistogramEmbedding\(...\)\)"):
            call()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"bins": 0}, ValueError, r"HistogramEmbedding\(bins=...\): must be an integer in \[1, 1e\+06\], got 0"),
        ({"bins": 2.5}, TypeError, r"HistogramEmbedding\(bins=...\): must be an integer .* got 2.5 of type float"),
        ({"bins": "ten"}, TypeError, r"HistogramEmbedding\(bins=...\)"),
        ({"bins": (2, 3, 4)}, ValueError, r"one number, or one per dimension \(2\), got \(2, 3, 4\); give 2 numbers"),
        (
            {"bins": 1000},
            ValueError,
            r"1,000,000 cells of 7 features .* 1,000,000 features .* fewer bins.*Marginals",
        ),
        ({"bins": 10**6}, ValueError, r"1,000,000,000,000 cells of 7 features each"),
        ({"kernel": "kl"}, ValueError, r"HistogramEmbedding\(kernel=...\): must be one of 'js'"),
        ({"map": "sqrt"}, ValueError, r"HistogramEmbedding\(map=...\): must be one of 'vedaldi'"),
        ({"order": 1000}, ValueError, r"HistogramEmbedding\(order=...\): must be an integer in \[0, 256\]"),
        ({"map": "none"}, ValueError, r"HistogramEmbedding\(map='none'\): .* use kernel='l2'"),
    ],
)
def test_errors_say_what_to_do(options, error, text):
    with pytest.raises(error, match=text):
        HistogramEmbedding(**options).fit(clouds())


@pytest.mark.parametrize("n_dims", [200, 5000])
def test_a_number_of_cells_too_long_to_read_is_a_power_of_ten(n_dims):
    with pytest.raises(ValueError, match=rf"\): about 10\^{n_dims} cells of 7 features each .* use fewer bins"):
        HistogramEmbedding().fit(np.full((1, 2, n_dims), 0.5))


def test_a_usual_order_is_that_of_the_map():
    with pytest.raises(ValueError, match=r"HistogramEmbedding\(order=...\): .* got 0; 3 is a usual order"):
        HistogramEmbedding("tv", map="gauss", order=0).fit(clouds())


def test_categorical_columns_are_refused():
    bags = de.Bags([[0.5, 0], [0.5, 1]], [0, 2], columns=["x", "sex"], categories={"sex": ["f", "m"]})
    with pytest.raises(ValueError, match="HistogramEmbedding: X must have no categorical columns, got 'sex'"):
        HistogramEmbedding().fit(bags)


def test_the_judge_sums_to_one():
    assert np.isclose(judge.histogram([[0.1], [0.9]], [4], [1, 3]).sum(), 1)
    assert exact.kappa(0.0, 0.0, "js") == 0
