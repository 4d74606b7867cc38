"""Heads that learn from targets in another form: the link of ordered classes, curves, and the way back."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import KFold

from distembed.files import load, save
from distembed.models.forest import ForestHead
from distembed.models.kernel_head import KernelHead
from distembed.models.target_heads import CumulativeLink, Curve, OrderedHead, TransformedHead, has_curve

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(90, 3))
SIGNAL = ROWS[:, 0] + 0.3 * RNG.normal(size=90)
GRADES = np.digitize(SIGNAL, [-1, 0, 1])
FOLDS = list(KFold(5, shuffle=True, random_state=0).split(ROWS))
WEIGHT = RNG.uniform(0.3, 2, 90)


def test_the_link_maximises_the_likelihood():
    k = 4
    s, w = SIGNAL, WEIGHT / WEIGHT.mean()

    def loss(x):
        theta = np.sort(x[:-1])
        ends = np.hstack([np.zeros((len(s), 1)), expit(theta - x[-1] * s[:, None]), np.ones((len(s), 1))])
        p = np.diff(ends, axis=1)
        centre = np.diff(np.concatenate([[0], expit(theta - x[-1] * np.average(s, weights=w)), [1]]))
        return -w @ np.log(p[np.arange(len(s)), ranks]) - np.log(centre).mean()

    ranks = np.digitize(s + RNG.logistic(size=90) * 0.5, [-1, 0, 1])
    found = CumulativeLink.of(s, ranks, WEIGHT, k)
    x = minimize(loss, np.append([-1.0, 0, 1], 1), method="Nelder-Mead", options={"maxiter": 8000, "fatol": 1e-10}).x
    np.testing.assert_allclose(np.append(found.theta, found.beta), x, rtol=0.01, atol=0.01)
    shares = found.predict(s)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert np.isfinite(CumulativeLink.of(np.zeros(5), np.array([0, 0, 2, 2, 2]), np.ones(5), 3).theta).all()


@pytest.mark.parametrize("kind", ["linear", "rbf", "extra"])
def test_ordered_heads(kind, tmp_path):
    inner = ForestHead("extra", n_trees=20, random_state=0) if kind == "extra" else KernelHead(kind, random_state=0)
    order = np.array([2, 0, 3, 1])  # ranks of codes
    codes = np.argsort(order)[GRADES]
    head = OrderedHead(inner, order, 4).fit(ROWS, codes, WEIGHT, FOLDS)
    assert head.held_out_.shape == (90, 4)
    np.testing.assert_allclose(head.held_out_.sum(axis=1), 1)
    assert np.mean(head.held_out_.argmax(axis=1) == codes) > 0.55
    plain = OrderedHead(clone(inner), np.arange(4), 4).fit(ROWS, GRADES, WEIGHT, FOLDS)
    np.testing.assert_allclose(plain.predict(ROWS)[:, order], head.predict(ROWS))
    save(head, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(ROWS), head.predict(ROWS))
    again = head.for_rows(60).refit(ROWS[:60], codes[:60])
    assert again is not head
    assert np.mean(again.predict(ROWS).argmax(axis=1) == codes) > 0.55


def test_curves_go_back_and_stay_in_range():
    z = np.random.default_rng(1).normal(size=300)
    share = 1 / (1 + np.exp(-3 * z))
    for y, kind in [
        (np.exp(z), "log"),
        (np.random.default_rng(0).poisson(np.exp(z)).astype(float), "log"),
        (share, "logit"),
        (np.round(share), "logit"),
        (z**3, "asinh"),
        (z, "none"),
        (np.ones(5), "none"),
        (np.maximum(z, 0) ** 2, None),
    ]:
        curve = Curve.of(y)
        assert kind is None or curve.kind == kind
        on = curve(y)
        assert np.isfinite(on).all()
        np.testing.assert_allclose(curve.inverse(on), y, atol=1e-9, rtol=1e-9)
        assert curve.inverse(np.array([-1e3, 1e3])).tolist() == pytest.approx([y.min(), y.max()])
        assert has_curve(y[:, None]) == (curve.kind != "none")


def test_transformed_heads_predict_means_and_win_where_effects_multiply(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    y = np.stack([np.exp(1.5 * rows[:, 0] + 0.6 * rng.normal(size=200)), rows[:, 1]], axis=1)
    folds = list(KFold(5, shuffle=True, random_state=0).split(rows))
    head = TransformedHead(KernelHead("linear")).fit(rows, y, None, folds)
    plain = KernelHead("linear").fit(rows, y, None, folds)
    assert [curve.kind for curve in head.curves_] == ["log", "none"]
    np.testing.assert_allclose(head.held_out_[:, 1], plain.held_out_[:, 1], atol=0.1)
    error, other = (((each.held_out_ - y)[:, 0] ** 2).mean() for each in (head, plain))
    assert error < 0.8 * other
    assert abs(head.held_out_[:, 0].mean() / y[:, 0].mean() - 1) < 0.1  # the inverse of a mean is .8 of it
    assert head.predict(10 * rows).max() <= y.max()
    save(head, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(rows), head.predict(rows))
    again = head.for_rows(100).refit(rows[:100], y[:100])
    assert np.corrcoef(again.predict(rows)[:, 0], y[:, 0])[0, 1] > 0.7
