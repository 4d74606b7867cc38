"""The error of the features: the paper's bound, corrected, and what each stage contributes on your bags."""

from .bound import ErrorBound, epsilon_reached, error_bound, size_needed
from .budget import ErrorBudget, Stage, error_budget
from .terms import (
    density_term,
    integration_term,
    lambda_tail,
    lambda_term,
    n_basis_functions,
    random_feature_term,
    truncation_term,
)

__all__ = [
    "ErrorBound", "ErrorBudget", "Stage", "density_term", "epsilon_reached", "error_bound", "error_budget",
    "integration_term", "lambda_tail", "lambda_term", "n_basis_functions", "random_feature_term", "size_needed",
    "truncation_term",
]  # fmt: skip
