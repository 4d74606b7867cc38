"""Ids that are the same, nearly the same or others, through all that matches them: the table of docs/guide/ids.md."""

from __future__ import annotations

import unicodedata
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import distembed as de
from distembed import Bags
from distembed.bags.ids import as_ids, hash_ids
from distembed.cluster.fitting import _groups_of, _labels_of, _weights_of, covariate_table
from distembed.report.predictions import trained_on
from distembed.tables import LabelTable, join, read_labels

N = 24
RNG = np.random.default_rng(0)
ORDER = RNG.permutation(N)
SPREAD = RNG.uniform(0.5, 2, N)
POINTS = RNG.normal(0, SPREAD[:, None, None], (N, 20, 1))
DAYS = np.datetime64("2013-01-01") + np.arange(N)
TIMES = DAYS.astype("M8[m]") + np.timedelta64(390, "m")
BERLIN = pd.DatetimeIndex(TIMES).tz_localize("Europe/Berlin")
NAMES = np.array([f"Ann {chr(97 + i)}" for i in range(N)])
ACCENTS = np.array([f"é{i}" for i in range(N)])
LEVELS = pd.MultiIndex.from_arrays([np.arange(N), ["JFK"] * N])
PAIRS = np.fromiter([(i, "JFK") for i in range(N)], object)
TRUTH = np.array([True, False] + [f"b{i}" for i in range(N - 2)], object)
NUMBERS = np.arange(N) + 7
SPANS = (np.arange(N) + 1) * np.timedelta64(30, "m")
HOURS = pd.period_range("2013-01-01", periods=N, freq="h")

KINDS = {
    "same text": (NAMES, NAMES),
    "categories": (NAMES, pd.CategoricalIndex(NAMES)),
    "bytes": (NAMES.astype("S"), NAMES),
    "whole numbers": (NUMBERS, NUMBERS),
    "other types of numbers": (NUMBERS, NUMBERS.astype("u2")),
    "floats": (NUMBERS, NUMBERS.astype(float)),
    "text of numbers": (NUMBERS, NUMBERS.astype(str)),
    "text and floats": (NUMBERS.astype(str), NUMBERS.astype(float)),
    "fractions": (NUMBERS + 0.5, (NUMBERS + 0.5).astype(str)),
    "text of dates": (DAYS, DAYS.astype(str)),
    "timestamps": (DAYS, pd.DatetimeIndex(DAYS)),
    "text and timestamps": (DAYS.astype(str), pd.DatetimeIndex(DAYS)),
    "Python dates": ([date(2013, 1, 1) + timedelta(i) for i in range(N)], pd.DatetimeIndex(DAYS)),
    "units of times": (TIMES.astype("M8[s]"), pd.DatetimeIndex(TIMES.astype("M8[ns]"))),
    "text of times": (TIMES, pd.DatetimeIndex(TIMES).strftime("%Y-%m-%d %H:%M:%S")),
    "zones": (BERLIN, BERLIN.tz_convert("UTC")),
    "text of zones": (BERLIN, [f"{each}+01".replace("T", " ") for each in TIMES]),
    "spans of time": (SPANS, pd.TimedeltaIndex(SPANS)),
    "periods": (HOURS, [str(each) for each in HOURS]),
    "decimal numbers": ([Decimal(f"{i}.50") for i in range(N)], np.arange(N) + 0.5),
    "levels": ([f"{i}/JFK" for i in range(N)], LEVELS),
    "tuples": (PAIRS, LEVELS),
    "padded numbers": ([f"{i:03d}" for i in NUMBERS], NUMBERS),
    "padded text": ([f"p{i:03d}" for i in NUMBERS], [f"p{i}" for i in NUMBERS]),
    "a plus sign": (NUMBERS.astype(str), [f"+{i}" for i in NUMBERS]),
    "decimals as text": (NUMBERS, NUMBERS.astype(float).astype(str)),
    "other case": (NAMES, [name.lower() for name in NAMES]),
    "blanks around": (NAMES, [f"{name} " for name in NAMES]),
    "other blanks": (NAMES, [name.replace(" ", "\u00a0") for name in NAMES]),
    "Unicode form": (ACCENTS, [unicodedata.normalize("NFD", each) for each in ACCENTS]),
    "compact dates": (DAYS.astype(str), [str(day).replace("-", "") for day in DAYS]),
    "no zone": (BERLIN, pd.DatetimeIndex(TIMES)),
    "dates without zone": (BERLIN, DAYS.astype(str)),
    "text without zone": ([f"{each}Z" for each in TIMES], TIMES.astype(str)),
    "truth values": (TRUTH, np.array([1, 0, *TRUTH[2:]], object)),
    "other ids": (NAMES, [f"x{i}" for i in range(N)]),
    "some of the ids": (NAMES, [*NAMES[:-1], "somebody"]),
    "0, 1, ... shuffled": (NAMES, np.arange(N)),
    "1, 2, ...": (NAMES, np.arange(N) + 1),
    "0, 1, ...": (NAMES, np.arange(N)),
}  # fmt: skip


