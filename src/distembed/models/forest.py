"""Forests of decision trees on features of bags, kept as plain arrays.

Trees are grown by scikit-learn. A fitted one is four numbers per node: its feature, its threshold and its children;
a leaf has the row of its value instead. All trees walk down together, one level per step, in NumPy.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number
from ..compute.registry import storable, within
from .base import Head, Training, check_training
from .folds import average_over_folds

MOST_TO_REGROW = 20_000  # rows of a forest that is grown again
KINDS = ("forest", "extra")
FOLD_TREES = 60  # behind a held-out prediction, over all repeats of the folds; half as many for many rows
RACE_TREES = 20  # the same of a fold where candidates are only compared with the best
MANY_ROWS = 1000  # a tree of a random forest is grown on at most so many draws
_BLOCK = 2**20  # places in trees that are looked at together


@storable(roots="int(t)", feature="int(n)", threshold="finite(n)", left="int(n)", right="int(n)", values="finite(k, o)")
class Trees(NamedTuple):
    """Decision trees as arrays, one after the other.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,) of int32
        First node of each tree.
    feature : ndarray of shape (n_nodes,) of int32
        Which feature a node looks at; -1 for a leaf.
    threshold : ndarray of shape (n_nodes,) of float32
        A row goes to the left if its feature, rounded to float32, is not above.
    left : ndarray of shape (n_nodes,) of int32
        The node on the left; of a leaf the row of its value.
    right : ndarray of shape (n_nodes,) of int32
        The node on the right.
    values : ndarray of shape (n_values, n_outputs)
        What leaves predict, each value once.
    """

    roots: Array
    feature: Array
    threshold: Array
    left: Array
    right: Array
    values: Array

    def __distembed_fits__(self) -> bool:
        inner = self.feature >= 0
        place = np.arange(len(self.feature))
        after = np.minimum(self.left, self.right)[inner]
        return (
            len(self.roots) > 0
            and within(self.roots, len(place))
            and within(self.left[~inner], len(self.values))
            and within(np.maximum(self.left, self.right)[inner], len(place))
            and bool(np.all(after > place[inner]))  # so that no path is endless
        )

    def predict(self, rows: Array) -> Array:
        """Mean over the trees, ndarray of shape (n_rows, n_outputs), in n_rows n_trees depth operations."""
        single = rows.astype(np.float32)  # as scikit-learn compares
        out = np.empty((len(rows), self.values.shape[1]))
        step = max(1, _BLOCK // len(self.roots))
        for start in range(0, len(rows), step):
            part = single[start : start + step]
            out[start : start + step] = self.values[self.left[self._leaves(part)]].mean(axis=1)
        return out

    def _leaves(self, rows: Array) -> Array:
        """Leaf of each row in each tree, ndarray of shape (n_rows, n_trees)."""
        nodes = np.tile(self.roots, len(rows))
        owner = np.repeat(np.arange(len(rows)), len(self.roots))
        walking = np.flatnonzero(self.feature[nodes] >= 0)
        for _ in range(len(self.feature)):  # no path is longer, but in a file that somebody forged
            if not len(walking):
                break
            at = nodes[walking]
            low = rows[owner[walking], self.feature[at]] <= self.threshold[at]
            nodes[walking] = at = np.where(low, self.left[at], self.right[at])
            walking = walking[self.feature[at] >= 0]
        return nodes.reshape(len(rows), -1)


def as_trees(forest: Any, n_classes: int | None) -> Trees:
    """A fitted forest of scikit-learn as arrays.

    Parameters
    ----------
    forest : RandomForestClassifier, ExtraTreesRegressor or the like
        Fitted.
    n_classes : int or None
        Classes 0, ..., n_classes - 1, of which training rows may lack some; None for regression.

    Returns
    -------
    Trees
        Predictions are those of ``predict_proba`` or ``predict``, to rounding.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> forest = RandomForestRegressor(5, random_state=0).fit(x, x.ravel())
    >>> bool(np.allclose(as_trees(forest, None).predict(x).ravel(), forest.predict(x), rtol=1e-12))
    True
    """
    trees = [each.tree_ for each in forest.estimators_]
    counts = np.array([tree.node_count for tree in trees])
    roots = np.concatenate([[0], np.cumsum(counts)[:-1]])
    shift = np.repeat(roots, counts)
    feature, threshold, left, right = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("feature", "threshold", "children_left", "children_right")
    )
    leaf = left < 0
    if n_classes is None:
        found = np.concatenate([tree.value[tree.children_left < 0, :, 0] for tree in trees])
    else:
        own = np.concatenate([tree.value[tree.children_left < 0, 0] for tree in trees])
        found = np.zeros((len(own), n_classes))
        found[:, forest.classes_] = own / own.sum(axis=1, keepdims=True)
    values, row = np.unique(found, axis=0, return_inverse=True)
    left = left + shift
    right = right + shift
    left[leaf] = row.ravel()
    right[leaf] = 0
    # Rows are in float32: to be at most t is to be at most the largest float32 that is at most t.
    single = threshold.astype(np.float32)
    single = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
    feature = np.where(leaf, -1, feature)
    first, feature, left, right = (each.astype(np.int32) for each in (roots, feature, left, right))
    return Trees(first, feature, single, left, right, values)


@storable(trees_="Trees")
class ForestHead(Head):
    """A random forest or extremely randomised trees, kept as arrays.

    Parameters
    ----------
    kind : {"forest", "extra"}, default="forest"
        Breiman's random forest, with at least three rows per leaf for regression, or extremely randomised trees, with
        at least two.
    n_classes : int, optional
        Number of classes; None for regression.
    n_trees : int, default=200
        Trees of the forest that predicts. Behind a held-out prediction are 60, 30 for more than 1,000 rows.
    random_state : int, RandomState or None, default=None
        Draws bootstraps, features and thresholds.

    Attributes
    ----------
    held_out_ : ndarray of shape (n_rows, n_outputs)
        Predictions for each row by forests that did not see it, averaged over repeated folds. Not in model files,
        unless ``updatable=True``.
    trees_ : Trees
        What predicts.

    Notes
    -----
    Each split looks at √d features, for regression at 2 √d or a third of them, whichever is less.

    A tree of a random forest is grown on n rows drawn with replacement, 1,000 at most.

    *Weights* count as copies of rows in the means of leaves and in the choice of splits; a bootstrap draws rows
    whatever their weights. *Cost*: n log² n times the features of a split per tree. Files have 16 bytes per node, and
    each value of a leaf once.

    References
    ----------
    Breiman (2001). Random forests. Geurts, Ernst and Wehenkel (2006). Extremely randomized trees. Machine Learning.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> F = np.random.default_rng(0).normal(size=(60, 2))
    >>> codes = (F[:, 0] * F[:, 1] > 0).astype(int)
    >>> head = ForestHead("extra", n_classes=2, n_trees=50, random_state=0).fit(F, codes, None, KFold(5).split(F))
    >>> bool(np.mean(head.held_out_.argmax(axis=1) == codes) > 0.8)
    True
    """

    most_rows = MOST_TO_REGROW

    def __init__(
        self, kind: str = "forest", n_classes: int | None = None, n_trees: int = 200, random_state: Any = None
    ) -> None:
        self.kind = kind
        self.n_classes = n_classes
        self.n_trees = n_trees
        self.random_state = random_state

    def fit(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Grow a forest for each fold, and one on all rows.

        Parameters
        ----------
        features : array-like of shape (n_rows, n_features)
            F.
        targets : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Numbers, or codes of classes.
        weight : array-like of shape (n_rows,), optional
            Positive.
        folds : iterable of (seen, held) index arrays
            Each row is held out at least once; the two parts of a fold are all rows.

        Returns
        -------
        self
        """
        self.hold_out(features, targets, weight, folds)
        return self.complete(features, targets, weight)

    def hold_out(self, features: Any, targets: Any, weight: Any = None, folds: Any = ()) -> Self:
        """Grow the forests of the folds alone, which is all that a comparison needs; arguments are those of ``fit``."""
        check_choice(self, "kind", self.kind, KINDS)
        n_trees = check_number(self, "n_trees", self.n_trees, low=1, integer=True)
        given = check_training(self, features, targets, weight, folds, self.check_classes())
        rng = check_random_state(self.random_state)
        rng.randint(2**31 - 1)  # the first is that of the forest on all rows
        n_rows = len(given.rows)
        repeats = sum(len(held) for _, held in given.folds) / n_rows
        few = int(np.ceil(FOLD_TREES / repeats / (1 if n_rows <= MANY_ROWS else 2)))
        single = given.rows.astype(np.float32)  # as scikit-learn compares

        def held_out(fold: int, seen: Array, held: Array) -> Array:
            forest = self._grow(given, seen, min(n_trees, few), int(rng.randint(2**31 - 1)))
            return _mean_of_trees(forest, single[held], self.n_classes)

        self.n_features_in_ = given.rows.shape[1]
        self.held_out_ = average_over_folds(given.folds, n_rows, held_out)
        return self

    def complete(self, features: Any, targets: Any, weight: Any = None) -> Self:
        """Grow the forest on all rows."""
        given = check_training(self, self.check_rows(features), targets, weight, None, self.n_classes)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.trees_ = as_trees(self._grow(given, np.arange(len(given.rows)), self.n_trees, seed), self.n_classes)
        return self

    def refit(self, features: Any, targets: Any, weight: Any = None, groups: Any = None) -> Self:
        """Grow a forest on other rows."""
        self.__dict__.pop("held_out_", None)
        return self.complete(features, targets, weight)

    def for_race(self) -> ForestHead:
        """A copy with few trees."""
        return ForestHead(self.kind, self.n_classes, min(self.n_trees, RACE_TREES), self.random_state)

    def predict(self, features: Any) -> Array:
        """Numbers or probabilities for new rows, ndarray of shape (n_rows, n_outputs)."""
        return self.trees_.predict(self.check_rows(features))

    def _grow(self, given: Training, rows: Array, n_trees: int, seed: int) -> Any:
        """Grow a forest of scikit-learn on some of the rows."""
        from sklearn import ensemble  # slow to import

        numbers = self.n_classes is None
        d = given.rows.shape[1]
        family = "ExtraTrees" if self.kind == "extra" else "RandomForest"
        make = getattr(ensemble, f"{family}{'Regressor' if numbers else 'Classifier'}")
        bootstrap = {} if self.kind == "extra" else {"max_samples": min(len(rows), MANY_ROWS)}
        forest = make(
            n_trees,
            **bootstrap,
            min_samples_leaf=2 if self.kind == "extra" else 3 if numbers else 1,
            max_features=int(np.ceil(min(d / 3, 2 * np.sqrt(d)))) if numbers else "sqrt",
            n_jobs=1,
            random_state=seed,
        )
        forest._make_estimator = partial(_copy_tree, forest)
        targets = given.outputs if numbers else given.codes
        targets = targets.ravel() if targets.shape[1:] == (1,) else targets
        forest.fit(given.rows[rows], targets[rows], sample_weight=given.weight[rows])
        return forest


def _mean_of_trees(forest: Any, single: Array, n_classes: int | None) -> Array:
    """What a forest of scikit-learn predicts for rows in float32, without its checks of each tree."""
    found = sum(tree.tree_.predict(single) for tree in forest.estimators_) / len(forest.estimators_)
    if n_classes is None:
        return np.asarray(found).reshape(len(single), -1)
    likely = np.zeros((len(single), n_classes))
    likely[:, forest.classes_] = found
    return likely


def _copy_tree(forest: Any, append: bool, random_state: np.random.RandomState) -> Any:
    """Make the tree that scikit-learn would, which takes as long to make one from its parameters as to grow it."""
    tree = copy(forest.estimator_)
    for name in forest.estimator_params:
        setattr(tree, name, getattr(forest, name))
    tree.random_state = random_state.randint(np.iinfo(np.int32).max)
    return tree
