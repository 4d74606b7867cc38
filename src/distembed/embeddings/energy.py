r"""What a basis captures of the differences between bags, and what it misses of them beyond noise.

With ψ_i the functions of bag i, ψ̄ their mean over bags, and P the projection onto the basis,

.. math:: \frac{\sum_i \|P(ψ_i - ψ̄)\|^2}{\sum_i \|ψ_i - ψ̄\|^2}

is the captured share of the mean squared distance between bags: a mean over all pairs is twice that around the mean.
What all bags have in common is in no distance, and does not count.

Distances of estimates hold the noise of their points, which spreads over all frequencies; to miss that part is not a
loss. It differs between two halves of a bag, and what is real does not: Σ_i ⟨ψ_i' - ψ̄', ψ_i'' - ψ̄''⟩ over functions of
first and second halves has no noise in its mean. This without its captured part, as a share of Σ_i ‖ψ_i - ψ̄‖², is the
lost signal. So 1 = energy + lost signal + noise that the basis leaves out.

Cost: three times the densities and projections of at most 32 bags.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..bags import Bags
from ..compute.arrays import Array, Scratch
from ..compute.parallel import bag_chunks
from ..density.subsets import nonlinear_means, on_a_line
from .category_cells import Split
from .stages import DensityStages, NumPyEngine

MOST_CELLS = 50  # of categorical columns, that hold most points: others are not looked at
_NOTHING = 1e-20  # of squared functions: differences below are rounding


class Seen(NamedTuple):
    """What basis and nodes see of bags.

    Parameters
    ----------
    energy : float
        Captured share of squared distances between the bags; 1 where they don't differ.
    lost_signal, chance : float
        Share of squared distances that the basis misses although it is not noise, and what of it may be chance: a
        one-sided test at the level of 5 % over bags. Two bags have no error to test by, and a chance of 0.
    masses, seeing : ndarray of shape (n_bags,)
        Mass of the densities on the nodes, and how many nodes see them.
    """

    energy: float
    lost_signal: float
    chance: float
    masses: Array
    seeing: Array


class Comoment:
    """Σ_i ⟨x_i - x̄, y_i - ȳ⟩ over rows x_i and y_i that come in chunks.

    Examples
    --------
    >>> found = Comoment()
    >>> for rows in np.array([[[0.0], [1.0]], [[2.0], [5.0]]]):
    ...     found.add(rows, 2 * rows)
    >>> found.value
    28.0
    """

    def __init__(self) -> None:
        self.value = 0.0
        self.terms: list[Array] = []  # of each row, around the means of its chunk
        self._n = 0
        self._mean_x: Array = np.zeros(1)
        self._mean_y: Array = np.zeros(1)

    def add(self, x: Array, y: Array) -> None:
        """Add rows of shape (n, n_values) each."""
        n = len(x)
        mean_x = x.mean(axis=0)
        mean_y = y.mean(axis=0)
        terms = np.einsum("ij,ij->i", x - mean_x, y - mean_y)
        self.terms.append(terms)
        self.value += float(terms.sum())
        step_x = mean_x - self._mean_x
        step_y = mean_y - self._mean_y
        self.value += float(np.sum(step_x * step_y)) * self._n * n / (self._n + n)
        self._n += n
        self._mean_x = self._mean_x + step_x * (n / self._n)
        self._mean_y = self._mean_y + step_y * (n / self._n)


def look_at(stages: DensityStages, bags: Bags, *, halve: bool) -> Seen:
    """What basis and nodes see of bags.

    Parameters
    ----------
    stages : DensityStages
        With a density.
    bags : Bags
        A few bags, in the unit cube, of float64, without points of weight zero.
    halve : bool
        Whether halves of bags tell noise from signal; else all that the basis misses counts as signal.

    Returns
    -------
    Seen

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.as_bags(np.random.default_rng(0).beta(2, [[[1]], [[2]], [[9]]], size=(3, 100, 1)))
    >>> stages = de.HDDEmbedding("hellinger", n_basis=4, bandwidth=0.05).fit(bags).stages_
    >>> found = look_at(stages, bags, halve=True)
    >>> round(found.energy, 2), round(found.lost_signal, 2)
    (0.98, 0.01)
    """
    engine = NumPyEngine(stages, np.dtype(float))
    splits = [_split(stages, each) for each in (bags, *(split_in_two(bags) if halve else ()))]
    chunks = bag_chunks(bags.n_bags, len(splits) * stages.bytes_per_bag(np.dtype(float)))
    totals = np.zeros(4)
    missed = np.zeros(bags.n_bags)
    size = 0.0
    seen = []
    for cell in _largest_cells(splits[0]):
        moments = [Comoment() for _ in totals]
        for rows in chunks:
            parts = [_CellRows.of(engine, split, cell, rows) for split in splits]
            whole = parts[0]
            first, second = parts[-2:] if halve else (whole, whole)
            pairs = [(whole.functions, whole.functions), (whole.features, whole.features)]
            pairs += [(first.functions, second.functions), (first.features, second.features)]
            for moment, (x, y) in zip(moments, pairs, strict=True):
                moment.add(x, y)
            size += float(np.vdot(whole.functions, whole.functions))
            seen.append(whole.seen)
        totals += [moment.value for moment in moments]
        missed += np.concatenate(moments[2].terms) - np.concatenate(moments[3].terms)
    present, captured, agreed, agreed_captured = totals.tolist()
    owner, share, masses, seeing = np.concatenate(seen, axis=1)
    of_bags = _means_over_cells(owner.astype(int), share, np.stack([masses, seeing]))
    if present <= _NOTHING * size:
        return Seen(1.0, 0.0, 0.0, *of_bags)
    lost = max(0.0, (agreed - agreed_captured) / present)
    return Seen(captured / present, lost, _chance(missed) / present, *of_bags)


def _chance(terms: Array) -> float:
    """What a sum of terms exceeds by chance once in twenty times, if their mean is zero."""
    return float(stdtrit(len(terms) - 1, 0.95) * np.sqrt(len(terms)) * terms.std(ddof=1)) if len(terms) > 2 else 0.0


def _means_over_cells(owner: Array, share: Array, values: Array) -> Array:
    """Values of parts of shape (n_values, n_parts), averaged over the parts of a bag: shape (n_values, n_bags)."""
    held = np.bincount(owner, share)
    sums = np.stack([np.bincount(owner, share * each) for each in values])
    return np.asarray(sums[:, held > 0] / held[held > 0])


def split_in_two(bags: Bags) -> tuple[Bags, Bags]:
    """Two disjoint random halves of the points of each bag: the same ones in whichever order bags and points are given.

    A bag of one point is both of its halves; an odd point is in neither.

    Examples
    --------
    >>> first, second = split_in_two(Bags.from_arrays([[0.1, 0.2, 0.3, 0.4]]))
    >>> sorted(np.concatenate([first.points, second.points]).ravel().tolist())
    [0.1, 0.2, 0.3, 0.4]
    """
    rng = np.random.RandomState(0)
    firsts: dict[int, Array] = {}
    seconds: dict[int, Array] = {}
    for i in np.lexsort((nonlinear_means(bags), bags.sizes)).tolist():
        # Other ranks in each bag: halves of the same ranks would be alike.
        order = bags.offsets[i] + np.argsort(on_a_line(bags[i]), kind="stable")[rng.permutation(len(bags[i]))]
        half = max(1, len(order) // 2)
        firsts[i] = order[:half]
        seconds[i] = order[-half:]
    return _take(bags, firsts), _take(bags, seconds)


def _take(bags: Bags, rows: dict[int, Array]) -> Bags:
    """The bags with some of their points."""
    each = [rows[i] for i in range(bags.n_bags)]
    kept = np.concatenate(each)
    weights = None if bags.weights is None else bags.weights[kept]
    offsets = np.append(0, np.cumsum([len(own) for own in each]))
    return bags.replace(points=bags.points[kept], offsets=offsets, weights=weights)


def _split(stages: DensityStages, bags: Bags) -> Split:
    """Parts of bags in cells; without categorical columns the bags themselves, in one cell."""
    if stages.cells is not None:
        return stages.cells.split(bags)
    each = np.arange(bags.n_bags)
    return Split(bags, each, np.zeros_like(each), np.ones(bags.n_bags))


def _largest_cells(split: Split) -> list[int]:
    """The cells that hold most of the bags."""
    held = np.bincount(split.cell, split.share)
    return [int(cell) for cell in np.argsort(-held, kind="stable")[:MOST_CELLS] if held[cell] > 0]


class _CellRows(NamedTuple):
    """Functions and features of some bags in a cell, zeros for bags without a point in it; and what nodes see of them.

    ``seen`` has a column for each bag that has points there: the bag, its share, and mass and number of nodes of its
    density.
    """

    functions: Array
    features: Array
    seen: Array

    @classmethod
    def of(cls, engine: NumPyEngine, split: Split, cell: int, rows: slice) -> _CellRows:
        """Those of the bags at these rows."""
        chosen = np.flatnonzero((split.cell == cell) & (split.owner >= rows.start) & (split.owner < rows.stop))
        n_bags = rows.stop - rows.start
        n_functions = engine.stages.functions.n_functions
        functions = np.zeros((n_bags, n_functions * engine.stages.nodes.n_nodes))
        features = np.zeros((n_bags, n_functions * len(engine.stages.indices)))
        if not len(chosen):
            return cls(functions, features, np.zeros((4, 0)))
        share = split.share[chosen]
        at = split.owner[chosen] - rows.start
        functions[at], features[at], masses, seeing = engine.look_at(split.parts[chosen], share, Scratch())
        return cls(functions, features, np.array([split.owner[chosen], share, masses, seeing]))
