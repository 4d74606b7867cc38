"""
Unequal bag sizes
=================

Small bags have noisy densities, and noise looks like difference. Here the size of a bag is all that differs: every bag
is drawn from the same density, with 30 to 3,000 points. Does a model see the size all the same, and what helps?
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed import sizes

N_BAGS = 200

# %%
# Bags that differ in size alone
# ------------------------------

rng = np.random.default_rng(0)
n_points = np.exp(rng.uniform(np.log(30), np.log(3000), N_BAGS)).astype(int)
bags = de.Bags.from_arrays([rng.beta(3, 5, size=(n, 2)) for n in n_points])
size = np.log10(n_points)

# %%
# Can the size be read off the features?
# --------------------------------------
# It should not be: an R² of 0 is what we want. ``BlockAverage`` takes the mean of the features of blocks of equal size,
# so small and large bags have the same noise in expectation.

embedding = de.HDDEmbedding("js", n_basis=8, bandwidth=0.05)
found = {}
for name, step in (("as it is", embedding), ("BlockAverage", de.BlockAverage(embedding, block_size=30))):
    model = make_pipeline(step, RidgeCV(np.logspace(-4, 4, 17)))
    found[name] = cross_val_predict(model, bags, size, cv=5)
    r2 = 1 - np.mean((found[name] - size) ** 2) / size.var()
    print(f"{name:<13} R² of the size {r2:5.2f}")

# %%
# How large is the noise?
# -----------------------
# ``noise_floor`` is the mean squared distance of two bags of one density. ``split_half_distances`` subtracts it.

steps = np.array([30, 100, 300, 1000])
floor = sizes.noise_floor(embedding.fit(bags), bags[np.argsort(n_points)[-40:]], steps, n_bags=12, random_state=0)
few = np.argsort(n_points)[:: max(1, N_BAGS // 20)]
halves = sizes.split_half_distances(embedding, bags[few], random_state=0)
rows = embedding.transform(bags[few])
plain = np.sum((rows[:, None] - rows[None]) ** 2, axis=-1)
pairs = np.triu_indices(len(few), 1)
print(f"mean squared distance: {plain[pairs].mean():.3f}, by split halves {halves[pairs].mean():.3f}, truth 0")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for ax, (name, predicted) in zip(axes, found.items(), strict=False):
    ax.scatter(n_points, 10**predicted, s=12, color="#2f6f9f", linewidths=0, alpha=0.7)
    ax.plot([30, 3000], [30, 3000], color="#858995", linewidth=1, linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="points of a bag", ylabel="read off its features", title=name)
    ax.set(xlim=(25, 3600), ylim=(25, 3600))
axes[2].plot(steps, np.diag(floor), "o-", color="#d1495b")
axes[2].set(xscale="log", yscale="log", xlabel="points of both bags", title="Noise of a squared distance")
plt.show()
