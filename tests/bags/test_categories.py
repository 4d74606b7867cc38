"""Categorical and mixed columns: the container, the scaling, and one density p(c, x) against its slow twin."""

import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import make_pipeline

import distembed as de
import exact
from distembed.bags import Bags, concat
from distembed.bags.categories import check_labels, decode, factorise, recode
from distembed.bags.estimators import BagEstimator, check_bags
from distembed.embeddings.category_cells import Cells
from distembed.sizes import noise_floor, split_half_distances

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}
PEOPLE = {
    "town": ["B", "A", "B", "A", "A"],
    "age": [0.1, 0.5, 0.3, 0.7, 0.9],
    "sex": ["m", "f", "f", "m", "m"],
    "job": [3, 1, 3, 1, 2],
}


def mixed(n_bags=5, n_points=60, n_dims=1, sizes=(3,), seed=0, dtype=float, weighted=False, ids=None):
    """Bags whose last columns are categorical and whose densities depend on the category."""
    rng = np.random.default_rng(seed)
    arrays = []
    for i in range(n_bags):
        n = n_points + 7 * i
        codes = [rng.choice(k, n, p=rng.dirichlet(np.full(k, 3.0))) for k in sizes]
        center = 0.3 + 0.4 * (codes[0] + i / n_bags)[:, None] / sizes[0]
        x = np.clip(rng.normal(center, 0.12, (n, n_dims)), 0, 1)
        arrays.append(np.column_stack([x, *codes]).astype(dtype))
    weights = [rng.uniform(0.1, 1, len(a)) for a in arrays] if weighted else None
    categories = {n_dims + j: [f"l{k}" for k in range(size)] for j, size in enumerate(sizes)}
    return Bags.from_arrays(arrays, weights=weights, ids=ids, categories=categories)


def squared(features):
    return euclidean_distances(features, squared=True)


# ------------------------------------------------------------------------------------------------- container
def test_categories_are_a_read_only_mapping():
    bags = Bags([[0.5, 1.0], [0.2, 0.0]], [0, 2], columns=["age", "sex"], categories={"sex": np.array(["f", "m"])})
    assert dict(bags.categories) == {1: ("f", "m")}
    assert bags.category_labels == {"sex": ("f", "m")}
    with pytest.raises(TypeError):
        bags.categories[1] = ("x",)
    assert repr(bags).endswith("columns=age, sex, categorical=sex (2))")
    plain = Bags([[0.5]], [0, 1], categories={})
    assert plain.categories is None
    assert plain.category_labels == {}
    assert Bags([[1.0]], [0, 1], categories={0: [False, True]}).category_labels == {"x0": (False, True)}


@pytest.mark.parametrize(
    ("categories", "error", "text"),
    [
        (3, TypeError, r"categories must map columns to their labels, such as .* got 3; pass a dict"),
        ({2: ["f"]}, ValueError, r"by a position from 0 to 1 or a name, one of 'age', 'sex', got 2"),
        ({True: ["f"]}, ValueError, r"got True"),
        ({"town": ["f"]}, ValueError, r"got 'town'"),
        ({1: ["f", "m"], "sex": ["f", "m"]}, ValueError, r"column 'sex' labels once"),
        ({1: "fm"}, TypeError, r"categories of column 'sex' must be a sequence of labels, got 'fm'; write \['fm'\]"),
        ({1: []}, ValueError, r"must be 1 to 16,777,216 labels, got 0"),
        ({1: ["f", "m", "f"]}, ValueError, r"must be distinct, got more than once: 'f'; give every label once"),
        ({1: [1, True]}, ValueError, r"must be distinct"),
        ({1: ["f", None]}, TypeError, r"must be text, finite numbers or booleans, got None of type NoneType; use str"),
        ({1: [1.0, np.nan]}, TypeError, r"got nan of type float"),
        (
            {1: ["f"]},
            ValueError,
            r"from 0 to 0, got 1 at bag 1 \(id 'b'\), row 1 \(1 such values in all\); Bags.from_f",
        ),
        ({0: ["f", "m"]}, ValueError, r"column 'age' is categorical and must hold codes.* got 0.5 at bag 0 \(id 'a'\)"),
    ],
)
def test_refused_categories(categories, error, text):
    with pytest.raises(error, match=text):
        Bags([[0.5, 0], [0.1, 0], [0.3, 1]], [0, 1, 3], None, ["a", "b"], ["age", "sex"], categories)


def test_negative_codes_are_refused():
    with pytest.raises(ValueError, match=r"column 0 is categorical .* got -1 at bag 0, row 1"):
        Bags([[0.0], [-1.0]], [0, 2], categories={0: ["a", "b"]})


def test_categories_survive_everything_that_makes_bags_of_bags(tmp_path):
    bags = mixed(4, 9, sizes=(2, 3), weighted=True, ids=list("abcd"))
    labels = dict(bags.categories)
    made = {
        "slice": bags[1:3],
        "gather": bags[[2, 0]],
        "mask": bags[bags.sizes > 10],
        "step": bags[::2],
        "cast": bags.astype("float32"),
        "pickle": pickle.loads(pickle.dumps(bags)),
        "concat": concat([bags[:1], bags[1:]]),
        "replaced": bags.replace(points=bags.points / 2),
        "heavy": bags.drop_weightless(),
    }
    for name, other in made.items():
        assert dict(other.categories) == labels, name
    assert made["pickle"] == made["concat"] == bags
    assert bags.replace(points=bags.points[:, :1]).categories is None
    bags.save(tmp_path / "b.npz", compress=True)
    assert Bags.load(tmp_path / "b.npz") == bags
    assert type(pickle.loads(pickle.dumps(bags)).categories) is type(bags.categories)


