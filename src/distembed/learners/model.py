"""The fitted model of every learner: a weighted sum of members. Each member is a head on one view or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Array
from ..compute.checks import InputError
from ..compute.parallel import one_blas_thread
from ..compute.progress import SILENT, Stages
from ..compute.registry import storable
from ..models.base import LEAST_SCORE, Head
from ..models.kernel_head import MOST_FOR_KERNEL_MATRIX
from .batch import Batch, Clock
from .error_law import spread_of
from .stacking import weighted_sum
from .view import BagRows, FittedView


class NotOfferedError(AttributeError, InputError):
    """A method or attribute that a model does not have, so ``hasattr`` is false; the text names the reason."""


@storable
class Member(NamedTuple):
    """The names of the views that a head sees, side by side, and the fitted head."""

    views: tuple[str, ...]
    head: Head


@storable(weights="finite(n) | finite(n, o)")
@dataclass(frozen=True, eq=False)
class Model:
    """Members, fitted, and their weights.

    Parameters
    ----------
    views : dict of str to FittedView
        The views that members see.
    members : tuple of Member
        Heads, and what they see.
    weights : ndarray of shape (n_members,) or (n_members, n_outputs)
        Not negative, of sum one; each output may have its own.
    grows : bool, default=False
        Whether bags can be added.
    weight_unit : float, default=1.0
        The mean weight of the bags that chose the members: heads measure weights of added bags by it.
    """

    views: dict[str, FittedView]
    members: tuple[Member, ...]
    weights: Array
    grows: bool = False
    weight_unit: float = 1.0

    def __distembed_fits__(self) -> bool:
        known = all(name in self.views for member in self.members for name in member.views)
        return known and len(self.members) == len(self.weights) > 0

    # One member

    @property
    def is_single(self) -> bool:
        """Whether there is one member with one view of the points."""
        if len(self.members) > 1 or len(self.members[0].views) > 1:
            return False
        return self.views[self.members[0].views[0]].embedding is not None

    @property
    def view(self) -> FittedView:
        """The one view."""
        if not self.is_single:
            raise NotOfferedError("this model has several members or views, not a single one")
        return self.views[self.members[0].views[0]]

    @property
    def head(self) -> Head:
        """The head of the one member."""
        if len(self.members) > 1:
            raise NotOfferedError("this model has several members, not a single head")
        return self.members[0].head

    def rows(self, bags: Any, **options: Any) -> BagRows:
        """What the one head sees of bags; options as of :class:`~distembed.learners.view.BagRows`."""
        return BagRows(self.view, self.view.scale(bags), **options)

    @property
    def used_views(self) -> list[str]:
        """Names of the views that members see."""
        return list(dict.fromkeys(name for member in self.members for name in member.views))

    def weights_of(self, outputs: Array) -> Array:
        """Weights of the members for some outputs, by position: ndarray of shape (n_members, n), or (n_members, 1)."""
        return self.weights[:, None] if self.weights.ndim == 1 else self.weights[:, outputs]

    # Predictions

    @property
    def has_probabilities(self) -> bool:
        """Whether predictions of classes are probabilities: scores of support vectors may not have been calibrated."""
        return all(getattr(member.head, "has_probabilities", True) for member in self.members)

    def outputs(self, bags: Any, covariates: Array | None = None) -> Array:
        """What explanations explain, ndarray of shape (n_bags, n_outputs): predictions, or scores without these."""
        return self.predict(bags, covariates) if self.has_probabilities else self.scores(bags, covariates)

    def outputs_of_rows(self, rows: dict[str, Array]) -> Array:
        """Predictions from the rows of each view, ndarray of shape (n_rows, n_outputs)."""
        found = []
        for names, head in self.members:
            seen = side_by_side([(rows[name], self.views[name]) for name in names])
            found.append(head.predict(seen) if self.has_probabilities else head.scores(seen))
        return weighted_sum(self.weights, np.stack(found))

    def predict(self, bags: Any, covariates: Array | None = None, at_once: int = 10_000) -> Array:
        """Probabilities of classes or numbers, ndarray of shape (n_bags, n_outputs).

        Parameters
        ----------
        bags : Bags or EmbeddedBags
            As many dimensions as in ``fit``.
        covariates : ndarray of shape (n_bags, n_columns), optional
            Encoded covariates, if there is a view of them.
        at_once : int, default=10,000
            Bags whose features are in memory for predictions of several members.
        """
        if self.is_single:
            return np.concatenate([self.head.predict(rows) for rows, _ in self.rows(bags).pieces()])
        found = []
        for start in range(0, bags.n_bags, at_once):
            some = slice(start, start + at_once)
            seen = self.heads_and_rows(bags[some], None if covariates is None else covariates[some])
            found.append(weighted_sum(self.weights, np.stack([head.predict(rows) for head, rows in seen])))
        return np.concatenate(found)

    def predict_with_spread(self, bags: Any, covariates: Array | None = None) -> tuple[Array, Array]:
        """Numbers, and how far the members differ on them, each of shape (n_bags, n_outputs)."""
        if len(self.members) == 1:
            mean = self.predict(bags, covariates)
            return mean, np.zeros_like(mean)
        found = np.stack([head.predict(rows) for head, rows in self.heads_and_rows(bags, covariates)])
        return weighted_sum(self.weights, found), spread_of(self.weights, found)

    def scores(self, bags: Any, covariates: Array | None = None) -> Array:
        """Scores of classes, ndarray of shape (n_bags, n_classes): of several members, logarithms of probabilities."""
        if self.is_single:
            return np.concatenate([self.head.scores(rows) for rows, _ in self.rows(bags).pieces()])
        return np.asarray(np.log(np.maximum(self.predict(bags, covariates), LEAST_SCORE)))

    # Learning

    def refit(self, batch: Batch, stages: Stages = SILENT, clock: Clock | None = None) -> Model:
        """A copy whose heads have learned from other bags; views, settings and weights stay.

        Parameters
        ----------
        batch : Batch
            Other bags, any number of them, with coded targets.
        stages : Stages
            Receives progress, one step per member, or per bag if there is one member.
        clock : Clock, optional
            Receives the seconds of embedding and learning, where there is one member.

        Notes
        -----
        Gaussian kernels on more than 3,000 bags are by random features, forests are grown on 20,000 bags at most, and
        large margins and Laplace kernels learn from 3,000.
        """
        if self.is_single and self.head.streams:
            rows = self.rows(batch.bags, clock=clock, training=True, stages=stages)
            return self.with_heads([self.head.for_rows(len(rows)).refit(rows, batch.y, batch.weight, batch.groups)])
        stages.begin("fitting members to all bags", len(self.members))
        weight = batch.weight / batch.weight.mean()
        heads = []
        for head, matrix in self.heads_and_rows(batch.bags, batch.covariates):
            again = head.for_rows(len(matrix))
            some = np.arange(len(matrix))
            if again.most_rows is not None and len(matrix) > again.most_rows:
                seed = getattr(again, "random_state", None)
                some = np.random.RandomState(seed).choice(len(matrix), again.most_rows, replace=False)
            with one_blas_thread() if len(some) <= MOST_FOR_KERNEL_MATRIX else nullcontext():
                heads.append(again.refit(matrix[some], batch.y[some], weight[some]))
            stages.advance(1)
        return self.with_heads(heads)

    def for_batches(self, weight_unit: float) -> Model:
        """A copy for bags that are yet to come: heads that know their settings; trees stay as they are."""
        made = self.with_heads([member.head.for_batches() for member in self.members])
        return replace(made, grows=True, weight_unit=weight_unit)

    def partial_fit(self, batch: Batch, clock: Clock | None = None) -> None:
        """Add bags, with coded targets, to what heads have learned from."""
        if self.is_single and self.head.streams:
            rows = self.rows(batch.bags, clock=clock)
            self.head.partial_fit(rows, batch.y, batch.weight, batch.groups)
            return
        members = tuple(member for member in self.members if member.head.grows)
        weight = batch.weight / self.weight_unit
        for head, matrix in replace(self, members=members).heads_and_rows(batch.bags, batch.covariates):
            head.partial_fit(matrix, batch.y, weight)

    def solve(self) -> None:
        """Solve the equations of added bags now, rather than when predictions first need it."""
        for member in self.members:
            member.head.solve()

    def with_heads(self, heads: Sequence[Head]) -> Model:
        """A copy with other heads."""
        pairs = zip(self.members, heads, strict=True)
        return replace(self, members=tuple(member._replace(head=head) for member, head in pairs))

    def heads_and_rows(self, bags: Any, covariates: Array | None) -> Iterator[tuple[Head, Array]]:
        """The head of each member, and the rows that it sees; features are computed once, and dropped after use."""
        last = {name: i for i, member in enumerate(self.members) for name in member.views}
        seen: dict[str, Array] = {}
        for i, (names, head) in enumerate(self.members):
            for name in names:
                if name not in seen:
                    seen[name] = self.views[name].rows(bags, covariates)
            yield head, side_by_side([(seen[name], self.views[name]) for name in names])
            for name in names:
                if last[name] == i:
                    del seen[name]


def side_by_side(parts: Sequence[tuple[Array, FittedView]]) -> Array:
    """Features of several views as one matrix: as they are for one, else centred and of equal size."""
    if len(parts) == 1:
        return parts[0][0]
    return np.hstack([(features - view.ranges.mean) / view.ranges.size for features, view in parts if view.ranges])
