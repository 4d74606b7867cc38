"""What tests of tables share: small tables, the obvious reading of them, and the text of an error."""

import numpy as np
import pytest

from distembed.bags import Bags
from distembed.tables import TableError

SUFFIXES = [".parquet", ".feather", ".arrow", ".csv", ".tsv", ".npz"]


def points_table(n=400, n_bags=23, seed=0, text=False):
    rng = np.random.default_rng(seed)
    ids = rng.integers(-5, n_bags - 5, n)
    return {
        "x": rng.normal(size=n),
        "id": np.array([f"bag {i}é" for i in ids]) if text else ids,
        "y": rng.normal(size=n),
        "w": rng.uniform(0.5, 2, n),
    }


def loop_over_rows(data, columns, weights=None, bag="id"):
    """The obvious reading: one dictionary of lists, its keys sorted."""
    groups = {}
    for row, key in enumerate(np.asarray(data[bag]).tolist()):
        groups.setdefault(key, []).append(row)
    ids = sorted(groups)
    stack = np.column_stack([np.asarray(data[name]) for name in columns])
    return Bags.from_arrays(
        [stack[groups[key]] for key in ids],
        weights=None if weights is None else [np.asarray(data[weights])[groups[key]] for key in ids],
        ids=ids,
        columns=columns,
    )


def shuffled(data, seed=1):
    order = np.random.default_rng(seed).permutation(len(next(iter(data.values()))))
    return {name: values[order] for name, values in data.items()}


def message(call, *args, **kwargs):
    """The text of the TableError, which must be one sentence and carry nothing of the libraries."""
    with pytest.raises(TableError) as caught:
        call(*args, **kwargs)
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    assert ";" in text
    assert "arrow" not in text.replace(".arrow", "").lower()
    assert caught.value.__cause__ is None
    return text
