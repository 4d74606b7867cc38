r"""Moments: means, deviations and covariances of bags, and the D3 descriptor made of them.

The simplest vectors that a bag can become, and the ones that density embeddings must beat. With shares w_i of the
points of a bag, Σ w_i = 1,

.. math:: m = \sum_i w_i x_i, \qquad C = \sum_i w_i (x_i - m)(x_i - m)^T, \qquad s_j = \sqrt{C_{jj}}.

**D3**, the discriminative distribution distance (Wu, Gao and Liu 2015), sets each coordinate of a bag against all
training points, with means m₀ and deviations s₀, as two Gaussians. Let t be the threshold that both miss equally often:
for m > m₀, P(X < t) = Q(X > t), which is where (m - t)/s = (t - m₀)/s₀. Then

.. math:: d = P(X > t) - Q(X > t) = 2 \Phi(z) - 1 = \operatorname{erf}(z / \sqrt 2),
          \qquad z = \frac{m - m_0}{s + s_0},

and d is negative for m < m₀. Total variation is the largest P(A) - Q(A) over all sets A, so \|d\| is a lower bound of
it. For s = s₀ the ratio of the densities is monotone, the best set is the half-line from the midpoint, and that is t:
then \|d\| is the total variation distance itself. Equal means give 0, however different the deviations.

**Precision.** Points are taken relative to the first of their bag before anything is summed, in float64, and to their
mean before anything is squared: a large offset costs no digits, and a constant coordinate has a deviation of exactly 0.

**Cost.** Linear in points; covariances take n_points n_dims² operations, as matrix products. Bags of nearly equal size
are put into one array, padded with points of weight zero, so that there is no loop over bags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from sklearn.utils.validation import check_is_fitted

from .._base import BagEstimator, check_choice
from .._parallel import Scratch, run_chunks
from ..bags import Bags
from .marginals import bag_slices

__all__ = ["MomentEmbedding", "moments", "padded_groups"]

Array = NDArray[Any]

KINDS = ("d3", "mean", "deviation", "covariance")
MAX_FEATURES = 1_000_000  # more a bag than any linear model wants: refused with a remedy
_CHUNK_BYTES = 2**23
_SLACK = 1.25  # of bags in one array the longest has at most so many times the points of the shortest
_SAME = 1e-6  # relative difference up to which two constants are one: what float32 makes of the same number


# --------------------------------------------------------------------------------------------------------------
# Functions
# --------------------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Bags of nearly equal size, padded to the length of the longest.

    Attributes
    ----------
    bags : ndarray of shape (n_group,)
        Their positions.
    points : ndarray of shape (n_group, longest, n_dims)
        Each relative to the first point of its bag; zero where a bag has no more points.
    shares : ndarray of shape (n_group, longest), or None
        Weights that sum to one in each bag; zero where it has no more points. None: equal weights.
    present : ndarray of shape (n_group, longest) of bool, or None
        Where there are points; None: everywhere.
    """

    bags: Array
    points: Array
    shares: Array | None
    present: Array | None


def padded_groups(bags: Bags, dtype: Any) -> Iterator[Group]:
    """Bags in groups of nearly equal size, as rectangular arrays: at most a fifth of any row is padding.

    Parameters
    ----------
    bags : Bags
        The bags.
    dtype : dtype
        Of the points that come out; differences are taken in it.

    Yields
    ------
    Group
        There are at most log(longest / shortest) / log(1.25) + 1 of them, however many bags.

    Examples
    --------
    >>> bags = Bags.from_arrays([[1.0, 2.0], [5.0], [7.0, 8.0]])
    >>> [(group.bags.tolist(), group.points[:, :, 0].tolist()) for group in padded_groups(bags, np.float64)]
    [([1], [[0.0]]), ([0, 2], [[0.0, 1.0], [0.0, 1.0]])]
    """
    sizes, starts = bags.sizes, bags.offsets[:-1]
    order = np.argsort(sizes, kind="stable")
    increasing, shares = sizes[order], bags._shares()
    begin = 0
    while begin < len(order):
        end = int(np.searchsorted(increasing, _SLACK * increasing[begin], side="right"))
        rows, lengths = order[begin:end], increasing[begin:end]
        steps = np.arange(lengths[-1])
        # Padding repeats the first point of the bag: the difference to it is zero.
        present = None if lengths[0] == lengths[-1] else steps < lengths[:, None]
        places = starts[rows, None] + (steps if present is None else np.where(present, steps, 0))
        points = bags.points[places].astype(dtype, copy=False)
        points -= points[:, :1].copy()
        weights = None if shares is None else shares[places]
        if weights is not None and present is not None:
            weights *= present
        yield Group(rows, points, weights, present)
        begin = end


