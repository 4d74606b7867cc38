r"""Peers on real tables: what people take for bags when they do not embed distributions.

==================== ===========================================================================================
means + logistic      logistic regression on the means of the columns
statistics + ...      a random forest, a support vector machine or gradient boosting on nine statistics per column
MI-SVM                a bag is positive if one of its points is (Andrews, Tsochantaridis and Hofmann 2003)
DeepSets              a network that is applied to each point, a mean, and a second network (Zaheer et al. 2017)
GloScope              Kullback-Leibler by nearest neighbours between bags (Wang, Torous, Gong and Purdom 2024)
==================== ===========================================================================================

Each is an object with ``fit(bags, y)`` and ``predict(bags)``. Settings are chosen on folds of the bags given to ``fit``
by balanced accuracy (forest: out of bag; gradient boosting: by the logarithmic loss, which has a smooth minimum in the
number of trees; DeepSets: on held-out bags), and columns are scaled by the points given to ``fit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_sample_weight

from distembed import divergences
from distembed.bags import Bags
from distembed.compute.arrays import Array

LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of quantiles
N_FOLDS = 5
N_TREES = 300  # of a forest
MOST_TREES = 150  # per class, of boosting
# Width, dropout and learning rate.
NETWORKS = tuple((width, dropout, rate) for width in (32, 128) for dropout in (0.0, 0.3) for rate in (1e-3, 5e-3))


def folds_of(y: Array, seed: int) -> StratifiedKFold:
    """Five stratified folds, or fewer where a class has fewer bags.

    Examples
    --------
    >>> folds_of(np.repeat([0, 1], [16, 4]), 0).get_n_splits()
    4
    """
    smallest = int(np.unique(y, return_counts=True)[1].min())
    return StratifiedKFold(max(2, min(N_FOLDS, smallest)), shuffle=True, random_state=seed)


# --------------------------------------------------------------------------------------------------------------
# Features
# --------------------------------------------------------------------------------------------------------------


def statistics(bags: Bags) -> Array:
    """Mean, deviation and seven quantiles of every column of every bag, points weighted.

    Parameters
    ----------
    bags : Bags

    Returns
    -------
    ndarray of shape (n_bags, 9 n_dims)
        Means first. A point is at the middle of its share of the bag; quantiles are interpolated between points.

    Examples
    --------
    >>> statistics(Bags([[1.0], [2.0], [3.0]], [0, 3])).round(2).tolist()
    [[2.0, 0.82, 1.0, 1.0, 1.25, 2.0, 2.75, 3.0, 3.0]]
    """
    rows = []
    for i, points in enumerate(bags):
        weight = bags.weights_of(i)
        share = np.full(len(points), 1 / len(points)) if weight is None else weight / weight.sum()
        mean = share @ points
        deviation = np.sqrt(share @ (points - mean) ** 2)
        order = np.argsort(points, axis=0)
        middle = np.cumsum(share[order], axis=0) - share[order] / 2
        ordered = np.take_along_axis(points, order, axis=0)
        quantiles = [np.interp(LEVELS, middle[:, j], ordered[:, j]) for j in range(points.shape[1])]
        rows.append(np.concatenate([mean, deviation, np.transpose(quantiles).ravel()]))
    return np.array(rows)


def means(bags: Bags) -> Array:
    """The mean of every column of every bag, of shape (n_bags, n_dims), points weighted."""
    return np.array([np.average(points, axis=0, weights=bags.weights_of(i)) for i, points in enumerate(bags)])


class OnFeatures:
    """A classifier of vectors on one vector per bag.

    Examples
    --------
    >>> bags, y = Bags.from_arrays([[[0.0], [1.0]], [[4.0], [5.0]]] * 2), np.array([0, 1, 0, 1])
    >>> OnFeatures(means, KNeighborsClassifier(1)).fit(bags, y).predict(bags).tolist()
    [0, 1, 0, 1]
    """

    def __init__(self, features: Callable[[Bags], Array], model: Any) -> None:
        self.features = features
        self.model = model

    def fit(self, bags: Bags, y: Array) -> OnFeatures:
        """Choose settings and fit."""
        self.model.fit(self.features(bags), y)
        return self

    def predict(self, bags: Bags) -> Array:
        """One class per bag."""
        found: Array = self.model.predict(self.features(bags))
        return found


class _Searched:
    """A pipeline whose settings are chosen on folds, and nothing else than ``fit`` and ``predict`` of it."""

    def __init__(self, model: Any, grid: dict[str, Any], seed: int) -> None:
        self.pipeline = Pipeline([("scale", StandardScaler()), ("model", model)])
        self.grid = {f"model__{name}": values for name, values in grid.items()}
        self.seed = seed

    def fit(self, F: Array, y: Array) -> None:
        # The scale of gamma is 1/d, which after scaling is scikit-learn's own "scale".
        grid = {name: np.asarray(v) / F.shape[1] if name == "model__gamma" else v for name, v in self.grid.items()}
        search = GridSearchCV(self.pipeline, grid, scoring="balanced_accuracy", cv=folds_of(y, self.seed))
        self.best = search.fit(F, y)

    def predict(self, F: Array) -> Array:
        found: Array = self.best.predict(F)
        return found


def _means_logistic(seed: int, class_weight: str | None) -> OnFeatures:
    model = LogisticRegression(max_iter=3000, class_weight=class_weight)
    return OnFeatures(means, _Searched(model, {"C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]}, seed))


def _statistics_svm(seed: int, class_weight: str | None) -> OnFeatures:
    model = SVC(class_weight=class_weight)
    grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.03, 0.1, 0.3, 1.0, 3.0]}
    return OnFeatures(statistics, _Searched(model, grid, seed))


class _Forest:
    """A random forest, of which features per node and points per leaf are chosen by out-of-bag predictions."""

    def __init__(self, seed: int, class_weight: str | None, n_trees: int = N_TREES) -> None:
        self.seed = seed
        self.class_weight = class_weight
        self.n_trees = n_trees

    def fit(self, F: Array, y: Array) -> None:
        best = -1.0
        for max_features in ("sqrt", 0.3):
            for leaf in (1, 3):
                model = RandomForestClassifier(
                    self.n_trees, max_features=max_features, min_samples_leaf=leaf, oob_score=balanced_accuracy_score,
                    class_weight=self.class_weight, random_state=self.seed,
                ).fit(F, y)  # fmt: skip
                if model.oob_score_ > best:
                    best = model.oob_score_
                    self.model = model

    def predict(self, F: Array) -> Array:
        found: Array = self.model.predict(F)
        return found


def _statistics_forest(seed: int, class_weight: str | None, n_trees: int = N_TREES) -> OnFeatures:
    return OnFeatures(statistics, _Forest(seed, class_weight, n_trees))


class _Boosting:
    """Gradient boosting of trees: leaves and number of trees by the loss on folds, all numbers from one fit each."""

    def __init__(self, seed: int, class_weight: str | None, most_trees: int = MOST_TREES) -> None:
        self.seed = seed
        self.class_weight = class_weight
        self.most_trees = most_trees

    def fit(self, F: Array, y: Array) -> None:
        losses = {}
        _, codes = np.unique(y, return_inverse=True)
        weight = compute_sample_weight(self.class_weight, y)
        for leaves in (4, 16):
            total = np.zeros(self.most_trees)
            for train, held in folds_of(y, self.seed).split(F, y):
                model = self._model(leaves, self.most_trees).fit(F[train], y[train])
                stages = model.staged_predict_proba(F[held])
                own = [probability[np.arange(len(held)), codes[held]] for probability in stages]
                total += -(np.log(np.maximum(own, 1e-9)) @ weight[held])
            losses[leaves] = total
        leaves = min(losses, key=lambda each: losses[each].min())
        self.model = self._model(leaves, int(losses[leaves].argmin()) + 1).fit(F, y)

    def _model(self, leaves: int, trees: int) -> HistGradientBoostingClassifier:
        return HistGradientBoostingClassifier(
            learning_rate=0.1, max_iter=trees, max_leaf_nodes=leaves, min_samples_leaf=5, early_stopping=False,
            class_weight=self.class_weight, random_state=self.seed,
        )  # fmt: skip

    def predict(self, F: Array) -> Array:
        found: Array = self.model.predict(F)
        return found


def _statistics_boosting(seed: int, class_weight: str | None, most_trees: int = MOST_TREES) -> OnFeatures:
    return OnFeatures(statistics, _Boosting(seed, class_weight, most_trees))


# --------------------------------------------------------------------------------------------------------------
# Multiple instances
# --------------------------------------------------------------------------------------------------------------


class MISVM:
    """MI-SVM: a bag belongs to a class if its most convincing point does.

    Parameters
    ----------
    seed : int
    most_points : int
        Of all training bags together that a machine is fitted to, drawn evenly over bags; predictions look at all.

    Notes
    -----
    Of a bag of the class one point is trained on, the witness: the mean of the bag at first, then the point with the
    largest decision, until the witnesses stay or ten rounds are over; of other bags all points are. Few witnesses stand
    against many points, so that classes are always balanced. The decision on a bag is the largest of its points. More
    than two classes: one against the rest. Two classes: which of them is the positive one is chosen with C and gamma,
    on three folds.

    References
    ----------
    Andrews, Tsochantaridis and Hofmann (2003). Support vector machines for multiple-instance learning. NeurIPS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points, y = rng.normal(size=(30, 5, 2)), np.arange(30) % 2
    >>> points[y == 1, 0] += 5  # one point tells
    >>> bags = Bags.from_arrays(points)
    >>> model = MISVM(0).fit(bags[:20], y[:20])
    >>> float((model.predict(bags[20:]) == y[20:]).mean())
    1.0
    """

    def __init__(self, seed: int, most_points: int = 4000) -> None:
        self.seed = seed
        self.most_points = most_points

    def fit(self, bags: Bags, y: Array) -> MISVM:
        """Choose C, gamma and, of two classes, the positive one; then fit."""
        self.scaler = StandardScaler().fit(bags.points)
        self.classes = np.unique(y)
        folds = StratifiedKFold(min(3, folds_of(y, 0).get_n_splits()), shuffle=True, random_state=self.seed)
        splits = list(folds.split(y, y))
        best = -1.0
        for setting in self._settings(bags.n_dims):
            score = float(np.mean([self._score(bags, y, train, held, setting) for train, held in splits]))
            if score > best:
                best = score
                chosen = setting
        self.machines = self._machines(bags, y, *chosen)
        return self

    def predict(self, bags: Bags) -> Array:
        """One class per bag."""
        return self._decide(self.machines, bags)

    def _settings(self, n_dims: int) -> Iterator[tuple[float, float, Array]]:
        positives = [self.classes] if len(self.classes) > 2 else [self.classes[1:], self.classes[:1]]
        for positive in positives:
            for C in (1.0, 10.0):
                for gamma in (0.25, 1.0, 4.0):
                    yield C, gamma / n_dims, positive

    def _score(self, bags: Bags, y: Array, train: Array, held: Array, setting: tuple[float, float, Array]) -> float:
        machines = self._machines(bags[train], y[train], *setting)
        return float(balanced_accuracy_score(y[held], self._decide(machines, bags[held])))

    def _machines(self, bags: Bags, y: Array, C: float, gamma: float, positive: Array) -> dict[Any, SVC]:
        rng = np.random.default_rng(self.seed)
        share = max(1, self.most_points // bags.n_bags)
        scaled = [self.scaler.transform(points) for points in bags]
        drawn = [points if len(points) <= share else rng.choice(points, share, replace=False) for points in scaled]
        return {each: self._machine(drawn, y == each, C, gamma) for each in positive}

    def _machine(self, bags: list[Array], inside: Array, C: float, gamma: float) -> SVC:
        others = np.concatenate([points for points, own in zip(bags, inside, strict=True) if not own])
        own = [points for points, own in zip(bags, inside, strict=True) if own]
        # asked all at once
        every = np.concatenate(own)
        starts = np.cumsum([len(points) for points in own])[:-1]
        witnesses = np.array([points.mean(axis=0) for points in own])
        before = None
        labels = np.repeat([1, 0], [len(own), len(others)])
        for _ in range(10):
            machine = SVC(C=C, gamma=gamma, class_weight="balanced").fit(np.concatenate([witnesses, others]), labels)
            decisions = np.split(machine.decision_function(every), starts)
            at = [int(each.argmax()) for each in decisions]
            if at == before:
                break
            witnesses = np.array([points[i] for points, i in zip(own, at, strict=True)])
            before = at
        return machine

    def _decide(self, machines: dict[Any, SVC], bags: Bags) -> Array:
        points = self.scaler.transform(bags.points)
        starts = bags.offsets[:-1]
        decisions = [np.maximum.reduceat(machine.decision_function(points), starts) for machine in machines.values()]
        if len(self.classes) > 2:
            found: Array = np.take(self.classes, np.argmax(decisions, axis=0))
        else:
            (positive,) = machines
            found = np.where(decisions[0] > 0, positive, self.classes[self.classes != positive][0])
        return found


# --------------------------------------------------------------------------------------------------------------
# Networks
# --------------------------------------------------------------------------------------------------------------


class DeepSets:
    r"""A network that is applied to each point, a mean over the bag, and a second network, in PyTorch.

    .. math:: f(x_1 \dots x_n) = ρ\Big(\sum_i w_i φ(x_i)\Big), \qquad \sum_i w_i = 1,

    with two layers each in φ, which sees a point, and in ρ, which sees a bag.

    Parameters
    ----------
    seed : int
    class_weight : "balanced" or None
    most_epochs, patience : int
        Training stops after so many epochs, or when the loss on held-out bags did not fall for ``patience`` of them;
        the weights of the best epoch are kept.
    n_threads : int
        Of PyTorch. Networks this small gain nothing from a second one, and lose much where cores are busy.
    networks : sequence of (int, float, float)
        Widths, dropouts and learning rates that are tried.

    Notes
    -----
    Width 32 or 128, dropout 0 or 0.3 and learning rate 0.001 or 0.005 are chosen by the loss on a fifth of the bags,
    the same for all; the network that is kept is the best of the eight. Adam, weight decay 0.0001, batches of 32 bags.

    References
    ----------
    Zaheer, Kottur, Ravanbakhsh, Póczos, Salakhutdinov and Smola (2017). Deep sets. NeurIPS.
    """

    def __init__(
        self,
        seed: int,
        class_weight: str | None,
        most_epochs: int = 200,
        patience: int = 20,
        n_threads: int = 1,
        networks: Sequence[tuple[int, float, float]] = NETWORKS,
    ) -> None:
        self.seed = seed
        self.class_weight = class_weight
        self.networks = networks
        self.most_epochs = most_epochs
        self.patience = patience
        self.n_threads = n_threads

    def fit(self, bags: Bags, y: Array) -> DeepSets:
        """Train all networks and keep the best."""
        torch = _torch(self.n_threads)
        self.classes, codes = np.unique(y, return_inverse=True)
        self.scaler = StandardScaler().fit(bags.points)
        bags = self._scaled(bags)
        n_held = max(len(self.classes), len(y) // 5)
        train, held = train_test_split(np.arange(len(y)), test_size=n_held, stratify=y, random_state=self.seed)
        target = torch.as_tensor(codes)
        weight = torch.as_tensor(compute_sample_weight(self.class_weight, y), dtype=torch.float32)
        trained = [self._train(bags, target, weight, train, held, *setting) for setting in self.networks]
        self.loss, self.network = min(trained, key=lambda found: found[0])
        return self

    def predict(self, bags: Bags) -> Array:
        """One class per bag."""
        torch = _torch(self.n_threads)
        with torch.no_grad():
            outputs = self.network(*self._inputs(self._scaled(bags)))
        found: Array = np.take(self.classes, outputs.argmax(dim=1).numpy())
        return found

    def _scaled(self, bags: Bags) -> Bags:
        return Bags(self.scaler.transform(bags.points).astype(np.float32), bags.offsets, weights=bags.weights)

    def _inputs(self, bags: Bags) -> tuple[Any, Any, Any, int]:
        """Points, the bag of each, its share of the bag, and the number of bags."""
        torch = _torch(self.n_threads)
        owner = np.repeat(np.arange(bags.n_bags), bags.sizes)
        weight = np.ones(bags.n_points) if bags.weights is None else bags.weights.astype(float)
        share = weight / np.bincount(owner, weight)[owner]
        return (
            torch.tensor(bags.points),
            torch.as_tensor(owner),
            torch.as_tensor(share, dtype=torch.float32),
            bags.n_bags,
        )

    def _train(
        self, bags: Bags, target: Any, weight: Any, train: Array, held: Array, width: int, dropout: float, rate: float
    ) -> tuple[float, Any]:
        """The least loss on held-out bags, and the network that has it."""
        torch = _torch(self.n_threads)
        torch.manual_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        network = _network(bags.n_dims, len(self.classes), width, dropout)
        optimizer = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=1e-4)
        inputs = self._inputs(bags[held])
        best = float("inf")
        kept = network.state_dict()
        waited = 0
        for _ in range(self.most_epochs):
            network.train()
            order = rng.permutation(train)
            for batch in np.array_split(order, max(1, len(order) // 32)):
                optimizer.zero_grad()
                _loss(network(*self._inputs(bags[batch])), target[batch], weight[batch]).backward()
                optimizer.step()
            network.eval()
            with torch.no_grad():
                loss = float(_loss(network(*inputs), target[held], weight[held]))
            waited += 1
            if loss < best:
                best = loss
                waited = 0
                kept = {name: value.clone() for name, value in network.state_dict().items()}
            if waited >= self.patience:
                break
        network.load_state_dict(kept)
        return best, network


def _torch(n_threads: int) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("DeepSets needs PyTorch: pip install 'distembed[vision]'") from error
    if torch.get_num_threads() != n_threads:  # to set them anew takes time
        torch.set_num_threads(n_threads)
    return torch


def _loss(outputs: Any, target: Any, weight: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return (weight * cross_entropy(outputs, target, reduction="none")).sum() / weight.sum()


def _network(n_dims: int, n_classes: int, width: int, dropout: float) -> Any:
    from torch import nn, zeros

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.phi = nn.Sequential(nn.Linear(n_dims, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
            self.rho = nn.Sequential(
                nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, n_classes)
            )

        def forward(self, points: Any, owner: Any, share: Any, n_bags: int) -> Any:
            pooled = zeros(n_bags, width).index_add(0, owner, share[:, None] * self.phi(points))
            return self.rho(pooled)

    return Network().eval()


# --------------------------------------------------------------------------------------------------------------
# Divergences between bags
# --------------------------------------------------------------------------------------------------------------


class GloScope:
    """Divergences of all pairs of bags by nearest neighbours, and a classifier on their matrix.

    Columns are scaled and, if they are more than ten, replaced by ten principal components. The mean of KL(p, q) and
    KL(q, p) goes into the kernel exp(-KL / (s median)) of a support vector machine, or gives the neighbours of a bag.
    Which of the two, with which k (neighbours of points), s, C or number of neighbouring bags, is chosen on folds. The
    kernel is not positive definite in general; libsvm takes it as it is.

    References
    ----------
    Wang, Torous, Gong and Purdom (2024). Visualizing scRNA-Seq data at population scale with GloScope. Genome Biology.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(30) % 2
    >>> bags = Bags.from_arrays(rng.normal(size=(30, 40, 2)) * (1 + 2 * y)[:, None, None])
    >>> model = GloScope(0, None).fit(bags[:20], y[:20])
    >>> float((model.predict(bags[20:]) == y[20:]).mean())
    1.0
    """

    ks = (4, 25)

    def __init__(self, seed: int, class_weight: str | None) -> None:
        self.seed = seed
        self.class_weight = class_weight

    def fit(self, bags: Bags, y: Array) -> GloScope:
        """Compute divergences of all pairs, choose settings and fit."""
        steps = [StandardScaler()] + [PCA(10, random_state=self.seed)] * (bags.n_dims > 10 and bags.n_points > 10)
        self.scaler = make_pipeline(*steps).fit(bags.points)
        self.bags = self._scaled(bags)
        matrices = divergences.knn_many(self.bags, ks=self.ks, n_jobs=1)
        best = -1.0
        for k in self.ks:
            D = np.maximum(matrices["kl", k] + matrices["kl", k].T, 0) / 2
            median = max(float(np.median(D[np.triu_indices(len(D), 1)])), 1e-9)
            for width, model, grid in self._candidates(median, len(y)):
                search = GridSearchCV(model, grid, scoring="balanced_accuracy", cv=folds_of(y, self.seed))
                search.fit(D if width is None else np.exp(-D / width), y)
                if search.best_score_ > best:
                    best = search.best_score_
                    self.k = k
                    self.width = width
                    self.model = search.best_estimator_
        return self

    def _candidates(self, median: float, n_bags: int) -> Iterator[tuple[float | None, Any, dict[str, Any]]]:
        for scale in (0.25, 0.5, 1.0, 2.0, 4.0):
            machine = SVC(kernel="precomputed", class_weight=self.class_weight)
            yield scale * median, machine, {"C": [0.1, 1.0, 10.0, 100.0]}
        neighbours = [n for n in (1, 3, 5, 9) if 2 * n <= n_bags]  # half of the bags, at least, are trained on
        yield None, KNeighborsClassifier(metric="precomputed"), {"n_neighbors": neighbours}

    def _scaled(self, bags: Bags) -> Bags:
        return Bags(self.scaler.transform(bags.points), bags.offsets)

    def predict(self, bags: Bags) -> Array:
        """One class per bag."""
        new = self._scaled(bags)
        there = divergences.knn(new, self.bags, "kl", self.k, n_jobs=1)
        back = divergences.knn(self.bags, new, "kl", self.k, n_jobs=1)
        D = np.maximum(there + back.T, 0) / 2
        found: Array = self.model.predict(D if self.width is None else np.exp(-D / self.width))
        return found


# --------------------------------------------------------------------------------------------------------------
# By name
# --------------------------------------------------------------------------------------------------------------


def _always(bags: Bags) -> str:
    return ""


def _no_weights(bags: Bags) -> str:
    return "points have weights, for which it has no place" if bags.weights is not None else ""


def _for_neighbours(bags: Bags) -> str:
    small = int(np.sum(bags.sizes < 2))
    return f"{small:,} bags have one point, which has no neighbour" if small else _no_weights(bags)


@dataclass(frozen=True)
class Contender:
    """A method of classifying bags, by name.

    Attributes
    ----------
    name : str
    make : callable
        Takes a seed and a ``class_weight`` of "balanced" or None; some take how large the search is, too.
    unfit : callable
        Takes bags; why the method can't be taken for them, or "".
    missing : str
        Why it can't be run here, or "".
    codes : bool
        Whether it takes categorical columns as they are; others are given indicators.
    """

    name: str
    make: Callable[..., Any]
    unfit: Callable[[Bags], str] = _always
    missing: str = ""
    codes: bool = False


RIVALS = (
    Contender("means + logistic", _means_logistic),
    Contender("statistics + forest", _statistics_forest),
    Contender("statistics + SVM", _statistics_svm),
    Contender("statistics + boosting", _statistics_boosting),
    Contender("MI-SVM", lambda seed, class_weight: MISVM(seed), _no_weights),
    Contender("DeepSets", DeepSets, missing="" if find_spec("torch") else "PyTorch is not installed"),
    Contender("GloScope", GloScope, _for_neighbours),
)
