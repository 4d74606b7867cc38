"""Embeddings: estimators that turn each bag into one vector.

=================================== ===============================================================================
:class:`HDDEmbedding`               homogeneous density distances: Jensen-Shannon, Hellinger, total variation, yours
:class:`L2Embedding`                the L2 distance of densities
:class:`MeanEmbedding`              means in a kernel's feature space: maximum mean discrepancy
:class:`HistogramEmbedding`         distances of histograms by explicit maps
:class:`CodebookEmbedding`          the same for words that k-means finds
:class:`MomentEmbedding`            means, deviations, covariances, D3
:class:`StatisticsEmbedding`        mean, deviation and quantiles of each column
:class:`LandmarkEmbedding`          how near a bag comes to each of some training bags, by its nearest point
:class:`SlicedWassersteinEmbedding` how far mass has moved, along random directions
:class:`GaussianEmbedding`          kernels of Gaussian fits
:class:`FisherEmbedding`            gradients of a shared mixture's likelihood
:class:`MixtureCurveEmbedding`      how likelihoods of mixtures grow with their number of components
:class:`Marginals`                  any embedding of each coordinate, pair or random projection
:class:`BlockAverage`               any embedding of equal blocks of points, averaged: bags of very different sizes
:class:`Views`                      several embeddings, of other columns or of what is made of them; kernels are summed
:class:`Sketch`                     what ``partial`` of most of them keeps of some points of a bag
=================================== ===============================================================================

:func:`available` lists them all by name, with what each estimates and costs; :func:`get` makes one, and
:func:`register` adds yours.
"""

# In this order the catalogue lists them.
# isort: off
from .catalogue import Method as Method, available as available, forget as forget, get as get, register as register
from .hdd import HDDEmbedding
from .l2 import L2Embedding
from .mean import MeanEmbedding
from .histogram import HistogramEmbedding
from .codebook import CodebookEmbedding
from .moments import MomentEmbedding
from .statistics import StatisticsEmbedding
from .landmarks import LandmarkEmbedding
from .sliced import SlicedWassersteinEmbedding
from .gaussian import GaussianEmbedding
from .fisher import FisherEmbedding
from .mixture_curve import MixtureCurveEmbedding
from .marginals import Marginals
from .blocks import BlockAverage
from .views import Views
from .sketches import Sketch
# isort: on

__all__ = [
    "BlockAverage",
    "CodebookEmbedding",
    "FisherEmbedding",
    "GaussianEmbedding",
    "HDDEmbedding",
    "HistogramEmbedding",
    "L2Embedding",
    "LandmarkEmbedding",
    "Marginals",
    "MeanEmbedding",
    "MixtureCurveEmbedding",
    "MomentEmbedding",
    "Sketch",
    "SlicedWassersteinEmbedding",
    "StatisticsEmbedding",
    "Views",
]
