"""``distembed demo``, and the ten lines of a newcomer."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from command_line import PNG, refused, run


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.cli.demo._TRAIN", 40)
    monkeypatch.setattr("distembed.cli.demo._NEW", 10)
    shown = run("demo", tmp_path / "demo").stdout
    commands = re.findall(r"^\$ distembed (\w+) ", shown, re.MULTILINE)
    assert commands == ["info", "fit", "predict", "evaluate"]
    assert (tmp_path / "demo" / "fit.png").read_bytes().startswith(PNG)
    assert "severity, 10 bags" in shown
    shown = run("demo", tmp_path / "demo", "--embedding", "mean").stdout
    assert "--embedding mean" in shown
    assert "severity, 10 bags" in shown
    (tmp_path / "file").touch()
    assert "is a file; name a folder" in refused("demo", tmp_path / "file")


NEWCOMER = """
cat > points.csv <<END
crate,weight
A,1.0
A,1.2
B,1.9
B,2.2
C,3.1
C,2.9
D,4.2
D,3.9
E,2.4
E,2.7
END
cat > prices.csv <<END
crate,price
A,10
B,20
C,30
D,40
END
distembed fit points.csv --bag crate --labels prices.csv --label price --missing drop -o price.distembed
distembed predict price.distembed points.csv
"""


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_ten_lines_to_a_prediction(tmp_path):
    """What the page of the command line lets a newcomer copy and paste, in a shell."""
    script = f'distembed() {{ "{sys.executable}" -m distembed.cli "$@"; }}\nset -e\n{NEWCOMER}'
    found = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=120)
    crate, price = found.stdout.splitlines()[-1].split(",")
    assert crate == "E"
    assert 22 < float(price) < 28
