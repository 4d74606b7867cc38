"""The container of model files: a zip archive of JSON and .npy arrays, checked before anything is made of it.

========================= ==============================================================================================
``model.json``            the objects, see :mod:`distembed.files.model_files`
``arrays/0.npy``, ...     their arrays, each once
``manifest.json``         format, versions of libraries, size and SHA-256 of every other member
the archive's comment     ``distembed-model/<format> sha256:<of the manifest>``
========================= ==============================================================================================

Members are stored, not compressed: numbers hardly shrink, the same model gives the same bytes with every zlib, and an
archive can't unfold to more than its own size. Dates are constant for the same reason.

A checksum finds damage, not malice: who writes a hostile file writes its checksums too. So everything here is refused
unless it is as :func:`write_archive` makes it, sizes are compared before memory is taken, and nothing is pickled.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import math
import os
import re
import stat
import struct
from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO, NamedTuple, NoReturn
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from ..compute.arrays import Array
from ..compute.atomic_files import write_whole

FORMAT = 2  # of the files that this version writes and reads; 1 held training rows and other attributes
MAX_BYTES = 8 * 2**30
_MAX_JSON = 2**28
_MAX_DIRECTORY = 2**23  # bytes of the list of members
_SPARE = 220_000_000  # bytes that parsed JSON may take besides twice the size of the file
_PIECE = 2**20  # bytes of an array that are read at a time
_MODEL = "model.json"
_MANIFEST = "manifest.json"
_COMMENT = re.compile(rb"distembed-model/([1-9][0-9]{0,8})(?: .*)?", re.DOTALL)
_SHA = re.compile(r"[0-9a-f]{64}")
# records of a zip archive: before each member, and the last ones
_LOCAL = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_TAIL = 65_535 + _END.size + _END64.size + 20
_AGAIN = "save the model again, or get another copy"


class ModelFileError(ValueError):
    """A file is not a model file, or a damaged, hostile or newer one.

    Examples
    --------
    >>> import tempfile
    >>> from distembed.files.model_files import ModelFileError, load
    >>> with tempfile.NamedTemporaryFile(suffix=".distembed") as file:
    ...     try:
    ...         load(file.name)
    ...     except ModelFileError as error:
    ...         print(str(error).rpartition("; ")[2])
    give the path of a file that save wrote
    """

    __module__ = "distembed.files.model_files"  # where users find it


class Archive(NamedTuple):
    """What a model file holds; ``arrays`` is empty where they were not asked for."""

    document: dict[str, Any]
    arrays: list[Array]
    versions: dict[str, str]
    format: int
    n_arrays: int
    n_bytes: int


# --------------------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str], document: dict[str, Any], arrays: Sequence[Array], versions: dict[str, str]
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : str or PathLike
        The file.
    document : dict
        What ``model.json`` holds: numbers, text, lists and dicts.
    arrays : sequence of ndarray
        Of any dtype without objects.
    versions : dict of str
        Of the libraries that made the model.
    """
    members = {}
    with write_whole(path) as file, ZipFile(file, "w", ZIP_STORED) as archive:
        text = _dump(document)
        members[_MODEL] = _write_member(archive, _MODEL, len(text), lambda out: out.write(text))
        for i, array in enumerate(arrays):
            name = f"arrays/{i}.npy"
            members[name] = _write_member(archive, name, array.nbytes + 2**16, functools.partial(_write_array, array))
        text = _dump({"format": FORMAT, "versions": versions, "members": members})
        digest = _write_member(archive, _MANIFEST, len(text), lambda out: out.write(text))["sha256"]
        archive.comment = f"distembed-model/{FORMAT} sha256:{digest}".encode("ascii")


def _dump(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def _write_member(archive: ZipFile, name: str, size: int, write: Callable[[Any], object]) -> dict[str, Any]:
    info = ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # constant: the same model gives the same bytes
    info.create_system = 3
    info.external_attr = 0o644 << 16
    info.file_size = size  # or a little more: large members get large headers
    with archive.open(info, "w") as file:
        out = _Hashing(file)
        write(out)
    return {"bytes": out.n_bytes, "sha256": out.digest()}


def _write_array(array: Array, out: Any) -> None:
    np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)


