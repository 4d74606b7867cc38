"""The command line: from tables on disk to models, predictions and pictures without writing code.

``distembed --help`` tells the commands. Each is a small module here, imported when it is asked for, and imports what it
needs when it runs: help and completion load neither NumPy nor scikit-learn. Needs ``pip install 'distembed[cli]'``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]

try:
    from .app import main
except ModuleNotFoundError as missing:
    if missing.name != "click":
        raise

    def main(arguments: Sequence[str] | None = None) -> NoReturn:
        """Say how to install the command line."""
        sys.exit("distembed: the command line needs click and rich: pip install 'distembed[cli]'")
