"""Pictures, by what they draw: artists, labels, limits; and that nothing but the axes changes."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

import distembed as de
from distembed.plot import drawing
from distembed.plot.charts import density_of, limits_of, place, reliability_curve
from distembed.theory import ErrorBudget, Stage


def make_bags(n_bags=20, n_dims=2, seed=0, **more):
    rng = np.random.default_rng(seed)
    shift = np.repeat([0.0, 4.0], n_bags // 2)
    sizes = rng.integers(20, 60, n_bags)
    arrays = [rng.normal(m, 1.0, size=(n, n_dims)) for m, n in zip(shift, sizes, strict=True)]
    return de.Bags.from_arrays(arrays, ids=[f"b{i}" for i in range(n_bags)], **more)


def drawn(ax):
    """Everything can be drawn at 800 pixels, and all of its text is within the picture."""
    figure = ax.figure
    figure.set_dpi(800 / figure.get_size_inches()[0])
    figure.draw_without_rendering()
    box = figure.bbox
    for text in [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels()]:
        if text.get_text() and text.get_visible() and ax.axison:
            extent = text.get_window_extent()
            assert box.x0 - 1 <= extent.x0 < extent.x1 <= box.x1 + 1, text
            assert text.get_fontsize() >= 8
    return ax


BOARD = [
    {"name": "constant", "score": 0.0, "standard_error": 0.1, "weight": 0.0, "seconds": 0.0},
    {"name": "js, rbf", "score": 0.9, "standard_error": 0.02, "weight": 0.7, "seconds": 1.0},
    {"name": "mean, linear", "score": 0.5, "standard_error": 0.05, "weight": 0.3, "seconds": 0.1},
]
BUDGET = ErrorBudget(
    {"points": Stage(0.03, -0.03, 0.05), "bandwidth": Stage(0.02, 0.02, 0.04)}, 0.02, 0.02, 0.5, 30, "use larger bags"
)


def regions(n_dims):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, n_dims)), rng.normal(size=(200, n_dims))
    y[:60] = rng.normal(2.0, 0.1, size=(60, n_dims))
    return de.two_sample.which_regions(x, y, n_cells=6, n_permutations=99, random_state=0)


CASES = {
    "bags": lambda ax: de.plot.bags(make_bags(), ax=ax),
    "map": lambda ax: de.plot.map(make_bags(), np.arange(20.0), name="y", thumbnails=3, ax=ax),
    "distances": lambda ax: de.plot.distances(np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0))), ax=ax),
    "predictions": lambda ax: de.plot.predictions([1.0, 2.0], [1.0, 3.0], ax=ax),
    "confusion": lambda ax: de.plot.confusion(["a", "b"], ["a", "a"], ax=ax),
    "reliability": lambda ax: de.plot.reliability([0, 1], [[0.5, 0.5], [0.1, 0.9]], classes=[0, 1], ax=ax),
    "leaderboard": lambda ax: de.plot.leaderboard(BOARD, ax=ax),
    "budget": lambda ax: de.plot.budget(BUDGET, ax=ax),
    "two_sample": lambda ax: de.plot.two_sample(regions(2), ax=ax),
}


@pytest.mark.parametrize("name", CASES)
def test_axes_in_axes_out_and_nothing_global(name):
    before, figure = dict(mpl.rcParams), drawing.new_figure(8, 6)
    ax = figure.subplots()
    assert CASES[name](ax) is ax
    alone = CASES[name](None)
    assert alone.figure is not figure
    assert dict(mpl.rcParams) == before
    drawn(ax), drawn(alone)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def run(code):
    env = {**os.environ, "MPLBACKEND": "agg"}
    return subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True, text=True).stdout


def test_matplotlib_is_imported_when_something_is_drawn():
    run("import sys, distembed as de; de.plot; assert 'matplotlib' not in sys.modules")


@pytest.mark.parametrize("name", CASES)
def test_pictures_belong_to_pyplot_which_shows_them(name):
    """Notebooks show the figures of pyplot when a cell ends, and scripts in plt.show()."""
    ax = CASES[name](None)
    assert plt.get_fignums() == [ax.figure.number]
    assert plt.gcf() is ax.figure


def test_axes_of_the_caller_make_no_figure():
    figure, ax = plt.subplots()
    assert de.plot.map(np.eye(5), ax=ax).figure is figure
    assert plt.get_fignums() == [figure.number]


def test_other_threads_and_commands_open_no_window():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(de.plot.map, np.eye(5)).result().figure.axes
    with drawing.without_windows():
        assert de.plot.map(np.eye(5)).figure.axes
    assert not plt.get_fignums()


def test_a_script_shows_its_pictures():
    """The window of a script: what ``plt.show()`` would show is the picture, and it has ink."""
    code = """if True:
        import io, numpy as np, distembed as de, matplotlib.pyplot as plt
        plt.show = lambda: [plt.figure(n).savefig(f, format="png") for n in plt.get_fignums()]
        f = io.BytesIO()
        de.plot.map(np.eye(5))
        plt.show()
        print(plt.imread(io.BytesIO(f.getvalue()))[..., :3].std() > 0.01)"""
    assert run(code).strip() == "True"


@pytest.mark.skipif(find_spec("nbclient") is None or find_spec("ipykernel") is None, reason="needs nbclient, ipykernel")
def test_a_notebook_shows_every_picture():
    import nbformat
    from nbclient import NotebookClient

    first = "import numpy as np, distembed as de\nbags = de.as_bags(np.random.default_rng(0).normal(size=(9, 20, 2)))"
    cells = [first, "de.plot.bags(bags)", "ax = de.plot.map(bags)", "de.plot.distances(1 - np.eye(5));"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    NotebookClient(book, kernel_name="python3").execute()
    for cell in book.cells[1:]:
        pictures = [each for each in cell.outputs if "image/png" in each.get("data", {})]
        assert len(pictures) == 1, cell.source


def test_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"distembed.plot needs matplotlib: pip install 'distembed\[plot\]'"):
        de.plot.confusion(["a"], ["a"])


# ------------------------------------------------------------------------------------------------------- bags
def test_bags_have_the_users_columns_and_the_same_axes():
    bags = make_bags(columns=["height, cm", "weight"])
    ax = de.plot.bags(bags, [3, 0, 19], labels=np.arange(20) / 8, max_points=10)
    small = ax.child_axes
    assert [each.get_title() for each in small] == ["b3: 0.375", "b0: 0", "b19: 2.375"]
    assert [each.get_xlabel() for each in small] == ["", "height, cm", "height, cm"]
    assert [each.get_ylabel() for each in small] == ["weight", "", "weight"]
    assert len({(each.get_xlim(), each.get_ylim()) for each in small}) == 1
    assert all(len(each.collections[-1].get_offsets()) <= 10 for each in small)
    low, high = small[0].get_xlim()
    assert low <= np.quantile(bags.points[:, 0], 0.01)
    assert high >= np.quantile(bags.points[:, 0], 0.99)


def test_bags_of_one_column_are_curves_of_mass_one():
    ax = de.plot.bags(make_bags(n_dims=1), [0])
    curve = ax.child_axes[0].lines[0]
    x, y = curve.get_data()
    np.testing.assert_allclose(np.sum(y) * (x[1] - x[0]), 1, atol=0.02)
    assert ax.child_axes[0].get_ylabel() == "density"


def test_labels_of_categorical_columns_are_bars():
    bags = de.Bags([[1, 0], [2, 1], [3, 1], [4, 1]], [0, 4], columns=["age", "sex"], categories={"sex": ["f", "m"]})
    (panel,) = de.plot.bags(bags, columns="sex").child_axes
    assert [bar.get_height() for bar in panel.patches] == [0.25, 0.75]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["f", "m"]
    drawn(de.plot.bags(bags))


def test_columns_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"plot.bags\(columns=...\): must name one to 2 of the columns x0, x1"):
        de.plot.bags(make_bags(), columns=["z"])


@pytest.mark.parametrize("points", [[[1.0, 1.0]], [[1.0, 2.0]] * 5], ids=["one", "equal"])
def test_bags_without_spread_are_drawn(points):
    drawn(de.plot.bags(de.Bags.from_arrays([points, points])))
    drawn(de.plot.map(de.Bags.from_arrays([points, points]), thumbnails=2))


def test_densities_to_look_at():
    points = np.random.default_rng(0).normal(size=(2000, 2))
    p, x, y = density_of(points, [(-5, 5)] * 2, 50)
    np.testing.assert_allclose(p.sum() * (x[1] - x[0]) * (y[1] - y[0]), 1)
    np.testing.assert_allclose(p.max(), 1 / (2 * np.pi), rtol=0.2)
    weights = np.where(points[:, 0] > 0, 1.0, 0.0)
    p, x = density_of(points[:, :1], [(-5, 5)], 50, weights)
    assert p[x > 0].sum() > 0.9 * p.sum()
    assert limits_of(np.full(5, 3.0))[0] < 3 < limits_of(np.full(5, 3.0))[1]


# -------------------------------------------------------------------------------------------------------- map
def test_the_map_tells_groups_apart():
    bags, status = make_bags(columns=["a", "b"]), np.repeat(["well", "ill"], 10)
    ax = de.plot.map(bags, status, name="status", thumbnails=4)
    ill, well = (points.get_offsets()[:, 0] for points in ax.collections[:2])
    assert min(ill) > max(well) or max(ill) < min(well)
    assert ax.get_legend().get_title().get_text() == "status"
    assert len(ax.child_axes) == 4
    assert "of the variance" in ax.get_xlabel()
    shapes = {points.get_paths()[0].vertices.tobytes() for points in ax.collections[:2]}
    assert len(shapes) == 2  # colour is not all that tells them apart


def test_features_and_their_distances_have_the_same_map():
    rows = np.random.default_rng(0).normal(size=(12, 5))
    matrix = np.sqrt(np.sum((rows[:, None] - rows) ** 2, axis=2))
    np.testing.assert_allclose(place(rows)[0], place(matrix, distances=True)[0], atol=1e-9)
    assert de.plot.map(matrix, distances=True).get_ylabel().startswith("coordinate 2")
    with pytest.raises(ValueError, match="must be a square matrix of distances, got shape"):
        de.plot.map(rows, distances=True)
    with pytest.raises(ValueError, match=r"plot.map\(labels=...\): must be of shape \(12,\), got \(3,\)"):
        de.plot.map(rows, [1, 2, 3])
    with pytest.raises(ValueError, match=r"needs bags, and X has features or distances; pass bags=..."):
        de.plot.map(rows, thumbnails=2)
    assert len(de.plot.map(rows, thumbnails=2, bags=make_bags(12)).child_axes) == 2


def test_numbers_have_a_scale():
    ax = de.plot.map(make_bags(), np.arange(20.0), name="age")
    assert ax.figure.axes[1].get_ylabel() == "age"
    assert ax.figure.axes[1].get_ylim() == (0.0, 19.0)


def test_distances_put_what_is_alike_together():
    x = np.array([0.0, 10.0, 1.0, 11.0, 2.0, 12.0])
    ax = de.plot.distances(np.abs(x[:, None] - x), ids=list("aAbBcC"), labels=np.repeat(["u", "v"], 3), name="d")
    names = "".join(text.get_text() for text in ax.get_yticklabels())
    assert names.islower() == names.isupper()
    assert sorted(names[:3].lower()) == ["a", "b", "c"]
    assert names[:3].islower() != names[3:].islower()
    assert [text.get_text() for text in ax.child_axes[0].get_legend().get_texts()] == ["u", "v"]
    with pytest.raises(ValueError, match="must be square"):
        de.plot.distances(np.ones((2, 3)))


# ----------------------------------------------------------------------------------------------------- models
def test_predictions_and_intervals():
    truth = np.linspace(0, 10, 20)
    ends = np.stack([truth - 1, np.where(truth > 9, truth - 0.5, truth + 1)], axis=1)
    ax = drawn(de.plot.predictions(truth, truth + 0.3, intervals=ends, name="mass", title=["20 bags", "RMSE 0.3"]))
    held, missed = (each for each in ax.collections if hasattr(each, "get_offsets") and len(each.get_offsets()) > 1)
    assert len(held.get_offsets()) == 18
    assert to_hex(missed.get_facecolor()[0]) != to_hex(held.get_facecolor()[0])
    assert ax.get_xlim() == ax.get_ylim()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("mass, true", "mass, predicted")
    assert ax.get_legend().get_texts()[1].get_text() == "does not (10%)"
    with pytest.raises(ValueError, match="must be of shape"):
        de.plot.predictions(truth, truth[:3])


def test_confusion_counts_bags():
    ax = de.plot.confusion(["a", "b", "b", "c"], ["a", "b", "a", "c"], name="kind", title=["4 bags"])
    assert [text.get_text() for text in ax.texts] == list("100110001")
    assert ax.get_ylabel() == "kind, true"
    assert not de.plot.confusion(np.arange(20), np.arange(20)).texts


def test_reliability_of_true_probabilities_lies_on_the_diagonal():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = np.where(rng.uniform(size=len(p)) < p, "ill", "well")
    shares = np.stack([p, 1 - p], axis=1)
    curve = reliability_curve(y, shares, np.array(["ill", "well"]), 10)
    np.testing.assert_allclose(curve.probabilities, curve.shares, atol=0.04)
    assert curve.counts.sum() == len(p)
    ax = de.plot.reliability(y, shares, classes=["ill", "well"], name="status")
    assert ax.get_xlabel() == "predicted probability of status well"
    three = rng.dirichlet(np.ones(3), size=50)
    labels = de.plot.reliability(rng.integers(3, size=50), three, classes=[0, 1, 2]).get_xlabel()
    assert labels == "predicted probability of the predicted class"
    with pytest.raises(ValueError, match=r"must be of shape \(50, 2\)"):
        de.plot.reliability(np.zeros(50), three, classes=[0, 1])


def test_the_leaderboard_has_the_best_on_top():
    ax = drawn(de.plot.leaderboard(BOARD))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["js, rbf", "mean, linear", "constant"]
    assert [text.get_text() for text in ax.texts] == ["0.70", "0.30"]
    low, high = ax.get_ylim()
    assert low > high
    many = [{**BOARD[1], "name": f"c{i}", "score": 1 - i / 100} for i in range(40)]
    assert len(de.plot.leaderboard([*many, BOARD[0]]).get_yticklabels()) == 26


@pytest.fixture(scope="module")
def model():
    bags, y = de.datasets.make_cells(40, random_state=0)
    return de.DistributionRegressor("js", n_components=50, random_state=0).fit(bags, y), bags


def test_the_search_frames_what_was_chosen(model):
    ax = drawn(de.plot.search(model[0]))
    best = model[0].search_.best
    (frame,) = ax.patches
    column = round(frame.get_x() + 0.47)
    assert ax.get_xticklabels()[column].get_text() == f"x {best.sigma_scale:g}"
    assert len(ax.texts) == len(model[0].search_.best_of_pairs())
    bags, _ = de.datasets.make_cells(40, random_state=0)
    means = np.array([bag[:, 0].mean() for bag in bags])
    linear = de.DistributionRegressor("mean", n_components=None, random_state=0).fit(bags, means)
    assert "R²" in drawn(de.plot.search(linear)).get_ylabel()
    with pytest.raises(ValueError, match="nothing was searched"):
        de.plot.search(None)


def test_the_budget_adds_up():
    ax = drawn(de.plot.budget(BUDGET))
    bars = {text.get_text(): bar for text, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)}
    assert list(bars) == ["points", "bandwidth", "together", "total"]
    np.testing.assert_allclose(bars["total"].get_width(), 0.02**2)
    np.testing.assert_allclose(sum(bar.get_width() for bar in list(bars.values())[:3]), 0.02**2)
    assert ax.get_title("left") == "use larger bags"
    assert "biases that cancel" in [text.get_text() for text in ax.texts]


def test_explanations_are_in_the_users_units(model):
    learner, bags = model
    found = learner.explain(bags[:2])
    ax = drawn(de.plot.explanation(found, 1))
    np.testing.assert_array_equal(ax.collections[1].get_offsets(), bags[1])
    assert ax.figure.axes[1].get_ylabel() == "change of the prediction with mass"


# ------------------------------------------------------------------------------------------------------ tests
def test_where_groups_differ():
    line = de.plot.two_sample(regions(1), names=("before", "after"))
    assert [text.get_text() for text in line.get_legend().get_texts()] == ["before", "after"]
    assert len(line.patches) >= 3  # two outlines, and at least one region that differs
    plane = drawn(de.plot.two_sample(regions(2)))
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("x0", "x1")
    assert sum(len(each.get_offsets()) for each in plane.collections[:2]) == 6


def test_whether_and_which_columns():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.normal([0, 2, 0], 1.0, size=(60, 3))
    found = de.two_sample.which_coordinates(x, y, n_permutations=99, random_state=0)
    ax = drawn(de.plot.two_sample(found))
    assert ax.get_yticklabels()[0].get_text() == "x1"
    assert ax.get_title("left") == "1 of 3 columns differ"
    test = de.two_sample.bags_test(x, y, n_permutations=99, random_state=0)
    ax = drawn(de.plot.two_sample(test))
    assert ax.lines[0].get_xdata()[0] == test.statistic
    with pytest.raises(TypeError, match="must be what bags_test"):
        de.plot.two_sample(3)


def test_labels_of_a_series_are_matched_by_id():
    pd = pytest.importorskip("pandas")
    bags = de.Bags.from_arrays([[[0.0, 1.0]], [[2.0, 1.0]], [[3.0, 5.0]]], ids=["a", "b", "c"])
    labels = pd.Series(["third", "first", "second"], index=["c", "a", "b"])
    ax = de.plot.bags(bags, labels=labels)
    assert [each.get_title() for each in ax.child_axes] == ["a: first", "b: second", "c: third"]
    with pytest.raises(ValueError, match="differ in upper and lower case"):
        de.plot.map(bags, labels.rename(str.upper))
