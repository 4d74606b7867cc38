"""
What is in a table without labels?
==================================

A year of weather at two stations: every day is a bag of readings. Nobody has labelled anything, and one reading is
wrong. Which days are odd, are there groups, and what explains the differences between days?
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import distembed as de

N_DAYS = 300

# %%
# Days
# ----
# Days have different numbers of readings. Summers are warm, one station is windier, and one wind of 1,048 was typed in.

rng = np.random.default_rng(0)
season = np.cos(2 * np.pi * np.arange(N_DAYS) / N_DAYS)
station = rng.choice(["coast", "inland"], N_DAYS)
days = []
for warmth, place in zip(season, station, strict=True):
    n = rng.integers(4, 48)
    temperature = 12 - 9 * warmth + rng.normal(0, 2) + rng.normal(0, 3, n)
    wind = rng.gamma(3, 4 if place == "coast" else 2.5, n)
    days.append(np.column_stack([temperature, wind]))
days[N_DAYS // 3][1, 1] = 1048
bags = de.Bags.from_arrays(days, columns=["temperature", "wind"], ids=[f"day {i}" for i in range(N_DAYS)])

# %%
# A look at everything
# --------------------
# The wrong wind is named first. Days with few readings are not odd for having few.

found = de.explore(bags, factors={"station": station})
print(found)
print(found.to_frame().sort_values("pvalue").head(3))

# %%
# Two ways to compare
# -------------------
# A map of means and deviations is squeezed by the one wrong value. The map of ``explore`` goes by ranks, and names it.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
de.plot.map(bags, ax=left)
left.set_title("means and deviations")
found.plot(ax=right)
right.set_title("explore")
plt.show()

# %%
# The nearest days of a day, and the mean day of the coast:

print(de.nearest_bags(bags, ["day 7"], k=3).to_frame())
print(de.mean_bag(bags[station == "coast"]).mean(axis=0).round(1))
