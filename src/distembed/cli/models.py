"""Models on the command line: their files, the tables that they read, and what they describe of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .app import Screen
from .options import TableOptions, open_table

if TYPE_CHECKING:
    from ..tables import BagTable


def load_model(path: str) -> Any:
    """A model from its file."""
    from ..files import load
    from ..tables.formats import format_of

    if format_of(path) is not None and not Path(path).is_dir():
        raise click.UsageError(
            f"{path!r} is a table, and a model comes first; give the file that 'distembed fit' wrote"
        )
    return load(path)


def learner_of(model: Any) -> Any:
    """The learner inside of intervals or sets of classes, or the model itself."""
    from ..learners.prediction_table import inner

    return inner(model)


def table_of_model(model: Any, source: Sequence[str], options: TableOptions) -> BagTable:
    """A table of new bags, read as the one that the model was fitted to unless the user chooses otherwise."""
    from ..tables.cell_files import cell_file_kind

    model = learner_of(model)
    known = getattr(model, "table_", None) or _table_of_bags(model)
    fills = known.get("nan") if isinstance(known.get("nan"), dict) else None
    labels = known.get("categorical")
    if options.categorical is not None and set(options.categorical) != set(labels or ()):
        was = f"with {', '.join(map(repr, labels))}" if labels else "without categorical columns"
        raise click.UsageError(f"--categorical: the model was fitted {was}; leave it out, or fit again")
    options.categorical = labels
    options.columns = options.columns or tuple(known.get("columns", ())) or None
    options.weights = options.weights or known.get("weights")
    options.bag = options.bag or known.get("bag")
    if options.nan is not None and (options.nan == "indicator") != (fills is not None):
        was = "with --nan indicator" if fills else "without indicator columns of missing values"
        raise click.UsageError(f"--nan {options.nan}: the model was fitted {was}; leave --nan out, or fit again")
    options.nan = fills or options.nan or known.get("nan")
    kind = cell_file_kind(list(source))
    if kind == "AnnData" and options.rep is None and options.layer is None:
        options.rep, options.layer = known.get("rep"), known.get("layer")
    options.cofactor = options.cofactor or (known.get("cofactor") if kind == "FCS" else None)
    if kind == "FCS" and options.compensate is None:
        options.compensate = known.get("compensate")
    return open_table(source, options)


def _table_of_bags(model: Any) -> dict[str, Any]:
    """What a model that was fitted to bags in Python knows of their columns."""
    from ..bags.missing import SUFFIX

    first = model[0] if hasattr(model, "named_steps") else model
    names = [str(name) for name in getattr(first, "feature_names_in_", ())]
    labels, fills = (getattr(first, name, {}) for name in ("categories_in_", "missing_fills_"))
    added = {f"{name}{SUFFIX}" for name in fills}
    found: dict[str, Any] = {"columns": [name for name in names if name not in added]}
    found |= {"categorical": {names[j]: each for j, each in labels.items()}} if names and labels else {}
    return found | ({"nan": fills} if fills else {})


def is_linear(model: Any) -> bool:
    """Whether a learner is one embedding by name with a linear model, which has deviations and explanations."""
    from ..models.linear_head import LinearHead

    return model.model_.is_single and isinstance(model.model_.head, LinearHead)


def check_one_embedding(model: Any, path: str, what: str) -> None:
    """Refuse an ensemble for what one embedding is needed for."""
    if hasattr(model, "leaderboard_") and not is_linear(model):
        kind = "an ensemble" if len(model.model_.members) > 1 else "one row of a leaderboard"
        raise click.UsageError(
            f"{path!r} is {kind}, and {what} needs one embedding; fit one by its name, with --embedding js"
        )


def show_leaderboard(board: Any, screen: Screen, most: int | None = None) -> None:
    """The candidates of an ensemble; if there are more than this many, those that count, the mean and the constant."""
    from ..plot.charts import BASELINES

    cells = board.cells()
    if most is not None and len(cells) > most:
        cells = [row for row, each in zip(cells, board, strict=True) if each["weight"] or each["name"] in BASELINES]
    screen.table("Candidates, scored on held-out bags", board.header, cells, detail=True)
    if len(board.candidates) > 1:
        screen.line(
            "The score of the ensemble is corrected for the choice of its members: expect it for new bags.\n",
            detail=True,
        )
    left = len(board) - len(cells)
    more = [f"{left} more candidates have no weight; 'distembed info' of the model lists them"] if left else []
    for line in [*more, *([board.note] if board.note else [])]:
        screen.line(f"{line}\n", detail=True)


def calibration_of(conformal: Any) -> dict[str, Any]:
    """What the intervals or sets of a model promise, and how many bags and groups they are calibrated on."""
    n_groups = None if conformal.groups_ is None else len(set(conformal.groups_.tolist()))
    return {"coverage": conformal.coverage, "n_bags": len(conformal.scores_), "n_groups": n_groups}