def test_equality_sees_labels():
    a, b = (Bags([[0.0], [1.0]], [0, 2], categories={0: labels}) for labels in (["f", "m"], ["m", "f"]))
    assert a != b
    assert a != Bags([[0.0], [1.0]], [0, 2])
    assert a == Bags([[0.0], [1.0]], [0, 2], categories={0: ("f", "m")})


@pytest.mark.parametrize("labels", [("é", "a,b=c"), (1, 2), (0.1, 1e300), (False, True), (1, "1")])
def test_files_keep_labels_and_their_kinds(tmp_path, labels):
    bags = Bags([[0.0], [1.0]], [0, 2], categories={0: labels})
    bags.save(tmp_path / "b.npz")
    found = Bags.load(tmp_path / "b.npz").categories[0]
    assert found == labels
    assert [type(label) for label in found] == [type(label) for label in labels]


def test_files_with_categories_are_of_version_two_and_validated(tmp_path):
    path = tmp_path / "b.npz"
    for labels, version in ((None, 1), ({0: ["f", "m"]}, 2)):
        Bags([[0.0], [1.0]], [0, 2], categories=labels).save(path)
        with np.load(path) as archive:
            assert int(archive["version"]) == version
            entries = dict(archive)
    for text, why in (('[[0, ["f"]]]', "got 1 at bag 0"), ("[[", "Expecting"), ("[[0, [[]]]]", "must be text")):
        np.savez(path, **{**entries, "categories": np.array(text)})
        with pytest.raises(ValueError, match=f"can't read bags from .*{why}"):
            Bags.load(path)


def test_concat_refuses_other_labels():
    a = Bags([[0.1, 0.0]], [0, 1], columns=["age", "sex"], categories={1: ["f", "m"]})
    b = Bags([[0.1, 0.0]], [0, 1], columns=["age", "sex"], categories={1: ["m", "f"]})
    text = r"concat needs equal categories, got in column 'sex' labels 'm', 'f' at position 1 and labels 'f', 'm' at po"
    with pytest.raises(ValueError, match=text + r".*; encode both with the same labels: .*category_labels"):
        concat([a, b])
    with pytest.raises(ValueError, match=r"no labels at position 1"):
        concat([a, Bags([[0.1, 0.0]], [0, 1])])


# ---------------------------------------------------------------------------------------------------- frames
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_from_frame_encodes_labels(make):
    bags = Bags.from_frame(make(PEOPLE), bag="town", categorical=["sex", "job"])
    assert bags.category_labels == {"sex": ("f", "m"), "job": (1, 2, 3)}
    assert [type(label) for label in bags.categories[2]] == [int] * 3
    assert bags.ids.tolist() == ["B", "A"]
    assert bags[0].tolist() == [[0.1, 1, 2], [0.3, 0, 2]]
    assert bags[1].tolist() == [[0.5, 0, 0], [0.7, 1, 0], [0.9, 1, 1]]
    alone = Bags.from_frame(make(PEOPLE), bag="town", columns=["sex"], categorical="sex")
    assert alone.points.dtype == np.float64
    assert alone[0].tolist() == [[1], [0]]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_labels_of_other_bags_are_kept(make):
    new = {"town": ["C"], "age": [0.2], "sex": ["m"], "job": [3]}
    labels = Bags.from_frame(make(PEOPLE), bag="town", categorical=["sex", "job"]).category_labels
    bags = Bags.from_frame(make(new), bag="town", categorical=labels)
    assert bags.category_labels == labels
    assert bags[0].tolist() == [[0.2, 1, 2]]
    strange = {**new, "sex": ["x"]}
    text = r"^column 'sex': labels that the training bags lack, such as 'x', count as 'other'; fit again with bags that"
    with pytest.warns(UserWarning, match=text):
        bags = Bags.from_frame(make(strange), bag="town", categorical=labels)
    assert bags.category_labels == {"sex": ("f", "m", "other"), "job": (1, 2, 3)}
    assert bags[0].tolist() == [[0.2, 2, 2]]
    with pytest.warns(UserWarning, match="such as 'x', count as 'other'"):
        bags = Bags.from_frame(make(strange), "town", categorical={**labels, "sex": ["f", "other", "m"]})
    assert bags[0].tolist() == [[0.2, 1, 2]]
    with pytest.raises(ValueError, match=r"column 'job' must hold the labels 1, 2, 3, got text such as '3' where"):
        Bags.from_frame(make({**new, "job": ["3"]}), bag="town", categorical=labels)


def test_columns_that_know_their_labels():
    order = ["low", "high", "never"]
    values = ["high", "low", "high"]
    keys = {"k": [1, 1, 2]}
    categorical = pd.Categorical(values, order)
    enum = pl.Series("v", values, dtype=pl.Enum(order))
    dictionary = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array(order), ordered=True)
    frames = [
        pd.DataFrame({**keys, "v": categorical}),
        pl.DataFrame({**keys, "v": enum}),
        pa.table({**keys, "v": dictionary}),
    ]
    for frame in frames:
        bags = Bags.from_frame(frame, bag="k", categorical=["v"])
        assert bags.categories[0] == tuple(order)
        assert bags.points.ravel().tolist() == [1, 0, 1]
    chunks = pa.chunked_array([dictionary, pa.array(values).dictionary_encode().cast(dictionary.type)])
    twice = Bags.from_frame(pa.table({"k": [1, 1, 2, 2, 3, 3], "v": chunks}), bag="k", categorical=["v"])
    assert twice.points.ravel().tolist() == [1, 0, 1, 1, 0, 1]
    unordered = {**keys, "v": pl.Series("v", values, dtype=pl.Categorical)}
    assert Bags.from_frame(pl.DataFrame(unordered), bag="k", categorical=["v"]).categories[0] == ("high", "low")
    given = Bags.from_frame(frames[0], bag="k", categorical={"v": ["high", "low"]})
    assert given.points.ravel().tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([True, False], (False, True)),
        ([2.5, 1.0], (1.0, 2.5)),
        (pd.array(["y", "x"], dtype="string"), ("x", "y")),
        (pd.array([2, 1], dtype="Int64"), (1, 2)),
        (pd.array([True, False], dtype="boolean"), (False, True)),
    ],
)
def test_kinds_of_labels(values, labels):
    bags = Bags.from_frame(pd.DataFrame({"k": [1, 1], "v": values}), bag="k", categorical=["v"])
    assert bags.categories[0] == labels
    assert [type(label) for label in bags.categories[0]] == [type(label) for label in labels]
    assert bags[0].ravel().tolist() == [1, 0]


