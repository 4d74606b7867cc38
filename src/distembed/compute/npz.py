"""NumPy's archives from anybody: what an archive says of itself is compared with its size before memory is taken.

A header of a hundred bytes may claim terabytes, and a compressed archive may unfold to a thousand times its size, but
not to more.
"""

from __future__ import annotations

import zipfile
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MOST_PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1_040}  # bytes that a byte of each kind can stand for
_LONGEST_EMPTY = 2**16


class Header(NamedTuple):
    """Shape and type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def npz_headers(file: BinaryIO | str, n_bytes: int) -> dict[str, Header]:
    """The arrays of an .npz archive by name; none takes more than the archive can hold.

    Parameters
    ----------
    file : binary file or str
        The archive.
    n_bytes : int
        Its size.

    Returns
    -------
    dict of str to Header
        A ValueError names the array that can't be what it claims.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.savez(file, x=np.zeros((3, 2)))
    >>> npz_headers(file, len(file.getvalue()))["x"].shape
    (3, 2)
    """
    found = {}
    left = n_bytes
    with zipfile.ZipFile(file) as archive:
        for facts in archive.infolist():
            name = facts.filename.removesuffix(".npy")
            found[name], told = _read_header(archive, facts, name)
            packed = _MOST_PACKED.get(facts.compress_type, 0)
            _refuse_claims(name, found[name], told, min(facts.compress_size, left) * packed)
            left -= facts.compress_size
    return found


def _read_header(archive: zipfile.ZipFile, facts: zipfile.ZipInfo, name: str) -> tuple[Header, int]:
    """The header of an array, and the bytes that follow it by the archive's list."""
    with archive.open(facts) as member:
        version = np.lib.format.read_magic(member)
        if version not in _HEADERS:
            raise ValueError(f"array {name!r} is in version {version} of the format; write it again")
        shape, _, dtype = _HEADERS[version](member)
        return Header(shape, dtype), facts.file_size - member.tell()


def _refuse_claims(name: str, header: Header, told: int, most: int) -> None:
    shape, dtype = header
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"array {name!r} has the shape {shape}, and lengths are 0 or more; it is damaged")
    size = prod(shape) * dtype.itemsize
    if size == 0 and max(shape, default=0) > max(most, _LONGEST_EMPTY):
        raise ValueError(
            f"array {name!r} has the shape {shape} and no values, and none so long is written; it is damaged: write it "
            "again"
        )
    if (not dtype.hasobject and size != told) or told > most:
        raise ValueError(
            f"array {name!r} of shape {shape} takes {size:,} bytes, and the file holds at most "
            f"{max(0, min(told, most)):,}; it is damaged: write it again"
        )
