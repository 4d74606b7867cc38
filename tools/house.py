"""Print the size of each room of the package, and between which files calls go back and forth.

    python tools/house.py [--src src] [--list] [--no-calls]

A thermometer: nothing fails by its figures. Lines of code are those that hold more than a docstring or a comment. A
packed assignment is ``a, b = x, y``. A private use is ``x._name`` or ``from .module import _name`` where the module at
hand neither defines nor assigns that name. A change of file is a call of a function in another file than that of the
call before it, in the same thread; changes are counted for each pair of files, whichever calls the other.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import sys
import tempfile
import threading
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "distembed"
NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}  # public in spite of their names, by Python's manual
NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip


# What can be read off the files


def count_code_lines(source: str) -> int:
    """Lines with code on them: no docstrings, comments or blanks."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def find_assignments(source: str) -> tuple[list[int], int]:
    """Lines of packed assignments, and the number of all assignments."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)]
    packed = [
        node.lineno
        for node in found
        if isinstance(node.value, ast.Tuple) and any(isinstance(target, ast.Tuple) for target in node.targets)
    ]
    return packed, len(found)


def find_private_uses(source: str) -> list[tuple[int, str]]:
    """Line and name of every use of a private name that this module does not define."""
    tree = ast.parse(source)
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


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLES


def order_rooms(package: Path) -> list[str]:
    """The rooms in the order of ``ROOMS``, then others that are there."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    rooms: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            rooms += ast.literal_eval(node.value)
    there = {path.relative_to(package).with_suffix("").parts[0] for path in package.rglob("*.py")}
    return [*rooms, *sorted(there - {*rooms})]


def print_sizes(package: Path, details: bool = False) -> None:
    """Files and lines of each room, packed assignments and private uses."""
    sources = {path.relative_to(package): path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    print(f"{'room':20}{'files':>7}{'code':>9}{'lines':>9}{'longest':>9}")
    rooms = {room: list[str]() for room in order_rooms(package)}
    for path, text in sources.items():
        rooms[path.with_suffix("").parts[0]].append(text)
    for name, texts in (rooms | {"all": [*sources.values()]}).items():
        lengths = [len(text.splitlines()) for text in texts]
        code = sum(map(count_code_lines, texts))
        print(f"{name:20}{len(texts):7,}{code:9,}{sum(lengths):9,}{max(lengths, default=0):9,}")
    packed = {path: find_assignments(text) for path, text in sources.items()}
    private = {path: find_private_uses(text) for path, text in sources.items()}
    n_packed = sum(len(lines) for lines, _ in packed.values())
    n_all = sum(count for _, count in packed.values())
    print(f"\npacked assignments   {n_packed:,} of {n_all:,}, {n_packed / max(n_all, 1):.1%}")
    print(f"private uses         {sum(map(len, private.values())):,}")
    if details:
        print(*(f"    {path}:{line} packed" for path, (lines, _) in packed.items() for line in lines), sep="\n")
        print(*(f"    {path}:{line} {name}" for path, uses in private.items() for line, name in uses), sep="\n")


# What calls show


class Calls:
    """Calls between the files of a package, as a profile function of :mod:`sys`.

    Bodies of modules and classes don't count: they run when a file is imported.
    """

    def __init__(self, package: Path) -> None:
        self.root = str(package) + "/"
        self.files = Counter[str]()
        self.pairs = Counter[tuple[str, str]]()
        self._last: dict[int, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call, and the pair of files if it changes files."""
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(self.root) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        name = name[len(self.root) :]
        self.files[name] += 1
        thread = threading.get_ident()
        before = self._last.get(thread, name)
        if before != name:
            self.pairs[min(before, name), max(before, name)] += 1
        self._last[thread] = name

    def follow(self, work: Callable[[], Any]) -> Any:
        """Do the work and count its calls, in all threads."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            return work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def print_calls(package: Path, n_pairs: int = 5) -> None:
    """The most frequent pairs of files of the default fit, of its predictions and of a report."""
    import distembed as de

    bags, y = de.datasets.make_cells(80, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        model = de.DistributionRegressor(random_state=0, n_jobs=1)
        report = Path(folder) / "report.html"
        steps: dict[str, Callable[[], Any]] = {
            "default fit": lambda: model.fit(bags, y),
            "predict": lambda: model.predict(bags),
            "report": lambda: de.report.write(model, bags, y, report),
        }
        for name, work in steps.items():
            calls = Calls(package)
            calls.follow(work)
            total = sum(calls.pairs.values())
            n_calls = sum(calls.files.values())
            print(f"\n{name}: {len(calls.files)} files, {n_calls:,} calls, {total:,} changes of file")
            for (one, other), count in calls.pairs.most_common(n_pairs):
                print(f"    {count:7,}{count / total:7.1%}  {one} - {other}")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", default=str(Path(__file__).parents[1] / "src"), help="folder of the package")
    parser.add_argument("--list", action="store_true", help="list packed assignments and private uses")
    parser.add_argument("--no-calls", action="store_true", help="only what can be read off the files")
    asked = parser.parse_args(argv)
    package = Path(asked.src).resolve() / PACKAGE
    print_sizes(package, asked.list)
    if not asked.no_calls:
        sys.path.insert(0, str(package.parent))
        warnings.simplefilter("ignore")
        print_calls(package)


if __name__ == "__main__":
    main()
