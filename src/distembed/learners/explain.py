r"""Which points made a prediction what it is: its gradient in the density, as a map, and a value for every point.

A prediction is a function of the bag's density on the nodes, f(p) = b·z(A(p)) + c: lambda functions and projection,
A_kα = Σ_u v_u φ_α(u) ψ_k(p(u)), random features z, and a linear model. Its gradient g, with

.. math:: δf = \int g(u)\, δp(u)\, du,

is carried backwards, one vector per bag and stage and never a Jacobian:

.. math:: b \;\to\; \frac{∂f}{∂A} = \Big(\frac{∂z}{∂A}\Big)^T b \;\to\; h_k(u) = \sum_α φ_α(u) \frac{∂f}{∂A_{kα}}
          \;\to\; g(u) = \sum_k ψ_k'(p(u))\, h_k(u) \;\to\; \int K_h(u, x_i)\, g(u)\, du \text{ at the points.}

A bag has mass one and can only move mass from one place to another: differences of g are what matters, and it is given
less its mean under p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags, as_bags
from ..bags.estimators import check_bags
from ..bags.ids import id_text
from ..compute.arrays import Array, outside_rows
from ..compute.checks import Argument, Message, check_number
from ..density.nodes import GridNodes
from ..embeddings import HDDEmbedding, L2Embedding, Views
from ..embeddings.gradients import DensityGradient
from ..features import RandomFourierFeatures
from ..features.exact_kernel import KernelFeatures
from ..features.sums import SumFeatures
from ..scaling import UnitCube
from .classes import one_class
from .model import Model

__all__ = ["Explanation", "explain"]

_ROWS_SHOWN = 12
_PIECE_VALUES = 2**22  # features at a time
_LEAST_ROWS = 64  # below that products with frequencies slow down
_SUPPORTED = (
    "a fitted DistributionRegressor or DistributionClassifier, or a Pipeline of UnitCube (or none), HDDEmbedding or "
    "L2Embedding, RandomFourierFeatures (or none) and a linear model with coef_"
)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Answer of :func:`explain`; prints as a table.

    Attributes
    ----------
    map : ndarray of shape (n_bags, g_1, ..., g_l)
        g on the nodes, less its mean under the bag's density: how the prediction changes with mass that is put there,
        in units of the prediction for a share of one. Stretching the axes does not change it.
    density : ndarray of shape (n_bags, g_1, ..., g_l)
        p on the nodes, of mean one: the map means most where this is large, and ``map * density`` has the mean zero.
    nodes : tuple of l ndarrays of shape (g_j,)
        The axes of the grid in the units of the points.
    points : ndarray of shape (n_points,)
        The value of each point, in the order of ``bags.points``.
    shares : ndarray of shape (n_points,)
        w, the weight of each point divided by the sum of its bag; zero for points that the scaler drops.
    predictions : ndarray of shape (n_bags,)
        What is explained: the prediction, or the decision function of the class.
    output : object
        The class, or the number of the output.
    bags : Bags
        As they were passed.
    what : str
        What is explained, in words, for titles: the prediction, or the score of which class.

    Examples
    --------
    >>> from distembed import HDDEmbedding
    >>> from distembed.learners.explain import explain
    >>> from distembed.models.ridge import LinearRidge
    >>> from sklearn.pipeline import make_pipeline
    >>> bags = np.random.default_rng(0).beta([[2.0]], [[[1.0]], [[2.0]], [[3.0]]], size=(3, 50, 1))
    >>> model = make_pipeline(HDDEmbedding(n_basis=5), LinearRidge(0.01)).fit(bags, [1.0, 2.0, 3.0])
    >>> found = explain(model, bags)
    >>> found.map.shape == (3, len(found.nodes[0])), found.points.shape
    (True, (150,))
    >>> found.top(0, 3).dtype.names
    ('point', 'x0', 'weight', 'value', 'change')
    """

    map: Array
    density: Array
    nodes: tuple[Array, ...]
    points: Array
    shares: Array
    predictions: Array
    output: Any
    bags: Bags
    what: str = "prediction"

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

    def plot(self, i: int, ax: Any = None) -> Any:
        """Draw the map of bag i and the values of its points; needs ``pip install 'distembed[plot]'``.

        Parameters
        ----------
        i : int
            Position of the bag.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib Axes
            See :func:`distembed.plot.explanation`.
        """
        from ..plot import explanation

        return explanation(self, i, ax=ax)

    def _cells(self) -> tuple[str, list[list[str]], str]:
        """Title, rows with their header, and what is left out."""
        n_bags = self.bags.n_bags
        shown = min(self.bags.n_bags, _ROWS_SHOWN)
        rows = [["bag", "prediction", "lowest value", "at", "highest value", "at"]]
        for i in range(shown):
            points, values, weights = self._bag(i)
            cells = [id_text(self.bags.ids, i), f"{self.predictions[i]:.4g}"]
            there = np.flatnonzero(weights > 0)
            for k in (there[values[there].argmin()], there[values[there].argmax()]):
                cells += [f"{values[k]:.3g}", "(" + ", ".join(f"{x:.4g}" for x in points[k]) + ")"]
            rows.append(cells)
        grid = " x ".join(str(len(axis)) for axis in self.nodes)
        title = f"Explanation of the {self.what}, {n_bags} {'bag' if n_bags == 1 else 'bags'}, on {grid} nodes"
        return title, rows, f"... {n_bags - shown} more" if n_bags > shown else ""

    def __repr__(self) -> str:
        title, rows, more = self._cells()
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([title, *lines, *([more] if more else [])])

    def _repr_html_(self) -> str:
        from ..compute.svg import html_table, sparkline

        title, (header, *rows), more = self._cells()
        for i, row in enumerate(rows):
            row.append(sparkline(np.histogram(self.of(i), 24)[0], f"values of the points of bag {row[0]}"))
        return html_table([*header, "values of points"], rows, title, more)

    def _names(self) -> tuple[str, ...]:
        return tuple(self.bags.named_parts().columns or ())

    def _bag(self, i: int) -> tuple[Array, Array, Array]:
        """Points, values and shares of bag i."""
        i = range(self.bags.n_bags)[i]
        rows = slice(self.bags.offsets[i], self.bags.offsets[i + 1])
        return self.bags.points[rows], self.points[rows], self.shares[rows]


