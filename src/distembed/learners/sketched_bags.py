"""Sketches of the bags of a table, and the model that makes rows of them: what files of sketches hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..bags import Bags
from ..bags.flat import few
from ..bags.ids import as_ids, plain_ids
from ..compute.arrays import Array
from ..compute.registry import storable
from ..embeddings.sketches import Additive, Sketch
from ..files.model_files import digest
from .model import Model
from .view import FittedView


class _Finish(NamedTuple):
    """What heads see of rows of an embedding, as a step."""

    view: FittedView

    def transform(self, rows: Array) -> Array:
        return self.view.finish(rows)


class Steps(NamedTuple):
    """From bags to rows: scalers, an embedding, and what follows it."""

    scalers: tuple[Any, ...]
    embedding: Any
    later: tuple[Any, ...]

    @classmethod
    def of(cls, model: Any) -> Steps:
        """The steps of a fitted embedding, of a pipeline, or of a learner before its linear model.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> import distembed as de
        >>> Steps.of(make_pipeline(de.UnitCube(), de.HDDEmbedding(), de.RandomFourierFeatures(10))).scalers
        (UnitCube(),)
        """
        if isinstance(getattr(model, "model_", None), Model):
            view = model.model_.view
            return cls(() if view.scaler is None else (view.scaler,), view.embedding, (_Finish(view),))
        steps = [step for _, step in model.steps] if hasattr(model, "named_steps") else [model]
        steps = [step for step in steps if step is not None and not isinstance(step, str)]
        at = next((i for i, step in enumerate(steps) if hasattr(step, "n_statistics")), None)
        if at is None:
            at = next((i for i, step in enumerate(steps) if not hasattr(step, "inverse_transform")), 0)
        return cls(tuple(steps[:at]), steps[at], tuple(step for step in steps[at + 1 :] if hasattr(step, "transform")))

    def why_no_sketches(self) -> str:
        """Why bags can't be looked at in pieces, for errors; empty where they can."""
        if not isinstance(self.embedding, Additive):
            return f"statistics of {type(self.embedding).__name__} do not add up"
        if any(getattr(scaler, "outside", None) == "drop" for scaler in self.scalers):
            return "a scaler drops points, and a piece may lose all of them; use outside='clip'"
        return self.embedding.why_no_sketches()

    def scale(self, bags: Bags) -> Bags:
        """Bags as the embedding takes them."""
        for scaler in self.scalers:
            bags = deepcopy(scaler).transform(bags)  # it remembers what it clipped, and models must stay equal
        return bags

    def sketches(self, bags: Bags) -> list[Sketch]:
        """One sketch for each bag, or piece of a bag."""
        found: list[Sketch] = self.embedding.partials(self.scale(bags))
        return found

    def finish(self, rows: Array) -> Array:
        """What the last step makes of rows of the embedding."""
        for step in self.later:
            rows = step.transform(rows)
        return np.asarray(rows)


@storable(ids_="labels(n)", n_points_="int(n)", weight_="finite(n)", means_="finite(n, _)", single_="bool")
class SketchedBags(BaseEstimator):
    """Sketches of bags by id, with the model that made them.

    Parameters
    ----------
    model : fitted estimator
        An embedding that has ``partial``, a pipeline of scaler, embedding and random features, or a learner.

    Attributes
    ----------
    ids_ : ndarray of shape (n_bags,)
        Ids, sorted.
    n_points_, weight_ : ndarray of shape (n_bags,)
        Points and their weights.
    means_ : ndarray of shape (n_bags, n_statistics)
        What :attr:`distembed.Sketch.means` are of each bag.
    single_ : bool
        Whether all points were float32.

    Notes
    -----
    :func:`distembed.save` and :func:`distembed.load` write and read it as any model. *Memory*: n_statistics numbers
    for each bag; those of a density on a grid are some thousands.

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.Bags.from_arrays([[[0.1], [0.2]], [[0.9]]], ids=["a", "b"])
    >>> model = de.HistogramEmbedding("l2", bins=2).fit(bags)
    >>> one, two = SketchedBags(model).add(bags), SketchedBags(model).add(bags[:1])
    >>> merged = one.merge(two)
    >>> merged.ids_.tolist(), merged.n_points_.tolist(), merged.rows().tolist()
    (['a', 'b'], [4, 1], [[1.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def n_bags(self) -> int:
        """How many bags there are."""
        return len(getattr(self, "ids_", ()))

    def sketches(self) -> Iterator[tuple[Any, Sketch]]:
        """Ids and sketches, one after the other."""
        owner = type(Steps.of(self.model).embedding).__name__
        dtype = "float32" if self.single_ else "float64"
        for i, key in enumerate(plain_ids(self.ids_)):
            yield key, Sketch(owner, int(self.n_points_[i]), float(self.weight_[i]), self.means_[i], dtype)

    def add(self, bags: Bags) -> Self:
        """Add bags with ids, or pieces of bags; ids that are there already go on."""
        return self.extend([bags])

    def extend(self, batches: Iterable[Bags]) -> Self:
        """Add batches of bags, one after the other."""
        steps = Steps.of(self.model)
        reason = steps.why_no_sketches()
        if reason:
            raise ValueError(f"{type(self.model).__name__}: has no sketches, because {reason}")
        new = list[tuple[Any, Sketch]]()
        kind = np.dtype(np.int64)
        for bags in batches:
            new += zip(plain_ids(bags.ids), steps.sketches(bags), strict=True)
            kind = bags.ids.dtype
        return self._join(new, kind) if new else self

    def merge(self, other: SketchedBags) -> Self:
        """Add the bags of another one that was made by the same model."""
        if digest(self.model) != digest(other.model):
            raise ValueError(
                "SketchedBags.merge: both must be made by the same fitted model, got two that differ; make the "
                "sketches again with one model file"
            )
        if self.n_bags and other.n_bags and self.ids_.dtype.kind != other.ids_.dtype.kind:
            raise ValueError(
                f"SketchedBags.merge: ids must be of one type, got {few(self.ids_[:1])} and {few(other.ids_[:1])}; "
                "read both tables with the same bag_type"
            )
        return self._join(list(other.sketches()), other.ids_.dtype) if other.n_bags else self

    def rows(self) -> Array:
        """Rows of all bags, ndarray of shape (n_bags, n_features), in the order of the ids."""
        steps = Steps.of(self.model)
        return steps.finish(np.array([steps.embedding.finish(sketch) for _, sketch in self.sketches()]))

    def _join(self, new: list[tuple[Any, Sketch]], kind: Any) -> Self:
        embedding = Steps.of(self.model).embedding
        known = dict(self.sketches()) if self.n_bags else {}
        for key, sketch in new:
            known[key] = embedding.merge(known[key], sketch) if key in known else sketch
        made = as_ids(np.array(list(known), kind if kind.kind != "U" else None))
        order = np.argsort(made, kind="stable")
        found = list(known.values())
        self.ids_ = made[order]
        self.n_points_ = np.array([found[i].n_points for i in order], np.int64)
        self.weight_ = np.array([found[i].weight for i in order])
        self.means_ = np.array([found[i].means for i in order])
        self.single_ = all(sketch.dtype == "float32" for sketch in found)
        return self
