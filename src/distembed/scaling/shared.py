"""One box for several columns: what symmetries that swap columns ask of scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compute.arrays import Array
from ..compute.registry import storable
from .unit_cube import UnitCube


@storable
class SharedCube(UnitCube):
    """Scale points to the unit cube by linear maps, some columns by one and the same.

    Parameters
    ----------
    columns : tuple of int or "all", default=()
        Columns that share the smallest box that holds them all, so that to swap them changes no length.
    margin : float, default=0.05
        As of :class:`~distembed.UnitCube`.

    Examples
    --------
    >>> cube = SharedCube((0, 1), margin=0).fit([np.array([[0.0, 1.0, 5.0], [4.0, 3.0, 6.0]])])
    >>> cube.low_, cube.high_
    (array([0., 0., 5.]), array([4., 4., 6.]))
    """

    def __init__(self, columns: str | tuple[int, ...] = (), *, margin: float = 0.05) -> None:
        super().__init__(margin=margin)
        self.columns = columns

    def _data_box(self, points: Array, weights: Array | None) -> tuple[Array, Array]:
        low, high = (np.array(end, float) for end in super()._data_box(points, weights))
        if self.columns:
            shared: Any = slice(None) if isinstance(self.columns, str) else [*self.columns]
            low[shared], high[shared] = low[shared].min(), high[shared].max()
        return low, high
