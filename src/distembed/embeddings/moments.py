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

**Precision.** A large offset costs no digits, a constant coordinate has a deviation of exactly 0, and deviations and D3
stay right in units so small or large that squares vanish or overflow, see
:mod:`distembed.bags.moments`.

**Cost.** Linear in points; covariances take n_points n_dims² operations, as matrix products. No loop over bags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf

from ..bags import Bags
from ..bags.estimators import MAX_FEATURES, Writer, refuse_overflow
from ..bags.moments import own_moments, pool
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_choice
from ..compute.parallel import bag_slices, run_chunks
from ..compute.registry import storable
from .catalogue import Method, register
from .sketches import Additive

KINDS = ("d3", "mean", "deviation", "covariance")
_SAME = 1e-6  # relative difference up to which two constants are one: what float32 makes of the same number


# --------------------------------------------------------------------------------------------------------------
# Functions
# --------------------------------------------------------------------------------------------------------------


def directional_total_variation(gaps: Array, deviations: Array, mean0: Array, deviation0: Array) -> Array:
    """erf((m - m₀) / (√2 (s + s₀))) elementwise, from the gaps m - m₀; shapes broadcast.

    Without any deviation it is 0 for equal means and ±1 for others; means that float32 can't tell apart are equal.

    Examples
    --------
    >>> one, nil = np.array([1.0]), np.array([0.0])
    >>> directional_total_variation(one, one, nil, one).round(9), directional_total_variation(nil, nil, one, nil)
    (array([0.38292492]), array([0.]))
    """
    spread = deviations + deviation0
    differs = np.sign(gaps) * (np.abs(gaps) > _SAME * np.abs(mean0))
    z = gaps / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.where(spread > 0, erf(z / np.sqrt(2)), differs))


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