def test_codes_do_not_widen_float32():
    frame = pd.DataFrame({"k": [1, 1], "x": np.array([0.5, 0.1], np.float32), "v": ["a", "b"]})
    assert Bags.from_frame(frame, bag="k", categorical=["v"]).dtype == np.float32


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
@pytest.mark.parametrize("values", [["f", None, "m"], [1.0, np.nan, 2.0]], ids=["text", "numbers"])
def test_missing_labels(make, values):
    frame = make({"k": ["p", "q", "q"], "v": values})
    text = (
        r"categorical column 'v' must have a label in every row, got 1 missing .* row 1 \(bag 'q'\); drop .*'missing'"
    )
    with pytest.raises(ValueError, match=text):
        Bags.from_frame(frame, bag="k", categorical=["v"])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"columns": ["age", "sex"]}, TypeError, r"column 'sex' must be real numbers .*, pass categorical=\['sex'\]"),
        ({"categorical": ["sex", "tall"]}, ValueError, r"categorical names column 'tall', which the table lacks"),
        ({"categorical": ["sex"], "columns": ["age"]}, ValueError, r"names 'sex', .* 'age'; add it to columns"),
        ({"categorical": ["town"]}, ValueError, r"categorical names 'town'"),
        ({"categorical": 3}, TypeError, r"categorical must be a sequence of names .* got 3; write categorical="),
        ({"categorical": {"sex": "fm"}}, TypeError, r"categorical\['sex'\] must be a sequence of labels"),
    ],
)
def test_from_frame_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        Bags.from_frame(pd.DataFrame(PEOPLE), bag="town", **arguments)


def test_labels_of_several_or_strange_kinds_are_refused():
    with pytest.raises(TypeError, match=r"column 'v' must hold labels of one kind, .* got int, str; convert"):
        Bags.from_frame({"k": [1, 1], "v": np.array([1, "a"], object)}, bag="k", categorical=["v"])
    days = pd.to_datetime(["2026-01-01", "2026-01-02"])
    with pytest.raises(TypeError, match=r"labels of column 'v' must be text, finite numbers or booleans"):
        Bags.from_frame(pd.DataFrame({"k": [1, 1], "v": days}), bag="k", categorical=["v"])
    with pytest.raises(TypeError, match=r"labels of column 'v' must be text, finite numbers or booleans"):
        Bags.from_frame({"k": [1, 1], "v": days.to_numpy().astype("datetime64[ns]")}, bag="k", categorical=["v"])
    with pytest.raises(ValueError, match=r"column 'v' must have one value per row, shape \(2,\), got \(3,\)"):
        Bags.from_frame({"k": [1, 1], "v": ["a", "b", "c"]}, bag="k", categorical=["v"])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_round_trip(library):
    bags = Bags.from_frame(PEOPLE, bag="town", categorical={"sex": ["m", "f", "x"], "job": [3, 2, 1]})
    frame = bags.to_frame(library)
    values = frame["sex"].to_pylist() if library == "pyarrow" else frame["sex"].to_list()
    assert values == ["m", "f", "f", "m", "m"]
    assert Bags.from_frame(frame, bag="bag", categorical=bags.category_labels) == bags


def test_labels_of_several_kinds_go_to_pandas():
    bags = Bags([[0.0], [1.0]], [0, 2], columns=["v"], categories={"v": ["a", 1]})
    assert bags.to_frame()["v"].tolist() == ["a", 1]


def test_encoding_equals_a_loop():
    rng = np.random.default_rng(0)
    words = np.array(["b", "a", "ß", "c"], object)[rng.integers(0, 4, 50)]
    codes, distinct = factorise(words, "column 'v'")
    assert [distinct[k] for k in codes] == words.tolist()
    assert distinct == sorted(set(words))
    assert recode(codes, distinct, ("ß", "a", "b")).tolist() == [
        ("ß", "a", "b", "c").index(w) % 3 if w != "c" else -1 for w in words
    ]
    assert decode(codes.astype(float), check_labels(distinct, "v")).tolist() == words.tolist()


# --------------------------------------------------------------------------------------------------- scaling
@pytest.mark.parametrize("kind", ["linear", "asinh", "rank"])
@pytest.mark.parametrize("bounds", ["minmax", 0.2, ([0, np.nan], [1, np.nan])], ids=["minmax", "quantile", "pair"])
def test_unit_cube_leaves_codes_alone(kind, bounds):
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(0, 1, 40), rng.integers(0, 5, 40)])
    bags = Bags(points, [0, 10, 40], categories={1: list("abcde")})
    cube = de.UnitCube(bounds, map=kind, outside="drop").fit(bags)
    there = cube.transform(bags)
    plain = de.UnitCube((0, 1) if isinstance(bounds, tuple) else bounds, map=kind, outside="drop")
    alone = plain.fit_transform(bags.replace(points=points[:, :1]))
    assert there.categories == bags.categories
    np.testing.assert_array_equal(there.points[:, :1], alone.points)
    assert set(there.points[:, 1]) <= set(range(5))
    assert (cube.low_[1], cube.high_[1]) == (0, 5)
    back = cube.inverse_transform(there)
    assert back.categories == bags.categories
    np.testing.assert_array_equal(back.points[:, 1], there.points[:, 1])
    if bounds == "minmax":
        np.testing.assert_allclose(back.points, points)


