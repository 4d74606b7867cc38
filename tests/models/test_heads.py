"""Heads: held-out predictions are those of models fitted by hand without the fold, and files hold what predicts."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold
from sklearn.svm import SVC

from distembed.files import load, save
from distembed.models.base import ConstantHead
from distembed.models.forest import ForestHead, as_trees
from distembed.models.held_out import ALPHAS, held_out_at, softmax_regression, spectrum, thin_spectrum
from distembed.models.kernel_head import (
    KERNELS,
    WIDE,
    KernelHead,
    gaussian,
    kernel_ridge,
    laplace,
    large_margin,
    typical_distance,
)


def table(n=60, d=4, k=3, seed=0):
    """Features, numbers, codes of classes, weights and folds."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % k
    rows = rng.normal(size=(n, d)) + 5
    rows[:, :2] += 1.5 * np.eye(k)[codes][:, :2]
    numbers = np.column_stack([np.sin(rows[:, 0]) + 0.1 * rng.normal(size=n), 100 * rows[:, 1]])
    folds = list(StratifiedKFold(4, shuffle=True, random_state=seed).split(rows, codes))
    return rows, numbers, codes, rng.uniform(0.3, 2, size=n), folds


ROWS, NUMBERS, CODES, WEIGHT, FOLDS = table()
NEW = table(25, seed=1)[0]
CLASSIFIERS = (
    {
        f"{kernel} {loss}": KernelHead(kernel, loss, 3, random_state=0)
        for kernel in KERNELS
        for loss in ("ridge", "logistic", "svm")
    }
    | {kind: ForestHead(kind, 3, n_trees=20, random_state=0) for kind in ("forest", "extra")}
    | {"none": ConstantHead(3)}
)
REGRESSORS = {kernel: KernelHead(kernel, random_state=0) for kernel in KERNELS} | {
    "forest": ForestHead("forest", n_trees=20, random_state=0),
    "extra": ForestHead("extra", n_trees=20, random_state=0),
    "none": ConstantHead(),
}
EVERY = [(head, CODES) for head in CLASSIFIERS.values()] + [(head, NUMBERS) for head in REGRESSORS.values()]
NAMES = [f"{name}, classes" for name in CLASSIFIERS] + [f"{name}, numbers" for name in REGRESSORS]


def kernel_of(head, rows, others):
    rows, others = ((each - head.centre_) / head.scale_ for each in (rows, others))
    return {"rbf": gaussian, "laplace": laplace, "linear": lambda x, z: x @ z.T}[head.kernel](rows, others)


def ridge_by_hand(head, rows, targets, weight, new):
    """Weighted kernel ridge regression with an intercept, by its linear equations."""
    ones = np.ones((len(rows), 1))
    kernel = kernel_of(head, rows, rows) + head.alpha_ * np.diag(1 / weight)
    matrix = np.block([[kernel, ones], [ones.T, np.zeros((1, 1))]])
    solution = np.linalg.solve(matrix, np.vstack([targets, np.zeros((1, targets.shape[1]))]))
    return kernel_of(head, new, rows) @ solution[:-1] + solution[-1]


# Every head


@pytest.mark.parametrize(("head", "targets"), EVERY, ids=NAMES)
def test_shapes_bits_and_files(head, targets, tmp_path):
    ours, again = (clone(head).fit(ROWS, targets, WEIGHT, FOLDS) for _ in range(2))
    found = ours.predict(NEW)
    outputs = 3 if head.n_classes else 2
    assert found.shape == (25, outputs)
    assert ours.held_out_.shape == (60, outputs)
    assert again.predict(NEW).tobytes() == found.tobytes()
    assert again.held_out_.tobytes() == ours.held_out_.tobytes()
    if head.n_classes:
        for probabilities in (found, ours.held_out_):
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
            assert (probabilities >= 0).all()
    save(ours, tmp_path / "slim")
    slim = load(tmp_path / "slim")
    assert slim.predict(NEW).tobytes() == found.tobytes()
    assert not hasattr(slim, "held_out_")
    save(ours, tmp_path / "whole", updatable=True)
    assert load(tmp_path / "whole").held_out_.tobytes() == ours.held_out_.tobytes()


