"""The program: start, help, completion, errors, bars, and what is installed."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import FAST, fit_words, process, refused, run

import distembed as de
from distembed import embeddings
from distembed.cli.app import COMMANDS, Screen, in_options
from distembed.compute.checks import Argument, Message, check_number
from distembed.kernels.comparisons import Comparison

HEAVY = ["numpy", "scipy", "sklearn", "pyarrow", "pandas", "matplotlib", "rich.console", "distembed.bags"]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["fit", "--help"], ["distances", "--help"]])
def test_help_imports_nothing_heavy(words):
    code = f"""
import sys
from distembed.cli import main
try:
    main({words})
except SystemExit as end:
    print(end.code, [name for name in {HEAVY} if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "0 []"
    assert found.stderr == ""


def test_completion_is_clicks_own_and_as_light():
    words = {
        **os.environ,
        "_DISTEMBED_COMPLETE": "bash_complete",
        "COMP_WORDS": "distembed fit --emb",
        "COMP_CWORD": "2",
    }
    code = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules]))
from distembed.cli import main
main()
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=words, timeout=60
    )
    assert "plain,--embedding" in found.stdout
    assert found.stdout.splitlines()[-1] == "[]"


def test_without_words_there_is_help_with_all_commands():
    found = run()
    assert found.stdout == run("--help").stdout
    assert re.findall(r"^  (\w+) ", found.stdout.split("Commands:")[1], re.MULTILINE)[: len(COMMANDS)] == list(COMMANDS)
    assert "_DISTEMBED_COMPLETE" in found.stdout
    assert run("--version").stdout == f"distembed {de.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    text = run(name, "-h").stdout
    assert text.startswith(f"Usage: distembed {name} ")
    assert "--json" in text
    assert "--debug" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predcit"], "no command is called 'predcit'; did you mean 'predict'?"),
        (["zzz"], "there are demo, fit, predict"),
        (["fit"], "missing argument 'TABLE...'; distembed fit --help shows more"),
        (["fit", "a.csv"], "missing option '--label'"),
        (["embed", "a.csv", "-o", "e.npz"], "--bag is missing, and no model remembers one"),
        (["fit", "a.csv", "--bagg", "x"], "no such option"),
        (["fit", "a", "--bag", "b", "--labels", "l", "--label", "y", "-o", "m", "--tune", "1"], "'holdout', 'none' or"),
        (
            ["fit", "a", "--bag", "b", "--labels", "l", "--label", "y", "-o", "m", "--embedding", "nn"],
            "'nn' is not one",
        ),
        (["embed", "a.csv", "--bag", "b", "--set", "n_basis"], "'n_basis' must be NAME=VALUE"),
        (["explain", "m", "a.csv", "--plot", "p.png"], "--plot draws one bag; name it by --id"),
        (["distances", "a.csv", "--bag", "b", "--json"], "--json needs -o here"),
        (["distances", "a.csv", "--bag", "b", "--set", "n_basis=3"], "--set applies to an embedding"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(words, said):
    assert said in refused(*words)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["a\nb  c"], "a b c"),
        (["or pass ", Argument("bag_type", "text")], "or pass --bag-type text"),
        (
            ["use 2, or ", Argument("n_components", None), " for the features"],
            "use 2, or --components 0 for the features",
        ),
        ([Argument("columns", None), " takes"], "leaving out --columns takes"),
        (["pass ", Argument("delimiter", ";")], "pass --delimiter ';'"),
        ([Argument("memory_limit", owner="BagTable"), ": must be"], "--memory-limit: must be"),
        (["'a.csv': ", Argument("bag"), " names column 'x'"], "'a.csv': --bag names column 'x'"),
        ([Argument("n_basis", owner="HDDEmbedding"), ": must be"], "HDDEmbedding(n_basis=...): must be"),
        (["one: ", Message("two, ", Argument("missing", "drop"))], "one: two, --missing drop"),
    ],
)
def test_errors_of_the_library_name_options(parts, said):
    assert in_options(ValueError(Message(*parts))) == said


def test_messages_keep_their_arguments_in_pickles_and_checks():
    import pickle

    with pytest.raises(
        ValueError, match=r"^fit\(n_components=\.\.\.\): must be an integer in \[2, inf\), got 1; "
    ) as caught:
        check_number("fit", "n_components", 1, low=2, integer=True)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert in_options(again).startswith("--components: must be an integer in [2, inf), got 1")


def test_unexpected_errors_have_code_1_and_debug_shows_where(folder, monkeypatch):
    def fail(*args):
        raise KeyError("inside")

    monkeypatch.setattr("distembed.files.info", fail)
    said = refused("info", folder / "numbers.distembed", code=1)
    assert said == "distembed: unexpected KeyError: 'inside'; --debug shows where"
    shown = run("info", folder / "numbers.distembed", "--debug", code=1).stderr
    assert "Traceback" in shown
    assert shown.endswith(said + "\n")


def test_debug_of_one_command_does_not_stay_for_the_next(folder, tmp_path):
    run("info", tmp_path / "absent.csv", "--debug", code=2)
    assert "no such file" in refused("info", tmp_path / "absent.csv")


