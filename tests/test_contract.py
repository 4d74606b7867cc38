"""Every transformer of bags keeps the family's contract, and the checks of the contract can fail, one by one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from contract import broken_rules
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

import distembed as de
from distembed import embeddings
from distembed.bags import Bags, as_bags
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.embeddings.symmetric import Orbit
from distembed.estimator_checks import bag_transformer_checks, check_bag_transformer

# --------------------------------------------------------------------------------------------------------------
# The estimators of the package
# --------------------------------------------------------------------------------------------------------------

embed = partial(de.HDDEmbedding, n_basis=3, bandwidth=0.15)


def mirrored(points):
    return 1 - points


def half_of_tv(lam):  # not a lambda, which pickle refuses
    return 1 / (np.pi * (1 + 4 * lam**2))


# A bandwidth of each bag's own depends on its number of points, and so does not see copies as the same distribution.
COUNTS_POINTS = ("duplicates", "integer_weights")
CLIPPED = "UnitCube. .* clipped to the faces"
FEW_POINTS = "BlockAverage. .* fewer points than a block"

half_tv = de.HomogeneousDistance("half_tv", measure=half_of_tv)
own_bandwidths = {"bandwidth": "scott", "density": de.KDE(per_bag=True)}


class Case(NamedTuple):
    """An estimator, why it is here, and what it can't keep by its nature or has to warn of."""

    estimator: Any
    why: str
    skip: tuple[str, ...] = ()
    warning: str | None = None


# Every embedding of the catalogue is here by its name, with its defaults where the few points of the checks allow it.
SMALLER = {"codebook-js": {"n_words": 4}, "mmd": {"n_components": 20}}
CATALOGUE = {
    name: Case(method.make(**SMALLER.get(name, {})), method.estimates)
    for name, method in embeddings.available().items()
}

