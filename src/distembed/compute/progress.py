"""How far long work is: a bar on standard error, a function of the caller, or an object that is told the stages too.

Work of one stage counts one thing; work of several, such as a fit, counts another in each: settings that were looked
at, then bags that were learned from. A function ``progress(done, total)`` hears of one stage after the other. An object
with the two methods of :class:`Stages` hears their names as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from typing import Protocol, Self, TextIO, runtime_checkable


@runtime_checkable
class Stages(Protocol):
    """What ``progress`` may be besides a bool or a function: an object that is told of stages.

    Examples
    --------
    >>> class Diary:
    ...     def begin(self, stage, total):
    ...         print(f"{stage}: {total} to do")
    ...
    ...     def advance(self, more):
    ...         print(f"{more} more")
    >>> with progress_of(3, Diary(), "pairs", "knn") as advance:
    ...     advance(2)
    pairs: 3 to do
    2 more
    """

    def begin(self, stage: str, total: int | None, /) -> object:
        """The next stage begins, and with it the count; None where it is not known how much there is to do."""

    def advance(self, more: int, /) -> object:
        """So much more is done."""


class _Silent:
    """Nobody listens."""

    def begin(self, stage: str, total: int | None) -> None:
        """Say nothing."""

    def advance(self, more: int) -> None:
        """Say nothing."""


SILENT: Stages = _Silent()

Progress = bool | Callable[[int, int], object] | Stages

_PATIENCE = 1.0  # seconds before a bar is shown: short work needs none
_EVERY = 0.1  # seconds between two looks of a bar
_WIDTH = 30


@contextmanager
def progress_of(total: int, progress: Progress, what: str, owner: str) -> Iterator[Callable[[int], None]]:
    """A function that is told how much more is done, from any thread.

    Parameters
    ----------
    total : int
        How much there is to do.
    progress : bool, callable or Stages
        Whether to show a bar with rate and time left on standard error, which appears after a second. A callable is
        called as ``progress(done, total)``, by one thread at a time; what it raises ends the work. An object with
        ``begin`` and ``advance`` is told that the one stage begins, by the name of what is counted, and what is done.
    what : str
        What is counted, in the plural.
    owner : str
        The function whose parameter this is.

    Examples
    --------
    >>> with progress_of(3, lambda done, total: print(f"{done} of {total}"), "pairs", "knn") as advance:
    ...     advance(1)
    ...     advance(2)
    1 of 3
    3 of 3
    """
    lock = Lock()
    with stages_of(progress, owner, what) as stages:
        stages.begin(what, total)

        def advance(more: int) -> None:
            with lock:
                stages.advance(more)

        yield advance


@contextmanager
def stages_of(progress: Progress, owner: str, what: str = "") -> Iterator[Stages]:
    """Somebody to be told of one stage after the other, by one thread at a time.

    Parameters
    ----------
    progress : bool, callable or Stages
        A bar for every stage that counts; a function, which hears of all stages in turn, the total being what is done
        where it is not known; or an object with ``begin`` and ``advance``.
    owner : str
        The function whose parameter this is.
    what : str
        What is counted, in the plural, if that is the same in all stages; else bars have the names of stages.

    Examples
    --------
    >>> with stages_of(lambda done, total: print(f"{done} of {total}"), "fit") as stages:
    ...     stages.begin("choosing settings", 2)
    ...     stages.advance(2)
    ...     stages.begin("learning", 100)
    ...     stages.advance(60)
    2 of 2
    60 of 100
    """
    if isinstance(progress, Stages):
        yield progress
        return
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"{owner}(progress=...): must be True, False, a function of two numbers or an object with begin and "
            f"advance, got {progress!r}; True shows a bar on standard error"
        )
    if progress is False:
        yield SILENT
        return
    reporter = _Reporter(None if progress is True else progress, what)
    try:
        yield reporter
    finally:
        reporter.close()


class _Reporter:
    """Stages as bars, or as numbers for a function."""

    def __init__(self, function: Callable[[int, int], object] | None, what: str) -> None:
        self._function = function
        self._what = what
        self._bar: _Bar | None = None
        self._done = 0
        self._total = 0

    def begin(self, stage: str, total: int | None) -> None:
        """Begin to count again."""
        self.close()
        self._done = 0
        self._total = total or 0
        if self._function is None:
            self._bar = _Bar(self._total, self._what, sys.stderr, "" if self._what else f"{stage}: ")

    def advance(self, more: int) -> None:
        """Count."""
        self._done += more
        if self._function is not None:
            self._function(self._done, self._total or self._done)
        elif self._bar is not None:
            self._bar(self._done)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Bar:
    """One line that is written over and over; on a file, only its last state. A total of zero is an unknown one.

    Examples
    --------
    >>> bar = _Bar(200, "pairs", sys.stdout)
    >>> bar.line(50, 10.0)
    '[#######                       ]  25 %  50 of 200 pairs, 5.0 a second, 0:30 left'
    """

    def __init__(self, total: int, what: str, file: TextIO, stage: str = "") -> None:
        self._total = total
        self._what = what
        self._file = file
        self._stage = stage
        self._live = file.isatty() or type(file).__module__.startswith("ipykernel")  # notebooks write over a line, too
        self._start = self._last = monotonic()
        # shown: length of the line that stands there
        self._done = 0
        self._shown = 0

    def line(self, done: int, seconds: float) -> str:
        """The line after so many seconds."""
        amount = how_far(done, self._total, self._what, done / seconds if seconds > 0 else 0.0)
        if not self._total:
            return f"{self._stage}{amount}"
        share = done / self._total
        return f"{self._stage}[{'#' * int(share * _WIDTH):<{_WIDTH}}] {100 * share:3.0f} %  {amount}"

    def __call__(self, done: int) -> None:
        self._done = done
        now = monotonic()
        if now - self._start >= _PATIENCE and now - self._last >= _EVERY and self._live:
            self._last = now
            self._write(self.line(done, now - self._start))

    def _write(self, line: str) -> None:
        self._file.write("\r" + line.ljust(self._shown))
        self._file.flush()
        self._shown = len(line)

    def close(self) -> None:
        """Leave the last state behind, if there was anything, and time to see it."""
        seconds = monotonic() - self._start
        if seconds < _PATIENCE or not (self._done or self._what):
            return
        if self._live:
            self._write(self.line(self._done, seconds))
            self._file.write("\n")
        else:
            self._file.write(self.line(self._done, seconds) + "\n")
        self._file.flush()


class Log:
    """Lines for work that nobody watches: from some seconds on, one for each stage, and one a minute.

    Parameters
    ----------
    write : callable
        Writes a line.
    unit : str
        What is counted, in the plural.
    patience, pause : float
        Seconds before the first line, and between lines of one stage.

    Examples
    --------
    >>> with Log(print, "bags", patience=0) as log:
    ...     log.begin("sorting", None)
    ...     log.begin("learning", 5000)
    0:00 sorting
    0:00 learning
    """

    def __init__(self, write: Callable[[str], object], unit: str, patience: float = 10.0, pause: float = 60.0) -> None:
        self._write = write
        self._unit = unit
        self._patience = patience
        self._pause = pause
        self._stage = ""
        self._done = 0
        self._total = 0
        self._begun = self._start = monotonic()
        self._over = Event()
        self._lock = Lock()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self, stage: str, total: int | None) -> None:
        """The next stage."""
        with self._lock:
            if (stage, total or 0) == (self._stage, self._total):
                return
            self._stage = stage
            self._done = 0
            self._total = total or 0
            self._start = monotonic()
            if monotonic() - self._begun >= self._patience:
                self._say()

    def advance(self, more: int) -> None:
        """So much more is done."""
        with self._lock:
            self._done += more

    def _watch(self) -> None:
        wait = self._patience or self._pause
        while not self._over.wait(wait):
            wait = self._pause
            with self._lock:
                self._say()

    def _say(self) -> None:
        if self._stage:
            now = monotonic()
            rate = self._done / max(now - self._start, 1e-9)
            counted = counted_in(self._stage, self._unit)
            amount = f": {how_far(self._done, self._total, counted, rate)}" if self._done else ""
            self._write(f"{clock_time(now - self._begun)} {self._stage}{amount}")


_COUNTED = {
    "choosing": "settings", "embedding for": "embeddings", "trying": "candidates", "fitting members": "members",
    "reading ids": "points", "surveying": "parts",
}  # fmt: skip


def counted_in(stage: str, unit: str) -> str:
    """What a stage counts, in the plural: for most of them the unit of the work.

    Examples
    --------
    >>> counted_in("trying candidates", "bags"), counted_in("learning", "bags")
    ('candidates', 'bags')
    """
    return next((what for start, what in _COUNTED.items() if stage.startswith(start)), unit)


def how_far(done: int, total: int, what: str, rate: float) -> str:
    """What is done, how fast, and how long the rest will take.

    Parameters
    ----------
    done, total : int
        Amounts; a total of zero is an unknown one.
    what : str
        What is counted, in the plural; may be empty.
    rate : float
        How much is done in a second; zero as long as nobody knows.

    Examples
    --------
    >>> how_far(1200, 5000, "bags", 310.0)
    '1,200 of 5,000 bags, 310 a second, 0:12 left'
    """
    of = f" of {total:,}" if total else ""
    speed = f", {rate:,.0f} a second" if rate >= 10 else f", {rate:.1f} a second" if rate else ""
    left = f", {clock_time((total - done) / rate)} left" if 0 < done < total and rate else ""
    return f"{done:,}{of}{f' {what}' if what else ''}{speed}{left}"


def clock_time(seconds: float) -> str:
    """Seconds as ``0:07`` or ``1:02:05``.

    Examples
    --------
    >>> clock_time(7.2), clock_time(3725)
    ('0:07', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
