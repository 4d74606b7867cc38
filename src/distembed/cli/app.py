"""The command ``distembed`` itself: its subcommands, what they show, and how errors and warnings are shown.

Results go to standard output, notes and bars to standard error; bars appear after a second, on terminals alone.
Elsewhere long work writes a line for each stage and one a minute. rich is imported when something is shown. An error is
one line on standard error, ``distembed: <sentence>``. Messages of the library name arguments of Python; here they are
named as options. Names come from files of others, and may hold escapes that a terminal would obey: whatever is shown
goes through :func:`escape_controls`.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from shlex import quote
from signal import SIGINT
from threading import Timer
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click

from .. import __version__
from ..compute.progress import SILENT, Log, Presenter, Stages
from . import stopping

if TYPE_CHECKING:
    from rich.console import Console

    from ..compute.checks import Argument

# As one meets them.
COMMANDS = (
    "demo",
    "fit",
    "predict",
    "evaluate",
    "report",
    "explain",
    "embed",
    "sketch",
    "merge",
    "distances",
    "test",
    "explore",
    "info",
)

# What was a command once, and what to do instead.
MOVED = {"reproduce": "the paper's experiments are in the repository: in a copy of it, use python -m reproduce"}

# The options that arguments of the library are, and the values that stand for None where it is not to leave it out.
OPTIONS = {
    "bag": "--bag", "bag_type": "--bag-type", "categorical": "--categorical", "columns": "--columns",
    "decimal": "--decimal", "delimiter": "--delimiter",
    "divergence": "--divergence", "embedding": "--embedding", "label": "--label", "memory_limit": "--memory-limit",
    "missing": "--missing", "n_components": "--components", "nan": "--nan", "rep": "--rep",
    "layer": "--layer", "cofactor": "--cofactor", "compensate": "--compensate",
    "channels": "--columns", "classes": "--classify", "coverage": "--coverage", "covariates": "--covariates",
    "random_state": "--seed", "test": "--test",
    "sizes": "--sizes",
    "temp_directory": "--temp", "time_limit": "--time-limit", "unknown": "--unknown", "updatable": "--updatable",
    "weights": "--weights", "Marginals": "--marginals",
}  # fmt: skip
_NONE = {"n_components": "0"}
_YES_OR_NO = ("sizes",)  # options that are neither there nor not, for True and False
_SWITCHES = ("compensate",)  # options that have a --no-
SETTINGS = ("bandwidth", "bandwidth_scale", "kernel", "n_basis", "nodes", "reg")  # of embeddings, by --set

_WIDTH = 110  # of tables on no terminal
_SIGPIPE = 13  # a signal that not all systems have
_EXTRAS = ("jinja2", "matplotlib", "pyarrow", "rich")


# --------------------------------------------------------------------------------------------------------------
# Errors
# --------------------------------------------------------------------------------------------------------------


class Stopped(Exception):
    """A signal has stopped a command; the message describes how to go on."""


class ReaderGone(Exception):
    """Whoever read standard output has left, as in ``distembed predict ... | head``."""


@contextmanager
def explain_if_stopped(how_to_go_on: Callable[[], str]) -> Iterator[None]:
    """Whatever comes of a signal in the block is :class:`Stopped`, with a sentence that is made then."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or (stopping() and not isinstance(error, Stopped)):
            raise Stopped(how_to_go_on()) from None
        raise


def in_options(error: Exception, **renamed: str) -> str:
    """The sentence of an error or warning in one line, with options in place of arguments.

    Parameters
    ----------
    error : Exception
        Its message may know which arguments it names, see :class:`distembed.compute.checks.Message`.
    **renamed : str
        Options of arguments, where they are others than usual.

    Examples
    --------
    >>> from distembed.compute.checks import Argument, Message
    >>> in_options(ValueError(Message("2 bags have no label; pass ", Argument("missing", "drop"))))
    '2 bags have no label; pass --missing drop'
    """
    options = OPTIONS | renamed

    def option(argument: Argument) -> str:
        name = options.get(argument.name)
        value = argument.value
        if name is None and argument.name in SETTINGS and not argument.owner:
            return f"--set {argument.name}={'...' if value is ... else value}"
        if name is None:
            return str(argument)
        if isinstance(value, bool) and argument.name in _YES_OR_NO:
            return f"{name} {'yes' if value else 'no'}"
        if value is False and argument.name in _SWITCHES:
            return f"--no-{name.removeprefix('--')}"
        if argument.owner or value is ... or value is True:
            return name
        if value is None and argument.name not in _NONE:
            return f"leaving out {name}"
        text = _NONE[argument.name] if value is None else str(value)
        return f"{name} {text if quote(text) == text else repr(text)}"

    message = error.args[0] if error.args else ""
    return " ".join((message.reworded(option) if hasattr(message, "reworded") else str(error)).split())


