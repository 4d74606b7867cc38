"""Count the house: files, code lines, ways through the package and uses of other modules' private names.

    python tools/house.py [--src src]

The ways are followed by a profile: a file is visited when one of its functions is called (bodies of modules and
classes do not count, they are imports), and the way changes files where a call goes to another file than the call
before it. Private uses are found in the syntax tree: ``x._name`` or ``from .module import _name`` where the module at
hand neither defines nor assigns that name. ``make house`` prints all of it.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import sys
import tempfile
import threading
import tokenize
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

FIRST_PARTY = "distembed"
NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}  # public in spite of their names, says Python's manual


def code_lines(path: Path) -> int:
    """Lines with code on them: no docstrings, comments or blanks."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    skip = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
        tokenize.ENCODING,
    }  # fmt: skip
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skip:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLES


def private_uses(path: Path) -> list[tuple[int, str]]:
    """Line and name of every use of a private name that this module does not define."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.attr)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, alias.name) for alias in node.names if _is_private(alias.name)]
    return found


class Way:
    """Which files of the package calls go through."""

    def __init__(self, package: Path) -> None:
        self.root, self.files, self.changes, self._last = str(package) + "/", set[str](), 0, ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; a profile function of :mod:`sys`."""
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(self.root) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            self.files.add(name[len(self.root) :])
            self.changes += name != self._last
            self._last = name

    def follow(self, work: Callable[[], Any]) -> None:
        """Do the work and note its calls, in all threads."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def ways() -> dict[str, Callable[[], Any]]:
    """The three ways: a pipeline, a learner, the command line."""
    import numpy as np
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    import distembed as de
    from distembed.cli import main
    from distembed.datasets import make_cells

    bags, y = make_cells(80, random_state=0)
    folder = Path(tempfile.mkdtemp())
    owner = np.repeat(bags.ids, bags.sizes)
    lines = [f"{bag},{a:.9g},{b:.9g}" for bag, (a, b) in zip(owner, bags.points, strict=True)]
    (folder / "points.csv").write_text("patient,a,b\n" + "\n".join(lines) + "\n")
    rows = [f"{bag},{value:.9g}" for bag, value in zip(bags.ids, y, strict=True)]
    (folder / "labels.csv").write_text("patient,severity\n" + "\n".join(rows) + "\n")
    pipeline = make_pipeline(
        de.UnitCube(), de.HDDEmbedding("js"), de.RandomFourierFeatures(1000, random_state=0), Ridge()
    )
    regressor = de.DistributionRegressor("js", n_components=1000, random_state=0)
    command = [
        "fit", str(folder / "points.csv"), "--bag", "patient", "--labels", str(folder / "labels.csv"), "--label",
        "severity", "--embedding", "js", "--components", "1000", "-o", str(folder / "m.distembed"),
    ]  # fmt: skip

    def command_line() -> None:
        try:
            main(command)
        except SystemExit as stop:
            if stop.code:
                raise

    return {
        "pipeline fit": lambda: pipeline.fit(bags, y),
        "DistributionRegressor.fit": lambda: regressor.fit(bags, y),
        "distembed fit": command_line,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", default=str(Path(__file__).parents[1] / "src"), help="folder of the package")
    parser.add_argument("--list", action="store_true", help="list private uses, long files and files on the ways")
    parser.add_argument("--json", action="store_true", help="what can be read off the files, as JSON")
    parser.add_argument("--no-ways", action="store_true", help="only what can be read off the files")
    asked = parser.parse_args()
    package = Path(asked.src).resolve() / FIRST_PARTY
    sys.path.insert(0, str(package.parent))
    files = sorted(package.rglob("*.py"))
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    uses = {path: private_uses(path) for path in files}
    root = [path for path in files if path.parent == package]
    counts = {
        "files in the root": len(root),
        "files in the package": len(files),
        "code lines": sum(map(code_lines, files)),
        "files above 450 lines": sum(size > 450 for size in sizes.values()),
        "longest file": max(sizes.values()),
        "private names of others": sum(map(len, uses.values())),
    }
    if asked.json:
        print(json.dumps(counts))
        return
    for name, count in counts.items():
        print(f"{name:26}{count:,}")
    if asked.list:
        for path, found in uses.items():
            for line, name in found:
                print(f"    {path.relative_to(package)}:{line} {name}")
        for path in (path for path in files if sizes[path] > 450):
            print(f"    {path.relative_to(package)}: {sizes[path]} lines")
    if asked.no_ways:
        return
    warnings.simplefilter("ignore")
    for name, work in ways().items():
        way = Way(package)
        way.follow(work)
        print(f"{name:26}{len(way.files)} files, {way.changes:,} changes of file")
        if asked.list:
            print("    " + "\n    ".join(sorted(way.files)))


if __name__ == "__main__":
    main()
