"""What "auto" tries: views of bags, and heads that suit each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..bags import Bags
from ..embeddings import (
    FisherEmbedding,
    HDDEmbedding,
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
FEW_FOR_FORESTS = 1000  # bags beyond which random forests take too long beside extra trees


class Candidate(NamedTuple):
    """A head on one view, or on several side by side."""

    name: str
    views: tuple[str, ...]
    head: Any


def views_for(bags: Bags, seed: int, n_jobs: int | None) -> list[View]:
    """The views worth looking at for bags of this width, none fitted.

    Examples
    --------
    >>> import numpy as np
    >>> bags = Bags.from_arrays([np.zeros((30, 60))] * 9)
    >>> [view.name for view in views_for(bags, 0, None)][:3]
    ['mean', 'statistics', 'deviation']
    """
    d, scaled, cube = bags.n_dims, Standardize(), UnitCube(map="auto")
    second = "deviation" if d > MANY_COLUMNS else "covariance"
    random: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    hellinger = HDDEmbedding("hellinger", n_basis=12, n_jobs=n_jobs)
    views = [
        View("mean", scaled, MomentEmbedding("mean", n_jobs=n_jobs)),
        View("statistics", scaled, StatisticsEmbedding(n_jobs=n_jobs)),
        View(second, scaled, MomentEmbedding(second, n_jobs=n_jobs)),
        View("mmd", scaled, MeanEmbedding(1000, **random)),
        View("narrow mmd", scaled, MeanEmbedding(1000, sigma_scale=0.5, **random)),
        View("sliced wasserstein", scaled, SlicedWassersteinEmbedding(30, n_quantiles=10, **random)),
        View("hellinger marginals", cube, Marginals(hellinger)),
    ]
    if bags.categories is None:
        ranked = UnitCube(map="rank")
        views.append(View("rank mean", ranked, MomentEmbedding("mean", n_jobs=n_jobs)))
        views.append(View(f"rank {second}", ranked, MomentEmbedding(second, n_jobs=n_jobs)))
    if d <= MOST_OF_MIXTURES:
        views.append(View("fisher", scaled, FisherEmbedding(8, **random)))
    if d <= MOST_OF_DENSITIES:
        views.append(View("js", cube, HDDEmbedding("js", n_jobs=n_jobs)))
        views.append(View("wide js", cube, HDDEmbedding("js", bandwidth_scale=2.0, n_jobs=n_jobs)))
    return views


def candidates_for(views: Sequence[View], n_classes: int | None, n_bags: int, seed: int) -> list[Candidate]:
    """Heads for each view: smooth and linear ones for all, large margins and forests where they suit."""
    loss = "ridge" if n_classes is None else "logistic"
    given: dict[str, Any] = {"n_classes": n_classes, "random_state": seed}
    found = [Candidate("constant", ("mean",), ConstantHead(n_classes=n_classes))]
    names = [view.name for view in views]
    for name in names:
        linear = name if name == "mean" else f"{name}, linear"
        found.append(Candidate(linear, (name,), KernelHead(kernel="linear", loss=loss, **given)))
        found.append(Candidate(f"{name}, rbf", (name,), KernelHead(kernel="rbf", loss=loss, **given)))
    second = names[2]
    for first in (second, "mean"):
        head = KernelHead(kernel="rbf", loss=loss, **given)
        found.append(Candidate(f"{first} + hellinger marginals, rbf", (first, "hellinger marginals"), head))
    if n_classes is not None:  # other losses err elsewhere, and so make a better mean
        for name in ("mean", "statistics", second):
            found.append(Candidate(f"{name}, linear ridge", (name,), KernelHead("linear", "ridge", **given)))
            found.append(Candidate(f"{name}, rbf ridge", (name,), KernelHead("rbf", "ridge", **given)))
        found.append(Candidate("statistics, svm", ("statistics",), KernelHead("rbf", "svm", **given)))
    if n_bags <= FEW_FOR_FORESTS:
        found.append(Candidate("statistics, forest", ("statistics",), ForestHead(kind="forest", **given)))
    return [*found, Candidate("statistics, extra trees", ("statistics",), ForestHead(kind="extra", **given))]
