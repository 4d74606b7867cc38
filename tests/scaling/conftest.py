"""Bags that several tests of scaling share."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.bags import Bags


@pytest.fixture
def pupils():
    rng = np.random.default_rng(0)
    points = np.c_[rng.normal(5, 2, 60), rng.choice(3, 60, p=[0.7, 0.25, 0.05]), rng.normal(0, 1e5, 60)]
    labels = {1: ["art", "maths", "music"]}
    return Bags(points, [0, 10, 60], columns=["mark", "subject", "income"], categories=labels)
