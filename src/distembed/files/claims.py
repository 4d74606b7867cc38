"""What a model from a file claims to need: bytes for one small bag, added up before they are taken.

A file can claim far more than it holds: a million columns in seven digits, a grid of a billion nodes by three axes of a
thousand, one scaler in sixty places. So every object has a :class:`Claim`, its own and those of its parts, each as
often as it is used; :class:`Allowance` compares them with the bytes of the file. An object's own claim is

- of an array its bytes, since whoever holds it may look at all of it, or convert it;
- of an estimator 64 bytes for each column that it takes, and for each feature or class that it makes;
- of bags in a model, which new bags are compared with, some passes over their points;
- and what its class says by ``__distembed_claims__()``, see :func:`distembed.files.storable`: grids, pairs of rows,
  cells, rounds.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..bags import Bags

MEMORY = 2**29  # bytes that any model may take for one bag; automatic settings take up to 450 MB
MEMORY_PER_BYTE = 100  # and so many for each byte of its file
WORK = 2**31  # bytes that may be passed over for one bag
WORK_PER_BYTE = 5000
HEAVY = 2**27  # bytes whose passing over takes about a second
_PER_COLUMN = 64
_PASSED_PER_COLUMN = 16
_CONTAINERS = (list, tuple, dict)
_PASSES = 4  # over the points of bags that new bags are compared with


class Claim(NamedTuple):
    """What it takes to predict for one small bag.

    Attributes
    ----------
    held : float
        Bytes that last until the prediction is made: those of all parts together.
    work : float
        Bytes that are given back when a part is done: those of the part that takes most.
    total : float
        Bytes that are passed over, by all parts together: a measure of time.

    Examples
    --------
    >>> Claim(1.0, 5.0, 6.0) + Claim(2.0, 3.0, 5.0)
    Claim(held=3.0, work=5.0, total=11.0)
    """

    held: float = 0.0
    work: float = 0.0
    total: float = 0.0

    def __add__(self, other: Any) -> Claim:
        return Claim(self.held + other.held, max(self.work, other.work), self.total + other.total)


def claim_of(made: Any) -> Claim:
    """The claim of an object from a file without that of its parts.

    Examples
    --------
    >>> from distembed.density.nodes import GridNodes
    >>> claim_of(GridNodes((1000, 1000, 1000))).work > 1e10
    True
    """
    if isinstance(made, np.ndarray):
        return Claim(held=made.nbytes)
    if type(made) in _CONTAINERS:
        return Claim()  # its parts have theirs
    if isinstance(made, Bags):  # each is sorted and compared with new ones
        return Claim(total=_PASSES * float(made.points.nbytes))
    if isinstance(made, functools.partial):
        nodes: Any = made.keywords.get("nodes")
        return _passing(16.0 * nodes.most_nodes() if hasattr(nodes, "most_nodes") else 0.0)
    if type(made).__name__ == "GaussianMixture":  # as the density of every bag
        return _passing(1000.0 * max(made.n_init, 1) * max(made.max_iter, 1))
    width = float(_size(made, "n_features_in_") + _size(made, "_n_features_out") + _size(made, "n_classes"))
    is_whole = hasattr(type(made), "__distembed_claims__") and (
        not hasattr(type(made), "get_params") or "n_features_in_" in vars(made)
    )
    own = made.__distembed_claims__() if is_whole else 0.0
    return Claim(held=_PER_COLUMN * width, total=_PASSED_PER_COLUMN * width) + _passing(
        *(own if isinstance(own, tuple) else (own,))
    )


def _passing(n_bytes: float, times: float = 1) -> Claim:
    """The claim of n bytes that are passed over this many times."""
    return Claim(work=float(n_bytes), total=float(n_bytes) * times)


def _size(made: Any, name: str) -> int:
    found = getattr(made, "__dict__", {}).get(name, 0)
    return found if type(found) is int else 0


class Allowance:
    """What a file of n bytes may claim.

    Parameters
    ----------
    n_bytes : int
        Of the file.
    max_memory : float or None
        Bytes that predicting for one bag may take; None: 512 MB and 100 times the bytes of the file.
    """

    def __init__(self, n_bytes: int, max_memory: float | None = None) -> None:
        allowed = MEMORY + MEMORY_PER_BYTE * n_bytes
        self.memory = allowed if max_memory is None else max_memory
        self.work = (WORK + WORK_PER_BYTE * n_bytes) * max(1.0, self.memory / allowed)
        self._n_bytes = n_bytes
        self._looked_at = 0.0

    def excess(self, claim: Claim) -> str | None:
        """Why an object is not allowed, or None; arrays are looked at when each object that holds them is made."""
        self._looked_at += claim.held
        memory = claim.held + claim.work
        if memory > self.memory:
            return (
                f"claims {memory / 1e6:,.0f} MB for one bag, more than the {self.memory / 1e6:,.0f} MB that a file of "
                f"{self._n_bytes:,} bytes may; if you trust it, load it with max_memory={float(f'{memory:.1e}') * 2:g}"
            )
        if max(claim.total, self._looked_at) > self.work:
            return (
                f"uses its parts too often for a file of {self._n_bytes:,} bytes; if you trust it, load it with a "
                "larger max_memory"
            )
        return None
