"""What estimators that take bags share: input checking, tags, the unit cube, and how embeddings write features.

scikit-learn's own ``validate_data`` wants a rectangular array, which bags are not. :class:`BagInput` plays its part: it
turns whatever the caller passed into :class:`~distembed.Bags`, remembers the width seen in ``fit`` and refuses another
one later.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..compute.arrays import Array, Scratch
from ..compute.checks import InputError, check_weights
from ..compute.parallel import run_chunks
from .categories import as_known, refuse_different
from .checks import refuse_empty
from .container import Bags, as_bags
from .flat import few
from .ids import rows_by_id
from .missing import SUFFIX

Writer = Callable[[Bags, Array, Scratch], Any]

MAX_FEATURES = 1_000_000  # more a bag than any linear model wants: refused with a remedy


def by_id(values: Any, bags: Any, name: str) -> Any:
    """Values, one or one row per bag, in the order of the bags; errors call them by a name.

    Parameters
    ----------
    values : array-like, Series, data frame or Bags
        Bags have ids for an index. Whatever has no index comes back as it is, to be checked by the caller, and so does
        what has the index 0, 1, ..., unless these are ids.
    bags : Bags, or anything else
        Whose ids count. Without ids, values are in the order of the bags.
    name : str
        Of the argument.

    Returns
    -------
    object of the type of values

    Examples
    --------
    >>> import pandas as pd
    >>> from distembed import Bags
    >>> bags = Bags.from_arrays([[1.0], [2.0]], ids=["a", "b"])
    >>> by_id(pd.Series([20, 10], index=["b", "a"]), bags, "y").tolist()
    [10, 20]
    >>> by_id(pd.Series([20, 10]), bags, "y").tolist()
    [20, 10]
    >>> by_id(pd.Series([20, 10], index=["b", "c"]), bags, "y")
    Traceback (most recent call last):
    ...
    ValueError: y: the index must hold the ids of all bags and no others, or none of them; it lacks 'a' and has 'c'...
    """
    has_index = isinstance(values, Bags) or hasattr(getattr(values, "index", None), "to_numpy")
    if not has_index or not isinstance(bags, Bags) or not bags.has_ids:
        return values
    order = rows_by_id(values, bags.ids, name)
    if order is None:
        return values
    return values[order] if isinstance(values, Bags) else values.iloc[order]


def refuse_other_order(y: Any, bags: Any, owner: str) -> None:
    """Refuse targets in another order than the bags: the next step of a pipeline goes by position."""
    if by_id(y, bags, "y") is not y:
        raise ValueError(
            f"{owner}: y has the ids of the bags in another order for an index, and the steps of a pipeline go by "
            "position; use bags.align(y)"
        )


def _with_ids(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method to give its pandas data frames the ids of the bags as index."""

    @wraps(transform)
    def indexed(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        found = transform(self, X, *args, **kwargs)
        if hasattr(found, "iloc") and isinstance(X, Bags) and X.has_ids:
            found.index = X.ids
        return found

    return indexed


class BagInput(BaseEstimator):
    """Base of the estimators whose ``X`` is bags.

    A subclass calls ``check_bags(self, X, reset=True)`` in ``fit`` and ``reset=False`` everywhere else.

    Attributes
    ----------
    n_features_in_ : int
        Number of coordinates of a point, ``n_dims``, seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_dims,) of object
        Names of the coordinates; there only when the bags given to ``fit`` had column names.
    categories_in_ : dict of int to tuple
        Labels of the categorical columns; there only when the bags given to ``fit`` had such columns.
    missing_fills_ : dict of str to float
        What stands for missing values, by column, see :attr:`distembed.Bags.missing_fills`; there only when the bags
        given to ``fit`` had indicators of missing values.
    """

    takes_categories: ClassVar[bool] = False
    takes_empty: ClassVar[bool] = False  # whether bags may have no points

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A 3-D array (n_bags, n_points, n_dims) is legal; a 2-D one is a single bag, so scikit-learn's
        # checks of 2-D estimators do not apply.
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class BagEstimator(TransformerMixin, BagInput):
    """Base of the transformers whose ``X`` is bags: all that :class:`BagInput` has, and an output.

    After ``set_output(transform="pandas")`` the ids of the bags, where they have some, are the index of the features.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # here scikit-learn wraps transform, for set_output
        if "transform" in vars(cls) and kwargs.get("auto_wrap_output_keys", ()) is not None:
            cls.transform = _with_ids(cls.transform)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class ScoredById:
    """Mixin before one of scikit-learn's: ``score`` takes targets and weights by the ids of bags."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the predictions for bags, as scikit-learn has it.

        Parameters
        ----------
        X : Bags or anything that ``predict`` takes
            Bags.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs)
            Their targets; a Series of pandas whose index is the ids of the bags is put in their order.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.

        Returns
        -------
        float
        """
        weight = by_id(sample_weight, X, "sample_weight")
        if weight is not None:
            weight = check_weights(self, weight, len(X))
        return float(super().score(X, by_id(y, X, "y"), weight))  # type: ignore[misc]


def check_bags(estimator: BagInput, X: Any, *, reset: bool) -> Bags:
    """Return ``X`` as bags, and record (``reset``) or compare its width, column names and categories.

    What ``sklearn.utils.validation.validate_data`` is for estimators of 2-D arrays.

    Parameters
    ----------
    estimator : BagInput
        Whose input this is; gets ``n_features_in_`` and, where there are any, ``feature_names_in_``,
        ``categories_in_`` and ``missing_fills_``.
    X : Bags or anything that :func:`distembed.as_bags` reads
        What the caller passed.
    reset : bool
        True in ``fit``, False everywhere else.

    Returns
    -------
    Bags
        With the labels of ``fit``, in its order; those that it did not see become "other", with a warning. Bags
        without names of columns get those of ``fit``, with a warning.
    """
    bags = X if isinstance(X, Bags) else as_bags(X)
    name = type(estimator).__name__
    if not estimator.takes_empty:
        refuse_empty(bags, name)
    if reset:
        if bags.categories is not None and not estimator.takes_categories:
            named = ", ".join(map(repr, bags.category_labels))
            raise ValueError(
                f"{name}: X must have no categorical columns, got {named}, whose codes are not numbers; "
                "use HDDEmbedding, which takes them, or leave them out: Bags.from_frame(..., columns=[...])"
            )
        estimator.n_features_in_ = bags.n_dims
        columns = None if bags.columns is None else np.asarray(bags.columns, dtype=object)
        categories = None if bags.categories is None else dict(bags.categories)
        seen = {
            "feature_names_in_": columns,
            "categories_in_": categories,
            "missing_fills_": bags.missing_fills if any(name.endswith(SUFFIX) for name in bags.columns or ()) else None,
        }
        for attribute, value in seen.items():
            if value is not None:
                setattr(estimator, attribute, value)
            elif hasattr(estimator, attribute):
                delattr(estimator, attribute)  # a second fit must not keep the names of the first
        return bags
    if bags.n_dims != estimator.n_features_in_:
        remedy = "pass bags with the same coordinates as in fit, or fit again"
        if hasattr(estimator, "missing_fills_") and not bags.missing_fills:
            remedy = "read the bags with nan=model.missing_fills_, because those of fit mark missing values"
        raise InputError(
            f"{name}: X must have points of {estimator.n_features_in_} dimension(s), as in fit, got {bags.n_dims}; "
            f"{remedy}"
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and bags.columns is not None and list(bags.columns) != list(fitted):
        raise InputError(
            f"{name}: X must have the columns {list(fitted)}, in the order of fit, got "
            f"{list(bags.columns)}; reorder the columns, or fit again"
        )
    known = getattr(estimator, "categories_in_", {})
    got = dict(bags.categories or {})
    if got.keys() != known.keys():
        rule = f"{name}: X must have the categories of fit"
        refuse_different(rule, got, known, bags.columns, "transform", "fit")
    if got != known:
        points, labels = as_known(bags.points, got, known, bags.columns)
        bags = bags.replace(points=points, categories=labels)
    if fitted is not None and bags.columns is None:
        bags = _name_columns(bags, tuple(fitted))
    return bags


def _name_columns(bags: Bags, columns: tuple[str, ...]) -> Bags:
    """Return bags without names of columns under those of the fit, with a warning; steps that follow then know them."""
    warnings.warn(
        f"X has no column names, but the model was fitted with {few(columns)}: taken in this order",
        UserWarning,
        stacklevel=4,
    )
    return bags.replace(columns=columns)


def check_embedding(owner: Any, embedding: Any) -> None:
    """Refuse, with a remedy, what can't be cloned and fitted as the embedding that an estimator wraps."""
    if isinstance(embedding, type) or not (hasattr(embedding, "fit") and hasattr(embedding, "transform")):
        raise TypeError(
            f"{type(owner).__name__}(embedding=...): must be an embedding of bags such as HDDEmbedding('js'), got "
            f"{embedding!r}; pass an object with fit and transform"
        )