def test_unit_cube_of_codes_alone_and_of_one_label():
    bags = Bags([[0.0, 0.0], [0.0, 2.0]], [0, 2], categories={0: ["only"], 1: ["a", "b", "c"]})
    for kind in ("linear", "asinh", "rank"):
        assert de.UnitCube(map=kind).fit_transform(bags) == bags


def test_estimators_take_labels_in_the_order_of_fit():
    bags = Bags([[0.5, 0.0], [0.3, 1.0]], [0, 2], columns=["age", "sex"], categories={1: ["f", "m"]})
    swapped = Bags([[0.5, 1.0], [0.3, 0.0]], [0, 2], columns=["age", "sex"], categories={1: ["m", "f"]})
    for estimator in (de.UnitCube(), de.HDDEmbedding(bandwidth=0.1), de.Standardize()):
        fitted = estimator.fit(bags)
        assert fitted.categories_in_ == {1: ("f", "m")}
        one, two = (fitted.transform(each) for each in (bags, swapped))
        assert one == two if isinstance(one, Bags) else np.array_equal(one, two)
        with pytest.raises(ValueError, match=r"categories of fit, got in column 1 no labels at transform"):
            fitted.transform([np.array([[0.5, 0.0]])])
        numbers = Bags([[0.5, 1.0]], [0, 1], columns=["age", "sex"], categories={1: [0, 1]})
        with pytest.raises(ValueError, match=r"column 'sex' must hold the labels 'f', 'm', got numbers such as 1"):
            fitted.transform(numbers)
        plain = fitted.fit([np.array([[0.5, 0.0], [0.3, 1.0]])])
        assert not hasattr(plain, "categories_in_")
        with pytest.raises(ValueError, match=r"labels 'f', 'm' at transform and no labels at fit"):
            plain.transform(bags)


def test_labels_that_fit_did_not_see_are_other():
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays(
        [np.column_stack([rng.uniform(0.2, 0.8, 20), rng.integers(0, 2, 20)]) for _ in range(8)],
        columns=["age", "sex"], categories={1: ["f", "m"]},
    )  # fmt: skip
    new = Bags([[0.5, 0], [0.3, 1], [0.4, 2], [0.6, 1]], [0, 3, 4], columns=["age", "sex"],
               categories={1: ["m", "x", "y"]})  # fmt: skip
    model = de.HDDEmbedding("hellinger", bandwidth=0.1).fit(bags)
    with pytest.warns(UserWarning, match="column 'sex': labels that the training bags lack, such as 'x'") as seen:
        found = model.transform(new)
    assert len(seen) == 1
    alone = model.transform(Bags([[0.5, 1]], [0, 1], columns=["age", "sex"], categories={1: ["f", "m"]}))
    assert np.allclose(found[0], alone[0] / np.sqrt(3))  # a third of the density: two points lie elsewhere
    assert not found[1].any()
    with pytest.warns(UserWarning, match="count as 'other'"):
        standard = de.Standardize().fit(bags).transform(new)
    assert standard.columns == ("age", "sex=f", "sex=m")
    known = Bags(bags.points, bags.offsets, columns=bags.columns, categories={1: ["f", "other"]})
    with pytest.warns(UserWarning, match="such as 'm', count as 'other'"):
        found = model.fit(known).transform(new)
    whole = Bags([[0.5, 1], [0.3, 1], [0.4, 1], [0.6, 1]], [0, 3, 4], columns=bags.columns, categories=known.categories)
    assert np.allclose(found, model.transform(whole))


@pytest.mark.filterwarnings("ignore:.*as a group differ")  # by their labels
@pytest.mark.parametrize("embedding", ["hellinger", de.Marginals(de.HDDEmbedding("hellinger"))])
def test_learners_predict_bags_with_unseen_labels(embedding):
    rng = np.random.default_rng(0)
    y = rng.uniform(0.1, 0.9, 30)
    points = [np.column_stack([rng.normal(size=30), rng.random(30) < share]) for share in y]
    bags = Bags.from_arrays(points, columns=["x", "sex"], categories={1: ["f", "m"]})
    new = Bags.from_arrays(points, columns=["x", "sex"], categories={1: ["f", "x"]})
    model = de.DistributionRegressor(embedding, n_components=100, tune=None, random_state=0).fit(bags, y)
    with pytest.warns(UserWarning, match="column 'sex': labels that the training bags lack, such as 'x'") as seen:
        assert np.isfinite(model.predict(new)).all()
    assert len([each for each in seen if "labels that" in str(each.message)]) == 1


def test_estimators_that_know_no_categories_refuse_them():
    class Means(BagEstimator):
        def fit(self, X, y=None):
            check_bags(self, X, reset=True)
            return self

    bags = Bags([[0.5, 0.0]], [0, 1], columns=["age", "sex"], categories={1: ["f", "m"]})
    with pytest.raises(ValueError, match=r"Means: X must have no categorical columns, got 'sex', .*; use HDDEmbedding"):
        Means().fit(bags)
    text = r"Marginals\(which=3\): projections add up columns, .* got 'sex'; pass which='each' or 'pairs'"
    with pytest.raises(ValueError, match=text):
        de.Marginals(de.HDDEmbedding(), which=3).fit(bags)


