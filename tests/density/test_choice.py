"""The density that held-out points find likeliest: kernels, a copula or a mixture, by what the bags are like."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from distembed.density import KDE, Copula, Mixture, most_likely
from distembed.density.choice import held_out_likelihood

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast

N_DIMS = 5


def flat(seed=0, n_points=300):
    return de.as_bags(np.random.default_rng(seed).beta(1.5, 2.5, size=(4, n_points, N_DIMS)))


def blobs(seed=0, n_points=300):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.3, 0.7, size=(3, N_DIMS))
    return de.as_bags(centres[rng.integers(3, size=(4, n_points))] + rng.normal(0, 0.04, size=(4, n_points, N_DIMS)))


def bent(seed=0, n_points=300):
    """A curve that winds through the cube: neither monotone dependence nor a few blobs."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 4 * np.pi, size=(4, n_points, 1))
    waves = 0.5 + 0.35 * np.sin(t * [1, 1, 2, 2, 3] + [0, np.pi / 2, 0, np.pi / 2, 1])
    return de.as_bags(np.clip(waves + rng.normal(0, 0.02, size=waves.shape), 0, 1))


@pytest.mark.parametrize(("bags", "kind"), [(flat(), Copula), (blobs(), Mixture), (bent(), KDE)])
def test_the_choice_is_that_of_the_kind_of_bags(bags, kind):
    assert type(most_likely(bags)) is kind


def test_held_out_likelihood_of_a_known_density():
    """Of uniform points the log density is 0, and estimates come near it from below."""
    rng = np.random.default_rng(0)
    first, second = (de.as_bags(rng.uniform(size=(3, 400, 4))) for _ in range(2))
    assert -0.3 < held_out_likelihood(Copula(), first, second) < 0.05


def test_kernels_where_nothing_can_be_compared():
    assert type(most_likely(flat(n_points=19))) is KDE
    assert type(most_likely(de.as_bags(np.random.default_rng(0).beta(1.5, 2.5, size=(4, 300, 3))))) is KDE


def test_neither_order_of_points_nor_of_bags_matters():
    rng = np.random.default_rng(1)
    bags = flat(2)
    shuffled = de.as_bags([rng.permutation(bag) for bag in bags])
    assert most_likely(shuffled[[2, 0, 3, 1]]) == most_likely(bags)


def test_embeddings_take_it():
    bags = flat()
    auto = de.HDDEmbedding("hellinger", n_basis=3, density="auto", random_state=0).fit(bags)
    copula = de.HDDEmbedding("hellinger", n_basis=3, density="copula", bandwidth="likelihood", random_state=0).fit(bags)
    np.testing.assert_array_equal(auto.transform(bags), copula.transform(bags))
    given = de.HDDEmbedding("hellinger", n_basis=3, density="auto", bandwidth=0.1, random_state=0).fit(bags)
    np.testing.assert_array_equal(given.bandwidth_, 0.1)


def test_up_to_three_dimensions_it_is_kernels():
    bags = de.as_bags(np.random.default_rng(0).beta(2, 4, size=(5, 100, 2)))
    rows = [de.HDDEmbedding(n_basis=5, density=density).fit_transform(bags) for density in ("auto", "kde")]
    np.testing.assert_array_equal(*rows)
