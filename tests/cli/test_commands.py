"""The command line: every command, what it refuses, how it ends, and that a stopped fit goes on."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import flowio
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, root_mean_squared_error

import distembed as de
from distembed import divergences, embeddings
from distembed.cli.app import COMMANDS, Screen, app, in_options
from distembed.compute.checks import Argument, Message, check_number
from distembed.kernels.comparisons import Comparison
from distembed.tables import read_bags, read_labels, write_table
from distembed.tables.labels import read_covariates

RUNNER = CliRunner(**({"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}))
FAST = ("--embedding", "deviation", "--components", "20")
PNG = b"\x89PNG\r\n"
HEAVY = ["numpy", "scipy", "sklearn", "pyarrow", "pandas", "matplotlib", "rich.console", "distembed.bags"]


def run(*words, code=0):
    """Run a command in this process; its answer, after a look at the exit code."""
    result = RUNNER.invoke(app, [str(word) for word in words], prog_name="distembed")
    if code == 0 and result.exit_code != 0 and result.exception is not None:
        print(result.stderr)
    assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
    return result


def refused(*words, code=2):
    """The one line that a command says when it refuses."""
    result = run(*words, code=code)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("distembed: warning:")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("distembed: ")
    assert result.stdout == ""
    return lines[0]


def process(*words, **options):
    command = [sys.executable, "-m", "distembed.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def make_rows(n_bags=60, n_points=25, seed=0):
    """Columns of shuffled points, and of labels: spreads, their classes, and groups."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, size=n_bags)
    bag = np.repeat(np.arange(n_bags), n_points)
    names = np.array([f"c{i:03}" for i in range(n_bags)])
    x, y = rng.normal(size=(2, len(bag))) * spread[bag]
    order = rng.permutation(len(bag))
    weight = rng.uniform(0.5, 1, len(bag))
    points = {"cluster": names[bag], "x": x, "y": y, "w": weight}
    labels = {
        "cluster": names,
        "spread": spread,
        "size": np.where(spread > 1.25, "large", "small"),
        "site": np.arange(n_bags) % 6,
    }
    return {name: column[order] for name, column in points.items()}, labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a model of each kind; tests write elsewhere."""
    path = tmp_path_factory.mktemp("cli")
    points, labels = make_rows()
    write_table(points, path / "points.parquet")
    write_table(points, path / "points.csv")
    write_table(labels, path / "labels.csv")
    for label, model in (("spread", "numbers"), ("size", "classes")):
        run("fit", path / "points.parquet", "--bag", "cluster", "--columns", "x,y", "--labels", path / "labels.csv",
            "--label", label, *FAST, "-o", path / f"{model}.distembed", "-q")  # fmt: skip
    return path


def fit_words(folder, output, *more, label="spread", points="points.parquet"):
    return ("fit", folder / points, "--bag", "cluster", "--columns", "x,y", "--labels", folder / "labels.csv",
            "--label", label, "-o", output, *more)  # fmt: skip


# --------------------------------------------------------------------------------------------------------------
# Start, help, errors
# --------------------------------------------------------------------------------------------------------------


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
        (["fit"], "missing argument 'TABLE...'; distembed fit --help tells more"),
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


# --------------------------------------------------------------------------------------------------------------
# fit and predict
# --------------------------------------------------------------------------------------------------------------


def test_fit_reports_saves_and_draws(folder, tmp_path):
    shown = run(*fit_words(folder, tmp_path / "m.distembed", *FAST, "--plot", tmp_path / "fit.png")).stdout
    assert "5 settings, judged on bags that were held out" in shown
    assert "spread, on 6 bags that the model had not seen" in shown
    assert re.search(r"^RMSE +[0-9.]+ ± ", shown, re.MULTILINE)
    assert re.search(r"^search +[0-9.]+$", shown, re.MULTILINE)
    assert shown.endswith("deviation of 60 bags, 1,500 points\n")
    assert (tmp_path / "fit.png").read_bytes().startswith(PNG)
    model = de.load(tmp_path / "m.distembed")
    assert model.table_ == {"bag": "cluster", "columns": ["x", "y"], "weights": None, "label": "spread"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.png", "m.distembed"]


def test_fit_for_machines(folder, tmp_path):
    result = run(*fit_words(folder, tmp_path / "m.distembed", *FAST, "--json"))
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert found["kind"] == "regression"
    assert (found["n_bags"], found["n_points"], found["n_test"]) == (60, 1500, 6)
    assert found["scores"]["r2"]["value"] > 0.5
    assert found["scores"]["rmse"]["standard_error"] > 0
    assert found["settings"]["sigma_scale"] in (0.25, 0.5, 1, 2, 4)
    assert max(each["r2"] for each in found["search"]) <= 1
    assert found["seconds"]["all"] >= found["seconds"]["search"]


def test_quiet_says_results_alone(folder, tmp_path):
    result = run(*fit_words(folder, tmp_path / "m.distembed", *FAST, "--quiet"))
    assert result.stderr == ""
    assert result.stdout.startswith("spread, on 6 bags that the model had not seen\n")
    assert [line.split()[0] for line in result.stdout.splitlines()[3:6]] == ["RMSE", "MAE", "R²"]
    assert len(result.stdout.splitlines()) == 7
    assert run("predict", tmp_path / "m.distembed", folder / "points.csv", "-q", "-o", tmp_path / "p.csv").stdout == ""
    words = ("evaluate", tmp_path / "p.csv", "--labels", folder / "labels.csv", "--label", "spread")
    assert run(*words, "-q").stdout == run(*words).stdout
    assert run("info", folder / "points.csv", "-q").stdout == run("info", folder / "points.csv").stdout


def test_the_model_has_learned_from_bags_that_were_kept_out(folder, tmp_path):
    """The stages come from the other bags, the linear model from all."""
    run(*fit_words(folder, tmp_path / "m.distembed", *FAST, "--test", "0.5", "-q"))
    model = de.load(tmp_path / "m.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    y = bags.align(dict(read_labels(folder / "labels.csv", bag="cluster", label="spread")))
    Z = model.transform_features(bags)
    from sklearn.linear_model import Ridge

    expected = Ridge(model.best_params_["alpha"]).fit(Z, y).predict(Z)
    np.testing.assert_allclose(model.predict(bags), expected, rtol=1e-6)
    assert model.search_.n_bags == 30


def test_without_bags_kept_out_each_is_left_out_once(folder, tmp_path):
    words = fit_words(folder, tmp_path / "m.distembed", "--embedding", "deviation", "--components", "100")
    found = json.loads(run(*words, "--test", "0", "--json", "--plot", tmp_path / "p.png").stdout)
    assert (found["judged_by"], found["n_test"]) == ("leave-one-out", 0)
    assert 0 < found["scores"]["r2"]["value"] < 1
    assert (tmp_path / "p.png").exists()


def test_few_bags_are_not_kept_out(tmp_path):
    points, labels = make_rows(10)
    write_table(points, tmp_path / "points.parquet")
    write_table(labels, tmp_path / "labels.csv")
    words = fit_words(tmp_path, tmp_path / "m", *FAST, "--json", label="size")
    result = run(*words, "--plot", tmp_path / "p.png")
    found = json.loads(result.stdout)
    assert (found["n_test"], found["judged_by"], found["plot"]) == (0, None, None)
    assert "nothing to draw; add --test 0.2" in result.stderr


def test_predictions_are_those_of_the_model(folder, tmp_path):
    model = de.load(folder / "numbers.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    printed = run("predict", folder / "numbers.distembed", folder / "points.parquet").stdout
    lines = printed.splitlines()
    assert lines[0] == "cluster,prediction"
    assert [line.split(",")[0] for line in lines[1:]] == bags.ids.tolist()
    np.testing.assert_array_equal([float(line.split(",")[1]) for line in lines[1:]], model.predict(bags))
    for suffix in ("csv", "parquet", "feather", "npz"):
        path = tmp_path / f"p.{suffix}"
        run("predict", folder / "numbers.distembed", folder / "points.csv", "-o", path)
        found = read_labels(path, bag="cluster", label="prediction")
        np.testing.assert_allclose(found.labels, model.predict(bags), rtol=1e-12)
    found = json.loads(run("predict", folder / "numbers.distembed", folder / "points.csv", "--json").stdout)
    assert found["n_bags"] == 60
    assert found["columns"]["cluster"][:2] == ["c000", "c001"]


def test_predictions_do_not_depend_on_batches(folder, monkeypatch):
    whole = run("predict", folder / "numbers.distembed", folder / "points.parquet").stdout
    monkeypatch.setattr("distembed.cli.options.BATCH_POINTS", 60)
    numbers = [[float(line.split(",")[1]) for line in text.splitlines()[1:]] for text in
               (whole, run("predict", folder / "numbers.distembed", folder / "points.parquet").stdout)]  # fmt: skip
    np.testing.assert_allclose(*numbers, rtol=1e-9)


def test_deviations_of_predictions(folder, tmp_path):
    run(*fit_words(folder, tmp_path / "m", *FAST, "--updatable", "-q"))
    model = de.load(tmp_path / "m")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    found = json.loads(run("predict", tmp_path / "m", folder / "points.parquet", "--std", "--json").stdout)
    np.testing.assert_allclose(found["columns"]["std"], model.predict(bags, return_std=True)[1])
    assert "--std applies to models" in refused("predict", folder / "classes.distembed", folder / "points.csv", "--std")
    said = refused("predict", folder / "numbers.distembed", folder / "points.csv", "--std")
    assert "comes from a file without what deviations and partial_fit need" in said
    assert "--updatable" in said


def test_classes_of_equal_weight(folder, tmp_path):
    words = [*FAST, "--classify", "--class-weight", "balanced", "--test", "0"]
    run(*fit_words(folder, tmp_path / "m", *words, label="site"))
    model = de.load(tmp_path / "m")
    assert model.class_weight == "balanced"
    assert len(model.class_weight_) == len(model.classes_)
    run(*fit_words(folder, tmp_path / "m", *FAST, "--class-weight", "large=3, small=1", label="size"))
    assert de.load(tmp_path / "m").class_weight == {"large": 3, "small": 1}
    for wrong, said in (("big=3", "'big' is none of the classes, large, small"), ("large", "must be 'balanced', or")):
        assert said in refused(*fit_words(folder, tmp_path / "m", *FAST, "--class-weight", wrong, label="size"))
    shown = run(*fit_words(folder, tmp_path / "m", *words[:-2], label="site")).stdout
    assert re.search(r"^balanced accuracy +0", shown, re.MULTILINE)
    text = refused(*fit_words(folder, tmp_path / "n", *FAST, "--class-weight", "balanced"))
    assert "--class-weight applies to classes, and these labels are numbers" in text


def test_classes_have_probabilities(folder):
    found = json.loads(run("predict", folder / "classes.distembed", folder / "points.parquet", "--json").stdout)
    columns = found["columns"]
    total = np.add(columns["probability_large"], columns["probability_small"])
    np.testing.assert_allclose(total, 1)
    picked = np.where(np.array(columns["probability_large"]) > 0.5, "large", "small")
    assert columns["prediction"] == picked.tolist()
    model = de.load(folder / "classes.distembed")
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    assert columns["prediction"] == model.predict(bags).tolist()


def test_other_linear_models_of_classes(folder, tmp_path):
    for name in ("svm", "ridge"):
        words = fit_words(folder, tmp_path / "m", *FAST, "--model", name, "--json", label="size")
        found = json.loads(run(*words, "--plot", tmp_path / f"{name}.png").stdout)
        assert set(found["scores"]) == {"balanced_accuracy", "accuracy", "log_loss"}
        assert found["classes"] == ["large", "small"]
        assert sum(map(sum, found["confusion"]["counts"])) == found["n_test"]
        assert run("predict", tmp_path / "m", folder / "points.csv").stdout.startswith(
            "cluster,prediction,probability_"
        )
    assert "--model applies to classes" in refused(*fit_words(folder, tmp_path / "m", *FAST, "--model", "svm"))


def test_numbers_can_be_classes_and_are_not_by_default(folder, tmp_path):
    result = run(*fit_words(folder, tmp_path / "m", *FAST, label="site"))
    assert "add --classify if its values are names of classes" in result.stderr
    found = json.loads(run(*fit_words(folder, tmp_path / "m", *FAST, "--classify", "--json", label="site")).stdout)
    assert found["classes"] == list(range(6))
    assert "--regress needs numbers" in refused(*fit_words(folder, tmp_path / "m", "--regress", label="size"))


def test_groups_are_kept_out_together(folder, tmp_path):
    found = json.loads(run(*fit_words(folder, tmp_path / "m", *FAST, "--groups", "site", "--json")).stdout)
    assert found["n_test"] == 10


def test_groups_out_of_core(folder, tmp_path, small_batches, monkeypatch):
    from distembed.learners.estimators import Learner

    seen, keep = [], Learner._begin
    monkeypatch.setattr(Learner, "_begin", lambda self, sample, *more: (seen.append(sample), keep(self, sample, *more)))
    words = fit_words(folder, tmp_path / "m", *FAST, "--groups", "site", "--out-of-core", "--json")
    found = json.loads(run(*words).stdout)
    assert (found["out_of_core"], found["n_test"]) == (True, 10)
    groups = seen[0][3]
    assert len(groups) == 50
    assert len(set(groups)) == 5  # whole groups were kept out


def test_a_class_of_groups_that_are_kept_out_alone_is_refused(tmp_path):
    points, labels = make_rows(30)
    labels["size"] = np.where(labels["site"] == 3, "huge", labels["size"])
    write_table(points, tmp_path / "points.csv")
    write_table(labels, tmp_path / "labels.csv")
    words = fit_words(
        tmp_path, tmp_path / "m", *FAST, "--groups", "site", "--test", 0.4, label="size", points="points.csv"
    )
    said = [RUNNER.invoke(app, [str(word) for word in (*words, "--seed", seed)]).stderr for seed in range(4)]
    assert any("class 'huge' is in groups alone that are kept out; add --test 0" in each for each in said)


def test_weights_several_files_and_settings(folder, tmp_path):
    points, _ = make_rows()
    (tmp_path / "parts").mkdir()
    for part in range(3):
        write_table({name: column[part::3] for name, column in points.items()}, tmp_path / "parts" / f"{part}.parquet")
    outputs = {}
    for name, source in (("one", [folder / "points.parquet"]), ("many", sorted((tmp_path / "parts").iterdir()))):
        model = tmp_path / f"{name}.distembed"
        run("fit", *source, "--bag", "cluster", "--weights", "w", "--labels", folder / "labels.csv",
            "--label", "spread", "--embedding", "hellinger", "--set", "n_basis=3", "--set", "bandwidth=0.1",
            "--tune", "none", "--components", 0, "-o", model, "-q", "--jobs", 1)  # fmt: skip
        assert de.load(model).embedding.n_basis == 3
        assert de.load(model).table_["weights"] == "w"
        outputs[name] = run("predict", model, *source).stdout
    values = [[float(line.split(",")[1]) for line in text.splitlines()[1:]] for text in outputs.values()]
    np.testing.assert_allclose(*values, rtol=1e-6)
    said = refused(*fit_words(folder, tmp_path / "m", "--embedding", "js", "--components", "7"))
    assert "--components: must be even, for the sine and the cosine of each frequency, got 7; use 8, or" in said
    assert said.endswith("or --components 0 for the features themselves")
    said = refused(*fit_words(folder, tmp_path / "m", "--embedding", "js", "--set", "n_bases=3"))
    assert "--set n_bases: js has no such parameter; did you mean n_basis?" in said


def test_models_from_python_need_the_column_of_bags(folder, tmp_path):
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["y", "x"])
    y = np.arange(60.0)
    model = de.DistributionRegressor("deviation", n_components=20, tune=None, random_state=0).fit(bags, y)
    de.save(model, tmp_path / "m.distembed")
    assert "--bag is missing" in refused("predict", tmp_path / "m.distembed", folder / "points.parquet")
    found = json.loads(
        run("predict", tmp_path / "m.distembed", folder / "points.parquet", "--bag", "cluster", "--json").stdout
    )
    np.testing.assert_allclose(found["columns"]["prediction"], model.predict(bags))


def test_ids_that_are_numbers_with_zeros_are_text_on_request(tmp_path):
    points, labels = make_rows(24)
    for table in (points, labels):
        table["cluster"] = np.char.replace(table["cluster"], "c", "")
    write_table(points, tmp_path / "points.csv")
    write_table(labels, tmp_path / "labels.csv")
    words = fit_words(tmp_path, tmp_path / "m", *FAST, "--bag-type", "text", "-q", points="points.csv")
    run(*words)
    printed = run("predict", tmp_path / "m", tmp_path / "points.csv", "--bag-type", "text").stdout
    assert printed.splitlines()[1].startswith("000,")


def test_ids_of_labels_are_text_where_those_of_points_are(tmp_path):
    points, labels = make_rows(24)
    labels["cluster"] = np.char.replace(labels["cluster"], "c", "").astype(int)
    points["cluster"] = np.char.replace(points["cluster"], "c", "").astype(int).astype(str)
    write_table(points, tmp_path / "points.parquet")
    write_table(labels, tmp_path / "labels.csv")
    run(*fit_words(tmp_path, tmp_path / "m", "--covariates", "site", "--time-limit", 1e-6, "-q"))
    run("predict", tmp_path / "m", tmp_path / "points.parquet", "--labels", tmp_path / "labels.csv",
        "-o", tmp_path / "p.parquet")  # fmt: skip
    judged = run("evaluate", tmp_path / "p.parquet", "--labels", tmp_path / "labels.csv", "--label", "spread", "--json")
    assert json.loads(judged.stdout)["n_bags"] == 24


def test_an_old_model_stays_if_the_new_one_can_not_be_written(folder, tmp_path, monkeypatch):
    import distembed.files.archive as archive

    target = tmp_path / "m.distembed"
    target.write_bytes(b"old")
    monkeypatch.setattr(archive, "ZipFile", None)
    assert run(*fit_words(folder, target, *FAST, "--tune", "none", "-q"), code=1)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_paths_that_can_not_be_written_are_refused_before_the_work(folder, tmp_path):
    absent = tmp_path / "absent" / "m.distembed"
    assert "does not exist; make it first" in refused(*fit_words(folder, absent))
    assert "is a directory; name a file in it" in refused(*fit_words(folder, tmp_path))
    said = refused(*fit_words(folder, tmp_path / "m", "--plot", absent))
    assert said.startswith("distembed: --plot ")
    said = refused("predict", folder / "numbers.distembed", folder / "points.csv", "-o", tmp_path / "p.xlsx")
    assert "its suffix must be one of .parquet" in said
    said = refused(*fit_words(folder, tmp_path / "m", *FAST, "--tune", "none", "--plot", tmp_path / "p.bmpp"))
    assert "pictures are png, pdf or svg" in said


# --------------------------------------------------------------------------------------------------------------
# Out of core, stopped, and gone on
# --------------------------------------------------------------------------------------------------------------

SMALL_BATCHES = {"distembed.cli.options.BATCH_POINTS": 200, "distembed.learners.batch.Checkpoint.seconds_between": -1.0}


@pytest.fixture
def small_batches(monkeypatch):
    for name, value in SMALL_BATCHES.items():
        monkeypatch.setattr(name, value)


def test_out_of_core(folder, tmp_path, small_batches):
    for label, kind in (("spread", "r2"), ("size", "accuracy")):
        words = fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "--updatable", "--json", label=label)
        found = json.loads(run(*words).stdout)
        assert found["out_of_core"] is True
        assert (found["n_bags"], found["n_points"], found["n_test"]) == (60, 1500, 6)
        assert found["scores"][kind]["value"] > 0.5
        model = de.load(tmp_path / "m")
        assert model.model_.head.ridge.learned().n_rows == 60  # those that were kept out are learned from at the end
        assert "made_from" not in model.table_
        assert not (tmp_path / "m.partial").exists()
    said = refused(*fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "--model", "svm", label="size"))
    assert "--model svm needs all bags in memory" in said


@pytest.mark.parametrize("kind", ["M8[D]", "M8[ms]", "f8", "i4", "u8"])
def test_ids_of_any_type_out_of_core(tmp_path, small_batches, kind):
    points, labels = make_rows(24)
    for table in (points, labels):
        table["cluster"] = np.char.replace(table["cluster"], "c", "").astype(int).astype(kind)
    write_table(points, tmp_path / "points.parquet")
    write_table({name: column[:-1] for name, column in labels.items()}, tmp_path / "labels.parquet")
    words = ("fit", tmp_path / "points.parquet", "--bag", "cluster", "--columns", "x,y", "--labels",
             tmp_path / "labels.parquet", "--label", "spread", *FAST, "-o", tmp_path / "m", "--missing", "drop",
             "--out-of-core", "--updatable", "--json")  # fmt: skip
    found = json.loads(run(*words).stdout)
    assert (found["n_bags"], found["n_test"]) == (23, 2)
    assert de.load(tmp_path / "m").model_.head.ridge.learned().n_rows == 23
    assert len(run("predict", tmp_path / "m", tmp_path / "points.parquet").stdout.splitlines()) == 25


def test_without_a_search_out_of_core(folder, tmp_path, small_batches):
    words = fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "--tune", "none", "--json", label="size")
    found = json.loads(run(*words).stdout)
    assert found["search"] == []
    assert found["scores"]["accuracy"]["value"] > 0.5


def test_large_tables_are_read_in_batches(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.cli.fit.MANY_POINTS", 1000)
    for points in ("points.parquet", "points.csv"):
        found = json.loads(run(*fit_words(folder, tmp_path / "m", *FAST, "--json", points=points)).stdout)
        assert found["out_of_core"] is True
    found = json.loads(run(*fit_words(folder, tmp_path / "m", *FAST, "--in-memory", "--json")).stdout)
    assert found["out_of_core"] is False


@pytest.fixture
def stop_after(monkeypatch):
    """Raise KeyboardInterrupt when so many batches have been added."""
    from distembed.learners.estimators import Learner

    add = Learner._add

    def stop_after(n):
        calls = []

        def counted(self, *batch):
            calls.append(1)
            if len(calls) > n:
                raise KeyboardInterrupt
            add(self, *batch)

        monkeypatch.setattr(Learner, "_add", counted)

    return stop_after


def test_a_stopped_fit_goes_on_to_the_same_model(folder, tmp_path, small_batches, stop_after):
    words = [*FAST, "--out-of-core"]
    run(*fit_words(folder, tmp_path / "whole", *words, "-q"))
    for n in (0, 2, 3):
        stop_after(n)
        said = run(*fit_words(folder, tmp_path / "m", *words), code=130).stderr.splitlines()[-1]
        assert said.endswith("m.partial', and the same command goes on from there")
        assert (tmp_path / "m.partial").exists()
        assert not (tmp_path / "m").exists()
    stop_after(10**9)
    result = run(*fit_words(folder, tmp_path / "m", *words, "--json"))
    assert re.search("[2-5] batches are done", result.stderr)
    assert min(json.loads(result.stdout)["seconds"].values()) >= 0
    assert not (tmp_path / "m.partial").exists()
    whole, gone_on = (de.load(tmp_path / name) for name in ("whole", "m"))
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    np.testing.assert_array_equal(gone_on.predict(bags), whole.predict(bags))
    assert gone_on.best_params_ == whole.best_params_


def test_a_checkpoint_of_something_else_is_refused(folder, tmp_path, small_batches, stop_after):
    words = [*FAST, "--out-of-core"]
    stop_after(1)
    run(*fit_words(folder, tmp_path / "m", *words), code=130)
    stop_after(10**9)
    for more in (["--seed", "1"], ["--test", "0.3"], ["--embedding", "mean"]):
        said = refused(*fit_words(folder, tmp_path / "m", *words, *more))
        assert "is a half-finished fit of other data or settings; add --restart to begin again" in said
    run(*fit_words(folder, tmp_path / "m", *words, "--seed", "1", "--restart", "-q"))
    assert not (tmp_path / "m.partial").exists()
    (tmp_path / "m.partial").write_bytes(b"something else")
    assert "can't be read; add --restart" in refused(*fit_words(folder, tmp_path / "m", *words))


def test_killed_and_started_again(folder, tmp_path, small_batches):
    """The signal that can't be caught, in the middle of the second pass."""
    words = [str(word) for word in fit_words(folder, tmp_path / "m", *FAST, "--out-of-core", "-q")]
    code = f"""
import importlib, os, signal
for name, value in {SMALL_BATCHES!r}.items():
    module, _, attribute = name.rpartition(".")
    setattr(importlib.import_module(module), attribute, value)
from distembed.learners.estimators import Learner
keep, calls = Learner._add, []
def add(self, *batch):
    calls.append(1)
    if len(calls) > AFTER:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, *batch)
Learner._add = add
from distembed.cli import main
main({words!r})
"""
    for kill in (3, 10**9):
        script = code.replace("AFTER", str(kill))
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
        if kill == 3:
            assert ended.returncode == -signal.SIGKILL
            assert sorted(path.name for path in tmp_path.iterdir()) == ["m.partial"]
    assert ended.returncode == 0, ended.stderr
    run(*fit_words(folder, tmp_path / "whole", *FAST, "--out-of-core", "-q"))
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    gone_on, whole = (de.load(tmp_path / name).predict(bags) for name in ("m", "whole"))
    np.testing.assert_array_equal(gone_on, whole)


