"""Where results go: tables, pictures and standard output, and what a fit shows of itself.

Files must not be those that are read, and take their names when they are whole.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..compute.atomic_files import obstacle, write_whole
from .app import Screen, escape_controls, in_options
from .models import calibration_of, is_linear, show_leaderboard

if TYPE_CHECKING:
    from ..tables.writing import TableWriter
    from .fit_task import Fitted
    from .options import Asked


MOST_SETTINGS = 10  # that are shown, or candidates
MOST_CLASSES = 12  # in the matrix on the screen


# --------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------


def check_outputs(
    written: Mapping[str, str | None], read: Mapping[str, Any], *, table: bool = False, h5ad: bool = False
) -> None:
    """Refuse, before any work, files that can't be written, or that are read or written otherwise too.

    Both are paths by the names of their options; with ``table``, ``-o`` is a table, and with ``h5ad`` perhaps one of
    single cells. Links and other spellings count.
    """
    inputs = {_identity(path): option for option, source in read.items() for path in _files_of(source)}
    for option, path in written.items():
        if path is None or (table and option == "-o" and path == "-"):
            continue
        if option == "--plot":
            problem = _picture_obstacle(path)
        elif h5ad and option == "-o" and is_h5ad(path):
            problem = _anndata_obstacle() or obstacle(path)
        elif table and option == "-o":
            from ..tables.writing import table_obstacle as problem_of

            problem = problem_of(path)
        else:
            problem = obstacle(path)
        also = inputs.setdefault(_identity(path), option)
        if also != option:
            problem = f"it is the file of {also} too, and would be overwritten; name another"
        if problem is not None:
            raise click.UsageError(f"{option} {path!r}: {problem}")


def _identity(path: str | Path) -> Any:
    """What distinguishes a file from others, however it is spelt; one that is not there yet has its path alone."""
    with suppress(OSError):
        facts = os.stat(path)
        if facts.st_ino:
            return facts.st_dev, facts.st_ino
    return os.path.realpath(path)


def _files_of(source: str | Sequence[str] | None) -> Iterator[Path]:
    """The files that tables, folders of tables or patterns stand for."""
    from ..tables.formats import format_of

    for entry in [source] if isinstance(source, str) else source or ():
        for path in map(Path, [entry] if os.path.exists(entry) else glob.glob(entry, recursive=True)):
            inside = path.rglob("*") if path.is_dir() else ()
            yield from (file for file in inside if format_of(file) or file.suffix.lower() == ".fcs")
            yield path


def is_h5ad(path: Any) -> bool:
    """Whether a file is one of single cells.

    Examples
    --------
    >>> is_h5ad("donors.h5ad"), is_h5ad(None)
    (True, False)
    """
    return Path(path or "").suffix.lower() == ".h5ad"


def _anndata_obstacle() -> str | None:
    """Why no .h5ad file can be written; None if nothing is known to be in the way."""
    from importlib.util import find_spec

    return None if find_spec("anndata") else "writing it needs anndata: pip install 'distembed[anndata]'"


def _picture_obstacle(path: str) -> str | None:
    """Why a picture can't be drawn there; None if nothing is known to be in the way."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install 'distembed[plot]'") from error
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    if kind not in FigureCanvasBase.get_supported_filetypes():
        return "pictures are png, pdf or svg; rename it"
    return obstacle(path)


class _Printer:
    """Rows that come in pieces, as CSV on standard output."""

    n_rows = 0

    def __init__(self, spreadsheet_safe: bool) -> None:
        self._safe = spreadsheet_safe

    def add(self, columns: Mapping[str, Any]) -> None:
        """Print some rows, the header first."""
        import numpy as np

        from ..bags.ids import canonical_text
        from ..tables.writing import quote_formula

        names = [quote_formula(name) for name in columns] if self._safe else list(columns)
        arrays = [np.asarray(values) for values in columns.values()]
        arrays = [canonical_text(each) if each.dtype.kind == "M" else each for each in arrays]
        if self._safe:
            arrays = [
                np.array([quote_formula(str(word)) for word in each]) if each.dtype.kind in "UO" else each
                for each in arrays
            ]
        arrays = [np.where(each, "true", "false") if each.dtype == bool else each for each in arrays]  # as Arrow does
        as_shown = escape_controls if sys.stdout.isatty() else str  # files and pipes get data as they are
        rows = csv.writer(sys.stdout, lineterminator="\n")
        if not self.n_rows:
            rows.writerow(map(as_shown, names))
        rows.writerows(zip(*([as_shown(str(value)) for value in each] for each in arrays), strict=True))
        sys.stdout.flush()
        self.n_rows += len(arrays[0])


class _Donors:
    """Rows that come in pieces, for an .h5ad file of one row per donor; the first column has their ids."""

    n_rows = 0

    def __init__(self) -> None:
        self._pieces: list[Mapping[str, Any]] = []

    def add(self, columns: Mapping[str, Any]) -> None:
        """Keep some rows."""
        self._pieces.append(columns)
        self.n_rows += len(next(iter(columns.values())))

    def write(self, path: str, as_features: bool) -> None:
        """Write all of them."""
        import numpy as np

        from ..single_cells import write_donors

        found = {name: np.concatenate([piece[name] for piece in self._pieces]) for name in self._pieces[0]}
        ids = found.pop(next(iter(found)))
        write_donors(path, ids, found, as_features)


