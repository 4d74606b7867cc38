r"""Density estimates of bags, on the integration nodes.

============================  ==========================================================================================
:class:`KDE`                  Gaussian kernels; reflecting, periodic (wrapped) or open boundaries. The default
============================  ==========================================================================================

:func:`get` finds one by name. A new estimate is a subclass of :class:`Density` in a file of its own.
"""

from __future__ import annotations

from typing import Any

from .binning import LinearBinning
from .estimate import BagDensity, Density, Evaluator, Pooled
from .kde import KDE, DirectKDE, GridKDE, kde_at, kernel, warn_if_unresolved

__all__ = [
    "KDE",
    "BagDensity",
    "Density",
    "DirectKDE",
    "Evaluator",
    "GridKDE",
    "LinearBinning",
    "Pooled",
    "get",
    "kde_at",
    "kernel",
    "warn_if_unresolved",
]

_NAMES: dict[str, type[Density]] = {"kde": KDE}


def get(density: Any) -> Density:
    """A density by name; an object is returned as it is.

    Examples
    --------
    >>> get("kde")
    KDE(boundary='reflect', per_bag=False)
    """
    if isinstance(density, Density):
        return density
    if isinstance(density, str) and density in _NAMES:
        return _NAMES[density]()
    raise ValueError(
        f"density: must be one of {', '.join(map(repr, _NAMES))} or a density object, got {density!r}; use "
        "KDE(boundary=...) for options"
    )
