"""``distembed reproduce``: the paper's experiments, step by step, and their reports."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..reproduce import EXPERIMENTS
from ._app import Stopped, _verdict
from ._options import common, example
from ._screen import Screen, complain

if TYPE_CHECKING:
    from ..reproduce.study import Report, Step, Study

__all__ = ["command"]

_VISION = ("PIL", "torch", "torchvision")
_MOST_NAMES = 8  # of missing steps in one line


class _Failure(Exception):
    """An experiment that can't be run, or not to its end: exit code and sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


@dataclass(frozen=True)
class _Wish:
    """What the user has asked for."""

    quick: bool
    data: Path | None
    cache: Path | None
    output: Path
    patterns: tuple[str, ...]
    report_only: bool
    list_only: bool

    def wanted(self, step: Step) -> bool:
        return not self.patterns or any(fnmatchcase(step.name, pattern) for pattern in self.patterns)


@click.command(
    "reproduce",
    short_help="The paper's experiments: tables, figures, findings.",
    epilog=example("distembed reproduce gram --quick", "distembed reproduce all --data ~/data --output results"),
)
@click.argument("experiment", type=click.Choice([*EXPERIMENTS, "all"]))
@click.option("--quick", is_flag=True, help="A look of about a minute: fewer bags, seeds and methods.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="DISTEMBED_DATA",
    metavar="FOLDER",
    help="Real data, for experiments that need some. [default: $DISTEMBED_DATA]",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where steps are kept. [default: ~/.cache/distembed/reproduce]",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where reports go. [default: results; with --quick results/quick]",
)
@click.option(
    "--steps",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Compute only steps whose name matches, such as 'seed 1*'; may be given again.",
)
@click.option("--report-only", is_flag=True, help="Compute nothing; report what is there.")
@click.option("--list", "list_only", is_flag=True, help="Show the steps, and which are done.")
@common
def command(screen: Screen, experiment: str, output: Path | None, **options: Any) -> None:
    """Compute an experiment of the paper, and write its report.

    Each step is kept as soon as it is done: a command that was stopped goes on where it was, and what is there is not
    computed again. The report is a page in Markdown, with tables as CSV and figures as PNG.

    Several processes can share an experiment by --steps. None of them knows what another is just computing: a step that
    two compute is kept twice, and the last one stays.
    """
    usual = Path("results", "quick") if options["quick"] else Path("results")
    wish = _Wish(output=output or usual, **options)
    _check(wish)
    context = click.get_current_context()
    names = EXPERIMENTS if experiment == "all" else (experiment,)
    found: list[dict[str, Any]] = []
    failures: dict[str, _Failure] = {}
    for name in names:
        try:
            answer = _one(name, wish, screen, of_all=len(names) > 1)
        except _Failure as failure:
            failures[name] = failure
            answer = {"experiment": name, "error": failure.sentence}
            if failure.__cause__ is not None and getattr(context.find_root().command, "debug", False):
                traceback.print_exception(failure.__cause__)
            complain(failure.sentence)
        found += [answer] if answer else []
    if not found:
        raise click.UsageError(f"--steps {wish.patterns[0]!r}: no step has such a name; --list shows all")
    if len(names) > 1 or not failures:
        screen.result({"command": "reproduce", "quick": wish.quick, "experiments": found})
    if failures:
        if len(names) > 1:
            complain(f"{len(found) - len(failures)} of {len(found)} experiments are done; not {', '.join(failures)}")
        context.exit(next(iter(failures.values())).code)


def _check(wish: _Wish) -> None:
    """Refuse, before any work, what can't end well."""
    if wish.report_only and wish.list_only:
        raise click.UsageError("--list and --report-only exclude each other; choose one")
    if wish.report_only and wish.patterns:
        raise click.UsageError("--steps chooses what is computed, and --report-only computes nothing; leave one out")
    for option, folder in (("--output", wish.output), ("--cache", wish.cache)):
        if folder is None or wish.list_only:
            continue
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise click.UsageError(f"{option} {str(folder)!r}: {str(there)!r} is a file; name a folder")
        if not os.access(there, os.W_OK):
            raise click.UsageError(f"{option} {str(folder)!r}: {str(there)!r} can't be written; name another folder")


@contextmanager
def _blaming(what: str, kept: str = "") -> Iterator[None]:
    """Errors as the exit code and the sentence that they come to."""
    try:
        yield
    except (_Failure, Stopped, click.ClickException):
        raise
    except Exception as error:
        raise _as_failure(error, what, kept) from error


def _as_failure(error: Exception, what: str, kept: str) -> _Failure:
    name = what.partition(":")[0]
    text = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of Study.find, which tells the remedy
        return _Failure(2, text)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _VISION:
        return _Failure(1, f"{name}: needs {str(error.name).partition('.')[0]}: pip install 'distembed[vision]'")
    code, sentence = _verdict(error)
    if isinstance(error, OSError) and error.filename is not None:
        return _Failure(code, f"{what}: {sentence}{kept}")
    if isinstance(error, ImportError) and "pip install" in sentence:
        return _Failure(code, sentence if sentence.startswith(f"{name}:") else f"{name}: {sentence}")
    return _Failure(
        1, f"{what} failed: {': '.join(filter(None, (type(error).__name__, text)))}{kept}; --debug shows where"
    )


