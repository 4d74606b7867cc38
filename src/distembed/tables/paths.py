"""Paths of tables: local files and files in object stores, which answer the same methods.

A :class:`LocalPath` is a :class:`pathlib.Path`, a :class:`RemotePath` has as much of it as tables need. Both have more:

=================== ================================================================================================
``source``          what pyarrow reads
``open_unpacked``   a stream for pyarrow, unpacked where the suffix is .gz, .bz2 or .zst
``open_mapped``     all bytes for pyarrow: mapped to memory, or read
``matches``         the files that a pattern stands for
``fault``           the error if the file, not its content, can't be read
``tag``             a store's own word for the content, which changes with it
``obstacle``        why it can't be written
``write_whole``     a new file that takes its place when all of it is there
``as_local``        a local file of its content
=================== ================================================================================================

URLs are ``s3://bucket/key``, ``gs://``, ``az://``, ``memory://`` and other stores that fsspec knows; web and FTP
addresses are refused, because they neither list files nor have sizes to rely on. Credentials come from the environment,
or from ``storage_options``; they are not part of the text of a path, and so of no message.

A store may end a file early, and its reader would take that for the end of the table. So all that is read from a store
is compared with the size that it lists.
"""

from __future__ import annotations

import glob
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

from ..compute.atomic_files import obstacle, write_whole
from .arrow import pa

_TAGS = ("ETag", "etag", "md5Hash", "content_md5")  # of S3, Azure and others, and Google's
_NO_STORES = ("http", "https", "ftp", "ftps", "sftp", "ssh")
_BLOCK = 1 << 16  # bytes of a file that its digest looks at together
_MOST_BLOCKS = 32  # of a file


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

    def tag(self) -> str | None:
        """Return what a store calls the content: a disk has no word for it."""
        return None

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
        if self._protocol in _NO_STORES:
            raise TableError(
                f"{self._protocol}://...: tables are local files, or files in object stores such as s3:// and gs://; "
                "download it first"
            )
        self._options = dict(storage_options or {})

    @cached_property
    def _store(self) -> Any:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(f"{self._protocol}:// needs fsspec: pip install 'distembed[cluster]'") from error
        try:
            kind = fsspec.get_filesystem_class(self._protocol)
        except ImportError as error:
            said = str(error).partition("\n")[0]
            raise ImportError(f"{self._protocol}:// needs another package by pip install: {said}") from error
        except ValueError:
            raise ValueError(f"{self}: fsspec knows no {self._protocol!r}; check the URL") from None
        with _in_words(self):
            return kind(**self._options)

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
        """Return the path itself; stores have no links."""
        return self

    def _ask(self, what: str, *args: Any, **more: Any) -> Any:
        """Ask the store for something; what goes wrong is one sentence."""
        ask = getattr(self._store, what)
        with _in_words(self):
            return ask(self._inside, *args, **more)

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self._ask("exists"))

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return bool(self._ask("isdir"))

    def is_file(self) -> bool:
        """Whether it is a file."""
        return bool(self._ask("isfile"))

    def tag(self) -> str | None:
        """Return what the store calls the content: a listing and a question for one file agree on it, not on dates."""
        return _tag_of(self._ask("info"))

    def stat(self) -> Any:
        """Size, and, as the time, a number that changes with the content."""
        facts = self._ask("info")
        tag = _tag_of(facts)
        if tag is None and self._protocol != "memory":
            tag = str(self._ask("ukey"))
        size = facts.get("size") or 0
        return SimpleNamespace(st_size=size, st_mtime_ns=zlib.crc32((tag or str(size)).encode()), st_dev=0, st_ino=0)

    def open(self, mode: str = "rb") -> Any:
        """Open it; what is read must be as long as the store says."""
        file = self._ask("open", mode)
        return _StoreFile(self, file) if mode == "rb" else file

    def read_bytes(self) -> bytes:
        """All of it."""
        with self.open() as file:
            return bytes(file.read())

    def write_bytes(self, data: bytes) -> None:
        """Write it, whole or not at all: stores take a file in one request."""
        self._ask("pipe_file", data)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove it."""
        if not missing_ok or self.exists():
            self._ask("rm_file")

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the folder, where stores have any."""
        self._ask("makedirs", exist_ok=exist_ok)

    def rglob(self, pattern: str) -> list[RemotePath]:
        """All files below."""
        return [self._sibling(found) for found in self._ask("find")]

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
        return [self._sibling(found) for found in sorted(self._ask("glob"))]

    def fault(self, error: Exception) -> TableError | None:
        """Return the error for a file that its store does not give away, None if the bytes are to blame."""
        if isinstance(error, PermissionError):
            return _no_permission(self)
        of_the_store = isinstance(error, OSError) and not isinstance(error, pa.ArrowException)
        return _refused(self, error) if of_the_store else None

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