@pytest.mark.parametrize(("head", "targets"), EVERY, ids=NAMES)
def test_better_than_a_constant_and_not_fooled_by_the_rows_held_out(head, targets):
    ours = clone(head).fit(ROWS, targets, None, FOLDS)
    wanted = np.eye(3)[targets] if head.n_classes else targets
    axis = None if head.n_classes else 0
    error = ((ours.held_out_ - wanted) ** 2).sum(axis=axis) / ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=axis)
    assert np.all(error < (1.2 if isinstance(head, ConstantHead) else 0.95)), error
    noise = np.random.default_rng(5).permutation(len(targets))
    ours.fit(ROWS, targets[noise], None, FOLDS)
    error = ((ours.held_out_ - wanted[noise]) ** 2).sum() / ((wanted - wanted.mean(axis=0)) ** 2).sum()
    assert error > 0.9, error


@pytest.mark.parametrize(("head", "targets"), EVERY, ids=NAMES)
def test_rows_that_are_all_equal(head, targets):
    rows = np.full((60, 3), 0.1) * (1 + 1e-15 * np.random.default_rng(0).normal(size=(60, 3)))
    ours = clone(head).fit(rows, targets, WEIGHT, FOLDS)
    found = ours.predict(np.full((2, 3), 0.1))
    wanted = ConstantHead(head.n_classes).fit(rows, targets, WEIGHT, FOLDS).predict(rows[:2])
    np.testing.assert_allclose(found, wanted, atol=0.15 * np.abs(wanted).max())


@pytest.mark.parametrize("head", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_class_that_folds_lack(head):
    codes = CODES.copy()
    codes[codes == 2] = 0
    codes[FOLDS[1][1][0]] = 2  # one row: models without its fold do not know the class
    ours = clone(head).fit(ROWS, codes, WEIGHT, FOLDS)
    np.testing.assert_allclose(ours.held_out_.sum(axis=1), 1, rtol=1e-12)
    assert ours.held_out_[FOLDS[1][1][0], 2] < 0.5
    nobody = clone(head).fit(ROWS, np.where(codes == 2, 0, codes), WEIGHT, FOLDS)
    assert (nobody.predict(NEW)[:, 2] == 0).all()


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in ("forest", "extra")])
def test_names_of_classes_do_not_matter(name):
    order = np.array([2, 0, 1])
    ours = clone(CLASSIFIERS[name]).fit(ROWS, CODES, WEIGHT, FOLDS)
    other = clone(CLASSIFIERS[name]).fit(ROWS, order[CODES], WEIGHT, FOLDS)
    np.testing.assert_allclose(other.predict(NEW)[:, order], ours.predict(NEW), atol=0.02)


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in ("forest", "extra")])
@pytest.mark.parametrize("numbers", [False, True])
def test_weights_are_copies(name, numbers):
    if numbers and "ridge" not in name:
        return
    head = KernelHead(name.partition(" ")[0]) if numbers else CLASSIFIERS[name]
    targets = NUMBERS if numbers else CODES
    times = np.random.default_rng(3).integers(1, 4, size=60)
    copies = np.repeat(np.arange(60), times)
    folds = [tuple(np.flatnonzero(np.isin(copies, part)) for part in fold) for fold in FOLDS]
    ours = clone(head).fit(ROWS, targets, times, FOLDS)
    other = clone(head).fit(ROWS[copies], targets[copies], None, folds)
    tight = numbers or name == "none"
    scale = np.abs(ours.predict(NEW)).max()
    np.testing.assert_allclose(other.predict(NEW), ours.predict(NEW), atol=scale * (1e-7 if tight else 0.02))
    np.testing.assert_allclose(other.held_out_, ours.held_out_[copies], atol=scale * (1e-7 if tight else 0.02))


