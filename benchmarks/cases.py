"""The bags that are timed, and embeddings fitted to them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from timing import Size, installed

import distembed as de

N_LAMBDAS, N_BASIS = 3, 10
THREADS = {"one": 1, "all": None}  # n_jobs; None is as many as BLAS may use


def clouds(n_bags: int, n_points: int, n_dims: int, seed: int = 0) -> de.Bags:
    """Gaussian clouds of float32 points around centres of their own, clipped to the cube."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal(size=(n_bags, n_points, n_dims), dtype=np.float32)
    points *= np.float32(0.12)
    points += rng.uniform(0.3, 0.7, size=(n_bags, 1, n_dims)).astype(np.float32)
    return de.as_bags(np.clip(points, 0, 1, out=points))


def engines() -> tuple[str, ...]:
    """The engines of HDDEmbedding that are installed."""
    known = "engine" in inspect.signature(de.HDDEmbedding).parameters
    return ("numpy", "numba") if known and installed("numba") else ("numpy",)


def with_engine(engine: str, **parameters) -> de.HDDEmbedding:
    """HDDEmbedding("js", ...) with this engine."""
    return de.HDDEmbedding("js", **parameters, **_engine(de.HDDEmbedding, engine))


def random_features(engine: str, n_components: int, **parameters) -> de.RandomFourierFeatures:
    """Dense random features with this engine.

    Independent frequencies take the time of orthogonal ones in ``transform``, and much less in ``fit``.
    """
    chosen = _engine(de.RandomFourierFeatures, engine)
    return de.RandomFourierFeatures(n_components, frequencies="independent", random_state=0, **parameters, **chosen)


def _engine(kind: type, engine: str) -> dict[str, str]:
    return {"engine": engine} if "engine" in inspect.signature(kind).parameters else {}


@dataclass(frozen=True)
class Case:
    """Bags of one size and the default embedding for them, with M = 3."""

    n_bags: int
    n_points: int
    n_dims: int
    rule: str | float = "distance"

    @property
    def name(self) -> str:
        """Such as ``2-D, n = 200, |V| = 100``."""
        return f"{self.n_dims}-D, n = {self.n_points:,}, |V| = {N_BASIS**self.n_dims:,}"

    @cached_property
    def bags(self) -> de.Bags:
        """The bags."""
        return clouds(self.n_bags, self.n_points, self.n_dims)

    @property
    def training_bags(self) -> de.Bags:
        """A few of them."""
        return self.bags[:32]

    @cached_property
    def bandwidth(self) -> float:
        """One for all dimensions, as the peers need it: the mean of what the rule finds."""
        embedding = de.HDDEmbedding("js", n_lambdas=N_LAMBDAS, bandwidth=self.rule)
        return float(embedding.fit(self.training_bags).bandwidth_.mean())

    def embedding(self, engine: str = "numpy", n_jobs: int | None = None, **parameters) -> de.HDDEmbedding:
        """The embedding, fitted."""
        settings = {"n_lambdas": N_LAMBDAS, "n_basis": N_BASIS, "bandwidth": self.bandwidth, "n_jobs": n_jobs}
        return with_engine(engine, **(settings | parameters)).fit(self.training_bags)


def cases(size: Size) -> list[Case]:
    """The reference case and the one in three dimensions."""
    return [Case(size.bags_2d, 200, 2, size.rule), Case(size.bags_3d, size.points_3d, 3, size.rule)]
