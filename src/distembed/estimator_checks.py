"""The contract of the family: what every transformer of bags promises, as checks that anyone can run.

scikit-learn's own checks speak about rectangular input, so they skip an estimator whose ``X`` is bags. These take
their place. A rule is one short method of ``_Rules``; its docstring is the rule, and an error repeats it. The bags are
small, seeded and lie in the unit cube. An estimator may return features (anything two-dimensional with one row per bag)
or :class:`~distembed.bags.Bags`; bags that come out are compared as the distributions they are.
"""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr

from .bags import Bags
from .basis import LowEnergyWarning
from .compute.arrays import Array
from .embeddings.sketches import compare_pieces

__all__ = ["bag_transformer_checks", "check_bag_transformer"]

SIZES = (6, 9, 4, 12, 7, 5)
# of the largest value in the rows
TOLERANCE = 1e-6
FLOAT32_TOLERANCE = 1e-3


def check_bag_transformer(estimator: Any, *, skip: Sequence[str] = ()) -> None:
    """Raise unless a transformer of bags keeps the contract of the family.

    Parameters
    ----------
    estimator : transformer
        Bags to a 2-D array, or bags to bags. It is cloned, never fitted; every ``random_state`` of the clones is 0.
    skip : sequence of str, optional
        Names of rules that the estimator can't keep by its nature, such as ``"duplicates"`` for one that looks at
        the number of points. :func:`bag_transformer_checks` yields all names.

    Raises
    ------
    AssertionError
        At the first broken rule, with its name, the estimator, and what was seen.

    Examples
    --------
    >>> from distembed import HDDEmbedding
    >>> from distembed.estimator_checks import check_bag_transformer
    >>> check_bag_transformer(HDDEmbedding("hellinger", n_basis=3, bandwidth=0.2))
    """
    for _, check in bag_transformer_checks(estimator, skip=skip):
        check()


