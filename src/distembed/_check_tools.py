"""What the checks of transformers of bags are made of: bags to try, and ways to compare and to require.

Everything here raises AssertionError by hand, never by ``assert``, so that the checks also work under ``python -O``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from .bags import Bags

__all__ = [
    "SIZES",
    "dtype_of",
    "make_bags",
    "require",
    "require_close",
    "require_error",
    "rows_of",
    "settings",
    "with_weights",
]

Array = NDArray[Any]

SIZES = (6, 9, 4, 12, 7, 5)
TOLERANCE = 1e-6  # of the largest value in the rows


def make_bags(width: int, sizes: Sequence[int] = SIZES, seed: int = 0) -> Bags:
    """Bags from different beta distributions in the unit cube, exact in float32.

    Each holds two opposite corners of the cube, so that any part of the bags spans the same box.
    """
    rng = np.random.default_rng(seed)
    arrays = []
    for size in sizes:
        a, b = rng.uniform(1, 4, (2, width))
        points = np.round(rng.beta(a, b, (size, width)) * 2**12) / 2**12
        points[0], points[-1] = 0, 1
        arrays.append(points)
    return Bags.from_arrays(arrays)


def with_weights(bags: Bags, weights: Array) -> Bags:
    """The same points with weights."""
    return Bags(bags.points, bags.offsets, weights)


def rows_of(output: Any) -> Array:
    """One row a bag: the features, or means of fixed waves, which tell distributions of points apart."""
    if not isinstance(output, Bags):
        return np.asarray(output.toarray() if hasattr(output, "toarray") else output)
    angles = output.points.astype(float) @ np.random.default_rng(0).normal(0, 4, (output.n_dims, 32))
    weights = np.ones(output.n_points) if output.weights is None else output.weights.astype(float)
    waves = np.concatenate([np.cos(angles), np.sin(angles), np.ones((len(angles), 1))], axis=1) * weights[:, None]
    sums = np.add.reduceat(waves, output.offsets[:-1], axis=0)
    return np.asarray(sums[:, :-1] / sums[:, -1:])


def dtype_of(output: Any) -> np.dtype[Any]:
    """The dtype of features or of points."""
    return output.dtype if isinstance(output, Bags) else rows_of(output).dtype


def require(condition: Any, seen: str) -> None:
    """An assert that survives ``python -O``."""
    if not condition:
        raise AssertionError(seen)


def require_close(output: Any, wanted: Array, what: str, tolerance: float = TOLERANCE) -> None:
    """Compare rows within a tolerance relative to the largest value; NaN is not close to anything."""
    got = rows_of(output)
    require(got.shape == wanted.shape, f"{what}: shape {got.shape} in place of {wanted.shape}")
    error = np.abs(got.astype(float) - wanted)
    bound = tolerance * max(float(np.max(np.abs(wanted), initial=0.0)), 1e-12)
    for i in np.flatnonzero(~(error <= bound).all(axis=1)):
        raise AssertionError(f"{what}: row {i} is off by {error[i].max():.3g}, and {bound:.3g} is allowed")


def require_error(error: type[Exception], call: Callable[[], Any], what: str, *words: object) -> None:
    """The call raises this error, and its text has these words."""
    try:
        call()
    except error as caught:
        for word in words:
            require(re.search(rf"\b{word}\b", str(caught)), f"{what}: the message does not say {word}: {caught}")
        return
    raise AssertionError(f"{what} raises no {error.__name__}")


def settings(estimator: Any) -> dict[str, Any]:
    """Parameters by name, containers by their content; without estimators and lists of them."""
    containers = (list, tuple, dict, set, np.ndarray)
    found = {}
    for key, value in estimator.get_params().items():
        steps = value if isinstance(value, list | tuple) else ()
        if not hasattr(value, "get_params") and not any(isinstance(step, tuple) for step in steps):
            found[key] = joblib.hash(value) if isinstance(value, containers) else value
    return found
