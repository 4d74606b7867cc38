"""The command line: from tables on disk to models, predictions and pictures without writing code.

``distembed --help`` lists the commands. Each is a small module here, imported when it is asked for, and imports what it
needs when it runs: help and completion load neither NumPy nor scikit-learn. Needs ``pip install 'distembed[cli]'``.

A signal that asks to stop (Ctrl-C, SIGTERM, a terminal that closes) is noted before anything is imported, and raises
KeyboardInterrupt, so temporary files go. Libraries make other errors of it: whatever comes of a noted signal ends
as one line and 128 plus its number.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .app import Guarded

__all__ = ["main"]

_ASKING_TO_STOP = ("SIGINT", "SIGTERM", "SIGHUP")
_STOPPED = "distembed: stopped"

_noted: list[int] = []  # signals since the command began


def stopping() -> int | None:
    """The number of the signal that has asked the command to stop, or None."""
    return _noted[0] if _noted else None


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the program.

    Exit codes: 0 all is well, 1 unexpected failure, 2 bad usage or bad data, 128 + n stopped by signal n, which is 130
    for Ctrl-C, 143 for SIGTERM and 141 where the reader of a pipe left early.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``distembed``; by default those of this process, which is then about to end: a signal that comes
        later ends it at once, and one that finds nothing left to do but Python's own clearing up changes nothing.

    Examples
    --------
    >>> try:
    ...     main(["--version"])
    ... except SystemExit as end:
    ...     print(end.code)
    distembed ...
    0
    """
    run_program("distembed", ".app", arguments)


def run_program(name: str, module: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the ``app`` of a module as a program of this name, as :func:`main` does."""
    if arguments is None:
        atexit.register(_all_is_done)  # the first to be registered is the last to be called
        _open_streams()
    try:
        with _signals_noted(forever=arguments is None):
            program: Guarded = import_module(module, __package__).app
            program.main(arguments, prog_name=name)
    except SystemExit:
        raise
    except BaseException as error:
        if _noted:
            print(_STOPPED, file=sys.stderr, flush=True)
            sys.exit(128 + _noted[0])
        if isinstance(error, ModuleNotFoundError) and error.name == "click":
            sys.exit("distembed: the command line needs click and rich: pip install 'distembed[cli]'")
        raise


def _open_streams() -> None:
    """Refuse a closed standard output before any work; a closed standard error loses what is written there.

    Numbers of closed streams are taken, or the next file that is opened would get them, and what others print with it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    if sys.stdout is None:
        print("distembed: standard output is closed; send it to a file, or to /dev/null", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # names of files need not be text


@contextmanager
def _signals_noted(forever: bool) -> Iterator[None]:
    """Note signals and raise KeyboardInterrupt until the end; then as before, or end the program at once."""
    _noted.clear()
    before: dict[int, Any] = {}
    hook = sys.unraisablehook
    with suppress(ValueError):  # only the main thread may change them
        for number in (getattr(signal, name) for name in _ASKING_TO_STOP if hasattr(signal, name)):
            handler = signal.getsignal(number)
            if handler in (signal.SIG_DFL, signal.default_int_handler):  # nohup and some shells have them ignored
                before[number] = signal.signal(number, _note)
    sys.unraisablehook = _try_again
    try:
        yield
    finally:
        if sys.platform != "win32" and signal.getsignal(signal.SIGALRM) is _repeat:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number, handler in before.items():
            signal.signal(number, _leave if forever else handler)
        sys.unraisablehook = hook


class _Interrupt(KeyboardInterrupt):
    """Python ends with SIGINT, whatever exit code it is told, if a plain one has passed through ``exec``."""


def _note(number: int, frame: Any) -> NoReturn:
    _noted.append(number)
    while frame is not None and "importlib" not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is not None:  # some packages try imports, and take whatever comes for a package that is not there
        _again(0.5)
    raise _Interrupt


def _leave(number: int, frame: Any) -> NoReturn:
    os.write(2, f"{_STOPPED}\n".encode())
    os._exit(128 + number)


def _all_is_done() -> None:
    """Ignore what :func:`_leave` would do: Python is about to lose it, and would die of a signal as it clears up."""
    for number in (getattr(signal, name) for name in _ASKING_TO_STOP if hasattr(signal, name)):
        if signal.getsignal(number) is _leave:
            signal.signal(number, signal.SIG_IGN)


def _try_again(lost: Any) -> None:
    """Raise a signal once more whose exception was lost: Python drops those of destructors and callbacks."""
    if _noted and issubclass(lost.exc_type, KeyboardInterrupt):
        _again(0.02)
    else:
        sys.__unraisablehook__(lost)


def _again(seconds: float) -> None:
    """Raise the last signal once more, by the clock: no thread can be started at any moment."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, _repeat):
        signal.signal(signal.SIGALRM, _repeat)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _repeat(number: int, frame: Any) -> NoReturn:
    _note(_noted[-1], frame)