# --------------------------------------------------------------------------------------------------------------
# The default: an ensemble
# --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ensemble(folder, tmp_path_factory):
    """A model of the default embedding, and what its fit said."""
    path = tmp_path_factory.mktemp("auto") / "m.distembed"
    return path, json.loads(run(*fit_words(folder, path, "--json")).stdout)


def test_the_default_is_an_ensemble_with_a_leaderboard(folder, ensemble):
    path, found = ensemble
    board = found["leaderboard"]
    assert (found["embedding"], found["scoring"], found["search"]) == ("auto", "r2", [])
    assert {"constant", "mean, linear"} < {row["name"] for row in board}
    assert set(board[0]) == {"name", "score", "standard_error", "weight", "seconds"}
    assert sum(row["weight"] for row in board) == pytest.approx(1)
    assert found["scores"]["r2"]["value"] > 0.5
    assert "learning from all bags" in found["seconds"]
    model = de.load(path)
    assert model.leaderboard_ == board
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    predicted = json.loads(run("predict", path, folder / "points.csv", "--json").stdout)["columns"]["prediction"]
    np.testing.assert_allclose(predicted, model.predict(bags))


def test_info_shows_the_leaderboard(ensemble):
    path, found = ensemble
    shown = run("info", path).stdout
    assert re.search(r"^candidate +R² +std. error +weight +seconds$", shown, re.MULTILINE)
    assert all(row["name"] in shown for row in found["leaderboard"])
    told = json.loads(run("info", path, "--json").stdout)
    assert (told["leaderboard"], told["scoring"]) == (found["leaderboard"], "r2")


