"""The judge: slow, obviously correct versions of everything that the package computes fast.

Each function is its formula, written out. Costs are quadratic where the package is linear, loops stay loops, and
everything but :func:`literal_recipe` is computed in float64. The modules import NumPy and SciPy alone, none of the fast
code, so that they cannot share a bug with what they judge.
"""

from .pipeline import (
    basis_functions,
    box_quadrature,
    distance,
    js_from_entropies,
    kappa,
    kappa_from_measure,
    kde,
    kernel,
    lambda_functions,
    literal_recipe,
    measure,
    pairwise_distances,
    project,
    random_fourier_features,
    tensor_basis,
)

__all__ = [
    "basis_functions",
    "box_quadrature",
    "distance",
    "js_from_entropies",
    "kappa",
    "kappa_from_measure",
    "kde",
    "kernel",
    "lambda_functions",
    "literal_recipe",
    "measure",
    "pairwise_distances",
    "project",
    "random_fourier_features",
    "tensor_basis",
]
