"""Every transformer of bags keeps the family's contract, and the checks of the contract can fail, one by one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils.validation import check_is_fitted

import distembed as de
from distembed._base import BagEstimator
from distembed.bags import Bags, as_bags
from distembed.estimator_checks import bag_transformer_checks, check_bag_transformer

# --------------------------------------------------------------------------------------------------------------
# The estimators of the package
# --------------------------------------------------------------------------------------------------------------

embed = partial(de.HDDEmbedding, n_basis=3, bandwidth=0.15)


def half_of_tv(lam):  # not a lambda, which pickle refuses
    return 1 / (np.pi * (1 + 4 * lam**2))


# A bandwidth of each bag's own depends on its number of points, and so does not see copies as the same distribution.
COUNTS_POINTS = ("duplicates", "integer_weights")

ESTIMATORS = {
    "js": embed("js"),
    "hellinger": embed("hellinger"),
    "tv": embed("tv"),
    "chi2": embed("chi2"),
    "own-distance": embed(de.HomogeneousDistance("half_tv", measure=half_of_tv)),
    "defaults": de.HDDEmbedding(),
    "lambdas-auto": embed(n_lambdas="auto"),
    "lambdas-random": embed(lambda_rule="random"),
    "lambda-one": embed("tv", n_lambdas=1),
    "fourier": embed(basis="fourier"),
    "basis-object": embed(basis=de.Cosine()),
    "basis-one-a-dimension": embed(n_basis=(2, 4)),
    "basis-one": embed(n_basis=1),
    "grid": embed(nodes="grid"),
    "grid-size": embed(nodes=de.Grid(24)),
    "grid-sizes": embed(nodes=de.Grid((16, 24))),
    "sobol": embed(nodes=de.Sobol(64), random_state=0),
    "monte-carlo": embed(nodes=de.MonteCarlo(60), random_state=0),
    "monte-carlo-unseeded": embed(nodes=de.MonteCarlo(60)),
    "monte-carlo-periodic": embed(nodes=de.MonteCarlo(60), density=de.KDE("periodic"), random_state=0),
    "paper": embed(lambda_rule="random", nodes=de.MonteCarlo(100), basis="fourier", density=de.KDE("none")),
    "scott": embed(bandwidth="scott"),
    "silverman": embed(bandwidth="silverman", bandwidth_scale=0.5),
    "isj": embed(bandwidth="isj"),
    "likelihood": embed(bandwidth="likelihood"),
    "bandwidth-one-a-dimension": embed(bandwidth=(0.1, 0.2)),
    "periodic": embed(density=de.KDE("periodic"), basis="fourier"),
    "no-boundary": embed(density=de.KDE("none")),
    "mixed-boundary": embed(density=de.KDE(("periodic", "reflect"))),
    "per-bag-number": embed(density=de.KDE(per_bag=True)),
    "threads": embed(n_jobs=2),
    "cube": de.UnitCube(),
    "cube-asinh": de.UnitCube(map="asinh"),
    "cube-rank": de.UnitCube(map="rank"),
    "cube-few-ranks": de.UnitCube(map="rank", n_quantiles=5),
    "cube-bounds": de.UnitCube((-1, [2, 3])),
    "cube-error": de.UnitCube((-1, 2), outside="error"),
    "cube-drop": de.UnitCube(outside="drop", margin=0),
    "cube-then-embedding": make_pipeline(de.UnitCube(), embed()),
    "cube-twice": make_pipeline(de.UnitCube(), de.UnitCube(map="rank")),
    "random-features": make_pipeline(de.UnitCube(), embed("tv"), de.RandomFourierFeatures(10)),
    "union": FeatureUnion([("js", embed("js")), ("ranks", make_pipeline(de.UnitCube(map="rank"), embed("tv")))]),
}
SKIPPING = {
    "per-bag-scott": (embed(bandwidth="scott", density=de.KDE(per_bag=True)), COUNTS_POINTS),
    "per-bag-monte-carlo": (
        embed(bandwidth="scott", density=de.KDE(per_bag=True), nodes=de.MonteCarlo(60)),
        COUNTS_POINTS,
    ),
}


def every_check():
    cases = {key: (estimator, ()) for key, estimator in ESTIMATORS.items()} | SKIPPING
    for key, (estimator, skip) in cases.items():
        for name, check in bag_transformer_checks(estimator, skip=skip):
            yield pytest.param(check, id=f"{key}-{name}")


@pytest.mark.parametrize("check", list(every_check()))
def test_the_contract(check):
    check()
