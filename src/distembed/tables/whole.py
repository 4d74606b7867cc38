"""All bags of a table on disk at once, in memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ..bags import Bags
from ..bags.coordinates import left_out_text
from .bag_table import BagTable


def read_bags(
    source: Any,
    *,
    bag: str | Sequence[str],
    columns: Sequence[str] | str | None = None,
    weights: str | None = None,
    **options: Any,
) -> Bags:
    """Return all bags of a table on disk, sorted by id, in memory.

    Parameters
    ----------
    source, bag, columns, weights
        As in :class:`BagTable`.
    **options
        The other options of :class:`BagTable`: `sorted`, `memory_limit`, `threads`, `temp_directory`, `bag_type`,
        `delimiter`, `decimal`, `nan`, `categorical`.

    Returns
    -------
    Bags
        Those of ``BagTable(...).batches()``, in one. Memory is twice that of the points. A warning says which columns
        are left out, where `columns` does not.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.tables import read_bags, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"id": [2, 1, 2], "x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}, f"{folder}/t.parquet")
    ...     read_bags(f"{folder}/t.parquet", bag="id")
    Bags(n_bags=2, n_points=3, n_dims=2, sizes=1..2, dtype=float64, ids=1..2, columns=x, y)
    """
    table = BagTable(source, bag=bag, columns=columns, weights=weights, **options)
    if table.left_out:
        warnings.warn(left_out_text(table.columns, table.left_out), UserWarning, stacklevel=2)
    with closing(table.batches(max_points=None)) as batches:
        return next(batches)
