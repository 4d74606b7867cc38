"""Every stage from points to random features, and the coefficients of densities on an orthonormal basis.

``L2²(p, q) = ∫ (p(x) - q(x))² dx = Σ_α (a_α(p) - a_α(q))²`` for the coefficients ``a_α(p) = ∫ φ_α p`` on a whole
orthonormal basis (Parseval); ``a_α(p)`` is also the expectation of φ_α under p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .distances import Density, box_quadrature
from .moments import Array, weighted

__all__ = [
    "basis_functions", "captured_share", "kde", "l2_coefficients", "l2_point_coefficients", "l2_point_variance",
    "lambda_functions", "literal_recipe", "lost_signal", "project", "random_fourier_features", "tensor_basis",
]  # fmt: skip


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
    `bandwidth` and `boundary` are one for all or one per dimension; `weights` (n,) are made to sum to one.

    Examples
    --------
    >>> kde([0.5], [0.5, 0.6], bandwidth=0.1, boundary="none").round(6)
    array([3.989423, 2.419707])
    """
    x, w = weighted(points, weights)
    u, _ = weighted(nodes)
    widths = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), x.shape[1:])
    names = [boundary] * len(widths) if isinstance(boundary, str) else boundary
    product = np.ones((len(u), len(x)))
    for at, along, h, name in zip(u.T, x.T, widths, names, strict=True):
        ks = np.arange(-np.ceil(10 * h), np.ceil(10 * h) + 1)  # images left out are over ten h away
        images = {
            "reflect": [2 * k + sign * along for k in ks for sign in (1, -1)],
            "periodic": [k + along for k in ks],
            "none": [along],
        }
        if name not in images:
            raise ValueError(f"boundary must be 'reflect', 'periodic' or 'none', got {name!r}")
        if name != "none" and (along.min() < 0 or along.max() > 1):
            raise ValueError(f"points must be in [0, 1] with boundary={name!r}, got {along.min()} to {along.max()}")
        gauss = sum(np.exp(-(((at[:, None] - image) / h) ** 2) / 2) for image in images[name])
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
    """First functions of an orthonormal basis of L2([0, 1]) at x (n,), one per column: (n, n_basis).

    "cosine": 1, √2 cos(πx), √2 cos(2πx), ...; "legendre": √(2k+1) P_k(2x - 1), k = 0, 1, ...;
    "fourier": 1, √2 cos(2πx), √2 sin(2πx), √2 cos(4πx), √2 sin(4πx), ...

    Examples
    --------
    >>> basis_functions([0.0, 0.25], 3, "fourier").round(6)
    array([[1.      , 1.414214, 0.      ],
           [1.      , 0.      , 1.414214]])
    """
    at = np.asarray(x, dtype=np.float64)
    return np.column_stack([_basis_function(at, k, kind) for k in range(n_basis)])


