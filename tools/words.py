"""Count turns of phrase that make our English sound translated, in every text that a user meets.

    python tools/words.py [--list] [--only NAME] [folder or file ...]

Reads prose of README, CONTRIBUTING and docs, comments and docstrings of the gallery, templates of the report, and all
docstrings and strings with a blank in the package: help of commands, progress, warnings, errors. Code and comments of
the package are left out. A thermometer: a phrase has uses that are right, so nothing fails by its count, except phrases
marked ``banned``, which a test keeps at zero. The changelog is history and is not read.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("README.md", "CONTRIBUTING.md", "docs", "examples", "src/distembed")
MADE = {"_build", "api", "cards", "gallery", "results"}  # folders of docs that are written by its build
LISTED = ("CONTRIBUTING.md", "## House words")  # where the phrases themselves stand


@dataclass(frozen=True)
class Tic:
    """A phrase to avoid, and what to write instead."""

    name: str
    pattern: str  # of whole words, case ignored; a blank matches any white space
    instead: str
    banned: bool = False
    opens_docstring: bool = False

    def finditer(self, text: Text) -> Iterator[re.Match[str]]:
        """Where it occurs in a text."""
        if self.opens_docstring and not text.docstring:
            return
        start = r"\A\s*" if self.opens_docstring else r"(?<![\w-])"
        pattern = start + "(?:" + self.pattern.replace(" ", r"\s+") + r")(?![\w-])"
        yield from re.finditer(pattern, text.words, re.IGNORECASE)


@dataclass(frozen=True)
class Text:
    """A piece of prose and where it starts."""

    path: Path
    line: int
    words: str
    docstring: bool = False


TICS = (
    Tic("so that", "so that", '"so", or "to" with a verb'),
    Tic("of which", "of which", "two sentences, or whose"),
    Tic("so many", "so many", '"n", "this many", "as many"'),
    Tic("is no", r"(?<!there\s)(?:is|are|was|were) no(?! longer| more| less| fewer| \w+er than| smaller)", "is not a"),
    Tic("The same", "The same", "a sentence about this object", opens_docstring=True),
    Tic("tell", "tells?|told|telling", "show, report, distinguish, identify"),
    Tic("say", "says?|said|saying", "show, report, state, name"),
    Tic("judge", "judges?|judged|judging", "score, compare, evaluate"),
    Tic("not seen", "not seen|never seen|not yet seen", "held-out, new"),
    Tic("becomes of", "what(?:ever)? (?:becomes?|became|shall become) of", "how ... are handled", banned=True),
    Tic("beside", "beside", "next to, besides, covariates"),
    Tic("hear of", "hears? of|heard of|hearing of", "receive, report progress to", banned=True),
    Tic("has its say", "(?:has|had|have) (?:its|their|a|no) say", "a verb", banned=True),
    Tic("hang together", "hangs? together", "correlated, dependent", banned=True),
    Tic("without a word", "without a word", "silently, without a warning", banned=True),
    Tic("some forty", "some (?:ten|twenty|thirty|forty|fifty|sixty|eighty|ninety|hundred|thousand)", "about forty"),
    Tic("has a bag?", r"(?:has|have) (?:a|an|the|each|one|my) \w+\?", "does a bag have?", banned=True),
    Tic("anew", "anew", "again"),
    Tic("and the like", "and the like", "such as, or name them"),
    Tic("no ... but", "nothing but|no other than|none but", "only"),
    Tic("alone", "alone", "only, just"),
    Tic("whatever the", "whatever the", "for any"),
    Tic("as good as", "as good as", "almost"),
    Tic("for want of", "for want of|in want of", "without", banned=True),
)  # fmt: skip


# Where prose stands


def read_markdown(path: Path) -> Iterator[Text]:
    """Paragraphs of a page, without fenced code, directives' options and formulas."""
    lines, fenced, skipped = [], False, False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## ") and path.name == LISTED[0]:
            skipped = line == LISTED[1]
        code = line.lstrip().startswith(("```", "~~~"))
        fenced ^= code
        lines.append("" if code or fenced or skipped else re.sub(r"`[^`]*`", lambda found: "x" * len(found[0]), line))
    yield Text(path, 1, "\n".join(lines))


def read_template(path: Path) -> Iterator[Text]:
    """The text of a page's template, without tags and scripts."""
    text = path.read_text(encoding="utf-8")
    for tags in (r"(?s)<script.*?</script>", r"<[^<>]*>"):
        text = re.sub(tags, lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    yield Text(path, 1, text)


def read_python(path: Path, comments: bool = False) -> Iterator[Text]:
    """Docstrings and strings with a blank in a file, and its comments on request."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    seen: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.body and ast.get_docstring(node, clean=False) is not None:
                string = node.body[0].value  # type: ignore[attr-defined]
                seen.add(id(string))
                yield Text(path, string.lineno, string.value, docstring=True)
        elif isinstance(node, ast.JoinedStr):
            seen.update(id(part) for part in ast.walk(node))
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield Text(path, node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield Text(path, node.lineno, node.value if " " in node.value.strip() else "")
    if comments:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield Text(path, token.start[0], token.string)


def read_file(path: Path) -> Iterator[Text]:
    """All prose of a file."""
    if path.suffix == ".py":
        return read_python(path, comments="examples" in path.parts)
    if path.suffix in {".md", ".rst"}:
        return read_markdown(path)
    return read_template(path) if path.suffix == ".html" else iter(())


def list_files(places: Sequence[str]) -> Iterator[Path]:
    """Files of places, in order, without what the build of docs writes."""
    for place in places:
        path = ROOT / place
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (file for file in found if file.is_file() and not MADE & {*file.relative_to(ROOT).parts[1:-1]})


@dataclass(frozen=True)
class Found:
    """A phrase at its place."""

    tic: Tic
    path: Path
    line: int
    around: str


def find_tics(places: Sequence[str] = PLACES, tics: Sequence[Tic] = TICS) -> list[Found]:
    """Every phrase to avoid in some places."""
    found = []
    for path in list_files(places):
        for text in read_file(path):
            for tic in tics:
                for match in tic.finditer(text):
                    line = text.line + text.words.count("\n", 0, match.start())
                    around = text.words[max(0, match.start() - 40) : match.end() + 40]
                    found.append(Found(tic, path, line, " ".join(around.split())))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print counts, and places on request; 1 if a banned phrase is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("places", nargs="*", default=PLACES, help="files and folders, from the root of the repository")
    parser.add_argument("--list", action="store_true", help="print each place with its surroundings")
    parser.add_argument("--only", help="one phrase, by the name in the table")
    options = parser.parse_args(arguments)
    tics = [tic for tic in TICS if options.only in (None, tic.name)]
    if not tics:
        parser.error(f"--only {options.only}: no such phrase; there are {', '.join(tic.name for tic in TICS)}")
    found = find_tics(options.places, tics)
    if options.list:
        for each in found:
            print(f"{each.path.relative_to(ROOT)}:{each.line}: [{each.tic.name}] {each.around}")
    width = max(len(tic.name) for tic in tics)
    for tic in tics:
        count = sum(each.tic is tic for each in found)
        print(f"{count:5d}  {tic.name:{width}}  -> {tic.instead}{'  (banned)' if tic.banned else ''}")
    print(f"{len(found):5d}  in all")
    return int(any(each.tic.banned for each in found))


if __name__ == "__main__":
    sys.exit(main())
