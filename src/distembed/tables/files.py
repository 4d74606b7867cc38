"""Files of tables: their formats by suffix, those that a directory or a glob names, and those that can't be read."""

from __future__ import annotations

import glob
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..bags.checks import few
from .errors import TableError

__all__ = ["FORMATS", "format_of", "list_files", "reading", "unreadable"]

FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Feather",
    ".arrow": "Feather",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".npz": "npz",
}
_PACKED = (".gz", ".bz2", ".zst")


def format_of(path: Path) -> str | None:
    """Return the format that the suffix of a path tells, or None."""
    last = [suffix.lower() for suffix in path.suffixes[-2:]]
    if len(last) == 2 and last[1] in _PACKED:
        return "CSV" if FORMATS.get(last[0]) == "CSV" else None
    return FORMATS.get(last[-1]) if last else None


def list_files(source: Any) -> tuple[Path, ...]:
    """Return the files of a path, a directory, a glob, or several of them: those of a directory sorted by name."""
    if not isinstance(source, str | os.PathLike | Sequence) or isinstance(source, bytes):
        raise TypeError(
            f"source must be a path, a glob, a directory or a list of these, got {type(source).__name__}; a table in "
            "memory is read by Bags.from_frame"
        )
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    files = [file for entry in entries for file in _matches(Path(entry))]
    if not files:
        raise TableError("source names no files, got an empty list; give a path, a directory or a glob")
    kinds = {format_of(file): file for file in files}
    if len(kinds) > 1:
        raise TableError(
            f"tables must all have one format, got {few(sorted(str(file) for file in kinds.values()))}; name those of "
            "one format, for example by a glob such as '*.parquet'"
        )
    if len(set(files)) < len(files):
        twice = next(file for file in files if files.count(file) > 1)
        raise TableError(f"each file must be named once, got {str(twice)!r} more than once; leave out the second")
    return tuple(files)


def _matches(path: Path) -> list[Path]:
    known = ", ".join(FORMATS)
    try:
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*")) if format_of(file) and file.is_file()]
            hidden = {file for file in inside if any(part[0] in "._" for part in file.relative_to(path).parts)}
            if len(hidden) == len(inside):
                raise TableError(f"directory {str(path)!r} holds no tables ({known}); name another directory or a file")
            return [file for file in inside if file not in hidden]
        exists = path.exists()
    except OSError as error:
        raise unreadable(path, error) from None
    if not exists and any(sign in str(path) for sign in "*?["):
        found = sorted(glob.glob(str(path), recursive=True))
        if not found:
            raise TableError(f"no file matches {str(path)!r}; check the pattern")
        return [file for match in found for file in _matches(Path(match))]
    if not exists:
        raise TableError(f"no such file: {str(path)!r}; check the path")
    if format_of(path) is None:
        raise TableError(f"{str(path)!r} has an unknown suffix; tables are {known}, and CSV may end in .gz")
    return [path]


def unreadable(path: Path, error: Exception) -> TableError:
    """Return the error for a file whose bytes can't be read."""
    if isinstance(error, PermissionError):
        return TableError(f"no permission to read {str(path)!r}; change its permissions or copy it")
    if "UTF8" in str(error):
        return TableError(f"{str(path)!r} is not UTF-8 text; save it as UTF-8")
    kind = format_of(path)
    return TableError(
        f"{str(path)!r} is no readable {kind} file: it is damaged, cut off or of another format; write it again, or "
        "correct its suffix"
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the libraries raise for bytes they can't read into one sentence."""
    try:
        yield
    except (TableError, ImportError):
        raise
    # pyarrow's errors are ValueErrors, OSErrors and NotImplementedErrors; zlib's are none of these.
    except (ValueError, OSError, NotImplementedError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from None
