"""Bad input is refused in words that name what is wrong, where, and what to do about it."""

from __future__ import annotations

import re
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import distembed as de

RNG = np.random.default_rng(0)
GOOD = [RNG.uniform(size=(20, 2)) for _ in range(4)]
FOUR_DIMS = [RNG.uniform(size=(20, 4)) for _ in range(2)]
ROWS = RNG.normal(size=(10, 3))

hdd, rff = de.HDDEmbedding, de.RandomFourierFeatures


def hole(value):
    """Bags with one bad value: bag 2, row 5, column 1."""
    arrays = [points.copy() for points in GOOD]
    arrays[2][5, 1] = value
    return arrays


def words(message):
    """The pattern of a message in which ~ stands for any text."""
    return ".*".join(re.escape(part) for part in message.split("~"))


def offence(what, call, error, pattern):
    """What is wrong with how a call is refused, as a list of at most one line."""
    kinds = error if isinstance(error, tuple) else (error,)
    try:
        call()
    except kinds as came:
        fits = re.search(pattern, str(came))
        return [] if fits else [f"{what}: expected {pattern!r}, got {str(came)!r}"]
    except Exception as came:
        return [f"{what}: expected {error}, got {came!r}"]
    return [f"{what} is not refused"]


def check_offences(cases):
    """Fail with all calls that are not refused, or not in the words expected: what, call, error, pattern."""
    wrong = [line for case in cases for line in offence(*case)]
    assert not wrong, "\n".join(wrong)


def readers():
    """Estimators of bags, of each kind."""
    return [hdd(bandwidth=0.1), de.UnitCube(), de.Marginals(hdd(bandwidth=0.1)), de.BlockAverage(hdd(bandwidth=0.1), 5)]


def test_offences_are_found():
    def refuse():
        raise ValueError("n_basis: must be positive")

    assert offence("this", refuse, ValueError, "positive") == []
    assert offence("this", refuse, (TypeError, ValueError), "^n_basis") == []
    (words_differ,) = offence("this", refuse, ValueError, "negative")
    assert words_differ == "this: expected 'negative', got 'n_basis: must be positive'"
    (kind_differs,) = offence("this", refuse, TypeError, "positive")
    assert kind_differs.endswith("got ValueError('n_basis: must be positive')")
    assert offence("this", lambda: None, ValueError, "") == ["this is not refused"]
    with pytest.raises(AssertionError, match=r"a is not refused\n\s*b is not refused"):
        check_offences((what, lambda: None, ValueError, "") for what in "ab")


def bags_with(weights):
    return de.Bags.from_arrays(GOOD[:2], weights=weights, ids=["abell", "coma"])


# --------------------------------------------------------------------------------------------------------------
# Bags: every estimator reads them by the same door, in fit and in transform
# --------------------------------------------------------------------------------------------------------------

