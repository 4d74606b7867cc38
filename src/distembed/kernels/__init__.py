r"""Kernel matrices from divergences: the Gaussian kernel, repair of negative eigenvalues, and features of landmarks.

.. math:: K_{ij} = \exp(-d^2(p_i, p_j) / (2σ^2))

is positive semidefinite where d is a Hilbertian distance and d² is exact. For other divergences, and for estimates of
d² in any case, K has negative eigenvalues, which support vector machines and kernel ridge regression can't use.
:class:`DivergenceMatrix` takes bags to d², by any divergence, and :class:`RBFKernel` d² to K, for training bags and new
ones: two steps of a pipeline.
:func:`psd` repairs one matrix and :class:`PSDRepair` the matrix of training bags and the rows of new ones alike, which
costs the cube of the number of bags. :class:`NystroemFeatures` makes no N × N matrix: it compares bags with some
landmarks.

Repairs act on the eigenvalues of K = V Λ Vᵀ (Chen et al. 2009):

========== ======================= ===========================
method     eigenvalues             rows k of new bags
========== ======================= ===========================
``clip``   max(λ, 0)               k V₊ V₊ᵀ
``flip``   abs(λ)                  k V sign(Λ) Vᵀ
``shift``  λ - min(λ_min, 0)       k
``square`` λ²                      k K
========== ======================= ===========================
"""

from .gram import DivergenceMatrix, NystroemFeatures
from .matrices import PSDRepair, RBFKernel, median_sigma, psd, rbf, symmetrise

__all__ = ["DivergenceMatrix", "NystroemFeatures", "PSDRepair", "RBFKernel", "median_sigma", "psd", "rbf", "symmetrise"]
