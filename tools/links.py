"""Follow every link inside a built site: to a file, and each fragment to an id. ``make docs`` runs it."""

from __future__ import annotations

import argparse
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Ids of a page, and where it leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the tag names."""
        values = {name: value for name, value in attrs if value}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self.links |= {values[name] for name in ("href", "src") if name in values}


@cache
def read(path: Path) -> Page:
    """The page at a path."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def dead_links(root: Path) -> tuple[list[str], int]:
    """Links that lead nowhere, as sentences, and the number of all that were followed."""
    dead, n_links = [], 0
    for path in sorted(root.rglob("*.html")):
        for link in sorted(read(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            n_links += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            if not target.exists():
                dead.append(f"{path.relative_to(root)}: {link} is not there")
            elif fragment and target.suffix == ".html" and fragment not in read(target).ids:
                dead.append(f"{path.relative_to(root)}: {link} has no such place")
    return dead, n_links


def main(arguments: list[str] | None = None) -> int:
    """Print dead links; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="the folder of the built site")
    dead, n_links = dead_links(parser.parse_args(arguments).root)
    print("\n".join([*dead, f"{n_links} links inside the site, {len(dead)} dead"]))
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
