r"""Divergences between bags, pair by pair: what the embeddings approximate, without lambdas and without a basis.

========================== =====================================================================================
:func:`plugin`              any homogeneous distance between two density estimates
:func:`knn`                 Kullback-Leibler, Rényi, Tsallis and others from nearest neighbours, without densities
:func:`knn_many`            several of them, for several k, from one search
:func:`js_entropy`          Jensen-Shannon from three entropies, as in the paper's appendix
:func:`gaussian`            closed forms between Gaussian fits
:func:`mean_map`            the mean of a kernel over all pairs of points, and :func:`mmd` made of it
========================== =====================================================================================

All return a matrix of shape (len(X), len(Y)), in time that grows with the number of pairs. The first,

.. math:: d^2(\hat p, \hat q) = \int κ(\hat p(u), \hat q(u)) \, du

for a homogeneous distance κ (:mod:`distembed.distances`) and any density estimate, pays where no index set of
reasonable size captures the densities, as narrow ones in many dimensions: there the integral is taken at points drawn
from the two densities themselves (:class:`Pairwise`),

.. math:: d^2(\hat p, \hat q) = E_{u \sim m} \, κ(\hat p(u)/m(u), \hat q(u)/m(u)), \qquad m = (\hat p + \hat q)/2,

half of them from each. For js, hellinger, tv and chi2 the integrand is bounded by 2 κ(1, 0), whatever the dimension, so
k points of each bag give a standard error below κ(1, 0) / √(2k); for other distances by 4 κ(1, 0) at most.
"""

from .densities import Pairwise, plugin
from .gaussians import gaussian
from .kernel_sums import js_entropy, mean_map, mmd
from .neighbours import knn, knn_many

__all__ = ["Pairwise", "gaussian", "js_entropy", "knn", "knn_many", "mean_map", "mmd", "plugin"]