def outcome(error: Exception) -> tuple[int, str]:
    """Exit code and sentence of an error."""
    if stopping() or isinstance(error, click.Abort | Stopped):  # whatever a library made of the signal
        return 128 + (stopping() or SIGINT), (str(error) if isinstance(error, Stopped) else "") or "stopped"
    if isinstance(error, ReaderGone):
        return 128 + _SIGPIPE, ""
    if isinstance(error, click.ClickException):
        message = " ".join(error.format_message().split()).rstrip(".")
        context = getattr(error, "ctx", None)
        more = f"; {context.command_path} --help shows more" if context is not None and ";" not in message else ""
        return 2, message[:1].lower() + message[1:] + more
    if isinstance(error, OSError) and error.filename is not None:
        reason = (error.strerror or type(error).__name__).lower()
        return 2, f"{str(error.filename)!r}: {reason}; check the path and its permissions"
    of_library = isinstance(error, TypeError) and hasattr(next(iter(error.args), None), "reworded")
    if isinstance(error, ValueError) or of_library:  # TableError among them: the library's word for bad input
        return 2, in_options(error) or type(error).__name__
    if isinstance(error, ImportError) and "pip install" in str(error):
        return 1, " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _EXTRAS:
        return 1, f"this command needs {str(error.name).partition('.')[0]}: pip install 'distembed[cli]'"
    if isinstance(error, MemoryError):
        return 1, "memory is not enough; try --out-of-core, fewer --components or fewer bags"
    return 1, f"unexpected {type(error).__name__}: {' '.join(str(error).split())}; --debug shows where"


def complain(text: str) -> None:
    """A line on standard error; by ``print``, which rich lets stand above a bar, while click writes past it."""
    try:
        print(f"distembed: {escape_controls(text)}", file=sys.stderr, flush=True)
    except OSError:  # the exit code has to do
        _discard(sys.stderr)


# --------------------------------------------------------------------------------------------------------------
# What commands show
# --------------------------------------------------------------------------------------------------------------


def escape_controls(text: str, keep: str = "") -> str:
    """Text with what is not printable as Python's ``repr`` has it, but for the characters to keep.

    Examples
    --------
    >>> print(escape_controls(f"a{chr(27)}[31mb"))
    a...[31mb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


class Output:
    """Standard output, whose errors are distinguished from those of other files.

    Parameters
    ----------
    stream : text stream
        Where text goes.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.has_failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> Any:
        """Write text."""
        with self._guarded():
            return self._stream.write(text)

    def flush(self) -> None:
        """Let it go."""
        with self._guarded():
            self._stream.flush()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.has_failed = True
            if error.errno == errno.EPIPE:
                raise ReaderGone from None
            why = (error.strerror or type(error).__name__).lower()
            raise click.ClickException(f"standard output can't be written: {why}; send it elsewhere") from None


