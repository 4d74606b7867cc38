"""
Do two groups differ, and where?
================================

Thirty patients got a drug, thirty did not. Every patient is a bag of cells. Does the drug do anything to the cells, and
if so, to which of them? Cells of one patient are alike, so whole patients must be permuted, not cells.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import distembed as de
from distembed import two_sample

N_PATIENTS = 30
N_PERMUTATIONS = 999

# %%
# Patients
# --------
# Each has a level of its own in both markers. The drug brings a tenth of the cells to a high value of the second
# marker.

rng = np.random.default_rng(0)


def patient(treated):
    """Cells of one patient."""
    cells = rng.normal([3, 2] + 0.3 * rng.normal(size=2), [0.8, 0.6], size=(rng.integers(250, 350), 2))
    if treated:
        cells[: len(cells) // 10, 1] += 2.0
    return cells


columns = ["CD4", "Ki67"]
control, treated = (
    de.Bags.from_arrays([patient(group) for _ in range(N_PATIENTS)], columns=columns) for group in (False, True)
)

# %%
# Three questions
# ---------------
# Do they differ? In which marker? At which values of it? p-values of the second and third are adjusted for the number
# of markers and of regions that were looked at.

cube = de.UnitCube().fit(de.concat([control, treated]))
small = {"n_permutations": N_PERMUTATIONS, "random_state": 0}
print(two_sample.groups_test(cube.transform(control), cube.transform(treated), "js", **small))
markers = two_sample.which_coordinates(control, treated, permute="bags", **small)
print(f"markers that differ: {markers.differ()}")
regions = two_sample.which_regions(control, treated, permute="bags", coordinates=["Ki67"], n_cells=12, **small)
table = regions.to_frame()
print(table.head(3).round(3).to_string())

# %%
# The picture
# -----------
# Mean density of Ki67 in both groups, and the regions whose adjusted p-value is below 0.05.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
edges = np.linspace(0, 6, 49)
for bags, color, name in ((control, "#858995", "control"), (treated, "#d1495b", "treated")):
    each = np.array([np.histogram(bag[:, 1], edges, density=True)[0] for bag in bags])
    middle = (edges[1:] + edges[:-1]) / 2
    right.plot(middle, each.mean(axis=0), color=color, label=name)
    left.scatter(*bags[0].T, s=6, color=color, alpha=0.6, linewidths=0, label=f"{name}, one patient")
for _, row in table[table.adjusted_p < 0.05].iterrows():
    right.axvspan(max(row.Ki67_low, 0), min(row.Ki67_high, 6), color="#f2d8a7", alpha=0.6, linewidth=0)
left.set(xlabel="CD4", ylabel="Ki67", title="Cells")
right.set(xlabel="Ki67", ylabel="density", title="Where the groups differ", ylim=(0, None))
left.legend(frameon=False)
right.legend(frameon=False)
plt.show()
