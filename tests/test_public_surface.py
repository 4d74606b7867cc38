"""What the package shows: exactly its ``__all__``, documented with examples, cheap and quiet to import."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import distembed as de

ROOT = Path(__file__).parents[1]

MODULES = [
    "bandwidth", "basis", "cluster", "conformal", "datasets", "density", "distances", "divergences", "embeddings",
    "estimator_checks", "explain", "exploration", "features", "index_sets", "kernels", "learners", "nodes", "scaling",
    "plot", "report", "single_cells", "sizes", "tables", "theory", "two_sample",
]  # fmt: skip
CLASSES = [
    "BagClusters", "Bags", "BlockAverage", "CodebookEmbedding", "ConformalClassifier", "ConformalRegressor", "Copula",
    "Cosine", "Density", "Differences", "DistributionClassifier", "DistributionRegressor", "FisherEmbedding", "Fourier",
    "GaussianEmbedding", "Grid", "HDDEmbedding", "Histogram", "HistogramEmbedding", "HomogeneousDistance",
    "HyperbolicCross", "Importance", "KDE", "KNN", "KernelSmoother", "L2Embedding", "LandmarkEmbedding", "Legendre",
    "LinearRidge", "LocalScale", "MCMC", "Marginals", "MeanEmbedding", "Mixture", "MixtureComponents",
    "MixtureCurveEmbedding", "MomentEmbedding", "MonteCarlo", "OddBags", "RandomFourierFeatures", "Scored", "Select",
    "Sketch", "SketchedBags",
    "SlicedWassersteinEmbedding", "Sobol", "SobolevEllipsoid", "Standardize", "StatisticsEmbedding", "Symmetries",
    "Tensor", "TotalDegree", "UnitCube", "Views",
]  # fmt: skip
FUNCTIONS = [
    "as_bags", "cells_to_obs", "concat", "distances_between", "donors_to_anndata", "explore", "learning_curve", "load",
    "mean_bag", "nearest_bags", "save",
]  # fmt: skip

# What density estimates and nodes become in fit: users meet them as fitted attributes and don't make them.
WITHOUT_EXAMPLE = {
    "distembed.density.BagDensity",
    "distembed.density.GridKDE",
    "distembed.density.nodes.GridNodes",
    "distembed.density.nodes.PointNodes",
}

OPTIONAL = ["awkward", "matplotlib", "numba", "pandas", "polars", "pyarrow"]


def all_modules():
    names = [info.name for info in pkgutil.walk_packages(de.__path__, "distembed.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def offered(module):
    """Public classes and functions of a module: those of its ``__all__``, or else those defined in it."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    values = {name: getattr(module, name) for name in names}
    return {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)}


def public_objects():
    """Classes and functions of the package and of its public modules, by their dotted names."""
    found = {f"distembed.{name}": getattr(de, name) for name in CLASSES + FUNCTIONS}
    for module in (getattr(de, name) for name in MODULES):
        found |= {f"{module.__name__}.{name}": value for name, value in offered(module).items()}
    return found


def run(code, *options):
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_all_is_the_public_surface():
    assert sorted(de.__all__) == sorted(MODULES + CLASSES + FUNCTIONS)
    assert len(set(de.__all__)) == len(de.__all__)


def test_every_name_of_all_is_there_and_is_what_it_says():
    assert all(inspect.ismodule(getattr(de, name)) for name in MODULES)
    assert all(inspect.isclass(getattr(de, name)) for name in CLASSES)
    assert all(inspect.isfunction(getattr(de, name)) for name in FUNCTIONS)


def test_nothing_else_is_public():
    assert set(dir(de)) == {*MODULES, *CLASSES, *FUNCTIONS, "__version__"}
    assert all(getattr(de, name).__name__.startswith("distembed.") for name in MODULES)  # no np, no warnings
    with pytest.raises(AttributeError, match="has no attribute 'np'"):
        de.np  # noqa: B018


def test_modules_are_imported_when_they_are_used():
    code = (
        "import sys, distembed; print({'numpy', 'sklearn'} & {*sys.modules}); "
        "distembed.Bags; print('numpy' in sys.modules)"
    )
    assert run(code).stdout.split() == ["set()", "True"]


def test_every_module_has_a_docstring_and_what_its_all_names():
    wrong = []
    for module in all_modules():
        if not module.__doc__:
            wrong.append(f"{module.__name__} has no docstring")
        names = getattr(module, "__all__", [])
        missing = [name for name in names if not (isinstance(name, str) and hasattr(module, name))]
        wrong += [f"{module.__name__} has no {name!r}, which is in its __all__" for name in missing]
    assert not wrong, "\n".join(wrong)


def test_every_public_name_has_an_example():
    wrong = []
    for name, value in public_objects().items():
        text = inspect.getdoc(value) or ""
        if name not in WITHOUT_EXAMPLE and not (re.search(r"^Examples\n-+$", text, re.MULTILINE) and ">>>" in text):
            wrong.append(name)
    assert not wrong, "no Examples section, or nothing that runs in it:\n" + "\n".join(wrong)


def test_parameters_of_constructors_are_documented():
    wrong = []
    for name in CLASSES:
        value = getattr(de, name)
        text = inspect.getdoc(value) or ""
        for parameter in inspect.signature(value).parameters.values():
            listed = re.search(rf"^(\w+, )*{parameter.name}(, \w+)* : ", text, re.MULTILINE)
            if not listed and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                wrong.append(f"{name}({parameter.name}=...)")
    assert not wrong, "parameters that the docstring leaves out:\n" + "\n".join(wrong)


def test_import_brings_no_optional_package():
    """None but those that scikit-learn itself imports where they are installed, as it does pandas."""
    code = f"""
import sys, sklearn.utils, sklearn.base
before = set(sys.modules)
import distembed
print([name for name in {OPTIONAL} if name in set(sys.modules) - before])
"""
    imported = run(code)
    assert imported.stdout.strip() == "[]", imported.stderr


def test_the_package_works_without_optional_packages():
    code = f"""
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in {OPTIONAL} else find(name, *rest)
import numpy as np, distembed as de
bags = de.as_bags(np.random.default_rng(0).uniform(size=(3, 20, 2)))
de.estimator_checks.check_bag_transformer(de.HDDEmbedding(n_basis=2, bandwidth=0.2))
print(de.HDDEmbedding(n_basis=2, bandwidth=0.5).fit_transform(de.UnitCube().fit_transform(bags)).shape)
"""
    assert run(code, "-W", "error").stdout.strip() == "(3, 40)", run(code).stderr


def test_import_leaves_the_slow_parts_of_scikit_learn_alone():
    """Linear models and model selection take a second or more, which a command line pays on every call."""
    slow = ["sklearn.linear_model", "sklearn.model_selection", "sklearn.ensemble"]
    imported = run(f"import sys, distembed; print([name for name in {slow} if name in sys.modules])")
    assert imported.stdout.strip() == "[]", imported.stderr


def test_import_gives_no_warning():
    names = ", ".join(module.__name__ for module in all_modules())
    imported = run(f"import distembed, {names}", "-W", "error")
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout == imported.stderr == ""


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == Path(de.__file__)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1].strip("\"'") == de.__version__
    assert importlib.metadata.version("distembed") == de.__version__


def test_types_are_published():
    assert (Path(de.__file__).parent / "py.typed").exists()
