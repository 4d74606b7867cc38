"""How time is taken, what the machine can do, and how much work a run is.

Only ratios of one run mean something. Sides of a comparison therefore take turns in one process, so that a busy moment
of the machine meets all of them alike, and each counts with its best turn.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, sleep
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

SETTLE = 0.05  # seconds before every call: threads of BLAS that have just worked spin for a while and slow others
Side = Callable[[], object]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Size:
    """How large a run is: numbers of bags, turns and sizes of each section."""

    bags_2d: int = 8192
    bags_3d: int = 256
    points_3d: int = 2000
    rule: str | float = "distance"  # of the bandwidth, the default one
    literal_bags: int = 20
    loop_bags: int = 40  # of peers that loop over bags in Python
    pairs: int = 32
    n_nodes: int = 5000  # n_e of the literal recipe
    check_nodes: int = 20_000
    check_bags: int = 24
    n_components: int = 5000
    turns: int = 12
    growth_turns: int = 8
    growth_bags: tuple[int, ...] = (1000, 2000, 4000, 8000, 16000, 32000, 64000)
    least_bags: int = 64_000  # of one turn: small sizes are called several times, to take as long as large ones
    growth_points: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200, 6400, 12800)
    points_bags: int = 1000
    dims_bags: int = 500
    sobol_bags: int = 4
    sobol_dims: tuple[int, ...] = (4, 5, 6, 8)
    growth_components: tuple[int, ...] = (500, 1000, 2000, 4000, 8000, 16000)
    components_rows: int = 2000
    gemm: int = 2048
    copy_bytes: int = 2**28
    share_rows: int = 12_000
    memory_bags: int = 64_000
    memory_runs: int = 2  # engines
    widths: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096)
    crossover_rows: int = 1024
    crossover_turns: int = 5


FULL = Size()
QUICK = Size(
    bags_2d=4096, bags_3d=128, literal_bags=8, loop_bags=10, pairs=10, turns=4, growth_turns=3, points_bags=300,
    growth_bags=(1000, 4000, 16000), least_bags=16_000, growth_points=(100, 400, 1600, 6400), dims_bags=100,
    sobol_bags=2, growth_components=(500, 2000, 8000), components_rows=1000, share_rows=4000, memory_bags=16_000,
    widths=(256, 1024), crossover_turns=2,
)  # fmt: skip
TINY = Size(
    bags_2d=80, bags_3d=6, points_3d=200, rule=0.08, literal_bags=2, loop_bags=2, pairs=2, n_nodes=500, check_bags=8,
    check_nodes=5000, n_components=200, turns=1, growth_turns=1, points_bags=4, growth_bags=(20, 40), least_bags=1,
    growth_points=(50, 100), dims_bags=4, sobol_bags=1, sobol_dims=(4, 5), growth_components=(100, 200),
    components_rows=40, gemm=64, copy_bytes=2**16, share_rows=40, memory_bags=100, memory_runs=1, widths=(64,),
    crossover_rows=32, crossover_turns=1,
)  # fmt: skip


def seconds(side: Side) -> float:
    """Seconds of one call."""
    start = perf_counter()
    side()
    return perf_counter() - start


def in_turns(sides: dict[Key, Side], turns: int, calls: dict[Key, int] | None = None) -> dict[Key, float]:
    """Seconds a call in the best turn of each side.

    Every turn begins with a call that does not count: memory that was free for a while may have to be fetched from far,
    on a virtual machine from the host, and large results would be charged for it. ``calls`` is how often a side is
    called in its turn: where calls are of different length, the noise of the machine must meet all of them alike, and
    the minimum over many short ones would find quiet moments that long ones never see.
    """
    best = dict.fromkeys(sides, np.inf)
    for _ in range(turns):
        for name, side in sides.items():
            sleep(SETTLE)
            side()
            n = calls[name] if calls else 1
            best[name] = min(best[name], sum(seconds(side) for _ in range(n)) / n)
    return best


def one_thread(side: Side) -> Side:
    """The same side while BLAS and OpenMP have one thread."""

    def limited() -> object:
        with threadpool_limits(1):
            return side()

    return limited


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of log y against log x: the power of x by which y grows."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


@contextmanager
def must(what: str):
    """Turn any failed comparison into an AssertionError that says what was compared."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"wrong answer: {what}\n{error}") from error


def close(what: str, found: object, want: object, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise AssertionError where two results differ by more than the tolerances."""
    with must(what):
        np.testing.assert_allclose(np.asarray(found, float), np.asarray(want, float), rtol=rtol, atol=atol)


def correlated(what: str, found: object, want: object, least: float) -> float:
    """Squared correlation of two results; AssertionError below ``least``."""
    r2 = float(np.corrcoef(np.ravel(found), np.ravel(want))[0, 1] ** 2)
    if not r2 >= least:
        raise AssertionError(f"wrong answer: {what}\nR2 is {r2:.4f}, must be at least {least}")
    return r2


# --------------------------------------------------------------------------------------------------------------
# The machine
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Speeds:
    """Operations a second of a float32 matrix product, bytes a second of a copy (read and written)."""

    flops: float
    bytes: float


class Machine:
    """What the machine can do in one thread and in all, as sides that take turns with what is compared to it."""

    def __init__(self, size: Size) -> None:
        self.square = np.random.default_rng(0).normal(size=(size.gemm, size.gemm)).astype(np.float32)
        self.source = np.ones(size.copy_bytes // 4, np.float32)
        self.target = np.zeros_like(self.source)
        arrays = (np.array_split(array, n_cores()) for array in (self.target, self.source))
        self.parts = list(zip(*arrays, strict=True))
        self.sides: dict[object, Side] = {
            "product one": one_thread(self.product),
            "product all": self.product,
            "copy one": lambda: np.copyto(self.target, self.source),
            "copy all": self.copy,
        }

    def product(self) -> np.ndarray:
        """One matrix product."""
        return self.square @ self.square

    def copy(self) -> None:
        """One copy, each core a part."""
        with ThreadPoolExecutor(n_cores()) as pool:
            list(pool.map(lambda part: np.copyto(*part), self.parts))

    def speeds(self, best: dict[str, float]) -> dict[str, Speeds]:
        """Speeds by ``"one"`` and ``"all"``, from the best times of the sides."""
        flops, moved = 2 * len(self.square) ** 3, 2 * self.source.nbytes
        return {
            threads: Speeds(flops / best[f"product {threads}"], moved / best[f"copy {threads}"])
            for threads in ("one", "all")
        }


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def installed(package: str) -> str | None:
    """Version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine_line() -> str:
    """Processor, cores, and versions of what does the work."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    blas = sorted(
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', '?')})"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )
    names = ("numpy", "scipy", "scikit-learn", "numba", "KDEpy", "POT")
    packages = ", ".join(f"{name} {installed(name) or '(not installed)'}" for name in names)
    cores = f"{n_cores()} core{'s' if n_cores() > 1 else ''}"
    return f"{model}, {cores}; Python {platform.python_version()}, {packages}; BLAS: {', '.join(dict.fromkeys(blas))}"