@contextmanager
def open_writer(asked: Asked, as_features: bool = False) -> Iterator[TableWriter | _Printer | _Donors]:
    """Where rows go, piece by piece: to a file that takes its name when all of it is there, or to standard output.

    In an .h5ad file columns are those of obs, or the features in X.
    """
    path = asked.output
    if path in (None, "-"):
        yield _Printer(asked.spreadsheet_safe)
        return
    if is_h5ad(path):
        donors = _Donors()
        yield donors
        if donors.n_rows:
            donors.write(str(path), as_features)
        return
    from ..tables import TableError
    from ..tables.writing import open_table_writer

    with open_table_writer(str(path), asked.spreadsheet_safe) as writer:
        yield writer
        if not writer.n_rows:
            raise TableError(f"can't write {str(path)!r}: there are no rows; check the table")


def put_table(columns: Mapping[str, Any], asked: Asked) -> None:
    """Write columns to a file, or as CSV to standard output."""
    with open_writer(asked) as writer:
        writer.add(columns)


def free_name(name: str, taken: Any) -> str:
    """A name for a column that is not one of those taken."""
    while name in taken:
        name += "_"
    return name


# --------------------------------------------------------------------------------------------------------------
# Pictures and matrices of predictions
# --------------------------------------------------------------------------------------------------------------