def test_what_needs_one_embedding_says_so(folder, ensemble):
    table = folder / "points.csv"
    for words in (["explain", ensemble[0], table], ["embed", table, "--model", ensemble[0]],
                  ["predict", ensemble[0], table, "--std"]):  # fmt: skip
        said = refused(*words)
        assert said.endswith("needs one embedding; fit one by its name, with --embedding js")


@pytest.mark.parametrize(
    "words",
    [["--set", "n_basis=3"], ["--components", "20"], ["--tune", "none"], ["--model", "svm"], ["--updatable"]],
)
def test_options_of_one_embedding_are_refused(folder, tmp_path, words):
    said = refused(*fit_words(folder, tmp_path / "m", *words, label="size"))
    assert f"{words[0]} is of one embedding, and --embedding auto takes many; add --embedding js" in said


def test_a_time_limit_is_told_of(folder, tmp_path):
    shown = run(*fit_words(folder, tmp_path / "m", "--time-limit", 1e-6, label="size")).stdout
    assert "-log loss" in shown
    assert "Not tried within the time limit: mean, rbf; " in shown
    assert re.search(r"^.*m: an ensemble of [12] of 60 bags, 1,500 points$", shown, re.MULTILINE)
    columns = json.loads(run("predict", tmp_path / "m", folder / "points.csv", "--json").stdout)["columns"]
    np.testing.assert_allclose(np.add(columns["probability_large"], columns["probability_small"]), 1)
    said = refused(*fit_words(folder, tmp_path / "m", *FAST, "--time-limit", 1))
    assert "--time-limit applies to --embedding auto" in said