# Other settings that go other ways through the code, wrappers, and what takes bags to bags.
SETTINGS = {
    "one-lambda": Case(
        embed("hellinger", basis="fourier", density=de.KDE("periodic"), n_jobs=2),
        "one lambda, sines, threads",
    ),
    "own-distance": Case(
        embed(half_tv, bandwidth="likelihood"), "a measure of the caller's, a bandwidth by likelihood"
    ),
    "by-dimension": Case(
        embed(
            "chi2",
            n_lambdas="auto",
            n_basis=(2, 4),
            bandwidth=(0.1, 0.2),
            nodes=de.Grid((16, 24)),
            density=de.KDE(("periodic", "reflect")),
        ),
        "as many lambdas as it takes; all else one per dimension, so that fit refuses other widths",
    ),
    "paper": Case(
        embed("tv", lambda_rule="random", nodes=de.MonteCarlo(100), basis="fourier", density=de.KDE("none")),
        "lambdas and nodes drawn at random, densities point by point",
    ),
    "own-bandwidths": Case(embed(**own_bandwidths), "a bandwidth for each bag, on a grid", COUNTS_POINTS),
    "own-bandwidths-sobol": Case(embed(nodes=de.Sobol(64), **own_bandwidths), "and point by point", COUNTS_POINTS),
    "symmetries": Case(embed("js", symmetries="dihedral"), "what acts on rows changes none"),
    "l2-scott": Case(de.L2Embedding(3, "scott", bandwidth_scale=0.7), "another rule, times a number"),
    "l2-histogram": Case(de.L2Embedding(3, density=de.Histogram(4)), "a density without a bandwidth"),
    "l2-sobol": Case(de.L2Embedding(3, 0.15, nodes=de.Sobol(64)), "one bandwidth, point by point"),
    "l2-points-fourier": Case(de.L2Embedding(5, method="points", basis="fourier"), "means of sines"),
    "l2-points-legendre": Case(
        de.L2Embedding(4, method="points", basis=de.Legendre("hyperbolic_cross"), n_jobs=2),
        "means of polynomials, not all products of them, in threads",
    ),
    "mmd-independent": Case(de.MeanEmbedding(20, frequencies="independent", sigma_scale=0.5), "other frequencies"),
    "mmd-hadamard": Case(de.MeanEmbedding(20, frequencies="hadamard", n_jobs=2), "frequencies without a matrix"),
    "mmd-spectrum-narrow": Case(de.MeanEmbedding(3000, 0.2, method="spectrum", n_jobs=2), "many waves, in threads"),
    "histogram-plain": Case(de.HistogramEmbedding("l2", 4, map="none"), "shares as they are"),
    "histogram-by-dimension": Case(de.HistogramEmbedding("js", (2, 5), n_jobs=2), "other bins in each dimension"),
    "histogram-one-bin": Case(de.HistogramEmbedding("tv", 1, order=0), "nothing to see"),
    "histogram-own-distance": Case(de.HistogramEmbedding(de.HomogeneousDistance("doubled", atom=1.0), 3), "an atom"),
    "codebook-gauss": Case(de.CodebookEmbedding(5, "chi2", map="gauss", n_jobs=2), "another map, in threads"),
    "codebook-one-word": Case(de.CodebookEmbedding(1, "l2", map="none"), "nothing to see"),
    "codebook-few-points": Case(de.CodebookEmbedding(3, max_points=8), "words from some of the points"),
    "covariance-scaled": Case(de.MomentEmbedding("covariance", scale=True, n_jobs=2), "units of the training points"),
    "sliced-one": Case(de.SlicedWassersteinEmbedding(1, n_quantiles=1), "one direction, one quantile"),
    "sliced-threads": Case(de.SlicedWassersteinEmbedding(5, n_quantiles=64, n_jobs=2), "more quantiles than points"),
    "bhattacharyya-few": Case(de.GaussianEmbedding(n_landmarks=3), "landmarks among the training bags"),
    "bhattacharyya-diagonal": Case(de.GaussianEmbedding(covariance="diag", reg=0.1), "deviations alone"),
    "product": Case(de.GaussianEmbedding("product:1"), "a kernel with units"),
    "product-raw": Case(de.GaussianEmbedding("product:0.7", normalize=False, reg=0.1), "and not normalised"),
    "skl-diagonal": Case(
        de.GaussianEmbedding("skl", sigma=2.0, covariance="diag", n_landmarks=4, n_jobs=2), "a given scale, in threads"
    ),
    "fisher-one": Case(de.FisherEmbedding(1), "no mixture"),
    "fisher-improved": Case(de.FisherEmbedding(3, improved=True), "signed roots"),
    "fisher-whitened": Case(de.FisherEmbedding(3, covariance="whitened", n_jobs=2), "another frame, in threads"),
    "marginals-each": Case(de.Marginals(de.HistogramEmbedding(bins=3)), "an embedding for each coordinate"),
    "marginals-pairs": Case(de.Marginals(embed(), which="pairs"), "an embedding for each pair of coordinates"),
    "marginals-projections": Case(de.Marginals(embed(), which=3), "directions drawn at random", (), CLIPPED),
    "blocks": Case(de.BlockAverage(embed(), block_size=3), "blocks of equal size", COUNTS_POINTS, FEW_POINTS),
    "views": Case(
        de.Views({"one": make_pipeline(de.UnitCube(), embed("js")), "other": de.MomentEmbedding("mean")}),
        "a pipeline and an embedding in any units",
    ),
    "orbit": Case(Orbit(embed("hellinger"), [mirrored]), "a bag and its image"),
    "random-features": Case(make_pipeline(de.UnitCube(), embed("tv"), de.RandomFourierFeatures(10)), "the whole chain"),
    "cube": Case(de.UnitCube(), "bags to bags, linear"),
    "cube-asinh": Case(de.UnitCube(0.1, map="asinh"), "points beyond the faces are clipped", (), CLIPPED),
    "cube-ranks": Case(de.UnitCube(map="rank", n_quantiles=5), "a map that is read off a table"),
    "cube-sigmoid": Case(de.UnitCube(map="sigmoid"), "the logistic function, which has no faces"),
    "cube-auto": Case(de.UnitCube(map="auto"), "a map for each column"),
    "cube-drop": Case(de.UnitCube(outside="drop", margin=0), "bags that lose points"),
    "standardize": Case(de.Standardize(), "bags to bags, means and deviations"),
    "standardize-robust": Case(de.Standardize(robust=True), "medians and quartiles"),
    "select": Case(de.Select((1,)), "bags to bags, one column"),
    "local-scale": Case(de.LocalScale((2, 5)), "distances to neighbours, which copies change", COUNTS_POINTS),
}
CASES = CATALOGUE | SETTINGS


