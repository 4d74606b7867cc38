r"""Peers for regression on real tables: what people take when they do not embed distributions, and how sure it is.

====================== =========================================================================================
means + ridge           ridge regression on the means of the columns
statistics + ...        CatBoost, LightGBM, support vectors or a random forest on nine statistics per column, the log
                        of the size and, for at most 15 columns, covariances
MMD + kernel ridge      kernel ridge regression on the distance of mean embeddings, both widths chosen on folds
DeepSets                a network on each point, a mean, and a second network (Zaheer et al. 2017)
NGBoost                 a normal distribution by natural gradient boosting (Duan et al. 2020), on the same statistics
quantile boosting       LightGBM with the pinball loss, one model for each of 13 quantiles
CV+                     the intervals of MAPIE (Barber et al. 2021) around LightGBM, five folds
split conformal         :class:`distembed.ConformalRegressor` around the default learner, a fifth of the bags kept out
====================== =========================================================================================

Each is an object with ``fit(bags, y, covariates)`` and ``predict(bags, covariates)``; those that know how sure they are
have ``quantiles(bags, q, covariates)`` too. Covariates are one-hot columns after the statistics. Settings are chosen
on three folds of the bags given to ``fit`` (forest: out of bag), by squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from distembed.bags import Bags
from distembed.compute.arrays import Array

from .rivals import means, statistics

MOST_COVARIANCES = 15  # columns
N_INNER = 3
MOST_TREES = 1500  # of boosting, stopped after PATIENCE without a better loss
PATIENCE = 50
LEVELS = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)  # of quantile boosting

Covariates = Mapping[str, Array] | None


# --------------------------------------------------------------------------------------------------------------
# Features
# --------------------------------------------------------------------------------------------------------------


def everything(bags: Bags) -> Array:
    """Nine statistics of every column, the log of the size and, for few columns, covariances.

    Examples
    --------
    >>> everything(Bags([[1.0, 1.0], [3.0, 5.0]], [0, 2])).shape
    (1, 22)
    """
    parts = [statistics(bags), np.log(bags.sizes)[:, None]]
    if bags.weights is not None:
        parts.append(np.log(np.add.reduceat(bags.weights, bags.offsets[:-1]))[:, None])
    if bags.n_dims <= MOST_COVARIANCES:
        pairs = np.triu_indices(bags.n_dims)
        parts.append(np.array([_covariance(bags, i)[pairs] for i in range(bags.n_bags)]))
    return np.hstack(parts)


def _covariance(bags: Bags, i: int) -> Array:
    points = bags[i]
    weights = bags.weights_of(i)
    apart = points - np.average(points, axis=0, weights=weights)
    share = np.full(len(points), 1 / len(points)) if weights is None else weights / weights.sum()
    return np.asarray((share[:, None] * apart).T @ apart)


class Encoder:
    """One-hot columns of text, and numbers as they are, of covariates."""

    def __init__(self, columns: Covariates) -> None:
        self.known = {
            name: None if np.asarray(column).dtype.kind in "if" else np.unique(np.asarray(column).astype(str))
            for name, column in (columns or {}).items()
        }

    def __call__(self, columns: Covariates, n_bags: int) -> Array:
        """Columns of numbers, ndarray of shape (n_bags, n_columns)."""
        made = [np.empty((n_bags, 0))]
        for name, known in self.known.items():
            column = np.asarray((columns or {})[name])
            made.append(column[:, None].astype(float) if known is None else column.astype(str)[:, None] == known)
        return np.hstack(made)


class OnRows:
    """A regressor of vectors on one vector per bag.

    Examples
    --------
    >>> bags, y = Bags.from_arrays([[[0.0], [1.0]], [[4.0], [5.0]]] * 4), np.array([0.0, 1.0] * 4)
    >>> OnRows(means, RidgeCV()).fit(bags, y).predict(bags).round(1)[:2].tolist()
    [0.0, 1.0]
    """

    def __init__(self, features: Callable[[Bags], Array], model: Any) -> None:
        self.features = features
        self.model = model

    def fit(self, bags: Bags, y: Array, covariates: Covariates = None) -> OnRows:
        """Choose settings and fit."""
        self.encode = Encoder(covariates)
        self.model.fit(self._rows(bags, covariates), y)
        return self

    def predict(self, bags: Bags, covariates: Covariates = None) -> Array:
        """One number per bag."""
        return np.asarray(self.model.predict(self._rows(bags, covariates)), float).ravel()

    def quantiles(self, bags: Bags, q: Array, covariates: Covariates = None) -> Array:
        """Quantiles, ndarray of shape (n_bags, n_q)."""
        return np.asarray(self.model.quantiles(self._rows(bags, covariates), q), float)

    def _rows(self, bags: Bags, covariates: Covariates) -> Array:
        return np.hstack([self.features(bags), self.encode(covariates, bags.n_bags)])


# --------------------------------------------------------------------------------------------------------------
# Models of rows
# --------------------------------------------------------------------------------------------------------------


def _inner(seed: int, n: int = N_INNER) -> KFold:
    return KFold(n, shuffle=True, random_state=seed)


def _ridge(seed: int) -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))


def _svm(seed: int) -> Any:
    class Machine:
        def fit(self, F: Array, y: Array) -> None:
            self.unit = y.mean(), y.std() + 1e-300
            grid = {"svr__C": [0.1, 1.0, 10.0, 100.0], "svr__gamma": np.array([0.03, 0.1, 0.3, 1.0]) / F.shape[1],
                    "svr__epsilon": [0.03, 0.2]}  # fmt: skip
            search = GridSearchCV(make_pipeline(StandardScaler(), SVR()), grid, cv=_inner(seed))
            self.best = search.fit(F, (y - self.unit[0]) / self.unit[1])

        def predict(self, F: Array) -> Array:
            return np.asarray(self.unit[0] + self.unit[1] * self.best.predict(F))

    return Machine()


class Forest:
    """A random forest whose columns per node and bags per leaf are chosen by out-of-bag predictions."""

    def __init__(self, seed: int, n_trees: int = 300) -> None:
        self.seed = seed
        self.n_trees = n_trees

    def fit(self, F: Array, y: Array) -> None:
        """Choose settings and fit."""
        best = -np.inf
        for max_features in ("sqrt", 0.3):
            for leaf in (1, 3):
                model = RandomForestRegressor(
                    self.n_trees, max_features=max_features, min_samples_leaf=leaf, oob_score=True,
                    random_state=self.seed,
                ).fit(F, y)  # fmt: skip
                if model.oob_score_ > best:
                    best = model.oob_score_
                    self.model = model

    def predict(self, F: Array) -> Array:
        """One number per row."""
        return np.asarray(self.model.predict(F))


class CatBoost:
    """CatBoost: depth and number of trees by the loss on three folds, stopped early."""

    def __init__(self, seed: int, most_trees: int = 600) -> None:
        self.seed = seed
        self.most_trees = most_trees

    def fit(self, F: Array, y: Array) -> None:
        """Choose settings and fit."""
        found = {}
        for depth in (3, 6):
            losses = []
            trees = []
            for train, held in _inner(self.seed).split(F):
                model = self._model(depth, self.most_trees)
                model.fit(F[train], y[train], eval_set=(F[held], y[held]), early_stopping_rounds=PATIENCE)
                losses.append(model.best_score_["validation"]["RMSE"] ** 2)
                trees.append(model.best_iteration_ + 1)
            found[depth] = float(np.mean(losses)), int(np.mean(trees))
        depth = min(found, key=lambda each: found[each][0])
        self.model = self._model(depth, found[depth][1]).fit(F, y)

    def _model(self, depth: int, trees: int) -> Any:
        from catboost import CatBoostRegressor

        return CatBoostRegressor(
            iterations=trees, depth=depth, learning_rate=0.1, border_count=64, random_seed=self.seed,
            thread_count=1, verbose=False, allow_writing_files=False,
        )  # fmt: skip

    def predict(self, F: Array) -> Array:
        """One number per row."""
        return np.asarray(self.model.predict(F))


def choose_lightgbm(F: Array, y: Array, seed: int, most_trees: int = MOST_TREES) -> Any:
    """An unfitted LightGBM whose leaves and number of trees were chosen on three folds."""
    import lightgbm

    found = {}
    for leaves in (4, 16):
        losses = []
        trees = []
        for train, held in _inner(seed).split(F):
            model = lightgbm.LGBMRegressor(**_lightgbm(leaves, most_trees, seed))
            model.fit(F[train], y[train], eval_set=[(F[held], y[held])], eval_metric="l2",
                      callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)])  # fmt: skip
            losses.append(model.best_score_["valid_0"]["l2"])
            trees.append(model.best_iteration_)
        found[leaves] = float(np.mean(losses)), max(int(np.mean(trees)), 1)
    leaves = min(found, key=lambda each: found[each][0])
    return lightgbm.LGBMRegressor(**_lightgbm(leaves, found[leaves][1], seed))


def _lightgbm(leaves: int, trees: int, seed: int) -> dict[str, Any]:
    return {
        "n_estimators": trees, "num_leaves": leaves, "learning_rate": 0.05, "min_child_samples": 5,
        "subsample": 0.8, "subsample_freq": 1, "colsample_bytree": 0.5, "random_state": seed, "n_jobs": 1,
        "verbose": -1,
    }  # fmt: skip


class LightGBM:
    """LightGBM with settings chosen on folds."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, F: Array, y: Array) -> None:
        """Choose settings and fit."""
        self.model = choose_lightgbm(F, y, self.seed).fit(F, y)

    def predict(self, F: Array) -> Array:
        """One number per row."""
        return np.asarray(self.model.predict(F))


