"""One form of a class at every step: fits, scores, weights, batches, sets and reports."""

import numpy as np
import pandas as pd
import pytest

import distembed as de
from distembed.learners.classes import (
    as_classes_of,
    canonical_classes,
    class_name,
    class_names,
    find_classes,
    one_class,
    refuse_strangers,
    unify_classes,
)

rng = np.random.default_rng(0)
CODES = np.tile([0, 1], 20)
BAGS = de.as_bags(rng.normal(size=(40, 15, 1)) + 3.0 * CODES[:, None, None])
FORMS = {
    "int": CODES,
    "float": CODES.astype(float),
    "negative zero": np.where(CODES == 0, -0.0, 1.0),
    "bool": CODES.astype(bool),
    "text": CODES.astype(str),
    "text of floats": CODES.astype(float).astype(str),
    "text of truths": CODES.astype(bool).astype(str),
    "nullable": pd.array(CODES, dtype="Int64"),
    "nullable bool": pd.array(CODES.astype(bool), dtype="boolean"),
    "Categorical": pd.Categorical(CODES),
    "Categorical of text": pd.Categorical(CODES.astype(str)),
    "string": pd.array(CODES.astype(str), dtype="string"),
    "objects": CODES.astype(object),
}


def learner(**more):
    return de.DistributionClassifier("mean", n_components=None, tune=None, random_state=0, **more)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", ["int", "float", "bool", "text", "Categorical of text"])
def test_a_model_scores_labels_of_any_form(known, form):
    model = learner().fit(BAGS, FORMS[known])
    assert model.score(BAGS, FORMS[form]) == 1.0


@pytest.mark.parametrize("form", ["float", "negative zero", "nullable", "Categorical", "objects"])
def test_whole_numbers_are_integers_in_a_model(form):
    classes = learner().fit(BAGS, FORMS[form]).classes_
    assert classes.tolist() == [0, 1]
    assert classes.dtype.kind == "i"


@pytest.mark.parametrize("form", FORMS)
def test_later_batches_may_have_another_form(form):
    model = learner().partial_fit(BAGS[:20], CODES[:20], classes=[0.0, 1.0])
    model.partial_fit(BAGS[20:], np.asarray(FORMS[form])[20:])
    assert model.classes_.tolist() == [0, 1]
    assert model.score(BAGS, CODES) == 1.0
    batches = [(BAGS[:20], CODES[:20]), (BAGS[20:], np.asarray(FORMS[form])[20:])]
    model = learner().fit_batches(lambda: iter(batches), classes=["0", "1"])
    assert model.score(BAGS, CODES) == 1.0


@pytest.mark.parametrize("form", ["text of floats", "bool", "Categorical of text"])
def test_refit_takes_labels_of_another_form(form):
    model = learner().fit(BAGS, CODES)
    assert model.refit(BAGS, FORMS[form]).score(BAGS, CODES) == 1.0


@pytest.mark.parametrize("keys", [(0, 1), ("0", "1.0"), (False, True), (0.0, 1.0)])
def test_class_weights_by_any_form(keys):
    model = learner(class_weight={keys[0]: 2.0, keys[1]: 5.0}).fit(BAGS, CODES)
    assert model.class_weight_.tolist() == [2.0, 5.0]


def test_sets_are_calibrated_by_labels_of_any_form():
    wanted = de.ConformalClassifier(learner().fit(BAGS, CODES), prefit=True, random_state=0).calibrate(BAGS, CODES)
    for form in ("text of floats", "bool", "nullable"):
        model = de.ConformalClassifier(learner().fit(BAGS, CODES), prefit=True, random_state=0)
        model.calibrate(BAGS, FORMS[form])
        np.testing.assert_array_equal(model.scores_, wanted.scores_)
        assert model.score(BAGS, FORMS[form]) == 1.0


