"""Progress bars by rich: what is done, how fast, and how long it will still take."""

from __future__ import annotations

from threading import Lock, Timer
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = ["Bar"]

PATIENCE = 1.0  # seconds before a bar is shown: short work needs none


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Amount(ProgressColumn):
    """``1,200 of 5,000 bags, 310 a second, 0:12 left``."""

    def render(self, task: Task) -> Text:
        done, total, unit = int(task.completed), task.total, task.fields["unit"]
        if not done:
            return Text("")
        parts = [f"{done:,} {unit}" if total is None else f"{done:,} of {int(total):,} {unit}"]
        speed = task.speed or (done / task.elapsed if task.elapsed else None)
        if speed:
            parts.append(f"{speed:,.0f} a second" if speed >= 10 else f"{speed:.1f} a second")
            if total is not None and done < total:
                parts.append(f"{_clock((total - done) / speed)} left")
        return Text(", ".join(parts))


class Bar:
    """A line at the bottom of the terminal, from a second after the beginning of the work until its end.

    Parameters
    ----------
    console : Console
        Standard error.
    doing : str
        What is being done.
    total : int or None
        How much there is to do, if that is known.
    unit : str
        What is counted, in the plural.
    patience : float
        Seconds before it appears.

    Examples
    --------
    >>> import io
    >>> file = io.StringIO()
    >>> with Bar(Console(file=file, width=80, force_terminal=True), "reading", 4, "bags", patience=0) as bar:
    ...     bar.advance(4)
    >>> "4 of 4 bags" in file.getvalue()
    True
    """

    def __init__(
        self, console: Console, doing: str, total: int | None, unit: str, patience: float | None = None
    ) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            _Amount(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(doing, total=total, unit=unit)
        self._lock, self._shown, self._over = Lock(), False, False
        self._patience = PATIENCE if patience is None else patience
        self._timer = Timer(self._patience, self._show)
        self._timer.daemon = True

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._progress.start()
                self._shown = True

    def __enter__(self) -> Self:
        if self._patience > 0:
            self._timer.start()
        else:
            self._show()
        return self

    def __exit__(self, *error: Any) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._shown:
                self._progress.stop()

    def advance(self, more: int = 1) -> None:
        """So much more is done."""
        self._progress.advance(self._task, more)

    def begin(self, doing: str, total: int | None = None, unit: str = "bags") -> None:
        """The next piece of work."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(doing, total=total, unit=unit)
