"""What "auto" tries: views of bags, and heads that suit each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..bags import Bags
from ..compute.arrays import Array
from ..embeddings import (
    FisherEmbedding,
    HDDEmbedding,
    LandmarkEmbedding,
    Marginals,
    MeanEmbedding,
    MomentEmbedding,
    SlicedWassersteinEmbedding,
    StatisticsEmbedding,
)
from ..scaling import Standardize, UnitCube
from .ensemble import View
from .forest import ForestHead
from .heads import ConstantHead, KernelHead

MANY_COLUMNS = 40  # from here on covariances are more than bags can tell
MOST_OF_MIXTURES, MOST_OF_DENSITIES = 20, 3  # columns
MOST_OF_LANDMARKS = 50  # points per bag; bags with more are near to everything
FEW_BAGS = 1000  # beyond, random forests take too long beside extra trees, and Laplace kernels are too rough
FEW_FOR_SCORES = 20  # bags of the rarest class below which no probabilities are made of held-out scores
COVARIATES = "covariates"  # the name of their view
SECONDARY = ("narrow mmd", "wide js", "rank mean", "rank covariance", "rank deviation")  # never beside covariates


class Candidate(NamedTuple):
    """A head on one view, or on several side by side."""

    name: str
    views: tuple[str, ...]
    head: Any


def views_for(bags: Bags, seed: int, n_jobs: int | None) -> list[View]:
    """The views worth looking at for bags of this width, none fitted; the third is of second moments.

    Examples
    --------
    >>> bags = Bags.from_arrays([np.zeros((30, 60))] * 9)
    >>> [view.name for view in views_for(bags, 0, None)][:3]
    ['mean', 'statistics', 'deviation']
    """
    d, scaled, cube = bags.n_dims, Standardize(), UnitCube(map="auto")
    random: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    hellinger = HDDEmbedding("hellinger", n_basis=12, n_jobs=n_jobs)
    second: Any = MomentEmbedding("covariance", n_jobs=n_jobs)
    name = "covariance"
    if d > MANY_COLUMNS:
        second, name = StatisticsEmbedding(quantiles=(), n_jobs=n_jobs), "deviation"
    views = [
        View("mean", scaled, MomentEmbedding("mean", n_jobs=n_jobs)),
        View("statistics", scaled, StatisticsEmbedding(n_jobs=n_jobs)),
        View(name, scaled, second),
        View("extremes", scaled, StatisticsEmbedding(quantiles=(0, 1), n_jobs=n_jobs)),
        View("mmd", scaled, MeanEmbedding(1000, **random)),
        View("narrow mmd", scaled, MeanEmbedding(1000, sigma_scale=0.5, **random)),
        View("sliced wasserstein", scaled, SlicedWassersteinEmbedding(30, n_quantiles=10, **random)),
        View("hellinger marginals", cube, Marginals(hellinger)),
    ]
    if bags.n_points <= MOST_OF_LANDMARKS * bags.n_bags:
        views.append(View("landmarks", scaled, LandmarkEmbedding(**random)))
    if bags.categories is None:
        ranked = UnitCube(map="rank")
        views.append(View("rank mean", ranked, MomentEmbedding("mean", n_jobs=n_jobs)))
        views.append(View(f"rank {name}", ranked, second))
    if d <= MOST_OF_MIXTURES:
        views.append(View("fisher", scaled, FisherEmbedding(8, **random)))
    if d <= MOST_OF_DENSITIES:
        views.append(View("js", cube, HDDEmbedding("js", n_jobs=n_jobs)))
        views.append(View("wide js", cube, HDDEmbedding("js", bandwidth_scale=2.0, n_jobs=n_jobs)))
    return views


class Library:
    """Candidates for targets of some kind.

    Parameters
    ----------
    targets : ndarray of shape (n_bags,) or (n_bags, n_outputs)
        Codes of classes, or numbers.
    n_classes : int or None
        None: regression.
    seed : int
        Of what heads draw.

    Examples
    --------
    >>> library = Library(np.arange(9.0), None, 0)
    >>> [candidate.name for candidate in library.named("js")]
    ['constant', 'mean', 'js, linear', 'js, rbf']
    """

    def __init__(self, targets: Array, n_classes: int | None, seed: int) -> None:
        self.n_bags, self.n_classes, self.seed = len(targets), n_classes, seed
        self.usual = "ridge" if n_classes is None else "logistic"  # loss
        self.has_scores = n_classes is not None and np.bincount(targets).min() >= FEW_FOR_SCORES

    def _candidate(self, views: Sequence[str], kind: str) -> Candidate:
        given: dict[str, Any] = {"n_classes": self.n_classes, "random_state": self.seed}
        heads: dict[str, Any] = {
            "linear": KernelHead("linear", self.usual, **given),
            "rbf": KernelHead("rbf", self.usual, **given),
            "rbf ridge": KernelHead("rbf", "ridge", **given),
            "laplace": KernelHead("laplace", "ridge", **given),
            "svm": KernelHead("rbf", "svm", **given),
            "forest": ForestHead("forest", **given),
            "extra trees": ForestHead("extra", **given),
        }
        plain = (*views, kind) == ("mean", "linear")
        return Candidate("mean" if plain else f"{' + '.join(views)}, {kind}", tuple(views), heads[kind])

    def named(self, name: str) -> list[Candidate]:
        """The constant, the mean, and one view by name, with smooth and linear heads."""
        constant = Candidate("constant", ("mean",), ConstantHead(n_classes=self.n_classes))
        kinds = dict.fromkeys([("mean", "linear"), (name, "linear"), (name, "rbf")])
        return [constant, *(self._candidate([view], kind) for view, kind in kinds)]

    def of(self, views: Sequence[View]) -> list[Candidate]:
        """Smooth and linear heads for all views, large margins and forests where they suit; the constant comes first.

        Losses other than the usual one err elsewhere, and so make a better mean.
        """
        return [*self.named("mean")[:1], *(self._candidate(some, kind) for some, kind in self._pairs(views))]

    def _pairs(self, views: Sequence[View]) -> Iterator[tuple[Sequence[str], str]]:
        names = [view.name for view in views]
        second, marginals = names[2], "hellinger marginals"
        alone = [[name] for name in names if name != "extremes"]
        together = [["extremes"]]
        if second == "covariance":  # deviations are among the statistics
            together += [["mean", second], ["statistics", second]]
        if "landmarks" in names:
            together[0] = ["extremes", "landmarks"]
            together.append(["statistics", "landmarks"])
        for some in (*alone, *together):
            yield some, "linear"
            yield some, "rbf"
        yield [second, marginals], "rbf"
        yield ["mean", marginals], "rbf"
        if self.has_scores:
            for some in (["statistics"], [second], *together):
                yield some, "svm"
            smooth = [[name] for name in ("mean", "statistics", second, "mmd", marginals, "js", "fisher")]
            smooth += [both for both in together if "landmarks" in both]
            for some in filter(set(names).issuperset, smooth):
                yield some, "laplace" if self.n_bags <= FEW_BAGS else "rbf ridge"
        if self.n_bags <= FEW_BAGS:
            yield ["statistics"], "forest"
        yield ["statistics"], "extra trees"

    def growing(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The same with heads to which bags can be added: ridge regression for kernels, whatever their loss; trees."""
        found = []
        for name, views, head in candidates:
            if not isinstance(head, KernelHead):
                found.append(Candidate(name, views, head))
            elif head.loss == self.usual:  # others are variants of these
                found.append(Candidate(name, views, clone(head).set_params(loss="ridge")))
        return found

    def with_covariates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The same, covariates alone, and covariates beside the plainest: one view, and the usual loss or trees.

        Those that a time limit cuts come last, so covariates stand near what they are added to.

        Examples
        --------
        >>> library = Library(np.arange(9.0), None, 0)
        >>> [candidate.name for candidate in library.with_covariates(library.named("js"))][-2:]
        ['js, rbf', 'js + covariates, rbf']
        """
        constant, mean, *others = candidates
        found = [constant, mean, *(self._candidate([COVARIATES], kind) for kind in ("linear", "rbf", "extra trees"))]
        found.append(self._candidate(["mean", COVARIATES], "linear"))
        for candidate in others:
            name, views, head = candidate
            found.append(candidate)
            plain = isinstance(head, ForestHead) or (isinstance(head, KernelHead) and head.loss == self.usual)
            if plain and len(views) == 1 and views[0] not in SECONDARY:
                found.append(self._candidate([*views, COVARIATES], name.partition(", ")[2]))
        return found
