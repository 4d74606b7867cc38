"""What may become a member: views of bags, heads that suit each of them, and the names by which users ask for them.

A candidate is called ``view, head``, such as ``"mean, linear"`` or ``"mean + covariance, rbf"``; what predicts the same
for all bags is ``"constant"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline

from .. import embeddings
from ..bags import Bags
from ..bags.estimators import check_embedding
from ..compute.arrays import Array
from ..compute.checks import Argument, Message, closest_name
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
from ..models.base import ConstantHead, Head
from ..models.foreign_head import ForeignHead, check_foreign, foreign_name
from ..models.forest import ForestHead
from ..models.kernel_head import KernelHead
from ..models.linear_head import MODELS
from ..models.target_heads import OrderedHead, TargetHead, TransformedHead, has_curve
from ..models.wide_head import N_COMPONENTS
from ..scaling import Standardize, UnitCube, scaler_for
from .composition import COMPOSITION, CompositionEmbedding, distinct_points
from .search import single_or_default, widen
from .size import SIZE, SizeEmbedding, varying_columns
from .view import View, name_of, new_scaler_and_embedding, set_seeds

MANY_COLUMNS = 40  # from here on covariances are more than bags can tell
# columns
MOST_OF_MIXTURES = 20
MOST_OF_DENSITIES = 3
MOST_OF_LANDMARKS = 50  # points per bag; bags with more are near to everything
FEW_FOR_ROUGH_HEADS = 1000  # bags; beyond, random forests take too long and Laplace kernels are too rough
FEW_FOR_SCORES = 20  # bags of the rarest class below which no probabilities are made of held-out scores
# the name of a candidate, and of a view
CONSTANT = "constant"
COVARIATES = "covariates"
SECONDARY = ("narrow-mmd", "wide-js", "rank-mean", "rank-covariance", "rank-moments")  # never with covariates
VARIANTS = {"narrow-mmd": "mmd", "wide-js": "js"}  # views that are worth trying where another is among the best
TUNED = "tuned-"  # begins the name of a head whose settings a search chooses together with those of its view


class HeadKind(NamedTuple):
    """How a head is made for the targets of a library, and whether bags can be added to it."""

    make: Callable[[Library], Head]
    grows: bool = False


HEADS = {
    "linear": HeadKind(lambda library: KernelHead("linear", library.usual, **library.for_many_bags), grows=True),
    "rbf": HeadKind(lambda library: KernelHead("rbf", library.usual, **library.for_many_bags), grows=True),
    "rbf-ridge": HeadKind(lambda library: KernelHead("rbf", "ridge", **library.for_many_bags), grows=True),
    "laplace": HeadKind(lambda library: KernelHead("laplace", "ridge", **library.for_all)),
    "svm": HeadKind(lambda library: KernelHead("rbf", "svm", **library.for_all)),
    "forest": HeadKind(lambda library: ForestHead("forest", **library.for_all)),
    "extra-trees": HeadKind(lambda library: ForestHead("extra", **library.for_all)),
}
ORDERED = "ordered-"  # begins the name of a head that learns ranks of classes, see OrderedHead
TRANSFORMED = "transformed-"  # and of one that learns numbers on a curve, see TransformedHead


def _ordered_head(name: str, library: Library) -> Head:
    """A head of numbers that learns ranks of classes."""
    return OrderedHead(OF_NUMBERS[name](library.seed), library.ranks, int(library.n_classes or 0))


def _transformed_head(name: str, library: Library) -> Head:
    """A head of numbers that learns them on a curve."""
    return TransformedHead(OF_NUMBERS[name](library.seed))


OF_NUMBERS: dict[str, Callable[[int], Head]] = {
    "linear": lambda seed: KernelHead("linear", random_state=seed),
    "rbf": lambda seed: KernelHead("rbf", random_state=seed),
    "extra-trees": lambda seed: ForestHead("extra", random_state=seed),
}
for _name in OF_NUMBERS:
    HEADS[f"{ORDERED}{_name}"] = HeadKind(partial(_ordered_head, _name))
    HEADS[f"{TRANSFORMED}{_name}"] = HeadKind(partial(_transformed_head, _name))
GROWING = [name for name, kind in HEADS.items() if kind.grows]


class Candidate(NamedTuple):
    """A head on one view, or on several side by side."""

    name: str
    views: tuple[str, ...]
    head: Head

    @property
    def kind(self) -> str:
        """The name of the head."""
        return self.name.rpartition(", ")[2]


# What users ask for


@dataclass(frozen=True)
class Request:
    """What the parameters ``embedding`` and ``head`` of a learner ask for.

    Attributes
    ----------
    items : tuple
        Names of embeddings or views, rows of a leaderboard as (views, head), and embeddings.
    everything : bool
        Whether it is ``"auto"``.
    several : bool
        Whether candidates compete: for ``"auto"`` and lists.
    head : estimator or None
        A head of scikit-learn's kind.
    model : str or None
        For a row that ends with ``tuned-...``, the linear model.
    sizes : "auto" or bool
        Whether candidates see the sizes of bags: some of ``"auto"``, all, or none.
    """

    items: tuple[Any, ...]
    everything: bool = False
    several: bool = False
    head: Any = None
    model: str | None = None
    sizes: str | bool = "auto"

    @classmethod
    def of(cls, owner: Any) -> Request:
        """Read the parameters of a learner; errors are in its name."""
        found = replace(cls._of_embedding(owner), sizes=_sizes(owner))
        if found.model is not None and found.sizes is True:
            raise ValueError(
                f"{type(owner).__name__}(sizes=True): {owner.embedding!r} sees no sizes; name the embedding alone: "
                f"{found.items[0]!r}"
            )
        return found

    @classmethod
    def _of_embedding(cls, owner: Any) -> Request:
        """Read ``embedding`` and ``head``."""
        embedding = owner.embedding
        head = owner.head
        if head is not None:
            check_foreign(owner, head)
        if isinstance(embedding, str) and embedding == "auto":
            return cls((), everything=True, several=True, head=head)
        if isinstance(embedding, list | tuple):
            if not embedding:
                raise ValueError(
                    f"{type(owner).__name__}(embedding=...): a list must name at least one view, got none; write "
                    "['mean', 'statistics'], or 'auto'"
                )
            items = tuple(_item(owner, item, head, listed=True) for item in embedding)
            if any(isinstance(item, tuple) and item[1].startswith(TUNED) for item in items):
                raise ValueError(
                    f"{type(owner).__name__}(embedding=...): a '{TUNED}...' head stands alone, got it in a list; leave "
                    "out the list, or the head"
                )
            return cls(items, several=True, head=head)
        item = _item(owner, embedding, head)
        if isinstance(item, tuple) and item[1].startswith(TUNED):
            return cls(item[0], model=item[1].removeprefix(TUNED), head=head)
        return cls((item,), head=head)

    @property
    def is_row(self) -> bool:
        """Whether one row of a leaderboard is asked for."""
        return not self.several and isinstance(self.items[0], tuple)

    @property
    def is_tuned(self) -> bool:
        """Whether one embedding is asked for whose settings a search chooses, unless there are covariates."""
        return not self.several and not self.is_row and self.head is None and self.sizes is not True

    @property
    def heads(self) -> list[str]:
        """Names of the heads of all rows that are named; empty where some view competes with all of its heads."""
        rows = [item for item in self.items if isinstance(item, tuple)]
        return [kind for _, kind in rows] if len(rows) == len(self.items) else []

    @property
    def is_alone(self) -> bool:
        """Whether one candidate is asked for, which gets all the weight."""
        return self.is_row or (not self.several and self.head is not None)


def _sizes(owner: Any) -> str | bool:
    """The parameter ``sizes``, checked."""
    sizes = owner.sizes
    if isinstance(sizes, bool | np.bool_):
        return bool(sizes)
    if isinstance(sizes, str) and sizes == "auto":
        return sizes
    raise ValueError(
        Message(
            Argument("sizes", owner=type(owner).__name__),
            f": must be 'auto', True or False, got {sizes!r}; use 'auto' to let held-out bags decide",
        )
    )


def _item(owner: Any, item: Any, head: Any, listed: bool = False) -> Any:
    """An item as it is, or a row's name as (views, head)."""
    if not isinstance(item, str):
        check_embedding(owner, item)
        return item
    if item == CONSTANT:
        return (), CONSTANT
    views, comma, kind = item.partition(", ")
    if not comma:
        if listed:
            _check_view(owner, item)
        return item
    where = type(owner).__name__
    names = tuple(views.split(" + "))
    classes = is_classifier(owner)
    tuned = [f"{TUNED}{model}" for model in (MODELS if classes else ("ridge",))]
    barred = (
        (TRANSFORMED,)
        if classes and owner.ordered is not None
        else (TRANSFORMED, ORDERED)
        if classes
        else ("svm", ORDERED)
    )
    known = [name for name in HEADS if not name.startswith(barred)]
    known += tuned if len(names) == 1 else []
    if head is not None:
        if kind in known and not listed:
            raise ValueError(
                f"{where}(head=...): {item!r} has a head already, got {foreign_name(head)}; leave head out, or name "
                f"the view alone: {views!r}"
            )
        known.append(foreign_name(head))
    if kind not in known:
        close = closest_name(kind, known)
        raise ValueError(
            f"{where}(embedding={item!r}): {kind!r} is not a head; use {'' if close is None else f'{close!r}, or '}"
            f"one of {', '.join(map(repr, known))}"
        )
    for name in names:
        if name != COVARIATES:
            _check_view(owner, name)
    return names, kind


