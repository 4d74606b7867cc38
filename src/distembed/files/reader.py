"""Models from rows of plain values and arrays that nobody vouches for: the second half of model files.

First what the attributes of an object must be: as its class and its bases declare beside ``storable``, or as the fields
of dataclasses and named tuples are annotated (:func:`rules_of`, :func:`check`). Then :class:`Reader`, which makes the
objects of a file one after the other, and checks each.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import get_annotations
from typing import Any, ForwardRef, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from .. import distances
from ..bags import Bags
from ..bags.estimators import BagInput, BagScaler
from ..compute.arrays import Array
from ..compute.registry import INVARIANTS, NAMES
from .archive import Archive
from .claims import HEAVY, Allowance, Claim, claim_of
from .writer import BIT_GENERATORS, MAX_DEPTH, MAX_DIGITS, MAX_RANGE, SPARSE, is_attribute, is_key, known, short

MOST = {"d": 2**22, "m": 2**22}  # memory is taken for so many before anything else is known
EVERY = {"n_features_in_": "d", "_n_features_out": "m"}  # of any estimator
TABLE = {  # what commands keep of the table that a model was fitted to, as ``table_``
    "bag": "text",
    "columns": "list[text]",
    "weights": "text | None",
    "label": "text",
    "labels_bag": "text",
    "nan": "text | dict[number]",
    "categorical": "dict[list[text | number | bool]]",
    "rep": "text",
    "layer": "text",
    "cofactor": "number",
    "compensate": "bool",
    "made_from": "text",
}
FOREIGN = {  # of any model of scikit-learn
    "coef_": "finite(d) | finite(o, d)",
    "intercept_": "number | finite(o)",
    "dual_coef_": "finite(n) | finite(n, o)",
    "X_fit_": "finite(n, d)",
    "mean_": "finite(d) | None",
    "scale_": "finite(d) | None",
    "min_": "finite(d)",
    "var_": "finite(d) | None",
    "components_": "finite(k, d)",
    "classes_": "labels(c)",
}
_RULE = re.compile(r"(finite|real|int|labels)\((.*)\)|(list|dict)\[(.*)\]|([a-z_])|(\w+)")
_OR = r" \| (?![^\[]*\])"  # not inside of brackets
_ANNOTATED = {"float": "number", "str": "text", "bool": "bool", "None": "None"}
_ARRAYS = {"finite": "f", "real": "f", "int": "iu", "labels": "biufOSUMm"}
_SCALARS: dict[str, Any] = {
    "bool": bool | np.bool_,
    "text": str,
    "number": int | float | np.integer | np.floating,
    "None": type(None),
}


class Broken(ValueError):
    """An attribute is not what its class says."""


class Form(NamedTuple):
    """One of the things that an attribute may be."""

    kind: str
    sizes: tuple[str, ...] = ()
    inside: str = ""


@functools.lru_cache(1000)
def forms(rule: str) -> tuple[Form, ...]:
    """The forms of a rule.

    Examples
    --------
    >>> forms("finite(n, 2) | None")
    (Form(kind='finite', sizes=('n', '2'), inside=''), Form(kind='None', sizes=(), inside=''))
    """
    found = []
    for text in re.split(_OR, rule):
        match = _RULE.fullmatch(text)
        if match is None:
            raise ValueError(f"storable: {text!r} is not a form of attributes; see its docstring")
        array, sizes, container, inside, size, name = match.groups()
        names = tuple(each.strip() for each in (sizes or "").split(",") if each.strip())
        found.append(Form(array or container or ("size" if size else name), (size,) if size else names, inside or ""))
    return tuple(found)


@functools.lru_cache(1000)
def rules_of(kind: type) -> dict[str, str]:
    """What the attributes of a class must be: as it and its bases declare, or annotate their fields.

    Examples
    --------
    >>> from distembed.density.nodes import PointNodes
    >>> rules_of(PointNodes)["points"], rules_of(PointNodes)["acceptance"]
    ('finite(n, l)', 'number | None')
    """
    found = dict(EVERY)
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" in vars(base) or "_fields" in vars(base):
            derived = {name: _rule(_text(each), base) for name, each in get_annotations(base).items()}
            found |= {name: rule for name, rule in derived.items() if rule is not None}
        found |= INVARIANTS.get(base, {})
    return found | (FOREIGN if kind.__module__.startswith("sklearn.") else {})


def _text(annotation: Any) -> str:
    """An annotation as its source has it."""
    if isinstance(annotation, ForwardRef):  # of named tuples
        return annotation.__forward_arg__
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _rule(annotation: str, base: type) -> str | None:
    """The rule that an annotation of a field of a class is, or None where it is not enough to go by."""
    found: list[str | None] = []
    for text in re.split(_OR, annotation):
        several = re.fullmatch(r"tuple\[(.+), \.\.\.\]|list\[(.+)\]|dict\[str, (.+)\]", text)
        if text in _ANNOTATED:
            found.append(_ANNOTATED[text])
        elif several:
            inside = _rule(several[1] or several[2] or several[3], base)
            found.append(inside and f"{'dict' if several[3] else 'list'}[{inside}]")
        else:
            is_known = text.isidentifier() and getattr(sys.modules[base.__module__], text, None) in NAMES
            found.append(text if is_known else None)
    return None if None in found else " | ".join(map(str, found))


def check(kind: type, state: Mapping[str, Any]) -> None:
    """Raise an error that names the first attribute which is not as its class says; what is not there is not looked at.

    Examples
    --------
    >>> from distembed import Standardize
    >>> check(Standardize, {"center_": np.zeros(2), "scale_": np.ones(2)})
    >>> check(Standardize, {"center_": np.zeros(2), "scale_": np.ones(3)})
    Traceback (most recent call last):
    ...
    distembed.files.reader.Broken: Standardize.scale_ must be finite(w), where w = 2
    """
    sizes: dict[str, int] = {}
    for name, rule in rules_of(kind).items():
        if name in state and not any(_has(state[name], form, sizes) for form in forms(rule)):
            where = ", ".join(f"{letter} = {n}" for letter, n in sizes.items())
            raise Broken(f"{kind.__name__}.{name} must be {rule}" + (f", where {where}" if where else ""))
    if "table_" in state:
        _check_table(f"{kind.__name__}.table_", state["table_"])


def _check_table(name: str, table: Any) -> None:
    """Raise an error if what a model remembers of its table is not as commands write it."""
    if not isinstance(table, dict) or not {"bag", "columns"} <= table.keys() <= TABLE.keys():
        raise Broken(f"{name} must be a dict with bag, columns and perhaps {', '.join(list(TABLE)[2:])}")
    for key, value in table.items():
        if not any(_has(value, form, {}) for form in forms(TABLE[key])):
            raise Broken(f"{name}[{key!r}] must be {TABLE[key]}")
        if isinstance(value, dict) and not all(isinstance(each, str) for each in value):
            raise Broken(f"{name}[{key!r}] must have names of columns as its keys")


def _has(value: Any, form: Form, sizes: dict[str, int]) -> bool:
    """Whether a value has a form; sizes that are met for the first time are remembered."""
    kind = form.kind
    if kind in _ARRAYS:
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind in _ARRAYS[kind]
            and _fit(value.shape, form.sizes, sizes)
            and (kind != "finite" or bool(np.isfinite(value).all()))
        )
    if kind == "size":
        most = MOST.get(form.sizes[0], 2**62)
        return type(value) is int and 0 <= value <= most and _fit((value,), form.sizes, sizes)
    if kind == "number":
        return isinstance(value, _SCALARS[kind]) and not isinstance(value, bool) and bool(np.isfinite(value))
    if kind in _SCALARS:
        return isinstance(value, _SCALARS[kind])
    if kind in ("list", "dict"):
        if kind == "dict":
            value = tuple(value.values()) if isinstance(value, dict) else None
        inside = forms(form.inside)
        return isinstance(value, list | tuple) and all(any(_has(each, one, sizes) for one in inside) for each in value)
    return kind == "any" or type(value).__name__ == kind


def _fit(found: tuple[int, ...], names: tuple[str, ...], sizes: dict[str, int]) -> bool:
    """Whether lengths are those of their names: ``_`` is any length."""
    if len(found) != len(names):
        return False
    known = dict(sizes)
    for n, name in zip(found, names, strict=True):
        if n != (int(name) if name.isdigit() else n if name == "_" else known.setdefault(name, n)):
            return False
    sizes.update(known)
    return True


# --------------------------------------------------------------------------------------------------------------
# Chains and unions
# --------------------------------------------------------------------------------------------------------------


class Flow(NamedTuple):
    """Whether an estimator takes bags or rows, and whether it makes bags or rows; None where nobody knows."""

    takes_bags: bool | None = None
    makes_bags: bool | None = None


def flow_of(made: Any, known: Mapping[int, Flow]) -> Flow:
    """The flow of an estimator, from those of its steps by their ids; raises what a chain of wrong parts is.

    Examples
    --------
    >>> import distembed as de
    >>> flow_of(de.UnitCube(), {}), flow_of(de.HDDEmbedding(), {})
    (Flow(takes_bags=True, makes_bags=True), Flow(takes_bags=True, makes_bags=False))
    >>> chain = Pipeline([("a", de.LinearRidge()), ("b", de.LinearRidge())])
    >>> flow_of(chain, {id(step): flow_of(step, {}) for _, step in chain.steps})
    Traceback (most recent call last):
    ...
    distembed.files.reader.Broken: a Pipeline has the step 'a', a LinearRidge, which has no transform
    """
    kind = type(made)
    if kind not in (Pipeline, FeatureUnion):
        is_known = kind.__module__.startswith(("distembed.", "sklearn.")) and not hasattr(made, "estimator_")
        return Flow(isinstance(made, BagInput), isinstance(made, BagScaler)) if is_known else Flow()
    parts = _parts_of(made)
    if any(not hasattr(step, "transform") for _, step in (parts[:-1] if kind is Pipeline else parts)):
        name, step = next(each for each in parts if not hasattr(each[1], "transform"))
        raise Broken(f"a {kind.__name__} has the step {name!r}, a {type(step).__name__}, which has no transform")
    flows = [known.get(id(step), Flow()) for _, step in parts]
    if kind is FeatureUnion:
        takes = {flow.takes_bags for flow in flows} - {None}
        if len(takes) > 1:
            raise Broken("a FeatureUnion has parts that take bags beside parts that take rows")
        return Flow(takes.pop() if takes else None, False)
    for (name, _), before, after in zip(parts[1:], flows, flows[1:], strict=False):
        if None not in (before.makes_bags, after.takes_bags) and before.makes_bags != after.takes_bags:
            got, taken = ("bags", "rows") if before.makes_bags else ("rows", "bags")
            raise Broken(f"a Pipeline has the step {name!r} that takes {taken}, and gets {got}")
    return Flow(flows[0].takes_bags, flows[-1].makes_bags) if flows else Flow()


def _parts_of(made: Any) -> list[tuple[str, Any]]:
    """Names and estimators of a chain or union, without steps that do nothing."""
    name = "steps" if isinstance(made, Pipeline) else "transformer_list"
    pairs = getattr(made, name)
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise Broken(f"{type(made).__name__}.{name} must be pairs of a name and an estimator")
    return [pair for pair in pairs if pair[1] is not None and not isinstance(pair[1], str)]


MAX_COLLISIONS = 100  # keys of a dict or set whose hashes are those of others


class Wrong(Exception):
    """A row is not as save writes it."""


class Excess(Exception):
    """An object claims more than a file of its size may."""


class Reader:
    """Objects from rows of plain values. Whatever a row says, only the tables are looked in."""

    def __init__(self, archive: Archive, max_memory: float | None = None) -> None:
        self._rows: Any = archive.document.get("objects")
        self._arrays = archive.arrays
        self._most = 20_000 + archive.n_bytes // 2  # values: without shared parts, each takes two bytes or more
        self._made: list[Any] = []
        self._depths: list[int] = []
        self._sizes: list[int] = []  # values in each object, those of shared parts as often as they are shared
        self._claims: list[Claim] = []  # of each object, with those of its parts
        self._flows: dict[int, Flow] = {}  # of each estimator, by its id
        self._allowance = Allowance(archive.n_bytes, max_memory)
        self._start_object()
        self._readers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "list": self._items,
            "tuple": lambda row: tuple(self._items(row)),
            "set": lambda row: set(self._keys(row["items"])),
            "frozenset": lambda row: frozenset(self._keys(row["items"])),
            "dict": lambda row: dict(zip(self._keys(row["keys"]), self._items(row), strict=True)),
            "slice": lambda row: slice(*self._items(row)),
            "range": self._range,
            "array": self._array,
            "objects": self._objects,
            "sparse": self._sparse,
            "random_state": self._random_state,
            "generator": self._generator,
            "partial": self._partial,
            "bags": self._bags,
            "estimator": self._estimator,
            "object": self._object,
        }

    def model(self) -> Any:
        """The model of the file: its last row."""
        rows = self._rows
        if not isinstance(rows, list) or not rows:
            raise Wrong("it has no list of objects")
        for i, row in enumerate(rows):
            if not isinstance(row, dict) or row.get("kind") not in self._readers:
                raise Wrong(f"object {i} is of no known kind")
            self._start_object()
            try:
                made = self._readers[row["kind"]](row)
            except Wrong as error:
                raise Wrong(f"object {i}, {row['kind']}: {error}") from None
            if self._deepest >= MAX_DEPTH:
                raise Wrong(f"object {i} is nested more than {MAX_DEPTH} deep")
            if self._size > self._most:  # to print it, or to follow it, would never end
                raise Wrong(f"object {i} holds its parts too often")
            claim = self._claim + claim_of(made)
            if excess := self._allowance.excess(claim):
                raise Excess(f"its object {i}, {type(made).__name__}, {excess}")
            self._made.append(made)
            self._claims.append(claim)
            self._depths.append(self._deepest + 1)
            self._sizes.append(self._size + (100 if row["kind"] == "estimator" else 1))  # which take their time
        if rows[-1]["kind"] != "estimator":
            raise Wrong("its last object is not an estimator")
        return self._made[-1]

    def _start_object(self) -> None:
        self._deepest = self._size = 0
        self._claim = Claim()

    @property
    def is_heavy(self) -> bool:
        """Whether even two small bags take seconds."""
        return self._claims[-1].total > HEAVY

    @property
    def is_fitted(self) -> bool:
        """Whether any estimator has more than parameters."""
        return any(row["kind"] == "estimator" and row["state"] for row in self._rows)

    @property
    def is_ours(self) -> bool:
        """Whether all classes are those of distembed and scikit-learn."""
        named = (row["class"] for row in self._rows if row["kind"] in ("estimator", "object"))
        return all(name.startswith(("distembed.", "sklearn.")) for name in named)

    def value(self, value: Any) -> Any:
        """A scalar, or the object of a number."""
        self._size += 1
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if not isinstance(value, dict):
            raise Wrong("a list stands for a value")
        match value:
            case {"at": int(i)} if type(i) is int and 0 <= i < len(self._made):
                self._deepest = max(self._deepest, self._depths[i])
                self._size += self._sizes[i]
                self._claim += self._claims[i]
                return self._made[i]
            case {"int": str(text)} if len(text) <= MAX_DIGITS:
                return int(text, 16)
            case {"float": str(text)}:
                return float(text)
            case {"complex": [str(real), str(imaginary)]}:
                return complex(float.fromhex(real), float.fromhex(imaginary))
            case {"numpy": str(text), "bytes": str(data)}:
                return _plain_dtype(text, bytes.fromhex(data))
            case {"bytes": str(data)}:
                return bytes.fromhex(data)
            case {"dtype": str(text)}:
                return _plain_dtype(text)
            case {"distance": str(name)} if name in distances.available():
                return distances.get(name)
            case {"function": str(name)} if (function := known("function", name)) is not None:
                return function
            case {"random_state": "global"}:
                return np.random.mtrand._rand
        raise Wrong(f"{short(value)} stands for no value")

    def _items(self, row: dict[str, Any]) -> list[Any]:
        if not isinstance(row.get("items"), list):
            raise Wrong("its items are not a list")
        return [self.value(item) for item in row["items"]]

    def _keys(self, items: Any) -> list[Any]:
        found = self._items({"items": items})
        if not all(map(is_key, found)):
            raise Wrong("keys must be numbers, text or tuples of these")
        n = len(found)
        if n > MAX_COLLISIONS and len(set(map(hash, found))) < n - MAX_COLLISIONS:  # tables would take quadratic time
            raise Wrong("its keys have the same hashes")
        if len(set(found)) != n:
            raise Wrong("a key stands there twice")
        return found

    def _range(self, row: dict[str, Any]) -> range:
        made = range(*self._items(row))
        if made[MAX_RANGE:]:
            raise Wrong(f"it has more than {MAX_RANGE:,} numbers")
        return made

    def _array(self, row: dict[str, Any]) -> Array:
        number = row.get("array")
        if type(number) is not int or not 0 <= number < len(self._arrays):
            raise Wrong("the file has no such array")
        array = self._arrays[number]
        if list(array.shape) != row.get("shape") or str(array.dtype) != row.get("dtype"):
            raise Wrong(f"array {number} has another shape or dtype")
        if row.get("readonly") is True:
            array.flags.writeable = False
        return array

    def _objects(self, row: dict[str, Any]) -> Array:
        items = self._items(row)
        shape = _shape(row)
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = item
        return array.reshape(shape)

    def _sparse(self, row: dict[str, Any]) -> Any:
        if row.get("class") not in SPARSE:
            raise Wrong("its class is unknown")
        made = getattr(sparse, row["class"])(tuple(self._items(row)), shape=_shape(row))
        made.check_format(full_check=True)  # products trust the indices
        return made

    def _random_state(self, row: dict[str, Any]) -> np.random.RandomState:
        made = np.random.RandomState(0)
        (state,) = self._items(row)
        made.set_state(_checked_state(state))
        return made

    def _generator(self, row: dict[str, Any]) -> np.random.Generator:
        state, seeds = self._items(row)
        if not isinstance(state, dict) or state.get("bit_generator") not in BIT_GENERATORS:
            raise Wrong("its bit generator is unknown")
        if seeds is not None and not 4 <= seeds["pool_size"] <= 64:
            raise Wrong("its seeds have no usual pool size")
        source = getattr(np.random, state["bit_generator"])(np.random.SeedSequence(**seeds) if seeds else 0)
        source.state = _checked_state(state)
        return np.random.Generator(source)

    def _bags(self, row: dict[str, Any]) -> Bags:
        points, offsets, weights, ids, columns, categories = self._items(row)
        categories = categories if categories is None else dict(categories)
        return Bags(points, offsets, weights, ids, columns, categories)  # which checks them

    def _partial(self, row: dict[str, Any]) -> Any:
        args, keywords = self._items(row)
        return functools.partial(_class(row, "function", "function"), *args, **keywords)

    def _named(self, rows: Any) -> dict[str, Any]:
        if not isinstance(rows, dict):
            raise Wrong("its attributes are not a JSON object")
        return {name: self.value(value) for name, value in rows.items()}

    def _estimator(self, row: dict[str, Any]) -> Any:
        kind = _class(row, "estimator")
        parameters = self._named(row.get("parameters"))
        state = self._named(row.get("state"))
        unknown = sorted(parameters.keys() - _parameters(kind))
        if unknown:
            raise Wrong(f"{kind.__name__} has no parameter {unknown[0]!r}")
        if "engine" in parameters:
            parameters["engine"] = "auto"  # compiled code is chosen by whoever runs it
        made = kind(**parameters)  # constructors only store
        _restore(made, state)
        self._check(made, state, "n_features_in_" in state)
        self._flows[id(made)] = flow_of(made, self._flows)
        if "requests" in row:
            requests = made.get_metadata_routing()
            for method, wanted in self._requests(row["requests"]).items():
                known = getattr(requests, method, None) if method.isidentifier() else None
                if not isinstance(known, type(requests.fit)):
                    raise Wrong(f"{kind.__name__} has no requests for {method!r}")
                for parameter, alias in wanted.items():
                    known.add_request(param=parameter, alias=alias)
            made._metadata_request = requests
        return made

    def _requests(self, rows: Any) -> dict[str, dict[str, Any]]:
        if not isinstance(rows, dict) or not all(isinstance(wanted, dict) for wanted in rows.values()):
            raise Wrong("its requests are not JSON objects")
        if not all(alias is None or isinstance(alias, bool | str) for each in rows.values() for alias in each.values()):
            raise Wrong("its requests are not names")
        return rows

    def _object(self, row: dict[str, Any]) -> Any:
        kind = _class(row, "object")
        state = self._named(row.get("state"))
        names = kind._fields if issubclass(kind, tuple) else None
        if is_dataclass(kind):
            names = tuple(field.name for field in fields(kind))
        if names is not None and set(names) != set(state):
            raise Wrong(f"{kind.__name__} has the attributes {', '.join(names)}, not {', '.join(state)}")
        if issubclass(kind, tuple):
            made = kind(**state)
        else:
            made = kind.__new__(kind)
            _restore(made, state)
        self._check(made, state)
        return made

    def _check(self, made: Any, state: dict[str, Any], whole: bool = True) -> None:
        """Refuse attributes that are not as their class says, or, of a whole object, don't fit together."""
        kind = type(made)
        check(kind, state)
        if np.ndim(state.get("coef_", 0.0)) == 1 and np.size(state.get("intercept_", 0.0)) != 1:
            raise Wrong(f"{kind.__name__}.intercept_ must be one number, as coef_ has one row")
        if whole and hasattr(kind, "__distembed_fits__") and not made.__distembed_fits__():
            raise Wrong(f"the parts of its {kind.__name__} don't fit together")


