"""The paper's experiments and one on real tables, one class each: what ``python -m reproduce`` runs.

:data:`EXPERIMENTS` has them by name. Each is a :class:`~reproduce.study.Study`: a list of steps that are kept
on disk as they are computed, and a report of tables and figures. The names come without NumPy, for the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .study import Study

__all__ = ["EXPERIMENTS", "get"]

EXPERIMENTS = ("gram", "mixture", "images", "scenes", "real", "regression")


def get(name: str) -> type[Study]:
    """The class of an experiment.

    Examples
    --------
    >>> get("gram").name
    'gram'
    """
    found: type[Study] = import_module(f".{name}", __package__).Experiment
    return found