def table_of_outcomes():
    """Outcomes by kind, as the guide has them."""
    page = Path(__file__).parents[1] / "docs" / "guide" / "ids.md"
    rows = [line.strip("| \n").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    return {row[0]: row[-1] for row in rows if row[0] != "kind"}


OUTCOMES = table_of_outcomes()
IN_ORDER = ("0, 1, ...", "1, 2, ...")  # kinds whose order is the point


def order_of(kind):
    return np.arange(N) if kind in IN_ORDER else ORDER


def series(kind, values):
    """Values of the bags by the other form of their ids, in another order."""
    index = KINDS[kind][1]
    index = index if isinstance(index, pd.Index) else pd.Index(index)
    return pd.Series(np.asarray(values), index=index).iloc[order_of(kind)]


def labels_of(kind):
    """The other form of the ids, in another order."""
    return series(kind, SPREAD).index


def make_bags(kind):
    return Bags.from_arrays(list(POINTS), ids=KINDS[kind][0])


def regressor():
    return de.DistributionRegressor("deviation", n_components=None, tune=None)


# --------------------------------------------------------------------------------------------------------------
# Who matches ids: what each makes of a kind, and what it should be. By position where an index may be 0, 1, ...
# --------------------------------------------------------------------------------------------------------------


WEIGHT = np.arange(N) % 3 + 0.5
AGES = 3 * SPREAD


@cache
def by_position(with_weight=False):
    """Predictions of a fit to what has no ids."""
    return regressor().fit(list(POINTS), SPREAD, WEIGHT if with_weight else None).predict(list(POINTS))


@cache
def by_position_and_age():
    learner = de.DistributionRegressor("mean", n_components=None, tune=None)
    return learner.fit(list(POINTS), SPREAD, covariates={"age": AGES}).predict(list(POINTS), {"age": AGES})


def fit_targets(kind, bags):
    return regressor().fit(bags, series(kind, SPREAD)).predict(bags), by_position()


def fit_weights(kind, bags):
    found = regressor().fit(bags, SPREAD, sample_weight=series(kind, WEIGHT)).predict(bags)
    return found, by_position(with_weight=True)


def fit_groups(kind, bags):
    groups = np.arange(N) // 6
    learner = de.DistributionRegressor("deviation", n_components=None, tune=2, random_state=0)
    batch = learner._check_batch(bags, SPREAD, groups=series(kind, groups), reset=True)
    return np.asarray(batch.groups), groups


def fit_covariates(kind, bags):
    learner = de.DistributionRegressor("mean", n_components=None, tune=None)
    frame = series(kind, AGES).to_frame("age")
    return learner.fit(bags, SPREAD, covariates=frame).predict(bags, frame), by_position_and_age()


def score_targets(kind, bags):
    model = regressor().fit(bags, SPREAD)
    return model.score(bags, series(kind, SPREAD)), model.score(bags, SPREAD)


def mask_bags(kind, bags):
    wide = SPREAD > 1
    return bags[series(kind, wide)].points, bags[wide].points


def align(kind, bags):
    return bags.align(series(kind, SPREAD)), SPREAD


def align_mapping(kind, bags):
    return bags.align(series(kind, SPREAD).to_dict()), SPREAD


def select(kind, bags):
    return bags.select(list(labels_of(kind))).points, bags[order_of(kind)].points


def join_labels(kind, bags):
    joined = join(bags, LabelTable(list(labels_of(kind)), series(kind, SPREAD).to_numpy()))
    assert not len(joined.missing)
    return joined.labels, SPREAD


def cluster_labels(kind, bags):
    return join(bags.ids, _labels_of(series(kind, SPREAD), None, None)).labels, SPREAD


def cluster_groups(kind, bags):
    return _groups_of(series(kind, SPREAD), bags.ids), SPREAD


def cluster_weights(kind, bags):
    return _weights_of(series(kind, SPREAD), bags.ids), SPREAD


def cluster_covariates(kind, bags):
    class Table:
        bag = "bag"

    return covariate_table(series(kind, SPREAD).to_frame("age"), Table).of(bags.ids)["age"], SPREAD


BY_INDEX = (fit_targets, fit_weights, fit_groups, fit_covariates, score_targets, mask_bags)
BY_ID = (
    align, align_mapping, select, join_labels, cluster_labels, cluster_groups, cluster_weights, cluster_covariates,
)  # fmt: skip


UNKNOWN_MOMENTS = ("no zone", "dates without zone")  # whose zone a report can't guess
NOT_IN_FILES = ("levels", "tuples", "truth values", "spans of time")


def test_the_guide_has_every_kind():
    assert list(OUTCOMES) == list(KINDS)
    assert len(KINDS) >= 28
    assert {outcome.partition(":")[0] for outcome in OUTCOMES.values()} == {"aligned", "refused", "position"}


@pytest.mark.parametrize("consumer", [*BY_INDEX, *BY_ID], ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_aligned_refused_or_positions(kind, consumer):
    outcome, _, difference = OUTCOMES[kind].partition(": ")
    outcome = "refused" if outcome == "position" and consumer in BY_ID else outcome
    bags = make_bags(kind)
    if outcome == "refused":
        text = f"differ in {difference}" if difference else "."
        with pytest.raises(ValueError, match=text):
            consumer(kind, bags)
        return
    found, expected = consumer(kind, bags)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_reports_recognise_what_is_aligned(kind):
    bags = make_bags(kind)
    model = regressor().fit(bags, SPREAD)
    other = Bags.from_arrays(list(POINTS[ORDER]), ids=as_ids(list(labels_of(kind))))
    seen, how = trained_on(model, other)
    if OUTCOMES[kind] == "aligned":
        assert seen.all(), how
    elif kind == "some of the ids":
        assert seen.sum() == N - 1
    elif kind == "truth values":
        assert seen.sum() == N - 2
    elif OUTCOMES[kind].startswith("refused: ") and kind not in UNKNOWN_MOMENTS:
        assert seen.all(), how
        assert f"differ from those of the fit in {OUTCOMES[kind].removeprefix('refused: ')}" in how
    else:
        assert not seen.any(), how


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NOT_IN_FILES])
def test_label_files_are_joined_or_refused(kind, suffix, tmp_path):
    outcome, _, difference = OUTCOMES[kind].partition(": ")
    if suffix == "csv" and kind in ("floats", "text and floats"):
        outcome, difference = "refused", "decimals"  # pandas writes 7.0, which is text that need not be a number
    frame = pd.DataFrame({"bag": np.asarray(labels_of(kind)), "y": series(kind, SPREAD).to_numpy()})
    frame.to_csv(tmp_path / "l.csv", index=False) if suffix == "csv" else frame.to_parquet(tmp_path / "l.parquet")
    table = read_labels(tmp_path / f"l.{suffix}", bag="bag", label="y", classes=False)
    bags = make_bags(kind)
    if outcome == "aligned":
        np.testing.assert_allclose(join(bags, table).labels, SPREAD)
        return
    with pytest.raises(ValueError, match=f"differ in {difference}" if difference else "no label"):
        join(bags, table)


