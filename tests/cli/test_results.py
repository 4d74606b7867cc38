"""What the command line shows: scores, settings, matrices and pictures; and names of columns for the Tab key."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from command_line import read_columns, run
from matplotlib.text import Text
from rich.console import Console

from distembed.cli.app import Screen, app
from distembed.cli.options import column_items
from distembed.cli.results import draw, show_confusion
from distembed.learners.scores import Score, of_classes, of_intervals, share
from distembed.learners.search import CHOICE, Search, Trial


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bags of three kinds in one dimension, and how wide they are."""
    path, rng = tmp_path_factory.mktemp("reports"), np.random.default_rng(0)
    width = np.repeat([0.5, 1.0, 2.0], 15) * rng.uniform(0.9, 1.1, 45)
    bag = np.repeat(np.arange(45), 30)
    pd.DataFrame({"bag": bag, "x": rng.normal(size=len(bag)) * width[bag]}).to_csv(path / "points.csv", index=False)
    kind = np.repeat(["narrow", "medium", "wide"], 15)
    pd.DataFrame({"bag": range(45), "width": width, "kind": kind}).to_csv(path / "labels.csv", index=False)
    for label in ("width", "kind"):
        run("fit", path / "points.csv", "--bag", "bag", "--labels", path / "labels.csv", "--label", label, "--tune",
            "none", "--embedding", "hellinger", "--components", 0, "-o", path / f"{label}.distembed", "-q")  # fmt: skip
    return path


# ------------------------------------------------------------------------------------------------- scores
def test_standard_errors_that_are_rounding_are_zero():
    assert str(Score(0.0, 0.0)) == "0 ± 0"
    assert str(Score(1.0, float("nan"))) == "1"
    low = np.linspace(0, 1, 7)
    assert of_intervals(low + 0.1, low, low + 0.3)["width"].standard_error == 0


def test_shares_without_a_single_error_are_not_certain():
    for n in (2, 10, 100):
        right = share(np.ones(n, bool))
        assert right.value == 1
        p = (n + 2) / (n + 4)
        assert right.standard_error == pytest.approx(np.sqrt(p * (1 - p) / (n + 4)))
        assert share(np.zeros(n, bool)).standard_error == pytest.approx(right.standard_error)
    truth = np.repeat(["a", "b"], [2, 30])
    found = of_classes(truth, truth)
    assert found["balanced_accuracy"].standard_error > found["accuracy"].standard_error > 0
    assert share([True]).standard_error != share([True]).standard_error  # of one bag it is not told
    mixed = share([True, False, True, True])
    assert mixed.standard_error == pytest.approx(np.std([1, 0, 1, 1], ddof=1) / 2)


@pytest.mark.parametrize(
    ("label", "score", "more"), [("width", "R²", ()), ("kind", "R² of indicators", ("--model", "ridge"))]
)
def test_the_table_of_settings_says_its_rule_and_its_score(folder, tmp_path, label, score, more):
    words = ("fit", folder / "points.csv", "--bag", "bag", "--labels", folder / "labels.csv", "--label", label,
             "--embedding", "deviation", "--components", 20, "-o", tmp_path / "m.distembed")  # fmt: skip
    shown = run(*words, *more).stdout
    assert shown.startswith("5 settings, scored on held-out bags\n")
    assert score in shown.splitlines()[1]
    assert shown.count(" <\n") == 1
    assert f"\n< {CHOICE}\n" in shown
    assert f"{score} on held-out bags of the search: " in run("info", tmp_path / "m.distembed").stdout


def test_a_search_says_why_another_than_the_first_is_chosen():
    best, other = Trial(1.0, 1.0, 0.1, 0.30, 50), Trial(2.0, 1.0, 0.1, 0.29, 50)
    assert CHOICE in str(Search([best, other], 50, 50, {}, best))
    assert CHOICE not in str(Search([best, other], 50, 50, {}, other))


# ------------------------------------------------------------------------------------------------- matrices
def shown_at(width, names, counts):
    screen = Screen()
    screen.out = Console(width=width, record=True, file=io.StringIO())
    show_confusion(names, counts, screen)
    return screen.out.export_text()


def test_a_confusion_matrix_breaks_no_words():
    names = [f"a rather long name {i}" for i in range(6)]
    counts = np.arange(36).reshape(6, 6) * 100
    wide, narrow = (shown_at(width, names, counts) for width in (200, 80))
    assert wide.splitlines()[1].split("  ")[-1].strip() == names[-1]
    assert max(map(len, narrow.splitlines())) <= 80
    assert [line[:22] for line in narrow.splitlines()[3:]][:6] == [f"{i + 1} {name}" for i, name in enumerate(names)]
    assert narrow.splitlines()[1].split()[-6:] == ["1", "2", "3", "4", "5", "6"]
    assert "too wide for this screen; see --plot or --json" in shown_at(30, names, counts)


# ------------------------------------------------------------------------------------------------- pictures
def kept_figure(monkeypatch):
    """The figure that is drawn, in place of a file."""
    kept = []
    monkeypatch.setattr("distembed.cli.results.save_figure", lambda figure, path: kept.append(figure))
    return kept


