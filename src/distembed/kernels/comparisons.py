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
a callable                  ``divergence(X)`` and ``divergence(X, Y)``, matrices of one row per bag of X
=========================== ============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from .. import density as densities
from .. import distances
from ..bags import Bags
from ..bags.estimators import check_in_cube
from ..bags.moments import fit_frame
from ..compute.arrays import Array
from ..compute.checks import Argument, InputError, Message, check_choice
from ..compute.registry import storable
from ..density import bandwidth as bandwidths
from ..density.nodes import MAX_GRID_DIMS
from ..divergences import gaussian, gaussians, js_entropy, knn, mmd, neighbours, plugin
from ..divergences.kernel_sums import resolve_widths
from ..features.medians import median_distance_of_bags
from .matrices import check_matrix, symmetrise

Divergence = Callable[..., Any]


# --------------------------------------------------------------------------------------------------------------
# Divergences by name, with what is fitted to training bags
# --------------------------------------------------------------------------------------------------------------


def _fit_densities(distance: str, bags: Bags) -> tuple[Divergence, bool]:
    h = bandwidths.resolve("distance", bags, densities.get("kde").boundaries(bags.n_dims))
    return partial(plugin, distance=distance, density="kde", bandwidth=h.tolist()), True


def _fit_js_entropy(_: str, bags: Bags) -> tuple[Divergence, bool]:
    widths = resolve_widths("likelihood", bags, ("none",) * bags.n_dims, 1.0)
    return partial(js_entropy, bandwidth=widths.tolist()), True


def _fit_mmd(_: str, bags: Bags) -> tuple[Divergence, bool]:
    return partial(mmd, sigma=median_distance_of_bags(bags, check_random_state(0))), True


def _fit_neighbours(divergence: str, bags: Bags) -> tuple[Divergence, bool]:
    return partial(knn, divergence=divergence), False  # means are over the points of the row's bag


def _fit_gaussians(divergence: str, bags: Bags) -> tuple[Divergence, bool]:
    frame = fit_frame([bags], gaussians.DEFAULT_REG, "full")
    return partial(gaussian, divergence=divergence, reference=frame), divergence != "kl"


class _Family(NamedTuple):
    """Divergences whose names begin alike."""

    fit: Callable[[str, Bags], tuple[Divergence, bool]]  # the function, and whether it is symmetric
    members: tuple[str, ...] = ()  # what may stand behind the colon; nothing where there is one only

    def has(self, member: str) -> bool:
        """Whether there is such a divergence: any exponent will do for ``renyi:<a>``."""
        name, colon, _ = member.partition(":")
        return (f"{name}:<a>" if colon else name) in (self.members or ("",))


def _distances_of(module: Any) -> tuple[str, ...]:
    return tuple(name for name in module.DIVERGENCES if name not in module.SIMILARITIES)


_FAMILIES = {
    "js_entropy": _Family(_fit_js_entropy),
    "mmd": _Family(_fit_mmd),
    "knn": _Family(_fit_neighbours, _distances_of(neighbours)),
    "gaussian": _Family(_fit_gaussians, _distances_of(gaussians)),
}


def available() -> list[str]:
    """Names of the divergences that a :class:`Comparison` takes; <a> stands for an exponent.

    Examples
    --------
    >>> available()[-5:]
    ['knn:l2', 'gaussian:hellinger', 'gaussian:l2', 'gaussian:kl', 'gaussian:skl']
    """
    families = [[f"{kind}:{each}" for each in family.members] or [kind] for kind, family in _FAMILIES.items()]
    return [*distances.available(), *(name for names in families for name in names)]


def wants_cube(divergence: Any) -> bool:
    """Whether a divergence is a distance of densities by name, for points in the unit cube.

    Examples
    --------
    >>> wants_cube("js"), wants_cube("mmd")
    (True, False)
    """
    return isinstance(divergence, str) and divergence in distances.available()


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
        self._in_cube = wants_cube(divergence)  # whether points must lie in the unit cube
        self.is_symmetric: bool | None = None  # unknown yet for callables
        if is_embedding(divergence):
            self._embedding = clone(divergence).fit(bags)
            self.is_symmetric = True
        elif isinstance(divergence, str):
            function, self.is_symmetric = self._by_name(divergence, _plain(bags))
            self._function = partial(function, n_jobs=n_jobs)
        elif callable(divergence) and not isinstance(divergence, type):
            self._function = divergence
        else:
            raise TypeError(
                f"{self._owner}(divergence=...): must be one of {', '.join(map(repr, _short_names()))}, an embedding "
                f"or a callable, got {divergence!r}; pass a function of two collections of bags, or an object, not its "
                "class"
            )

    def _by_name(self, name: str, bags: Bags) -> tuple[Divergence, bool]:
        """The function of that name with a bandwidth or scale fixed by these bags, and whether it is symmetric."""
        kind, _, member = name.partition(":")
        family = _FAMILIES.get(kind)
        if family is not None and family.has(member):
            return family.fit(member, bags)
        if family is not None and family.members:
            check_choice(self._owner, "divergence", name, [f"{kind}:{each}" for each in family.members])
        check_choice(self._owner, "divergence", name, _short_names())
        if bags.n_dims > MAX_GRID_DIMS:
            rule = f": {name!r} must have points of at most {MAX_GRID_DIMS} dimensions, got {bags.n_dims}"
            remedy = f"{rule}; use 'knn:kl' or 'gaussian:skl', or an embedding"
            raise ValueError(Message(Argument("divergence", owner=self._owner), remedy))
        check_in_cube(self._owner, bags)
        return _fit_densities(name, bags)

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
            raise InputError(
                f"{self._owner}(divergence=...): must return a matrix of shape {wanted}, one row for each bag of X and "
                f"one column for each of Y, got {d2.shape}; correct the callable"
            )
        return d2.astype(np.float64, copy=False)

    def both_ways(self, x: Any, y: Any = None) -> Array:
        """Divergences with the two directions averaged where they differ.

        Whether a callable is symmetric is found out at the first square matrix: compare the training bags first.
        """
        d2 = self(x, y)
        if y is None:
            if self.is_symmetric is None and len(d2) > 1:  # one bag says nothing about directions
                self.is_symmetric = bool(np.max(np.abs(d2 - d2.T)) <= 1e-8 * np.max(np.abs(d2)))
            return symmetrise(d2)
        return d2 if self.is_symmetric else d2 / 2 + self(y, x).T / 2

    def in_chunks(
        self, bags: Bags, against: Any, chunk_bags: int, both_ways: bool = True
    ) -> Iterator[tuple[slice, Array]]:
        """Squared distances of bags to what :meth:`look_at` returned, some rows at a time, with their places."""
        compare = self.both_ways if both_ways else self
        if bags.n_bags > chunk_bags and not bags.has_ids:  # errors then name a bag by its position among all bags
            bags = bags.replace(ids=np.arange(bags.n_bags))
        for start in range(0, bags.n_bags, chunk_bags):
            rows = slice(start, start + chunk_bags)
            yield rows, compare(self.look_at(bags[rows]), against)


def _short_names() -> list[str]:
    return [*distances.available(), *(f"{kind}:<name>" if each.members else kind for kind, each in _FAMILIES.items())]


def _plain(bags: Bags) -> Bags:
    """Bags in float64, without points of weight zero: divergences between bags that are alike live on small digits."""
    return bags.drop_weightless().astype(np.float64)
