"""Homogeneous distances of densities and of histograms, by their formulas and by integrals, and kernels of them.

Distances are ``d²(p, q) = ∫ κ(p(x), q(x)) dx`` with (in nats)

========== =================================== ============================ =======
name       κ(x, y)                             density of μ on λ ≥ 0        mass Z
========== =================================== ============================ =======
js         x/2 ln(2x/(x+y)) + y/2 ln(2y/(x+y)) 1 / (cosh(πλ) (1 + 4λ²))     ln(2)/2
hellinger  (√x - √y)² / 2                      point mass at λ = 0          1/2
tv         abs(x - y) / 2                      (2/π) / (1 + 4λ²)            1/2
chi2       (x - y)² / (2 (x + y))              1 / cosh(πλ)                 1/2
========== =================================== ============================ =======

Rows one and three correct Table 1 of Sutherland, Oliva, Póczos and Schneider, "Linear-time Learning on
Distributions with Approximate Kernel Embeddings", which prints 1 + λ² and abs(x - y).

The distance of two histograms is a sum of κ over cells. An additive kernel is a sum over cells of k(x, y), with
κ(x, y) = k(x, x) + k(y, y) - 2 k(x, y):

============ =========================================== ===========================
distance     k(x, y)                                     spectrum, density of μ / 2
============ =========================================== ===========================
js           x/2 ln((x+y)/x) / 2 + y/2 ln((x+y)/y) / 2   sech(πλ) / (1 + 4λ²) / 2
hellinger    √(xy) / 2                                   point mass at λ = 0
tv           min(x, y) / 2                               (1/π) / (1 + 4λ²)
chi2         xy / (x + y)                                sech(πλ) / 2
============ =========================================== ===========================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, special

from .moments import Array, weighted

__all__ = [
    "additive_kernel", "box_quadrature", "distance", "histogram", "histogram_distance", "kappa", "kappa_from_measure",
    "kernel", "measure", "nearest_words", "nystroem_kernel", "pairwise_distances", "rbf_kernel", "repaired_kernel",
    "spectrum_map", "word_shares",
]  # fmt: skip

Density: TypeAlias = Callable[[Array], ArrayLike]
Kappa: TypeAlias = str | Callable[[Array, Array], ArrayLike]
_DEFAULT_NODES = {1: 8192, 2: 384, 3: 80}  # per dimension: at most 512,000 in all


def kappa(x: ArrayLike, y: ArrayLike, distance: Kappa) -> Array:
    """Evaluate κ(x, y) elementwise for x, y ≥ 0, by the module's table; shapes broadcast, 0 is handled.

    `distance` may also be any function of two arrays: ``lambda x, y: (x - y) ** 2`` gives squared L2.

    Examples
    --------
    >>> kappa([1.0, 0.0, 0.0], [2.0, 1.0, 0.0], "js").round(9)
    array([0.08494952, 0.34657359, 0.        ])
    """
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    formula = distance if callable(distance) else _KAPPA.get(distance)
    if formula is None:
        raise ValueError(f"distance must be 'js', 'hellinger', 'tv', 'chi2' or a function, got {distance!r}")
    return np.asarray(formula(x, y), dtype=np.float64)


def _js(x: Array, y: Array) -> Array:
    mean = (x + y) / 2
    value = (special.rel_entr(x, mean) + special.rel_entr(y, mean)) / 2
    return np.where(mean > 0, value, 0.0)  # half of the smallest number is zero


_KAPPA: dict[str, Callable[[Array, Array], ArrayLike]] = {
    "js": _js,
    "hellinger": lambda x, y: (np.sqrt(x) - np.sqrt(y)) ** 2 / 2,
    "tv": lambda x, y: np.abs(x - y) / 2,
    "chi2": lambda x, y: (x - y) * ((x - y) / (2 * np.where(x + y > 0, x + y, 1.0))),  # (1e-162)² would be zero
}


def measure(lam: ArrayLike, distance: str) -> Array:
    """Density of μ on λ ≥ 0 (Table 1 of the paper, corrected); an error for Hellinger's point mass.

    Examples
    --------
    >>> measure([0.0, 0.5], "tv").round(6)
    array([0.63662, 0.31831])
    """
    lam = np.asarray(lam, dtype=np.float64)
    decay = np.exp(-np.pi * np.abs(lam))  # cosh itself would overflow where quadrature looks for the tail
    sech = 2 * decay / (1 + decay**2)
    values = {"js": sech / (1 + 4 * lam**2), "tv": (2 / np.pi) / (1 + 4 * lam**2), "chi2": sech}
    if distance not in values:
        raise ValueError(f"distance must be 'js', 'tv' or 'chi2' to have a density, got {distance!r}")
    return np.asarray(values[distance])


def kappa_from_measure(x: float, y: float, density: Callable[[float], ArrayLike]) -> float:
    """Integrate ``κ(x, y) = ∫_{λ≥0} |x^(1/2+iλ) - y^(1/2+iλ)|² dμ(λ)`` numerically, for two numbers.

    Literally up to λ = 20; beyond it as ∫ (x + y) dμ less a cosine transform, since the square is
    ``x + y - 2 √(xy) cos(λ log(x/y))`` and QUADPACK has a rule that can do oscillating tails. For the
    measures of this module and 1e-4 < x/y < 1e4 the error is below 1e-12 (x + y).

    Examples
    --------
    >>> round(kappa_from_measure(1.0, 2.0, lambda lam: measure(lam, "js")), 9)
    0.084949518
    """

    def integrand(lam: float) -> Any:
        powers = [v ** (0.5 + 1j * lam) if v > 0 else 0j for v in (x, y)]
        return abs(powers[0] - powers[1]) ** 2 * np.asarray(density(lam))

    options: dict[str, Any] = {"epsabs": 1e-14, "epsrel": 1e-13, "limit": 1000}
    if x == y:
        return 0.0
    value = integrate.quad(integrand, 0, 20, **options)[0]
    value += (x + y) * integrate.quad(density, 20, np.inf, **options)[0]
    if x > 0 and y > 0:
        options.update(weight="cos", wvar=abs(np.log(x / y)), limlst=1000)
        value -= 2 * np.sqrt(x * y) * integrate.quad(density, 20, np.inf, **options)[0]
    return float(value)


def box_quadrature(
    n_dims: int = 1, bounds: Sequence[Any] = (0, 1), n_nodes: int | None = None, breaks: Sequence[float] = ()
) -> tuple[Array, Array]:
    """Nodes (n_e, d) and weights (n_e,) of composite Gauss-Legendre quadrature on a box.

    `bounds` is one pair (low, high) or one per dimension, `n_nodes` a number per dimension (8192, 384 or 80 for
    1, 2 or 3). Every dimension is cut at `breaks`, where integrands have kinks; each piece has panels of 16
    nodes in t, where x = t² (3 - 2t) on the piece: nodes crowd at its ends, and √x or log x there do no harm.

    Examples
    --------
    >>> nodes, weights = box_quadrature(2, bounds=[(0, 1), (0, 2)], n_nodes=16)
    >>> nodes.shape, round(float(weights @ nodes.prod(axis=1)), 12)
    ((256, 2), 1.0)
    """
    if n_dims not in _DEFAULT_NODES:
        raise ValueError(f"n_dims must be 1, 2 or 3 for a tensor grid, got {n_dims!r}")
    gauss_x, gauss_w = np.polynomial.legendre.leggauss(16)
    axes = []
    axis_weights = []
    for low, high in np.broadcast_to(np.asarray(bounds, dtype=np.float64), (n_dims, 2)):
        edges = [low, *sorted(b for b in breaks if low < b < high), high]
        n_panels = -(-(n_nodes or _DEFAULT_NODES[n_dims]) // (16 * (len(edges) - 1)))
        t = ((np.arange(n_panels)[:, None] + (gauss_x + 1) / 2) / n_panels).ravel()
        w = np.tile(gauss_w / (2 * n_panels), n_panels) * 6 * t * (1 - t)
        axes.append(np.concatenate([a + (b - a) * t**2 * (3 - 2 * t) for a, b in pairwise(edges)]))
        axis_weights.append(np.concatenate([(b - a) * w for a, b in pairwise(edges)]))
    nodes = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    weights = np.prod([g.ravel() for g in np.meshgrid(*axis_weights, indexing="ij")], axis=0)
    return nodes, weights


def distance(
    p: Density,
    q: Density,
    distance: Kappa,
    n_dims: int = 1,
    bounds: Sequence[Any] = (0, 1),
    n_nodes: int | None = None,
    breaks: Sequence[float] = (),
) -> float:
    """Squared distance ``d²(p, q) = ∫ κ(p(x), q(x)) dx`` of two density functions over a box (eq. hdd-def).

    `p` and `q` take an array (n_e, d) and return (n_e,); the other arguments are those of :func:`kappa` and
    :func:`box_quadrature`. For smooth densities the error is about 1e-9 or less. Total variation has kinks
    where p = q: with no `breaks` there expect 1e-6 in one dimension and 1e-4 in more.

    Examples
    --------
    >>> round(distance(lambda x: 2 * x[:, 0], lambda x: 2 - 2 * x[:, 0], "js"), 9)  # ln 2 - 1/2
    0.193147181
    """
    nodes, weights = box_quadrature(n_dims, bounds, n_nodes, breaks)
    return float(weights @ kappa(p(nodes), q(nodes), distance))


def pairwise_distances(densities: ArrayLike, distance: Kappa, node_weights: ArrayLike) -> Array:
    """Squared distances (n_bags, n_bags) of densities known on shared nodes, in O(n_bags² n_e).

    Entry (i, j) is ``Σ_e w_e κ(p_i(u_e), p_j(u_e))``; `densities` is (n_bags, n_e), `node_weights` (n_e,).

    Examples
    --------
    >>> pairwise_distances([[1.0, 1.0], [0.0, 2.0]], "tv", [0.5, 0.5])
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    p = np.asarray(densities, dtype=np.float64)
    return np.array([kappa(row, p, distance) @ np.asarray(node_weights) for row in p])


