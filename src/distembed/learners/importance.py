"""Which columns of the points a model needs: the loss of score when one of them no longer distinguishes bags.

scikit-learn's own ``permutation_importance`` permutes the columns of a table with one row per example, which bags are
not. Here the values of a column are permuted across the points of all bags: every bag keeps its size, its weights and
its other columns, and draws of this column are as in any other bag.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state

from ..bags import Bags, as_bags
from ..bags.estimators import by_id
from ..bags.missing import SUFFIX
from ..bags.point_order import sort_points
from ..compute.arrays import Array
from ..compute.checks import check_number, pandas_for
from .likeness import without_comparing

_LONGEST = 60  # name that is shown whole


def column_groups(names: list[str]) -> list[list[int]]:
    """Positions of columns that are permuted together: each with the one that marks its missing values, if any.

    Examples
    --------
    >>> column_groups(["age", "height", "age missing"])
    [[0, 2], [1]]
    """
    partner = {j: names.index(name + SUFFIX) for j, name in enumerate(names) if name + SUFFIX in names}
    return [[j, *([partner[j]] if j in partner else [])] for j in range(len(names)) if j not in partner.values()]


def permute_columns(bags: Bags, columns: list[int], rng: np.random.RandomState | np.random.Generator) -> Bags:
    """Bags in which the values of some columns are permuted, rows of them together, across the points of all bags.

    Examples
    --------
    >>> bags = as_bags(np.arange(8.0).reshape(2, 2, 2))
    >>> permute_columns(bags, [1], np.random.default_rng(0)).points.tolist()
    [[0.0, 5.0], [2.0, 1.0], [4.0, 3.0], [6.0, 7.0]]
    """
    bags = sort_points(bags)  # a seed gives the same for any order of points
    points = bags.points.copy()
    points[:, columns] = points[rng.permutation(bags.n_points)][:, columns]
    return bags.replace(points=points)


class Importances(Bunch):
    """Answer of :func:`permutation_importance`: a Bunch, as scikit-learn's, that prints as a table.

    Examples
    --------
    >>> Importances(
    ...     columns=["a", "b"],
    ...     importances=np.array([[0.0, 0.1], [0.4, 0.5]]),
    ...     importances_mean=np.array([0.05, 0.45]),
    ...     importances_std=np.array([0.05, 0.05]),
    ... )
    column  importance   std
    b            0.450  0.05
    a            0.050  0.05
    """

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with the columns name, importance and std, the most important first."""
        pd = pandas_for("Importances.to_frame")
        order = self._order()
        columns = {
            "name": [self.columns[k] for k in order],
            "importance": self.importances_mean[order],
            "std": self.importances_std[order],
        }
        return pd.DataFrame(columns)

    def _order(self) -> Array:
        return np.argsort(-self.importances_mean, kind="stable")

    def __repr__(self) -> str:
        rows = [["column", "importance", "std"]]
        for k in self._order():
            name = str(self.columns[k])
            short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
            rows.append([short, f"{self.importances_mean[k]:.3f}", f"{self.importances_std[k]:.2g}"])
        widths = [max(len(row[j]) for row in rows) for j in range(3)]
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows)


def permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    sample_weight: Any = None,
    covariates: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> Importances:
    """How much the score of a fitted model falls when the values of a column are permuted across all points.

    Parameters
    ----------
    model : estimator
        Fitted: a learner, or a pipeline of scikit-learn that takes bags.
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags, best of all such that ``fit`` did not see.
    y : array-like of shape (n_bags,) or (n_bags, n_outputs)
        Their targets; a Series of pandas whose index is the ids of the bags is put in their order.
    scoring : str or callable, optional
        As in scikit-learn. By default the ``score`` of the model: R², or the share of bags in the right class.
    n_repeats : int, default=5
        How often each column is permuted.
    sample_weight : array-like of shape (n_bags,), optional
        Weights of bags in the score.
    covariates : table of n_bags rows, optional
        If ``fit`` had some. They stay as they are, and ``scoring`` must be None.
    random_state : int, RandomState or None, default=None
        Draws the permutations.

    Returns
    -------
    Importances
        A Bunch that prints as a table, and has ``to_frame()``. ``columns``, their names; ``importances``, ndarray of
        shape (n_columns, n_repeats), the score less that with the column permuted; ``importances_mean`` and
        ``importances_std`` of shape (n_columns,).

    Notes
    -----
    A column and the one that says where its values are missing are permuted together. Two columns with the same
    information stand in for each other: then neither seems to matter. Cost: n_columns n_repeats predictions of all
    bags.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> spread = rng.uniform(0.5, 2, size=80)
    >>> bags = np.stack([rng.normal(0, spread, (50, 80)), rng.normal(size=(50, 80))], axis=-1).swapaxes(0, 1)
    >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags[:60], spread[:60])
    >>> found = de.learners.permutation_importance(model, bags[60:], spread[60:], random_state=0)
    >>> found.columns, (found.importances_mean > 0.1).tolist()
    (['x0', 'x1'], [True, False])
    """
    n_repeats = check_number("permutation_importance", "n_repeats", n_repeats, low=1, integer=True)
    if covariates is not None and scoring is not None:
        raise ValueError("permutation_importance: covariates go with scoring=None alone; leave scoring out")
    rng = check_random_state(random_state)
    bags = as_bags(X)
    scorer = None if scoring is None else check_scoring(model, scoring)
    y = by_id(y, bags, "y")
    given = {}
    if sample_weight is not None:
        given["sample_weight"] = by_id(sample_weight, bags, "sample_weight")
    if covariates is not None:
        given["covariates"] = covariates

    def score(some: Bags) -> float:
        return float(model.score(some, y, **given) if scorer is None else scorer(model, some, y, **given))

    whole = score(bags)
    names = list(bags.named_parts().columns or ())
    groups = column_groups(names)
    found = np.empty((len(groups), n_repeats))
    for i, columns in enumerate(groups):
        for k in range(n_repeats):
            with without_comparing():
                found[i, k] = whole - score(permute_columns(bags, columns, rng))
    return Importances(
        columns=[names[columns[0]] for columns in groups],
        importances=found,
        importances_mean=found.mean(axis=1),
        importances_std=found.std(axis=1),
    )
