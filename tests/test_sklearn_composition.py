"""scikit-learn's tools around the estimators: pipelines, searches, caches, data frames, metadata, its own checks."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import parametrize_with_checks

import distembed as de

pytestmark = pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast

RNG = np.random.default_rng(0)
WIDTHS = RNG.uniform(0.5, 3.0, 40)  # the target: the spread of a bag
ARRAYS = [RNG.normal(0, width, (RNG.integers(30, 60), 2)) for width in WIDTHS]
BAGS = de.Bags.from_arrays(ARRAYS, ids=[f"bag{i}" for i in range(40)])
LABELS = np.where(np.median(WIDTHS) < WIDTHS, "wide", "narrow")

clipping = pytest.mark.filterwarnings("ignore:UnitCube. .* clipped to the faces")  # another fold has other extremes


def features(**options):
    """Scale, embed, random features: the paper's pipeline, small."""
    return make_pipeline(
        de.UnitCube(),
        de.HDDEmbedding("js", n_basis=4, bandwidth=0.08, **options),
        de.RandomFourierFeatures(100, random_state=0),
    )


def regressor(**options):
    return make_pipeline(*(step for _, step in features(**options).steps), Ridge(alpha=0.1))


def classifier():
    return make_pipeline(*(step for _, step in features().steps), LinearSVC())


# --------------------------------------------------------------------------------------------------------------
# Pipelines
# --------------------------------------------------------------------------------------------------------------


def test_a_regression_learns_and_reads_lists_and_bags_alike():
    on_bags, on_lists = regressor().fit(BAGS, WIDTHS), regressor().fit(ARRAYS, WIDTHS)
    assert on_bags.score(BAGS, WIDTHS) > 0.9
    assert_allclose(on_bags.predict(ARRAYS), on_lists.predict(BAGS))


def test_a_classification_learns():
    model = classifier().fit(BAGS, LABELS)
    assert model.score(BAGS, LABELS) > 0.9
    assert set(model.predict(ARRAYS[:5])) <= {"wide", "narrow"}


def test_a_clone_is_unfitted_and_makes_the_same_model():
    model = regressor().fit(BAGS, WIDTHS)
    twin = clone(model)
    assert not hasattr(twin[1], "bandwidth_")
    assert_allclose(twin.fit(BAGS, WIDTHS).predict(BAGS), model.predict(BAGS))


def test_dot_products_of_the_pipeline_are_the_kernel_of_the_distance():
    waves = de.RandomFourierFeatures(10_000, frequencies="independent", random_state=0)
    pipeline = make_pipeline(de.UnitCube(), de.HDDEmbedding(bandwidth=0.08, n_basis=4), waves)
    z = pipeline.fit_transform(BAGS)
    a = pipeline[:-1].transform(BAGS)
    squared = np.sum((a[:, None] - a[None]) ** 2, axis=-1)
    assert np.abs(z @ z.T - np.exp(-squared / (2 * pipeline[-1].sigma_ ** 2))).max() < 0.05


def test_nested_parameters_reach_the_objects():
    pipeline = regressor()
    pipeline.set_params(hddembedding__distance="tv", hddembedding__nodes=de.Grid(32), unitcube__map="rank")
    pipeline.fit(BAGS, WIDTHS)
    assert pipeline["hddembedding"].nodes_.shape == (32, 32)
    assert sorted(pipeline["unitcube"].curves_) == [0, 1]
    with pytest.raises(ValueError, match="Invalid parameter 'bins'"):
        pipeline.set_params(hddembedding__bins=3)


def test_float32_stays_float32_through_the_pipeline():
    single = features().fit_transform(BAGS.astype("float32"))
    assert single.dtype == np.float32
    assert_allclose(single, features().fit_transform(BAGS), atol=1e-4)


def test_a_union_of_embeddings_stands_side_by_side():
    parts = [("js", de.HDDEmbedding("js", n_basis=3, bandwidth=0.1)), ("tv", de.HDDEmbedding("tv", bandwidth=0.1))]
    union = FeatureUnion(parts, n_jobs=None)
    pipeline = make_pipeline(de.UnitCube(), union, StandardScaler(), Ridge())
    assert pipeline.fit(BAGS, WIDTHS).score(BAGS, WIDTHS) > 0.9
    cubes = de.UnitCube().fit_transform(BAGS)
    assert_allclose(union.transform(cubes), np.hstack([clone(part).fit_transform(cubes) for _, part in parts]))
    names = union.get_feature_names_out()
    assert len(set(names)) == union.transform(cubes).shape[1]
    assert names[0] == "js__js_re0_0_0"


# --------------------------------------------------------------------------------------------------------------
# Splitting and searching
# --------------------------------------------------------------------------------------------------------------


