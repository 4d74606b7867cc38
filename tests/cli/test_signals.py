"""Signals at any moment of any command: one line, and 128 plus the number of the signal."""

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.cli import main
from distembed.tables import TableError, write_bags, write_table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its signals are others")

PROGRAM = """
import os, sys, threading
import distembed.cli
sys.argv[1:] = {words!r}
threading.Timer({delay}, os.kill, [os.getpid(), {number}]).start()  # the process waits for it: there is no too late
distembed.cli.main()
"""


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """A table that is not in order, and labels."""
    folder = tmp_path_factory.mktemp("signals")
    rng = np.random.default_rng(0)
    bags = de.Bags.from_arrays([rng.normal(i, 1, (2_000, 2)) for i in range(40)], ids=[f"b{i:02d}" for i in range(40)])
    write_bags(bags[::-1], folder / "points.parquet")
    write_table({"bag": bags.ids, "mass": np.arange(40.0)}, folder / "labels.parquet")
    return folder


@pytest.mark.parametrize(("delay", "number"), [(0.05, signal.SIGTERM), (0.3, signal.SIGINT), (0.6, signal.SIGTERM)])
def test_any_moment_is_one_line_and_the_code_of_the_signal(points, tmp_path, delay, number):
    words = ["fit", str(points / "points.parquet"), "--bag", "bag", "--labels", str(points / "labels.parquet")]
    words += ["--label", "mass", "-o", str(tmp_path / "m"), "--out-of-core", "--embedding", "mmd", "-q"]
    program = PROGRAM.format(words=words, delay=delay, number=int(number))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 128 + number, ended.stderr
    assert ended.stderr.startswith("distembed: stopped")
    assert ended.stderr.count("\n") == 1
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def lost(number):
    """Raise a signal where Python drops exceptions."""

    class Doomed:
        def __del__(self):
            signal.raise_signal(number)

    Doomed()
    time.sleep(60)


def reworded(number):
    """Raise a signal in a library that makes an error of its own of it."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        raise TableError("make room there") from None


def taken(number):
    """Raise a signal in a library that goes on."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        time.sleep(0)


def imported(number):
    """Raise a signal in an import that takes whatever comes for a package that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        text = f"import signal\ntry:\n    signal.raise_signal({int(number)})\nexcept:\n    pass\n"
        Path(folder, "swallowing.py").write_text(text)
        sys.path.insert(0, folder)
        try:
            importlib.import_module("swallowing")
        finally:
            sys.path.remove(folder)
            sys.modules.pop("swallowing", None)
        time.sleep(60)


@pytest.mark.parametrize("how", [lost, reworded, taken, imported])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whatever_comes_of_a_signal(monkeypatch, capsys, how, number):
    before = signal.getsignal(number)
    monkeypatch.setattr("distembed.embeddings.available", lambda: how(number) or {})
    with pytest.raises(SystemExit) as end:
        main(["info", "--methods", "--json"])
    assert end.value.code == 128 + number
    assert capsys.readouterr().err == "distembed: stopped\n"
    assert signal.getsignal(number) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_is_ignored_stays_ignored(monkeypatch, capsys):
    """Such as SIGHUP under nohup."""
    monkeypatch.setattr("distembed.embeddings.available", lambda: signal.raise_signal(signal.SIGHUP) or {})
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as end:
            main(["info", "--methods", "--json"])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert end.value.code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_python_clears_up_changes_nothing(number):
    """All is written and said by then, and Python has given up handlers of its own."""
    program = f"""
import signal, sys
import distembed.cli
class Late:
    def __del__(self, raise_signal=signal.raise_signal):
        raise_signal({int(number)})
late = Late()
sys.argv[1:] = ["--version"]
distembed.cli.main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("distembed ")
