"""Tables and models that are broken: one sentence, exit code 2, and no output."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import FAST, fit_words, make_rows, refused, run

import distembed as de
from distembed.tables import read_bags, write_table


def spoil(folder, what):
    """Points and labels with one fault; the words that the error must have."""
    points, labels = make_rows(24, 5)
    text = {"points": "points.csv", "labels": "labels.csv"}
    more = []
    if what == "missing column":
        points["custer"] = points.pop("cluster")
        said = ["points.csv", "--bag names column 'cluster'", "did you mean 'custer'?"]
    elif what == "missing coordinate":
        more, said = ["--columns", "x,z"], ["points.csv", "--columns names column 'z'", "it has"]
    elif what == "missing label column":
        del labels["spread"]
        said = ["labels.csv", "--label names column 'spread'"]
    elif what == "missing id column of labels":
        labels["name"] = labels.pop("cluster")
        said = ["labels.csv", "--labels-bag names column 'cluster'"]
    elif what == "text in a number column":
        points["x"] = points["x"].astype(object).astype(str)
        points["x"][7] = "12a"
        more, said = ["--columns", "x,y"], ["points.csv", "line 9", "column 'x'", "'12a'", "correct it"]
    elif what == "an id without points":
        labels["cluster"] = np.append(labels["cluster"][:-1], "nobody")
        more, said = ["--missing", "drop"], ["labels.csv", "column 'cluster'", "no bag: 'nobody'", "--unknown ignore"]
    elif what == "a bag without label":
        labels = {name: column[1:] for name, column in labels.items()}
        said = ["points.csv", "labels.csv", "column 'cluster'", "no label: 'c000'", "--missing drop"]
    elif what == "two labels of one bag":
        labels["cluster"][1] = labels["cluster"][0]
        said = ["labels.csv", "must have one value per bag", "in bag 'c000'", "correct those rows"]
    elif what == "all NaN":
        points["x"][:] = np.nan
        more, said = ["--columns", "x,y"], ["points.csv", "column 'x'", "finite number", "drop that row"]
    elif what == "zero rows":
        points = {name: column[:0] for name, column in points.items()}
        said = ["points.csv", "no rows"]
    elif what == "zero labels":
        labels = {name: column[:0] for name, column in labels.items()}
        said = ["labels.csv", "no rows"]
    elif what == "ids of other types":
        labels["cluster"] = np.arange(24)
        said = ["points.csv", "labels.csv", "24 bags have no label", "labels are of ids such as 0"]
    elif what == "no numbers":
        more, said = ["--columns", "cluster2"], ["points.csv", "--columns names column 'cluster2'"]
    write_table(points, folder / "points.csv")
    write_table(labels, folder / "labels.csv")
    return text, more, said


FAULTS = [
    "missing column", "missing coordinate", "missing label column", "missing id column of labels",
    "text in a number column", "an id without points", "a bag without label", "two labels of one bag", "all NaN",
    "zero rows", "zero labels", "ids of other types", "no numbers",
]  # fmt: skip


@pytest.mark.parametrize("how", ["--in-memory", "--out-of-core"])
@pytest.mark.parametrize("what", FAULTS)
def test_bad_tables_are_one_sentence_and_exit_code_2(tmp_path, what, how):
    _, more, said = spoil(tmp_path, what)
    line = refused("fit", tmp_path / "points.csv", "--bag", "cluster", "--labels", tmp_path / "labels.csv", "--label",
                   "spread", "-o", tmp_path / "m", *FAST, "--tune", "none", how, *more)  # fmt: skip
    for words in said:
        assert words in line
    assert "Traceback" not in line
    assert not (tmp_path / "m").exists()


def test_files_that_are_no_tables(folder, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes((folder / "points.parquet").read_bytes()[:-7])
    (tmp_path / "empty.csv").touch()
    (tmp_path / "hollow").mkdir()
    (tmp_path / "odd.xlsx").write_bytes(b"x")
    for source, said in (
        (broken, "not a readable Parquet file: it is damaged, cut off or of another format; write it again"),
        (tmp_path / "empty.csv", "is empty; write it again"),
        (tmp_path / "hollow", "holds no tables"),
        (tmp_path / "absent.csv", "no such file"),
        (tmp_path / "*.feather", "no file matches"),
        (tmp_path / "odd.xlsx", "unknown suffix"),
    ):
        for words in (
            ("fit", source, "--bag", "b", "--labels", folder / "labels.csv", "--label", "spread", "-o", tmp_path / "m"),
            ("predict", folder / "numbers.distembed", source),
            ("embed", source, "--bag", "cluster"),
            ("distances", source, "--bag", "cluster"),
        ):
            line = refused(*words)
            assert said in line
            assert source.name in line


def test_a_list_without_points(tmp_path, folder):
    table = pa.table({"cluster": ["a", "b"], "x": [[1.0, 2.0], []]})
    pq.write_table(table, tmp_path / "lists.parquet")
    line = refused("embed", tmp_path / "lists.parquet", "--bag", "cluster")
    assert "(bag 'b'): a bag must have at least one point, got an empty list; drop that row" in line


def test_a_broken_table_leaves_no_output(folder, tmp_path):
    points, _ = make_rows()
    points["y"][-1] = np.nan
    write_table(points, tmp_path / "points.parquet")
    for words in (
        ("embed", tmp_path / "points.parquet", "--model", folder / "numbers.distembed", "-o", tmp_path / "out.csv"),
        ("predict", folder / "numbers.distembed", tmp_path / "points.parquet", "-o", tmp_path / "out.csv"),
    ):
        assert "column 'y'" in refused(*words)
        assert [path.name for path in tmp_path.iterdir()] == ["points.parquet"]


def test_files_that_are_no_models(folder, tmp_path):
    (tmp_path / "odd.distembed").write_bytes(b"something else")
    cut = tmp_path / "cut.distembed"
    cut.write_bytes((folder / "numbers.distembed").read_bytes()[:5000])
    for path, said in (
        (tmp_path / "odd.distembed", "is not a model file of distembed"),
        (cut, "cut.distembed"),
        (tmp_path / "absent.distembed", "absent.distembed"),
        (folder / "labels.csv", "is a table, and a model comes first"),
        (tmp_path, str(tmp_path)),
    ):
        assert said in refused("predict", path, folder / "points.csv")
        assert said in refused("explain", path, folder / "points.csv")


def test_labels_without_bags_can_be_warned_of_or_left_out(folder, tmp_path):
    points, labels = make_rows(24)
    labels["cluster"] = np.append(labels["cluster"][:-1], "nobody")
    write_table(points, tmp_path / "points.parquet")
    write_table(labels, tmp_path / "labels.csv")
    words = fit_words(tmp_path, tmp_path / "m", *FAST, "--tune", "none", "--missing", "drop", "--unknown")
    for how in ("--in-memory", "--out-of-core"):
        warned = run(*words, "warn", how).stderr
        assert re.fullmatch(r"distembed: warning: .*labels.csv', column 'cluster': 1 label has no bag: .*\n", warned)
        assert run(*words, "ignore", how).stderr == ""
        assert de.load(tmp_path / "m").predict(read_bags(tmp_path / "points.parquet", bag="cluster",
                                                         columns=["x", "y"])).shape == (24,)  # fmt: skip