@dataclass(frozen=True, eq=False)
class ViewExplanation:
    """What each view adds to the predictions of bags.

    Attributes
    ----------
    names : tuple of str
        Of the views.
    contributions : ndarray of shape (n_bags, n_views)
        Parts of the predictions, less their means over these bags: they and ``constant`` add up to ``predictions``.
    constant : float
        Mean of the predictions.
    predictions : ndarray of shape (n_bags,)
    what : str
        What is predicted.
    """

    names: tuple[str, ...]
    contributions: Array
    constant: float
    predictions: Array
    what: str

    def __repr__(self) -> str:
        spread = self.contributions.std(axis=0)
        total = float(np.sum(spread)) or 1.0
        rows = [
            f"{name:<{max(map(len, self.names))}}  {one:10.4g}  {one / total:6.1%}"
            for name, one in zip(self.names, spread, strict=True)
        ]
        title = f"What views add to the {self.what} of {len(self.predictions)} bags: deviation, and its share"
        return "\n".join([title, *rows])


def explain(model: Any, X: Any, *, output: Any = None) -> Any:
    r"""Tell which points, and which places, make the predictions for bags what they are.

    Parameters
    ----------
    model : DistributionRegressor, DistributionClassifier or Pipeline
        Fitted. A pipeline is one of ``UnitCube`` (or none), ``HDDEmbedding`` or ``L2Embedding``,
        ``RandomFourierFeatures`` (or none) and a linear model with ``coef_``, such as ``LinearRidge``, ``Ridge``,
        ``LogisticRegression`` or ``LinearSVC``. The embedding has kernel density estimates of one bandwidth on a grid,
        which is the default up to three dimensions.
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of continuous columns, as in ``predict``.
    output : optional
        Of classifiers, the class whose decision function is explained; of two classes by default the second. Of
        regressors with several outputs, the number of the output.

    Returns
    -------
    Explanation
        ``map`` and ``density`` over the cube, ``points``, a value for each point, and ``predictions``. Of a learner of
        :class:`~distembed.Views` a ``ViewExplanation``: what each view adds to predictions.

    Notes
    -----
    *Points.* The value of point i is v_i = ∂f/∂w_i, its share w_i of the bag being raised and all shares then divided
    by their sum: v_i = ∫ K_h(u, x_i) g(u) du - Σ_j w_j ∫ K_h(u, x_j) g(u) du. So Σ w_i v_i = 0, and
    where v_i is positive, more weight on the point raises the prediction. To first order, the prediction without point
    i is larger by -w_i v_i / (1 - w_i).

    *What it is not.* A derivative tells of small changes, and to leave out a point far from all others is none where
    powers of p are taken: the prediction changes by twice the first order for Hellinger, by another multiple for the
    other homogeneous distances, and for tv even the sign may differ. L2 is linear in p; there, and where other
    points are near, first order is close. And map and values are the model's: one of many random features and little
    penalty may predict well by wiggles for which bags give no reason, mostly where densities are low and roots steep.
    Values of points are averages over a kernel and have less of them than the map.

    *Where there is no density.* Slopes of √p have no limit at p = 0: a little mass where a bag has none changes any
    homogeneous distance much. Where p is less than 1e-3 of its maximum in the bag, the map has the slope of that
    density. Values of points are exact: mass of their own is all around them. A point of weight zero has the
    derivative at weight zero, which can be very large far from all others (there, densities count as 1e-16 of the
    maximum at least). L2 is linear in p and needs none of this. With ``KDE(boundary="none")`` kernels lose mass at
    faces; values of points account for it, and constants of the map then matter to them.

    *Points outside.* A point that the scaler moves to the face has the value of that place; one that it drops has the
    value 0, for it changes nothing. Without a scaler, points of weight zero outside of the cube have NaN.

    *Cost.* About two to four times that of ``predict`` (one core, one to three dimensions, D up to 5,000): the way
    forward, and back again one product with the transposed frequencies, n_bags m D operations for m features of the
    embedding (by fast transforms where frequencies are Hadamard's), densities and lambda functions once more, the
    projection transposed, and 2^l operations per point. All is computed in float64, float32 bags included. Memory: the
    result, of 2 n_nodes values per bag, the scaled points, and pieces of bounded size.

    Examples
    --------
    Bags are uniform but for some points in [0.6, 0.7], whose share is to be learned:

    >>> from distembed import HDDEmbedding
    >>> from distembed.learners.explain import explain
    >>> from distembed.models.ridge import LinearRidge
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> share = rng.uniform(0, 0.4, size=100)
    >>> bags = rng.uniform(size=(100, 200, 1))
    >>> bags = np.where(rng.uniform(size=bags.shape) < share[:, None, None], 0.6 + 0.1 * bags, bags)
    >>> model = make_pipeline(HDDEmbedding("hellinger"), LinearRidge(0.1)).fit(bags, share)
    >>> found = explain(model, bags[:5])
    >>> bool(0.6 < found.nodes[0][found.map[0].argmax()] < 0.7)
    True
    >>> inside = ((bags[0] > 0.6) & (bags[0] < 0.7)).ravel()
    >>> bool(found.of(0)[inside].min() > 0 > found.of(0)[~inside].mean())
    True
    """
    explained = _Explained.of(model, output)
    bags = as_bags(X)
    if isinstance(explained.embedding, Views):
        return _explain_views(explained, bags)
    if bags.categories is not None:
        said = f"explain: X must have continuous columns only, got the categorical columns {list(bags.category_labels)}"
        raise ValueError(Message(f"{said}; read the bags without ", Argument("categorical")))
    scaler = explained.scaler
    embedding = explained.embedding
    scaled = check_bags(embedding, bags, reset=False) if scaler is None else scaler.transform(bags)
    shares = scaled.shares()
    shares = np.repeat(1 / scaled.sizes, scaled.sizes) if shares is None else shares
    density_gradient = DensityGradient(embedding)
    found_map, density = (np.empty((bags.n_bags, *embedding.nodes_.shape), bags.dtype) for _ in range(2))
    values = np.empty(scaled.n_points, bags.dtype)
    predictions = np.empty(bags.n_bags, bags.dtype)
    for rows in explained.pieces(bags.n_bags):
        piece = scaled[rows].astype(np.float64)
        predictions[rows], slopes = explained.gradient(piece)
        own = slice(scaled.offsets[rows.start], scaled.offsets[rows.stop])
        density_gradient(piece, slopes, shares[own], found_map[rows], density[rows], values[own])
    if scaler is not None and scaled.n_points < bags.n_points:  # it dropped some
        kept = ~outside_rows(bags.points, scaler.low_, scaler.high_)
        place = np.cumsum(kept) - 1
        values, shares = (np.where(kept, each[place], 0.0) for each in (values, shares))
    axes = explained.axes()
    output = explained.output
    return Explanation(found_map, density, axes, values, shares, predictions, output, bags, explained.what)


