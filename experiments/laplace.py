"""Gaussian and Laplace kernels on few bags: how far choosing a width flatters held-out losses, and whether it pays.

    python experiments/laplace.py [--bags 75 150] [--repeats 3] [--data FOLDER] [--tasks ...]

Tasks are those of ``few_bags.py``. Printed is the log loss, mean over some of the features that ``"auto"`` tries: on
folds, by which candidates are chosen, and on new bags. The width of the Gaussian kernel is chosen on the folds, that of
the Laplace kernel is a multiple of the median distance.
"""

from __future__ import annotations

import warnings

import numpy as np
from few_bags import options, tasks
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold

import distembed as de
from distembed.models.kernel_head import WIDE, KernelHead

MULTIPLES = (1.0, 2.0, 4.0, 8.0)  # of the median distance


def features(train, new):
    """Features of training bags and of new ones, four times."""
    standard, cube = de.Standardize().fit(train), de.UnitCube(map="auto").fit(train)
    for scaler, embedding in (
        (standard, de.MomentEmbedding("mean")),
        (standard, de.StatisticsEmbedding()),
        (standard, de.MeanEmbedding(1000, random_state=0)),
        (cube, de.Marginals(de.HDDEmbedding("hellinger", n_basis=12))),
    ):
        yield embedding.fit_transform(scaler.transform(train)), embedding.transform(scaler.transform(new))


def losses(bags, codes, train, new, seed):
    """Log losses on folds and on new bags, of shape (n_features, n_kernels, 2)."""
    y, labels, found = codes[train], np.unique(codes), []
    folds = list(RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=seed).split(y, y))
    for rows, others in features(bags[train], bags[new]):
        laplace = KernelHead("laplace", n_classes=len(labels)).fit(rows, y, None, folds)
        heads = [KernelHead("rbf", n_classes=len(labels), random_state=seed).fit(rows, y, None, folds)]
        for times in MULTIPLES:
            head = KernelHead("laplace", n_classes=len(labels))
            heads.append(head.fit(rows, y, None, folds, sigma=laplace.scale_ * times / WIDE))
        for head in heads:
            found.append(log_loss(y, head.held_out_, labels=labels))
            found.append(log_loss(codes[new], head.predict(others), labels=labels))
    return np.reshape(found, (-1, 1 + len(MULTIPLES), 2))


def main(arguments=None):
    """Print a row for each task and number of bags."""
    rows = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of settings that nobody chose
        for name, seed, *task in tasks(options(__doc__).parse_args(arguments)):
            rows.setdefault(name, []).append(losses(*task, seed))
    columns = ["gaussian", *(f"laplace {times:g}" for times in MULTIPLES)]
    print(f"{'task, training bags':>28}", *(f"{name:>13}" for name in columns), " (folds, new bags)")
    for name, found in rows.items():
        print(f"{name:>28}", *(f"{held:6.3f} {new:6.3f}" for held, new in np.mean(found, axis=(0, 1))))


if __name__ == "__main__":
    main()
