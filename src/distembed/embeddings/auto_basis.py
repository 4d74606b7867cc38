"""How many basis functions are enough: ``n_basis="auto"``.

The share of ∫ |ψ|² that a basis captures is known from training bags (``energy_``), and what is missing is missing from
distances. So functions are added, from 10 along each dimension on, by half as many again each time, until the share is
0.95, or until a bag would have more than 10,000 features.

Learners do not take it: held-out bags prefer fewer functions than distances do (``experiments/basis_size.py``).
"""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.base import clone

from ..bags import Bags

FIRST = 10  # functions along each dimension, of which there are never fewer
ENOUGH = 0.95  # of the energy
MOST_FEATURES = 10_000
GROWTH = 1.5


def enough_functions(embedding: Any, bags: Bags) -> int:
    """The least number of functions along each dimension that captures enough, within the budget of features.

    Parameters
    ----------
    embedding : HDDEmbedding or L2Embedding
        With ``n_basis="auto"``.
    bags : Bags
        Training bags in the unit cube.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> narrow = de.as_bags(np.random.default_rng(0).normal(0.5, 0.01, size=(9, 200, 1)))
    >>> enough_functions(de.HDDEmbedding("hellinger", n_basis="auto"), narrow)
    50
    """
    n, settled = FIRST, dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last fit tells what is left to tell
        while True:
            tried = clone(embedding).set_params(n_basis=n, **settled).fit(bags)
            more = round(GROWTH * n)
            if tried.energy_ is None or tried.energy_ >= ENOUGH:
                return n
            if len(tried.stages_.indices) * (more / n) ** bags.n_dims * _functions(tried) > MOST_FEATURES:
                return n
            if tried.bandwidth_ is not None and tried.stages_.bag_rule is None:  # the rule has spoken
                settled = {"bandwidth": tuple(tried.bandwidth_.tolist()), "bandwidth_scale": 1.0}
            n = more


def _functions(fitted: Any) -> float:
    """Features for each basis function."""
    return float(fitted.stages_.n_features / len(fitted.stages_.indices))