def _check_view(owner: Any, name: str) -> None:
    """Refuse a name that is neither a view nor an embedding."""
    known = [*dict.fromkeys([*named_views(1, 0, None), *embeddings.available()])]
    if name not in known:
        close = closest_name(name, known)
        hint = f"is {close!r} meant? " if close is not None else ""
        raise ValueError(
            f"{type(owner).__name__}(embedding=...): no view is called {name!r}; {hint}there are {', '.join(known)}"
        )


# Views


def named_views(n_dims: int, seed: int, n_jobs: int | None, has_categories: bool = False) -> dict[str, View]:
    """All views that have a name here, none fitted.

    Ranks are those of columns of numbers: categories become indicators, as they do without ranks.

    Examples
    --------
    >>> [name for name in named_views(2, 0, None) if name.startswith("rank")]
    ['rank-mean', 'rank-covariance', 'rank-moments']
    """
    scaled = Standardize()
    cube = UnitCube(map="auto")
    ranked: Any = UnitCube(map="rank")
    if has_categories:
        ranked = make_pipeline(ranked, Standardize())
    random: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    hellinger = HDDEmbedding("hellinger", n_basis=12, n_jobs=n_jobs)
    mean = MomentEmbedding("mean", n_jobs=n_jobs)
    covariance = MomentEmbedding("covariance", n_jobs=n_jobs)
    moments = StatisticsEmbedding(quantiles=(), n_jobs=n_jobs)
    views = [
        View("mean", scaled, mean),
        View("statistics", scaled, StatisticsEmbedding(n_jobs=n_jobs)),
        View("covariance", scaled, covariance),
        View("moments", scaled, moments),
        View("extremes", scaled, StatisticsEmbedding(quantiles=(0, 1), n_jobs=n_jobs)),
        View("mmd", scaled, MeanEmbedding(500, **random)),
        View("narrow-mmd", scaled, MeanEmbedding(500, sigma_scale=0.5, **random)),
        View("sliced-wasserstein", scaled, SlicedWassersteinEmbedding(30, n_quantiles=10, **random)),
        View("hellinger-marginals", cube, Marginals(hellinger)),
        View("landmarks", scaled, LandmarkEmbedding(**random)),
        View("rank-mean", ranked, mean),
        View("rank-covariance", ranked, covariance),
        View("rank-moments", ranked, moments),
        View("fisher", scaled, FisherEmbedding(8, **random)),
        View("js", cube, HDDEmbedding("js", n_jobs=n_jobs)),
        View("wide-js", cube, HDDEmbedding("js", bandwidth_scale=2.0, n_jobs=n_jobs)),
        View(COMPOSITION, None, CompositionEmbedding()),
        View(SIZE, None, SizeEmbedding()),
    ]
    return {view.name: view for view in views}


