"""NumPy archives (.npz) as tables: an array is a column, or one a coordinate if it is 2-D."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import TableError
from .packages import arrow
from .schemas import Head

__all__ = ["arrow_array", "npz_batch", "npz_head"]

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def npz_head(path: Path) -> Head:
    """Return the columns of an .npz archive: its 1-D arrays, and those of its 2-D arrays as name_0, name_1, ..."""
    pa = arrow()
    names, types, lengths = [], [], {}
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"format", "version", "points", "offsets"} <= set(members):
            raise TableError(f"{str(path)!r} was written by Bags.save and is no table; read it with Bags.load")
        for name in members:
            with archive.open(f"{name}.npy") as member:
                shape, _, dtype = _HEADERS[np.lib.format.read_magic(member)](member)
            if len(shape) in (1, 2):
                lengths[name] = shape[0]
                width = shape[1] if len(shape) == 2 else None
                names += [name] if width is None else [f"{name}_{j}" for j in range(width)]
                types += [_arrow_type(pa, dtype)] * (1 if width is None else width)
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
        raise TableError(f"{str(path)!r}: arrays must have one entry a row, got lengths {rows}; write it again")
    return Head(path, tuple(names), tuple(types), next(iter(lengths.values()), 0))


def _arrow_type(pa: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind == "f" and dtype.itemsize > 8:
        return pa.float64()
    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.binary()


def npz_batch(path: Path, names: list[str]) -> Any:
    """Return columns of an .npz archive as one record batch."""
    pa = arrow()
    columns = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            if name in names:
                columns[name] = archive[name]
            elif any(other.rpartition("_")[0] == name for other in names):
                block = archive[name]
                if block.ndim == 2:
                    columns.update({f"{name}_{j}": block[:, j] for j in range(block.shape[1])})
    return pa.record_batch([arrow_array(columns[name]) for name in names], names=names)


def arrow_array(values: NDArray[Any]) -> Any:
    """Return a NumPy array as an arrow one: contiguous, in the machine's byte order, at most double precision."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    return arrow().array(values.astype(values.dtype.newbyteorder("="), copy=False))
