"""Peak memory of one ``transform``, in a process that does nothing else: ``python memory.py ENGINE N_BAGS``.

Prints JSON. The peak is the system's high-water mark of this process (VmHWM). getrusage would not do: its ru_maxrss is
inherited from the parent that started the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from cases import N_LAMBDAS, with_engine

import distembed as de

STATUS = Path("/proc/self/status")


def resident(field: str) -> int:
    """Bytes: ``VmRSS`` now, or ``VmHWM`` the most so far."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def main(engine: str, n_bags: int) -> dict[str, object]:
    points = np.empty((200 * n_bags, 2), np.float32)
    np.random.default_rng(0).random(out=points, dtype=np.float32)  # in place: no peak before the one to measure
    bags = de.Bags(points, np.arange(0, len(points) + 1, 200))
    embedding = with_engine(engine, n_lambdas=N_LAMBDAS, bandwidth=0.04).fit(bags[:20])
    embedding.transform(bags[:2])  # loads what is loaded once: libraries and compiled code
    if not STATUS.exists():
        import tracemalloc

        tracemalloc.start()
        out = embedding.transform(bags)
        beyond, how = tracemalloc.get_traced_memory()[1] - out.nbytes, "tracemalloc"
    else:
        before = resident("VmRSS")
        out = embedding.transform(bags)
        beyond, how = resident("VmHWM") - before - out.nbytes, "peak less what was resident before and the output"
    return {"input": points.nbytes, "output": out.nbytes, "beyond": max(0, beyond), "how": how}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