def views_for(bags: Bags, seed: int, n_jobs: int | None) -> list[View]:
    """The views worth looking at for bags of this width, none fitted; one of "covariance" and "moments".

    That of sizes is not among them.

    Examples
    --------
    >>> bags = Bags.from_arrays([np.zeros((30, 60))] * 9)
    >>> [view.name for view in views_for(bags, 0, None)][:3]
    ['mean', 'statistics', 'moments']
    """
    d = bags.n_dims
    labels = dict(bags.categories or ())
    width = d - len(labels) + sum(map(len, labels.values()))  # of indicators in place of categories
    second, other = ("moments", "covariance") if width > MANY_COLUMNS else ("covariance", "moments")
    left_out = {SIZE, other, f"rank-{other}"}
    if distinct_points(bags) is None:
        left_out.add(COMPOSITION)
    if bags.n_points > MOST_OF_LANDMARKS * bags.n_bags:
        left_out.add("landmarks")
    if len(labels) == d:
        left_out |= {"rank-mean", f"rank-{second}"}
    if width > MOST_OF_MIXTURES:
        left_out.add("fisher")
    if d > MOST_OF_DENSITIES:
        left_out |= {"js", "wide-js"}
    known = named_views(d, seed, n_jobs, bags.categories is not None)
    return [view for name, view in known.items() if name not in left_out]


