r"""Which points made a prediction what it is: its gradient in the density, as a map, and a value for every point.

A prediction is a function of the bag's density on the nodes, f(p) = b·z(A(p)) + c: lambda functions and projection,
A_kα = Σ_u v_u φ_α(u) ψ_k(p(u)), random features z, and a linear model. Its gradient g, with

.. math:: δf = \int g(u)\, δp(u)\, du,

is carried backwards, one vector a bag and stage and never a Jacobian:

.. math:: b \;\to\; \frac{∂f}{∂A} = \Big(\frac{∂z}{∂A}\Big)^T b \;\to\; h_k(u) = \sum_α φ_α(u) \frac{∂f}{∂A_{kα}}
          \;\to\; g(u) = \sum_k ψ_k'(p(u))\, h_k(u) \;\to\; \int K_h(u, x_i)\, g(u)\, du \text{ at the points.}

A bag has mass one and can only move mass from one place to another: differences of g are what matters, and it is given
less its mean under p.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._base import check_number
from ._hadamard import HadamardProjection
from ._learner import Learner
from ._monotone import outside_rows
from ._parallel import Scratch, bag_chunks, run_chunks
from ._separable import bags_first, contract
from .bags import Bags, as_bags
from .density import KDE, GridKDE
from .embeddings import HDDEmbedding, L2Embedding
from .nodes import GridNodes
from .random_features import RandomFourierFeatures, _row_chunks
from .scaling import UnitCube

__all__ = ["Explanation", "explain"]

Array = NDArray[Any]

MAP_FLOOR = 1e-3  # of a bag's largest density: the map has the slope of this density where there is less
POINT_FLOOR = 1e-16  # the same for the values of points, which are exact wherever there is any density to speak of
_PIECE_VALUES = 2**22  # features at a time
_LEAST_ROWS = 64  # below that products with frequencies slow down
_BLOCK_POINTS = 2**16
_ROWS_SHOWN = 12
_SUPPORTED = (
    "a fitted DistributionRegressor or DistributionClassifier, or a Pipeline of UnitCube (or none), HDDEmbedding or "
    "L2Embedding, RandomFourierFeatures (or none) and a linear model with coef_"
)


def explain(model: Any, X: Any, *, output: Any = None) -> Explanation:
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
        ``map`` over the cube, ``points``, a value for each point, and ``predictions``.

    Notes
    -----
    *Points.* The value of point i is v_i = ∂f/∂w_i, its share w_i of the bag being raised and all shares then divided
    by their sum: v_i = ∫ K_h(u, x_i) g(u) du - Σ_j w_j ∫ K_h(u, x_j) g(u) du. So Σ w_i v_i = 0: positive points raise
    the prediction above what the bag would have if its mass lay as it lies on average. To first order, without point i
    the prediction is larger by -w_i v_i / (1 - w_i).

    *What it is not.* A derivative tells of small changes, and to leave out a point far from all others is none where
    powers of p are taken: it changes the prediction by twice the first order for Hellinger, by more or less than that
    for the other homogeneous distances, and for tv even the sign may differ. L2 is linear in p; there, and where other
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

    *Cost.* Two to four times that of ``predict`` (one core, one to three dimensions, D up to 5,000): the way forward,
    and back again one product with the transposed frequencies, n_bags m D operations for m features of the embedding
    (by fast transforms where frequencies are Hadamard's), densities and lambda functions once more, the projection
    transposed, and 2^l operations a point. All is computed in float64, float32 bags included. Memory: the result, of
    n_nodes values a bag, and pieces of bounded size.

    Examples
    --------
    Bags are uniform but for some points in [0.6, 0.7], whose share is to be learned:

    >>> from distembed import HDDEmbedding
    >>> from distembed.explain import explain
    >>> from distembed.linear import LinearRidge
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
    stages = _Stages.of(model, output)
    bags = as_bags(X)
    if bags.categories is not None:
        raise ValueError(
            f"explain: X must have continuous columns only, got the categorical columns {list(bags.category_labels)}; "
            "leave them out of model and bags: Bags.from_frame(..., columns=[...])"
        )
    scaler, embedding = stages.scaler, stages.embedding
    scaled = embedding._check_bags(bags, reset=False) if scaler is None else scaler.transform(bags)
    shares = scaled._shares()
    shares = np.repeat(1 / scaled.sizes, scaled.sizes) if shares is None else shares
    backward = _Backward(embedding)
    found_map = np.empty((bags.n_bags, *embedding.nodes_.shape), bags.dtype)
    values, predictions = np.empty(scaled.n_points, bags.dtype), np.empty(bags.n_bags, bags.dtype)
    for rows in stages.pieces(bags.n_bags):
        piece = scaled[rows].astype(np.float64)
        predictions[rows], slopes = stages.gradient(piece)
        own = slice(scaled.offsets[rows.start], scaled.offsets[rows.stop])
        backward(piece, slopes, shares[own], found_map[rows], values[own])
    if scaler is not None and scaled.n_points < bags.n_points:  # it dropped some
        kept = ~outside_rows(bags.points, scaler.low_, scaler.high_)
        values, shares = (_spread(each, kept) for each in (values, shares))
    return Explanation(found_map, stages.axes(), values, shares, predictions, stages.output, bags)


# --------------------------------------------------------------------------------------------------------------
# The answer
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Answer of :func:`explain`; prints as a table.

    Attributes
    ----------
    map : ndarray of shape (n_bags, g_1, ..., g_l)
        g on the nodes, less its mean under the bag's density: how the prediction changes with mass that is put there,
        in units of the prediction for a share of one. Stretching the axes does not change it.
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

    Examples
    --------
    >>> from distembed import HDDEmbedding
    >>> from distembed.explain import explain
    >>> from distembed.linear import LinearRidge
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
    nodes: tuple[Array, ...]
    points: Array
    shares: Array
    predictions: Array
    output: Any
    bags: Bags

    def of(self, i: int) -> Array:
        """Values of the points of bag i, ndarray of shape (n_i,)."""
        return self.points[self.bags._span(i)]

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
        kinds = [(name, points.dtype) for name in names]
        kinds = [("point", np.dtype(np.int64)), *kinds, *((name, np.dtype(float)) for name in others[1:])]
        table = np.empty(len(order), dtype=kinds)
        columns = [order, *points[order].T, weights[order], values[order], change[order]]
        for name, column in zip(table.dtype.names or (), columns, strict=True):
            table[name] = column
        return table

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
            One dimension: the map as a curve, and the points at their values. Two: the map in colours, red where mass
            raises the prediction and blue where it lowers it, and the points in the colours of their values, of which
            the largest has the deepest colour: the map may exceed it where the bag has little density.
        """
        points, values, weights = self._bag(i)
        if len(self.nodes) > 2:
            raise ValueError(
                f"Explanation.plot: draws one or two dimensions, got {len(self.nodes)}; draw a cut such as "
                "map[i][:, :, k], or look at top(i)"
            )
        try:
            pyplot = importlib.import_module("matplotlib.pyplot")
        except ImportError as error:
            raise ImportError("Explanation.plot needs matplotlib: pip install 'distembed[plot]'") from error
        if ax is None:
            ax = pyplot.subplots()[1]
        names, heights = self._names(), self.map[i]
        sizes = 12 + 60 * weights / weights.max() * min(1.0, 30 / len(weights))
        if len(self.nodes) == 1:
            ax.axhline(0, color="0.8", linewidth=1)
            ax.plot(self.nodes[0], heights, color="0.3")
            ax.scatter(points[:, 0], values, s=sizes, color="C3", zorder=3)
            ax.set(xlabel=names[0], ylabel="change of the prediction with mass")
        else:
            most = float(np.max(np.abs(values[weights > 0]))) or 1.0
            colours = {"cmap": "RdBu_r", "vmin": -most, "vmax": most}
            mesh = ax.pcolormesh(self.nodes[0], self.nodes[1], heights.T, shading="nearest", **colours)
            shown = weights > 0
            ax.scatter(*points[shown].T, s=sizes[shown], c=values[shown], edgecolors="0.2", linewidths=0.5, **colours)
            ax.figure.colorbar(mesh, ax=ax, label="change of the prediction with mass")
            ax.set(xlabel=names[0], ylabel=names[1])
        ax.set_title(f"bag {self.bags.ids[i]}: {self.predictions[i]:.4g}")
        return ax

    def __repr__(self) -> str:
        n_bags, shown = self.bags.n_bags, min(self.bags.n_bags, _ROWS_SHOWN)
        rows = [["bag", "prediction", "lowest value", "at", "highest value", "at"]]
        for i in range(shown):
            points, values, weights = self._bag(i)
            cells = [str(self.bags.ids[i]), f"{self.predictions[i]:.4g}"]
            there = np.flatnonzero(weights > 0)
            for k in (there[values[there].argmin()], there[values[there].argmax()]):
                cells += [f"{values[k]:.3g}", "(" + ", ".join(f"{x:.4g}" for x in points[k]) + ")"]
            rows.append(cells)
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        what = "" if self.output is None else f" of output {self.output!r}"
        grid = " x ".join(str(len(axis)) for axis in self.nodes)
        title = f"Explanation of {n_bags} predictions{what}, on {grid} nodes"
        return "\n".join([title, *lines, *([f"... {n_bags - shown} more"] if n_bags > shown else [])])

    def _names(self) -> tuple[str, ...]:
        return tuple(self.bags._named().columns or ())

    def _bag(self, i: int) -> tuple[Array, Array, Array]:
        """Points, values and shares of bag i."""
        rows = self.bags._span(i)
        return self.bags.points[rows], self.points[rows], self.shares[rows]


