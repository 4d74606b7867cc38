"""Divergences from nearest neighbours: by hand, against the double loop, and towards known values as points grow."""

import math

import numpy as np
import pytest

from distembed import Bags
from distembed.divergences import knn, knn_many, neighbours
from exact import neighbour_distance, neighbour_divergence

EVERY = ["kl", "renyi:0.9", "renyi:2", "tsallis:0.5", "tsallis:1.5", "bc", "hellinger", "l2", "linear"]
every_divergence = pytest.mark.parametrize("divergence", EVERY)


def ragged(n_dims, seed=0, sizes=(30, 5, 3, 17, 4, 60)):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(size=n_dims) / 2, rng.uniform(0.5, 2), size=(n, n_dims)) for n in sizes]


def against_loop(bags, others, divergence, k):
    return [[neighbour_divergence(x, y, divergence, k) for y in others] for x in bags]


# By hand ------------------------------------------------------------------------------------------------------


P, Q = [0.0, 1.0, 3.0], [0.5, 4.0, 6.0, 7.0]
# Nearest: ρ = 1, 1, 2 and ν = .5, .5, 1. Second nearest: ρ = 3, 2, 3 and ν = 4, 3, 2.5; within Q 5.5, 3, 2, 3.


def test_kl_by_hand():
    # 1/3 (log(.5/1) + log(.5/1) + log(1/2)) + log(4/2) = -log 2 + log 2
    assert knn([P], [Q], "kl", 1)[0, 0] == pytest.approx(0, abs=1e-15)
    # 1/3 (log(4/3) + log(3/2) + log(2.5/3)) + log(4/2) = log(5/3)/3 + log 2
    assert knn([P], [Q], "kl", 2)[0, 0] == pytest.approx(math.log(5 / 3) / 3 + math.log(2))


def test_negative_estimates_by_hand():
    # Points of q between those of p: 1/2 (log(1/3) + log(1/3)) + log(2/1), and clamped to zero on demand.
    assert knn([[0.0, 3.0]], [[1.0, 2.0]], "kl", 1)[0, 0] == pytest.approx(math.log(2 / 3))
    assert knn([[0.0, 3.0]], [[1.0, 2.0]], "kl", 1, clamp=True)[0, 0] == 0
    # ∫ √(pq): 1/(Γ(3/2) Γ(1/2)) = 2/π times √(1·3 / (2·1)), for both points
    bc = 2 / math.pi * math.sqrt(1.5)
    assert knn([[0.0, 3.0]], [[1.0, 2.0]], "bc", 1)[0, 0] == pytest.approx(bc)
    assert knn([[0.0, 3.0]], [[1.0, 2.0]], "hellinger", 1)[0, 0] == pytest.approx(1 - bc)


def test_powers_by_hand():
    # k = 2, a = 1/2: Γ(2)² / (Γ(5/2) Γ(3/2)) = 1 / (3√π/4 · √π/2) = 8/(3π); ratios 2ρ/(4ν)
    bc = 8 / (3 * math.pi) * sum(math.sqrt(2 * rho / (4 * nu)) for rho, nu in [(3, 4), (2, 3), (3, 2.5)]) / 3
    found = knn_many([P], [Q], ["bc", "renyi:0.5", "tsallis:0.5"], [2])
    assert found["bc", 2][0, 0] == pytest.approx(bc)
    assert found["renyi:0.5", 2][0, 0] == pytest.approx(-2 * math.log(bc))
    assert found["tsallis:0.5", 2][0, 0] == pytest.approx(2 * (1 - bc))


def test_products_by_hand():
    # k - 1 = 1 and c = 2: ∫ pq = 1/3 Σ 1/(4·2·ν), ∫ p² = 1/3 Σ 1/(2·2·ρ), ∫ q² = 1/4 Σ 1/(3·2·ρ)
    pq = (1 / 4 + 1 / 3 + 1 / 2.5) / 24
    pp = (1 / 3 + 1 / 2 + 1 / 3) / 12
    qq = (1 / 5.5 + 1 / 3 + 1 / 2 + 1 / 3) / 24
    found = knn_many([P], [Q], ["linear", "l2"], [2])
    assert found["linear", 2][0, 0] == pytest.approx(pq)
    assert found["l2", 2][0, 0] == pytest.approx(pp + qq - 2 * pq)


# Against the double loop --------------------------------------------------------------------------------------


@every_divergence
@pytest.mark.parametrize("n_dims", [1, 2, 5, 17])
def test_equals_the_loop(divergence, n_dims):
    bags, others = ragged(n_dims), ragged(n_dims, seed=1, sizes=(20, 4, 6))
    found = knn_many(bags, others, [divergence], [2, 4])
    for k in (2, 4):  # bags of three, four and five points have fewer neighbours than asked for
        np.testing.assert_allclose(
            found[divergence, k], against_loop(bags, others, divergence, k), rtol=1e-10, atol=1e-12
        )