def _view_named(name: str, bags: Bags, seed: int, n_jobs: int | None) -> View:
    """A view by its name, or an embedding by its."""
    known = named_views(bags.n_dims, seed, n_jobs, bags.categories is not None)
    return known[name] if name in known else _view_of(embeddings.get(name), name, seed, n_jobs)


def _view_of(embedding: Any, name: str, seed: int, n_jobs: int | None) -> View:
    """A view of an unfitted embedding, behind what makes units irrelevant."""
    set_seeds(embedding, np.random.RandomState(seed), n_jobs)
    return View(name, scaler_for(embedding), embedding)


# Candidates


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
    foreign : estimator, optional
        A head of scikit-learn's kind, which joins the others.
    n_components : int or None, default=5000
        D of Gaussian kernels on many bags. None: one view by name has a linear head alone.
    ranks : ndarray of int of shape (n_classes,), optional
        Of classes that have an order, the rank of each code.

    Examples
    --------
    >>> library = Library(np.arange(9.0), None, 0)
    >>> [candidate.name for candidate in library.named("js")]
    ['constant', 'mean, linear', 'js, linear', 'js, rbf']
    """

    usual: str  # loss

    def __init__(
        self,
        targets: Array,
        n_classes: int | None,
        seed: int,
        foreign: Any = None,
        n_components: int | None = N_COMPONENTS,
        ranks: Array | None = None,
    ) -> None:
        self.ranks = ranks
        self.is_skewed = n_classes is None and has_curve(targets)
        self.n_components = n_components
        self.n_bags = len(targets)
        self.n_classes = n_classes
        self.seed = seed
        self.foreign = foreign
        self.usual = "ridge" if n_classes is None else "logistic"
        self.has_scores = n_classes is not None and np.bincount(targets).min() >= FEW_FOR_SCORES

    def candidate(self, views: Sequence[str], kind: str) -> Candidate:
        """A candidate by the names of its views and of its head."""
        return Candidate(f"{' + '.join(views)}, {kind}", tuple(views), self._head(kind))

    @property
    def for_all(self) -> dict[str, Any]:
        """Parameters of all heads."""
        return {"n_classes": self.n_classes, "random_state": self.seed}

    @property
    def for_many_bags(self) -> dict[str, Any]:
        """Parameters of heads that have random features where bags are many."""
        return {**self.for_all, "n_components": self.n_components or N_COMPONENTS}

    def _head(self, kind: str) -> Head:
        if self.foreign is not None and kind == foreign_name(self.foreign):
            return ForeignHead(self.foreign, **self.for_all)
        return HEADS[kind].make(self)

    @property
    def constant(self) -> Candidate:
        """What every other candidate must beat; it needs some view, and looks at none."""
        return Candidate(CONSTANT, ("mean",), ConstantHead(n_classes=self.n_classes))

    def named(self, name: str) -> list[Candidate]:
        """The constant, the mean, and one view by name, with smooth and linear heads."""
        kinds = dict.fromkeys([("mean", "linear"), (name, "linear"), (name, "rbf")])
        if self.n_components is None:
            del kinds[name, "rbf"]
        kinds |= {
            (name, f"{ORDERED}{kind}"): None for view, kind in [*kinds] if view == name and self.ranks is not None
        }
        return [self.constant, *(self.candidate([view], kind) for view, kind in kinds)]

    def of(self, views: Sequence[View]) -> list[Candidate]:
        """Smooth and linear heads for all views, large margins and forests where they suit; the constant comes first.

        Losses other than the usual one err elsewhere, and so make a better mean.
        """
        return [self.constant, *(self.candidate(some, kind) for some, kind in self._pairs(views))]

    def _pairs(self, views: Sequence[View]) -> Iterator[tuple[Sequence[str], str]]:
        names = [view.name for view in views]
        second = "covariance" if "covariance" in names else "moments"  # of second moments, see views_for
        marginals = "hellinger-marginals"
        alone = [[name] for name in names if name not in ("extremes", SIZE)]
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
                yield some, "laplace" if self.n_bags <= FEW_FOR_ROUGH_HEADS else "rbf-ridge"
        if self.n_bags <= FEW_FOR_ROUGH_HEADS:
            yield ["statistics"], "forest"
        yield ["statistics"], "extra-trees"
        if COMPOSITION in names:
            yield [COMPOSITION], "extra-trees"
            if self.n_bags <= FEW_FOR_ROUGH_HEADS:
                yield [COMPOSITION], "laplace"
        if SIZE in names:
            yield from self._sized_pairs(second)
        if self.is_skewed:
            yield from self._pairs_of_numbers(TRANSFORMED, second)
        if self.ranks is not None:
            yield from self._pairs_of_numbers(ORDERED, second)
        if self.foreign is not None:
            for some in alone:
                yield some, foreign_name(self.foreign)

    def _sized_pairs(self, second: str) -> Iterator[tuple[Sequence[str], str]]:
        """What sees sizes of bags: they alone, and next to views that suit many tables."""
        yield [SIZE], "linear"
        yield [SIZE], "rbf"
        yield ["mean", SIZE], "linear"
        for view in ("mean", "statistics", second, "hellinger-marginals"):
            yield [view, SIZE], "rbf"
        yield ["statistics", SIZE], "extra-trees"

    def _pairs_of_numbers(self, prefix: str, second: str) -> Iterator[tuple[Sequence[str], str]]:
        """Heads that learn targets in another form, on a few views: other forms of the same views add little."""
        yield ["statistics"], f"{prefix}rbf"
        yield ["mean", second] if second == "covariance" else [second], f"{prefix}rbf"
        yield ["hellinger-marginals"], f"{prefix}rbf"
        yield ["statistics"], f"{prefix}extra-trees"
        if prefix == ORDERED:
            yield ["mean"], f"{prefix}linear"
            yield ["statistics"], f"{prefix}linear"

    def for_batches(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Heads to which bags can be added: one ridge regression for each kernel; trees stay as they are.

        Large margins and Laplace kernels, to which none can be added, are variants of others, and left out.
        """
        found: dict[Any, Candidate] = {}
        for candidate in candidates:
            name, views, head = candidate
            if isinstance(head, TargetHead):
                continue
            if not isinstance(head, KernelHead):
                found[name] = candidate
            elif head.loss != "svm" and head.kernel != "laplace":
                found.setdefault((views, head.kernel), Candidate(name, views, clone(head).set_params(loss="ridge")))
        return list(found.values())

    def with_covariates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Add covariates alone, and next to the plainest: one view, and the usual loss, trees or the user's head.

        Sizes count as part of the statistics.

        Those that a time limit cuts come last, so covariates stand near what they are added to.

        Examples
        --------
        >>> library = Library(np.arange(9.0), None, 0)
        >>> [candidate.name for candidate in library.with_covariates(library.named("js"))][-2:]
        ['js, rbf', 'js + covariates, rbf']
        """
        constant, first, *others = candidates
        found = [constant, first, *(self.candidate([COVARIATES], kind) for kind in ("linear", "rbf", "extra-trees"))]
        if self.foreign is not None:
            found.append(self.candidate([COVARIATES], foreign_name(self.foreign)))
        for candidate in (first, *others):
            if candidate is not first:
                found.append(candidate)
            if self._is_plain(candidate):
                found.append(self.candidate([*candidate.views, COVARIATES], candidate.kind))
        return found

    def with_sizes(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Let every candidate but the constant see sizes, before covariates.

        Examples
        --------
        >>> library = Library(np.arange(9.0), None, 0)
        >>> [candidate.name for candidate in library.with_sizes(library.named("js"))]
        ['constant', 'mean + size, linear', 'js + size, linear', 'js + size, rbf']
        """
        found = []
        for candidate in candidates:
            points = [name for name in candidate.views if name not in (SIZE, COVARIATES)]
            rest = [name for name in candidate.views if name == COVARIATES]
            is_constant = isinstance(candidate.head, ConstantHead)
            found.append(candidate if is_constant else self.candidate([*points, SIZE, *rest], candidate.kind))
        return list({candidate.name: candidate for candidate in found}.values())

    def _is_plain(self, candidate: Candidate) -> bool:
        """Whether covariates are tried next to it."""
        _, views, head = candidate
        plain = isinstance(head, ForestHead | ForeignHead) or (isinstance(head, KernelHead) and head.loss == self.usual)
        alone = len(views) == 1 and views[0] not in (*SECONDARY, SIZE, COVARIATES)
        return plain and (alone or views == ("statistics", SIZE))


