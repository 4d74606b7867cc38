"""Embeddings and scalers from the words of the shell: ``--set``, ``--marginals`` and ``--scale``.

A value of ``--set`` is a number, ``true``, ``false``, ``none``, a list such as ``[0.1,0.5,0.9]``, an object such as
``Sobol(4096)`` or ``KDE(boundary=reflect)``, or else text. Objects are the densities, nodes, bases and index sets of
the library, with the arguments that they have in Python; words inside need no quotes, but ``"none"`` in quotes is a
word. Nothing is evaluated: names are looked up, and values are read one by one.
"""

from __future__ import annotations

import ast
from contextlib import suppress
from inspect import isabstract, isclass
from typing import Any

import click

from ..compute.checks import closest_name

WORDS = {"true": True, "false": False, "none": None}


def setting(text: str) -> Any:
    """The value that a text stands for.

    Examples
    --------
    >>> setting("20"), setting("none"), setting("likelihood"), setting("[0.1, 0.9]"), setting("Sobol(4096)")
    (20, None, 'likelihood', [0.1, 0.9], Sobol(n=4096))
    >>> setting("Sobl(4096)")
    Traceback (most recent call last):
    ...
    ValueError: no object is called 'Sobl'; did you mean 'Sobol'?
    """
    if "(" not in text and "[" not in text:
        return _word(text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is neither a list such as [1,2] nor an object such as Sobol(4096)") from None
    return _value(tree)


def _word(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _value(node: ast.expr) -> Any:
    """The value of a piece of syntax: a number, a word, a list, or an object."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
        return node.value
    if isinstance(node, ast.Name):
        return _word(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value  # type: ignore[operator]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and all(each.arg for each in node.keywords):
        kind = _object_kind(node.func.id)
        values = [_value(each) for each in node.args]
        named = {str(each.arg): _value(each.value) for each in node.keywords}
        try:
            return kind(*values, **named)
        except TypeError as error:
            raise ValueError(str(error).replace(".__init__()", "")) from None
    raise ValueError(f"{ast.unparse(node)!r} is not a number, word, list, or object such as Sobol(4096)")


def _object_kind(name: str) -> Any:
    from .. import basis, density

    rooms = [(each, getattr(room, each)) for room in (density, basis) for each in room.__all__]
    known = {each: kind for each, kind in rooms if isclass(kind) and not isabstract(kind)}
    if name not in known:
        near = closest_name(name, known)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}"
        raise ValueError(f"no object is called {name!r}; {hint}")
    return known[name]


def settings(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """Parameters from ``name=value``, see :func:`setting`."""
    found: dict[str, Any] = {}
    for part in value:
        name, sign, text = (word.strip() for word in part.partition("="))
        if not sign or not name.isidentifier():
            raise click.BadParameter(f"{part!r} must be NAME=VALUE, such as n_basis=20", ctx, option)
        try:
            found[name] = setting(text)
        except ValueError as error:
            raise click.BadParameter(f"{name}: {error}", ctx, option) from None
    return found


def make_embedding(name: str, settings: dict[str, Any], marginals: str | int | None, seed: int) -> Any:
    """An embedding of the catalogue with parameters of the user's, perhaps of parts of the coordinates."""
    from ..embeddings import Marginals, available

    method = available()[name]
    known = method.make().get_params(deep=False)
    wrong = [each for each in settings if each not in known]
    if wrong:
        near = closest_name(wrong[0], known)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(known)}"
        raise click.UsageError(f"--set {wrong[0]}: {name} has no such parameter; {hint}")
    made = method.make(**settings)
    return made if marginals is None else Marginals(made, marginals, random_state=seed)


def make_scaler(scale: str, embedding: Any) -> Any:
    """The scaler of a name, None for none; ``auto`` is what makes the units of the embedding's points irrelevant."""
    from ..scaling import Standardize, UnitCube, scaler_for

    usual = scaler_for(embedding)
    if scale == "auto":
        return usual
    if scale == "standardize" and isinstance(usual, UnitCube):
        raise click.UsageError(
            "--scale standardize leaves points outside the unit cube, where they must be; use linear, asinh, rank, "
            "sigmoid or auto"
        )
    return {"none": None, "standardize": Standardize()}.get(scale, UnitCube(map=scale))


def new_pipeline(embedding: str, asked: Any, components: int | None) -> Any:
    """Scaling where it is needed, embedding and random features, as a pipeline."""
    from sklearn.pipeline import make_pipeline

    from .. import embeddings
    from ..features import RandomFourierFeatures

    made = make_embedding(embedding, asked.settings, asked.marginals, asked.seed)
    if "random_state" in made.get_params():
        made.set_params(random_state=asked.seed)
    wants_cube = embeddings.available()[embedding].units == "unit cube"
    scaler = make_scaler(asked.scale or ("linear" if wants_cube else "none"), made)
    last = None if components is None else RandomFourierFeatures(components, random_state=asked.seed)
    return make_pipeline(*(step for step in (scaler, made, last) if step is not None))
