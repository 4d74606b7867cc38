"""``python -m reproduce``: the paper's experiments, step by step, and their reports."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from distembed.cli import options as opt
from distembed.cli import stopping
from distembed.cli.app import Guarded, Screen, complain, explain_if_stopped, outcome
from distembed.compute.progress import clock_time

from . import EXPERIMENTS

if TYPE_CHECKING:
    from .study import Report, Step, Study

_FOLDER = click.Path(path_type=Path)
_VISION = ("PIL", "torch", "torchvision")
_MOST_NAMES = 8  # of missing steps in one line


class _Failure(Exception):
    """An experiment that can't be run, or not to its end: exit code and sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


@click.command(
    "reproduce",
    cls=Guarded,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=opt.example("python -m reproduce gram --quick", "python -m reproduce all --data ~/data --output results"),
)
@click.argument("experiment", type=click.Choice([*EXPERIMENTS, "all"]))
@click.option("--quick", is_flag=True, help="A look of about a minute: fewer bags, seeds and methods.")
@click.option(
    "--data", type=_FOLDER, envvar="DISTEMBED_DATA", metavar="FOLDER",
    help="Real data, for experiments that need some. [default: $DISTEMBED_DATA]",
)  # fmt: skip
@click.option(
    "--cache", type=_FOLDER, metavar="FOLDER", help="Where steps are kept. [default: ~/.cache/distembed/reproduce]"
)
@click.option(
    "--output", "-o", type=_FOLDER, metavar="FOLDER",
    help="Where reports go. [default: results; with --quick results/quick]",
)  # fmt: skip
@click.option(
    "--steps", "patterns", multiple=True, metavar="PATTERN",
    help="Compute only steps whose name matches, such as 'seed 1*'; may be given again.",
)  # fmt: skip
@click.option("--report-only", is_flag=True, help="Compute nothing; report what is there.")
@click.option("--list", "list_only", is_flag=True, help="Show the steps, and which are done.")
@opt.common
def app(screen: Screen, asked: opt.Asked) -> None:
    """Compute an experiment of the paper, and write its report.

    Each step is kept as soon as it is done: a command that was stopped goes on where it was, and what is there is not
    computed again. The report is a page in Markdown, with tables as CSV and figures as PNG.

    Several processes can share an experiment by --steps. None of them knows what another is just computing: a step that
    two compute is kept twice, and the last one stays.
    """
    asked.output = asked.output or (Path("results", "quick") if asked.quick else Path("results"))
    _check(asked)
    context = click.get_current_context()
    names = EXPERIMENTS if asked.experiment == "all" else (asked.experiment,)
    found: list[dict[str, Any]] = []
    failures: dict[str, _Failure] = {}
    for name in names:
        try:
            answer = _one(name, asked, screen, of_all=len(names) > 1)
        except _Failure as failure:
            failures[name] = failure
            answer = {"experiment": name, "error": failure.sentence}
            if failure.__cause__ is not None and getattr(context.find_root().command, "debug", False):
                traceback.print_exception(failure.__cause__)
            complain(failure.sentence)
        found += [answer] if answer else []
    if not found:
        raise click.UsageError(f"--steps {asked.patterns[0]!r}: no step has such a name; --list shows all")
    if len(names) > 1 or not failures:
        screen.result({"command": "reproduce", "quick": asked.quick, "experiments": found})
    if failures:
        if len(names) > 1:
            complain(f"{len(found) - len(failures)} of {len(found)} experiments are done; not {', '.join(failures)}")
        context.exit(next(iter(failures.values())).code)


def _check(asked: opt.Asked) -> None:
    """Refuse, before any work, what can't end well."""
    if asked.report_only and asked.list_only:
        raise click.UsageError("--list and --report-only exclude each other; choose one")
    if asked.report_only and asked.patterns:
        raise click.UsageError("--steps chooses what is computed, and --report-only computes nothing; leave one out")
    for option, folder in (("--output", asked.output), ("--cache", asked.cache)):
        if folder is None or asked.list_only:
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
    except (_Failure, click.ClickException):
        raise
    except Exception as error:
        if stopping():
            raise KeyboardInterrupt from None
        name = what.partition(":")[0]
        code, sentence = outcome(error)
        text = " ".join(str(error).split())
        if isinstance(error, FileNotFoundError) and error.filename is None:  # of Study.find, which tells the remedy
            code = 2
            said = text
        elif isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _VISION:
            said = f"{name}: needs {str(error.name).partition('.')[0]}: pip install 'distembed[vision]'"
        elif isinstance(error, OSError) and error.filename is not None:
            said = f"{what}: {sentence}{kept}"
        elif isinstance(error, ImportError) and "pip install" in sentence:
            said = sentence if sentence.startswith(f"{name}:") else f"{name}: {sentence}"
        else:
            described = ": ".join(filter(None, (type(error).__name__, text)))
            code = 1
            said = f"{what} failed: {described}{kept}; --debug shows where"
        raise _Failure(code, said) from error


