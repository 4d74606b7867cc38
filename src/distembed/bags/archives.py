"""Bags on disk: NumPy archives without pickle, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..compute.atomic_files import write_whole
from .categories import check_categories
from .checks import validate
from .flat import Parts, few

_FORMAT, _VERSION = "distembed.Bags", 2  # version 1 knew no categories; files without them are still written as such
# What np.load and the zip archive below it raise for bytes that are no archive, or a damaged one.
_UNREADABLE = (ValueError, TypeError, EOFError, OSError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error)


def write_npz(path: str | os.PathLike[str], parts: Parts, compress: bool) -> None:
    """Write parts to an .npz archive, whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"can't save bags to {str(target)!r}: folder {str(target.parent)!r} does not exist")
    if parts.ids is not None and parts.ids.dtype.kind == "O":
        kinds = sorted({type(value).__name__ for value in parts.ids})
        raise TypeError(f"ids must be numbers, text, bytes or dates to be saved, got objects ({', '.join(kinds)})")
    text = None if parts.categories is None else json.dumps(parts.categories)
    plain = {**parts._asdict(), "categories": text}
    entries: dict[str, Any] = {name: np.asarray(value) for name, value in plain.items() if value is not None}
    version = 1 if text is None else _VERSION
    # `format` lists the entries, so that one lost to a damaged directory is missed.
    head: dict[str, Any] = {"format": np.array([_FORMAT, *entries]), "version": np.array(version)}
    with write_whole(target) as file:
        (np.savez_compressed if compress else np.savez)(file, **head, **entries)


def read_npz(path: str | os.PathLike[str]) -> Parts:
    """Return the validated parts in an archive of `write_npz`, without pickle."""
    if Path(path).exists() and not Path(path).is_file():  # a pipe would wait for who writes
        raise ValueError(f"can't read bags from {os.fspath(path)!r}: it is not a regular file")
    with Path(path).open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array, and was not written by Bags.save")
            if not {"format", "version"} <= set(archive.files):
                raise ValueError("it was not written by Bags.save")
            found, *names = np.atleast_1d(archive["format"]).tolist()
            if found != _FORMAT:
                raise ValueError("it was not written by Bags.save")
            version = int(archive["version"])
            if version > _VERSION:
                raise ValueError(
                    f"its format version is {version}, and this distembed reads up to {_VERSION}; upgrade distembed"
                )
            absent = {"points", "offsets", *names} - set(archive.files)
            if absent:
                raise ValueError(f"it lacks {few(sorted(absent))}")
            entries = {key: archive[key] if key in names else None for key in Parts._fields}
            columns = None if entries["columns"] is None else entries["columns"].tolist()
            text = entries.pop("categories")
            parts = validate(**{**entries, "columns": columns})
            if text is not None:
                parts = parts._replace(categories=check_categories(json.loads(str(text)), parts))
            return parts
        except _UNREADABLE as error:
            raise ValueError(f"can't read bags from {os.fspath(path)!r}: {error}") from error
