"""The packages behind tables, pyarrow and duckdb, imported when they are used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["arrow", "need"]


def need(module: str, what: str) -> Any:
    """Return a module of the extra `tables`, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install 'distembed[tables]'") from error


def arrow(module: str = "pyarrow") -> Any:
    """Return pyarrow or a module of it."""
    return need(module, "reading and writing tables")
