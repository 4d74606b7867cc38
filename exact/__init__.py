"""The judge: slow, obviously correct versions of everything that the package computes fast.

Each function is its formula, written out. Costs are quadratic where the package is linear, loops stay loops, and
everything is computed in float64. The modules import NumPy and SciPy alone, none of the fast
code, so that they cannot share a bug with what they judge. All that they offer in their ``__all__`` is found here.
"""

from . import distances, divergences, gaussians, learners, moments, pipeline, symmetries, two_sample
from .distances import *  # noqa: F403
from .divergences import *  # noqa: F403
from .gaussians import *  # noqa: F403
from .learners import *  # noqa: F403
from .moments import *  # noqa: F403
from .pipeline import *  # noqa: F403
from .symmetries import *  # noqa: F403
from .two_sample import *  # noqa: F403

__all__ = [
    *distances.__all__, *divergences.__all__, *gaussians.__all__, *learners.__all__, *moments.__all__,
    *pipeline.__all__, *symmetries.__all__, *two_sample.__all__,
]  # fmt: skip
