r"""What each point changes: the derivative of a prediction in its weight, through every member of a model.

With rows A_a of the views a that a head h sees, and D_a(x) the derivatives of these rows in the weight of a point x
(see :mod:`distembed.embeddings.weight_slopes`), the value of the point is

.. math:: v(x) = \sum_m w_m \sum_a ∇_a h_m(A) · D_a(x) \; - \; \text{its weighted mean over the bag}.

Gradients are those of the head, or, of forests and heads from outside, differences: what h changes if a fifth of
the mass is moved to the point, times five. Densities on a grid have their gradient carried back to the nodes, and
from there to the points. The error of a value is the weighted standard deviation over the members: nothing for one
member. Bounds of predictions, such as those of shares, are not looked at.

*Cost*: one row of each view for each point, or 32 rows of the bag; one product with the training rows of a kernel; one
prediction of a forest for each point. All are linear in the points.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array, outside_rows
from ..compute.progress import SILENT, Stages
from ..density.nodes import GridNodes
from ..embeddings import HDDEmbedding, L2Embedding
from ..embeddings.gradients import DensityGradient
from ..embeddings.weight_slopes import weight_slopes
from ..models.linear_head import LinearHead
from .model import Model, side_by_side
from .size import SIZE
from .view import FittedView

_MOVED = 0.2  # of the mass, where a head has no gradient: steps of trees are wide
_AT_ONCE = 64  # bags whose rows are in memory


class PointValues(NamedTuple):
    """Values of points and their errors, ndarrays of shape (n_points,)."""

    values: Array
    errors: Array


def has_gradient(embedding: Any) -> bool:
    """Whether an embedding is of kernel density estimates of one bandwidth on a grid, of columns without categories."""
    if not isinstance(embedding, HDDEmbedding | L2Embedding) or embedding.nodes_ is None:
        return False
    stages = embedding.stages_
    plain = getattr(embedding, "symmetries", None) is None and stages.cells is None
    return plain and isinstance(embedding.nodes_, GridNodes) and stages.smooths_bins


def point_values(
    model: Model, bags: Bags, covariates: Array | None, outputs: Array, stages: Stages = SILENT
) -> PointValues:
    """Values of all points of bags.

    Parameters
    ----------
    model : Model
        Fitted.
    bags : Bags
        Checked.
    covariates : ndarray of shape (n_bags, n_columns) or None
        Encoded.
    outputs : ndarray of int of shape (n_bags,)
        Which output is explained, of each bag.
    stages : Stages
        Receives progress, one step per bag.
    """
    values = np.empty(bags.n_points)
    errors = np.empty(bags.n_points)
    stages.begin("points", bags.n_bags)
    for first in range(0, bags.n_bags, _AT_ONCE):
        some = slice(first, min(first + _AT_ONCE, bags.n_bags))
        own = slice(bags.offsets[some.start], bags.offsets[some.stop])
        known = None if covariates is None else covariates[some]
        found = MemberSlopes(model, bags[some], known, outputs[some], stages).by_member()
        weights = model.weights_of(np.repeat(outputs[some], bags[some].sizes))
        values[own] = (weights * found).sum(axis=0)
        spread = np.sqrt(np.maximum((weights * (found - values[own]) ** 2).sum(axis=0), 0.0))
        errors[own] = spread
    return PointValues(values, errors)


class MemberSlopes:
    """Some bags, and their rows in all views."""

    def __init__(
        self, model: Model, bags: Bags, covariates: Array | None, outputs: Array, stages: Stages = SILENT
    ) -> None:
        self.model = model
        self.bags = bags
        self.outputs = outputs
        self.stages = stages
        self.rows = {name: model.views[name].rows(bags, covariates) for name in model.used_views}
        self.inputs = [
            side_by_side([(self.rows[name], model.views[name]) for name in names]) for names, _ in model.members
        ]
        self.slopes = [
            head.slopes(rows, outputs) if _shared_features(model, k) is None else None
            for k, ((_, head), rows) in enumerate(zip(model.members, self.inputs, strict=True))
        ]

    def by_member(self) -> Array:
        """Values by each member, ndarray of shape (n_members, n_points)."""
        model = self.model
        found = np.zeros((len(model.members), self.bags.n_points))
        n_views = max(1, len(model.used_views))
        for done, name in enumerate(model.used_views):
            view = model.views[name]
            if view.embedding is not None and name != SIZE:
                self._add_view(name, view, found)
            before, after = (self.bags.n_bags * k // n_views for k in (done, done + 1))
            self.stages.advance(after - before)
        return found

    def pull(self) -> Array | None:
        """Gradients of a model of one member and one view in the rows of its embedding."""
        (name,) = self.model.used_views
        view = self.model.views[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            embedded = np.asarray(view.embed(view.scale(self.bags)), np.float64)
        return self._pull(0, name, view, embedded)

    def _add_view(self, name: str, view: FittedView, found: Array) -> None:
        """Add what points change through one view."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            scaled = view.scale(self.bags)
            embedded = np.asarray(view.embed(scaled), np.float64)
        kept: Any = slice(None)
        if scaled.n_points < self.bags.n_points:  # the scaler dropped some
            scaler: Any = view.scaler
            kept = ~outside_rows(self.bags.points, scaler.low_, scaler.high_)
        shares = scaled.shares()
        shares = np.repeat(1 / scaled.sizes, scaled.sizes) if shares is None else shares
        users = [k for k, (names, _) in enumerate(self.model.members) if name in names]
        pulls = {k: self._pull(k, name, view, embedded) for k in users}
        smooth = [k for k in users if pulls[k] is not None]
        dense = has_gradient(view.embedding)
        added = np.zeros((len(found), scaled.n_points))
        if dense:
            for k in smooth:
                added[k] = density_values(view.embedding, scaled, pulls[k], shares)
        rough = [k for k in users if k not in smooth]
        if rough or not dense:
            for i in range(self.bags.n_bags):
                own = slice(scaled.offsets[i], scaled.offsets[i + 1])
                slopes = weight_slopes(view.embedding, scaled[i : i + 1])
                for k in () if dense else smooth:
                    pull: Any = pulls[k]
                    added[k, own] = slopes @ pull[i]
                for k in rough:
                    added[k, own] = self._by_moving(k, name, view, embedded[i], slopes, i)
        added -= np.repeat(np.add.reduceat(added * shares, scaled.offsets[:-1], axis=1), scaled.sizes, axis=1)
        found[:, kept] += added

    def _pull(self, k: int, name: str, view: FittedView, embedded: Array) -> Array | None:
        """Gradients of a member in the rows of the embedding of a view, or None where there are none."""
        names, head = self.model.members[k]
        features = _shared_features(self.model, k)
        if features is not None:
            if not hasattr(features, "gradients"):
                return None
            linear: Any = head
            Z = np.asarray(self.rows[name])
            by_score = linear.slopes_in_scores(linear.linear_scores(Z), self.outputs)
            each = (features.gradients(embedded, Z.astype(np.float64), row) for row in linear.coefficients())
            return np.asarray(sum(by_score[:, [j]] * slopes for j, slopes in enumerate(each)))
        slopes = self.slopes[k]
        if slopes is None:
            return None
        place = names.index(name)
        first = sum(self.model.views[each].width for each in names[:place])
        own = np.array(slopes[:, first : first + view.width], np.float64)
        if view.ranges is not None:
            own[(embedded < view.ranges.low) | (embedded > view.ranges.high)] = 0.0
            own /= view.ranges.size if len(names) > 1 else 1.0
        return own

    def _by_moving(self, k: int, name: str, view: FittedView, row: Array, slopes: Array, i: int) -> Array:
        """What a member predicts with a fifth of the mass at each point, less what it predicts."""
        names, head = self.model.members[k]
        moved = view.finish(row + _MOVED * slopes)
        parts = [
            (moved if each == name else np.repeat(self.rows[each][i : i + 1], len(moved), axis=0), each)
            for each in names
        ]
        rows = side_by_side([(some, self.model.views[each]) for some, each in parts])
        predict = head.predict if self.model.has_probabilities else head.scores
        whole = predict(self.inputs[k][i : i + 1])
        return np.asarray((predict(rows) - whole)[:, self.outputs[i]] / _MOVED)


def _shared_features(model: Model, k: int) -> Any:
    """Random features between the embedding and the linear head of a member, or None."""
    names, head = model.members[k]
    return model.views[names[0]].features if isinstance(head, LinearHead) and len(names) == 1 else None


def density_values(embedding: Any, scaled: Bags, slopes: Any, shares: Array) -> Array:
    """Values of points from gradients (n_bags, n_features) in the rows of densities on a grid."""
    shape = (scaled.n_bags, *embedding.nodes_.shape)
    maps, densities = (np.empty(shape) for _ in range(2))
    values = np.empty(scaled.n_points)
    DensityGradient(embedding)(scaled.astype(np.float64), slopes, shares, maps, densities, values)
    return values
