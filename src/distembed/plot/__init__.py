"""Pictures: matplotlib axes in, axes out.

Every function draws on ``ax``, or on a figure of its own if there is none, and returns the axes; ``ax.figure`` shows
in a notebook, ``ax.figure.savefig("picture.png")`` writes it. Nothing global changes: neither the state of pyplot nor
the settings of matplotlib. Small multiples are drawn inside of the axes, where ``ax.child_axes`` has them. matplotlib
is imported when something is drawn: ``pip install 'distembed[plot]'``.
"""

from .bag_plots import bags, distances, map  # noqa: A004
from .model_plots import budget, confusion, explanation, leaderboard, predictions, reliability, search
from .two_sample_plots import two_sample

__all__ = [
    "bags", "budget", "confusion", "distances", "explanation", "leaderboard", "map", "predictions", "reliability",
    "search", "two_sample",
]  # fmt: skip