# --------------------------------------------------------------------------------------------------------------
# From bags to predictions, and back to the features of the embedding
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stages:
    """What a model is made of, and the row of its linear model that is explained."""

    scaler: UnitCube | None
    embedding: Any
    features: RandomFourierFeatures | None
    linear: Any
    coef: Array  # (n_components,)
    intercept: float
    output: Any

    @classmethod
    def of(cls, model: Any, output: Any) -> _Stages:
        if isinstance(model, Learner):
            check_is_fitted(model, "model_")
            steps = [model.scaler_, model.embedding_, model.features_, model.model_]
        elif isinstance(model, Pipeline):
            steps = [step for _, step in model.steps]
        else:
            raise TypeError(
                f"explain(model=...): must be {_SUPPORTED}, got {type(model).__name__}; of a search pass its "
                "best_estimator_"
            )
        steps = [step for step in steps if step is not None and not isinstance(step, str)]  # "passthrough"
        first, linear = steps[:-1], steps[-1] if steps else None
        scaler = first.pop(0) if first and isinstance(first[0], UnitCube) else None
        embedding = first.pop(0) if first and isinstance(first[0], HDDEmbedding | L2Embedding) else None
        features = first.pop(0) if first and isinstance(first[0], RandomFourierFeatures) else None
        if embedding is None or first:
            named = ", ".join(type(step).__name__ for step in steps)
            raise ValueError(f"explain(model=...): must be {_SUPPORTED}, got one of {named}; fit such a model")
        for step in steps:
            check_is_fitted(step)
        _check_embedding(embedding)
        if not hasattr(linear, "coef_"):
            raise ValueError(
                f"explain(model=...): must end with a linear model with coef_, got {type(linear).__name__}; use "
                "LinearRidge, LogisticRegression or LinearSVC"
            )
        classes = getattr(model if isinstance(model, Learner) else linear, "classes_", None)
        rows, intercepts = _linear_rows(linear)
        if classes is None:
            row, intercept = _of_output(rows, intercepts, output)
        else:
            row, intercept, output = _of_class(rows, intercepts, list(classes), output)
        return cls(scaler, embedding, features, linear, row, intercept, output)

    def pieces(self, n_bags: int) -> list[slice]:
        """Bags whose features are computed at a time."""
        step = max(_LEAST_ROWS, _PIECE_VALUES // max(len(self.coef), self.embedding._n_features_out))
        return [slice(i, min(i + step, n_bags)) for i in range(0, n_bags, step)]

    def gradient(self, bags: Bags) -> tuple[Array, Array]:
        """Predictions (n_bags,) for scaled bags, and their gradients in the embedding's features (n_bags, m)."""
        A = self.embedding.transform(bags)
        Z = A if self.features is None else self.features.transform(A)
        self._check_linear(Z[:4])
        z = np.asarray(Z)
        predictions = z @ self.coef + self.intercept
        if self.features is None:
            return predictions, np.broadcast_to(self.coef, z.shape)
        return predictions, _through_waves(self.features, np.asarray(A), z, self.coef)

    def _check_linear(self, Z: Any) -> None:
        """Refuse models that are more than linear in their features: Poisson regression has coef_, too."""
        score = getattr(self.linear, "decision_function", self.linear.predict)
        rows, intercepts = _linear_rows(self.linear)
        expected, found = np.asarray(Z) @ rows.T + intercepts, np.asarray(score(Z), np.float64).reshape(len(Z), -1)
        slack = 1e-6 * np.max(np.abs(expected))
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-6, atol=slack):
            raise ValueError(
                "explain(model=...): must predict coef_ times features plus intercept_, got "
                f"{type(self.linear).__name__}, which does not; use LinearRidge, LogisticRegression or LinearSVC"
            )

    def axes(self) -> tuple[Array, ...]:
        """Axes of the grid in the units of the points."""
        axes = self.embedding.nodes_.axes
        if self.scaler is None:
            return tuple(axes)
        found = []
        for j, axis in enumerate(axes):
            line = np.full((len(axis), len(axes)), 0.5)
            line[:, j] = axis
            found.append(self.scaler.inverse_transform(Bags(line, [0, len(axis)])).points[:, j])
        return tuple(found)


