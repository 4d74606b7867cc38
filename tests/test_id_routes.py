"""One spelling of a date or time that names a bag, whichever way it comes in and goes out; ids in model files."""

from __future__ import annotations

import zipfile
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import run
from distributed import Client
from pyarrow import parquet
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed import Bags, cluster
from distembed.bags.ids import canonical_text, plain_ids
from distembed.learners import KernelSmoother
from distembed.learners.sketched_bags import SketchedBags
from distembed.tables import BagTable, LabelTable, TableError, join, read_bags, read_labels, write_table

N = 24
RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(0.5, 2, N)
DAYS = np.datetime64("2013-01-01") + np.arange(N)
TEXTS = DAYS.astype(str).tolist()
ROWS = np.repeat(np.arange(N), 20)
X = RNG.normal(size=20 * N) * SPREAD[ROWS]
NANO = 1356998400000000000  # 2013-01-01
FRAME = pd.DataFrame({"day": pd.DatetimeIndex(DAYS.astype("M8[ns]"))[ROWS], "x": X})
BERLIN = FRAME.assign(day=(FRAME["day"] + pd.Timedelta(hours=6)).dt.tz_localize("Europe/Berlin"))


def regressor():
    return de.DistributionRegressor("deviation", n_components=None, tune=None)


def text_of_file(path):
    """All that a model file holds."""
    with zipfile.ZipFile(path) as archive:
        return b"".join(map(archive.read, archive.namelist()))


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as made:
        yield made


# --------------------------------------------------------------------------------------------------------------
# In
# --------------------------------------------------------------------------------------------------------------


def read_parquet(frame, folder):
    frame.to_parquet(folder / "t.parquet")
    return read_bags(folder / "t.parquet", bag="day")


