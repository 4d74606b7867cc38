"""Tables of points on disk, larger than memory: bags in batches, labels by bag, and files that are whole or absent.

A table has one row per point: a column of bag ids, columns of coordinates, perhaps one of weights. It may have one row
per bag instead, with lists in the columns of coordinates. It is a file, several, a glob or a directory: Parquet
(.parquet, .pq), Feather or Arrow IPC (.feather, .arrow), CSV (.csv, .tsv, also .gz), or NumPy (.npz, which is read
whole).

One rule holds for all of them: **bags are sorted by id**, and the points of a bag stand in the order of the files and
of their rows. So bags do not depend on formats, row groups, or how a table is cut into files; text is sorted by code
point. The cost is one external sort, O(n_points log n_points), within `memory_limit` and on disk beyond it;
nothing is sorted where ids stand in order, and a small table in memory. Needs ``pip install 'distembed[tables]'``.

The way of a point, file by file:

=============  =====================================================================================================
``arrow``      what is asked of pyarrow
``paths``      local files and files in object stores, with the same methods
``formats``    one object for each format: the columns of a file, its rows in pieces, what is wrong with it
``files``      which files a table is, and any of them piece by piece
``plan``       which columns hold coordinates, and how they are read
``points``     checked values, in the order of the files
``ordering``   points in order of their bags: as they stand, by row groups, or by a sort
``bag_table``  batches of whole bags, or all of them
``fields``     any table by its suffix, also .h5ad and FCS files, which are read whole
``labels``     labels and covariates of bags, read and joined
``writing``    tables written whole or not at all
=============  =====================================================================================================
"""

from .bag_table import BagTable, read_bags
from .cell_files import open_bags
from .labels import Joined, LabelTable, join, read_labels
from .paths import TableError
from .writing import write_bags, write_table

__all__ = [
    "BagTable", "Joined", "LabelTable", "TableError", "join", "open_bags", "read_bags", "read_labels",
    "write_bags", "write_table",
]  # fmt: skip