def _basis_function(x: Array, k: int, kind: str) -> Array:
    """The k-th of :func:`basis_functions`, k = 0, 1, ..., at x (n,): (n,)."""
    formulas: dict[str, Callable[[], Array]] = {
        "cosine": lambda: np.sqrt(2) * np.cos(np.pi * k * x),
        "fourier": lambda: np.sqrt(2) * (np.cos if k % 2 else np.sin)(2 * np.pi * ((k + 1) // 2) * x),
        "legendre": lambda: np.sqrt(2 * k + 1) * special.eval_legendre(k, 2 * x - 1),
    }
    if kind not in formulas:
        raise ValueError(f"kind must be 'cosine', 'fourier' or 'legendre', got {kind!r}")
    return formulas[kind]() if k > 0 else np.ones(len(x))


def tensor_basis(nodes: ArrayLike, n_basis: int, kind: str = "cosine") -> Array:
    """Tensor basis ``φ_α(u) = Π_j φ_{α_j}(u_j)``, all α in {0..n_basis-1}^d in C order: (n_e, n_basis^d).

    Examples
    --------
    >>> tensor_basis([[0.0, 1.0]], 2).round(6)
    array([[ 1.      , -1.414214,  1.414214, -2.      ]])
    """
    u = weighted(nodes)[0]
    alphas = np.array(list(np.ndindex(*[n_basis] * u.shape[1])))
    return np.stack([_product(u, alpha, kind) for alpha in alphas], axis=1)


def project(functions: ArrayLike, basis_values: ArrayLike, node_weights: ArrayLike) -> Array:
    """Projection coefficients ``a_α(f) = Σ_e w_e φ_α(u_e) f(u_e)`` (eq. ApNumInt): ``(n_functions, |V|)``.

    `functions` is (n_functions, n_e), `basis_values` ``(n_e, |V|)``, `node_weights` (n_e,), Monte Carlo's 1/n_e.

    Examples
    --------
    >>> nodes, weights = box_quadrature()
    >>> project(2 * nodes.T, tensor_basis(nodes, 3), weights).round(6) + 0.0
    array([[ 1.      , -0.573159,  0.      ]])
    """
    f, phi, w = (np.asarray(a, dtype=np.float64) for a in (functions, basis_values, node_weights))
    return np.array([[np.sum(w * column * row) for column in phi.T] for row in f])


def captured_share(functions: ArrayLike, basis_values: ArrayLike, node_weights: ArrayLike) -> float:
    """Share of the squared distances between bags, summed over all pairs, that projections onto a basis keep.

    `functions` is (n_bags, n_functions, n_e); the others as of :func:`project`. The share of bags that do not
    differ is 1.

    Examples
    --------
    >>> nodes, weights = box_quadrature()
    >>> f = np.array([[nodes[:, 0]], [1 - nodes[:, 0]]])  # the difference 2x - 1 is all but cosines of odd degree
    >>> [round(captured_share(f, tensor_basis(nodes, n), weights), 3) for n in (1, 2, 4)]
    [0.0, 0.986, 0.998]
    """
    f = np.asarray(functions, dtype=np.float64)
    kept = [project(each, basis_values, node_weights) for each in f]
    pairs = [(i, j) for i in range(len(f)) for j in range(i)]
    whole = sum(float(np.sum(np.asarray(node_weights) * (f[i] - f[j]) ** 2)) for i, j in pairs)
    return sum(float(np.sum((kept[i] - kept[j]) ** 2)) for i, j in pairs) / whole if whole > 0 else 1.0


def lost_signal(
    functions: ArrayLike, first: ArrayLike, second: ArrayLike, basis_values: ArrayLike, node_weights: ArrayLike
) -> float:
    """Share of the squared distances between bags that a basis misses and that two halves of each bag agree on.

    `first` and `second` are the functions of halves; all three are (n_bags, n_functions, n_e). A product of
    differences of first halves and of second halves has the mean of their squared distance without noise.

    Examples
    --------
    >>> nodes, weights = box_quadrature()
    >>> f = np.array([[nodes[:, 0]], [1 - nodes[:, 0]]])
    >>> round(lost_signal(f, f, f, tensor_basis(nodes, 1), weights), 3)
    1.0
    """
    f, f1, f2 = (np.asarray(a, dtype=np.float64) for a in (functions, first, second))
    a1, a2 = ([project(each, basis_values, node_weights) for each in half] for half in (f1, f2))
    w = np.asarray(node_weights)
    whole = agreed = 0.0
    for i in range(len(f)):
        for j in range(i):
            whole += float(np.sum(w * (f[i] - f[j]) ** 2))
            agreed += float(np.sum(w * (f1[i] - f1[j]) * (f2[i] - f2[j])))
            agreed -= float(np.sum((a1[i] - a1[j]) * (a2[i] - a2[j])))
    return max(0.0, agreed / whole) if whole > 0 else 0.0


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
    bags: Sequence[ArrayLike], lambdas: ArrayLike, nodes: ArrayLike, bandwidth: ArrayLike, n_basis: int, mass: float,
    basis: str = "fourier",
) -> Array:  # fmt: skip
    """Features A of the paper's own algorithm (eq. ApNumInt, Adef): ``(n_bags, 2 M |V|)``.

    Per bag: a Gaussian KDE with no boundary correction at every Monte Carlo node, O(n n_e); g_λ(p̂) less
    its constants; means over the nodes against the tensor basis, ``O(M |V| n_e)``.

    Parameters
    ----------
    bags, nodes : sequence of arrays (n_i, d); (n_e, d) uniform draws from the unit cube
    lambdas, mass : (M,) draws of μ/Z; Z, the mass of μ
    bandwidth : number, or one per dimension
    n_basis, basis : functions per dimension and their kind (see :func:`basis_functions`): ``|V| = n_basis^d``

    Examples
    --------
    >>> nodes = np.random.default_rng(0).random((100, 2))
    >>> literal_recipe([nodes[:9], nodes[9:]], [0.1, 0.7], nodes, 0.2, n_basis=3, mass=0.5).shape
    (2, 36)
    """
    phi = tensor_basis(nodes, n_basis, basis)
    M = len(np.asarray(lambdas))
    densities = [kde(bag, nodes, bandwidth, "none") for bag in bags]
    functions = [lambda_functions(density, lambdas, np.full(M, mass / M)) for density in densities]
    return np.array([project(each, phi, np.full(len(phi), 1 / len(phi))).ravel() for each in functions])


def l2_coefficients(p: Density, indices: ArrayLike, kind: str = "cosine", n_nodes: int | None = None) -> Array:
    """Coefficients ``a_α(p) = ∫ φ_α p`` over the unit cube for the rows α of `indices` ``(|V|, d)``: ``(|V|,)``.

    Examples
    --------
    >>> l2_coefficients(lambda x: 2 * x[:, 0], [[0], [1], [2]]).round(6) + 0.0  # 1, -4 √2 / π², 0
    array([ 1.      , -0.573159,  0.      ])
    """
    alphas = np.asarray(indices)
    nodes, weights = box_quadrature(alphas.shape[1], n_nodes=n_nodes)
    values = np.asarray(p(nodes))
    return np.array([np.sum(weights * _product(nodes, alpha, kind) * values) for alpha in alphas])


def l2_point_coefficients(
    points: ArrayLike, indices: ArrayLike, kind: str = "cosine", weights: ArrayLike | None = None
) -> Array:
    """Means ``Σ_i w_i Π_j φ_{α_j}(x_ij)`` over points (n, d) for the rows α of `indices` ``(|V|, d)``: ``(|V|,)``.

    `weights` (n,) are made to sum to one.

    Examples
    --------
    >>> l2_point_coefficients([[0.0, 0.5], [1.0, 0.0]], [[0, 0], [0, 1], [1, 1]]).round(6)
    array([ 1.      ,  0.707107, -1.      ])
    """
    x, w = weighted(points, weights)
    return np.array([np.sum(w * _product(x, alpha, kind)) / np.sum(w) for alpha in np.asarray(indices)])


def l2_point_variance(p: Density, indices: ArrayLike, kind: str = "cosine", n_nodes: int | None = None) -> float:
    """``T(p) = Σ_α Var_p φ_α``: n points have means of which the expected squared error is T(p) / n.

    Examples
    --------
    >>> round(l2_point_variance(lambda x: np.ones(len(x)), [[0], [1], [2]]), 6)  # φ_0 is constant
    2.0
    """
    alphas = np.asarray(indices)
    nodes, weights = box_quadrature(alphas.shape[1], n_nodes=n_nodes)
    mass = weights * np.asarray(p(nodes))
    values = [_product(nodes, alpha, kind) for alpha in alphas]
    return float(np.sum([np.sum(mass * f**2) - np.sum(mass * f) ** 2 for f in values]))


def _product(x: Array, alpha: Array, kind: str) -> Array:
    """``Π_j φ_{α_j}(x_j)`` at points (n, d): (n,)."""
    values = np.ones(len(x))
    for column, k in zip(x.T, alpha, strict=True):
        values *= _basis_function(column, int(k), kind)
    return values
