"""
Which points made it?
=====================

An image of a digit is a bag of pixels in the plane, each weighted by its ink. A model tells threes from eights. Which
strokes make it say eight? ``explain`` has a value for every point: the change of the prediction with its weight.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import distembed as de
from distembed.learners.explain import explain

N_IMAGES = 357

# %%
# Digits as weighted points
# -------------------------
# Pixels without ink are left out. A digit has 20 to 40 points.

bags, label = de.datasets.load_digits(classes=(3, 8))
bags, label = bags[:N_IMAGES], label[:N_IMAGES]
train, test, y_train, y_test = train_test_split(bags, label, test_size=0.3, random_state=0)

# %%
# The model, and why
# ------------------

model = de.DistributionClassifier("hellinger", n_components=500, random_state=0).fit(train, y_train)
print(f"accuracy {model.score(test, y_test):.3f} on {len(test)} held-out images")
why = explain(model, test, output=8)

# %%
# Four threes and four eights. Red pixels speak for an eight, blue ones against it. The strokes that close the loops on
# the left are what matters, as they should.

figure, axes = plt.subplots(2, 4, figsize=(9, 4.8), layout="constrained")
largest = np.abs(why.points).max()
for row, digit in zip(axes, (3, 8), strict=True):
    for ax, i in zip(row, np.flatnonzero(y_test == digit)[:4], strict=True):
        points, weight = test[int(i)], test.weights[test.offsets[i] : test.offsets[i + 1]]
        dots = ax.scatter(
            *points.T, s=18 * weight, c=why.of(int(i)), cmap="coolwarm", vmin=-largest / 2, vmax=largest / 2, marker="s"
        )
        ax.set(xlim=(-0.7, 7.7), ylim=(-0.7, 7.7), xticks=[], yticks=[], aspect="equal")
    row[0].set_ylabel(f"a {digit}", rotation=0, labelpad=20, fontsize=14)
figure.colorbar(dots, ax=axes, label="for an eight", ticks=[], shrink=0.7)
plt.show()
