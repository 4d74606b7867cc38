"""wip"""

from __future__ import annotations

from math import prod
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import basis as bases
from .. import density as densities
from .. import distances, nodes as node_kinds
from .. import bandwidth as bandwidths
from .._base import BagEstimator
from .._parallel import run_chunks
from ..basis import Projection
from ..distances import lambda_functions

_CHUNK_BYTES = 2**20


class HDDEmbedding(BagEstimator):
    def __init__(self, distance="js", *, n_basis=10, bandwidth="distance", bandwidth_scale=1.0, n_lambdas=5,
                 lambda_rule="gauss", density="kde", basis="cosine", nodes="auto", random_state=None, n_jobs=None):
        self.distance = distance
        self.n_basis = n_basis
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.n_lambdas = n_lambdas
        self.lambda_rule = lambda_rule
        self.density = density
        self.basis = basis
        self.nodes = nodes
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y=None):
        bags = self._check_bags(X, reset=True)
        rng = check_random_state(self.random_state)
        distance = distances.get(self.distance)
        if self.lambda_rule == "gauss":
            self.lambdas_, self.lambda_weights_ = distance.quadrature(self.n_lambdas) if self.n_lambdas != "auto" else distance.auto_quadrature()
        else:
            self.lambdas_ = distance.sample(self.n_lambdas, rng)
            self.lambda_weights_ = np.full(self.n_lambdas, distance.mass / self.n_lambdas)
        density = densities.get(self.density)
        n_basis = (self.n_basis,) * bags.n_dims
        self.bandwidth_ = bandwidths.resolve(self.bandwidth, bags, density.boundaries(bags.n_dims), scale=self.bandwidth_scale)
        self.nodes_ = node_kinds.get(self.nodes, bags.n_dims).resolve(bags.n_dims, bandwidth=self.bandwidth_, n_basis=n_basis, random_state=rng)
        self._n_basis = n_basis
        self.n_basis_functions_ = prod(n_basis)
        self._n_functions = len(self.lambdas_) + np.count_nonzero(self.lambdas_)
        self._n_features_out = self._n_functions * self.n_basis_functions_
        return self

    def transform(self, X):
        bags = self._check_bags(X, reset=False)
        dtype = bags.points.dtype
        estimate = densities.get(self.density).prepare(self.nodes_, self.bandwidth_, dtype)
        project = Projection(bases.get(self.basis), self._n_basis, self.nodes_, dtype)
        out = np.empty((bags.n_bags, self._n_features_out), dtype)
        shape = self.nodes_.shape
        per_bag = (self._n_functions + 3) * prod(shape) * dtype.itemsize
        step = int(np.clip(_CHUNK_BYTES // per_bag, 1, 256))

        def embed(rows):
            p = estimate(bags[rows])
            functions = lambda_functions(p, self.lambdas_, self.lambda_weights_)
            coefficients = project(functions.reshape(-1, *shape)).reshape(len(functions), len(p), -1)
            out[rows] = coefficients.transpose(1, 0, 2).reshape(len(p), -1)

        run_chunks(embed, [slice(i, min(i + step, bags.n_bags)) for i in range(0, bags.n_bags, step)], self.n_jobs)
        return out