def kernel(distances_squared: ArrayLike, sigma: float) -> Array:
    """Generalised RBF kernel ``exp(-d² / (2 σ²))`` of squared distances (eq. InfKern), elementwise.

    Examples
    --------
    >>> kernel([0.0, 2.0], sigma=1.0).round(6)
    array([1.      , 0.367879])
    """
    return np.asarray(np.exp(-np.asarray(distances_squared, dtype=np.float64) / (2 * sigma**2)))


def rbf_kernel(distances_squared: ArrayLike, sigma: float) -> Array:
    """The same, with d² = 0 for negative estimates.

    Examples
    --------
    >>> rbf_kernel([[0.0, 2.0], [-1.0, 0.0]], 1.0).round(4)
    array([[1.    , 0.3679],
           [1.    , 1.    ]])
    """
    return kernel(np.maximum(distances_squared, 0.0), sigma)


def repaired_kernel(K: ArrayLike, method: str) -> Array:
    """The sum of f(λ) v vᵀ over eigenpairs: f is max(λ, 0), abs(λ), λ - min(λ_min, 0) or λ².

    Examples
    --------
    >>> repaired_kernel([[0.0, 1.0], [1.0, 0.0]], "clip").round(6)  # eigenvalues 1 and -1
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    total = np.zeros((len(values), len(values)))
    for value, vector in zip(values, vectors.T, strict=True):
        new = {"clip": max(value, 0.0), "flip": abs(value), "shift": value - min(values[0], 0.0), "square": value**2}
        total += new[method] * np.outer(vector, vector)
    return total


def nystroem_kernel(rows: ArrayLike, K: ArrayLike, least: float = 1e-12) -> Array:
    """The sum of (k_x·v)(k_y·v) / λ over eigenpairs of K with λ > max(least λ_max, -λ_min), for all pairs of rows k_x.

    Examples
    --------
    >>> nystroem_kernel([[2.0, 3.0]], [[4.0, 0.0], [0.0, -1.0]])  # 2² / 4
    array([[1.]])
    """
    k = np.asarray(rows, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    total = np.zeros((len(k), len(k)))
    for value, vector in zip(values, vectors.T, strict=True):
        if value > max(least * np.abs(values).max(), -values[0]):
            total += np.outer(k @ vector, k @ vector) / value
    return total


# --------------------------------------------------------------------------------------------------------------
# Histograms
# --------------------------------------------------------------------------------------------------------------


def histogram(points: ArrayLike, bins: Sequence[int], weights: ArrayLike | None = None) -> Array:
    """Shares (prod(bins),) of the weight of a bag's points (n, d) in the cells of the unit cube.

    A coordinate x is in bin floor(b x) of b; 1 is in the last. Cells stand with the last dimension fastest.

    Examples
    --------
    >>> histogram([[0.1, 0.9], [0.2, 1.0], [0.5, 0.0], [0.4, 0.4]], [2, 2])
    array([0.25, 0.5 , 0.25, 0.  ])
    """
    points, given = weighted(points, weights)
    masses = np.zeros(tuple(bins))
    for point, weight in zip(points, given, strict=True):
        masses[tuple(min(int(x * b), b - 1) for x, b in zip(point, bins, strict=True))] += weight
    return np.asarray(masses.ravel() / given.sum())


def histogram_distance(h: ArrayLike, g: ArrayLike, distance: str) -> float:
    """d²(h, g) = Σ κ(h_i, g_i) over the cells of two histograms; ``"l2"`` is Σ (h_i - g_i)².

    Examples
    --------
    >>> [round(histogram_distance([0.2, 0.3, 0.5], [0.5, 0.3, 0.2], name), 9) for name in ("js", "hellinger", "tv")]
    [0.066414314, 0.067544468, 0.3]
    """
    if distance == "l2":
        return float(np.sum((np.asarray(h) - np.asarray(g)) ** 2))
    return float(np.sum(kappa(h, g, distance)))


def additive_kernel(x: ArrayLike, y: ArrayLike, distance: str) -> Array:
    """k(x, y) elementwise, by the module's table: (κ(x, 0) + κ(y, 0) - κ(x, y)) / 2.

    Examples
    --------
    >>> additive_kernel([1.0, 1.0], [3.0, 0.0], "chi2")
    array([0.75, 0.  ])
    """
    return np.asarray((kappa(x, 0.0, distance) + kappa(y, 0.0, distance) - kappa(x, y, distance)) / 2)


def spectrum_map(x: float, distance: str, order: int, period: float) -> Array:
    """The 2 n + 1 features of one value by Vedaldi and Zisserman (2012), with spectrum κ, order n and period L.

    ``√(x L κ(0))``, then for j = 1, ..., n ``√(2 x L κ(jL)) cos(jL ln x)``, then the same with the sine.

    Examples
    --------
    >>> a, b = spectrum_map(1.0, "js", 30, 0.15), spectrum_map(2.0, "js", 30, 0.15)
    >>> round(float(np.sum((a - b) ** 2)), 5), round(float(kappa(1.0, 2.0, "js")), 5)
    (0.08495, 0.08495)
    """
    if x == 0:
        return np.zeros(2 * order + 1)
    lambdas = period * np.arange(order + 1)
    lengths = np.sqrt(x * period * measure(lambdas, distance) / 2 * np.where(lambdas > 0, 2, 1))
    angles = lambdas * np.log(x)
    return np.concatenate([lengths * np.cos(angles), lengths[1:] * np.sin(angles[1:])])


def nearest_words(points: ArrayLike, words: ArrayLike) -> Array:
    """Position (n,) of the word (n_words, d) nearest to each point (n, d); the first of several.

    Examples
    --------
    >>> nearest_words([[0.0], [0.9], [0.5]], [[0.0], [1.0]])
    array([0, 1, 0])
    """
    points = np.asarray(points, dtype=np.float64)
    words = np.asarray(words, dtype=np.float64)
    return np.array([int(np.argmin([np.sum((point - word) ** 2) for word in words])) for point in points])


def word_shares(points: ArrayLike, words: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Shares (n_words,) of the weight of a bag's points that are nearest to each word.

    Examples
    --------
    >>> word_shares([[0.0], [0.9], [0.5]], [[0.0], [1.0]], weights=[1, 2, 1])
    array([0.5, 0.5])
    """
    points, given = weighted(points, weights)
    nearest = nearest_words(points, words)
    return np.array([given[nearest == j].sum() / given.sum() for j in range(len(np.asarray(words)))])
