"""Which columns are coordinates where nobody says: what is left out, what is refused, and what labels are."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

from distembed import Bags
from distembed.bags.coordinates import Watch
from distembed.cli.app import app
from distembed.tables import BagTable, TableError, read_bags, read_labels

N_BAGS, SIZE = 30, 12


def points(**more):
    """A long table whose bags differ by the mean of x, with more columns in front."""
    rng = np.random.default_rng(0)
    bags = np.repeat(np.arange(N_BAGS), SIZE)
    x, z = rng.normal(bags / 10, 1), rng.normal(size=bags.size)
    return pd.DataFrame({**more, "bag": [f"b{i:02d}" for i in bags], "x": x, "z": z})


def labels():
    return pd.DataFrame({"bag": [f"b{i:02d}" for i in range(N_BAGS)], "y": np.arange(N_BAGS) / 10 + 0.05})


ROWS = np.arange(N_BAGS * SIZE)
ODD = {
    "id": (ROWS + 100, "numbers the rows, from 100 to 459"),
    "shuffled id": (np.random.default_rng(1).permutation(ROWS), "numbers the rows, from 0 to 359"),
    "id of floats": (ROWS.astype(float), "numbers the rows, from 0 to 359"),
    "count in bags": (ROWS % SIZE, "numbers the rows of each bag"),
    "constant": (np.full(ROWS.size, 3), "is 3 in all rows"),
    "truth": (np.ones(ROWS.size, bool), "is True in all rows"),
    "day": (pd.date_range("2024-01-01", periods=ROWS.size), "holds dates or times"),
    "gene": (np.resize(["CD4", "CD8", "1a"], ROWS.size), "holds text"),
}


# ------------------------------------------------------------------------------------------------ tables on disk
@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("case", ODD)
def test_what_says_nothing_of_points_is_left_out(tmp_path, suffix, case):
    values, reason = ODD[case]
    path = tmp_path / f"t.{suffix}"
    frame = points(odd=values)
    getattr(frame, f"to_{suffix}")(path, **({} if suffix == "feather" else {"index": False}))
    table = BagTable(path, bag="bag")
    assert table.columns == ("x", "z")
    assert list(table.left_out) == ["odd"]
    assert table.left_out["odd"].replace("3.0", "3") == reason
    if case not in ("day", "gene"):
        assert BagTable(path, bag="bag", columns=["odd", "x"]).columns == ("odd", "x")
    with pytest.warns(UserWarning, match=r"^left out: 'odd' .* Coordinates are 'x', 'z'; name them by columns"):
        assert read_bags(path, bag="bag").columns == ("x", "z")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", " "])
def test_an_index_that_was_written_along_is_left_out(tmp_path, name):
    rows = np.random.default_rng(2).choice(10_000, ROWS.size, replace=False)  # with gaps: some rows were dropped
    points(**{name: rows}).to_csv(tmp_path / "t.csv", index=False)
    table = BagTable(tmp_path / "t.csv", bag="bag")
    assert table.columns == ("x", "z")
    assert table.left_out == {name: "has no name: an index that was written along"}


def test_numbers_that_are_coordinates_stay(tmp_path):
    counts = np.random.default_rng(3).poisson(4, ROWS.size)
    last = np.append(np.full(ROWS.size - 1, 3.0), 4.0)  # constant but for the last row
    almost = np.append(ROWS[:-1], 5)
    points(counts=counts, last=last, almost=almost).to_csv(tmp_path / "t.csv", index=False)
    table = BagTable(tmp_path / "t.csv", bag="bag")
    assert table.columns == ("counts", "last", "almost", "x", "z")
    assert table.left_out == {}
    frame = pd.DataFrame({"bag": np.repeat([1, 2], 10), "t": np.arange(20)})
    frame.to_csv(tmp_path / "only.csv", index=False)
    assert read_bags(tmp_path / "only.csv", bag="bag").columns == ("t",)  # the only column


def test_rows_are_numbered_in_each_file(tmp_path):
    frame = points(n=0)
    for i, part in enumerate(frame[start : start + 120] for start in (0, 120, 240)):
        part.assign(n=np.arange(len(part))).to_csv(tmp_path / f"{i}.csv", index=False)
    assert BagTable(tmp_path, bag="bag").left_out == {"n": "numbers the rows, from 0 to 119"}


def test_columns_of_some_files_and_without_values_are_named(tmp_path):
    frame = points()
    pa.parquet.write_table(pa.table({"empty": pa.nulls(len(frame)), **frame}), tmp_path / "a.parquet")
    assert BagTable(tmp_path / "a.parquet", bag="bag").left_out == {"empty": "has no values"}
    frame.assign(empty=frame["x"], more=1.0).to_parquet(tmp_path / "b.parquet")
    table = BagTable(tmp_path, bag="bag", nan="drop")
    assert table.columns == ("empty", "x", "z")
    assert table.left_out == {"more": f"is not in {str(tmp_path / 'a.parquet')!r}"}


@pytest.mark.parametrize("word", ["-", "?", "missing", "1,234", "12:30", "< 0.1", "0x1f"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_stray_word_among_numbers_is_an_error(tmp_path, word, suffix):
    frame = points()
    frame["x"] = frame["x"].astype(str)
    frame.loc[14, "x"] = word
    path = tmp_path / f"t.{suffix}"
    getattr(frame, f"to_{suffix}")(path, index=False)
    with pytest.raises(TableError) as caught:
        BagTable(path, bag="bag")
    place = "line 16" if suffix == "csv" else "row 14"
    assert str(caught.value) == (
        f"{str(path)!r}, {place}, column 'x' (bag 'b01'): most values of this column are numbers, got {word!r}; "
        "correct it, or leave it empty where nothing is known, or name the coordinates, with or without this column, "
        "by columns"
    )
    assert BagTable(path, bag="bag", columns=["z"]).columns == ("z",)


def test_numbers_as_text_are_named(tmp_path):
    frame = points(zip=[f"{i:05d}" for i in ROWS])
    frame.to_parquet(tmp_path / "t.parquet")
    reason = "holds numbers as text: convert it if they are coordinates"
    assert BagTable(tmp_path / "t.parquet", bag="bag").left_out == {"zip": reason}
    with pytest.warns(UserWarning, match=f"^left out: 'zip' {reason}"):
        Bags.from_frame(frame, bag="bag")


def test_a_decimal_comma_is_no_text(tmp_path):
    points().to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    with pytest.raises(TableError, match=r"line 2, column 'x' \(bag 'b00'\): most values .* got '0,1257"):
        BagTable(tmp_path / "t.csv", bag="bag", delimiter=";")


def test_a_watch_looks_across_pieces():
    def verdict(values, codes, step=7):
        watch = Watch()
        for i in range(0, len(values), step):
            watch.add(np.asarray(values[i : i + step]), np.asarray(codes[i : i + step]), ["a", "b"])
        return watch.verdict()

    bags = [0, 1] * 20
    assert verdict(np.repeat(np.arange(20), 2), bags) == "numbers the rows of each bag"
    assert verdict(np.repeat([*range(19), 20], 2), bags) is None
    assert verdict(np.arange(40)[::-1], bags) == "numbers the rows, from 0 to 39"
    assert verdict([*range(39), 0], bags) is None  # twice, in two pieces
    assert verdict(np.full(40, np.nan), bags) is None
    assert verdict(np.arange(9), bags[:9]) is None  # too few to tell


# ------------------------------------------------------------------------------------------------ labels
def test_spaces_around_numbers_are_spaces(tmp_path):
    (tmp_path / "l.csv").write_text("bag,y\na, 1\nb,2 \nc,+3.5\n")
    assert read_labels(tmp_path / "l.csv", bag="bag", label="y").labels.tolist() == [1.0, 2.0, 3.5]
    (tmp_path / "l.csv").write_text("bag,y\na, 1\nb,2\n")
    assert read_labels(tmp_path / "l.csv", bag="bag", label="y").labels.dtype.kind == "i"


@pytest.mark.parametrize("word", ["?", "0x1f", "1_000", "12:30", "1 000"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_few_labels_that_are_no_numbers_are_named(tmp_path, word, suffix):
    path = tmp_path / f"l.{suffix}"
    frame = pd.DataFrame({"bag": ["a", "b", "c", "d"], "y": ["1", word, "3", "4"]})
    getattr(frame, f"to_{suffix}")(path, index=False)
    with pytest.raises(TableError) as caught:
        read_labels(path, bag="bag", label="y")
    assert str(caught.value) == (
        f"{str(path)!r}, column 'y': most labels are numbers, and 1 is not: {word!r}, of the bags 'b'; correct them, "
        "drop those rows, or, if labels are names of classes, pass classes=True"
    )
    assert read_labels(path, bag="bag", label="y", classes=True).labels.tolist() == ["1", word, "3", "4"]


def test_ranges_are_names_of_classes(tmp_path):
    words = ["<30", ">60", "30-60", "<30", "<30", ">60", ">60"]
    (tmp_path / "l.csv").write_text("bag,y\n" + "".join(f"{i},{word}\n" for i, word in enumerate(words)))
    assert read_labels(tmp_path / "l.csv", bag="bag", label="y").labels.tolist() == words
    (tmp_path / "l.csv").write_text("bag,y\n0,1.5 %\n1,2.5 %\n2,3 %\n3,?\n")
    with pytest.raises(TableError, match="most labels are numbers"):
        read_labels(tmp_path / "l.csv", bag="bag", label="y")


def test_labels_that_are_missing_or_text(tmp_path):
    (tmp_path / "l.csv").write_text("bag,y\na,1\nb,None\nc,3\n")
    with pytest.raises(TableError, match="every bag must have a label, got 'None' among numbers"):
        read_labels(tmp_path / "l.csv", bag="bag", label="y")
    (tmp_path / "l.csv").write_text("bag,y\na,1\nb,II\nc,III\n")
    assert read_labels(tmp_path / "l.csv", bag="bag", label="y").labels.tolist() == ["1", "II", "III"]


# ------------------------------------------------------------------------------------------------ tables in memory
FRAMES = {"pandas": lambda frame: frame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("case", ODD)
def test_frames_leave_out_the_same(make, case):
    values, reason = ODD[case]
    frame = points(odd=values)
    frame = make(frame if make is FRAMES["pandas"] else {name: frame[name].to_numpy() for name in frame})
    with pytest.warns(UserWarning, match="^left out: ") as caught:
        bags = Bags.from_frame(frame, bag="bag")
    assert bags.columns == ("x", "z")
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith(f"left out: 'odd' {reason}")
    assert ". Coordinates are 'x', 'z'; name them by columns if others are meant" in str(warning.message)
    assert ("by categorical" in str(warning.message)) == (reason == "holds text")
    if case not in ("day", "gene"):
        assert Bags.from_frame(frame, bag="bag", columns=["odd", "x"]).columns == ("odd", "x")


def test_rows_of_frames_need_not_stand_in_order():
    frame = points(odd=ROWS % SIZE).sort_values(["odd", "z"])
    with pytest.warns(UserWarning, match="'odd' numbers the rows of each bag"):
        assert Bags.from_frame(frame, bag="bag").columns == ("x", "z")
    with pytest.warns(UserWarning, match="'Unnamed: 0' has no name"):
        Bags.from_frame(points(**{"Unnamed: 0": ROWS**2}), bag="bag")


def test_labels_of_frames_stay_and_few_rows_tell_nothing():
    frame = points(gene=ODD["gene"][0])
    assert Bags.from_frame(frame, bag="bag", categorical=["gene"]).columns == ("gene", "x", "z")
    few = {"bag": [1, 1, 2], "x": [0, 1, 2], "z": [3.0, 3.0, 3.0]}
    assert Bags.from_frame(few, bag="bag").columns == ("x", "z")


@pytest.mark.parametrize("word", ["-", "?", "1,234"])
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_stray_word_in_a_frame_is_an_error(word, make):
    frame = points()
    frame["x"] = frame["x"].astype(str)
    frame.loc[14, "x"] = word
    frame = make(frame if make is FRAMES["pandas"] else {name: frame[name].to_numpy() for name in frame})
    match = rf"^column 'x', row 14 \(bag 'b01'\): most values .* are numbers, got {re.escape(repr(word))}; correct"
    with pytest.raises(ValueError, match=match):
        Bags.from_frame(frame, bag="bag")


def test_a_stray_word_among_objects():
    frame = points()
    frame["x"] = frame["x"].astype(object)
    frame.loc[3, "x"] = "missing"
    with pytest.raises(ValueError, match=r"^column 'x', row 3 \(bag 'b00'\): most values .*, got 'missing'"):
        Bags.from_frame(frame, bag="bag")


# ------------------------------------------------------------------------------------------------ the command line
def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def fit(tmp_path, *more):
    labels_csv, model = tmp_path / "labels.csv", tmp_path / "m.distembed"
    if not labels_csv.exists():
        labels().to_csv(labels_csv, index=False)
    fixed = ["--bag", "bag", "--labels", labels_csv, "--label", "y", "--embedding", "deviation", "--components", 20]
    return run("fit", tmp_path / "points.csv", *fixed, "-o", model, *more)


def test_fit_says_which_columns_it_takes_and_predict_takes_them(tmp_path):
    frame = points(cell=ROWS, batch=3, y=np.repeat(labels()["y"], SIZE).to_numpy())
    frame.to_csv(tmp_path / "points.csv")  # with the index
    found = fit(tmp_path)
    assert found.exit_code == 0, found.stderr
    assert found.stderr.startswith(
        "distembed: left out: '' has no name: an index that was written along; 'cell' numbers the rows, from 0 to 359; "
        "'batch' is 3.0 in all rows; 'y' is the label. Coordinates are 'x', 'z'; name them by --columns if others are "
        "meant\n"
    )
    assert "coordinates: x, z\n" in found.stdout
    told = json.loads(fit(tmp_path, "--json", "-q").stdout)
    assert told["columns"] == ["x", "z"]
    assert list(told["left_out"]) == ["", "cell", "batch", "y"]
    new = frame[frame["bag"] == "b00"].drop(columns="y").assign(cell=[5, 9, 2] * 4, batch=range(SIZE))
    new.to_csv(tmp_path / "new.csv", index=False)
    made = run("predict", tmp_path / "m.distembed", tmp_path / "new.csv", "-o", tmp_path / "p.csv")
    assert made.exit_code == 0, made.stderr
    assert json.loads(fit(tmp_path, "--json", "-q", "--columns", "batch,x").stdout)["columns"] == ["batch", "x"]
    for command in (["embed", "--embedding", "deviation"], ["distances", "--embedding", "deviation"]):
        made = run(command[0], tmp_path / "points.csv", "--bag", "bag", *command[1:], "-o", tmp_path / "o.csv")
        assert made.exit_code == 0, made.stderr
        assert "distembed: left out: '' has no name" in made.stderr


@pytest.mark.parametrize("command", ["fit", "embed", "distances"])
def test_a_stray_word_ends_commands(tmp_path, command):
    frame = points()
    frame["x"] = frame["x"].astype(str)
    frame.loc[14, "x"] = "?"
    frame.to_csv(tmp_path / "points.csv", index=False)
    if command == "fit":
        found = fit(tmp_path)
    else:
        found = run(command, tmp_path / "points.csv", "--bag", "bag", "-o", tmp_path / "o.csv")
    assert found.exit_code == 2
    assert "line 16, column 'x' (bag 'b01'): most values of this column are numbers, got '?'" in found.stderr
    assert found.stderr.endswith("name the coordinates, with or without this column, by --columns\n")


def test_one_odd_label_makes_no_classes(tmp_path):
    points().to_csv(tmp_path / "points.csv", index=False)
    odd = labels().astype({"y": str})
    odd.loc[3, "y"] = "?"
    odd.to_csv(tmp_path / "labels.csv", index=False)
    found = fit(tmp_path)
    assert found.exit_code == 2
    assert "most labels are numbers, and 1 is not: '?', of the bags 'b03'; correct them" in found.stderr
    assert found.stderr.endswith("if labels are names of classes, pass --classify\n")
    odd.loc[3, "y"] = " 0.35 "
    odd.to_csv(tmp_path / "labels.csv", index=False)
    assert json.loads(fit(tmp_path, "--json", "-q").stdout)["kind"] == "regression"


def test_classes_may_be_numbers_and_words(tmp_path):
    points().to_csv(tmp_path / "points.csv", index=False)
    names = np.resize(["1", "2", "X"], N_BAGS)
    labels().assign(y=np.sort(names)).to_csv(tmp_path / "labels.csv", index=False)
    assert fit(tmp_path).exit_code == 2
    assert json.loads(fit(tmp_path, "--json", "-q", "--classify").stdout)["classes"] == ["1", "2", "X"]
