"""Paths of tables: local files and files in object stores, which answer the same methods.

A :class:`LocalPath` is a :class:`pathlib.Path`, a :class:`RemotePath` has as much of it as tables need. Both have more:

=================== ================================================================================================
``source``          what pyarrow reads
``open_unpacked``   a stream for pyarrow, unpacked where the suffix is .gz, .bz2 or .zst
``open_mapped``     all bytes for pyarrow: mapped to memory, or read
``matches``         the files that a pattern stands for
``fault``           the error if the file, not its content, can't be read
``obstacle``        why it can't be written
``write_whole``     a new file that takes its place when all of it is there
``as_local``        a local file of its content
=================== ================================================================================================

URLs are ``s3://bucket/key``, ``gs://``, ``az://``, ``memory://`` and all that fsspec knows. Credentials come from the
environment, or from ``storage_options``; they are not part of the text of a path, and so of no message.
"""

from __future__ import annotations

import glob
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

from ..compute.atomic_files import obstacle, write_whole
from .arrow import pa

_TAGS = ("ETag", "etag", "md5Hash", "content_md5")  # of S3, Azure and others, and Google's


class TableError(ValueError):
    """A table that can't be read as bags or labels, or can't be written.

    The message is one sentence, which names the file, the column and the remedy.

    Examples
    --------
    >>> from distembed.tables import TableError, read_bags
    >>> try:
    ...     read_bags("galaxies.parquet", bag="cluster")
    ... except TableError as error:
    ...     print(error)
    no such file: 'galaxies.parquet'; check the path
    """


if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # before Python 3.12 Path itself can't be subclassed


class LocalPath(_Path):
    """A file or folder of this machine, by its path.

    Examples
    --------
    >>> path = LocalPath("a") / "t.csv"
    >>> path == Path("a/t.csv"), path.matches()
    (True, [])
    """

    def source(self) -> Any:
        """Return what pyarrow reads: the name."""
        return str(self)

    def open_unpacked(self) -> Any:
        """Open it for pyarrow, unpacked as its suffix asks."""
        return pa.input_stream(str(self), compression="detect")

    def open_mapped(self) -> Any:
        """Open all of its bytes for pyarrow, mapped to memory."""
        return pa.memory_map(str(self))

    def matches(self) -> list[LocalPath]:
        """Return the paths that it stands for as a pattern, sorted."""
        return [LocalPath(found) for found in sorted(glob.glob(str(self), recursive=True))]

    def fault(self, error: Exception) -> TableError | None:
        """Return the error for a file that may not be read, None if the bytes are to blame."""
        return _no_permission(self) if isinstance(error, PermissionError) else None

    def obstacle(self) -> str | None:
        """Return why it can't be written, and what to do; None if nothing is known to be in the way."""
        return obstacle(self)

    @contextmanager
    def write_whole(self) -> Iterator[BinaryIO]:
        """Open a new file in the same folder, which takes its place when all of it is on the disk."""
        with write_whole(self) as file:
            yield file

    @contextmanager
    def as_local(self) -> Iterator[Path]:
        """Give a local file of its content: itself."""
        yield self


