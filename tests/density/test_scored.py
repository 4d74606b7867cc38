"""Estimators with ``score_samples`` as densities."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from distembed import Bags, HDDEmbedding, MonteCarlo, density
from distembed.compute.arrays import bags_first
from distembed.density import KDE, KNN, Copula, Scored

float64 = np.dtype(float)


def make(n_dims, sizes=(60, 1, 7), weighted=False):
    rng = np.random.default_rng(n_dims)
    arrays = [rng.beta(0.8, 1.5, size=(n, n_dims)) for n in sizes]
    return Bags.from_arrays(arrays, weights=[rng.uniform(0, 2, n) + 0.01 for n in sizes] if weighted else None)


def values(estimate, nodes, bags, h=0.1, dtype=float64):
    prepared = estimate.prepare(nodes, None if h is None else np.full(bags.n_dims, h), dtype)
    return bags_first(prepared(bags, None, None)).reshape(bags.n_bags, -1)


def scattered(n_dims, n=200, kind=MonteCarlo):
    return kind(n).resolve(n_dims, random_state=np.random.RandomState(0))


class OnlyScores(KernelDensity):
    """Without draws."""

    @property
    def sample(self):
        raise AttributeError("no draws")


class Broken(KernelDensity):
    def score_samples(self, X):
        return np.full(len(X), np.nan)


def test_there_is_no_sample_where_there_are_no_draws():
    points = np.random.default_rng(0).uniform(size=(20, 1))
    assert not hasattr(KNN().of(points, None, None), "sample")
    assert not hasattr(Scored(OnlyScores()).of(points, None, None), "sample")


def test_scored_kernels_are_open_kernels():
    bags, nodes = make(2, sizes=(40, 30)), scattered(2)
    found = values(Scored(KernelDensity(bandwidth=0.1)), nodes, bags)
    want = values(KDE("none"), nodes, bags)
    np.testing.assert_allclose(found, want / (want @ nodes.weights)[:, None], rtol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        KernelDensity(bandwidth=0.1),
        Scored(KernelDensity(bandwidth=0.1)),
        GaussianMixture(2),
        make_pipeline(StandardScaler(), KernelDensity()),
    ],
    ids=["bare", "wrapped", "mixture", "pipeline"],
)
def test_scored_estimators_are_cloned_and_left_alone(estimator):
    bags = make(1, sizes=(20, 30, 25))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model = clone(HDDEmbedding("hellinger", n_basis=12, density=estimator))
    first, second = model.fit_transform(bags), clone(model).fit(bags).transform(bags)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert np.isfinite(first).all()
    inner = model.density.estimator if isinstance(model.density, Scored) else model.density
    assert not hasattr(inner, "n_features_in_")


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # of bags of twelve points
def test_a_search_over_densities():
    bags, y = make(1, sizes=(12,) * 8), np.arange(8.0)
    model = make_pipeline(HDDEmbedding("hellinger", n_basis=3, bandwidth=0.1), Ridge())
    choices = ["kde", "histogram", Copula(), KNN(3), KernelDensity(bandwidth=0.2)]
    search = GridSearchCV(model, {"hddembedding__density": choices}, cv=2, error_score="raise").fit(bags, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    model.set_params(hddembedding__density=KernelDensity())
    search = GridSearchCV(model, {"hddembedding__density__bandwidth": [0.1, 0.3]}, cv=2, error_score="raise")
    assert np.isfinite(search.fit(bags, y).cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("wrong", [KernelDensity, Ridge(), StandardScaler(), OnlyScores])
def test_what_can_not_score_is_no_density(wrong):
    for call in (lambda: density.get(wrong), lambda: Scored(wrong).of(np.zeros((2, 1)), None, None)):
        with pytest.raises(TypeError, match=r"must be an estimator with fit and score_samples, .* pass an unfitted"):
            call()


def test_estimators_that_do_not_weigh_points_refuse_weights():
    with pytest.raises(ValueError, match=r"have point weights, which fit of GaussianMixture\(\) does not take; drop"):
        HDDEmbedding(density=GaussianMixture()).fit(make(1, weighted=True))


def test_estimators_say_which_bag_they_refuse():
    with pytest.raises(
        ValueError, match=r"to a bag, or a cell of a bag .*, of 1 point in 1 dimension: .*or larger bags"
    ):
        HDDEmbedding(density=GaussianMixture(3)).fit(make(1))


def test_points_whose_share_underflowed_are_not_fitted():
    points = np.array([[0.2], [0.9], [0.4]])
    found = Scored(KernelDensity(bandwidth=0.1)).of(points, np.array([0.5, 0.0, 0.5]), None)
    assert len(found.estimator.tree_.data) == 2
    np.testing.assert_allclose(
        found.pdf(points), Scored(KernelDensity(bandwidth=0.1)).of(points[::2], None, None).pdf(points), rtol=1e-6
    )


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match=r"score_samples must give one log density per point, got shape .* NaN from"):
        HDDEmbedding(density=Broken()).fit(make(1))
