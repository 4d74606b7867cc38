r"""Sketches: what a bag comes to before its row is made, so pieces of a bag can be looked at apart.

Many embeddings see a bag through means of some statistics t over its points, with weights w,

.. math:: m = \frac{1}{W} \sum_i w_i \, t(x_i), \qquad W = \sum_i w_i,

and make a row f(m) of them: masses on a grid, waves, shares of words, sums over a mixture. Means of pieces join to
those of the whole, m = (W_a m_a + W_b m_b) / W, in any order. So a bag of a billion points is a few thousand numbers; a
stream of points updates them, and people who have parts of a bag exchange sketches in place of points. Deviations and
covariances join too, by the update of Chan, Golub and LeVeque (1983).

*Cost* of a piece: that of ``transform`` for its points, and memory for the statistics, however many points there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..bags import Bags
from ..bags.estimators import BagEmbedding, OutsideCube, check_bags
from ..compute.arrays import Array
from ..compute.atomic_files import write_whole
from ..compute.npz import npz_headers
from ..compute.parallel import one_blas_thread

_FORMAT = "distembed.Sketch/1"
_AT_A_TIME = 64  # bags whose statistics are in memory
_SLOPE_VALUES = 2**20  # statistics of points that are in memory
_STEP = 1e-3  # of the least weight of a point, by which derivatives are taken
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Sketch:
    """What an embedding keeps of some points of a bag: ``embedding.partial`` makes one.

    Parameters
    ----------
    owner : str
        The class of the embedding.
    n_points : int
        Points, those of weight zero included.
    weight : float
        Sum of their weights; the number of points where they have none.
    means : ndarray of shape (n_statistics,)
        Means of the statistics, float64; of no length where there is no weight.
    dtype : str
        Of the row: ``"float32"`` if all points were.

    Examples
    --------
    >>> import tempfile
    >>> from distembed import MomentEmbedding, Sketch
    >>> embedding = MomentEmbedding("mean").fit([[[0.0], [1.0]]])
    >>> sketch = embedding.partial([[1.0], [3.0]])
    >>> sketch.n_points, sketch.means
    (2, array([2.]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sketch.save(f"{folder}/s.npz")
    ...     embedding.finish(Sketch.load(f"{folder}/s.npz"))
    array([2.])
    """

    owner: str
    n_points: int
    weight: float
    means: Array
    dtype: str = "float64"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz archive without pickle, whole or not at all."""
        fields = {name: np.asarray(value) for name, value in vars(self).items()}
        with write_whole(path) as file:
            np.savez(file, format=np.array(_FORMAT), **fields)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; anything else is a ValueError."""
        if Path(path).exists() and not Path(path).is_file():
            raise ValueError(f"can't read a sketch from {os.fspath(path)!r}: it is not a regular file; name another")
        with open(path, "rb") as file:
            try:
                npz_headers(file, os.fstat(file.fileno()).st_size)
                file.seek(0)
                held = np.load(file, allow_pickle=False)
                if str(held["format"]) != _FORMAT:
                    raise ValueError("its format is another one")
                one = cls(
                    str(held["owner"]), int(held["n_points"]), float(held["weight"]), held["means"], str(held["dtype"])
                )
            except Exception as error:  # np.load and zipfile have many ways to say so
                said = " ".join(str(error).split())[:200]
                raise ValueError(
                    f"can't read a sketch from {os.fspath(path)!r} ({said}); give a file that Sketch.save wrote"
                ) from None
        one.check(os.fspath(path))
        return one

    def check(self, where: str) -> None:
        """Refuse, in the name of a place, what no embedding makes: sketches come from files, too."""
        sound = (
            self.n_points >= 0
            and np.isfinite(self.weight)
            and self.weight >= 0
            and self.means.dtype == np.float64
            and self.means.ndim == 1
            and bool(np.isfinite(self.means).all())
            and (len(self.means) > 0) == (self.weight > 0)
            and self.dtype in ("float32", "float64")
        )
        if not sound:
            raise ValueError(f"{where}: is not a sketch as embedding.partial makes it; make it again")


def _check_adds_up(embedding: Any) -> bool:
    reason = embedding.why_no_sketches()
    if reason:
        raise AttributeError(f"{type(embedding).__name__} has no sketches of pieces of bags: {reason}")
    return True


class Additive(BagEmbedding):
    """Base of embeddings that see a bag through means of statistics over its points.

    By default features are these statistics: rows of a union of bags are means of their rows. Others say by
    :meth:`_statistics` and :meth:`_from_statistics` what the means are, and how they become features.
    """

    _n_features_out: int

    # What a subclass says

    def why_no_sketches(self) -> str:
        """Why the settings at hand make no statistics that add up, for errors; empty where they do."""
        return ""

    def n_statistics(self) -> int:
        """How many statistics a bag has."""
        return self._n_features_out

    def _statistics(self, bags: Bags) -> Array:
        """Means over the points of float64 bags, none of weight zero, ndarray of shape (n_bags, n_statistics)."""
        return np.asarray(self.transform(bags))

    def _from_statistics(self, means: Array) -> Array:
        """Rows (n_bags, n_features) of means (n_bags, n_statistics)."""
        return means

    def _join(self, one: Array, other: Array, share: float) -> Array:
        """Means (n_bags, n_statistics) of two pieces of each bag together; the other has this share of the weight."""
        return np.asarray(one + share * (other - one))

    # What everybody calls

    @available_if(_check_adds_up)  # type: ignore[untyped-decorator]
    def partial(self, points: Any, weights: Any = None) -> Sketch:
        """Look at some points of a bag.

        Parameters
        ----------
        points : array-like of shape (n_points, n_dims), or Bags of one bag
            As in ``transform``; none at all are allowed.
        weights : array-like of shape (n_points,), optional
            Weights of the points, by the same measure in all pieces of a bag.

        Returns
        -------
        Sketch
            ``finish`` of it is the row of the points; ``merge`` joins it with those of other points.

        Examples
        --------
        >>> import numpy as np
        >>> from distembed import HDDEmbedding
        >>> bags = np.random.default_rng(0).beta(2, 5, size=(20, 100, 1))
        >>> embedding = HDDEmbedding("js", n_basis=5).fit(bags)
        >>> pieces = [embedding.partial(bags[0][:30]), embedding.partial(bags[0][30:])]
        >>> row = embedding.finish(embedding.merge(*pieces))
        >>> bool(np.allclose(row, embedding.transform(bags[:1])[0]))
        True
        """
        check_is_fitted(self, "_n_features_out")
        bags = _one_bag(points, weights)
        if isinstance(bags, Sketch):
            return replace(bags, owner=type(self).__name__)
        return next(self._sketch_each(check_bags(self, bags, reset=False)))

    @available_if(_check_adds_up)  # type: ignore[untyped-decorator]
    def partials(self, X: Any) -> list[Sketch]:
        """Look at many bags, or at a piece of each.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            As in ``transform``.

        Returns
        -------
        list of Sketch
            What :meth:`partial` returns for each bag.

        Examples
        --------
        >>> from distembed import MomentEmbedding
        >>> bags = [[[1.0], [3.0]], [[5.0]]]
        >>> [sketch.means.tolist() for sketch in MomentEmbedding("mean").fit(bags).partials(bags)]
        [[2.0], [5.0]]
        """
        check_is_fitted(self, "_n_features_out")
        return list(self._sketch_each(check_bags(self, X, reset=False)))

    @available_if(_check_adds_up)  # type: ignore[untyped-decorator]
    def merge(self, a: Sketch, b: Sketch) -> Sketch:
        """Return the sketch of the points of two; neither is changed.

        Parameters
        ----------
        a, b : Sketch
            Of this embedding. In which order many of them are merged changes the result by rounding alone.

        Returns
        -------
        Sketch

        Examples
        --------
        >>> from distembed import MomentEmbedding
        >>> embedding = MomentEmbedding("mean").fit([[[0.0], [1.0]]])
        >>> embedding.merge(embedding.partial([[1.0], [3.0]]), embedding.partial([[8.0]])).means
        array([4.])
        """
        for sketch in (a, b):
            self._check(sketch)
        n_points = a.n_points + b.n_points
        weight = a.weight + b.weight
        dtype = "float32" if a.dtype == b.dtype == "float32" else "float64"
        if not (a.weight and b.weight):
            kept = b if b.weight else a
            return replace(kept, n_points=n_points, dtype=kept.dtype if kept.weight else dtype)
        means = self._join(a.means[None], b.means[None], b.weight / weight)[0]
        return Sketch(a.owner, n_points, weight, means, dtype)

    @available_if(_check_adds_up)  # type: ignore[untyped-decorator]
    def finish(self, sketch: Sketch) -> Array:
        """Return the row of the points of a sketch: what ``transform`` gives for a bag of all of them.

        Parameters
        ----------
        sketch : Sketch
            Of this embedding, of points of which one at least has positive weight.

        Returns
        -------
        ndarray of shape (n_features,)

        Examples
        --------
        >>> from distembed import HistogramEmbedding
        >>> embedding = HistogramEmbedding("hellinger", bins=2).fit([[[0.1], [0.9]]])
        >>> embedding.finish(embedding.partial([[0.2], [0.3], [0.4], [0.8]])).round(3)  # roots of halves of shares
        array([0.612, 0.354])
        """
        self._check(sketch)
        if not sketch.weight:
            raise ValueError(
                f"{type(self).__name__}.finish: the sketch must have points of positive weight, got none; merge it "
                "with that of some points"
            )
        with one_blas_thread():
            row = self._from_statistics(sketch.means[None])[0]
        return np.asarray(row.astype(sketch.dtype, copy=False))

    @available_if(_check_adds_up)  # type: ignore[untyped-decorator]
    def weight_slopes(self, bag: Bags) -> Array:
        """Derivatives of the row of one bag in the weights of its points, ndarray of shape (n_points, n_features).

        See :mod:`distembed.embeddings.weight_slopes`. A step of a thousandth of the least weight is taken from the
        means of the bag to those of each point.
        """
        bag = bag.astype(np.float64)
        shares = bag.shares()
        share = 1 / bag.n_points if shares is None else float(shares[shares > 0].min())
        share = max(share, _LEAST_SHARE) * _STEP
        singles = bag.replace(offsets=np.arange(bag.n_points + 1), weights=None, ids=None)
        found = np.empty((bag.n_points, self._n_features_out))
        with one_blas_thread():
            mean = self._statistics(bag.drop_weightless())
            row = self._from_statistics(mean)
            step = max(1, _SLOPE_VALUES // self.n_statistics())
            for first in range(0, bag.n_points, step):
                own = self._statistics(singles[first : first + step])
                moved = self._join(np.repeat(mean, len(own), axis=0), own, share)
                found[first : first + step] = (self._from_statistics(moved) - row) / share
        return found

    def _sketch_each(self, bags: Bags) -> Iterator[Sketch]:
        """Sketches of bags that were checked, some at a time."""
        owner = type(self).__name__
        dtype = str(bags.dtype)
        for first in range(0, bags.n_bags, _AT_A_TIME):
            some = bags[first : first + _AT_A_TIME]
            try:
                with one_blas_thread():
                    means = self._statistics(some.drop_weightless().astype(np.float64))
            except OutsideCube:
                self.transform(some)  # says which point it is
                raise
            weights = some.sizes if some.weights is None else np.add.reduceat(some.weights, some.offsets[:-1])
            for size, weight, row in zip(some.sizes.tolist(), weights, means, strict=True):
                yield Sketch(owner, size, float(weight), row.copy(), dtype)

    def _check(self, sketch: Any) -> None:
        """Refuse what is not a sketch of this embedding."""
        name = type(self).__name__
        if not isinstance(sketch, Sketch):
            raise TypeError(
                f"{name}: must be a sketch, got {type(sketch).__name__}; make one of points by {name}.partial"
            )
        if sketch.owner != name or (sketch.weight and len(sketch.means) != self.n_statistics()):
            raise ValueError(
                f"{name}: must be a sketch of this embedding, of {self.n_statistics():,} statistics, got one of "
                f"{sketch.owner} with {len(sketch.means):,}; make all sketches with the same fitted embedding"
            )


def _one_bag(points: Any, weights: Any) -> Bags | Sketch:
    """Points as a bag; as a sketch of nothing, without owner, where there are none of positive weight."""
    if isinstance(points, Bags):
        if points.n_bags != 1 or weights is not None:
            raise ValueError(
                f"partial: Bags must be one bag, which has its own weights, got {points.n_bags}"
                f"{'' if weights is None else ' and weights'}; use partials for several"
            )
        return points
    rows = np.asarray(points)
    rows = rows.reshape(-1, 1) if rows.ndim == 1 else rows
    if len(rows) and (weights is None or np.asarray(weights).shape != (len(rows),) or np.any(weights)):
        return Bags(rows, [0, len(rows)], weights)
    return Sketch("", len(rows), 0.0, np.empty(0), "float32" if rows.dtype == np.float32 else "float64")


def compare_pieces(embedding: Any, bags: Bags) -> Iterator[tuple[str, Array, Array]]:
    """What an embedding makes of bags by pieces and at once, for the contract of the family: pairs to be compared."""
    if not hasattr(embedding, "partial"):
        return
    weighted = bags.replace(weights=np.resize([0.0, 2.0, 1.0, 0.5], bags.n_points))
    for what, X in (("points", bags), ("points with weights", weighted)):
        whole = np.asarray(embedding.transform(X))
        rows = dict[str, list[Array]]()
        weights = [None] * X.n_bags if X.weights is None else np.split(X.weights, X.offsets[1:-1])
        for points, own in zip(X, weights, strict=True):
            cuts = (slice(0, 1), slice(1, 3), slice(3, None))
            a, b, c = (embedding.partial(points[cut], None if own is None else own[cut]) for cut in cuts)
            empty = embedding.partial(points[:0])
            for order, pieces in (("in order", (a, b, c)), ("backwards", (c, b, empty, a))):
                rows.setdefault(f"pieces {order}", []).append(row_from_pieces(embedding, pieces))
            inner = embedding.merge(a, embedding.merge(b, c))
            rows.setdefault("the last two first", []).append(embedding.finish(inner))
        yield f"{what}, all at once", np.array([embedding.finish(one) for one in embedding.partials(X)]), whole
        for order, found in rows.items():
            yield f"{what}, {order}", np.array(found), whole


def row_from_pieces(embedding: Any, pieces: Sequence[Sketch]) -> Array:
    """The row of a bag from sketches of its pieces, merged one after the other.

    Examples
    --------
    >>> from distembed import MomentEmbedding
    >>> embedding = MomentEmbedding("mean").fit([[[0.0], [1.0]]])
    >>> row_from_pieces(embedding, embedding.partials([[[1.0], [3.0]], [[8.0]]]))
    array([4.])
    """
    found = pieces[0]
    for piece in pieces[1:]:
        found = embedding.merge(found, piece)
    return np.asarray(embedding.finish(found))
