"""Pages that are made of what is in the package and in the repository, before Sphinx reads its sources.

``live/`` has the report of the home page, ``api/`` every public name once, ``cards/`` a page for each embedding of
the catalogue, ``results/`` the pages of measurements, and contributing and changelog are the files of the root. None of
them is kept in the repository.
"""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import distembed as de

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
ROOMS = {
    "learners": "Estimators: bags to predictions",
    "bags": "Bags: reading and holding data",
    "scaling": "Preprocessing",
    "embeddings": "Feature extraction: bags to vectors",
    "exploration": "Exploration: maps, clusters, odd bags",
    "two_sample": "Statistical tests",
    "plot": "Plotting",
    "report": "Reports",
    "files": "Saving and loading models",
    "datasets": "Datasets",
    "single_cells": "Single cells",
    "tables": "Large tables on disk and in object stores",
    "cluster": "Clusters of machines",
    "sizes": "Bags of unequal sizes",
    "models": "Linear models, kernels and forests on vectors",
    "features": "Random features of vectors",
    "kernels": "Kernels, as steps of a pipeline",
    "density": "Density estimation: kernels, bandwidths, nodes",
    "distances": "Distances between densities",
    "divergences": "Divergences: matrices over all pairs of bags",
    "basis": "Orthonormal functions and index sets",
    "theory": "Error bound and error budget",
    "estimator_checks": "Checks for your own transformers of bags",
}
FIRST = ("distembed.DistributionClassifier", "distembed.DistributionRegressor")  # of their room
ALSO = (
    "available",
    "forget",
    "get",
    "permutation_importance",
    "register",
)  # of rooms, whose ``__all__`` goes to the root


def write(name: str, text: str) -> None:
    """Write a page, only where it has changed: Sphinx reads again what is newer."""
    path = DOCS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def public_names() -> dict[str, list[str]]:
    """Every public class and function by its room, each under its shortest name."""
    found: dict[str, list[str]] = {room: [] for room in ROOMS}
    seen: set[int] = set()
    for name in de.__all__:
        value = getattr(de, name)
        if not inspect.ismodule(value):
            found[value.__module__.split(".")[1]].append(f"distembed.{name}")
            seen.add(id(value))
    for module in (getattr(de, name) for name in de.__all__):
        if not inspect.ismodule(module):
            continue
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
        for name in sorted({*names, *(name for name in ALSO if name in vars(module))}):
            value = getattr(module, name)
            if id(value) not in seen and (inspect.isclass(value) or inspect.isfunction(value)):
                found[module.__name__.split(".")[1]].append(f"{module.__name__}.{name}")
                seen.add(id(value))
    return found


def reference() -> None:
    """Write the page of all public names."""
    lines = ["API reference", "=============", "", "Every public name, once, those that most people need first."]
    lines += ["Names are those after ``import distembed as de``."]
    for room, names in public_names().items():
        lines += ["", ROOMS[room], "-" * len(ROOMS[room]), "", ".. currentmodule:: distembed", ""]
        lines += [".. autosummary::", "   :toctree: names", ""]
        lines += [
            f"   {name.removeprefix('distembed.')}"
            for name in sorted(names, key=lambda each: (each not in FIRST, each.lower()))
        ]
    write("api/index.rst", "\n".join(lines) + "\n")


CARD = """# `{name}`

What the squared distance of two rows of features approximates: {estimates}.

```python
features = de.embeddings.get("{name}").fit_transform(bags)
model = de.DistributionClassifier("{name}").fit(bags, y)
```

| | |
|---|---|
| class | {{py:class}}`~distembed.{kind}`{settings} |
| points | {points} |
| work per bag | {cost} |
| kernel is positive semi-definite | {kernel} |
| does not change with | {invariant} |
| reference | {reference} |

n is the number of points of a bag, l that of dimensions, D that of components. [The table](../methods.md) has the times
of all embeddings on the same bags.
"""
CARDS = """# Method cards

One card per embedding: what it estimates, what it costs, what it does not see. [The table](../methods.md) has them side
by side, with measured times.

```{{toctree}}
:maxdepth: 1

{names}
```
"""


def cards() -> None:
    """Write one page for each embedding of the catalogue, and the page that lists them."""
    methods = de.embeddings.available()
    for name, method in methods.items():
        settings = ", ".join(f"`{key}={value!r}`" for key, value in method.parameters.items())
        points = "in the unit cube: put `UnitCube` in front" if method.units == "unit cube" else method.units
        facts = {**vars(method), "kind": method.kind.__name__, "settings": f" with {settings}" * bool(settings)}
        write(f"cards/{name}.md", CARD.format(points=points, **facts))
    write("cards/index.md", CARDS.format(names="\n".join(methods)))


def copies() -> None:
    """Copy results, contributing and changelog to where their links are right."""
    for path in (ROOT / "results").iterdir():
        if path.suffix in (".png", ".csv"):  # pages link to tables, which are downloads then
            (DOCS / "results").mkdir(exist_ok=True)
            shutil.copyfile(path, DOCS / "results" / path.name)
        elif path.suffix == ".md":
            write(f"results/{path.name}", path.read_text(encoding="utf-8"))
    for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        for other in ("CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"):
            text = text.replace(f"]({other}.md", f"]({other.lower()}.md")
        write(f"{name.lower()}.md", text)


def live_report() -> None:
    """Write a report for the home page to show in a frame, once."""
    path = DOCS / "live" / "report_of_cells.html"
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    bags, severity = de.datasets.make_cells(160, random_state=0)
    model = de.DistributionRegressor(random_state=0).fit(bags[:100], severity[:100])
    de.report.write(model, bags[100:], severity[100:], path, name="severity")


def make_pages(app: Any, config: Any) -> None:
    """Write all of them."""
    reference()
    cards()
    copies()
    live_report()


def root_links(app: Any, name: str, source: list[str]) -> None:
    """Links from a page to files of the root, as forges want them, become links to the pages made of them."""
    up = "../" * (name.count("/") + 1)
    source[0] = source[0].replace(f"]({up}results/", f"]({'../' * name.count('/')}results/")
    source[0] = re.sub(
        rf"\]\({re.escape(up)}(CONTRIBUTING|CHANGELOG|SECURITY|CODE_OF_CONDUCT)\.md",
        lambda found: f"]({'../' * name.count('/')}{found[1].lower()}.md",
        source[0],
    )
    source[0] = re.sub(
        rf"\]\({re.escape(up)}examples/(plot_\w+)\.py", rf"]({'../' * name.count('/')}gallery/\1.rst", source[0]
    )


def skip_foreign(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn's base classes bring: it has pages of its own."""
    module = getattr(value, "__module__", None) or ""
    foreign = module.startswith("sklearn") or re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if foreign else None


def setup(app: Any) -> dict[str, bool]:
    """Connect the steps to Sphinx."""
    app.connect("config-inited", make_pages)  # before Sphinx looks which pages there are
    app.connect("source-read", root_links)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
