"""Work on chunks in threads: NumPy releases the lock, so threads share memory and lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import threadpool_info, threadpool_limits

__all__ = ["n_threads", "run_chunks"]

Chunk = TypeVar("Chunk")


def n_threads(n_jobs: int | None) -> int:
    """Threads to use: ``n_jobs`` as in joblib; None means as many as BLAS may use.

    Inside a worker of joblib, or under ``OMP_NUM_THREADS=1``, BLAS may use one, and so do we: no oversubscription.
    """
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    counts = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    return max(counts, default=1)


def run_chunks(work: Callable[[Chunk], None], chunks: Iterable[Chunk], n_jobs: int | None) -> None:
    """Call ``work`` on every chunk, in as many threads as :func:`n_threads` says, BLAS single-threaded in each."""
    chunks = list(chunks)
    threads = min(n_threads(n_jobs), len(chunks)) if len(chunks) > 1 else 1
    if threads == 1:
        for chunk in chunks:
            work(chunk)
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, chunks):  # iterating raises the first error
            pass
