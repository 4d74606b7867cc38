r"""DeepSets in PyTorch (Zaheer et al. 2017), tuned and stopped early on held-out bags.

.. math:: f(x_1 \dots x_n) = ρ\Big(\sum_i w_i φ(x_i)\Big), \qquad \sum_i w_i = 1,

with two layers each in φ, which sees a point, and in ρ, which sees a bag.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from distembed.bags import Bags
from distembed.compute.arrays import Array

GRID = tuple((width, dropout, rate) for width in (32, 128) for dropout in (0.0, 0.3) for rate in (1e-3, 5e-3))


class DeepSets:
    """A network that is applied to each point, a mean over the bag, and a second network.

    Parameters
    ----------
    seed : int
    class_weight : "balanced" or None
    most_epochs, patience : int
        Training stops after so many epochs, or when the loss on held-out bags did not fall for ``patience`` of them;
        the weights of the best epoch are kept.
    n_threads : int
        Of PyTorch. Networks this small gain nothing from a second one, and lose much where cores are busy.

    Notes
    -----
    Width 32 or 128, dropout 0 or 0.3 and learning rate 0.001 or 0.005 are chosen by the loss on a fifth of the bags,
    the same for all; the network that is kept is the best of the eight. Adam, weight decay 0.0001, batches of 32 bags.

    References
    ----------
    Zaheer, Kottur, Ravanbakhsh, Póczos, Salakhutdinov and Smola (2017). Deep sets. NeurIPS.
    """

    def __init__(
        self, seed: int, class_weight: str | None, most_epochs: int = 200, patience: int = 20, n_threads: int = 1
    ) -> None:
        self.seed = seed
        self.class_weight = class_weight
        self.most_epochs = most_epochs
        self.patience = patience
        self.n_threads = n_threads

    def fit(self, bags: Bags, y: Array) -> DeepSets:
        """Train eight networks and keep the best."""
        torch = _torch(self.n_threads)
        self.classes, codes = np.unique(y, return_inverse=True)
        self.scaler = StandardScaler().fit(bags.points)
        bags = self._scaled(bags)
        n_held = max(len(self.classes), len(y) // 5)
        train, held = train_test_split(np.arange(len(y)), test_size=n_held, stratify=y, random_state=self.seed)
        target = torch.as_tensor(codes)
        weight = torch.as_tensor(compute_sample_weight(self.class_weight, y), dtype=torch.float32)
        trained = [self._train(bags, target, weight, train, held, *setting) for setting in GRID]
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