def test_an_ensemble_out_of_core(folder, tmp_path, small_batches):
    words = fit_words(folder, tmp_path / "m", "--time-limit", 1e-6, "--out-of-core", "--json", label="size")
    found = json.loads(run(*words).stdout)
    assert (found["out_of_core"], found["n_bags"], found["n_test"]) == (True, 60, 6)
    assert {row["name"] for row in found["leaderboard"]} == {"constant", "mean, linear"}
    assert len(run("predict", tmp_path / "m", folder / "points.csv").stdout.splitlines()) == 61
    assert not (tmp_path / "m.partial").exists()


def test_a_handful_of_labels_takes_one_embedding(tmp_path):
    points, labels = make_rows(5)
    write_table(points, tmp_path / "points.parquet")
    write_table(labels, tmp_path / "labels.csv")
    result = run(*fit_words(tmp_path, tmp_path / "m", "--json"))
    assert "5 labels are too few to judge many embeddings by; --embedding js is taken" in result.stderr
    assert json.loads(result.stdout)["leaderboard"][0]["name"] == "js, tuned-ridge"


# --------------------------------------------------------------------------------------------------------------
# Covariates
# --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Tables with an age and a sex of each bag, beside labels and in the table of points; and a model."""
    path = tmp_path_factory.mktemp("covariates")
    points, labels = make_rows(40)
    rng = np.random.default_rng(1)
    sex, age = np.array(["f", "m"])[rng.integers(0, 2, 40)], rng.integers(20, 80, 40)
    labels["dose"] = labels["spread"] + 3 * (sex == "m")
    labels |= {"age": np.where(age > 70, "", age.astype(str)), "sex": sex}
    write_table(labels, path / "labels.csv")
    write_table(points, path / "points.parquet")
    rows = np.char.replace(points["cluster"], "c", "").astype(int)
    del points["w"]
    write_table({**points, "age": age[rows], "sex": sex[rows]}, path / "all.parquet")
    words = fit_words(path, path / "m", "--covariates", "age,sex", "--embedding", "deviation", "--json", label="dose")
    (path / "said.json").write_text(run(*words).stdout)
    return path


def test_covariates_from_the_table_of_labels(patients):
    found = json.loads((patients / "said.json").read_text())
    board = {row["name"]: row["score"] for row in found["leaderboard"]}
    assert {"deviation, linear", "deviation + covariates, linear", "covariates, linear"} <= set(board)
    assert board["deviation + covariates, linear"] > board["deviation, linear"]
    assert (found["covariates"], found["embedding"]) == (["age", "sex"], "deviation")
    assert found["scores"]["r2"]["value"] > 0.5
    bags = read_bags(patients / "points.parquet", bag="cluster", columns=["x", "y"])
    table = read_covariates(patients / "labels.csv", bag="cluster", covariates=["age", "sex"])
    wanted = de.load(patients / "m").predict(bags, covariates=table.of(bags.ids))
    for option in ("--covariates-from", "--labels"):
        words = ("predict", patients / "m", patients / "points.parquet", option, patients / "labels.csv", "--json")
        np.testing.assert_allclose(json.loads(run(*words).stdout)["columns"]["prediction"], wanted)


def test_covariates_from_the_table_of_points(patients, tmp_path):
    table = patients / "all.parquet"
    run("fit", table, "--bag", "cluster", "--labels", patients / "labels.csv", "--label", "dose", "--covariates",
        "age,sex", "--covariates-from", table, "--time-limit", 1e-6, "-o", tmp_path / "m", "-q")  # fmt: skip
    assert de.load(tmp_path / "m").table_["columns"] == ["x", "y"]  # an age is no coordinate
    assert len(run("predict", tmp_path / "m", patients / "all.parquet").stdout.splitlines()) == 41
    said = refused("predict", tmp_path / "m", patients / "points.parquet")
    assert "has no column 'age', 'sex'; name their table by --covariates-from" in said


def test_covariates_out_of_core(patients, tmp_path, small_batches):
    words = ("--covariates", "age,sex", "--embedding", "deviation", "--out-of-core", "--json")
    found = json.loads(run(*fit_words(patients, tmp_path / "m", *words, label="dose")).stdout)
    assert (found["out_of_core"], found["covariates"]) == (True, ["age", "sex"])
    assert found["scores"]["r2"]["value"] > 0.5
    more = ("--covariates-from", patients / "labels.csv", "--json")
    said = json.loads(run("predict", tmp_path / "m", patients / "points.parquet", *more).stdout)
    assert said["n_bags"] == 40


