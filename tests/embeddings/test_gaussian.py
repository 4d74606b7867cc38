"""Gaussian fits: closed forms to their integrals, estimates to the truth, features to the kernel."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from distembed import Bags
from distembed.bags import moments as _bag_moments
from distembed.bags.moments import CoordinateFrame, fit_frame, moments, segments, sums_by_bag
from distembed.divergences.gaussians import eliminate, gaussian
from distembed.embeddings import GaussianEmbedding
from distembed.embeddings.gaussian import draw_landmarks, inverse_root
from exact import gaussians as exact

DIVERGENCES = ["bhattacharyya", "hellinger", "product:0.3", "product:2", "linear", "l2", "kl", "skl"]
UNITLESS = ["bhattacharyya", "hellinger", "kl", "skl"]
STANDARD, SHIFTED, WIDE = ([0.0], [[1.0]]), ([1.0], [[1.0]]), ([0.0], [[4.0]])
PLANE = ([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]), ([1.0, -1.0], [[2.0, 0.0], [0.0, 0.5]])
TRUTHS = [
    (STANDARD, SHIFTED, "bhattacharyya", 0.882496903),
    (STANDARD, SHIFTED, "hellinger", 1 - 0.882496903),
    (STANDARD, SHIFTED, "kl", 0.5),
    (STANDARD, SHIFTED, "skl", 1.0),
    (STANDARD, SHIFTED, "l2", 0.124798294),
    (STANDARD, SHIFTED, "linear", np.exp(-0.25) / np.sqrt(4 * np.pi)),
    (STANDARD, WIDE, "kl", 0.318147181),
    (WIDE, STANDARD, "kl", 0.806852819),
    (STANDARD, WIDE, "l2", 0.066317364),
    (*PLANE, "bhattacharyya", 0.653271645),
    (*PLANE, "kl", 1.643841),
    (*PLANE[::-1], "kl", 2.522826),
]
every_truth = pytest.mark.parametrize(
    ("p", "q", "divergence", "truth"), TRUTHS, ids=lambda value: value if isinstance(value, str) else ""
)


def matched(mean, covariance):
    """Points whose mean and covariance are exactly these."""
    n_dims = len(mean)
    signs = np.concatenate([np.eye(n_dims), -np.eye(n_dims)]) * np.sqrt(n_dims)
    return signs @ np.linalg.cholesky(covariance).T + mean


def make_bags(n_bags=8, n_dims=3, seed=0, weights=False, size=40):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, size, n_bags)
    arrays = [rng.normal(size=(n, n_dims)) @ rng.normal(size=(n_dims, n_dims)) + rng.normal(size=n_dims) for n in sizes]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0.1, 3, n) for n in sizes] if weights else None)


def judged(bags, divergence, others=None, reg=1e-3, covariance="full"):
    """The matrix by the plain formulas."""
    both = [*bags, *(others or [])]
    weights = (
        None
        if bags.weights is None
        else [group.weights_of(i) for group in (bags, others or []) for i in range(len(group))]
    )
    fits = exact.gaussian_fits(both, weights, reg, covariance)
    rows, columns = fits[: len(bags)], fits[len(bags) :] or fits
    return np.array([[exact.gaussian_divergence(*p, *q, divergence) for q in columns] for p in rows])


# --------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------


@every_truth
def test_closed_forms_are_the_known_values(p, q, divergence, truth):
    assert exact.gaussian_divergence(*p, *q, divergence) == pytest.approx(
        truth, abs=1e-6 if divergence == "kl" else 1e-9
    )


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize(("p", "q"), [(STANDARD, WIDE), (SHIFTED, WIDE), PLANE], ids=["1-D", "shifted", "2-D"])
def test_closed_forms_are_the_integrals(p, q, divergence):
    integral = exact.gaussian_divergence_by_integration(*p, *q, divergence)
    assert integral == pytest.approx(exact.gaussian_divergence(*p, *q, divergence), rel=1e-9)


# --------------------------------------------------------------------------------------------------------------
# Divergences of bags
# --------------------------------------------------------------------------------------------------------------


@every_truth
def test_bags_with_the_moments_of_known_gaussians(p, q, divergence, truth):
    found = gaussian([matched(*p), matched(*q)], divergence=divergence, reg=1e-9)
    assert found[0, 1] == pytest.approx(truth, abs=1e-6)
    assert found[0, 0] == pytest.approx(exact.gaussian_divergence(*p, *p, divergence), abs=1e-6)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("weights", [False, True])
def test_matrices_are_the_plain_formulas(divergence, covariance, weights):
    bags, others = make_bags(weights=weights), make_bags(5, seed=1, weights=weights)
    options = {"divergence": divergence, "reg": 0.05, "covariance": covariance}
    assert_allclose(gaussian(bags, **options), judged(bags, **options), rtol=1e-8, atol=1e-12)
    assert_allclose(gaussian(bags, others, **options), judged(bags, others=others, **options), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("divergence", ["bhattacharyya", "l2", "kl", "skl"])
def test_errors_fall_as_the_root_of_the_number_of_points(divergence):
    truth, errors = exact.gaussian_divergence(*PLANE[0], *PLANE[1], divergence), []
    for n in (100, 1600):
        found = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            bags = [rng.multivariate_normal(*p, size=n) for p in PLANE]
            found.append(gaussian(bags, divergence=divergence, reg=1e-6)[0, 1])
        errors.append(np.mean(np.abs(np.array(found) - truth)))
    assert 0.1 < errors[1] / errors[0] < 0.45  # 1/4, and noise of some 15 %


def test_shrinkage_moves_values_by_its_own_order():
    bags = [matched(*p) for p in PLANE]
    moved = [abs(gaussian(bags, reg=reg)[0, 1] - 0.653271645) for reg in (1e-2, 1e-3, 1e-4)]
    assert_allclose(moved[0] / moved[1], 10, rtol=0.1)
    assert_allclose(moved[1] / moved[2], 10, rtol=0.1)
    assert moved[1] < 1e-3


@pytest.mark.parametrize("divergence", UNITLESS)
def test_affine_maps_change_nothing(divergence):
    bags = make_bags(weights=True)
    mixing = np.array([[1.0, 2.0, 0.0], [-1.0, 1.0, 0.5], [0.3, 0.0, 1.0]])
    moved = Bags(bags.points @ mixing * [1e-6, 1.0, 1e6] + [1e-3, 1e3, 1e9], bags.offsets, bags.weights)
    assert_allclose(gaussian(moved, divergence=divergence), gaussian(bags, divergence=divergence), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-200, 1e-5, 1e150])
def test_units_and_offsets_do_not_matter_with_diagonal_fits(scale):
    bags = make_bags()
    wanted = gaussian(bags, covariance="diag")
    assert_allclose(
        gaussian(Bags(bags.points * scale, bags.offsets), covariance="diag"), wanted, rtol=1e-10, atol=1e-12
    )
    far = Bags(bags.points + 1e8, bags.offsets)
    assert_allclose(gaussian(far, covariance="diag"), wanted, atol=1e-6)


def test_densities_have_units():
    bags = make_bags()
    halved = Bags(bags.points / 2, bags.offsets)
    assert_allclose(
        gaussian(halved, divergence="linear"), 8 * gaussian(bags, divergence="linear"), rtol=1e-9, atol=1e-300
    )
    assert_allclose(gaussian(halved, divergence="l2"), 8 * gaussian(bags, divergence="l2"), rtol=1e-9, atol=1e-12)


def test_one_point_equal_points_and_constant_coordinates_have_answers():
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(50, 3)), np.ones((1, 3)), np.ones((7, 3)), np.zeros((2, 3)), rng.normal(size=(2, 3))]
    for points in bags:
        points[:, 1] = 0.25
    for divergence in DIVERGENCES:
        for some in (bags, bags[1:4], bags[1:2]):
            for covariance in ("full", "diag"):
                found = gaussian(some, divergence=divergence, covariance=covariance)
                assert np.isfinite(found).all()
    same = gaussian(bags)
    assert_allclose(same[1, 2], 1, rtol=1e-12)  # one point, and seven times that point
    assert 0 <= same.min() <= same.max() <= 1


def test_dependent_coordinates_have_answers():
    x = np.random.default_rng(0).normal(size=(3, 100, 1))
    bags = np.concatenate([x, x, 2 * x + 1], axis=2) + np.arange(3)[:, None, None] * [1.0, 1.0, 2.0]
    assert_allclose(gaussian(bags), gaussian(bags[:, :, :1]), atol=1e-5)


def test_weights_count_and_points_without_weight_do_not():
    rng = np.random.default_rng(0)
    points, counts = rng.normal(size=(30, 2)), rng.integers(0, 4, 30)
    counts[[0, 10]] = 1
    weighted = Bags(points, [0, 10, 30], weights=counts)
    repeated = Bags.from_arrays(
        [np.repeat(points[:10], counts[:10], axis=0), np.repeat(points[10:], counts[10:], axis=0)]
    )
    assert_allclose(gaussian(weighted, divergence="kl"), gaussian(repeated, divergence="kl"), rtol=1e-9, atol=1e-12)


def test_pairs_and_points_come_in_pieces(monkeypatch):
    bags = make_bags(30, size=200, weights=True)
    for divergence in ("bhattacharyya", "skl"):
        wanted = gaussian(bags, divergence=divergence)
        with monkeypatch.context() as patch:
            patch.setattr("distembed.divergences.gaussians._PAIR_BYTES", 1000)
            patch.setattr("distembed.bags.moments._SEGMENT_BYTES", 1)  # 64 points
            patch.setattr("distembed.compute.parallel._CHUNK_BYTES", 10_000)
            pieces = [gaussian(bags, divergence=divergence, n_jobs=n_jobs) for n_jobs in (1, 3)]
        assert_allclose(pieces[0], wanted, rtol=1e-9, atol=1e-12)
        assert_array_equal(pieces[1], pieces[0])


def test_symmetry_and_dtypes():
    bags = make_bags()
    for divergence in DIVERGENCES:
        found = gaussian(bags, divergence=divergence)
        assert (divergence == "kl") != np.array_equal(found, found.T)
        assert gaussian(bags.astype(np.float32), divergence=divergence).dtype == np.float32
    assert_allclose(np.diag(gaussian(bags, divergence="skl")), 0, atol=1e-12)
    assert_allclose(np.diag(gaussian(bags, divergence="l2")), 0, atol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 2, 5, 20])
def test_many_dimensions(n_dims):
    bags = make_bags(4, n_dims, size=100)
    for divergence in ("bhattacharyya", "kl"):
        assert_allclose(
            gaussian(bags, divergence=divergence, reg=0.1), judged(bags, divergence, reg=0.1), rtol=1e-7, atol=1e-12
        )


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"divergence": "js"}, ValueError, r"gaussian\(divergence=...\): must be one of 'bhattacharyya'.*got 'js'"),
        ({"divergence": 3}, TypeError, r"gaussian\(divergence=...\): must be one of"),
        ({"divergence": "product:x"}, ValueError, r"must have a positive number behind it, .*got 'product:x'; try"),
        ({"divergence": "product:-1"}, ValueError, r"must have a positive number"),
        ({"divergence": "product:1e300"}, ValueError, r"at most 1000, got 'product:1e300'; try 'product:1'"),
        ({"covariance": "tied"}, ValueError, r"gaussian\(covariance=...\): must be one of 'full', 'diag', got 'tied'"),
        ({"reg": 0}, ValueError, r"gaussian\(reg=...\): must be a number in \(0, 1\], got 0"),
        (
            {"Y": [np.zeros((3, 2))]},
            ValueError,
            r"gaussian\(Y=...\): must have points of 3 dimension\(s\), as X, got 2",
        ),
    ],
)
def test_errors_say_what_to_do(options, error, text):
    with pytest.raises(error, match=text):
        gaussian(make_bags(), **options)


def test_densities_too_large_for_a_number_are_refused():
    with pytest.raises(
        ValueError,
        match=r"gaussian: the integral of p\^2 must be a float64, got exp\([0-9]+\); change the units.*raise reg",
    ):
        gaussian(make_bags(3).points.reshape(1, -1, 3) * 1e-150, divergence="linear")


@pytest.mark.parametrize("divergence", ["linear", "l2", "product:1.5"])
@pytest.mark.parametrize(("scale", "dtype"), [(1e-35, np.float32), (1e35, np.float32), (1e200, np.float64)])
def test_integrals_must_fit_the_dtype_of_the_result(divergence, scale, dtype):
    wide = [(points * scale).astype(dtype) for points in make_bags(6, 2, size=60)]
    with pytest.raises(ValueError, match=rf"gaussian: the integral of p\^[23] must be a {np.dtype(dtype)}, got exp\("):
        gaussian(wide, divergence=divergence)
    assert np.isfinite(gaussian(wide)).all()


def test_integrals_are_refused_only_where_all_are_too_small():
    bags = [*make_bags(3, 2, size=60), *(1e200 * points for points in make_bags(3, 2, size=60))]
    found = gaussian(bags, divergence="product:0.7", reg=1e-9)
    assert np.isfinite(found).all()


def test_float32_holds_what_it_can():
    bags = make_bags(6, 2, size=60)
    for scale in (1e-12, 1e12):
        found = gaussian(Bags((bags.points * scale).astype(np.float32), bags.offsets), divergence="linear")
        assert_allclose(found, gaussian(Bags(bags.points * scale, bags.offsets), divergence="linear"), rtol=1e-3)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_stretches_of_a_bag_whose_shares_underflow_are_as_if_absent(covariance):
    rng = np.random.default_rng(0)
    points, few = rng.normal(size=(100_000, 2)), rng.normal(size=(50, 2))
    for faint in (slice(0, 70_000), slice(30_000, None)):
        weights = np.full(len(points), 1e300)
        weights[faint] = 1e-300
        bags = Bags.from_arrays([points, few], weights=[weights, np.ones(50)])
        kept = [points[weights > 1], few]
        for divergence in ("bhattacharyya", "kl"):
            wanted = gaussian(kept, divergence=divergence, covariance=covariance)
            found = gaussian(bags, divergence=divergence, covariance=covariance)
            assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        Z = GaussianEmbedding(covariance=covariance).fit_transform(bags)
        assert_allclose(Z @ Z.T, gaussian(kept, covariance=covariance), atol=1e-9)


def test_categorical_columns_are_refused():
    bags = Bags([[0.5, 0], [0.1, 1]], [0, 2], categories={1: ["a", "b"]})
    with pytest.raises(ValueError, match=r"gaussian\(X=...\): must have continuous columns only"):
        gaussian(bags)


# --------------------------------------------------------------------------------------------------------------
# The parts
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[1], [1, 1, 1], [5, 1, 300, 2], [1000, 1000]])
def test_sums_by_bag(sizes):
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(sizes)]
    left, right = rng.normal(size=(offsets[-1], 2)), rng.normal(size=(offsets[-1], 3))
    wanted = [left[a:b].T @ right[a:b] for a, b in pairwise(offsets)]
    assert_allclose(sums_by_bag(left, right, offsets[:-1]), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("step", [1, 3, 7, 100])
def test_segments_cover_all_points_once(step):
    offsets = np.array([0, 2, 3, 11, 12])
    seen = np.zeros(4, int)
    for rows, own, starts in segments(offsets, step):
        assert rows.stop - rows.start <= step
        seen[own] += np.diff(starts, append=rows.stop - rows.start)
    assert_array_equal(seen, np.diff(offsets))


def test_moments_far_from_zero():
    points = np.random.default_rng(0).normal(size=(1000, 2))
    frame = CoordinateFrame(np.zeros(2), np.ones(2), np.eye(2))
    mean, covariance = moments(Bags(points + 2.0**30, [0, 1000]), frame.apply, "full")
    assert_allclose(covariance[0], np.cov(points.T, ddof=0), atol=1e-6)
    assert_allclose(mean[0] - 2.0**30, points.mean(axis=0), atol=1e-6)


def test_the_frame_makes_the_pooled_covariance_one():
    bags = make_bags(20)
    inside = np.mean(moments(bags, fit_frame([bags], 0.0, "full").apply, "full")[1], axis=0)
    assert_allclose(inside, np.eye(3), atol=1e-10)
    assert_allclose(np.mean(moments(bags, fit_frame([bags], 0.0, "diag").apply, "diag")[1], axis=0), 1, atol=1e-10)


def test_elimination_is_determinant_and_inverse():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(7, 6, 6))
    C, gaps = root @ root.swapaxes(1, 2) + 0.1 * np.eye(6), rng.normal(size=(7, 6))
    log_dets, squares = eliminate(np.moveaxis(C, 0, -1).copy(), gaps.T.copy(), 0.1)
    assert_allclose(log_dets, np.linalg.slogdet(C)[1], rtol=1e-10)
    assert_allclose(squares, [g @ np.linalg.solve(c, g) for c, g in zip(C, gaps, strict=True)], rtol=1e-9)


def test_memory_does_not_grow_with_the_largest_bag():
    points = np.random.default_rng(0).normal(size=(400_000, 4)).astype(np.float32)
    bags = Bags(points, [0, 10, len(points)])
    fit_frame([bags], 1e-3, "full")
    tracemalloc.start()
    fit_frame([bags], 1e-3, "full")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * _bag_moments._SEGMENT_BYTES


# --------------------------------------------------------------------------------------------------------------
# The embedding
# --------------------------------------------------------------------------------------------------------------


def normalised(K):
    return K / np.sqrt(np.outer(np.diag(K), np.diag(K)))


@pytest.mark.parametrize("kernel", ["bhattacharyya", "product:1", "product:0.3"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_dot_products_are_the_kernel_where_all_bags_are_landmarks(kernel, covariance):
    bags = make_bags(12, weights=True)
    Z = GaussianEmbedding(kernel, covariance=covariance).fit_transform(bags)
    K = gaussian(bags, divergence=kernel, covariance=covariance)
    assert_allclose(Z @ Z.T, normalised(K), atol=1e-9)


def test_raw_products():
    bags = make_bags(12, size=100)
    Z = GaussianEmbedding("product:1", normalize=False, reg=0.1).fit_transform(bags)
    K = gaussian(bags, divergence="linear", reg=0.1)
    assert_allclose(Z @ Z.T, K, atol=1e-9 * K.max())


def test_exact_between_landmarks_and_anything():
    bags = make_bags(80, size=200)
    model = GaussianEmbedding(n_landmarks=20, random_state=0).fit(bags)
    Z, K = model.transform(bags), gaussian(bags)
    assert model.landmarks_.shape == (20,) == (model.n_landmarks_,)
    assert_allclose(Z @ Z[model.landmarks_].T, K[:, model.landmarks_], atol=1e-7)
    assert np.all(np.sum(Z**2, axis=1) < 1 + 1e-9)  # never too large
    assert model.negative_share_ == 0


@pytest.mark.parametrize("kernel", ["bhattacharyya", "product:1", "skl"])
def test_the_error_falls_with_the_number_of_landmarks(kernel):
    rng = np.random.default_rng(0)
    draws = [rng.normal(rng.uniform(-2, 2, 2), rng.uniform(1, 3, 2), size=(200, 2)) for _ in range(300)]
    train, new, errors = Bags.from_arrays(draws[:150]), Bags.from_arrays(draws[150:]), []
    K = gaussian(new, divergence=kernel)
    K = np.exp(-K / 4) if kernel == "skl" else normalised(K)
    for n_landmarks in (3, 12, 48):
        options = {"n_landmarks": n_landmarks, "sigma": np.sqrt(2)}
        models = [GaussianEmbedding(kernel, random_state=seed, **options).fit(train) for seed in range(5)]
        rows = [model.transform(new) for model in models]
        errors.append(np.mean([np.abs(Z @ Z.T - K).mean() for Z in rows]))
    most = 0.6 if kernel == "skl" else 0.3  # what is negative stays missing
    assert errors[1] < most * errors[0]
    assert errors[2] < most * errors[1]
    assert errors[2] < (0.02 if kernel == "skl" else 1e-3)


def test_landmarks_see_more_than_bags_drawn_at_random():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(rng.choice([0, 5], p=[0.97, 0.03]), 1, size=(100, 1)) for _ in range(400)]
    bags = Bags.from_arrays(arrays)
    K = gaussian(bags)

    def missed(chosen):
        root, _ = inverse_root(K[np.ix_(chosen, chosen)])
        Z = K[:, chosen] @ root
        return np.mean(1 - np.sum(Z**2, axis=1))

    drawn = np.mean(
        [missed(GaussianEmbedding(n_landmarks=5, random_state=seed).fit(bags).landmarks_) for seed in range(10)]
    )
    blind = np.mean([missed(np.random.default_rng(seed).choice(400, 5, replace=False)) for seed in range(10)])
    assert drawn < 0.5 * blind


def test_skl_is_the_kernel_of_moreno_without_its_negative_part():
    bags = make_bags(12)
    model = GaussianEmbedding("skl", reg=0.1).fit(bags)
    D = gaussian(bags, divergence="skl", reg=0.1)
    assert model.sigma_ == pytest.approx(np.median(np.sqrt(D[np.triu_indices(12, 1)])), rel=1e-9)
    K = np.exp(-D / (2 * model.sigma_**2))
    values, vectors = np.linalg.eigh(K)
    kept = np.where(values > max(-values[0], 1e-12 * values[-1]), values, 0.0)
    Z = model.transform(bags)
    assert_allclose(Z @ Z.T, (vectors * kept) @ vectors.T, atol=1e-9)
    assert np.abs(Z @ Z.T - K).max() <= max(-values[0], 1e-9) * (1 + 1e-9)
    assert model.negative_share_ == pytest.approx(np.maximum(-values, 0).sum() / np.abs(values).sum(), abs=1e-9)


def test_skl_has_a_negative_part_that_is_reported():
    rng = np.random.default_rng(0)
    bags = [rng.normal(0, deviation, size=(300, 1)) for deviation in np.geomspace(0.1, 10, 40)]
    model = GaussianEmbedding("skl", sigma=3.0).fit(bags)
    assert 1e-4 < model.negative_share_ < 0.2
    assert not hasattr(GaussianEmbedding().fit(bags), "sigma_")


def test_equal_bags_are_one_landmark():
    rng = np.random.default_rng(0)
    two = [rng.normal(size=(20, 2)), rng.normal(3, 1, size=(20, 2))]
    model = GaussianEmbedding(n_landmarks=10, random_state=0).fit(two * 20)
    assert model.n_landmarks_ == 2
    Z = model.transform(two)
    assert_allclose(Z @ Z.T, gaussian(two * 20)[:2, :2], atol=1e-9)
    everything = GaussianEmbedding(n_landmarks=50).fit_transform(two * 20)
    assert_allclose(everything[::2], np.repeat(everything[:1], 20, axis=0), atol=1e-9)


def test_landmarks_of_a_negative_kernel():
    K = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.9], [0.1, 0.9, 1.0]])
    assert np.linalg.eigvalsh(K)[0] < 0
    found = draw_landmarks(lambda i: K[:, i], np.ones(3), 3, np.random.RandomState(0))
    assert len(found) in (2, 3)


@pytest.mark.parametrize("kernel", ["bhattacharyya", "product:1", "skl"])
def test_threads_chunks_and_units_change_nothing(kernel, monkeypatch):
    bags = make_bags(100, weights=True)
    model = GaussianEmbedding(kernel, n_landmarks=10, random_state=0).fit(bags)
    wanted = model.transform(bags)
    with monkeypatch.context() as patch:
        patch.setattr("distembed.compute.parallel._CHUNK_BYTES", 20_000)
        pieces = [model.set_params(n_jobs=n_jobs).transform(bags) for n_jobs in (1, 3)]
    assert_allclose(pieces[0], wanted, atol=1e-9)
    assert_array_equal(pieces[1], pieces[0])
    units = Bags(bags.points * [1e-9, 1.0, 1e6] + 7.0, bags.offsets, bags.weights)
    moved = GaussianEmbedding(kernel, n_landmarks=10, random_state=0).fit_transform(units)
    assert_allclose(moved @ moved.T, wanted @ wanted.T, atol=1e-5)


def test_bags_unlike_any_training_bag_give_finite_features():
    bags = make_bags()
    for kernel in ("bhattacharyya", "product:1", "skl"):
        model = GaussianEmbedding(kernel).fit(bags)
        strange = [np.full((1, 3), 1e300), np.array([[1e300, -1e300, 0], [-1e300, 1e300, 1]]), 1e20 * bags[0]]
        assert_allclose(model.transform(strange), 0, atol=1e-8)  # their covariances have a condition of 1e27


def test_points_converge_to_the_kernel_of_the_truth():
    truths = [exact.gaussian_divergence(*PLANE[0], *PLANE[1], "bhattacharyya")]
    errors = []
    for n in (100, 1600):
        found = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            a, b = GaussianEmbedding(reg=1e-6).fit_transform([rng.multivariate_normal(*p, size=n) for p in PLANE])
            found.append(a @ b)
        errors.append(np.mean(np.abs(np.array(found) - truths[0])))
    assert errors[1] < 0.45 * errors[0]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"kernel": "kl"}, ValueError, r"GaussianEmbedding\(kernel=...\): must be one of .*'product:<rho>', got 'kl'"),
        (
            {"kernel": "product:0"},
            ValueError,
            r"GaussianEmbedding\(kernel=...\): 'product:' must have a positive number",
        ),
        ({"n_landmarks": 0}, ValueError, r"GaussianEmbedding\(n_landmarks=...\): must be an integer in \[1, 10000\]"),
        ({"covariance": "tied"}, ValueError, r"GaussianEmbedding\(covariance=...\)"),
        ({"reg": 2}, ValueError, r"GaussianEmbedding\(reg=...\): must be a number in \(0, 1\], got 2"),
        ({"sigma": "scott"}, ValueError, r"GaussianEmbedding\(sigma=...\): must be one of 'median', got 'scott'"),
        (
            {"sigma": 0},
            ValueError,
            r"GaussianEmbedding\(sigma=...\): must be a number in \[1e-06, 1e\+06\], got 0; .*'median'",
        ),
        ({"kernel": "skl", "sigma": 1e-300}, ValueError, r"GaussianEmbedding\(sigma=...\): must be .*got 1e-300"),
        ({"kernel": "skl", "sigma": 1e300}, ValueError, r"GaussianEmbedding\(sigma=...\): must be .*got 1e\+300"),
        ({"kernel": "product:1e300"}, ValueError, r"GaussianEmbedding\(kernel=...\): .*at most 1000"),
        ({"normalize": "no"}, TypeError, r"GaussianEmbedding\(normalize=...\): must be True or False, got 'no'"),
    ],
)
def test_bad_parameters_are_refused_in_fit(options, error, text):
    with pytest.raises(error, match=text):
        GaussianEmbedding(**options).fit(make_bags())


def test_parameters_set_after_fit_wait_for_the_next_fit():
    bags = make_bags()
    model = GaussianEmbedding("product:0.7").fit(bags)
    wanted, names = model.transform(bags), model.get_feature_names_out()
    model.set_params(kernel="skl", covariance="diag", reg=0.5, sigma=3.0, normalize=False)
    assert_array_equal(model.transform(bags), wanted)
    assert_array_equal(model.get_feature_names_out(), names)
    assert model.fit(bags).get_feature_names_out()[0] == "skl_0"


@pytest.mark.parametrize(("scale", "dtype"), [(1e-35, np.float32), (1e-150, float), (1e35, np.float32), (1e200, float)])
@pytest.mark.parametrize("n_landmarks", [3, 100])
def test_raw_products_must_fit_the_dtype_of_the_features(scale, dtype, n_landmarks):
    bags = make_bags(6, 2, size=60)
    scaled = Bags((bags.points * scale).astype(dtype), bags.offsets)
    model = GaussianEmbedding("product:1.5", normalize=False, n_landmarks=n_landmarks, random_state=0)
    with pytest.raises(
        ValueError, match=r"GaussianEmbedding: the integral of p\^3 must (have a root that is a float32|be a float64)"
    ):
        model.fit(scaled)
    assert np.isfinite(model.set_params(normalize=True).fit_transform(scaled)).all()


def test_raw_products_of_new_bags_must_fit_too():
    bags = make_bags(6, 2, size=60)
    model = GaussianEmbedding("product:1", normalize=False, reg=1e-6).fit(Bags(bags.points * 1e-30, bags.offsets))
    assert np.isfinite(model.transform([bags[0] * 1e-30])).all()
    model = GaussianEmbedding("product:1.5", normalize=False, reg=1e-6).fit(Bags(bags.points * 1e-30, bags.offsets))
    with pytest.raises(ValueError, match=r"GaussianEmbedding: the integral of p\^3 must have a root that is a float32"):
        model.transform([(bags[0] * 1e-30).astype(np.float32)])


@pytest.mark.parametrize("sigma", [1e-6, 1e6])
def test_the_ends_of_sigma_give_finite_features(sigma):
    bags = make_bags()
    model = GaussianEmbedding("skl", sigma=sigma).fit(bags)
    assert np.isfinite(model.transform(bags)).all()
    assert np.isfinite(model.negative_share_)


def test_the_root_of_zeros_is_zero():
    root, negative = inverse_root(np.zeros((2, 2)))
    assert_array_equal(root, np.zeros((2, 2)))
    assert negative == 0


def test_a_reference_fixes_what_covariances_shrink_towards():
    rng = np.random.default_rng(30)
    train, new = rng.normal(size=(6, 20, 2)), rng.normal(1, 2, size=(4, 15, 2))
    whole = gaussian(new, train, "skl", reference=train)
    for i in range(4):  # each row as if it were alone
        np.testing.assert_allclose(gaussian(new[i : i + 1], train, "skl", reference=train)[0], whole[i], rtol=1e-10)
    both = [*new, *train]
    np.testing.assert_allclose(gaussian(new, train, "skl", reference=both), gaussian(new, train, "skl"), rtol=1e-10)
    with pytest.raises(ValueError, match=r"gaussian\(reference=...\): must have points of 2 dimension"):
        gaussian(new, reference=rng.normal(size=(3, 5, 1)))


def test_thousands_of_dimensions_are_refused_by_arithmetic():
    with pytest.raises(ValueError, match=r"of 2,000 dimensions has 2,003,000 numbers per bag, more than 1,000,000, .*"):
        GaussianEmbedding("skl").fit(np.zeros((3, 4, 2_000)))
    assert GaussianEmbedding("skl", covariance="diag").fit_transform(np.ones((3, 4, 2_000))).shape == (3, 3)
