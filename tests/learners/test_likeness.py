"""Whether bags are like the training bags: p-values, the columns that differ, and the group."""

import numpy as np
import pytest

import distembed as de
from distembed.learners.compact_rows import CompactRows
from distembed.learners.likeness import Reference

COLUMNS = ["u", "v", "w"]


def usual(n, seed, sizes=(5, 20, 80)):
    """Bags whose means and spreads differ a little."""
    rng = np.random.default_rng(seed)
    shape = (3,)
    return [
        rng.normal(0.3 * rng.normal(size=shape), np.exp(0.2 * rng.normal(size=shape)), size=(rng.choice(sizes), 3))
        for _ in range(n)
    ]


def reference(bags, **more):
    return Reference.learn(de.Bags.from_arrays(bags, columns=COLUMNS), **more)[0]


def lumps(bags, seed=9):
    """The same bags with two lumps in the second column, with equal mean and spread."""
    rng = np.random.default_rng(seed)
    changed = [bag.copy() for bag in bags]
    for bag in changed:
        x = bag[:, 1]
        sides = rng.permutation(np.resize([-1.0, 1.0], len(x)))
        bag[:, 1] = x.mean() + x.std() * (0.95 * sides + np.sqrt(1 - 0.95**2) * rng.normal(size=len(x)))
    return changed


