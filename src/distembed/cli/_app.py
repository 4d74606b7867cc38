"""The command ``distembed`` itself: its subcommands by name, and what becomes of errors and warnings.

An error is one line on standard error, ``distembed: <sentence>``. Messages of the library name parameters of Python;
here they are named as options.
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from .. import __version__
from ._screen import complain

__all__ = ["Commands", "Stopped", "app", "for_the_shell"]

# As one meets them.
COMMANDS = ("demo", "fit", "predict", "evaluate", "explain", "embed", "distances", "info", "reproduce")

_OPTIONS = {
    "bag": "--bag",
    "bag_type": "--bag-type",
    "columns": "--columns",
    "delimiter": "--delimiter",
    "divergence": "--divergence",
    "embedding": "--embedding",
    "label": "--label",
    "memory_limit": "--memory-limit",
    "missing": "--missing",
    "model": "--model",
    "n_components": "--components",
    "output": "--class",
    "temp_directory": "--temp",
    "tune": "--tune",
    "unknown": "--unknown",
    "weights": "--weights",
}
_NAMES = "|".join(_OPTIONS)
_EXTRAS = ("duckdb", "matplotlib", "pyarrow", "rich")


class Stopped(Exception):
    """The user has stopped a command; the message tells how to go on."""


def for_the_shell(text: str) -> str:
    """A message of the library in one line, with options in place of parameters.

    Examples
    --------
    >>> for_the_shell("2 bags have no label: 3, 7; add them, or pass missing='drop'")
    '2 bags have no label: 3, 7; add them, or pass --missing drop'
    >>> for_the_shell("DistributionRegressor(n_components=...): must be an integer in [2, 1e+06], got 1; choose")
    '--components: must be an integer in [2, 1e+06], got 1; choose'
    """
    text = " ".join(text.split())
    text = re.sub(rf"\b\w+\(({_NAMES})=\.\.\.\)", lambda found: _OPTIONS[found[1]], text)
    text = re.sub(r"\bcolumns=None\b", "leaving out --columns", text)
    text = text.replace("None for the features themselves", "0 for the features themselves")
    text = re.sub(rf"\b({_NAMES})='([\w.:]+)'", lambda found: f"{_OPTIONS[found[1]]} {found[2]}", text)
    text = re.sub(rf"\b({_NAMES})=('[^']*')", lambda found: f"{_OPTIONS[found[1]]} {found[2]}", text)
    return re.sub(rf": ({_NAMES}) names column", lambda found: f": {_OPTIONS[found[1]]} names column", text)


class Commands(click.Group):
    """A group whose commands are modules of this package, imported when they are asked for."""

    debug = quiet = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name, or None."""
        if name not in COMMANDS:
            return None
        found: click.Command = import_module(f".{name}", __package__).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; an unknown one is told the closest."""
        word = args[0]
        if word in COMMANDS or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        close = get_close_matches(word, COMMANDS, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(COMMANDS)}"
        raise click.UsageError(f"no command is called {word!r}; {hint}", ctx)

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and end the program with an exit code."""
        self.debug = self.quiet = False
        words = list(sys.argv[1:] if args is None else args)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = self._warn
                code = super().main(words or ["--help"], prog_name, standalone_mode=False, **extra)
        except Exception as error:
            if not standalone_mode:
                raise
            if self.debug:
                traceback.print_exc()
            code, sentence = _verdict(error)
            complain(sentence)
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code

    def _warn(self, message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not self.quiet:
            complain(f"warning: {for_the_shell(str(message))}")


def _verdict(error: Exception) -> tuple[int, str]:
    """Exit code and sentence of an error."""
    if isinstance(error, click.Abort):
        return 130, "stopped"
    if isinstance(error, Stopped):
        return 130, str(error)
    if isinstance(error, click.ClickException):
        message = " ".join(error.format_message().split()).rstrip(".")
        context = getattr(error, "ctx", None)
        more = f"; {context.command_path} --help tells more" if context is not None and ";" not in message else ""
        return 2, message[:1].lower() + message[1:] + more
    if isinstance(error, OSError) and error.filename is not None:
        reason = (error.strerror or type(error).__name__).lower()
        return 2, f"{str(error.filename)!r}: {reason}; check the path and its permissions"
    if isinstance(error, ValueError):  # TableError and ModelFileError among them: the library's word for bad input
        return 2, for_the_shell(str(error)) or type(error).__name__
    if isinstance(error, ImportError) and "pip install" in str(error):
        return 1, " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _EXTRAS:
        return 1, f"this command needs {str(error.name).partition('.')[0]}: pip install 'distembed[cli]'"
    if isinstance(error, MemoryError):
        return 1, "memory is not enough; try --out-of-core, fewer --components or fewer bags"
    return 1, f"unexpected {type(error).__name__}: {' '.join(str(error).split())}; --debug shows where"


_EPILOG = """\b
Start with: distembed demo
\b
Completion of commands and options by the Tab key, for this shell:
  bash  eval "$(_DISTEMBED_COMPLETE=bash_source distembed)"
  zsh   eval "$(_DISTEMBED_COMPLETE=zsh_source distembed)"
  fish  _DISTEMBED_COMPLETE=fish_source distembed | source
\b
Exit codes: 0 all is well, 1 unexpected failure, 2 bad usage or bad data, 130 stopped.
"""


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="distembed %(version)s")
def app() -> None:
    """Machine learning when each example is a distribution: a bag of points.

    Points come as a table with one row a point and a column that says to which bag it belongs (Parquet, CSV, Feather,
    npz; one file or many); labels as a second table with one row a bag. Results are files, or CSV on standard output.
    """