class RemotePath:
    """A file or folder of a store, by its URL.

    Parameters
    ----------
    url : str
        Such as ``s3://bucket/key``. A user and password in it are refused: they would be in messages.
    storage_options : dict, optional
        What fsspec's file system takes.

    Examples
    --------
    >>> path = RemotePath("memory://doc/t.csv")
    >>> path.write_bytes(b"a,b;")
    >>> path.exists(), path.stat().st_size, path.suffix, str(path)
    (True, 4, '.csv', 'memory://doc/t.csv')
    >>> path.unlink()
    """

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self._protocol, _, self._inside = url.partition("://")
        if "@" in self._inside.split("/")[0] and self._protocol not in ("abfs", "abfss"):
            raise ValueError(
                f"{self._protocol}://...: a URL must not hold a user or a password; pass them by storage_options, or "
                "in the environment"
            )
        self._options = dict(storage_options or {})

    @cached_property
    def _store(self) -> Any:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(f"{self._protocol}:// needs fsspec: pip install 'distembed[cluster]'") from error
        try:
            return fsspec.filesystem(self._protocol, **self._options)
        except ImportError as error:
            said = str(error).partition("\n")[0]
            raise ImportError(f"{self._protocol}:// needs another package: {said}") from error
        except ValueError:
            raise ValueError(f"{self}: fsspec knows no {self._protocol!r}; check the URL") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath, (str(self), self._options)

    def __str__(self) -> str:
        return f"{self._protocol}://{self._inside}"

    __fspath__ = __str__  # for suffixes; whoever opens it asks it

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __lt__(self, other: RemotePath) -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{str(self).rstrip('/')}/{name}", self._options)

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self._inside)

    @property
    def name(self) -> str:
        """The last part."""
        return self._pure.name

    @property
    def suffix(self) -> str:
        """Its suffix."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All of its suffixes."""
        return self._pure.suffixes

    def resolve(self) -> RemotePath:
        """The same."""
        return self

    def exists(self) -> bool:
        """Whether it is there."""
        return self._asked("exists")

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self._asked("isdir")

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._asked("isfile")

    def _asked(self, what: str) -> bool:
        ask = getattr(self._store, what)
        try:
            return bool(ask(self._inside))
        except Exception as error:  # stores have many ways to refuse, and some tell all of a request
            raise OSError(None, f"{type(error).__name__} of the store") from None

    def stat(self) -> Any:
        """Size, and, as the time, a number that changes with the content."""
        facts = self._store.info(self._inside)
        # The store's own word for the content: a listing and a question for one file agree on it, but not on dates.
        tag = next((facts[name] for name in _TAGS if facts.get(name)), None)
        if tag is None and self._protocol != "memory":
            tag = self._store.ukey(self._inside)
        size = facts.get("size") or 0
        return SimpleNamespace(st_size=size, st_mtime_ns=zlib.crc32(str(tag or size).strip('"').encode()),
                               st_dev=0, st_ino=0)  # fmt: skip

    def open(self, mode: str = "rb") -> Any:
        """Open it."""
        return self._store.open(self._inside, mode)

    def read_bytes(self) -> bytes:
        """All of it."""
        return bytes(self._store.cat_file(self._inside))

    def write_bytes(self, data: bytes) -> None:
        """Write it, whole or not at all: stores take a file in one request."""
        self._store.pipe_file(self._inside, data)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove it."""
        if not missing_ok or self.exists():
            self._store.rm_file(self._inside)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the folder, where stores have any."""
        self._store.makedirs(self._inside, exist_ok=exist_ok)

    def rglob(self, pattern: str) -> list[RemotePath]:
        """All files below."""
        return [self._sibling(found) for found in self._store.find(self._inside)]

    def iterdir(self) -> list[RemotePath]:
        """All files below: stores have no folders to speak of."""
        return self.rglob("*")

    def relative_to(self, other: RemotePath) -> PurePosixPath:
        """The way from a folder to it."""
        return self._pure.relative_to(other._pure)

    def _sibling(self, found: str) -> RemotePath:
        return RemotePath(f"{self._protocol}://{str(found).lstrip('/')}", self._options)

    def source(self) -> Any:
        """Return what pyarrow reads: the open file."""
        return self.open("rb")

    def open_unpacked(self) -> Any:
        """Open it for pyarrow, unpacked as its suffix asks, which pyarrow does not know of open files."""
        packing = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get(self.suffix.lower())
        return pa.input_stream(self.source(), compression=packing)

    def open_mapped(self) -> Any:
        """Open all of its bytes for pyarrow, in memory."""
        return pa.BufferReader(self.read_bytes())

    def matches(self) -> list[RemotePath]:
        """Return the paths that it stands for as a pattern, sorted."""
        return [self._sibling(found) for found in sorted(self._store.glob(self._inside))]

    def fault(self, error: Exception) -> TableError | None:
        """Return the error for a file that its store does not give away, None if the bytes are to blame."""
        if isinstance(error, PermissionError):
            return _no_permission(self)
        if not isinstance(error, OSError) or isinstance(error, pa.ArrowException):
            return None
        why = error.strerror or type(error).__name__  # never its text, which may hold more than people should see
        return TableError(f"{str(self)!r} can't be read from its store: {why.lower()}; try again, or look at the store")

    def obstacle(self) -> str | None:
        """Return why it can't be written, and what to do: nothing is known of a store before it is asked."""
        return None

    @contextmanager
    def write_whole(self) -> Iterator[BinaryIO]:
        """Open a temporary file, which goes to the store in one request when all of it is there."""
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            self.write_bytes(file.read())

    @contextmanager
    def as_local(self) -> Iterator[Path]:
        """Give a local file of its content: a temporary copy."""
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder, self.name)
            local.write_bytes(self.read_bytes())
            yield local


AnyPath = LocalPath | RemotePath


def as_path(entry: Any, storage_options: dict[str, Any] | None = None) -> AnyPath:
    """Return the local path, or the file or folder of a store, that a path or a URL names.

    Examples
    --------
    >>> as_path("a/t.csv"), as_path("file:///a/t.csv"), as_path("s3://bucket/t.csv")
    (LocalPath('a/t.csv'), LocalPath('/a/t.csv'), RemotePath('s3://bucket/t.csv'))
    """
    if isinstance(entry, LocalPath | RemotePath):
        return entry
    text = os.fspath(entry)
    if "://" not in text or text.startswith("file://"):
        return LocalPath(text.removeprefix("file://"))
    return RemotePath(text, storage_options)


def stamp(path: AnyPath) -> tuple[int, int]:
    """Return what differs after a change of a file: its size and when it was written."""
    try:
        facts = path.stat()
    except OSError as error:
        raise TableError(f"{str(path)!r} can't be read any more: {error.strerror}; put it back") from None
    return facts.st_size, facts.st_mtime_ns


def check_stamp(path: AnyPath, before: tuple[int, int]) -> None:
    """Raise if a file has changed since."""
    if stamp(path) != before:
        raise TableError(f"{str(path)!r} has changed while it was read; do it again when it is complete")


def _no_permission(path: AnyPath) -> TableError:
    return TableError(f"no permission to read {str(path)!r}; change its permissions or copy it")
