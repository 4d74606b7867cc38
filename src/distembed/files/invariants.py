"""What the attributes of an object from a file must be, as its class says beside ``storable``."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..compute.registry import INVARIANTS

MOST = {"d": 2**22, "m": 2**22}  # memory is taken for so many before anything else is known
EVERY = {"n_features_in_": "d", "_n_features_out": "m"}  # of any estimator
FOREIGN = {  # of any model of scikit-learn
    "coef_": "finite(d) | finite(o, d)",
    "intercept_": "number | finite(o)",
    "dual_coef_": "finite(n) | finite(n, o)",
    "X_fit_": "finite(n, d)",
    "mean_": "finite(d) | None",
    "scale_": "finite(d) | None",
    "components_": "finite(k, d)",
    "classes_": "labels(c)",
}
_RULE = re.compile(r"(finite|real|int|labels)\((.*)\)|(list|dict)\[(.*)\]|([a-z_])|(\w+)")
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
    for text in re.split(r" \| (?![^\[]*\])", rule):  # not those inside of brackets
        match = _RULE.fullmatch(text)
        if match is None:
            raise ValueError(f"storable: {text!r} is no form of attributes; see its docstring")
        array, sizes, container, inside, size, name = match.groups()
        names = tuple(each.strip() for each in (sizes or "").split(",") if each.strip())
        found.append(Form(array or container or ("size" if size else name), (size,) if size else names, inside or ""))
    return tuple(found)


def check(kind: type, state: Mapping[str, Any]) -> None:
    """Raise an error that names the first attribute which is not as its class says; what is not there is not looked at.

    Examples
    --------
    >>> from distembed import Standardize
    >>> check(Standardize, {"center_": np.zeros(2), "scale_": np.ones(2)})
    >>> check(Standardize, {"center_": np.zeros(2), "scale_": np.ones(3)})
    Traceback (most recent call last):
    ...
    distembed.files.invariants.Broken: Standardize.scale_ must be finite(w), where w = 2
    """
    sizes: dict[str, int] = {}
    for name, rule in (EVERY | INVARIANTS.get(kind, FOREIGN if kind.__module__.startswith("sklearn.") else {})).items():
        if name in state and not any(_has(state[name], form, sizes) for form in forms(rule)):
            where = ", ".join(f"{letter} = {n}" for letter, n in sizes.items())
            raise Broken(f"{kind.__name__}.{name} must be {rule}" + (f", where {where}" if where else ""))


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
