"""
Mixed columns: people with numbers and labels
=============================================

A district is a bag of people, and a person has an age, an income and a sex. Which districts grow, and which shrink? In
these made-up data it is a matter of the *pairing*. Where a district shrinks, old women earn more than young ones and
old men less; where it grows, it is the other way round. All people of a district together have no such trend, its men
have the incomes of the men elsewhere and its women those of the women, and half of them are women everywhere. So the
numbers without the labels say nothing about growth, and neither do the labels without the numbers.

The density of a person is p(c, x), a share for each label times a density of the numbers given that label, and
Jensen-Shannon compares all of it at once.

Run it with ``python examples/plot_02_mixed_columns.py --bags 300 --output results/mixed.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import distembed as de

# %%
# The survey
# ----------
# A long table, one row per person, as it comes from a file: pandas, polars and pyarrow tables do as well as a dict. The
# column of labels is named in ``categorical``.


def make_survey(n_districts, seed=0):
    """A table of people and the growth of each district, between -1 and 1."""
    rng = np.random.default_rng(seed)
    growth = rng.uniform(-1, 1, n_districts)
    table = {"district": [], "age": [], "income": [], "sex": []}
    for name, pull in enumerate(growth):
        n = int(rng.integers(150, 300))
        sex = rng.choice(["f", "m"], n)
        age = rng.uniform(18, 80, n)
        trend = np.where(sex == "f", -pull, pull) * (age - 49) / 31  # the pairing: opposite among women and men
        table["district"] += [f"d{name}"] * n
        table["age"] += age.tolist()
        table["income"] += np.exp(10 + 0.5 * trend + 0.3 * rng.normal(size=n)).tolist()
        table["sex"] += sex.tolist()
    return table, {f"d{name}": value for name, value in enumerate(growth)}


# %%
# Three looks at the same people
# ------------------------------
# One pipeline; only the columns differ. ``UnitCube`` leaves labels alone and ``HDDEmbedding`` makes a block of features
# for each. Incomes have a heavy tail, which the asinh map tames.

LOOKS = {
    "sex": (["sex"], ["sex"]),
    "age, income": (["age", "income"], None),
    "age, income, sex": (["age", "income", "sex"], ["sex"]),
}


def compare(table, targets):
    """Fit the model on each choice of columns; return truth and predictions for unseen districts, and the embedding."""
    found = {}
    for name, (columns, categorical) in LOOKS.items():
        bags = de.Bags.from_frame(table, bag="district", columns=columns, categorical=categorical)
        y = bags.align(targets)
        train, test, y_train, y_test = train_test_split(bags, y, test_size=1 / 3, random_state=0)
        model = make_pipeline(
            de.UnitCube(map="asinh"),
            de.HDDEmbedding("js", n_basis=6),
            de.RandomFourierFeatures(600, random_state=0),
            RidgeCV(np.logspace(-4, 3, 15)),
        )
        found[name] = y_test, model.fit(train, y_train).predict(test), model[1]
    return found


def print_table(found):
    """Print one row per choice of columns; return R^2 by name."""
    scores = {}
    print(f"{'columns':<18} {'features':>8} {'test RMSE':>9} {'R^2':>6}")
    for name, (truth, predicted, embedding) in found.items():
        scores[name] = r2_score(truth, predicted)
        n_features = len(embedding.get_feature_names_out())
        print(f"{name:<18} {n_features:>8} {root_mean_squared_error(truth, predicted):>9.3f} {scores[name]:>6.2f}")
    return scores


# %%
# The picture
# -----------
# People of a district that shrinks and of one that grows, and the predictions.

INK, GREY, WOMEN, MEN = "#2b2b33", "#b9bcc6", "#b5478f", "#2f7f86"


def draw(path, table, targets, found, scores):
    """Draw the picture, and write it to `path` if there is one."""
    figure = plt.figure(figsize=(12, 3.8), dpi=100, facecolor="white", layout="constrained")
    axes = figure.subplots(1, 3)
    bags = de.Bags.from_frame(table, bag="district", columns=["age", "income", "sex"], categorical=["sex"])
    y = bags.align(targets)
    for ax, i in zip(axes, (int(np.argmin(y)), int(np.argmax(y))), strict=False):
        age, income, sex = bags[i].T
        for code, (label, color) in enumerate(zip(bags.category_labels["sex"], (WOMEN, MEN), strict=True)):
            ax.scatter(age[sex == code], income[sex == code], s=9, color=color, label=label, linewidths=0, alpha=0.8)
        ax.set(yscale="log", ylim=(4e3, 1.2e5), xlabel="age", title=f"district {bags.ids[i]}, growth {y[i]:+.2f}")
    axes[0].set_ylabel("income")
    axes[0].legend(frameon=False, loc="upper center", ncols=2)
    axes[2].axline((0, 0), slope=1, color=GREY, linewidth=1, zorder=0)
    for name, color in (("age, income", GREY), ("age, income, sex", INK)):
        truth, predicted, _ = found[name]
        text = f"{name}: R² = {scores[name]:.2f}".replace("-", "\N{MINUS SIGN}")
        axes[2].scatter(truth, predicted, s=14, color=color, linewidths=0, label=text)
    axes[2].set(title=f"{len(truth)} unseen districts", xlabel="growth", ylabel="predicted", ylim=(-1.5, 1.9))
    axes[2].legend(frameon=False, loc="upper left")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


# %%
# All of it
# ---------


def main(arguments=None):
    """Make the survey, compare the choices of columns, print the table and draw the picture."""
    parser = argparse.ArgumentParser(description="Predict the growth of districts from a survey of their people.")
    parser.add_argument("--bags", type=int, default=300, help="number of districts")
    parser.add_argument("--output", type=Path, help="where the picture goes")
    options = parser.parse_args(arguments)

    table, targets = make_survey(options.bags)
    print(f"{len(targets)} districts, {len(table['age'])} people\n")
    found = compare(table, targets)
    scores = print_table(found)
    both = scores.pop("age, income, sex")
    if both < 0.7 or both < max(scores.values()) + 0.5:
        raise SystemExit(f"numbers and labels together must tell what neither does alone, got R^2 = {both:.2f}")
    scores["age, income, sex"] = both
    draw(options.output, table, targets, found, scores)
    if options.output:
        print(f"\npicture: {options.output}")
    return scores


if __name__ == "__main__":
    main()
