r"""Metropolis sampling from a density on the unit cube that can only be evaluated, many chains at a time.

A chain at x proposes x' = fold(x + d), the increment d drawn from a distribution that does not depend on x and is
symmetric, fold being reflection at the faces of the cube. Then x' is as likely from x as x from x', and to accept it
with probability min(1, p(x') / p(x)) leaves p invariant (Metropolis et al. 1953). Two kinds of increments take turns
at random: Gaussian ones, whose scale is adapted during burn-in until a quarter are accepted, and differences of two
points of a fixed archive (ter Braak and Vrugt 2008), which follow the correlations of the points and jump from mode to
mode. The cost is one evaluation of the density a chain and step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import one_blas_thread

__all__ = ["fold", "metropolis"]

Array = NDArray[Any]

TARGET = 0.25  # accepted share of Gaussian steps at which chains of several dimensions move fastest
_WHOLE = 0.3  # share of differences taken at full length, which lead from mode to mode
_LEAST_SPREAD = 1e-4  # of the archive in a dimension, in units of the cube


def fold(x: Array) -> Array:
    """Points reflected at the faces of the unit cube until they lie inside.

    Examples
    --------
    >>> fold(np.array([-0.25, 0.5, 1.25, 2.25]))
    array([0.25, 0.5 , 0.75, 0.25])
    """
    return np.asarray(1 - np.abs(1 - np.mod(x, 2)))


def metropolis(
    pdf: Callable[[Array], Array],
    starts: Array,
    n: int,
    archive: Array,
    rng: np.random.RandomState,
    *,
    burn_in: int = 100,
    thin: int = 5,
) -> tuple[Array, Array, float]:
    """Draw points from a density by parallel chains.

    Parameters
    ----------
    pdf : callable
        Density at points of shape (m, n_dims), ndarray of shape (m,); a constant factor does not matter.
    starts : ndarray of shape (n_chains, n_dims)
        Where the chains begin.
    n : int
        Number of points wanted.
    archive : ndarray of shape (k, n_dims)
        Points that look like the density: their spread sets the first scale, their differences are increments.
    rng : RandomState
        Of all draws.
    burn_in : int
        Steps before the first points are kept, during which the scale is adapted.
    thin : int
        Steps from one kept point of a chain to the next.

    Returns
    -------
    points : ndarray of shape (n, n_dims)
        The chains after burn-in, all of them at one step, then at the next kept one, and so on.
    values : ndarray of shape (n,)
        The density there.
    acceptance : float
        Share of proposals accepted after burn-in.

    Notes
    -----
    n_chains (burn_in + thin ⌈n / n_chains⌉) evaluations of the density.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> start = rng.uniform(size=(50, 1))
    >>> x, _, _ = metropolis(lambda u: 2 * u[:, 0], start, 5000, start, rng)
    >>> x.shape, round(float(x.mean()), 1)  # the mean of p(x) = 2x is 2/3
    ((5000, 1), 0.7)
    """
    # A step is a few small products, for which threads of BLAS cost more than they gain.
    with one_blas_thread():
        return _run(pdf, starts.astype(float), n, archive, rng, burn_in, thin)


def _run(
    pdf: Callable[[Array], Array],
    state: Array,
    n: int,
    archive: Array,
    rng: np.random.RandomState,
    burn_in: int,
    thin: int,
) -> tuple[Array, Array, float]:
    n_chains, n_dims = state.shape
    spread = np.maximum(archive.std(axis=0), _LEAST_SPREAD)
    log_scale = np.log(2.38 / np.sqrt(n_dims))
    shorter = 2.38 / np.sqrt(2 * n_dims)
    value = pdf(state)
    kept, values, accepted, rounds = [], [], 0.0, -(-n // n_chains)
    for step in range(1, burn_in + thin * rounds + 1):
        differ = np.less(rng.uniform(size=n_chains), 0.5)
        first, second = archive[rng.randint(len(archive), size=(2, n_chains))]
        length = np.where(rng.uniform(size=n_chains) < _WHOLE, 1.0, shorter)
        # Differences get a little noise, or chains would stay on the lattice that they span.
        noise = np.exp(log_scale) * np.where(differ, 0.1, 1.0)[:, None] * spread * rng.normal(size=state.shape)
        proposal = fold(state + noise + np.where(differ, length, 0.0)[:, None] * (first - second))
        there = pdf(proposal)
        accept = np.less(rng.uniform(size=n_chains) * value, there)
        state, value = np.where(accept[:, None], proposal, state), np.where(accept, there, value)
        if step <= burn_in:
            walked = accept[~differ]
            if len(walked):  # the gain falls, so that the scale settles
                log_scale += 2 / np.sqrt(step) * (walked.mean() - TARGET)
            continue
        accepted += float(accept.mean()) / (thin * rounds)
        if (step - burn_in) % thin == 0:
            kept.append(state)
            values.append(value)
    return np.concatenate(kept)[:n], np.concatenate(values)[:n], accepted