@every_divergence
def test_diagonal(divergence):
    bags = ragged(2)
    found = knn(bags, None, divergence, 3)
    expected = np.array(against_loop(bags, bags, divergence, 3))
    diagonal = {"bc": 1.0}.get(divergence, 0.0)
    if divergence == "linear":  # ∫ p², with k - 1 for the k in use
        ks = [min(3, len(x) - 1) for x in bags]
        rho = [
            [neighbour_distance(u, np.delete(x, i, 0), k) for i, u in enumerate(x)]
            for x, k in zip(bags, ks, strict=True)
        ]
        diagonal = [
            np.mean([(k - 1) / ((len(r) - 1) * np.pi * each**2) for each in r]) for r, k in zip(rho, ks, strict=True)
        ]
    np.fill_diagonal(expected, diagonal)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_dims", [2, 17])
def test_copies_are_taken_for_the_smallest_gap(n_dims):
    rng = np.random.default_rng(0)
    bags = [np.repeat(rng.normal(size=(6, n_dims)), 3, axis=0), rng.normal(size=(9, n_dims))]
    others = [bags[0][:12], bags[1][:4]]
    for divergence in EVERY:
        expected = against_loop(bags, others, divergence, 2)
        np.testing.assert_allclose(knn(bags, others, divergence, 2), expected, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200, 0.0])
@pytest.mark.parametrize("n_dims", [1, 3, 40])
def test_always_finite(scale, n_dims):
    rng = np.random.default_rng(0)
    bags = [
        np.ones((5, n_dims)),
        np.zeros((4, n_dims)),
        rng.normal(size=(9, n_dims)),
        1e-170 * rng.normal(size=(6, n_dims)),
    ]
    for clamp in (False, True):
        for matrix in knn_many([scale * bag for bag in bags], divergences=EVERY, ks=[2, 4], clamp=clamp).values():
            assert np.isfinite(matrix).all()


def test_threads_blocks_and_company_change_nothing(monkeypatch):
    bags = ragged(2, sizes=(40,) * 30)
    first = knn_many(bags, divergences=EVERY, ks=[2, 4], n_jobs=1)
    again = knn_many(bags, divergences=EVERY, ks=[2, 4], n_jobs=3)
    monkeypatch.setattr(neighbours, "_BLOCK_POINTS", 100)
    blocks = knn_many(bags, divergences=EVERY, ks=[2, 4], n_jobs=2)
    for key, matrix in first.items():
        np.testing.assert_array_equal(matrix, again[key])
        np.testing.assert_array_equal(matrix, blocks[key])
        np.testing.assert_allclose(knn(bags[:7], None, *key), matrix[:7, :7], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(knn(bags[3:5], bags[9:10], *key), matrix[3:5, 9:10], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n_dims", [2, 4])
def test_trees_and_products_agree(n_dims, monkeypatch):
    bags = ragged(n_dims, sizes=(300, 280, 5))
    bags[0][:20] = bags[1][:20]  # zeros, and some that nearly are
    bags[0][20:40] = bags[0][40:60] + 1e-9
    found = []
    for dims, points in [(99, 0), (0, 1e9)]:
        monkeypatch.setattr(neighbours, "_TREE_DIMS", dims)
        monkeypatch.setattr(neighbours, "_TREE_POINTS", points)
        found.append(knn_many(bags, divergences=EVERY, ks=[2, 4]))
    for key, matrix in found[0].items():
        np.testing.assert_allclose(found[1][key], matrix, rtol=1e-9, atol=1e-11)


def test_blocks_of_distances(monkeypatch):
    bags = ragged(20)
    whole = knn(bags)
    monkeypatch.setattr(neighbours, "_BLOCK_PAIRS", 50)
    np.testing.assert_allclose(knn(bags), whole, rtol=1e-12, atol=1e-13)


def test_near_copies_far_from_the_origin_in_many_dimensions():
    rng = np.random.default_rng(0)
    x = 1e4 + np.repeat(rng.normal(size=(10, 20)), 2, axis=0) + 1e-6 * rng.normal(size=(20, 20))
    y = x[::2] + 1e-7
    assert knn([x], [y], "kl", 1)[0, 0] == pytest.approx(neighbour_divergence(x, y, "kl", 1), rel=1e-9)


# Invariances, weights and types -------------------------------------------------------------------------------


def test_units_and_rotations():
    bags, rotation = ragged(3), np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    moved = [5 * bag @ rotation + 7 for bag in bags]
    for divergence in EVERY:
        factor = 5.0**-3 if divergence in ("l2", "linear") else 1.0
        expected = factor * knn(bags, None, divergence)
        np.testing.assert_allclose(knn(moved, None, divergence), expected, rtol=1e-9, atol=1e-11)


def test_order_of_points():
    bags = ragged(2)
    np.testing.assert_allclose(knn([bag[::-1] for bag in bags]), knn(bags), rtol=1e-12, atol=1e-13)


def test_float32_points_give_float64():
    bags = [bag.astype(np.float32) for bag in ragged(2)]
    found = knn(Bags.from_arrays(bags))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, knn([bag.astype(np.float64) for bag in bags]))


def test_weights():
    bags = ragged(2)
    equal = Bags.from_arrays(bags, weights=[np.full(len(bag), i + 1.0) for i, bag in enumerate(bags)])
    np.testing.assert_array_equal(knn(equal), knn(bags))
    masked = [np.r_[bag, [[9.0, 9.0]]] for bag in bags]
    absent = Bags.from_arrays(masked, weights=[np.r_[np.ones(len(bag)), 0.0] for bag in bags])
    np.testing.assert_array_equal(knn(absent), knn(bags))
    unequal = Bags.from_arrays(
        bags, weights=[np.ones(len(bag)) if i != 2 else np.arange(1.0, 4.0) for i, bag in enumerate(bags)]
    )
    with pytest.raises(
        ValueError, match=r"knn\(Y=...\): points of a bag must weigh the same, got weights from 1 to 3 in bag 2; leave"
    ):
        knn(bags, unequal)


def test_clamp():
    bags = ragged(1, sizes=(12,) * 12)
    raw = knn_many(bags, divergences=EVERY, ks=[2])
    clamped = knn_many(bags, divergences=EVERY, ks=[2], clamp=True)
    high = {"bc": 1, "hellinger": 1, "tsallis:0.5": 2}
    for (divergence, k), matrix in raw.items():
        expected = np.clip(matrix, 0, high.get(divergence))
        np.testing.assert_array_equal(clamped[divergence, k], expected)
        assert (matrix < 0).any() or divergence in ("linear", "bc")


# Towards known values -----------------------------------------------------------------------------------------


def normal_line(rng, n):
    return [rng.normal(0, 1, n), rng.normal(1, 1, n), rng.normal(0, 2, n)]


def normal_plane(rng, n):
    p = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], n)
    return [p, rng.multivariate_normal([1, -1], np.diag([2, 0.5]), n)]


