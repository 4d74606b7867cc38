"""Any estimator with ``score_samples`` as a density.

scikit-learn's convention for density estimators: ``fit(X)`` on points, ``score_samples(X)`` the log density there
(``KernelDensity``, ``GaussianMixture``, pipelines that end in one, many others). A clone is fitted to each bag.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..compute.arrays import Array
from ..compute.checks import InputError
from ..compute.registry import storable
from .estimate import MASS_DRAWS, Density, draw_inside, mass_inside


class BagScores:
    """The density of one bag by a fitted estimator.

    Examples
    --------
    >>> from sklearn.neighbors import KernelDensity
    >>> BagScores(KernelDensity(bandwidth=0.1).fit([[0.5]])).pdf(np.array([[0.5], [0.7]])).round(4)
    array([3.9894, 0.5399])
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def pdf(self, u: Array) -> Array:
        """Density at u, ndarray of shape (n,): exp of ``score_samples``."""
        scores = np.asarray(self.estimator.score_samples(u), float)
        if scores.shape != (len(u),) or np.isnan(scores).any():
            raise InputError(
                f"Scored(estimator=...): score_samples must give one log density per point, got shape {scores.shape} "
                f"with {int(np.isnan(scores).sum())} NaN from {self.estimator!r}; use another estimator"
            )
        return np.asarray(np.exp(np.minimum(scores, 600.0)))


class DrawableScores(BagScores):
    """A scored density of an estimator with ``sample``; draws are restricted to the cube, as the density is.

    Examples
    --------
    >>> from sklearn.neighbors import KernelDensity
    >>> one = DrawableScores(KernelDensity(bandwidth=0.1).fit([[0.0]]))
    >>> one.pdf(np.array([[0.0]])).round(), one.sample(5, np.random.RandomState(0)).shape
    (array([8.]), (5, 1))
    """

    def _draw(self, n: int, rng: np.random.RandomState) -> Array:
        estimator = self.estimator
        seed = rng.randint(2**31 - 1)
        if "random_state" in signature(estimator.sample).parameters:
            drawn = estimator.sample(n, random_state=seed)
        else:  # GaussianMixture has its seed in the parameters, and gives labels too
            if "random_state" in estimator.get_params():
                estimator.set_params(random_state=seed)
            drawn = estimator.sample(n)
        return np.asarray(drawn[0] if isinstance(drawn, tuple) else drawn, float)

    @cached_property
    def mass(self) -> float:
        """Share of draws inside the cube."""
        drawn = self._draw(MASS_DRAWS, np.random.RandomState(0))
        return max(mass_inside(drawn), 1 / MASS_DRAWS)

    def pdf(self, u: Array) -> Array:
        """Density at u on the cube, ndarray of shape (n,)."""
        return super().pdf(u) / self.mass

    def sample(self, n: int, rng: np.random.RandomState) -> Array:
        """Draw n points, those outside the cube again."""
        return draw_inside(lambda size: self._draw(size, rng), n)


@storable
@dataclass(frozen=True)
class Scored(Density):
    """A density estimator in scikit-learn's style, cloned and fitted to every bag.

    Parameters
    ----------
    estimator : object with ``fit(X)`` and ``score_samples(X)``
        ``score_samples`` is the log density, up to a constant. Left unfitted. A ``random_state`` of None becomes 0, so
        a bag has one density.

    Notes
    -----
    Values are divided by the mass on the nodes, so mass outside the cube does not matter. There is no bandwidth: the
    estimator's own parameters set the smoothness, ``HDDEmbedding(density=KernelDensity(bandwidth=0.1))`` has the
    parameter ``density__bandwidth`` for a search. Points come in lexicographic order, whatever their order in the bag.
    Point weights become ``sample_weight`` (of mean one) where ``fit`` takes it, else they are refused.

    *Cost* a bag: that of the estimator, and some milliseconds.

    Examples
    --------
    >>> import distembed as de
    >>> from sklearn.neighbors import KernelDensity
    >>> bags = de.as_bags(np.random.default_rng(0).uniform(size=(3, 50, 1)))
    >>> de.HDDEmbedding("hellinger", density=Scored(KernelDensity(bandwidth=0.1))).fit_transform(bags).shape
    (3, 10)
    """

    smooths: ClassVar[str] = "nothing"
    integrates_to_one: ClassVar[bool] = False

    estimator: Any

    def of(self, points: Array, weights: Array | None, bandwidth: Array | None) -> Any:
        """The density of one bag, see :meth:`Density.of`; ``bandwidth`` is ignored.

        It has a ``sample`` if the estimator has one.
        """
        estimator = clone(check_scores(self.estimator, "Scored(estimator=...)"))
        parameters = estimator.get_params()
        seeds = [key for key, value in parameters.items() if key.split("__")[-1] == "random_state" and value is None]
        estimator.set_params(**dict.fromkeys(seeds, 0))
        if weights is not None:
            # a share may have underflowed
            points = points[weights > 0]
            weights = weights[weights > 0]
        order = np.lexsort(points.T[::-1])
        options = {}
        if weights is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise InputError(
                    f"Scored(estimator=...): the bags have point weights, which fit of {self.estimator!r} does not "
                    "take; drop the weights, or use KDE() or KernelDensity(), which weigh points"
                )
            options["sample_weight"] = weights[order] * len(points)
        try:
            estimator.fit(points[order], **options)
        except ValueError as error:
            n, n_dims = points.shape
            raise InputError(
                f"Scored(estimator=...): {self.estimator!r} can't be fitted to a bag, or a cell of a bag with "
                f"categorical columns, of {n} point{'s' * (n > 1)} in {n_dims} dimension{'s' * (n_dims > 1)}: {error}; "
                "use an estimator for so few points, or larger bags"
            ) from error
        return DrawableScores(estimator) if hasattr(estimator, "sample") else BagScores(estimator)


def check_scores(estimator: Any, where: str) -> Any:
    """Return an estimator that can be cloned, fitted and scored, else raise with the remedy."""
    needed = ("fit", "score_samples", "get_params", "set_params")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in needed):
        raise TypeError(
            f"{where}: must be an estimator with fit and score_samples, the log density, such as "
            f"KernelDensity(bandwidth=0.1), got {estimator!r}; pass an unfitted object in scikit-learn's style"
        )
    return estimator
