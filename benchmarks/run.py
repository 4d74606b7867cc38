"""The benchmark: stages, peers, growth, memory, and where structured random features begin to pay.

    python benchmarks/run.py [--quick] [--only SECTION] [--out FOLDER]

One run, everything as ratios within it. Prints the report and writes bench.md, bench.csv, bench_growth.csv and
bench.png to the folder, ``results`` by default. A quick run, or one section, is written only where --out is given.
Every side is compared with an independent computation before it is timed: a wrong answer ends the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import growth
import peers
import random_features
import report
import stages
from timing import FULL, QUICK, Size, machine_line


def crossover(size: Size) -> list[dict]:
    """Dense against Hadamard frequencies."""
    table = random_features.crossover(size.widths, size.crossover_rows, size.crossover_turns)
    scale = 1e6 / size.crossover_rows
    return [
        {"section": "crossover", "name": "dense / hadamard", "m": m, "n_components": n, "us_a_bag": scale * dense,
         "us_hadamard": scale * fast, "value": ratio, "unit": "times as fast", "threads": "all"}
        for m, n, dense, fast, ratio in table
    ]  # fmt: skip


SECTIONS: dict[str, Callable[[Size], list[dict]]] = {
    "stages": stages.run,
    "peers": peers.run,
    "growth": growth.run,
    "memory": growth.memory,
    "crossover": crossover,
}


def run(size: Size, sections: tuple[str, ...] = tuple(SECTIONS), out: Path | None = None) -> dict[str, list[dict]]:
    """Run sections, print the report, and write it to ``out``."""
    start = perf_counter()
    results = {}
    for name in sections:
        results[name] = SECTIONS[name](size)
        print(f"{name}: done after {perf_counter() - start:.0f} s", flush=True)
    kind = {FULL: "full", QUICK: "quick"}.get(size, "tiny")
    text = report.markdown(results, machine_line(), kind)
    print(text)
    if out is not None:
        report.write(results, text, out)
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few turns, below two minutes")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--out", type=Path, help="folder of the results")
    options = parser.parse_args(arguments)
    partial = options.quick or options.only
    out = options.out or (None if partial else Path(__file__).parent.parent / "results")
    run(QUICK if options.quick else FULL, (options.only,) if options.only else tuple(SECTIONS), out)


if __name__ == "__main__":
    main()
