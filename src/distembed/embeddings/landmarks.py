r"""Distances to landmarks: how near a bag comes to each of some training bags.

With landmark bags L_1, ..., L_K, drawn from the training bags, a bag B has the features

.. math:: δ_k(B) = \min_{x ∈ B, z ∈ L_k} \|x - z\| / \sqrt K .

One point is enough to be near. So this is a view for bags that are labelled by few of their points, such as a molecule
that binds if one of its shapes does (multiple-instance learning), where means, densities and quantiles drown what
matters in all the other points. The dissimilarities are those of Cheplygina, Tax and Loog (2015).

*Cost.* n_dims operations for each pair of a point and a point of a landmark, of which there are at most
``n_landmarks * max_points``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from ..bags import Bags
from ..bags.estimators import BagEmbedding, Writer, refuse_overflow
from ..compute.arrays import Array, Scratch
from ..compute.checks import check_number
from ..compute.parallel import bag_slices
from ..compute.registry import storable
from .catalogue import Method, register
from .codebook import draw_evenly


def nearest_distances(bags: Bags, landmarks: Bags) -> Array:
    """The smallest distance of a point of each bag to a point of each landmark, ndarray of shape (n_bags, n_landmarks).

    Examples
    --------
    >>> nearest_distances(Bags.from_arrays([[0.0, 10.0], [3.0]]), Bags.from_arrays([[1.0, 7.0], [2.0]]))
    array([[1., 2.],
           [2., 1.]])
    """
    pairs = np.minimum.reduceat(cdist(bags.points, landmarks.points), landmarks.offsets[:-1], axis=1)
    return np.asarray(np.minimum.reduceat(pairs, bags.offsets[:-1], axis=0))


@storable(landmarks_="Bags", _scale="number")
class LandmarkEmbedding(BagEmbedding):
    r"""Embed bags by the distance of their nearest point to each of some landmark bags.

    Parameters
    ----------
    n_landmarks : int, default=100
        K: training bags that are landmarks; all of them if there are fewer.
    max_points : int, default=20
        Points of a landmark that count, at most on average; of larger ones they are drawn.
    random_state : int, RandomState or None, default=None
        Draws landmarks and their points.
    n_jobs : int or None, default=None
        Threads of ``transform``. None: as many as BLAS may use, which is one inside a parallel worker.

    Attributes
    ----------
    landmarks_ : Bags
        The landmarks.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    A feature is δ_k(B) = min \|x - z\| / √K over the points x of the bag and z of landmark k, so squared distances
    of rows are means over landmarks, in squared units of the points. Columns of different units should be scaled first,
    for instance by :class:`~distembed.Standardize`; learners do it.

    *Cost* n_dims operations for each point and each of at most ``n_landmarks * max_points`` points of landmarks, in
    float64. Memory: a few megabytes per thread, or what the largest bag needs.

    *Limits.* Weights of points do not matter, unless they are zero. The more points a bag has, the nearer it is to
    everything: with hundreds of points per bag there is little left to see, and bag sizes leak into features.

    References
    ----------
    Cheplygina, Tax and Loog (2015). Multiple instance learning with bag dissimilarities. Pattern Recognition.

    Examples
    --------
    >>> import distembed as de
    >>> bags = [[0.0, 10.0], [3.0], [1.0, 4.0]]
    >>> (de.LandmarkEmbedding().fit_transform(bags) * 3**0.5).round(6)
    array([[0., 3., 1.],
           [3., 0., 1.],
           [1., 1., 0.]])
    """

    chunk_bytes = 2**22  # that a thread works on at a time

    def __init__(
        self,
        n_landmarks: int = 100,
        *,
        max_points: int = 20,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.max_points = max_points
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, bags: Bags, y: object) -> None:
        most = check_number(self, "n_landmarks", self.n_landmarks, low=1, integer=True)
        per_landmark = check_number(self, "max_points", self.max_points, low=1, integer=True)
        rng = check_random_state(self.random_state)
        if bags.n_bags > most:
            bags = bags[np.sort(rng.choice(bags.n_bags, most, replace=False))]
        drawn = draw_evenly(bags, per_landmark * bags.n_bags, rng)
        points = drawn.points.astype(np.float64)
        largest = float(np.abs(points).max())
        self._scale = 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0  # divisions by it are exact
        self.landmarks_ = drawn.replace(points=points / self._scale, weights=None, ids=None)
        self._n_features_out = drawn.n_bags

    def __distembed_fits__(self) -> bool:
        return (self.landmarks_.n_bags, self.landmarks_.n_dims) == (self._n_features_out, self.n_features_in_)

    def _plan(self, bags: Bags) -> tuple[Writer, list[slice]]:
        root = np.sqrt(self._n_features_out)

        def write(some: Bags, out: Array, scratch: Scratch) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
                scaled = some.replace(points=some.points.astype(np.float64) / self._scale)
                out[...] = nearest_distances(scaled, self.landmarks_) * (self._scale / root)
            refuse_overflow(self, out)

        return write, bag_slices(bags.sizes, 8 * self.landmarks_.n_points, 8 * self._n_features_out, self.chunk_bytes)

    def _feature_names(self) -> Iterable[str]:
        return [f"landmark{k}" for k in range(self._n_features_out)]


register(
    Method(
        "landmarks", LandmarkEmbedding, {}, "mean squared difference of distances to landmark bags", "n landmarks l",
        "yes", "shifts, rotations", "any", "Cheplygina et al. 2015",
    )
)  # fmt: skip