def _check_embedding(embedding: Any) -> None:
    """Refuse, with a remedy, embeddings whose gradient is not known."""
    name = type(embedding).__name__
    rule = "explain(model=...): needs kernel density estimates of one bandwidth on a grid"
    if embedding._cells is not None:
        raise ValueError(
            f"explain(model=...): must be of continuous columns only, got {name} of bags with categorical columns; fit "
            "it without them: Bags.from_frame(..., columns=[...])"
        )
    if embedding.nodes_ is None:
        raise ValueError(f"{rule}, got {name}(method={embedding.method!r}); use method='density'")
    if not isinstance(embedding.nodes_, GridNodes):
        raise ValueError(f"{rule}, got scattered nodes in {name}; use nodes=Grid(), for at most three dimensions")
    if type(embedding._density) is not KDE or embedding._own_bandwidths:
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
    if len(classes) == 2:
        if len(rows) == 2:  # ridge regression on columns of 0 and 1
            rows, intercepts = rows[1:] - rows[:1], intercepts[1:] - intercepts[:1]
        output = classes[1] if output is None else output
    if output not in classes:
        named = ", ".join(repr(np.asarray(label).item()) for label in classes)
        raise ValueError(f"explain(output=...): must be one of the classes {named}, got {output!r}; choose one of them")
    if len(classes) == 2:
        sign = 1.0 if output == classes[1] else -1.0
        return sign * rows[0], sign * float(intercepts[0]), np.asarray(output).item()
    k = classes.index(output)
    return rows[k], float(intercepts[k]), np.asarray(output).item()


