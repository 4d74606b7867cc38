"""Steps that follow each other: ids and classes in other forms from one to the next, and names that terminals obey.

A step may take another form of an id or a class for the same, or refuse it in one line. What it may not do is to take
rows by their position, or nothing for something. Rows of labels stand in another order than those of points, so an
answer that differs from that of equal forms is a finding.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from soak_tables import judged, run_here

if TYPE_CHECKING:
    from soak import Part

N_BAGS, N_POINTS = 24, 8
FAST = ["--embedding", "mean", "--tune", "none", "--components", "0", "-q"]

# Forms of one id: a number k for each bag.
IDS: dict[str, Callable[[np.ndarray], Any]] = {
    "whole numbers": lambda k: k,
    "short numbers": lambda k: k.astype(np.int32),
    "floats": lambda k: k.astype(float),
    "text": lambda k: k.astype(str),
    "padded text": lambda k: np.array([f"{each:03d}" for each in k]),
    "text of floats": lambda k: np.array([f"{each}.0" for each in k]),
    "text with a space": lambda k: np.array([f" {each}" for each in k]),
    "text with a plus": lambda k: np.array([f"+{each}" for each in k]),
    "words": lambda k: np.array([f"p{each}" for each in k]),
    "capital words": lambda k: np.array([f"P{each}" for each in k]),
    "padded words": lambda k: np.array([f"p{each:03d}" for each in k]),
}

# Forms of two classes.
CLASSES: dict[str, Callable[[np.ndarray], Any]] = {
    "whole numbers": lambda c: c,
    "floats": lambda c: c.astype(float),
    "text": lambda c: c.astype(str),
    "text of floats": lambda c: np.array([f"{each}.0" for each in c]),
    "truth values": lambda c: c.astype(bool),
    "padded text": lambda c: np.array([f"{each:02d}" for each in c]),
    "words": lambda c: np.array(["well", "ill"])[c],
    "words with blanks": lambda c: np.array(["well ", "ill"])[c],
}

# What names may hold: escapes, controls of one byte, ends of lines, marks of direction, markup, formulas, quotes.
SIGNS = ["\x1b[31m", "\x1b]0;t\x07", "\x9b31m", "\x07", "\x08", "\r", "\n", "\t", "\x7f", "\u202e", "\u2028", "[bold]",
         ":bug:", "=1+1", "'", '"', ",", "é", "%s", "{}", "\\x1b"]  # fmt: skip


class Scene:
    """Bags whose means follow a number each, and two classes by it, as tables in a folder."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self.folder = folder
        self.rng = rng
        self.keys = rng.choice(200, size=N_BAGS, replace=False)
        self.mass = rng.uniform(-2, 2, size=N_BAGS)
        self.size = (self.mass > np.median(self.mass)).astype(int)
        self.points = rng.normal(size=(N_BAGS, N_POINTS)) / 3 + self.mass[:, None]

    def write_points(self, ids: Any, suffix: str, bag: str = "bag", x: str = "x") -> str:
        """Write the table of points, rows of bags mixed."""
        order = self.rng.permutation(N_BAGS * N_POINTS)
        columns = {bag: np.repeat(ids, N_POINTS)[order], x: self.points.ravel()[order]}
        columns[f"{x}2"] = columns[x] ** 2
        return self._write(columns, f"points.{suffix}")

    def write_labels(self, ids: Any, labels: dict[str, Any], suffix: str, bag: str = "bag") -> str:
        """Write the table of labels, in another order than that of any id."""
        order = self.rng.permutation(N_BAGS)
        return self._write(
            {bag: ids[order], **{name: each[order] for name, each in labels.items()}}, f"labels.{suffix}"
        )

    def _write(self, columns: dict[str, Any], name: str) -> str:
        from distembed.tables import write_table

        path = self.folder / f"{len(list(self.folder.iterdir()))}-{name}"
        write_table(columns, path)
        return str(path)


def answer(words: list[str], part: Part) -> dict[str, Any] | None:
    """Return what a command says in JSON; None if it refuses, in one line. Anything else is a finding."""
    code, out, err = run_here([*words, "--json"])
    wrong = judged(code, err)
    if wrong is not None:
        part.finding(f"{' '.join(words)}: {wrong}")
        return None
    part.counts["answered" if code == 0 else "refused"] += 1
    return json.loads(out) if code == 0 else None


