"""Which bags and points rules look at: not by their order."""

import numpy as np
import pytest

from distembed import Bags, HDDEmbedding
from distembed.density import bandwidth, subsets
from distembed.density.subsets import Draws


def reflect(n_dims):
    return ["reflect"] * n_dims


SIZES = {
    "equal": lambda rng, n: np.full(n, 25),
    "unequal": lambda rng, n: rng.integers(1, 60, n),
    "few huge": lambda rng, n: np.where(np.arange(n) % 40 == 3, 1500, rng.integers(4, 20, n)),
}


def bags_of_sizes(kind, n_dims, n_bags=120, seed=0):
    """Bags of as many widths as bags: which of them are looked at shows."""
    rng = np.random.default_rng(seed)
    widths = np.exp(rng.normal(np.log(0.06), 0.6, n_bags))
    sizes = SIZES[kind](rng, n_bags)
    return [np.clip(rng.normal(0.5, w, size=(n, n_dims)), 0, 1) for n, w in zip(sizes, widths, strict=True)]


def other_orders(arrays, n_orders=3, weights=None):
    """The same bags in other orders, and their points too."""
    for seed in range(n_orders):
        rng = np.random.default_rng(seed)
        order, rows = rng.permutation(len(arrays)), [rng.permutation(len(points)) for points in arrays]
        own = None if weights is None else [weights[i][rows[i]] for i in order]
        yield Bags.from_arrays([arrays[i][rows[i]] for i in order], weights=own)


def contents(bags):
    """Bags as sorted tuples, to compare whatever the order of their points."""
    weights = bags.shares()
    table = bags.points if weights is None else np.c_[bags.points, np.round(weights, 9)]
    return [sorted(map(tuple, part.tolist())) for part in np.split(table, bags.offsets[1:-1])]


@pytest.mark.parametrize(
    ("rule", "n_dims", "kind", "n_orders"),
    [
        *((rule, 1, "unequal", 2 if rule == "isj" else 4) for rule in bandwidth.RULES),
        *(("scott", 3, kind, 4) for kind in SIZES),
        *(("distance", 2, kind, 1) for kind in ("equal", "few huge")),
        *((rule, 4, "unequal", 1) for rule in ("distance", "greedy")),
    ],
)
def test_order_does_not_matter(rule, n_dims, kind, n_orders):
    arrays = bags_of_sizes(kind, n_dims)
    want = bandwidth.resolve(rule, Bags.from_arrays(arrays), reflect(n_dims))
    for bags in other_orders(arrays, n_orders):
        np.testing.assert_allclose(bandwidth.resolve(rule, bags, reflect(n_dims)), want, rtol=1e-6)


@pytest.mark.parametrize("margins", [False, True])
def test_order_does_not_matter_with_weights_and_by_margins(margins):
    arrays = bags_of_sizes("unequal", 2)
    weights = [np.random.default_rng(i).exponential(size=len(points)) for i, points in enumerate(arrays)]
    want = bandwidth.resolve("distance", Bags.from_arrays(arrays, weights=weights), reflect(2), margins=margins)
    for bags in other_orders(arrays, 1, weights):
        found = bandwidth.resolve("distance", bags, reflect(2), margins=margins)
        np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize(("rule", "n_dims"), [("likelihood", 1), ("distance", 2), ("distance", 4), ("greedy", 4)])
def test_order_does_not_matter_for_few_bags_of_many_points(rule, n_dims):
    def found(bags):
        draws = Draws(np.random.RandomState(0), evaluated=40, kernels=60, pairs=50)
        return bandwidth.RULES[rule](bags, reflect(n_dims), draws)

    rng = np.random.default_rng(0)
    shapes = zip((30, 90, 200, 90), (0.05, 0.1, 0.15, 0.2), strict=True)
    arrays = [np.clip(rng.normal(0.5, width, (n, n_dims)), 0, 1) for n, width in shapes]
    want = found(Bags.from_arrays(arrays))
    for bags in other_orders(arrays, 2):
        np.testing.assert_allclose(found(bags), want, rtol=1e-6)


def test_order_does_not_matter_to_an_embedding():
    arrays = bags_of_sizes("unequal", 2)
    want = HDDEmbedding("hellinger").fit(Bags.from_arrays(arrays))
    for bags in other_orders(arrays, 1):
        found = HDDEmbedding("hellinger").fit(bags)
        np.testing.assert_allclose(found.bandwidth_, want.bandwidth_, rtol=1e-6)
        assert found.energy_ == pytest.approx(want.energy_, rel=1e-6)


def ties(kind, seed=0):
    """Bags many of which agree in size and mean."""
    rng = np.random.default_rng(seed)
    if kind == "lattice":
        return list(rng.integers(0, 3, size=(300, 6, 2)) / 2)
    if kind == "float32 lattice":
        return list((rng.integers(0, 4, size=(300, 7, 2)) / 255).astype(np.float32))
    if kind == "centred":
        points = rng.uniform(-0.3, 0.3, size=(300, 9, 2))
        return list(0.5 + points - points.mean(axis=1, keepdims=True))
    if kind == "mirrored":  # equal sums over coordinates, and equal coordinates
        half = rng.uniform(size=(150, 5, 2))
        return [*half, *half[:, :, ::-1]]
    return list(np.repeat(rng.uniform(size=(10, 4, 2)), 30, axis=0))  # copies


@pytest.mark.parametrize("kind", ["lattice", "float32 lattice", "centred", "mirrored", "copies"])
@pytest.mark.parametrize("limit", [1, 7, 32])
def test_ties_do_not_bring_the_order_back(kind, limit):
    arrays = ties(kind)
    want = contents(bandwidth.spaced(Bags.from_arrays(arrays), limit))
    assert len(want) == limit
    for bags in other_orders(arrays, 4):
        assert contents(bandwidth.spaced(bags, limit)) == want


