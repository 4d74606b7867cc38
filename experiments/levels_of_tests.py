"""Levels and power of tests in designs: strata, covariates and units, over 20 settings.

Run ``python experiments/levels_of_tests.py``: a table of the share of p-values of at most .05, of 400 simulated studies
for each setting without a difference and 100 with one. With R and vegan, ``--vegan`` compares F and p with adonis2.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

import distembed as de
from distembed.two_sample import factors_test, groups_test

N_NULL = 400  # tests take 3
N_POWER = 100  # tests take 2


def mean_gaps(X, Y=None):
    """Squared distances of means, of bags in one dimension."""
    a, b = (np.array([bag.mean() for bag in bags]) for bags in (X, X if Y is None else Y))
    return (a[:, None] - b) ** 2


def study(rng, design, n, size, confounded, shift):
    """Bags of two groups in a design, and what the test is told of it."""
    group = np.arange(n) % 2
    nuisance = np.zeros(n)
    given = {}
    if design == "strata":
        site = np.arange(n) * 4 // n
        group = rng.permutation(n) < n // 2
        chance = np.where(site < 2, 0.5 + confounded / 3, 0.5 - confounded / 3)
        group = rng.uniform(size=n) < chance
        nuisance = np.array([0.0, 0.5, 1.5, 2.0])[site]
        given["strata"] = site
    if design == "covariates":
        age = rng.normal(confounded * group, 1)
        nuisance = age
        given["covariates"] = {"age": age}
    if design == "units":
        unit = np.arange(n) // 3
        group = unit % 2
        nuisance = rng.normal(0, 1, n)[unit]
        given["units"] = unit
    mixed = design != "strata" or any(0 < group[site == each].sum() < (site == each).sum() for each in range(4))
    if min(group.sum(), n - group.sum()) < 3 or not mixed:
        return study(rng, design, n, size, confounded, shift)
    group = np.asarray(group, bool)
    means = nuisance + shift * group + rng.normal(0, 0.3, n)
    bags = de.as_bags([rng.normal(mean, 1, size) for mean in means])
    order = np.argsort(~group, kind="stable")
    given = {
        name: {key: each[order] for key, each in value.items()} if isinstance(value, dict) else value[order]
        for name, value in given.items()
    }
    return bags[order[: group.sum()]], bags[order[group.sum() :]], given


def rejected(n_studies, told, *setting):
    """Share of p-values of at most .05."""
    found = []
    for seed in range(n_studies):
        X, Y, given = study(np.random.default_rng(seed), *setting)
        given = given if told else {}
        found.append(groups_test(X, Y, mean_gaps, n_permutations=99, random_state=seed, **given).pvalue <= 0.05)
    return np.mean(found)


def settings():
    """Twenty designs."""
    yield from product(("strata",), (16, 24, 40, 60), (10,), (0, 1))
    yield from product(("covariates",), (16, 24, 40, 60), (10,), (0, 1))
    yield from product(("units",), (24, 36, 48, 60), (10,), (0,))


def beside_vegan():
    """F and p of three factors by adonis2, margin by margin."""
    rng = np.random.default_rng(0)
    n = 40
    site, arm, age = rng.integers(0, 3, n), rng.integers(0, 2, n), rng.normal(size=n)
    bags = [rng.normal(0.3 * (s == 1) + 0.4 * a, 1, size=(20, 2)) for s, a in zip(site, arm, strict=True)]
    rows = np.array([bag.mean(axis=0) for bag in bags])
    with tempfile.TemporaryDirectory() as folder:
        names = np.array(["a", "b", "c"])[site]
        table = np.column_stack([rows.astype(str), names, np.array(["x", "y"])[arm], age.astype(str)])
        np.savetxt(Path(folder) / "t.csv", table, fmt="%s", delimiter=",", header="u,v,site,arm,age", comments="")
        code = (
            f"library(vegan); set.seed(1); t <- read.csv('{folder}/t.csv'); "
            "print(adonis2(dist(t[,1:2]) ~ site + arm + age, t, permutations=9999, by='margin'), digits=7)"
        )
        print(subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True).stdout)
    factors = {"site": np.array(["a", "b", "c"])[site], "arm": arm, "age": age}

    def gaps(X, Y=None):
        a, b = (np.array([bag.mean(axis=0) for bag in bags]) for bags in (X, X if Y is None else Y))
        return np.sum((a[:, None] - b) ** 2, axis=2)

    print(factors_test(bags, factors, gaps, n_permutations=9999, random_state=0).to_frame())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--vegan", action="store_true", help="compare with adonis2 instead")
    if parser.parse_args().vegan:
        beside_vegan()
        return
    print(f"{'design':12}{'bags':>5}{'confounded':>12}{'level':>8}{'untold':>8}{'power':>8}")
    for setting in settings():
        level = rejected(N_NULL, True, *setting, 0.0)
        untold = rejected(N_POWER, False, *setting, 0.0)
        power = rejected(N_POWER, True, *setting, 0.6)
        design, n, _, confounded = setting
        print(f"{design:12}{n:5}{'yes' if confounded else 'no':>12}{level:8.3f}{untold:8.2f}{power:8.2f}", flush=True)


if __name__ == "__main__":
    main()