def moments(bags: Bags, second: str | None = None) -> tuple[Array, Array | None]:
    """Weighted means of bags, and variances or covariances around them.

    Parameters
    ----------
    bags : Bags
        The bags.
    second : {None, "variance", "covariance"}
        What to compute besides the means.

    Returns
    -------
    means : ndarray of shape (n_bags, n_dims)
        float64.
    seconds : ndarray of shape (n_bags, n_dims) or (n_bags, n_dims, n_dims), or None
        Divided by the sum of the weights, not by n - 1. Products of the points of float32 bags are taken in float32,
        after centring in float64; variances are float64.

    Examples
    --------
    >>> means, covariances = moments(Bags.from_arrays([[[0.0, 0.0], [2.0, 4.0]]]), "covariance")
    >>> means, covariances
    (array([[1., 2.]]), array([[[1., 2.],
            [2., 4.]]]))
    """
    n_dims = bags.n_dims
    means = bags.points[bags.offsets[:-1]].astype(np.float64)
    seconds: Array | None = None
    if second == "variance":
        seconds = np.empty((bags.n_bags, n_dims))
    elif second == "covariance":
        seconds = np.empty((bags.n_bags, n_dims, n_dims), bags.dtype)
    for rows, points, shares, present in padded_groups(bags, np.float64):
        if shares is None:
            length = points.shape[1]
            shares = np.full((1, length), 1 / length) if present is None else present / present.sum(axis=1)[:, None]
        mean = np.matmul(shares[:, None, :], points)
        means[rows] += mean[:, 0]
        if seconds is None:
            continue
        points -= mean
        if second == "variance":
            np.square(points, out=points)
            seconds[rows] = np.matmul(shares[:, None, :], points)[:, 0]
        else:
            centred = points.astype(bags.dtype, copy=False)
            weighted = centred * shares[:, :, None].astype(bags.dtype)
            seconds[rows] = np.matmul(weighted.swapaxes(1, 2), centred)
    return means, seconds


def pool(counts: Array, means: Array, variances: Array) -> tuple[float, Array, Array]:
    """Number, mean and variance of all points of several parts, ndarrays of shape (n_dims,).

    Parameters
    ----------
    counts : ndarray of shape (n_parts,)
        Points of each part.
    means, variances : ndarray of shape (n_parts, n_dims)
        Of each part.

    Examples
    --------
    >>> pool(np.array([2, 1]), np.array([[1.0], [4.0]]), np.array([[1.0], [0.0]]))
    (3.0, array([2.]), array([2.66666667]))
    """
    total = float(counts.sum())
    mean = means[0] + counts @ (means - means[0]) / total  # relative to one part: constants stay exact
    return total, mean, counts @ (variances + (means - mean) ** 2) / total


def directional_total_variation(means: Array, deviations: Array, mean0: Array, deviation0: Array) -> Array:
    """erf((m - m₀) / (√2 (s + s₀))) elementwise; shapes broadcast.

    Without any deviation it is 0 for equal means and ±1 for others; means that float32 can't tell apart are equal.

    Examples
    --------
    >>> one, nil = np.array([1.0]), np.array([0.0])
    >>> directional_total_variation(one, one, nil, one).round(9), directional_total_variation(one, nil, one, nil)
    (array([0.38292492]), array([0.]))
    """
    gap, spread = means - mean0, deviations + deviation0
    differs = np.sign(gap) * (np.abs(gap) > _SAME * np.abs(mean0))
    z = gap / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.where(spread > 0, erf(z / np.sqrt(2)), differs))


def refuse_overflow(owner: object, *arrays: Array) -> None:
    """Raise, with a remedy, unless all values are finite.

    Examples
    --------
    >>> refuse_overflow(MomentEmbedding(), np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ...
    ValueError: MomentEmbedding: features must be finite, but the points of X are so large that they overflow; divide...
    """
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(
            f"{type(owner).__name__}: features must be finite, but the points of X are so large that they overflow; "
            "divide them by a constant first, or pass float64 in place of float32"
        )


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


