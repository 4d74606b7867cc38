"""Pictures of the command line: those of :mod:`distembed.plot`, in files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..compute.atomic_files import write_whole


def save_figure(figure: Any, path: str) -> None:
    """Write a picture, in the format of its suffix (PNG by default)."""
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    image = io.BytesIO()
    figure.savefig(image, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    with write_whole(path) as file:
        file.write(image.getvalue())
