"""What a command shows: results on standard output, notes and bars on standard error.

rich is imported when something is shown. Bars appear after a second, on terminals alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ._bars import Bar

__all__ = ["Screen", "complain", "plain"]

_WIDTH = 110  # of tables on no terminal


def complain(text: str) -> None:
    """A line on standard error; by ``print``, which rich lets stand above a bar, while click writes past it."""
    print(f"distembed: {text}", file=sys.stderr, flush=True)


class Screen:
    """Where a command puts what it has to say.

    Parameters
    ----------
    quiet : bool
        Show results alone.
    as_json : bool
        Results are one JSON object.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json

    @cached_property
    def out(self) -> Console:
        """Standard output."""
        from rich.console import Console

        return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)

    def note(self, text: str) -> None:
        """A line on standard error."""
        if not self.quiet:
            complain(text)

    def line(self, text: str = "") -> None:
        """A line of the report on standard output."""
        if not (self.quiet or self.as_json):
            self.out.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None) -> None:
        """A table of the report on standard output; first column to the left, numbers to the right."""
        if self.quiet or self.as_json:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        self.out.print(Text(title, style="bold"), soft_wrap=True)
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for j, name in enumerate(header):
            shown.add_column(Text(name), justify="left" if j == 0 else "right", overflow="fold")
        for i, row in enumerate(rows):
            shown.add_row(*map(Text, row), style="bold" if i == best else None)
        self.out.print(shown)
        self.out.print()

    def result(self, found: dict[str, Any]) -> None:
        """The one JSON object, if it was asked for."""
        if self.as_json:
            click.echo(json.dumps(plain(found), ensure_ascii=False, allow_nan=False))

    @contextmanager
    def bar(self, doing: str, total: int | None = None, unit: str = "bags") -> Iterator[Bar | NoBar]:
        """How far work is: a bar with rate and time left on standard error, where that is a terminal."""
        if self.quiet or not sys.stderr.isatty():
            yield NoBar()
            return
        from rich.console import Console

        from ._bars import Bar

        with Bar(Console(stderr=True), doing, total, unit) as bar:
            yield bar


class NoBar:
    """What stands for a bar where none is shown."""

    def advance(self, more: int = 1) -> None:
        """So much more is done."""

    def begin(self, doing: str, total: int | None = None, unit: str = "bags") -> None:
        """The next piece of work."""


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy as numbers, what is no finite number as null.

    Examples
    --------
    >>> plain({"rmse": float("nan"), "sizes": (1, 2)})
    {'rmse': None, 'sizes': [1, 2]}
    """
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
