"""More than one machine: fits, predictions and embeddings of tables by a cluster of Dask workers.

Every task is a pure function of a part of the table, so Dask may run it anywhere, and again when a worker is lost.
What comes back is the learner that one machine fits.

=================== ================================================================================================
:func:`open`        a table in parts: files on disks that all see, files in object stores, or a Dask frame
:func:`fit`         a learner, fitted to the bags of a table and their labels
:func:`predict`     predictions for all bags, as Parquet, one file per part
:func:`embed`       vectors for all bags, as Parquet, one file per part
=================== ================================================================================================

It needs ``pip install 'distembed[cluster]'``, and a client: ``distributed.Client(LocalCluster(...))``, or that of an
existing cluster whose workers have the same libraries.
"""

from .fitting import fit
from .table import ClusterTable, open  # noqa: A004
from .writing import embed, predict

__all__ = ["ClusterTable", "embed", "fit", "open", "predict"]
