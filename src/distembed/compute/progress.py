"""Progress of long work: who receives it (:class:`Stages`), and who shows it (:class:`Presenter`).

Work of one stage counts one thing; work of several, such as a fit, counts another in each: settings that were looked
at, then bags that were learned from. Whoever works calls ``begin`` and ``advance``, and knows nothing of what is shown.

Presenters count, know the rate and the time left, and differ in how they show it: :class:`Line` writes over one line
on standard error or in a notebook, :class:`Log` writes a line a minute where nobody watches, :class:`Calls` calls a
function ``progress(done, total)`` of the caller, and the command line has a bar of rich (``Bar`` in ``cli/app.py``).
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
    """What ``progress`` may be besides a bool or a function: an object that receives stages.

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

_WIDTH = 30


@contextmanager
def progress_of(total: int, progress: Progress, what: str, owner: str) -> Iterator[Callable[[int], None]]:
    """A function that receives how much more is done, from any thread.

    Parameters
    ----------
    total : int
        How much there is to do.
    progress : bool, callable or Stages
        Whether to show a bar with rate and time left on standard error, which appears after a second. A callable is
        called as ``progress(done, total)``, by one thread at a time; what it raises ends the work. An object with
        ``begin`` and ``advance`` receives the start of the one stage, by the name of what is counted, and what is done.
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
    """A receiver of one stage after the other, by one thread at a time.

    Parameters
    ----------
    progress : bool, callable or Stages
        A bar for every stage that counts; a function, which receives all stages in turn, the total being what is done
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
    with Line(what) if progress is True else Calls(progress) as presenter:
        yield presenter


class Presenter:
    """Counts what is done of each stage; a subclass shows it.

    Parameters
    ----------
    unit : str
        What is counted, in the plural; may be empty.
    patience : float
        Seconds before anything is shown: short work needs nothing.
    clock : callable
        Gives the time in seconds.
    """

    def __init__(self, unit: str = "", patience: float = 0.0, clock: Callable[[], float] = monotonic) -> None:
        self.unit = unit
        self.patience = patience
        self.clock = clock
        self.stage = ""
        self.done = 0
        self.total = 0
        self.started = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def begin(self, stage: str, total: int | None) -> None:
        """Begin to count again, for the next stage."""
        self.stage = stage
        self.done = 0
        self.total = total or 0
        self.started = self.clock()

    def advance(self, more: int = 1) -> None:
        """Count so much more, and show it."""
        self.done += more
        self.show()

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return self.clock() - self.started

    @property
    def counted(self) -> str:
        """What the stage counts, in the plural."""
        return counted_in(self.stage, self.unit)

    def amount(self) -> str:
        """What is done of the stage, how fast, and how long the rest will take."""
        seconds = self.seconds
        return how_far(self.done, self.total, self.counted, self.done / seconds if seconds > 0 else 0.0)

    def show(self) -> None:
        """Show how far the stage is."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave behind what is to stay."""


class Calls(Presenter):
    """A function of the caller, which gets what is done and the total, that being what is done where it is not known.

    Examples
    --------
    >>> with Calls(lambda done, total: print(f"{done} of {total}")) as calls:
    ...     calls.begin("learning", 100)
    ...     calls.advance(60)
    60 of 100
    """

    def __init__(self, function: Callable[[int, int], object]) -> None:
        super().__init__()
        self._function = function

    def show(self) -> None:
        """Call the function."""
        self._function(self.done, self.total or self.done)


class Line(Presenter):
    """One line a stage that is written over and over; on a file, only its last state.

    Parameters
    ----------
    unit : str
        What is counted in all stages, in the plural; without one, lines have the names of stages.
    file : file of text, optional
        By default standard error.
    patience : float
        Seconds of a stage before its line is shown.
    every : float
        Seconds between two states of a line.
    clock : callable
        Gives the time in seconds.

    Examples
    --------
    >>> now = iter([0.0, 0.0, 10.0, 10.0, 10.0])
    >>> with Line("pairs", sys.stdout, clock=lambda: next(now)) as line:
    ...     line.begin("pairs", 200)
    ...     line.advance(50)
    [#######                       ]  25 %  50 of 200 pairs, 5.0 a second, 0:30 left
    """

    def __init__(
        self,
        unit: str = "",
        file: TextIO | None = None,
        patience: float = 1.0,
        every: float = 0.1,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(unit, patience, clock)
        self._file = file or sys.stderr
        self._live = self._file.isatty() or type(self._file).__module__.startswith("ipykernel")  # notebooks, too
        self._every = every
        self._written = self.started
        self._length = 0  # of the line that stands there

    @property
    def counted(self) -> str:
        """What is counted in all stages: the name of a stage stands before its line."""
        return self.unit

    def begin(self, stage: str, total: int | None) -> None:
        """Leave the line of the stage before."""
        self.close()
        super().begin(stage, total)
        self._written = self.started
        self._length = 0

    def text(self) -> str:
        """The line as it is now."""
        stage = "" if self.unit else f"{self.stage}: "
        if not self.total:
            return f"{stage}{self.amount()}"
        share = self.done / self.total
        return f"{stage}[{'#' * int(share * _WIDTH):<{_WIDTH}}] {100 * share:3.0f} %  {self.amount()}"

    def show(self) -> None:
        """Write over the line, where that can be seen and it is time."""
        now = self.clock()
        if self._live and now - self.started >= self.patience and now - self._written >= self._every:
            self._written = now
            self._write_over()

    def _write_over(self) -> None:
        line = self.text()
        self._file.write("\r" + line.ljust(self._length))
        self._file.flush()
        self._length = len(line)

    def close(self) -> None:
        """Leave the last state behind, if there was anything, and time to see it."""
        if self.stage and self.seconds >= self.patience and (self.done or self.unit):
            if self._live:
                self._write_over()
                self._file.write("\n")
            else:
                self._file.write(self.text() + "\n")
            self._file.flush()
        self.stage = ""


class Log(Presenter):
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
        super().__init__(unit, patience)
        self._write = write
        self._pause = pause
        self._opened = self.started
        self._over = Event()
        self._lock = Lock()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def begin(self, stage: str, total: int | None) -> None:
        """Begin the next stage, with a line."""
        with self._lock:
            if (stage, total or 0) != (self.stage, self.total):
                super().begin(stage, total)
                if self.clock() - self._opened >= self.patience:
                    self.show()

    def advance(self, more: int = 1) -> None:
        """Count; lines come by the clock."""
        with self._lock:
            self.done += more

    def show(self) -> None:
        """Write a line."""
        if self.stage:
            amount = f": {self.amount()}" if self.done else ""
            self._write(f"{clock_time(self.clock() - self._opened)} {self.stage}{amount}")

    def close(self) -> None:
        """Write no more lines."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        wait = self.patience or self._pause
        while not self._over.wait(wait):
            wait = self._pause
            with self._lock:
                self.show()


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
