"""
Intervals that hold: ours and MAPIE's
=====================================

A prediction needs an error bar that can be trusted. Conformal prediction makes one for any model: held-out bags show
how wide it must be. ``ConformalRegressor`` takes bags. MAPIE, the library of the field, takes matrices, so it gets the
features of the same embedding. Over many splits, do 90 % intervals hold nine of ten patients?
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from mapie.regression import SplitConformalRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import distembed as de

N_BAGS = 400
N_SPLITS = 20

# %%
# One model, two ways to an interval
# ----------------------------------
# Both train on the same patients, are calibrated on the same 80, and are scored on the rest.

bags, severity = de.datasets.make_cells(N_BAGS, random_state=0)
embed = make_pipeline(de.UnitCube(), de.HDDEmbedding("js"), de.RandomFourierFeatures(300, random_state=0))
features = embed.fit_transform(bags)  # no step looks at severities
n_held, everyone = N_BAGS // 5, np.arange(N_BAGS)

coverage, width = {"distembed": [], "MAPIE": []}, {"distembed": [], "MAPIE": []}
for seed in range(N_SPLITS):
    rest, test = train_test_split(everyone, test_size=0.5, random_state=seed)
    train, held = train_test_split(rest, test_size=n_held, random_state=seed)
    head = RidgeCV(np.logspace(-4, 1, 11)).fit(features[train], severity[train])

    ours = de.ConformalRegressor(make_pipeline(embed, head), coverage=0.9, prefit=True)
    ours = ours.calibrate(bags[held], severity[held]).predict_interval(bags[test])
    theirs = SplitConformalRegressor(head, confidence_level=0.9, prefit=True)
    theirs = theirs.conformalize(features[held], severity[held]).predict_interval(features[test])[1][:, :, 0]

    for name, interval in (("distembed", ours), ("MAPIE", theirs)):
        low, high = interval.T
        coverage[name].append(np.mean((low <= severity[test]) & (severity[test] <= high)))
        width[name].append(np.mean(high - low))

for name in coverage:
    print(f"{name:<10} coverage {np.mean(coverage[name]):.3f}, width {np.mean(width[name]):.3f}, {N_SPLITS} splits")

# %%
# The picture
# -----------
# Left: intervals of the last split. Right: coverage of every split. With 80 calibration bags a single split is off by a
# few percent; the mean over splits is what is promised.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1.6, 1])
order = np.argsort(severity[test])[:: max(1, len(test) // 40)]
middle, half = ours.mean(axis=1), np.diff(ours, axis=1)[:, 0] / 2
left.errorbar(np.arange(len(order)), middle[order], half[order], fmt="none", ecolor="#9fb8cf", elinewidth=4)
left.plot(severity[test][order], "o", color="#2b2b33", markersize=4)
left.set(
    xlabel="held-out patients, by severity", ylabel="severity", title="True severities and 90 % intervals", xticks=[]
)
for x, name in enumerate(coverage):
    right.plot(
        np.full(N_SPLITS, x) + np.linspace(-0.15, 0.15, N_SPLITS), coverage[name], "o", color="#2f6f9f", alpha=0.6
    )
right.axhline(0.9, color="#858995", linewidth=1, linestyle=":")
right.set(xticks=[0, 1], xticklabels=coverage, xlim=(-0.5, 1.5), ylabel="share inside", title=f"{N_SPLITS} splits")
plt.show()