def _n_features(kind: str, n_dims: int) -> int:
    many = {"d3": n_dims, "mean": n_dims, "deviation": 2 * n_dims, "covariance": n_dims * (n_dims + 3) // 2}
    return many[kind]


@storable(_kind="text", _scale="bool", mean_="finite(d)", deviation_="finite(d)")
class MomentEmbedding(Additive):
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
        Whether coordinates are standardised first, by m₀ and s₀, so their units don't matter. ``"d3"`` does not
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

    *Training points.* Each counts the same, so a large bag counts more than a small one. With weights, a bag
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

    chunk_bytes = 2**23  # that a thread works on at a time

    def __init__(self, kind: str = "d3", *, scale: bool = False, n_jobs: int | None = None) -> None:
        self.kind = kind
        self.scale = scale
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: Any) -> None:
        """Count features and, where they are used, take means and deviations of all training points."""
        kind = check_choice(self, "kind", self.kind, KINDS)
        if not isinstance(self.scale, bool | np.bool_):
            raise TypeError(
                f"MomentEmbedding(scale=...): must be True or False, got {self.scale!r}; True standardises coordinates"
            )
        n_dims = bags.n_dims
        n_features = _n_features(kind, n_dims)
        if n_features > MAX_FEATURES:
            raise ValueError(
                f"MomentEmbedding(kind=...): {kind!r} of {n_dims:,} dimensions makes {n_features:,} "
                f"features, more than {MAX_FEATURES:,}; use kind='deviation', or reduce the dimensions first"
            )
        for name in ("mean_", "deviation_"):
            if hasattr(self, name):
                delattr(self, name)  # a second fit must not keep what the first one saw
        if kind == "d3" or self.scale:
            self.mean_, self.deviation_ = self._pooled_moments(bags)
        self._kind, self._scale, self._n_features_out = kind, bool(self.scale), n_features  # parameters may change

    def __distembed_fits__(self) -> bool:
        return self._n_features_out == _n_features(self._kind, self.n_features_in_)

    def _pooled_moments(self, bags: Bags) -> tuple[Array, Array]:
        """Means and deviations of all points, a chunk of bags at a time."""
        chunks = self._chunks(bags)
        parts: list[Any] = [None] * len(chunks)

        def look(chunk: tuple[int, slice], _: Scratch) -> None:
            i, rows = chunk
            part = bags[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                means, deviations = own_moments(part, "deviation")
                assert deviations is not None
                parts[i] = pool(part.sizes, means, deviations)

        run_chunks(look, list(enumerate(chunks)), self.n_jobs)
        counts, means, deviations = (np.array(values) for values in zip(*parts, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            _, mean, deviation = pool(counts, means, deviations)
        refuse_overflow(self, mean, deviation)
        return mean, deviation

    def _chunks(self, bags: Bags, squares: bool = False) -> list[slice]:
        """Bags whose points, twice, and covariances, twice, fit the budget."""
        return bag_slices(bags.sizes, 24 * bags.n_dims, 16 * bags.n_dims**2 if squares else 0, self.chunk_bytes)

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        return self._write_finite, self._chunks(bags, squares=self._kind == "covariance")

    def _write_finite(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self._write(bags, out)
        refuse_overflow(self, out)

    def _write(self, bags: Bags, out: Array) -> None:
        """Write the features of some bags."""
        self._write_features(*self._moments(bags), out)

    @property
    def _units(self) -> Array | None:
        """What coordinates are divided by, if anything."""
        if not self._scale or self._kind == "d3":
            return None
        return np.where(self.deviation_ > 0, self.deviation_, 1.0)

    def _moments(self, bags: Bags) -> tuple[Array, Array | None]:
        """Means, and deviations or covariances, of bags."""
        if self._kind == "d3":  # of differences to the mean: far from zero, means have few digits beyond it
            bags = bags.replace(points=bags.points - self.mean_, columns=None, categories=None)
        wanted = {"mean": None, "covariance": "covariance"}.get(self._kind, "deviation")
        return own_moments(bags, wanted, self._units)

    def _write_features(self, means: Array, seconds: Array | None, out: Array) -> None:
        n_dims = means.shape[1]
        units = self._units
        if self._kind == "d3":
            out[:] = directional_total_variation(means, np.asarray(seconds), self.mean_, self.deviation_)
            return
        out[:, :n_dims] = means if units is None else (means - self.mean_) / units
        if seconds is None:
            return
        if self._kind == "deviation":
            out[:, n_dims:] = seconds
            return
        upper = np.triu_indices(n_dims)
        out[:, n_dims:] = seconds[:, upper[0], upper[1]] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2))

    # Sketches

    def n_statistics(self) -> int:
        """Means, and deviations or all covariances."""
        n_dims = self.n_features_in_
        return int(n_dims + {"mean": 0, "covariance": n_dims**2}.get(self._kind, n_dims))

    def _statistics(self, bags: Bags) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            means, seconds = self._moments(bags)
        found = means if seconds is None else np.hstack([means, seconds.reshape(len(means), -1)])
        refuse_overflow(self, found)
        return found

    def _split(self, means: Array) -> tuple[Array, Array | None]:
        """Means (n_bags, n_dims), and deviations (n_bags, n_dims) or covariances (n_bags, n_dims, n_dims)."""
        n_dims = self.n_features_in_
        first = means[:, :n_dims]
        second = means[:, n_dims:]
        if self._kind == "covariance":
            return first, second.reshape(-1, n_dims, n_dims)
        return first, None if self._kind == "mean" else second

    def _from_statistics(self, means: Array) -> Array:
        out = np.empty((len(means), self._n_features_out))
        self._write_features(*self._split(means), out)
        return out

    def _join(self, one: Array, other: Array, share: float) -> Array:
        (m, s), (n, t) = (self._split(each) for each in (one, other))
        gap = n - m
        parts = [m + share * gap]
        gap = gap if self._units is None else gap / self._units
        if s is not None and t is not None:
            between = share * (1 - share)
            if self._kind == "covariance":
                parts.append((1 - share) * s + share * t + between * gap[:, :, None] * gap[:, None, :])
            else:  # roots of sums of squares, which may be too small or large to be squared
                within = np.hypot(np.sqrt(1 - share) * s, np.sqrt(share) * t)
                parts.append(np.hypot(within, np.sqrt(between) * gap))
        return np.hstack([part.reshape(len(one), -1) for part in parts])

    def _feature_names(self) -> list[str]:
        """Such as ``d3_x0``, ``mean_x0``, ``deviation_x0`` and ``covariance_x0*x1``, with the columns' own names."""
        columns = [f"x{j}" for j in range(self.n_features_in_)]
        columns = [str(name) for name in getattr(self, "feature_names_in_", columns)]
        names = [f"{'d3' if self._kind == 'd3' else 'mean'}_{name}" for name in columns]
        if self._kind == "deviation":
            names += [f"deviation_{name}" for name in columns]
        elif self._kind == "covariance":
            names += [
                f"covariance_{columns[i]}*{columns[j]}" for i, j in zip(*np.triu_indices(len(columns)), strict=True)
            ]
        return names


_D3 = "squared distance of directional total variations from the training points"
register(
    *(
        Method(kind, MomentEmbedding, {"kind": kind}, estimates, cost, "yes", changes, "any", reference)
        for kind, estimates, cost, changes, reference in (
            ("mean", "squared distance of means", "n l", "shifts, rotations", "textbook"),
            ("deviation", "squared distance of means and deviations", "n l", "shifts", "textbook"),
            ("covariance", "squared distance of means and covariances", "n l^2", "shifts, rotations", "textbook"),
            ("d3", _D3, "n l", "shifts and scales of a coordinate", "Wu, Gao and Liu 2015"),
        )
    )
)
