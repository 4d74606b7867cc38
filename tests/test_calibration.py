"""Probabilities of classes: models without some rows, the rows that are kept for that, and softmax on their scores."""

import numpy as np
import pytest

from distembed.learners.calibration import MOST_ROWS, KeptRows, calibrated, inner_folds
from distembed.learners.ridge import LinearRidge


@pytest.mark.parametrize("n_features", [5, 60])  # solved by columns, by rows
@pytest.mark.parametrize("batches", [False, True])
def test_a_model_without_some_rows_is_the_one_that_never_saw_them(n_features, batches):
    rng = np.random.default_rng(0)
    Z, y, weight = rng.normal(size=(40, n_features)), rng.normal(size=(40, 2)), rng.uniform(0.5, 2, size=40)
    model = LinearRidge(0.3)
    if batches:
        model.partial_fit(Z[:25], y[:25], weight[:25]).partial_fit(Z[25:], y[25:], weight[25:])
    else:
        model.fit(Z, y, weight)
    some = rng.permutation(40)[:24]  # not all rows are asked for
    parts = np.array_split(np.arange(20), 4)
    found = model.without(Z[some], y[some], weight[some], parts)
    for part in parts:
        kept = np.setdiff1d(np.arange(40), some[part])
        alone = LinearRidge(0.3).fit(Z[kept], y[kept], weight[kept])
        np.testing.assert_allclose(found[part], alone.predict(Z[some[part]]), rtol=1e-7, atol=1e-9)
    assert np.isnan(found[20:]).all()


def test_kept_rows_do_not_depend_on_how_they_come():
    rng = np.random.default_rng(0)
    codes, Z = rng.integers(0, 3, size=3000), rng.normal(size=(3000, 2))
    groups = np.repeat(np.arange(600), 5)

    def kept(step):
        found = KeptRows.of(3)
        for i in range(0, 3000, step):
            some = slice(i, i + step)
            found = found.add(codes[some], np.ones(len(codes[some])), groups[some], 7, lambda at, i=i: Z[i + at])
        return found

    one, many = kept(3000), kept(100)
    assert len(one.codes) == MOST_ROWS
    order, other = np.lexsort(one.rows.T), np.lexsort(many.rows.T)
    np.testing.assert_array_equal(one.rows[order], many.rows[other])
    np.testing.assert_array_equal(one.groups[order], many.groups[other])
    np.testing.assert_allclose(np.bincount(many.codes, many.weights), np.bincount(codes))
    assert np.bincount(one.codes).min() > MOST_ROWS // 3 - 2
    assert len(np.unique(one.groups)) < 260  # whole groups, nearly


def test_calibration_finds_the_frequencies_of_scores_in_any_unit():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-1, 2, size=4000)
    codes = (rng.uniform(size=4000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    folds = inner_folds(codes, None, 0)
    for unit in (1e-3, 1.0, 1e3):
        scores = (unit * (log_odds / 5 + 3))[:, None]
        found = calibrated(scores, codes, np.ones(4000), 2, folds).predict(scores)[:, 1]
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-log_odds)), atol=0.04)
    heavy = np.where(codes == 1, 5.0, 1.0)
    found = calibrated(log_odds[:, None], codes, heavy, 2, folds).predict(log_odds[:, None])[:, 1]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-log_odds) / 5), atol=0.04)


def test_folds_have_all_classes_and_whole_groups():
    codes = np.repeat([0, 1], [50, 3])
    folds = inner_folds(codes, None, 0)
    assert len(folds) == 3
    assert all(set(codes[held]) == {0, 1} for _, held in folds)
    groups = np.repeat(np.arange(10), 6)
    for seen, held in inner_folds(np.tile([0, 1], 30), groups, 0):
        assert not set(groups[seen]) & set(groups[held])
