r"""Regression from bags by kernel smoothing (Nadaraya and Watson): near bags have similar responses.

.. math:: \hat y(x) = \frac{\sum_i w_i K(d(x, x_i)/h)\, y_i}{\sum_i w_i K(d(x, x_i)/h)}

for any distance d between bags. Responses are numbers, or distributions themselves: then ŷ is a mixture of the training
responses' densities. Nothing is solved and nothing needs to be positive definite; what it takes is a distance that
shows which bags are alike, and enough training bags.

Densities of responses are taken on nodes that all of them share. *Cost*: N² distances for N training bags, and N for
each prediction.

References: Poczos, Singh, Rinaldo and Wasserman (2013) for numbers, Oliva, Poczos and Schneider (2013) for densities.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import density as densities
from ..bags import Bags, as_bags
from ..bags.estimators import BagInput, by_id, check_bags, check_in_cube
from ..compute.arrays import Array, Scratch, bags_first
from ..compute.checks import check_choice, check_number, check_weights
from ..compute.parallel import bag_chunks, run_chunks
from ..compute.registry import storable
from ..density import Density, choose_nodes, mass_on_nodes
from ..density import bandwidth as bandwidths
from ..density.nodes import MASS_TOLERANCE, GridNodes, NodeSpec, warn_if_few_see
from ..divergences.densities import FINENESS
from ..kernels import median_sigma
from ..kernels.comparisons import Comparison, is_embedding

N_BANDWIDTHS = 32  # of the leave-one-out curve
_EQUALLY_FAR = 1e-12  # of the largest squared distance: less is rounding
_EQUALLY_GOOD = 1e-12  # of the variance of the responses
# compared with the training bags at a time
_LEAST_ROWS = 16
_MOST_ROWS = 1024


# What a training bag counts by d², and by how much d² is further than that of the nearest bag: without the factor of
# the nearest bag, common to all, one of the Gaussian weights is no underflow.
KERNELS: dict[str, Callable[[Array, Array, float], Array]] = {
    "gaussian": lambda d2, further, h: np.exp(-(further / h) / (2 * h)),
    "epanechnikov": lambda d2, further, h: np.maximum(1 - d2 / h / h, 0.0),
    "triangular": lambda d2, further, h: np.maximum(1 - np.sqrt(d2) / h, 0.0),
    "uniform": lambda d2, further, h: (np.sqrt(d2) <= h).astype(np.float64),
}


def _excess(d2: Array) -> Array:
    """d² beyond that of the nearest training bag, row by row; zero where the difference is rounding.

    Entries that are infinite stand for bags that are left out.
    """
    most = np.max(d2, axis=1, keepdims=True, where=np.isfinite(d2), initial=0.0)
    further = d2 - d2.min(axis=1, keepdims=True)
    further[further <= _EQUALLY_FAR * most] = 0.0
    return np.asarray(further)


def _shares(d2: Array, further: Array, h: float, kernel: str, weights: Array) -> tuple[Array, int]:
    """What each training bag counts, rows of sum one, and the number of rows without a training bag in reach.

    Parameters
    ----------
    d2, further : ndarray of shape (n_rows, n_bags)
        Squared distances, none negative, and what :func:`_excess` makes of them.
    h : float
        Bandwidth.
    kernel : str
        One of ``KERNELS``.
    weights : ndarray of shape (n_bags,)
        Positive, at most one.

    Examples
    --------
    >>> d2 = np.array([[0.0, 1.0, 9.0], [25.0, 16.0, 16.0]])
    >>> _shares(d2, _excess(d2), 2.0, "epanechnikov", np.ones(3))  # nobody near the second: its nearest two
    (array([[0.57142857, 0.42857143, 0.        ],
           [0.        , 0.5       , 0.5       ]]), 1)
    """
    with np.errstate(over="ignore", under="ignore"):
        values = KERNELS[kernel](d2, further, h) * weights
    alone = ~values.any(axis=1)
    values[alone] = (further[alone] == 0) * weights
    values /= values.sum(axis=1, keepdims=True)
    return values, int(np.count_nonzero(alone))


def _leave_one_out(d2: Array, y: Array, weights: Array, h: Array, kernel: str, values_at_once: int) -> Array:
    """Weighted mean squared errors of predictions from all other bags, ndarray of shape (n_bandwidths, n_outputs).

    The diagonal of ``d2`` is infinite; ``y`` has the shape (n_bags, n_outputs).
    """
    errors = np.zeros((len(h), y.shape[1]))
    step = max(1, values_at_once // len(d2))
    for start in range(0, len(d2), step):
        rows = slice(start, start + step)
        block = d2[rows]
        further = _excess(d2[rows])
        for k, each in enumerate(h.tolist()):
            shares, _ = _shares(block, further, each, kernel, weights)
            errors[k] += weights[rows] @ (y[rows] - shares @ y) ** 2
    return np.asarray(errors / weights.sum())


def _candidates(d2: Array) -> Array:
    """Bandwidths from nearly the nearest bag to nearly the mean of all, ndarray of shape (n_bandwidths,).

    Geometric, from a quarter of the lower decile of distances to the nearest other bag up to twice the 95 % quantile of
    all distances; those that are zero, up to rounding, do not count. The diagonal of ``d2`` is infinite.

    Examples
    --------
    >>> d2 = np.array([[np.inf, 1.0, 9.0], [1.0, np.inf, 4.0], [9.0, 4.0, np.inf]])
    >>> _candidates(d2)[[0, -1]].round(2)
    array([0.25, 6.  ])
    """
    others = np.isfinite(d2)
    counts = others & (d2 > _EQUALLY_FAR * np.max(d2, where=others, initial=0.0))
    if not counts.any():
        return np.ones(1)
    nearest = np.min(d2, axis=1, where=counts, initial=np.inf)
    low = np.quantile(nearest[np.isfinite(nearest)], 0.1)
    high = np.quantile(d2[counts], 0.95)
    return np.geomspace(np.sqrt(low) / 4, 2 * np.sqrt(high), N_BANDWIDTHS)


# Responses: numbers, or bags


def numbers_or_none(y: Any) -> Array | None:
    """Responses that are a rectangular 1-D or 2-D array of numbers, in float64; None if they can only be bags."""
    if isinstance(y, Bags):
        return None
    try:
        array = np.asarray(y)
    except (ValueError, TypeError):  # ragged
        return None
    if array.dtype.kind in "iufb" and (array.ndim == 1 or (array.ndim == 2 and array.shape[1])):
        return array.astype(np.float64)
    holds_arrays = array.dtype.kind == "O" and array.ndim and not any(isinstance(v, str | bytes | dict) for v in array)
    if array.ndim == 3 or (holds_arrays and all(hasattr(each, "__len__") for each in array)):
        return None
    got = f"dtype {array.dtype}, shape {array.shape}" if array.ndim else f"{y!r}"
    raise TypeError(
        f"KernelSmoother: y must be numbers of shape (n_bags,) or (n_bags, n_outputs), or bags, got {got}; convert "
        "numbers to float64, and pass bags as Bags"
    )


def check_finite(responses: Array, kept: Array) -> None:
    """Refuse numbers that are not finite; they are those of the bags that are kept, by a mask of all."""
    bad = np.argwhere(~np.isfinite(responses))
    if len(bad):
        raise ValueError(
            f"KernelSmoother: y must be finite, got {responses[tuple(bad[0])]} for bag "
            f"{np.flatnonzero(kept)[bad[0, 0]]}; leave such bags out, or give them sample_weight 0"
        )


def response_bags(y: Any) -> Bags:
    """Responses as bags in the unit cube, without weightless points, in float64."""
    try:
        bags = as_bags(y)
    except (ValueError, TypeError) as error:
        raise type(error)(f"KernelSmoother: y, read as bags: {error}") from error
    if bags.categories is not None:
        named = ", ".join(map(repr, bags.category_labels))
        raise ValueError(f"KernelSmoother: y must have no categorical columns, got {named}; leave them out")
    bags = bags.drop_weightless()
    check_in_cube("KernelSmoother (y)", bags, "UnitCube().fit_transform(y)")
    return bags.astype(np.float64)


@storable(n_dims="n", bandwidth="finite(n) | None", nodes="GridNodes | PointNodes")
class ResponseDensities:
    """Density estimates of responses on nodes that all of them share; bandwidth and nodes are those of ``bags``."""

    def __init__(self, bags: Bags, owner: Any) -> None:
        rng = check_random_state(owner.random_state)
        few = bandwidths.spaced(bags)
        self.n_dims = bags.n_dims
        self._estimate = estimate = densities.get(owner.response_density)
        self._rule = owner.response_bandwidth
        self._n_jobs = owner.n_jobs
        self.bandwidth = bandwidths.for_density(estimate, self._rule, bags, owner="KernelSmoother")
        narrowest = bandwidths.narrowest(self.bandwidth, bandwidths.for_each(estimate, self._rule, few))
        kind, pooled = choose_nodes(owner.response_nodes, estimate, few, self.bandwidth)
        self.nodes = estimate.resolve_nodes(
            kind, bags.n_dims, bandwidth=narrowest, fineness=FINENESS, random_state=rng, pooled=pooled
        )
        if isinstance(self.nodes, GridNodes):
            estimate.warn_if_unresolved(self.nodes, narrowest)
            return
        masses, seeing = mass_on_nodes(self(few), self.nodes.weights)
        off = float(np.sqrt(np.mean((masses - 1) ** 2)))
        if not estimate.integrates_to_one:  # values were divided by their mass on the nodes
            warn_if_few_see("KernelSmoother (y)", seeing, self.nodes)
        elif off > MASS_TOLERANCE and "none" not in estimate.boundaries(bags.n_dims):
            warnings.warn(
                "KernelSmoother: the densities of training responses, of mass 1, have another mass on the nodes, off "
                "by a quarter and more; use response_nodes='importance', more nodes, or a larger response_bandwidth",
                UserWarning,
                stacklevel=3,
            )

    def __call__(self, bags: Bags) -> Array:
        """Densities on the nodes, ndarray of shape (n_bags, n_nodes) of float64."""
        out = np.empty((bags.n_bags, self.nodes.n_nodes))
        evaluate = self._estimate.prepare(self.nodes, self.bandwidth, np.dtype(float))

        def work(rows: slice, scratch: Scratch) -> None:
            own = bandwidths.for_each(self._estimate, self._rule, bags[rows])
            p = bags_first(evaluate(bags[rows], own, scratch))
            np.maximum(p.reshape(len(p), -1), 0.0, out=out[rows])  # products of matrices may round below zero

        run_chunks(work, bag_chunks(bags.n_bags, 16 * self.nodes.n_nodes), self._n_jobs)
        return out


@storable(
    responses_="finite(n) | finite(n, _)", _centre="finite(_)", _weights="finite(n)", _compare="Comparison",
    bandwidth_="number",
)  # fmt: skip
class KernelSmoother(RegressorMixin, BagInput):
    r"""Predict a bag's response by the mean of its neighbours' responses, weighted by a kernel of their distance.

    .. math:: \hat y(x) = \frac{\sum_i w_i K(d(x, x_i)/h)\, y_i}{\sum_i w_i K(d(x, x_i)/h)},
              \qquad d = \sqrt{\max(d^2, 0)}

    Responses y are numbers, several numbers, or bags. For bags a prediction is a density: the same mean of the
    densities of the training responses.

    Parameters
    ----------
    divergence : str, embedding or callable, default="js"
        What d² is: ``"js"``, ``"hellinger"``, ``"tv"``, ``"chi2"`` between kernel density estimates of points in the
        unit cube, ``"knn:kl"`` and others by name, an embedding of bags, or a function of bags; see
        :mod:`distembed.kernels.comparisons`. Where the two directions differ they are averaged. Bandwidths and
        embeddings are fitted to the training bags.
    bandwidth : "loo", "median", float or sequence of float, default="loo"
        h > 0, in units of d. ``"loo"``: of 32 bandwidths from nearly the nearest bag to nearly the mean of all, the one
        of least squared leave-one-out error; a sequence: the same among these numbers. ``"median"``: the median
        distance between training bags. A number is taken as it is, and needs no distances in ``fit``.
    kernel : {"gaussian", "epanechnikov", "triangular", "uniform"}, default="gaussian"
        K(u) is exp(-u²/2), or 1 - u², 1 - u, 1 for u ≤ 1 and zero beyond.
    response_density : str or density object, default="kde"
        For responses that are bags: their density estimate, see :mod:`distembed.density`.
    response_bandwidth : float, sequence of float or str, default="likelihood"
        Its bandwidth: a number, one per dimension, or a rule, applied once to the training responses.
    response_nodes : str or node object, default="auto"
        Where densities are wanted, see :mod:`distembed.density.nodes`. ``"auto"``: a grid up to three dimensions, twice
        as fine as that of an embedding; nodes drawn from the training responses beyond. ``Grid(200)`` to plot.
    random_state : int, RandomState or None, default=None
        Of response nodes that are not a grid.
    n_jobs : int or None, default=None
        Threads of divergences by name and of densities. None: as many as BLAS may use.

    Attributes
    ----------
    bandwidth_ : float
        h in use.
    loo_error_ : float or ndarray of shape (n_outputs,)
        Weighted mean over training bags of the squared error of the prediction from all others; for densities of
        ∫ (p - p̂)². NaN for a single training bag. Not there if ``bandwidth`` is a number; a list of one number has it.
    loo_curve_ : tuple of ndarrays of shape (n_bandwidths,) and (n_bandwidths,) or (n_bandwidths, n_outputs)
        Bandwidths, increasing, and their leave-one-out errors. There when ``loo_error_`` is.
    responses_ : ndarray of shape (n_train,), (n_train, n_outputs) or (n_train, n_nodes) of float64
        Responses of the training bags of positive weight: numbers, or densities on the nodes.
    nodes_ : GridNodes or PointNodes
        Where densities are given: ``nodes_.points`` of shape (n_nodes, n_dims) with volumes ``nodes_.weights``. There
        for responses that are bags, as is ``response_bandwidth_``, ndarray of shape (n_dims,) or None.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Nobody near.* A bag with no training bag within h of a compact kernel gets the response of its nearest one, the
    weighted mean if several are equally near (up to 1e-12 of the largest d²); ``predict`` warns with their number. (The
    papers answer zero there.) Gaussian weights are taken relative to the nearest bag's, so far away bags get the
    response of their nearest bag too, and never 0/0.

    *Leave-one-out.* One matrix of distances serves all bandwidths. A bag is left out with all of its weight, also where
    ``sample_weight`` counts copies; the distance itself is fitted once, to all. Of several outputs the errors are
    divided by the outputs' variances and averaged to choose h. Of equally good bandwidths the largest is taken.

    *Distances.* h is in units of d, the root of what ``divergence`` returns. So with ``"tv"`` and ``"epanechnikov"``
    weights fall linearly in the L1 distance of densities. Noise of small bags adds to every d²: h can't be smaller than
    that and still average, see :func:`distembed.sizes.noise_floor`.

    *Densities.* Each prediction is a mixture of training densities, so it is nonnegative and has their mass: one, for
    kernel density estimates on a grid. It can't move mass to where no training response has any, and it is wider
    than the response by what responses differ within h.

    *Cost.* With N training bags: N²/2 values of the divergence in ``fit`` (none for a number), N more for each bag to
    predict; for embeddings those are dot products. The training matrix is N x N in float64, some three of them at the
    peak, and is not kept. Leave-one-out errors cost 32 N² values of the kernel, and for densities products of 32 N²
    times N or n_nodes, the smaller. Kept: the training bags or their features, and the responses, which are N x n_nodes
    for densities. ``predict`` looks at 16 to 1,024 bags at a time, about a million distances.

    References
    ----------
    Poczos, Singh, Rinaldo and Wasserman (2013). Distribution-free distribution regression. AISTATS.

    Oliva, Poczos and Schneider (2013). Distribution to distribution regression. ICML.

    Examples
    --------
    >>> from distembed.learners.smoother import KernelSmoother
    >>> rng = np.random.default_rng(0)
    >>> centre = rng.uniform(0.3, 0.7, size=60)
    >>> bags = rng.normal(centre[:, None, None], 0.1, size=(60, 50, 1)).clip(0, 1)
    >>> smoother = KernelSmoother("hellinger").fit(bags[:40], centre[:40])
    >>> bool(smoother.score(bags[40:], centre[40:]) > 0.9)  # R²
    True

    Responses that are bags: the mirror image of each bag.

    >>> from distembed import Bags
    >>> smoother.fit(bags[:40], Bags.from_arrays(1 - bags[:40]))
    KernelSmoother(divergence='hellinger')
    >>> p = smoother.predict(bags[40:])
    >>> p.shape == (20, smoother.nodes_.n_nodes), np.allclose(p @ smoother.nodes_.weights, 1)
    (True, True)
    """

    values_at_once = 2**20  # distances

    def __init__(
        self,
        divergence: Any = "js",
        *,
        bandwidth: float | str | Sequence[float] = "loo",
        kernel: str = "gaussian",
        response_density: str | Density | Any = "kde",
        response_bandwidth: float | Sequence[float] | str = "likelihood",
        response_nodes: str | NodeSpec = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.divergence = divergence
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.response_density = response_density
        self.response_bandwidth = response_bandwidth
        self.response_nodes = response_nodes
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def takes_categories(self) -> bool:  # type: ignore[override]
        """Whether categorical columns may come."""
        return is_embedding(self.divergence)  # which refuses them itself if it does not

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Keep training bags and responses, and choose a bandwidth.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Training bags.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs), or Bags
            One response a bag. What is not a rectangular array of numbers of one or two dimensions is read as bags: a
            list of equally long lists is several outputs, so pass ``Bags`` to be understood. Points of response bags
            lie in the unit cube, and their weights count.
        sample_weight : array-like of shape (n_bags,), optional
            Weights w_i ≥ 0 of bags. A bag of weight zero is as if absent, with its response.

        Returns
        -------
        self
        """
        candidates = self._check_parameters()
        bags = check_bags(self, X, reset=True)
        y = by_id(y, bags, "y")
        numbers = numbers_or_none(y)
        responses = response_bags(y) if numbers is None else numbers
        if len(responses) != bags.n_bags:
            raise ValueError(
                f"KernelSmoother: y must hold one response a bag, got {len(responses)} for {bags.n_bags} bags; pass X "
                "and y of equal length"
            )
        weights = check_weights(self, by_id(sample_weight, bags, "sample_weight"), bags.n_bags)
        weights = weights / weights.max()  # whose scale does not matter
        keep = weights > 0
        if not keep.all():
            bags = bags[keep]
            responses = responses[keep]
            weights = weights[keep]
        self._forget()
        if isinstance(responses, Bags):
            self._densities = ResponseDensities(responses, self)
            self.nodes_ = self._densities.nodes
            self.response_bandwidth_ = self._densities.bandwidth
            self.responses_ = self._densities(responses)
            self._centre = np.zeros(1)
        else:
            check_finite(responses, keep)
            # Means of what is left after a shift: equal responses give themselves, and large ones lose no digits.
            self.responses_ = responses
            self._centre = np.atleast_1d(np.median(responses, axis=0))
        self._weights = weights
        self._compare = Comparison(self.divergence, bags, self, self.n_jobs)
        self._seen = self._compare.look_at(bags)
        if isinstance(candidates, float):
            self.bandwidth_ = candidates
        else:
            self._choose_bandwidth(candidates)
        return self

    def _check_parameters(self) -> float | str | Array:
        """The bandwidth: a number, a rule, or increasing numbers to choose from."""
        check_choice(self, "kernel", self.kernel, KERNELS)
        if isinstance(self.bandwidth, str):
            return check_choice(self, "bandwidth", self.bandwidth, ("loo", "median"))
        remedy = "give a positive number, several of them, 'loo' or 'median'"
        several = isinstance(self.bandwidth, Sequence | np.ndarray) and np.ndim(self.bandwidth) == 1
        given = list(self.bandwidth) if several and len(self.bandwidth) else [self.bandwidth]  # type: ignore[arg-type]
        found = [check_number(self, "bandwidth", h, low=0, inclusive="neither", remedy=remedy) for h in given]
        return np.unique(found) if several else found[0]

    def _forget(self) -> None:
        """Leave nothing of an earlier fit to another kind of response."""
        for name in ("_densities", "nodes_", "response_bandwidth_", "bandwidth_", "loo_error_", "loo_curve_"):
            self.__dict__.pop(name, None)

    def _choose_bandwidth(self, candidates: str | Array) -> None:
        d2 = self._compare.both_ways(self._seen)
        np.maximum(d2, 0.0, out=d2)
        if isinstance(candidates, str) and candidates == "median":
            candidates = np.array([median_sigma(d2)])
        np.fill_diagonal(d2, np.inf)
        h = _candidates(d2) if isinstance(candidates, str) else candidates
        y = self._scaled_responses()
        errors = np.full((len(h), y.shape[1]), np.nan)
        if len(d2) > 1:
            errors = _leave_one_out(d2, y, self._weights, h, self.kernel, self.values_at_once)
        variances = np.average((y - np.average(y, axis=0, weights=self._weights)) ** 2, axis=0, weights=self._weights)
        if hasattr(self, "nodes_"):
            errors = errors.sum(axis=1, keepdims=True)
            variances = variances.sum(keepdims=True)
        relative = np.mean(errors / np.where(variances > 0, variances, 1.0), axis=1)
        best = int(np.flatnonzero(~(relative > relative.min() + _EQUALLY_GOOD))[-1])
        if self.responses_.ndim == 1 or hasattr(self, "nodes_"):
            errors = errors[:, 0]
        self.bandwidth_ = float(h[best])
        self.loo_curve_ = (h, errors)
        self.loo_error_ = float(errors[best]) if errors.ndim == 1 else errors[best]

    def _scaled_responses(self) -> Array:
        """Responses of shape (n_train, k) whose squared differences add up to errors, integrals included."""
        if not hasattr(self, "nodes_"):
            return np.asarray((self.responses_ - self._centre).reshape(len(self.responses_), -1))
        y = self.responses_ * np.sqrt(self.nodes_.weights)
        # Many nodes: the coordinates of a rotation in which few bags have few coordinates.
        return np.asarray(np.linalg.qr(y.T, mode="r")).T if y.shape[1] > len(y) else np.asarray(y)

    # Predictions

    def predict(self, X: Any, return_std: bool = False) -> Any:
        r"""Responses of bags.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        return_std : bool, default=False
            For numbers: whether to return also the local standard deviation √(Σ_i a_i (y_i - ŷ)²) of the training
            responses, with normalised weights a_i, so ŷ = Σ_i a_i y_i. It shows how much responses of like
            bags differ, noise included; it is not a standard error of ŷ, and zero where one training bag has all
            weight.

        Returns
        -------
        y : ndarray of shape (n_bags,), (n_bags, n_outputs) or, for densities, (n_bags, n_nodes)
            float32 for float32 points, else float64; computed in float64.
        std : ndarray of the same shape
            Only if ``return_std``.
        """
        check_is_fitted(self, "bandwidth_")
        bags = check_bags(self, X, reset=False)
        if return_std and hasattr(self, "nodes_"):
            raise ValueError(
                "KernelSmoother: predict(return_std=True) needs responses that are numbers, and these are densities; "
                "use return_std=False"
            )
        y = self.responses_.reshape(len(self.responses_), -1) - self._centre
        means = np.empty((bags.n_bags, y.shape[1]), bags.dtype)
        deviations = np.empty_like(means) if return_std else None
        n_alone = 0
        step = int(np.clip(self.values_at_once // len(y), _LEAST_ROWS, _MOST_ROWS))
        for start in range(0, bags.n_bags, step):
            rows = slice(start, start + step)
            d2 = np.maximum(self._compare.both_ways(self._compare.look_at(bags[rows]), self._seen), 0.0)
            shares, n_more = _shares(d2, _excess(d2), self.bandwidth_, self.kernel, self._weights)
            n_alone += n_more
            mean = shares @ y
            means[rows] = mean + self._centre
            if deviations is not None:  # output by output: E y² - (E y)² would lose the digits of small deviations
                for k, each in enumerate(y.T):
                    off = each - mean[:, k, None]
                    deviations[rows, k] = np.sqrt(np.einsum("ij,ij,ij->i", shares, off, off))
        if n_alone:
            warnings.warn(
                "KernelSmoother: some bags have no training bag within the bandwidth (bandwidth_) and get the response "
                "of their nearest one; use a larger bandwidth, or kernel='gaussian'",
                UserWarning,
                stacklevel=2,
            )
        shape = (bags.n_bags, *self.responses_.shape[1:])
        return means.reshape(shape) if deviations is None else (means.reshape(shape), deviations.reshape(shape))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        y : array-like or Bags
            Their responses, of the kind that ``fit`` saw. Of several outputs the mean of their R² is taken.
        sample_weight : array-like of shape (n_bags,), optional
            Weights of bags.

        Returns
        -------
        float
            For densities 1 - Σ_i w_i ∫ (p_i - p̂_i)² / Σ_i w_i ∫ (p_i - p̄)² with the mean p̄ of the densities of ``y``.
        """
        check_is_fitted(self, "bandwidth_")
        y = by_id(y, X, "y")
        sample_weight = by_id(sample_weight, X, "sample_weight")
        if not hasattr(self, "nodes_"):
            weight = None if sample_weight is None else check_weights(self, sample_weight, len(X))
            return float(super().score(X, y, weight))
        bags = response_bags(y)
        n_dims = self._densities.n_dims
        predicted = self.predict(X)
        if bags.n_dims != n_dims or len(bags) != len(predicted):
            raise ValueError(
                f"KernelSmoother: y must hold one bag of {n_dims}-D points for each of {len(predicted)} bags, got "
                f"{len(bags)} of {bags.n_dims}-D points; pass responses of the kind that fit saw"
            )
        weights = check_weights(self, sample_weight, len(bags))
        true = self._densities(bags)
        error, spread = (
            weights @ ((true - other) ** 2 @ self.nodes_.weights)
            for other in (predicted, np.average(true, axis=0, weights=weights))
        )
        return float(1 - error / spread) if spread > 0 else float(error == 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