BAD_BAGS = [
    ("NaN", hole(np.nan), ValueError, "points must be finite, got nan at bag 2, row 5, column 1 ~; remove those"),
    ("infinity", hole(np.inf), ValueError, "points must be finite, got inf at bag 2, row 5, column 1 ~; remove those"),
    ("empty bag", [GOOD[0], GOOD[0][:0]], ValueError, "bag 1 is empty, ~ at least one point; leave it out"),
    ("empty array", np.empty((3, 0, 2)), ValueError, "bag 0 is empty, ~ at least one point; leave it out"),
    ("no bags", [], ValueError, "no bags: the sequence of arrays is empty, ~ at least one bag"),
    ("no bags in array", np.empty((0, 5, 2)), ValueError, "no bags: ~shape (0, 5, 2), ~ at least one bag"),
    ("no coordinates", np.empty((3, 5, 0)), ValueError, "points must have at least one coordinate, got shape"),
    ("mixed widths", [GOOD[0], FOUR_DIMS[0]], ValueError, "same number of coordinates, got 4 in bag 1 and 2 in bag 0"),
    ("text", [GOOD[0], [["a", "b"]]], TypeError, "bag 1 must be real numbers ~, got dtype <U1; convert"),
    ("complex", [GOOD[0] * 1j], TypeError, "bag 0 must be real numbers ~, got dtype complex128; convert"),
    ("masked", [np.ma.masked_less(GOOD[0], 0.5)], ValueError, "bag 0 must have no masked entries; remove ~ or fill"),
    ("None for a bag", [GOOD[0], None], TypeError, "bag 1 is None; leave it out"),
    ("ragged rows", [[[0.1, 0.2], [0.3]]], ValueError, "bag 0 must be a rectangular array ~rows of unequal length"),
    ("numbers", [0.1, 0.2], ValueError, "bag 0 must be an array of shape (n_points, n_dims)~ got shape ()"),
    ("table", GOOD[0], ValueError, "2-D array is ambiguous as bags~[X] if all of it is one bag"),
    ("vector", GOOD[0][:, 0], ValueError, "1-D array is not bags, ~write [x] for one bag of 1-D points"),
    ("mapping", {"a": GOOD[0]}, TypeError, "from a mapping: use Bags.from_arrays(list(d.values()), ids=list(d))"),
    ("one text", "bags.npz", TypeError, "bags must be Bags, a list of ~ arrays, ~got str"),
    ("nothing", None, TypeError, "bags must be Bags, a list of ~ arrays, ~got NoneType"),
]


def test_bad_bags():
    cases = []
    for estimator in readers():
        fitted = clone(estimator).fit(GOOD)
        for name, X, error, message in BAD_BAGS:
            for stage, method in (("fit", estimator.fit), ("transform", fitted.transform)):
                what = f"{name}, {type(estimator).__name__}.{stage}"
                cases.append((what, partial(method, X), error, words(message)))
    check_offences(cases)


BAD_CONSTRUCTION = [
    ("negative weight", lambda: bags_with([np.ones(20), -np.ones(20)]), "nonnegative, got -1.0 at bag 1 (id 'coma')"),
    (
        "weights all zero",
        lambda: bags_with([np.ones(20), np.zeros(20)]),
        "weights must have a positive, finite sum in every bag, got 0.0 in bag 1 (id 'coma')~; leave them out or",
    ),
    ("NaN weight", lambda: bags_with([np.ones(20), np.full(20, np.nan)]), "weights must be finite, got nan ~'coma'"),
    ("few weights", lambda: bags_with([np.ones(20), np.ones(3)]), "weights of bag 1 ~ shape (20,), got (3,)"),
    ("offsets start late", lambda: de.Bags(GOOD[0], [1, 20]), "offsets must start at 0, got 1"),
    ("offsets end early", lambda: de.Bags(GOOD[0], [0, 19]), "offsets must end at the number of points, 20, got 19"),
    ("offsets go back", lambda: de.Bags(GOOD[0], [0, 10, 5, 20]), "offsets must increase, got 10 then 5 for bag 1"),
    ("offsets of an empty bag", lambda: de.Bags(GOOD[0], [0, 10, 10, 20]), "bag 1 is empty, ~; leave it out"),
    ("one offset", lambda: de.Bags(GOOD[0], [0]), "no bags: offsets must have n_bags + 1 entries, got 1"),
    ("same id twice", lambda: de.Bags(GOOD[0], [0, 9, 20], ids=["aa", "aa"]), "unique, ~'aa'; give each bag"),
    ("few ids", lambda: de.Bags(GOOD[0], [0, 9, 20], ids=["a"]), "ids must hold one id a bag, got 1 ids for 2 bags"),
]


def test_bad_construction():
    check_offences((name, make, ValueError, words(message)) for name, make, message in BAD_CONSTRUCTION)