def _one(name: str, wish: _Wish, screen: Screen, of_all: bool) -> dict[str, Any] | None:
    """Compute and report one experiment; None if none of its steps is wanted."""
    with _blaming(name):
        from ..reproduce import get

        study = get(name)(quick=wish.quick, data=wish.data, cache=wish.cache)
        steps = [step for step in study.checked_steps() if wish.wanted(step)]
        kept = {step.name: study.cache.get(name, step) for step in steps}
    if not steps:
        return None
    done = {step: float(found.get("seconds", 0.0)) for step, found in kept.items() if found is not None}
    if wish.list_only:
        return _list(study, steps, done, screen)
    if not wish.report_only:
        _compute(study, steps, done, screen, f" of {name}" if of_all else "")
    with _blaming(f"{name}: the report"):
        return _report(study, wish, screen)


def _compute(study: Study, steps: Sequence[Step], done: dict[str, float], screen: Screen, of_which: str) -> None:
    """Compute what is missing; what is done, and in how many seconds, is added to ``done``."""
    from ._steps import Pace, Steps, preparing

    missing = [step for step in steps if step.name not in done]
    if not missing:
        return
    pace = Pace(done.values(), len(steps))
    if done:
        screen.note(f"{study.name}: {len(done):,} of {len(steps):,} steps are done; going on from there")
    try:
        with _blaming(f"{study.name}: getting ready"), preparing(screen, study.name) as begin:
            study.prepare(begin)
        progress = Steps(screen, study.name, pace)
        with progress.shown():
            for step in missing:
                with _blaming(f"{study.name}: step {step.name!r}", f"; {pace.n_done} of {len(steps)} steps are kept"):
                    found = study.cache.get(study.name, step)
                    if found is not None:  # another process was faster
                        progress.found(float(found.get("seconds", 0.0)))
                        continue
                    with progress.step(step.name):
                        study.run(step)
    except KeyboardInterrupt:
        kept = f"{pace.n_done:,} of {len(steps):,} steps{of_which}"
        raise Stopped(f"stopped; {kept} are kept, and the same command goes on from there") from None


def _report(study: Study, wish: _Wish, screen: Screen) -> dict[str, Any]:
    """Write the report, and show what is first in it."""
    from ..reproduce.study import write_report

    results = study.results()
    all_steps = [step.name for step in study.steps()]
    missing = [name for name in all_steps if name not in results]
    if not results:
        more = " --quick" if wish.quick else ""
        raise _Failure(
            2,
            f"{study.name}: none of its {len(all_steps)} steps is in {str(study.cache.folder)!r}; "
            f"compute them by distembed reproduce {study.name}{more}",
        )
    if missing:
        names = "; ".join(missing[:_MOST_NAMES])
        more = f"; and {len(missing) - _MOST_NAMES:,} more, see --list" if len(missing) > _MOST_NAMES else ""
        screen.note(f"{study.name}: {len(missing):,} of {len(all_steps):,} steps are missing: {names}{more}")
    report = study.report(results)
    written = write_report(report, study.name, wish.output, _made_of(study, wish, results, missing))
    _show(report, written, screen)
    return {
        "experiment": study.name,
        "title": report.title,
        "steps": {"done": len(results), "total": len(all_steps), "missing": missing},
        "findings": report.findings,
        "tables": {
            table.name: {
                "title": table.title,
                "columns": list(table.columns),
                "rows": [list(row) for row in table.rows],
            }
            for table in report.tables
        },
        "files": [str(path) for path in written],
    }


def _made_of(study: Study, wish: _Wish, results: dict[str, dict[str, Any]], missing: Sequence[str]) -> str:
    """A sentence of the page: which command, how many steps, and how long they took."""
    from ._steps import duration

    words = f"distembed reproduce {study.name}" + " --quick" * wish.quick
    seconds = sum(float(found.get("cpu_seconds", 0.0)) for found in results.values())
    lines = [f"Made by `{words}`: {len(results):,} steps, which took {duration(seconds)} of one core."]
    if missing:
        names = "; ".join(missing[:_MOST_NAMES]) + " and others" * (len(missing) > _MOST_NAMES)
        lines.append(f"**Not complete:** {len(missing):,} more steps are missing: {names}.")
    return "\n".join(lines)


def _show(report: Report, written: Sequence[Path], screen: Screen) -> None:
    screen.line(report.title)
    for finding in report.findings:
        screen.line(f"- {finding}")
    screen.line()
    if report.tables:
        table = report.tables[0]
        rows = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
        screen.table(table.title, list(table.columns), rows)
    screen.line("\n".join(str(path) for path in written) + "\n")


def _list(study: Study, steps: Sequence[Step], done: dict[str, float], screen: Screen) -> dict[str, Any]:
    """Show the steps and which are done."""
    from ._steps import duration

    rows = [(step.name, duration(done[step.name]) if step.name in done else "missing") for step in steps]
    screen.table(f"{study.name}: {study.summary}", ("step", f"{len(done):,} of {len(steps):,} done"), rows)
    return {
        "experiment": study.name,
        "summary": study.summary,
        "needs_data": study.needs_data,
        "steps": [{"name": step.name, "done": step.name in done, "seconds": done.get(step.name)} for step in steps],
    }
