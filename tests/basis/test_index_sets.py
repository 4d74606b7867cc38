"""Index sets against brute force over the full grid, in exact arithmetic."""

from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
import pytest

from distembed import Cosine, Fourier
from distembed.basis import (
    HyperbolicCross,
    Legendre,
    SobolevEllipsoid,
    Tensor,
    TooManyFunctions,
    TotalDegree,
    index_sets,
)
from distembed.basis.index_sets import Auto

SIZES = [(7,), (1,), (5, 5), (3, 7), (10, 4), (1, 6), (4, 4, 4), (2, 5, 9), (3, 1, 4), (3, 3, 3, 3), (2, 3, 4, 5)]
getcontext().prec = 50


def degrees_of(kind, n_basis):
    return [[(k + 1) // 2 if kind == "fourier" else k for k in range(n)] for n in n_basis]


def brute(degrees, inside):
    """All indices of the full grid whose degrees are inside."""
    return [
        alpha
        for alpha in product(*(range(len(d)) for d in degrees))
        if inside([d[k] for d, k in zip(degrees, alpha, strict=True)])
    ]


def scaled(degrees):
    """Degrees as they compare between dimensions, and the largest: exact fractions."""
    m = max(d[-1] for d in degrees)
    factors = [Fraction(m, d[-1]) if d[-1] else Fraction(1) for d in degrees]
    return m, lambda ks: [f * k for f, k in zip(factors, ks, strict=True)]


def root_sum(ks, quarter_powers):
    """Sums of k^(1/2) or k^(3/2), to fifty digits."""
    return sum((Decimal(k.numerator) / k.denominator) ** quarter_powers for k in ks)


def rules(degrees):
    m, scale = scaled(degrees)
    half, tiny = Decimal("0.5"), Decimal(10) ** -40
    return {
        Tensor(): lambda ks: True,
        TotalDegree(): lambda ks: sum(scale(ks)) <= m,
        SobolevEllipsoid(s=0.5, t=2): lambda ks: sum(ks) <= 2,
        SobolevEllipsoid(s=0.5, t=2.9): lambda ks: sum(ks) <= 2,
        HyperbolicCross(): lambda ks: prod(1 + k for k in scale(ks)) <= 1 + m,
        SobolevEllipsoid(): lambda ks: sum(k**2 for k in scale(ks)) <= m**2,
        SobolevEllipsoid(s=0.5): lambda ks: sum(scale(ks)) <= m,
        SobolevEllipsoid(s=2): lambda ks: sum(k**4 for k in scale(ks)) <= m**4,
        SobolevEllipsoid(t=5): lambda ks: sum(k**2 for k in ks) <= 5,
        SobolevEllipsoid(s=0.25): lambda ks: root_sum(scale(ks), half) <= Decimal(m) ** half + tiny,
        SobolevEllipsoid(s=0.25, t=3): lambda ks: root_sum(map(Fraction, ks), half) <= 3 + tiny,
        SobolevEllipsoid(s=0.75): lambda ks: root_sum(scale(ks), 3 * half) <= Decimal(m) ** (3 * half) + tiny,
    }


@pytest.mark.parametrize("kind", ["cosine", "fourier"])
@pytest.mark.parametrize("n_basis", SIZES)
def test_every_set_is_the_filtered_grid_in_its_order(kind, n_basis):
    basis = {"cosine": Cosine, "fourier": Fourier}[kind]
    degrees = degrees_of(kind, n_basis)
    for index_set, inside in rules(degrees).items():
        found = basis(index_set=index_set).indices(n_basis)
        assert found.shape[1] == len(n_basis)
        assert list(map(tuple, found.tolist())) == brute(degrees, inside), index_set


@pytest.mark.parametrize("name", ["tensor", "total_degree", "hyperbolic_cross", "sobolev"])
@pytest.mark.parametrize("n_basis", [(5, 5), (3, 7), (4, 9, 2), (1, 3)])
@pytest.mark.parametrize("basis", [Cosine, Fourier])
def test_n_basis_is_the_number_of_functions_along_each_axis(name, n_basis, basis):
    indices = basis(index_set=name).indices(n_basis)
    assert tuple(indices.max(axis=0) + 1) == n_basis
    for j, n in enumerate(n_basis):
        others = np.delete(indices, j, axis=1)
        assert np.count_nonzero(~others.any(axis=1)) == n


def test_polynomials_have_the_degrees_of_cosines():
    for name in ("total_degree", "hyperbolic_cross", "sobolev"):
        np.testing.assert_array_equal(Legendre(name).indices((3, 5)), Cosine(name).indices((3, 5)))


def test_numbers_of_functions_are_the_binomials():
    for n_dims, n in [(2, 10), (5, 10), (5, 4), (10, 3), (20, 3)]:
        assert len(Cosine("total_degree").indices((n,) * n_dims)) == comb(n_dims + n - 1, n_dims)
    assert len(Fourier("total_degree").indices((3,) * 6)) == 1 + 2 * 6  # frequencies 0 and 1, two of the latter
    # Π (1 + d_j) <= 6: nothing, one of 1..5 in a dimension, ones in two, or a one and a two
    assert len(Cosine("hyperbolic_cross").indices((6,) * 8)) == 1 + 8 * 5 + comb(8, 2) + 8 * 7


@pytest.mark.parametrize(
    ("budget", "n_functions"),
    [
        (index_sets.Budget([range(10)] * 50, 2), comb(52, 2)),
        (index_sets.Budget([range(1, 11)] * 50, 3, multiply=True), 1 + 2 * 50),
        (index_sets.Budget([[k**0.5 for k in range(10)]] * 50, 1.0), 51),
    ],
)
def test_work_is_proportional_to_the_result(budget, n_functions):
    visited = sum(len(last) for _, last in index_sets.prefixes(budget, 10**6))
    assert n_functions <= visited <= 50 * n_functions
    assert len(index_sets.enumerate_indices(budget)) == n_functions


def test_too_many_functions_are_refused_before_they_are_made():
    for name in ("tensor", "total_degree", "hyperbolic_cross", "sobolev"):
        with pytest.raises(TooManyFunctions, match=r"index_set: .*more than 1,000"):
            Cosine(index_set=name).indices((100,) * 40, limit=1000)
    steps = index_sets.prefixes(index_sets.Budget([range(100)] * 40, 99), 1000)
    made = []
    with pytest.raises(TooManyFunctions):
        made.extend(len(last) for _, last in steps)
    assert sum(made) <= 1000 * len(made)
    assert len(Cosine("total_degree").indices((4, 4), limit=10)) == 10
    with pytest.raises(TooManyFunctions):
        Cosine("total_degree").indices((4, 4), limit=9)


def test_budgets_beyond_64_bits_are_exact():
    # Degrees up to distinct primes: their least common multiple is far beyond 64 bits.
    primes = (53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103)
    huge = [np.array([0, p]) for p in primes]  # the constant and the last function of each dimension
    assert len(TotalDegree().indices(huge)) == 1 + len(primes)
    assert len(HyperbolicCross().indices(huge)) == 1 + len(primes)
    assert len(SobolevEllipsoid().indices(huge)) == 1 + len(primes)
    assert len(SobolevEllipsoid(s=50, t=2).indices([np.arange(9999)] * 3)) == 1 + 3 + 3


def test_explicit_sizes_stay_below_n_basis():
    assert Cosine(SobolevEllipsoid(s=0.5, t=100)).indices((3, 2)).tolist() == Cosine("tensor").indices((3, 2)).tolist()
    assert len(Cosine(SobolevEllipsoid(t=100)).indices((4,))) == 4
    assert len(Cosine(SobolevEllipsoid(t=9)).indices((10,))) == 4
    assert Cosine(SobolevEllipsoid(s=0.5, t=0)).indices((3, 2)).tolist() == [[0, 0]]


def test_auto_is_a_tensor_up_to_three_dimensions_and_low_degrees_beyond():
    for n_dims in (1, 2, 3):
        np.testing.assert_array_equal(Cosine().indices((4,) * n_dims), Cosine("tensor").indices((4,) * n_dims))
    np.testing.assert_array_equal(Cosine().indices((5,) * 4), Cosine("total_degree").indices((5,) * 4))
    np.testing.assert_array_equal(Cosine().indices((10,) * 5), Cosine(SobolevEllipsoid(s=0.5, t=7)).indices((10,) * 5))
    assert len(Cosine().indices((10,) * 5)) == 792
    assert len(Cosine().indices((10,) * 10)) == 286
    assert len(Cosine().indices((10,) * 2000)) == 2001  # the constant and one function a dimension at least
    assert len(Cosine().indices((1,) * 5)) == 1
    uneven = Cosine().indices((10, 10, 4, 4))
    assert tuple(uneven.max(axis=0) + 1) == (10, 10, 4, 4)
    with pytest.raises(TooManyFunctions):
        Cosine().indices((10,) * 5, limit=5)


def test_names_and_errors():
    assert index_sets.get("auto") == Auto()
    assert index_sets.get(SobolevEllipsoid(s=2)) == SobolevEllipsoid(s=2)
    with pytest.raises(ValueError, match=r"index_set: must be one of 'auto', 'tensor', .* got 'ball'; choose one"):
        Cosine("ball").indices((3, 3))
    for bad, error, text in [
        (SobolevEllipsoid(s=0), ValueError, r"SobolevEllipsoid\(s=...\): must be a number in \(0, 100\], got 0"),
        (SobolevEllipsoid(t=-1), ValueError, r"SobolevEllipsoid\(t=...\): must be a number in \[0, inf\), got -1"),
        (SobolevEllipsoid(t="3"), TypeError, r"SobolevEllipsoid\(t=...\): must be a number in \[0, inf\), got '3'"),
    ]:
        with pytest.raises(error, match=text):
            Cosine(bad).indices((3, 3))