class _Hashing:
    """A file that counts and hashes what is read from it or written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.n_bytes = 0

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self.n_bytes += len(data)

    def write(self, data: bytes) -> int:
        self._count(data)
        return self._file.write(data)

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._count(data)
        return data

    def digest(self) -> str:
        return self._hash.hexdigest()


# --------------------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str], max_bytes: float = MAX_BYTES, *, with_arrays: bool = True) -> Archive:
    """Read and check a model file.

    Parameters
    ----------
    path : str or PathLike
        The file.
    max_bytes : float
        Largest size of all members together.
    with_arrays : bool
        Whether arrays are read and their checksums compared.

    Returns
    -------
    Archive
        Anything but what :func:`write_archive` makes is a :class:`ModelFileError`; a file that is not there, or may not
        be read, is the system's OSError.
    """
    name = os.fspath(path)
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # a pipe would be waited for, a device has no end
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise ModelFileError(f"{name}: is {kind}, not a model file; give the path of a file that save wrote")
    with open(path, "rb") as file:
        try:
            return _read(file, name, max_bytes, with_arrays)
        except ModelFileError:
            raise
        except Exception as error:  # zipfile and json have many ways to say so
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelFileError(f"{name}: is damaged, incomplete or no model file ({said}); {_AGAIN}") from error


def _read(file: BinaryIO, name: str, max_bytes: float, with_arrays: bool) -> Archive:
    total = os.fstat(file.fileno()).st_size
    version, expected = _check_ends(file, name, total)

    def refuse(why: str, remedy: str = _AGAIN) -> NoReturn:
        raise ModelFileError(f"{name}: {why}; {remedy}")

    with ZipFile(file) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        if len(infos) != len(archive.infolist()):
            refuse("has two members of one name")
        for info in infos.values():
            if info.compress_type != ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 0x2061:
                refuse(f"its member {info.filename!r} is compressed or encrypted, and save does neither")
        size = sum(info.file_size for info in infos.values())
        if size > total:
            refuse(f"its members claim {size:,} bytes, more than the {total:,} of the file")
        if not _is_gapless(file, archive):
            refuse("has bytes before, between or after its members, as two archives in one file have")
        if size > max_bytes:
            refuse(f"holds {size:,} bytes, more than max_bytes={max_bytes:,}", "raise max_bytes if you trust it")

        def parsed(member: str, digest: str | None) -> Any:
            if member not in infos:
                refuse(f"has no member {member!r}")
            if infos[member].file_size > _MAX_JSON:
                refuse(f"its member {member!r} has more than {_MAX_JSON:,} bytes")
            with archive.open(infos[member]) as opened:
                reader = _Hashing(opened)
                text = reader.read(infos[member].file_size)
            if reader.digest() != digest:
                refuse(f"the checksum of its member {member!r} is not that of its content")
            if 250 * (text.count(b"{") + text.count(b"[")) + 60 * text.count(b",") > _SPARE + 2 * size:
                refuse(f"its member {member!r} would take far more memory than its size")
            found = _parse(text)
            if not isinstance(found, dict):
                refuse(f"its member {member!r} is not a JSON object")
            return found

        manifest = parsed(_MANIFEST, expected)
        members = manifest.get("members")
        versions = manifest.get("versions")
        if manifest.get("format") != version or not _is_manifest(members, versions):
            refuse("its manifest is not as save writes it")
        n_arrays = len(members) - 1
        legal = {_MODEL, *(f"arrays/{i}.npy" for i in range(n_arrays))}
        different = sorted(infos.keys() ^ {*legal, _MANIFEST}) or sorted(members.keys() ^ legal)
        if different:
            refuse(f"has missing or additional members: {', '.join(map(repr, different[:3]))}")
        if any(infos[member].file_size != row["bytes"] for member, row in members.items()):
            refuse("the sizes of its members are not those of its manifest")
        document = parsed(_MODEL, members[_MODEL]["sha256"])
        arrays = []
        for i in range(n_arrays) if with_arrays else ():
            member = f"arrays/{i}.npy"
            with archive.open(infos[member]) as opened:
                reader = _Hashing(opened)
                array = _read_array(reader, infos[member].file_size, size)
            if array is None:
                refuse(f"its member {member!r} is not an array of plain numbers or text of its size")
            if reader.digest() != members[member]["sha256"]:
                refuse(f"the checksum of its member {member!r} is not that of its content")
            arrays.append(array)
    return Archive(document, arrays, versions, version, n_arrays, size)


def _check_ends(file: BinaryIO, name: str, total: int) -> tuple[int, str | None]:
    """The version of the format and the manifest's checksum, from the end of the file, before zipfile looks at it."""
    if file.read(4) != b"PK\x03\x04":
        raise ModelFileError(f"{name}: is not a model file of distembed; give the path of a file that save wrote")
    file.seek(max(0, total - _TAIL))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + _END.size:
        raise ModelFileError(f"{name}: is damaged or incomplete, its end is missing; {_AGAIN}")
    *_, n_bytes, _, length = _END.unpack_from(tail, at)
    comment = tail[at + _END.size :]
    found = _COMMENT.fullmatch(comment)
    if found is None or len(comment) != length:
        raise ModelFileError(f"{name}: is an archive, but no whole model file of distembed; {_AGAIN}")
    version = int(found[1])
    if version > FORMAT:
        raise ModelFileError(
            f"{name}: was written by a newer distembed (format {version}, this one reads up to {FORMAT}); upgrade"
        )
    if version < FORMAT:
        raise ModelFileError(
            f"{name}: was written by an older distembed (format {version}, this one reads {FORMAT}); fit the model "
            "again and save it with this version"
        )
    large = at - 20 - _END64.size
    if large >= 0 and tail.startswith(b"PK\x06\x06", large):
        n_bytes = max(n_bytes if n_bytes < 2**32 - 1 else 0, _END64.unpack_from(tail, large)[8])
    if n_bytes > min(total, _MAX_DIRECTORY):
        raise ModelFileError(f"{name}: its list of members is larger than any that save writes; {_AGAIN}")
    return version, comment.decode("ascii", "replace").rpartition(" sha256:")[2]


