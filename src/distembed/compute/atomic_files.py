"""Files that are there whole or not at all.

A file is written under another name in the same folder, brought to the disk, and only then given its name. Whoever
reads meanwhile, or after a crash, finds the old file or the new one.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


def obstacle(path: str | os.PathLike[str]) -> str | None:
    """Why a file can't be written there, and what to do; None if nothing is known to be in the way.

    Examples
    --------
    >>> obstacle("/")
    'it is a directory; name a file in it'
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        return "it is a directory; name a file in it"
    if os.path.exists(target) and not os.path.isfile(target):
        return "it is no ordinary file; name another"
    return None if os.path.isdir(folder) else f"folder {folder!r} does not exist; make it first"


@contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to be written whole or not at all.

    Parameters
    ----------
    path : str or PathLike
        Where the file is to be. A link is followed: what it points to is replaced. Its folder must be there.

    Yields
    ------
    binary file
        A new file beside it, which can be read, written and sought. At the end of the block it takes the place, and
        the permissions, of the old one. After an exception the old one is as it was, and the new one is gone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_whole(os.path.join(folder, "a")) as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['a']
    """
    target = os.path.realpath(path)
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(target).st_mode
    if mode is not None and not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no ordinary file"
        raise OSError(f"{os.fspath(path)}: can't be written, because it is {kind}; give the path of a file")
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(beside, flags, 0o666)
    except OSError as error:  # the name of the user's file, not that of the one beside it
        raise type(error)(error.errno, f"{error.strerror} (a new file in {folder})", os.fspath(path)) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Bring the new name to the disk too, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