def _discard(stream: Any) -> None:
    """Let all that a stream still holds go nowhere: Python would try once more at its end, and fail."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Screen:
    """Where a command writes its results, notes and progress.

    Parameters
    ----------
    quiet : bool
        Show results alone: no notes, and no details of reports.
    as_json : bool
        Results are one JSON object.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json

    @cached_property
    def out(self) -> Console:
        """Standard output."""
        from rich.console import Console

        return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, emoji=False)

    def _of_width(self, least: int) -> Console:
        """Standard output, so wide at least."""
        from rich.console import Console

        return self.out if least <= self.out.width else Console(width=least, highlight=False, emoji=False)

    def note(self, text: str) -> None:
        """A line on standard error."""
        if not self.quiet:
            complain(text)

    def line(self, text: str = "", *, detail: bool = False) -> None:
        """A line of the report on standard output."""
        if not (self.as_json or (detail and self.quiet)):
            self.out.print(escape_controls(text, keep="\n"), markup=False, soft_wrap=True)

    def table(
        self,
        title: str,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        best: int | None = None,
        *,
        detail: bool = False,
    ) -> None:
        """A table of the report on standard output; first column to the left, numbers to the right."""
        if self.as_json or (detail and self.quiet):
            return
        from rich.text import Text

        self.out.print(Text(escape_controls(title), style="bold"), soft_wrap=True)
        made = _rich_table(header, rows, best)
        least = sum(column.min_width + 3 for column in made.columns)  # where the screen is narrower, lines are longer
        self._of_width(least).print(made)
        self.out.print()

    def fits(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
        """Whether a table fits the width of the screen."""
        wide = self.out.options.update(max_width=10_000)
        return self.out.measure(_rich_table(header, rows), options=wide).maximum <= self.out.width

    def result(self, found: dict[str, Any]) -> None:
        """The one JSON object, if it was asked for."""
        if self.as_json:
            text = json.dumps(plain(found), ensure_ascii=False, allow_nan=False)
            click.echo("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text))

    @contextmanager
    def bar(self, doing: str, total: int | None = None, unit: str = "bags") -> Iterator[Stages]:
        """How far work is, on standard error: a bar with rate and time left on a terminal, else lines of a log."""
        if self.quiet:
            yield SILENT
            return
        with Bar(unit) if sys.stderr.isatty() else Log(complain, unit) as shown:
            shown.begin(doing, total)
            yield shown


def _rich_table(header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None) -> Any:
    """A table of rich; where it is too wide, columns of several words are broken between these, and numbers are not."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    header = [escape_controls(name) for name in header]
    rows = [[escape_controls(cell) for cell in row] for row in rows]
    for j, name in enumerate(header):
        single = j > 0 and not any(" " in row[j].strip() for row in [header, *rows])
        least = max((len(word) for row in [header, *rows] for word in row[j].split()), default=0)
        justify: Any = "left" if j == 0 else "right"
        table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=single, min_width=least)
    for i, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if i == best else None)
    return table


class Bar(Presenter):
    """A line at the bottom of the terminal, from a second after the beginning of the work until its end.

    Parameters
    ----------
    unit : str
        What is counted, in the plural.
    console : Console, optional
        By default standard error.
    patience : float
        Seconds before the line is shown: short work needs none.

    Examples
    --------
    >>> import io
    >>> from rich.console import Console
    >>> file = io.StringIO()
    >>> with Bar("bags", console=Console(file=file, width=80, force_terminal=True), patience=0) as bar:
    ...     bar.begin("reading", 4)
    ...     bar.advance(4)
    >>> "4 of 4 bags" in file.getvalue()
    True
    """

    def __init__(self, unit: str, console: Console | None = None, patience: float = 1.0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__(unit, patience)
        doing_column, amount_column = (
            TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[amount]}")
        )
        columns = (SpinnerColumn(), doing_column, BarColumn(20), amount_column, TimeElapsedColumn())
        self._progress = Progress(*columns, console=console or Console(stderr=True), transient=True)
        self._timer = Timer(patience, self._progress.start)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        if not self.patience:
            self._timer.join()
        return self

    def begin(self, stage: str, total: int | None) -> None:
        """The next piece of work."""
        super().begin(stage, total)
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._task = self._progress.add_task(escape_controls(stage), total=total, amount="")

    def show(self) -> None:
        """Rich draws it some times a second."""
        self._progress.update(self._task, completed=self.done, amount=self.amount())

    def close(self) -> None:
        """Remove the line."""
        self._timer.cancel()
        self._timer.join()  # it may be about to show the line
        if self._progress.live.is_started:
            self._progress.stop()

    def refresh(self) -> None:
        """Draw it now."""
        self._progress.refresh()


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy as numbers, what is not finite as null.

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


# --------------------------------------------------------------------------------------------------------------
# The command
# --------------------------------------------------------------------------------------------------------------


def command_of(name: str) -> click.Command:
    """The command of a name, from its module."""
    found: click.Command = import_module(f".{name}", __package__).command
    return found


class Guarded(click.Command):
    """A command that is a program: errors and warnings are one line each, and signals end it in order."""

    debug = quiet = False

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run, and end the program with an exit code."""
        self.debug = self.quiet = False
        words = list(sys.argv[1:] if args is None else args)
        output: Any = Output(sys.stdout)
        try:
            with redirect_stdout(output), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = self._warn
                code = super().main(words or ["--help"], standalone_mode=False, **extra)
                output.flush()
            if stopping():
                raise Stopped  # something on the way has taken it for an error of its own
        except Exception as error:
            if self.debug:
                with suppress(OSError):
                    print(escape_controls(traceback.format_exc(), keep="\n"), file=sys.stderr)
            code, sentence = outcome(error)
            if sentence:
                complain(sentence)
        if output.has_failed:
            _discard(sys.stdout)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click would print an empty line where it is stopped."""
        with explain_if_stopped(str):
            return super().invoke(ctx)

    def _warn(self, message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not self.quiet:
            complain(f"warning: {in_options(message if isinstance(message, Warning) else category(message))}")


class Commands(Guarded, click.Group):
    """A group whose commands are modules of this package, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name, or None."""
        return command_of(name) if name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; for an unknown one, the error names the closest."""
        word = args[0]
        if word in COMMANDS or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if word in MOVED:
            raise click.UsageError(f"{word!r} is not a command; {MOVED[word]}", ctx)
        close = get_close_matches(word, COMMANDS, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(COMMANDS)}"
        raise click.UsageError(f"no command is called {word!r}; {hint}", ctx)


_EPILOG = """\b
Start with: distembed demo
\b
Completion of commands, options and columns by the Tab key, for this shell:
  bash  eval "$(_DISTEMBED_COMPLETE=bash_source distembed)"
  zsh   eval "$(_DISTEMBED_COMPLETE=zsh_source distembed)"
  fish  _DISTEMBED_COMPLETE=fish_source distembed | source
\b
Exit codes: 0 all is well, 1 unexpected failure, 2 bad usage or bad data, 130 stopped (143 by SIGTERM, 141 where the
reader of a pipe left).
"""


@click.group(
    cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(__version__, message="distembed %(version)s")
def app() -> None:
    """Machine learning when each example is a distribution: a bag of points.

    Points come as a table with one row per point and a column of bag ids (Parquet, CSV, Feather,
    npz; one file or many); labels as a second table with one row per bag, or as a column of the first. Results
    are files, or CSV on standard output.
    """