def test_train_test_split_keeps_bags_with_their_ids_and_targets():
    train, test, y_train, y_test = train_test_split(BAGS, WIDTHS, test_size=0.25, random_state=0)
    assert isinstance(train, de.Bags)
    assert isinstance(test, de.Bags)
    assert (train.n_bags, test.n_bags) == (30, 10)
    wanted = {f"bag{i}": width for i, width in enumerate(WIDTHS)}
    for part, y in ((train, y_train), (test, y_test)):
        assert_array_equal(y, [wanted[name] for name in part.ids])


def test_stratified_split_of_bags():
    _, _, y_train, y_test = train_test_split(BAGS, LABELS, stratify=LABELS, random_state=0)
    assert np.mean(y_train == "wide") == np.mean(y_test == "wide") == 0.5


@clipping
def test_cross_validation():
    scores = cross_val_score(regressor(), BAGS, WIDTHS, cv=4, error_score="raise")
    assert scores.shape == (4,)
    assert scores.mean() > 0.7
    assert_allclose(scores, cross_val_score(regressor(), ARRAYS, WIDTHS, cv=4, error_score="raise"))
    groups = np.arange(40) % 5
    predicted = cross_val_predict(classifier(), BAGS, LABELS, cv=GroupKFold(5), groups=groups)
    assert np.mean(predicted == LABELS) > 0.8


@clipping
def test_a_search_over_the_parameters_of_every_stage_in_two_processes():
    grid = {
        "hddembedding__distance": ["js", "hellinger"],
        "hddembedding__bandwidth_scale": [0.5, 1.0],
        "randomfourierfeatures__sigma_scale": [0.5, 2.0],
        "ridge__alpha": [0.1],
    }
    search = GridSearchCV(regressor(), grid, cv=2, n_jobs=2, error_score="raise").fit(BAGS, WIDTHS)
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_["hddembedding"].distance == search.best_params_["hddembedding__distance"]
    assert search.predict(BAGS).shape == (40,)


@clipping
def test_a_search_over_objects():
    grid = {"hddembedding__density": ["kde", de.KDE("none")], "hddembedding__nodes": ["auto", de.Grid(16)]}
    search = GridSearchCV(regressor(), grid, cv=2, error_score="raise").fit(BAGS, WIDTHS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# --------------------------------------------------------------------------------------------------------------
# Files and caches
# --------------------------------------------------------------------------------------------------------------


def test_joblib_dump_and_load(tmp_path):
    model = regressor(nodes=de.Sobol(128), random_state=0).fit(BAGS, WIDTHS)
    joblib.dump(model, tmp_path / "model.joblib")
    assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(BAGS), model.predict(BAGS))


def test_a_cached_pipeline_gives_the_same_and_computes_once(tmp_path, monkeypatch):
    calls = []
    fit = de.HDDEmbedding.fit
    monkeypatch.setattr(de.HDDEmbedding, "fit", lambda self, X, y=None: calls.append(1) or fit(self, X, y))
    plain = regressor().fit(BAGS, WIDTHS).predict(BAGS)
    calls.clear()
    cached = Pipeline(regressor().steps, memory=joblib.Memory(tmp_path, verbose=0))
    for alpha in (0.1, 0.1, 1.0):
        cached.set_params(ridge__alpha=alpha).fit(BAGS, WIDTHS)
    assert len(calls) == 1  # equal bags have equal hashes
    assert_allclose(cached.set_params(ridge__alpha=0.1).fit(BAGS, WIDTHS).predict(BAGS), plain)


# --------------------------------------------------------------------------------------------------------------
# Data frames, names, HTML
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_reaches_every_stage_of_the_pipeline(library):
    pytest.importorskip(library)
    pipeline = features().set_output(transform=library)
    frame = pipeline.fit_transform(BAGS)
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == list(pipeline.get_feature_names_out())
    assert_allclose(frame.to_numpy(), features().fit_transform(BAGS))
    assert pipeline[:-1].transform(BAGS).columns[0] == "js_re0_0_0"


def test_set_output_to_pandas_keeps_ids_as_index():
    pytest.importorskip("pandas")
    ids = BAGS.ids.tolist()
    for estimator in (features(), features()[:-1], de.Marginals(de.MomentEmbedding()), de.StatisticsEmbedding()):
        estimator.set_output(transform="pandas")
        for frame in (estimator.fit_transform(BAGS), estimator.transform(BAGS)):
            assert frame.index.tolist() == ids
        assert estimator.transform(BAGS[3:5]).index.tolist() == ids[3:5]
        assert estimator.transform(BAGS.replace(ids=None)).index.tolist() == list(range(40))
    both = FeatureUnion([("a", de.MomentEmbedding("mean")), ("b", de.StatisticsEmbedding())])
    assert both.set_output(transform="pandas").fit_transform(BAGS).index.tolist() == ids


def test_set_output_by_configuration():
    pd = pytest.importorskip("pandas")
    with config_context(transform_output="pandas"):
        assert isinstance(features().fit_transform(BAGS), pd.DataFrame)
        assert regressor().fit(BAGS, WIDTHS).predict(BAGS).shape == (40,)
        assert isinstance(de.UnitCube().fit_transform(BAGS), de.Bags)


