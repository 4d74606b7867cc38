"""Attack model files: mutate small models of every kind, open them, and let what opens predict.

    python tools/fuzz.py [--mutations 100000] [--first 0] [--out results/fuzz.md]

Mutation i is drawn from a generator seeded by i, so that ``--first i --mutations 1`` repeats a finding. The worker is a
process of its own, whose memory is limited to what it has before, what a file of that size may claim (512 MB and 100
times its bytes, see ``distembed.files.claims``) and 200 MB. One that dies or hangs is a finding, too, and another takes
its place.

Each mutation ends in one of:

============ ===========================================================================================================
refused      ``load`` raises a ModelFileError
predicts     ``load`` and all predictions return
says why not a prediction raises an error of ``REFUSALS``: the model does not take these bags, and says so
raw error    anything else, also of ``distembed info``: a finding, as are ``slow`` (two seconds of processor time, ten
             for files that claim, repeat or nest), ``memory`` and ``crash``
============ ===========================================================================================================
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from mutations import MEMORY, Sample, corpus, mutation

from distembed import Bags
from distembed.bags.estimators import BagInput
from distembed.cli.app import app
from distembed.compute import checks
from distembed.files import ModelFileError, info, load
from distembed.files.claims import Allowance
from distembed.files.model_files import REFUSALS, first_step, small_input

SLOW = 2.0  # seconds of the processor
SLOW_CLAIMS = 10.0  # of files that claim as much as a file of their size may
HANGS = 300.0  # seconds of the clock without a message, on however busy a machine
SPARE = 200 * 2**20
FINDINGS = ("raw error", "slow", "memory", "crash")
SPAWN = multiprocessing.get_context("spawn")  # locks of threads do not survive a fork
METHODS = ("predict", "predict_proba", "predict_interval", "predict_set", "transform")

# --------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------


def ending_of(path: Path, asked: Any, options: dict[str, Any]) -> tuple[str, str]:
    """How a file ends, and for findings what was said."""
    try:
        str(info(path))
    except ModelFileError:
        pass
    except Exception as error:
        return "raw error", said(error)
    try:
        model = load(path)
    except ModelFileError as error:
        return ("memory", said(error)) if isinstance(error.__cause__, MemoryError) else ("refused", "")
    except Exception as error:
        return "raw error", said(error)
    shown = CliRunner().invoke(app, ["info", str(path)])
    if shown.exception is not None and not isinstance(shown.exception, SystemExit):
        return ("memory" if isinstance(shown.exception, MemoryError) else "raw error"), said(shown.exception)
    ending = "predicts"
    try:
        if not fits(first_step(model), asked):
            asked, options = small_input(model, np.float64)
        for method in METHODS:
            if hasattr(model, method):
                getattr(model, method)(asked, **(options if method != "transform" else {}))
    except MemoryError as error:
        return "memory", said(error)
    except Exception as error:
        ending = "says why not" if isinstance(error, REFUSALS) else "raw error"
        return ending, said(error) if ending == "raw error" else ""
    return ending, ""


def fits(first: Any, asked: Any) -> bool:
    """Whether the first step of a model takes what the model was saved for.

    The rest of a chain may take rows, and a model of rows that claims other columns gets those: then the claim is used.
    """
    if isinstance(first, BagInput) or isinstance(asked, Bags):
        return isinstance(first, BagInput) == isinstance(asked, Bags)
    return getattr(first, "n_features_in_", None) in (None, np.shape(asked)[1])


def said(error: BaseException) -> str:
    """An error in one line, with the innermost line of code."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:160]}"


def work(samples: list[Sample], numbers: range, pipe: Any) -> None:
    """Judge mutations, each in two messages: which one comes next, and how it ended; None while it is warming up."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=MEMORY) as folder:
        path = Path(folder) / "m.distembed"
        for sample in samples:  # so that no import, cache or compiled code counts
            pipe.send(None)
            path.write_bytes(sample.data)
            for checks.LARGE_WORK in (np.inf, 0):
                ending, why = ending_of(path, sample.asked, sample.options)
                assert ending == "predicts", f"{sample.name}: {ending}, {why}"
        for i in numbers:
            way, sample, data = mutation(i, samples)
            path.write_bytes(data)
            pipe.send((i, way, sample.name))
            checks.LARGE_WORK = 0 if i % 2 else np.inf  # compiled code for every other one
            slow = SLOW_CLAIMS if "claims" in way or "parts" in way else SLOW
            with limited_memory(int(Allowance(len(data)).memory) + SPARE):
                for _ in range(2):
                    start = time.process_time()
                    ending, why = ending_of(path, sample.asked, sample.options)
                    seconds = time.process_time() - start
                    if seconds <= slow or ending in FINDINGS:
                        break  # else once more: code for other types of numbers is compiled once
            if seconds > slow and ending not in FINDINGS:
                ending, why = "slow", f"{seconds:.1f} s"
            pipe.send((i, way, sample.name, ending, why))


@contextlib.contextmanager
def limited_memory(more: int) -> Iterator[None]:
    """Let this process have so many bytes more than it has."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