def own_view(owner: Any, request: Request, rng: np.random.RandomState) -> View | None:
    """The one view that a learner asks for, with its own scaler; None where several compete, or a row is named."""
    if request.several or request.is_row:
        return None
    scaler, embedding = new_scaler_and_embedding(owner)
    set_seeds(embedding, rng, owner.n_jobs)
    return View(name_of(owner.embedding), scaler, widen(embedding, single_or_default(owner.bandwidth_scales, 1.0)))


def library_for(
    owner: Any,
    request: Request,
    own: View | None,
    bags: Bags,
    targets: Array,
    n_classes: int | None,
    seed: int,
    *,
    has_covariates: bool,
    grows: bool,
) -> tuple[dict[str, View], list[Candidate]]:
    """Views by name, and candidates, as a learner asks for them; the constant comes first.

    Parameters
    ----------
    owner : Learner
        For errors, and its threads.
    request : Request
        What it asks for.
    own : View or None
        The one view, if it asks for one; see :func:`own_view`.
    bags : Bags
        On which candidates are scored.
    targets, n_classes
        Codes of classes, or numbers.
    seed : int
        Of what views and heads draw.
    has_covariates : bool
        Whether covariates are there, to be tried alone and with points.
    grows : bool
        Whether bags are to be added.
    """
    ranks = None if n_classes is None or grows else owner.targets_.ranks
    library = Library(targets, n_classes, seed, request.head, owner.n_components, ranks)
    views = {view.name: view for view in views_for(bags, seed, owner.n_jobs)}
    has_sizes = request.sizes is not False and len(varying_columns(bags)) > 0
    if (request.everything or SIZE in request.items) and has_sizes:
        views[SIZE] = View(SIZE, None, SizeEmbedding())
    if request.everything:
        candidates = library.of(list(views.values()))
    elif request.several:
        candidates = _listed_candidates(library, request, views, bags, owner.n_jobs)
    elif own is None:
        row = _row(library, request.items[0], views, bags, owner.n_jobs)
        candidates = list({each.name: each for each in (library.constant, row)}.values())
    else:
        views[own.name] = own
        candidates = library.named(own.name)
        if request.head is not None:
            candidates = [library.constant, library.candidate([own.name], foreign_name(request.head))]
    if has_covariates and owner.tune is None:  # nothing competes
        candidates = [library.constant, library.candidate([*candidates[-1].views, COVARIATES], candidates[-1].kind)]
    elif has_covariates and not request.is_row:
        candidates = library.with_covariates(candidates)
    elif request.sizes is True and owner.tune is None and not (request.several or request.is_row):
        candidates = [library.constant, candidates[-1]]
    if request.sizes is True and has_sizes:
        candidates = library.with_sizes(candidates)
        views[SIZE] = View(SIZE, None, SizeEmbedding())
    _check_sizes(owner, request, candidates, has_sizes)
    if has_covariates:
        views[COVARIATES] = View(COVARIATES, None, None)
    _check_covariates(owner, request, candidates, has_covariates)
    seen = {name for candidate in candidates for name in candidate.views}
    used = {name: view for name, view in views.items() if name in seen}
    return used, library.for_batches(candidates) if grows else candidates