def read_csv(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    return read_bags(folder / "t.csv", bag="day")


ROUTES = {
    "pandas": lambda frame, _: Bags.from_frame(frame, bag="day"),
    "groups of pandas": lambda frame, _: de.as_bags(frame.groupby("day")),
    "polars": lambda frame, _: Bags.from_frame(pl.from_pandas(frame), bag="day"),
    "pyarrow": lambda frame, _: Bags.from_frame(pa.Table.from_pandas(frame), bag="day"),
    "Parquet": read_parquet,
    "CSV": read_csv,
}


@pytest.mark.parametrize("route", ROUTES)
def test_dates_have_one_spelling_by_every_route(route, tmp_path):
    bags = ROUTES[route](FRAME, tmp_path)
    assert canonical_text(bags.ids).tolist() == plain_ids(as_dates(bags)) == TEXTS
    np.testing.assert_allclose(bags.align(dict(zip(TEXTS, SPREAD, strict=True))), SPREAD)


def as_dates(bags):
    return bags.ids.astype("M8[ns]")


FIRST = date(2013, 1, 1)


@pytest.mark.parametrize(
    "ids",
    [
        [FIRST],
        [datetime(2013, 1, 1)],
        [pd.Timestamp(FIRST)],
        np.array([NANO], "M8[ns]"),
        [str(FIRST)],
        pl.Series([FIRST]),
    ],
)
def test_dates_of_python_and_others_are_one_id(ids):
    bags = Bags.from_arrays([[1.0]], ids=ids)
    assert canonical_text(bags.ids).tolist() == ["2013-01-01"]
    assert bags.select([date(2013, 1, 1)]) == bags
    assert str(NANO) not in repr(bags)
    assert "2013-01-01" in bags.name_of(0)


@pytest.mark.parametrize("route", ROUTES)
def test_times_with_a_zone_are_in_utc_by_every_route(route, tmp_path):
    bags = ROUTES[route](BERLIN, tmp_path)
    wanted = [f"{each}T05:00Z" for each in TEXTS]
    assert canonical_text(bags.ids).tolist() == wanted
    moments = pd.DatetimeIndex(DAYS).tz_localize("UTC") + pd.Timedelta(hours=5)
    np.testing.assert_allclose(bags.align(pd.Series(SPREAD, index=moments)), SPREAD)
    plain = LabelTable(moments.tz_localize(None), SPREAD)  # which NumPy takes for the same moments
    with pytest.raises(TableError, match=r"differ in zone: convert one of them, by \.tz_convert"):
        join(bags, plain)


def test_files_of_times_with_and_without_a_zone_are_refused(tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet")
    BERLIN.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"of one type in all files, got ns in .* and time with a zone in .*; convert"):
        BagTable(tmp_path, bag="day")


# --------------------------------------------------------------------------------------------------------------
# Out
# --------------------------------------------------------------------------------------------------------------


def test_labels_sketches_and_written_tables_spell_dates_alike(tmp_path):
    bags = Bags.from_frame(FRAME, bag="day")
    assert list(LabelTable(bags.ids, SPREAD)) == TEXTS
    embedding = de.MomentEmbedding("deviation").fit(bags)
    sketched = SketchedBags(embedding).extend([bags[:9], bags[5:]])
    assert [key for key, _ in sketched.sketches()] == TEXTS
    assert canonical_text(sketched.ids_).tolist() == TEXTS
    write_table({"day": bags.ids, "y": SPREAD}, tmp_path / "l.csv")
    assert "2013-01-01 00" not in (tmp_path / "l.csv").read_text()
    np.testing.assert_allclose(join(bags, read_labels(tmp_path / "l.csv", bag="day", label="y")).labels, SPREAD)


def test_matrices_and_pages_spell_dates_alike(tmp_path):
    bags = Bags.from_frame(FRAME, bag="day")
    assert de.kernels.DivergenceMatrix("mmd").fit(bags).get_feature_names_out().tolist() == TEXTS
    de.report.write(regressor().fit(bags[:12], SPREAD[:12]), bags, SPREAD, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert '"2013-01-01"' in page
    assert "2013-01-01T00:00" not in page
    assert str(NANO) not in page
    assert "12 of these bags were used for training" in page


def test_workers_match_dates_of_any_form_and_write_one_spelling(tmp_path, client):
    FRAME.to_parquet(tmp_path / "t.parquet")
    table = cluster.open(tmp_path / "t.parquet", bag="day")
    learner = de.DistributionRegressor("deviation", n_components=None, tune=None, random_state=0)
    found = []
    for keys in (TEXTS, DAYS.astype(object).tolist(), list(pd.DatetimeIndex(DAYS))):
        by_day = dict(zip(keys, SPREAD, strict=True))
        groups = dict(zip(keys, np.arange(N) % 3, strict=True))
        found.append(cluster.fit(learner, table, by_day, groups=groups, sample_weight=by_day, client=client))
    bags = Bags.from_frame(FRAME, bag="day")
    wanted = regressor().fit(bags, SPREAD, SPREAD).predict(bags)
    for model in found:
        np.testing.assert_allclose(model.predict(bags), wanted, rtol=1e-6)
        assert model.trained_on_.tolist() == found[0].trained_on_.tolist()
    with pytest.raises(ValueError, match=r"sample_weight=...\): must be by the ids .*differ in the form of dates"):
        cluster.fit(learner, table, by_day, sample_weight={each.replace("-", ""): 2 for each in TEXTS}, client=client)


def test_the_command_line_joins_and_writes_dates_in_one_form(tmp_path):
    FRAME.to_parquet(tmp_path / "points.parquet")
    stamps = {"day": pd.DatetimeIndex(DAYS).strftime("%Y-%m-%d %H:%M:%S"), "y": SPREAD}
    pd.DataFrame(stamps).to_csv(tmp_path / "labels.csv", index=False)
    words = ("--embedding", "js", "--components", "20", "--tune", "none")
    for name, more in (("m", ()), ("again", ()), ("bare", ("--no-ids",))):
        run("fit", tmp_path / "points.parquet", "--bag", "day", "--labels", tmp_path / "labels.csv", "--label", "y",
            *words, *more, "-o", tmp_path / f"{name}.distembed")  # fmt: skip
    first, again = (de.load(tmp_path / f"{name}.distembed") for name in ("m", "again"))
    assert (first.trained_salt_, first.trained_on_.tolist()) == (again.trained_salt_, again.trained_on_.tolist())
    assert b"trained_on_" in text_of_file(tmp_path / "m.distembed")
    assert b"trained_on_" not in text_of_file(tmp_path / "bare.distembed")
    printed = run("predict", tmp_path / "m.distembed", tmp_path / "points.parquet").stdout
    assert [line.split(",")[0] for line in printed.splitlines()[1:]] == TEXTS
    run("predict", tmp_path / "m.distembed", tmp_path / "points.parquet", "-o", tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["day"].tolist() == TEXTS
    run("predict", tmp_path / "m.distembed", tmp_path / "points.parquet", "-o", tmp_path / "p.parquet")
    assert canonical_text(parquet.read_table(tmp_path / "p.parquet")["day"].to_numpy()).tolist() == TEXTS
    told = run("explain", tmp_path / "m.distembed", tmp_path / "points.parquet", "--id", "2013-01-03").stdout
    assert "Bag 2013-01-03:" in told


# --------------------------------------------------------------------------------------------------------------
# Model files
# --------------------------------------------------------------------------------------------------------------

NAMED = Bags.from_arrays(np.split(X, N), ids=[f"zebra{i}" for i in range(N)])
MODELS = {
    "learner": regressor(),
    "conformal": de.learners.ConformalRegressor(regressor(), coverage=0.5, random_state=0),
    "smoother": KernelSmoother("mmd"),
    "matrix": make_pipeline(de.kernels.DivergenceMatrix("mmd"), Ridge()),
    "landmarks": make_pipeline(de.kernels.NystroemFeatures("mmd"), Ridge()),
}


@pytest.mark.parametrize("name", MODELS)
def test_files_without_ids_predict_the_same_and_hold_none(name, tmp_path):
    model = MODELS[name].fit(NAMED, SPREAD)
    de.save(model, tmp_path / "m.distembed", ids=False)
    held = text_of_file(tmp_path / "m.distembed")
    for sign in (b"zebra", "zebra".encode("utf-32-le"), b"trained_on_", b"trained_salt_"):
        assert sign not in held
    np.testing.assert_array_equal(de.load(tmp_path / "m.distembed").predict(NAMED), model.predict(NAMED))


def test_files_keep_hashes_with_their_salt(tmp_path):
    model = regressor().fit(NAMED, SPREAD)
    de.save(model, tmp_path / "m.distembed")
    again = de.load(tmp_path / "m.distembed")
    assert again.trained_salt_ == model.trained_salt_ > 0
    assert again.trained_on_.tolist() == model.trained_on_.tolist()
    assert b"zebra" not in text_of_file(tmp_path / "m.distembed")
    with pytest.raises(TypeError, match=r"save\(ids=...\): must be True or False, got 'no'"):
        de.save(model, tmp_path / "m.distembed", ids="no")
