"""Use the library hard for up to an hour, and report what held and what did not.

    python tools/soak.py [--minutes 60] [--only kills bags ...] [--seed 0] [--out results/soak.md]

Parts that run commands have one core, parts that work in this process the other. In each of these lanes parts run one
after the other, each until its count or its share of the time is reached. What fails is a finding in the report; the
seed repeats it. The report is written anew after each part.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
MOST_FINDINGS = 12  # of a part that are shown


@dataclass
class Part:
    """A part of the soak: what it promises, what came of it, and when it must end."""

    name: str
    promise: str
    wanted: int
    share: float  # of the time
    run: Callable[[Part], None]
    lane: int = 2  # 0: alone, because it forks; 1: commands, which run in processes of their own; 2: this process
    seed: int = 0
    deadline: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of this part."""
        return np.random.default_rng([self.seed, len(self.name), *self.name.encode()])

    def goes_on(self, done: int) -> bool:
        """Whether there is more to do, and time for it."""
        return done < self.wanted and time.monotonic() < self.deadline

    def finding(self, text: str) -> None:
        """Something that does not hold."""
        self.counts["findings"] += 1
        self.findings.append(" ".join(text.split())[:600])


def statistics(part: Part) -> None:
    """Coverage of intervals, and levels of tests where there is no difference."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    import distembed as de
    from distembed.two_sample import bags_test, groups_test

    rng, covered, rejected = part.rng, [], Counter[str]()
    done = 0
    while part.goes_on(done):
        y = rng.normal(size=160)
        bags = de.as_bags(rng.normal(y[:, None, None], 1, size=(160, 20, 1)))
        model = de.conformal.ConformalRegressor(
            make_pipeline(de.MomentEmbedding("mean"), LinearRegression()), coverage=0.8, random_state=done
        )
        low, high = model.fit(bags[:80], y[:80]).predict_interval(bags[80:]).T
        covered.append(float(np.mean((low <= y[80:]) & (y[80:] <= high))))
        x = rng.normal(size=(2, 40, 2))
        rejected["bags"] += bags_test(*x, random_state=done, n_permutations=199).pvalue <= 0.05
        groups = [[rng.normal(rng.normal(0, 0.3), 1, size=30) for _ in range(8)] for _ in range(2)]
        rejected["groups"] += groups_test(*groups, random_state=done, n_permutations=199).pvalue <= 0.05
        done += 1
    part.counts["repetitions"] = done
    error = 4 * np.sqrt(0.8 * 0.2 / 80 / max(done, 1)) + 0.03
    mean = float(np.mean(covered))
    part.notes.append(f"coverage of intervals of 80 %: {mean:.3f} (allowed {0.8 - error:.3f} to {0.8 + error:.3f})")
    if abs(mean - 0.8) > error:
        part.finding(f"coverage {mean:.3f} where 0.8 was promised, over {done} repetitions")
    for name, count in rejected.items():
        level, most = count / done, 0.05 + 4 * np.sqrt(0.05 * 0.95 / done)
        part.notes.append(f"test of {name} at 0.05 where nothing differs: {level:.3f} (allowed up to {most:.3f})")
        if level > most:
            part.finding(f"the test of {name} rejects {level:.3f} at 0.05, over {done} repetitions")


def vulnerabilities(part: Part) -> None:
    """Known vulnerabilities of what is installed, where a source of advisories can be had."""
    if importlib.util.find_spec("pip_audit") is None:
        part.notes.append("pip-audit is not installed here, so that no advisory was looked at: `pip install pip-audit`")
        return
    words = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--skip-editable"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        part.notes.append("no source of advisories answered within two minutes")
        return
    part.counts["audits"] = 1
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    unknown = [line for line in said if "could not be audited" in line]
    if unknown:
        part.notes.append(f"{len(unknown)} packages are not known to the source of advisories, and were not looked at")
    if "ConnectionError" in done.stderr or "Max retries" in done.stderr:
        part.notes.append("no source of advisories can be reached from here")
    elif done.returncode:
        part.finding("; ".join(said[-10:]))
    elif not unknown:
        part.notes.append(said[0] if said else "no known vulnerabilities")


def parts() -> list[Part]:
    """All parts, in the order in which they run."""
    import soak_bags
    import soak_commands
    import soak_seams
    import soak_tables

    return [
        Part(
            "kills", "Commands that are stopped at random moments by SIGINT, SIGTERM or SIGKILL end with one line and "
            "130 or 143; outputs are whole or absent; the same command then goes on to the same result, and nothing "
            "is left beside it.", 200, 0.27, soak_commands.kills, 1,
        ),
        Part(
            "sharing", "Three processes on one command all end well, with the result of one.", 6, 0.08,
            soak_commands.sharing, 1,
        ),
        Part(
            "disks", "Full disks and folders that can't be written: one line that names the file, and the old file "
            "stays.", 12, 0.05, soak_commands.disks, 1,
        ),
        Part(
            "changes", "Tables that change while they are read: a result or one line, never a crash.", 60, 0.08,
            soak_commands.changes, 1,
        ),
        Part(
            "tables", "Bad tables through every command: a result, or one line with a remedy and code 2; nobody takes "
            "more than 20 s or 2 GB.", 300, 0.10, soak_tables.tables, 0,
        ),
        Part(
            "ids", "Ids in one form for points, in another for labels: the same scores as for equal forms, or one line "
            "with a remedy and code 2; rows never meet by their position.", 120, 0.05, soak_seams.ids, 0,
        ),
        Part(
            "labels", "Classes in one form for the fit, in another for the evaluation (1, 1.0, \"1\", true): the same "
            "scores, or one line.", 80, 0.03, soak_seams.labels, 0,
        ),
        Part(
            "names", "Escapes, ends of lines and formulas in ids, columns, classes and names of files: a result or one "
            "line, and nothing is shown that a terminal would obey.", 60, 0.03, soak_seams.names, 0,
        ),
        Part(
            "bags", "Random bags through every embedding and learner: features are finite, do not depend on the order "
            f"of points nor on the other bags of a call, and are equal across engines and threads, to "
            f"{soak_bags.TOLERANCE:g} of how far bags differ ({soak_bags.SINGLE:g} in single precision) and "
            f"a few roundings of points and features; or a ValueError with a remedy.", 50_000, 0.27, soak_bags.bags,
        ),
        Part(
            "statistics", "Intervals cover what they promise, and tests reject no more than they say.", 300, 0.04,
            statistics,
        ),
        Part("vulnerabilities", "No known vulnerability in what is installed.", 1, 0.0, vulnerabilities),
    ]  # fmt: skip


def report(done: list[Part], minutes: float, path: Path) -> None:
    """Write what is known so far."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    lines = [
        "# Soak",
        "",
        f"Made by `python tools/soak.py --minutes {minutes:g}`, of which `make soak` is an hour, on version {commit},",
        f"Python {platform.python_version()}, {platform.system()}. What does not hold is listed as a finding.",
        "",
        "| part | seconds | done | findings |",
        "|---|---|---|---|",
    ]
    for part in done:
        counts = ", ".join(f"{name} {n:,}" for name, n in sorted(part.counts.items()) if name != "findings")
        lines.append(f"| {part.name} | {part.seconds:.0f} | {counts or '-'} | {len(part.findings)} |")
    for part in done:
        lines += ["", f"## {part.name[0].upper()}{part.name[1:]}", "", part.promise, ""]
        lines += [f"- {note}" for note in part.notes]
        lines += [f"- **finding**: {text}" for text in part.findings[:MOST_FINDINGS]]
        if len(part.findings) > MOST_FINDINGS:
            lines.append(f"- and {len(part.findings) - MOST_FINDINGS} more")
        if part.counts and not part.findings:
            lines.append("- all held")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Run the parts and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="at most")
    parser.add_argument("--only", nargs="*", help="names of parts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "soak.md")
    asked = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it, and commands would too
    chosen = [part for part in parts() if not asked.only or part.name in asked.only]
    if not chosen:
        parser.error("no such part")
    total = sum(part.share for part in chosen) or 1.0
    end, one_at_a_time = time.monotonic() + 60 * asked.minutes, threading.Lock()

    def run_lane(lane: list[Part]) -> None:
        for i, part in enumerate(lane):
            start = time.monotonic()
            left = sum(each.share for each in chosen if each.lane > part.lane == 0) + sum(x.share for x in lane[i:])
            part.seed, part.deadline = asked.seed, start + (end - start) * part.share / (left or 1.0)
            if part.wanted > 20:
                part.wanted = max(1, round(part.wanted * min(1.0, asked.minutes / 60 / total)))
            try:
                part.run(part)
            except Exception as error:  # of the soak itself
                part.finding(f"the part ended early: {type(error).__name__}: {error}")
            part.seconds = time.monotonic() - start
            with one_at_a_time:
                report([each for each in chosen if each.seconds], asked.minutes, asked.out)
                print(f"{part.name}: {dict(part.counts)} in {part.seconds:.0f} s", flush=True)
                for text in part.findings:
                    print(f"  {text}", flush=True)

    alone, commands, here = ([part for part in chosen if part.lane == lane] for lane in range(3))
    run_lane(alone)
    beside = threading.Thread(target=run_lane, args=(commands,))
    beside.start()
    run_lane(here)  # alarms are for the main thread
    beside.join()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