# Ridge


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_features", [4, 90])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_ridge_is_refitting_by_hand(kernel, n_features, weight):
    rows = np.random.default_rng(0).normal(size=(60, n_features)) + ROWS[:, :1]
    head = KernelHead(kernel).fit(rows, NUMBERS, weight, FOLDS)
    w = np.ones(60) if weight is None else weight
    for seen, held in FOLDS:
        by_hand = ridge_by_hand(head, rows[seen], NUMBERS[seen], w[seen], rows[held])
        np.testing.assert_allclose(head.held_out_[held], by_hand, rtol=1e-8, atol=1e-8)
    new = rows[:5] + 0.1
    np.testing.assert_allclose(head.predict(new), ridge_by_hand(head, rows, NUMBERS, w, new), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", [gaussian, laplace])
def test_kernels_are_their_formula(kernel):
    distances = cdist(NEW, ROWS)
    wanted = np.exp(-(distances**2) / 2) if kernel is gaussian else np.exp(-distances)
    np.testing.assert_allclose(kernel(NEW, ROWS), wanted, rtol=1e-9)
    assert (np.diag(laplace(ROWS, ROWS)) == 1).all()


def test_the_width_of_a_laplace_kernel_hardly_matters():
    noisy = NUMBERS[:, 0] + np.random.default_rng(0).normal(size=60)
    head = KernelHead("laplace").fit(ROWS, noisy, WEIGHT, FOLDS)
    assert head.scale_ == WIDE * typical_distance(ROWS - head.centre_, WEIGHT, 1.0)
    wider = KernelHead("laplace").fit(ROWS, noisy, WEIGHT, FOLDS, sigma=10**0.5 * head.scale_)
    assert wider.alpha_ < head.alpha_  # 1 - |x - x'| / σ is a third as steep
    assert (wider.held_out_ - head.held_out_).std() < 0.05 * noisy.std()


def test_repeated_folds_are_averaged():
    folds = list(RepeatedKFold(n_splits=3, n_repeats=2, random_state=0).split(ROWS))
    head = KernelHead("linear").fit(ROWS, NUMBERS, WEIGHT, folds)
    total = np.zeros_like(NUMBERS)
    for seen, held in folds:
        total[held] += ridge_by_hand(head, ROWS[seen], NUMBERS[seen], WEIGHT[seen], ROWS[held]) / 2
    np.testing.assert_allclose(head.held_out_, total, rtol=1e-8, atol=1e-8)


def test_units_of_features_and_outputs_do_not_matter():
    plain = KernelHead().fit(ROWS, NUMBERS, None, FOLDS)
    other = KernelHead().fit(1e-9 * ROWS, NUMBERS * [1e6, 1e-6], None, FOLDS)
    assert other.alpha_ == plain.alpha_
    np.testing.assert_allclose(other.predict(1e-9 * NEW) / [1e6, 1e-6], plain.predict(NEW), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::distembed.basis.LowEnergyWarning")  # few functions, to be fast
def test_the_settings_are_the_best_by_held_out_errors():
    x = np.linspace(0, 1, 80)[:, None]
    folds = list(KFold(5, shuffle=True, random_state=0).split(x))
    wiggly, flat = np.sin(30 * x), 0.01 * x + np.random.default_rng(0).normal(size=(80, 1))
    assert KernelHead().fit(x, wiggly, None, folds).scale_ < KernelHead().fit(x, x, None, folds).scale_
    assert KernelHead("linear").fit(x, 2 * x, None, folds).alpha_ == ALPHAS[0]
    assert KernelHead("linear").fit(x, flat, None, folds).alpha_ >= 10


def test_typical_distance_ignores_rows_that_are_equal():
    rows = np.zeros((50, 2))
    rows[:5] = np.random.default_rng(0).normal(size=(5, 2))
    assert 0.1 < typical_distance(rows, np.ones(50), 1.0) < 3
    rounding = 1e-16 * np.random.default_rng(0).normal(size=(50, 2))
    assert typical_distance(rounding, np.ones(50), 7.0) == 7.0
    assert typical_distance(np.zeros((1, 2)), np.ones(1), 0.0) == 1.0


# Softmax regression and large margins


def test_softmax_regression_is_logistic_regression():
    centred = ROWS - ROWS.mean(axis=0)
    ours = softmax_regression(centred, CODES, WEIGHT, 3, 2.0)
    theirs = LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(centred, CODES, sample_weight=WEIGHT)
    np.testing.assert_allclose(ours.predict(centred), theirs.predict_proba(centred), atol=5e-3)
    start = softmax_regression(centred, CODES, WEIGHT, 3, 2.0, ours)
    np.testing.assert_allclose(start.predict(centred), ours.predict(centred), atol=1e-3)


def test_features_of_a_spectrum_have_the_dot_products_of_the_centred_kernel():
    for found, rank in ((spectrum(ROWS @ ROWS.T / 100, WEIGHT), 4), (thin_spectrum(ROWS / 10, WEIGHT), 4)):
        features = found.features(99)
        centred = (ROWS - np.average(ROWS, axis=0, weights=WEIGHT)) / 10
        assert features.shape == (60, rank)
        np.testing.assert_allclose(features @ features.T, centred @ centred.T, atol=1e-10)
        coef = np.random.default_rng(0).normal(size=(rank, 2))
        np.testing.assert_allclose(centred @ (centred.T @ found.dual(coef)), features @ coef, atol=1e-9)


def test_leading_eigenvectors_by_iteration():
    rows = np.random.default_rng(0).normal(size=(400, 2))
    matrix, weight = gaussian(rows, rows), np.random.default_rng(1).uniform(0.5, 2, size=400)
    full, few = spectrum(matrix, weight), spectrum(matrix, weight, leading=30)
    np.testing.assert_allclose(few.values, full.values[:30], rtol=1e-6)
    coef = np.random.default_rng(2).normal(size=(30, 1))
    images = matrix @ few.dual(coef)
    np.testing.assert_allclose(images - np.average(images, axis=0, weights=weight), few.features(30) @ coef, atol=1e-8)


def test_logistic_held_out_is_refitting_by_hand():
    head = KernelHead("linear", "logistic", 3).fit(ROWS, CODES, WEIGHT, FOLDS)
    rows = (ROWS - head.centre_) / head.scale_
    for seen, held in FOLDS:
        model = LogisticRegression(C=head.penalty_, tol=1e-8, max_iter=5000)
        model.fit(rows[seen], CODES[seen], sample_weight=WEIGHT[seen])
        np.testing.assert_allclose(head.held_out_[held], model.predict_proba(rows[held]), atol=0.01)


def test_large_margins_are_those_of_libsvm():
    rows = ROWS - ROWS.mean(axis=0)
    matrix = rows @ rows.T
    dual, intercept = large_margin(matrix, CODES, WEIGHT, 3)
    theirs = SVC(C=10, kernel="precomputed", decision_function_shape="ovo").fit(matrix, CODES, sample_weight=WEIGHT)
    d01, d02, d12 = theirs.decision_function(matrix).T
    wanted = np.column_stack([d01 + d02, d12 - d01, -d02 - d12]) / 2
    np.testing.assert_allclose(matrix @ dual + intercept, wanted, atol=0.02)


@pytest.mark.parametrize("kernel", KERNELS)
def test_held_out_scores_of_a_large_margin_are_refitting_by_hand(kernel):
    codes = (CODES == 0).astype(int)
    head = KernelHead(kernel, "svm", 2, random_state=0).fit(ROWS, codes, WEIGHT, FOLDS)
    scores = np.empty((60, 2))
    for seen, held in FOLDS:
        machine = SVC(C=10, kernel="precomputed")
        machine.fit(kernel_of(head, ROWS[seen], ROWS[seen]), codes[seen], sample_weight=WEIGHT[seen])
        decision = machine.decision_function(kernel_of(head, ROWS[held], ROWS[seen]))
        scores[held] = np.column_stack([-decision, decision])
    for seen, held in FOLDS:
        scaling = softmax_regression(scores[seen], codes[seen], WEIGHT[seen], 2, head.penalty_)
        np.testing.assert_allclose(head.held_out_[held], scaling.predict(scores[held]), atol=0.02)


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_loss_is_a_model_of_its_own(kernel):
    found = [CLASSIFIERS[f"{kernel} {loss}"] for loss in ("ridge", "logistic", "svm")]
    found = [clone(head).fit(ROWS, CODES, WEIGHT, FOLDS).held_out_ for head in found]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(found[i] - found[j]).max() > 1e-3


def test_more_rows_than_are_tried_at_once(monkeypatch):
    rows, numbers, codes, weight, folds = table(300)
    whole = KernelHead(random_state=0).fit(rows, numbers, weight, folds)
    monkeypatch.setattr(KernelHead, "sigma_rows", 100)
    monkeypatch.setattr(KernelHead, "n_eigenvectors", 40)
    part = KernelHead(random_state=0).fit(rows, numbers, weight, folds)
    np.testing.assert_allclose(part.held_out_ / numbers.std(axis=0), whole.held_out_ / numbers.std(axis=0), atol=0.3)
    for loss in ("logistic", "svm", "ridge"):
        head = KernelHead("rbf", loss, 3, random_state=0).fit(rows, codes, weight, folds)
        assert np.mean(head.held_out_.argmax(axis=1) == codes) > 0.6
        assert np.mean(head.predict(rows).argmax(axis=1) == codes) > 0.6


def test_most_classes_of_some_tens():
    codes = np.arange(80) % 20
    rows = np.random.default_rng(0).normal(size=(20, 8))[codes] + 0.2 * np.random.default_rng(1).normal(size=(80, 8))
    folds = list(StratifiedKFold(4).split(rows, codes))
    for loss in ("ridge", "logistic", "svm"):
        head = KernelHead("rbf", loss, 20, random_state=0).fit(rows, codes, None, folds)
        assert np.mean(head.held_out_.argmax(axis=1) == codes) > 0.8


# Forests


@pytest.mark.parametrize("family", [RandomForestClassifier, ExtraTreesClassifier])
def test_trees_of_classes_predict_as_scikit_learn(family):
    known = CODES * 2  # classes 1 and 3 are missing
    forest = family(30, random_state=0).fit(ROWS, known, sample_weight=WEIGHT)
    found = as_trees(forest, 5).predict(NEW)
    np.testing.assert_allclose(found[:, ::2], forest.predict_proba(NEW), rtol=1e-12, atol=1e-14)
    assert (found[:, 1::2] == 0).all()


@pytest.mark.parametrize("family", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("outputs", [1, 2])
def test_trees_of_numbers_predict_as_scikit_learn(family, outputs):
    targets = NUMBERS[:, 0] if outputs == 1 else NUMBERS
    forest = family(30, random_state=0).fit(ROWS, targets, sample_weight=WEIGHT)
    wanted = forest.predict(NEW).reshape(25, -1)
    np.testing.assert_allclose(as_trees(forest, None).predict(NEW), wanted, rtol=1e-12)


def test_rows_on_a_threshold_go_where_scikit_learn_sends_them():
    rows = np.random.default_rng(0).integers(0, 4, size=(80, 3)) / 10
    forest = RandomForestRegressor(20, random_state=0).fit(rows, rows.sum(axis=1))
    grid = np.random.default_rng(1).integers(0, 8, size=(200, 3)) / 20  # midpoints too
    np.testing.assert_allclose(as_trees(forest, None).predict(grid).ravel(), forest.predict(grid), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "family", "settings"),
    [
        ("forest", RandomForestClassifier, {"max_samples": 60}),
        ("extra", ExtraTreesClassifier, {"min_samples_leaf": 2}),
        ("forest", RandomForestRegressor, {"max_samples": 60, "min_samples_leaf": 3, "max_features": 2}),
        ("extra", ExtraTreesRegressor, {"min_samples_leaf": 2, "max_features": 2}),
    ],
)
def test_a_forest_has_the_trees_of_scikit_learn(kind, family, settings):
    n_classes, targets = (3, CODES) if "Classifier" in family.__name__ else (None, NUMBERS)
    head = ForestHead(kind, n_classes, n_trees=20, random_state=0).fit(ROWS, targets, WEIGHT, FOLDS)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    wanted = as_trees(family(20, random_state=seed, **settings).fit(ROWS, targets, WEIGHT), n_classes)
    for own, other in zip(head.trees_, wanted, strict=True):
        np.testing.assert_array_equal(own, other)


def test_forests_are_small():
    head = ForestHead(n_classes=3, n_trees=20, random_state=0).fit(ROWS, CODES, None, FOLDS)
    assert len(head.trees_.values) == 3  # pure leaves, each value once
    assert sum(each.nbytes for each in head.trees_) <= 20 * 60 * 2 * 16


# Errors


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"features": np.full((60, 2), np.nan)}, "finite"),
        ({"features": ROWS[:, :0]}, "one column"),
        ({"targets": CODES[:-1]}, "as many targets"),
        ({"targets": CODES + 1}, "codes 0 to 2"),
        ({"targets": CODES + 0.5}, "codes 0 to 2"),
        ({"weight": 0 * WEIGHT}, "leave out rows of weight 0"),
        ({"folds": FOLDS[:2]}, "is in no fold"),
        ({"folds": [(held, held) for _, held in FOLDS]}, "must be all 60 rows"),
    ],
)
@pytest.mark.parametrize("head", [KernelHead(n_classes=3), ForestHead(n_classes=3), ConstantHead(3)])
def test_what_heads_are_fitted_to(head, change, text):
    given = {"features": ROWS, "targets": CODES, "weight": WEIGHT, "folds": FOLDS}
    with pytest.raises(ValueError, match=text):
        clone(head).fit(**(given | change))