@pytest.mark.parametrize("key", CASES)
def test_the_contract(key):
    case = CASES[key]
    with warnings.catch_warnings():
        if case.warning is not None:
            warnings.filterwarnings("ignore", case.warning)
        assert broken_rules(case.estimator, case.skip) == {}


def test_a_slow_rule_for_the_bandwidth_on_bags_that_try_it():
    names = {"one_point", "equal_points", "constant_dimension", "uneven_sizes", "widths", "float32"}
    others = {name for name, _ in bag_transformer_checks(embed())} - names
    assert broken_rules(embed(bandwidth="isj"), skip=sorted(others)) == {}


# --------------------------------------------------------------------------------------------------------------
# Transformers that break one rule: what the checks must find
# --------------------------------------------------------------------------------------------------------------


class Moments(BagEstimator):
    """Weighted means of the coordinates and of their squares: the simplest transformer that keeps the contract."""

    def __init__(self, power=2, random_state=None):
        self.power = power
        self.random_state = random_state

    def fit(self, X, y=None):
        check_bags(self, X, reset=True)
        return self

    def transform(self, X):
        check_is_fitted(self)
        return self.moments(check_bags(self, X, reset=False))

    def moments(self, bags):
        values = np.concatenate([bags.points, bags.points**self.power], axis=1)
        weights = np.ones(bags.n_points, bags.dtype) if bags.weights is None else bags.weights
        starts = bags.offsets[:-1]
        return np.add.reduceat(weights[:, None] * values, starts) / np.add.reduceat(weights, starts)[:, None]

    def get_feature_names_out(self, input_features=None):
        return np.array([f"m{j}" for j in range(2 * self.n_features_in_)], dtype=object)


class FirstPoint(Moments):
    def moments(self, bags):
        return bags.points[bags.offsets[:-1]]

    def get_feature_names_out(self, input_features=None):
        return np.array([f"m{j}" for j in range(self.n_features_in_)], dtype=object)


class Centred(Moments):
    def moments(self, bags):
        rows = super().moments(bags)
        return rows - rows.mean(axis=0)


class Numbered(Moments):
    def moments(self, bags):
        return super().moments(bags) + np.arange(bags.n_bags, dtype=bags.dtype)[:, None]


class CountsPoints(Moments):
    def moments(self, bags):
        return super().moments(bags) * np.log1p(bags.sizes)[:, None].astype(bags.dtype)


class IgnoresWeights(Moments):
    def moments(self, bags):
        return super().moments(Bags(bags.points, bags.offsets))


class SumsWeights(Moments):
    def moments(self, bags):
        total = 1 if bags.weights is None else np.add.reduceat(bags.weights, bags.offsets[:-1])[:, None]
        return super().moments(bags) * total


class ScaleOfWeightsInFit(Moments):
    def fit(self, X, y=None):
        bags = check_bags(self, X, reset=True)
        weights = np.ones(1) if bags.weights is None else bags.weights
        self.power_ = 1 + weights.max()
        return self

    def moments(self, bags):
        return super().moments(bags) * bags.dtype.type(self.power_)


class HalvesCubes(Moments):
    def transform(self, X):
        return super().transform(X / 2 if isinstance(X, np.ndarray) and X.ndim == 3 else X)


class SortsInPlace(Moments):
    def transform(self, X):
        for points in () if isinstance(X, Bags) else X:
            if points.flags.writeable:
                points.sort(axis=0)
        return super().transform(X)


class NeedsWriteable(Moments):
    def transform(self, X):
        if isinstance(X, np.ndarray) and not X.flags.writeable:
            raise ValueError("buffer source array is read-only")
        return super().transform(X)


class OverwritesParameter(Moments):
    def __init__(self, power=None, random_state=None):
        super().__init__(power, random_state)

    def fit(self, X, y=None):
        self.power = self.power or 2
        return super().fit(X)


class WritesIntoParameter(Moments):
    def __init__(self, power=2, random_state=None, shift=()):
        super().__init__(power, random_state)
        self.shift = shift

    def fit(self, X, y=None):
        self.shift[:] = 0
        return super().fit(X)


class FitsItsParameter(Moments):
    def __init__(self, inner, random_state=None):
        self.inner = inner
        self.random_state = random_state

    def fit(self, X, y=None):
        self.inner.fit(X)
        return super().fit(X)

    def moments(self, bags):
        return self.inner.moments(bags)


class ConvertsInConstructor(Moments):
    def __init__(self, power=2, random_state=None):
        super().__init__(float(power), random_state)


