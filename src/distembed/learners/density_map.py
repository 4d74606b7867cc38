r"""The gradient of a linear model of densities on a grid: a map for each bag, and a value for every point.

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
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import check_bags
from ..compute.arrays import Array, outside_rows
from ..compute.checks import Argument, Message, check_number
from ..density.nodes import GridNodes
from ..embeddings import HDDEmbedding, L2Embedding
from ..embeddings.gradients import DensityGradient
from ..features import RandomFourierFeatures
from ..features.exact_kernel import KernelFeatures
from ..features.sums import SumFeatures
from ..scaling import UnitCube
from .classes import one_class

_PIECE_VALUES = 2**22  # features at a time
_LEAST_ROWS = 64  # below that products with frequencies slow down
SUPPORTED = (
    "a fitted DistributionRegressor or DistributionClassifier, or a Pipeline of UnitCube (or none), HDDEmbedding or "
    "L2Embedding, RandomFourierFeatures (or none) and a linear model with coef_"
)


class DensityMap(NamedTuple):
    """Maps and densities (n_bags, g_1, ..., g_l), the axes of their grid, and of each point its value and its share."""

    map: Array
    density: Array
    nodes: tuple[Array, ...]
    points: Array
    shares: Array


def pull_back(scaler: Any, embedding: Any, bags: Bags, slopes_of: Any) -> DensityMap:
    """Carry gradients in the features of a density embedding back to the density and to the points.

    Parameters
    ----------
    scaler : UnitCube or None
        Fitted.
    embedding : HDDEmbedding or L2Embedding
        Fitted, of densities on a grid.
    bags : Bags
        In the units of the points.
    slopes_of : callable
        Called with some of the scaled bags, in float64, and which these are; returns gradients (n_bags, n_features).
    """
    scaled = check_bags(embedding, bags, reset=False) if scaler is None else scaler.transform(bags)
    shares = scaled.shares()
    shares = np.repeat(1 / scaled.sizes, scaled.sizes) if shares is None else shares
    gradient = DensityGradient(embedding)
    found_map, density = (np.empty((bags.n_bags, *embedding.nodes_.shape), bags.dtype) for _ in range(2))
    values = np.empty(scaled.n_points, bags.dtype)
    step = max(_LEAST_ROWS, _PIECE_VALUES // embedding.stages_.n_features)
    for first in range(0, bags.n_bags, step):
        rows = slice(first, min(first + step, bags.n_bags))
        piece = scaled[rows].astype(np.float64)
        own = slice(scaled.offsets[rows.start], scaled.offsets[rows.stop])
        gradient(piece, slopes_of(piece, rows), shares[own], found_map[rows], density[rows], values[own])
    if scaled.n_points < bags.n_points:  # the scaler dropped some
        kept = ~outside_rows(bags.points, scaler.low_, scaler.high_)
        place = np.cumsum(kept) - 1
        values, shares = (np.where(kept, each[place], 0.0) for each in (values, shares))
    return DensityMap(found_map, density, axes_in_units(scaler, embedding), values, shares)


def axes_in_units(scaler: Any, embedding: Any) -> tuple[Array, ...]:
    """Axes of the grid in the units of the points."""
    axes = embedding.nodes_.axes
    if scaler is None:
        return tuple(axes)
    found = []
    names = getattr(scaler, "feature_names_in_", None)
    for j, axis in enumerate(axes):
        line = np.full((len(axis), len(axes)), 0.5)
        line[:, j] = axis
        found.append(scaler.inverse_transform(Bags(line, [0, len(axis)], columns=names)).points[:, j])
    return tuple(found)


@dataclass(frozen=True)
class LinearPipeline:
    """What a pipeline is made of, and the row of its linear model that is explained."""

    scaler: Any
    embedding: Any
    features: Any
    linear: Any
    coef: Array  # (n_components,)
    intercept: float
    output: Any
    what: str

    @classmethod
    def of(cls, model: Pipeline, output: Any) -> LinearPipeline:
        """Take a fitted pipeline apart, or refuse it."""
        steps = [step for _, step in model.steps if step is not None and not isinstance(step, str)]  # "passthrough"
        first = steps[:-1]
        linear = steps[-1] if steps else None
        scaler = first.pop(0) if first and isinstance(first[0], UnitCube) else None
        embedding = first.pop(0) if first and isinstance(first[0], HDDEmbedding | L2Embedding) else None
        kinds = RandomFourierFeatures | KernelFeatures | SumFeatures
        features = first.pop(0) if first and isinstance(first[0], kinds) else None
        if embedding is None or first:
            named = ", ".join(type(step).__name__ for step in steps)
            raise ValueError(f"explain(model=...): must be {SUPPORTED}, got one of {named}; fit such a model")
        for step in steps:
            check_is_fitted(step)
        _check_embedding(embedding)
        if not hasattr(linear, "coef_"):
            raise ValueError(
                f"explain(model=...): must end with a linear model with coef_, got {type(linear).__name__}; use "
                "LinearRidge, LogisticRegression or LinearSVC"
            )
        classes = getattr(linear, "classes_", None)
        rows, intercepts = _linear_rows(linear)
        if classes is None:
            row, intercept = _of_output(rows, intercepts, output)
            what = "prediction" if output is None else f"prediction of output {output}"
        else:
            row, intercept, output = _of_class(rows, intercepts, list(classes), output)
            what = f"score of class {output!r}"
        return cls(scaler, embedding, features, linear, row, intercept, output, what)

    def explain(self, bags: Bags) -> tuple[Array, DensityMap]:
        """Predictions (n_bags,), and their gradients."""
        if bags.categories is not None:
            said = (
                "explain: X must have continuous columns only, got the categorical columns "
                f"{list(bags.category_labels)}"
            )
            raise ValueError(Message(f"{said}; read the bags without ", Argument("categorical")))
        predictions = np.empty(bags.n_bags, bags.dtype)

        def slopes_of(piece: Bags, rows: slice) -> Array:
            predictions[rows], slopes = self.gradient(piece)
            return slopes

        found = pull_back(self.scaler, self.embedding, bags, slopes_of)
        return predictions, found

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
