"""The soak, at small size: so it can't rot."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

TOOLS = Path(__file__).parents[1] / "tools"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the soak sends signals and forks")


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import soak
    import soak_bags
    import soak_tables

    return soak, soak_bags, soak_tables


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(6))
def test_random_bags_hold_or_are_refused_in_words(tools, number):
    rng = np.random.default_rng([0, number])
    _, came, n_bags = tools[1].case(rng, ["deviation", "mmd"], number)
    assert came in ("held", "refused")
    assert n_bags > 1


def test_what_differs_is_found(tools):
    one = np.arange(6.0).reshape(3, 2) + 1e9
    assert tools[1].compare("nothing", one, one * (1 + 1e-16), 1e-6, 2e-16) is None
    assert "changes features by 0.25" in tools[1].compare(
        "this", one, one + np.diag([0.0, 0.0, 0.5])[:, 1:], 1e-6, 2e-16
    )


def test_bad_tables_end_in_one_line(tools, tmp_path):
    for number in range(5):
        path = tools[2].bad_table(np.random.default_rng([0, number]), tmp_path)
        for words in (["info", str(path)], ["embed", str(path), "--bag", "bag", "--embedding", "mean"]):
            code, _, said = tools[2].run_here(words)
            assert tools[2].judged(code, said) is None, (words, said)
        path.unlink()
    assert "no remedy" in tools[2].judged(2, "distembed: it does not work\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["ids", "labels", "names"])
def test_seams_between_steps_hold(tools, kind):
    part = next(each for each in tools[0].parts() if each.name == kind)
    part.wanted = 3
    part.deadline = time.monotonic() + 100
    part.run(part)
    assert part.findings == []
    assert part.counts["commands" if kind == "names" else "answered"] > 5


def test_other_scores_are_noticed(tools):
    import soak_seams

    one, other = ({"scores": {"r2": {"value": value}}} for value in (0.5, 0.6))
    assert soak_seams._differ(one, other)
    assert not soak_seams._differ(one, one)
    assert not soak_seams._differ(one, None)


def test_a_report_tells_what_was_done_and_found(tools, tmp_path):
    soak = tools[0]
    assert [part.name for part in soak.parts()][:2] == ["kills", "sharing"]
    part = soak.Part("sums", "They are right.", 3, 1.0, lambda part: None, deadline=time.monotonic() + 100)
    assert part.goes_on(2)
    assert not part.goes_on(3)
    part.finding("1 + 1\n  is 3")
    soak.report([part], 1, tmp_path / "soak.md")
    text = (tmp_path / "soak.md").read_text()
    assert "- **finding**: 1 + 1 is 3" in text
    assert "| sums | 0 | - | 1 |" in text