def test_errors_of_parameters_and_of_rows():
    with pytest.raises(ValueError, match="pass n_classes, or use loss='ridge'"):
        KernelHead(loss="svm").fit(ROWS, NUMBERS, None, FOLDS)
    with pytest.raises(ValueError, match="'rbf', 'laplace', 'linear'"):
        KernelHead("cubic").fit(ROWS, NUMBERS, None, FOLDS)
    with pytest.raises(ValueError, match="'forest', 'extra'"):
        ForestHead("wood").fit(ROWS, NUMBERS, None, FOLDS)
    with pytest.raises(ValueError, match="finite numbers"):
        KernelHead().fit(ROWS, np.full(60, np.inf), None, FOLDS)
    with pytest.raises(ValueError, match="at most 3,000 rows fit in memory, got 3,001; score it on a part of the bags"):
        KernelHead().fit(np.zeros((3001, 1)), np.zeros(3001), None, [])
    with pytest.raises(ValueError, match="the 4 columns of fit"):
        KernelHead().fit(ROWS, NUMBERS, None, FOLDS).predict(ROWS[:, :2])


# Fitted again


@pytest.mark.parametrize(("head", "targets"), EVERY, ids=NAMES)
def test_to_be_fitted_again_to_the_same_rows_changes_nothing(head, targets):
    ours = clone(head).fit(ROWS, targets, WEIGHT, FOLDS)
    wanted, settings = ours.predict(NEW), {name: getattr(ours, name, None) for name in ("alpha_", "penalty_", "scale_")}
    ours.refit(ROWS, targets, WEIGHT)
    found = ours.predict(NEW)
    if not isinstance(head, ForestHead):  # which draws trees of folds in between
        np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max())
    np.testing.assert_equal({name: getattr(ours, name, None) for name in settings}, settings)
    assert not hasattr(ours, "held_out_")
    with pytest.raises(ValueError, match="features must have the 4 columns"):
        ours.refit(ROWS[:, :2], targets, WEIGHT)


