"""
Patients as cells: AnnData and FCS
==================================

Single cells come as AnnData files or as folders of FCS files, one per donor. This page writes small ones on the spot,
reads both, and asks the same question of each: which donors are ill?
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anndata
import flowio
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

import distembed as de

N_DONORS = 60  # tests take 24

# %%
# Donors
# ------
# Four markers. In ill donors a rare population, one cell in twelve, has both CD3 and CD8 high.

rng = np.random.default_rng(0)
markers = ["CD3", "CD8", "CD19", "CD45"]
ill = np.arange(N_DONORS) % 2 == 1
donors = {}
for i in range(N_DONORS):
    cells = rng.normal([1, 1, 1, 3] + 0.15 * rng.normal(size=4), 0.5, size=(rng.integers(200, 400), 4))
    n = len(cells)
    cells[: n // 3, 0] += 2  # T cells
    cells[n // 3 : n // 2, 2] += 2  # B cells
    if ill[i]:
        cells[: n // 12, 1] += 2
    donors[f"donor{i:02}"] = np.maximum(cells, 0)
folder = Path(tempfile.mkdtemp())

# %%
# An .h5ad file
# -------------
# All cells in one matrix; ``obs`` says whose they are, and which donors are ill.

names = np.repeat(list(donors), [len(cells) for cells in donors.values()])
status = np.repeat(np.where(ill, "ill", "well"), [len(cells) for cells in donors.values()])
obs = pd.DataFrame({"donor": names, "status": status}, index=[f"cell{i}" for i in range(len(names))])
data = anndata.AnnData(np.vstack(list(donors.values())), obs=obs, var=pd.DataFrame(index=markers))
data.write_h5ad(folder / "cells.h5ad")

bags, y = de.Bags.from_anndata(folder / "cells.h5ad", bag="donor", label="status")
print(bags)

# %%
# A folder of FCS files
# ---------------------
# One file per donor, intensities as a cytometer has them. ``cofactor`` takes asinh(x / 150), the usual scale.

(folder / "fcs").mkdir()
for name, cells in donors.items():
    with open(folder / "fcs" / f"{name}.fcs", "wb") as file:
        flowio.create_fcs(file, (150 * np.sinh(cells)).ravel().tolist(), markers)

from_fcs = de.Bags.from_fcs(folder / "fcs", cofactor=150)
print(f"the same cells, to {np.abs(from_fcs.points - bags.points).max():.0e}")

# %%
# Who is ill?
# -----------
# Pairs of markers are enough here, and cheaper than a density in four dimensions.

folds = StratifiedKFold(4, shuffle=True, random_state=0)
means = make_pipeline(de.Standardize(), de.MomentEmbedding(), LogisticRegression())
pairs = de.Marginals(de.HDDEmbedding("hellinger", n_basis=6, bandwidth=0.1), which="pairs")
densities = make_pipeline(de.UnitCube(), pairs, LogisticRegression(C=100))
correct = {}
for name, model in (("means", means), ("pairs of markers", densities)):
    correct[name] = np.mean(cross_val_predict(model, bags, y, cv=folds) == y)
    print(f"{name:<17} {correct[name]:.0%} of donors right")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for ax, i in zip(axes, (0, 1), strict=False):
    ax.scatter(*bags[i][:, :2].T, s=8, color="#d1495b" if ill[i] else "#2f6f9f", alpha=0.6, linewidths=0)
    ax.set(title=f"{bags.ids[i]}, {y[i]}", xlabel="CD3", ylabel="CD8", xlim=(-0.2, 5.5), ylim=(-0.2, 5.5))
axes[2].bar(correct.keys(), correct.values(), color=["#b9bcc6", "#d1495b"])
axes[2].axhline(0.5, color="#858995", linewidth=1, linestyle=":")
axes[2].set(ylim=(0, 1), ylabel="share of donors right", title="Held-out donors")
plt.show()
