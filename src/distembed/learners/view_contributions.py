"""What each view of a learner of :class:`~distembed.Views` adds to predictions: sums of kernels make sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..bags.estimators import check_bags
from ..compute.arrays import Array
from ..embeddings import Views
from ..models.linear_head import LinearHead
from .classes import one_class


@dataclass(frozen=True, eq=False)
class ViewExplanation:
    """What each view adds to the predictions of bags.

    Attributes
    ----------
    names : tuple of str
        Of the views.
    contributions : ndarray of shape (n_bags, n_views)
        Parts of the predictions, less their means over these bags: they and ``constant`` add up to ``predictions``.
    constant : float
        Mean of the predictions.
    predictions : ndarray of shape (n_bags,)
    what : str
        What is predicted.
    """

    names: tuple[str, ...]
    contributions: Array
    constant: float
    predictions: Array
    what: str

    def __repr__(self) -> str:
        spread = self.contributions.std(axis=0)
        total = float(np.sum(spread)) or 1.0
        rows = [
            f"{name:<{max(map(len, self.names))}}  {one:10.4g}  {one / total:6.1%}"
            for name, one in zip(self.names, spread, strict=True)
        ]
        title = f"What views add to the {self.what} of {len(self.predictions)} bags: deviation, and its share"
        return "\n".join([title, *rows])


def view_contributions(model: Any, X: Any, *, output: Any = None) -> ViewExplanation:
    """What each view adds to the predictions of bags, or to the score of a class.

    Parameters
    ----------
    model : DistributionRegressor or DistributionClassifier
        Fitted to :class:`~distembed.Views`, without a head of its own.
    X : Bags or anything that :func:`distembed.as_bags` reads
        Bags, as in ``predict``.
    output : optional
        The number of the output, or the class; by default the first one, and the second class.

    Returns
    -------
    ViewExplanation

    Examples
    --------
    >>> import distembed as de
    >>> views = de.Views({"mean": de.MomentEmbedding("mean"), "spread": de.MomentEmbedding("deviation")})
    >>> bags = np.random.default_rng(0).normal(size=(40, 20, 1))
    >>> model = de.DistributionRegressor(views, n_components=50, random_state=0).fit(bags, bags.mean(axis=(1, 2)))
    >>> view_contributions(model, bags[:3]).contributions.shape
    (3, 2)
    """
    check_is_fitted(model, "model_")
    fitted = model.model_
    embedding = fitted.view.embedding if fitted.is_single else None
    head = fitted.members[0].head
    if not isinstance(embedding, Views) or not isinstance(head, LinearHead):
        raise ValueError(
            "view_contributions(model=...): must be a learner of Views without a head of its own, got "
            f"{type(model).__name__}(embedding={model.embedding!r}); use model.explain for what columns contribute"
        )
    rows = head.coefficients()
    intercepts = np.broadcast_to(np.ravel(np.asarray(head.model_.intercept_, np.float64)), len(rows))
    what = "prediction"
    k = 0 if output is None else output
    if hasattr(model, "classes_"):
        label = model.classes_[1] if output is None else one_class(output, model.classes_)
        k = model.classes_.tolist().index(label)
        what = f"score of class {np.asarray(label).item()!r}"
        if len(rows) == 1:  # the second of two classes, less the first
            rows, intercepts = np.vstack([-rows, rows]), np.append(-intercepts, intercepts)
    bags = check_bags(model, X, reset=False)
    coef = rows[k]
    features = fitted.view.features
    embedded = np.asarray(embedding.transform(fitted.view.scale(bags)), np.float64)
    if features is None:
        parts = np.add.reduceat(embedded * coef, np.cumsum((0, *embedding.widths_[:-1])), axis=1)
    else:
        parts = features.contributions(embedded, coef)
    predictions = parts.sum(axis=1) + intercepts[k]
    return ViewExplanation(
        tuple(embedding.views), parts - parts.mean(axis=0), float(predictions.mean()), predictions, what
    )