# --------------------------------------------------------------------------------------------------------------
# The report
# --------------------------------------------------------------------------------------------------------------


class Tally:
    """Counts of endings by way and by model, and all findings."""

    def __init__(self) -> None:
        self.ways: Counter[tuple[str, str]] = Counter()
        self.models: Counter[tuple[str, str]] = Counter()
        self.findings: list[str] = []

    def add(self, i: int, way: str, model: str, ending: str, why: str) -> None:
        """Count one mutation."""
        self.ways[way, ending] += 1
        self.models[model, ending] += 1
        if ending in FINDINGS:
            self.findings.append(f"{i}: {ending}, {way} of {model!r}: {why}")
            print(self.findings[-1], flush=True)

    def table(self, counts: Counter[tuple[str, str]], head: str) -> str:
        """Counts as a table of Markdown."""
        endings = ["refused", "predicts", "says why not", *FINDINGS]
        lines = [f"| {head} | mutations | {' | '.join(endings)} |", "|---|" + "---:|" * (len(endings) + 1)]
        names = list(dict.fromkeys(name for name, _ in counts))
        for name in [*sorted(names), "all"]:
            row = [sum(n for (each, e), n in counts.items() if name in (each, "all") and e == end) for end in endings]
            lines.append(f"| {name} | {sum(row):,} | {' | '.join(f'{n:,}' for n in row)} |")
        return "\n".join(lines)

    def report(self, samples: list[Sample], first: int, seconds: float) -> str:
        """What ``results/fuzz.md`` holds."""
        n = sum(self.ways.values())
        found = "\n".join(f"- {each}" for each in self.findings[:100]) or "None."
        return (
            f"# Hostile model files\n\n`make fuzz`: {n:,} mutations (numbers {first:,} to {first + n - 1:,}) of "
            f"{len(samples)} models in {seconds / 60:.0f} minutes, one process. `tools/fuzz.py` describes the columns"
            ". The last four are findings: an error that is not in words, two seconds of processor time (ten for "
            "files that claim, repeat or nest), more memory than 712 MB and 100 times the size of the file, and a "
            "process that died.\n\n"
            f"{self.table(self.ways, 'mutated')}\n\n{self.table(self.models, 'model')}\n\n## Findings\n\n{found}\n"
        )


def fuzz(samples: list[Sample], numbers: range, seconds: float = np.inf) -> Tally:
    """Judge mutations, as many as the time allows; a worker that dies or hangs is a finding, and another goes on."""
    tally, ends = Tally(), time.monotonic() + seconds
    while numbers and time.monotonic() < ends:
        here, there = multiprocessing.Pipe(duplex=False)
        process = SPAWN.Process(target=work, args=(samples, numbers, there), daemon=True)
        process.start()
        there.close()
        message: Any = None
        try:
            while time.monotonic() < ends and here.poll(HANGS):
                received = here.recv()
                if received is None:  # it warms up
                    continue
                message = received
                if len(message) > 3:
                    tally.add(*message)
                numbers = numbers[message[0] + 1 - numbers.start :]
            ending = "slow", f"no end in {HANGS:.0f} s"
            process.kill()
            process.join()
        except EOFError:
            process.join()
            ending = "crash", f"exit {process.exitcode}"
        if message is None:
            raise RuntimeError(f"a worker did not begin ({ending[1]}); its message is above")
        if time.monotonic() < ends and process.exitcode:  # perhaps after its last judgement: heaps break late
            tally.add(*message[:3], *ending)
    return tally


def main(arguments: list[str] | None = None) -> int:
    """Run and write the report; the exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Attack model files.")
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="end after so long, whatever is left")
    parser.add_argument("--models", nargs="*", default=(), help="names of models; all by default")
    parser.add_argument("--out", type=Path, help="where the report goes")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        samples = corpus(Path(folder), asked.models)
    start = time.monotonic()
    tally = fuzz(samples, range(asked.first, asked.first + asked.mutations), asked.seconds)
    text = tally.report(samples, asked.first, time.monotonic() - start)
    print(text)
    if asked.out is not None:
        asked.out.write_text(text)
    return int(bool(tally.findings))


if __name__ == "__main__":
    sys.exit(main())