def _listed_candidates(
    library: Library, request: Request, views: dict[str, View], bags: Bags, n_jobs: int | None
) -> list[Candidate]:
    """The candidates of a list: those of ``"auto"`` that see nothing else, and the rows that it names."""
    usual = library.of(list(views.values()))[1:]
    bare = list[str]()
    rows = list[Candidate]()
    for item in request.items:
        if isinstance(item, tuple):
            rows.append(_row(library, item, views, bags, n_jobs))
            continue
        name = item if isinstance(item, str) else _new_name(name_of(item), views)
        bare.append(name)
        if name not in views:
            made = item if isinstance(item, str) else clone(item)
            views[name] = (
                _view_named(made, bags, library.seed, n_jobs)
                if isinstance(made, str)
                else _view_of(made, name, library.seed, n_jobs)
            )
    found = [candidate for candidate in usual if set(candidate.views) <= set(bare)]
    kinds = ["linear", "rbf", *([] if library.foreign is None else [foreign_name(library.foreign)])]
    for name in bare:
        if not any(candidate.views == (name,) for candidate in found):
            found += [library.candidate([name], kind) for kind in kinds]
        if library.ranks is not None:
            found.append(library.candidate([name], f"{ORDERED}rbf"))
    for name in bare if SIZE in bare else ():
        if name != SIZE and not any(candidate.views == (name, SIZE) for candidate in found):
            found += [library.candidate([name, SIZE], kind) for kind in kinds]
    return list({candidate.name: candidate for candidate in (library.constant, *found, *rows)}.values())


