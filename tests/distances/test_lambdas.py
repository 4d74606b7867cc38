"""Lambda functions against the judge, in both precisions."""

import numpy as np
import pytest

import exact
from distembed import distances
from distembed.compute.arrays import Scratch
from distembed.distances import lambdas

rng = np.random.default_rng(0)
P = np.concatenate([[0.0], rng.gamma(0.5, size=500), 10.0 ** np.arange(-9, 5)])
RULES = [(name, n) for name in ("js", "chi2", "tv", "hellinger") for n in (1, 3, 5)]


def expected(p, rule):
    """The judge's, without the imaginary parts of lambdas that are zero."""
    nodes, weights = rule
    keep = np.append(np.ones(len(nodes), bool), nodes != 0)
    return exact.lambda_functions(p, nodes, weights)[keep]


@pytest.mark.parametrize(("name", "n"), RULES)
def test_float64_is_the_judges(name, n):
    rule = distances.get(name).quadrature(n)
    found = lambdas.lambda_functions(P, *rule)
    np.testing.assert_allclose(found, expected(P, rule), rtol=1e-10, atol=1e-12)
    assert len(found) == lambdas.n_functions(rule[0])
    np.testing.assert_array_equal(found[:, 0], 0.0)


@pytest.mark.parametrize(("name", "n"), RULES)
def test_float32_agrees_to_its_precision(name, n):
    rule = distances.get(name).quadrature(n)
    p = P.astype(np.float32)
    found = lambdas.lambda_functions(p, *rule)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(p.astype(float), rule), atol=1e-5 * np.sqrt(p.max()))


def test_a_scratch_is_used_again():
    scratch, rule = Scratch(), distances.get("js").quadrature(2)
    first = lambdas.lambda_functions(P, *rule, scratch)
    assert np.shares_memory(first, lambdas.lambda_functions(P, *rule, scratch))


def test_squares_add_up_to_the_mass_times_the_density():
    rule = distances.get("js").quadrature(4)
    np.testing.assert_allclose(np.sum(lambdas.lambda_functions(P, *rule) ** 2, axis=0), np.log(2) / 2 * P, rtol=1e-12)


def test_squared_differences_are_kappa_with_the_rule():
    distance = distances.get("chi2")
    rule = distance.quadrature(3)
    f, g = lambdas.lambda_functions(P, *rule), lambdas.lambda_functions(P[::-1].copy(), *rule)
    np.testing.assert_allclose(np.sum((f - g) ** 2, axis=0), distance.approximate(P, P[::-1], *rule), rtol=1e-9)