def _is_gapless(file: BinaryIO, archive: ZipFile) -> bool:
    """Whether members stand one after the other from the first byte of the file to the list of them."""
    place = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        if info.header_offset != place:
            return False
        file.seek(place)
        header = file.read(_LOCAL.size)
        if len(header) != _LOCAL.size:
            return False
        *_, name, extra = _LOCAL.unpack(header)
        place += _LOCAL.size + name + extra + info.compress_size
    return place == archive.start_dir


def _is_manifest(members: Any, versions: Any) -> bool:
    """Whether both have their form: name to size and checksum, name to version."""
    return (
        isinstance(versions, dict)
        and all(isinstance(version, str) for version in versions.values())
        and isinstance(members, dict)
        and all(
            isinstance(row, dict)
            and type(row.get("bytes")) is int
            and isinstance(row.get("sha256"), str)
            and _SHA.fullmatch(row["sha256"])
            for row in members.values()
        )
    )


def _parse(text: bytes) -> Any:
    """JSON without NaN, infinities and repeated keys; deep nesting ends in a RecursionError, which is caught above."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise ValueError("a repeated key")
        return made

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text.decode("ascii"), object_pairs_hook=unique, parse_constant=refuse)


def _read_array(reader: _Hashing, size: int, most: int) -> Array | None:
    """The array of a .npy member, or None if its header does not describe exactly that many bytes of plain values.

    No axis may be longer than ``most``, the bytes of the file: an array without values could claim any length.
    """
    head = reader.read(10)
    if len(head) != 10 or head[:8] != b"\x93NUMPY\x01\x00":
        return None
    head += reader.read(int.from_bytes(head[8:], "little"))
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(head[8:]))
    if dtype.hasobject or dtype.itemsize == 0 or any(type(n) is not int or not 0 <= n <= most for n in shape):
        return None
    if len(head) + math.prod(shape) * dtype.itemsize != size:
        return None
    flat: Array = np.empty(math.prod(shape), dtype)
    place = flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)
    for start in range(0, len(place), _PIECE):
        data = reader.read(min(_PIECE, len(place) - start))
        place[start : start + len(data)] = np.frombuffer(data, np.uint8)
    if reader.n_bytes != size:
        return None
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