def save_figure(figure: Any, path: str) -> None:
    """Write a picture, in the format of its suffix (PNG by default)."""
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    image = io.BytesIO()
    figure.savefig(image, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    with write_whole(path) as file:
        file.write(image.getvalue())


def draw(
    path: str, truth: Any, predicted: Any, classes: bool, name: str, title: Sequence[str], ends: Any = None
) -> None:
    """Draw the confusion matrix, or predictions over the truth, with the ends of intervals if there are any."""
    from ..plot import confusion, drawing, predictions

    with drawing.without_windows():
        if classes:
            ax = confusion(truth, predicted, name=name, title=title)
        else:
            ax = predictions(truth, predicted, intervals=ends, name=name, title=title)
    save_figure(ax.figure, path)


def show_confusion(classes: Any, counts: Any, screen: Screen) -> None:
    """The confusion matrix; where names are too long for the screen, numbers stand above its columns."""
    names = [str(name) for name in classes]
    title = "Confusion matrix"
    header = ("true \\ predicted", *names)
    rows = [[name, *(f"{n:,}" for n in row)] for name, row in zip(names, counts, strict=True)]
    if not screen.fits(header, rows):
        header = ("true \\ predicted", *(str(k) for k in range(1, len(names) + 1)))
        rows = [[f"{k} {row[0]}", *row[1:]] for k, row in enumerate(rows, 1)]
    if len(names) <= MOST_CLASSES and screen.fits(header, rows):
        screen.table(title, header, rows)
    else:
        screen.line(f"The confusion matrix of {len(names)} classes is too wide for this screen; see --plot or --json\n")


# --------------------------------------------------------------------------------------------------------------
# What fit shows
# --------------------------------------------------------------------------------------------------------------


def report_fit(found: Fitted, asked: Asked, took: float, out_of_core: bool, screen: Screen) -> None:
    """Draw and show what was found."""
    from ..bags.coordinates import listed
    from ..learners.scores import FEW, title

    plot = asked.plot
    label = asked.label
    model = found.model
    holdout = found.holdout
    scores = holdout.scores
    classes = hasattr(found.model, "classes_")
    rows = [(title(name), str(score)) for name, score in scores.items()]
    matrix = None
    if classes and scores:
        from ..plot.charts import confusion_counts

        matrix = confusion_counts(holdout.truth, holdout.predicted)
    if plot and not scores:
        screen.note("no bags were kept out, so there is nothing to draw; add --test 0.2")
        plot = None
    elif plot:
        what = "bags kept out" if holdout.how == "test" else "bags, each left out once"
        heading = [f"{len(holdout.truth):,} {what}", *(f"{name} {score}" for name, score in rows)]
        draw(plot, holdout.truth, holdout.predicted, classes, label, heading)
    seconds = {name: round(value, 3) for name, value in (found.seconds | {"all": took}).items()}
    trials = [] if model.search_ is None else model.search_.best_of_pairs()
    calibration = _calibration(found)
    board = model.leaderboard_
    linear = is_linear(model)
    if linear:
        _show_settings(model, trials, screen)
    else:
        show_leaderboard(board, screen, MOST_SETTINGS)
    if scores:
        above = f"{label}, on {len(holdout.truth):,} held-out bags"
        if holdout.how != "test":
            above = f"{label}, each of {len(holdout.truth):,} bags left out once (settings have seen all)"
        screen.table(above, ("score", "value"), rows)
        if holdout.how == "test" and len(holdout.truth) < FEW:
            screen.line(
                f"{len(holdout.truth)} bags tell little of how good it is; a larger --test keeps more of them out\n",
                detail=True,
            )
    if calibration is not None:
        _show_calibration(calibration, screen)
    screen.line(f"coordinates: {listed(model.table_['columns'])}\n", detail=True)
    stages = [(name, f"{value:.2f}") for name, value in seconds.items()]
    screen.table("Seconds", ("stage", "s"), stages, detail=True)
    sizes = size_note(model)
    if sizes is not None:
        screen.line(f"{sizes}\n")
    n_members = sum(row["weight"] > 0 for row in board)
    what = asked.embedding if n_members == 1 else f"an ensemble of {n_members}"
    if found.n_unlabelled:
        screen.line(f"left out, without a label: {found.n_unlabelled:,} bags\n")
    n_empty = 0 if model.empty_ is None else model.empty_.n_bags
    if asked.empty:
        screen.line(f"{n_empty:,} of the bags are empty: {empty_note(model)}\n")
    screen.line(f"{asked.output}: {what} of {found.n_bags:,} bags, {found.n_points:,} points", detail=True)
    result: dict[str, Any] = {
        "command": "fit",
        **{name: getattr(asked, name) for name in ("output", "label", "embedding", "covariates")},
        "columns": found.model.table_["columns"],
        "left_out": asked.left_out,
        "plot": plot,
        "kind": "classification" if classes else "regression",
        "out_of_core": out_of_core,
        "n_bags": found.n_bags,
        "n_points": found.n_points,
        "n_unlabelled": found.n_unlabelled,
        "n_empty": n_empty,
        "sizes": sizes,
        "n_test": holdout.n_test,
        "judged_by": holdout.how,
        "leaderboard": board,
        "scoring": model.scoring_,
        "not_tried": board.cut,
        "settings": model.best_params_,
        "search": [
            {name: getattr(each, name) for name in ("bandwidth_scale", "sigma_scale", "alpha", "n_bags")}
            | {"r2": each.r2 if isfinite(each.r2) else None}
            for each in trials
        ],
        "search_score": _search_score(model) if trials else None,
        "scores": {name: score.as_dict() for name, score in scores.items()},
        "coverage": calibration,
        "seconds": seconds,
    }
    if classes:
        result["classes"] = model.classes_
    if matrix is not None:
        result["confusion"] = {"classes": matrix[0], "counts": matrix[1]}
    screen.result(result)


def size_note(model: Any) -> str | None:
    """What sizes of bags count in a model, and how to keep them from it; None where they count little."""
    from ..learners.size import describe_sizes

    return in_options(ValueError(describe_sizes(model))) or None


def empty_note(model: Any) -> str:
    """How a model predicts empty bags."""
    if model.empty_.n_bags == 0:
        return "such bags are predicted as any bag would be"
    return "such bags are predicted from " + ("covariates" if model.empty_.head is not None else "these bags' labels")


def _show_settings(model: Any, trials: Any, screen: Screen) -> None:
    """What the search has looked at, and what it has chosen."""
    from ..learners.search import CHOICE, COLUMNS

    if trials:
        best = model.search_.best
        shown = [each for i, each in enumerate(trials) if i < MOST_SETTINGS or each is best]
        rows = [(*each.cells()[:-1], f"{each.cells()[-1]}{' <' if each is best else ''}") for each in shown]
        chosen = next(i for i, each in enumerate(shown) if each is best)
        many = f"{len(shown)} of {len(trials)}" if len(shown) < len(trials) else f"{len(trials)}"
        title = f"{many} settings, scored on held-out bags"
        header = (*COLUMNS, _search_score(model))
        screen.table(title, header, rows, best=chosen, detail=True)
        screen.line(f"< {CHOICE}\n", detail=True)
    if "C" in model.best_params_:
        screen.line(f"C = {model.best_params_['C']:g}, by the loss on bags that were held out\n", detail=True)


def _search_score(model: Any) -> str:
    """What the search scores settings by: classes are regressed on as columns of 0 and 1."""
    return "R² of indicators" if hasattr(model, "classes_") else "R²"


def _calibration(found: Fitted) -> dict[str, Any] | None:
    """What intervals or sets are calibrated on, and how large they are on average."""
    if found.conformal is None:
        return None
    size = "mean_size" if hasattr(found.model, "classes_") else "mean_width"
    return calibration_of(found.conformal) | {size: found.mean_size}


def _show_calibration(calibration: dict[str, Any], screen: Screen) -> None:
    of = "" if calibration["n_groups"] is None else f" of {calibration['n_groups']:,} groups"
    if "mean_size" in calibration:
        what = "sets of classes"
        size = f"{calibration['mean_size']:.2f} classes"
    else:
        what = "intervals"
        size = f"width {calibration['mean_width']:.4g}"
    screen.line(
        f"{what} for a coverage of {calibration['coverage']:g}: {size} on average; calibrated on "
        f"{calibration['n_bags']:,} bags{of} kept out, which were not learned from\n"
    )
