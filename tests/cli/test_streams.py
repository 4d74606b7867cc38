"""Standard output and standard error that are closed, full or left, and names that terminals would obey."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from command_line import FAST, fit_words, make_rows, refused, run
from rich.console import Console

from distembed.cli.app import Bar, Screen, complain, escape_controls
from distembed.tables import write_table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its shells are others")
COMMAND = f"{sys.executable} -m distembed.cli"
RED = "\x1b[31m"


def shell(words, **more):
    """What a command line of sh comes to."""
    return subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False, timeout=120, **more)


def one_line(said):
    assert said.startswith("distembed: ")
    assert said.count("\n") == 1
    return said


def predict(folder):
    return f"{COMMAND} predict {folder}/numbers.distembed {folder}/points.parquet"


def test_a_closed_output_is_refused_before_any_work(folder, tmp_path):
    for words in (f"{predict(folder)} -o {tmp_path}/p.csv", predict(folder), f"{COMMAND} --version"):
        ended = shell(f"{words} >&-")
        assert ended.returncode == 2
        assert "standard output is closed; send it to a file, or to /dev/null" in one_line(ended.stderr)
    assert not os.listdir(tmp_path)


def test_a_closed_error_loses_what_is_said_there_alone(folder, tmp_path):
    ended = shell(f"{predict(folder)} 2>&-")
    assert (ended.returncode, ended.stdout.partition("\n")[0]) == (0, "cluster,prediction")
    ended = shell(f"{COMMAND} info {folder}/points.none 2>&-")
    assert (ended.returncode, ended.stdout) == (2, "")
    ended = shell(f"{predict(folder)} -o {tmp_path}/p.csv >&- 2>&- <&-")
    assert (ended.returncode, os.listdir(tmp_path)) == (2, [])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_a_full_disk_behind_the_streams(folder):
    for words in (predict(folder), f"{COMMAND} --version", f"{COMMAND} info {folder}/points.csv --json"):
        ended = shell(f"{words} >/dev/full")
        assert ended.returncode == 2
        text = "standard output can't be written: no space left on device; send it elsewhere"
        assert text in one_line(ended.stderr)
    assert shell(f"{COMMAND} info {folder}/points.none 2>/dev/full").returncode == 2
    assert "its suffix must be one of" in refused(*predict(folder).split()[3:], "-o", "/dev/full")
    assert "not a regular file" in refused(*fit_words(folder, "/dev/full", *FAST))


def test_a_reader_that_left_early(folder, tmp_path):
    """No line, the code of SIGPIPE, and the model is there."""
    fit = " ".join(map(str, fit_words(folder, tmp_path / "m", *FAST)))
    ended = shell(f"(trap '' PIPE; {COMMAND} {fit}; echo $? >&2) | true")
    assert ended.stderr == "141\n"
    assert (tmp_path / "m").exists()


def test_output_that_has_no_letter_for_it(folder, tmp_path):
    fit = " ".join(map(str, fit_words(folder, tmp_path / "m", *FAST)))
    ended = shell(f"{COMMAND} {fit}", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "R\\xb2" in ended.stdout


def test_a_folder_without_permission(folder, tmp_path, monkeypatch):
    def forbid(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("distembed.compute.atomic_files._made", forbid)
    for words in (fit_words(folder, tmp_path / "m", *FAST), (*predict(folder).split()[3:], "-o", tmp_path / "p.csv")):
        assert "takes no file: permission denied; name another folder" in refused(*words)


# Names that are not text


def test_tables_whose_names_are_not_text(folder, tmp_path):
    name = b"caf\xe9.csv".decode("utf-8", "surrogateescape")
    (tmp_path / name).write_bytes((folder / "points.csv").read_bytes())
    for source in (tmp_path / name, tmp_path, tmp_path / "*.csv"):
        said = refused("info", source)
        assert said.endswith(r"caf\udce9.csv': the name of a table must be text in UTF-8; rename it")


def test_outputs_whose_names_are_not_text(folder, tmp_path):
    name = b"caf\xe9.csv".decode("utf-8", "surrogateescape")
    words = (*predict(folder).split()[3:], "-o", tmp_path / name)
    assert r"caf\udce9.csv: predictions for 60 bags" in run(*words).stdout
    assert json.loads(run(*words, "--json").stdout)["output"] == str(tmp_path / name)
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("option", ["--bag", "--columns", "--label", "--labels-bag"])
def test_columns_whose_names_are_not_text(folder, tmp_path, option):
    said = refused(*fit_words(folder, tmp_path / "m", points="points.csv"), option, "caf\udce9")
    assert rf"{option} names column 'caf\udce9', which the table lacks" in said


# Names that a terminal would obey


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """Tables whose ids, columns and classes hold escapes."""
    folder = tmp_path_factory.mktemp("red")
    points, labels = make_rows(n_bags=24)
    points = {f"{RED}{name}": values for name, values in points.items()}
    points[f"{RED}cluster"] = np.char.add(RED, points[f"{RED}cluster"])
    labels = {f"{RED}{name}": values for name, values in labels.items()}
    for name in ("cluster", "size"):
        labels[f"{RED}{name}"] = np.char.add(RED, labels[f"{RED}{name}"])
    write_table(points, folder / "points.parquet")
    write_table(labels, folder / "labels.csv")
    return folder


def test_nothing_that_is_shown_has_escapes(red, tmp_path):
    points, labels, model = red / "points.parquet", red / "labels.csv", tmp_path / f"{RED}m"
    bag, size = f"{RED}cluster", f"{RED}size"
    columns = ("--columns", f"{RED}x,{RED}y")
    fit = ("fit", points, "--bag", bag, "--labels", labels, "--label", size, "-o", model)
    predictions = tmp_path / f"{RED}p.csv"
    commands = [
        ((*fit, *columns, *FAST), 0),
        ((*fit[:-2], "-o", tmp_path / "n", *FAST), 0),  # notes which columns are left out
        (("info", points, "--bag", bag), 0),
        (("info", labels), 0),
        (("info", model), 0),
        (("predict", model, points, "-o", predictions), 0),
        (("predict", model, points, "-o", predictions, "--json"), 0),
        (("evaluate", predictions, "--labels", labels, "--label", size, "--labels-bag", bag), 0),
        (("evaluate", predictions, "--labels", labels, "--label", size, "--labels-bag", bag, "--json"), 0),
        (("explain", model, points), 0),
        (("predict", model, tmp_path / f"{RED}none.csv"), 2),
        (("predict", model, labels), 2),
        (("info", points, "--bag", f"{RED}no"), 2),
        ((f"{RED}fit",), 2),
        (("info", points, f"--{RED}"), 2),
        (("info", tmp_path / f"{RED}none.csv", "--debug"), 2),
    ]
    shown = ""
    for words, code in commands:
        result = run(*words, code=code)
        assert "\x1b" not in result.stdout + result.stderr, words
        shown += result.stdout + result.stderr
    assert shown.count(r"\x1b[31m") > 20
    assert r"\u001b[31m" in shown  # JSON
    assert RED in predictions.read_text()  # files have data as they are
    assert RED in run("predict", model, points).stdout  # and pipes


def test_a_terminal_gets_csv_with_escapes_escaped(red, tmp_path, monkeypatch):
    words = ("embed", red / "points.parquet", "--bag", f"{RED}cluster", "--embedding", "mean", "-q")
    monkeypatch.setattr("distembed.cli.app.Output.isatty", lambda self: True, raising=False)
    shown = run(*words).stdout
    assert "\x1b" not in shown
    assert r"\x1b[31mc000," in shown


def test_every_way_to_show_something_escapes(capsys):
    screen = Screen()
    with screen.bar(f"{RED}reading", 3):
        screen.note(f"{RED}note")
        screen.line(f"{RED}line\x9b :bug:")
        screen.table(f"{RED}title", [f"{RED}head", "b"], [[f"{RED}cell\n", "1"]])
        complain(f"{RED}sentence\u202e")
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert r"\x9b :bug:" in out
    assert r"\x1b[31mcell\n" in out
    assert r"sentence\u202e" in err
    assert escape_controls("é \N{SNOWMAN}") == "é \N{SNOWMAN}"


def test_bars_escape():
    file = io.StringIO()
    with Bar("bags", console=Console(file=file, width=80, force_terminal=True), patience=0) as bar:
        bar.begin(f"{RED}reading", 4)
        bar.refresh()
    assert r"\x1b[31mreading" in file.getvalue()


# Names that a spreadsheet would run


def test_commands_write_csv_that_spreadsheets_do_not_run(folder, tmp_path):
    points, _ = make_rows(n_bags=8)
    points["cluster"] = np.char.add("=", points["cluster"])
    write_table(points, tmp_path / "t.parquet")
    table = (tmp_path / "t.parquet", "--bag", "cluster", "--columns", "x,y")
    for words in (
        ("predict", folder / "numbers.distembed", *table),
        ("predict", folder / "classes.distembed", *table),
        ("embed", *table, "--embedding", "mean"),
        ("distances", *table, "--embedding", "mean"),
    ):
        plain = run(*words).stdout
        safe = run(*words, "--spreadsheet-safe").stdout
        assert "\n=c000," in plain
        assert "\n'=c000," in safe
        assert safe.replace("'=", "=") == plain
        run(*words, "--spreadsheet-safe", "-o", tmp_path / "o.csv")
        assert "'=c000" in (tmp_path / "o.csv").read_text()
        run(*words, "-o", tmp_path / "o.csv")
        assert "'=" not in (tmp_path / "o.csv").read_text()