class MomentEmbedding(BagEstimator):
    r"""Embed bags by their moments: means, deviations, covariances, or the D3 descriptor.

    Points may be in any units; no density is estimated.

    Parameters
    ----------
    kind : {"d3", "mean", "deviation", "covariance"}, default="d3"
        - ``"d3"``: d_j = erf((m_j - m₀_j) / (√2 (s_j + s₀_j))) for each coordinate, in [-1, 1], with the means m₀ and
          deviations s₀ of all training points;
        - ``"mean"``: the means m;
        - ``"deviation"``: the means m and the deviations s;
        - ``"covariance"``: the means m and the covariance matrix C, its upper triangle row by row, entries off the
          diagonal times √2.
    scale : bool, default=False
        Whether coordinates are standardised first, by m₀ and s₀, so that their units don't matter. ``"d3"`` does not
        depend on it. A coordinate that is constant in training is only centred.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    mean_, deviation_ : ndarray of shape (n_dims,)
        m₀ and s₀, over all training points; there only with ``kind="d3"`` or ``scale=True``.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Distances.* Between rows of ``"deviation"`` squared distances are Σ_j (m_j - m'_j)² + (s_j - s'_j)², the W₂² of
    Gaussians with independent coordinates; between rows of ``"covariance"`` they are \|\|m - m'\|\|² + \|\|C - C'\|\|²,
    the latter in Frobenius' norm.

    *D3.* A row holds directional total variation distances from the training points, see the head of this module: the
    total variation distance of Gaussians where s = s₀, a lower bound of it elsewhere, 0 where means are equal even if
    deviations are not. It stays the same when a coordinate is shifted, or multiplied by a positive number, in training
    and after. A coordinate without any deviation gives 0 for equal means and ±1 for others.

    *What was checked.* That D3 compares a bag with the union of all training points, by a directional total variation
    distance, is from the paper's abstract and introduction. The formula is derived here, not read there; normalisations
    that may follow it are left to the pipeline (``sklearn.preprocessing.Normalizer``).

    *Training points.* Each counts the same, so that a large bag counts more than a small one. With weights, a bag
    counts as many times as it has points of positive weight, and its weights divide that among them.

    *Variances* are divided by the sum of the weights, not by n - 1: a bag of one point has deviation 0.

    *Cost* a bag: O(n_points n_dims), for ``"covariance"`` O(n_points n_dims²). Memory: the result and a working set of
    some 10 MB a thread, or what the largest bag needs. More than 1,000,000 features are refused: 1,412 dimensions are
    the most for ``"covariance"``.

    References
    ----------
    Wu, Gao, Liu (2015). Visual recognition using directional distribution distance. arXiv:1504.04792.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.embeddings.moments import MomentEmbedding
    >>> bags = de.Bags.from_arrays([[[0.0, 0.0], [2.0, 4.0]], [[5.0, 3.0]]])
    >>> MomentEmbedding("covariance").fit_transform(bags).round(4)
    array([[1.    , 2.    , 1.    , 2.8284, 4.    ],
           [5.    , 3.    , 0.    , 0.    , 0.    ]])
    >>> MomentEmbedding("d3").fit_transform(bags).round(2)
    array([[-0.34, -0.07],
           [ 0.81,  0.31]])
    """

    def __init__(self, kind: str = "d3", *, scale: bool = False, n_jobs: int | None = None) -> None:
        self.kind = kind
        self.scale = scale
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: object = None) -> Self:
        """Count features and, where they are used, take means and deviations of all training points.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags.
        y : Ignored

        Returns
        -------
        self
        """
        kind = check_choice(self, "kind", self.kind, KINDS)
        if not isinstance(self.scale, bool | np.bool_):
            raise TypeError(
                f"MomentEmbedding(scale=...): must be True or False, got {self.scale!r}; True standardises coordinates"
            )
        bags = self._check_bags(X, reset=True)._without_weightless()
        n_dims = bags.n_dims
        self._n_features_out = {
            "d3": n_dims,
            "mean": n_dims,
            "deviation": 2 * n_dims,
            "covariance": n_dims + n_dims * (n_dims + 1) // 2,
        }[kind]
        if self._n_features_out > MAX_FEATURES:
            raise ValueError(
                f"MomentEmbedding(kind=...): {kind!r} of {n_dims:,} dimensions makes {self._n_features_out:,} "
                f"features, more than {MAX_FEATURES:,}; use kind='deviation', or reduce the dimensions first"
            )
        for name in ("mean_", "deviation_"):
            if hasattr(self, name):
                delattr(self, name)  # a second fit must not keep what the first one saw
        if self._uses_training_points():
            self.mean_, self.deviation_ = self._pooled(bags)
        return self

    def _uses_training_points(self) -> bool:
        return bool(self.kind == "d3" or self.scale)

    def _pooled(self, bags: Bags) -> tuple[Array, Array]:
        """Means and deviations of all points, a chunk of bags at a time."""
        chunks = self._chunks(bags)
        parts: list[Any] = [None] * len(chunks)

        def look(chunk: tuple[int, slice], _: Scratch) -> None:
            i, rows = chunk
            part = bags[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                means, variances = moments(part, "variance")
                assert variances is not None
                parts[i] = pool(part.sizes, means, variances)

        run_chunks(look, list(enumerate(chunks)), self.n_jobs)
        counts, means, variances = (np.array(values) for values in zip(*parts, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            _, mean, variance = pool(counts, means, variances)
        refuse_overflow(self, mean, variance)
        return mean, np.sqrt(variance)

    def _chunks(self, bags: Bags, squares: bool = False) -> list[slice]:
        """Bags whose points, twice, and covariances, twice, fit the budget."""
        return bag_slices(bags.sizes, 24 * bags.n_dims, 16 * bags.n_dims**2 if squares else 0, _CHUNK_BYTES)

    def transform(self, X: Any) -> Array:
        """Moments of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.

        Returns
        -------
        ndarray of shape (n_bags, n_features)
            float32 for float32 points, else float64.
        """
        check_is_fitted(self, "_n_features_out")
        bags = self._check_bags(X, reset=False)._without_weightless()
        out = np.empty((bags.n_bags, self._n_features_out), bags.dtype)

        def embed(rows: slice, _: Scratch) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                self._write(bags[rows], out[rows])
            refuse_overflow(self, out[rows])

        run_chunks(embed, self._chunks(bags, squares=self.kind == "covariance"), self.n_jobs)
        return out

    def _write(self, bags: Bags, out: Array) -> None:
        """Write the features of some bags."""
        wanted = {"mean": None, "covariance": "covariance"}.get(self.kind, "variance")
        means, seconds = moments(bags, wanted)
        if self.kind == "d3":
            assert seconds is not None
            out[:] = directional_total_variation(means, np.sqrt(seconds), self.mean_, self.deviation_)
            return
        units = np.ones(bags.n_dims)
        if self.scale:
            units = np.where(self.deviation_ > 0, self.deviation_, 1.0)
            means = (means - self.mean_) / units
        out[:, : bags.n_dims] = means
        if seconds is None:
            return
        if self.kind == "deviation":
            out[:, bags.n_dims :] = np.sqrt(seconds) / units
            return
        upper = np.triu_indices(bags.n_dims)
        factors = np.where(upper[0] == upper[1], 1.0, np.sqrt(2)) / (units[upper[0]] * units[upper[1]])
        out[:, bags.n_dims :] = seconds[:, upper[0], upper[1]] * factors

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names such as ``d3_x0``, ``mean_x0``, ``deviation_x0`` and ``covariance_x0_x1``.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of shape (n_features,) of str objects
            With the bags' own column names where they have them.
        """
        check_is_fitted(self, "_n_features_out")
        columns = [f"x{j}" for j in range(self.n_features_in_)]
        columns = [str(name) for name in getattr(self, "feature_names_in_", columns)]
        names = [f"{'d3' if self.kind == 'd3' else 'mean'}_{name}" for name in columns]
        if self.kind == "deviation":
            names += [f"deviation_{name}" for name in columns]
        elif self.kind == "covariance":
            names += [
                f"covariance_{columns[i]}_{columns[j]}" for i, j in zip(*np.triu_indices(len(columns)), strict=True)
            ]
        return np.array(names, dtype=object)
