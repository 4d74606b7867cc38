"""Every stage from densities to random features of A features.

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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import integrate, special

__all__ = [
    "basis_functions",
    "box_quadrature",
    "distance",
    "js_from_entropies",
    "kappa",
    "kappa_from_measure",
    "kde",
    "kernel",
    "lambda_functions",
    "literal_recipe",
    "measure",
    "pairwise_distances",
    "project",
    "random_fourier_features",
    "tensor_basis",
]

Array: TypeAlias = NDArray[np.float64]
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
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if callable(distance):
        value = distance(x, y)
    elif distance == "js":
        mean = (x + y) / 2
        value = (special.rel_entr(x, mean) + special.rel_entr(y, mean)) / 2
        value = np.where(mean > 0, value, 0.0)  # half of the smallest number is zero
    elif distance == "hellinger":
        value = (np.sqrt(x) - np.sqrt(y)) ** 2 / 2
    elif distance == "tv":
        value = np.abs(x - y) / 2
    elif distance == "chi2":
        value = (x - y) ** 2 / (2 * np.where(x + y > 0, x + y, 1.0))
    else:
        raise ValueError(f"distance must be 'js', 'hellinger', 'tv', 'chi2' or a function, got {distance!r}")
    return np.asarray(value, dtype=np.float64)


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

    `bounds` is one pair (low, high) or one a dimension, `n_nodes` a number per dimension (8192, 384 or 80 for
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
    axes, axis_weights = [], []
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


def kde(
    points: ArrayLike,
    nodes: ArrayLike,
    bandwidth: ArrayLike,
    boundary: str | Sequence[str] = "reflect",
    weights: ArrayLike | None = None,
) -> Array:
    """Gaussian product kernel density estimate (n_e,) of one bag at the nodes, in O(n n_e d).

    ``p̂(u) = Σ_i w_i Π_j Σ_images N(u_j; image of x_ij, h_j²)``, the sum running over every image within
    ten bandwidths of [0, 1]: 2k + x and 2k - x ("reflect"), k + x ("periodic"), x alone ("none").

    `points` (n, d) and `nodes` (n_e, d), or (n,) and (n_e,), lie in [0, 1] unless the boundary is "none";
    `bandwidth` and `boundary` are one for all or one a dimension; `weights` (n,) are made to sum to one.

    Examples
    --------
    >>> kde([0.5], [0.5, 0.6], bandwidth=0.1, boundary="none").round(6)
    array([3.989423, 2.419707])
    """
    points, nodes = _rows(points), _rows(nodes)
    widths = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), points.shape[1:])
    names = [boundary] * len(widths) if isinstance(boundary, str) else boundary
    w = np.asarray(np.ones(len(points)) if weights is None else weights, dtype=np.float64)
    product = np.ones((len(nodes), len(points)))
    for u, x, h, name in zip(nodes.T, points.T, widths, names, strict=True):
        ks = np.arange(-np.ceil(10 * h), np.ceil(10 * h) + 1)  # images left out are over ten h away
        if name == "reflect":
            images = [2 * k + sign * x for k in ks for sign in (1, -1)]
        elif name == "periodic":
            images = [k + x for k in ks]
        elif name == "none":
            images = [x]
        else:
            raise ValueError(f"boundary must be 'reflect', 'periodic' or 'none', got {name!r}")
        if name != "none" and (x.min() < 0 or x.max() > 1):
            raise ValueError(f"points must be in [0, 1] with boundary={name!r}, got {x.min()} to {x.max()}")
        gauss = sum(np.exp(-(((u[:, None] - image) / h) ** 2) / 2) for image in images)
        product *= gauss / (np.sqrt(2 * np.pi) * h)
    return np.asarray(product @ (w / w.sum()))


def lambda_functions(p: ArrayLike, lambdas: ArrayLike, weights: ArrayLike) -> Array:
    """λ functions ``√w_j p^(1/2 + iλ_j)`` (2M, n): all real parts, then all imaginary parts (the paper's ψ).

    `p` is (n,), `lambdas` and `weights` are (M,), a quadrature of μ; the paper's random λ have w_j = Z/M.
    The phase c_λ and the "-1" of g_λ change no distance and are left out; 0^(1/2 + iλ) = 0.

    Examples
    --------
    >>> lambda_functions([0.0, 4.0], lambdas=[0.0], weights=[0.25])
    array([[0., 1.],
           [0., 0.]])
    """
    values = np.asarray(p, dtype=np.float64).tolist()
    pairs = zip(np.asarray(lambdas).tolist(), np.asarray(weights).tolist(), strict=True)
    powers = [[w**0.5 * (v ** (0.5 + 1j * lam) if v > 0 else 0j) for v in values] for lam, w in pairs]
    return np.concatenate([np.real(powers), np.imag(powers)])


def basis_functions(x: ArrayLike, n_basis: int, kind: str = "cosine") -> Array:
    """First functions of an orthonormal basis of L2([0, 1]) at x (n,), one a column: (n, n_basis).

    "cosine": 1, √2 cos(πx), √2 cos(2πx), ...; "legendre": √(2k+1) P_k(2x - 1), k = 0, 1, ...;
    "fourier": 1, √2 cos(2πx), √2 sin(2πx), √2 cos(4πx), √2 sin(4πx), ...

    Examples
    --------
    >>> basis_functions([0.0, 0.25], 3, "fourier").round(6)
    array([[1.      , 1.414214, 0.      ],
           [1.      , 0.      , 1.414214]])
    """
    x = np.asarray(x, dtype=np.float64)
    values = np.ones((len(x), n_basis))
    for k in range(1, n_basis):
        if kind == "cosine":
            values[:, k] = np.sqrt(2) * np.cos(np.pi * k * x)
        elif kind == "fourier":
            values[:, k] = np.sqrt(2) * (np.cos if k % 2 else np.sin)(2 * np.pi * ((k + 1) // 2) * x)
        elif kind == "legendre":
            values[:, k] = np.sqrt(2 * k + 1) * special.eval_legendre(k, 2 * x - 1)
        else:
            raise ValueError(f"kind must be 'cosine', 'fourier' or 'legendre', got {kind!r}")
    return values


def tensor_basis(nodes: ArrayLike, n_basis: int, kind: str = "cosine") -> Array:
    """Tensor basis ``φ_α(u) = Π_j φ_{α_j}(u_j)``, all α in {0..n_basis-1}^d in C order: (n_e, n_basis^d).

    Examples
    --------
    >>> tensor_basis([[0.0, 1.0]], 2).round(6)
    array([[ 1.      , -1.414214,  1.414214, -2.      ]])
    """
    columns = [basis_functions(u, n_basis, kind) for u in _rows(nodes).T]
    alphas = np.ndindex(*[n_basis] * len(columns))
    factors = [[c[:, k] for c, k in zip(columns, alpha, strict=True)] for alpha in alphas]
    return np.stack([np.prod(factor, axis=0) for factor in factors], axis=1)


def project(functions: ArrayLike, basis_values: ArrayLike, node_weights: ArrayLike) -> Array:
    """Projection coefficients ``a_α(f) = Σ_e w_e φ_α(u_e) f(u_e)`` (eq. ApNumInt): (n_functions, |V|).

    `functions` is (n_functions, n_e), `basis_values` (n_e, |V|), `node_weights` (n_e,), Monte Carlo's 1/n_e.

    Examples
    --------
    >>> nodes, weights = box_quadrature()
    >>> project(2 * nodes.T, tensor_basis(nodes, 3), weights).round(6) + 0.0
    array([[ 1.      , -0.573159,  0.      ]])
    """
    f, phi, w = (np.asarray(a, dtype=np.float64) for a in (functions, basis_values, node_weights))
    return np.array([[np.sum(w * column * row) for column in phi.T] for row in f])


def random_fourier_features(
    X: ArrayLike, frequencies: ArrayLike, kind: str = "paired", offsets: ArrayLike | None = None
) -> Array:
    """Random features z(x) (eq. rks_feats) of the rows of X (n, m); `frequencies` (n_frequencies, m).

    "paired", the paper's: ``√(2/D) (sin ω_1ᵀx, cos ω_1ᵀx, sin ω_2ᵀx, ...)``, D twice the frequencies;
    "offset": ``√(2/D) cos(ω_rᵀx + b_r)``, D as many as the frequencies, `offsets` b (n_frequencies,).

    Examples
    --------
    >>> random_fourier_features([[0.0, 0.0]], [[1.0, 2.0]])
    array([[0., 1.]])
    """
    angles = np.array([[np.dot(w, x) for w in np.asarray(frequencies)] for x in np.asarray(X)])
    if kind == "paired":
        z = np.array([[wave(a) for a in row for wave in (np.sin, np.cos)] for row in angles])
    elif kind == "offset" and offsets is not None:
        z = np.cos(angles + np.asarray(offsets))
    else:
        raise ValueError(f"kind must be 'paired', or 'offset' with offsets, got {kind!r}, {offsets!r}")
    return np.asarray(np.sqrt(2 / z.shape[1]) * z, dtype=np.float64)


def literal_recipe(
    bags: Sequence[NDArray[Any]],
    lambdas: ArrayLike,
    nodes: ArrayLike,
    bandwidth: ArrayLike,
    n_basis: int,
    mass: float,
    basis: str = "fourier",
    dtype: DTypeLike | None = None,
) -> NDArray[np.floating[Any]]:
    """Features A of the paper's own algorithm (eq. ApNumInt, Adef) in BLAS and ufuncs: (n_bags, 2 M |V|).

    Per bag: a Gaussian KDE with no boundary correction at every Monte Carlo node, O(n n_e); g_λ(p̂) less
    its constants; means over the nodes against the tensor basis, O(M |V| n_e). As the baseline of speed
    comparisons, it is as fast as NumPy allows within that algorithm.

    Parameters
    ----------
    bags, nodes : sequence of arrays (n_i, d); (n_e, d) uniform draws from the unit cube
    lambdas, mass : (M,) draws of μ/Z; Z, the mass of μ
    bandwidth : number, or one a dimension
    n_basis, basis : functions per dimension and their kind (see :func:`basis_functions`): |V| = n_basis^d
    dtype : float32 or float64 for the arithmetic; by default float32 only if every bag is

    Examples
    --------
    >>> nodes = np.random.default_rng(0).random((100, 2))
    >>> literal_recipe([nodes[:9], nodes[9:]], [0.1, 0.7], nodes, 0.2, n_basis=3, mass=0.5).shape
    (2, 36)
    """
    real: type[Any] = np.dtype(np.result_type(np.float32, *bags) if dtype is None else dtype).type
    lam, nodes = np.asarray(lambdas, dtype=real)[:, None], _rows(nodes)
    n_nodes, n_dims = nodes.shape
    phi = (tensor_basis(nodes, n_basis, basis) / n_nodes).astype(real)
    widths = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n_dims,))
    # One product makes the exponent: -|x - u|²/2 = (x, 1, -|x|²/2) · (u, -|u|²/2, 1) in units of bandwidths.
    # Coordinates relative to the centre of the cube keep its cancellation small in float32.
    u = ((nodes - 0.5) / widths).T
    right = np.vstack([u, -np.sum(u**2, axis=0) / 2, np.ones(n_nodes)]).astype(real)
    floor = np.log(np.finfo(real).tiny) + 1  # below it exp makes subnormals, at more than twice the time
    n_rows, group = max(1, 2**18 // n_nodes), 16  # a buffer of a megabyte stays in cache
    buffer, ones = np.empty((n_rows, n_nodes), dtype=real), np.ones(n_rows, dtype=real)
    functions = np.empty((group, 2, len(lam), n_nodes), dtype=real)
    features = np.empty((len(bags), 2 * len(lam) * phi.shape[1]), dtype=real)
    for i, bag in enumerate(bags):
        x = (_rows(bag) - 0.5) / widths
        left = np.column_stack([x, np.ones(len(x)), -np.sum(x**2, axis=1) / 2]).astype(real)
        density = np.zeros(n_nodes, dtype=real)
        for start in range(0, len(left), n_rows):
            rows = left[start : start + n_rows]
            block = np.dot(rows, right, out=buffer[: len(rows)])
            np.maximum(block, floor, out=block)
            density += ones[: len(rows)] @ np.exp(block, out=block)
        density *= real(1 / (len(left) * np.prod(np.sqrt(2 * np.pi) * widths)))
        root, angles = np.sqrt(density * real(mass / len(lam))), lam * np.log(density)
        np.multiply(root, np.cos(angles), out=functions[i % group, 0])
        np.multiply(root, np.sin(angles), out=functions[i % group, 1])
        if i % group == group - 1 or i == len(bags) - 1:  # project many bags in one product
            done = functions[: i % group + 1].reshape(-1, n_nodes) @ phi
            features[i - i % group : i + 1] = done.reshape(i % group + 1, -1)
    return features


def js_from_entropies(
    points_p: ArrayLike, points_q: ArrayLike, bandwidth: ArrayLike, boundary: str | Sequence[str] = "reflect"
) -> float:
    """Jensen-Shannon divergence of two bags from entropies (the appendix's JS_ent, with means), in O(n²).

    The first ⌈n/2⌉ points of each bag take the means, p̂ and q̂ come from the others:
    ``½ mean_p log(2 p̂/(p̂+q̂)) + ½ mean_q log(2 q̂/(p̂+q̂))``. Points must be in random order. Noise can make
    it negative; a density that underflows counts as the smallest normal number, so the answer is finite.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal([0.3, 0.7], 0.2, (1000, 2))
    >>> round(js_from_entropies(x[:, 0], x[:, 1], bandwidth=0.05, boundary="none"), 2)  # truth: 0.337
    0.36
    """
    points_p, points_q = _rows(points_p), _rows(points_q)
    half_p, half_q = -(-len(points_p) // 2), -(-len(points_q) // 2)
    means = []
    for own, at in ((0, points_p[:half_p]), (1, points_q[:half_q])):
        rest = [kde(x, at, bandwidth, boundary) for x in (points_p[half_p:], points_q[half_q:])]
        both = np.maximum(rest, np.finfo(np.float64).tiny)
        means.append(np.mean(np.log(2 * both[own] / both.sum(axis=0))))
    return float(np.mean(means))


def _rows(array: ArrayLike) -> Array:
    """Return points or nodes as float64 (n, d); a 1-D array holds points of one dimension."""
    array = np.asarray(array, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array
