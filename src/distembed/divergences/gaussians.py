r"""Bags as Gaussians: fits, and divergences between them in closed form.

A bag's fit has the weighted mean m of its points and the covariance

.. math:: Σ = (1 - r) S + r (W + r B),

where S is the weighted covariance of its points about m (divided by their mass, so copies of points change
nothing), W the mean of S over the training bags, B the covariance of their m, and r a small share ``reg``. So one
point, equal points and constant coordinates have a fit too, and an invertible affine map of the space changes no
divergence that densities alone decide.

All arithmetic is in float64 and in coordinates in which W + r B is the identity
(:class:`~distembed.bags.moments.CoordinateFrame`): no eigenvalue of Σ is below r there, whatever the units of the
points and however far from zero they lie. Two integrals are all it takes:

.. math::
    \log \frac{∫ p^ρ q^ρ}{\sqrt{∫ p^{2ρ} ∫ q^{2ρ}}}
        &= \tfrac14 \log|Σ_p| + \tfrac14 \log|Σ_q| - \tfrac12 \log|\barΣ| - \tfrac{ρ}4 δ^T \barΣ^{-1} δ, \\
    \log ∫ p^{2ρ} &= \tfrac{n}2 \log \frac{(2π)^{1 - 2ρ}}{2ρ} + (\tfrac12 - ρ) \log|Σ_p|

with δ = m_p - m_q, Σ̄ = (Σ_p + Σ_q)/2 and n dimensions. Bhattacharyya's coefficient is the first with ρ = 1/2.
Cost: n² per point for the fits; n³/3 operations per pair for integrals, 3 n² for Kullback-Leibler, n for diagonal fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..bags.moments import CoordinateFrame, chunks_of, fit_frame, moments
from ..compute.arrays import Array, Scratch
from ..compute.checks import InputError, check_choice, check_number
from ..compute.parallel import bag_chunks, run_chunks
from ..compute.registry import storable
from .pairs import check_width, number_or_nan, read_bags, read_groups

DIVERGENCES = ("bhattacharyya", "hellinger", "linear", "l2", "kl", "skl")
SIMILARITIES = ("bhattacharyya", "linear")  # of these, kernels: large where bags are alike
COVARIANCES = ("full", "diag")
DEFAULT_REG = 1e-3
_PAIR_BYTES = 2**22  # matrices of pairs at a time
_LARGEST_RHO = 1000.0
_LARGEST_LOG = 700.0  # of a float64, with room for sums of 10,000


@storable(
    means="finite(d, n)", covariances="finite(d, d, n)", log_dets="finite(n)", precisions="finite(d, d, n) | None"
)
class Fits(NamedTuple):
    """Gaussians in a frame, the number of the bag last.

    ``means`` (n_dims, n_bags); ``covariances`` (n_dims, n_dims, n_bags), or (n_dims, n_bags) for diagonal ones;
    ``log_dets`` (n_bags,); ``precisions``, inverses of covariances, only where a divergence needs them.

    Examples
    --------
    >>> Fits(np.zeros((2, 5)), np.ones((2, 5)), np.zeros(5), None).take(slice(0, 3)).means.shape
    (2, 3)
    """

    means: Array
    covariances: Array
    log_dets: Array
    precisions: Array | None

    def take(self, which: Any) -> Fits:
        """Some of them."""
        return Fits(*(None if part is None else part[..., which] for part in self))  # type: ignore[arg-type]


def fit_gaussians(bags: Bags, frame: CoordinateFrame, reg: float, *, covariance: str, precisions: bool = False) -> Fits:
    """Fits of bags: means, and covariances (1 - reg) S + reg I in a frame.

    Parameters
    ----------
    bags : Bags
        Without points of weight zero.
    frame : CoordinateFrame
        Where the pooled covariance is I.
    reg : float
        In (0, 1].
    covariance : {"full", "diag"}
    precisions : bool
        Whether inverses are wanted too.

    Returns
    -------
    Fits

    Examples
    --------
    >>> frame = CoordinateFrame(np.zeros(1), np.ones(1), np.ones(1))
    >>> fit_gaussians(Bags.from_arrays([[1.0, 3.0], [5.0]]), frame, 0.1, covariance="diag").covariances
    array([[1. , 0.1]])
    """
    means, scatter = moments(bags, frame.apply, covariance)
    scatter *= 1 - reg
    if covariance == "diag":
        scatter += reg
        variances = np.ascontiguousarray(scatter.T)
        return Fits(means.T.copy(), variances, np.log(variances).sum(axis=0), 1 / variances if precisions else None)
    scatter += reg * np.eye(bags.n_dims)
    covariances = np.ascontiguousarray(np.moveaxis(scatter, 0, -1))
    if not precisions:
        log_dets = eliminate(covariances.copy(), np.zeros_like(means.T), reg)[0]
        return Fits(means.T.copy(), covariances, log_dets, None)
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values, reg)  # as they are, up to rounding
    inverses = (vectors / values[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    inverses = np.ascontiguousarray(np.moveaxis(inverses, 0, -1))
    return Fits(means.T.copy(), covariances, np.log(values).sum(axis=1), inverses)


# --------------------------------------------------------------------------------------------------------------
# Fits to values of pairs
# --------------------------------------------------------------------------------------------------------------


def eliminate(matrices: Array, gaps: Array, least: float) -> tuple[Array, Array]:
    """log|C| and δᵀ C⁻¹ δ of many small matrices at once, by Gaussian elimination without a square root.

    Parameters
    ----------
    matrices : ndarray of shape (n_dims, n_dims, ...)
        Symmetric positive definite; only the lower triangle is read, and overwritten.
    gaps : ndarray of shape (n_dims, ...)
        The δ; overwritten.
    least : float
        A bound from below of the eigenvalues, and so of the pivots: rounding can't make one smaller.

    Returns
    -------
    log_dets, squares : ndarray of shape (...)

    Notes
    -----
    The matrices stand last, so each step is one operation on all of them: for few dimensions that is many times
    faster than a call of LAPACK for each matrix.

    Examples
    --------
    >>> C, d = np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([2.0, 3.0])
    >>> log_det, square = eliminate(C[:, :, None].copy(), d[:, None].copy(), 0.1)
    >>> np.exp(log_det).round(9), square  # 4 · 3 - 2 · 2, and 1 + 4 / 2
    (array([8.]), array([3.]))
    """
    pivots = np.empty_like(gaps)
    for j in range(len(gaps)):
        if j:
            factors = matrices[j, :j] / pivots[:j]
            matrices[j:, j] -= np.einsum("ik...,k...->i...", matrices[j:, :j], factors)
            gaps[j] -= np.einsum("k...,k...->...", factors, gaps[:j])
        pivots[j] = np.maximum(matrices[j, j], least)
    gaps *= gaps
    gaps /= pivots
    return np.log(pivots, out=pivots).sum(axis=0), gaps.sum(axis=0)


def log_affinity(p: Fits, q: Fits, rho: float, least: float, scratch: Scratch) -> Array:
    """Log of ∫ p^ρ q^ρ / √(∫ p^2ρ ∫ q^2ρ), ndarray of shape (len(p), len(q)); zero where p = q."""
    n_dims = len(p.means)
    n_p = len(p.log_dets)
    n_q = len(q.log_dets)
    gaps = np.subtract(p.means[:, :, None], q.means[:, None, :], out=scratch("gaps", (n_dims, n_p, n_q), np.float64))
    if p.covariances.ndim == 2:
        sums = p.covariances[:, :, None] + q.covariances[:, None, :]
        log_dets = np.log(sums).sum(axis=0)
        squares = np.sum(gaps**2 / sums, axis=0)
    else:
        sums = scratch("sums", (n_dims, n_dims, n_p, n_q), np.float64)
        for i in range(n_dims):
            np.add(p.covariances[i, : i + 1, :, None], q.covariances[i, : i + 1, None, :], out=sums[i, : i + 1])
        log_dets, squares = eliminate(sums, gaps, 2 * least)
    log_dets -= n_dims * np.log(2) + np.add.outer(p.log_dets, q.log_dets) / 2
    return np.asarray(np.minimum(-0.5 * log_dets - 0.5 * rho * squares, 0.0))


def log_self(fits: Fits, rho: float, frame: CoordinateFrame) -> Array:
    """Log of ∫ p^2ρ, in the units of the points, ndarray of shape (n_bags,)."""
    n_dims = len(fits.means)
    constant = n_dims * ((0.5 - rho) * np.log(2 * np.pi) - 0.5 * np.log(2 * rho))
    return np.asarray(constant + (0.5 - rho) * fits.log_dets + (2 * rho - 1) * frame.log_det)


def check_integrals(owner: str, logs: Array, rho: float, dtype: Any, *, root: bool = False, small: bool = True) -> None:
    """Refuse integrals ∫ p^2ρ that the result's dtype can't hold: one too large, or all too small.

    Parameters
    ----------
    owner : str
        The estimator or function.
    logs : ndarray of shape (n_bags,)
        Logs of the integrals, by :func:`log_self`.
    rho : float
        ρ.
    dtype : dtype
        Of the result.
    root : bool
        Whether the result has roots of the integrals. The integrals are float64 even so.
    small : bool
        Whether integrals that all are too small are refused too.

    Examples
    --------
    >>> check_integrals("gaussian", np.array([0.0, 100.0]), 1.0, np.float64)
    >>> check_integrals("gaussian", np.array([0.0, 100.0]), 1.0, np.float32)
    Traceback (most recent call last):
    ...
    distembed...InputError: gaussian: the integral of p^2 must be a float32, got exp(100); change the units of the \
