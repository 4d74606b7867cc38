"""Words for comparisons: intervals, the margin, Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from reproduce import claims
from reproduce.claims import Difference, holm, judge, over_bags, over_repetitions, word


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.3, -0.2, "better"),
        (0.2, 0.3, "worse"),
        (-0.5, 2.7, "undecided"),  # not told apart, which does not make them equal
        (-0.09, 0.09, "equal within the margin"),
        (0.02, 0.09, "equal within the margin"),  # there is a difference, and it does not matter
        (0.02, 0.2, "worse"),
        (-0.1, 0.05, "undecided"),  # as far as the margin is too far
        (np.nan, np.nan, "undecided"),
    ],
)
def test_the_word_of_an_interval(low, high, expected):
    assert word(low, high, 0.1) == expected
    other = {"better": "worse", "worse": "better"}.get(expected, expected)
    assert word(low, high, 0.1, more_is_better=True) == other


def test_holm_by_hand():
    # Five claims at 5 %: limits are .01, .0125, .01667, .025, .05 in the order of p.
    # .001 and .012 pass, .02 is above .01667, so all from there on fail, though .021 is below .025.
    levels = holm([0.021, 0.001, 0.9, 0.012, 0.02])
    assert levels == pytest.approx([0.05 / 3, 0.01, 0.05 / 3, 0.0125, 0.05 / 3])
    assert holm([]) == []
    assert holm([0.2]) == [0.05]


def test_holm_is_as_strict_as_bonferroni_at_first_and_milder_later():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.uniform(size=6) ** 4
        levels = np.array(holm(p))
        assert levels.min() == pytest.approx(0.05 / 6)
        # By adjusted p values, the usual way to write it.
        order = np.argsort(p)
        adjusted = np.empty(6)
        adjusted[order] = np.maximum.accumulate(p[order] * (6 - np.arange(6)))
        np.testing.assert_array_equal(p <= levels, adjusted <= 0.05)


def test_intervals_and_p_values_say_the_same():
    for difference in (Difference(0.3, 0.1, 4), Difference(-0.02, 0.01, 30), Difference(0.0, 1.0, 2)):
        level = difference.chance_of_none()
        low, high = difference.interval(level)
        assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)
        margin = 0.5
        level = difference.chance_of_more(margin)
        assert max(np.abs(difference.interval(level))) == pytest.approx(margin)
    assert Difference(0.3, 0.1, 4).chance_of_more(0.2) == 1.0
    assert (Difference(0.0, 0.0, 4).chance_of_none(), Difference(0.1, 0.0, 4).chance_of_none()) == (1.0, 0.0)
    assert Difference(0.1).told(2) == "+0.10"


def test_words_come_after_the_correction():
    t = stats.t.ppf(1 - 0.02 / 2, 9)  # p = .02
    clear, faint = Difference(-1.0, 0.01, 9), Difference(-0.1 * t, 0.1, 9)
    assert judge({"faint": faint}, 0.01) == {"faint": "better"}
    noise = {f"noise {i}": Difference(0.1, 1.0, 9) for i in range(3)}
    assert judge({"clear": clear, "faint": faint, **noise}, 0.01) == {
        "clear": "better", "faint": "undecided", **dict.fromkeys(noise, "undecided"),
    }  # fmt: skip
    # Claims that methods are equal are a family of their own: .02 is clear beside one that differs clearly.
    same = Difference(0.0, 0.1, 9)
    assert judge({"same": same, "clear": clear}, 1.0, more_is_better=True)["same"] == "equal within the margin"
    # A single repetition is no claim, and does not count.
    assert judge({"faint": faint, "alone": Difference(-5.0)}, 0.01) == {"faint": "better", "alone": "undecided"}
    assert judge({}, 0.1) == {}


def test_false_claims_are_as_rare_as_promised():
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(400):
        found = judge({i: over_repetitions(rng.normal(size=6)) for i in range(8)}, 0.1)
        false += any(each in ("better", "worse") for each in found.values())
    assert false / 400 < 0.08


def test_intervals_over_repetitions():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        low, high = over_repetitions(rng.normal(0.3, 1.0, size=5)).interval()
        covered += low <= 0.3 <= high
    assert 0.92 <= covered / 400 <= 0.98
    x = np.array([0.1, 0.4, 0.3, 0.2])
    found = over_repetitions(x, overlap=2.0)
    assert found.mean == pytest.approx(0.25)
    assert found.error == pytest.approx(x.std(ddof=1) * np.sqrt(1 / 4 + 2))
    assert np.isnan(over_repetitions(x[:1], 2.0).interval()).all()


def test_intervals_over_bags():
    rng = np.random.default_rng(0)
    wrong = (rng.uniform(size=(2, 500)) < np.array([[0.3], [0.4]])).astype(float)
    found = over_bags(*wrong)
    low, high = found.interval()
    assert found.mean == pytest.approx(wrong[0].mean() - wrong[1].mean())
    assert low < found.mean < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt((0.21 + 0.24) / 500), rel=0.05)
    covered = 0
    for _ in range(400):
        losses = (rng.uniform(size=(2, 20)) < np.array([[0.1], [0.1]])).astype(float)
        low, high = over_bags(*losses).interval()
        covered += low <= 0 <= high
    assert covered / 400 >= 0.95
    # Ten bags on which two methods agree do not make them equal.
    same = np.zeros(10)
    assert judge({"same": over_bags(same, same)}, 0.02) == {"same": "undecided"}


def test_every_claim_has_a_judgement_for_every_word():
    words = {claims.BETTER, claims.WORSE, claims.EQUAL, claims.UNDECIDED}
    for judgements in claims.CONFIRMED.values():
        assert set(judgements) == words
        assert judgements[claims.UNDECIDED] == claims.UNDECIDED


def test_the_rule_names_count_margin_and_alpha():
    told = claims.rule(12, "one point")
    assert "over the 12 comparisons on this page" in told
    assert "The margin is one point." in told
    assert "5 %/12, the next at 5 %/11" in told