def bag_transformer_checks(estimator: Any, *, skip: Sequence[str] = ()) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the rules one by one, for a test runner to report one by one.

    Parameters
    ----------
    estimator, skip
        As in :func:`check_bag_transformer`.

    Returns
    -------
    iterator of (name, check)
        The name of a rule, and a callable without arguments that raises AssertionError if the rule is broken.

    Examples
    --------
    With pytest: ``@pytest.mark.parametrize(("name", "check"), list(bag_transformer_checks(estimator)))``.

    >>> from distembed import UnitCube
    >>> from distembed.estimator_checks import bag_transformer_checks
    >>> [name for name, _ in bag_transformer_checks(UnitCube())][:3]
    ['parameters', 'fit_returns_self', 'fit_keeps_parameters']
    """
    names = [name for name in vars(_Rules) if not name.startswith("_")]
    unknown = [skip] if isinstance(skip, str) else sorted(set(skip).difference(names))
    if unknown:
        raise ValueError(f"skip=...: must be a sequence of names of rules, got {unknown}; the names are {names}")
    return ((name, partial(_run, rules, name)) for rules in [_Rules(estimator)] for name in names if name not in skip)


def _run(rules: _Rules, name: str) -> None:
    """Check one rule; whatever goes wrong becomes an AssertionError that names rule and estimator."""
    rule = getattr(rules, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LowEnergyWarning)  # the bags are ours, and no reason to choose other sizes
            rule()
    except Exception as error:
        seen = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        text = f"{rules._estimator!r} breaks the rule {name!r} for transformers of bags: {rule.__doc__} But: {seen}"
        raise AssertionError(text) from error


class _Rules:
    """The rules for one estimator, every public method in this order; it is fitted once, because that may be slow."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def _new(self) -> Any:
        """An unfitted clone with fixed random states."""
        estimator = clone(self._estimator)
        seeds = [key for key in estimator.get_params() if key.split("__")[-1] == "random_state"]
        return estimator.set_params(**dict.fromkeys(seeds, 0))

    @cached_property
    def _first(self) -> tuple[int, Any]:
        """The width of points, two or the first other one that the estimator accepts, and a fitted estimator."""
        refusals = []
        for width in (2, 1, 3, 4):
            try:
                return width, self._new().fit(make_bags(width))
            except ValueError as error:
                refusals.append(f"{width}-D: {error}")
        raise AssertionError(f"fit refuses points of every width, {'; '.join(refusals)}")

    @property
    def _width(self) -> int:
        return self._first[0]

    @property
    def _bags(self) -> Bags:
        return make_bags(self._width)

    def _weighted(self, weights: Array) -> Bags:
        return Bags(self._bags.points, self._bags.offsets, weights)

    @property
    def _arrays(self) -> list[Array]:
        """Writeable arrays of equal size, one per bag."""
        return [points.copy() for points in make_bags(self._width, (6,) * len(SIZES))]

    @property
    def _fitted(self) -> Any:
        """A copy of the fitted estimator, so no rule depends on another."""
        return copy.deepcopy(self._first[1])

    @cached_property
    def _output(self) -> Any:
        """What the training bags become."""
        return self._fitted.transform(self._bags)

    @property
    def _wanted(self) -> Array:
        return rows_of(self._output)

    def _require_finite(self, arrays: Sequence[Array]) -> None:
        """Rows of these bags are finite; so they are after a ``fit`` on them, unless it refuses them clearly."""
        bags = Bags.from_arrays(arrays)
        require(np.isfinite(rows_of(self._fitted.transform(bags))).all(), "transform gives NaN or infinity")
        try:
            fitted = self._new().fit(bags)
        except ValueError:
            return
        require(np.isfinite(rows_of(fitted.transform(bags))).all(), "after a fit on such bags, transform gives NaN")

    # Parameters and state

    def parameters(self) -> None:
        """The constructor stores whatever it gets as it is, to be judged in ``fit``, and clone keeps parameters."""
        given = {key: object() for key in self._estimator.get_params(deep=False)}
        made = type(self._estimator)(**given)
        for key, value in given.items():
            require(getattr(made, key, None) is value, f"{key} is not stored as it is")
        before = settings(self._estimator)
        after = settings(clone(self._estimator))
        for key, value in before.items():
            plain = isinstance(value, str | int | float)
            require(key in after and (not plain or after[key] == value), f"clone loses {key}={value!r}")

    def fit_returns_self(self) -> None:
        """``fit`` returns the estimator itself."""
        require((estimator := self._new()).fit(self._bags) is estimator, "it returns something else")

    def fit_keeps_parameters(self) -> None:
        """``fit`` leaves every parameter as it was, and fits a clone of an estimator that is a parameter."""
        estimator = self._new()
        inner = [value for value in estimator.get_params(deep=False).values() if hasattr(value, "get_params")]
        before = settings(estimator)
        names = [set(vars(value)) for value in inner]
        after = settings(estimator.fit(self._bags))
        for key, value in before.items():
            require(after[key] is value or after[key] == value, f"{key} was {value!r} and is {after[key]!r}")
        require(names == [set(vars(value)) for value in inner], "an estimator given as a parameter was fitted itself")

    def fitted_attributes(self) -> None:
        """What ``fit`` learns has a name that ends, or starts, with an underscore."""
        learned = sorted(set(vars(self._fitted)).difference(vars(self._new())))
        require(not (stray := [name for name in learned if "_" not in (name[0], name[-1])]), f"fit sets {stray}")

    def fit_forgets(self) -> None:
        """A second ``fit`` gives what a first one would, whatever was fitted before."""
        fitted = self._new().fit(make_bags(self._width, SIZES[:4], seed=1))
        require_close(fitted.fit(self._bags).transform(self._bags), self._wanted, "after a fit on other bags")

    def fit_transform(self) -> None:
        """``fit_transform`` gives what ``fit`` and then ``transform`` give."""
        require_close(self._new().fit_transform(self._bags), self._wanted, "fit_transform")

    def pickle(self) -> None:
        """A fitted estimator survives pickle, to the last bit."""
        rows = rows_of(pickle.loads(pickle.dumps(self._fitted)).transform(self._bags))
        require(np.array_equal(rows, self._wanted), "the loaded one gives other rows")

    def unfitted(self) -> None:
        """Before ``fit``, and in a clone of a fitted estimator, ``transform`` raises NotFittedError."""
        require_error(NotFittedError, lambda: self._new().transform(self._bags), "transform before fit")
        require_error(NotFittedError, lambda: clone(self._fitted).transform(self._bags), "transform of a clone")

    def random_state(self) -> None:
        """Equal ``random_state`` gives equal rows, and NumPy's global generator is left untouched."""
        before = joblib.hash(np.random.get_state())  # noqa: NPY002
        require_close(self._new().fit(self._bags).transform(self._bags), self._wanted, "a second clone")
        require(joblib.hash(np.random.get_state()) == before, "the global generator has moved")  # noqa: NPY002

    # Bags are sets of points

    def point_order(self) -> None:
        """The order of points inside a bag is irrelevant."""
        shuffled = list(map(np.random.default_rng(1).permutation, self._bags))
        require_close(self._fitted.transform(shuffled), self._wanted, "points in another order")

    def bag_order(self) -> None:
        """Permuted bags give permuted rows."""
        some = np.random.default_rng(1).permutation(len(SIZES))
        require_close(self._fitted.transform(self._bags[some]), self._wanted[some], "bags in another order")

    def own_bag(self) -> None:
        """A row depends on its own bag only."""
        for rows in ([1, 2, 3], *([i] for i in range(len(SIZES)))):
            require_close(self._fitted.transform(self._bags[rows]), self._wanted[rows], f"bags {rows} alone")

    def containers(self) -> None:
        """Bags, a list, a tuple, an object array and, for equal sizes, a 3-D array give the same rows."""
        arrays = self._arrays
        objects = np.fromiter(arrays, dtype=object, count=len(arrays))
        bags = Bags.from_arrays(arrays)
        wanted = rows_of(self._new().fit(bags).transform(bags))
        for X in (Bags.from_arrays(arrays, ids=list("uvwxyz")), arrays, tuple(arrays), objects, np.stack(arrays)):
            require_close(self._new().fit(X).transform(X), wanted, f"a {type(X).__name__}")

    def duplicates(self) -> None:
        """Doubling every point changes nothing once fitted: a bag is a distribution."""
        twice = self._fitted.transform(Bags(np.repeat(self._bags.points, 2, axis=0), 2 * self._bags.offsets))
        require_close(twice, self._wanted, "every point twice")

    def constant_weights(self) -> None:
        """Equal weights give the same result as none, in ``fit`` too."""
        weighted = self._weighted(np.full(self._bags.n_points, 2.5))
        require_close(self._fitted.transform(weighted), self._wanted, "weights of 2.5")
        require_close(self._new().fit(weighted).transform(self._bags), self._wanted, "fit with weights of 2.5")

    def integer_weights(self) -> None:
        """A point of weight k counts as k points once fitted, one of weight zero as none."""
        counts = np.resize([0, 2, 1, 3], self._bags.n_points)
        sizes = np.add.reduceat(counts, self._bags.offsets[:-1])
        repeated = Bags(np.repeat(self._bags.points, counts, axis=0), np.append(0, np.cumsum(sizes)))
        wanted = rows_of(self._fitted.transform(repeated))
        require_close(self._fitted.transform(self._weighted(counts)), wanted, "weights in place of copies")

    def weight_scale(self) -> None:
        """Only the ratios of weights inside a bag matter, in ``fit`` too."""
        weights = np.random.default_rng(1).uniform(0.5, 2, self._bags.n_points)
        factors = np.repeat(10.0 ** np.arange(-3, 3), self._bags.sizes)
        plain = self._weighted(weights)
        scaled = self._weighted(weights * factors)
        wanted = rows_of(self._fitted.transform(plain))
        require_close(self._fitted.transform(scaled), wanted, "the weights of a bag times a constant")
        wanted = rows_of(self._new().fit(plain).transform(plain))
        require_close(self._new().fit(scaled).transform(plain), wanted, "fit with weights times a constant")

    def sketches(self) -> None:
        """Sketches of pieces of a bag, merged in any order, make its row, where there is ``partial``."""
        for what, got, wanted in compare_pieces(self._fitted, self._bags):
            require_close(got, wanted, what)

    # Numbers

    def float32(self) -> None:
        """float32 points give float32 and float64 points float64, whatever ``fit`` saw; they agree to three digits."""
        single = self._bags.astype(np.float32)
        for estimator, what in ((self._fitted, "fitted on float64"), (self._new().fit(single), "fitted on float32")):
            got = estimator.transform(single)
            wanted = estimator.transform(self._bags)
            dtypes = [str(rows_of(got).dtype), str(rows_of(wanted).dtype)]
            require(dtypes == ["float32", "float64"], f"{what}, float32 and float64 points give {dtypes}")
            require_close(got, rows_of(wanted), f"{what}, float32", FLOAT32_TOLERANCE)

    def integer_points(self) -> None:
        """Integer points become float64."""
        corners = [np.round(points).astype(np.int64) for points in self._bags]
        require((got := rows_of(self._fitted.transform(corners))).dtype == np.float64, f"the result is {got.dtype}")
        require_close(got, rows_of(self._fitted.transform([points.astype(float) for points in corners])), "integers")

    def one_point(self) -> None:
        """Bags of one point give finite values."""
        self._require_finite([points[1:2] for points in self._bags])

    def equal_points(self) -> None:
        """Bags whose points are all equal give finite values."""
        self._require_finite([np.repeat(points[1:2], len(points), axis=0) for points in self._bags])

    def constant_dimension(self) -> None:
        """A coordinate that never changes gives finite values."""
        self._require_finite([np.where(np.arange(self._width) == 0, 0.25, points) for points in self._bags])

    def uneven_sizes(self) -> None:
        """Bags of one point and of many give finite values side by side."""
        self._require_finite([self._bags[0][:1], *make_bags(self._width, (2, 500, 3))])

    def widths(self) -> None:
        """Points of one to three dimensions work alike, unless ``fit`` refuses the width; 1-D arrays are 1-D points."""
        for width in {1, 2, 3} - {self._width}:
            bags = make_bags(width, SIZES[:2])
            try:
                fitted = self._new().fit(bags)
            except ValueError:
                continue
            wanted = rows_of(fitted.transform(bags))
            require(len(wanted) == 2 and np.isfinite(wanted).all(), f"{width}-D points: not one finite row per bag")
            arrays = [points.ravel() if width == 1 else points for points in bags]
            require_close(fitted.transform(arrays[::-1]), wanted[::-1], f"a list of two bags of {width}-D points")

    def input_untouched(self) -> None:
        """The caller's arrays stay as they were, to the last bit, and may be read-only."""
        arrays = self._arrays
        stacked = np.stack(self._arrays)
        for X, owners in ((arrays, arrays), (stacked, [stacked])):
            before = [array.tobytes() for array in owners]
            self._new().fit(X).transform(X)
            require([array.tobytes() for array in owners] == before, f"a {type(X).__name__} was written to")
            for array in owners:
                array.flags.writeable = False
            self._new().fit(X).transform(X)

    def wrong_width(self) -> None:
        """Points of another width than in ``fit`` raise a ValueError that names both widths."""
        widths = (self._width, self._width + 1)
        require_error(ValueError, lambda: self._fitted.transform(make_bags(widths[1])), "transform", *widths)

    def invalid_bags(self) -> None:
        """NaN, infinity, an empty bag and no bag at all raise ValueError, in ``fit`` and in ``transform``."""
        good = np.full((3, self._width), 0.5)
        broken = {"NaN": [good, good * np.nan], "infinity": [good + np.inf], "an empty bag": [good, good[:0]], "[]": []}
        for what, X in broken.items():
            require_error(ValueError, partial(self._new().fit, X), f"fit on {what}")
            require_error(ValueError, partial(self._fitted.transform, X), f"transform of {what}")

    # Company

    def feature_names(self) -> None:
        """``get_feature_names_out`` gives unique texts, one a feature (or a coordinate, of bags)."""
        width = self._output.n_dims if isinstance(self._output, Bags) else self._wanted.shape[1]
        names = self._fitted.get_feature_names_out()
        require(all(isinstance(name, str) for name in names), "some name is not a text")
        require(len(set(names)) == len(names) == width, f"{len(set(names))} different names for {width} columns")

    def pandas_output(self) -> None:
        """``set_output(transform="pandas")``, where pandas is installed, gives a frame whose columns are the names."""
        if not isinstance(self._output, Bags) and find_spec("pandas") is not None:
            frame = (estimator := self._new().set_output(transform="pandas").fit(self._bags)).transform(self._bags)
            require(type(frame).__name__ == "DataFrame", f"it gives a {type(frame).__name__}")
            require(list(frame.columns) == list(estimator.get_feature_names_out()), "the columns have other names")
            require_close(frame.to_numpy(), self._wanted, "the frame")

    def html(self) -> None:
        """The HTML representation works, unfitted and fitted, and names the class."""
        pages = [estimator_html_repr(estimator) for estimator in (self._new(), self._fitted)]
        require(all(type(self._estimator).__name__ in page for page in pages), "it does not name the class")

    def pipeline(self) -> None:
        """Features go into a linear model in a pipeline, and GridSearchCV can split, clone and score it."""
        if not isinstance(self._output, Bags):
            from sklearn import linear_model, model_selection, pipeline  # slow to import: only where needed

            model = pipeline.make_pipeline(self._new(), linear_model.Ridge())
            y = np.arange(len(SIZES))
            predicted = model.fit(self._bags, y).predict(self._bags)
            require(predicted.shape == y.shape and np.isfinite(predicted).all(), f"the predictions are {predicted}")
            search = model_selection.GridSearchCV(model, {"ridge__alpha": [0.1, 1.0]}, cv=2, error_score="raise")
            search.fit(self._bags, y)
            require(np.isfinite(search.cv_results_["mean_test_score"]).all(), "the scores of a search are not finite")


