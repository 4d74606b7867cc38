"""Predictions of a report: for all bags, which of them count, and how they change with the columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.ids import OTHER_FORMS, canonical_text, hash_ids
from ..compute.arrays import Array
from ..learners.explain import game_of
from ..learners.importance import column_groups, permute_columns
from ..learners.likeness import without_comparing
from ..learners.prediction_table import inner, intervals_and_sets, predict_with_probabilities
from ..learners.shapley import contributions

COVERAGE = 0.9  # of intervals and sets of learners
AT_ONCE = 1000  # bags that are predicted at a time
MOST_EXPLAINED = 1000  # bags for which the effect of each column is computed
MOST_AGAIN = 6000  # predictions that this may take
MOST_COLUMNS = 24  # that are asked, one by one; the contributions of more take too long
MOST_VALUES = 20_000_000  # points times columns that are predicted for it


@dataclass
class Predictions:
    """Predictions for all bags of a report, and which of these count.

    Attributes
    ----------
    predicted : ndarray of shape (n_bags,)
        Numbers or classes.
    probabilities : ndarray of shape (n_bags, n_classes), optional
    intervals : ndarray of shape (n_bags, 2), optional
    sets : ndarray of bool of shape (n_bags, n_classes), optional
    trained : ndarray of bool of shape (n_bags,)
        Bags that were used for training.
    how : str
        How the predictions that count were made, in a sentence.
    output, n_outputs : int
        Which output of a model these are, and how many it has.
    """

    predicted: Array
    probabilities: Array | None = None
    intervals: Array | None = None
    sets: Array | None = None
    trained: Array = field(default_factory=lambda: np.empty(0, bool))
    how: str = ""
    output: int = 0
    n_outputs: int = 1


_FEW = 50  # ids that are tried in every form


def _are_known(ids: Any, salt: int, known: Array) -> Array:
    """Whether hashes of ids are among those that are known, which are sorted."""
    hashes = hash_ids(ids, salt)
    return np.asarray(known[np.minimum(np.searchsorted(known, hashes), len(known) - 1)] == hashes)


def trained_on(model: Any, bags: Bags) -> tuple[Array, str]:
    """Which bags the model has learned from, by their hashed ids, and what the reader must know about it.

    Where most of the other ids are known in another form, such as 007 for 7, they are taken for the bags of the fit: a
    score of training bags would be worse than none.
    """
    learner = inner(model)
    known = getattr(learner, "trained_on_", None)
    none = np.zeros(bags.n_bags, bool)
    if known is None or not len(known):
        return none, (
            "The model does not know the ids of the bags that it has learned from, so none is marked here: scores are "
            "only honest if all of these bags are new to it."
        )
    if not bags.has_ids:
        return none, (
            "These bags have no ids, so it is not known whether the model has learned from some: scores are only "
            "honest if all of them are new to it."
        )
    salt = getattr(learner, "trained_salt_", 0)
    found = _are_known(bags.ids, salt, known)
    which = "checked by id"
    others = np.flatnonzero(~found)
    few = canonical_text(bags.ids[others[:: max(1, -(-others.size // _FEW))]]).tolist()
    for what, change in OTHER_FORMS if few else ():
        if 2 * _are_known(list(map(change, few)), salt, known).sum() >= len(few):
            texts = canonical_text(bags.ids[others]).tolist()
            found[others] = _are_known(list(map(change, texts)), salt, known)
            which = f"checked by id; many ids differ from those of the fit in {what}"
            break
    n = int(found.sum())
    left = int((~found).sum())
    if not n:
        return found, "None of these bags was used for training (checked by id)."
    if not left:
        return found, (
            f"All of these bags were used for training ({which}), so none is left to score the model on: no scores are "
            "shown, and the predictions below look better than those for new bags."
        )
    return found, (
        f"{n:,} of these bags were used for training ({which}): they are marked, and do not count in scores."
    )


def predict(
    model: Any, bags: Bags, covariates: Any = None, *, calibrated: bool = True, output: int | None = None
) -> Predictions:
    """Predictions for bags, piece by piece; of several outputs, those of one."""
    learner = inner(model)
    pieces = []
    for first in range(0, bags.n_bags, AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        given = None if covariates is None else rows_of(covariates, rows)
        piece = bags[rows]
        found = Predictions(np.empty(0))
        found.predicted, found.probabilities = predict_with_probabilities(learner, piece, given)
        if calibrated:
            found.intervals, found.sets = intervals_and_sets(model, piece, COVERAGE, given)
        pieces.append(found)
    n_outputs = pieces[0].predicted.shape[1] if pieces[0].predicted.ndim == 2 else 1
    if (output is None and n_outputs > 1) or not (output is None or 0 <= output < n_outputs):
        raise ValueError(
            f"report.write(output=...): must be from 0 to {n_outputs - 1} for a model of {n_outputs} outputs, got "
            f"{output}; write a report for each"
        )
    for each in pieces if n_outputs > 1 else ():
        each.predicted = each.predicted[:, output]
        each.intervals = None if each.intervals is None else each.intervals[:, output]
    joined = {
        name: None if getattr(pieces[0], name) is None else np.concatenate([getattr(each, name) for each in pieces])
        for name in ("predicted", "probabilities", "intervals", "sets")
    }
    return Predictions(**joined, output=output or 0, n_outputs=n_outputs)  # type: ignore[arg-type]


def rows_of(table: Any, rows: Any) -> Any:
    """Some rows of a table of covariates: a data frame, or a mapping of names to arrays."""
    if isinstance(table, dict):
        return {name: np.asarray(values)[rows] for name, values in table.items()}
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


@dataclass
class Effects:
    """What columns do to predictions.

    Attributes
    ----------
    columns : list of str
        Their names, the one that matters most first.
    positions : list of int
        Where they stand among the columns of points; -1 for covariates and the size.
    rows : ndarray of int
        The bags that were asked.
    changes : ndarray of shape (n_rows, n_columns)
        What each prediction, or the probability of the predicted class, owes to the column.
    left_out : int
        Columns that were not asked, because they are too many.
    explained : bool, default=False
        Whether these are contributions, see :mod:`distembed.learners.shapley`, which add up to the prediction less its
        mean over training bags; or else what is lost if the values of one column are permuted across all points.
    """

    columns: list[str]
    positions: list[int]
    rows: Array
    changes: Array
    left_out: int
    explained: bool = False

    @property
    def of_points(self) -> list[tuple[int, str]]:
        """Positions and names of the columns of points."""
        return [each for each in zip(self.positions, self.columns, strict=True) if each[0] >= 0]


def effects(model: Any, bags: Bags, found: Predictions, covariates: Any = None) -> Effects:
    """What the predictions for some bags owe to each column.

    Of learners of up to 24 columns this is what ``explain`` has. Of others, the values of one column after the other
    are permuted across the points of all bags. Cost: 6,000 predictions, and of ten bags at least; fewer where these are
    large.
    """
    learner = inner(model)
    n_columns = bags.n_dims + len(getattr(getattr(learner, "encoder_", None), "columns_", ()))
    if getattr(learner, "background_", None) is not None and n_columns <= MOST_COLUMNS:
        return _contributions(learner, bags, found, covariates)
    names = list(bags.named_parts().columns or ())
    groups = column_groups(names)
    asked = groups[:MOST_COLUMNS]
    rows = _some_bags(bags, len(asked))
    some = bags[rows]
    rng = np.random.default_rng(0)
    given = None if covariates is None else rows_of(covariates, rows)
    changes = np.empty((len(rows), len(asked)))
    with without_comparing():
        output = found.output
        whole = predict(model, some, given, calibrated=False, output=output)
        for k, columns in enumerate(asked):
            other = predict(model, permute_columns(some, columns, rng), given, calibrated=False, output=output)
            changes[:, k] = _lost(whole, other)
    order = np.argsort(-np.abs(changes).mean(axis=0), kind="stable")
    firsts = [asked[k][0] for k in order]
    return Effects([names[j] for j in firsts], firsts, rows, changes[:, order], len(groups) - len(asked))


def _some_bags(bags: Bags, n_predictions: int) -> Array:
    """Bags that can be asked with this many predictions of each."""
    per_bag = max(1.0, bags.n_points / bags.n_bags) * max(n_predictions, 1) * bags.n_dims
    most = max(min(MOST_EXPLAINED, MOST_AGAIN // max(n_predictions, 1), bags.n_bags), min(10, bags.n_bags))
    n_rows = int(np.clip(MOST_VALUES / per_bag, min(10, bags.n_bags), most))
    return np.unique(np.linspace(0, bags.n_bags - 1, n_rows).astype(int))


def _contributions(learner: Any, bags: Bags, found: Predictions, covariates: Any) -> Effects:
    """Contributions to the predictions, or to the probabilities of the predicted classes, of some bags."""
    checked, known = learner._check_input(bags, covariates)
    game = game_of(learner, checked, learner.background_, 0)
    rows = _some_bags(bags, game.n_predictions)
    own = None if known is None else known[rows]
    predicted = learner.targets_.inside(learner.model_.outputs(checked[rows], own))
    outputs = np.full(len(rows), found.output, np.intp)
    if hasattr(learner, "classes_"):
        outputs = np.argmax(found.predicted[rows][:, None] == learner.classes_, axis=1)
    values = contributions(game, checked[rows], own, predicted, outputs).values
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
    firsts = [group[0] for group in game.columns.points]
    positions = [firsts[k] if k < len(firsts) else -1 for k in order]
    return Effects([game.columns.names[k] for k in order], positions, rows, values[:, order], 0, explained=True)


def _lost(whole: Predictions, other: Predictions) -> Array:
    """What predictions, or probabilities of the predicted classes, lose."""
    if whole.probabilities is not None and other.probabilities is not None:
        best = whole.probabilities.argmax(axis=1)[:, None]
        return np.take_along_axis(whole.probabilities - other.probabilities, best, axis=1)[:, 0]
    if whole.predicted.dtype.kind in "iuf":
        return np.asarray(whole.predicted - other.predicted, float)
    return np.asarray(whole.predicted != other.predicted, float)
