"""The judge: slow, obviously correct versions of everything that the package computes fast.

Each function is its formula, written out. Costs are quadratic where the package is linear, loops stay loops, and
everything but :func:`literal_recipe` is computed in float64. The modules import NumPy and SciPy alone, none of the fast
code, so that they cannot share a bug with what they judge.
"""

from .explain import density_gradient, density_prediction, point_values, weight_derivatives
from .gaussians import (
    fisher_vector,
    gaussian_divergence,
    gaussian_divergence_by_integration,
    gaussian_fits,
    gaussian_pdf,
    mixture_log_likelihood,
)
from .histograms import (
    additive_kernel,
    histogram,
    histogram_distance,
    nearest_words,
    spectrum_map,
    unary_map,
    word_shares,
)
from .kernels import nystroem_kernel, rbf_kernel, repaired_kernel
from .l2 import l2_coefficients, l2_gaussians, l2_point_coefficients, l2_point_variance, l2_squared
from .linear import ridge, ridge_deviation, ridge_hat_matrix, ridge_leave_one_out, ridge_noise
from .mixtures import information_criteria, mixture_em, mixture_seeds, mixture_variational
from .mmd import gaussian_mean_kernel, gaussian_mmd, mean_kernel, mmd
from .moments import bag_covariance, bag_mean, d3, directional_total_variation, gaussian_total_variation, pooled_moments
from .neighbours import neighbour_distance, neighbour_divergence, smallest_gap
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
from .smoothing import leave_one_out_error, smoothed, smoothing_kernel, smoothing_weights
from .two_sample import (
    all_splits,
    all_swaps,
    closed_testing_pvalues,
    energy_statistic,
    paired_statistic,
    share_at_least,
    share_gap,
)
from .wasserstein import quantile_cells, sliced_wasserstein_squared, wasserstein_squared

__all__ = [
    "additive_kernel",
    "all_splits",
    "all_swaps",
    "bag_covariance",
    "bag_mean",
    "basis_functions",
    "box_quadrature",
    "closed_testing_pvalues",
    "d3",
    "density_gradient",
    "density_prediction",
    "directional_total_variation",
    "distance",
    "energy_statistic",
    "fisher_vector",
    "gaussian_divergence",
    "gaussian_divergence_by_integration",
    "gaussian_fits",
    "gaussian_mean_kernel",
    "gaussian_mmd",
    "gaussian_pdf",
    "gaussian_total_variation",
    "histogram",
    "histogram_distance",
    "information_criteria",
    "js_from_entropies",
    "kappa",
    "kappa_from_measure",
    "kde",
    "kernel",
    "l2_coefficients",
    "l2_gaussians",
    "l2_point_coefficients",
    "l2_point_variance",
    "l2_squared",
    "lambda_functions",
    "leave_one_out_error",
    "literal_recipe",
    "mean_kernel",
    "measure",
    "mixture_em",
    "mixture_log_likelihood",
    "mixture_seeds",
    "mixture_variational",
    "mmd",
    "nearest_words",
    "neighbour_distance",
    "neighbour_divergence",
    "nystroem_kernel",
    "paired_statistic",
    "pairwise_distances",
    "point_values",
    "pooled_moments",
    "project",
    "quantile_cells",
    "random_fourier_features",
    "rbf_kernel",
    "repaired_kernel",
    "ridge",
    "ridge_deviation",
    "ridge_hat_matrix",
    "ridge_leave_one_out",
    "ridge_noise",
    "share_at_least",
    "share_gap",
    "sliced_wasserstein_squared",
    "smallest_gap",
    "smoothed",
    "smoothing_kernel",
    "smoothing_weights",
    "spectrum_map",
    "tensor_basis",
    "unary_map",
    "wasserstein_squared",
    "weight_derivatives",
    "word_shares",
]
