"""Files in object stores: what :class:`pathlib.Path` is for local ones, by URL, through fsspec.

``s3://bucket/key``, ``gs://``, ``az://``, ``memory://`` and all that fsspec knows. Credentials come from the
environment, or from ``storage_options``; they are no part of the text of a path, and so of no message.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

_TAGS = ("ETag", "etag", "md5Hash", "content_md5")  # of S3, Azure and others, and Google's


class Remote:
    """A file or folder of a store, by its URL.

    Parameters
    ----------
    url : str
        Such as ``s3://bucket/key``. A user and password in it are refused: they would be in messages.
    storage_options : dict, optional
        What fsspec's file system takes.

    Examples
    --------
    >>> path = Remote("memory://doc/t.csv")
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
        return Remote, (str(self), self._options)

    def __str__(self) -> str:
        return f"{self._protocol}://{self._inside}"

    __fspath__ = __str__  # for suffixes; whoever opens it asks it

    def __repr__(self) -> str:
        return f"Remote({str(self)!r})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and str(self) == str(other)

    def __lt__(self, other: Remote) -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{str(self).rstrip('/')}/{name}", self._options)

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

    @property
    def packing(self) -> str | None:
        """How pyarrow is to unpack text: by the name, which it does not know of open files."""
        return {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get(self.suffix.lower())

    def resolve(self) -> Remote:
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
        """Size, and a number that changes with the content."""
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

    def rglob(self, pattern: str) -> list[Remote]:
        """All files below."""
        return [self._sibling(found) for found in self._store.find(self._inside)]

    def iterdir(self) -> list[Remote]:
        """All files below: stores have no folders to speak of."""
        return self.rglob("*")

    def relative_to(self, other: Remote) -> PurePosixPath:
        """The way from a folder to it."""
        return self._pure.relative_to(other._pure)

    def matches(self) -> list[Remote]:
        """What it stands for as a pattern."""
        return [self._sibling(found) for found in sorted(self._store.glob(self._inside))]

    def _sibling(self, found: str) -> Remote:
        return Remote(f"{self._protocol}://{str(found).lstrip('/')}", self._options)
