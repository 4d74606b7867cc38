"""Weights of candidates, and the score of their choice on bags that had no part in it."""

import numpy as np
import pytest

import distembed as de
from distembed.learners.stacking import (
    HeldOut,
    choose_weights,
    cross_fit,
    greedy_weights,
    losses,
    score_choice,
    weighted_sum,
)


def plain_greedy(held_out, rng):
    """The selection as its definition: every mean is computed, and every loss of it."""
    n_bags = len(held_out.weight)
    alone = np.stack([held_out.losses(each) for each in held_out.predicted])
    top = np.argsort(alone.mean(axis=1), kind="stable")[:20]
    worse = alone[top] - alone[top[0]]
    started = (worse.mean(axis=1) <= 2 * worse.std(axis=1) / np.sqrt(n_bags)).astype(float)
    total = np.zeros(len(alone))
    for _ in range(10):
        rows = rng.randint(n_bags, size=n_bags)
        known = held_out.predicted[top]
        best, kept, counts = np.inf, started, started
        for _ in range(10):
            means = (weighted_sum(counts, known) + known) / (counts.sum() + 1)
            tried = [held_out.losses(mean)[rows].mean() for mean in means]
            counts = counts + np.eye(len(top))[np.argmin(tried)]
            if min(tried) < best:
                best, kept = min(tried), counts
        total[top] += kept / kept.sum()
    return total / total.sum()


def candidates(n=80, n_outputs=1, seed=0, spread=(0.5, 0.7, 1.0, 3.0)):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, n_outputs))
    found = np.stack([np.zeros_like(truth), *(truth + rng.normal(0, s, size=truth.shape) for s in spread)])
    return HeldOut(found, truth, rng.uniform(0.5, 2, size=n))


def classes(n=80, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_classes, size=n)
    scores = np.stack([s * np.eye(n_classes)[codes] + rng.normal(size=(n, n_classes)) for s in (0, 1, 2, 0.5)])
    shares = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    shares[0] = 1 / n_classes
    return HeldOut(shares, codes, rng.uniform(0.5, 2, size=n), n_classes)


@pytest.mark.parametrize("held_out", [candidates(), candidates(n_outputs=2), classes(), classes(n_classes=2)])
def test_the_fast_selection_is_the_plain_one(held_out):
    fast = greedy_weights(held_out, np.random.RandomState(0))
    np.testing.assert_allclose(fast, plain_greedy(held_out, np.random.RandomState(0)), atol=1e-12)


def test_selection_prefers_what_predicts():
    weights = greedy_weights(candidates(spread=(0.5, 0.5, 3.0)), np.random.RandomState(0))
    assert weights.sum() == pytest.approx(1)
    assert min(weights[1], weights[2]) > 3 * weights[3]


def test_losses():
    np.testing.assert_allclose(
        losses(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 0]), 2), [np.log(2), np.log(1e4)]
    )
    targets = np.array([[0.0], [2.0]])
    np.testing.assert_allclose(losses(np.array([[1.0], [2.0]]), targets, None), [1.0, 0.0])


def test_weights_of_a_block_are_chosen_by_other_bags():
    held_out = candidates(n=50)
    seen = []

    def choose(some):
        seen.append(some)
        return np.eye(5)[1]

    np.testing.assert_array_equal(cross_fit(held_out, choose, 0), held_out.predicted[1])
    assert len(seen) == 5
    assert all(len(some.weight) == 40 for some in seen)
    every = np.sort(np.concatenate([some.weight for some in seen]))
    np.testing.assert_array_equal(every, np.sort(np.repeat(held_out.weight, 4)))


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_the_choice_among_candidates_that_know_nothing_is_worth_nothing(kind):
    naive, honest = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        if kind == "numbers":
            held_out = HeldOut(rng.normal(0, 0.3, size=(40, 60, 1)), rng.normal(size=(60, 1)), np.ones(60))
            held_out.predicted[0] = 0.0
        else:
            p = rng.uniform(0.2, 0.8, size=(40, 60, 1))
            p[0] = 0.5
            held_out = HeldOut(np.concatenate([p, 1 - p], axis=2), rng.integers(2, size=60), np.ones(60), 2)

        def choose(some):
            return choose_weights(some, 40, np.random.RandomState(0))

        constant = held_out.score(held_out.predicted[0]).value
        naive.append(held_out.score(weighted_sum(choose(held_out), held_out.predicted)).value - constant)
        honest.append(held_out.score(cross_fit(held_out, choose, seed)).value - constant)
    error = np.std(honest) / np.sqrt(len(honest))
    assert np.mean(naive) > 0.01
    assert np.mean(honest) < 2 * error  # it can't be better than the constant


