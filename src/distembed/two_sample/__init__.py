"""Two-sample tests: whether two bags differ, or two groups of bags, and where.

========================== ==========================================================================================
:func:`bags_test`          points of two bags change places: do they come from one distribution?
:func:`groups_test`        bags of two groups change places: do they come from one distribution of distributions?
:func:`factors_test`       bags change places, inside strata: what do several factors explain, given covariates?
:func:`groups_power`       how many bags, and points per bag, a study needs, from a pilot
:func:`which_coordinates`  the coordinates that differ, of either
:func:`which_regions`      the regions of the space in which shares of points differ, of either
========================== ==========================================================================================

All p-values are from permutations, and exact at any size: everything that is fitted (scale, bandwidth, embedding,
regions) is fitted to both sides together, without their labels. p = (1 + #{permuted >= observed}) / (1 + B) is never
zero. Where there are no more distinct permutations than asked for, all are taken.
"""

from .answers import CoordinatesResult, RegionsResult, TestResult
from .factors import FactorsResult, factors_test
from .planning import PowerResult, groups_power
from .where import which_coordinates, which_regions
from .whether import bags_test, groups_test

__all__ = [
    "CoordinatesResult",
    "FactorsResult",
    "PowerResult",
    "RegionsResult",
    "TestResult",
    "bags_test",
    "factors_test",
    "groups_power",
    "groups_test",
    "which_coordinates",
    "which_regions",
]
