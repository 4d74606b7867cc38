r"""Why a prediction is what it is: what each column contributes, what each point changes, and where in space that is.

``model.explain(bags)`` works for every learner. Three questions have three answers, in the units of the prediction:

- *Which columns?* Shapley values: what the prediction owes to each column, each covariate and the size, the others
  being those of training bags. They add up to the prediction less its mean over the training bags. See
  :mod:`distembed.learners.shapley`.
- *Which points?* The derivative of the prediction in the weight of each point, see
  :mod:`distembed.learners.point_values`.
- *Where?* A few regions with rules on columns, see :mod:`distembed.learners.regions`, and for one density embedding in
  up to three columns a map, see :mod:`distembed.learners.density_map`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags, as_bags
from ..bags.checks import refuse_empty
from ..bags.ids import id_text
from ..bags.labels import points_of_rows
from ..compute.arrays import Array
from ..compute.checks import InputError, check_number, pandas_for
from ..compute.progress import Progress, stages_of
from ..models.linear_head import LinearHead
from .background import Background
from .classes import one_class
from .density_map import SUPPORTED, DensityMap, LinearPipeline, pull_back
from .model import Model
from .point_values import MemberSlopes, PointValues, has_gradient, point_values
from .regions import Region, find_regions
from .shapley import Columns, Contributions, Game, Plan, contributions
from .view import EmbeddedBags

__all__ = ["Explanation", "explain"]

_ROWS_SHOWN = 12
_COLUMNS_SHOWN = 3  # of each bag, in the table of several
_REGIONS_SHOWN = 3
_WIDTH = 80


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Answer of :func:`explain`; prints as a table.

    Attributes
    ----------
    predictions : ndarray of shape (n_bags,)
        What is explained: the number, or the probability of the class.
    reference : float or ndarray of shape (n_bags,)
        The mean prediction of the training bags; an array where bags are explained for classes of their own.
    contributions : ndarray of shape (n_bags, n_columns)
        What each column contributes: rows add up to ``predictions - reference``.
    column_names : tuple of str
        Columns of points, covariates, and ``"size"`` where the model has a view of it. A column and the one that says
        where its values are missing are one.
    errors : ndarray of shape (n_bags, n_columns)
        Standard errors of the contributions, 0 where they are exact.
    points : ndarray of shape (n_points,)
        The value of each point, in the order of ``bags.points``: the derivative of the prediction in its weight. Its
        weighted mean is 0 in each bag.
    point_errors : ndarray of shape (n_points,)
        How far the members of the model differ on it, as a standard deviation.
    regions : list of list of Region
        Of each bag: ``rule``, ``share``, ``training_share`` and ``effect`` of each region, the most important first.
    point_regions : ndarray of shape (n_points,) of int
        Which of the regions of its bag each point lies in; -1 for points without a value.
    shares : ndarray of shape (n_points,)
        w, the weight of each point divided by the sum of its bag; zero for points that the scaler drops.
    output : object
        The class, or the number of the output; None where it is each bag's predicted class, or the only output.
    bags : Bags
        As they were passed.
    what : str
        What is explained, in words, for titles.
    map : ndarray of shape (n_bags, g_1, ..., g_l), or None
        For one density embedding in up to three columns: g on the nodes, less its mean under the bag's density. It is
        how the prediction changes with mass that is put there, in units of the prediction for a share of one.
    density : ndarray of shape (n_bags, g_1, ..., g_l), or None
        p on the nodes, of mean one: the map means most where this is large, and ``map * density`` has the mean zero.
    nodes : tuple of l ndarrays of shape (g_j,)
        The axes of the grid in the units of the points; empty where there is no map.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> spread = rng.uniform(0.5, 2, size=60)
    >>> bags = rng.normal(size=(60, 40, 2)) * np.stack([spread, np.ones(60)], axis=1)[:, None]
    >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags, spread)
    >>> why = model.explain(bags[:3])
    >>> why.column_names, why.contributions.shape, why.points.shape
    (('x0', 'x1'), (3, 2), (120,))
    >>> bool(np.allclose(why.contributions.sum(axis=1), why.predictions - why.reference))
    True
    >>> why.top(0, 3).dtype.names
    ('point', 'x0', 'x1', 'weight', 'value', 'change')
    """

    predictions: Array
    reference: Any
    contributions: Array
    column_names: tuple[str, ...]
    errors: Array
    points: Array
    point_errors: Array
    regions: list[list[Region]]
    point_regions: Array
    shares: Array
    output: Any
    bags: Bags
    what: str = "prediction"
    map: Array | None = None
    density: Array | None = None
    nodes: tuple[Array, ...] = field(default=())

    def of(self, i: int) -> Array:
        """Values of the points of bag i, ndarray of shape (n_i,)."""
        return self._bag(i)[1]

    def top(self, i: int, n: int = 10) -> Array:
        """The most influential points of bag i.

        Parameters
        ----------
        i : int
            Position of the bag.
        n : int, default=10
            How many points at most.

        Returns
        -------
        structured ndarray of shape (n,)
            ``point`` (its position in the bag), the coordinates by their names (x0, x1, ... if they have none),
            ``weight`` (its share w of the bag), ``value`` (v) and ``change`` (-w v / (1 - w), the first order change of
            the prediction without the point; NaN for the only one). The largest changes of either sign come first.
            ``pandas.DataFrame(table)`` makes a frame of it.
        """
        n = check_number("top", "n", n, low=1, integer=True)
        points, values, weights = self._bag(i)
        change = np.full(len(values), np.nan)
        np.divide(-weights * values, 1 - weights, out=change, where=weights < 1)
        order = np.lexsort((-np.abs(values), -np.nan_to_num(np.abs(change))))[:n]
        others = ("point", "weight", "value", "change")
        names = [f"{name}_" if name in others else name for name in self._names()]
        kinds = [
            ("point", np.int64),
            *((name, points.dtype) for name in names),
            *((name, float) for name in others[1:]),
        ]
        columns = [order, *points[order].T, weights[order], values[order], change[order]]
        return np.array([*zip(*columns, strict=True)], dtype=kinds)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per bag: prediction, reference, and what each column contributes.

        The ids of the bags are the index. A column that is called ``prediction`` or ``reference`` gets a ``_``.
        """
        pd = pandas_for("Explanation.to_frame")
        n_bags = self.bags.n_bags
        columns: dict[str, Any] = {
            "prediction": self.predictions,
            "reference": np.broadcast_to(np.asarray(self.reference), (n_bags,)),
        }
        for name, values in zip(self.column_names, self.contributions.T, strict=True):
            while name in columns:
                name += "_"
            columns[name] = values
        return pd.DataFrame(columns, index=pd.Index(self.bags.ids, name="bag"))

    def values_by_row(self, bag_of_row: Any) -> Array:
        """Values of points for the rows of the table that the bags were made from, in the order of this table.

        Parameters
        ----------
        bag_of_row : array-like of shape (n_rows,)
            The id of the bag of each row: ``frame["patient"]``, or ``adata.obs["sampleID"]``. Rows of other bags have
            NaN. A bag must have all its rows here: none dropped because of missing values.

        Returns
        -------
        ndarray of shape (n_rows,)
            ``adata.obs["value"] = why.values_by_row(adata.obs["sampleID"])`` keeps them with the cells.
        """
        rows = points_of_rows(self.bags, np.asarray(bag_of_row), "values_by_row")
        found = np.full(len(rows), np.nan)
        found[rows >= 0] = self.points[rows[rows >= 0]]
        return found

    def plot(self, i: int, ax: Any = None) -> Any:
        """Draw why the prediction for bag i is what it is; needs ``pip install 'distembed[plot]'``.

        Parameters
        ----------
        i : int
            Position of the bag.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib Axes
            See :func:`distembed.plot.explanation`: the map where there is one, else bars of what columns contribute.
        """
        from ..plot import explanation

        return explanation(self, i, ax=ax)

    def reference_of(self, i: int) -> float:
        """The reference of bag i."""
        return float(np.broadcast_to(np.asarray(self.reference, float), (self.bags.n_bags,))[i])

    def _cells(self) -> tuple[str, list[list[str]], str]:
        """Title, rows with their header, and what is left out."""
        n_bags = self.bags.n_bags
        shown = min(self.bags.n_bags, _ROWS_SHOWN)
        on = f", on {' x '.join(str(len(axis)) for axis in self.nodes)} nodes" if self.nodes else ""
        title = f"Explanation of the {self.what}, {n_bags} {'bag' if n_bags == 1 else 'bags'}{on}"
        rows = self._contribution_rows(shown) if self.column_names else self._point_rows(shown)
        return title, rows, f"... {n_bags - shown} more" if n_bags > shown else ""

    def _contribution_rows(self, shown: int) -> list[list[str]]:
        """For each bag, the columns that contribute most, as many as a line holds."""
        for n in range(min(_COLUMNS_SHOWN, len(self.column_names)), 1, -1):
            rows = self._largest(shown, n)
            if max(map(len, _aligned(rows))) <= _WIDTH:
                return rows
        return self._largest(shown, 1)

    def _largest(self, shown: int, n: int) -> list[list[str]]:
        rows = [["bag", "prediction", "reference", "largest", *[""] * (n - 1)]]
        for i in range(shown):
            order = np.argsort(-np.abs(self.contributions[i]), kind="stable")[:n]
            cells = [f"{_short(self.column_names[j], 14)} {self.contributions[i, j]:+.2g}" for j in order]
            name = _short(id_text(self.bags.ids, i), 18)
            rows.append([name, f"{self.predictions[i]:.4g}", f"{self.reference_of(i):.4g}", *cells])
        return rows

    def _point_rows(self, shown: int) -> list[list[str]]:
        """For each bag, its extreme points: of pipelines, which know no training bags."""
        rows = [["bag", "prediction", "lowest value", "at", "highest value", "at"]]
        for i in range(shown):
            points, values, weights = self._bag(i)
            cells = [id_text(self.bags.ids, i), f"{self.predictions[i]:.4g}"]
            there = np.flatnonzero(weights > 0)
            for k in (there[values[there].argmin()], there[values[there].argmax()]):
                cells += [f"{values[k]:.3g}", "(" + ", ".join(f"{x:.4g}" for x in points[k]) + ")"]
            rows.append(cells)
        return rows

    def bag_table(self, i: int) -> str:
        """Text of one bag: what each column contributes, and the most important regions.

        Examples
        --------
        >>> import distembed as de
        >>> bags = np.random.default_rng(0).normal(size=(40, 20, 1)) + np.linspace(0, 1, 40)[:, None, None]
        >>> y = bags.mean(axis=(1, 2))
        >>> model = de.DistributionRegressor("mean", n_components=None, random_state=0).fit(bags, y)
        >>> print(model.explain(bags[:1]).bag_table(0).splitlines()[0])
        bag 0: prediction ..., reference ...
        """
        i = range(self.bags.n_bags)[i]
        title = f"bag {id_text(self.bags.ids, i)}: {self.what} {self.predictions[i]:.3g}"
        lines = [f"{title}, reference {self.reference_of(i):.3g}"] if self.column_names else [title]
        order = np.argsort(-np.abs(self.contributions[i]), kind="stable")
        if len(order):
            rows = [["column", "contribution", "error"]]
            for j in order[:_ROWS_SHOWN]:
                error = f"{self.errors[i, j]:.2g}" if self.errors[i, j] else "exact"
                rows.append([_short(self.column_names[j], 40), f"{self.contributions[i, j]:+.3g}", error])
            lines += _aligned(rows)
            if len(order) > _ROWS_SHOWN:
                lines.append(f"... {len(order) - _ROWS_SHOWN} more")
        if self.regions and self.regions[i]:
            rows = [["region", "share", "in training", "effect"]]
            for region in self.regions[i][:_REGIONS_SHOWN]:
                usual = "-" if np.isnan(region.training_share) else f"{region.training_share:.1%}"
                rows.append([_short(region.rule, 46), f"{region.share:.1%}", usual, f"{region.effect:+.3g}"])
            lines += _aligned(rows)
        return "\n".join(lines)

    def __repr__(self) -> str:
        title, rows, more = self._cells()
        if self.bags.n_bags == 1 and self.column_names:
            return f"{title}\n{self.bag_table(0)}"
        return "\n".join([title, *_aligned(rows), *([more] if more else [])])

    def _repr_html_(self) -> str:
        from ..compute.svg import html_table, sparkline

        title, (header, *rows), more = self._cells()
        for i, row in enumerate(rows):
            values = self.of(i)
            row.append(sparkline(np.histogram(values, 24)[0], f"values of the points of bag {row[0]}"))
        return html_table([*header, "values of points"], rows, title, more)

    def _names(self) -> tuple[str, ...]:
        return tuple(self.bags.named_parts().columns or ())

    def _bag(self, i: int) -> tuple[Array, Array, Array]:
        """Points, values and shares of bag i."""
        i = range(self.bags.n_bags)[i]
        rows = slice(self.bags.offsets[i], self.bags.offsets[i + 1])
        return self.bags.points[rows], self.points[rows], self.shares[rows]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def explain(
    model: Any,
    X: Any,
    *,
    output: Any = None,
    random_state: int | np.random.RandomState | None = None,
    covariates: Any = None,
    background: Any = None,
    progress: Progress = False,
) -> Explanation:
    r"""Explain predictions by columns, points and regions.

    Parameters
    ----------
    model : DistributionRegressor, DistributionClassifier or Pipeline
        Fitted. A pipeline is one of ``UnitCube`` (or none), ``HDDEmbedding`` or ``L2Embedding``,
        ``RandomFourierFeatures`` (or none) and a linear model with ``coef_``; its embedding has kernel density
        estimates of one bandwidth on a grid. It has maps and values of points, and knows no training bags.
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags, as in ``predict``.
    output : optional
        Of classifiers, the class whose probability is explained: by default the second of two, and of more the one that
        is predicted for each bag. Of regressors with several outputs, the number of the output, which must be given.
        Pipelines of a classifier explain its decision function.
    random_state : int, RandomState or None, default=None
        Draws the orders of columns, where there are more than four.
    covariates : table of n_bags rows, optional
        If ``fit`` had some, with the same columns.
    background : Bags or anything that :func:`distembed.as_bags` reads, optional
        Bags from which columns are taken, in place of the training bags that the model keeps: at most 16 of them, and
        200 points of each, are used. The reference is their mean prediction. For models without covariates.
    progress : bool, callable or object, default=False
        As in ``fit``.

    Returns
    -------
    Explanation

    Notes
    -----
    *Columns* that carry the same information share what they contribute. What others are replaced by is a draw from
    training bags that is independent of the rest: a column that matters by its dependence on another is seen, but
    mixed bags may be unlike any real one.

    *Points.* The value of point i is v_i = ∂f/∂w_i, its share w_i of the bag being raised and all shares then divided
    by their sum. So Σ w_i v_i = 0, and where v_i is positive, more weight on the point raises the prediction. To first
    order, the prediction without point i is larger by -w_i v_i / (1 - w_i). Values are exact where a member is smooth:
    densities, mean maps, moments, histograms, codebooks and Fisher vectors before kernels and linear models. Quantiles,
    forests and landmarks go by differences for a point, a fifth, or a 32nd of the mass.

    *What it is not.* A derivative is about small changes. Leaving out a point far from all others is not one where
    powers of p are taken: the prediction changes by twice the first order for Hellinger, by another multiple for the
    other homogeneous distances, and for tv even the sign may differ. L2 is linear in p; there, and where other
    points are near, first order is close. And all of this is about the model, not about the world.

    *Where there is no density.* Slopes of √p have no limit at p = 0: a little mass where a bag has none changes any
    homogeneous distance much. Where p is less than 1e-3 of its maximum in the bag, the map has the slope of that
    density. Values of points are exact: mass of their own is all around them. A point of weight zero has the
    derivative at weight zero, which can be very large far from all others (there, densities count as 1e-16 of the
    maximum at least). L2 is linear in p and needs none of this. With ``KDE(boundary="none")`` kernels lose mass at
    faces; values of points account for it, and constants of the map then matter to them.

    *Points outside.* A point that the scaler moves to the face has the value of that place; one that it drops has the
    value 0, for it changes nothing. Without a scaler, points of weight zero outside of the cube have NaN.

    *Cost.* With d columns and the 16 training bags kept: 32 predictions of each bag for d = 2, 96 for 3, 224 for 4,
    16 (d - 1) for 5 and 6, and 8 (d - 1) for more, of bags with up to 200 more points; then one row of each view for
    each point. All of it is linear in points and bags. For 100 bags of 1,000 points in ten columns, the default takes
    about forty seconds of one core. Maps take two to four times as long as ``predict``, and 2 n_nodes numbers per bag.

    Examples
    --------
    The target is the share of points in [0.6, 0.7] of the first column; the second column is noise:

    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> share = rng.uniform(0, 0.4, size=100)
    >>> bags = rng.uniform(size=(100, 100, 2))
    >>> there = rng.uniform(size=(100, 100)) < share[:, None]
    >>> bags[..., 0] = np.where(there, 0.6 + 0.1 * bags[..., 0], bags[..., 0])
    >>> model = de.DistributionRegressor("hellinger-marginals, rbf", random_state=0).fit(bags, share)
    >>> why = model.explain(bags[:10])
    >>> bool(np.all(np.abs(why.contributions[:, 1]).mean() < 0.2 * np.abs(why.contributions[:, 0]).mean()))
    True
    >>> inside = (bags[0][:, 0] > 0.6) & (bags[0][:, 0] < 0.7)
    >>> bool(why.of(0)[inside].mean() > 0 > why.of(0)[~inside].mean())
    True
    """
    if isinstance(model, Pipeline):
        return _explain_pipeline(LinearPipeline.of(model, output), as_bags(X))
    if not hasattr(type(model), "fit_batches"):
        raise TypeError(
            f"explain(model=...): must be {SUPPORTED}, got {type(model).__name__}; of a search pass its best_estimator_"
        )
    check_is_fitted(model, "model_")
    if isinstance(X, EmbeddedBags):
        raise InputError("explain: X must be bags, got rows of an embedding, which have no points; pass the bags")
    bags, known = model._check_input(X, covariates)
    fitted: Model = model.model_
    refuse_empty(bags, f"{type(model).__name__}.explain")
    predicted = model.targets_.inside(fitted.outputs(bags, known))
    outputs, output, what = _outputs_of(model, predicted, output)
    kept = _background_of(model, background)
    with stages_of(progress, f"{type(model).__name__}.explain") as stages:
        game = game_of(model, bags, kept, random_state)
        parts: Contributions = contributions(game, bags, known, predicted, outputs, stages)
        found = map_of(fitted, bags, outputs)
        if found is None:
            values: PointValues = point_values(fitted, bags, known, outputs, stages)
            shares = bags.shares()
            shares = np.repeat(1 / bags.sizes, bags.sizes) if shares is None else shares
            maps: dict[str, Any] = {}
        else:
            values = PointValues(found.points, np.zeros_like(found.points))
            shares = found.shares
            maps = {"map": found.map, "density": found.density, "nodes": found.nodes}
        regions, places = find_regions(bags, np.asarray(values.values, np.float64), shares, outputs, kept.bags)
    own = predicted[np.arange(bags.n_bags), outputs]
    several = output is None and is_classifier(model)
    return Explanation(
        own.astype(bags.dtype), parts.reference if several else float(parts.reference[0]), parts.values,
        tuple(game.columns.names), parts.errors, values.values.astype(bags.dtype), values.errors.astype(bags.dtype),
        regions, places, shares, output, bags, what, **maps,
    )  # fmt: skip


def game_of(model: Any, bags: Bags, background: Background, random_state: Any) -> Game:
    """What is asked of a learner's columns, prepared for checked bags."""
    columns = Columns.of(model.model_, bags, model.encoder_)
    plan = Plan.of(len(columns), background.bags.n_bags, check_random_state(random_state))
    game = Game(model.model_, model.targets_, background, columns, plan)
    game.prepare(bags)
    return game


