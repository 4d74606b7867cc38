r"""Views: several bags made of one, each embedded, and their kernels summed.

A picture is a bag of pixels (x, y, v), and one of (x, y, size of the gradient); a bag of points in the plane is one of
positions, and one of distances to neighbours. No single density shows all of it; the joint density of everything has
too many dimensions. A sum of kernels,

.. math:: k(P, Q) = \sum_v w_v \exp(-d_v^2(P_v, Q_v) / (2 σ_v^2)),

lets each view be as smooth as it needs, and costs as much as its views together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..bags import Bags
from ..bags.estimators import BagEmbedding, check_embedding, count_features
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number
from ..compute.registry import storable
from ..features import RandomFourierFeatures
from ..features.exact_kernel import KernelFeatures, KernelSum
from ..features.sums import SumFeatures, shares
from ..scaling import Standardize, UnitCube, scaler_for

_SCALE_BAGS = 1000  # of which the spread of a view is taken


def steps_of(view: Any) -> tuple[list[Any], Any]:
    """What makes the bags of a view, and its embedding, none fitted; a scaler is added where it lacks one.

    Examples
    --------
    >>> import distembed as de
    >>> from sklearn.pipeline import make_pipeline
    >>> steps_of(make_pipeline(de.Select((0, 1)), de.HDDEmbedding("js")))
    ([Select(columns=(0, 1)), UnitCube(map='auto')], HDDEmbedding())
    """
    steps = [clone(step) for _, step in view.steps] if isinstance(view, Pipeline) else [clone(view)]
    before = steps[:-1]
    embedding = steps[-1]
    if any(isinstance(step, UnitCube | Standardize) for step in before):
        return before, embedding
    symmetries = getattr(embedding, "symmetries", None)
    if symmetries is not None:
        from ..basis import groups
        from ..scaling.unit_cube import SharedCube

        return [*before, SharedCube(groups.get(symmetries).swap)], embedding
    scaler = scaler_for(embedding)
    return (before if scaler is None else [*before, scaler]), embedding


@storable(fitted_="list[any]", widths_="list[_]", weights_="finite(v)", spreads_="finite(v)", groups_="list[any]")
class Views(BagEmbedding):
    r"""Several embeddings of a bag, of other columns or of what other columns are made of, side by side.

    Parameters
    ----------
    views : dict of str to estimator
        By name: an embedding, or a pipeline of what takes bags to bags (:class:`~distembed.Select`,
        :class:`~distembed.Differences`, :class:`~distembed.LocalScale`, scalers) that ends with an embedding. One that
        has no scaler gets the one that learners would take.
    weights : "search" or sequence of float, default="search"
        Of the kernels. ``"search"``: learners choose them on held-out bags; elsewhere they are equal. They are divided
        by their sum.
    sigma_scales : sequence of float, optional
        Scale of each view's kernel, as a multiple of its median distance. Learners choose it by default.

    Attributes
    ----------
    fitted_ : list of Pipeline
        The views, fitted.
    widths_ : tuple of int
        Numbers of their features.
    weights_ : ndarray of shape (n_views,)
        Of sum one.
    spreads_ : ndarray of shape (n_views,)
        Root mean squared distances of their features from their means, in training.
    groups_ : list of CoefficientGroup or None
        How symmetries of a view act on its features.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    Features of view v are divided by its spread and multiplied by √w_v, so the linear kernel of a row is the
    weighted sum of the views' linear kernels. A learner with random features takes the sum of their RBF kernels, each
    with its own sigma and symmetries; :class:`~distembed.RandomFourierFeatures` behind it in a pipeline takes their
    product, exp(-Σ_v w_v d_v² / (2σ²)).

    *Cost*: that of the views together. ``learners.view_contributions`` has what each view adds.

    Examples
    --------
    >>> import distembed as de
    >>> from sklearn.pipeline import make_pipeline
    >>> bags = np.random.default_rng(0).normal(size=(30, 60, 2))
    >>> density = de.HDDEmbedding("hellinger", n_basis=8, bandwidth=0.15)
    >>> clumps = make_pipeline(de.LocalScale((4, 20)), density)
    >>> views = de.Views({"position": density, "clumps": clumps}, weights=(1, 0.3))
    >>> views.fit(bags).widths_, views.transform(bags).shape
    ((64, 64), (30, 128))
    """

    units = "own"

    def __init__(
        self,
        views: Mapping[str, Any],
        *,
        weights: str | Sequence[float] = "search",
        sigma_scales: Sequence[float] | None = None,
    ) -> None:
        self.views = views
        self.weights = weights
        self.sigma_scales = sigma_scales

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, with those of the views as ``name__parameter``."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.views, Mapping):
            for name, view in self.views.items():
                found[name] = view
                found |= {f"{name}__{key}": value for key, value in view.get_params(deep=True).items()}
        return found

    def _fit(self, bags: Bags, y: Any) -> None:
        self._check_views()
        self.weights_, n = self._checked_weights(), len(self.views)
        if self.sigma_scales is not None:
            if len(self.sigma_scales) != n:
                raise ValueError(
                    f"Views(sigma_scales=...): must be {n}, one per view, got {len(self.sigma_scales)}; give one each"
                )
            for scale in self.sigma_scales:
                check_number(self, "sigma_scales", scale, low=0, inclusive="neither")
        self.fitted_: list[Any] = []
        spreads = []
        widths = []
        groups = []
        some = bags[np.unique(np.linspace(0, bags.n_bags - 1, _SCALE_BAGS).round().astype(int))]
        for view in self.views.values():
            before, embedding = steps_of(view)
            made = Pipeline([(f"step{i}", step) for i, step in enumerate([*before, embedding])]).fit(bags, y)
            rows = np.asarray(made.transform(some), np.float64)
            spread = float(np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1))))
            self.fitted_.append(made)
            spreads.append(spread or 1.0)
            widths.append(count_features(made, bags))
            groups.append(getattr(made.steps[-1][1], "group_", None))
        self.spreads_ = np.array(spreads)
        self.widths_ = tuple(widths)
        self.groups_ = groups
        self._n_features_out = sum(widths)

    def _check_views(self) -> None:
        if not isinstance(self.views, Mapping) or not self.views:
            raise TypeError(
                f"Views(views=...): must be a dict of embeddings by name, got {self.views!r}; such as "
                "{'position': HDDEmbedding('js'), 'height': make_pipeline(Select([2]), HDDEmbedding('js'))}"
            )
        for name, view in self.views.items():
            if not isinstance(name, str) or "__" in name or name in super().get_params(deep=False):
                raise ValueError(
                    f"Views(views=...): names must be text without two underlines, and not those of parameters, got "
                    f"{name!r}; choose another one"
                )
            check_embedding(self, view)

    def _checked_weights(self) -> Array:
        n = len(self.views)
        if isinstance(self.weights, str):
            check_choice(self, "weights", self.weights, ("search",))
            return np.full(n, 1 / n)
        given = np.asarray(self.weights, float)
        if given.shape != (n,) or not np.all(np.isfinite(given)) or given.min() < 0 or given.sum() <= 0:
            raise ValueError(
                f"Views(weights=...): must be 'search' or {n} numbers, one per view, none negative and not all zero, "
                f"got {self.weights!r}; give one each"
            )
        return np.asarray(given / given.sum())

    def _transform(self, bags: Bags) -> Array:
        out = np.empty((bags.n_bags, self._n_features_out), bags.dtype)
        start = 0
        for view, width, weight, spread in zip(self.fitted_, self.widths_, self.weights_, self.spreads_, strict=True):
            block = out[:, start : start + width]
            np.multiply(np.asarray(view.transform(bags)), np.sqrt(weight) / spread, out=block, casting="same_kind")
            start += width
        return out

    def _feature_names(self) -> list[str]:
        made = zip(self.views, self.fitted_, strict=True)
        return [f"{name}_{feature}" for name, view in made for feature in view.steps[-1][1].get_feature_names_out()]

    def __distembed_fits__(self) -> bool:
        lengths = {len(self.fitted_), len(self.widths_), len(self.groups_), len(self.weights_), len(self.spreads_)}
        return lengths == {len(self.views)} and sum(self.widths_) == self._n_features_out

    def kernel_features(self, n_components: int | str, seed: int, n_jobs: int | None) -> SumFeatures:
        """Unfitted features of the sum of the views' kernels, for rows of ``transform``.

        Parameters
        ----------
        n_components : int or "exact"
            Random features in all, which views share in proportion to their weights.
        seed : int
            Of what is drawn.
        n_jobs : int or None
            Threads.
        """
        weights = tuple(self.weights_.tolist())
        scales = [1.0] * len(weights) if self.sigma_scales is None else self.sigma_scales
        numbers = [0] * len(weights) if isinstance(n_components, str) else shares(n_components, weights)
        parts: list[Any] = []
        for v, (scale, group, n) in enumerate(zip(scales, self.groups_, numbers, strict=True)):
            given: dict[str, Any] = {"sigma_scale": float(scale), "random_state": (seed + v) % 2**31, "group": group}
            if isinstance(n_components, str):
                parts.append(KernelFeatures(**given))
            else:
                parts.append(RandomFourierFeatures(n, n_jobs=n_jobs, **given))
        made: SumFeatures = (KernelSum if isinstance(n_components, str) else SumFeatures)(parts, self.widths_, weights)
        return made
