"""The order of the rooms, and names: a distance, density or embedding that is registered once is found everywhere."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.density import Density

PACKAGE = Path(de.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path):
    """The room of a file: its folder, or a module of the root by its own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imported_rooms(path):
    """Rooms that a file imports from, wherever the import stands; type checkers' imports count too."""
    package = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)]
            full = [*base, *(node.module.split(".") if node.module else [])]
            yield from ([full[0]] if full else [alias.name for alias in node.names])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("distembed."):
            yield node.module.split(".")[1]


def test_a_room_imports_only_from_rooms_before_it():
    wrong = []
    for path in FILES:
        room = room_of(path)
        if room == "__init__":  # of the package
            continue
        after = {*de.ROOMS[de.ROOMS.index(room) + 1 :]}
        wrong += [f"{path.relative_to(PACKAGE)}: {name}" for name in sorted(after & {*imported_rooms(path)})]
    assert not wrong, "imports from rooms that stand later in ROOMS:\n" + "\n".join(wrong)


def test_rooms_are_the_folders_and_modules_of_the_package():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    root = {path.stem for path in PACKAGE.glob("*.py")}
    assert folders | root - {"__init__"} == {*de.ROOMS}


# A distance, a density and an embedding from outside


@pytest.fixture
def triangle():
    """The symmetric chi-square distance under another name."""
    distance = de.HomogeneousDistance(
        "triangle", kappa=lambda x, y: (x - y) ** 2 / (2 * np.where(x + y > 0, x + y, 1.0))
    )
    de.distances.register(distance)
    yield distance
    de.distances.forget("triangle")


class Flat(Density):
    """The uniform density, whatever the points."""

    smooths = "nothing"

    def of(self, points, weights, bandwidth):
        return FlatBag(points.shape[1])


class FlatBag:
    def __init__(self, n_dims):
        self.n_dims = n_dims

    def pdf(self, u):
        return np.ones(len(u))


@pytest.fixture
def flat():
    de.density.register("flat", Flat)
    yield
    de.density.forget("flat")


class Ranges(BagEstimator):
    """Smallest and largest coordinate."""

    def fit(self, X, y=None):
        check_bags(self, X, reset=True)
        return self

    def transform(self, X):
        bags = check_bags(self, X, reset=False)
        starts = bags.offsets[:-1]
        return np.hstack([np.minimum.reduceat(bags.points, starts), np.maximum.reduceat(bags.points, starts)])

    def get_feature_names_out(self, input_features=None):
        return np.array([f"range{j}" for j in range(2 * self.n_features_in_)], dtype=object)


@pytest.fixture
def ranges():
    de.files.storable(Ranges)
    de.embeddings.register(de.embeddings.Method("ranges", Ranges, {}, "squared distance of ranges"))
    yield
    de.embeddings.forget("ranges")


@pytest.fixture
def bags():
    return de.as_bags(np.random.default_rng(0).beta(2, 5, size=(40, 30, 2)))


def test_a_distance_is_found_everywhere(triangle, bags, tmp_path):
    assert "triangle" in de.distances.available()
    assert {"triangle", "histogram-triangle"} <= set(de.embeddings.available())
    ours = de.HDDEmbedding("triangle", n_basis=4, bandwidth=0.2).fit_transform(bags)
    known = de.HDDEmbedding("chi2", n_basis=4, bandwidth=0.2).fit_transform(bags)
    gram, wanted = (np.sum((rows[:, None] - rows) ** 2, axis=2) for rows in (ours, known))
    np.testing.assert_allclose(gram, wanted, rtol=1e-2, atol=1e-4)  # two Gauss rules, one from kappa alone
    np.testing.assert_allclose(
        de.divergences.plugin(bags[:4], distance="triangle", bandwidth=0.2),
        de.divergences.plugin(bags[:4], distance="chi2", bandwidth=0.2),
    )
    matrix = de.kernels.DivergenceMatrix("triangle").fit_transform(bags[:4])
    np.testing.assert_allclose(matrix, de.kernels.DivergenceMatrix("chi2").fit_transform(bags[:4]))
    assert de.two_sample.bags_test(bags[0], bags[1], "triangle", n_permutations=20, random_state=0).pvalue > 0
    model = de.DistributionRegressor("triangle", n_components=20, tune=None, random_state=0)
    model.fit(bags, bags.points[:, 0].reshape(40, 30).mean(axis=1))
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict(bags), model.predict(bags))
    assert "triangle" in choices("fit", "--embedding")
    assert "triangle" in choices("distances", "--divergence")


def test_a_density_is_found_everywhere(flat, bags):
    assert np.allclose(de.divergences.plugin(bags[:3], density="flat"), 0)
    rows = de.HDDEmbedding("js", density="flat", n_basis=3).fit_transform(bags)
    assert np.allclose(rows, rows[0])
    with pytest.raises(ValueError, match="'flat'"):
        de.HDDEmbedding("js", density="flut").fit(bags)


def test_an_embedding_is_found_everywhere(ranges, bags, tmp_path):
    y = bags.points[:, 0].reshape(40, 30).max(axis=1)
    assert isinstance(de.embeddings.get("ranges"), Ranges)
    model = de.DistributionRegressor("ranges", n_components=None, tune=None).fit(bags, y)
    de.save(model, tmp_path / "m")
    np.testing.assert_array_equal(de.load(tmp_path / "m").predict(bags), model.predict(bags))
    assert "ranges" in choices("embed", "--embedding")
    with pytest.raises(ValueError, match="there is an embedding 'js' already"):
        de.embeddings.register(de.embeddings.Method("js", Ranges, {}, "again"))


def choices(command, option):
    """What the command line says that an option may be."""
    from click import Context

    from distembed.cli.app import command_of

    found = command_of(command)
    parameter = next(each for each in found.params if option in each.opts)
    return [item.value for item in parameter.type.shell_complete(Context(found), parameter, "")]


# Files hold what predicts


def test_a_saved_regressor_is_small(tmp_path):
    rng = np.random.default_rng(0)
    bags, y = rng.uniform(size=(60, 40, 2)), rng.normal(size=60)
    model = de.DistributionRegressor("js", tune=None, random_state=0).fit(bags, y)
    de.save(model, tmp_path / "slim")
    assert (tmp_path / "slim").stat().st_size <= 12e6
    slim = de.load(tmp_path / "slim")
    np.testing.assert_array_equal(slim.predict(bags), model.predict(bags))
    with pytest.raises(ValueError, match="updatable=True"):
        slim.partial_fit(bags, y)


def test_a_file_that_can_be_updated_is_updated_as_the_model_is(tmp_path):
    rng = np.random.default_rng(0)
    bags, y = rng.uniform(size=(60, 40, 2)), rng.normal(size=60)
    model = de.DistributionRegressor("js", n_components=200, tune=None, random_state=0).fit(bags, y)
    de.save(model, tmp_path / "whole", updatable=True)
    whole = de.load(tmp_path / "whole")
    np.testing.assert_array_equal(whole.partial_fit(bags, y).predict(bags), model.partial_fit(bags, y).predict(bags))
