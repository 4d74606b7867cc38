"""Pictures: matplotlib axes in, axes out.

Every function draws on ``ax``, or on a figure of its own if there is none, and returns the axes; ``ax.figure`` shows
in a notebook, ``ax.figure.savefig("picture.png")`` writes it. Nothing global changes: neither the state of pyplot nor
the settings of matplotlib. Small multiples are drawn inside of the axes, where ``ax.child_axes`` has them. matplotlib
is imported when something is drawn: ``pip install 'distembed[plot]'``.
"""

from .of_bags import bags, distances, map  # noqa: A004
from .of_explanations import explanation
from .of_models import budget, confusion, leaderboard, predictions, reliability, search
from .of_tests import two_sample

__all__ = [
    "bags", "budget", "confusion", "distances", "explanation", "leaderboard", "map", "predictions", "reliability",
    "search", "two_sample",
]  # fmt: skip
