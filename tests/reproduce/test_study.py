"""Steps, cache and reports of the paper's experiments, and the command that runs them, by a small study."""

from __future__ import annotations

import csv
import inspect
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from command_line import refused

import reproduce
from distembed.cli.app import Screen
from reproduce.app import app
from reproduce.study import (
    Cache,
    Report,
    Step,
    Study,
    Table,
    as_markdown,
    default_cache,
    write_report,
)

RUNNER = CliRunner(**({"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}))
NAMES = ["seed 0", "seed 1", "seed 2", "all seeds"]
PNG = b"\x89PNG\r\n"


class Squares(Study):
    """Squares of seeds; what it computes, and what goes wrong, is told by the test."""

    name = "gram"
    summary = "squares of seeds"
    calls: list
    wrong: dict

    def steps(self):
        n = 2 if self.quick else 3
        steps = [Step(f"seed {i}", {"seed": i}, lambda i=i: self._square(f"seed {i}", [i])) for i in range(n)]
        return [*steps, Step("all seeds", {"seeds": n}, lambda: self._square("all seeds", range(n)))]

    def _square(self, name, values):
        self.calls.append(name)
        if name in self.wrong:
            raise self.wrong[name]
        return {"squares": np.square(values), "text": f"of {len(values)}", "seconds": 5.0}

    def prepare(self, progress):
        self.calls.append("prepare")
        if "prepare" in self.wrong:
            raise self.wrong["prepare"]
        progress.begin(f"{self.name}: numbers", 4)
        progress.advance(1)
        progress.advance(3)

    def report(self, results):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2, 2))
        figure.subplots().plot([0, 1])
        rows = [(name, int(found["squares"].sum()), None) for name, found in results.items()]
        scores = Table("scores", "Sums of squares", ("step", "sum", "paper"), rows)
        empty = Table("more", "More", ("a|b",), [("c|d",)])
        return Report("Squares", "What was done.", [f"{len(rows)} sums: confirmed."], [scores, empty], {"line": figure})


def look(study, found):
    """A study as another experiment, in which something goes wrong."""
    return type(study.__name__, (study,), found)


@pytest.fixture
def studies(monkeypatch, tmp_path):
    """The experiments, by name; the user's own folders are out of reach."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DISTEMBED_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    made = {name: look(Squares, {"name": name, "calls": [], "wrong": {}}) for name in reproduce.EXPERIMENTS}
    monkeypatch.setattr(reproduce, "get", made.__getitem__)
    return made


@pytest.fixture
def gram(studies):
    return studies["gram"]


def run(*words, code=0):
    """Run ``python -m reproduce``; its answer, after a look at the exit code."""
    result = RUNNER.invoke(app, [str(word) for word in words], prog_name="python -m reproduce")
    assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
    return result


def last(result):
    return result.stderr.splitlines()[-1]


def damage(path, how):
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "one byte":
        at = data.index(b"squares.npy") + 60
        path.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
    else:
        path.write_bytes({"empty": b"", "something else": b"something else"}[how])


# --------------------------------------------------------------------------------------------------------------
# Steps and cache
# --------------------------------------------------------------------------------------------------------------


def test_what_is_kept_comes_back(tmp_path):
    step = Step("one", {"seed": 1, "sizes": [1, 2]}, dict)
    found = {"number": 1.5, "count": 3, "flag": True, "text": "µ", "names": ["a", "bc"], "x": np.eye(2, dtype="f4")}
    cache = Cache(tmp_path / "a" / "b")
    assert cache.get("gram", step) is None
    cache.keep("gram", step, found)
    back = cache.get("gram", step)
    assert {key: back[key] for key in ("number", "count", "flag", "text")} == {
        "number": 1.5, "count": 3, "flag": True, "text": "µ",
    }  # fmt: skip
    assert list(back["names"]) == ["a", "bc"]
    assert back["x"].dtype == np.float32
    assert list(back) == list(found)
    assert [path.name for path in (tmp_path / "a" / "b" / "gram").iterdir()] == [cache.path("gram", step).name]


def test_settings_and_version_decide_the_file_and_names_do_not():
    def path(name="a", version=1, study="gram", **settings):
        return Cache(default_cache(), version).path(study, Step(name, settings, dict))

    assert path(seed=1, n=2) == path("another name", n=2, seed=1)
    different = [path(seed=1), path(seed=2), path(seed=1, version=2), path(seed=1, study="mixture"), path(seeds=1)]
    assert len(set(different)) == len(different)


def test_a_new_version_of_a_study_begins_again(gram):
    study = gram()
    study.run(study.steps()[0])
    assert [step.name for step in study.missing()] == NAMES[1:]
    assert list(study.results()) == NAMES[:1]
    again = look(gram, {"version": 2})()
    assert [step.name for step in again.missing()] == NAMES
    assert again.results() == {}


def test_a_step_tells_its_seconds_unless_it_has_its_own(gram):
    study = gram()
    study.run(Step("plain", {"a": 1}, lambda: {"x": 1}))
    study.run(study.steps()[0])
    plain = study.cache.get("gram", Step("plain", {"a": 1}, dict))
    assert plain["seconds"] >= 0
    assert plain["cpu_seconds"] >= 0
    assert study.results()["seed 0"]["seconds"] == 5.0


@pytest.mark.parametrize("how", ["cut", "one byte", "empty", "something else"])
def test_a_damaged_file_counts_as_not_there(gram, how):
    study = gram()
    for step in study.steps():
        study.run(step)
    damage(study.cache.path("gram", study.steps()[1]), how)
    with pytest.warns(UserWarning, match=r"npz: damaged \(\w+\), so step 'seed 1' of gram counts as not done"):
        assert [step.name for step in study.missing()] == ["seed 1"]
    assert list(study.results()) == ["seed 0", "seed 2", "all seeds"]  # and no warning again
    study.run(study.steps()[1])
    assert study.missing() == []


def test_results_that_would_need_pickle_are_refused(tmp_path):
    cache, step = Cache(tmp_path), Step("one", {}, dict)
    with pytest.raises(TypeError, match="step 'one': its result 'b' must be a number, text or an array"):
        cache.keep("gram", step, {"a": 1, "b": None})
    assert list(tmp_path.iterdir()) == []


def test_steps_must_differ(gram):
    two = [Step("a", {"n": 1}, dict), Step("a", {"n": 2}, dict)]
    with pytest.raises(ValueError, match="gram: two steps are called 'a'; name one"):
        look(gram, {"steps": lambda self: two})().missing()
    two = [Step("a", {"n": 1}, dict), Step("b", {"n": 1}, dict)]
    with pytest.raises(ValueError, match=r"gram: steps 'a' and 'b' have the same settings.*; say in the settings"):
        look(gram, {"steps": lambda self: two})().results()


def test_data_are_found_or_missed(gram, tmp_path, monkeypatch):
    (tmp_path / "scenes").mkdir()
    assert gram(data=tmp_path).find("scenes") == tmp_path / "scenes"
    with pytest.raises(FileNotFoundError, match="gram: needs real data; give their folder with --data, or set DIST"):
        gram().find("scenes")
    monkeypatch.setenv("DISTEMBED_DATA", "")
    with pytest.raises(FileNotFoundError, match="gram: needs real data"):
        gram().find("scenes")
    monkeypatch.setenv("DISTEMBED_DATA", str(tmp_path))
    assert gram().find("scenes") == tmp_path / "scenes"
    with pytest.raises(FileNotFoundError, match="absent is not there; docs/experiments"):
        gram().find("scenes", "absent")


# --------------------------------------------------------------------------------------------------------------
# Reports
# --------------------------------------------------------------------------------------------------------------


def test_cells_can_not_break_a_table():
    assert as_markdown(("a", "b"), [("x|y", "two\nlines"), (None, 0)]).splitlines()[2:] == [
        "| x\\|y | two lines |",
        "|  | 0 |",
    ]


def test_a_report_is_a_page_tables_and_figures(gram, tmp_path):
    study = gram()
    study.run(study.steps()[2])
    written = write_report(study.report(study.results()), "gram", tmp_path / "a" / "b", "Made of one step.")
    assert [path.name for path in written] == ["gram.md", "gram_line.png", "gram_scores.csv", "gram_more.csv"]
    assert sorted(written) == sorted((tmp_path / "a" / "b").iterdir())
    page = written[0].read_text()
    assert page.startswith("# Squares\n\nWhat was done.\n\nMade of one step.\n\n## Findings\n\n- 1 sums: confirmed.\n")
    assert "![line](gram_line.png)" in page
    assert "## Sums of squares\n\n| step | sum | paper |\n|---|---|---|\n| seed 2 | 4 |  |\n" in page
    assert written[1].read_bytes().startswith(PNG)
    rows = list(csv.reader(written[2].read_text().splitlines()))
    assert rows == [["step", "sum", "paper"], ["seed 2", "4", ""]]


# --------------------------------------------------------------------------------------------------------------
# The command
# --------------------------------------------------------------------------------------------------------------


def test_steps_are_computed_once_and_reported(gram, tmp_path):
    shown = run("gram", "--cache", "kept", "--output", "out")
    assert gram.calls == ["prepare", *NAMES]
    assert shown.stdout.startswith("Squares\n- 4 sums: confirmed.\n\nSums of squares\n")
    assert re.search(r"^all seeds +5 *$", shown.stdout, re.MULTILINE)
    assert "More" not in shown.stdout
    assert shown.stdout.split()[-4:] == [f"out/gram{end}" for end in (".md", "_line.png", "_scores.csv", "_more.csv")]
    assert len(list((tmp_path / "kept" / "gram").iterdir())) == 4
    page = (tmp_path / "out" / "gram.md").read_text()
    assert re.search(r"Made by `python -m reproduce gram`: 4 steps, which took [0-9.]+ s of one core\.\n", page)
    again = run("gram", "--cache", "kept", "--output", "out")
    assert gram.calls == ["prepare", *NAMES]
    assert again.stdout == shown.stdout
    assert again.stderr == ""


def test_there_is_a_line_for_each_step(gram):
    said = run("gram").stderr.splitlines()
    assert [re.sub(r"\d+\.\d s", "# s", line) for line in said] == [
        "distembed: gram: 1 of 4: seed 0 (# s); 0:00 left",
        "distembed: gram: 2 of 4: seed 1 (# s); 0:00 left",
        "distembed: gram: 3 of 4: seed 2 (# s); 0:00 left",
        "distembed: gram: 4 of 4: all seeds (# s)",
    ]


def test_quiet_prints_results_alone(gram, tmp_path):
    shown = run("gram", "-q")
    assert shown.stderr == ""
    assert shown.stdout.startswith("Squares\n")
    assert "Seconds" not in shown.stdout
    assert (tmp_path / "results" / "gram.md").exists()


def test_a_quick_look_leaves_results_alone(gram, tmp_path):
    run("gram")
    before = (tmp_path / "results" / "gram.md").read_bytes()
    run("gram", "--quick")
    assert (tmp_path / "results" / "gram.md").read_bytes() == before
    assert "`python -m reproduce gram --quick`: 3 steps" in (tmp_path / "results" / "quick" / "gram.md").read_text()
    assert gram.calls == ["prepare", *NAMES, "prepare", "all seeds"]  # the seeds are the same, and there already
    run("gram", "--quick", "-o", "elsewhere")
    assert (tmp_path / "elsewhere" / "gram.md").exists()


def test_a_stopped_command_goes_on(gram):
    gram.wrong["seed 2"] = KeyboardInterrupt()
    said = last(run("gram", code=130))
    assert said == "distembed: stopped; 2 of 4 steps are kept, and the same command goes on from there"
    gram.wrong.clear()
    gram.calls.clear()
    said = run("gram").stderr.splitlines()
    assert said[0] == "distembed: gram: 2 of 4 steps are done; going on from there"
    assert gram.calls == ["prepare", "seed 2", "all seeds"]
    assert any(re.fullmatch(r"distembed: gram: 3 of 4: seed 2 \(.*\); 0:03 left", line) for line in said)  # 10 s / 3


def test_stopped_while_getting_ready(studies):
    studies["mixture"].wrong["prepare"] = KeyboardInterrupt()
    said = last(run("all", code=130))
    assert said == "distembed: stopped; 0 of 4 steps of mixture are kept, and the same command goes on from there"
    assert studies["gram"].calls == ["prepare", *NAMES]
    assert studies["images"].calls == []


def test_a_step_that_fails_is_named_and_earlier_ones_stay(gram):
    gram.wrong["seed 1"] = ValueError("no\nsuch  luck")
    said = last(run("gram", code=1))
    assert said == (
        "distembed: gram: step 'seed 1' failed: ValueError: no such luck; 1 of 4 steps are kept; --debug shows where"
    )
    assert list(gram().results()) == ["seed 0"]
    shown = run("gram", "--debug", code=1).stderr
    assert "Traceback" in shown
    assert "in _square" in shown
    gram.wrong["seed 1"] = MemoryError()
    assert "step 'seed 1' failed: MemoryError; 1 of 4" in last(run("gram", code=1))
    gram.wrong["seed 1"] = PermissionError(13, "Permission denied", "/data/x.npz")
    said = last(run("gram", code=2))
    assert said.startswith("distembed: gram: step 'seed 1': '/data/x.npz': permission denied; check the path and")


def test_a_report_that_fails(studies, gram):
    studies["gram"] = look(gram, {"report": lambda self, results: {}["absent"]})
    said = last(run("gram", code=1))
    assert said == "distembed: gram: the report failed: KeyError: 'absent'; --debug shows where"
    assert list(gram().results()) == NAMES


def test_missing_data_is_one_sentence_and_exit_code_2(studies, gram, tmp_path):
    def prepare(self, progress):
        self.find("scenes", "index.csv")

    studies["gram"] = look(gram, {"prepare": prepare})
    said = run("gram", code=2)
    assert said.stdout == ""
    assert said.stderr.startswith("distembed: gram: needs real data; give their folder with --data, or set DISTEMBED_D")
    assert said.stderr.count("\n") == 1
    said = run("gram", "--data", tmp_path, code=2).stderr
    assert said.startswith(f"distembed: gram: {tmp_path}/scenes/index.csv is not there; docs/experiments.md tells")
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / "index.csv").touch()
    result = RUNNER.invoke(app, ["gram", "-q"], env={"DISTEMBED_DATA": str(tmp_path)})
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "needs torch: pip install 'distembed[vision]'"),
        (ModuleNotFoundError("No module named 'PIL'", name="PIL.Image"), "needs PIL: pip install 'distembed[vision]'"),
        (ImportError("gram: needs PyTorch: pip install 'distembed[vision]'"), "needs PyTorch: pip install 'distembed["),
        (ModuleNotFoundError("No", name="matplotlib"), "this command needs matplotlib: pip install 'distembed[cli]'"),
    ],
)
def test_missing_packages_are_named_with_their_extra(gram, error, said):
    gram.wrong["prepare"] = error
    assert last(run("gram", code=1)).startswith(f"distembed: gram: {said}")


def test_all_goes_on_without_those_that_can_not_run(studies, tmp_path):
    studies["mixture"].wrong["prepare"] = FileNotFoundError("mixture: needs real data")
    studies["scenes"].wrong["seed 1"] = ImportError("scenes: needs PyTorch: pip install 'distembed[vision]'")
    result = run("all", "--json", code=2)
    answer = json.loads(result.stdout)["experiments"]
    assert [each["experiment"] for each in answer] == list(reproduce.EXPERIMENTS)
    assert [each.get("error") for each in answer] == [
        None, "mixture: needs real data", None, "scenes: needs PyTorch: pip install 'distembed[vision]'",
        None, None,
    ]  # fmt: skip
    assert "distembed: mixture: needs real data" in result.stderr.splitlines()
    assert last(result) == "distembed: 4 of 6 experiments are done; not mixture, scenes"
    assert sorted(path.name for path in (tmp_path / "results").glob("*.md")) == [
        "gram.md",
        "images.md",
        "real.md",
        "regression.md",
    ]
    del studies["mixture"].wrong["prepare"]
    run("all", "-q", code=1)
    assert (tmp_path / "results" / "mixture.md").exists()


def test_for_machines(gram):
    answer = json.loads(run("gram", "--json").stdout)
    assert answer == {
        "command": "reproduce",
        "quick": False,
        "experiments": [
            {
                "experiment": "gram",
                "title": "Squares",
                "steps": {"done": 4, "total": 4, "missing": []},
                "findings": ["4 sums: confirmed."],
                "tables": {
                    "scores": {
                        "title": "Sums of squares",
                        "columns": ["step", "sum", "paper"],
                        "rows": [["seed 0", 0, None], ["seed 1", 1, None], ["seed 2", 4, None], ["all seeds", 5, None]],
                    },
                    "more": {"title": "More", "columns": ["a|b"], "rows": [["c|d"]]},
                },
                "files": [f"results/gram{end}" for end in (".md", "_line.png", "_scores.csv", "_more.csv")],
            }
        ],
    }


def test_steps_by_pattern_and_reports_of_some(gram, tmp_path):
    result = run("gram", "--steps", "seed [12]")
    assert gram.calls == ["prepare", "seed 1", "seed 2"]
    assert "distembed: gram: 2 of 2: seed 2" in result.stderr
    assert last(result) == "distembed: gram: 2 of 4 steps are missing: seed 0; all seeds"
    assert (
        "**Not complete:** 2 more steps are missing: seed 0; all seeds."
        in (tmp_path / "results" / "gram.md").read_text()
    )
    run("gram", "--steps", "seed 0", "--steps", "all*")
    assert gram.calls[3:] == ["prepare", "seed 0", "all seeds"]
    assert "Not complete" not in (tmp_path / "results" / "gram.md").read_text()
    assert run("gram", "--steps", "Seed*", code=2).stderr == (
        "distembed: --steps 'Seed*': no step has such a name; --list shows all\n"
    )


def test_a_step_that_another_process_has_done_is_not_computed_again(studies, gram):
    square = gram._square

    def other_too(self, name, values):
        if name == "seed 0":
            other = gram()
            other.run(other.steps()[1])
            gram.calls.clear()
        return square(self, name, values)

    studies["gram"] = look(gram, {"_square": other_too})
    said = run("gram").stderr
    assert gram.calls == ["seed 0", "seed 2", "all seeds"]
    assert "3 of 4: seed 2" in said


def test_a_report_alone_computes_nothing(gram, tmp_path):
    said = run("gram", "--report-only", "--cache", "kept", code=2).stderr
    assert said == ("distembed: gram: none of its 4 steps is in 'kept'; compute them by python -m reproduce gram\n")
    assert not (tmp_path / "results").exists()
    run("gram", "--steps", "seed 1", "--cache", "kept", "-q")
    gram.calls.clear()
    result = run("gram", "--report-only", "--cache", "kept", "--json")
    assert gram.calls == []
    assert result.stderr == "distembed: gram: 3 of 4 steps are missing: seed 0; seed 2; all seeds\n"
    answer = json.loads(result.stdout)["experiments"][0]
    assert answer["steps"] == {"done": 1, "total": 4, "missing": ["seed 0", "seed 2", "all seeds"]}
    assert answer["tables"]["scores"]["rows"] == [["seed 1", 1, None]]


def test_many_missing_steps_are_not_all_named(studies, gram):
    many = [Step(f"s{i}", {"i": i}, lambda: {"squares": np.ones(1)}) for i in range(20)]
    studies["gram"] = look(gram, {"steps": lambda self: many})
    said = last(run("gram", "--steps", "s3"))
    assert said.endswith("19 of 20 steps are missing: s0; s1; s2; s4; s5; s6; s7; s8; and 11 more, see --list")


def test_the_list_of_steps(gram, tmp_path):
    run("gram", "--steps", "seed 1", "-q")
    gram.calls.clear()
    shown = run("gram", "--list").stdout
    assert shown.startswith("gram: squares of seeds\n")
    assert re.search(r"^step +1 of 4 done$", shown, re.MULTILINE)
    assert re.findall(r"^(seed \d|all seeds) +(.*?) *$", shown, re.MULTILINE) == [
        ("seed 0", "missing"), ("seed 1", "5.0 s"), ("seed 2", "missing"), ("all seeds", "missing"),
    ]  # fmt: skip
    assert gram.calls == []
    answer = json.loads(run("all", "--list", "--json").stdout)["experiments"]
    assert [each["experiment"] for each in answer] == list(reproduce.EXPERIMENTS)
    assert answer[0]["steps"][1] == {"name": "seed 1", "done": True, "seconds": 5.0}
    assert answer[0]["steps"][2] == {"name": "seed 2", "done": False, "seconds": None}


def test_a_damaged_step_is_computed_again_with_a_note(gram):
    run("gram", "-q")
    study = gram()
    damage(study.cache.path("gram", study.steps()[1]), "cut")
    gram.calls.clear()
    result = run("gram", "--report-only")
    assert result.stderr.count("damaged (") == 1
    assert last(result) == "distembed: gram: 1 of 4 steps are missing: seed 1"
    said = run("gram").stderr
    assert said.count("distembed: warning: ") == said.count("damaged (") == 1
    assert "so step 'seed 1' of gram counts as not done" in said
    assert gram.calls == ["prepare", "seed 1"]
    assert run("gram").stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "'nonsense' is not one of 'gram', 'mixture', 'images', 'scenes', 'real', 'regression', 'all'"),
        (["gram", "--list", "--report-only"], "--list and --report-only exclude each other; choose one"),
        (["gram", "--steps", "a", "--report-only"], "--report-only computes nothing; leave one out"),
        (["gram", "-o", "file/below"], "--output 'file/below': "),
        (["gram", "--cache", "file"], "--cache 'file': 'file' is a file; name a folder"),
    ],
)
def test_bad_usage_is_refused_before_any_work(gram, tmp_path, words, said):
    (tmp_path / "file").touch()
    result = run(*words, code=2)
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert gram.calls == []


def test_help_imports_nothing_heavy():
    heavy = ["numpy", "sklearn", "matplotlib", "rich.console", "distembed.bags", "reproduce.study"]
    code = f"""
import sys
from distembed.cli import run_program
try:
    run_program("python -m reproduce", "reproduce.app", ["--help"])
except SystemExit as end:
    print(end.code, [name for name in {heavy} if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("name", reproduce.EXPERIMENTS)
def test_every_experiment_has_steps_that_differ(name, tmp_path):
    for quick in (False, True):
        study = reproduce.get(name)(quick=quick, cache=tmp_path)
        assert study.name == name
        assert study.summary
        try:
            steps = study.checked_steps()
        except FileNotFoundError:
            assert study.needs_data
        else:
            assert [step.name for step in study.missing()] == [step.name for step in steps]


# --------------------------------------------------------------------------------------------------------------
# Progress
# --------------------------------------------------------------------------------------------------------------


def test_a_bar_tells_the_present_step(gram, monkeypatch):
    seen = []

    class Seen:
        def begin(self, stage, total):
            seen.append((stage, total))

        def advance(self, more):
            seen.append(more)

    monkeypatch.setattr(Screen, "bar", lambda *args, **kwargs: nullcontext(Seen()))
    run("gram")
    assert seen == [("gram: numbers", 4), 1, 3, *((f"gram: {name}", None) for name in NAMES)]


def test_the_program_runs_and_the_command_says_where_it_went(tmp_path):
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "reproduce", "gram", "--list", "--cache", str(tmp_path)]
    listed = subprocess.run(words, capture_output=True, text=True, cwd=root, timeout=60, check=True)
    assert "0 of" in listed.stdout
    said = refused("reproduce", "gram")
    assert said == (
        "distembed: 'reproduce' is not a command; the paper's experiments are in the repository: in a copy of it, use "
        "python -m reproduce"
    )
