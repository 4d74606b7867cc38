r"""How many bags, and how many points per bag, a study needs to find a difference like that of a pilot.

In the features of the divergence the statistic of two groups of n bags each is about the squared length of δ + ε, where
δ is the difference of the mean features and ε is normal with covariance Σ 2/n. The pilot estimates Σ by its bags around
the means of their groups, and δ by the difference of these means. The noise of the pilot makes this too long by tr Σ
(1/n + 1/m) in the mean, which is taken off. Halves of the bags show which part of Σ is the noise of few points: that
part falls with the number of points, and the rest, which is between bags, does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..bags import Bags, as_bags, concat
from ..compute.arrays import Array
from ..compute.checks import check_number, pandas_for
from ..kernels.comparisons import Comparison
from ..sizes import split_halves
from .factors import gower
from .permutations import Seed, make_generator
from .point_statistics import name_of, refuse_categories, to_cube

_N_DRAWS = 4000
_WANTED = 0.8


@dataclass(frozen=True, eq=False, repr=False)
class PowerResult:
    """Answer of :func:`groups_power`; prints as a table.

    Attributes
    ----------
    n_bags : tuple of int
        Bags of each group.
    points : tuple of float
        How many times as many points per bag as in the pilot.
    power : ndarray of shape (len(n_bags), len(points))
        Chance of a p-value of at most ``alpha``.
    difference : float
        Squared length of the difference of the pilot, in units of the variance between its bags; 0 if there is no sign
        of one.
    noise : float
        Share of the variance between bags of the pilot that is the noise of few points.
    alpha : float
    divergence : str

    Examples
    --------
    >>> from distembed.two_sample import groups_power
    >>> rng = np.random.default_rng(0)
    >>> x, y = ([rng.normal(rng.normal(m, 1), 1, size=20) for _ in range(15)] for m in (0, 1))
    >>> found = groups_power(x, y, n_bags=[10, 40], random_state=0)
    >>> bool(found.power[0, 0] < found.power[1, 0]), found.to_frame().shape
    (True, (2, 1))
    """

    n_bags: tuple[int, ...]
    points: tuple[float, ...]
    power: Array
    difference: float
    noise: float
    alpha: float
    divergence: str = field(default="mmd")

    def needed(self, power: float = _WANTED, points: float = 1.0) -> int | None:
        """The least number of bags of each group, of those that were asked, with this power; None if none has it."""
        column = self.power[:, self.points.index(points)]
        enough = [n for n, each in zip(self.n_bags, column, strict=True) if each >= power]
        return min(enough, default=None)

    def to_frame(self) -> Any:
        """A pandas data frame of the power, bags by points."""
        pandas = pandas_for("PowerResult.to_frame")
        return pandas.DataFrame(self.power, index=list(self.n_bags), columns=list(self.points))

    def __repr__(self) -> str:
        head = "bags per group  " + "  ".join(f"points x {each:g}" for each in self.points)
        rows = [
            f"{n:14}  " + "  ".join(f"{each:>{9 + len(f'{p:g}')}.2f}" for each, p in zip(row, self.points, strict=True))
            for n, row in zip(self.n_bags, self.power, strict=True)
        ]
        return "\n".join([f"power at {self.alpha:g}, {self.divergence}", head, *rows])


def groups_power(
    X: Any,
    Y: Any,
    divergence: Any = "mmd",
    *,
    n_bags: Sequence[int] = (5, 10, 20, 40, 80, 160),
    points: Sequence[float] = (1.0,),
    difference: float = 1.0,
    alpha: float = 0.05,
    random_state: Seed = None,
) -> PowerResult:
    """The power of :func:`groups_test` in a study of other sizes, from a pilot.

    Parameters
    ----------
    X, Y : Bags or anything that :func:`distembed.as_bags` reads
        The groups of the pilot, of at least four bags each, of at least two points.
    divergence : str or embedding, default="mmd"
        As in :func:`bags_test`.
    n_bags : sequence of int, default=(5, 10, 20, 40, 80, 160)
        Bags of each group.
    points : sequence of float, default=(1.0,)
        How many times as many points per bag as in the pilot.
    difference : float, default=1.0
        How many times as large a difference as that of the pilot.
    alpha : float, default=0.05
        Level of the test.
    random_state : int, RandomState or None, default=None
        Of draws.

    Returns
    -------
    PowerResult

    Notes
    -----
    *A pilot is uncertain.* Its difference is estimated, and a pilot that happened to show a large one promises too
    much: look at ``difference=0.5`` as well. If the pilot shows no sign of a difference, the power is ``alpha``.

    *Cost.* The divergences of all bags, and of their halves, and 4,000 draws for each number of bags.

    Examples
    --------
    >>> from distembed.two_sample import groups_power
    >>> rng = np.random.default_rng(0)
    >>> controls, patients = ([rng.normal(rng.normal(m, 1), 1, size=20) for _ in range(15)] for m in (0, 1))
    >>> found = groups_power(patients, controls, n_bags=[5, 10, 20, 40], points=[1, 4], random_state=0)
    >>> bool(found.noise < 0.2), found.needed() in (20, 40)
    (True, True)
    """
    owner = "groups_power"
    alpha = check_number(owner, "alpha", alpha, low=0, high=1)
    difference = check_number(owner, "difference", difference, low=0)
    numbers = [check_number(owner, "n_bags", n, low=2, integer=True) for n in n_bags]
    times = [check_number(owner, "points", each, low=0, inclusive="right") for each in points]
    groups = [as_bags(each).drop_weightless().astype(np.float64) for each in (X, Y)]
    for name, group in zip("XY", groups, strict=True):
        if group.n_bags < 4 or group.sizes.min() < 2:
            raise ValueError(
                f"{owner}({name}=...): must be at least 4 bags of at least 2 points, got {group.n_bags} bags, the "
                f"smallest of {group.sizes.min()}; leave out single points, or add bags to the pilot"
            )
    rng = make_generator(random_state)
    pilot = _pilot(owner, divergence, groups)
    joined = concat([each.replace(ids=None) for each in groups])
    halves = split_halves(joined, np.random.RandomState(0))[0]
    first = groups[0].n_bags
    fewer = float(np.mean(1 / halves.sizes) / np.mean(1 / joined.sizes))
    of_halves = _pilot(owner, divergence, [halves[:first], halves[first:]])
    noise = float(np.clip((of_halves.trace - pilot.trace) / max((fewer - 1) * pilot.trace, 1e-300), 0, 1))
    power = np.array(
        [[pilot.power(n, 1 - noise + noise / each, difference, alpha, rng) for each in times] for n in numbers]
    )
    length = float(np.sum(pilot.shifts**2) + pilot.left) / max(pilot.trace, 1e-300)
    return PowerResult(tuple(numbers), tuple(times), power, length, noise, alpha, name_of(divergence))


@dataclass(frozen=True, eq=False)
class _Pilot:
    """Variances inside of groups along principal directions, and the difference of the means along these."""

    variances: Array
    shifts: Array
    left: float  # squared length of the difference in directions in which bags do not vary
    trace: float

    def power(self, n: int, share: float, difference: float, alpha: float, rng: np.random.Generator) -> float:
        """Chance that the statistic is above the level of one without a difference."""
        spread = np.sqrt(self.variances * share * 2 / n)
        noise = spread * rng.normal(size=(_N_DRAWS, len(spread)))
        other = spread * rng.normal(size=(_N_DRAWS, len(spread)))
        # bags of both groups together vary by the difference, too, and so do permutations
        between = difference**2 * (self.shifts**2) / max(2 * n - 1, 1)
        null = np.sum(noise**2 * (1 + between / np.maximum(spread**2, 1e-300)), axis=1)
        found = np.sum((difference * self.shifts + other) ** 2, axis=1) + difference**2 * self.left
        return float(np.mean(found > np.quantile(null, 1 - alpha)))


def _pilot(owner: str, divergence: Any, groups: list[Bags]) -> _Pilot:
    joined = concat([each.replace(ids=None) for each in groups])
    refuse_categories(owner, divergence, joined)
    bags = to_cube(divergence, joined)
    compare = Comparison(divergence, bags, owner)
    gram = gower(compare.both_ways(compare.look_at(bags)))
    n, m = groups[0].n_bags, groups[1].n_bags
    is_first = np.arange(n + m) < n
    inside = np.eye(n + m)
    for rows in (is_first, ~is_first):
        inside -= np.outer(rows, rows) / rows.sum()
    values, vectors = np.linalg.eigh(inside @ gram @ inside)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    values, vectors = values[kept], vectors[:, kept]
    contrast = np.where(is_first, 1 / n, -1 / m)
    shifts = (contrast @ gram @ inside @ vectors) / np.sqrt(values)
    whole = max(float(contrast @ gram @ contrast), 0.0)
    variances = values / (n + m - 2)
    trace = float(variances.sum())
    left = max(whole - float(np.sum(shifts**2)), 0.0)
    unbiased = max(whole - trace * (1 / n + 1 / m), 0.0)
    # the noise of the pilot's means lies along the directions in which bags vary
    shrunk = shifts**2 * max(unbiased - left, 0.0) / max(float(np.sum(shifts**2)), 1e-300)
    return _Pilot(variances, np.sqrt(shrunk), min(left, unbiased), trace)
