"""Fit by a cluster while its workers and clients are killed, and report whether the model stays the same.

    python tools/soak_cluster.py [--small] [--only bits kills clients faults memory speed] [--seed 0]
                                 [--out results/soak_cluster.md]

Everything runs on this machine, in processes of one thread each. What does not hold is a finding in the report, which
is written anew after each part; the seed repeats the moments at which processes are killed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
POINTS = 50  # of a bag, on average
MEMORY = 2**30  # bytes that a worker may take


@dataclass
class Part:
    """A part of the soak: what it promises, and what came of it."""

    name: str
    promise: str
    lines: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def check(self, holds: bool, what: str) -> None:
        """Note something that must hold."""
        if not holds:
            self.findings.append(what)


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    bags: int = 20_000  # of fits that are disturbed
    components: int = 500
    kills: int = 30
    clients: int = 10
    memory_components: int = 5000
    speed_bags: int = 200_000
    speed_components: int = 2000


SMALL = Sizes(
    bags=1500, components=100, kills=3, clients=2, memory_components=500, speed_bags=8000, speed_components=500
)


# --------------------------------------------------------------------------------------------------------------
# Tables, fits, clusters
# --------------------------------------------------------------------------------------------------------------


def write(folder: Path, n_bags: int, seed: int = 0) -> Path:
    """A table in order of its bags, one in no order, and labels; written a piece at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    sizes = rng.integers(POINTS // 2, 3 * POINTS // 2, n_bags)
    spread = rng.uniform(0.5, 2, n_bags)
    np.save(folder / "labels.npy", spread)
    schema = pa.schema({"id": pa.int64(), "x": pa.float32(), "y": pa.float32()})
    with parquet.ParquetWriter(folder / "sorted.parquet", schema) as out:
        for first in range(0, n_bags, 5000):
            own = np.repeat(np.arange(first, min(first + 5000, n_bags)), sizes[first : first + 5000])
            points = (rng.normal(size=(len(own), 2)) * spread[own, None]).astype(np.float32)
            columns = {"id": own, "x": points[:, 0], "y": points[:, 1]}
            out.write_table(pa.table(columns, schema=schema), row_group_size=50_000)
    return folder


def shuffle(folder: Path, seed: int = 0) -> None:
    """The same rows in no order."""
    from pyarrow import parquet

    table = parquet.read_table(folder / "sorted.parquet")
    order = np.random.default_rng(seed).permutation(len(table))
    parquet.write_table(table.take(order), folder / "shuffled.parquet", row_group_size=50_000)


def learner(components: int) -> Any:
    """What is fitted: no search, so that nearly all of the time is that of the workers."""
    import distembed as de

    return de.DistributionRegressor("js", n_components=components, tune=None, max_search_bags=1000, random_state=0)


def fit(folder: Path, components: int, client: Any, name: str = "sorted", rows: int = 100_000, **more: Any) -> Any:
    """A model of the table in a folder."""
    from distembed import cluster

    table = cluster.open(folder / f"{name}.parquet", bag="id", partition_rows=rows)
    labels = dict(enumerate(np.load(folder / "labels.npy").tolist()))
    return cluster.fit(learner(components), table, labels, client=client, **more)


def digest(model: Any) -> str:
    """The bits of a model."""
    return hashlib.sha256(model.model_.head.ridge.coef_.tobytes()).hexdigest()[:16]


@contextmanager
def workers(n: int, **config: Any) -> Iterator[Any]:
    """A client of so many processes."""
    import dask
    from distributed import Client, LocalCluster

    how = {"n_workers": n, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.config.set(config), LocalCluster(**how) as local, Client(local) as client:
        client.wait_for_workers(n)
        yield client


def peak(pid: int) -> int:
    """Most memory that a process had, in bytes; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


# --------------------------------------------------------------------------------------------------------------
# Parts
# --------------------------------------------------------------------------------------------------------------


def bits(part: Part, sizes: Sizes, folder: Path, seed: int) -> None:
    """Workers, parts and orders."""
    import distembed as de

    shuffle(folder, seed)
    spread = np.load(folder / "labels.npy")
    every = de.tables.read_bags(folder / "sorted.parquet", bag="id")
    sample = de.cluster.fitting.sample_of(every.ids, 1000, 0)
    some = every[sample]
    found: dict[tuple[str, int], dict[int, str]] = {}
    predicted: dict[tuple[str, int], Any] = {}
    cases = [("sorted", 30_000), ("sorted", 100_000), ("sorted", 10**9), ("shuffled", 100_000)]
    for n in (1, 2):
        with workers(n) as client:
            for case in cases:
                model = fit(folder, sizes.components, client, *case)
                found.setdefault(case, {})[n] = digest(model)
                predicted[case] = model.predict(some)
    for case, by in found.items():
        part.check(by[1] == by[2], f"{case}: one and two workers give other bits")
        apart = np.abs(predicted[case] - predicted[cases[0]]).max() / spread.std()
        limit = 1e-4  # points, and so features, are float32
        part.check(apart < limit, f"{case}: predictions are {apart:.1e} deviations from those of other parts")
        part.lines.append(f"{case[0]}, parts of {case[1]:,} rows: {by[1]}, {apart:.1e} deviations from the first")
    one = learner(sizes.components)
    one.fit_batches(lambda: iter([(some, spread[sample])]))
    same = fit_of_sample(folder, sizes.components, sample, spread)
    apart = np.abs(same.predict(some) - one.predict(some)).max() / spread.std()
    part.check(apart < 1e-4, f"the fit on one machine is {apart:.1e} deviations away")
    part.lines.append(f"1,000 bags by a cluster and on one machine: {apart:.1e} deviations apart")


def fit_of_sample(folder: Path, components: int, sample: Any, spread: Any) -> Any:
    """A fit by a cluster to the bags that one machine has, too."""
    from distembed import cluster

    with workers(1) as client:
        table = cluster.open(folder / "sorted.parquet", bag="id", partition_rows=50_000)
        labels = dict(zip(sample.tolist(), spread[sample].tolist(), strict=True))
        return cluster.fit(learner(components), table, labels, missing="drop", client=client)


def kills(part: Part, sizes: Sizes, folder: Path, seed: int) -> None:
    """Workers that are killed at random moments."""
    rng, most, n_killed = np.random.default_rng([seed, 1]), 0, 0
    with workers(2) as client:
        start = time.monotonic()
        wanted = digest(fit(folder, sizes.components, client))
        usual = time.monotonic() - start
    for run in range(sizes.kills):
        with workers(2) as client:
            timers = []
            for _ in range(int(rng.integers(1, 4))):
                timers.append(threading.Timer(float(rng.uniform(0, 1.2 * usual)), kill_one, (client, rng)))
                timers[-1].start()
            try:
                found = digest(fit(folder, sizes.components, client))
                part.check(found == wanted, f"run {run}: other bits")
            except Exception as error:
                part.check(False, f"run {run}: {type(error).__name__}: {error}"[:300])
            n_killed += sum(not timer.is_alive() for timer in timers)
            for timer in timers:
                timer.cancel()
                timer.join()
            most = max([most, *(peak(pid) for pid in pids(client))])
    part.check(most < MEMORY, f"a worker had {most / 2**20:,.0f} MB")
    part.lines.append(f"{sizes.kills} runs, {n_killed} workers killed while they ran; {usual:.1f} s undisturbed")
    part.lines.append(f"most memory of a worker that lived to the end: {most / 2**20:,.0f} MB")


def pids(client: Any) -> list[int]:
    """Processes of the workers."""
    try:
        return list(client.run(os.getpid, on_error="ignore").values())
    except Exception:  # a worker that dies just then
        return []


def kill_one(client: Any, rng: Any, what: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to one of the workers."""
    there = [pid for pid in pids(client) if isinstance(pid, int)]
    if there:
        try:
            os.kill(int(rng.choice(there)), what)
        except ProcessLookupError:
            return


def clients(part: Part, sizes: Sizes, folder: Path, seed: int) -> None:
    """Clients that are killed, with their workers, and started again."""
    rng = np.random.default_rng([seed, 2])
    components = 4 * sizes.components  # long enough for kills to come while sums are kept
    with workers(2) as client:
        wanted = digest(fit(folder, components, client))
    command = [sys.executable, __file__, "--child", str(folder), "--components", str(components)]
    for run in range(sizes.clients):
        kept, kills, found = folder / f"kept-{run}", list[int](), ""
        while not found:
            child = subprocess.Popen(
                [*command, "--checkpoint", str(kept)], stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            wanted_files = int(rng.integers(1, 4)) if len(kills) < 2 else 10**6
            while child.poll() is None and _files(kept) < wanted_files:
                time.sleep(0.01)
            try:
                found = child.communicate(timeout=float(rng.uniform(0, 0.3)))[0].strip() or "no model"
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                kills.append(_files(kept))
        part.check(bool(kills), f"run {run}: ended before it was killed")
        part.check(found == wanted, f"run {run}: {found} after {len(kills)} kills")
        part.check(not _files(kept), f"run {run}: files are left in the checkpoint")
        part.lines.append(f"run {run}: killed {len(kills)} times, with {', '.join(map(str, kills))} files kept")


def _files(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.exists() else 0


def faults(part: Part, sizes: Sizes, folder: Path, seed: int) -> None:
    """A worker that is stopped for good, and a part that kills whoever works on it."""
    from dataclasses import replace

    from distembed import cluster
    from distembed.cluster.engine import lazily

    with workers(2) as client:
        wanted = digest(fit(folder, sizes.components, client))
    with workers(2, **{"distributed.scheduler.worker-ttl": "10s"}) as client:
        rng, stopped = np.random.default_rng([seed, 3]), pids(client)
        timer = threading.Timer(1.0, os.kill, (stopped[0], signal.SIGSTOP))
        timer.start()
        found = digest(fit(folder, sizes.components, client))
        part.check(found == wanted, "a stopped worker: other bits")
        timer.join()
        try:
            os.kill(stopped[0], signal.SIGKILL)
        except ProcessLookupError:
            rng.random()
    part.lines.append("a worker that was stopped (SIGSTOP) and left by the scheduler after its ttl: the same bits")
    table = cluster.open(folder / "sorted.parquet", bag="id", partition_rows=100_000)
    poison = lazily(os._exit, 1, key="distembed-soak-read-1-0")
    table = replace(table, parts=[table.parts[0], poison])
    said = ""
    with workers(2) as client:
        try:
            cluster.fit(learner(50), table, {0: 1.0}, missing="drop", client=client)
        except RuntimeError as error:
            said = str(error)
    part.check("partition 1" in said and "given up" in said, f"a part that kills workers: {said or 'no error'}")
    part.lines.append(f"a part that kills workers: {said}")


def memory(part: Part, sizes: Sizes, folder: Path, seed: int) -> None:
    """Large sums over many parts, by one worker, which keeps all that wait for others, and by two, which send them."""
    from distembed import cluster

    table = cluster.open(folder / "sorted.parquet", bag="id", partition_rows=1)
    for n in (1, 2):
        with workers(n) as client:
            at_first = max(peak(pid) for pid in pids(client))
            fit(folder, sizes.memory_components, client, rows=1)
            most = max(peak(pid) for pid in pids(client))
        part.check(most < MEMORY, f"a worker of {n} had {most / 2**20:,.0f} MB")
        part.lines.append(
            f"D = {sizes.memory_components:,}, {len(table.parts)} parts, {n} worker{'s' * (n > 1)}: "
            f"{most / 2**20:,.0f} MB at most, {at_first / 2**20:,.0f} MB before the first task"
        )


def speed(part: Part, sizes: Sizes, folder: Path, seed: int) -> None:
    """One worker and two, in turns."""
    with tempfile.TemporaryDirectory() as name:
        large = write(Path(name), sizes.speed_bags, seed)
        seconds: dict[int, list[float]] = {1: [], 2: []}
        most = 0
        for _ in range(2):
            for n in (1, 2):
                with workers(n) as client:
                    fit(folder, 50, client)  # workers have imported all they need
                    start = time.monotonic()
                    fit(large, sizes.speed_components, client, rows=250_000)
                    seconds[n].append(time.monotonic() - start)
                    most = max([most, *(peak(pid) for pid in pids(client))])
    ratio = min(seconds[1]) / min(seconds[2])
    part.check(ratio >= 1.7, f"two workers are {ratio:.2f} times as fast as one")
    part.check(most < MEMORY, f"a worker had {most / 2**20:,.0f} MB")
    told = ", ".join(f"{n}: {' and '.join(f'{each:.1f}' for each in seconds[n])} s" for n in seconds)
    part.lines.append(
        f"{sizes.speed_bags:,} bags, D = {sizes.speed_components:,}; workers {told}; two are {ratio:.2f} times as fast"
    )
    part.lines.append(f"most memory of a worker: {most / 2**20:,.0f} MB")


PARTS: dict[str, tuple[Callable[[Part, Sizes, Path, int], None], str]] = {
    "bits": (bits, "one and two workers give the same bits; parts and order of rows change rounding alone"),
    "kills": (kills, "up to three workers killed at random moments: the same bits, below 1 GB each"),
    "clients": (clients, "clients killed and started again with a checkpoint: the same bits, nothing left over"),
    "faults": (faults, "a stopped worker changes nothing; a part that kills workers is named"),
    "memory": (memory, "workers stay below 1 GB with sums of 5,000 features"),
    "speed": (speed, "two workers are at least 1.7 times as fast as one, below 1 GB each"),
}


def report(parts: list[Part], sizes: Sizes, out: Path) -> None:
    """Write what was found."""
    lines = [
        "# Soak of the cluster",
        "",
        f"`python tools/soak_cluster.py` on {platform.machine()}, {os.cpu_count()} cores; {sizes}.",
        "",
    ]
    for part in parts:
        held = "holds" if not part.findings else f"**{len(part.findings)} findings**"
        lines += [f"## {part.name}: {held}", "", f"{part.promise} ({part.seconds:.0f} s).", ""]
        lines += [f"- {line}" for line in part.lines] + [f"- finding: {line}" for line in part.findings] + [""]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small tables and few kills, for a look")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "soak_cluster.md")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--components", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        with workers(2) as client:
            print(digest(fit(asked.child, asked.components, client, checkpoint=asked.checkpoint)))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sizes, done = SMALL if asked.small else Sizes(), []
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), sizes.bags, asked.seed)
        for each in asked.only:
            work, promise = PARTS[each]
            part, start = Part(each, promise), time.monotonic()
            try:
                work(part, sizes, folder, asked.seed)
            except Exception as error:
                part.findings.append(f"{type(error).__name__}: {error}"[:500])
            part.seconds = time.monotonic() - start
            done.append(part)
            print(f"{each}: {'holds' if not part.findings else part.findings} ({part.seconds:.0f} s)", flush=True)
            report(done, sizes, asked.out)
    sys.exit(any(part.findings for part in done))


if __name__ == "__main__":
    main()
