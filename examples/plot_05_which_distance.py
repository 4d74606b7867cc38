"""
Which distance?
===============

Every embedding sees something else of a bag. Three tasks with 150 bags each show it: the label moves a cloud, turns it,
or splits it in two. Everything but the embedding stays the same: random features and ridge regression.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import distembed as de

N_BAGS = 150
SMOOTH = {"bandwidth": 0.08, "n_basis": 12}  # of densities
METHODS = {
    "mean": {},
    "covariance": {},
    "sliced-wasserstein": {"random_state": 0},
    "mmd-spectrum": {},
    "l2": SMOOTH,
    "hellinger": SMOOTH,
    "js": SMOOTH,
    "tv": SMOOTH,
}

# %%
# Three tasks
# -----------
# The third has the same means and covariances in all bags: the two halves of a cloud move apart, and each of them
# becomes narrower to make up for it.


def moved(label, n, rng):
    """A cloud at another place."""
    return rng.normal([label, 0], 1, size=(n, 2))


def turned(label, n, rng):
    """A cloud of another correlation."""
    return rng.multivariate_normal([0, 0], [[1, 0.9 * label], [0.9 * label, 1]], size=n)


def split(label, n, rng):
    """Two clouds, of the mean and variance of one."""
    apart = 0.49 * (label + 1)
    side = rng.choice([-1, 1], size=n)
    return np.column_stack([side * apart + np.sqrt(1 - apart**2) * rng.normal(size=n), rng.normal(size=n)])


rng = np.random.default_rng(0)
labels = rng.uniform(-1, 1, N_BAGS)
tasks = {
    make.__name__: de.Bags.from_arrays([make(label, rng.integers(80, 160), rng) for label in labels])
    for make in (moved, turned, split)
}

# %%
# One word changes
# ----------------

scores = np.zeros((len(METHODS), len(tasks)))
for i, (name, settings) in enumerate(METHODS.items()):
    for j, bags in enumerate(tasks.values()):
        model = make_pipeline(
            de.UnitCube(),
            de.embeddings.get(name, **settings),
            de.RandomFourierFeatures(300, sigma_scale=2, random_state=0),
            RidgeCV(np.logspace(-5, 1, 13)),
        )
        scores[i, j] = cross_val_score(model, bags, labels, cv=3).mean()

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 4, figsize=(12, 3.8), layout="constrained", width_ratios=[1, 1, 1, 2.1])
for ax, (name, bags) in zip(axes, tasks.items(), strict=False):
    for i, color in ((labels.argmin(), "#c2a25a"), (labels.argmax(), "#2f6f9f")):
        ax.scatter(*bags[int(i)].T, s=6, color=color, alpha=0.8, linewidths=0)
    ax.set(title=name, xlim=(-4, 4), ylim=(-4, 4), xticks=[], yticks=[], aspect="equal")
image = axes[3].imshow(scores, vmin=0, vmax=1, cmap="Blues", aspect="auto")
axes[3].set(
    xticks=range(3), xticklabels=tasks, yticks=range(len(METHODS)), yticklabels=METHODS, title="R², three folds"
)
for (i, j), score in np.ndenumerate(scores):
    text = f"{score:.2f}".replace("-", "\N{MINUS SIGN}")
    axes[3].text(j, i, text, ha="center", va="center", color="white" if score > 0.6 else "#2b2b33")
plt.show()

# %%
# **How to read it.** Means see what moves and nothing else. Covariances see what turns. Only densities, mean maps and
# transport distances see the split.
