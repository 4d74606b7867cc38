r"""Marginals: many dimensions through embeddings of few.

A density in hundreds of dimensions can't be estimated from a bag, but its marginals can. For parts S_1, ..., S_K of the
space (single coordinates, pairs of coordinates, or random directions) and an embedding A of low-dimensional bags,

.. math:: A(p) = (A(p_{S_1}), \dots, A(p_{S_K})), \qquad \|A(p) - A(q)\|^2 = \sum_k \|A(p_{S_k}) - A(q_{S_k})\|^2:

squared distances add over the parts. The paper's scene experiment is this sum over 512 coordinates.

Cost: K times that of one embedding, linear in bags and points. The columns of the parts are copied a few at a time out
of one chunk of bags, so the working set does not grow with the number of bags or of dimensions. Bandwidth rules
for densities of single columns are applied to all columns at once, by :mod:`distembed.density.bandwidth`. The features
of a few bags of one column are written by the stages of its embedding themselves: what else ``transform`` does would
take as long as the arithmetic.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from math import comb
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from ..bags import Bags
from ..bags.estimators import check_bags, check_embedding, count_features, in_cube
from ..basis import LowEnergyWarning
from ..compute.arrays import Array, Scratch
from ..compute.checks import Argument, Message, check_number
from ..compute.parallel import bag_slices
from ..compute.registry import storable
from ..density import KDE, GridKDE
from ..density import bandwidth as bandwidths
from ..density.kde import BOUNDARIES, bins_for
from ..scaling import UnitCube
from .density_base import DensityEmbedding
from .sketches import Additive
from .symmetric import not_passed_on

_NUMBER = re.compile(r"[\d.,e+%-]+")
_COPIED_POINTS = 512  # their lines stay in the cache until all columns are copied
_LINE_BYTES = 64  # columns are copied a cache line of each point at a time: memory is read once, not once a column


# --------------------------------------------------------------------------------------------------------------
# Parts of the space
# --------------------------------------------------------------------------------------------------------------


def transpose_copy(points: Array) -> Array:
    """A C-contiguous copy of the transpose, made a few points at a time, so every cache line is read once.

    Examples
    --------
    >>> transpose_copy(np.arange(6.0).reshape(3, 2))
    array([[0., 2., 4.],
           [1., 3., 5.]])
    """
    out = np.empty(points.shape[::-1], points.dtype)
    for start in range(0, len(points), _COPIED_POINTS):
        rows = slice(start, start + _COPIED_POINTS)
        out[:, rows] = points[rows].T
    return out


def random_directions(k: int, n_dims: int, rng: np.random.RandomState) -> Array:
    """Independent uniform directions, ndarray of shape (k, n_dims) with rows of length one.

    Examples
    --------
    >>> np.linalg.norm(random_directions(3, 5, np.random.RandomState(0)), axis=1)
    array([1., 1., 1.])
    """
    normal = rng.normal(size=(k, n_dims))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


# --------------------------------------------------------------------------------------------------------------
# The embedding of one part
# --------------------------------------------------------------------------------------------------------------


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


def write_features(embedding: Any, part: Bags, factor: float | None, out: Array, scratch: Scratch, few: bool) -> None:
    """Write the features of a part by its fitted embedding, with its bandwidth times a factor, if any.

    A few bags of one column are smoothed and projected right here: what else ``transform`` does would take longer.
    """
    stages: Any = getattr(embedding, "stages_", None)
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


@contextmanager
def warn_once(n_parts: int) -> Iterator[None]:
    """Hold back what the embeddings of the parts warn of, and show each thing once, not hundreds of times.

    Low energy is shown where it is that of more than a tenth of the parts: of many, some have it by chance.
    """
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
    if len(low) > n_parts / 10:
        worst = min(low, key=lambda warning: warning.energy)
        message = Message(
            "Marginals: the basis functions capture too little of the training bags in some marginals (energy_), so "
            "distances come out too small; raise ", Argument("n_basis"), " or ", Argument("bandwidth_scale"),
        )  # fmt: skip
        warnings.warn(LowEnergyWarning(message, worst.energy, worst.n_basis_functions), stacklevel=5)
    for (category, _), found in held.items():
        if category is not LowEnergyWarning:
            if len(found) == 1:
                warnings.warn(found[0], stacklevel=5)
            else:
                warnings.warn(f"{found[0]}; so in several marginals", category, stacklevel=5)


# --------------------------------------------------------------------------------------------------------------
# The estimator
# --------------------------------------------------------------------------------------------------------------


@storable(
    embeddings_="list[any]", _starts="int(_)", n_features_out_="m", directions_="finite(p, d)", cubes_="list[UnitCube]"
)
class Marginals(Additive):
    r"""Embed every coordinate, every pair of coordinates or random projections of bags, and concatenate.

    Parameters
    ----------
    embedding : estimator
        Any embedding of bags, or a pipeline that ends in one. It is cloned, one clone a part.
    which : {"each", "pairs"} or int, default="each"
        The parts: every coordinate by itself; every pair of coordinates, n_dims (n_dims - 1) / 2 of them; or an integer
        k, the number of random directions onto which points are projected.
    max_features : int, default=1_000_000
        Largest number of features per bag. More is refused after the first part is fitted, before the others are.
    random_state : int, RandomState or None, default=None
        Draws the directions, and seeds those ``random_state`` of the embedding that are None, differently in each part.

    Attributes
    ----------
    embeddings_ : list of estimators
        One fitted clone a part.
    parts_ : list of tuple of int
        Coordinates of each part; absent for projections.
    directions_ : ndarray of shape (k, n_dims)
        Unit vectors of the projections; only there.
    cubes_ : list of UnitCube
        The map of each projection to [0, 1]; only for projections.
    n_features_out_ : int
        Number of features.
    n_features_in_ : int
        n_dims.

    Notes
    -----
    *Scaling.* Features are concatenated as they are, so squared distances add over the parts: with the default ``"js"``
    they run up to n_parts ln 2. Nothing is averaged.

    *Units.* Coordinates are passed on as they are: put :class:`~distembed.UnitCube` in front, or inside
    (``embedding`` a pipeline). Projections are mapped to [0, 1] here, each by a ``UnitCube(outside="clip")`` of the
    projected training points; points that come to lie beyond are clipped, with its warning.

    *Categorical columns* are parts like others, and in pairs the other coordinate of a mixed part, for an embedding
    that takes them. Projections refuse them: codes are not numbers.

    *What is lost.* Single coordinates don't see dependence between coordinates. Pairs do, and so does a large enough
    number of projections: those in all directions determine a density (Cramér and Wold).

    *Cost.* ``fit`` copies one column (or pair) of all points at a time, ``transform`` a few columns of a chunk of bags,
    64 MB together or those of one bag, so 4,000 bags of 700 points in 512 dimensions need little memory beyond
    points and features.

    References
    ----------
    Sutherland, Oliva, Poczos, Schneider (2016). Linear-time learning on distributions with approximate kernel
    embeddings. AAAI. Section on scene recognition.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.embeddings.marginals import Marginals
    >>> rng = np.random.default_rng(0)
    >>> bags = de.Bags(rng.uniform(size=(600, 40)), offsets=[0, 150, 300, 600])  # 3 bags in 40 dimensions
    >>> embedding = de.HDDEmbedding("hellinger", n_basis=5, bandwidth=0.05)
    >>> each = Marginals(embedding).fit(bags)
    >>> each.transform(bags).shape, each.get_feature_names_out()[-1]
    ((3, 200), 'x39__hellinger_re0_4')

    >>> pairs = Marginals(embedding, which="pairs", max_features=10_000)
    >>> pairs.fit(bags)
    Traceback (most recent call last):
    ...
    ValueError: Marginals(max_features=...): 780 parts (pairs of 40 coordinates) of 25 features each make 19,500
    features, 156,000 bytes per bag in float64, more than 10,000; ...

    >>> Marginals(embedding, which=20, random_state=0).fit_transform(bags).shape
    (3, 100)
    """

    chunk_bytes = 2**25  # of columns copied at a time; the block before lives on while the next one is made

    takes_categories = True  # the embedding decides
    few_points = 2**15  # in a part; then what transform does besides its arithmetic takes as long as that
    few_bags = 2**10

    def __init__(
        self,
        embedding: Any,
        which: str | int = "each",
        *,
        max_features: int = 1_000_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.embedding = embedding
        self.which = which
        self.max_features = max_features
        self.random_state = random_state

    def _fit(self, bags: Bags, y: Any) -> None:
        """Fit one clone of the embedding to each part of the training bags."""
        check_embedding(self, self.embedding)
        if getattr(self.embedding, "symmetries", None) is not None:
            raise not_passed_on(self)
        limit = check_number(self, "max_features", self.max_features, low=1, integer=True)
        self._check_which()
        if bags.categories is not None and not isinstance(self.which, str):
            raise ValueError(
                f"Marginals(which={self.which!r}): projections add up columns, and codes of labels are not numbers, "
                f"got {', '.join(map(repr, bags.category_labels))}; pass which='each' or 'pairs', or leave those out"
            )
        rng = check_random_state(self.random_state)
        n_parts = self._set_parts(bags.n_dims, rng)
        self.embeddings_: list[Any] = []
        widths: list[int] = []
        with warn_once(n_parts):
            found = self._bandwidths(bags)
            for i, part in self._parts_of(bags, fit=not found):
                embedding = clone(self.embedding)
                if self.random_state is not None:
                    seed_where_none(embedding, rng)
                with self._naming(i):
                    self.embeddings_.append(fit_with(found.get(i), embedding, part, y))
                    widths.append(count_features(embedding, part))
                if i == 0:
                    self._check_total(n_parts, widths[0], limit, bags.dtype)
        self._starts = np.r_[0, np.cumsum(widths)]
        self.n_features_out_ = self._n_features_out = int(self._starts[-1])

    def __distembed_fits__(self) -> bool:
        starts = self._starts
        n_parts = len(self.embeddings_)
        parts = self.cubes_ if hasattr(self, "cubes_") else self.parts_
        return (
            len(starts) == n_parts + 1
            and len(parts) == n_parts == len(getattr(self, "directions_", parts))
            and bool(starts[0] == 0 and starts[-1] == self._n_features_out and np.all(np.diff(starts) >= 0))
        )

    def _bandwidths(self, bags: Bags) -> dict[int, float]:
        """Bandwidths of parts of one continuous column, by their number, where the embedding goes by a rule for them.

        Empty where it does not, or where its ``fit`` will refuse the bags.
        """
        rule, boundary = column_rule(self.embedding)
        numbers = [j for j in range(bags.n_dims) if j not in dict(bags.categories or {})]
        if rule is None or self.which == "pairs" or not numbers:
            return {}
        if self.which != "each":
            columns = (part for _, part in self._parts_of(bags, fit=True))
            return dict(enumerate(bandwidths.for_columns(rule, columns, boundary).tolist()))
        points = bags.points if bags.categories is None else bags.points[:, numbers]
        if points.min() < 0 or points.max() > 1:
            return {}
        columns = (part for _, part in self._parts_of(bags) if part.categories is None)
        return dict(zip(numbers, bandwidths.for_columns(rule, columns, boundary).tolist(), strict=True))

    def _check_which(self) -> None:
        which = self.which
        number = isinstance(which, Integral) and not isinstance(which, bool)
        if (isinstance(which, str) and which in ("each", "pairs")) or (number and int(which) >= 1):
            return
        error = ValueError if isinstance(which, str) or number else TypeError
        raise error(
            "Marginals(which=...): must be 'each', 'pairs' or a number of projections, an integer in [1, inf), got "
            f"{which!r}; choose one of these"
        )

    def _set_parts(self, n_dims: int, rng: np.random.RandomState) -> int:
        """Store the parts of the space and return their number; parts of an earlier fit go."""
        for name in ("parts_", "directions_", "cubes_"):
            self.__dict__.pop(name, None)
        if self.which == "each":
            self.parts_ = [(j,) for j in range(n_dims)]
            return n_dims
        if self.which == "pairs":
            if n_dims < 2:
                raise ValueError(
                    "Marginals(which='pairs'): points must have at least 2 dimensions, got 1; pass which='each', or "
                    "use the embedding by itself"
                )
            self.parts_ = []  # filled while fitting: their number may be absurd, which only max_features tells
            return comb(n_dims, 2)
        k = int(self.which)
        self.directions_ = random_directions(k, n_dims, rng)
        self.cubes_ = [UnitCube(outside="clip") for _ in range(k)]
        return k

    def _check_total(self, n_parts: int, width: int, limit: int, dtype: np.dtype[Any]) -> None:
        """Refuse more features than ``max_features`` before any work is done for them."""
        total = n_parts * width
        if total <= limit:
            return
        n_dims = self.n_features_in_
        kind = f"{self.which} of {n_dims} coordinates" if isinstance(self.which, str) else "projections"
        raise ValueError(
            f"Marginals(max_features=...): {n_parts:,} parts ({kind}) of {width:,} features each make {total:,} "
            f"features, {total * dtype.itemsize:,} bytes per bag in {dtype}, more than {limit:,}; lower the number of "
            "features of the embedding (n_basis, n_lambdas), choose fewer parts (which='each', or fewer "
            "projections) or fewer coordinates, or raise max_features"
        )

    def _parts_of(self, bags: Bags, *, fit: bool = False) -> Iterator[tuple[int, Bags]]:
        """Yield the bags of each part in turn, as views of a block of columns that is copied together."""
        if self.which == "pairs":
            pairs: Any = combinations(range(bags.n_dims), 2) if fit else self.parts_
            for i, pair in enumerate(pairs):
                if fit:
                    self.parts_.append(pair)
                yield i, self._part(bags, np.take(bags.points, pair, axis=1), pair)
            return
        points = bags.points
        n_parts = len(self.cubes_) if hasattr(self, "cubes_") else len(self.parts_)
        fitting = max(1, self.chunk_bytes // points[:, 0].nbytes)
        step = min(fitting, max(1, _LINE_BYTES // points.itemsize))
        for first in range(0, n_parts, step):
            group = slice(first, min(first + step, n_parts))
            if self.which == "each":
                columns = transpose_copy(points[:, group])
            else:
                columns = self.directions_[group].astype(points.dtype) @ points.T
            for i, column in enumerate(columns, first):
                if self.which == "each":
                    yield i, self._part(bags, column[:, None], (i,))
                else:
                    part = self._part(bags, column[:, None], ())
                    cube = self.cubes_[i]
                    with self._naming(i):
                        scaled = (cube.fit(part) if fit else cube).transform(part)
                    yield i, scaled

    @staticmethod
    def _part(bags: Bags, points: Array, coordinates: tuple[int, ...]) -> Bags:
        columns = tuple(bags.columns[j] for j in coordinates) if bags.columns is not None and coordinates else None
        labels = dict(bags.categories or {})
        categories = tuple((k, labels[j]) for k, j in enumerate(coordinates) if j in labels) or None
        return bags.replace(points=points, columns=columns, categories=categories)

    def _transform(self, bags: Bags, factor: float | None = None) -> Array:
        """Features of all parts side by side, a chunk of bags at a time, with bandwidths times a factor, if any."""
        out = np.empty((bags.n_bags, self.n_features_out_), bags.dtype)
        ends = self._starts.tolist()
        scratch = Scratch()
        slices = bag_slices(bags.sizes, _LINE_BYTES, 0, self.chunk_bytes)
        if len(slices) > 1:  # errors name a bag: its number must not depend on the chunk
            bags = bags.replace(ids=bags.ids)
        with warn_once(len(self.embeddings_)):
            for rows in slices:
                chunk = bags[rows]
                few = chunk.n_points <= self.few_points and chunk.n_bags <= self.few_bags
                for i, part in self._parts_of(chunk):
                    with self._naming(i):
                        own = out[rows, ends[i] : ends[i + 1]]
                        write_features(self.embeddings_[i], part, factor, own, scratch, few)
        return out

    # Sketches: those of the parts side by side

    def why_no_sketches(self) -> str:
        """Why the embeddings of parts make no statistics that add up, for errors; empty where they do."""
        if not isinstance(self.embedding, Additive):
            return f"{type(self.embedding).__name__} has none"
        return next(filter(None, (each.why_no_sketches() for each in getattr(self, "embeddings_", ()))), "")

    def n_statistics(self) -> int:
        """Those of all parts."""
        return sum(each.n_statistics() for each in self.embeddings_)

    def _statistics(self, bags: Bags) -> Array:
        found = []
        with warn_once(len(self.embeddings_)):
            for i, part in self._parts_of(bags):
                with self._naming(i):
                    found.append(self.embeddings_[i]._statistics(part))
        return np.hstack(found)

    def _of_parts(self, means: Array) -> Iterator[tuple[Any, Array]]:
        """The embedding of each part, and its columns of the statistics."""
        ends = np.cumsum([each.n_statistics() for each in self.embeddings_])[:-1]
        return zip(self.embeddings_, np.split(means, ends, axis=-1), strict=True)

    def _from_statistics(self, means: Array) -> Array:
        return np.hstack([embedding._from_statistics(own) for embedding, own in self._of_parts(means)])

    def _join(self, one: Array, other: Array, share: float) -> Array:
        pairs = zip(self._of_parts(one), self._of_parts(other), strict=True)
        return np.hstack([embedding._join(a, b, share) for (embedding, a), (_, b) in pairs])

    @available_if(lambda self: hasattr(self.embedding, "transform_wider"))  # type: ignore[untyped-decorator]
    def transform_wider(self, X: Any, factors: Sequence[float]) -> Iterator[Array]:
        """Features of bags with the bandwidths of ``fit`` times each factor; parts are fitted once for all of them.

        Parameters
        ----------
        X : Bags or anything that :func:`distembed.as_bags` reads
            Bags of the same width as in ``fit``.
        factors : sequence of float
            At least one each.

        Yields
        ------
        ndarray of shape (n_bags, n_features)
        """
        bags = check_bags(self, X, reset=False)
        for factor in factors:
            yield self._transform(bags, factor)

    @contextmanager
    def _naming(self, i: int) -> Iterator[None]:
        """Say which part an error came from: the part's own embedding knows its coordinate as dimension 0."""
        try:
            yield
        except Exception as error:
            error.add_note(f"raised by the embedding that Marginals uses for {self._prefix(i)}")
            raise

    def _prefix(self, i: int) -> str:
        """``x3``, ``x0_x1`` or ``p7``, with the bags' own column names where they have them."""
        if hasattr(self, "directions_"):
            return f"p{i}"
        names = getattr(self, "feature_names_in_", None)
        return "_".join(f"x{j}" if names is None else str(names[j]) for j in self.parts_[i])

    def _feature_names(self) -> Iterator[str]:
        """Such as ``x3__js_re0_2``: coordinate, then the embedding's own name of the feature.

        Coordinates go by the column names of the bags if they have any; pairs are ``x0_x1__...``, projections
        ``p7__...``.
        """
        prefixes = [self._prefix(i) for i in range(len(self.embeddings_))]
        if len(set(prefixes)) < len(prefixes):  # columns a, a_b, b_c, c: two pairs would be called a_b_c
            prefixes = ["_".join(f"x{j}" for j in part) for part in self.parts_]
        widths = np.diff(self._starts).tolist()
        for prefix, embedding, width in zip(prefixes, self.embeddings_, widths, strict=True):
            yield from (f"{prefix}__{name}" for name in _names_of(embedding, width))


def _names_of(embedding: Any, width: int) -> list[str]:
    """Names of an embedding's features, or their numbers if it has no names for them."""
    if hasattr(embedding, "get_feature_names_out"):
        return [str(name) for name in embedding.get_feature_names_out()]
    return [str(i) for i in range(width)]
