"""Pictures: matplotlib axes in, axes out.

Every function draws on ``ax``, or on a new figure of pyplot if there is none, and returns the axes. So a notebook shows
the picture below its cell, ``plt.show()`` shows it in a script, and ``ax.figure.savefig("picture.png")`` writes it,
with a display or without. In a loop, ``plt.close(ax.figure)`` frees the memory. Settings of matplotlib do not change.
Small multiples are drawn inside of the axes, where ``ax.child_axes`` has them. matplotlib is imported when something is
drawn: ``pip install 'distembed[plot]'``.
"""

from .bag_plots import bags, distances, map  # noqa: A004
from .exploration_plots import exploration
from .learning_plots import learning_curve
from .model_plots import budget, confusion, contributions, explanation, leaderboard, predictions, reliability, search
from .two_sample_plots import two_sample

__all__ = [
    "bags", "budget", "confusion", "contributions", "distances", "explanation", "exploration", "leaderboard",
    "learning_curve", "map", "predictions", "reliability", "search", "two_sample",
]  # fmt: skip
