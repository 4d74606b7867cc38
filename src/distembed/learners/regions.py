"""Where in space mass makes a prediction what it is: a few regions with rules on columns.

A small regression tree divides the points of the explained bags by their values, see
:mod:`distembed.learners.point_values`; every bag has the same mass. Its leaves are the regions. The effect of a region
on the prediction for a bag is the sum of the values of the points in it, each times its share of the bag: to first
order, what the prediction owes to the mass that lies there. Effects of all regions add up to zero, as the values do.

*Cost*: a tree of six leaves on at most 20,000 points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array

MOST_LEAVES = 6
LEAST_MASS = 0.01  # of all bags, in a region
LEAST_GAIN = 0.01  # of the variance of values, that a cut explains
MOST_POINTS = 20_000  # that a tree is grown on


class Region(NamedTuple):
    """A region, and what it is to one bag.

    Attributes
    ----------
    rule : str
        Such as ``"age > 60 and sex = f"``; ``"everywhere"`` where there is one region alone.
    share : float
        Of the mass of the bag.
    training_share : float
        Of the mass of the training bags that the model keeps, on average.
    effect : float
        Sum of the values of the points in it, times their shares.
    """

    rule: str
    share: float
    training_share: float
    effect: float


class _Design(NamedTuple):
    """Points as a tree takes them: continuous columns, and one of 0 and 1 for each label."""

    columns: list[tuple[int, float | None, str]]  # position, code of a label, name

    @classmethod
    def of(cls, bags: Bags) -> _Design:
        names = bags.named_parts().columns or ()
        found: list[tuple[int, float | None, str]] = []
        for j, name in enumerate(names):
            labels = (bags.categories or {}).get(j)
            if labels is None:
                found.append((j, None, name))
            else:
                found += [(j, float(code), f"{name} = {label}") for code, label in enumerate(labels)]
        return cls(found)

    def __call__(self, points: Array) -> Array:
        return np.column_stack([points[:, j] if code is None else points[:, j] == code for j, code, _ in self.columns])


def find_regions(
    bags: Bags, values: Array, shares: Array, outputs: Array, training: Bags | None
) -> tuple[list[list[Region]], Array]:
    """Regions of each bag, the most important first, and which of them each point lies in.

    Parameters
    ----------
    bags : Bags
        Explained.
    values : ndarray of shape (n_points,)
        Of points.
    shares : ndarray of shape (n_points,)
        Of points in their bags.
    outputs : ndarray of int of shape (n_bags,)
        Which output is explained: bags of different ones have different regions.
    training : Bags, optional
        Training bags.

    Returns
    -------
    regions : list of list of Region
        By size of the effect times the mass outside of the region, which is less for a part than for what surrounds it.
    places : ndarray of int of shape (n_points,)
        Of each point, the position of its region among those of its bag; -1 for a value that is not finite.

    Examples
    --------
    >>> bags = Bags.from_arrays([np.linspace(0, 1, 101)])
    >>> values = (bags.points[:, 0] > 0.9) - 0.1
    >>> found, places = find_regions(bags, values, np.full(101, 1 / 101), np.zeros(1, int), None)
    >>> found[0][0].rule, round(found[0][0].share, 2)
    ('x0 > 0.905', 0.1)
    >>> np.flatnonzero(places == 0)
    array([ 91,  92,  93,  94,  95,  96,  97,  98,  99, 100])
    """
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
    design = _Design.of(bags)
    found: list[list[Region]] = [[] for _ in range(bags.n_bags)]
    places = np.full(bags.n_points, -1)
    known = None
    if training is not None:
        known = training.shares()
        known = np.repeat(1 / training.sizes, training.sizes) if known is None else known
    for k in np.unique(outputs):
        rows = np.flatnonzero((outputs[owner] == k) & np.isfinite(values))
        tree, leaves = _grow(design(bags.points[rows]), values[rows], shares[rows])
        rules = _rules(tree, design) if tree is not None else {0: "everywhere"}
        place = {leaf: i for i, leaf in enumerate(rules)}
        own = np.array([place[leaf] for leaf in leaves.tolist()], np.intp)
        at = owner[rows] * len(rules) + own
        shape = (bags.n_bags, len(rules))
        mass = np.bincount(at, shares[rows], bags.n_bags * len(rules)).reshape(shape)
        effect = np.bincount(at, shares[rows] * values[rows], bags.n_bags * len(rules)).reshape(shape)
        usual = np.full(len(rules), np.nan)
        if training is not None and known is not None:
            theirs = np.zeros(training.n_points) if tree is None else tree.apply(_single(design(training.points)))
            usual = np.bincount([place[leaf] for leaf in theirs.astype(int).tolist()], known, len(rules))
            usual = usual / training.n_bags
        texts = list(rules.values())
        ranks = np.zeros(shape, np.intp)
        for i in np.flatnonzero(outputs == k):
            order = np.argsort(-np.abs(effect[i]) * (1 - mass[i]), kind="stable")
            found[i] = [Region(texts[r], float(mass[i, r]), float(usual[r]), float(effect[i, r])) for r in order]
            ranks[i, order] = np.arange(len(order))
        places[rows] = ranks[owner[rows], own]
    return found, places


def _single(x: Array) -> Array:
    """As scikit-learn's trees see numbers: those beyond the range of float32 are at its ends."""
    most = np.finfo(np.float32).max
    return np.clip(np.asarray(x, np.float64), -most, most).astype(np.float32)


