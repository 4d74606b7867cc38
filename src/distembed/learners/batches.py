"""Batches of bags that come again at every pass, and checkpoints between them.

Learning from more bags than memory holds takes two passes over the batches: the first draws a sample of bags, which
decides scaling, settings, embedding and random features; the second adds every bag to the normal equations of ridge
regression, whose size depends on the number of features alone. Without a search one pass is enough: the first bags
decide, and all are added. What was added is written to a checkpoint now and then, and work that was interrupted goes on
from there to the same result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ..files import ModelFileError, load, save

_SECONDS_BETWEEN = 20.0  # checkpoints, or twenty times as long as one takes


def batch_parts(batch: Any, where: str) -> Sequence[Any]:
    """What ``make_iterator()`` yielded: bags, targets, and maybe weights, groups and covariates."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3, 4, 5):
        raise TypeError(
            f"{where}: a batch must be (bags, y), or this with sample_weight, groups and covariates, in this order, "
            f"got {type(batch).__name__}; let make_iterator() yield tuples"
        )
    return batch


def batches_from(make_iterator: Callable[..., Iterable[Any]], n: int) -> Iterator[Any]:
    """Batches from number n on; a ``make_iterator`` with a parameter ``start`` leaves the others out itself.

    Examples
    --------
    >>> list(batches_from(lambda: iter("abc"), 1)), list(batches_from(lambda start=0: iter("abc"[start:]), 2))
    (['b', 'c'], ['c'])
    """
    with suppress(TypeError, ValueError):  # some callables have no signature
        if n and "start" in inspect.signature(make_iterator).parameters:
            make_iterator, n = partial(make_iterator, start=n), 0
    return islice(make_iterator(), n, None)


class Checkpoint:
    """A file that keeps a learner between batches, or none.

    Parameters
    ----------
    path : path or None
        The file; None: nothing is kept.
    where : str
        What errors begin with.
    """

    def __init__(self, path: str | Path | None, where: str) -> None:
        self._path = None if path is None else Path(path)
        self._where = f"{where}(checkpoint=...)"
        self._written, self._pause = monotonic(), _SECONDS_BETWEEN
        if self._path is not None and (self._path.is_dir() or not self._path.parent.is_dir()):  # known before any work
            raise FileNotFoundError(
                f"{self._where}: must be a file in a folder that exists, got {self._path}; make the folder first"
            )

    def load(self, learner: Any) -> Any:
        """The learner that was kept, None if none was; one of other settings is refused."""
        if self._path is None or not self._path.exists():
            return None
        try:
            kept = load(self._path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{self._where}: no work can go on from it: {error}; to start anew, remove the file"
            ) from error
        if type(kept) is not type(learner) or _settings(kept) != _settings(learner):
            raise ValueError(
                f"{self._where}: {self._path} comes from other settings; remove it, or choose another name"
            )
        return kept

    def keep(self, learner: Any) -> None:
        """Write the learner."""
        if self._path is not None:
            save(learner, self._path, updatable=True)
            self._written = monotonic()

    def keep_now_and_then(self, learner: Any) -> None:
        """Write the learner if the last time is long ago."""
        start = monotonic()
        if start - self._written > self._pause:
            self.keep(learner)
            self._pause = max(_SECONDS_BETWEEN, 20 * (self._written - start))

    def remove(self) -> None:
        """Remove the file, when all is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _settings(learner: Any) -> dict[str, str]:
    """Parameters as text, without ``n_jobs``, which changes no result, and without states of generators, which move."""

    def text(value: Any) -> str:
        if isinstance(value, np.random.RandomState) or hasattr(value, "get_params"):
            value = type(value)
        return repr(np.asarray(value, object).tolist() if isinstance(value, np.ndarray | tuple) else value)

    given = learner.get_params().items()
    return {name: text(value) for name, value in given if name.rpartition("__")[2] != "n_jobs"}
