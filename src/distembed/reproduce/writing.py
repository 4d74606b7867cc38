"""Reports on disk: one Markdown page, a CSV file a table, a PNG file a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..compute.atomic_files import write_whole
from .study import Report, Table

__all__ = ["as_markdown", "write_report"]


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")


def as_markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown.

    Examples
    --------
    >>> print(as_markdown(("method", "RMSE"), [("JS", 1.47), ("L2", None)]))
    | method | RMSE |
    |---|---|
    | JS | 1.47 |
    | L2 |  |
    """
    lines = [header, *rows]
    texts = [f"| {' | '.join(map(_cell, line))} |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(header), *texts[1:]])


def _as_csv(table: Table) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return text.getvalue().encode()


def write_report(report: Report, study: str, folder: Path, note: str = "") -> list[Path]:
    """Write a report.

    Parameters
    ----------
    report : Report
    study : str
        Files are called after it: ``<study>.md``, ``<study>_<table>.csv``, ``<study>_<figure>.png``.
    folder : Path
        Made if it is not there.
    note : str
        Markdown that stands below the introduction: what the report was made of.

    Returns
    -------
    list of Path
        The page first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = [text for text in (f"# {report.title}", report.introduction.strip(), note.strip()) if text]
    if report.findings:
        page += ["## Findings", "\n".join(f"- {finding}" for finding in report.findings)]
    written = []
    for name, figure in report.figures.items():
        path = folder / f"{study}_{name}.png"
        with write_whole(path) as file:
            figure.savefig(file, format="png", dpi=130)
        page.append(f"![{name}]({path.name})")
        written.append(path)
    for table in report.tables:
        path = folder / f"{study}_{table.name}.csv"
        with write_whole(path) as file:
            file.write(_as_csv(table))
        page += [f"## {table.title}", as_markdown(table.columns, table.rows)]
        written.append(path)
    path = folder / f"{study}.md"
    with write_whole(path) as file:
        file.write(("\n\n".join(page) + "\n").encode())
    return [path, *written]