def test_ctrl_c_ends_with_130(folder, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("distembed.files.info", stop)
    assert run("info", folder / "numbers.distembed", code=130).stderr.strip() == "distembed: stopped"


def test_a_reader_that_leaves_early_is_no_error(folder):
    """``distembed predict ... | head -1``: no traceback."""
    words = [sys.executable, "-m", "distembed.cli", "predict", folder / "numbers.distembed", folder / "points.parquet"]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()


def test_without_click_there_is_a_remedy():
    code = "import sys; sys.modules['click'] = None\nfrom distembed.cli import main\nmain(['--help'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 1
    assert found.stderr == "distembed: the command line needs click and rich: pip install 'distembed[cli]'\n"


def test_what_is_not_installed_has_a_remedy_and_what_is_broken_has_none(folder, monkeypatch):
    for name in ["rich", *(name for name in sys.modules if name.startswith("rich."))]:
        monkeypatch.setitem(sys.modules, name, None)
    said = refused("info", folder / "numbers.distembed", code=1)
    assert said == "distembed: this command needs rich: pip install 'distembed[cli]'"
    monkeypatch.setitem(sys.modules, "distembed.files", None)
    assert "--debug shows where" in refused("info", folder / "numbers.distembed", code=1)


def test_names_are_those_of_the_registries(folder, tmp_path):
    """Also those that are added from outside."""
    method = embeddings.catalogue.Method("mine", de.MomentEmbedding, {"kind": "mean"}, "what I want")
    embeddings.catalogue.register(method)
    try:
        found = json.loads(run("info", "--methods", "--json").stdout)
        assert [each["name"] for each in found["embeddings"]] == list(embeddings.available())
        assert "mine" in run("info", "--methods").stdout
        run("embed", folder / "points.csv", "--bag", "cluster", "--embedding", "mine", "-o", tmp_path / "f.csv")
    finally:
        embeddings.catalogue.forget("mine")
    assert "'mine' is not one of 'js', " in refused(
        "embed", folder / "points.csv", "--bag", "cluster", "--embedding", "mine"
    )
    bags = de.as_bags(np.random.default_rng(0).uniform(size=(4, 12, 1)))
    for name in found["divergences"]:
        compare = Comparison(name.replace("<a>", "0.9"), bags, "test")
        assert compare.both_ways(compare.look_at(bags)).shape == (4, 4)
    assert "name a model or a table, or add --methods" in refused("info")


def test_bars_tell_rate_and_time_left():
    from rich.console import Console

    from distembed.cli.app import Bar

    file = io.StringIO()
    console = Console(file=file, width=120, force_terminal=True)
    with Bar("points", console=console, patience=0) as bar:
        bar.begin("reading", 100)
        bar.advance(10)
        bar.advance(10)
        bar.refresh()
        bar.begin("learning", 7)
        bar.advance(7)
        bar.refresh()
        bar.begin("choosing settings", 3)
        bar.advance(3)
    assert re.search(r"reading.*20 of 100 points, .* a second, [0-9:]+ left", file.getvalue())
    assert "7 of 7 points" in file.getvalue()
    assert "3 of 3 settings" in file.getvalue()


def test_short_work_shows_no_bar():
    from rich.console import Console

    from distembed.cli.app import Bar

    file = io.StringIO()
    with Bar("points", console=Console(file=file, force_terminal=True)) as bar:
        bar.begin("reading", 100)
        bar.advance(100)
    assert file.getvalue() == ""


def test_a_bar_sees_the_stages_of_a_fit(folder, tmp_path, monkeypatch):
    seen = []

    class Seen:
        def begin(self, stage, total):
            seen.append(stage)

        def advance(self, more):
            seen.append(more)

    from contextlib import contextmanager

    @contextmanager
    def bar(self, doing, total=None, unit="bags"):
        seen.append(doing)
        yield Seen()

    monkeypatch.setattr(Screen, "bar", bar)
    run(*fit_words(folder, tmp_path / "m", *FAST, "-q"))
    assert [each for each in seen if isinstance(each, str)] == [
        "reading", "scaling points", "scaling points", "choosing settings", "fitting the embedding", "learning",
        "solving", "judging", "learning", "solving",
    ]  # fmt: skip
    assert seen[seen.index("choosing settings") + 1] == 1  # the search counts
    seen.clear()
    run(*fit_words(folder, tmp_path / "m", *FAST, "-q", "--out-of-core"))
    stages = [each for each in seen if isinstance(each, str)]
    assert stages == [
        "reading ids", "reading ids", "sorting", "looking at all bags", "sorting", "looking at all bags",
        "scaling points", "choosing settings", "fitting the embedding", "learning", "sorting", "learning", "solving",
        "judging", "learning from all bags",
    ]  # fmt: skip
    assert seen[seen.index("choosing settings") + 1] == 1


def test_the_module_runs_as_a_script():
    assert process("--version").stdout == f"distembed {de.__version__}\n"
    assert Path(sys.executable).exists()
