"""Reports in one HTML file: on a model and its bags, and on bags without labels."""

from .exploring import explore
from .writing import write

__all__ = ["explore", "write"]