def test_a_row_of_the_leaderboard_is_a_name(patients, tmp_path):
    words = fit_words(patients, tmp_path / "m", "--embedding", "statistics, rbf", "--json", label="spread")
    found = json.loads(run(*words).stdout)
    assert {row["name"]: row["weight"] for row in found["leaderboard"]} == {"statistics, rbf": 1.0, "constant": 0.0}
    assert "'rbff' is not a head; use 'rbf'" in refused(*words[:-1], "--embedding", "statistics, rbff")
    assert "no view is called 'statistic'; is 'statistics' meant?" in refused(
        *words[:-1], "--embedding", "statistic, rbf"
    )


def test_what_covariates_refuse(patients, folder, tmp_path):
    def fit(*more, points="all.parquet"):
        return refused(*fit_words(patients, tmp_path / "m", *more, label="dose", points=points))

    assert "labels.csv' has no column 'agee'" in fit("--covariates", "agee")
    assert fit("--covariates", "agee").endswith("did you mean 'age'?")
    assert "'dose', which is the label or the bag" in fit("--covariates", "dose")
    said = fit("--covariates", "x")
    assert re.search(
        "covariate 'x' must have one value per bag, got .* and .* in bag 'c000', and in 39 more bags", said
    )
    assert "--coverage has no intervals" in fit("--covariates", "age", "--coverage", "0.8")
    assert "--components is of one model, and with --covariates" in fit("--covariates", "age", *FAST)
    assert "must name" in fit("--covariates-from", patients / "labels.csv")
    (tmp_path / "few.csv").write_text("cluster,age,sex\nc000,33,f\n")
    words = ("predict", patients / "m", patients / "points.parquet", "--covariates-from", tmp_path / "few.csv")
    assert "39 bags have no covariates: 'c001'" in refused(*words)
    (tmp_path / "few.csv").write_text("cluster,age,sex\nc000,old,f\n")
    assert "'age' must hold numbers, as when the model was fitted, got 'old'" in refused(*words)
    said = refused("predict", folder / "numbers.distembed", folder / "points.csv", "--labels", patients / "labels.csv")
    assert "the model was fitted without covariates" in said


# --------------------------------------------------------------------------------------------------------------
# Bad tables
# --------------------------------------------------------------------------------------------------------------


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
        said = ["labels.csv", "column 'cluster'", "more than one label: 'c000'", "keep one"]
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
        said = ["points.csv", "labels.csv", "one type", "--bag-type text"]
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
        (broken, "no readable Parquet file: it is damaged, cut off or of another format; write it again"),
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
        (tmp_path / "odd.distembed", "is no model file of distembed"),
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


# --------------------------------------------------------------------------------------------------------------
# evaluate
# --------------------------------------------------------------------------------------------------------------


def test_scores_of_numbers(folder, tmp_path):
    rng = np.random.default_rng(0)
    truth, error = rng.normal(size=400), rng.normal(size=400)
    write_table({"id": np.arange(400), "prediction": truth + error}, tmp_path / "p.csv")
    write_table({"bag": np.arange(500), "y": np.append(truth, np.zeros(100))}, tmp_path / "l.csv")
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y", "--labels-bag", "bag")
    result = run(*words, "--json", "--plot", tmp_path / "p.png")
    found = json.loads(result.stdout)["scores"]
    assert "100 labels have no prediction" in result.stderr
    assert found["rmse"]["value"] == pytest.approx(root_mean_squared_error(truth, truth + error))
    assert found["mae"]["value"] == pytest.approx(mean_absolute_error(truth, truth + error))
    assert found["r2"]["value"] == pytest.approx(r2_score(truth, truth + error))
    assert found["mae"]["standard_error"] == pytest.approx(np.abs(error).std() / 20, rel=0.1)
    assert found["rmse"]["standard_error"] == pytest.approx(1 / np.sqrt(2 * 400), rel=0.2)
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    assert "has no column 'predicted'" in refused(*words, "--prediction", "predicted")
    assert "label has no bag" in refused(*words, "--unknown", "error").replace("labels have", "label has")


def test_scores_of_classes(folder, tmp_path):
    run("predict", folder / "classes.distembed", folder / "points.parquet", "-o", tmp_path / "p.csv")
    words = ("evaluate", tmp_path / "p.csv", "--labels", folder / "labels.csv", "--label", "size")
    found = json.loads(run(*words, "--json", "--plot", tmp_path / "p.pdf").stdout)
    truth = read_labels(folder / "labels.csv", bag="cluster", label="size").labels
    predicted = read_labels(tmp_path / "p.csv", bag="cluster", label="prediction").labels
    large = read_labels(tmp_path / "p.csv", bag="cluster", label="probability_large").labels
    assert found["scores"]["accuracy"]["value"] == pytest.approx(np.mean(truth == predicted))
    assert found["scores"]["log_loss"]["value"] == pytest.approx(log_loss(truth == "large", large))
    assert np.trace(found["confusion"]["counts"]) == np.sum(truth == predicted)
    assert re.search(r"true \\ predicted +large +small", run(*words).stdout)
    assert (tmp_path / "p.pdf").read_bytes().startswith(b"%PDF")
    assert "holds text, not numbers; use --classify" in refused(
        *words, "--regress", "--prediction", "probability_large"
    )


def test_scores_that_can_not_be_told_are_null(tmp_path):
    write_table({"id": [1], "prediction": [2.0]}, tmp_path / "p.csv")
    write_table({"id": [1], "y": [3.0]}, tmp_path / "l.csv")
    words = ("evaluate", tmp_path / "p.csv", "--labels", tmp_path / "l.csv", "--label", "y")
    found = json.loads(run(*words, "--json").stdout)["scores"]
    assert found["rmse"] == {"value": 1.0, "standard_error": None}
    assert found["r2"] == {"value": None, "standard_error": None}
    assert re.search(r"^R² +-$", run(*words).stdout, re.MULTILINE)


# --------------------------------------------------------------------------------------------------------------
# Intervals and sets
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["--in-memory", "--out-of-core"])
def test_intervals(folder, tmp_path, small_batches, how):
    output = tmp_path / "m.distembed"
    words = fit_words(folder, output, *FAST, "--coverage", 0.8, "--test", 0.4, "--updatable", how)
    found = json.loads(run(*words, "--json").stdout)
    model = de.load(output)
    assert isinstance(model, de.conformal.ConformalRegressor)
    assert found["coverage"] == {"coverage": 0.8, "n_bags": 24, "n_groups": None,
                                 "mean_width": pytest.approx(2 * np.sort(model.scores_)[19])}  # fmt: skip
    learner = model.estimator_
    assert learner.search_.n_bags == 36
    assert "24 bags kept out, which were not learned from" in run(*words).stdout
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    y = bags.align(dict(read_labels(folder / "labels.csv", bag="cluster", label="spread")))
    Z = learner.transform_features(bags)
    errors = np.sort(np.abs(y - learner.predict(bags)))
    assert np.all(np.isclose(model.scores_[:, None], errors).any(axis=1))
    from sklearn.linear_model import Ridge

    all_bags = Ridge(learner.best_params_["alpha"]).fit(Z, y).predict(Z)
    assert np.abs(learner.predict(bags) - all_bags).max() > 1e-3
    run("predict", output, folder / "points.csv", "-o", tmp_path / "p.csv")
    columns = read_columns(tmp_path / "p.csv")
    assert list(columns) == ["cluster", "prediction", "low", "high"]
    np.testing.assert_allclose(np.stack([columns["low"], columns["high"]], axis=1), model.predict_interval(bags))
    words = ("evaluate", tmp_path / "p.csv", "--labels", folder / "labels.csv", "--label", "spread", "--json")
    scores = json.loads(run(*words).stdout)["scores"]
    inside = (columns["low"] <= y) & (y <= columns["high"])
    assert scores["coverage"]["value"] == pytest.approx(inside.mean())
    assert scores["coverage"]["standard_error"] == pytest.approx(inside.std(ddof=1) / np.sqrt(60))
    assert scores["width"]["value"] == pytest.approx(np.mean(columns["high"] - columns["low"]))
    shown = run("info", output).stdout
    assert "intervals hold the truth with probability 0.8; calibrated on 24 bags" in shown
    assert "predicts 'spread' from a table with the columns cluster, x, y" in shown
    std = run("predict", output, folder / "points.csv", "--std").stdout
    assert std.startswith("cluster,prediction,std,low,high\n")


