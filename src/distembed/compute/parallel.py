"""Work on chunks in threads: NumPy releases the lock, so threads share memory and lose nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .arrays import Scratch

Chunk = TypeVar("Chunk")
Item = TypeVar("Item")
_END: Any = object()

# A chunk is small enough to stay in the shared cache from binning to projection, and large enough that threads
# compute most of the time instead of waiting for Python's lock (measured: 300 bags of 200 points on 16 x 16 nodes).
_CHUNK_BAGS = 512
_CHUNK_BYTES = 9 * 2**19

_KEPT = 2**25  # bytes of a scratch that is kept for the next run
_MOST_IDLE = os.cpu_count() or 1


_idle: list[Scratch] = []


@contextmanager
def _kept_scratch() -> Iterator[Scratch]:
    """A scratch that an earlier run left behind, or a new one; kept for the next run unless it is large.

    Memory that was touched before costs nothing to touch again. What is kept is some megabytes for every thread.
    """
    try:
        scratch = _idle.pop()
    except IndexError:
        scratch = Scratch()
    yield scratch
    if scratch.n_bytes <= _KEPT and len(_idle) < _MOST_IDLE:
        _idle.append(scratch)


def n_threads(n_jobs: int | None) -> int:
    """Threads to use: ``n_jobs`` as in joblib; None means as many as BLAS may use.

    Inside a worker of joblib, or under ``OMP_NUM_THREADS=1``, BLAS may use one, and so do we: no oversubscription.
    """
    if n_jobs is not None:
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
            raise TypeError(f"n_jobs: must be an integer or None, got {n_jobs!r}; -1 uses all cores")
        if n_jobs == 0:
            raise ValueError("n_jobs: must not be 0, got 0; -1 uses all cores, None as many as BLAS may use")
        return int(effective_n_jobs(n_jobs))
    counts = [library["num_threads"] for library in _thread_pools().info() if library["user_api"] == "blas"]
    return max(counts, default=1)


@cache
def _thread_pools() -> ThreadpoolController:
    """Look once for the libraries that have threads of their own: that takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS and OpenMP to one thread: on small products their threads lose time, and far more on a busy machine.

    Examples
    --------
    >>> with one_blas_thread():
    ...     n_threads(None)
    1
    """
    with _thread_pools().limit(limits=1):
        yield


@contextmanager
def blas_threads(n_jobs: int | None) -> Iterator[None]:
    """Let BLAS have as many threads as :func:`n_threads` says, never more than it may use already.

    Examples
    --------
    >>> with blas_threads(1):
    ...     n_threads(None)
    1
    """
    with _thread_pools().limit(limits=min(n_threads(n_jobs), n_threads(None)), user_api="blas"):
        yield


def ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """Yield the items of a generator; a thread makes the next one while this one is in use.

    What the generator raises is raised here. It is closed when the last item is asked for, or when this one is closed.
    The first item is made by the caller's own thread: it may take long, and signals come there.

    Examples
    --------
    >>> list(ahead(letter for letter in "abc"))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as pool:
        try:
            item = next(items, _END)
            while item is not _END:
                coming = pool.submit(next, items, _END)
                yield item
                item = coming.result()
        finally:
            pool.submit(items.close).result()  # after what is being made


def run_chunks(work: Callable[[Chunk, Scratch], None], chunks: Iterable[Chunk], n_jobs: int | None) -> None:
    """Call ``work(chunk, scratch)`` on every chunk, in as many threads as :func:`n_threads` says.

    BLAS uses one thread in each of them: its own threads cost more than they gain on products of this size.
    """
    queue: SimpleQueue[Chunk] = SimpleQueue()
    for chunk in chunks:
        queue.put(chunk)
    n_chunks = queue.qsize()

    def drain() -> None:
        with _kept_scratch() as scratch:
            while True:
                try:
                    chunk = queue.get_nowait()
                except Empty:
                    return
                try:
                    work(chunk, scratch)
                except BaseException:
                    _drop(queue)  # nobody need go on
                    raise

    threads = min(n_threads(n_jobs), n_chunks)
    if n_chunks == 1:  # nothing to share: a large product may use the threads of BLAS
        drain()
        return
    with one_blas_thread():
        others = [_pool(threads - 1).submit(drain) for _ in range(threads - 1)]  # this thread is one, too
        try:
            drain()
        finally:
            left = [other for other in others if not other.cancel()]  # those that never began have nothing to do
            wait(left)
        for other in left:
            other.result()  # raises its error


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that are kept: to start one takes as long as the features of a hundred bags."""
    return ThreadPoolExecutor(threads, thread_name_prefix="distembed")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _drop(queue: SimpleQueue[Any]) -> None:
    """Empty a queue that others may be reading."""
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return


def bag_chunks(n_bags: int, bytes_per_bag: int, bags_at_a_time: int = 1, most: int | None = None) -> list[slice]:
    """Slices of consecutive bags whose working set fits the cache, of equal length and a multiple of four of them.

    So threads finish together, and the result does not depend on their number, not even in its last bit. Where an
    engine takes several bags at a time, the length is a multiple of that, and at most ``most``.
    """
    if most is None:
        most = int(np.clip(_CHUNK_BYTES // bytes_per_bag, 1, _CHUNK_BAGS))
    n_chunks = 4 * -(-n_bags // (4 * most)) if n_bags > 64 else -(-n_bags // most)
    step = -(-n_bags // (n_chunks * bags_at_a_time)) * bags_at_a_time
    return [slice(i, min(i + step, n_bags)) for i in range(0, n_bags, step)]


def bag_slices(sizes: NDArray[Any], bytes_per_point: int, bytes_per_bag: int, budget: int) -> list[slice]:
    """Consecutive bags whose points and features fit in ``budget`` bytes together, at least one bag a slice.

    Parameters
    ----------
    sizes : ndarray of shape (n_bags,)
        Points of each bag.
    bytes_per_point, bytes_per_bag : int
        Working set of one point, and of one bag besides.
    budget : int
        Bytes.

    Returns
    -------
    list of slice
        They cover all bags, in order.

    Examples
    --------
    >>> bag_slices(np.array([1, 1, 5, 1]), bytes_per_point=8, bytes_per_bag=0, budget=16)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends = np.cumsum(sizes * bytes_per_point + bytes_per_bag)
    slices = []
    start = 0
    used = 0
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(ends, used + budget, side="right")))
        slices.append(slice(start, stop))
        start = stop
        used = int(ends[stop - 1])
    return slices