@pytest.mark.parametrize(("head", "targets"), EVERY, ids=NAMES)
def test_to_be_fitted_again_to_more_rows_learns_from_them(head, targets):
    few = np.arange(0, 60, 2)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(few, CODES[few]))
    ours = clone(head).fit(ROWS[few], targets[few], None, folds)
    before = ours.predict(NEW)
    ours.refit(ROWS, targets, WEIGHT)
    assert not np.array_equal(ours.predict(NEW), before)
    wanted = np.eye(3)[targets] if head.n_classes else targets
    constant = np.average(wanted, axis=0, weights=WEIGHT)
    errors = [np.average((each - wanted) ** 2, weights=WEIGHT, axis=0).sum() for each in (ours.predict(ROWS), constant)]
    assert errors[0] < 1.001 * errors[1]


@pytest.mark.parametrize(("kernel", "loss", "targets"), [
    ("rbf", "ridge", NUMBERS), ("linear", "ridge", NUMBERS), ("rbf", "ridge", CODES), ("rbf", "logistic", CODES),
    ("linear", "ridge", CODES),
])  # fmt: skip
def test_random_features_stand_for_the_kernel(kernel, loss, targets):
    n_classes = 3 if targets is CODES else None
    exact = KernelHead(kernel, loss, n_classes, random_state=0).fit(ROWS, targets, WEIGHT, FOLDS)
    wide = exact.with_random_features(2000).refit(ROWS, targets, WEIGHT)
    np.testing.assert_allclose(wide.predict(NEW), exact.predict(NEW), atol=0.05 * np.abs(targets).max())
    if wide.grows:
        batches = exact.with_random_features(2000).partial_fit(ROWS[:20], targets[:20], WEIGHT[:20])
        batches.partial_fit(ROWS[20:], targets[20:], WEIGHT[20:])
        np.testing.assert_allclose(batches.predict(NEW), wide.predict(NEW), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 10.0])
