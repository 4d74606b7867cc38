r"""What bags are made of, where the same points come again: the share of each distinct point.

    bags -> distinct points of training -> √ share of each, and of all others -> rows

An alloy is made of about ten elements, a basket of a few hundred goods, and a point that is described by whole numbers
has few values. Where all bags draw their points from one short list, the shares are all that there is to know of a bag,
and means and quantiles of columns blur them: whether a trace of one element is there is lost among the others.

.. math:: z_k = \sqrt{\sum_{i: x_i = u_k} w_i}, \qquad \sum_i w_i = 1,

for the distinct points u_k of training. Squared Euclidean distances of these rows are twice those of Hellinger, in
which traces count more than in shares.

*Cost*: n_points n_dims, and a sort of the points; whether points come again is first looked at on some of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.estimators import BagEmbedding
from ..compute.arrays import Array
from ..compute.registry import storable
from ..embeddings.blocks import hash_points

COMPOSITION = "composition"  # the name of the view
MOST_DISTINCT = 100  # points; of more, each is in few bags
_LOOKED_AT = 5000  # points, of which too many that are distinct end the search


def distinct_points(bags: Bags) -> Array | None:
    """Hashes of the distinct points of bags, sorted; None if they are one, or more than a hundred, or than the bags.

    Points are equal if float32 can't tell them apart.

    Examples
    --------
    >>> three = Bags.from_arrays([[1.0, 2.0, 1.0], [2.0, 3.0], [3.0, 3.0], [1.0]])
    >>> len(distinct_points(three)), distinct_points(three[:2])
    (3, None)
    """
    most = min(MOST_DISTINCT, bags.n_bags)
    step = -(-bags.n_points // _LOOKED_AT)
    if len(np.unique(hash_points(bags.points[::step], np.float32))) > most:
        return None
    found = np.unique(hash_points(bags.points, np.float32))
    return found if 1 < len(found) <= most else None


@storable(known_="int(k)")
class CompositionEmbedding(BagEmbedding):
    """Embed bags by the roots of the shares of distinct points.

    Attributes
    ----------
    known_ : ndarray of shape (n_distinct,)
        Hashes of the distinct points of training, sorted.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    The last column is for points that training did not have.

    Examples
    --------
    >>> made = CompositionEmbedding().fit([[1.0, 2.0, 1.0], [2.0, 3.0], [3.0, 3.0], [1.0]])
    >>> made.transform([[1.0, 1.0], [3.0, 4.0, 4.0, 4.0]]).max(axis=1).round(2)
    array([1.  , 0.87])
    """

    takes_categories = True

    def _fit(self, bags: Bags, y: Any) -> None:
        self.known_ = np.unique(hash_points(bags.points, np.float32))
        self._n_features_out = len(self.known_) + 1

    def __distembed_fits__(self) -> bool:
        increases = bool(np.all(self.known_[1:] > self.known_[:-1])) and len(self.known_) > 0
        return increases and self._n_features_out == len(self.known_) + 1

    def _transform(self, bags: Bags) -> Array:
        hashes = hash_points(bags.points, np.float32)
        n = len(self.known_)
        place = np.minimum(np.searchsorted(self.known_, hashes), n - 1)
        place[self.known_[place] != hashes] = n
        owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
        shares = bags.shares()
        mass = 1 / bags.sizes[owner] if shares is None else np.asarray(shares, np.float64)
        counts = np.bincount(owner * (n + 1) + place, weights=mass, minlength=bags.n_bags * (n + 1))
        return np.asarray(np.sqrt(counts.reshape(bags.n_bags, n + 1)))

    def _feature_names(self) -> Iterable[str]:
        return [*(f"share_of_point_{k}" for k in range(len(self.known_))), "share_of_others"]
