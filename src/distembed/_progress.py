"""How far long work is: a bar on standard error, or a function of the caller."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TextIO

__all__ = ["Progress", "progress_of"]

Progress = bool | Callable[[int, int], object]

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
    progress : bool or callable
        Whether to show a bar with rate and time left on standard error, which appears after a second. A callable is
        called as ``progress(done, total)``, by one thread at a time; what it raises ends the work.
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
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"{owner}(progress=...): must be True, False or a function of two numbers, got {progress!r}; True shows a "
            "bar on standard error"
        )
    if progress is False:
        yield lambda more: None
        return
    bar = _Bar(total, what, sys.stderr) if progress is True else None
    show: Callable[[int, int], object] = bar if bar is not None else progress  # type: ignore[assignment]
    done, lock = 0, Lock()

    def advance(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            show(done, total)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.close()


class _Bar:
    """One line that is written over and over; on a file, only its last state.

    Examples
    --------
    >>> bar = _Bar(200, "pairs", sys.stdout)
    >>> bar.line(50, 10.0)
    '[#######                       ]  25 %  50 of 200 pairs, 5.0 a second, 0:30 left'
    """

    def __init__(self, total: int, what: str, file: TextIO) -> None:
        self._total, self._what, self._file = total, what, file
        self._start = self._last = monotonic()
        self._done, self._shown = 0, 0  # shown: length of the line that stands there

    def line(self, done: int, seconds: float) -> str:
        """The line after so many seconds."""
        share = done / self._total if self._total else 1.0
        rate = done / seconds if seconds > 0 else 0.0
        left = f", {_clock((self._total - done) / rate)} left" if 0 < done < self._total and rate else ""
        bar = "#" * int(share * _WIDTH)
        speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
        return (
            f"[{bar:<{_WIDTH}}] {share:4.0%}  {done:,} of {self._total:,} {self._what}, {speed} a second{left}".replace(
                "%", " %"
            )
        )

    def __call__(self, done: int, total: int) -> None:
        self._done, now = done, monotonic()
        if now - self._start >= _PATIENCE and now - self._last >= _EVERY and self._file.isatty():
            self._last = now
            self._write(self.line(done, now - self._start))

    def _write(self, line: str) -> None:
        self._file.write("\r" + line.ljust(self._shown))
        self._file.flush()
        self._shown = len(line)

    def close(self) -> None:
        """Leave the last state behind, if there was time to see any."""
        seconds = monotonic() - self._start
        if seconds < _PATIENCE:
            return
        if self._file.isatty():
            self._write(self.line(self._done, seconds))
            self._file.write("\n")
        else:
            self._file.write(self.line(self._done, seconds) + "\n")
        self._file.flush()


def _clock(seconds: float) -> str:
    """Seconds as ``0:07`` or ``1:02:05``.

    Examples
    --------
    >>> _clock(7.2), _clock(3725)
    ('0:07', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
