"""What regression and classification of bags share: from bags to the rows that a linear model sees.

Scaling, the search for settings, the embedding and random features, in pieces of bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from .. import embeddings
from ..bags import Bags
from ..bags.estimators import BagInput, check_bags, check_embedding
from ..compute.checks import check_choice, check_number
from ..compute.progress import SILENT, Progress, Stages, stages_of
from ..features import RandomFourierFeatures
from ..scaling import UnitCube
from .ridge import LinearRidge
from .search import search
from .tuning import Search, folds_of, judging_components, mean_square, subset, widened, width_parameter

if TYPE_CHECKING:
    from .explanation import Explanation

__all__ = ["ALPHAS", "BANDWIDTH_SCALES", "FEW_BAGS", "SIGMA_SCALES", "Learner", "fit_ridge", "only"]

Array = NDArray[Any]

BANDWIDTH_SCALES = (0.5, 0.71, 1.0, 1.41, 2.0)
SIGMA_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = tuple(float(alpha) for alpha in np.round(10.0 ** np.arange(-4, 1.25, 0.5), 6))
DEFAULT_ALPHA = 0.1
FEW_BAGS = 200  # a tenth of fewer says nothing
SIGMA_BAGS = 2000  # whose distances sigma is a multiple of the median of
_CHUNK_VALUES = 2**24  # random features at a time


def only(values: Sequence[float], default: float) -> float:
    """The value if there is one alone, else the default."""
    return float(values[0]) if len(values) == 1 else default


def fit_ridge(alpha: float, rows: Iterator[tuple[Array, slice]], Y: Array, weight: Array, width: int) -> LinearRidge:
    """Ridge regression on rows that come in pieces: in the dual if there are fewer rows than features."""
    model = LinearRidge(alpha)
    if len(Y) <= width:  # there all rows are needed at once
        return model.fit(np.concatenate([Z for Z, _ in rows]), Y, sample_weight=weight)
    for Z, some in rows:
        model.partial_fit(Z, Y[some], sample_weight=weight[some])
    return model


class Learner(BagInput):
    """What regression and classification share."""

    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}  # no data that a pipeline would pass on

    takes_categories = True
    _classes: ClassVar[bool]

    embedding: Any
    scale: Any
    n_components: int | None
    tune: str | int | None
    bandwidth_scales: Sequence[float]
    sigma_scales: Sequence[float]
    alphas: Sequence[float]
    exhaustive: bool
    max_search_bags: int
    random_state: int | np.random.RandomState | None
    n_jobs: int | None

    _penalty: float  # of the linear model: alpha in the units of its features

    # What a subclass says

    def _fit_model(self, rows: Iterator[tuple[Array, slice]], n_bags: int, y: Array, weight: Array) -> None:
        """Fit the linear model to rows of features that come in pieces."""
        raise NotImplementedError

    def _batch_targets(self, y: Any, n_bags: int) -> Array:
        """Targets, checked, before it is known which classes there are."""
        raise NotImplementedError

    def _known_targets(self, y: Array) -> Array:
        """Targets as the linear model is fitted to them, after the classes were settled."""
        raise NotImplementedError

    # Fit

    def _fit(self, X: Any, y: Array, Y: Array, sample_weight: Any, groups: Any, progress: Progress) -> Self:
        """Choose, and fit all stages; ``y`` are the targets, ``Y`` the columns that the search regresses on."""
        with stages_of(progress, f"{type(self).__name__}.fit") as stages:
            return self._fit_stages(X, y, Y, sample_weight, groups, stages)

    def _fit_stages(self, X: Any, y: Array, Y: Array, sample_weight: Any, groups: Any, stages: Stages) -> Self:
        start = perf_counter()
        bags = check_bags(self, X, reset=True)
        weight = self._weights(sample_weight, bags.n_bags)
        groups = self._groups(groups, bags.n_bags)
        self._check_parameters()
        rng = check_random_state(self.random_state)
        drawn = np.random.RandomState(rng.randint(2**31))  # what the model draws, however the search goes
        if not np.all(weight > 0):  # bags of weight zero are as if absent
            there = weight > 0
            bags, y, Y, weight = bags[there], y[there], Y[there], weight[there]
            groups = None if groups is None else groups[there]
        self.timings_: dict[str, float] = {}
        stages.begin("scaling points", None)
        self.scaler_ = self._scaler().fit(bags) if self._wants_scaling() else None
        scaled = bags if self.scaler_ is None else self.scaler_.transform(bags)
        start = self._took("scaling", start)
        self._choose(scaled, y, Y, weight, groups, rng, stages)
        start = self._took("search", start)
        stages.begin("fitting the embedding", None)
        self._fit_features(scaled, drawn)
        start = self._took("fitting the embedding", start)
        self._seconds = {"embedding": 0.0, "random features": 0.0}
        self._fit_model(self._learning(scaled, stages), bags.n_bags, y, weight)
        inside = sum(self._seconds.values())
        self.timings_ |= self._seconds
        self._took("linear model", start + inside)
        del self._seconds
        return self

    def refit(self, X: Any, y: Any, sample_weight: Any = None, *, progress: Progress = False) -> Self:
        """Fit the linear model again, to other bags; scaling, settings, embedding and random features stay.

        For more bags that have come in, bags that were kept out to judge the model, or other targets, where the stages
        before the linear model need not be chosen anew. What the model had learned before is forgotten;
        ``partial_fit`` adds to it.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Targets; classes are those of ``fit``.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.
        progress : bool, callable or object, default=False
            As in ``fit``: how many bags are done.

        Returns
        -------
        self

        Examples
        --------
        >>> import distembed as de
        >>> spread = np.random.default_rng(0).uniform(0.5, 2, size=80)
        >>> bags = np.random.default_rng(1).normal(0, spread[:, None, None], size=(80, 50, 1))
        >>> model = de.DistributionRegressor("deviation", n_components=50, random_state=0).fit(bags[:40], spread[:40])
        >>> settings = model.best_params_
        >>> model.refit(bags, spread).best_params_ == settings
        True
        """
        check_is_fitted(self, "model_")
        bags = check_bags(self, X, reset=False)
        targets = self._batch_targets(y, bags.n_bags)
        weight = self._weights(sample_weight, bags.n_bags)
        if not np.all(weight > 0):
            there = weight > 0
            bags, targets, weight = bags[there], targets[there], weight[there]
        targets = self._known_targets(targets)
        with stages_of(progress, f"{type(self).__name__}.refit") as stages:
            scaled = bags if self.scaler_ is None else self.scaler_.transform(bags)
            self._fit_model(self._learning(scaled, stages), bags.n_bags, targets, weight)
        return self

    def _took(self, stage: str, start: float) -> float:
        now = perf_counter()
        self.timings_[stage] = now - start
        return now

    def _check_parameters(self) -> None:
        self._base = self._named_embedding()
        if self.n_components is not None:
            remedy = "give an even number, or None for the features themselves"
            n = check_number(self, "n_components", self.n_components, low=2, high=10**6, integer=True, remedy=remedy)
            if n % 2:
                raise ValueError(
                    f"{type(self).__name__}(n_components=...): must be even, for the sine and the cosine of each "
                    f"frequency, got {n}; use {n + 1}, or None for the features themselves"
                )
        if isinstance(self.tune, str):
            check_choice(self, "tune", self.tune, ("holdout",))
        elif self.tune is not None:
            remedy = "give a number of folds, 'holdout', or None for no search"
            check_number(self, "tune", self.tune, low=2, high=100, integer=True, remedy=remedy)
        for name in ("bandwidth_scales", "sigma_scales", "alphas", *(["Cs"] if self._classes else [])):
            values = getattr(self, name)
            if isinstance(values, str) or np.ndim(values) != 1 or not len(values):
                raise TypeError(
                    f"{type(self).__name__}({name}=...): must be a sequence of positive numbers, got {values!r}; write "
                    f"({values!r},) for one"
                )
            for value in values:
                check_number(self, name, value, low=0, inclusive="neither")
        check_number(self, "max_search_bags", self.max_search_bags, low=10, integer=True)

    def _named_embedding(self) -> Any:
        if isinstance(self.embedding, str):
            try:
                return embeddings.get(self.embedding)
            except ValueError as error:
                reason = str(error).removeprefix("embeddings.get: ")
                raise ValueError(f"{type(self).__name__}(embedding=...): {reason}") from None
        check_embedding(self, self.embedding)
        return clone(self.embedding)

    def _weights(self, sample_weight: Any, n_bags: int, may_vanish: bool = False) -> Array:
        if sample_weight is None:
            return np.ones(n_bags)
        try:
            weight = np.asarray(sample_weight, np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(self).__name__}: sample_weight must be numbers, got {type(sample_weight).__name__} that are "
                "not; pass one number a bag"
            ) from None
        fine = weight.shape == (n_bags,) and bool(np.all(np.isfinite(weight)) and np.all(weight >= 0))
        if not fine or not (may_vanish or weight.any()):
            raise ValueError(
                f"{type(self).__name__}: sample_weight must be one finite number >= 0 a bag, not all zero, got shape "
                f"{weight.shape} for {n_bags} bags; weights of points belong into Bags(weights=...)"
            )
        return weight

    def _groups(self, groups: Any, n_bags: int) -> Array | None:
        if groups is None:
            return None
        found = self._group_labels(groups, n_bags)
        self._check_groups(found)
        return found

    def _group_labels(self, groups: Any, n_bags: int) -> Array:
        found = np.asarray(groups)
        if found.shape != (n_bags,):
            raise ValueError(
                f"{type(self).__name__}: groups must be one label a bag, got shape {found.shape} for {n_bags} bags; "
                "pass them in the order of the bags"
            )
        return found

    def _check_groups(self, groups: Array) -> None:
        try:
            n_groups = len(np.unique(groups))
        except TypeError:
            raise TypeError(
                f"{type(self).__name__}: groups must be labels of one kind, got several, such as None and text; give "
                "every bag a label"
            ) from None
        if n_groups < 2:
            raise ValueError(f"{type(self).__name__}: groups must be at least two, got one; leave groups out")

    def _wants_scaling(self) -> bool:
        if not isinstance(self.scale, str):
            return self.scale is not None
        check_choice(self, "scale", self.scale, ("auto",))
        inner = getattr(self._base, "embedding", self._base)  # what Marginals and BlockAverage wrap
        methods = embeddings.available().values()
        return any(method.kind is type(inner) and method.units == "unit cube" for method in methods)

    def _scaler(self) -> Any:
        if isinstance(self.scale, str):
            return UnitCube()
        if isinstance(self.scale, type) or not (hasattr(self.scale, "fit") and hasattr(self.scale, "transform")):
            raise TypeError(
                f"{type(self).__name__}(scale=...): must be 'auto', None or a scaler such as UnitCube(), got "
                f"{self.scale!r}; pass an object with fit and transform"
            )
        return clone(self.scale)

    def _choose(
        self,
        bags: Bags,
        y: Array,
        Y: Array,
        weight: Array,
        groups: Array | None,
        rng: np.random.RandomState,
        stages: Stages = SILENT,
    ) -> None:
        """Set ``search_`` and ``best_params_``."""
        for parameter, value in self._base.get_params().items():  # so that the search, too, draws the same again
            kind = parameter.rpartition("__")[2]
            if value is None and kind == "random_state":
                self._base.set_params(**{parameter: int(rng.randint(2**31))})
            if value is None and kind == "n_jobs":
                self._base.set_params(**{parameter: self.n_jobs})
        has_width = width_parameter(self._base) is not None
        self.search_: Search | None = None
        linear = self.n_components is None
        self.best_params_: dict[str, Any] = {
            "bandwidth_scale": only(self.bandwidth_scales, 1.0) if has_width else None,
            "sigma_scale": None if linear else only(self.sigma_scales, 1.0),
            "alpha": only(self.alphas, DEFAULT_ALPHA),
        }
        few = bags.n_bags < 5 or (groups is not None and len(np.unique(groups)) < 3)
        if self.tune is not None and not few:
            some = subset(bags.n_bags, self.max_search_bags, groups, rng)
            chosen = None if groups is None else groups[some]
            share = min(0.5, 0.1 * bags.n_bags / len(some))  # a tenth of all bags
            folds = folds_of(self._folds(len(some), chosen), y[some], chosen, self._classes, rng, share)
            components_for = None if linear else partial(judging_components, int(self.n_components or 0), bags.n_bags)
            self.search_ = search(
                self._base, bags[some], Y[some], weight[some], folds,
                bandwidth_scales=self.bandwidth_scales, sigma_scales=None if linear else self.sigma_scales,
                alphas=self.alphas, components_for=components_for, exhaustive=self.exhaustive, rng=rng,
                n_jobs=self.n_jobs, stages=stages,
            )  # fmt: skip
            best = self.search_.best
            self.best_params_ = {
                "bandwidth_scale": best.bandwidth_scale, "sigma_scale": best.sigma_scale, "alpha": best.alpha,
            }  # fmt: skip
        if has_width:
            self._base = widened(self._base, self.best_params_["bandwidth_scale"])

    def _folds(self, n_bags: int, groups: Array | None) -> str | int:
        if self.tune == "holdout" and n_bags >= FEW_BAGS:
            return "holdout"
        n = n_bags if groups is None else len(np.unique(groups))
        return min(5 if self.tune == "holdout" else int(self.tune), n)  # type: ignore[arg-type]

    def _fit_features(self, bags: Bags, rng: np.random.RandomState) -> None:
        """Fit embedding and random features."""
        self.embedding_ = self._base.fit(bags)
        del self._base
        self.features_ = None
        seed = int(rng.randint(2**31))
        A = self.embedding_.transform(bags[subset(bags.n_bags, SIGMA_BAGS, None, rng)])
        self._penalty = self.best_params_["alpha"]
        if self.n_components is None:  # as in the search, whose kernel was divided by this
            self._penalty *= mean_square(np.asarray(A, np.float64))
            return
        random = RandomFourierFeatures(
            self.n_components, sigma_scale=self.best_params_["sigma_scale"], random_state=seed, n_jobs=self.n_jobs
        )
        self.features_ = random.fit(A)

    @property
    def _width(self) -> int:
        """Number of features that the linear model sees."""
        return int(self.n_components or len(self.embedding_.get_feature_names_out()))

    def _pieces(self, scaled: Bags) -> Iterator[tuple[Array, slice]]:
        """Rows of features of scaled bags, some at a time, and which bags they are of."""
        step = max(1, _CHUNK_VALUES // self._width)
        seconds = getattr(self, "_seconds", {})
        for first in range(0, scaled.n_bags, step):
            rows = slice(first, min(first + step, scaled.n_bags))
            start = perf_counter()
            Z = np.asarray(self.embedding_.transform(scaled[rows]))
            middle = perf_counter()
            if self.features_ is not None:
                Z = self.features_.transform(Z)
            if seconds:
                seconds["embedding"] += middle - start
                seconds["random features"] += perf_counter() - middle
            yield Z, rows

    def _learning(self, scaled: Bags, stages: Stages) -> Iterator[tuple[Array, slice]]:
        """The same, for a linear model that learns from them."""
        stages.begin("learning", scaled.n_bags)
        for Z, rows in self._pieces(scaled):
            yield Z, rows
            stages.advance(rows.stop - rows.start)
        stages.begin("solving", None)

    def _apply(self, X: Any, function: Any) -> Any:
        """A function of the rows of features, for all bags, some at a time."""
        check_is_fitted(self, "model_")
        bags = check_bags(self, X, reset=False)
        scaled = bags if self.scaler_ is None else self.scaler_.transform(bags)
        found = [function(Z) for Z, _ in self._pieces(scaled)]
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(part) for part in zip(*found, strict=True))
        return np.concatenate(found)

    def transform_features(self, X: Any) -> Array:
        """What the linear model sees of bags, ndarray of shape (n_bags, n_components)."""
        return np.asarray(self._apply(X, np.asarray))

    def explain(self, X: Any, *, output: Any = None) -> Explanation:
        """Which points made the predictions what they are: :func:`distembed.learners.explain.explain` of this model.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        output : optional
            Which of several targets, by its number, or which class, by its name.

        Returns
        -------
        Explanation
            A map over the cube for each bag, and a value for each point.
        """
        from .explain import explain

        return explain(self, X, output=output)
