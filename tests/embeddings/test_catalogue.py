"""The catalogue of embeddings: every method by its name, described, and documented in the table."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import distembed as de
from distembed import embeddings

TABLE = Path(__file__).parents[2] / "docs" / "methods.md"
NAMES = list(embeddings.available())


def shifted_bags(n_bags=30):
    rng = np.random.default_rng(0)
    shifts = rng.uniform(0.2, 0.8, size=n_bags)
    return de.as_bags(rng.normal(shifts[:, None, None], 0.1, size=(n_bags, 60, 2))), shifts


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "mixture-curve"])  # which sees no places
def test_one_word_changes_the_method_and_each_learns_a_shift(name):
    bags, shifts = shifted_bags()
    model = make_pipeline(de.UnitCube(margin=0.5), embeddings.get(name), Ridge(alpha=1e-3))
    if "random_state" in model[1].get_params():
        model[1].set_params(random_state=0)
    found = model.fit(bags[:20], shifts[:20]).predict(bags[20:])
    assert np.corrcoef(found, shifts[20:])[0, 1] > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_every_method_is_described(name):
    method = embeddings.available()[name]
    assert method.name == name
    texts = (method.estimates, method.cost, method.kernel, method.invariant, method.units, method.reference)
    assert all(isinstance(text, str) and text for text in texts)
    assert method.units.startswith(getattr(method.kind, "units", "any"))  # which learners choose a scaler by
    assert isinstance(clone(method.make()), method.kind)
    assert f"| `{name}` | `{method.kind.__name__}` | {method.estimates} |" in TABLE.read_text(encoding="utf-8")


def test_every_embedding_is_in_the_catalogue():
    wrappers = {de.Marginals, de.BlockAverage, de.Views, de.Sketch}
    classes = {value for name in embeddings.__all__ if isinstance(value := getattr(embeddings, name), type)}
    assert {method.kind for method in embeddings.available().values()} == classes - wrappers


def test_it_prints_as_a_table_and_refuses_what_it_does_not_know():
    lines = repr(embeddings.available()).splitlines()
    assert [line.split()[0] for line in lines[1:]] == NAMES
    with pytest.raises(KeyError, match=r"no embedding is called 'helinger'.*did you mean 'hellinger'"):
        embeddings.available()["helinger"]
    with pytest.raises(ValueError, match=r"no embedding is called 42, only js,.*available"):
        embeddings.get(42)
    with pytest.raises(ValueError, match=r"is called 'JS'.*did you mean 'js'"):
        embeddings.get("JS")
    with pytest.raises(ValueError, match=r"is called \['js'\], only js"):
        embeddings.get(["js"])
    assert ["js"] not in embeddings.available()


def test_nobody_changes_it_for_others():
    with pytest.raises(TypeError, match="does not support item assignment"):
        embeddings.available()["js"].parameters["n_basis"] = 3
    assert len({method: name for name, method in embeddings.available().items()}) == len(NAMES)


MAPS = {
    "shifts": lambda x: np.add(x, [30.0, -7.0]),
    "rotations": lambda x: x @ [[0.6, -0.8], [0.8, 0.6]],
    "one scale": lambda x: 8 * x,
    "scales of a coordinate": lambda x: x * [5.0, 0.2],
    "affine": lambda x: x @ [[2.0, 1.0], [-0.5, 0.3]] + 4,
}
ANYWHERE = [name for name, method in embeddings.available().items() if method.units.startswith("any")]


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")
@pytest.mark.parametrize("change", MAPS)
@pytest.mark.parametrize("name", ANYWHERE)
def test_methods_are_invariant_to_what_the_catalogue_says(name, change):
    method, map_points = embeddings.available()[name], MAPS[change]
    rng = np.random.default_rng(1)
    bags = [rng.normal(rng.uniform(-1, 1, 2), rng.uniform(0.5, 2, 2), size=(200, 2)) for _ in range(12)]
    sizes = {
        "mmd": {"n_components": 6000}, "sliced-wasserstein": {"n_projections": 500}, "landmarks": {"max_points": 200}
    }.get(name, {})  # fmt: skip
    n_seeds = 8 if name == "codebook-js" else 1  # k-means starts at other points of bags that are turned

    def distances(some):
        estimator = method.make(**sizes)
        found = []
        for seed in range(n_seeds):
            if "random_state" in estimator.get_params():
                estimator.set_params(random_state=seed)
            features = estimator.fit_transform(some)
            found.append(np.sum((features[:, None] - features) ** 2, axis=2))
        return np.mean(found, axis=0)

    before, after = distances(bags), distances([map_points(bag) for bag in bags])
    changed = np.abs(before - after).max() / before.max()
    implied = {"one scale": "scales of a coordinate"}.get(change, change)
    if any(word in method.invariant for word in (change, implied, "affine")):
        assert changed < 0.05
    elif name != "fisher":  # many components hardly see that their axes have turned
        assert changed > 0.05