# --------------------------------------------------------------------------------------------------------------
# Parameters
# --------------------------------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    # which distance
    (hdd("kl"), ValueError, "distance~: must be one of 'js', ~'chi2' or a HomogeneousDistance, got 'kl'"),
    (hdd(3), (TypeError, ValueError), "distance~: must be one of 'js', ~got 3"),
    # bandwidth
    (
        hdd(bandwidth=-1),
        ValueError,
        "bandwidth~: must be positive (1e-06 at least, the cube has side 1), got -1~; 0.05 is",
    ),
    (hdd(bandwidth=0), ValueError, "bandwidth~: must be positive ~got 0~; 0.05 is a usual size, or give a rule"),
    (hdd(bandwidth=np.nan), ValueError, "bandwidth~: must be positive ~got nan~; 0.05 is a usual size"),
    (hdd(bandwidth=np.inf), ValueError, "bandwidth~: must be positive ~got inf~; 0.05 is a usual size"),
    (hdd(bandwidth=(0.1, -0.1)), ValueError, "bandwidth~: must be positive ~got (0.1, -0.1)"),
    (hdd(bandwidth="best"), ValueError, "bandwidth~: must be a positive number, ~ a rule ('scott', ~got 'best'"),
    (hdd(bandwidth=(0.1, 0.1, 0.1)), ValueError, "bandwidth~: must be one number, or one per dimension (2), got"),
    (hdd(bandwidth_scale=0), ValueError, "HDDEmbedding(bandwidth_scale=...): ~ in [1e-06, 1e+06], got 0; choose"),
    (hdd(bandwidth_scale=-1), ValueError, "HDDEmbedding(bandwidth_scale=...): ~ in [1e-06, 1e+06], got -1; choose"),
    (hdd(bandwidth_scale="half"), TypeError, "HDDEmbedding(bandwidth_scale=...): ~got 'half' of type str; choose"),
    # basis
    (hdd(n_basis=0), ValueError, "HDDEmbedding(n_basis=...): must be an integer in [1, 10000], got 0; choose"),
    (hdd(n_basis=2.5), TypeError, "HDDEmbedding(n_basis=...): must be an integer ~got 2.5 of type float; choose"),
    (hdd(n_basis=(3, 0)), ValueError, "HDDEmbedding(n_basis=...): must be an integer in [1, ~got 0; choose"),
    (hdd(n_basis=(3, 3, 3)), ValueError, "HDDEmbedding(n_basis=...): ~ one per dimension (2), got (3, 3, 3)"),
    (hdd(n_basis=2000), ValueError, "n_basis=...): ~40,000,000 features per bag, ~; lower n_basis or ~Marginals"),
    (hdd(basis="wavelet"), ValueError, "basis~: must be one of 'cosine', 'fourier', 'legendre' ~, got 'wavelet'"),
    (hdd(basis=de.Cosine), (TypeError, ValueError), "basis~: must be one of ~a basis object, got <class"),
    # lambdas
    (hdd(n_lambdas=0), ValueError, "HDDEmbedding(n_lambdas=...): ~integer in [1, 256]~, got 0; choose"),
    (hdd(n_lambdas=257), ValueError, "HDDEmbedding(n_lambdas=...): ~integer in [1, 256]~, got 257; choose"),
    (
        hdd(n_lambdas="many"),
        ValueError,
        "HDDEmbedding(n_lambdas=...): must be an integer in [1, 256] or 'auto', got 'many'; 5 is",
    ),
    (hdd(n_lambdas="auto", lambda_rule="random"), ValueError, "'auto'): needs lambda_rule='gauss'; ~give their number"),
    (hdd(lambda_rule="sobol"), ValueError, "HDDEmbedding(lambda_rule=...): ~'gauss', 'random', got 'sobol'; choose"),
    # nodes
    (hdd(nodes="sobol"), ValueError, "nodes~: must be 'auto', 'grid', ~Sobol(...) or ~, got 'sobol'"),
    (hdd(nodes=500), (TypeError, ValueError), "nodes~: must be 'auto', ~MonteCarlo(...), got 500"),
    (hdd(nodes=de.Grid(0)), ValueError, "Grid(size=...): must be an integer in [2, ~got 0; choose"),
    (
        hdd(nodes=de.Grid((8,))),
        ValueError,
        "Grid(size=...): ~ one per dimension (2), got (8,); give 2 sizes",
    ),
    (hdd(nodes=de.Sobol(0)), ValueError, "Sobol(n=...): must be an integer in [2, ~got 0; choose"),
    (hdd(nodes=de.MonteCarlo(1.5)), TypeError, "MonteCarlo(n=...): must be an integer ~got 1.5 of type float"),
    # density
    (hdd(density="parzen"), ValueError, "density~: must be ~'kde'~, got 'parzen'"),
    (hdd(density=de.KDE("mirror")), ValueError, "KDE(boundary=...): ~'reflect', ~, got 'mirror'; choose"),
    (hdd(density=de.KDE(("reflect", "open"))), ValueError, "KDE(boundary=...): ~'periodic', ~, got 'open'; choose"),
    (hdd(density=de.KDE(("reflect",) * 3)), ValueError, "KDE(boundary=...): ~ one per dimension (2), got ('refl"),
    # scaling
    (de.UnitCube(margin=-1), ValueError, "UnitCube(margin=...): must be a number in [0, inf), got -1; choose"),
    (de.UnitCube(map="log"), ValueError, "UnitCube(map=...): must be one of 'linear', ~, got 'log'; choose"),
    (de.UnitCube(outside="keep"), ValueError, "UnitCube(outside=...): must be one of 'clip', ~got 'keep'; choose"),
    (de.UnitCube(0.7), ValueError, "UnitCube(bounds=...): ~ in (0, 0.5), got 0.7; pass a small one such as"),
    (de.UnitCube((1, 0)), ValueError, "UnitCube(bounds=...): low must be below high, got low 1 and high 0 ~; pass"),
    (de.UnitCube("max"), ValueError, "UnitCube(bounds=...): must be 'minmax', a quantile ~got 'max'; pass"),
    # wrappers
    (
        de.Marginals(hdd(), "triples"),
        ValueError,
        "Marginals(which=...): must be 'each', 'pairs' ~, got 'triples'; choose",
    ),
    (de.Marginals(hdd(), 0), ValueError, "Marginals(which=...): ~an integer in [1, inf), got 0; choose"),
    (de.BlockAverage(hdd(), 0), ValueError, "BlockAverage(block_size=...): ~integer in [1, inf), got 0; pass"),
]