def _differ(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Whether two answers have other scores."""
    if one is None or other is None:
        return False
    found = [{name: each["value"] for name, each in each["scores"].items()} for each in (one, other)]
    return found[0].keys() != found[1].keys() or any(
        not np.isclose(found[0][name], found[1][name], rtol=1e-5, atol=1e-7) for name in found[0]
    )


def _steps(scene: Scene, points: str, labels: str, label: str, part: Part, more: list[str]) -> dict[str, Any] | None:
    """Fit, predict and evaluate; the scores of the last, None if one of them refuses."""
    model, predicted = (str(scene.folder / name) for name in ("m.distembed", "p.csv"))
    how = ["--bag", "bag", "--labels", labels, "--label", label, *more]
    if answer(["fit", points, *how, "-o", model, *FAST], part) is None:
        return None
    if answer(["predict", model, points, "-o", predicted], part) is None:
        return None
    return answer(["evaluate", predicted, "--labels", labels, "--label", label], part)


def ids(part: Part) -> None:
    """Fit with ids in one form, labels in another, and evaluate with a third."""
    pairs = list(itertools.product(IDS, IDS))
    rng = part.rng
    done = 0
    while part.goes_on(done):
        first, second = pairs[int(rng.integers(len(pairs)))]
        suffixes = rng.choice(["csv", "parquet"], size=2)
        with tempfile.TemporaryDirectory() as name:
            scene = Scene(Path(name), rng)
            labels = {"mass": scene.mass}
            points = scene.write_points(IDS[first](scene.keys), suffixes[0])
            same = scene.write_labels(IDS[first](scene.keys), labels, suffixes[0])
            other = scene.write_labels(IDS[second](scene.keys), labels, suffixes[1])
            wanted = _steps(scene, points, same, "mass", part, [])
            found = answer(["evaluate", f"{name}/p.csv", "--labels", other, "--label", "mass"], part)
            again = _steps(scene, points, other, "mass", part, [])
            what = f"ids as {first} in {suffixes[0]}, labels by {second} in {suffixes[1]}"
            if _differ(wanted, found):
                part.finding(f"{what}: evaluate has other scores than for equal forms")
            if _differ(wanted, again):
                part.finding(f"{what}: fit learns something else than from equal forms")
        done += 1
        part.counts["pairs"] = done


def labels(part: Part) -> None:
    """Fit to classes in one form, and evaluate with another."""
    pairs = list(itertools.product(CLASSES, CLASSES))
    rng = part.rng
    done = 0
    while part.goes_on(done):
        first, second = pairs[int(rng.integers(len(pairs)))]
        suffixes = rng.choice(["csv", "parquet"], size=2)
        with tempfile.TemporaryDirectory() as name:
            scene = Scene(Path(name), rng)
            keys = scene.keys.astype(str)
            points = scene.write_points(keys, "parquet")
            same = scene.write_labels(keys, {"size": CLASSES[first](scene.size)}, suffixes[0])
            other = scene.write_labels(keys, {"size": CLASSES[second](scene.size)}, suffixes[1])
            text = ["--bag-type", "text", "--classify"]
            wanted = _steps(scene, points, same, "size", part, text)
            found = answer(["evaluate", f"{name}/p.csv", "--labels", other, "--label", "size"], part)
            if _differ(wanted, found):
                part.finding(
                    f"classes as {first} in {suffixes[0]}, then as {second} in {suffixes[1]}: other scores than for "
                    "equal forms"
                )
        done += 1
        part.counts["pairs"] = done


def names(part: Part) -> None:
    """Escapes in ids, columns, classes and names of files, through every command."""
    rng = part.rng
    done = 0
    while part.goes_on(done):
        with tempfile.TemporaryDirectory() as name:
            for words, code, out, err in _named_commands(Path(name), rng):
                wrong = judged(code, err)
                if wrong is None and any(not sign.isprintable() and sign != "\n" for sign in out + err):
                    wrong = "shows a control character"
                if wrong is not None:
                    part.finding(f"{words!r}: {wrong}")
                part.counts["commands"] += 1
        done += 1
        part.counts["names"] = done


def _named_commands(folder: Path, rng: np.random.Generator) -> list[tuple[list[str], int, str, str]]:
    """Run every command on tables of such names."""
    scene = Scene(folder, rng)

    def odd(text: str) -> str:
        return f"{text}{rng.choice(SIGNS)}{rng.choice(SIGNS)}"

    bag, x, size = odd("bag"), odd("x"), odd("size")
    keys = np.array([odd(f"k{each}") for each in scene.keys])
    classes = np.array([odd("small"), odd("large")])[scene.size]
    points = scene.write_points(keys, "parquet", bag, x)
    labels = scene.write_labels(keys, {size: classes}, "parquet", bag)
    model, predicted = str(folder / f"{odd('m')}.distembed"), str(folder / f"{odd('p')}.csv")
    quoted = f'"{bag}"' if "," in bag and '"' not in bag else bag
    commands = [
        ["info", points], ["info", points, "--bag", bag], ["info", labels],
        ["fit", points, "--bag", bag, "--labels", labels, "--label", size, "-o", model, *FAST[:-1]],
        ["info", model], ["predict", model, points, "-o", predicted],
        ["predict", model, points, "-o", predicted, "--json"],
        ["evaluate", predicted, "--labels", labels, "--label", size, "--labels-bag", bag],
        ["explain", model, points], ["report", model, points, "-o", str(folder / f"{odd('r')}.html")],
        ["embed", points, "--bag", quoted, "--embedding", "mean", "-o", str(folder / f"{odd('e')}.csv")],
        ["distances", points, "--bag", bag, "--embedding", "mean", "-o", str(folder / "d.csv"), "--spreadsheet-safe"],
        ["predict", model, odd("none")], [odd("fit")], ["info", points, f"--{odd('o')}"],
        ["fit", points, "--bag", odd("no"), "--labels", labels, "--label", size, "-o", model],
    ]  # fmt: skip
    return [(words, *run_here(words)) for words in commands]
