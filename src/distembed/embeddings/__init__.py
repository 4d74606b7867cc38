"""Embeddings: estimators that turn each bag into one vector.

======================= ==========================================================================================
:class:`HDDEmbedding`   homogeneous density distances: Jensen-Shannon, Hellinger, total variation, chi-square, yours
:class:`Marginals`      any embedding of each coordinate, pair or random projection: hundreds of dimensions
:class:`BlockAverage`   any embedding of equal blocks of points, averaged: bags of very different sizes
======================= ==========================================================================================
"""

from .blocks import BlockAverage
from .hdd import HDDEmbedding
from .marginals import Marginals

__all__ = ["BlockAverage", "HDDEmbedding", "Marginals"]