def _grow(x: Array, values: Array, shares: Array) -> tuple[Any, Array]:
    """A tree, and the leaf of each point; None where there is nothing to divide."""
    from sklearn.tree import DecisionTreeRegressor  # slow to import

    spread = float(np.ptp(values)) if len(values) else 0.0
    if not spread > 1e-9 * float(np.abs(values).max(initial=0.0)) or not shares.sum() > 0:
        return None, np.zeros(len(values), int)
    x = _single(x)
    some = np.arange(len(x))[:: -(-len(x) // MOST_POINTS)]
    scaled = values[some] / spread
    variance = np.average((scaled - np.average(scaled, weights=shares[some])) ** 2, weights=shares[some])
    tree = DecisionTreeRegressor(
        max_leaf_nodes=MOST_LEAVES,
        min_weight_fraction_leaf=LEAST_MASS,
        min_impurity_decrease=LEAST_GAIN * variance,
        random_state=0,
    ).fit(x[some], scaled, sample_weight=shares[some])
    return tree, np.asarray(tree.apply(x))


def _rules(tree: Any, design: _Design) -> dict[int, str]:
    """What points of each leaf have in common."""
    found: dict[int, str] = {}
    nodes = tree.tree_

    def walk(node: int, low: dict[int, float], high: dict[int, float]) -> None:
        j = int(nodes.feature[node])
        if nodes.children_left[node] < 0:
            found[node] = _text(low, high, design)
            return
        cut = float(nodes.threshold[node])
        walk(int(nodes.children_left[node]), low, high | {j: cut})
        walk(int(nodes.children_right[node]), low | {j: cut}, high)

    walk(0, {}, {})
    return found


def _text(low: dict[int, float], high: dict[int, float], design: _Design) -> str:
    parts = []
    excluded: dict[int, list[str]] = {}
    said = {design.columns[j][0] for j in low if design.columns[j][1] is not None}
    for j in sorted({*low, *high}):
        position, code, name = design.columns[j]
        if code is not None:
            if j in low:
                parts.append(name)
            elif position not in said:
                excluded.setdefault(position, []).append(name)
        elif j in low and j in high:
            parts.append(f"{low[j]:.4g} < {name} <= {high[j]:.4g}")
        else:
            parts.append(f"{name} > {low[j]:.4g}" if j in low else f"{name} <= {high[j]:.4g}")
    for names in excluded.values():
        parts += [name.replace(" = ", " is not ", 1) for name in names]
    return " and ".join(parts) or "everywhere"
