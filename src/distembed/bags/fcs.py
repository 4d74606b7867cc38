"""Bags from FCS files, the format of flow cytometry: one file per bag, one event per point."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, Message, check_number, closest_name
from .checks import check_nan
from .flat import Parts, few
from .ids import repeated
from .missing import settle


def fcs_parts(source: Any, channels: Any, cofactor: Any, nan: Any) -> Parts:
    """Return the parts of the bags of FCS files."""
    rule = check_nan("Bags.from_fcs", nan)
    if cofactor is not None:
        cofactor = check_number("Bags.from_fcs", "cofactor", cofactor, low=0, inclusive="right")
    paths = list_fcs(source)
    ids = np.array([path.name for path in paths])
    twice = repeated(ids)
    if twice:
        raise ValueError(f"file names are bag ids and must differ, got more than once: {few(twice)}; rename one")
    wanted = None if channels is None else [channels] if isinstance(channels, str) else list(channels)
    if wanted is not None and (not wanted or len(set(wanted)) < len(wanted)):
        raise ValueError(Message(Argument("channels"), f" must be one or more names that differ, got {few(wanted)}"))
    events: list[NDArray[Any]] = []
    first: _Events | None = None
    for path in paths:
        found = _read(path)
        if first is None:
            first = found
            names = found.labels if wanted is None else wanted
        if wanted is None:
            _check_equal(first, found)
        events.append(found.values[:, [found.position(name) for name in names]])
    points = np.concatenate(events)
    if cofactor is not None:
        points = np.arcsinh(points / cofactor)
    offsets = np.append(0, np.cumsum([len(each) for each in events]))
    return settle(Parts(points, offsets, None, ids, tuple(names)), rule)


def list_fcs(source: Any) -> list[Path]:
    """Return the FCS files of a folder in natural order, of a path, or of several of these in the order given.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("p10.fcs", "p2.FCS", "notes.txt"):
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     [path.name for path in list_fcs(folder)]
    ['p2.FCS', 'p10.fcs']
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.exists():
            raise ValueError(f"no such file: {str(path)!r}; check the path")
        if not path.is_dir():
            return [path]
        named = [file for file in path.iterdir() if file.suffix.lower() == ".fcs" and file.name[0] != "."]
        inside = [file for file in named if file.is_file()]
        if not inside:
            raise ValueError(f"folder {str(path)!r} holds no FCS files (.fcs); name another folder")
        return sorted(inside, key=_natural)
    if not isinstance(source, Iterable):
        raise TypeError(f"source must be a folder, a path or a list of paths, got {type(source).__name__}")
    found = [file for entry in source for file in list_fcs(entry)]
    if not found:
        raise ValueError("source names no FCS files, got an empty list; give a folder or paths")
    return found


def _natural(path: Path) -> list[Any]:
    """Sort p2 before p10: text and numbers by turns."""
    parts = re.split(r"(\d+)", path.name)
    return [[int(part) if part.isdecimal() else part for part in parts], path.name]


class _Events(NamedTuple):
    """The events of a file, and how its channels are called."""

    path: Path
    labels: list[str]  # $PnS, else $PnN
    short: list[str]  # $PnN
    values: NDArray[Any]

    def position(self, name: str) -> int:
        """Return the column of a channel, or raise the error that names file and channel."""
        for names in (self.labels, self.short):
            if name in names:
                return names.index(name)
        close = closest_name(name, (*self.labels, *self.short))
        hint = f"it has {few(self.labels)}" if close is None else f"did you mean {close!r}?"
        raise ValueError(
            Message(
                f"{str(self.path)!r} lacks the channel {name!r}; {hint}; leave that file out, or "
                "name in ", Argument("channels"), " only what all files have",
            )
        )  # fmt: skip


def _check_equal(first: _Events, other: _Events) -> None:
    """Raise unless two files have the same channels, in whatever order."""
    for one, two in ((first, other), (other, first)):
        lacks = [name for name in two.labels if name not in one.labels]
        if lacks:
            both = [name for name in first.labels if name in other.labels]
            raise ValueError(
                Message(
                    f"{str(one.path)!r} lacks the channel{'s' * (len(lacks) > 1)} {few(lacks)}, which "
                    f"{str(two.path)!r} has; leave that file out, or name in ", Argument("channels"),
                    f" what all files have, such as {few(both)}",
                )
            )  # fmt: skip


def _read(path: Path) -> _Events:
    try:
        flowio = importlib.import_module("flowio")
    except ImportError as error:
        raise ImportError("reading FCS files needs flowio: pip install 'distembed[fcs]'") from error
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a regular file; leave it out")
    if not path.stat().st_size:
        raise ValueError(f"{str(path)!r} is empty; leave that file out, or write it again")
    try:
        with path.open("rb") as file:
            found = flowio.FlowData(file)
        count = int(found.event_count)
        values = found.as_array() if count else np.empty((0, 1))
    except Exception as error:  # of many kinds: flowio's, and struct's, and those of conversions to numbers
        raise _damaged(path, f" ({' '.join(str(error).split()) or type(error).__name__})") from error
    if not count:
        raise ValueError(f"{str(path)!r} has no events, and a bag has at least one point; leave that file out")
    if len(values) != count:
        raise _damaged(path, f" (it has {len(values):,} of {count:,} events)")
    return _Events(path, _labels(found.pns_labels, found.pnn_labels), list(found.pnn_labels), values)


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{str(path)!r} is not a readable FCS file: it is damaged, cut off or of another format{why}; leave that file "
        "out, or write it again"
    )


def _labels(long: Sequence[str], short: Sequence[str]) -> list[str]:
    """Return the names of channels: $PnS where there is one that no other channel has, else $PnN."""
    named = [text.strip() for text in long]
    return [name if name and named.count(name) == 1 else other for name, other in zip(named, short, strict=True)]