class QuantileBoosting(LightGBM):
    """LightGBM with the pinball loss; leaves and trees are those chosen for the squared error."""

    def fit(self, F: Array, y: Array) -> None:
        """Choose settings and fit one model for each level."""
        from sklearn.base import clone

        base = choose_lightgbm(F, y, self.seed)
        self.model = clone(base).fit(F, y)
        self.models = [clone(base).set_params(objective="quantile", alpha=level).fit(F, y) for level in LEVELS]

    def quantiles(self, F: Array, q: Array) -> Array:
        """Quantiles, sorted, linear between the levels."""
        known = np.sort(np.stack([model.predict(F) for model in self.models], axis=1), axis=1)
        return np.stack([np.interp(q, LEVELS, row) for row in known])


class NGBoost:
    """NGBoost with a normal distribution; the number of trees by the log likelihood of a fifth of the rows."""

    def __init__(self, seed: int, most_trees: int = 600) -> None:
        self.seed = seed
        self.most_trees = most_trees

    def fit(self, F: Array, y: Array) -> None:
        """Choose the number of trees and fit."""
        from ngboost import NGBRegressor

        held = np.random.RandomState(self.seed).permutation(len(y))[: len(y) // 5]
        train = np.setdiff1d(np.arange(len(y)), held)
        how = {"learning_rate": 0.03, "verbose": False, "random_state": self.seed}
        first = NGBRegressor(n_estimators=self.most_trees, **how)
        first.fit(F[train], y[train], X_val=F[held], Y_val=y[held], early_stopping_rounds=30)
        trees = int(first.best_val_loss_itr or self.most_trees - 1) + 1
        self.model = NGBRegressor(n_estimators=trees, **how).fit(F, y)

    def predict(self, F: Array) -> Array:
        """One number per row."""
        return np.asarray(self.model.predict(F))

    def quantiles(self, F: Array, q: Array) -> Array:
        """Those of the normal distributions."""
        return np.stack([self.model.pred_dist(F).ppf(level) for level in q], axis=1)


class CrossConformal:
    """CV+ of MAPIE around LightGBM: intervals of a promised coverage, whose ends are taken as quantiles."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, F: Array, y: Array) -> None:
        """Fit five models, each without a fifth of the rows."""
        from mapie.regression import CrossConformalRegressor

        self.coverages = np.arange(0.05, 0.96, 0.05)
        self.model = CrossConformalRegressor(
            choose_lightgbm(F, y, self.seed), confidence_level=self.coverages.tolist(), method="plus",
            cv=_inner(self.seed, 5), random_state=self.seed,
        )  # fmt: skip
        self.model.fit_conformalize(F, y)

    def predict(self, F: Array) -> Array:
        """One number per row."""
        return np.asarray(self.model.predict(F))

    def quantiles(self, F: Array, q: Array) -> Array:
        """Ends of intervals; the prediction between them is the median."""
        center, ends = self.model.predict_interval(F)
        levels = np.concatenate([(1 - self.coverages[::-1]) / 2, [0.5], (1 + self.coverages) / 2])
        known = np.sort(np.hstack([ends[:, 0, ::-1], center[:, None], ends[:, 1]]), axis=1)
        return np.stack([np.interp(q, levels, row) for row in known])


# --------------------------------------------------------------------------------------------------------------
# All of them
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rival:
    """A method, by name.

    Attributes
    ----------
    name : str
    make : callable
        Takes a seed.
    needs : str
        A package that must be there, or "".
    is_sure : bool
        Whether it has quantiles.
    """

    name: str
    make: Callable[[int], Any]
    needs: str = ""
    is_sure: bool = False

    @property
    def missing(self) -> str:
        """Why it can't be run here, or ""."""
        return f"{self.needs} is not installed" if self.needs and find_spec(self.needs) is None else ""


RIVALS = (
    Rival("means + ridge", lambda seed: OnRows(means, _ridge(seed))),
    Rival("statistics + CatBoost", lambda seed: OnRows(everything, CatBoost(seed)), "catboost"),
    Rival("statistics + LightGBM", lambda seed: OnRows(everything, LightGBM(seed)), "lightgbm"),
    Rival("statistics + SVM", lambda seed: OnRows(everything, _svm(seed))),
    Rival("statistics + forest", lambda seed: OnRows(everything, Forest(seed))),
    Rival("quantile boosting", lambda seed: OnRows(everything, QuantileBoosting(seed)), "lightgbm", is_sure=True),
    Rival("NGBoost", lambda seed: OnRows(everything, NGBoost(seed)), "ngboost", is_sure=True),
    Rival("CV+", lambda seed: OnRows(everything, CrossConformal(seed)), "mapie", is_sure=True),
)