def test_bad_parameters():
    check_offences(
        (estimator, partial(estimator.fit, GOOD), error, words(message)) for estimator, error, message in BAD_PARAMETERS
    )


BAD_RANDOM_FEATURES = [
    (rff(7), ValueError, "n_components=...): must be even, because features='paired' ~, got 7; use 8, or features="),
    (rff(0), ValueError, "n_components=...): must be an integer in [1, inf), got 0; choose"),
    (rff("many"), TypeError, "n_components=...): must be an integer in [1, inf), got 'many' of type str; choose"),
    (rff(sigma=-1), ValueError, "sigma=...): must be a ~number~, got -1; choose"),
    (rff(sigma=np.nan), ValueError, "sigma=...): must be a ~number~, got nan; choose"),
    (rff(sigma="mean"), ValueError, "sigma=...): must be a positive number or 'median', got 'mean'; with"),
    (rff(sigma=None), TypeError, "sigma=...): must be a positive number or 'median', got None"),
    (rff(sigma_scale=0), ValueError, "sigma_scale=...): must be a number in (0, inf), got 0; choose"),
    (rff(frequencies="hadamar"), ValueError, "frequencies=...): must be one of 'auto', ~, got 'hadamar'; choose"),
    (rff(features="cosine"), ValueError, "features=...): must be one of 'paired', 'phase', got 'cosine'; choose"),
]


def test_bad_random_features():
    check_offences(
        (estimator, partial(estimator.fit, ROWS), error, words("RandomFourierFeatures(" + message))
        for estimator, error, message in BAD_RANDOM_FEATURES
    )