LINE = [
    ("kl", 0, 1, 0.5),
    ("kl", 0, 2, 0.318147181),
    ("renyi:0.9", 0, 1, 0.45),
    ("renyi:0.9", 0, 2, 0.303339473),
    ("bc", 0, 1, 0.882496903),
    ("hellinger", 1, 0, 1 - 0.882496903),
    ("l2", 0, 1, 0.124798294),
    ("l2", 0, 2, 0.066317364),
]
# ∫ pq is the density at (1, -1) of the Gaussian with the sum of the covariances, of determinant 4.25
PLANE_L2 = 1 / (4 * np.pi) * (1 / np.sqrt(0.75) + 1) - np.exp(-5.5 / 8.5) / (np.pi * np.sqrt(4.25))
PLANE = [("bc", 0, 1, 0.653271645), ("bc", 1, 0, 0.653271645), ("l2", 0, 1, PLANE_L2)]
# q has next to no points where p has some: the error is bias, and falls slowly
SLOW = [("kl", 0, 1, 1.643841), ("kl", 1, 0, 2.522826)]


def errors(draw, truths, n, n_seeds):
    """Root mean squares of the errors over seeds, shape (len(truths),)."""
    found = []
    for seed in range(n_seeds):
        bags = draw(np.random.default_rng(seed), n)
        values = knn_many(bags, divergences=sorted({name for name, *_ in truths}), ks=[4])
        found.append([values[name, 4][i, j] - truth for name, i, j, truth in truths])
    return np.sqrt(np.mean(np.square(found), axis=0))


@pytest.mark.parametrize(("draw", "truths"), [(normal_line, LINE), (normal_plane, PLANE)])
def test_error_falls_as_the_root_of_the_number_of_points(draw, truths):
    few, many = errors(draw, truths, 300, 12), errors(draw, truths, 4800, 12)
    assert (many < 0.5 * few).all()  # n^(-1/2) is a quarter
    assert (many < 0.05).all()


@pytest.mark.parametrize(("draw", "truths"), [(normal_line, [("kl", 2, 0, 0.806852819)]), (normal_plane, SLOW)])
def test_light_tails_converge_slowly(draw, truths):
    few, many = errors(draw, truths, 300, 6), errors(draw, truths, 4800, 6)
    assert (many < 0.7 * few).all()