def test_sets_of_classes(folder, tmp_path):
    output = tmp_path / "m.distembed"
    embedding = ("--embedding", "hellinger", "--components", 50, "--tune", "none")
    run(*fit_words(folder, output, *embedding, "--coverage", 0.8, "--test", 0.4, "-q", label="size"))
    model = de.load(output)
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    sets = [model.classes_[row].tolist() for row in model.predict_set(bags)]
    assert min(map(len, sets)) == 1
    truth = read_labels(folder / "labels.csv", bag="cluster", label="size").labels
    held = np.mean([name in each for name, each in zip(truth.tolist(), sets, strict=True)])
    for suffix in (".csv", ".parquet", ".npz"):
        path = tmp_path / f"p{suffix}"
        run("predict", output, folder / "points.parquet", "-o", path)
        if suffix == ".parquet":
            assert pq.read_table(path)["set"].to_pylist() == sets
        if suffix == ".csv":
            assert read_columns(path)["set"].tolist() == ["|".join(each) for each in sets]
        words = ("evaluate", path, "--labels", folder / "labels.csv", "--label", "size", "--json")
        scores = json.loads(run(*words).stdout)["scores"]
        assert scores["coverage"]["value"] == pytest.approx(held)
        assert scores["set_size"]["value"] == pytest.approx(np.mean(list(map(len, sets))))
    found = json.loads(run("predict", output, folder / "points.parquet", "--json").stdout)
    assert found["columns"]["set"] == sets
    found = json.loads(run("explain", output, folder / "points.csv", "--id", "c007", "--json").stdout)
    assert found["class"] == model.estimator_.predict(bags)[7] == "large"
    assert found["predictions"][0]["prediction"] == pytest.approx(-model.estimator_.decision_function(bags)[7])
    assert json.loads(run("info", output, "--json").stdout)["coverage"] == {
        "coverage": 0.8, "n_bags": 24, "n_groups": None,
    }  # fmt: skip


def test_intervals_by_groups_and_too_few_bags(folder, tmp_path):
    words = fit_words(folder, tmp_path / "m", *FAST, "--groups", "site", "--test", 0.6, "--json")
    found = json.loads(run(*words, "--coverage", 0.75).stdout)["coverage"]
    assert (found["n_bags"], found["n_groups"]) == (40, 4)
    said = refused(*words, "--coverage", 0.9)
    assert "--coverage 0.9 needs 9 groups that are kept out, and 4 of 6 would be; lower --coverage" in said
    said = refused(*fit_words(folder, tmp_path / "n", *FAST, "--coverage", 0.95))
    assert "--coverage 0.95 needs 19 bags that are kept out, and 12 of 60 would be; add --test 0.32, or" in said
    assert "is not in the range 0<x<1" in refused(*words, "--coverage", 1)


# --------------------------------------------------------------------------------------------------------------
# embed, distances, explain, info
# --------------------------------------------------------------------------------------------------------------


def read_columns(path):
    import pyarrow.csv

    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def test_features_are_those_of_the_pipeline(folder, tmp_path, monkeypatch):
    from sklearn.pipeline import make_pipeline

    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x"])
    pipeline = make_pipeline(de.UnitCube(), de.HDDEmbedding("hellinger", n_basis=4))
    expected = pipeline.fit_transform(bags)
    words = ("--bag", "cluster", "--columns", "x", "--embedding", "hellinger", "--set", "n_basis=4")
    monkeypatch.setattr("distembed.cli.options.BATCH_POINTS", 300)
    for suffix in ("csv", "parquet", "npz"):
        path = tmp_path / f"f.{suffix}"
        run("embed", folder / "points.parquet", *words, "-o", path, "--save-model", tmp_path / "e.distembed")
        columns = dict(np.load(path)) if suffix == "npz" else read_columns(path)
        assert list(columns) == ["cluster", *pipeline.get_feature_names_out()]
        assert columns.pop("cluster").tolist() == bags.ids.tolist()
        np.testing.assert_allclose(np.stack(list(columns.values()), axis=1), expected, rtol=1e-9, atol=1e-12)
    printed = run("embed", folder / "points.csv", "--model", tmp_path / "e.distembed").stdout.splitlines()
    np.testing.assert_allclose([float(x) for x in printed[1].split(",")[1:]], expected[0], rtol=1e-9, atol=1e-12)


def test_features_of_a_learner_and_random_features(folder, tmp_path):
    run("embed", folder / "points.csv", "--model", folder / "numbers.distembed", "-o", tmp_path / "f.parquet")
    assert len(read_columns(tmp_path / "f.parquet")) == 21
    found = json.loads(run("embed", folder / "points.csv", "--bag", "cluster", "--columns", "x,y", *FAST, "--fit-bags",
                           10, "-o", tmp_path / "f.parquet", "--json").stdout)  # fmt: skip
    assert (found["n_bags"], found["n_features"]) == (60, 20)
    assert "--bag is missing" in refused("embed", folder / "points.csv")


def test_distances(folder, tmp_path):
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x"])
    words = (folder / "points.parquet", "--bag", "cluster", "--columns", "x")
    run("distances", *words, "--divergence", "gaussian:skl", "-o", tmp_path / "d.parquet")
    columns = read_columns(tmp_path / "d.parquet")
    assert columns.pop("cluster").tolist() == list(columns) == bags.ids.tolist()
    matrix = np.stack(list(columns.values()), axis=1)
    np.testing.assert_allclose(matrix, divergences.gaussian(bags, divergence="skl"), rtol=1e-9, atol=1e-12)
    run("distances", *words, "--divergence", "gaussian:skl", "--nearest", 3, "-o", tmp_path / "n.csv")
    near = read_columns(tmp_path / "n.csv")
    assert list(near) == ["cluster", "rank", "neighbour", "squared_distance"]
    np.fill_diagonal(matrix, np.inf)
    expected = bags.ids[np.argsort(matrix, axis=1)[:, :3]]
    assert near["neighbour"].tolist() == expected.ravel().tolist()


def test_distances_in_blocks_against_another_table_and_of_an_embedding(folder, tmp_path, monkeypatch):
    words = (folder / "points.parquet", "--bag", "cluster", "--columns", "x")
    whole = run("distances", *words, "--divergence", "hellinger").stdout
    monkeypatch.setattr("distembed.cli.distances._LEAST_ROWS", 7)
    against = run("distances", *words, "--divergence", "hellinger", "--against", folder / "points.csv").stdout
    numbers = [np.array([line.split(",")[1:] for line in text.splitlines()[1:]], float) for text in (whole, against)]
    np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-9)
    found = json.loads(run("distances", *words, "--embedding", "mmd", "-o", tmp_path / "d.csv", "--json").stdout)
    assert (found["embedding"], found["n_bags"]) == ("mmd", 60)
    assert "--divergence: must be one of" in refused("distances", *words, "--divergence", "js2")
    assert "there are only 59 other bags" in refused("distances", *words, "--nearest", 60)


