"""Models: from rows of numbers to predictions, and to predictions for rows that were held out; they know no bags."""

from .ridge import LinearRidge

__all__ = ["LinearRidge"]
