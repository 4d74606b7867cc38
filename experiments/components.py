"""The number of components of a mixture, by features and by what compares bags with bags: error, time and growth.

Makes the second table of docs/methods.md, see ``make methods``; alone, it prints it (about ten minutes)::

    python experiments/components.py [--train 1000] [--test 500]

The task is the paper's: 2-D mixtures of one to ten Gaussians, 200 points per bag. Every model that is trained chooses
its scale and its penalty from the same grid, on one tenth of the training bags; the time includes that search, training
and the prediction of the test bags. Growth is the least-squares slope in log-log coordinates of the time of training,
from an eighth of the training bags to all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline

import distembed as de
from distembed.kernels import DivergenceMatrix, NystroemFeatures, PSDRepair, RBFKernel
from distembed.learners import KernelSmoother, MixtureComponents

N_POINTS, D = 200, 2000
SCALES, PENALTIES = (0.5, 1.0, 2.0), (1e-3, 1e-2, 1e-1, 1.0)
COLUMNS = ("method", "compares", "RMSE", "its standard error", "seconds", "growth with bags")


@dataclass(frozen=True)
class Rival:
    """One method: how it is made, and what it looks at."""

    name: str
    compares: str
    make: Callable[[str], object]
    trained: bool = True


def searched(steps, grid, memory=None):
    """The pipeline, tuned on a tenth of the training bags and then fitted to all of them."""
    model = Pipeline(steps, memory=memory)
    split = ShuffleSplit(1, test_size=0.1, random_state=0)
    return GridSearchCV(model, grid, cv=split, scoring="neg_root_mean_squared_error")


def features(memory):
    steps = [
        ("cube", de.UnitCube((-10, 10))),
        ("embed", de.HDDEmbedding("js")),
        ("random", de.RandomFourierFeatures(D, random_state=0)),
        ("ridge", Ridge()),
    ]
    return searched(steps, {"random__sigma_scale": SCALES, "ridge__alpha": PENALTIES}, memory)


class KLMatrix:
    """Divergences of all pairs of training bags, once; the search slices them."""

    def fit(self, bags, y):
        """Compare all pairs, and choose scale and penalty."""
        self.divergences = DivergenceMatrix("knn:kl")
        D = self.divergences.fit_transform(bags)
        steps = [("kernel", RBFKernel()), ("repair", PSDRepair()), ("ridge", KernelRidge(kernel="precomputed"))]
        self.model = searched(steps, {"kernel__sigma_scale": SCALES, "ridge__alpha": PENALTIES}).fit(D, y)
        return self

    def predict(self, bags):
        """Compare new bags with all training bags."""
        return self.model.predict(self.divergences.transform(bags))


def kl_landmarks(memory):
    steps = [("embed", NystroemFeatures("knn:kl", n_landmarks=100, random_state=0)), ("ridge", Ridge())]
    return searched(steps, {"ridge__alpha": PENALTIES}, memory)


def smoother(memory):
    steps = [("cube", de.UnitCube((-10, 10))), ("smooth", KernelSmoother(de.HDDEmbedding("js")))]
    return Pipeline(steps)


class Constant:
    """5.5 whatever the bag."""

    def fit(self, bags, y):
        """Nothing."""
        return self

    def predict(self, bags):
        """Always the same."""
        return np.full(len(bags), 5.5)


RIVALS = (
    Rival("`js` features, random features, ridge", "each bag with nothing", features),
    Rival("KL kernel matrix, repaired, kernel ridge", "all pairs of bags", lambda memory: KLMatrix()),
    Rival("KL of 100 landmarks (`NystroemFeatures`), ridge", "each bag with 100", kl_landmarks),
    Rival("kernel smoother on `js` features", "all pairs of features", smoother),
    Rival("EM and AIC", "no bags", lambda memory: MixtureComponents("aic", random_state=0), trained=False),
    Rival("EM and BIC", "no bags", lambda memory: MixtureComponents("bic", random_state=0), trained=False),
    Rival("variational Bayes", "no bags", lambda memory: MixtureComponents("bayes", random_state=0), trained=False),
    Rival("the constant 5.5", "no bags", lambda memory: Constant(), trained=False),
)


def measured(rival, bags, y, new, new_y):
    """Squared errors on new bags, and the seconds that search, training and prediction took."""
    with tempfile.TemporaryDirectory() as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = perf_counter()
        predicted = rival.make(memory).fit(bags, y).predict(new)
        return (predicted - new_y) ** 2, perf_counter() - start


def rows(n_train, n_test):
    """One row a method."""
    bags, y = de.datasets.make_mixture_components(n_train + n_test, N_POINTS, random_state=0)
    new, new_y = bags[n_train:], y[n_train:]
    found = []
    for rival in RIVALS:
        squares, took = measured(rival, bags[:n_train], y[:n_train], new, new_y)
        rmse = np.sqrt(squares.mean())
        error = squares.std() / np.sqrt(len(squares)) / (2 * rmse)
        growth = "–"
        if rival.trained:
            sizes = [n_train // 8, n_train // 4, n_train // 2, n_train]
            times = [measured(rival, bags[:n], y[:n], new[:10], new_y[:10])[1] for n in sizes]
            growth = f"{np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}"
        found.append((rival.name, rival.compares, f"{rmse:.2f}", f"{error:.2f}", f"{took:.3g}", growth))
        print(" | ".join(found[-1]), flush=True)
    return found


def table(n_train=1000, n_test=500):
    """The table in Markdown."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows(n_train, n_test)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--test", type=int, default=500)
    options = parser.parse_args()
    print(table(options.train, options.test))


if __name__ == "__main__":
    main()