def count_features(embedding: Any, bags: Bags) -> int:
    """Number of features of a fitted embedding of bags, whatever it is made of: another's embeds the first bag.

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.as_bags(np.linspace(0, 1, 40).reshape(2, 20, 1))
    >>> count_features(de.HDDEmbedding("hellinger", n_basis=7).fit(bags), bags)
    7
    """
    if isinstance(embedding, BagEmbedding):
        return embedding._n_features_out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come again when all bags are embedded
        return int(np.shape(embedding.transform(bags[:1]))[1])


class OutsideCube(Exception):
    """Some points lie outside the unit cube; :func:`cube_error` names them."""


def in_cube(bags: Bags) -> bool:
    """Whether all points lie in the unit cube."""
    return bool(bags.points.min() >= 0 and bags.points.max() <= 1)


def check_in_cube(owner: str, bags: Bags, example: str | None = None) -> None:
    """Refuse points outside the unit cube, see :func:`cube_error`."""
    if not in_cube(bags):
        raise cube_error(owner, bags, example)


def cube_error(owner: str, bags: Bags, example: str | None = None) -> InputError:
    """The error for bags that have points outside: it names the bag, the point, the value and the remedy.

    Parameters
    ----------
    owner : str
        Name of the estimator or function.
    bags : Bags
        The bags.
    example : str, optional
        How to scale them first; by default a pipeline with the owner.
    """
    row, dim = np.argwhere(~((bags.points >= 0) & (bags.points <= 1)))[0]  # NaN too
    return InputError(
        f"{owner}: points must lie in the unit cube [0, 1]^{bags.n_dims}, but {bags.name_of_point(row)} has "
        f"{bags.points[row, dim]:g} in dimension {dim}; scale the bags first, e.g. "
        f"{example or f'make_pipeline(UnitCube(), {owner}(...))'}"
    )


