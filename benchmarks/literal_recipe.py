"""The paper's own algorithm in BLAS and ufuncs, the baseline of speed comparisons.

``exact.literal_recipe`` is the same, written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

import exact


def literal_recipe(
    bags: Sequence[NDArray[Any]],
    lambdas: ArrayLike,
    nodes: ArrayLike,
    bandwidth: ArrayLike,
    n_basis: int,
    mass: float,
    basis: str = "fourier",
    dtype: DTypeLike | None = None,
) -> NDArray[np.floating[Any]]:
    """Features A by the paper's algorithm: (n_bags, 2 M |V|).

    As fast as NumPy allows within that algorithm: a product makes the exponents, 16 bags are projected at once.

    Parameters
    ----------
    bags, nodes : sequence of arrays (n_i, d); (n_e, d) uniform draws from the unit cube
    lambdas, mass : (M,) draws of μ/Z; Z, the mass of μ
    bandwidth : number, or one per dimension
    n_basis, basis : functions per dimension and their kind (see ``exact.basis_functions``): |V| = n_basis^d
    dtype : float32 or float64 for the arithmetic; by default float32 only if every bag is
    """
    real: type[Any] = np.dtype(np.result_type(np.float32, *bags) if dtype is None else dtype).type
    lam, nodes = np.asarray(lambdas, dtype=real)[:, None], np.asarray(nodes, dtype=np.float64)
    n_nodes, n_dims = nodes.shape
    phi = (exact.tensor_basis(nodes, n_basis, basis) / n_nodes).astype(real)
    widths = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n_dims,))
    # One product makes the exponent: -|x - u|²/2 = (x, 1, -|x|²/2) · (u, -|u|²/2, 1) in units of bandwidths.
    # Coordinates relative to the centre of the cube keep its cancellation small in float32.
    u = ((nodes - 0.5) / widths).T
    right = np.vstack([u, -np.sum(u**2, axis=0) / 2, np.ones(n_nodes)]).astype(real)
    floor = np.log(np.finfo(real).tiny) + 1  # below it exp makes subnormals, at more than twice the time
    n_rows, group = max(1, 2**18 // n_nodes), 16  # a buffer of a megabyte stays in cache
    buffer, ones = np.empty((n_rows, n_nodes), dtype=real), np.ones(n_rows, dtype=real)
    functions = np.empty((group, 2, len(lam), n_nodes), dtype=real)
    features = np.empty((len(bags), 2 * len(lam) * phi.shape[1]), dtype=real)
    for i, bag in enumerate(bags):
        x = (np.asarray(bag, dtype=np.float64) - 0.5) / widths
        left = np.column_stack([x, np.ones(len(x)), -np.sum(x**2, axis=1) / 2]).astype(real)
        density = np.zeros(n_nodes, dtype=real)
        for start in range(0, len(left), n_rows):
            rows = left[start : start + n_rows]
            block = np.dot(rows, right, out=buffer[: len(rows)])
            np.maximum(block, floor, out=block)
            density += ones[: len(rows)] @ np.exp(block, out=block)
        density *= real(1 / (len(left) * np.prod(np.sqrt(2 * np.pi) * widths)))
        root, angles = np.sqrt(density * real(mass / len(lam))), lam * np.log(density)
        np.multiply(root, np.cos(angles), out=functions[i % group, 0])
        np.multiply(root, np.sin(angles), out=functions[i % group, 1])
        if i % group == group - 1 or i == len(bags) - 1:  # project many bags in one product
            done = functions[: i % group + 1].reshape(-1, n_nodes) @ phi
            features[i - i % group : i + 1] = done.reshape(i % group + 1, -1)
    return features
