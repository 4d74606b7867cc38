"""Thumbnails of the gallery show one panel of a figure, large enough to read.

Figures have two or three panels side by side, which a small picture turns into a strip. ``PANELS`` has the panel to
show, and of how many in a row; other pages show their first figure whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

SIZE = (480, 336)
PANELS = {
    "plot_01_first_steps": (1, 3),
    "plot_03_flights": (0, 2),
    "plot_04_when_means_suffice": (1, 2),
    "plot_05_which_distance": (0, 2),
    "plot_07_intervals": (0, 2),
    "plot_08_do_groups_differ": (1, 2),
    "plot_10_bag_sizes": (0, 3),
}


def panel(image: Image.Image, which: int, n_panels: int) -> Image.Image:
    """One panel of a row of equal ones, on white, as large as a thumbnail."""
    step = image.width / n_panels
    part = image.convert("RGB").crop((round(which * step), 0, round((which + 1) * step), image.height))
    part.thumbnail(SIZE, Image.Resampling.LANCZOS)
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
            panel(image, *PANELS.get(page, (0, 1))).save(thumb, optimize=True)


def setup(app: Any) -> dict[str, bool]:
    """Run after the gallery has made its own."""
    app.connect("builder-inited", make_thumbnails, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