def _explain_views(explained: _Explained, bags: Bags) -> ViewExplanation:
    """What each view adds to predictions: sums of kernels make sums of predictions."""
    embedding = explained.embedding
    features = explained.features
    scaled = bags if explained.scaler is None else explained.scaler.transform(bags)
    rows = np.asarray(embedding.transform(scaled), np.float64)
    if features is None:
        parts = np.add.reduceat(rows * explained.coef, np.cumsum((0, *embedding.widths_[:-1])), axis=1)
    else:
        parts = features.contributions(rows, explained.coef)
    predictions = parts.sum(axis=1) + explained.intercept
    return ViewExplanation(
        tuple(embedding.views), parts - parts.mean(axis=0), float(predictions.mean()), predictions, explained.what
    )


@dataclass(frozen=True)
class _Explained:
    """What a model is made of, and the row of its linear model that is explained."""

    scaler: Any
    embedding: Any
    features: Any
    linear: Any
    coef: Array  # (n_components,)
    intercept: float
    output: Any
    what: str

    @classmethod
    def of(cls, model: Any, output: Any) -> _Explained:
        if hasattr(type(model), "fit_batches"):  # a learner
            check_is_fitted(model, "model_")
        learner = isinstance(getattr(model, "model_", None), Model)
        if learner:
            view = model.model_.view
            steps = [view.scaler, view.embedding, view.features, getattr(model.model_.head, "model_", None)]
        elif isinstance(model, Pipeline):
            steps = [step for _, step in model.steps]
        else:
            raise TypeError(
                f"explain(model=...): must be {_SUPPORTED}, got {type(model).__name__}; of a search pass its "
                "best_estimator_"
            )
        steps = [step for step in steps if step is not None and not isinstance(step, str)]  # "passthrough"
        first = steps[:-1]
        linear = steps[-1] if steps else None
        scaler = first.pop(0) if first and isinstance(first[0], UnitCube) else None
        embedding = first.pop(0) if first and isinstance(first[0], HDDEmbedding | L2Embedding | Views) else None
        kinds = RandomFourierFeatures | KernelFeatures | SumFeatures
        features = first.pop(0) if first and isinstance(first[0], kinds) else None
        if embedding is None or first:
            named = ", ".join(type(step).__name__ for step in steps)
            raise ValueError(f"explain(model=...): must be {_SUPPORTED}, got one of {named}; fit such a model")
        for step in steps:
            check_is_fitted(step)
        if not isinstance(embedding, Views):
            _check_embedding(embedding)
        if not hasattr(linear, "coef_"):
            raise ValueError(
                f"explain(model=...): must end with a linear model with coef_, got {type(linear).__name__}; use "
                "LinearRidge, LogisticRegression or LinearSVC"
            )
        classes = getattr(model if learner else linear, "classes_", None)
        rows, intercepts = _linear_rows(linear)
        if classes is None:
            row, intercept = _of_output(rows, intercepts, output)
            what = "prediction" if output is None else f"prediction of output {output}"
        else:
            row, intercept, output = _of_class(rows, intercepts, list(classes), output)
            what = f"score of class {output!r}"
        return cls(scaler, embedding, features, linear, row, intercept, output, what)

    def pieces(self, n_bags: int) -> list[slice]:
        """Bags whose features are computed at a time."""
        step = max(_LEAST_ROWS, _PIECE_VALUES // max(len(self.coef), self.embedding.stages_.n_features))
        return [slice(i, min(i + step, n_bags)) for i in range(0, n_bags, step)]

    def gradient(self, bags: Bags) -> tuple[Array, Array]:
        """Predictions (n_bags,) for scaled bags, and their gradients in the embedding's features (n_bags, m)."""
        A = self.embedding.transform(bags)
        features = self.features
        Z = A if features is None else features.transform(A)
        self._check_linear(Z[:4])
        z = np.asarray(Z)
        predictions = z @ self.coef + self.intercept
        if features is None:
            return predictions, np.broadcast_to(self.coef, z.shape)
        return predictions, features.gradients(np.asarray(A), z, self.coef)

    def _check_linear(self, Z: Any) -> None:
        """Refuse models that are more than linear in their features: Poisson regression has coef_, too."""
        score = getattr(self.linear, "decision_function", self.linear.predict)
        rows, intercepts = _linear_rows(self.linear)
        expected = np.asarray(Z) @ rows.T + intercepts
        found = np.asarray(score(Z), np.float64).reshape(len(Z), -1)
        slack = 1e-6 * np.max(np.abs(expected))
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-6, atol=slack):
            raise ValueError(
                "explain(model=...): must predict coef_ times features plus intercept_, got "
                f"{type(self.linear).__name__}, which does not; use LinearRidge, LogisticRegression or LinearSVC"
            )

    def axes(self) -> tuple[Array, ...]:
        """Axes of the grid in the units of the points."""
        axes = self.embedding.nodes_.axes
        scaler = self.scaler
        if scaler is None:
            return tuple(axes)
        found = []
        names = getattr(scaler, "feature_names_in_", None)
        for j, axis in enumerate(axes):
            line = np.full((len(axis), len(axes)), 0.5)
            line[:, j] = axis
            found.append(scaler.inverse_transform(Bags(line, [0, len(axis)], columns=names)).points[:, j])
        return tuple(found)


