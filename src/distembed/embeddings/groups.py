"""Work that compiled threads share: each takes the next group of bags that nobody has taken.

A thread of Python that waits for its lock sleeps, and to be woken up takes a tenth of a millisecond, as long as the
features of sixty bags. So threads meet here at counters and not at the lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..compute.compiled import OPTIONS
from .registers import add_at

__all__ = ["DONE", "OUTSIDE", "TAKEN", "Groups"]

TAKEN, DONE, OUTSIDE = range(3)  # counters: groups that are taken, that are done, and coordinates outside [0, 1]
_PATIENCE = 100_000  # looks at a counter, half a millisecond: not much more than to sleep and be woken up takes


class Groups:
    """Bags in groups that go through the stages together; every thread takes the next group that nobody has taken.

    Who takes a group makes no difference to its features. The last groups are small, so that threads end together.

    Examples
    --------
    >>> Groups(200, 48, 16).starts.tolist()
    [0, 48, 96, 144, 160, 176, 192, 200]
    """

    def __init__(self, n_bags: int, lanes: int, least: int) -> None:
        n_large = max(0, n_bags // lanes - 1) * lanes
        self.starts = np.array([*range(0, n_large, lanes), *range(n_large, n_bags, least), n_bags])
        self.counts = np.zeros(3, np.int64)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def left(self) -> bool:
        """Whether there are groups that nobody has taken."""
        return bool(self.counts[TAKEN] < len(self))

    @property
    def outside(self) -> int:
        """How many coordinates were found outside [0, 1]; nobody takes another group then."""
        return int(self.counts[OUTSIDE])

    def stop(self) -> None:
        """Let nobody take another group."""
        self.counts[TAKEN] = len(self)

    def wait(self) -> bool:
        """Stay awake for other threads that end soon; returns whether all groups are done."""
        return bool(_wait(self.counts, len(self), _PATIENCE))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _wait(counts: Any, n_groups: int, patience: int) -> bool:
    """Look whether all groups are done, or some points are outside, until patience ends."""
    done = False
    while patience > 0 and not done:
        done = add_at(counts, DONE, 0) >= n_groups or add_at(counts, OUTSIDE, 0) > 0
        patience -= 1
    return done