def test_held_out_ridge_by_one_inverse_is_that_of_models_fitted_by_hand(alpha):
    matrix = gaussian(ROWS / 2, ROWS / 2)
    rng = np.random.default_rng(0)
    folds = [(seen, rng.permutation(held)) for seen, held in [*FOLDS, *table(seed=1)[4]]]  # two draws
    found = held_out_at(matrix, NUMBERS, WEIGHT, folds, alpha)
    total = np.zeros_like(NUMBERS)
    for seen, held in folds:
        dual, intercept = kernel_ridge(matrix[np.ix_(seen, seen)], NUMBERS[seen], WEIGHT[seen], alpha)
        total[held] += (matrix[np.ix_(held, seen)] @ dual + intercept) / 2
    np.testing.assert_allclose(found, total, rtol=1e-6, atol=1e-8)


def test_an_alpha_below_the_digits_of_the_kernel_is_left_out():
    matrix = np.ones((60, 60)) - 1e-3 * np.eye(60)  # no kernel: rounding makes such ones
    assert held_out_at(matrix, NUMBERS, np.ones(60), FOLDS, 1e-6) is None


def test_a_search_from_where_fewer_rows_led_ends_where_a_search_from_afar_ends():
    whole = KernelHead(random_state=0).fit(ROWS, NUMBERS, WEIGHT, FOLDS)
    near = KernelHead(random_state=0).fit(ROWS, NUMBERS, WEIGHT, FOLDS, near=(whole.scale_, whole.alpha_))
    assert near.scale_ == whole.scale_
    assert near.held_out_.tobytes() == whole.held_out_.tobytes()


@pytest.mark.parametrize("kind", ["forest", "extra"])
def test_a_forest_in_two_steps_is_that_in_one(kind):
    whole = ForestHead(kind, n_trees=5, random_state=0).fit(ROWS, NUMBERS, WEIGHT, FOLDS)
    parts = ForestHead(kind, n_trees=5, random_state=0).hold_out(ROWS, NUMBERS, WEIGHT, FOLDS)
    assert not hasattr(parts, "trees_")
    assert parts.held_out_.tobytes() == whole.held_out_.tobytes()
    parts.complete(ROWS, NUMBERS, WEIGHT)
    assert parts.predict(NEW).tobytes() == whole.predict(NEW).tobytes()
