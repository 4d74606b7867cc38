"""NumPy archives as tables: an array is a column, or one per coordinate if it is 2-D. They are read whole.

What an archive says of itself is compared with its size before anything is made of it: a header of a hundred bytes may
claim terabytes.
"""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import Head, TableError, pa, source_of

MOST_COLUMNS = 100_000
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MOST_PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1_040}  # bytes that a byte of each kind can stand for


def npz_head(path: Path) -> Head:
    """Return the columns of an .npz archive: its 1-D arrays, and those of its 2-D arrays as name_0, name_1, ..."""
    names: list[str] = []
    types, lengths = [], {}
    with zipfile.ZipFile(source_of(path)) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"format", "version", "points", "offsets"} <= set(members):
            raise TableError(f"{str(path)!r} was written by Bags.save and is no table; read it with Bags.load")
        for name in members:
            shape, dtype = _checked(path, name, archive)
            if len(shape) in (1, 2):
                lengths[name] = shape[0]
                width = 1 if len(shape) == 1 else shape[1]
                if len(names) + width > MOST_COLUMNS:
                    raise TableError(
                        f"{str(path)!r}: array {name!r} of shape {shape} makes {len(names) + width:,} columns, and a "
                        f"table has at most {MOST_COLUMNS:,}; write fewer"
                    )
                names += [name] if len(shape) == 1 else [f"{name}_{j}" for j in range(width)]
                types += [_npz_type(dtype)] * width
    if len(set(lengths.values())) > 1:
        rows = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
        raise TableError(f"{str(path)!r}: arrays must have one entry per row, got lengths {rows}; write it again")
    return Head(path, tuple(names), tuple(types), next(iter(lengths.values()), 0))


def _checked(path: Path, name: str, archive: zipfile.ZipFile) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array, or raise if it can't have them within the bytes of the file."""
    facts = archive.getinfo(f"{name}.npy")
    with archive.open(facts) as member:
        shape, _, dtype = _NPY_HEADERS[np.lib.format.read_magic(member)](member)
        size = prod(shape) * dtype.itemsize
        told = facts.file_size - member.tell()
    most = path.stat().st_size * _MOST_PACKED.get(facts.compress_type, 0)
    if (not dtype.hasobject and size != told) or told > most:
        raise TableError(
            f"{str(path)!r}: array {name!r} of shape {shape} takes {size:,} bytes, and the file holds at most "
            f"{max(0, min(told, most)):,}; it is damaged: write it again"
        )
    return shape, dtype


def _npz_type(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return pa.string()
    if dtype.kind == "f" and dtype.itemsize > 8:
        return pa.float64()
    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.binary()


def npz_batch(path: Path, names: list[str]) -> Any:
    """Return columns of an .npz archive, of which `npz_head` has told, as one record batch."""
    columns: dict[str, NDArray[Any]] = {}
    wanted = {*names, *(name.rpartition("_")[0] for name in names)}
    with np.load(source_of(path), allow_pickle=False) as archive:
        for name in archive.files:
            if name in wanted:
                block = archive[name]
                columns |= {f"{name}_{j}": each for j, each in enumerate(block.T)} if block.ndim == 2 else {name: block}
    return pa.record_batch([arrow_array(columns[name]) for name in names], names=names)


def arrow_array(values: NDArray[Any]) -> Any:
    """Return a NumPy array as an arrow one: contiguous, in the machine's byte order, at most double precision."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        signs = values.view(np.uint32).reshape(len(values), -1)
        if np.any((signs[:, :-1] == 0) & (signs[:, 1:] != 0)):  # pyarrow cuts NumPy's text at the first NUL
            return pa.array(values.tolist(), pa.string())
    return pa.array(values)
