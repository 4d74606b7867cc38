"""Dask: which client works, versions and BLAS threads of its workers, and errors of tasks by the part of the table."""

from __future__ import annotations

import re
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ..compute.parallel import one_blas_thread
from ..compute.progress import Stages
from ..tables import TableError

RETRIES = 2  # of a task that raised: a store may be slow, or away for a moment

# Packages that decide bits, and how many parts of their versions must agree; None: all of them.
VERSIONS = {"distembed": None, "numpy": 2, "scipy": 2, "scikit-learn": 2}
_KEY = re.compile(r"distembed-\w+-\w+-(\d+)-\w+")


def client_for(client: Any, where: str) -> Any:
    """The client that was given, or the current one.

    Parameters
    ----------
    client : distributed.Client or None
        What the user gave.
    where : str
        What errors begin with.
    """
    try:
        import distributed
    except ImportError as error:
        raise ImportError(f"{where} needs distributed: pip install 'distembed[cluster]'") from error
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ValueError(
                f"{where}(client=None): needs a client, and there is none; make one with "
                "distributed.Client(distributed.LocalCluster()), or give --workers N on the command line"
            ) from None
    if not hasattr(client, "scheduler_info"):
        raise TypeError(f"{where}(client=...): must be a distributed.Client, got {client!r}; make one")
    _check_versions(client, where)
    return client


def _check_versions(client: Any, where: str) -> None:
    """Refuse workers whose packages are not those of the client."""
    found = client.get_versions(packages=list(VERSIONS))
    own = found["client"]["packages"]
    for address, theirs in sorted(found["workers"].items()):
        for name, n_parts in VERSIONS.items():
            version = (theirs or {}).get("packages", {}).get(name)
            if _begin_of(version, n_parts) != _begin_of(own.get(name), n_parts):
                what = f"no {name}" if version is None else f"{name} {version}"
                raise ValueError(
                    f"{where}: worker {address} has {what}, and the client has {own.get(name)}; install the same on "
                    "all workers, because versions decide the bits of a model"
                )


def _begin_of(version: str | None, n_parts: int | None) -> list[str] | None:
    """Return the first parts of a version, or all; None where there is none."""
    return None if version is None else version.split(".")[:n_parts]


# --------------------------------------------------------------------------------------------------------------
# In workers
# --------------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_inside = 0
_held = ExitStack()


@contextmanager
def alone() -> Iterator[None]:
    """Hold BLAS to one thread while any task of this process is at work: sums depend on the number of threads."""
    global _inside
    with _lock:
        if _inside == 0:
            _held.enter_context(one_blas_thread())
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _held.close()


class Held:
    """A value in a graph, which Dask does not look into: it would take dataclasses apart."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _run(where: Held, work: Held, *args: Any) -> Any:
    """Do some work; what goes wrong says which part of the table it was."""
    values = [arg.value if isinstance(arg, Held) else arg for arg in args]
    try:
        with alone():
            return work.value(*values)
    except (ValueError, OSError, ArithmeticError, ImportError) as error:
        raise TableError(f"{where.value}: {error}" if where.value else str(error)) from None


def lazily(work: Callable[..., Any], *args: Any, where: str = "", key: str | None = None) -> Any:
    """A call that is made by a worker; arguments may be others of these, or lists of them."""
    from dask import delayed
    from dask.delayed import Delayed

    held = [arg if isinstance(arg, Delayed | list) else Held(arg) for arg in args]
    return delayed(_run, pure=False)(Held(where), Held(work), *held, dask_key_name=key)


class Graph:
    """Tasks that are sent to the scheduler together, so it knows which results are needed next.

    Parameters
    ----------
    client : distributed.Client
        Who works.
    describe : callable
        What errors call the part of a number.
    """

    def __init__(self, client: Any, describe: Callable[[int], str]) -> None:
        self._client = client
        self._describe = describe
        self._run = secrets.token_hex(4)
        self._count = 0

    def add(self, name: str, part: int, work: Callable[..., Any], *args: Any) -> Any:
        """A task that works on a part of the table, see :func:`lazily`."""
        self._count += 1
        key = f"distembed-{name}-{self._run}-{part}-{self._count}"  # Dask learns how long tasks of a name take
        return lazily(work, *args, where=f"partition {part} ({self._describe(part)})", key=key)

    def at_once(self, name: str, part: int, work: Callable[..., Any], *args: Any) -> Any:
        """A task with the highest priority once its arguments are there: it takes a small thing from a large one.

        The large one would wait in memory for it: Dask does last what nothing else depends on.
        """
        import dask

        with dask.annotate(priority=1):
            return self.add(name, part, work, *args)

    def constant(self, value: Any) -> Any:
        """A value that all tasks share; it is made again from what the scheduler has when its workers are lost."""
        self._count += 1
        return lazily(_same, value, key=f"distembed-shared-{self._run}-0-{self._count}")

    def compute(self, wanted: Sequence[Any], stages: Stages | None = None) -> list[Any]:
        """Results of some tasks, in their order; each that is done advances the stage by its number, if it is one."""
        from distributed import as_completed

        if not wanted:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of large graphs: models are in them
            futures = self._client.compute(list(wanted), optimize_graph=False, retries=RETRIES, sync=False)
        places = {future.key: i for i, future in enumerate(futures)}
        found: list[Any] = [None] * len(futures)
        try:
            for future in as_completed(futures):
                result = future.result()
                found[places[future.key]] = result
                if stages is not None and isinstance(result, int):
                    stages.advance(result)
        except BaseException as error:
            self._client.cancel(futures, force=True)
            raise self.reword(error) from None
        return found

    def reword(self, error: BaseException) -> BaseException:
        """An error of Dask in words that name the part of the table."""
        from distributed.scheduler import KilledWorker

        if not isinstance(error, KilledWorker):
            return error
        key = str(error.task)
        found = _KEY.search(key)
        where = f"partition {found[1]} ({self._describe(int(found[1]))})" if found else f"task {key}"
        return RuntimeError(
            f"{where}: workers died again and again while they worked on it, and it is given up; give workers more "
            "memory, or make smaller parts with partition_rows"
        )


def _same(value: Any) -> Any:
    return value
