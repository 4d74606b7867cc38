"""What a fit by a cluster keeps until it is done: its settings, and sums over groups of parts, each written whole.

On one machine a fit is a sequence of batches, and its checkpoint one file, the learner itself
(:class:`distembed.learners.batch.Checkpoint`). Here workers sum in any order, so there is a file for each group of
parts, which the worker writes, in a folder that all see or in an object store. Files are named by a fingerprint of the
learner, the bags and their labels: those of another fit are never taken for its own, and need not be refused.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..compute.arrays import Array
from ..files import load, save
from ..learners.batch import fingerprint, settings_of
from ..tables import TableError
from ..tables.paths import AnyPath, as_path, digest_of_parts
from .sums import PackedSums, Total

_FIELDS = tuple(field.name for field in fields(PackedSums))


class Checkpoints:
    """The files of one fit in a folder; none of them where no folder is given.

    Parameters
    ----------
    folder : path, URL or None
        Where; it is made if it is not there.
    learner : estimator
        As the user gave it.
    table : ClusterTable
        What it is fitted to; files whose content has changed are other ones.
    survey : Survey
        Of the table.
    known : list of ndarray of shape (n_bags,)
        Labels, and weights and covariates if there are any.
    counts : ndarray of shape (n_bags,)
        Which bags have a label.
    groups : mapping or None
        Groups of bags.
    """

    def __init__(
        self, folder: Any, learner: Any, table: Any, survey: Any, known: list[Array], counts: Array, groups: Any
    ) -> None:
        self._folder = None if folder is None else as_path(folder)
        self._parts = (0, 0, 0)
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        content = None if table.spec.plan is None else digest_of_parts(table.spec.plan.files)
        named = [] if groups is None else sorted(map(repr, dict(groups).items()))
        text = [
            type(learner).__name__,
            sorted(settings_of(learner).items()),
            named,
            table.columns,
            table.weights,
            content,
        ]
        arrays = (survey.ids, survey.sizes, *known, counts, *survey.inside, *survey.counts)
        self._digest = fingerprint(text, arrays)[:16]

    def _file(self, name: str) -> AnyPath:
        assert self._folder is not None
        return self._folder / f"fit-{self._digest}-{name}"

    def settings(self) -> Any:
        """The learner with its settings that an earlier run chose; None if there was none."""
        if self._folder is None or not self._file("settings.distembed").exists():
            return None
        with self._file("settings.distembed").as_local() as local:
            return load(local)

    def keep_settings(self, begun: Any) -> None:
        """Keep a learner that has its settings."""
        if self._folder is None:
            return
        with tempfile.TemporaryDirectory() as folder, self._file("settings.distembed").write_whole() as file:
            local = Path(folder, "settings.distembed")
            save(begun, local, updatable=True)
            file.write(local.read_bytes())

    def groups_done(self, n_groups: int, n_parts: int, fan_in: int) -> set[int]:
        """Which groups of parts an earlier run has summed."""
        self._parts = (n_groups, n_parts, fan_in)
        return set() if self._folder is None else {g for g in range(n_groups) if self._group(g).exists()}

    def _group(self, g: int) -> AnyPath:
        n_groups, n_parts, fan_in = self._parts
        return self._file(f"sums-{g}-of-{n_groups}-{n_parts}-{fan_in}.npz")

    def writer(self, g: int) -> Callable[[Any], None] | None:
        """What keeps the sums of a group, for workers; None where nothing is kept."""
        return None if self._folder is None else _Writer(self._group(g))

    def load(self, g: int) -> Any:
        """The sums of a group, in a worker."""
        try:
            held = np.load(io.BytesIO(self._group(g).read_bytes()), allow_pickle=False)
            n_bags, n_points, n_sums = (int(n) for n in held["counts"])
            sums = ({name: held[f"{name}-{k}"] for name in _FIELDS} for k in range(n_sums))
            return Total(tuple(map(_sums_of, sums)), n_bags, n_points)
        except Exception as error:  # np.load and zipfile have many ways to say so
            raise TableError(
                f"{str(self._group(g))!r} should hold sums of a fit and can't be read ({type(error).__name__}); "
                "remove it"
            ) from None

    def remove(self) -> None:
        """Remove all files, when the fit is done."""
        if self._folder is None:
            return
        self._file("settings.distembed").unlink(missing_ok=True)
        for g in range(self._parts[0]):
            self._group(g).unlink(missing_ok=True)


class _Writer:
    """Keeps sums in a file; it goes to workers."""

    def __init__(self, path: AnyPath) -> None:
        self._path = path

    def __call__(self, total: Any) -> None:
        arrays = {
            f"{name}-{k}": np.asarray(getattr(sums, name)) for k, sums in enumerate(total.sums) for name in _FIELDS
        }
        counts = np.array([total.n_bags, total.n_points, len(total.sums)])
        with self._path.write_whole() as file:
            np.savez(file, counts=counts, **arrays)  # type: ignore[arg-type]


def _sums_of(held: dict[str, Any]) -> PackedSums:
    """Sums from a file, where all is arrays."""
    numbers = {"single": bool(held["single"]), "n_rows": int(held["n_rows"]), "weight": float(held["weight"])}
    return PackedSums(**(held | numbers))