class ReturnsNothing(Moments):
    def fit(self, X, y=None):
        super().fit(X)


class ReturnsAnother(Moments):
    def fit(self, X, y=None):
        return clone(self)._fitted_on(X)

    def _fitted_on(self, X):
        return super().fit(X)


class StrayAttribute(Moments):
    def fit(self, X, y=None):
        self.learned = 1
        return super().fit(X)


class Remembers(Moments):
    def fit(self, X, y=None):
        self.seen_ = getattr(self, "seen_", 0) + 1
        return super().fit(X)

    def moments(self, bags):
        return super().moments(bags) * self.seen_


class OtherFitTransform(Moments):
    def fit_transform(self, X, y=None):
        return 2 * self.fit(X).transform(X)


class Unpicklable(Moments):
    def fit(self, X, y=None):
        self.function_ = lambda: None
        return super().fit(X)


class Unguarded(Moments):
    def transform(self, X):
        return self.moments(check_bags(self, X, reset=False))


class DrawsGlobally(Moments):
    def fit(self, X, y=None):
        np.random.uniform()  # noqa: NPY002
        return super().fit(X)


class IgnoresItsSeed(Moments):
    counter = 0

    def fit(self, X, y=None):
        type(self).counter += 1
        self.shift_ = self.counter
        return super().fit(X)

    def moments(self, bags):
        return super().moments(bags) + bags.dtype.type(self.shift_)


class AlwaysFloat64(Moments):
    def moments(self, bags):
        return super().moments(bags).astype(np.float64)


class Coarse(Moments):
    def moments(self, bags):
        return super().moments(bags) + (0.01 if bags.dtype == np.float32 else 0)


class KeepsIntegers(Moments):
    def transform(self, X):
        integers = isinstance(X, list) and len(X) > 0 and X[0].dtype.kind == "i"
        return super().transform(X).astype(np.int64 if integers else as_bags(X).dtype)


class NanForOnePoint(Moments):
    def moments(self, bags):
        return np.where(bags.sizes[:, None] == 1, bags.dtype.type(np.nan), super().moments(bags))


class DividesByRange(Moments):
    def moments(self, bags):
        starts = bags.offsets[:-1]
        spread = np.maximum.reduceat(bags.points, starts) - np.minimum.reduceat(bags.points, starts)
        with np.errstate(divide="ignore"):
            return super().moments(bags) / np.tile(spread, 2)


class NeedsVariationInFit(Moments):
    def fit(self, X, y=None):
        with np.errstate(divide="ignore"):
            self.scale_ = 1 / np.ptp(as_bags(X).points, axis=0).min()
        return super().fit(X)

    def moments(self, bags):
        return super().moments(bags) * bags.dtype.type(self.scale_)


class OnlyPlane(Moments):
    def moments(self, bags):
        return super().moments(bags) / (1 if bags.n_dims == 2 else bags.dtype.type(np.nan))


class AnyWidth(Moments):
    def transform(self, X):
        check_is_fitted(self)
        return self.moments(as_bags(X))


class VagueAboutWidth(Moments):
    def transform(self, X):
        check_is_fitted(self)
        if as_bags(X).n_dims != self.n_features_in_:
            raise ValueError("wrong number of dimensions")
        return super().transform(X)


class FillsGaps(Moments):
    def transform(self, X):
        X = [np.nan_to_num(points) for points in X] if isinstance(X, list) and X else X
        return super().transform(X)


class RepeatsNames(Moments):
    def get_feature_names_out(self, input_features=None):
        return np.array(["m"] * 2 * self.n_features_in_, dtype=object)


class IgnoresSetOutput(Moments):
    def set_output(self, *, transform=None):
        return self


class NoHtml(Moments):
    def _get_doc_link(self):
        raise RuntimeError("no page")


class TakesNoTarget(Moments):
    def fit(self, X):
        return super().fit(X)


class ForgetsWeights(de.MomentEmbedding):
    def merge(self, a, b):
        return super().merge(replace(a, weight=float(a.n_points)), b) if a.weight else super().merge(a, b)