# Bags to try, and ways to compare and to require: by hand, never by ``assert``, which ``python -O`` takes away.


def make_bags(width: int, sizes: Sequence[int] = SIZES, seed: int = 0) -> Bags:
    """Bags of beta points, exact in float32, each with two opposite corners of the cube: any of them span its box."""
    rng = np.random.default_rng(seed)
    arrays = []
    for size in sizes:
        a, b = rng.uniform(1, 4, (2, width))
        points = np.round(rng.beta(a, b, (size, width)) * 2**12) / 2**12
        points[0] = 0
        points[-1] = 1
        arrays.append(points)
    return Bags.from_arrays(arrays)


def rows_of(output: Any) -> Array:
    """One row per bag, in the output's dtype: the features, or means of fixed waves, which tell distributions apart."""
    if not isinstance(output, Bags):
        return np.asarray(output.toarray() if hasattr(output, "toarray") else output)
    angles = output.points.astype(float) @ np.random.default_rng(0).normal(0, 4, (output.n_dims, 32))
    weights = np.ones(output.n_points) if output.weights is None else output.weights.astype(float)
    waves = np.concatenate([np.cos(angles), np.sin(angles), np.ones((len(angles), 1))], axis=1) * weights[:, None]
    sums = np.add.reduceat(waves, output.offsets[:-1], axis=0)
    return np.asarray(sums[:, :-1] / sums[:, -1:], output.dtype)