def _explain_pipeline(parts: LinearPipeline, bags: Bags) -> Explanation:
    """Maps and values of points; a pipeline knows no training bags."""
    predictions, found = parts.explain(bags)
    outputs = np.zeros(bags.n_bags, int)
    regions, places = find_regions(bags, np.asarray(found.points, np.float64), found.shares, outputs, None)
    nothing = np.empty((bags.n_bags, 0))
    return Explanation(
        predictions, float("nan"), nothing, (), nothing, found.points, np.zeros_like(found.points), regions,
        places, found.shares, parts.output, bags, parts.what, found.map, found.density, found.nodes,
    )  # fmt: skip


def map_of(model: Model, bags: Bags, outputs: Array) -> DensityMap | None:
    """The map of one density embedding before a linear model."""
    if not model.is_single or not isinstance(model.head, LinearHead) or not has_gradient(model.view.embedding):
        return None
    view = model.view
    if view.features is not None and not hasattr(view.features, "gradients"):
        return None

    def slopes_of(piece: Bags, rows: slice) -> Array:
        found = MemberSlopes(model, bags[rows], None, outputs[rows]).pull()
        assert found is not None
        return found

    return pull_back(view.scaler, view.embedding, bags, slopes_of)


def _background_of(model: Any, given: Any) -> Background:
    """The training bags that a model keeps, or other ones."""
    name = type(model).__name__
    if given is None:
        if model.background_ is None:
            raise InputError(
                f"{name}.explain: needs training bags, and the model has none: it comes from a file that was saved "
                "without them; pass some as background=bags"
            )
        kept: Background = model.background_
        return kept
    if model.encoder_ is not None:
        raise ValueError(f"{name}.explain(background=...): is for models without covariates; leave it out")
    bags = model._bags(given)
    return Background.of(model.model_, model.targets_, bags, None)


def _outputs_of(model: Any, predicted: Array, asked: Any) -> tuple[Array, Any, str]:
    """Which column of the predictions is explained for each bag, the output, and what this is in words."""
    n_bags = len(predicted)
    if not is_classifier(model):
        n = predicted.shape[1]
        if asked is None and n > 1:
            raise ValueError(
                f"explain(output=...): must be given for {n} outputs, got None; give the number of an output"
            )
        k = 0 if asked is None else check_number("explain", "output", asked, low=0, high=n - 1, integer=True)
        return np.full(n_bags, k), asked, "prediction" if asked is None else f"prediction of output {asked}"
    classes = model.classes_
    kind = "probability" if model.model_.has_probabilities else "score"
    if asked is None and len(classes) > 2:
        return predicted.argmax(axis=1), None, f"{kind} of the predicted class"
    label = classes[1] if asked is None else one_class(asked, classes)
    if label is None:
        named = ", ".join(repr(np.asarray(each).item()) for each in classes)
        raise ValueError(f"explain(output=...): must be one of the classes {named}, got {asked!r}; choose one of them")
    k = classes.tolist().index(label)
    label = np.asarray(label).item()
    return np.full(n_bags, k), label, f"{kind} of class {label!r}"
