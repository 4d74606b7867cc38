"""Rows of bags to look at without labels: bounded functions of ranks, comparable across sizes, or any embedding.

The rows that are used unless the user names an embedding are those behind ``likeness``
(:mod:`distembed.learners.compact_rows`): means of bounded functions of the ranks of columns and pairs of columns.
Units do not matter, no value can be so far out that it hides all others, and a row has the same spread at every size of
a bag, so maps and groups do not sort bags by their size.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagInput, check_bags, check_embedding
from ..compute.arrays import Array
from ..compute.registry import storable
from ..embeddings import available
from ..learners.compact_rows import CompactRows
from ..scaling import Standardize, UnitCube

RANKS = "ranks"
_FARTHEST = 8.0  # deviations that count
_NOISE = 0.1  # share of the noise of a usual bag that a feature keeps even where bags do not differ


@storable(rows_="CompactRows", scale_="finite(m)")
class RankRows(BagInput):
    """Means of bounded functions of ranks, with equal spread at every size of a bag.

    Attributes
    ----------
    rows_ : CompactRows
        The functions, and the law of their means.
    scale_ : ndarray of shape (n_features,)
        Deviation of each feature between bags.

    Examples
    --------
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> bags = de.as_bags([rng.normal(size=(n, 2)) for n in (10, 20, 30, 40)])
    >>> RankRows().fit(bags).transform(bags).shape[0]
    4
    """

    takes_categories = True

    def __distembed_fits__(self) -> bool:
        return self.rows_.suits(self) and len(self.rows_.owners) == self._n_features_out == len(self.scale_)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Look at the columns of bags."""
        bags = check_bags(self, X, reset=True)
        return self.set(CompactRows.learn(bags)[0])

    def set(self, rows: CompactRows) -> Self:
        """Take functions that were fitted already."""
        self.rows_ = rows
        self.scale_ = np.sqrt(rows.between + _NOISE * rows.inside / rows.sizes[1])
        self._n_features_out = len(self.scale_)
        return self

    def transform(self, X: Any) -> Array:
        """Rows of bags, ndarray of shape (n_bags, n_features)."""
        check_is_fitted(self, "rows_")
        means, _, sizes = self.rows_.means(X)
        z = self.rows_.standardise(means, sizes)
        return np.asarray(np.clip(z, -_FARTHEST, _FARTHEST) * self.scale_)


def make_rows(owner: object, embedding: Any) -> Any:
    """What makes rows of bags: ranks, an embedding of the catalogue behind the scaling that suits it, or an object.

    Examples
    --------
    >>> type(make_rows("example", "ranks")).__name__, make_rows("example", "js").steps[0][0]
    ('RankRows', 'unitcube')
    """
    if not isinstance(embedding, str):
        check_embedding(owner, embedding)
        return clone(embedding)
    if embedding == RANKS:
        return RankRows()
    methods = available()
    if embedding not in methods:
        name = owner if isinstance(owner, str) else type(owner).__name__
        raise ValueError(
            f"{name}(embedding=...): must be 'ranks', an embedding, or one of {', '.join(map(repr, methods))}, got "
            f"{embedding!r}; choose one of these"
        )
    method = methods[embedding]
    scaler = UnitCube(map="auto") if method.units == "unit cube" else Standardize(robust=True)
    return make_pipeline(scaler, method.make())


def drawn(bags: Bags, most: int, seed: int = 0) -> Array:
    """Positions of at most this many bags that are not empty, drawn at random, in order."""
    there = np.flatnonzero(bags.sizes > 0)
    return np.sort(np.random.RandomState(seed).permutation(there)[:most])