def test_errors_are_over_groups():
    rng = np.random.default_rng(0)
    held_out = candidates(n=30)
    held_out = HeldOut(held_out.predicted, held_out.targets, np.ones(30))
    four = np.repeat(np.arange(30), 4)
    copies = HeldOut(held_out.predicted[:, four], held_out.targets[four], np.ones(120))
    grouped = HeldOut(copies.predicted, copies.targets, copies.weight, groups=rng.permutation(30)[four])
    predicted = held_out.predicted[2]
    wanted = held_out.score(predicted)
    assert copies.score(predicted[four]).standard_error < 0.6 * wanted.standard_error
    found = grouped.score(predicted[four])
    assert found.value == pytest.approx(wanted.value)
    assert found.standard_error == pytest.approx(wanted.standard_error)
    gain = rng.normal(size=30)
    assert grouped.standard_error(gain[four]) == pytest.approx(held_out.standard_error(gain))


def test_the_leaderboard_of_a_fit_has_errors_over_groups():
    """Bags of a group are copies of one another: thirty groups are thirty observations, not a hundred and twenty."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 2, size=30)
    points = rng.normal(0, spread[:, None, None], size=(30, 20, 1))
    y = spread + rng.normal(0, 0.3, size=30)
    four = np.repeat(np.arange(30), 4)
    learner = de.DistributionRegressor(["deviation", "mean"], random_state=0)
    once = learner.fit(points, y).leaderboard_.ensemble
    often = learner.fit(points[four], y[four], groups=four).leaderboard_.ensemble
    assert often["standard_error"] == pytest.approx(once["standard_error"], rel=0.5)
    assert learner.fit(points[four], y[four]).leaderboard_.ensemble["standard_error"] < 0.5 * once["standard_error"]


def test_r2_where_nothing_is_explained_has_a_small_error():
    """A ratio: a bag far from the mean raises both parts of it."""
    rng = np.random.default_rng(0)
    held_out = HeldOut(np.zeros((1, 200, 1)), rng.standard_t(3, size=(200, 1)), np.ones(200))
    found = held_out.score(np.full((200, 1), held_out.targets.mean()))
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.standard_error < 0.02


def test_the_score_of_a_choice_pays_for_weights_settings_and_class_shares():
    numbers = candidates()
    chosen, other = numbers.predicted[1], numbers.predicted[3]
    better, worse = numbers.score(chosen).value, numbers.score(other).value
    assert score_choice(numbers, chosen, other).value == pytest.approx(worse - (better - worse))
    assert score_choice(numbers, other, chosen).value == pytest.approx(better)  # luck is not added
    shares = classes()
    found = score_choice(shares, shares.predicted[2], shares.predicted[2])
    assert found.value == pytest.approx(shares.score(shares.predicted[2]).value - 2 / 80)


@pytest.mark.parametrize("learner", [de.DistributionRegressor("deviation"), de.DistributionRegressor()])
def test_the_ensemble_of_noise_is_not_better_than_a_constant(learner):
    rng = np.random.default_rng(0)
    bags, noise = rng.normal(size=(40, 10, 1)), rng.normal(size=40)
    with pytest.warns(UserWarning, match="better than by a constant"):
        board = learner.set_params(random_state=0).fit(bags, noise).leaderboard_
    assert board.ensemble["score"] < 0.05
    assert board.ensemble["score"] <= board[0]["score"]
