"""How far long work is: bars on standard error, and functions of the caller."""

import io
import re
import threading

import numpy as np
import pytest

from distembed.compute.progress import Calls, Line, Log, progress_of, stages_of
from distembed.divergences import knn, knn_many


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self):
        return self.now


def test_a_function_hears_of_every_pair_once_whatever_the_threads():
    bags = np.random.default_rng(0).normal(size=(12, 30, 2))
    for n_jobs in (1, 2):
        heard = []
        knn(bags, bags[:5], n_jobs=n_jobs, progress=lambda done, total, heard=heard: heard.append((done, total)))
        done, totals = zip(*heard, strict=True)
        assert set(totals) == {60}
        assert list(done) == sorted(set(done))
        assert done[-1] == 60


def test_the_result_is_the_same_with_and_without():
    bags = np.random.default_rng(0).normal(size=(6, 30, 2))
    plain, told = knn_many(bags, ks=[2, 4]), knn_many(bags, ks=[2, 4], progress=lambda done, total: None)
    for key, matrix in plain.items():
        np.testing.assert_array_equal(told[key], matrix)


def test_what_the_function_raises_ends_the_work():
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        knn(np.random.default_rng(0).normal(size=(6, 30, 2)), progress=stop)


def test_short_work_shows_nothing(capsys):
    knn(np.random.default_rng(0).normal(size=(3, 10, 2)), progress=True)
    assert capsys.readouterr() == ("", "")


def test_a_bar_appears_after_a_second_and_its_last_state_stays():
    terminal, clock = Terminal(), Clock()
    with Line("pairs", terminal, clock=clock) as line, progress_of(40, line, "pairs", "knn") as advance:
        clock.now = 0.5
        advance(10)
        assert terminal.getvalue() == ""
        clock.now = 2.0
        advance(10)
        assert terminal.getvalue() == "\r[###############               ]  50 %  20 of 40 pairs, 10 a second, 0:02 left"
        clock.now = 4.0
        advance(20)
    last = terminal.getvalue().rsplit("\r", 1)[1]
    assert last.rstrip() == "[##############################] 100 %  40 of 40 pairs, 10 a second"
    assert last.endswith("\n")


def test_a_file_gets_one_line():
    file, clock = io.StringIO(), Clock()
    with Line("pairs", file, clock=clock) as line, progress_of(4, line, "pairs", "knn") as advance:
        for clock.now in (1.0, 2.0, 3.0, 4.0):
            advance(1)
    assert file.getvalue() == "[##############################] 100 %  4 of 4 pairs, 1.0 a second\n"


def test_bars_are_on_standard_error(capsys):
    with stages_of(True, "fit", "bags") as stages:
        assert isinstance(stages, Line)
        assert stages.unit == "bags"
    with Line("bags", patience=0.0) as line:
        line.begin("learning", 3)
        line.advance(3)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"\[#{30}\] 100 %  3 of 3 bags, [\d,]+ a second\n", err)
    with stages_of(print, "fit") as stages:
        assert isinstance(stages, Calls)


def test_after_an_error_the_bar_ends_with_its_line():
    terminal, clock = Terminal(), Clock()

    def fail():
        with Line("pairs", terminal, clock=clock) as line, progress_of(4, line, "pairs", "knn") as advance:
            clock.now = 2.0
            advance(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert terminal.getvalue().endswith("\n")


class Diary(list):
    """What an object hears that is told of stages."""

    def begin(self, stage, total):
        self.append([stage, total, 0])

    def advance(self, more):
        self[-1][2] += more


def test_an_object_hears_of_stages():
    diary = Diary()
    knn(np.random.default_rng(0).normal(size=(6, 30, 2)), progress=diary)
    assert diary == [["pairs of bags", 36, 36]]


def test_every_stage_that_counts_has_its_bar():
    file, clock = io.StringIO(), Clock()
    with Line("", file, clock=clock) as stages:
        stages.begin("choosing settings", 4)
        clock.now = 2.0
        stages.advance(4)
        stages.begin("fitting the embedding", None)
        clock.now = 5.0
        stages.begin("learning", None)
        clock.now = 7.0
        stages.advance(30)
    assert file.getvalue().splitlines() == [
        "choosing settings: [##############################] 100 %  4 of 4, 2.0 a second",
        "learning: 30, 15 a second",
    ]


def test_many_threads_lose_no_count():
    seen = []
    with progress_of(4000, lambda done, total: seen.append(done), "pairs", "knn") as advance:
        threads = [threading.Thread(target=lambda: [advance(1) for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == list(range(1, 4001))


@pytest.mark.parametrize("progress", [None, "yes", 1])
def test_other_values_are_refused(progress):
    with pytest.raises(TypeError, match=r"knn\(progress=...\): must be True, False, a function of two"):
        knn([[1.0, 2.0], [1.0, 3.0]], progress=progress)


def test_a_log_has_a_line_for_each_stage_and_one_a_minute():
    lines, said = [], threading.Event()
    with Log(lambda line: (lines.append(line), said.set()), "bags", patience=0, pause=0.01) as log:
        log.begin("sorting", None)
        log.begin("sorting", None)  # the same
        log.begin("learning", 5000)
        log.advance(1200)
        said.clear()
        assert said.wait(10)
    assert lines[:2] == ["0:00 sorting", "0:00 learning"]
    assert re.fullmatch(r"0:00 learning: 1,200 of 5,000 bags, [\d,]+ a second, 0:00 left", lines[-1])
    short = []
    with Log(short.append, "bags") as log:
        log.begin("learning", 5)
    assert not short