def test_a_report_takes_labels_of_any_form(tmp_path):
    pytest.importorskip("jinja2")
    model = learner().fit(BAGS[:20], CODES[:20])
    for form in ("text of floats", "bool"):
        de.report.write(model, BAGS[20:], FORMS[form][20:], tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "1 ± 0.05" in text
    with pytest.raises(ValueError, match="must share classes, got 'ill', 'well' and '0', '1'"):
        de.report.write(model, BAGS, np.array(["well", "ill"])[CODES], tmp_path / "report.html")


def test_a_class_is_explained_by_any_form():
    model = learner().fit(BAGS, CODES)
    assert one_class("1.0", model.classes_) == 1
    assert find_classes(["True", "x"], model.classes_).tolist() == [-1, -1]  # "x" is there: no truth values
    assert find_classes(["True", "False"], model.classes_).tolist() == [1, 0]


def test_labels_that_share_no_class_are_refused():
    model = learner().fit(BAGS, np.array(["well", "ill"])[CODES])
    with pytest.raises(ValueError, match="y and the classes of the model must share classes, got 'a', 'b' and 'ill', "):
        model.score(BAGS, np.array(["a", "b"])[CODES])
    for spelt, what in (("ill ", "blanks"), ("Ill", "upper and lower case"), (" ill", "blanks")):
        with pytest.raises(ValueError, match=f"got {spelt!r} and 'ill', which differ in {what}"):
            model.score(BAGS, np.array(["well", spelt])[CODES])
    assert model.score(BAGS, np.array(["well", "dead"])[CODES]) == 0.5  # one that is not known is wrong, as ever


NEAR = [
    ("é", "e\u0301", "Unicode form"),
    ("01", "1", "leading zeros"),
    ("1,0", "1", "decimals"),
    ("a b", "a  b", "blanks"),
]


@pytest.mark.parametrize(("one", "other", "what"), NEAR)
def test_classes_that_differ_in_form_alone_are_refused_or_warned_of(one, other, what, tmp_path):
    y = np.array(["x", one])[CODES]
    model = learner().fit(BAGS, y)
    for take in (model.score, lambda *told: de.report.write(model, *told, tmp_path / "report.html")):
        with pytest.raises(ValueError, match=f"got {other!r} and {one!r}, which differ in {what}; rename"):
            take(BAGS, np.array(["x", other])[CODES])
    y = np.append(np.array(["x", other])[CODES[:6]], y[6:])
    with pytest.warns(UserWarning, match=f"y has the classes .*, which differ in {what} alone, and count as two"):
        assert len(learner().fit(BAGS, y).classes_) == 3


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("known", ["int", "text"])
def test_bags_without_a_class_are_not_scored(known, missing):
    model = learner().fit(BAGS, FORMS[known])
    y = np.asarray(FORMS[known]).astype(object)
    y[3] = missing
    for labels in (y, pd.Series(y), pd.Series(y).astype("Int64" if known == "int" else "string")):
        with pytest.raises(ValueError, match=r"y must be a class for every bag, got .* for bag 3"):
            model.score(BAGS, labels)
    with pytest.raises(ValueError, match="y must be a class for every bag, got nan for bag 0"):
        model.score(BAGS, np.append(np.nan, CODES[1:]))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NaT])
def test_a_report_takes_no_missing_group(missing, tmp_path):
    model = learner().fit(BAGS, CODES)
    groups = np.array([missing, *CODES[1:]], object)
    with pytest.raises(ValueError, match=r"report\.write: groups must have no missing labels, got .* for bag 0"):
        de.report.write(model, BAGS, CODES, tmp_path / "report.html", groups=groups)


def test_small_types_of_integers_are_whole_numbers():
    model = learner().fit(BAGS, CODES.astype(np.uint8))
    assert model.classes_.dtype == np.int64
    assert canonical_classes(np.array([2**63], np.uint64)).tolist() == [2**63]


def test_missing_classes_are_refused():
    for y in (np.array([None, *CODES[1:]], object), pd.array([pd.NA, *CODES[1:]], dtype="Int64"), [np.nan, *CODES[1:]]):
        with pytest.raises(ValueError, match="none missing"):
            learner().fit(BAGS, y)


def test_names():
    assert [class_name(each) for each in ("1e2", "1.50", 10**20, "-0", 0.5, "nan", "", "1_0")] == [
        "100", "1.5", str(10**20), "0", "0.5", "nan", "", "1_0",
    ]  # fmt: skip
    assert class_names([True, False]) == ["True", "False"]
    assert class_names(["true", "True"]) == ["true", "True"]
    assert canonical_classes([0.5, 1.0]).tolist() == [0.5, 1.0]
    assert canonical_classes(np.array(["a", 1], object)).tolist() == ["a", 1]


def test_texts_of_one_place_stay_apart():
    one, two = unify_classes(["1", "01", "1.0"], [1, 1])
    assert one.tolist() == ["1", "01", "1.0"]
    assert two.tolist() == ["1", "1"]
    assert find_classes(["1.0"], ["1", "1.0"]).tolist() == [1]
    refuse_strangers(["A", "a"], ["a"], "labels", "predictions")  # a class that is never predicted
    with pytest.raises(ValueError, match=r"y must be among the classes, \[0, 1\], got 'x'; correct it"):
        as_classes_of(["0", "x"], np.array([0, 1]), "y", "the classes")