def test_means_of_functions_are_those_of_the_definition():
    bags = de.Bags.from_arrays(usual(20, 0), weights=None, columns=COLUMNS)
    rows, means, inside, sizes = CompactRows.learn(bags)
    for i in (0, 7):
        x = bags[i]
        values = np.hstack([bins.table[bins.find(x[:, j])] for j, bins in enumerate(rows.columns)])
        first = np.stack([bins.table[bins.find(x[:, j]), 0] for j, bins in enumerate(rows.columns)], axis=1)
        values = np.hstack([values, *(first[:, [j]] * first[:, [k]] for j, k in rows.pairs)])
        np.testing.assert_allclose(means[i], values.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(inside[i], values.var(axis=0), atol=1e-12)
        assert sizes[i] == pytest.approx(len(x))


def test_weights_count_as_copies():
    bags = usual(30, 0)
    rng = np.random.default_rng(0)
    times = [rng.integers(0, 3, len(bag)) + (np.arange(len(bag)) == 0) for bag in bags]
    weighted = de.Bags.from_arrays(bags, weights=times)
    copies = de.Bags.from_arrays([np.repeat(bag, n, axis=0) for bag, n in zip(bags, times, strict=True)])
    rows = CompactRows.learn(de.as_bags(bags))[0]
    np.testing.assert_allclose(rows.means(weighted)[0], rows.means(copies)[0], atol=1e-12)


def test_held_out_rows_are_those_of_a_law_of_the_other_bags():
    bags = de.as_bags(usual(40, 0, sizes=(30,)))
    rows, means, inside, sizes = CompactRows.learn(bags)
    held = rows.held_out(means, inside, sizes)
    others = np.arange(40) != 3
    a = np.maximum(means[others].var(axis=0, ddof=1) - inside[others].mean(axis=0) / 29, 1e-8)
    wanted = (means[3] - means[others].mean(axis=0)) / np.sqrt(a + inside[others].mean(axis=0) / 29)
    assert np.corrcoef(held[3], wanted)[0, 1] > 0.99


@pytest.mark.parametrize("sizes", [(20,), (40,), (1, 4, 30, 300)])
def test_p_values_of_bags_like_the_training_bags_are_uniform_at_each_size(sizes):
    found = []
    groups = []
    size = []
    for seed in range(12):
        bags = usual(220, seed, sizes)
        likeness = reference(bags[:120]).compare(bags[120:])
        found.append(likeness.pvalues)
        groups.append(likeness.group_pvalue)
        size.append([len(bag) for bag in bags[120:]])
    p = np.concatenate(found)
    assert p.min() >= 1 / 121
    for n in sizes:
        own = p[np.concatenate(size) == n]
        assert own.mean() == pytest.approx(0.5, abs=0.1)
        assert np.mean(own <= 0.1) == pytest.approx(0.1, abs=0.05)
    assert min(groups) > 0.01
    assert np.mean(groups) == pytest.approx(0.5, abs=0.25)


def test_held_out_training_bags_have_uniform_p_values():
    likeness = Reference.learn(usual(200, 0))[1]
    assert np.mean(likeness.pvalues) == pytest.approx(0.5, abs=0.01)
    assert np.isnan(likeness.group_pvalue)
    bags = usual(200, 0)
    bags[17] = bags[17] + np.array([0, 3, 0])
    likeness = Reference.learn(bags)[1]
    assert likeness.pvalues.argmin() == 17
    assert likeness.odd_columns[17] == "x1"


def test_bags_of_other_sizes_are_not_odd_for_it():
    known = reference(usual(150, 0, sizes=(20, 50)))
    for size in (3, 400):
        likeness = known.compare(usual(60, 1, sizes=(size,)))
        assert likeness.group_pvalue > 0.01
        assert likeness.pvalues.mean() > 0.3
        assert known.why_unlike(de.as_bags(usual(60, 1, sizes=(size,)))) == ""


@pytest.mark.parametrize(("change", "column"), [
    (lambda bags: [bag + np.array([0, 0.5, 0]) for bag in bags], "v"),
    (lambda bags: [bag * [1, 1, 3] for bag in bags], "w"),
    (lumps, "v"),
])  # fmt: skip
def test_shifts_are_found_with_their_columns(change, column):
    known = reference(usual(120, 0))
    likeness = known.compare(change(usual(40, 1)))
    assert likeness.group_pvalue <= 0.002
    assert likeness.group_columns[0] == column
    text = known.why_unlike(de.as_bags(change(usual(40, 1))))
    assert "as a group differ" in text
    assert repr(column) in text


def test_columns_that_hang_together_otherwise_are_found():
    mix = np.array([[1, 0, 0.8], [0, 1, 0], [0, 0, 0.6]])
    likeness = reference(usual(120, 0)).compare([bag @ mix for bag in usual(40, 1)])
    assert likeness.group_pvalue <= 0.002
    assert set(likeness.group_columns[:2]) == {"u", "w"}


def test_other_units_are_reported_for_a_single_bag():
    known = reference(usual(60, 0))
    bag = usual(1, 1, sizes=(80,))[0] * [1, 1000, 1]
    assert "outside the range" in known.why_unlike(de.as_bags([bag]))
    likeness = known.compare([bag])
    assert likeness.pvalues[0] == 1 / 61
    assert likeness.odd_columns == ["v"]
    assert np.isnan(likeness.group_pvalue)


def test_one_bag_far_from_all_others_is_reported():
    known = reference(usual(100, 0))
    bags = usual(30, 1)
    bags[4] = np.full((80, 3), 0.1)
    assert known.why_unlike(de.as_bags(bags)).startswith("1 of 30 bags are far from all training bags, such as 4")


def test_labels_and_covariates_are_columns():
    rng = np.random.default_rng(0)

    def made(n, shares):
        points = np.column_stack([rng.normal(size=20 * n), rng.choice(3, p=shares, size=20 * n)])
        return de.Bags(points, np.arange(n + 1) * 20, columns=["x", "kind"], categories={"kind": ["a", "b", "c"]})

    age = rng.normal(size=(80, 1))
    known, _ = Reference.learn(made(80, [0.5, 0.4, 0.1]), age, ["age"])
    assert known.column_names == ("x", "kind", "age")
    same = known.compare(made(30, [0.5, 0.4, 0.1]), rng.normal(size=(30, 1)))
    assert same.group_pvalue > 0.01
    other = known.compare(made(30, [0.2, 0.4, 0.4]), rng.normal(size=(30, 1)))
    assert (other.group_pvalue, other.group_columns[0]) == (0.001, "kind")
    older = known.compare(made(30, [0.5, 0.4, 0.1]), rng.normal(2, 1, size=(30, 1)))
    assert older.group_pvalue <= 0.002
    assert older.group_columns[0] == "age"


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_bags_and_constant_columns_have_answers(n):
    bags = [np.column_stack([bag[:, 0], np.full(len(bag), 7.0)]) for bag in usual(n + 3, 0)]
    known, own = Reference.learn(bags[:n])
    likeness = known.compare(bags[n:])
    for found in (own, likeness):
        assert np.all((found.pvalues > 0) & (found.pvalues <= 1))
        assert np.isfinite(found.column_scores).all()
    assert np.all(likeness.pvalues >= 1 / (n + 1))


def test_units_and_order_of_points_are_irrelevant():
    bags = usual(60, 0)
    rng = np.random.default_rng(1)
    one = reference(bags[:40]).compare(bags[40:])
    shuffled = [rng.permutation(bag) * [1000, -0.01, 1] for bag in bags]
    two = reference(shuffled[:40]).compare(shuffled[40:])
    np.testing.assert_allclose(two.column_scores[:, 2], one.column_scores[:, 2], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(two.pvalues, one.pvalues, atol=0.1)


def test_large_tables_keep_little():
    known = reference(usual(1200, 0, sizes=(3, 4)))
    assert len(known.features) == 1000
    assert known.features.nbytes <= 100_000


def test_likeness_is_a_table_too():
    likeness = reference(usual(30, 0)).compare(de.Bags.from_arrays(usual(4, 1), ids=list("abcd"), columns=COLUMNS))
    frame = likeness.to_frame()
    assert frame.index.tolist() == list("abcd")
    assert frame.columns.tolist() == ["pvalue", "odd_column", "score_u", "score_v", "score_w"]
    assert repr(likeness).startswith("Likeness(4 bags, least p-value 0.")


def draws(n, seed, far=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    points = rng.normal(truth[:, None, None], 1, size=(n, 20, 2))
    points[..., 1] += far
    return de.Bags.from_arrays(list(points), columns=["u", "v"]), truth


@pytest.mark.filterwarnings("ignore:.*outside the range|.*as a group differ")
def test_intervals_of_unlike_bags_are_wider():
    bags, truth = draws(80, 0)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags, truth)
    low, high = model.predict_interval(draws(40, 1)[0]).T
    others, more = model.predict_interval(draws(40, 1, far=20)[0]).T
    assert np.median(more - others) > 1.5 * np.median(high - low)
    assert np.median(model.reference_.widening(draws(40, 1)[0])) == 1
    classes = de.DistributionClassifier("mean", n_components=20, random_state=0).fit(bags, truth > 0)
    assert classes.predict_set(draws(40, 1, far=20)[0]).sum() >= classes.predict_set(draws(40, 1)[0]).sum()


def test_learners_keep_little_and_files_hold_it(tmp_path):
    bags, truth = draws(80, 0)
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(bags, truth)
    de.save(model, tmp_path / "with")
    again = de.load(tmp_path / "with")
    found, wanted = again.likeness(draws(9, 1)[0]), model.likeness(draws(9, 1)[0])
    np.testing.assert_array_equal(found.column_scores, wanted.column_scores)
    assert found.group_pvalue == wanted.group_pvalue
    model.reference_ = None
    de.save(model, tmp_path / "without")
    assert (tmp_path / "with").stat().st_size - (tmp_path / "without").stat().st_size < 30_000
    with pytest.raises(AttributeError, match="likeness: the model comes from a file of an older version"):
        model.likeness(bags)
    assert model.predict(bags).shape == (80,)


def test_refit_compares_with_the_other_bags():
    model = de.DistributionRegressor("mean", n_components=20, random_state=0).fit(*draws(60, 0))
    new, truth = draws(60, 1, far=2)
    with pytest.warns(UserWarning, match="DistributionRegressor: these 60 bags as a group differ .* in 'v'.* likeness"):
        model.predict(new)
    model.refit(new, truth)
    assert model.predict(draws(30, 2, far=2)[0]).shape == (30,)


def test_empty_bags_are_not_odd():
    bags = de.Bags.from_arrays([*usual(30, 0), []], columns=COLUMNS, empty="allow")
    known, own = Reference.learn(bags)
    assert len(known.features) == 30
    assert own.pvalues[-1] == 1
    new = de.Bags.from_arrays([*usual(9, 1), [], np.zeros((6000, 3))], columns=COLUMNS, empty="allow")
    found = known.compare(new)
    assert found.pvalues[-2] == 1
    assert np.all(found.column_scores[-2] == 0)
    assert np.isfinite(found.group_pvalue)
