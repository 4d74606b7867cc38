"""Model files: fitted or unfitted models on disk, without pickle. Opening a hostile file runs nothing.

A file is an archive of JSON and arrays, see :func:`save`. Its objects stand one after the other, each made of numbers,
text, arrays and objects before it: there are no cycles, shared parts stay shared, and reading needs no recursion. A
class or function is a name in the tables of ``writer.py``, which are all that reading looks in: no name from a
file is imported, no code comes from a file. What the tables lack is refused when it is saved. Caches
(``cached_property``, compiled code) are left out: a model makes them again.

*What is checked.* Each object by itself: its attributes are as its class declares beside ``storable``, that is shapes,
dtypes, finite numbers, indices within their arrays (``reader.py``). Then all of them together: the model predicts for
two small bags before anybody gets it (:func:`try_once`). An honest model predicts, or refuses bags that are not its own
by an ``InputError``; where an operation on parts that don't fit together fails, the file is refused. Which engine
computes is chosen by whoever loads the model. ``make fuzz`` attacks all of this.

*Limits.* Checks are of form, not of sense: a hostile file can hold a model that predicts nonsense. So take models whose
predictions matter from people whom you trust.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import LabelBinarizer

from ..bags import Bags
from ..bags.estimators import BagInput
from ..compute.arrays import Array
from ..compute.checks import InputError, check_flag
from .archive import MAX_BYTES, Archive, ModelFileError, read_archive, write_archive
from .reader import Excess, Reader
from .writer import Writer, name_of, short

METHODS = ("predict", "predict_interval", "predict_set", "transform")
SCORES = ("predict_proba", "decision_function")
REFUSALS = (InputError, NotFittedError)  # raised on purpose, by a model that does not take the bags of the trial


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    updatable: bool = False,
    ids: bool = True,
    background: bool = True,
) -> None:
    """Write a model to a file that :func:`load` reads, without pickle.

    Parameters
    ----------
    model : estimator
        One of distembed, a scikit-learn ``Pipeline`` or ``FeatureUnion``, or one of its linear models and scalers,
        fitted or not: the estimators named at the head of this module, with parameters of plain values, arrays and
        objects of distembed. A user's function, a foreign estimator or a subclass is a TypeError that names the
        parameter; nothing is written then.
    path : str or PathLike
        The file, usually ``.distembed``. It is written whole or not at all: after a crash the old one is still there.
    updatable : bool, default=False
        Whether to keep what ``partial_fit`` and ``predict(..., return_std=True)`` of a learner need, which may be a
        hundred times as large as what ``predict`` needs. A model without it raises an error when asked.
    ids : bool, default=True
        Whether to keep what is known of the ids of the training bags: salted hashes, by which reports recognise these
        bags, and the ids of bags that are part of a model. Predictions do not need them.
    background : bool, default=True
        Whether to keep the points of some training bags, at most 100 kB or five points of each of 16 bags, which
        ``explain`` of a learner takes columns from. Without them it needs ``background=bags``.

    Notes
    -----
    The same model gives the same bytes, and so do two runs of one fit with the same ``random_state`` on the same
    machine and libraries: a file has no date and no times. ``timings_`` of a model from a file is empty, and the
    seconds in its ``leaderboard_`` are NaN. *Cost*: the arrays of the model once.

    Examples
    --------
    >>> import os, tempfile
    >>> import distembed as de
    >>> from distembed.files.model_files import load, save
    >>> X = np.random.default_rng(0).uniform(size=(20, 30, 1))
    >>> model = de.HDDEmbedding("js", n_basis=5).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, os.path.join(folder, "m.distembed"))
    ...     again = load(os.path.join(folder, "m.distembed"))
    >>> np.array_equal(again.transform(X), model.transform(X))
    True
    """
    if isinstance(model, Bags):
        raise TypeError("save: model must be an estimator, got Bags; use bags.save(path)")
    writer = Writer(updatable, check_flag("save", "ids", ids), check_flag("save", "background", background))
    if name_of("estimator", type(model)) is None:
        raise writer.refusal(model, "")
    writer.value(model, "")
    write_archive(path, {"objects": writer.rows}, writer.arrays, versions_here())


def digest(model: Any) -> str:
    """SHA-256 of what :func:`save` would write of a model: the same for models that predict the same.

    Examples
    --------
    >>> import distembed as de
    >>> digest(de.UnitCube()) == digest(de.UnitCube()), digest(de.UnitCube()) == digest(de.UnitCube(margin=0.1))
    (True, False)
    """
    writer = Writer()
    writer.value(model, "")
    seen = hashlib.sha256(json.dumps(writer.rows, sort_keys=True).encode())
    for array in writer.arrays:
        seen.update(f"{array.dtype.str}{array.shape}".encode())
        seen.update(np.ascontiguousarray(array).tobytes())
    return seen.hexdigest()


def load(path: str | os.PathLike[str], *, max_bytes: float = MAX_BYTES, max_memory: float | None = None) -> Any:
    """Read a model that :func:`save` wrote. Nothing in a file is run, whoever made it.

    Parameters
    ----------
    path : str or PathLike
        The file.
    max_bytes : float, default=8 * 2**30
        Largest size of what the file holds.
    max_memory : float or None, default=None
        Bytes that predicting for one small bag may take, as far as its objects claim. None allows 512 MB and 100 times
        the size of the file; raise it for a model with a very fine grid, if you trust the file.

    Returns
    -------
    estimator
        With predictions equal to the last bit on the same machine and libraries.

    Raises
    ------
    ModelFileError
        A ValueError: the file is not a model file, or a damaged, hostile or newer one. All checksums are compared
        first, then objects are made and checked, then the model predicts for two small bags.

    Warns
    -----
    UserWarning
        Another minor version of distembed or scikit-learn wrote the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from distembed.files.model_files import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "m.distembed")
    ...     _ = path.write_bytes(b"something else")
    ...     load(path)
    Traceback (most recent call last):
    ...
    distembed.files...ModelFileError: ...: is not a model file of distembed; give the path of a file that save wrote
    """
    archive = read_archive(path, max_bytes)
    try:
        reader = Reader(archive, max_memory)
        model = reader.model()
        if reader.is_fitted and reader.is_ours and not reader.is_heavy:
            try_once(model)
            model = Reader(archive, max_memory).model()  # another one: predictions may solve, cache and draw
    except Excess as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except Exception as error:  # constructors and NumPy refuse in their own ways
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(
            f"{os.fspath(path)}: is not as save writes it ({said}); save the model again with this distembed"
        ) from error
    here = versions_here()
    for library in ("distembed", "scikit-learn"):
        there = archive.versions.get(library, "unknown")
        if there.split(".")[:2] != here[library].split(".")[:2]:
            warnings.warn(
                f"load: {os.fspath(path)} was written with {library} {there}, this is {here[library]}; compare some "
                "predictions, or fit and save again",
                stacklevel=2,
            )
    return model


def try_once(model: Any) -> None:
    """Let a model predict for two small bags, or rows; raises what an honest model does not raise.

    They are in float32, which large models need not convert their arrays for; in float64 where that is too coarse.
    """
    if isinstance(model, LabelBinarizer):
        return  # which takes targets
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for dtype in (np.float32, np.float64):
            asked, options = small_input(model, dtype)
            answers = [_answers(model, method, asked, options) for method in METHODS]
            if all(answers):
                return


def _answers(model: Any, method: str, asked: Any, options: dict[str, Any]) -> bool:
    """Whether a model does not refuse what a method of it is asked; raises what an honest model does not raise."""
    if not hasattr(model, method) or (method == "transform" and not hasattr(model, "fit_transform")):
        return True  # an encoder of covariates transforms something else
    try:
        _call(model, method, asked, options)
    except REFUSALS:
        return False
    return True


def _call(model: Any, method: str, asked: Any, options: dict[str, Any]) -> None:
    """Call a method; raises where classes have no score each: the largest depends on the bag."""
    getattr(model, method)(asked, **(options if method == "predict" else {}))
    score = None
    if method == "predict" and hasattr(model, "classes_"):
        score = next((getattr(model, name) for name in SCORES if hasattr(model, name)), None)
    if score is None:
        return
    found = np.asarray(score(asked, **options))
    if (2 if found.ndim == 1 else found.shape[1]) != len(model.classes_):
        raise TypeError(f"it has {len(model.classes_)} classes, and not as many scores")


def small_input(model: Any, dtype: Any) -> tuple[Any, dict[str, Any]]:
    """What a model takes: bags or rows of its width, and covariates if it has seen some."""
    first = first_step(model)
    n_dims = getattr(first, "n_features_in_", 1)
    sizes = (7, 9) if n_dims < 1000 else (1, 1)
    rows = np.arange(sum(sizes) * n_dims, dtype=dtype).reshape(-1, n_dims)
    rows *= 0.618034
    rows %= 1
    if not isinstance(first, BagInput):
        return rows[: len(sizes)], {}
    categories = getattr(first, "categories_in_", None)
    for j in categories or ():
        rows[:, j] = 0
    bags = Bags(rows, np.cumsum([0, *sizes]), categories=categories)
    encoder = getattr(first, "encoder_", None)
    if encoder is None:
        return bags, {}
    return bags, {"covariates": {column.name: _values(column, len(sizes)) for column in encoder.columns_}}


def first_step(model: Any) -> Any:
    """The estimator that gets what a model is given."""
    if hasattr(model, "estimator_"):
        return first_step(model.estimator_)
    if not isinstance(model, Pipeline | FeatureUnion):
        return model
    steps = model.steps if isinstance(model, Pipeline) else model.transformer_list
    return next((first_step(step) for _, step in steps if step not in (None, "passthrough", "drop")), None)


def _values(column: Any, n: int) -> Array:
    """An array of n values that a column of covariates has in training."""
    return np.array([*getattr(column, "labels", (0.0,))[:1]] * n)


@dataclass(frozen=True)
class ModelInfo:
    """What a model file records about itself; prints as a summary.

    Attributes
    ----------
    model : str
        The class, e.g. ``"distembed.HDDEmbedding"``.
    fitted : bool
        Whether any estimator in it has fitted attributes.
    parameters : dict of str
        As ``get_params()`` names them; values that are not scalars as text.
    versions : dict of str
        Libraries that wrote it.
    format : int
        Version of the format.
    n_arrays, n_bytes : int
        Arrays, and bytes of all members.

    Examples
    --------
    >>> import os, tempfile
    >>> import distembed as de
    >>> from distembed.files.model_files import info
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     de.save(de.UnitCube(), os.path.join(folder, "cube.distembed"))
    ...     found = info(os.path.join(folder, "cube.distembed"))
    >>> found.model, found.fitted
    ('distembed.UnitCube', False)
    """

    model: str
    fitted: bool
    parameters: dict[str, Any]
    versions: dict[str, str]
    format: int
    n_arrays: int
    n_bytes: int

    def __str__(self) -> str:
        lines = [f"{self.model}, {'fitted' if self.fitted else 'not fitted'}"]
        lines += [f"  {name} = {short(value)}" for name, value in list(self.parameters.items())[:40]]
        lines += ["  ..."] if len(self.parameters) > 40 else []
        lines.append("written with " + ", ".join(f"{name} {short(each)[1:-1]}" for name, each in self.versions.items()))
        return "\n".join([*lines, f"format {self.format}, {self.n_arrays} arrays, {self.n_bytes:,} bytes"])


def info(path: str | os.PathLike[str]) -> ModelInfo:
    """What a model file holds, without making the model or reading its arrays.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Returns
    -------
    ModelInfo
        Class, parameters, versions, sizes. What is not a model file is a :class:`ModelFileError`. Checksums of arrays
        are not compared: :func:`load` does.

    Examples
    --------
    >>> import os, tempfile
    >>> import distembed as de
    >>> from distembed.files.model_files import info, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(de.UnitCube(margin=0.1), os.path.join(folder, "m.distembed"))
    ...     print(info(os.path.join(folder, "m.distembed")))
    distembed.UnitCube, not fitted
      bounds = 'minmax'
      map = 'linear'
      margin = 0.1
      n_quantiles = 1000
      outside = 'clip'
    written with distembed ..., python ..., numpy ..., scipy ..., scikit-learn ...
    format 2, 0 arrays, ... bytes
    """
    archive = read_archive(path, with_arrays=False)
    try:
        return _summary(archive)
    except Exception as error:
        raise ModelFileError(
            f"{os.fspath(path)}: is not as save writes it ({type(error).__name__}); save the model again"
        ) from error


def _summary(archive: Archive) -> ModelInfo:
    rows = archive.document["objects"]
    found: dict[str, Any] = {}

    def text(value: Any, depth: int = 0) -> Any:
        if not isinstance(value, dict):
            return value
        if "at" not in value:
            return next(iter(value.values()))
        row = rows[value["at"]]
        if row["kind"] in ("array", "objects"):
            return f"array of shape {tuple(row['shape'])}"
        if row["kind"] in ("list", "tuple") and depth < 3 and len(row["items"]) <= 20:
            parts = [text(item, depth + 1) for item in row["items"]]
            return str(parts) if row["kind"] == "list" else f"({', '.join(map(repr, parts))})"
        return str(row.get("class", row["kind"])).rpartition(".")[2]

    def parameters(row: dict[str, Any], prefix: str, depth: int) -> None:
        for name, value in row["parameters"].items():
            if len(found) >= 1000:  # a hostile file may name one estimator many times
                return
            found[prefix + name] = text(value)
            inner = [(name, value)]
            part = rows[value["at"]] if isinstance(value, dict) and "at" in value else {}
            if name in ("steps", "transformer_list") and part.get("kind") == "list":
                inner = [tuple(rows[step["at"]]["items"][:2]) for step in part["items"][:100]]
            for key, each in inner:
                if depth < 5 and isinstance(each, dict) and "at" in each and rows[each["at"]]["kind"] == "estimator":
                    if part.get("kind") == "list":
                        found[prefix + key] = text(each)
                    parameters(rows[each["at"]], f"{prefix}{key}__", depth + 1)

    last = rows[-1]
    parameters(last, "", 0)
    fitted = any(name.endswith("_") for row in rows for name in row.get("state", ()) if row["kind"] == "estimator")
    return ModelInfo(last["class"], fitted, found, archive.versions, archive.format, archive.n_arrays, archive.n_bytes)


def versions_here() -> dict[str, str]:
    """Of what makes the numbers; distembed's own is read late, because its package imports this module."""
    return {
        "distembed": importlib.import_module("distembed").__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
