"""What every embedding does alike: check bags, share them among threads, write their features, name these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagEstimator, OutsideCube, check_bags, cube_error
from ..compute.arrays import Array, Scratch
from ..compute.parallel import run_chunks

Writer = Callable[[Bags, Array, Scratch], Any]

MAX_FEATURES = 1_000_000  # more a bag than any linear model wants: refused with a remedy


class BagEmbedding(BagEstimator):
    """Base of the estimators that turn each bag into one vector.

    A subclass says what ``fit`` learns by :meth:`_fit`, how features are written by :meth:`_plan`, and what they are
    called by :meth:`_feature_names`. One that has other embeddings at work says it all by :meth:`_transform`.
    """

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

    def _refusal(self, bags: Bags) -> ValueError:
        """The error for bags of which some points are outside of where they must lie."""
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
        self._fit(check_bags(self, X, reset=True).drop_weightless(), y)
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
    ValueError: BagEmbedding: features must be finite, but the points of X are so large that they overflow; divide...
    """
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(
            f"{type(owner).__name__}: {what} must be finite, but the points of X are so large that they overflow; "
            "divide them by a constant first, or pass float64 in place of float32"
        )
