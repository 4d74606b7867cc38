"""Phrases that have gone from our texts for good don't come back."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def words():
    spec = importlib.util.spec_from_file_location("words", ROOT / "tools" / "words.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["words"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["words"]


def test_banned_phrases_are_nowhere(words):
    banned = [tic for tic in words.TICS if tic.banned]
    found = words.find_tics(tics=banned)
    assert not found, "\n".join(f"{each.path}:{each.line}: {each.around}: write {each.tic.instead}" for each in found)


def test_it_reads_docstrings_messages_and_prose_but_no_code(words, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Cut it so\nthat it fits.\n\n```python\n# so that\n```\n`so that`\n")
    module = tmp_path / "module.py"
    module.write_text('"""The same, again."""\n\n# so that\nraise ValueError(f"{1} so that {2} fits")\n')
    tics = [tic for tic in words.TICS if tic.name in ("so that", "The same")]
    found = [
        (text.path.name, text.line + text.words.count("\n", 0, match.start()), tic.name)
        for path in (page, module)
        for text in words.read_file(path)
        for tic in tics
        for match in tic.finditer(text)
    ]
    assert found == [("page.md", 1, "so that"), ("module.py", 1, "The same"), ("module.py", 4, "so that")]
