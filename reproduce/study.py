"""What an experiment is: steps that are computed once and kept on disk, and a report that is made of them.

    settings -> steps -> (cache) -> results -> tables, figures, findings -> one Markdown page, CSV and PNG files

A step is a function and all that decides its result, as plain values: their digest, with the version of the study,
names its file in the cache. Work that was stopped goes on with the first step that is not there; a step whose settings
have changed has another file.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from distembed.compute.atomic_files import write_whole
from distembed.compute.parallel import one_blas_thread
from distembed.compute.progress import Stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Mapping[str, Mapping[str, Any]]  # of steps, by name

_DAMAGE = (BadZipFile, EOFError, KeyError, NotImplementedError, ValueError, zlib.error)  # what bad bytes make of a load


def default_cache() -> Path:
    """Where steps are kept unless told otherwise: ``distembed/reproduce`` in the user's folder of caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "distembed" / "reproduce"


@dataclass(frozen=True)
class Step:
    """A piece of work.

    Attributes
    ----------
    name : str
        Unique in its study, for the progress bar and the report.
    settings : mapping of str to plain values
        All that decides the result.
    compute : callable
        Returns a dict of numbers, text and arrays.
    """

    name: str
    settings: Mapping[str, Any]
    compute: Callable[[], Mapping[str, Any]] = field(compare=False)


class Cache:
    """Results of steps in a folder, one npz file each, without pickle.

    Parameters
    ----------
    folder : Path
        Made when something is kept.
    version : int
        Of the study; what another version has kept is not found.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache, step = Cache(Path(folder)), Step("sum", {"n": 3}, lambda: {"total": np.arange(3).sum(), "of": "0-2"})
    ...     print(cache.get("sums", step))
    ...     cache.keep("sums", step, step.compute())
    ...     cache.get("sums", step)
    None
    {'total': 3, 'of': '0-2'}
    """

    def __init__(self, folder: Path, version: int = 1) -> None:
        self.folder = folder
        self.version = version
        self._damaged: set[Path] = set()  # of which a warning has told

    def path(self, study: str, step: Step) -> Path:
        """The file of a step."""
        settings = json.dumps([self.version, dict(step.settings)], sort_keys=True)
        return self.folder / study / f"{hashlib.sha256(settings.encode()).hexdigest()[:20]}.npz"

    def get(self, study: str, step: Step) -> dict[str, Any] | None:
        """What was kept of a step, or None. A damaged file is as if it were not there, and a warning tells so once."""
        path = self.path(study, step)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:  # NumPy leaves bad files open
                values = {name: kept[name] for name in kept.files if name != "_settings"}
        except FileNotFoundError:
            return None
        except _DAMAGE as error:
            if path not in self._damaged:
                self._damaged.add(path)
                warnings.warn(
                    f"{path}: damaged ({type(error).__name__}), so step {step.name!r} of {study} counts as not done",
                    stacklevel=2,
                )
            return None
        return {name: value if value.ndim else value.item() for name, value in values.items()}

    def keep(self, study: str, step: Step, found: Mapping[str, Any]) -> None:
        """Keep the result of a step."""
        arrays: dict[str, Any] = {key: np.asarray(value) for key, value in found.items()}
        wrong = [key for key, array in arrays.items() if array.dtype.hasobject]
        if wrong:
            raise TypeError(
                f"step {step.name!r}: its result {wrong[0]!r} must be a number, text or an array of them, got "
                f"{found[wrong[0]]!r}; leave it out, or say it in numbers"
            )
        path = self.path(study, step)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = json.dumps({"name": step.name, "version": self.version, "settings": dict(step.settings)}, sort_keys=True)
        with write_whole(path) as file:
            np.savez_compressed(file, _settings=np.array(kept), **arrays)


