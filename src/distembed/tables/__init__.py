"""Tables of points on disk, larger than memory: bags in batches, labels by bag, and files that are whole or absent.

A table has one row per point: a column of bag ids, columns of coordinates, perhaps one of weights. It may have one row
per bag instead, with lists in the columns of coordinates. It is a file, several, a glob or a directory: Parquet
(.parquet, .pq), Feather or Arrow IPC (.feather, .arrow), CSV (.csv, .tsv, also .gz), or NumPy (.npz, which is read
whole).

One rule holds for all of them: **bags are sorted by id**, and the points of a bag stand in the order of the files and
of their rows. So bags do not depend on formats, row groups, or how a table is cut into files; text is sorted by code
point. The cost is one external sort, O(n_points log n_points), within `memory_limit` and on disk beyond it;
nothing is sorted where ids stand in order, and a small table in memory. Needs ``pip install 'distembed[tables]'``.

The way of a point: `files` lists files and reads any of them piece by piece, `plan` says which columns hold
coordinates and how they are read, `points` checks values and puts bags in order (by `gathering` row groups, or by
`sorting`), and `bag_table` hands out batches of whole bags, `whole` all of them. `labels` reads and joins labels of
bags, `writing` writes tables. `fields` hands out .h5ad and FCS files, which are read whole, in the same way.
"""

from .bag_table import BagTable, open_bags, read_bags
from .files import TableError
from .labels import Joined, LabelTable, join, read_labels
from .writing import write_bags, write_table

__all__ = [
    "BagTable", "Joined", "LabelTable", "TableError", "join", "open_bags", "read_bags", "read_labels",
    "write_bags", "write_table",
]  # fmt: skip
