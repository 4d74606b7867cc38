"""Squared distances between bags by a name, a function or an embedding: what every method on distances shares.

Kernel matrices, smoothers and tests work with any distance between bags. A :class:`Comparison` is one of them, with
everything that must be the same for training bags and new ones (bandwidth, scale, fitted embedding) found once.

=========================== ============================================================================================
divergence                  what d² is
=========================== ============================================================================================
``"js"`` ``"hellinger"``    :func:`distembed.divergences.plugin` of kernel density estimates on a grid; points in the
``"tv"`` ``"chi2"``         unit cube of at most three dimensions
``"knn:<name>"``            :func:`distembed.divergences.knn`, e.g. ``"knn:kl"`` or ``"knn:renyi:0.9"``
``"gaussian:<name>"``       :func:`distembed.divergences.gaussian`: ``hellinger``, ``l2``, ``kl`` or ``skl``
``"js_entropy"``            :func:`distembed.divergences.js_entropy`
``"mmd"``                   :func:`distembed.divergences.mmd`
an embedding                squared Euclidean distances of its features, in time linear in the number of bags
a callable                  ``divergence(X)`` and ``divergence(X, Y)``, matrices of one row a bag of X
=========================== ============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from .. import density as densities
from ..bags import Bags
from ..bags.estimators import check_in_cube
from ..bags.medians import median_distance_of_bags
from ..bags.moments import fit_frame
from ..compute.checks import check_choice
from ..compute.registry import storable
from ..density import bandwidth as bandwidths
from ..density.nodes import MAX_GRID_DIMS
from ..divergences import gaussian, js_entropy, knn, mmd, plugin
from ..divergences.entropies import resolve_widths
from .matrices import check_matrix, symmetrise

__all__ = ["NAMES", "Comparison", "is_embedding"]

Array = NDArray[Any]
Divergence = Callable[..., Any]

NAMES = ("js", "hellinger", "tv", "chi2", "js_entropy", "mmd", "knn:<name>", "gaussian:<name>")
_PLUGIN = NAMES[:4]
_GAUSSIAN = ("hellinger", "l2", "kl", "skl")
GAUSSIAN_REG = 1e-3  # the default of divergences.gaussian
_NEIGHBOURS = {"kl": "", "renyi": ":<a>", "tsallis": ":<a>", "hellinger": "", "l2": ""}  # and their exponents


def is_embedding(value: Any) -> bool:
    """Whether a value is an object that can be fitted to bags and makes vectors of them."""
    return not isinstance(value, type) and hasattr(value, "fit") and hasattr(value, "transform")


@storable
class Comparison:
    """Squared distances between bags, the same for training bags and new ones.

    Parameters
    ----------
    divergence : str, embedding or callable
        See the table of this module.
    bags : Bags
        Training bags: bandwidth, scale and embedding are fitted to them.
    owner : object
        The estimator or function whose parameter this is, named in messages.
    n_jobs : int or None
        Threads of divergences that are looked up by name.

    Notes
    -----
    A callable gets bags in float64, without points of weight zero, and should look at one pair of bags at a time.

    Examples
    --------
    >>> bags = Bags.from_arrays([[0.1, 0.2, 0.4], [0.6, 0.7, 0.9], [0.3, 0.5]])
    >>> compare = Comparison("gaussian:skl", bags, "example")
    >>> seen = compare.look_at(bags)
    >>> compare(seen).shape, compare(seen[:1], seen[1:]).shape
    ((3, 3), (1, 2))
    """

    def __init__(self, divergence: Any, bags: Bags, owner: object, n_jobs: int | None = None) -> None:
        self._owner = owner if isinstance(owner, str) else type(owner).__name__
        self._embedding: Any = None
        self._in_cube = False  # whether points must lie in the unit cube
        self.is_symmetric: bool | None = None  # unknown yet for callables
        if is_embedding(divergence):
            self._embedding = clone(divergence).fit(bags)
            self.is_symmetric = True
        elif isinstance(divergence, str):
            self._function, self.is_symmetric = self._named(divergence, _plain(bags), n_jobs)
        elif callable(divergence) and not isinstance(divergence, type):
            self._function = divergence
        else:
            raise TypeError(
                f"{self._owner}(divergence=...): must be one of {', '.join(map(repr, NAMES))}, an embedding or a "
                f"callable, got {divergence!r}; pass a function of two collections of bags, or an object, not its class"
            )

    def _named(self, name: str, bags: Bags, n_jobs: int | None) -> tuple[Divergence, bool]:
        """The function of that name with a bandwidth or scale fixed by these bags, and whether it is symmetric."""
        kind, _, which = name.partition(":")
        family, colon, _ = which.partition(":")
        if kind == "knn" and colon == _NEIGHBOURS.get(family, "none")[:1]:
            return partial(knn, divergence=which, n_jobs=n_jobs), False  # means are over the points of the row's bag
        if kind == "gaussian" and which in _GAUSSIAN:
            frame = fit_frame([bags], GAUSSIAN_REG, "full")
            return partial(gaussian, divergence=which, reference=frame, n_jobs=n_jobs), which != "kl"
        if name == "js_entropy":
            return partial(
                js_entropy,
                bandwidth=resolve_widths("likelihood", bags, ("none",) * bags.n_dims, 1.0).tolist(),
                n_jobs=n_jobs,
            ), True
        if name == "mmd":
            return partial(mmd, sigma=median_distance_of_bags(bags, check_random_state(0)), n_jobs=n_jobs), True
        if kind in ("knn", "gaussian"):
            choices = [f"{kind}:{each}" for each in _GAUSSIAN]
            if kind == "knn":
                choices = [f"knn:{each}{exponent}" for each, exponent in _NEIGHBOURS.items()]
            check_choice(self._owner, "divergence", name, choices)
        check_choice(self._owner, "divergence", name, NAMES)
        if bags.n_dims > MAX_GRID_DIMS:
            raise ValueError(
                f"{self._owner}(divergence=...): {name!r} must have points of at most {MAX_GRID_DIMS} dimensions, got "
                f"{bags.n_dims}; use 'knn:kl' or 'gaussian:skl', or an embedding"
            )
        check_in_cube(self._owner, bags)
        self._in_cube = True
        h = bandwidths.resolve("distance", bags, densities.get("kde").boundaries(bags.n_dims))
        return partial(plugin, distance=name, density="kde", bandwidth=h.tolist(), n_jobs=n_jobs), True

    def look_at(self, bags: Bags) -> Any:
        """What bags are compared by: features of shape (n_bags, n_features), or the bags; slices are those of bags."""
        if self._embedding is None:
            bags = _plain(bags)
            if self._in_cube:
                check_in_cube(self._owner, bags)
            return bags
        features = self._embedding.transform(bags)
        if isinstance(features, Bags) or np.ndim(features) != 2:
            raise TypeError(
                f"{self._owner}(divergence=...): {type(self._embedding).__name__} must make a row of numbers of a bag, "
                f"got {type(features).__name__}; put an embedding behind it: make_pipeline(UnitCube(), HDDEmbedding())"
            )
        return np.asarray(features, np.float64)

    def __call__(self, x: Any, y: Any = None) -> Array:
        """Squared distances of what :meth:`look_at` returned, float64 of shape (len(x), len(y)), or square."""
        if self._embedding is not None:
            centre = np.mean(x if y is None else y, axis=0)  # what all have in common would only cost digits
            return np.asarray(euclidean_distances(x - centre, None if y is None else y - centre, squared=True))
        d2 = check_matrix(self._owner, "divergence", self._function(x) if y is None else self._function(x, y))
        wanted = (len(x), len(x if y is None else y))
        if d2.shape != wanted:
            raise ValueError(
                f"{self._owner}(divergence=...): must return a matrix of shape {wanted}, one row for each bag of X and "
                f"one column for each of Y, got {d2.shape}; correct the callable"
            )
        return d2.astype(np.float64, copy=False)

    def both_ways(self, x: Any, y: Any = None) -> Array:
        """The same with the two directions averaged where they differ.

        Whether a callable is symmetric is found out at the first square matrix: compare the training bags first.
        """
        d2 = self(x, y)
        if y is None:
            if self.is_symmetric is None and len(d2) > 1:  # one bag says nothing about directions
                self.is_symmetric = bool(np.max(np.abs(d2 - d2.T)) <= 1e-8 * np.max(np.abs(d2)))
            return symmetrise(d2)
        return d2 if self.is_symmetric else d2 / 2 + self(y, x).T / 2


def _plain(bags: Bags) -> Bags:
    """Bags in float64, without points of weight zero: divergences between bags that are alike live on small digits."""
    return bags.drop_weightless().astype(np.float64)
