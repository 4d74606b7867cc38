"""Files that are there whole or not at all, and nothing left beside them.

A file is written under another name in the same folder, brought to the disk, and only then given its name. Whoever
reads meanwhile, or after a crash, finds the old file or the new one. Who writes holds a lock on what is temporary,
which the system drops when the process ends, however it ends: what nobody holds any more is removed by the next.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # no such locks on Windows: nothing is held there, and nothing removed
    fcntl = None  # type: ignore[assignment]

_LEAST_ROOM = 2**20  # bytes that a folder must take before work for a file in it begins
_FLAGS = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER = re.compile(r"distembed-\w{8}")
_HELD = ".held-while-in-use"


def obstacle(path: str | os.PathLike[str]) -> str | None:
    """Why a file can't be written there, and what to do; None if nothing is known to be in the way.

    A megabyte is written beside it and removed: permissions alone do not tell of full disks and read-only systems.

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
        return "it is not a regular file; name another"
    if not os.path.isdir(folder):
        return f"folder {folder!r} does not exist; make it first"
    try:
        with _held(_name_beside(target)) as file:
            file.write(bytes(_LEAST_ROOM))
            file.flush()
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return f"folder {folder!r} takes no file: {why}; {'make room there, or ' if full else ''}name another folder"
    return None


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
        the permissions, of the old one. After an exception the old one is as it was, and the new one is gone. What a
        process that was killed left beside it is removed.

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
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise OSError(f"{os.fspath(path)}: can't be written, because it is {kind}; give the path of a file")
    folder = os.path.dirname(target)
    beside = _name_beside(target)
    try:
        with _held(beside) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.chmod(beside, stat.S_IMODE(mode))
            if fcntl is None:
                file.close()  # Windows renames no open files
            os.replace(beside, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, beside):
            raise
        where = "" if error.filename is None else f" (a new file in {folder})"
        raise OSError(error.errno, f"{error.strerror}{where}", os.fspath(path)) from None  # as the user calls it
    _sync_folder(folder)


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """A new folder for temporary files, which goes at the end of the block; those of dead processes go first.

    Parameters
    ----------
    parent : str or PathLike, optional
        Where; by default the system's folder for such.

    Examples
    --------
    >>> with scratch_folder() as folder:
    ...     os.path.isdir(folder)
    True
    >>> os.path.isdir(folder)
    False
    """
    where = tempfile.gettempdir() if parent is None else os.fspath(parent)
    for entry in _entries(where, _FOLDER):
        if _removed_if_dead(os.path.join(entry, _HELD)):
            shutil.rmtree(entry, ignore_errors=True)
    made = tempfile.TemporaryDirectory(prefix="distembed-", dir=where, ignore_cleanup_errors=True)
    with made as folder, _held(os.path.join(folder, _HELD)):
        yield folder


# --------------------------------------------------------------------------------------------------------------
# What is temporary, and who holds it
# --------------------------------------------------------------------------------------------------------------


def _name_beside(target: str) -> str:
    """A new name in the folder of a file; what dead processes left under such names goes."""
    folder, name = os.path.split(target)
    start = f".{name[:40]}."
    for path in _entries(folder, re.compile(re.escape(start) + r"[0-9a-f]{16}\.tmp")):
        _removed_if_dead(path)
    return os.path.join(folder, f"{start}{secrets.token_hex(8)}.tmp")


def _entries(folder: str, pattern: re.Pattern[str]) -> list[str]:
    """Paths in a folder whose whole names match."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    return []


@contextmanager
def _held(path: str) -> Iterator[BinaryIO]:
    """A new file, locked until the end of the block, when it goes unless it got another name."""
    handle = _made(path)
    while fcntl is not None and not os.fstat(handle).st_nlink:  # removed before it was locked
        os.close(handle)
        handle = _made(path)
    file = os.fdopen(handle, "w+b")
    try:
        yield file
    finally:
        with suppress(OSError):  # what could not be written is told where it was written
            file.close()
        with suppress(OSError):
            os.unlink(path)


def _made(path: str) -> int:
    handle = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    if fcntl is not None:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _removed_if_dead(path: str) -> bool:
    """Remove a file that its maker does not hold any more; whether it was such a one."""
    if fcntl is None:
        return False
    with suppress(OSError):  # another holds it, it is gone, or is not ours
        handle = os.open(path, _FLAGS)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
            return True
        finally:
            os.close(handle)
    return False


def _sync_folder(folder: str) -> None:
    """Bring the new name to the disk too, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
