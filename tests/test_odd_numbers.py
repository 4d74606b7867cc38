"""Numbers at the ends of what floats hold, and sparse columns: taken as they are, or one sentence."""

import numpy as np
import pandas as pd
import pytest
from command_line import fit_words, make_rows, refused

import distembed as de
from distembed.tables import read_bags, write_table

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(60, 2))
OFFSETS = np.arange(0, 61, 5)


def test_tiny_weights_count_by_their_ratios():
    weights = RNG.uniform(1, 2, 60)
    one, tiny = (de.Bags(POINTS, OFFSETS, weights * scale) for scale in (1.0, 1e-50))
    found = [de.embeddings.get("js").fit(one).transform(bags) for bags in (one, tiny)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-12)


def test_weights_that_vanish_in_single_precision_are_named(tmp_path):
    text = r"got 0.0 in bag 0 as float32, the type of the points, from weights up to 1e-50 \(12 such bags in all\); "
    with pytest.raises(ValueError, match=text):
        de.Bags(POINTS.astype(np.float32), OFFSETS, np.full(60, 1e-50))
    columns = {"id": np.repeat(np.arange(12), 5), "x": POINTS[:, 0].astype(np.float32), "w": np.full(60, 1e-50)}
    write_table(columns, tmp_path / "t.parquet")
    said = refused("embed", tmp_path / "t.parquet", "--bag", "id", "--weights", "w", "--embedding", "mean")
    assert "as float32, the type of the points" in said
    few = np.where(np.arange(60) % 5, 1.0, 1e-50)  # such points count for nothing, and others are there
    assert de.Bags(POINTS.astype(np.float32), OFFSETS, few).n_bags == 12


@pytest.mark.parametrize("how", [(), ("--out-of-core", "--embedding", "mean")])
def test_targets_whose_squares_are_infinite_are_refused(tmp_path, how):
    text = "y must be at most 1e+150 in size, because its squares are summed, got -3e+300; divide it by a constant"
    y = np.arange(12.0)
    y[4] = -3e300
    with pytest.raises(ValueError, match=text.replace("+", r"\+")):
        de.DistributionRegressor("mean").fit(de.Bags(POINTS, OFFSETS), y)
    points, labels = make_rows()
    labels["spread"][4] = -3e300
    write_table(points, tmp_path / "points.parquet")
    write_table(labels, tmp_path / "labels.csv")
    assert text in refused(*fit_words(tmp_path, tmp_path / "m", *how))


def test_sparse_columns_are_read_as_the_numbers_that_they_stand_for(tmp_path):
    dense = pd.DataFrame(
        {"id": np.repeat(np.arange(12), 5), "x": POINTS[:, 0], "k": (POINTS[:, 1] > 0.8).astype(float)}
    )
    sparse = dense.astype({"id": pd.SparseDtype(int), "x": pd.SparseDtype(float), "k": pd.SparseDtype(float, 0.0)})
    wanted = de.Bags.from_frame(dense, bag="id")
    assert de.Bags.from_frame(sparse, bag="id") == wanted
    write_table(sparse, tmp_path / "t.parquet")
    assert read_bags(tmp_path / "t.parquet", bag="id") == wanted