class _StoreFile:
    """An open file of a store, which ends where the store says that it does, or is an error.

    Parameters
    ----------
    path : RemotePath
        For errors.
    file : binary file
        From fsspec, with the size that the store lists, if it knows.
    """

    def __init__(self, path: RemotePath, file: Any) -> None:
        self._path = path
        self._file = file
        self._size: int | None = getattr(file, "size", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _StoreFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, n: int = -1) -> Any:
        """Read n bytes, or all that are left."""
        with _in_words(self._path):
            start = self._file.tell()
            data = self._file.read(-1 if n is None else n)
        if self._size is None:
            return data
        left = max(0, self._size - start)
        wanted = left if n is None or n < 0 else min(n, left)
        if len(data) < wanted:
            raise TableError(
                f"{str(self._path)!r} ended after {start + len(data):,} of the {self._size:,} bytes that its store "
                "lists; try again, or look at the store"
            )
        return data


@contextmanager
def _in_words(path: RemotePath) -> Iterator[None]:
    """Turn what a store, or the way to it, raises into one sentence; stores have many errors, and some tell all."""
    try:
        yield
    except (TableError, ImportError, FileNotFoundError):
        raise
    except PermissionError:
        raise _no_permission(path) from None
    except Exception as error:
        raise _refused(path, error) from None


def _refused(path: RemotePath, error: Exception) -> TableError:
    """Return the error for a request that a store did not grant."""
    name = type(error).__name__.lower()
    remedy = "try again, or look at the store"
    if "credential" in name or "token" in name:
        why = "there are no credentials"
        remedy = "set them in the environment, or in the files of its own tools"
    elif "connect" in name or "timeout" in name or "endpoint" in name:
        why = "no connection"
        remedy = "check the network and the address of the store, and try again"
    else:  # never its text, which may hold more than people should see
        why = str(getattr(error, "strerror", None) or type(error).__name__).lower()
    return TableError(f"{str(path)!r}: a request to its store failed: {why}; {remedy}")


def _tag_of(facts: dict[str, Any]) -> str | None:
    """Return the store's own word for a content, from what it knows of a file."""
    return next((str(facts[name]).strip('"') for name in _TAGS if facts.get(name)), None)


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
        why = error.strerror or "it is gone"
        raise TableError(f"{str(path)!r} can't be read any more: {why}; put it back") from None
    return facts.st_size, facts.st_mtime_ns


def check_stamp(path: AnyPath, before: tuple[int, int]) -> None:
    """Raise if a file has changed since."""
    if stamp(path) != before:
        raise TableError(f"{str(path)!r} has changed while it was read; do it again when it is complete")


def digest_of_parts(paths: Sequence[AnyPath]) -> str:
    """Return a digest of files by their content: the same after a copy, other after a change in place.

    Of each file it reads size, beginning, end and blocks between them, 2 MB at most, so a larger file may hide a change
    that keeps its size; Parquet has sums of what it holds in its footer. Files of stores have the store's tag instead.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, two = (LocalPath(folder, name) for name in "ab")
    ...     _ = one.write_bytes(b"x,1"), two.write_bytes(b"x,1")
    ...     before = digest_of_parts([one])
    ...     copied = digest_of_parts([two]) == before
    ...     _ = one.write_bytes(b"x,2")
    ...     copied, digest_of_parts([one]) == before
    (True, False)
    """
    seen = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        tag = path.tag()
        seen.update(f"{size} {tag}\0".encode())
        if tag is None:
            with path.open("rb") as file:
                for start in _block_starts(size):
                    file.seek(start)
                    seen.update(file.read(_BLOCK))
    return seen.hexdigest()


def _block_starts(size: int) -> Iterator[int]:
    """Yield where the blocks of a file begin that are looked at: all of them, or as many, spread evenly."""
    last = max(0, size - _BLOCK)
    n_blocks = min(-(-size // _BLOCK), _MOST_BLOCKS)
    yield from (last * k // max(1, n_blocks - 1) for k in range(n_blocks))


def _no_permission(path: AnyPath) -> TableError:
    return TableError(f"no permission to read {str(path)!r}; change its permissions or copy it")
