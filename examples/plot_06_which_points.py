"""
Which points made it?
=====================

An image of a digit is a bag of pixels in the plane, each weighted by its ink. A model distinguishes threes from eights.
Which strokes make it predict an eight? ``explain`` has a value for every point: the change of the prediction with its
weight.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import distembed as de

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
why = model.explain(test, output=8, random_state=0)

# %%
# The four threes and four eights with the least certain predictions. Red pixels raise the probability of an eight, blue
# ones lower it, in units of the largest value of the image. The strokes that close the loops on the left are what
# matters, as they should.

doubt = np.abs(why.predictions - 0.5)
figure, axes = plt.subplots(2, 4, figsize=(9, 4.8), layout="constrained")
for row, digit in zip(axes, (3, 8), strict=True):
    for ax, i in zip(row, np.argsort(np.where(y_test == digit, doubt, np.inf))[:4], strict=True):
        points, weight = test[int(i)], test.weights[test.offsets[i] : test.offsets[i + 1]]
        values = why.points[test.offsets[i] : test.offsets[i + 1]]
        values = values / np.abs(values).max()
        dots = ax.scatter(*points.T, s=18 * weight, c=values, cmap="coolwarm", vmin=-1, vmax=1, marker="s")
        ax.set(xlim=(-0.7, 7.7), ylim=(-0.7, 7.7), xticks=[], yticks=[], aspect="equal")
    row[0].set_ylabel(f"a {digit}", rotation=0, labelpad=20, fontsize=14)
figure.colorbar(dots, ax=axes, label="against or for an eight", ticks=[], shrink=0.7)
plt.show()
