"""Reports: which bags count, what is said of them, and that nothing from the table becomes HTML."""

from __future__ import annotations

import builtins
import json
import re
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import run

import distembed as de
from distembed.bags.ids import hash_ids, insert_sorted
from distembed.learners import scores
from distembed.report import sections
from distembed.report.payload import SIGNS, densities
from distembed.report.predictions import effects, predict, trained_on

EVIL = '<script>alert("&")</script>'


class Page(HTMLParser):
    """Tags, attributes and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.links, self._in = [], [], [], ""
        self.text = text
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "srcset")]
        self._in = tag

    def handle_data(self, data):
        if self._in not in ("script", "style"):
            self.words.append(data)

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())

    @property
    def payload(self):
        return json.loads(re.search(r'id="payload">(.*?)</script>', self.text, re.DOTALL)[1])


def cells(n_bags=60, **parts):
    bags, y = de.datasets.make_cells(n_bags, random_state=0)
    return (bags.replace(**parts) if parts else bags), y


def fitted(bags, y, embedding="mean", kind=de.DistributionRegressor, **more):
    return kind(embedding, n_components=50, tune=None, random_state=0, **more).fit(bags, y)


def page_of(tmp_path, model, bags, y, **more):
    path = tmp_path / "report.html"
    de.report.write(model, bags, y, path, **more)
    return Page(path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------- which bags count
def test_training_bags_are_known_after_a_file(tmp_path):
    bags, y = cells()
    de.save(fitted(bags[:40], y[:40]), tmp_path / "m")
    model = de.load(tmp_path / "m")
    known, how = trained_on(model, bags)
    assert known.tolist() == [True] * 40 + [False] * 20
    assert "40 of these bags" in how
    page = page_of(tmp_path, model, bags, y)
    assert page.payload["seen"] == [1] * 40 + [0] * 20
    assert "20 held-out bags" in page.said
    assert how in page.said
    alone = page_of(tmp_path, model, bags[40:], y[40:])
    own = re.search(r"this model ([-0-9.]+)", page.said)[1]
    assert re.search(r"this model ([-0-9.]+)", alone.said)[1] == own
    worst = re.search(r"gets most wrong(.*?)Which methods", page.said)[1]
    assert not any(f"patient-{i:04d} " in worst for i in range(1, 41))


def test_refits_and_batches_add_bags():
    bags, y = cells()
    model = fitted(bags[:40], y[:40]).refit(bags[20:], y[20:])
    assert trained_on(model, bags)[0].all()
    again = fitted(bags[:40], y[:40])
    assert trained_on(again.fit(bags[40:], y[40:]), bags)[0].tolist() == [False] * 40 + [True] * 20
    batches = de.DistributionRegressor("mean", n_components=50, tune=None, random_state=0)
    batches.fit_batches(lambda: iter([(bags[:30], y[:30]), (bags[30:50], y[30:50])]))
    assert trained_on(batches, bags)[0].tolist() == [True] * 50 + [False] * 10


def hash_each(ids, salt=0):
    return hash_ids(ids, salt)


def test_hashes_do_not_depend_on_how_ids_are_kept():
    texts = np.array(["7", "12", "300", "é"])
    assert hash_each(texts).tolist() == hash_each(np.array(["7", "12", "300", "é"], "U40")).tolist()
    numbers = [
        np.array([7, 12, 300]),
        np.array([7.0, 12.0, 300.0]),
        [7, 12.0, "300"],
        np.array([7, 12, 300], np.uint16),
    ]
    for same in numbers:
        assert hash_each(same).tolist() == hash_each(texts[:3]).tolist()
    days = np.array(["2013-01-01", "2013-01-02"], "M8[D]")
    for same in (days.astype(str), days.astype("M8[ns]"), pd.DatetimeIndex(days), days.astype(object).tolist()):
        assert hash_each(same).tolist() == hash_each(days).tolist()
    many = np.arange(20_000)
    assert len(np.unique(hash_each(many))) >= 19_999
    by_parts = np.empty(0, np.uint32)
    for part in np.array_split(np.random.default_rng(0).permutation(many), 7):
        by_parts = insert_sorted(by_parts, hash_each(part))
    np.testing.assert_array_equal(by_parts, np.unique(hash_each(many)))
    np.testing.assert_array_equal(insert_sorted(by_parts, hash_each(many[5:9])), by_parts)


@pytest.mark.parametrize("kind", ["text dates", "timestamps", "integers", "floats", "text numbers"])
def test_training_bags_are_recognised_in_any_form_of_their_ids(kind):
    bags, y = cells()
    days = np.datetime64("2013-01-01") + np.arange(60)
    forms = {
        "text dates": days.astype(str), "timestamps": days.astype("M8[ns]"), "integers": np.arange(60),
        "floats": np.arange(60.0), "text numbers": np.arange(60).astype(str),
    }  # fmt: skip
    for other in ("text dates", "timestamps") if kind in ("text dates", "timestamps") else ("integers", "floats"):
        first, again = (de.Bags(bags.points, bags.offsets, ids=forms[each]) for each in (kind, other))
        assert trained_on(fitted(first[:40], y[:40]), again)[0].tolist() == [True] * 40 + [False] * 20


def test_hashes_are_salted_by_each_model_and_the_same_fit_has_the_same_salt():
    bags, y = cells()
    one, again, other = fitted(bags, y), fitted(bags, y), fitted(bags, -y)
    assert one.trained_salt_ == again.trained_salt_ != other.trained_salt_
    assert one.trained_on_.tolist() == again.trained_on_.tolist()
    assert not np.isin(one.trained_on_, other.trained_on_).any()
    assert not np.isin(one.trained_on_, hash_each(bags.ids)).any()
    assert trained_on(other, bags)[0].all()


MANY = np.random.default_rng(0).permutation(300)
IDS = {
    "ints": MANY * 10**9 - 7,
    "floats": np.exp(MANY / 5 - 40),
    "singles": (MANY / 7).astype(np.float32),
    "text": np.array(["é" * (i % 9) + str(i) for i in MANY]),
    "bytes": np.array([b"%d" % i for i in MANY]),
    "days": np.datetime64("1999-12-31") + MANY,
    "moments": np.datetime64("1999-12-31T23:59:59.999999999") + MANY * 10**12,
    "objects": np.array([(int(i), i + 0.1, f"p{i}", b"q%d" % i)[k % 4] for k, i in enumerate(MANY)], object),
}


def one_point_bags(ids):
    return de.Bags(np.zeros((len(ids), 1)), np.arange(len(ids) + 1), ids=ids)


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_the_hash_of_an_id_does_not_depend_on_the_others(ids):
    found = hash_each(ids)
    assert found.dtype == np.uint32
    assert found.tolist() == [int(hash_each(np.array([each]))[0]) for each in ids]
    np.testing.assert_array_equal(hash_each(ids[::-2]), found[::-2])


def test_hashes_stay_as_they_are_in_models_on_file():
    assert hash_each(np.array(["A370", "7", ""])).tolist() == [778422444, 1384083387, 1339080641]
    assert hash_each(np.array([7, -12])).tolist() == [1384083387, 3634975250]
    assert hash_each(np.array([0.1, 1e22])).tolist() == [1364316184, 3548699449]
    assert hash_each(np.array(["2020-02-29"], "M8[D]")).tolist() == [926271428]
    assert hash_each(np.array([b"A370", 7], object)).tolist() == [778422444, 1384083387]


def test_ids_of_any_kind_have_hashes():
    pairs = np.fromiter([(1, "a"), (1, "b"), ("a", 1)], object)
    assert hash_each(pairs).tolist() == hash_each(np.array(["1/a", "1/b", "a/1"])).tolist()
    assert hash_each(np.array(["È".encode(), b"a"])).tolist() == hash_each(np.array(["È", "a"])).tolist()
    texts = np.array(["7", "300", "é"])
    for order in "<>":
        assert hash_each(texts.astype(f"{order}U5")).tolist() == hash_each(texts).tolist()


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_training_bags_are_recognised_as_one_at_a_time(ids):
    bags = one_point_bags(ids)
    model = SimpleNamespace(trained_on_=np.unique(hash_each(ids[::3], 5)), trained_salt_=5)
    found, how = trained_on(model, bags)
    assert found.tolist() == [bool(np.isin(hash_each(np.array([each]), 5), model.trained_on_)[0]) for each in bags.ids]
    assert found.tolist() == [k % 3 == 0 for k in range(300)]
    assert "100 of these bags" in how


@pytest.mark.parametrize("kind", ["tuples", "bytes", "other order of bytes"])
def test_bags_with_unusual_ids_are_recognised_after_fit(kind):
    bags, y = cells()
    ids = {
        "tuples": [("patient", i) for i in range(60)],
        "bytes": [bytes([150 + i]) for i in range(60)],
        "other order of bytes": bags.ids.astype(bags.ids.dtype.newbyteorder()),
    }[kind]
    bags = de.Bags(bags.points, bags.offsets, ids=ids)
    assert trained_on(fitted(bags[:40], y[:40]), bags)[0].tolist() == [True] * 40 + [False] * 20


def test_the_calls_that_recognise_bags_do_not_grow_with_them():
    def n_calls(n_bags):
        bags, counted = one_point_bags(np.array([str(10_000 + i) for i in range(n_bags)])), []
        model = SimpleNamespace(trained_on_=np.unique(hash_each(bags.ids[: n_bags // 2])), trained_salt_=0)
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, arg: counted.append(event) if event in ("call", "c_call") else None)
        try:
            found, _ = trained_on(model, bags)
        finally:
            sys.setprofile(before)
        assert found.sum() == n_bags // 2
        return len(counted)

    n_calls(100)  # what is only done the first time
    assert n_calls(2000) == n_calls(100)


def test_where_no_bag_is_left_nothing_is_judged(tmp_path):
    bags, y = cells()
    page = page_of(tmp_path, fitted(bags, y), bags, y)
    assert "used for training (checked by id), so none is left to score the model on" in page.said
    assert "this model" not in re.search(r"How well it predicts(.*?)Which methods|$", page.said)[0]


def test_bags_and_models_without_ids_are_said_to_be_unknown(tmp_path):
    bags, y = cells()
    model = fitted(bags.replace(ids=None), y)
    assert not len(model.trained_on_)
    assert "does not know the ids" in page_of(tmp_path, model, bags, y).said
    assert "These bags have no ids" in page_of(tmp_path, fitted(bags, y), bags.replace(ids=None), y).said
    assert "There are no labels" in page_of(tmp_path, model, bags, None).said


def test_held_out_predictions_count_in_place_of_the_models(tmp_path):
    bags, y = cells()
    rows = np.arange(60) >= 40
    given = {"rows": rows, "predicted": y[rows] + 100.0, "probabilities": None, "how": "Twenty were kept out."}
    page = page_of(tmp_path, fitted(bags, y), bags, y, held_out=given)
    assert "Twenty were kept out." in page.said
    assert re.search(r"RMSE MAE R² this model 100 ± \S+ 100 ± \S+ -\d", page.said)


# -------------------------------------------------------------------------------------------------------- the page
def test_nothing_from_the_table_becomes_html(tmp_path):
    bags, y = cells(columns=(EVIL, "</script><img src=x onerror=alert(2)>"))
    ids = np.array([f"{EVIL}{i}" for i in range(60)])
    classes = np.where(y > np.median(y), EVIL, "</title>")
    bags = bags.replace(ids=ids)
    model = fitted(bags[:40], classes[:40], "js", de.DistributionClassifier)
    model.table_ = {"label": "<i>label</i>"}
    groups = np.repeat([EVIL, "<u>"], 30)
    page = page_of(tmp_path, model, bags, classes, groups=groups, run={EVIL: EVIL})
    assert [tag for tag, _ in page.tags].count("script") == 2  # the data, and ours
    assert not {"img", "b", "i", "u"} & {tag for tag, _ in page.tags} - {"b"}
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert page.payload["ids"][3] == ids[3]
    assert page.payload["columns"][0]["name"] in bags.columns
    assert EVIL in page.said


def test_the_page_needs_no_network(tmp_path):
    bags, y = cells()
    page = page_of(tmp_path, fitted(bags[:40], y[:40]), bags, y)
    assert page.links == ["data:,"]
    (policy,) = (attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)", page.text)
    pictures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert pictures
    assert all(each["aria-label"] for each in pictures)


def test_sections_of_an_ensemble_and_of_one_embedding(tmp_path):
    bags, y = cells()
    auto = de.DistributionRegressor(random_state=0).fit(bags[:40], y[:40])
    page = page_of(tmp_path, auto, bags, y, name="severity")
    assert auto.leaderboard_[0]["name"] in page.said
    assert "error budget" not in page.said
    one = de.DistributionRegressor("js", n_components=50, random_state=0).fit(bags[:40], y[:40])
    page = page_of(tmp_path, one, bags, y, name="severity")
    assert "Settings of one HDDEmbedding" in page.said
    assert "features of HDDEmbedding" in page.said
    assert "Squares add up" in page.said
    assert len([tag for tag, attrs in page.tags if tag == "circle" and "q" in attrs.get("class", "")]) == 60


def test_intervals_classes_and_covariates(tmp_path):
    bags, y = cells(120)
    ends = de.ConformalRegressor(fitted(bags[:60], y[:60]), coverage=0.8, prefit=True).calibrate(bags[60:90], y[60:90])
    assert re.search(
        r"\d % of the intervals hold the truth|% ± \S+ of the intervals", page_of(tmp_path, ends, bags, y).said
    )
    classes = np.where(y > np.median(y), "high", "low")
    sets = fitted(bags[:60], classes[:60], "mean", de.DistributionClassifier)
    sets = de.ConformalClassifier(sets, coverage=0.8, prefit=True, random_state=0).calibrate(
        bags[60:90], classes[60:90]
    )
    page = page_of(tmp_path, sets, bags, classes)
    assert "of the sets of classes hold the truth" in page.said
    assert "Reliability" in page.said
    ages = {"age": y + np.linspace(0, 0.1, 120)}
    with_age = de.DistributionRegressor("mean", random_state=0).fit(
        bags[:60], y[:60], covariates={"age": ages["age"][:60]}
    )
    assert "60 held-out bags" in page_of(tmp_path, with_age, bags, y, covariates=ages).said


def test_groups_that_do_worse_are_named(tmp_path):
    bags, y = cells(120)
    model = fitted(bags[:60], y[:60])
    rows, rng = np.arange(120) >= 60, np.random.default_rng(0)
    hospital = np.where(np.arange(120) % 3 == 0, "north", "south")
    noise = rng.normal(0, np.where(hospital == "north", 9.0, 0.1))
    given = {"rows": rows, "predicted": (y + noise)[rows], "how": ""}
    page = page_of(tmp_path, model, bags, y, groups=hospital, held_out=given)
    assert re.search(r"group north 20 \S+ \S+ \S+ ± \S+ worse", page.said)


@pytest.mark.parametrize("n_new", [8, 16])  # thirds of sixteen bags are smaller than a group that is compared
def test_groups_of_few_bags_are_not_compared(tmp_path, n_new):
    bags, y = cells()
    page = page_of(tmp_path, fitted(bags[n_new:], y[n_new:]), bags, y)
    assert "Groups that do worse" not in page.said


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    bags, y = cells()
    model = fitted(bags, y)
    with pytest.raises(ValueError, match=r"report.write\(y=...\): must be of shape \(60,\), got \(3,\)"):
        de.report.write(model, bags, y[:3], tmp_path / "r.html")
    with pytest.raises(
        ValueError, match=r"report.write\(output=...\): must be from 0 to 1 for a model of 2 outputs, got None"
    ):
        de.report.write(fitted(bags, np.stack([y, y], axis=1)), bags, None, tmp_path / "r.html")
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"distembed.report needs jinja2: pip install 'distembed\[report\]'"):
        de.report.write(model, bags, y, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_ten_thousand_bags_are_below_five_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.normal(size=10_000)
    points = rng.normal(y[:, None, None], 1.0, size=(10_000, 10, 3)).reshape(-1, 3)
    ids = [f"patient-{i:06d}" for i in range(10_000)]
    bags = de.Bags(points, np.arange(0, 100_001, 10), ids=ids)
    model = fitted(bags[:500], y[:500])
    de.report.write(model, bags, y, tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < 5_000_000
    de.report.write(model, bags[:2500], y[:2500], tmp_path / "small.html")
    assert (tmp_path / "small.html").stat().st_size < 2_000_000


# ---------------------------------------------------------------------------------------------------------- numbers
def test_scores_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    truth = rng.normal(size=50)
    found = scores.of_numbers(truth, truth + rng.normal(size=50))
    assert found["r2"].standard_error > 0
    made = truth + 0.5
    np.testing.assert_allclose(scores.of_numbers(truth, made)["r2"].value, metrics.r2_score(truth, made))
    classes = np.array(["a", "b", "c"])
    y, p = rng.choice(classes, size=40, p=[0.6, 0.3, 0.1]), rng.dirichlet(np.ones(3), size=40)
    said = classes[p.argmax(axis=1)]
    found = scores.of_classes(y, said, classes, p)
    np.testing.assert_allclose(found["balanced_accuracy"].value, metrics.balanced_accuracy_score(y, said))
    np.testing.assert_allclose(found["log_loss"].value, metrics.log_loss(y, p, labels=classes))


def test_baselines_are_predicted_without_their_own_labels():
    bags, y = cells()
    bags = bags.replace(points=bags.points + np.repeat(y, bags.sizes)[:, None])
    apart = sections.baseline_predictions(bags[:40], y[:40], bags[40:], False)
    assert scores.of_numbers(y[40:], apart["means, linear"])["r2"].value > 0.5
    together = sections.baseline_predictions(bags, y, bags, False)
    assert scores.of_numbers(y, together["constant"])["r2"].value <= 0


def test_effects_find_the_column_that_matters():
    rng = np.random.default_rng(0)
    y = rng.normal(size=80)
    points = np.stack([rng.normal(size=(80, 30)), rng.normal(y[:, None], 1.0, size=(80, 30))], axis=-1)
    bags = de.Bags.from_arrays(list(points), columns=["noise", "signal"])
    model = fitted(bags, y)
    found = effects(model, bags, predict(model, bags))
    assert found.columns == ["signal", "noise"]
    high = y > 1
    assert found.changes[high, 0].mean() > 0.3 > found.changes[y < -1, 0].mean()
    assert found.explained
    why = model.explain(bags[found.rows])
    np.testing.assert_allclose(found.changes[:, ::-1], why.contributions, atol=1e-9)


def test_explanations_of_bags_are_in_the_page(tmp_path):
    bags, y = cells()
    classes = np.where(y > np.median(y), "high", "low")
    for targets, kind in ((y, de.DistributionRegressor), (classes, de.DistributionClassifier)):
        model = fitted(bags, targets, "js", kind)
        maps = page_of(tmp_path, model, bags, targets).payload["maps"]
        assert sorted(map(int, maps)) == list(range(60))
        assert all(len(signs) == 28 and most > 0 for each in maps.values() for signs, most in each)
    found = model.explain(bags[:1], output=model.predict(bags[:1])[0])
    column = page_of(tmp_path, model, bags, classes).payload["columns"][0]
    j = bags.columns.index(column["name"])
    others = tuple(k for k in range(2) if k != j)
    curve = (found.map[0] * found.density[0]).sum(axis=others) / np.maximum(found.density[0].sum(axis=others), 1e-300)
    signs, most = maps["0"][0]
    low, high = float(column["low"]), float(column["high"])
    places = low + (np.arange(28) + 0.5) / 28 * (high - low)
    values = np.array([np.nan if sign == " " else (SIGNS.index(sign) / 31.5 - 1) * most for sign in signs])
    wanted = np.interp(places, found.nodes[j], curve)
    np.testing.assert_allclose(values[np.isfinite(values)], wanted[np.isfinite(values)], atol=0.05 * most)
    assert page_of(tmp_path, fitted(bags, y), bags, y).payload["maps"] == {}


def test_leaks_of_sizes_and_densities_of_bags():
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 200, 60)
    bags = de.Bags.from_arrays([rng.normal(size=(n, 1)) for n in sizes])
    assert sections.size_leak(bags, np.log(sizes) + 0.01) > 0.99
    assert sections.size_leak(bags, np.where(sizes > 100, "large", "small")) > 0.5
    assert sections.size_leak(bags, rng.normal(size=60)) < 0.2
    texts, about = densities(bags, [0])
    assert len(texts) == 60
    assert all(len(each[0]) == 28 and "/" in each[0] for each in texts)
    assert len(about[0]["all"]) == 28


# --------------------------------------------------------------------------------------------------- the command line
@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("report")
    bags, y = cells(60)
    bags.replace(columns=("a", "b")).to_frame("pandas", "patient").to_csv(where / "points.csv", index=False)
    lines = [
        f"{bag},{value:.6f},{'n' if i % 2 else 's'}" for i, (bag, value) in enumerate(zip(bags.ids, y, strict=True))
    ]
    (where / "labels.csv").write_text("patient,severity,hospital\n" + "\n".join(lines) + "\n")
    words = ("fit", where / "points.csv", "--bag", "patient", "--labels", where / "labels.csv", "--label", "severity")
    words += ("--embedding", "js", "--components", 50, "--tune", "none", "-o", where / "m.distembed")
    run(*words, "--report", where / "fit.html", "--test", 0.2)
    return where


def test_fit_reports_the_bags_that_it_kept_out(folder):
    page = Page((folder / "fit.html").read_text(encoding="utf-8"))
    assert "12 bags were kept out of the fit" in page.said
    assert sum(page.payload["seen"]) == 48
    assert "severity: 60 bags" in page.said
    assert "12 held-out bags" in page.said


def test_the_command_recognises_training_bags(folder, tmp_path):
    words = ("report", folder / "m.distembed", folder / "points.csv", "--labels", folder / "labels.csv")
    found = json.loads(run(*words, "--groups", "hospital", "-o", tmp_path / "r.html", "--json").stdout)
    assert found == {"command": "report", "output": str(tmp_path / "r.html"), "n_bags": 60, "label": "severity"}
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "All of these bags were used for training" in page.said
    run("report", folder / "m.distembed", folder / "points.csv", "-o", tmp_path / "plain.html")
    assert "There are no labels" in Page((tmp_path / "plain.html").read_text(encoding="utf-8")).said