def test_the_bags_looked_at_are_those_at_evenly_spaced_places_of_a_sorted_list():
    arrays = bags_of_sizes("unequal", 3, 500)
    ranked = sorted(arrays, key=lambda points: (len(points), points.mean()))
    want = [ranked[int((i + 0.5) * 500 / 32)] for i in range(32)]
    assert contents(bandwidth.spaced(Bags.from_arrays(arrays))) == contents(Bags.from_arrays(want))


@pytest.mark.parametrize("kind", [*SIZES, "lattice", "centred"])
def test_the_same_bags_are_looked_at_however_they_are_written(kind):
    arrays = bags_of_sizes(kind, 2, 300) if kind in SIZES else ties(kind)
    plain, rng = Bags.from_arrays(arrays, ids=np.arange(300)), np.random.default_rng(0)

    def looked_at(bags):
        return contents(plain[bandwidth.spaced(bags).ids])

    want = looked_at(plain)
    for scale in (np.ones(300), np.full(300, 7.0), np.exp(rng.normal(size=300))):
        weighted = plain.replace(weights=np.repeat(scale, plain.sizes))
        assert looked_at(weighted) == want
    ghosts = [np.r_[points, rng.uniform(size=(3, 2))] for points in arrays]
    presence = [np.r_[np.ones(len(points)), np.zeros(3)] for points in arrays]
    assert looked_at(Bags.from_arrays(ghosts, presence, ids=plain.ids)) == want
    assert looked_at(plain.astype(np.float32)) == want


@pytest.mark.parametrize("limit", [5, 32])
def test_no_more_bags_than_the_limit_are_left_as_they_are(limit):
    bags = Bags.from_arrays(bags_of_sizes("unequal", 2, limit))
    assert bandwidth.spaced(bags, limit) is bags
    assert bandwidth.spaced(bags[:3], limit).n_bags == 3


@pytest.mark.parametrize(("rule", "n_dims"), [("scott", 1), ("scott", 2), ("distance", 1)])
def test_few_bags_stand_for_three_thousand_of_two_sizes(rule, n_dims):
    rng = np.random.default_rng(0)
    # In an order in which a look at evenly spaced positions finds large bags alone.
    large = np.isin(np.arange(3000), np.linspace(0, 2999, 32).round().astype(int)) | (rng.uniform(size=3000) < 0.2)
    widths = rng.uniform(0.09, 0.12, 3000)
    bags = Bags.from_arrays(
        [np.clip(rng.normal(0.5, w, (n, n_dims)), 0, 1) for n, w in zip(np.where(large, 300, 10), widths, strict=True)]
    )
    few = bandwidth.spaced(bags)
    assert abs(np.mean(few.sizes == 300) - large.mean()) <= 1 / 32
    draws = Draws(np.random.RandomState(0))
    everything = bandwidth.RULES[rule](bags, reflect(n_dims), draws)
    found = bandwidth.resolve(rule, bags, reflect(n_dims))
    np.testing.assert_allclose(found, everything, rtol=0.1)
    alone = bandwidth.RULES[rule](few[few.sizes == 300], reflect(n_dims), draws)
    assert np.all(alone < 0.8 * everything)


def test_draws_are_random_subsets_and_all_points_of_small_bags():
    bags = Bags.from_arrays([np.random.default_rng(i).uniform(size=(n, 2)) for i, n in enumerate((5, 400, 20, 400))])
    found = Draws(np.random.RandomState(0)).rows(bags, 20)
    assert [len(np.unique(rows)) for rows in found] == [5, 20, 20, 20]
    for rows, low, high in zip(found, bags.offsets, bags.offsets[1:], strict=False):
        assert low <= rows.min() <= rows.max() < high
    others = Draws(np.random.RandomState(1)).rows(bags, 20)
    assert set(found[1].tolist()) != set(others[1].tolist())
    # Not at regular steps along the line: the gaps of random ranks vary as exponential ones do. Nor at the same ranks.
    first, second = (
        np.sort(np.argsort(np.argsort(subsets.on_a_line(bags[i])))[found[i] - bags.offsets[i]]) for i in (1, 3)
    )
    assert np.std(np.diff(first)) > 0.5 * np.mean(np.diff(first))
    assert len(np.intersect1d(first, second)) < 10


def many_columns(n_bags=40, seed=0, weights=False, dtype=float):
    """Columns of all kinds: wide, narrow (those are stretched), at a face, with copies, constant."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, n_bags)
    offsets = np.append(0, np.cumsum(sizes))
    n = offsets[-1]
    kinds = [
        rng.uniform(size=n), rng.normal(0.5, 0.02, n), rng.beta(0.5, 3, n), rng.integers(0, 5, n) / 4, np.full(n, 0.3),
        rng.normal(0.7, 1e-4, n), np.round(rng.uniform(size=n), 2),
        rng.integers(0, 2, n) * 0.5 + rng.normal(0.25, 0.05, n),
    ]  # fmt: skip
    points = np.clip(np.column_stack(kinds), 0, 1).astype(dtype)
    return Bags(points, offsets, weights=rng.exponential(size=n) if weights else None)


def columns_of(bags):
    return [bags.replace(points=bags.points[:, [j]].copy()) for j in range(bags.n_dims)]


def test_bags_in_order_are_those_that_partitions_find():
    for column in columns_of(many_columns(n_bags=200)):
        few = subsets.spaced(column)
        want = subsets.spaced(column, sort_up_to=0)
        np.testing.assert_array_equal(few.sizes, want.sizes)
        assert [sorted(p.ravel()) for p in few] == [sorted(p.ravel()) for p in want]
