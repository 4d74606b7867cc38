"""Classes of bags: what they weigh, and how many bags each must have."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..compute.arrays import Array


def class_weights(owner: object, given: Any, classes: Array, codes: Array, weight: Array) -> Array:
    """What bags of each class weigh, ndarray of shape (n_classes,): None, ``"balanced"``, or a dict by class.

    ``"balanced"`` gives all classes the same sum of weights, and bags one on average.

    Examples
    --------
    >>> class_weights("Mine", "balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]), np.ones(4))
    array([0.66666667, 2.        ])
    """
    name = owner if isinstance(owner, str) else type(owner).__name__
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, str) and given == "balanced":
        sums = np.bincount(codes, weight, minlength=len(classes))
        return np.asarray(weight.sum() / (len(classes) * np.where(sums > 0, sums, 1.0)))
    if not isinstance(given, dict):
        raise ValueError(
            f"{name}(class_weight=...): must be None, 'balanced' or a dict of classes to weights, got {given!r}; write "
            "{'rare': 10}"
        )
    known = classes.tolist()
    strange = [key for key in given if key not in known]
    if strange:
        raise ValueError(f"{name}(class_weight=...): must name classes of y, {known}, got {strange[0]!r}; leave it out")
    found = np.array([given.get(key, 1.0) for key in known], np.float64)
    if not np.all(np.isfinite(found) & (found > 0)):
        raise ValueError(f"{name}(class_weight=...): must be positive numbers, got {given!r}; leave bags out instead")
    return found


def check_rare(where: str, classes: Array, codes: Array, how: str | int) -> None:
    """Refuse a class of one bag, and warn of one that has fewer bags than there are folds.

    Examples
    --------
    >>> check_rare("Mine", np.array(["a", "b"]), np.array([0, 0, 0, 1]), 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: Mine: every class must have at least two bags, got 1 of 'b'; add bags of it, leave it out, ...
    """
    counts = np.bincount(codes, minlength=len(classes))
    name, rarest = classes.tolist()[int(counts.argmin())], int(counts.min())
    if rarest < 2:
        raise ValueError(
            f"{where}: every class must have at least two bags, got {rarest} of {name!r}; add bags of it, leave it "
            "out, or name one embedding, with tune=None, so that none is held out"
        )
    if isinstance(how, int) and rarest < how:
        warnings.warn(
            f"{where}: class {name!r} has so few bags that settings are judged on fewer folds, one for each of them; "
            "more bags of it would tell them apart better",
            stacklevel=4,
        )
