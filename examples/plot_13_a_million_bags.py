"""
A million bags and a cluster
============================

What changes when a table does not fit into memory, or is too much for one machine? The learner does not. Some thousand
galaxies stand for the million here: bags of stars, some on a ring, the others in a bulge. How large is the share of the
ring? Then a galaxy arrives star by star.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

import distembed as de
from distembed.tables import BagTable, write_table

N_BAGS = 4000

# %%
# A table on disk
# ---------------
# One row per star, in four files. A galaxy may begin in one file and end in the next.


def stars(share, n):
    """Draw stars of a galaxy with this share on its ring."""
    on_ring, angle = rng.random(n) < share, rng.uniform(0, 2 * np.pi, n)
    radius = np.where(on_ring, rng.normal(2, 0.25, n), np.abs(rng.normal(0, 1.2, n)))
    return (radius * [np.cos(angle), np.sin(angle)]).T.astype(np.float32)


rng = np.random.default_rng(0)
share, sizes = rng.uniform(0.05, 0.95, N_BAGS), rng.integers(50, 150, N_BAGS)
galaxies = [stars(s, n) for s, n in zip(share, sizes, strict=True)]
rows, galaxy = np.concatenate(galaxies), np.repeat(np.arange(N_BAGS), sizes)
place = tempfile.TemporaryDirectory()
folder = Path(place.name)
(folder / "stars").mkdir()
for k, some in enumerate(np.array_split(np.arange(len(rows)), 4)):
    table = {"galaxy": galaxy[some], "x": rows[some, 0], "y": rows[some, 1]}
    write_table(table, folder / "stars" / f"{k}.parquet")
print(f"{N_BAGS:,} galaxies, {len(rows):,} stars")

# %%
# One machine, out of core
# ------------------------
# Batches of whole bags are read one after the other, and are forgotten. What is kept is the size of the model. Every
# fifth galaxy is kept out. On the command line this is ``distembed fit stars/ --bag galaxy --out-of-core ...``, and a
# million bags of 200 points take a minute.

learner = de.DistributionRegressor("js", n_components=500, tune=None, random_state=0)
on_disk = BagTable(folder / "stars", bag="galaxy")


def batches(start=0):
    """Yield bags with their targets, from one batch on."""
    for bags in on_disk.batches(max_points=50_000, start=start):
        known = bags[bags.ids % 5 > 0]
        yield known, share[known.ids]


begin = time.perf_counter()
alone = learner.fit_batches(batches)
print(f"one machine: {time.perf_counter() - begin:.1f} s")

# %%
# Two workers
# -----------
# A cluster takes the same learner and gives an ordinary model back. Its workers are threads here, because this page is
# also a script and a notebook. Processes import the script that starts them, so a script of yours starts them
# below ``if __name__ == "__main__":``, with ``LocalCluster(n_workers=2, threads_per_worker=1)``. For a cluster that is
# there it is ``Client("tcp://host:8786")``. However many the workers are, the model is the same to the last bit.

labels = {i: share[i] for i in range(N_BAGS) if i % 5 > 0}
with (
    LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as workers,
    Client(workers) as client,
):
    in_parts = de.cluster.open(folder / "stars", bag="galaxy", partition_rows=50_000)
    begin = time.perf_counter()
    model = de.cluster.fit(learner, in_parts, labels, missing="drop", client=client)
    print(f"two workers, {len(in_parts.parts)} parts: {time.perf_counter() - begin:.1f} s")
    de.cluster.predict(model, in_parts, folder / "predictions", client=client)

found = pq.read_table(folder / "predictions").sort_by("galaxy")
predicted = np.asarray(found["prediction"])
new = np.arange(0, N_BAGS, 5)
error = np.sqrt(np.mean((predicted[new] - share[new]) ** 2))
one = np.sqrt(
    np.mean((alone.predict(de.Bags.from_arrays([galaxies[i] for i in new], columns=["x", "y"])) - share[new]) ** 2)
)
print(f"RMSE of galaxies that were kept out: {one:.4f} on one machine, {error:.4f} by workers")

# %%
# A galaxy that arrives in pieces
# -------------------------------
# The embedding sees a bag through sums over its points. So pieces of a bag have sketches, which are made wherever the
# points are, and merged. The points are not needed again.

streams = {}
for true in (0.2, 0.5, 0.8):
    seen, counts, guesses = de.SketchedBags(model), [], []
    for n in (10, 10, 20, 40, 80, 160, 320, 640, 1280, 2560):
        piece = de.Bags.from_arrays([stars(true, n)], ids=[0], columns=["x", "y"])
        seen.merge(de.SketchedBags(model).add(piece))
        counts.append(int(seen.n_points_[0]))
        guesses.append(float(model.model_.head.predict(seen.rows())[0, 0]))
    streams[true] = counts, guesses
place.cleanup()

# %%
# The picture
# -----------

colours = {0.2: "#2f6f9f", 0.5: "#e09f3e", 0.8: "#d1495b"}
figure = plt.figure(figsize=(12, 4), layout="constrained")
left, middle, right = figure.subfigures(1, 3, width_ratios=[1.1, 1, 1])
for ax, (true, colour) in zip(left.subplots(2, 2).ravel(), [*colours.items(), (0.95, "#3a3a3a")], strict=True):
    ax.scatter(*stars(true, 400).T, s=3, color=colour, linewidths=0)
    ax.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), xticks=[], yticks=[], aspect="equal")
    ax.set_title(f"{true:.0%} on the ring", fontsize=9)
ax = middle.subplots()
ax.scatter(share[new], predicted[new], s=9, color="#3a3a3a", alpha=0.5, linewidths=0)
ax.plot([0, 1], [0, 1], color="#858995", linewidth=1, linestyle=":")
ax.set(xlabel="true share", ylabel="predicted by workers", title="Galaxies that were kept out", aspect="equal")
ax = right.subplots()
for true, (counts, guesses) in streams.items():
    ax.plot(counts, guesses, "o-", color=colours[true], markersize=4)
    ax.axhline(true, color=colours[true], linewidth=1, linestyle=":")
ax.set(xscale="log", ylim=(0, 1), xlabel="stars seen so far", title="Galaxies that arrive star by star")
plt.show()
