"""What :class:`~distembed.Marginals` does for one part of the space: fit its embedding, write its features, warn once.

An embedding of a density by a bandwidth rule is fitted with the bandwidth that was found for all columns together. The
features of a few bags are written by the stages themselves, without what ``transform`` does beside its arithmetic.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..bags import Bags
from ..bags.estimators import check_bags, in_cube
from ..basis import LowEnergyWarning
from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message
from ..density import KDE, GridKDE
from ..density import bandwidth as bandwidths
from ..density.kde import BOUNDARIES, bins_for
from .density_base import DensityEmbedding

# in one part: what embeddings do beside their arithmetic takes as long
_FEW_POINTS = 2**15
_FEW_BAGS = 2**10
_NUMBER = re.compile(r"[\d.,e+%-]+")


def count_features(embedding: Any, bags: Bags) -> int:
    """Number of features of a fitted embedding, whatever it is made of: it embeds the first bag.

    Examples
    --------
    >>> import distembed as de
    >>> bags = de.as_bags(np.linspace(0, 1, 40).reshape(2, 20, 1))
    >>> count_features(de.HDDEmbedding("hellinger", n_basis=7).fit(bags), bags)
    7
    """
    if isinstance(embedding, DensityEmbedding):
        return embedding.stages_.n_features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd about one bag is told when all are embedded
        return int(np.shape(embedding.transform(bags[:1]))[1])


@contextmanager
def once() -> Iterator[None]:
    """Hold back what the embeddings of the parts warn of, and tell each thing once, not hundreds of times."""
    held: dict[tuple[type[Warning], str], list[Any]] = {}
    with warnings.catch_warnings():
        show = warnings.showwarning

        def hold(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, UserWarning):
                held.setdefault((category, _NUMBER.sub("", str(message))), []).append(message)
            else:
                show(message, category, *where, **more)

        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = hold
        yield
    low = [message for (category, _), found in held.items() if category is LowEnergyWarning for message in found]
    if low:
        worst = min(low, key=lambda warning: warning.energy)
        message = Message(
            "Marginals: the basis functions capture too little of the training bags in some marginals (energy_), so "
            "that distances come out too small; raise ", Argument("n_basis"), " or ", Argument("bandwidth_scale"),
        )  # fmt: skip
        warnings.warn(LowEnergyWarning(message, worst.energy, worst.n_basis_functions), stacklevel=5)
    for (category, _), found in held.items():
        if category is not LowEnergyWarning:
            if len(found) == 1:
                warnings.warn(found[0], stacklevel=5)
            else:
                warnings.warn(f"{found[0]}; so in several marginals", category, stacklevel=5)


def seed_where_none(estimator: Any, rng: np.random.RandomState) -> None:
    """Give an integer seed to every ``random_state`` of an estimator, nested ones included, that is None."""
    parameters = estimator.get_params(deep=True)
    names = [name for name in sorted(parameters) if name == "random_state" or name.endswith("__random_state")]
    seeds = {name: int(rng.randint(np.iinfo(np.int32).max)) for name in names if parameters[name] is None}
    if seeds:
        estimator.set_params(**seeds)


def column_rule(embedding: Any) -> tuple[str | None, str]:
    """The bandwidth rule and boundary by which an embedding smooths single columns; no rule where it does otherwise.

    Examples
    --------
    >>> import distembed as de
    >>> column_rule(de.HDDEmbedding()), column_rule(de.HDDEmbedding(bandwidth=0.1)), column_rule(de.MeanEmbedding())
    (('distance', 'reflect'), (None, ''), (None, ''))
    """
    if isinstance(embedding, DensityEmbedding) and getattr(embedding, "method", "density") == "density":
        rule = embedding.bandwidth
        kind = embedding.density
        density: Any = KDE() if isinstance(kind, str) and kind == "kde" else kind
        plain = type(density) is KDE and not density.per_bag and isinstance(density.boundary, str)
        if plain and density.boundary in BOUNDARIES and isinstance(rule, str) and rule in bandwidths.RULES:
            return rule, density.boundary
    return None, ""


def fit_with(bandwidth: float | None, embedding: Any, part: Bags, y: Any) -> Any:
    """Fit an embedding to a part, for which its bandwidth rule found this already; None: it has yet to find it."""
    if bandwidth is None:
        return embedding.fit(part, y)
    rule = embedding.bandwidth
    embedding.bandwidth = max(bandwidth, bandwidths.NARROWEST)
    try:
        return embedding.fit(part, y)
    finally:
        embedding.bandwidth = rule


def write_features(embedding: Any, part: Bags, factor: float | None, out: Array, scratch: Scratch) -> None:
    """Write the features of a part by its fitted embedding, with its bandwidth times a factor, if any.

    A few bags of one column are smoothed and projected right here: what else ``transform`` does would take longer.
    """
    stages: Any = getattr(embedding, "stages_", None)
    few = part.n_points <= _FEW_POINTS and part.n_bags <= _FEW_BAGS
    smooths = part.n_dims == 1 and stages is not None and stages.smooths_bins and stages.cells is None
    if few and smooths and in_cube(part):
        bags = check_bags(embedding, part, reset=False).drop_weightless()
        nodes = stages.nodes
        h = stages.bandwidth
        boundaries = stages.density.boundaries(1)
        wider = h if factor is None else h * factor
        p = GridKDE(nodes, wider, boundaries, bags.dtype, bins_for(nodes.shape, h))(bags, None, scratch)
        stages.projection.astype(bags.dtype)(stages.functions(p, scratch), out, scratch)
    elif factor is None:
        out[...] = embedding.transform(part)
    else:
        (out[...],) = embedding.transform_wider(part, [factor])
