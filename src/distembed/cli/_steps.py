"""How far the steps of an experiment are: a bar on a terminal, a line a step in a file.

Time left comes from the steps that are done, in earlier runs too: their mean for each that is not. Steps differ, and so
it is no more than an estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from ._bars import Bar, _clock
from ._screen import Screen

__all__ = ["Pace", "StepBar", "Steps", "duration", "preparing"]

_LINES = 10  # about so many of them, in a file, for work that is no step


def duration(seconds: float) -> str:
    """Seconds as one says them.

    Examples
    --------
    >>> duration(1.234), duration(75), duration(7260)
    ('1.2 s', '1:15', '2:01:00')
    """
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s" if seconds < 59.5 else _clock(seconds)


class Pace:
    """Which step is being computed, and how long all of them will still take.

    Parameters
    ----------
    done : iterable of float
        Seconds of the steps that are done.
    total : int
        Number of all steps.
    clock : callable
        Tells the seconds since some moment.

    Examples
    --------
    >>> pace = Pace([20.0, 40.0], total=4, clock=lambda: 100.0)
    >>> pace.begin("the third")
    >>> pace.left()
    60.0
    """

    def __init__(self, done: Iterable[float], total: int, clock: Callable[[], float] = monotonic) -> None:
        self._seconds, self.total, self._clock = list(done), total, clock
        self.now = ""
        self._start: float | None = None

    @property
    def n_done(self) -> int:
        """Steps that are done."""
        return len(self._seconds)

    def begin(self, name: str) -> None:
        """The next step."""
        self.now, self._start = name, self._clock()

    def end(self, seconds: float | None = None) -> float:
        """The step is done, here or elsewhere in so many seconds; the seconds it took."""
        self._seconds.append(self.elapsed if seconds is None else seconds)
        self.now, self._start = "", None
        return self._seconds[-1]

    @property
    def elapsed(self) -> float:
        """Seconds of the present step."""
        return 0.0 if self._start is None else self._clock() - self._start

    def left(self) -> float | None:
        """Seconds that are left, or None as long as nobody knows."""
        n_left = self.total - self.n_done
        if not n_left or not self._seconds:
            return None
        done = sum(self._seconds)
        each = max(done / self.n_done, (done + self.elapsed) / (self.n_done + 1))  # the present one, once it is long
        return max(each - self.elapsed, 0.0) + each * (n_left - 1)


class _Amount(ProgressColumn):
    """``3 of 12 steps, 1:10 left``."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(Column(no_wrap=True))
        self._pace = pace

    def render(self, task: Task) -> Text:
        left = self._pace.left()
        more = "" if left is None else f", {_clock(left)} left"
        return Text(f"{self._pace.n_done:,} of {self._pace.total:,} steps{more}")


class _Now(ProgressColumn):
    """The present step; a long name loses its end."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis", ratio=1))
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(self._pace.now, overflow="ellipsis", no_wrap=True)


class _Elapsed(ProgressColumn):
    """The time of the present step."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(Column(no_wrap=True))
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(_clock(self._pace.elapsed) if self._pace.now else "")


class StepBar(Bar):
    """A bar of steps: how many are done, how long the rest will take, which one is being computed and for how long.

    Examples
    --------
    >>> import io
    >>> file, pace = io.StringIO(), Pace([2.0], total=3)
    >>> with StepBar(Console(file=file, width=100, force_terminal=True), "gram", pace, patience=0):
    ...     pace.begin("seed 1")
    >>> "1 of 3 steps, 0:04 left" in file.getvalue()
    True
    """

    def __init__(self, console: Console, doing: str, pace: Pace, patience: float | None = None) -> None:
        super().__init__(console, doing, pace.total, "steps", patience)
        self.advance(pace.n_done)
        name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
        self._progress.columns = (
            SpinnerColumn(),
            name,
            BarColumn(bar_width=16),
            _Amount(pace),
            _Now(pace),
            _Elapsed(pace),
        )
        self._progress.expand = True


class Steps:
    """Progress of the steps of one experiment.

    Parameters
    ----------
    screen : Screen
    name : str
        Of the experiment.
    pace : Pace
    """

    def __init__(self, screen: Screen, name: str, pace: Pace) -> None:
        self._screen, self._name, self._pace = screen, name, pace
        self._bar: StepBar | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show a bar meanwhile, on a terminal."""
        if self._screen.quiet or not sys.stderr.isatty():
            yield
            return
        with StepBar(Console(stderr=True), self._name, self._pace) as self._bar:
            yield

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Compute a step meanwhile."""
        self._pace.begin(name)
        yield
        took = self._pace.end()
        if self._bar is not None:
            self._bar.advance()
            return
        left = self._pace.left()
        more = "" if left is None else f"; {_clock(left)} left"
        self._screen.note(
            f"{self._name}: {self._pace.n_done:,} of {self._pace.total:,}: {name} ({duration(took)}){more}"
        )

    def found(self, seconds: float) -> None:
        """A step was computed elsewhere meanwhile, in so many seconds."""
        self._pace.end(seconds)
        if self._bar is not None:
            self._bar.advance()


@contextmanager
def preparing(screen: Screen, name: str) -> Iterator[Callable[[str, int], Callable[[int], object]]]:
    """What ``Study.prepare`` is told to show its progress by: a bar on a terminal, a few lines in a file."""
    if sys.stderr.isatty():
        with screen.bar(f"{name}: getting ready", None, "done") as bar:

            def begin(what: str, total: int) -> Callable[[int], object]:
                bar.begin(f"{name}: {what}", total, "done")
                return bar.advance

            yield begin
        return

    def begin_lines(what: str, total: int) -> Callable[[int], object]:
        done, start = 0, monotonic()
        screen.note(f"{name}: {what}: {total:,} to do")

        def advance(more: int) -> None:
            nonlocal done
            before, done = done, done + more
            if done * _LINES // max(total, 1) > before * _LINES // max(total, 1):
                left = (total - done) * (monotonic() - start) / done
                screen.note(f"{name}: {what}: {done:,} of {total:,}" + (f"; {_clock(left)} left" if left > 0 else ""))

        return advance

    yield begin_lines