def test_numbers_of_a_file_read_as_text_join_labels_of_pandas(tmp_path):
    pd.DataFrame({"bag": [1224, 7, 7], "x": [1.0, 2.0, 3.0]}).to_csv(tmp_path / "t.csv", index=False)
    bags = de.tables.read_bags(tmp_path / "t.csv", bag="bag", bag_type="text")
    assert sorted(bags.ids.tolist()) == ["1224", "7"]
    assert bags.align(pd.Series([1, 2], index=[1224, 7])).tolist() == [{"1224": 1, "7": 2}[each] for each in bags.ids]
    assert bags.align(dict(zip(*np.array([[1224, 7], [1, 2]]), strict=True))).sum() == 3


def test_an_index_of_zeros_and_ones_that_looks_like_the_ids_in_another_order_is_refused():
    names = np.array([f"{i:03d}" for i in range(N)])
    y = pd.Series(SPREAD)
    assert np.array_equal(regressor().fit(Bags.from_arrays(list(POINTS), ids=names), y).predict(list(POINTS)),
                          regressor().fit(list(POINTS), SPREAD).predict(list(POINTS)))  # fmt: skip
    with pytest.raises(ValueError, match="differ in leading zeros"):
        regressor().fit(Bags.from_arrays(list(POINTS), ids=names[ORDER]), y)


def test_hashes_are_those_of_the_canonical_text():
    for kind, outcome in OUTCOMES.items():
        if outcome == "aligned" and kind not in ("levels", "tuples"):
            ids, others = KINDS[kind]
            assert hash_ids(ids, 3).tolist() == hash_ids(others, 3).tolist(), kind
