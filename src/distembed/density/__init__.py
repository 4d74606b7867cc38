r"""Density estimates of bags, on the integration nodes.

What follows says what an estimate is, what the bandwidth h means to it, what a bag of n points costs on g nodes in l
dimensions, and when to use it.

==================  ==============================  =======================  ==================  =======================
estimate            what                            h                        cost a bag          when
==================  ==============================  =======================  ==================  =======================
:class:`KDE`        a Gaussian kernel at each       its deviation            n + g on a grid,    the default; one to
                    point; reflecting, periodic                              n g l elsewhere     about five dimensions
                    (wrapped) or open boundaries
:class:`Histogram`  constant on boxes               boxes of side √12 h, or  n + g               speed, or a baseline;
                                                    none with ``bins``                           coarse
:class:`Copula`     margins by KDE, dependence of   of each margin, rules    (n + g) l²          many dimensions, few
                    a Gaussian                      by coordinate                                points; monotone
                                                                                                 dependence
:class:`Mixture`    up to five Gaussians by EM      none                     n l² a round,       few blobs; small bags
                                                                             tens of rounds
:class:`KNN`        mass of the ball that holds k   none                     (n + k g) log n     scales that differ from
                    points over its volume                                                       place to place
:class:`Scored`     any estimator with              none: its own            its own             an estimate that is not
                    ``score_samples``               parameters                                   here
==================  ==============================  =======================  ==================  =======================

The last three are divided by their mass on the nodes. All give defined values for one point, copies of a point,
constant coordinates and points on the faces; all weigh points, where a weight of two is two copies (:class:`Scored`
only if its estimator does).

:func:`get` finds one by name, and :func:`most_likely` chooses by held-out likelihood between the first, the third and
the fourth: ``density="auto"`` of embeddings. A new estimate is a subclass of :class:`Density` in a file of its own,
which ends with :func:`register`, and a row below; a user's own is registered from outside.
"""

from __future__ import annotations

from . import bandwidth, nodes
from .choice import LOW_DIMS as LOW_DIMS
from .choice import most_likely as most_likely
from .copula import Copula
from .estimate import Density
from .estimate import Evaluator as Evaluator
from .estimate import choose_nodes as choose_nodes
from .estimate import forget as forget
from .estimate import get as get
from .estimate import pool as pool
from .estimate import register as register
from .histogram import Histogram
from .kde import KDE
from .kde import GridKDE as GridKDE
from .kde import KernelProducts as KernelProducts
from .kde import kde_at as kde_at
from .kde import kernel as kernel
from .mixture import Mixture
from .neighbours import KNN
from .nodes import MCMC, Grid, Importance, MonteCarlo, Sobol
from .nodes import BagDensity as BagDensity
from .nodes import Pooled as Pooled
from .nodes import mass_on_nodes as mass_on_nodes
from .nodes import metropolis as metropolis
from .scored import Scored

__all__ = [
    "KDE", "KNN", "MCMC", "Copula", "Density", "Grid", "Histogram", "Importance", "Mixture", "MonteCarlo", "Scored",
    "Sobol", "bandwidth", "nodes",
]  # fmt: skip