class BagScaler(BagEstimator):
    """Base of the estimators that take bags to bags, column by column."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: the output is bags, whatever container is asked for.

        It is here so that ``Pipeline.set_output`` can reach the steps that return arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            Ignored.

        Returns
        -------
        self
        """
        return self


def name_of_dimension(estimator: BagInput, j: int) -> str:
    """How errors call a column: ``dimension 1 ('dec')``, or ``dimension 1`` without column names."""
    names = getattr(estimator, "feature_names_in_", None)
    return f"dimension {j}" if names is None else f"dimension {j} ({names[j]!r})"


class BagEmbedding(BagEstimator):
    """Base of the estimators that turn each bag into one vector.

    A subclass defines what ``fit`` learns by :meth:`_fit`, how features are written by :meth:`_plan`, and what they are
    called by :meth:`_feature_names`. One that has other embeddings at work says it all by :meth:`_transform`.
    """

    units: ClassVar[str] = "any"  # where points must lie: "any", or "unit cube"
    n_jobs: int | None = None
    _n_features_out: int

    # What a subclass says

    def _fit(self, bags: Bags, y: Any) -> None:
        """Learn from bags without points of weight zero; sets ``_n_features_out`` and the fitted attributes."""
        raise NotImplementedError

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        """What writes features, and how many of these bags a thread takes at a time.

        The former is called with some of the bags, without points of weight zero, an array of shape (n_bags,
        n_features) and scratch memory, and raises :class:`~distembed.bags.estimators.OutsideCube` for points that it
        can't take.
        """
        raise NotImplementedError

    def _feature_names(self) -> Iterable[str]:
        """Names of the features, in their order."""
        raise NotImplementedError

    def _refusal(self, bags: Bags) -> InputError:
        """The error for bags with points outside of where they must lie."""
        return cube_error(type(self).__name__, bags)

    def _look_back(self, write: Any) -> None:
        """Warn of what was seen while features were written."""

    def _transform(self, bags: Bags) -> Array:
        """Features of bags that were checked."""
        out = np.empty((bags.n_bags, self._n_features_out), bags.dtype)
        write, chunks = self._plan(bags)

        def embed(rows: slice, scratch: Scratch) -> None:
            write(bags[rows].drop_weightless(), out[rows], scratch)

        try:
            run_chunks(embed, chunks, self.n_jobs)
        except OutsideCube:
            raise self._refusal(bags.drop_weightless()) from None
        self._look_back(write)
        return out

    # What everybody calls

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what ``transform`` needs from training bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags; of points in the unit cube where the embedding needs them there.
        y : array-like of shape (n_bags,), optional
            Ignored, but for embeddings that wrap another: those pass it on.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        refuse_other_order(y, bags, type(self).__name__)
        self._fit(bags.drop_weightless(), y)
        return self

    def transform(self, X: Any) -> Array:
        """Features of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``; of points in the unit cube where the embedding needs them there.

        Returns
        -------
        ndarray of shape (n_bags, n_features)
            float32 for float32 points, else float64.
        """
        check_is_fitted(self, "_n_features_out")
        return self._transform(check_bags(self, X, reset=False))

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the features, in their order.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (n_features,) of str objects
        """
        check_is_fitted(self, "_n_features_out")
        return np.array(list(self._feature_names()), dtype=object)


def refuse_overflow(owner: object, *arrays: Array, what: str = "features") -> None:
    """Raise, with a remedy, unless all values are finite; ``what`` they are is for the error.

    Examples
    --------
    >>> refuse_overflow(BagEmbedding(), np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ...
    distembed...InputError: BagEmbedding: features must be finite, but the points of X are so large that they ...
    """
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(
            f"{type(owner).__name__}: {what} must be finite, but the points of X are so large that they overflow; "
            "divide them by a constant first, or pass float64 in place of float32"
        )