BROKEN = [
    (ForgetsWeights("mean"), {"sketches"}),
    (ConvertsInConstructor(), {"parameters"}),
    (FirstPoint(), {"point_order", "integer_weights"}),
    (Centred(), {"own_bag"}),
    (Numbered(), {"bag_order", "own_bag", "widths"}),
    (CountsPoints(), {"duplicates", "integer_weights"}),
    (IgnoresWeights(), {"integer_weights"}),
    (SumsWeights(), {"constant_weights", "integer_weights", "weight_scale"}),
    (ScaleOfWeightsInFit(), {"constant_weights", "weight_scale"}),
    (HalvesCubes(), {"containers"}),
    (SortsInPlace(), {"input_untouched"}),
    (NeedsWriteable(), {"input_untouched"}),
    (OverwritesParameter(), {"fit_keeps_parameters"}),
    (WritesIntoParameter(shift=np.ones(2)), {"fit_keeps_parameters"}),
    (FitsItsParameter(Moments()), {"fit_keeps_parameters"}),
    (ReturnsAnother(), {"fit_returns_self", "pipeline"}),
    (StrayAttribute(), {"fitted_attributes"}),
    (Remembers(), {"fit_forgets"}),
    (OtherFitTransform(), {"fit_transform"}),
    (Unpicklable(), {"pickle"}),
    (Unguarded(), {"unfitted"}),
    (DrawsGlobally(), {"random_state"}),
    (AlwaysFloat64(), {"float32"}),
    (Coarse(), {"float32"}),
    (KeepsIntegers(), {"integer_points"}),
    (NanForOnePoint(), {"one_point", "uneven_sizes"}),
    (DividesByRange(), {"one_point", "equal_points", "constant_dimension", "uneven_sizes", "integer_weights"}),
    (NeedsVariationInFit(), {"constant_dimension"}),
    (OnlyPlane(), {"widths"}),
    (AnyWidth(), {"wrong_width"}),
    (VagueAboutWidth(), {"wrong_width"}),
    (FillsGaps(), {"invalid_bags"}),
    (RepeatsNames(), {"feature_names"}),
    (IgnoresSetOutput(), {"pandas_output"}),
    (NoHtml(), {"html"}),
    (TakesNoTarget(), {"pipeline"}),
]


def test_the_simplest_transformer_keeps_the_contract():
    check_bag_transformer(Moments())


@pytest.mark.parametrize(("estimator", "rules"), BROKEN, ids=lambda value: type(value).__name__)
def test_a_broken_rule_is_found_and_named(estimator, rules):
    errors = broken_rules(estimator)
    assert set(errors) == rules
    assert all(f"breaks the rule {name!r}" in text for name, text in errors.items())
    assert all(type(estimator).__name__ in text for text in errors.values())


def test_every_rule_can_be_broken():
    names = {name for name, _ in bag_transformer_checks(Moments())}
    assert set().union(*(rules for _, rules in BROKEN)) == names


@pytest.mark.parametrize(
    ("estimator", "first"), [(ReturnsNothing(), "fit_returns_self"), (IgnoresItsSeed(), "fit_forgets")]
)
def test_a_fault_that_breaks_many_rules_is_named_by_the_first(estimator, first):
    with pytest.raises(AssertionError, match=f"{type(estimator).__name__}.* breaks the rule '{first}'"):
        check_bag_transformer(estimator)


def test_an_error_says_rule_and_cause():
    with pytest.raises(AssertionError, match=r"point_order.*: The order of points .* But: .* row \d is off by") as info:
        check_bag_transformer(FirstPoint())
    assert isinstance(info.value.__cause__, AssertionError)


def test_an_estimator_that_refuses_all_bags_is_told_why():
    with pytest.raises(AssertionError, match=r"refuses points of every width, 2-D: .*margin"):
        check_bag_transformer(de.UnitCube(margin=-1))


def test_skipped_rules():
    check_bag_transformer(CountsPoints(), skip=COUNTS_POINTS)
    assert "duplicates" not in dict(bag_transformer_checks(CountsPoints(), skip=["duplicates"]))


@pytest.mark.parametrize("skip", ["duplicates", ["weights"], ("duplicates", "copies")])
def test_only_rules_can_be_skipped(skip):
    with pytest.raises(ValueError, match=r"skip=.*, got \['(duplicates|weights|copies)'\]; the names are"):
        check_bag_transformer(Moments(), skip=skip)


def test_the_estimator_itself_is_left_alone():
    estimator = embed(random_state=7)
    before = dict(vars(estimator))
    check_bag_transformer(estimator)
    assert vars(estimator) == before
