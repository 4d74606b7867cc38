"""What parts of the ensemble are worth on few bags: log loss and balanced accuracy on new bags without each of them.

    python experiments/few_bags.py [--bags 75 150] [--repeats 3] [--data FOLDER] [--tasks ...] [--views ...]

A task has few training bags, and many new ones that judge. Columns are differences to ``"auto"`` as it is, in
thousandths: a positive loss, or a negative accuracy, says that the part is worth keeping. With the data of
``python -m reproduce real``, real tables are tasks too.
"""

from __future__ import annotations

import argparse
import os
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split

import distembed as de
from distembed.learners import candidates, selection
from reproduce.real_sets import SETS


def cells():
    """Whether patients are more ill than the median."""
    bags, severity = de.datasets.make_cells(700, random_state=0)
    return bags, severity > np.median(severity)


def components():
    """Whether mixtures have more than five components."""
    bags, n_components = de.datasets.make_mixture_components(700, random_state=0)
    return bags, n_components > 5


def read(data, paths):
    """Bags and classes of a real table."""
    bags, y, _ = data.read(*paths)
    return bags, y


def tasks(asked):
    """Bags, codes of classes, training bags and new ones, by name and number of training bags, for each repeat."""
    made = {"cells": cells, "components": components}
    for data in SETS:
        paths = [Path(asked.data or "", "real", file) for file in data.files]
        if not data.balanced and all(path.exists() for path in paths):
            made[data.name] = partial(read, data, paths)
    for name in asked.tasks or made:
        bags, y = made[name]()
        codes = np.unique(y, return_inverse=True)[1]
        for n_bags in (n for n in asked.bags if 1.5 * n <= len(y)):
            for seed in range(asked.repeats):
                train, new = train_test_split(np.arange(len(y)), train_size=n_bags, random_state=seed, stratify=codes)
                yield f"{name}, {n_bags}", seed, bags, codes, train, new[: asked.new]


@contextmanager
def without(kind):
    """The library without candidates of a kind."""
    of = candidates.Library.of

    def fewer(library, views):
        return [candidate for candidate in of(library, views) if not candidate.name.endswith(f", {kind}")]

    with patch.object(candidates.Library, "of", fewer):
        yield


VARIANTS = {
    "no laplace": partial(without, "laplace"),
    "no svm": partial(without, "svm"),
    "no linear": partial(without, "linear"),
    "best ten": partial(patch.object, selection, "_BEST", 10),
}


def scores(bags, codes, train, new, seed, views="auto"):
    """Log loss and balanced accuracy of the ensemble on new bags."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of settings that nobody chose
        model = de.DistributionClassifier(views, random_state=seed).fit(bags[train], codes[train])
        likely = model.predict_proba(bags[new])
    found = model.classes_[likely.argmax(axis=1)]
    return log_loss(codes[new], likely, labels=model.classes_), balanced_accuracy_score(codes[new], found)


def options(text):
    """What is asked for on the command line; ``text`` is that of the script."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[75, 150])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", default=os.environ.get("DISTEMBED_DATA"))
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--new", type=int, default=500, help="most new bags")
    return parser


def main(arguments=None):
    """Print a row for each task and number of bags, and their mean."""
    parser = options(__doc__)
    parser.add_argument("--views", nargs="+", default="auto", help="the only views that compete")
    parser.add_argument("--variants", nargs="+", default=[*VARIANTS], choices=VARIANTS, help="the only variants")
    asked = parser.parse_args(arguments)
    rows = {}
    for name, seed, *task in tasks(asked):
        whole = scores(*task, seed, asked.views)
        for variant in asked.variants:
            with VARIANTS[variant]():
                rows.setdefault(name, []).append(np.subtract(scores(*task, seed, asked.views), whole))
    print(f"{'task, training bags':>28}", *(f"{variant:>13}" for variant in asked.variants), " (loss, accuracy)")
    means = {name: 1000 * np.reshape(found, (-1, len(asked.variants), 2)).mean(axis=0) for name, found in rows.items()}
    for name, found in (means | {"mean": np.mean(list(means.values()), axis=0)}).items():
        print(f"{name:>28}", *(f"{loss:+6.1f} {accuracy:+6.1f}" for loss, accuracy in found))


if __name__ == "__main__":
    main()
