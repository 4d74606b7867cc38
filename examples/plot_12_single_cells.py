"""
Donors as bags of cells: who is ill, and which cells show it?
=============================================================

Single cells come as AnnData, one row per cell, with the donor and the type of each cell in ``obs``. This page makes
such data on the spot: 60 donors, four types of cells, and an illness that changes a part of the T cells. It maps the
donors, learns who is ill with age as a covariate, and asks which cells speak for it. Next to it stand the two usual
summaries: the mean of all cells (pseudobulk), and the shares of cell types.
"""

from __future__ import annotations

import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import distembed as de

N_DONORS = 60

# %%
# Cells
# -----
# Five components, as PCA would leave them. Donors differ in their shares of types and by a shift of their own, neither
# of which is about the illness. T cells can be active or exhausted, and move along one component, one way or the other:
# half of them do in ill donors, a tenth in others. Means and shares hardly see it. The cells of the last donor were
# stained badly.

rng = np.random.default_rng(0)
TYPES = ["B cell", "NK cell", "T cell", "monocyte"]
centres = 3 * rng.normal(size=(4, 5))
ill = np.arange(N_DONORS) % 2 == 1
parts = []
for i in range(N_DONORS):
    n = int(rng.integers(150, 400))
    kind = rng.choice(4, n, p=rng.dirichlet([3, 2, 8, 4]))
    cells = centres[kind] + rng.normal(0, 0.3, 5) + rng.normal(size=(n, 5))
    active = (kind == 2) & (rng.uniform(size=n) < (0.5 if ill[i] else 0.1))
    cells[active, 0] += rng.choice([-2.5, 2.5], active.sum())
    if i == N_DONORS - 1:
        cells[:, 3] *= 3
    obs = {"donor": f"d{i:02}", "status": "ill" if ill[i] else "well", "age": 45 + 8 * ill[i] + 10 * np.sin(5 * i)}
    parts.append(pd.DataFrame(obs | {"cell_type": np.array(TYPES)[kind]} | {f"PC{j}": cells[:, j] for j in range(5)}))
frame = pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0).reset_index(drop=True)
frame.index = [f"cell{i}" for i in range(len(frame))]
adata = anndata.AnnData(obs=frame[["donor", "status", "age", "cell_type"]].copy())
adata.obsm["X_pca"] = frame.filter(like="PC").to_numpy()
print(adata)

# %%
# Bags
# ----
# ``groupby`` and ``use_rep`` are scanpy's words. Types of cells become a categorical column of the points, age a table
# with one row per donor.

bags, y, ages = de.Bags.from_anndata(
    adata, groupby="donor", use_rep="X_pca", categorical=["cell_type"], covariates=["age"], label="status"
)
print(bags)
print(ages.head(3))

# %%
# A map, and odd donors
# ---------------------

found = de.explore(bags)
print(found)

# %%
# Who is ill?
# -----------
# Each donor is predicted by models that did not see it. Cells of a donor stay together, which folds over cells would
# break.

owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
pseudobulk = np.add.reduceat(bags.points[:, :5], bags.offsets[:-1]) / bags.sizes[:, None]
shares = pd.crosstab(owner, bags.points[:, 5]).to_numpy() / bags.sizes[:, None]
summaries = {
    "cell-type shares": np.hstack([shares, ages]),
    "pseudobulk": np.hstack([pseudobulk, ages]),
    "both": np.hstack([shares, pseudobulk, ages]),
}
folds = [*StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)]
scores = {}
for name, rows in summaries.items():
    logistic = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    scores[name] = balanced_accuracy_score(y, cross_val_predict(logistic, rows, y, cv=folds))

CANDIDATES = ["statistics", "rank-covariance", "hellinger-marginals"]
predicted = np.empty(len(y), object)
sure = np.zeros(len(y), bool)
for known, new in folds:
    model = de.DistributionClassifier(class_weight="balanced", random_state=0)
    model.fit(bags[known], y[known], covariates=ages.iloc[known])
    predicted[new] = model.predict(bags[new], covariates=ages.iloc[new])
    sets = model.predict_set(bags[new], coverage=0.9, covariates=ages.iloc[new])
    sure[new] = sets.sum(axis=1) == 1
scores["distembed"] = balanced_accuracy_score(y, predicted.astype(str))
for name, score in scores.items():
    print(f"{name:<17} {score:.0%} of donors right")
print(f"one class alone in the set that holds the truth with probability 0.9: {sure.mean():.0%} of donors")

# %%
# Which cells show it?
# --------------------
# The last model explains the donors that it did not see. The effect of a cell is the change of the probability of "ill"
# with the weight of the cell. It goes back to ``obs``, next to the type, with the rule of the region of the cell.

new = folds[-1][1]
why = model.explain(bags[new], output="ill", covariates=ages.iloc[new], random_state=0)
de.cells_to_obs(adata, why, bag="donor")
explained = adata.obs[adata.obs["effect"].notna()]
print(explained.groupby("cell_type", observed=True)["effect"].agg(["mean", "max"]).round(2))
print(explained.groupby("effect_region", observed=True)["effect"].agg(["size", "mean"]).sort_values("mean").round(2))

# %%
# The donors as AnnData, for what comes next in scanpy: ``obs`` has age, prediction, probabilities and the set.

donors = de.donors_to_anndata(bags[new], covariates=ages.iloc[new], predictions=model)
print(donors.obs[["age", "prediction", "probability_ill", "set"]].head())

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for status, color in (("well", "#2f6f9f"), ("ill", "#d1495b")):
    axes[0].scatter(*found.map.xy[y == status].T, s=22, color=color, label=status)
odd = int(found.odd.pvalues.argmin())
axes[0].annotate(bags.ids[odd], found.map.xy[odd], xytext=(4, 4), textcoords="offset points")
axes[0].set(title="Map of donors, the oddest named", xticks=[], yticks=[])
axes[0].legend()
axes[1].barh([*scores], [*scores.values()], color=["#b9bcc6"] * 3 + ["#d1495b"])
axes[1].axvline(0.5, color="#858995", linewidth=1, linestyle=":")
axes[1].set(xlim=(0, 1), xlabel="balanced accuracy", title="Held-out donors")
for place, kind in enumerate(TYPES):
    effects = explained.loc[explained["cell_type"] == kind, "effect"]
    axes[2].scatter(effects, place + 0.3 * rng.uniform(-1, 1, len(effects)), s=4, color="#2f6f9f", linewidths=0)
axes[2].axvline(0, color="#858995", linewidth=1, linestyle=":")
axes[2].set_yticks(range(4), TYPES)
axes[2].set(xlabel="effect of a cell on ill", title="Held-out donors, a dot per cell")
plt.show()
