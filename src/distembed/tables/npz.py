"""NumPy archives as tables: an array is a column, or one per coordinate if it is 2-D. They are read whole."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import Head, TableError, arrow_array, pa

_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def npz_head(path: Path) -> Head:
    """Return the columns of an .npz archive: its 1-D arrays, and those of its 2-D arrays as name_0, name_1, ..."""
    names, types, lengths = [], [], {}
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"format", "version", "points", "offsets"} <= set(members):
            raise TableError(f"{str(path)!r} was written by Bags.save and is no table; read it with Bags.load")
        for name in members:
            with archive.open(f"{name}.npy") as member:
                shape, _, dtype = _NPY_HEADERS[np.lib.format.read_magic(member)](member)
            if len(shape) in (1, 2):
                lengths[name] = shape[0]
                columns = [name] if len(shape) == 1 else [f"{name}_{j}" for j in range(shape[1])]
                names += columns
                types += [_npz_type(dtype)] * len(columns)
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
        raise TableError(f"{str(path)!r}: arrays must have one entry a row, got lengths {rows}; write it again")
    return Head(path, tuple(names), tuple(types), next(iter(lengths.values()), 0))


def _npz_type(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind == "f" and dtype.itemsize > 8:
        return pa.float64()
    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.binary()


def npz_batch(path: Path, names: list[str]) -> Any:
    """Return columns of an .npz archive as one record batch."""
    columns: dict[str, NDArray[Any]] = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            if any(name in (other, other.rpartition("_")[0]) for other in names):
                block = archive[name]
                columns |= {f"{name}_{j}": each for j, each in enumerate(block.T)} if block.ndim == 2 else {name: block}
    return pa.record_batch([arrow_array(columns[name]) for name in names], names=names)