def test_feature_names_of_pipelines():
    pipeline = features().fit(BAGS)
    names = pipeline.get_feature_names_out()
    assert list(names[:2]) == ["randomfourierfeatures0", "randomfourierfeatures1"]
    assert pipeline[:-1].get_feature_names_out()[-1] == "js_im4_3_3"
    assert list(pipeline[:1].get_feature_names_out()) == ["x0", "x1"]
    assert len(names) == 100


def test_names_of_columns_go_through_the_scaling():
    named = de.Bags(BAGS.points, BAGS.offsets, columns=["ra", "dec"])
    pipeline = features().fit(named)
    assert list(pipeline[:1].get_feature_names_out()) == ["ra", "dec"]
    assert list(pipeline["hddembedding"].feature_names_in_) == ["ra", "dec"]
    swapped = de.Bags(BAGS.points, BAGS.offsets, columns=["dec", "ra"])
    with pytest.raises(ValueError, match=r"columns \['ra', 'dec'\], in the order of fit, got \['dec', 'ra'\]"):
        pipeline.transform(swapped)


@pytest.mark.parametrize("fitted", [False, True])
def test_html_of_a_pipeline_shows_every_step(fitted):
    pipeline = regressor(density=de.KDE("periodic"))
    if fitted:
        pipeline.fit(BAGS, WIDTHS)
    html = estimator_html_repr(pipeline)
    for name in ("UnitCube", "HDDEmbedding", "RandomFourierFeatures", "Ridge"):
        assert name in html
    assert "<script src" not in html  # shows offline


def test_text_of_an_estimator_shows_what_is_not_default():
    text = repr(de.HDDEmbedding("tv", density=de.KDE("periodic")))
    assert "".join(text.split()) == "HDDEmbedding(density=KDE(boundary='periodic',per_bag=False),distance='tv')"


# --------------------------------------------------------------------------------------------------------------
# Metadata
# --------------------------------------------------------------------------------------------------------------


def test_sample_weight_is_routed_to_the_learner():
    """One weight per bag: bags of weight zero might as well be absent from the learner."""
    weight = np.r_[np.ones(20), np.zeros(20)]
    with config_context(enable_metadata_routing=True):
        steps = [*features().steps, ("ridge", Ridge(alpha=0.1).set_fit_request(sample_weight=True))]
        model = Pipeline(steps).fit(BAGS, WIDTHS, sample_weight=weight)
        plain = Pipeline(steps[:-1]).fit(BAGS)
        ridge = Ridge(alpha=0.1).fit(plain.transform(BAGS[:20]), WIDTHS[:20])
        assert_allclose(model.predict(BAGS), ridge.predict(plain.transform(BAGS)))


@clipping
def test_sample_weight_and_groups_are_routed_through_a_search():
    groups = np.arange(40) % 4
    with config_context(enable_metadata_routing=True):
        model = Pipeline([*features().steps, ("ridge", Ridge().set_fit_request(sample_weight=True))])
        scorer = get_scorer("r2").set_score_request(sample_weight=True)
        grid = {"ridge__alpha": [0.1, 1.0]}
        search = GridSearchCV(model, grid, scoring=scorer, cv=GroupKFold(4), error_score="raise")
        search.fit(BAGS, WIDTHS, sample_weight=np.linspace(1, 2, 40), groups=groups)
    assert search.n_splits_ == 4
    assert np.isfinite(search.best_score_)


# --------------------------------------------------------------------------------------------------------------
# scikit-learn's own checks, of the transformer whose input is rectangular
# --------------------------------------------------------------------------------------------------------------


# These set n_components=1 in every estimator that has it; sines and cosines come in pairs, and odd numbers are refused.
NEED_ONE_COMPONENT = (
    "check_dont_overwrite_parameters",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
)


def expected_failures(estimator):
    return dict.fromkeys(NEED_ONE_COMPONENT if estimator.features == "paired" else (), "one component is half a pair")


@parametrize_with_checks(
    [
        de.RandomFourierFeatures(n_components=20),
        de.RandomFourierFeatures(n_components=20, features="phase", frequencies="independent", sigma=2.0),
        de.RandomFourierFeatures(n_components=20, features="phase"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_rows", [1, 2, 30])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_what_the_expected_failures_would_have_checked(n_rows, n_columns):
    """Few rows and columns, order and subsets of rows, parameters left alone: with two components, one pair."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    estimator = de.RandomFourierFeatures(2, random_state=0)
    before = estimator.get_params()
    Z = estimator.fit_transform(X)
    assert Z.shape == (n_rows, 2)
    assert_allclose(estimator.transform(X[::-1]), Z[::-1])
    assert_allclose(estimator.transform(X[:1]), Z[:1])
    assert estimator.get_params() == before
    with pytest.raises(ValueError, match="Reshape your data"):
        estimator.transform(X[0])
