"""Thumbnails of the gallery show one panel of a figure, large enough to read.

Figures have two or three panels side by side, which a small picture turns into a strip. ``PANELS`` has the panel to
show, by shares of the width; other pages show their first figure whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

SIZE = (480, 336)
PANELS = {
    "plot_00_your_table": (0.0, 0.4),
    "plot_01_first_steps": (0.4, 0.56),
    "plot_02_mixed_columns": (0.67, 1.0),
    "plot_03_flights": (0.0, 0.5),
    "plot_04_when_means_suffice": (0.53, 1.0),
    "plot_05_which_distance": (0.0, 0.35),
    "plot_07_intervals": (0.0, 0.59),
    "plot_08_do_groups_differ": (0.5, 1.0),
    "plot_10_bag_sizes": (0.0, 0.33),
    "plot_11_your_own_distance": (0.34, 0.66),
    "plot_12_single_cells": (0.26, 0.65),
    "plot_13_a_million_bags": (0.0, 0.34),
    "plot_14_why_this_prediction": (0.0, 0.49),
    "plot_15_without_labels": (0.47, 1.0),
}


def panel(image: Image.Image, left: float, right: float) -> Image.Image:
    """The part of a figure between two shares of its width, on white, as large as a thumbnail."""
    part = image.convert("RGB").crop((round(left * image.width), 0, round(right * image.width), image.height))
    factor = min(SIZE[0] / part.width, SIZE[1] / part.height)
    part = part.resize((round(factor * part.width), round(factor * part.height)), Image.Resampling.LANCZOS)
    made = Image.new("RGB", SIZE, "white")
    made.paste(part, ((SIZE[0] - part.width) // 2, (SIZE[1] - part.height) // 2))
    return made


def make_thumbnails(app: Any) -> None:
    """Draw the thumbnails of all pages that have a figure."""
    images = Path(app.srcdir) / "gallery" / "images"
    for path in sorted(images.glob("sphx_glr_plot_*_001.png")):
        page = path.name.removeprefix("sphx_glr_").removesuffix("_001.png")
        thumb = images / "thumb" / f"sphx_glr_{page}_thumb.png"
        with Image.open(path) as image:
            panel(image, *PANELS.get(page, (0.0, 1.0))).save(thumb, optimize=True)


def setup(app: Any) -> dict[str, bool]:
    """Run after the gallery has made its own."""
    app.connect("builder-inited", make_thumbnails, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