@dataclass(frozen=True)
class Table:
    """A table of a report: ``rows`` of text and numbers; numbers have the digits that are to be seen."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass
class Report:
    """What a study has found.

    Attributes
    ----------
    title : str
    introduction : str
        Markdown: what was done, on what, by which rules.
    findings : list of str
        A sentence each, with figures; ``confirmed``, ``refuted`` or ``tie`` where the paper claims something.
    tables : list of Table
    figures : dict of str to Figure
        By name.
    """

    title: str
    introduction: str
    findings: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)


class Study(ABC):
    """One experiment of the paper.

    Parameters
    ----------
    quick : bool
        A minute's version: fewer bags, seeds and methods.
    data : Path or None
        Folder of the real data.
    cache : Path or None
        Folder of what is computed; None for :func:`default_cache`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # a line of help
    needs_data: ClassVar[bool] = False
    smaller: ClassVar[Mapping[str, Any]] = {}  # attributes that are others if quick
    version: ClassVar[int] = 1  # one more when the same settings mean something else; then all is computed again

    def __init__(self, *, quick: bool = False, data: Path | None = None, cache: Path | None = None) -> None:
        self.quick = quick
        self.data = data
        vars(self).update(self.smaller if quick else {})
        self.cache = Cache(cache or default_cache(), self.version)

    @abstractmethod
    def steps(self) -> list[Step]:
        """All pieces of work, in order."""

    @abstractmethod
    def report(self, results: Results) -> Report:
        """Tables and figures of the steps that are there."""

    def introduction(self, **values: Any) -> str:
        """The text that the page of the study begins with: a file of ``introductions``, with values in its fields."""
        page = Path(__file__).with_name("introductions") / f"{self.name}.md"
        return page.read_text(encoding="utf-8").format(**values)

    def prepare(self, progress: Stages) -> None:  # noqa: B027 - most need none
        """Long work that all steps need, and that keeps its own files; ``progress`` is told of its stages."""

    def checked_steps(self) -> list[Step]:
        """All steps, after a look whether two have one name or, because their settings are the same, one file."""
        steps = self.steps()
        by_name: dict[str, Step] = {}
        by_file: dict[Path, Step] = {}
        for step in steps:
            if by_name.setdefault(step.name, step) is not step:
                raise ValueError(f"{self.name}: two steps are called {step.name!r}; name one of them otherwise")
            other = by_file.setdefault(self.cache.path(self.name, step), step)
            if other is not step:
                raise ValueError(
                    f"{self.name}: steps {other.name!r} and {step.name!r} have the same settings, so that one would "
                    "overwrite the other in the cache; say in the settings what sets them apart"
                )
        return steps

    def missing(self) -> list[Step]:
        """Steps that are not in the cache."""
        return [step for step in self.checked_steps() if self.cache.get(self.name, step) is None]

    def run(self, step: Step) -> None:
        """Compute one step on one core, and keep its result with the seconds it took.

        ``cpu_seconds`` of the process do not depend on what else the machine does; ``seconds`` do.
        """
        with one_blas_thread():
            start = perf_counter()
            cpu = process_time()
            found = dict(step.compute())
            found |= {"seconds": perf_counter() - start, "cpu_seconds": process_time() - cpu} | found
        self.cache.keep(self.name, step, found)

    def results(self) -> dict[str, dict[str, Any]]:
        """All that is in the cache, by the names of steps."""
        found = {step.name: self.cache.get(self.name, step) for step in self.checked_steps()}
        return {name: result for name, result in found.items() if result is not None}

    def find(self, *names: str) -> Path:
        """A file or folder of the real data, or an error that tells where to get it."""
        folder = self.data or os.environ.get("DISTEMBED_DATA")
        if not folder:
            raise FileNotFoundError(
                f"{self.name}: needs real data; give their folder with --data, or set DISTEMBED_DATA "
                "(docs/experiments.md tells which files, and where they come from)"
            )
        path = Path(folder, *names)
        if not path.exists():
            raise FileNotFoundError(
                f"{self.name}: {path} is not there; docs/experiments.md tells which files --data must hold, and where "
                "they come from"
            )
        return path


# --------------------------------------------------------------------------------------------------------------
# Reports on disk
# --------------------------------------------------------------------------------------------------------------


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches that no window belongs to."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures of reports need matplotlib: pip install 'distembed[plot]'") from error
    made: Figure = Figure(figsize=(width, height), layout="constrained")
    return made


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