def _check_embedding(embedding: Any) -> None:
    """Refuse, with a remedy, embeddings whose gradient is not known."""
    name = type(embedding).__name__
    rule = "explain(model=...): needs kernel density estimates of one bandwidth on a grid"
    if embedding.stages_.cells is not None:
        said = f"explain(model=...): must be of continuous columns only, got {name} of bags with categorical columns"
        raise ValueError(Message(f"{said}; fit it to bags without ", Argument("categorical")))
    if embedding.nodes_ is None:
        raise ValueError(f"{rule}, got {name}(method={embedding.method!r}); use method='density'")
    if not isinstance(embedding.nodes_, GridNodes):
        raise ValueError(f"{rule}, got scattered nodes in {name}; use nodes=Grid(), for at most three dimensions")
    if not embedding.stages_.smooths_bins:
        raise ValueError(f"{rule}, got {name}(density={embedding.density!r}); use density='kde'")


def _linear_rows(linear: Any) -> tuple[Array, Array]:
    """Coefficients (n_outputs, n_components) and intercepts (n_outputs,) of a linear model."""
    coef = linear.coef_.toarray() if issparse(linear.coef_) else linear.coef_
    rows = np.atleast_2d(np.asarray(coef, np.float64))
    return rows, np.broadcast_to(np.ravel(np.asarray(linear.intercept_, np.float64)), len(rows))


