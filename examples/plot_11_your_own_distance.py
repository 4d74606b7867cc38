"""
Your own distance
=================

A distance between densities is a formula, κ(p, q), summed over space. If κ doubles when both densities are doubled, and
is negative definite, features can be made for it. This page adds one: a mix of Jensen-Shannon and
Hellinger. It takes three lines, and everything else finds it by name.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import distembed as de

N_BAGS = 150

# %%
# The formula
# -----------
# A sum of two such distances is one, too. ``HomogeneousDistance`` finds the measure behind κ by itself, and refuses a
# function that has none.

js, hellinger = de.distances.get("js"), de.distances.get("hellinger")


def kappa(x, y):
    """Half Jensen-Shannon, half Hellinger."""
    return 0.5 * js.kappa(x, y) + 0.5 * hellinger.kappa(x, y)


mix = de.HomogeneousDistance("mix", kappa=kappa, description="half Jensen-Shannon, half Hellinger")
print(f"mass {mix.mass:.4f}, which is κ(1, 0) = {kappa(1.0, 0.0):.4f}")

# %%
# Does it work?
# -------------
# Squared distances of features against sums of κ over densities that are known: bags of 4,000 points of beta densities.

rng = np.random.default_rng(0)
shapes = rng.uniform(1.5, 6, size=(14, 2))
bags = de.Bags.from_arrays([rng.beta(a, b, size=(4000, 1)) for a, b in shapes])
rows = de.HDDEmbedding(mix, n_basis=30).fit_transform(bags)
found = np.sum((rows[:, None] - rows[None]) ** 2, axis=-1)

u = (np.arange(2000) + 0.5) / 2000
p = np.array([u ** (a - 1) * (1 - u) ** (b - 1) for a, b in shapes])
p /= p.mean(axis=1, keepdims=True)
true = np.mean(kappa(p[:, None], p[None]), axis=-1)
pairs = np.triu_indices(len(shapes), 1)
print(f"squared correlation with the truth: {np.corrcoef(found[pairs], true[pairs])[0, 1] ** 2:.4f}")

# %%
# By name
# -------
# Once it is registered, learners, kernels and the table of embeddings know it.

de.distances.register(mix)
cells, severity = de.datasets.make_cells(N_BAGS, random_state=0)
train, test, y_train, y_test = train_test_split(cells, severity, random_state=0)
scores = {}
for name in ("js", "hellinger", "mix"):
    model = de.DistributionRegressor(name, n_components=500, random_state=0).fit(train, y_train)
    scores[name] = model.score(test, y_test)
de.distances.forget("mix")

# %%
# The picture
# -----------

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
x = np.linspace(0, 4, 200)
for distance, color in ((js, "#2f6f9f"), (hellinger, "#c2a25a"), (mix, "#d1495b")):
    left.plot(x, distance.kappa(x, np.ones_like(x)), color=color, label=distance.name)
left.set(xlabel="x", title="κ(x, 1)")
left.legend(frameon=False)
middle.plot([0, true.max()], [0, true.max()], color="#858995", linewidth=1, linestyle=":")
middle.plot(true[pairs], found[pairs], "o", color="#d1495b", markersize=4, alpha=0.7)
middle.set(xlabel="true squared distance", ylabel="of features", title="14 known densities, all pairs")
right.bar(scores.keys(), scores.values(), color=["#2f6f9f", "#c2a25a", "#d1495b"])
right.set(ylim=(0, 1), ylabel="R² of held-out patients", title="As any other, by name")
plt.show()