# --------------------------------------------------------------------------------------- one density p(c, x)
def slow_split(bags):
    """{(bag, cell): (points, weights)} by a loop over points."""
    codes = sorted(bags.categories)
    rest = [j for j in range(bags.n_dims) if j not in codes]
    found = {}
    for i, points in enumerate(bags):
        weights = np.ones(len(points)) if bags.weights is None else bags.weights_of(i)
        for point, weight in zip(points, weights, strict=True):
            key = i, tuple(int(point[j]) for j in codes)
            found.setdefault(key, []).append((point[rest], weight))
    return {key: (np.array([p for p, _ in v]), np.array([w for _, w in v])) for key, v in found.items()}


def slow_distances(bags, distance, bandwidth, n_nodes):
    """Σ_c ∫ κ(p(c, x), q(c, x)) dx with exact KDEs on a fine quadrature, category by category."""
    parts = slow_split(bags)
    n_dims = bags.n_dims - len(bags.categories)
    nodes, volumes = exact.box_quadrature(n_dims, n_nodes=n_nodes)
    total = np.zeros((bags.n_bags, bags.n_bags))
    for cell in {cell for _, cell in parts}:
        densities = np.zeros((bags.n_bags, len(nodes)))
        for i in range(bags.n_bags):
            if (i, cell) in parts:
                points, weights = parts[i, cell]
                whole = bags.sizes[i] if bags.weights is None else bags.weights_of(i).sum()
                densities[i] = weights.sum() / whole * exact.kde(points, nodes, bandwidth, weights=weights)
        total += exact.pairwise_distances(densities, distance, volumes)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (4,), (2, 3)])
def test_split_equals_a_loop(sizes, weighted):
    bags = mixed(4, 11, n_dims=2, sizes=sizes, weighted=weighted)
    cells, slow = Cells.of(bags), slow_split(bags)
    split = cells.split(bags)
    keys = [
        (i, tuple(int(k) for k in np.unravel_index(c, sizes))) for i, c in zip(split.owner, split.cell, strict=True)
    ]
    assert keys == sorted(slow)
    for key, points, share, start in zip(keys, split.parts, split.share, split.parts.offsets, strict=False):
        np.testing.assert_array_equal(points, slow[key][0])
        whole = bags.sizes[key[0]] if not weighted else bags.weights_of(key[0]).sum()
        assert share == pytest.approx(slow[key][1].sum() / whole)
        if weighted:
            np.testing.assert_array_equal(split.parts.weights[start : start + len(points)], slow[key][1])


@pytest.mark.parametrize("distance", ["js", "hellinger", "chi2"])
@pytest.mark.parametrize(("n_dims", "sizes", "weighted"), [(1, (3,), False), (1, (2, 2), True), (2, (2,), True)])
def test_distances_equal_the_slow_sum_over_cells(distance, n_dims, sizes, weighted):
    bags = mixed(4, 50, n_dims, sizes, weighted=weighted)
    bandwidth = 0.08 if n_dims == 1 else 0.12
    embedding = de.HDDEmbedding(distance, n_basis=30 if n_dims == 1 else 14, n_lambdas=12, bandwidth=bandwidth)
    found = squared(embedding.fit_transform(bags))
    truth = slow_distances(bags, distance, bandwidth, 256 if n_dims == 1 else 64)
    np.testing.assert_allclose(found, truth, atol=0.01 * truth.max())


def test_total_variation_approaches_the_slow_sum():
    bags = mixed(4, 50)
    truth = slow_distances(bags, "tv", 0.08, 512)
    errors = []
    for n, n_basis in ((5, 20), (40, 100)):  # large lambdas turn fast, and need many functions
        embedding = de.HDDEmbedding("tv", n_basis=n_basis, n_lambdas=n, bandwidth=0.08, nodes=de.Grid(240))
        errors.append(np.abs(squared(embedding.fit_transform(bags)) - truth).max())
    assert errors[1] < 0.01
    assert errors[1] < errors[0] / 4


def test_scattered_nodes_and_other_densities_take_parts_too():
    bags = mixed(4, 50, n_dims=2, sizes=(2,))
    truth = slow_distances(bags, "hellinger", 0.12, 64)
    embedding = de.HDDEmbedding("hellinger", n_basis=10, bandwidth=0.12, nodes=de.Sobol(1024), random_state=0)
    np.testing.assert_allclose(squared(embedding.fit_transform(bags)), truth, atol=0.03 * truth.max())
    own = de.HDDEmbedding("hellinger", density=de.KDE(per_bag=True), bandwidth="scott")
    assert np.isfinite(own.fit_transform(bags)).all()


def test_a_product_density_has_the_product_of_affinities():
    """For p(c) p(x) the Bhattacharyya coefficient is that of the shares times that of the coordinates."""
    rng = np.random.default_rng(0)
    shares = [np.array([2, 3, 5]), np.array([5, 3, 2])]
    points = [np.clip(rng.normal(m, 0.1, 80), 0, 1) for m in (0.4, 0.6)]
    arrays = [
        np.column_stack([np.repeat(x[None], 10, axis=0).ravel(), np.repeat(np.repeat(range(3), n), 80)])
        for x, n in zip(points, shares, strict=True)
    ]
    bags = Bags.from_arrays(arrays, categories={1: ["a", "b", "c"]})
    embedding = de.HDDEmbedding("hellinger", n_basis=30, bandwidth=0.05)
    (a, b), (alone_a, alone_b) = embedding.fit_transform(bags), embedding.fit_transform(Bags.from_arrays(points))
    affinity = np.sqrt(shares[0] * shares[1]).sum() / 10
    assert 2 * a @ b == pytest.approx(affinity * 2 * alone_a @ alone_b, abs=1e-12)
    assert np.sum((a - b) ** 2) == pytest.approx(1 - affinity * 2 * alone_a @ alone_b, abs=1e-6)


