r"""Which density estimate suits bags in many dimensions: the one that finds the other half of their points likeliest.

No estimate is best in four to ten dimensions. On products of flat margins a copula has a fifth of the error of kernels,
and where bags have many modes it has three times as much; a mixture is best of few blobs and poor on anything flat
(``experiments/many_dimensions_study.py``). Held-out points separate these cases:

.. math:: \frac1B \sum_b \frac1m \sum_{i \le m} \log \hat p_b(u_{bi}),

with the estimate of each bag from the one half and the mean over the other. Kernels and copulas get their bandwidth by
likelihood on the first halves.

Cost: an estimate of each kind for a few halves of a few hundred points, a second or less.
"""

from __future__ import annotations

import numpy as np

from ..bags import Bags
from ..bags.point_order import order_points
from ..compute.arrays import Array
from . import bandwidth as bandwidths
from .estimate import Density, get
from .subsets import spaced

CANDIDATES = ("kde", "copula", "mixture")  # the first one wins where nothing can be compared
LOW_DIMS = 3  # up to which a grid resolves what kernels estimate
_MOST_BAGS = 8
_MOST_POINTS = 600
_LEAST_POINTS = 20
_LEAST_DENSITY = 1e-30


def most_likely(bags: Bags) -> Density:
    """The density estimate, of kernels, a copula and a mixture, with the largest held-out likelihood.

    Parameters
    ----------
    bags : Bags
        In the unit cube, without points of weight zero.

    Returns
    -------
    Density
        Kernels up to three dimensions, and where no bag has twenty points.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> most_likely(Bags.from_arrays(rng.beta(2, 5, size=(3, 200, 5))))
    Copula(shrinkage='auto')
    >>> blobs = 0.3 + 0.4 * rng.integers(2, size=(3, 200, 1)) + rng.normal(0, 0.04, size=(3, 200, 5))
    >>> most_likely(Bags.from_arrays(blobs))
    Mixture(n_components='bic', least_deviation=0.02)
    """
    large = np.flatnonzero(bags.sizes >= _LEAST_POINTS)
    if bags.n_dims <= LOW_DIMS or not len(large):
        return get(CANDIDATES[0])
    first, second = _halves(spaced(bags[large], _MOST_BAGS))
    scores = [held_out_likelihood(get(name), first, second) for name in CANDIDATES]
    return get(CANDIDATES[int(np.argmax(scores))])


def held_out_likelihood(density: Density, first: Bags, second: Bags) -> float:
    """Mean over bags of the mean log density of the second halves under estimates from the first ones."""
    bandwidth = bandwidths.for_density(density, "likelihood", first)
    means = []
    for i in range(first.n_bags):
        estimate = density.of(first[i].astype(np.float64), first.weights_of(i), bandwidth)
        logs = np.log(np.maximum(estimate.pdf(second[i].astype(np.float64)), _LEAST_DENSITY))
        means.append(np.average(logs, weights=second.weights_of(i)))
    return float(np.mean(means))


def _halves(bags: Bags) -> tuple[Bags, Bags]:
    """Points at even and at odd places of each bag, in an order that does not depend on the one they came in."""
    order = order_points(bags)
    places = np.arange(bags.n_points) - np.repeat(bags.offsets[:-1], bags.sizes)
    step = np.repeat(np.maximum(bags.sizes // _MOST_POINTS, 1), bags.sizes)
    kept = places % step == 0

    def every_other(parity: int) -> Bags:
        rows: Array = np.zeros(bags.n_points, bool)
        rows[order[kept & ((places // step) % 2 == parity)]] = True
        return bags.keep_points(rows)

    return every_other(0), every_other(1)