def _through_waves(features: RandomFourierFeatures, A: Array, Z: Array, coef: Array) -> Array:
    """Gradients (n_rows, m) of Z coef in the rows A, of which Z are the random features."""
    n_components, scratch = len(coef), Scratch()
    if features._paired:  # the derivative of a sine is its cosine, which is there
        half = n_components // 2
        turned = Z[:, half:] * coef[:half]
        turned -= Z[:, :half] * coef[half:]
    else:
        turned = np.empty_like(Z)
        features._projection(Z.dtype)(A, turned, scratch)
        turned += features.phases_
        turned = np.sin(turned, out=turned)
        turned *= -np.sqrt(2 / n_components) * coef
    if "signs_" in features.__dict__:
        return _transposed_hadamard(turned, features.signs_, features.lengths_, A.shape[1])
    frequencies, found = features.frequencies_.astype(np.float64).T, np.empty(A.shape)

    def multiply(rows: slice, scratch: Scratch) -> None:
        np.matmul(turned[rows], frequencies, out=found[rows])

    run_chunks(multiply, _row_chunks(len(A), n_components), features.n_jobs)
    return found


def _transposed_hadamard(turned: Array, signs: Array, lengths: Array, n_dims: int) -> Array:
    """Products of rows (n_rows, n) with n Hadamard frequencies of ``n_dims`` values: the way back of their projection.

    A block is U = s^(-3/2) H D₁ H D₂ H D₃, so that U' = D₃ (s^(-3/2) H D₂ H D₁ H): the same transforms with the signs
    D₂, D₁ and 1, and the third signs behind them.

    Examples
    --------
    >>> from distembed._hadamard import draw, frequency_matrix
    >>> signs, lengths = draw(50, 20, np.random.RandomState(0))
    >>> rows = np.ones((3, 50))
    >>> np.allclose(_transposed_hadamard(rows, signs, lengths, 20), rows @ frequency_matrix(signs, lengths, 20).T)
    True
    """
    n_blocks, size = signs.shape[1:]
    found, scratch = np.zeros((len(turned), n_dims)), Scratch()
    rows, back = np.empty((len(turned), size)), np.empty((len(turned), size))
    for b in range(n_blocks):
        own = slice(b * size, min((b + 1) * size, len(lengths)))
        n = own.stop - own.start
        np.multiply(turned[:, own], lengths[own], out=rows[:, :n])
        rows[:, n:] = 0
        first, second, third = signs[:, b]
        swapped = np.stack([second, first, np.ones_like(third)])[:, None]
        HadamardProjection(swapped, np.ones(size), np.float64)(rows, back, scratch)
        found += back[:, :n_dims] * third[:n_dims]
    return found