HISTOGRAMS = {"js": 0.066414314, "hellinger": 0.067544468, "tv": 0.3, "chi2": 0.1285714286}


@pytest.mark.parametrize("distance", HISTOGRAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bags_of_labels_alone_have_the_distance_of_histograms(distance, dtype):
    shares = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
    arrays = [np.repeat([0, 1, 2], np.rint(10 * share).astype(int)).astype(dtype) for share in shares]
    bags = Bags.from_arrays(arrays, categories={0: ["a", "b", "c"]})
    errors = []
    for n_lambdas in (5, 16, 256) if distance == "tv" else (5, 16):
        embedding = de.HDDEmbedding(distance, n_lambdas=n_lambdas)
        features = embedding.fit_transform(bags)
        assert features.dtype == dtype
        assert features.shape == (2, 3 * (1 if distance == "hellinger" else 2 * n_lambdas))
        assert embedding.energy_ == pytest.approx(1)
        found = squared(features.astype(float))[0, 1]
        # The quadrature in lambda is the only error.
        rule = embedding.lambdas_, embedding.lambda_weights_
        functions = [exact.lambda_functions(share, *rule) for share in shares]
        truth = np.sum((functions[0] - functions[1]) ** 2)
        assert found == pytest.approx(truth, abs=1e-12 if dtype == np.float64 else 1e-6)
        errors.append(abs(found - HISTOGRAMS[distance]))
    if distance == "tv":  # whose rule converges slowly
        assert errors[2] < 2e-3
        assert errors[2] < errors[1] / 8 < errors[0] / 64
    else:
        assert errors[1] < (1e-8 if dtype == np.float64 else 1e-6)


def test_labels_alone_do_not_care_about_the_continuous_knobs():
    bags = Bags.from_arrays([[0, 1, 1], [0, 0]], categories={0: ["a", "b"]})
    plain = de.HDDEmbedding().fit_transform(bags)
    for options in ({"basis": "fourier"}, {"nodes": de.Sobol(64)}, {"bandwidth": 0.2}, {"n_basis": (3, 4)}):
        np.testing.assert_allclose(np.abs(de.HDDEmbedding(**options).fit_transform(bags)), np.abs(plain))
    absent = Bags.from_arrays([[0], [1]], categories={0: ["a", "b", "never"]})
    assert squared(de.HDDEmbedding("js", n_lambdas=8).fit_transform(absent))[0, 1] == pytest.approx(np.log(2))


@pytest.mark.parametrize(("rule", "n_bags"), [("distance", 5), ("scott", 70)])
def test_a_column_of_one_label_changes_nothing(rule, n_bags):
    rng = np.random.default_rng(0)
    plain = Bags.from_arrays([rng.beta(2, 3 + i % 3, 40 + i) for i in range(n_bags)])
    points = np.column_stack([np.zeros(plain.n_points), plain.points])
    constant = Bags(points, plain.offsets, categories={0: ["only"]})
    a, b = de.HDDEmbedding(bandwidth=rule).fit(plain), de.HDDEmbedding(bandwidth=rule).fit(constant)
    np.testing.assert_array_equal(a.bandwidth_, b.bandwidth_)
    assert a.nodes_ == b.nodes_
    assert a.energy_ == b.energy_
    np.testing.assert_allclose(a.transform(plain), b.transform(constant), atol=1e-12)


def test_relabelling_permutes_blocks():
    bags = mixed(4, 40)
    renamed = Bags(
        np.column_stack([bags.points[:, 0], np.array([2, 0, 1])[bags.points[:, 1].astype(int)]]),
        bags.offsets,
        categories={1: ["l1", "l2", "l0"]},
    )
    embedding = de.HDDEmbedding(n_basis=5, bandwidth=0.1)
    a, b = embedding.fit_transform(bags), embedding.fit_transform(renamed)
    assert a.shape == (4, 3 * 10 * 5)
    np.testing.assert_allclose(b.reshape(4, 3, 50), a.reshape(4, 3, 50)[:, [1, 2, 0]], atol=1e-12)


def test_the_order_of_columns_and_points_is_irrelevant():
    bags = mixed(3, 40, n_dims=2)
    rng = np.random.default_rng(1)
    shuffled = [rng.permutation(points)[:, [2, 0, 1]] for points in bags]
    moved = Bags.from_arrays(shuffled, categories={0: bags.categories[2]})
    embedding = de.HDDEmbedding(n_basis=5, bandwidth=(0.1, 0.2))
    np.testing.assert_allclose(embedding.fit_transform(bags), embedding.fit_transform(moved), atol=1e-12)


def test_weights_equal_copies_and_zero_weights_absence():
    bags = mixed(3, 30)
    counts = np.random.default_rng(0).integers(0, 3, bags.n_points)
    counts[bags.offsets[:-1]] = 1
    weighted = Bags(bags.points, bags.offsets, weights=counts, categories=bags.categories)
    sizes = np.add.reduceat(counts, bags.offsets[:-1])
    copies = Bags(np.repeat(bags.points, counts, axis=0), np.r_[0, np.cumsum(sizes)], categories=bags.categories)
    embedding = de.HDDEmbedding(bandwidth=0.1)
    a, b = embedding.fit_transform(weighted), embedding.fit_transform(copies)
    np.testing.assert_allclose(a, b, atol=1e-12)
    huge = Bags(bags.points, bags.offsets, weights=counts * 1e200, categories=bags.categories)
    np.testing.assert_allclose(embedding.transform(huge), a, atol=1e-12)


def test_cells_without_points_have_zeros_and_single_points_are_fine():
    bags = Bags([[0.2, 0], [0.9, 2], [0.4, 2]], [0, 2, 3], categories={1: ["a", "b", "c"]})
    features = de.HDDEmbedding("hellinger", bandwidth=0.1).fit_transform(bags).reshape(2, 3, -1)
    assert not features[:, 1].any()
    assert not features[1, 0].any()
    assert np.isfinite(features).all()
    np.testing.assert_allclose(np.sum(features[0] ** 2, axis=1), [0.25, 0, 0.25], atol=0.01)


def test_chunks_threads_and_rows_alone_give_the_same_features():
    bags = mixed(150, 5, sizes=(2, 3), weighted=True)
    embedding = de.HDDEmbedding(bandwidth=0.1).fit(bags)
    features = embedding.transform(bags)
    np.testing.assert_array_equal(embedding.set_params(n_jobs=2).transform(bags), features)
    np.testing.assert_allclose(embedding.transform(bags[77:78]), features[77:78], atol=1e-12)


def test_many_cells_are_embedded_in_bounded_chunks(monkeypatch):
    bags = mixed(3, 200, sizes=(60,))
    embedding = de.HDDEmbedding("hellinger", bandwidth=0.1).fit(bags)
    whole = embedding.transform(bags)
    monkeypatch.setattr("distembed.compute.parallel._CHUNK_BYTES", 1)
    np.testing.assert_allclose(embedding.transform(bags), whole, atol=1e-12)


def test_float32():
    bags = mixed(4, 80)
    embedding = de.HDDEmbedding(bandwidth=0.1).fit(bags)
    single = embedding.transform(bags.astype("float32"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, embedding.transform(bags), atol=3e-4)


def test_feature_names():
    bags = Bags.from_arrays(
        [np.array([[0.1, 0, 0], [0.2, 1, 1]])],
        columns=["age", "sex", "region"],
        categories={"sex": ["f", "m"], "region": ["north", "south"]},
    )
    embedding = de.HDDEmbedding("js", n_basis=2, n_lambdas=1, bandwidth=0.5).fit(bags)
    names = embedding.get_feature_names_out()
    assert len(set(names)) == len(names) == embedding.transform(bags).shape[1] == 16
    assert names[0] == "js_sex=f,region=north_re0_0"
    assert names[-1] == "js_sex=m,region=south_im0_1"
    alike = Bags.from_arrays([np.array([[0.1, 0], [0.2, 1]])], categories={1: [1, "1"]})
    assert de.HDDEmbedding("hellinger", n_basis=1, bandwidth=0.5).fit(alike).get_feature_names_out().tolist() == [
        "hellinger_x1=0_re0_0",
        "hellinger_x1=1_re0_0",
    ]


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_rules_look_at_parts_in_proportion_to_their_shares():
    rng = np.random.default_rng(0)
    arrays = []
    for _ in range(40):  # a rare wide category must not set the bandwidth of the common narrow one
        common, rare = rng.normal(0.5, 0.02, 190), rng.uniform(0, 1, 10)
        arrays.append(np.column_stack([np.r_[common, rare], np.repeat([0, 1], [190, 10])]))
    bags = Bags.from_arrays(arrays, categories={1: ["common", "rare"]})
    typical = Cells.of(bags).typical(bags[:32], 32)
    assert 0 <= np.count_nonzero(typical.sizes == 10) <= 3
    few = Cells.of(bags).typical(bags[:2], 32)
    assert few.n_bags == 32
    assert np.count_nonzero(few.sizes == 10) in (1, 2, 3)
    alone = de.HDDEmbedding(bandwidth="scott").fit(Bags.from_arrays([a[:190, 0] for a in arrays])).bandwidth_
    assert de.HDDEmbedding(bandwidth="scott").fit(bags).bandwidth_ == pytest.approx(alone, rel=0.4)


def test_too_many_cells_are_refused_before_any_work():
    bags = Bags([[0.1, 0, 0, 0]], [0, 1], categories={j: range(10_000) for j in (1, 2, 3)})
    text = (
        r"make 1,000,000,000,000 cells \(x1 10,000, x2 10,000, x3 10,000\) of 10 features each.* merge rare categories"
    )
    with pytest.raises(ValueError, match=text):
        de.HDDEmbedding("hellinger", bandwidth=0.1).fit(bags)


def test_points_outside_the_cube_are_named():
    arrays = [np.array([[2, 0.5]]), np.array([[1, 0.5], [0, 1.5]])]
    bags = Bags.from_arrays(arrays, ids=["p", "q"], categories={0: list("abc")})
    text = r"point 1 of bag 1 \(id 'q'\) has 1.5 in dimension 1; scale the bags first"
    with pytest.raises(ValueError, match=text):
        de.HDDEmbedding().fit(bags)
    fitted = de.HDDEmbedding(bandwidth=0.1).fit(Bags([[0, 0.5]], [0, 1], categories={0: list("abc")}))
    with pytest.raises(ValueError, match=text):
        fitted.transform(bags)


def test_one_number_a_dimension_means_the_continuous_ones():
    bags = mixed(3, 20, n_dims=2)
    assert de.HDDEmbedding("hellinger", n_basis=(3, 2), bandwidth=(0.1, 0.2)).fit_transform(bags).shape == (3, 18)
    with pytest.raises(ValueError, match=r"one per dimension \(2\)"):
        de.HDDEmbedding(n_basis=(3, 2, 4)).fit(bags)


# ------------------------------------------------------------------------------------------- in company
def test_pipeline_with_scaling_and_pickle():
    frame = pd.DataFrame({**PEOPLE, "age": [10.0, 50.0, 30.0, 70.0, 90.0]})
    bags = Bags.from_frame(frame, bag="town", categorical=["sex", "job"])
    model = make_pipeline(de.UnitCube(), de.HDDEmbedding("hellinger", n_basis=3, bandwidth=0.2)).fit(bags)
    features = model.transform(bags)
    assert features.shape == (2, 2 * 3 * 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(bags), features)


def test_marginals_take_categories_as_parts():
    bags = mixed(4, 40, n_dims=2, sizes=(3,))
    one = de.HDDEmbedding("hellinger", n_basis=4, bandwidth=0.1)
    each = de.Marginals(one).fit(bags)
    features = each.transform(bags)
    assert features.shape == (4, 4 + 4 + 3)
    codes = Bags(bags.points[:, 2:], bags.offsets, categories={0: bags.categories[2]})
    np.testing.assert_allclose(features[:, 8:], one.fit_transform(codes), atol=1e-12)
    pairs = de.Marginals(one, which="pairs").fit(bags)
    assert pairs.transform(bags).shape == (4, 16 + 12 + 12)
    assert pairs.get_feature_names_out()[16] == "x0_x2__hellinger_x1=l0_re0_0"


def test_block_averages_pass_categories_on():
    bags = mixed(4, 40)
    inner = de.HDDEmbedding("hellinger", n_basis=4, bandwidth=0.1)
    whole = de.BlockAverage(inner, block_size=10**6)
    with pytest.warns(UserWarning, match="fewer points than a block"):
        features = whole.fit_transform(bags)
    np.testing.assert_allclose(features, inner.fit_transform(bags), atol=1e-12)
    assert de.BlockAverage(inner, block_size=10).fit_transform(bags).shape == (4, 12)


def test_sizes_take_categories():
    bags = mixed(6, 100)
    embedding = de.HDDEmbedding("hellinger", n_basis=4, bandwidth=0.1).fit(bags)
    floor = noise_floor(embedding, bags, [20, 80], random_state=0)
    assert floor[0, 0] > floor[1, 1] > 0
    assert split_half_distances(embedding, bags, random_state=0).shape == (6, 6)


def test_the_example_of_a_survey(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = Path(__file__).resolve().parents[2] / "examples" / "plot_02_mixed_columns.py"
    scores = runpy.run_path(str(path))["main"](["--bags", "60", "--output", str(tmp_path / "mixed.png")])
    assert scores["age, income, sex"] > 0.9
    assert max(scores["age, income"], scores["sex"]) < 0.2
    assert (tmp_path / "mixed.png").read_bytes()[:4] == b"\x89PNG"
    assert "columns            features test RMSE    R^2" in capsys.readouterr().out


WARDS = np.repeat(["p", "q", "r"], 4)
KINDS = {
    "text": (pd.Categorical(["u", "v", "w"] * 4), ("u", "v", "w")),
    "numbers": (pd.Categorical([1, 2, 3] * 4), (1, 2, 3)),
    "ordered numbers": (pd.Categorical([1, 2, 3] * 4, categories=[3, 2, 1], ordered=True), (3, 2, 1)),
    "booleans": (pd.Categorical([True, False, True] * 4), (False, True)),
    "intervals": (pd.cut(np.arange(12.0) % 3, 2), ("(-0.002, 1.0]", "(1.0, 2.0]")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["default", "columns", "categorical", "groups", "frames"])
def test_categoricals_are_categories_everywhere(kind, how):
    column, labels = KINDS[kind]
    frame = pd.DataFrame({"ward": WARDS, "x": np.linspace(0, 1, 12) ** 2, "c": column})
    if how == "groups":
        bags = de.as_bags(frame.groupby("ward"))
    elif how == "frames":
        bags = de.as_bags([each.drop(columns="ward") for _, each in frame.groupby("ward")])
    else:
        given = {"default": {}, "columns": {"columns": ["x", "c"]}, "categorical": {"categorical": ["c"]}}[how]
        bags = Bags.from_frame(frame, bag="ward", **given)
    assert bags.columns == ("x", "c")
    assert bags.category_labels == {"c": labels}
    assert bags.points[:, 1].tolist() == frame["c"].cat.codes.tolist()


@pytest.mark.parametrize(
    "column",
    [pl.Series(["u", "v"] * 6, dtype=pl.Categorical), pl.Series(["u", "v"] * 6, dtype=pl.Enum(["u", "v"]))],
    ids=["Categorical", "Enum"],
)
def test_categories_of_polars_are_categories(column):
    bags = Bags.from_frame(pl.DataFrame({"ward": WARDS, "x": np.arange(12.0) ** 2, "c": column}), bag="ward")
    assert bags.category_labels == {"c": ("u", "v")}


def test_categoricals_of_bags_and_of_points_are_left_out_by_default():
    frame = pd.DataFrame({"ward": np.repeat(WARDS, 10), "x": np.arange(120.0) ** 2})
    frame["status"] = pd.Categorical(np.where(frame["ward"] == "p", "ill", "well"))
    frame["cell"] = pd.Categorical([f"cell {i}" for i in range(120)])
    with pytest.warns(UserWarning, match="'status' has one label in each bag; 'cell' has 120 labels in 120 rows"):
        bags = Bags.from_frame(frame, bag="ward")
    assert bags.columns == ("x",)
    assert Bags.from_frame(frame, bag="ward", columns=["x", "status"]).category_labels == {"status": ("ill", "well")}


def test_frames_with_other_categories_share_their_labels():
    one = pd.DataFrame({"x": [0.0, 1.0], "c": pd.Categorical(["b", "a"])})
    two = pd.DataFrame({"c": pd.Categorical(["c", "b"]), "x": [2.0, 3.0]})
    bags = Bags.from_arrays([one, two])
    assert bags.category_labels == {"c": ("a", "b", "c")}
    assert bags.points.tolist() == [[0, 1], [1, 0], [2, 2], [3, 1]]
    known = Bags.from_arrays([one, two], columns=["x", "c"], categories={"c": ["c", "b", "a"]})
    assert known.points[:, 1].tolist() == [1, 2, 0, 1]
