"""``distembed fit``: what it reports, saves and refuses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from command_line import FAST, PNG, RUNNER, fit_words, make_rows, refused, run

import distembed as de
from distembed.cli.app import app
from distembed.tables import read_bags, read_labels, write_table


def test_fit_reports_saves_and_draws(folder, tmp_path):
    shown = run(*fit_words(folder, tmp_path / "m.distembed", *FAST, "--plot", tmp_path / "fit.png")).stdout
    assert "5 settings, scored on held-out bags" in shown
    assert "spread, on 6 held-out bags" in shown
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
    assert result.stdout.startswith("spread, on 6 held-out bags\n")
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


def without_seconds(board):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in board]


def test_the_default_is_an_ensemble_with_a_leaderboard(folder, ensemble):
    path, found = ensemble
    board = found["leaderboard"]
    assert (found["embedding"], found["scoring"], found["search"]) == ("auto", "r2", [])
    assert {"constant", "mean, linear"} < {row["name"] for row in board}
    assert set(board[0]) == {"name", "score", "standard_error", "weight", "seconds"}
    assert sum(row["weight"] for row in board[:-1]) == pytest.approx(1)
    assert (board[-1]["name"], board[-1]["weight"]) == ("ensemble", None)
    assert found["scores"]["r2"]["value"] > 0.5
    assert "learning from all bags" in found["seconds"]
    model = de.load(path)
    assert without_seconds(model.leaderboard_.candidates) == without_seconds(board[:-1])
    assert np.isnan(model.leaderboard_[0]["seconds"])  # files have no times
    bags = read_bags(folder / "points.parquet", bag="cluster", columns=["x", "y"])
    predicted = json.loads(run("predict", path, folder / "points.csv", "--json").stdout)["columns"]["prediction"]
    np.testing.assert_allclose(predicted, model.predict(bags))


def test_info_shows_the_leaderboard(ensemble):
    path, found = ensemble
    shown = run("info", path).stdout
    assert re.search(r"^candidate +R² +std. error +weight +seconds$", shown, re.MULTILINE)
    assert all(row["name"] in shown for row in found["leaderboard"])
    told = json.loads(run("info", path, "--json").stdout)
    assert (without_seconds(told["leaderboard"]), told["scoring"]) == (without_seconds(found["leaderboard"]), "r2")
    assert told["leaderboard"][0]["seconds"] is None


def test_what_needs_one_embedding_says_so(folder, ensemble):
    table = folder / "points.csv"
    said = refused("embed", table, "--model", ensemble[0])
    assert said.endswith("needs one embedding; fit one by its name, with --embedding js")
    shown = run("explain", ensemble[0], table, "--id", "c007").stdout
    assert re.search(r"^column +contribution +error$", shown, re.MULTILINE)


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


def test_a_handful_of_labels_takes_one_embedding(tmp_path):
    points, labels = make_rows(5)
    write_table(points, tmp_path / "points.parquet")
    write_table(labels, tmp_path / "labels.csv")
    result = run(*fit_words(tmp_path, tmp_path / "m", "--json"))
    assert "only 5 labelled bags: too few to compare embeddings, using --embedding js" in result.stderr
    assert json.loads(result.stdout)["leaderboard"][0]["name"] == "js, tuned-ridge"