def _of_output(rows: Array, intercepts: Array, output: Any) -> tuple[Array, float]:
    remedy = "give the number of an output"
    if output is None and len(rows) > 1:
        raise ValueError(f"explain(output=...): must be given for {len(rows)} outputs, got None; {remedy}")
    k = 0 if output is None else check_number("explain", "output", output, low=0, high=len(rows) - 1, integer=True)
    return rows[k], float(intercepts[k])


def _of_class(rows: Array, intercepts: Array, classes: list[Any], output: Any) -> tuple[Array, float, Any]:
    two = len(classes) == 2
    asked = classes[1] if two and output is None else output
    output = None if asked is None else one_class(asked, classes)
    if output is None:
        named = ", ".join(repr(np.asarray(label).item()) for label in classes)
        why = ", and only of two classes is one explained without being named" if asked is None else ""
        raise ValueError(
            f"explain(output=...): must be one of the classes {named}, got {asked!r}{why}; choose one of them"
        )
    if two and len(rows) == 1:  # the decision function of the second class, minus that of the first
        rows = np.vstack([-rows, rows])
        intercepts = np.append(-intercepts, intercepts)
    elif two:  # ridge regression on columns of 0 and 1
        rows = rows - rows[::-1]
        intercepts = intercepts - intercepts[::-1]
    k = classes.index(output)
    return rows[k], float(intercepts[k]), np.asarray(output).item()