def _one(name: str, asked: opt.Asked, screen: Screen, of_all: bool) -> dict[str, Any] | None:
    """Compute and report one experiment; None if none of its steps is wanted."""
    with _blaming(name):
        from . import get

        study = get(name)(quick=asked.quick, data=asked.data, cache=asked.cache)
        chosen = asked.patterns or ("*",)
        steps = [step for step in study.checked_steps() if any(fnmatchcase(step.name, each) for each in chosen)]
        kept = {step.name: study.cache.get(name, step) for step in steps}
    if not steps:
        return None
    done = {step: float(found.get("seconds", 0.0)) for step, found in kept.items() if found is not None}
    if asked.list_only:
        return _list(study, steps, done, screen)
    if not asked.report_only:
        _compute(study, steps, done, screen, f" of {name}" if of_all else "")
    with _blaming(f"{name}: the report"):
        return _report(study, asked, screen)


def _compute(study: Study, steps: Sequence[Step], done: dict[str, float], screen: Screen, of_which: str) -> None:
    """Compute what is missing, a line for each step; ``done`` has the seconds of what is there."""
    missing = [step for step in steps if step.name not in done]
    if not missing:
        return
    name = study.name
    total = f"{len(steps):,}"
    if done:
        screen.note(f"{name}: {len(done):,} of {total} steps are done; going on from there")

    def how_to_go_on() -> str:
        return f"stopped; {len(done):,} of {total} steps{of_which} are kept, and the same command goes on from there"

    with explain_if_stopped(how_to_go_on), screen.bar(f"{name}: getting ready", unit="") as bar:
        with _blaming(f"{name}: getting ready"):
            study.prepare(bar)
        for step in missing:
            bar.begin(f"{name}: {step.name}", None)
            with _blaming(f"{name}: step {step.name!r}", f"; {len(done)} of {len(steps)} steps are kept"):
                found = study.cache.get(name, step)
                start = perf_counter()
                if found is None:  # else another process was faster
                    study.run(step)
            done[step.name] = perf_counter() - start if found is None else float(found.get("seconds", 0.0))
            left = sum(done.values()) / len(done) * (len(steps) - len(done))
            more = f"; {clock_time(left)} left" if len(done) < len(steps) else ""
            screen.note(f"{name}: {len(done):,} of {total}: {step.name} ({duration(done[step.name])}){more}")


def _report(study: Study, asked: opt.Asked, screen: Screen) -> dict[str, Any]:
    """Write the report, and show what is first in it."""
    from .study import write_report

    results = study.results()
    all_steps = [step.name for step in study.steps()]
    missing = [name for name in all_steps if name not in results]
    words = f"python -m reproduce {study.name}" + " --quick" * asked.quick
    if not results:
        where = f"none of its {len(all_steps)} steps is in {str(study.cache.folder)!r}"
        raise _Failure(2, f"{study.name}: {where}; compute them by {words}")
    seconds = sum(float(found.get("cpu_seconds", 0.0)) for found in results.values())
    made_of = f"Made by `{words}`: {len(results):,} steps, which took {duration(seconds)} of one core."
    if missing:
        names = "; ".join(missing[:_MOST_NAMES])
        others = len(missing) - _MOST_NAMES
        more = f"; and {others:,} more, see --list" if others > 0 else ""
        screen.note(f"{study.name}: {len(missing):,} of {len(all_steps):,} steps are missing: {names}{more}")
        more = " and others" if others > 0 else ""
        made_of += f"\n**Not complete:** {len(missing):,} more steps are missing: {names}{more}."
    report = study.report(results)
    written = write_report(report, study.name, asked.output, made_of)
    _show(report, written, screen)
    return {
        "experiment": study.name,
        "title": report.title,
        "steps": {"done": len(results), "total": len(all_steps), "missing": missing},
        "findings": report.findings,
        "tables": {
            table.name: {"title": table.title, "columns": table.columns, "rows": table.rows} for table in report.tables
        },
        "files": [str(path) for path in written],
    }


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
    rows = [(step.name, duration(done[step.name]) if step.name in done else "missing") for step in steps]
    screen.table(f"{study.name}: {study.summary}", ("step", f"{len(done):,} of {len(steps):,} done"), rows)
    return {
        "experiment": study.name,
        "summary": study.summary,
        "needs_data": study.needs_data,
        "steps": [{"name": step.name, "done": step.name in done, "seconds": done.get(step.name)} for step in steps],
    }


def duration(seconds: float) -> str:
    """Seconds as one says them.

    Examples
    --------
    >>> duration(1.234), duration(75), duration(7260)
    ('1.2 s', '1:15', '2:01:00')
    """
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s" if seconds < 59.5 else clock_time(seconds)