# --------------------------------------------------------------------------------------------------------------
# Data and parameters that don't go together
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.25, 1.5])
@pytest.mark.parametrize("stage", ["fit", "transform"])
def test_points_outside_the_cube(value, stage):
    message = rf"HDDEmbedding: .*unit cube \[0, 1\]\^2, but point 5 of bag 2 has {value} in dimension 1; .*UnitCube\(\)"
    estimator = hdd(bandwidth=0.1)
    if stage == "transform":
        estimator.fit(GOOD)
    with pytest.raises(ValueError, match=message):
        getattr(estimator, stage)(hole(value))


def test_points_outside_the_cube_are_found_by_the_id_of_their_bag():
    bags = de.Bags.from_arrays(hole(7.0), ids=["abell", "coma", "virgo", "leo"])
    with pytest.raises(ValueError, match=r"point 5 of bag 2 \(id 'virgo'\) has 7 in dimension 1"):
        hdd().fit(bags)


def test_unit_cube_as_the_message_says_cures_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(make_pipeline(de.UnitCube(), hdd(bandwidth=0.1)).fit_transform(hole(7.0))).all()


@pytest.mark.parametrize("nodes", ["grid", de.Grid(8)])
def test_a_grid_in_four_dimensions(nodes):
    message = r"Grid: .* 1 to 3 dimensions, the points have 4; use nodes='importance', or .*Marginals"
    with pytest.raises(ValueError, match=message):
        hdd(nodes=nodes, bandwidth=0.1, n_basis=2).fit(FOUR_DIMS)


def test_another_width_at_transform():
    message = r": X must have points of 2 dimension\(s\), as in fit, got 4; .*or fit again"
    check_offences(
        (each, partial(each.fit(GOOD).transform, FOUR_DIMS), ValueError, type(each).__name__ + message)
        for each in readers()
    )


def test_another_width_of_random_features():
    with pytest.raises(ValueError, match="X has 2 features, but RandomFourierFeatures is expecting 3"):
        rff(4).fit(ROWS).transform(ROWS[:, :2])


def test_unfitted():
    unfitted = [*readers(), rff(4)]
    calls = [(each, partial(each.transform, ROWS if each is unfitted[-1] else GOOD)) for each in unfitted]
    calls += [(each, each.get_feature_names_out) for each in (hdd(), de.Marginals(hdd()))]
    calls += [(cube, partial(cube.inverse_transform, GOOD)) for cube in (de.UnitCube(),)]
    message = "This {} instance is not fitted yet. Call 'fit'"
    check_offences((each, call, NotFittedError, message.format(type(each).__name__)) for each, call in calls)


def test_a_refused_fit_leaves_parameters_alone():
    estimator = hdd(n_basis=(3, 3, 3), bandwidth="best")
    before = estimator.get_params()
    with pytest.raises(ValueError, match="n_basis"):
        estimator.fit(GOOD)
    assert estimator.get_params() == before


REMEDIES = [
    (lambda: de.Bags([[0.0], [1.0]], [1, 2]), r"start at 0, got 1; give np\.r_\[0, np\.cumsum\(sizes\)\]"),
    (lambda: de.Bags([[0.0], [1.0]], [0, 2, 1]), r"increase, got 2 then 1 for bag 1; give np\.r_"),
    (lambda: de.Bags([[0.0], [1.0]], [0, 1]), r"number of points, 2, got 1; give np\.r_"),
    (lambda: de.Bags([[0.0]], [0, 1], weights=[-1.0]), r"got -1\.0 at bag 0, row 0; leave such points out"),
    (lambda: de.as_bags([[[0.0]], [[0.0, 1.0]]]), "2 in bag 1 and 1 in bag 0; give all bags the same columns"),
    (lambda: de.as_bags([]), "no bags: .*; check what was selected or read"),
]


def test_containers_name_the_remedy():
    check_offences((f"case {number}", make, ValueError, remedy) for number, (make, remedy) in enumerate(REMEDIES))
