"""
First steps: predict a number for each bag of points
====================================================

Every patient is a bag of cells, every cell a point with two markers, and every patient has a severity between 0 and 1.
How severe is a new patient? The data are made on the spot by :func:`distembed.datasets.make_cells`,
such that neither the mean nor the covariance of a patient's cells shows anything of the severity: it is in the shape
of the whole cloud. Averages cannot solve this; a distance between distributions can.

Run it with ``make demo``, or ``python examples/plot_01_first_steps.py --bags 300 --output results/demo.png``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import distembed as de
from distembed.datasets import make_cells

# %%
# Three ways to predict
# ---------------------
# All three take bags and return one number per bag, so all three are scikit-learn regressors on bags.


def means_and_covariances(bags):
    """What one would try first: 2 means, 2 variances and 1 covariance per bag."""
    upper = np.triu_indices(bags.n_dims)
    return np.array([np.append(points.mean(axis=0), np.cov(points.T)[upper]) for points in bags])


def models():
    """The regressors to compare, by name."""
    # The penalty is found by leave-one-out inside the training bags, the same way for both.
    alphas = np.logspace(-4, 3, 22)
    return {
        "constant": DummyRegressor(),
        "means and covariances": make_pipeline(
            FunctionTransformer(means_and_covariances), StandardScaler(), RidgeCV(alphas)
        ),
        "Jensen-Shannon": make_pipeline(
            # Densities are estimated in the unit square, so the markers' own units go first. Jensen-Shannon is the same
            # in any units: scaling costs no information.
            de.UnitCube(),
            # Each bag becomes a vector; squared distances between vectors are Jensen-Shannon divergences.
            de.HDDEmbedding("js"),
            # Dot products of these features are the kernel exp(-JS / (2 sigma^2)), with the median distance for sigma.
            de.RandomFourierFeatures(1000, random_state=0),
            # So a linear model is a kernel machine, and no matrix of all pairs of bags is ever made.
            RidgeCV(alphas),
        ),
    }


# %%
# The comparison
# --------------
# Everything is fitted on two thirds of the patients and scored on the others.


def compare(train, y_train, test, y_test):
    """Fit every model; return the predictions for the test bags, and one row of the table, by name."""
    predictions, rows = {}, {}
    for name, model in models().items():
        start = time.perf_counter()
        predictions[name] = model.fit(train, y_train).predict(test)
        seconds = time.perf_counter() - start
        features = model[-1].n_features_in_ if name != "constant" else 0
        error = root_mean_squared_error(y_test, predictions[name])
        rows[name] = (features, error, r2_score(y_test, predictions[name]), seconds)
    return predictions, rows


def print_table(rows):
    """Print the rows of `compare`, aligned."""
    print(f"{'method':<22} {'features':>8} {'test RMSE':>9} {'R^2':>6} {'seconds':>7}")
    for name, (features, error, r2, seconds) in rows.items():
        print(f"{name:<22} {features:>8} {error:>9.3f} {r2:>6.2f} {seconds:>7.2f}")


# %%
# The picture
# -----------
# Three patients, the predictions, and a map of all patients on which near means alike.

COLORS = ListedColormap(colormaps["viridis"](np.linspace(0, 0.88, 256)))  # without the yellow that white swallows
INK, GREY, FAINT, GRID = "#2b2b33", "#858995", "#c3c6cf", 96


def density_from_features(features, n_basis):
    """Return the density that Hellinger features remember, on a grid over the unit square.

    They are the coefficients of sqrt(p / 2) in a basis of products of cosines, so the density is twice the square of
    the sum: the embedding read backwards.
    """
    cosines = de.Cosine().values((np.arange(GRID) + 0.5) / GRID, n_basis)
    return 2 * (cosines @ features.reshape(n_basis, n_basis) @ cosines.T) ** 2


def draw_patients(axes, bags, severities):
    """Cells of a few patients, over the density that 14 x 14 features keep of them."""
    cube, n_basis = de.UnitCube().fit(bags), 14
    # A wider bandwidth than the learner's: eyes like densities smooth, distances like them sharp.
    embedding = de.HDDEmbedding("hellinger", n_basis=n_basis, bandwidth="likelihood")
    features = embedding.fit_transform(cube.transform(bags))
    x, y = np.linspace(cube.low_, cube.high_, 2 * GRID + 1)[1::2].T  # midpoints of the grid, in the markers' units
    for ax, points, severity, row in zip(axes, bags, severities, features, strict=True):
        tint = LinearSegmentedColormap.from_list("tint", ["white", COLORS(severity)])
        density = density_from_features(row, n_basis)
        ax.contourf(x, y, density.T, levels=density.max() * np.linspace(0.06, 1, 9), cmap=tint, alpha=0.8)
        ax.scatter(*points.T, s=5, color=INK, alpha=0.5, linewidths=0)
        ax.set(xlim=(cube.low_[0], cube.high_[0]), ylim=(cube.low_[1], cube.high_[1]))
        ax.set(title=f"severity {severity:.2f}", xlabel="marker A")
        ax.tick_params(labelleft=ax is axes[0])
    axes[0].set_ylabel("marker B")


def draw_predictions(ax, y_test, predictions, rows):
    """Predicted against true severity, for the moments and for the distance."""
    ax.axline((0, 0), slope=1, color=FAINT, linewidth=1, zorder=0)
    ax.scatter(y_test, predictions["means and covariances"], s=14, color=FAINT, linewidths=0)
    ax.scatter(y_test, predictions["Jensen-Shannon"], s=20, c=y_test, cmap=COLORS, vmin=0, vmax=1, linewidths=0)
    text = {name: f"R² = {row[2]:.2f}".replace("-", "\N{MINUS SIGN}") for name, row in rows.items()}
    ax.text(0.04, 0.93, f"Jensen-Shannon, {text['Jensen-Shannon']}", transform=ax.transAxes, color=INK)
    moments = f"means, covariances\n{text['means and covariances']}"
    ax.text(0.97, 0.05, moments, transform=ax.transAxes, color=GREY, ha="right")
    ax.set(xlim=(-0.05, 1.05), ylim=(-0.15, 1.2), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.set(title=f"{len(y_test)} unseen patients", xlabel="true severity", ylabel="predicted severity")


def draw_map(ax, bags, y):
    """All patients in the plane that keeps most of their Jensen-Shannon distances."""
    # Distances between A features are Euclidean, so principal components are classical scaling of Jensen-Shannon.
    # Nothing here has seen a severity: the colors are only painted on.
    features = make_pipeline(de.UnitCube(), de.HDDEmbedding("js")).fit_transform(bags)
    plane = PCA(2).fit_transform(features)
    plane *= np.sign(np.corrcoef(plane[:, 0], y)[0, 1])  # the sign of a component is arbitrary: severe to the right
    dots = ax.scatter(*plane.T, s=20, c=y, cmap=COLORS, vmin=0, vmax=1, linewidths=0)
    ax.set(xticks=[], yticks=[], title="made without severities", xlabel="first component", ylabel="second component")
    bar = ax.figure.colorbar(dots, cax=ax.inset_axes([1.04, 0.0, 0.035, 1.0]), ticks=[0, 1])
    bar.set_label("severity", labelpad=-4)
    bar.outline.set_visible(False)


def draw(path, bags, y, y_test, predictions, rows):
    """Draw the picture, and write it to `path` if there is one."""
    figure = plt.figure(figsize=(14, 3.9), dpi=100, facecolor="white")
    axes = figure.subplots(1, 5)
    # One of the larger bags for each of three severities.
    large = np.flatnonzero(bags.sizes >= np.median(bags.sizes))
    chosen = [large[np.argmin(np.abs(y[large] - target))] for target in (0.03, 0.45, 0.95)]
    draw_patients(axes[:3], bags[chosen], y[chosen])
    draw_predictions(axes[3], y_test, predictions, rows)
    draw_map(axes[4], bags, y)
    for ax, left in zip(axes, (0.043, 0.22, 0.397, 0.605, 0.797), strict=True):
        ax.set_position([left, 0.16, 0.165, 0.165 * 14 / 3.9])
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set(fontsize=11, color=GREY)
    headings = {0.043: "Three patients: cells and estimated density", 0.605: "Predictions", 0.797: "Jensen-Shannon map"}
    for left, heading in headings.items():
        figure.text(left, 0.9, heading, fontsize=13, fontweight="bold", color=INK)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


# %%
# All of it
# ---------


def main(arguments=None):
    """Make the patients, compare the models, print the table and draw the picture."""
    parser = argparse.ArgumentParser(description="Predict the severity of patients from their cells.")
    parser.add_argument("--bags", type=int, default=300, help="number of patients")
    parser.add_argument("--output", type=Path, help="where the picture goes")
    options = parser.parse_args(arguments)

    bags, y = make_cells(options.bags, random_state=0)
    train, test, y_train, y_test = train_test_split(bags, y, test_size=1 / 3, random_state=0)
    print(f"{len(train)} patients to learn from, {len(test)} to predict")
    print(f"{bags.sizes.min()} to {bags.sizes.max()} cells per patient, {bags.n_points} in all\n")
    predictions, rows = compare(train, y_train, test, y_test)
    print_table(rows)
    draw(options.output, bags, y, y_test, predictions, rows)
    if options.output:
        print(f"\npicture: {options.output}")
    return rows


if __name__ == "__main__":
    main()