@pytest.fixture(scope="module")
def explained(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "m.distembed"
    run("fit", folder / "points.parquet", "--bag", "cluster", "--columns", "x", "--labels", folder / "labels.csv",
        "--label", "size", "--embedding", "hellinger", "--components", 50, "--tune", "none",
        "-o", path, "-q")  # fmt: skip
    return path


def test_explain(folder, explained, tmp_path):
    words = ("explain", explained, folder / "points.csv")
    result = run(*words, "--id", "c007", "-o", tmp_path / "v.csv", "--plot", tmp_path / "map.png", "--top", 4)
    predicted = de.load(explained).predict(read_bags(folder / "points.csv", bag="cluster", columns=["x"]))
    assert f"Bag c007: score of class '{predicted[7]}' " in result.stdout
    assert (tmp_path / "map.png").read_bytes().startswith(PNG)
    columns = read_columns(tmp_path / "v.csv")
    assert list(columns) == ["cluster", "x", "value", "class"]
    assert set(columns["cluster"]) == {"c007"}
    assert abs(columns["value"].mean()) < 1e-9 * np.abs(columns["value"]).max()
    against = "small" if predicted[7] == "large" else "large"
    found = json.loads(run(*words, "--id", "c007", "--class", against, "--top", 4, "--json").stdout)
    assert found["class"] == against
    assert len(found["top"]) == 4
    other = json.loads(run(*words, "--id", "c007", "--json").stdout)
    assert other["class"] == predicted[7]
    assert other["predictions"][0]["prediction"] == pytest.approx(-found["predictions"][0]["prediction"])
    shown = run(*words, "-o", tmp_path / "all.parquet").stdout
    assert "Explanation of the score of class 'large', " in shown
    assert "Explanation of the score of class 'small', " in shown
    every = read_columns(tmp_path / "all.parquet")
    assert every["class"].tolist() == np.repeat(predicted, 25).tolist()
    assert np.allclose(every["value"][7 * 25 : 8 * 25], columns["value"])


def test_what_explain_refuses(folder, explained):
    assert "no bag has the id 'c999'" in refused("explain", explained, folder / "points.csv", "--id", "c999")
    said = refused("explain", explained, folder / "points.csv", "--class", "tiny")
    assert "is none of the model's: large, small" in said
    said = refused("explain", folder / "numbers.distembed", folder / "points.csv", "--class", "tiny")
    assert "--class applies to classes" in said


def test_info_of_models(folder):
    shown = run("info", folder / "numbers.distembed").stdout
    assert shown.startswith("distembed.DistributionRegressor, fitted\n")
    assert "predicts 'spread' from a table with the columns cluster, x, y" in shown
    found = json.loads(run("info", folder / "classes.distembed", "--json").stdout)
    assert found["kind"] == "model"
    assert found["classes"] == ["large", "small"]
    assert found["parameters"]["embedding"] == "deviation"


def test_info_of_tables(folder, tmp_path):
    write_table({"id": ["a", "b", "a"], "x": [1.0, np.nan, -2.0], "n": [1, 2, 3]}, tmp_path / "t.parquet")
    found = json.loads(run("info", tmp_path / "t.parquet", "--bag", "id", "--json").stdout)
    assert found["n_rows"] == 3
    assert found["columns"]["x"] == {"type": "double", "missing": 1, "least": -2.0, "greatest": 1.0}
    assert found["columns"]["n"]["greatest"] == 3
    assert found["bags"]["n_bags"] == 2
    assert found["bags"]["rows_greatest"] == 2
    for name in ("points.csv", "points.parquet"):
        shown = run("info", folder / name, "--bag", "cluster").stdout
        assert "1,500 rows" in shown
        assert "60 bags by 'cluster': 25 to 25 rows each" in shown
    assert "--bag COLUMN tells of bags" in run("info", tmp_path / "t.parquet").stdout
    assert "lacks; it has" in refused("info", tmp_path / "t.parquet", "--bag", "zzzz")
    assert "no such file" in refused("info", tmp_path / "absent")


def test_columns_with_commas_and_outer_spaces_can_be_named(tmp_path):
    path = tmp_path / "t.csv"
    write_table({"a,b": ["u", "v", "v"], " x ": [1.0, 2.0, 4.0], "y, cm": [0.0, 1.0, 5.0], "z": [3.0, 1.0, 1.0]}, path)
    words = ("embed", path, "--bag", "a,b", "--columns", 'z, " x "', "--columns", '"y, cm"', "--embedding", "mean")
    assert run(*words).stdout.splitlines() == ['"a,b",mean_z,mean_ x ,"mean_y, cm"', "u,3.0,1.0,0.0", "v,1.0,3.0,3.0"]


def test_info_of_types_that_nobody_computes_with(tmp_path):
    table = pa.table(
        {
            "bag": ["a", "b", "b"],
            "half": pa.array(np.array([1.0, 3.0, 0.0], np.float16), mask=np.array([False, False, True])),
            "span": pa.array([1500, None, 500], pa.duration("ms")),
            "list": pa.array([[1.0], None, []]),
            "struct": pa.array([{"x": 1}, None, {"x": 2}]),
            "months": pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
        }
    )
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    found = json.loads(run("info", tmp_path / "t.arrow", "--bag", "bag", "--json").stdout)["columns"]
    assert [found[name]["missing"] for name in ("half", "span", "list", "struct", "months")] == [1] * 5
    assert (found["half"]["least"], found["half"]["greatest"]) == (1, 3)
    assert (found["span"]["least"], found["list"]["least"]) == ("0:00:00.500000", None)
    assert "bag ids must hold whole numbers, text, dates or times" in refused(
        "info", tmp_path / "t.arrow", "--bag", "list"
    )


def test_info_of_lists_and_dates(tmp_path):
    import datetime

    table = pa.table({"id": [datetime.date(2024, 1, 31)], "x": [[1.0, 2.0]], "c": pa.array(["u"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    found = json.loads(run("info", tmp_path / "t.parquet", "--json", "--bag", "id").stdout)
    assert found["columns"]["id"]["least"] == "2024-01-31"
    assert found["columns"]["x"]["least"] is None
    assert found["columns"]["c"]["greatest"] == "u"


# --------------------------------------------------------------------------------------------------------------
# demo, a newcomer's path, bars
# --------------------------------------------------------------------------------------------------------------


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.cli.demo._TRAIN", 40)
    monkeypatch.setattr("distembed.cli.demo._NEW", 10)
    shown = run("demo", tmp_path / "demo").stdout
    commands = re.findall(r"^\$ distembed (\w+) ", shown, re.MULTILINE)
    assert commands == ["info", "fit", "predict", "evaluate"]
    assert (tmp_path / "demo" / "fit.png").read_bytes().startswith(PNG)
    assert "severity, 10 bags" in shown
    shown = run("demo", tmp_path / "demo", "--embedding", "mean").stdout
    assert "--embedding mean" in shown
    assert "severity, 10 bags" in shown
    (tmp_path / "file").touch()
    assert "is a file; name a folder" in refused("demo", tmp_path / "file")


NEWCOMER = """
cat > points.csv <<END
crate,weight
A,1.0
A,1.2
B,1.9
B,2.2
C,3.1
C,2.9
D,4.2
D,3.9
E,2.4
E,2.7
END
cat > prices.csv <<END
crate,price
A,10
B,20
C,30
D,40
END
distembed fit points.csv --bag crate --labels prices.csv --label price --missing drop -o price.distembed
distembed predict price.distembed points.csv
"""


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_ten_lines_to_a_prediction(tmp_path):
    """What the page of the command line lets a newcomer copy and paste, in a shell."""
    script = f'distembed() {{ "{sys.executable}" -m distembed.cli "$@"; }}\nset -e\n{NEWCOMER}'
    found = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=120)
    crate, price = found.stdout.splitlines()[-1].split(",")
    assert crate == "E"
    assert 22 < float(price) < 28


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


# --------------------------------------------------------------------------------------------------------------
# Missing values, and the formats of the fields
# --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    """Points of which some lack y, points of which none does, and labels."""
    path = tmp_path_factory.mktemp("gaps")
    points, labels = make_rows(n_bags=30, n_points=12)
    write_table(points, path / "whole.csv")
    points["y"] = np.where(np.arange(len(points["y"])) % 9 == 0, np.nan, points["y"])
    write_table(points, path / "points.csv")
    write_table(labels, path / "labels.csv")
    return path


def fit_gaps(gaps, output, *more):
    return ("fit", gaps / "points.csv", "--bag", "cluster", "--columns", "x,y", "--labels", gaps / "labels.csv",
            "--label", "size", *FAST, "--tune", "none", "-o", output, *more)  # fmt: skip


def test_missing_values_are_counted_by_default(gaps, tmp_path):
    said = refused(*fit_gaps(gaps, tmp_path / "m"))
    assert "missing values in all: 40 in 'y'; pass --nan drop to leave out such points, or --nan indicator" in said
    write_table({"cluster": ["a", "b"], "x": [1.0, np.nan]}, tmp_path / "t.csv")
    said = refused("embed", tmp_path / "t.csv", "--bag", "cluster", "--nan", "drop")
    assert "(id 'b') has missing values in every point, so that --nan drop leaves none" in said


@pytest.mark.parametrize("how", ["--in-memory", "--out-of-core"])
@pytest.mark.parametrize("nan", ["drop", "indicator"])
def test_models_remember_what_becomes_of_missing_values(gaps, tmp_path, nan, how):
    model = tmp_path / "m.distembed"
    run(*fit_gaps(gaps, model, "--nan", nan, how, "-q"))
    known = de.load(model)
    if nan == "drop":
        assert known.table_["nan"] == "drop"
        assert known.n_features_in_ == 2
    else:
        assert list(known.table_["nan"]) == ["y"]
        assert list(known.feature_names_in_) == ["x", "y", "y missing"]
        assert known.missing_fills_.keys() == known.table_["nan"].keys()
    for table in ("points.csv", "whole.csv"):
        run("predict", model, gaps / table, "-o", tmp_path / "p.csv", "-q")
        assert len(read_labels(tmp_path / "p.csv", bag="cluster", label="prediction")) == 30
        run("embed", gaps / table, "--model", model, "-o", tmp_path / "e.csv", "-q")
    other = "indicator" if nan == "drop" else "drop"
    assert f"--nan {other}: the model was fitted" in refused("predict", model, gaps / "points.csv", "--nan", other)


def test_a_model_of_whole_tables_names_the_choices(gaps, tmp_path):
    words = fit_gaps(gaps, tmp_path / "m", "-q")
    run(words[0], gaps / "whole.csv", *words[2:])
    assert "40 in 'y'; pass --nan drop" in refused("predict", tmp_path / "m", gaps / "points.csv")
    run("predict", tmp_path / "m", gaps / "points.csv", "--nan", "drop", "-o", tmp_path / "p.csv")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """An .h5ad file with labels of donors, and a folder of FCS files beside a table of their labels."""
    path = tmp_path_factory.mktemp("cells")
    rng = np.random.default_rng(0)
    sick = np.arange(24) % 2
    donor, X = np.repeat(np.arange(24), 15), rng.normal(size=(360, 2)) + 3 * np.repeat(sick, 15)[:, None]
    order = rng.permutation(360)
    with h5py.File(path / "cells.h5ad", "w") as file:
        file["X"], file["obsm/X_pca"] = X[order].astype(np.float32), X[order][:, :1]
        file["obs/donor"] = np.array([f"d{i:02}" for i in donor[order]], dtype="S3")
        file["obs/status"] = np.where(sick[donor[order]], b"sick", b"well")
        file["obs/n_reads"] = np.arange(360)
        file["obs/age"] = np.where(donor[order] == 3, np.nan, 20.0 + donor[order])
        file["var/_index"] = np.array([b"g", b"h"])
    (path / "fcs").mkdir()
    for i in range(24):
        with (path / "fcs" / f"p{i}.fcs").open("wb") as file:
            swap = [1, 0] if i % 3 else [0, 1]
            flowio.create_fcs(file, X[donor == i][:, swap].ravel(), [("CD4", "CD8")[j] for j in swap])
    names = [f"p{i}.fcs" for i in range(24)]
    write_table({"file": names, "status": np.where(sick, "sick", "well")}, path / "fcs" / "info.csv")
    return path


def test_h5ad_from_fit_to_evaluate(cells, tmp_path):
    table, model, made = cells / "cells.h5ad", tmp_path / "m.distembed", tmp_path / "p.csv"
    run("fit", table, "--bag", "donor", "--label", "status", *FAST, "--tune", "none", "-o", model, "-q")
    assert de.load(model).table_ == {"bag": "donor", "columns": ["g", "h"], "weights": None, "label": "status"}
    run("predict", model, table, "-o", made)
    scores = json.loads(run("evaluate", made, "--labels", table, "--label", "status", "--json").stdout)["scores"]
    assert scores["accuracy"]["value"] > 0.4
    run("embed", table, "--bag", "donor", "--rep", "X_pca", "--embedding", "mean", "-o", tmp_path / "e.csv",
        "--save-model", tmp_path / "e.distembed")  # fmt: skip
    run("embed", table, "--model", tmp_path / "e.distembed", "-o", tmp_path / "f.csv")
    assert (tmp_path / "e.csv").read_text() == (tmp_path / "f.csv").read_text()
    assert (tmp_path / "e.csv").read_text().startswith('"donor","mean_X_pca_0"')


def test_fcs_from_fit_to_evaluate(cells, tmp_path):
    table, labels, model = cells / "fcs", cells / "fcs" / "info.csv", tmp_path / "m.distembed"
    run("fit", table, "--labels", labels, "--label", "status", "--cofactor", 5, *FAST,  # a file is a bag
        "--tune", "none", "-o", model, "-q")  # fmt: skip
    assert de.load(model).table_["cofactor"] == 5
    run("predict", model, table, "-o", tmp_path / "p.csv")
    made = read_labels(tmp_path / "p.csv", bag="file", label="prediction")
    assert len(made) == 24
    bags = de.Bags.from_fcs(table, channels=["CD4", "CD8"], cofactor=5)
    assert list(de.load(model).predict(bags)) == [made[name] for name in bags.ids]
    run("embed", table, "--embedding", "mean", "-o", tmp_path / "e.csv")
    assert (tmp_path / "e.csv").read_text().startswith('"file",')


def test_covariates_from_obs(cells, tmp_path):
    table = cells / "cells.h5ad"
    words = ("fit", table, "--bag", "donor", "--label", "status", "--time-limit", 1e-6, "-o", tmp_path / "m")
    run(*words, "--covariates", "age", "-q")
    assert len(run("predict", tmp_path / "m", table).stdout.splitlines()) == 25
    assert "--covariates n_reads must have one value per bag" in refused(*words, "--covariates", "n_reads")


def test_info_of_the_formats_of_the_fields(cells):
    shown = run("info", cells / "cells.h5ad", "--bag", "donor").stdout
    assert re.search(r"^status +text +0 +2: sick, well +one$", shown, re.MULTILINE)
    assert re.search(r"^n_reads +number +0 +360: 0 to 359 +several$", shown, re.MULTILINE)
    assert re.search(r"^age +number +15 +23: 20 to 43 +one$", shown, re.MULTILINE)
    assert "X has 2 variables: g, h\nobsm, for --rep: X_pca (1 columns)\n24 bags by 'donor': 15 to 15 rows" in shown
    found = json.loads(run("info", cells / "cells.h5ad", "--json").stdout)
    assert (found["kind"], found["n_points"], found["variables"]) == ("AnnData", 360, ["g", "h"])
    assert set(found["obs"]) == {"age", "donor", "n_reads", "status"}
    assert "--bag COLUMN tells of bags" in run("info", cells / "cells.h5ad").stdout
    assert "obs has no column 'doner'" in refused("info", cells / "cells.h5ad", "--bag", "doner")
    shown = run("info", cells / "fcs").stdout
    assert re.search(r"^CD4 +-?[0-9.]+ +[0-9.]+$", shown, re.MULTILINE)
    assert "24 bags by 'file': 15 to 15 rows each" in shown
    assert shown.endswith("info.csv\n")
    found = json.loads(run("info", cells / "fcs", "--json").stdout)
    assert (found["kind"], found["bags"]["n_bags"], list(found["columns"])) == ("FCS", 24, ["CD4", "CD8"])


def test_refusals_of_the_formats_of_the_fields(cells, tmp_path):
    table, fit = cells / "cells.h5ad", ("--bag", "donor", "--label", "status", "-o", tmp_path / "m")
    assert "--labels is missing" in refused("fit", cells / "fcs", *fit)
    assert "--rep must be a key of obsm, got 'pca'; obsm has 'X_pca'" in refused("fit", table, *fit, "--rep", "pca")
    assert "--cofactor applies to FCS files" in refused("fit", table, *fit, "--cofactor", "5")
    said = refused("fit", table, "--bag", "donor", "--label", "n_reads", "-o", tmp_path / "m")
    assert "--label n_reads must have one value per bag, got" in said
    assert "'d" in said
    said = refused("fit", table, "--bag", "doner", "--label", "status", "-o", tmp_path / "m")
    assert "--bag names the column of obs 'doner', which is not there; did you mean 'donor'?" in said
    assert "lacks the channel 'CD3'" in refused("embed", cells / "fcs", "--columns", "CD3")