def _class(row: dict[str, Any], kind: str, key: str = "class") -> Any:
    name = row.get(key)
    found = known(kind, name) if isinstance(name, str) else None
    if found is None:
        raise Wrong(f"{short(name)} is not a {key} that model files know")
    return found


@functools.lru_cache(1000)
def _parameters(kind: Any) -> frozenset[str]:
    return frozenset(kind._get_param_names())


def _restore(made: Any, state: dict[str, Any]) -> None:
    """Set attributes, or let an object of distembed that has its own way do so."""
    kind: Any = type(made)
    for name in state:
        if not is_attribute(kind, name):
            raise Wrong(f"{short(name)} is not an attribute of {kind.__name__}")
    own = getattr(kind, "__setstate__", None)
    if own is not None and own is not BaseEstimator.__setstate__ and kind.__module__.startswith("distembed."):
        own(made, state)
        return
    for name, value in state.items():
        object.__setattr__(made, name, value)  # frozen dataclasses too


def _plain_dtype(text: str, data: bytes | None = None) -> Any:
    """A dtype of numbers or text, or one value of it."""
    dtype = np.dtype(text)
    if dtype.kind not in "biufcSUMm" or (data is not None and len(data) != dtype.itemsize):
        raise Wrong(f"{short(text)} is not a dtype of numbers or text of that size")
    return dtype if data is None else np.frombuffer(data, dtype, 1)[0] if data else dtype.type()


def _shape(row: dict[str, Any]) -> tuple[int, ...]:
    shape = row.get("shape")
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise Wrong("its shape is not a list of sizes")
    return tuple(shape)


def _checked_state(state: Any) -> Any:
    """The state of a generator of random numbers, with positions inside its buffers: NumPy trusts them."""
    place, most = (state["state"]["pos"], 624) if state["bit_generator"] == "MT19937" else (0, 0)
    if state["bit_generator"] == "Philox":
        place = state["buffer_pos"]
        most = 4
    if type(place) is not int or not 0 <= place <= most:
        raise Wrong("the position of its random numbers is outside their buffer")
    return state
