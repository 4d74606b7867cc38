"""Bags from FCS files, the format of flow cytometry: one file per bag, one event per point."""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.checks import Argument, Message, check_number, closest_name
from .checks import check_nan
from .flat import Parts, few
from .ids import repeated
from .missing import settle

_SPILLOVER = ("spillover", "spill", "$spillover", "$spill")  # how files call it


def fcs_parts(source: Any, channels: Any, cofactor: Any, nan: Any, compensate: Any = "auto") -> Parts:
    """Return the parts of the bags of FCS files."""
    rule = check_nan("Bags.from_fcs", nan)
    if not isinstance(compensate, bool) and compensate != "auto":
        said = f": must be 'auto', True or False, got {compensate!r}; leave it out if unsure"
        raise ValueError(Message(Argument("compensate", owner="Bags.from_fcs"), said))
    paths = list_fcs(source)
    ids = np.array([path.name for path in paths])
    twice = repeated(ids)
    if twice:
        raise ValueError(f"file names are bag ids and must differ, got more than once: {few(twice)}; rename one")
    wanted = None if channels is None else [channels] if isinstance(channels, str) else list(channels)
    if wanted is not None and (not wanted or len(set(wanted)) < len(wanted)):
        raise ValueError(Message(Argument("channels"), f" must be one or more names that differ, got {few(wanted)}"))
    files = [_compensated(_read(path), compensate) for path in paths]
    names = _common_channels(files) if wanted is None else wanted
    points = np.concatenate([each.values[:, [each.position(name) for name in names]] for each in files])
    for j, divisor in enumerate(_cofactors(cofactor, names)):
        if divisor is not None:
            points[:, j] = np.arcsinh(points[:, j] / divisor)
    offsets = np.append(0, np.cumsum([len(each.values) for each in files]))
    return settle(Parts(points, offsets, None, ids, tuple(names)), rule)


def _cofactors(cofactor: Any, names: Sequence[str]) -> list[float | None]:
    """Return the cofactor of each channel, None where values stay linear."""
    if not isinstance(cofactor, Mapping):
        if cofactor is not None:
            cofactor = check_number("Bags.from_fcs", "cofactor", cofactor, low=0, inclusive="right")
        return [cofactor] * len(names)
    strange = [name for name in cofactor if name not in names]
    if strange:
        close = closest_name(strange[0], names)
        hint = f"did you mean {close!r}?" if close else f"there are {few(names)}"
        raise ValueError(Message(Argument("cofactor"), f" names the channel {strange[0]!r}, which is not read; {hint}"))
    found = {
        name: check_number("Bags.from_fcs", "cofactor", value, low=0, inclusive="right")
        for name, value in cofactor.items()
    }
    return [found.get(name) for name in names]


def _common_channels(files: Sequence[_Events]) -> list[str]:
    """Return the channels that all files have, in the order of the first, with a warning that names the others."""
    have = [set(each.labels) for each in files]
    every = dict.fromkeys(name for each in files for name in each.labels)
    common = [name for name in every if all(name in names for names in have)]
    if not common:
        other = next(each for each in files if have[0].isdisjoint(each.labels) or each is files[-1])
        raise ValueError(
            Message(
                f"no channel is in all files: {str(files[0].path)!r} has {few(files[0].labels)}, and "
                f"{str(other.path)!r} has {few(other.labels)}; give files of one panel, or name in ",
                Argument("channels"), " what all have, by $PnS or $PnN",
            )
        )  # fmt: skip
    dropped = [name for name in every if name not in common]
    if dropped:
        reasons = []
        for name in dropped[:5]:
            lack = [each.path.name for each, names in zip(files, have, strict=True) if name not in names]
            reasons.append(f"{name!r} ({len(lack):,} of {len(files):,} files lack it, such as {lack[0]!r})")
        more = f", ... ({len(dropped)} in all)" if len(dropped) > 5 else ""
        warnings.warn(
            f"channels that are not in all FCS files are left out: {', '.join(reasons)}{more}; the points have "
            f"{few(common)}; name those that you want if this is not right",
            UserWarning,
            stacklevel=4,
        )
    return common


def _compensated(events: _Events, compensate: bool | str) -> _Events:
    r"""Return events without the light that spills from one dye into the detectors of others.

    A row of $SPILLOVER has the shares of the light of one dye in each detector, so measured values are the true ones
    times this matrix, m = t S, which is solved for t.
    """
    if not compensate:
        return events
    names, matrix = _spillover(events)
    if not names:
        if compensate == "auto":
            return events
        said = f"{str(events.path)!r} has no $SPILLOVER of its channels; leave that file out, or pass "
        raise ValueError(Message(said, Argument("compensate", False)))
    places = [events.short.index(name) for name in names]
    values = np.array(events.values, dtype=np.float64)
    try:
        values[:, places] = np.linalg.solve(matrix.T, values[:, places].T).T
    except np.linalg.LinAlgError:
        raise _bad_spillover(events.path) from None
    return events._replace(values=values)


def _spillover(events: _Events) -> tuple[list[str], NDArray[np.float64]]:
    """Return the detectors of a file's matrix of spill-over, and the matrix; none where there is no such matrix.

    Detectors that the file does not have are those of files that were compensated and renamed, and count as none.
    """
    nothing: tuple[list[str], NDArray[np.float64]] = ([], np.empty((0, 0)))
    words = [word.strip() for word in events.spillover.split(",")]
    if words[0] in ("", "0"):
        return nothing
    n = int(words[0]) if words[0].isdecimal() else 0
    names = words[1 : n + 1]
    try:
        numbers = np.array([float(word) for word in words[n + 1 :]])
    except ValueError:
        numbers = np.empty(0)
    if len(numbers) != n * n or n == 0 or not np.isfinite(numbers).all() or len(set(names)) < n:
        raise _bad_spillover(events.path)
    return (names, numbers.reshape(n, n)) if all(name in events.short for name in names) else nothing


def _bad_spillover(path: Path) -> ValueError:
    rule = f"{str(path)!r}: $SPILLOVER must be a number n, n channels and an invertible matrix of n x n numbers; pass "
    return ValueError(Message(rule, Argument("compensate", False), " to take the values as they are"))


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
    spillover: str  # as it is written

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
    short = [str(name).strip() for name in found.pnn_labels]
    text = {key.lower(): str(value).strip() for key, value in found.text.items()}
    spillover = next((text[key] for key in _SPILLOVER if text.get(key)), "")
    return _Events(path, _labels(found.pns_labels, short), short, values, spillover)


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{str(path)!r} is not a readable FCS file: it is damaged, cut off or of another format{why}; leave that file "
        "out, or write it again"
    )


def _labels(long: Sequence[str], short: Sequence[str]) -> list[str]:
    """Return the names of channels: $PnS where there is one that no other channel has, else $PnN."""
    named = [text.strip() for text in long]
    return [name if name and named.count(name) == 1 else other for name, other in zip(named, short, strict=True)]