def require(condition: Any, seen: str) -> None:
    """An assert that survives ``python -O``."""
    if not condition:
        raise AssertionError(seen)


def require_close(output: Any, wanted: Array, what: str, tolerance: float = TOLERANCE) -> None:
    """Compare rows within a tolerance relative to the largest value; NaN is not close to anything."""
    got = rows_of(output)
    require(got.shape == wanted.shape, f"{what}: shape {got.shape} in place of {wanted.shape}")
    error = np.abs(got.astype(float) - wanted)
    bound = tolerance * max(float(np.max(np.abs(wanted), initial=0.0)), 1e-12)
    for i in np.flatnonzero(~(error <= bound).all(axis=1)):
        raise AssertionError(f"{what}: row {i} is off by {error[i].max():.3g}, and {bound:.3g} is allowed")


def require_error(error: type[Exception], call: Callable[[], Any], what: str, *words: object) -> None:
    """The call raises this error, and its text has these words."""
    try:
        call()
    except error as caught:
        for word in words:
            require(re.search(rf"\b{word}\b", str(caught)), f"{what}: the message does not say {word}: {caught}")
        return
    raise AssertionError(f"{what} raises no {error.__name__}")


def settings(estimator: Any) -> dict[str, Any]:
    """Parameters by name, containers by their content; without estimators and lists of them."""
    found = {}
    for key, value in estimator.get_params().items():
        steps = value if isinstance(value, list | tuple) else ()
        if not hasattr(value, "get_params") and not any(isinstance(step, tuple) for step in steps):
            found[key] = joblib.hash(value) if isinstance(value, list | tuple | dict | set | np.ndarray) else value
    return found