def fits(figure):
    figure.canvas.draw()
    (axes,) = figure.axes[:1]
    (title,) = (
        text for text in axes.get_children() if isinstance(text, Text) and text.get_text() == axes.get_title("left")
    )
    box = title.get_window_extent()
    return box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height


def test_intervals_are_drawn_and_titles_fit(monkeypatch):
    figures = kept_figure(monkeypatch)
    truth = np.linspace(0, 10, 20)
    title = ["20 bags", *(f"{name} 0.12345 ± 0.0012" for name in ("RMSE", "MAE", "R²", "coverage", "width"))]
    ends = np.stack([truth - 1, np.where(truth > 9, truth - 0.5, truth + 1)], axis=1)
    draw("p.png", truth, truth + 0.3, False, "mass", title, ends)
    draw("p.png", np.array(["a", "b"]), np.array(["a", "a"]), True, "kind", title)
    numbers, matrix = figures
    assert (
        sum(len(lines.get_segments()) for lines in numbers.axes[0].collections if hasattr(lines, "get_segments")) == 20
    )
    assert all(map(fits, figures))
    assert matrix.axes[0].get_xlabel() == "kind, predicted"


def test_evaluate_draws_intervals(folder, tmp_path, monkeypatch):
    labels = pd.read_csv(folder / "labels.csv")
    made = labels[["bag"]].assign(prediction=labels["width"], low=labels["width"] - 0.1, high=labels["width"] + 0.1)
    made.to_csv(tmp_path / "made.csv", index=False)
    figures = kept_figure(monkeypatch)
    words = ("evaluate", tmp_path / "made.csv", "--labels", folder / "labels.csv", "--label", "width")
    shown = run(*words, "--plot", tmp_path / "p.png").stdout
    assert re.search(r"^width +0\.2 ± 0$", shown, re.MULTILINE)
    (figure,) = figures
    assert fits(figure)
    assert len(figure.axes[0].collections[0].get_segments()) == 45


# ------------------------------------------------------------------------------------------------- explanations
def test_explanations_name_the_class_and_the_quantity(folder, monkeypatch, tmp_path):
    figures = kept_figure(monkeypatch)
    words = ("explain", folder / "kind.distembed", folder / "points.csv")
    assert "Bag 40: probability of class 'wide' " in run(*words, "--id", 40, "--plot", tmp_path / "p.png").stdout
    assert figures[0].axes[0].get_title().startswith("bag 40: probability of class 'wide' ")
    assert figures[0].axes[0].get_ylabel() == "change of the probability of class 'wide' with mass"
    every = run(*words).stdout
    assert [f"class '{name}', 15 bags" in every for name in ("medium", "narrow", "wide")] == [True] * 3
    shown = run("explain", folder / "width.distembed", folder / "points.csv", "--id", 40).stdout
    assert shown.startswith("Bag 40: predicted width ")


def test_a_model_without_densities_is_explained(folder, tmp_path):
    words = ("fit", folder / "points.csv", "--bag", "bag", "--labels", folder / "labels.csv", "--label", "width")
    run(*words, "--embedding", "deviation", "--components", 0, "--tune", "none", "-o", tmp_path / "m.distembed")
    words = ("explain", tmp_path / "m.distembed", folder / "points.csv", "--contributions", tmp_path / "c.csv")
    (first, *_) = json.loads(run(*words, "--json").stdout)["predictions"]
    assert sum(first["contributions"].values()) == pytest.approx(first["prediction"] - first["reference"])
    columns = read_columns(tmp_path / "c.csv")
    assert list(columns) == ["bag", "prediction", "reference", "x"]
    assert columns["x"][0] == pytest.approx(first["contributions"]["x"])


# ------------------------------------------------------------------------------------------------- the Tab key
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["fit", "points.csv", "--bag", "b"], ["bag"]),
        (["fit", "points.csv", "--columns", "x,"], ["x,bag"]),
        (["fit", "points.csv", "--bag", "bag", "--labels", "labels.csv", "--label", ""], ["bag", "width", "kind"]),
        (["fit", "points.csv", "--labels", "labels.csv", "--covariates", "width,k"], ["width,kind"]),
        (["predict", "kind.distembed", "points.csv", "--weights", "x"], ["x"]),
        (["evaluate", "labels.csv", "--prediction", "w"], ["width"]),
        (["fit", "absent.csv", "--bag", ""], []),
        (["fit", "--bag", ""], []),
    ],
)
def test_tab_completes_names_of_columns(folder, monkeypatch, words, found):
    monkeypatch.chdir(folder)
    text = " ".join(["distembed", *words])
    env = {"_DISTEMBED_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": str(len(words))}
    assert run(env=env).stdout.split() == [f"plain,{name}" for name in found]


def test_completion_says_nothing_of_errors():
    context = app.get_command(None, "fit").make_context("fit", ["no.csv"], resilient_parsing=True)
    assert column_items(context, ("labels", "table"), False, "") == []


def test_a_table_that_is_too_wide_loses_nothing(capsys):
    from distembed.cli.app import Screen

    header, row = ["method", *(f"balanced_accuracy_{j}" for j in range(9))], ["statistics + forest", *["0.8765"] * 9]
    Screen().table("scores", header, [row, ["auto", *["0.9"] * 9]])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.count("0.8765") for line in lines) == 9
    assert all(word in " ".join(lines) for word in (*header, "statistics", "forest", "auto"))