# --------------------------------------------------------------------------------------------------------------
# From the features of the embedding back to densities and points
# --------------------------------------------------------------------------------------------------------------


class _Backward:
    """From gradients in the features of an embedding to those in the density and in the weights of points."""

    def __init__(self, embedding: Any) -> None:
        double = np.dtype(np.float64)
        self._estimate: GridKDE = embedding._density.prepare(embedding.nodes_, embedding.bandwidth_, double)
        self._functions: Callable[[Array, Scratch], Array] = embedding._functions(double)
        projection = embedding._projection
        self._columns, self._sizes = projection.columns, tuple(len(matrix) for matrix in projection.matrices)
        self._from_coefficients = [np.ascontiguousarray(matrix.T) for matrix in projection.matrices]
        self._from_nodes = [np.ascontiguousarray(matrix.T) for matrix in self._estimate.matrices]
        self._lambdas: Array | None = getattr(embedding, "lambdas_", None)  # None: the density itself is projected
        self._n_functions, self._n_nodes = embedding._n_functions, embedding.nodes_.n_nodes
        self._bytes_per_bag, self._n_jobs = 2 * embedding._bytes_per_bag(double), embedding.n_jobs

    def __call__(self, bags: Bags, slopes: Array, shares: Array, out_map: Array, out_values: Array) -> None:
        """Write the maps (n_bags, g_1, ..., g_l) and values (n_points,) of scaled bags, in threads.

        ``slopes`` (n_bags, m) are gradients in the features, ``shares`` (n_points,) the weights of points.
        """

        def work(rows: slice, scratch: Scratch) -> None:
            own = slice(bags.offsets[rows.start], bags.offsets[rows.stop])
            out_map[rows], out_values[own] = self._chunk(bags[rows], slopes[rows], shares[own], scratch)

        run_chunks(work, bag_chunks(bags.n_bags, self._bytes_per_bag), self._n_jobs)

    def _chunk(self, bags: Bags, slopes: Array, shares: Array, scratch: Scratch) -> tuple[Array, Array]:
        p = self._estimate(bags._without_weightless(), None, scratch)
        mapped, exact = self._gradients(p, slopes, scratch)
        axes = tuple(j for j in range(p.ndim) if j != p.ndim - 2)
        mean = np.sum(mapped * p, axis=axes) / np.maximum(p.sum(axis=axes), np.finfo(float).tiny)
        mapped -= mean[:, None]
        at_bins = contract(exact, self._from_nodes, scratch, "bins") / self._n_nodes
        table = np.ascontiguousarray(bags_first(at_bins)).reshape(bags.n_bags, -1)
        values = self._at_points(table, bags)
        values -= np.repeat(np.add.reduceat(shares * values, bags.offsets[:-1]), bags.sizes)
        if bags.weights is not None:  # a point out of the cube can't have a weight, nor a derivative in it
            values[((bags.points < 0) | (bags.points > 1)).any(axis=1)] = np.nan
        return bags_first(mapped), values

    def _gradients(self, p: Array, slopes: Array, scratch: Scratch) -> tuple[Array, Array]:
        """The g of the map and the g of the points, both of the shape of p, from gradients in the features."""
        h = self._on_nodes(slopes.reshape(len(slopes), self._n_functions, -1), scratch)
        h *= self._n_nodes  # the volume of a node is in the projection
        if self._lambdas is None:
            return h[0].copy(), h[0]
        exact = self._functions(p, scratch)
        exact *= h
        exact = np.add.reduce(exact, axis=0)
        most = np.max(p, axis=tuple(j for j in range(p.ndim) if j != p.ndim - 2))
        with np.errstate(divide="ignore", invalid="ignore"):  # what is not finite is replaced
            exact /= p
        mapped = exact.copy()
        for g, floor in ((exact, POINT_FLOOR), (mapped, MAP_FLOOR)):
            level = np.maximum(floor * most, np.finfo(float).tiny)
            below = np.nonzero(p < level[:, None])
            at: Any = (slice(None), *below)
            ratios = self._functions(level, Scratch()) / level
            g[below] = np.einsum("ki,ki->i", h[at], ratios[:, below[-2]])
        return mapped, exact

    def _on_nodes(self, slopes: Array, scratch: Scratch) -> Array:
        """The h_k of shape (n_functions, g_1, ..., n_bags, g_l) for which g = Σ_k h_k ψ_k / p.

        Real and imaginary parts of p^(1/2 + iλ) have the derivatives (½ re - λ im) / p and (½ im + λ re) / p.
        """
        if self._lambdas is not None:
            n, turning = len(self._lambdas), np.flatnonzero(self._lambdas)
            column = self._lambdas[turning, None]
            real, imaginary, slopes = slopes[:, turning], slopes[:, n:], 0.5 * slopes
            slopes[:, turning] += column * imaginary
            slopes[:, n:] -= column * real
        n_bags, n_functions = slopes.shape[:2]
        if self._columns is not None:
            tensor = np.zeros((n_bags, n_functions, prod(self._sizes)))
            tensor[:, :, self._columns] = slopes
            slopes = tensor
        stored = np.moveaxis(slopes.reshape(n_bags, n_functions, *self._sizes), 0, -2)
        return contract(np.ascontiguousarray(stored), self._from_coefficients, scratch, "gradient")

    def _at_points(self, table: Array, bags: Bags) -> Array:
        """Values of bins (n_bags, n_bins) between which points lie: linear binning, transposed."""
        shape, values, flat = self._estimate.n_bins, np.empty(bags.n_points), table.ravel()
        wraps = np.array([boundary == "periodic" for boundary in self._estimate.boundaries])[:, None]
        sizes = np.array(shape)[:, None]
        strides = np.array([prod(shape[j + 1 :]) for j in range(len(shape))])[:, None]
        owner = np.repeat(np.arange(bags.n_bags) * table.shape[1], bags.sizes)
        for start in range(0, bags.n_points, _BLOCK_POINTS):
            rows = slice(start, start + _BLOCK_POINTS)
            position = np.clip(bags.points[rows].T, 0, 1) * sizes - 0.5
            position = np.where(wraps, position, np.clip(position, 0, sizes - 1))
            low = np.floor(position)
            low = np.where(wraps, low, np.minimum(low, sizes - 2))
            part = position - low
            below = low.astype(np.int64)
            ends, parts = ((below % sizes) * strides, (below + 1) % sizes * strides), (1 - part, part)
            total = np.zeros(part.shape[1])
            for corner in product((0, 1), repeat=len(shape)):
                cell, share = owner[rows].copy(), np.ones_like(total)
                for j, up in enumerate(corner):
                    cell += ends[up][j]
                    share *= parts[up][j]
                share *= flat[cell]
                total += share
            values[rows] = total
        return values


def _spread(values: Array, kept: Array) -> Array:
    """Values of the points that were kept, with zeros for the others."""
    found = np.zeros(len(kept), values.dtype)
    found[kept] = values
    return found