def _row(
    library: Library, item: tuple[tuple[str, ...], str], views: dict[str, View], bags: Bags, n_jobs: int | None
) -> Candidate:
    """The candidate of a row's name; its views are added to those that are there."""
    names, kind = item
    if kind == CONSTANT:
        return library.constant
    for name in names:
        if name not in views and name != COVARIATES:
            views[name] = _view_named(name, bags, library.seed, n_jobs)
    return library.candidate(names, kind)


def _new_name(name: str, taken: dict[str, View]) -> str:
    """A name that is not taken: its own, or with a number."""
    found = name
    n = 1
    while found in taken:
        n += 1
        found = f"{name}-{n}"
    return found


def _check_sizes(owner: Any, request: Request, candidates: Sequence[Candidate], has_sizes: bool) -> None:
    """Refuse rows of sizes where these are the same for all bags or not wanted, and ``sizes=True`` in vain."""
    name = type(owner).__name__
    needs = next((each.name for each in candidates if SIZE in each.views), None)
    if request.sizes is False and needs is not None:
        raise ValueError(
            f"{name}(embedding=...): {needs!r} sees sizes, which sizes=False rules out; leave one of them out"
        )
    if request.sizes is True and needs is None:
        raise ValueError(
            Message(
                Argument("sizes", owner=name),
                ": True needs bags of different sizes, and something that looks at them; got bags of one size, or the "
                "constant alone; leave it out",
            )
        )
    if needs is not None and not has_sizes:
        raise ValueError(
            f"{name}(embedding=...): {needs!r} needs bags of different sizes, got bags of one size; leave 'size' out "
            "of the name"
        )


def _check_covariates(owner: Any, request: Request, candidates: Sequence[Candidate], has_covariates: bool) -> None:
    """Refuse a row that needs covariates which are not there, or that would leave out those that are."""
    name = type(owner).__name__
    needs = next((each.name for each in candidates if COVARIATES in each.views), None)
    if needs is not None and not has_covariates:
        raise ValueError(
            f"{name}(embedding=...): {needs!r} needs covariates, got none; pass fit(..., covariates=table), or leave "
            "them out of the name"
        )
    if needs is None and has_covariates:
        raise ValueError(
            f"{name}(embedding={owner.embedding!r}): looks at no covariates, got some; leave them out, or name a row "
            f"such as '{' + '.join([*candidates[-1].views, COVARIATES])}, linear'"
        )
