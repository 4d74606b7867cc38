"""
When means suffice
==================

Do you need more than the mean of each bag? Ask the leaderboard: the row ``mean`` is always there, scored on the same
held-out bags as everything else. Here are two tasks. In the first, the label shifts the points. In the second, it
changes the shape of the cloud, and the mean stays where it is.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import distembed as de

N_BAGS = 100

# %%
# Two tasks
# ---------

rng = np.random.default_rng(0)
target = rng.uniform(-1, 1, N_BAGS)
shifted = de.Bags.from_arrays([rng.normal([t, 0], 1, size=(rng.integers(40, 120), 2)) for t in target])
shaped = de.Bags.from_arrays(
    [
        rng.multivariate_normal([0, 0], [[1, 0.9 * t], [0.9 * t, 1]], size=rng.integers(40, 120))  # correlation
        for t in target
    ]
)

# %%
# Two leaderboards
# ----------------
# The best score of each embedding, whatever the model behind it. The bars are one standard error.

tasks = {"The label shifts the points": shifted, "The label is their correlation": shaped}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True)
for ax, (title, bags) in zip(axes, tasks.items(), strict=True):
    model = de.DistributionRegressor(random_state=0).fit(bags, target)
    best = {}
    for row in model.leaderboard_.candidates:  # sorted, the best first
        best.setdefault(row["name"].partition(",")[0], row)
    shown = list(best.values())[:7]
    shown += [best[name] for name in ("mean", "constant") if best[name] not in shown]
    names = [row["name"].partition(",")[0] for row in shown][::-1]
    scores = [row["score"] for row in shown][::-1]
    colors = ["#d1495b" if name == "mean" else "#b9bcc6" if name == "constant" else "#2f6f9f" for name in names]
    ax.barh(names, scores, color=colors, xerr=[row["standard_error"] for row in shown][::-1], ecolor="#2b2b33")
    ax.set(title=title, xlabel="R², held-out bags", xlim=(min(0, *scores) - 0.05, 1.05))
    ax.spines[["top", "right"]].set_visible(False)
    print(f"{title}: mean {best['mean']['score']:.2f}, best {shown[0]['score']:.2f} ({shown[0]['name']})")
plt.show()

# %%
# **How to read it.** On the left the mean is as good as anything else, within a standard error. Take it: it is fast and
# everybody understands it. On the right the mean knows nothing, and covariances or densities know nearly all.