points, raise reg, or use 'bhattacharyya', which has no units
    """
    most = float(np.log(np.finfo(dtype).max)) - 1.0  # 'l2' may be twice an integral
    most = min(2 * most if root else most, _LARGEST_LOG)
    if logs.max() > most or (small and logs.max() < -most):
        what = f"have a root that is a {np.dtype(dtype)}" if root and most < _LARGEST_LOG else f"be a {np.dtype(dtype)}"
        remedy = "change the units of the points, " + ("raise reg, " if logs.max() > 0 else "")
        raise InputError(
            f"{owner}: the integral of p^{2 * rho:g} must {what}, got exp({logs.max():.0f}); {remedy}or use "
            "'bhattacharyya', which has no units"
        )


def kullback_leibler(p: Fits, q: Fits) -> Array:
    """KL(p, q) = ∫ p log(p/q) = (tr Σ_q⁻¹Σ_p + δᵀ Σ_q⁻¹ δ - n + log|Σ_q| - log|Σ_p|) / 2 of all pairs."""
    assert q.precisions is not None
    n_dims = len(p.means)
    n_p = len(p.log_dets)
    n_q = len(q.log_dets)
    traces = p.covariances.reshape(-1, n_p).T @ q.precisions.reshape(-1, n_q)
    gaps = p.means.T - q.means.T[:, None, :]  # (n_q, n_p, n_dims)
    if q.precisions.ndim == 2:
        squares = np.einsum("qpi,iq,qpi->pq", gaps, q.precisions, gaps)
    else:
        squares = np.sum((gaps @ np.moveaxis(q.precisions, -1, 0)) * gaps, axis=2).T
    return np.asarray(np.maximum(0.5 * (traces + squares - n_dims + q.log_dets - p.log_dets[:, None]), 0.0))


def parse(owner: object, name: str, value: Any, choices: Sequence[str]) -> tuple[str, float]:
    """A divergence and its ρ: ``"product:0.3"`` is ("product", 0.3); what has none gets that of its integral.

    Examples
    --------
    >>> parse("gaussian", "divergence", "product:0.3", ["kl"]), parse("gaussian", "divergence", "kl", ["kl"])
    (('product', 0.3), ('kl', 0.5))
    """
    if isinstance(value, str) and value.startswith("product:"):
        rho = number_or_nan(value.removeprefix("product:"))
        if not 0 < rho <= _LARGEST_RHO:
            where = f"{owner if isinstance(owner, str) else type(owner).__name__}({name}=...)"
            raise ValueError(
                f"{where}: 'product:' must have a positive number behind it, at most {_LARGEST_RHO:g}, got {value!r}; "
                "try 'product:1'"
            )
        return "product", rho
    known = check_choice(owner, name, value, (*choices, "product:<rho>"))
    return known, 1.0 if known in ("linear", "l2") else 0.5


def pair_values(
    kind: str, rho: float, p: Fits, q: Fits, frame: CoordinateFrame, least: float, scratch: Scratch
) -> Array:
    """Values of a divergence for all pairs of fits, a bounded number of pairs at a time.

    Parameters
    ----------
    kind : {"bhattacharyya", "hellinger", "product", "affinity", "linear", "l2", "kl", "skl"}
        ``"affinity"`` is the product with ∫ p^2ρ = 1 for every p.
    rho : float
        ρ of the integral.
    p, q : Fits
        With precisions for ``"kl"`` and ``"skl"``.
    frame : CoordinateFrame
        Of both.
    least : float
        Least eigenvalue of a fit's covariance: ``reg``.
    scratch : Scratch
        Memory to use again.

    Returns
    -------
    ndarray of shape (len(p), len(q))

    Examples
    --------
    >>> frame = CoordinateFrame(np.zeros(1), np.ones(1), np.ones(1))
    >>> fits = Fits(np.array([[0.0, 1.0]]), np.ones((1, 2)), np.zeros(2), None)
    >>> pair_values("bhattacharyya", 0.5, fits, fits, frame, 0.1, Scratch()).round(4)
    array([[1.    , 0.8825],
           [0.8825, 1.    ]])
    """
    n_p = len(p.log_dets)
    n_q = len(q.log_dets)
    out = np.empty((n_p, n_q))
    size = p.covariances.size // n_p + len(p.means)
    columns = min(n_q, max(16, _PAIR_BYTES // (8 * size)))
    rows = max(1, _PAIR_BYTES // (8 * size * columns))
    for top in range(0, n_p, rows):
        some = p.take(slice(top, top + rows))
        for left in range(0, n_q, columns):
            others = q.take(slice(left, left + columns))
            out[top : top + rows, left : left + columns] = _block(kind, rho, some, others, frame, least, scratch)
    return out


def _block(kind: str, rho: float, p: Fits, q: Fits, frame: CoordinateFrame, least: float, scratch: Scratch) -> Array:
    if kind in ("kl", "skl"):
        forth = kullback_leibler(p, q)
        return forth if kind == "kl" else forth + kullback_leibler(q, p).T
    logs = log_affinity(p, q, rho, least, scratch)
    if kind in ("bhattacharyya", "affinity"):
        return np.asarray(np.exp(logs))
    if kind == "hellinger":
        return np.asarray(-np.expm1(logs))
    own = log_self(p, rho, frame)
    other = log_self(q, rho, frame)
    halves = np.add.outer(own, other) / 2
    if kind != "l2":
        return np.asarray(np.exp(logs + halves))
    # a² + b² - 2abc = (a - b)² + 2ab (1 - c), without differences of large numbers where p is near q
    return np.asarray(np.subtract.outer(np.exp(own / 2), np.exp(other / 2)) ** 2 - 2 * np.exp(halves) * np.expm1(logs))


@storable
def gaussian(
    X: Any,
    Y: Any = None,
    divergence: str = "bhattacharyya",
    *,
    covariance: str = "full",
    reg: float = DEFAULT_REG,
    reference: Any = None,
    n_jobs: int | None = None,
) -> Array:
    r"""Divergences and kernels between the Gaussian fits of bags, in closed form.

    Parameters
    ----------
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags of points, in any units.
    Y : the same, optional
        Other bags; ``X`` itself if not given.
    divergence : str, default="bhattacharyya"
        Of the fits p and q, rows and columns:

        - ``"bhattacharyya"``: the coefficient ∫ √(pq), a kernel in [0, 1];
        - ``"hellinger"``: the squared distance 1 - ∫ √(pq);
        - ``"product:<rho>"``: the probability product kernel ∫ p^ρ q^ρ, e.g. ``"product:0.3"``, ρ <= 1000;
        - ``"linear"``: ∫ pq, which is ``"product:1"``;
        - ``"l2"``: the squared distance ∫ (p - q)²;
        - ``"kl"``: KL(p, q) = ∫ p log(p/q), in nats;
        - ``"skl"``: KL(p, q) + KL(q, p).
    covariance : {"full", "diag"}, default="full"
        Covariance matrices, or variances alone.
    reg : float, default=1e-3
        Shrinkage r in (0, 1] of the covariances, see Notes. Raise it for bags of few points in many dimensions.
    reference : Bags or anything that :func:`distembed.as_bags` reads, optional
        Bags that covariances are shrunk towards, such as the training bags; those of ``X`` and ``Y`` if not given.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker.

    Returns
    -------
    ndarray of shape (n_bags, n_bags) or (n_bags, n_bags_of_Y)
        float32 for float32 points, else float64; computed in float64. Symmetric with ``Y=None``, but for ``"kl"``.

    Notes
    -----
    *Fits.* Weighted mean and covariance (1 - r) S + r (W + r B), with the bag's own covariance S (divided by n, not
    n - 1, so copies of points change nothing), the mean W of S over the bags of ``reference``, and the
    covariance B of their means. So bags of one point, equal points and constant coordinates have finite values. A
    coordinate that never changes has variance r. Values depend on those bags through W and B, by about r.

    *Units.* An invertible affine map of the points changes no value of ``"bhattacharyya"``, ``"hellinger"``, ``"kl"``
    and ``"skl"`` (with ``"diag"``: another unit for each coordinate). The other values are in units of density, and
    refused where the result's dtype does not hold them.

    *Accuracy.* What points of a Gaussian give is off by order n^(-1/2) from the truth. Of other densities only mean and
    covariance are seen, see :func:`distembed.divergences.plugin` for all of them.

    *Cost.* n_dims² per point; n_dims³/3 operations per pair, or 3 n_dims² for ``"kl"`` and n_dims for ``"diag"``.
    Memory beyond the result: the fits, and some megabytes per thread.

    References
    ----------
    Jebara, Kondor and Howard (2004). Probability product kernels. JMLR.

    Moreno, Ho and Vasconcelos (2003). A Kullback-Leibler divergence based kernel for SVM classification in multimedia
    applications. NIPS.

    Examples
    --------
    >>> from distembed.divergences import gaussian
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(0, 1, size=20_000), rng.normal(1, 1, size=20_000)]
    >>> gaussian(bags).round(2)  # the true value is exp(-1/8)
    array([[1.  , 0.88],
           [0.88, 1.  ]])
    >>> gaussian(bags, divergence="kl").round(1)  # 1/2
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    kind, rho = parse("gaussian", "divergence", divergence, DIVERGENCES)
    check_choice("gaussian", "covariance", covariance, COVARIANCES)
    reg = check_number("gaussian", "reg", reg, low=0, high=1, inclusive="right")
    groups = read_groups("gaussian", X, Y)
    if isinstance(reference, CoordinateFrame):
        frame = reference
    else:
        pooled = groups if reference is None else [read_bags("gaussian", "reference", reference)]
        frame = fit_frame(pooled, reg, covariance)
    check_width("gaussian", "reference", len(frame.centre), "X", groups[0].n_dims)
    fits = [fit_all(bags, frame, reg, covariance, kind in ("kl", "skl")) for bags in groups]
    p = fits[0]
    q = fits[-1]
    out = np.empty((groups[0].n_bags, groups[-1].n_bags), np.result_type(*(bags.dtype for bags in groups)))
    if kind in ("product", "linear", "l2"):
        check_integrals("gaussian", np.concatenate([log_self(each, rho, frame) for each in fits]), rho, out.dtype)
    mirrored = Y is None and kind != "kl"

    def fill(rows: slice, scratch: Scratch) -> None:
        columns = slice(rows.start if mirrored else 0, out.shape[1])
        block = pair_values(kind, rho, p.take(rows), q.take(columns), frame, reg, scratch)
        if mirrored:
            out[columns, rows] = block.T
        out[rows, columns] = block

    run_chunks(fill, bag_chunks(out.shape[0], 8 * out.shape[1]), n_jobs)
    return out


def fit_all(bags: Bags, frame: CoordinateFrame, reg: float, covariance: str, precisions: bool) -> Fits:
    """Fits of all bags, made a chunk of them at a time.

    Examples
    --------
    >>> frame = CoordinateFrame(np.zeros(1), np.ones(1), np.ones(1))
    >>> fit_all(Bags.from_arrays([[1.0, 3.0], [5.0]]), frame, 0.1, "diag", False).means
    array([[2., 5.]])
    """
    parts = [
        fit_gaussians(bags[rows], frame, reg, covariance=covariance, precisions=precisions)
        for rows in chunks_of(bags, 4 * bags.n_dims**2)
    ]
    joined = [None if part[0] is None else np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)]
    return Fits(*joined)  # type: ignore[arg-type]
