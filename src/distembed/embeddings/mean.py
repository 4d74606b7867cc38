r"""Mean embeddings: vectors whose squared Euclidean distances approximate MMD² of a Gaussian kernel between points.

For k(x, y) = exp(-\|\|x - y\|\|²/(2σ²)) the mean map of a distribution is μ_p = E k(x, ·), and
MMD²(p, q) = \|\|μ_p - μ_q\|\|² (Smola et al. 2007). Where k(x, y) = z(x)·z(y), the mean of z over a bag is its mean map
in coordinates. Two kinds of z are here:

- ``"features"``: random sines and cosines (Rahimi and Recht 2007), for points of any dimension;
- ``"spectrum"``: the Fourier series of the kernel on a box, for one to three dimensions, see
  :mod:`distembed.embeddings.gaussian_series`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import MAX_FEATURES, Writer
from ..basis import LowEnergyWarning
from ..compute.arrays import Array, Scratch, write_sines_and_cosines
from ..compute.checks import InputError, check_choice, check_number, resolve_sigma
from ..compute.parallel import bag_chunks
from ..compute.registry import storable
from ..features import RandomFourierFeatures
from ..features.fourier import FREQUENCIES
from ..features.medians import median_distance_of_bags, median_point
from .catalogue import Method, register
from .gaussian_series import MAX_DIMS, FourierSeries, OutsideBox, SeriesMeans, fit_series, in_single
from .sketches import Additive

METHODS = ("features", "spectrum")
LEAST_CAPTURED = 0.9
_STRIP_VALUES = 2**17  # angles at a time: they and their sines stay in the cache


@storable(
    sigma_="number",
    _series="FourierSeries | None",
    _centre="finite(d)",
    _extent="number",
    frequencies_="finite(d, h)",
    waves_="int(m, d)",
    amplitudes_="finite(m)",
    box_="finite(2, d)",
)
class MeanEmbedding(Additive):
    r"""Embed bags so that \|\|A(p) - A(q)\|\|² ≈ MMD²(p, q) for the kernel exp(-\|\|x - y\|\|² / (2 sigma²)) of points.

    A is linear: the row of a bag is the weighted mean of its points' rows, and dot products of rows are the mean map
    kernel, the mean of k over all pairs of points. :class:`~distembed.RandomFourierFeatures` behind it makes
    exp(-MMD²/(2s²)) linear (Muandet et al. 2012).

    Points may have any units: no unit cube is needed. MMD does change with scale, so coordinates should be comparable.

    Parameters
    ----------
    n_components : int, default=1000
        D, the number of features: exactly, and even, for ``"features"``; at most for ``"spectrum"``. Not above
        1,000,000.
    sigma : float or "median", default="median"
        Scale of the kernel, in the units of the points. ``"median"``: the median distance between points of the
        training bags, all together (at most 1,000 of them, drawn at random, by weight).
    sigma_scale : float, default=1.0
        Multiplies ``sigma``; with ``"median"`` this is the knob to tune.
    method : {"features", "spectrum"}, default="features"
        Random features, for any number of dimensions; or the kernel's Fourier series on the box of the training
        points, without randomness, for one to three dimensions: there it is faster, and in one and two also more
        accurate by orders of magnitude. See Notes.
    frequencies : {"orthogonal", "independent", "hadamard"}, default="orthogonal"
        How those of ``"features"`` are drawn, as in :class:`~distembed.RandomFourierFeatures`.
    random_state : int, RandomState or None, default=None
        Used by ``"features"``, and by ``sigma="median"`` with more than 1,000 points.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    sigma_ : float
        Scale in use, ``sigma_scale`` included.
    frequencies_ : ndarray of shape (n_dims, n_components / 2)
        Only with ``"features"``, not hadamard: the ω as columns, divided by ``sigma_``.
    waves_ : ndarray of shape (n_features, n_dims) of int
        Only with ``"spectrum"``: the factor of each feature in each dimension, 1 for 0, the k-th cosine for k and the
        k-th sine for -k.
    amplitudes_ : ndarray of shape (n_features,)
        Only with ``"spectrum"``: what the product of the factors is multiplied by.
    captured_ : float
        Only with ``"spectrum"``: the share of the kernel's Fourier weights that the features hold; z(x)·z(x) is this
        for every x. A squared distance of bags in the range of the training points is too small by at most
        4 (1 - ``captured_``), and for bags of many points by far less. Below 0.9 ``fit`` warns.
    box_ : ndarray of shape (2, n_dims)
        Only with ``"spectrum"``: lower and upper corner of where points may lie.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *What is approximated* is the V-statistic of the points, MMD² of the empirical distributions, in which each point
    is also paired with itself. Its expectation for bags of n and m points is the MMD² of their densities plus
    (1 - E k(x, x'))/n + (1 - E k(y, y'))/m, which is the same only for bags of one size and similar spread;
    :func:`distembed.sizes.split_half_distances` removes it.

    *Features.* √(2/D) times the means of sin ω·x, then of cos ω·x, for D/2 random ω. The standard error of MMD² falls
    as 1/√D. Cost: n_points D sines and cosines, and n_points D n_dims / 2 multiplications for their angles.

    *Spectrum.* The kernel, wrapped around a torus 6 sigma longer than the training points in each dimension, is its
    Fourier series. Weights of frequencies fall as a Gaussian; products of cosines and sines are taken from the
    largest weight on until all but 1e-7 of the kernel is captured, or n_components are taken. Then MMD² is exact to
    some 1e-7 for the training points. Features needed grow with the box as Π (extent_j / sigma + 6); a 2-D cloud of a
    few deviations needs some 300, a 3-D one thousands. Cost: one sine and one cosine a point and dimension, and
    n_points n_features multiplications in matrix products, or a few more. In 2-D, for n = 200, it takes less than a
    hundredth of the time of 5,000 random features at an error no larger than theirs (``benchmarks/mmd.py``).

    *Beyond the training points.* On a torus, a point far outside would be near the opposite side. Points up to
    ``sigma_`` beyond the training points, in each dimension, are welcome, where the kernel between opposite sides is
    still right to exp(-8) in the worst case (MMD² to 7e-4); others are refused, with the bag and the value.

    *Memory:* the result and a working set of a few megabytes a thread. For ``"features"``, ``fit`` looks for the median
    of each coordinate, some 40 bytes per point: angles are taken relative to it, so a far training point costs the
    others no digits.

    References
    ----------
    Smola, Gretton, Song, Schölkopf (2007). A Hilbert space embedding for distributions. ALT.

    Muandet, Fukumizu, Dinuzzo, Schölkopf (2012). Learning from distributions via support measure machines. NeurIPS.

    Rahimi, Recht (2007). Random features for large-scale kernel machines. NeurIPS.

    Examples
    --------
    N(0, 1) and N(1, 1) have MMD² = 0.1773 for sigma = 1:

    >>> from distembed.bags import Bags
    >>> rng = np.random.default_rng(0)
    >>> bags = Bags.from_arrays([rng.normal(0, 1, 20_000), rng.normal(1, 1, 20_000)])
    >>> a, b = MeanEmbedding(sigma=1.0, method="spectrum").fit_transform(bags)
    >>> round(float(np.sum((a - b) ** 2)), 2)
    0.18
    >>> a, b = MeanEmbedding(1000, sigma=1.0, random_state=0).fit_transform(bags)
    >>> bool(abs(np.sum((a - b) ** 2) - 0.1773) < 0.02)
    True
    """

    def __init__(
        self,
        n_components: int = 1000,
        sigma: float | str = "median",
        *,
        sigma_scale: float = 1.0,
        method: str = "features",
        frequencies: str = "orthogonal",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.sigma = sigma
        self.sigma_scale = sigma_scale
        self.method = method
        self.frequencies = frequencies
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: Any) -> None:
        """Choose sigma, and draw or choose the frequencies."""
        random = check_choice(self, "method", self.method, METHODS) == "features"
        kind = check_choice(self, "frequencies", self.frequencies, FREQUENCIES)
        n_components = self._check_components(random, bags.n_dims)
        rng = check_random_state(self.random_state)
        self.sigma_ = self._scale(bags, rng)
        low, high = (np.asarray(f(bags.points, axis=0), float) for f in (np.min, np.max))
        for name in ("frequencies_", "waves_", "amplitudes_", "captured_", "box_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._series: FourierSeries | None = None
        if random:
            self._centre = in_single(median_point(bags))
            with np.errstate(over="ignore"):
                self._extent = float(np.max(np.maximum(high - self._centre, self._centre - low)))
            drawn = RandomFourierFeatures(n_components, sigma=self.sigma_, frequencies=kind, random_state=rng)
            self._draw = drawn.fit(np.zeros((1, bags.n_dims)))
            if kind != "hadamard":
                self.frequencies_ = drawn.frequencies_
            self._n_features_out = n_components
            return
        self._series = series = fit_series(low, high, self.sigma_, n_components)
        self.waves_ = series.waves
        self.amplitudes_ = series.amplitudes
        self.captured_ = series.captured
        self.box_ = np.stack([series.centre - series.reach, series.centre + series.reach])
        self._n_features_out = len(self.waves_)
        if self.captured_ < LEAST_CAPTURED:
            message = (
                f"MeanEmbedding: the features capture less than {LEAST_CAPTURED:.0%} of the kernel (captured_), so "
                "distances come out too small; raise n_components or sigma, clip far points with UnitCube, or use "
                "method='features'"
            )
            warnings.warn(LowEnergyWarning(message, self.captured_, self._n_features_out), stacklevel=3)

    def _check_components(self, random: bool, n_dims: int) -> int:
        n_components = check_number(self, "n_components", self.n_components, low=1, high=MAX_FEATURES, integer=True)
        if random and n_components % 2:
            raise ValueError(
                "MeanEmbedding(n_components=...): must be even, because method='features' takes the sine and the "
                f"cosine of each frequency, got {n_components}; use {n_components + 1}"
            )
        if not random and n_dims > MAX_DIMS:
            raise ValueError(
                f"MeanEmbedding(method='spectrum'): needs points of at most {MAX_DIMS} dimensions, got {n_dims}; use "
                "method='features', or look at fewer dimensions at a time with Marginals"
            )
        return n_components

    def _scale(self, bags: Bags, rng: np.random.RandomState) -> float:
        """``sigma_`` for these bags."""
        sigma = resolve_sigma(self, self.sigma, self.sigma_scale, lambda: median_distance_of_bags(bags, rng))
        if not 1e-300 <= sigma <= 1e300:
            raise ValueError(
                f"MeanEmbedding(sigma=...): must be a positive, finite scale for these points, got {sigma:g}; rescale "
                "the points, e.g. with UnitCube"
            )
        return sigma

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        means = self._means(bags.dtype)
        if not means.finite:
            raise self._too_fine(bags.dtype)
        size = -(-bags.n_points // bags.n_bags)
        return means, bag_chunks(bags.n_bags, size * means.bytes_per_point)

    def _means(self, dtype: np.dtype[Any]) -> SeriesMeans | RandomFeatureMeans:
        """What takes means over the points of bags, prepared for a dtype."""
        if self._series is not None:
            return SeriesMeans(self._series, dtype)
        return RandomFeatureMeans(self._draw, self._centre, dtype)

    def _too_fine(self, dtype: np.dtype[Any]) -> InputError:
        """The error for a scale that, with points such as those of fit, makes angles overflow."""
        remedy = "raise sigma, pass float64 in place of float32" if dtype != np.float64 else "raise sigma"
        return InputError(
            f"MeanEmbedding(sigma=...): is too small for {dtype} points, of which the angles x / sigma must be finite, "
            f"got {self.sigma_:g}; {remedy}, or rescale the points and fit again"
        )

    def __distembed_fits__(self) -> bool:
        n = len(self._series.waves) if self._series is not None else self._draw.n_components
        return bool(n == self._n_features_out)

    def _refusal(self, bags: Bags) -> InputError:
        """The error for bags that have points outside: it names the bag, the point, the value, the remedy."""
        means = self._means(bags.dtype)
        if isinstance(means, SeriesMeans):
            low, high = self.box_
        elif means.reach < self._extent:  # points of fit are outside, too
            return self._too_fine(bags.dtype)
        else:
            low = self._centre - means.reach
            high = self._centre + means.reach
        points = bags.points.astype(float)
        row, dim = np.unravel_index(np.argmax(np.maximum(low - points, points - high)), points.shape)
        where = f"from {low[dim]:g} to {high[dim]:g} in dimension {dim}"
        remedy = "fit on bags that reach as far, or clip them first with UnitCube"
        if self._series is not None:
            remedy = "fit on bags that reach as far, clip them first with UnitCube, or use method='features'"
        return InputError(
            f"MeanEmbedding: points must lie within reach of those of fit, {where}, but "
            f"{bags.name_of_point(int(row))} has {points[row, dim]:g}; {remedy}"
        )

    def _feature_names(self) -> list[str]:
        """Such as ``mean_sin0`` and ``mean_cos0``, or for the spectrum ``mean_c3_s1``: cos 3x₀ · sin x₁."""
        if self._series is None:
            half = self._n_features_out // 2
            return [f"mean_{wave}{r}" for wave in ("sin", "cos") for r in range(half)]
        rows = self.waves_.tolist()
        return ["mean_" + "_".join(f"{'s' if k < 0 else 'c'}{abs(k)}" for k in row) for row in rows]


class RandomFeatureMeans:
    """Means of random features over bags, prepared once for a dtype.

    Parameters
    ----------
    draw : RandomFourierFeatures
        Fitted in float64, with paired features.
    centre : ndarray of shape (n_dims,)
        What is subtracted from points: angles are then small, and so are their errors.
    dtype : numpy dtype
        Of the points.
    """

    def __init__(self, draw: RandomFourierFeatures, centre: Array, dtype: np.dtype[Any]) -> None:
        self._half = draw.n_components // 2
        self._dtype = dtype
        with np.errstate(over="ignore"):  # what is too large for the dtype is refused below
            self._centre = centre.astype(dtype)
            self._project = draw.projection(dtype)
        longest = float(np.max(draw.lengths_ if draw.frequencies == "hadamard" else np.abs(draw.frequencies_)))
        # Angles, and what comes on the way to them, must not overflow.
        most = float(np.finfo(dtype).max) / (16.0 * len(centre))
        self.reach = most / max(longest, 1.0)
        self.finite = longest <= most
        self.bytes_per_point = self._half * dtype.itemsize

    def __call__(self, bags: Bags, out: Array, scratch: Scratch) -> None:
        """Write the features of bags to ``out`` of shape (n_bags, n_components), a strip of points at a time."""
        half = self._half
        shares = bags.shares()
        scale = np.sqrt(1 / self._half)
        out[...] = 0
        step = max(1, _STRIP_VALUES // half)
        for start in range(0, bags.n_points, step):
            stop = min(start + step, bags.n_points)
            sines, cosines = self._waves(bags.points[start:stop], scratch)
            first, last = np.searchsorted(bags.offsets, (start, stop - 1), side="right") - 1
            bounds = np.clip(bags.offsets[first : last + 2] - start, 0, stop - start)
            if shares is None:
                masses = np.repeat(1 / bags.sizes[first : last + 1], np.diff(bounds))
            else:
                masses = shares[start:stop]
            masses = (masses * scale).astype(self._dtype)
            mass: Any = masses[None]
            if first < last:  # several bags
                mass = csr_matrix((masses, np.arange(stop - start), bounds), shape=(last + 1 - first, stop - start))
            out[first : last + 1, :half] += mass @ sines
            out[first : last + 1, half:] += mass @ cosines

    def _waves(self, points: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Sines and cosines of the angles of points, ndarrays of shape (n_points, n_frequencies)."""
        dtype = self._dtype
        shape = (len(points), self._half)
        with np.errstate(over="ignore"):
            points = np.subtract(points, self._centre, out=scratch("points", points.shape, dtype))
        if not np.abs(points).max() <= self.reach:
            raise OutsideBox
        angles = scratch("angles", shape, dtype)
        sines = scratch("sines", shape, dtype)
        self._project(points, angles, scratch)
        if dtype == np.float64:
            cosines = scratch("cosines", shape, dtype)
            write_sines_and_cosines(angles, sines, cosines, 1.0, scratch)
            return sines, cosines
        np.sin(angles, out=sines)  # the scale is in the masses: no pass for it
        return sines, np.cos(angles, out=angles)


_CHANGES = "shifts, rotations, one scale for all"
_MUANDET = "Muandet et al. 2012"
register(
    Method(
        "mmd", MeanEmbedding, {}, "squared maximum mean discrepancy", "n D l", "yes", _CHANGES, "any", _MUANDET
    ),
    Method(
        "mmd-spectrum", MeanEmbedding, {"method": "spectrum"}, "squared maximum mean discrepancy", "n features", "yes",
        _CHANGES, "any (1 to 3 dimensions)", _MUANDET,
    ),
)  # fmt: skip