@pytest.mark.parametrize("k", [1, 2, 7])
def test_unbiased_for_equal_densities(k):
    rng = np.random.default_rng(0)
    bags = [rng.uniform(size=(150, 1)) for _ in range(40)]
    names = ["kl", "renyi:0.9", "bc"] + ["linear"] * (k > 1)
    for (name, _), matrix in knn_many(bags, divergences=names, ks=[k]).items():
        values = matrix[~np.eye(40, dtype=bool)]
        error = 5 * values.std() / np.sqrt(40) + k / 150  # pairs are not independent, bags are; and rims
        assert abs(values.mean() - (name in ("bc", "linear"))) < error


def test_unequal_numbers_of_neighbours_are_corrected():
    rng = np.random.default_rng(0)
    small = [rng.uniform(size=4) for _ in range(400)]
    large = [rng.uniform(size=400) for _ in range(20)]
    found = knn(small, large, "kl", 8)  # of three neighbours against eight
    plain = found - (-np.euler_gamma + 1.5) + (-np.euler_gamma + sum(1 / i for i in range(1, 8)))
    assert abs(found.mean()) < 0.25 < abs(plain.mean())


# Errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"divergence": "js"},
            ValueError,
            r"knn\(divergence=...\): must be one of 'kl', 'renyi:<a>', .*, got 'js'; choose",
        ),
        ({"divergence": 3}, TypeError, r"knn\(divergence=...\): must be one of .*, got 3; choose"),
        ({"divergence": "renyi"}, ValueError, r"must be one of 'kl', 'renyi:<a>', .*, got 'renyi'"),
        (
            {"divergence": "renyi:1"},
            ValueError,
            r"a in 'renyi:<a>' must be a positive number other than 1, got 'renyi:1'; write",
        ),
        ({"divergence": "renyi:<a>"}, ValueError, r"a in 'renyi:<a>' must be a positive number"),
        (
            {"divergence": "tsallis:x"},
            ValueError,
            r"a in 'tsallis:<a>' must be a positive number other than 1, got 'tsallis:x'",
        ),
        ({"k": 0}, ValueError, r"knn\(k=...\): must be an integer in \[1, inf\), got 0; choose"),
        ({"k": 2.5}, TypeError, r"knn\(k=...\): must be an integer in \[1, inf\), got 2.5 of type float"),
        (
            {"k": 1, "divergence": "l2"},
            ValueError,
            r"knn\(k=...\): must be an integer in \[2, inf\), got 1; 'l2' needs",
        ),
        (
            {"k": 2, "divergence": "renyi:3"},
            ValueError,
            r"knn\(k=...\): must be an integer in \[3, inf\), got 2; 'renyi:3' needs",
        ),
        ({"clamp": 1}, TypeError, r"knn\(clamp=...\): must be True or False, got 1; choose"),
        ({"n_jobs": 0}, ValueError, r"n_jobs: must not be 0"),
        (
            {"Y": [[1.0, 2.0]]},
            ValueError,
            r"knn\(Y=...\): must have points of 2 dimension\(s\), as X, got 1; pass bags",
        ),
    ],
)
def test_errors(options, error, text):
    with pytest.raises(error, match=text):
        knn(ragged(2), **options)


def test_bags_of_too_few_points():
    bags = Bags.from_arrays([[1.0, 2.0, 3.0], [4.0]], ids=["a", "b"])
    with pytest.raises(
        ValueError,
        match=r"knn\(X=...\): bags must have at least 2 points for 'kl', got 1 in .*'b'.*; leave that bag out",
    ):
        knn(bags)
    with pytest.raises(
        ValueError, match=r"knn_many\(X=...\): bags must have at least 3 points for 'l2', got 2 in bag 0"
    ):
        knn_many([[1.0, 2.0]], divergences=["kl", "l2"])


def test_categories_are_refused():
    bags = Bags([[31, 0], [64, 1], [47, 1]], [0, 3], columns=["age", "sex"], categories={"sex": ["f", "m"]})
    with pytest.raises(
        ValueError, match=r"knn\(X=...\): must have continuous columns only, got .*\['sex'\]; use HDDEmbedding"
    ):
        knn(bags)


def test_one_instead_of_a_sequence():
    with pytest.raises(TypeError, match=r"knn_many\(divergences=...\): must be a sequence, got 'kl'; write \['kl'\]"):
        knn_many(ragged(2), divergences="kl")
    with pytest.raises(TypeError, match=r"knn_many\(ks=...\): must be a sequence, got 4; write \[4\]"):
        knn_many(ragged(2), ks=4)


def test_nothing_asked_for():
    assert knn_many(ragged(2), divergences=[]) == {}
    assert knn_many(ragged(2), ks=[]) == {}


def test_input_untouched():
    bags = Bags.from_arrays(ragged(2))
    before = bags.points.copy()
    knn(bags)
    np.testing.assert_array_equal(bags.points, before)
