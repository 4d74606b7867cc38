"""A report on a model in one HTML file: what the data are, how well it predicts bags that it has not seen, and why."""

from .writing import write

__all__ = ["write"]
