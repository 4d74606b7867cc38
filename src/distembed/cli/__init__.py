"""The command line: from tables on disk to models, predictions and pictures without writing code.

``distembed --help`` tells the commands. Each is a small module here, imported when it is asked for, and imports what it
needs when it runs: help and completion load neither NumPy nor scikit-learn. Needs ``pip install 'distembed[cli]'``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and end the program: 0 all is well, 1 unexpected failure, 2 bad usage or bad data, 130 stopped.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``distembed``; by default those of this process.

    Examples
    --------
    >>> try:
    ...     main(["--version"])
    ... except SystemExit as end:
    ...     print(end.code)
    distembed ...
    0
    """
    try:
        from .app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "click":
            raise
        print("distembed: the command line needs click and rich: pip install 'distembed[cli]'", file=sys.stderr)
        sys.exit(1)

    def end(number: int, frame: Any) -> NoReturn:
        sys.exit(128 + number)  # as an exception, so that temporary files go

    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
    try:
        app.main(arguments, prog_name="distembed")
    finally:
        if before is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, before)
    raise AssertionError("click ends the program")
