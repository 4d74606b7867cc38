"""Bags from FCS files of flow cytometry."""

from __future__ import annotations

import sys

import flowio
import numpy as np
import pytest

from distembed import Bags

SHORT, LONG = ["FSC", "FL1", "FL2"], ["", "CD4", "CD8"]


def write(path, values, short=SHORT, long=LONG):
    with path.open("wb") as file:
        flowio.create_fcs(file, np.ravel(values), list(short), opt_channel_names=list(long))
    return path


@pytest.fixture
def folder(tmp_path):
    """Three files: p2 and p10 alike, p1 with its channels in another order; and files of other kinds."""
    rng = np.random.default_rng(0)
    for name, n in (("p10.fcs", 3), ("p2.FCS", 2)):
        write(tmp_path / name, rng.uniform(1, 1000, size=(n, 3)))
    values = rng.uniform(1, 1000, size=(4, 3))
    write(tmp_path / "p1.fcs", values[:, [2, 0, 1]], ["FL2", "FSC", "FL1"], ["CD8", "", "CD4"])
    np.save(tmp_path / "p1.npy", values)
    (tmp_path / "info.csv").write_text("name,label\np1.fcs,ill\n")
    (tmp_path / "._p1.fcs").write_bytes(b"of a Mac")
    return tmp_path


def test_folder(folder):
    bags = Bags.from_fcs(folder)
    assert bags.ids.tolist() == ["p1.fcs", "p2.FCS", "p10.fcs"]
    assert bags.sizes.tolist() == [4, 2, 3]
    assert bags.columns == ("CD8", "FSC", "CD4")  # the order of the first file
    bags = Bags.from_fcs(str(folder), channels=["FSC", "CD4", "FL2"])
    assert bags.columns == ("FSC", "CD4", "FL2")
    assert np.allclose(bags[0], np.load(folder / "p1.npy"))


def test_paths_and_cofactor(folder):
    paths = [folder / "p10.fcs", str(folder / "p1.fcs")]
    bags = Bags.from_fcs(paths, channels=["CD4"])
    assert bags.ids.tolist() == ["p10.fcs", "p1.fcs"]
    assert np.allclose(Bags.from_fcs(paths, channels="CD4", cofactor=150).points, np.arcsinh(bags.points / 150))
    assert Bags.from_fcs(folder / "p1.fcs").n_bags == 1
    for wrong in (0, -1, np.inf, "5"):
        with pytest.raises((ValueError, TypeError), match=r"Bags.from_fcs\(cofactor=...\)"):
            Bags.from_fcs(paths, cofactor=wrong)


def test_channels_that_are_missing(folder):
    with pytest.raises(
        ValueError, match=r"p1.fcs' lacks the channel 'CD3'; it has 'CD8', 'FSC', 'CD4'; .* in channels only"
    ):
        Bags.from_fcs(folder, channels=["CD3"])
    with pytest.raises(ValueError, match="channels must be one or more names that differ"):
        Bags.from_fcs(folder, channels=["CD4", "CD4"])


def test_panels_that_differ(folder):
    write(folder / "p3.fcs", np.ones((2, 3)), ["Time", "FSC", "FL1"], ["", "", "CD4"])
    said = (
        r"left out: 'CD8' \(1 of 4 files lack it, such as 'p3.fcs'\), "
        r"'Time' \(3 of 4 files lack it, such as 'p1.fcs'\); the points have 'FSC', 'CD4'"
    )
    with pytest.warns(UserWarning, match=said):
        bags = Bags.from_fcs(folder)
    assert bags.columns == ("FSC", "CD4")
    assert np.allclose(bags[0], np.load(folder / "p1.npy")[:, :2])
    assert Bags.from_fcs(folder, channels=["CD4", "FSC"]).n_bags == 4
    write(folder / "p4.fcs", np.ones((2, 1)), ["X"], [""])
    with pytest.raises(
        ValueError, match=r"no channel is in all files: .*p1.fcs' has 'CD8', 'FSC', 'CD4', and .*p4.fcs'"
    ):
        Bags.from_fcs(folder)


def spilled(path, values, matrix, names=("FL1", "FL2"), key="SPILLOVER", written=None):
    """A file of two dyes, whose light is in both detectors."""
    measured = values.copy()
    measured[:, 1:] = measured[:, 1:] @ matrix
    text = ",".join([str(len(matrix)), *names, *(f"{each:g}" for each in np.ravel(matrix))])
    with path.open("wb") as file:
        more = {key: text if written is None else written}
        flowio.create_fcs(file, measured.ravel(), SHORT, opt_channel_names=LONG, metadata_dict=more)
    return measured


@pytest.mark.parametrize("key", ["SPILLOVER", "SPILL"])
def test_compensation(tmp_path, key):
    values = np.random.default_rng(0).uniform(10, 1000, size=(50, 3))
    matrix = np.array([[1.0, 0.2], [0.05, 1.0]])
    measured = spilled(tmp_path / "a.fcs", values, matrix, key=key)
    assert np.allclose(Bags.from_fcs(tmp_path)[0], values, rtol=1e-5)
    assert np.allclose(Bags.from_fcs(tmp_path, compensate=True)[0], values, rtol=1e-5)
    assert np.allclose(Bags.from_fcs(tmp_path, compensate=False)[0], measured, rtol=1e-5)
    scaled = Bags.from_fcs(tmp_path, cofactor={"CD4": 150, "CD8": 5.0})
    assert np.allclose(scaled[0][:, 0], values[:, 0], rtol=1e-5)
    assert np.allclose(scaled[0][:, 1:], np.arcsinh(values[:, 1:] / [150, 5]), rtol=1e-4)
    spilled(tmp_path / "a.fcs", values, matrix, ("Comp-FL1", "Comp-FL2"))  # compensated before, and renamed
    assert np.allclose(Bags.from_fcs(tmp_path)[0], measured, rtol=1e-5)


def test_refusals_of_compensation(tmp_path):
    values = np.random.default_rng(0).uniform(10, 1000, size=(50, 3))
    for written in ("2,FL1,FL2,1,0,0", "x,FL1", "2,FL1,FL2,1,0,0,nan", "2,FL1,FL1,1,0,0,1", "2,FL1,FL2,1,1,1,1"):
        spilled(tmp_path / "a.fcs", values, np.eye(2), written=written)
        with pytest.raises(ValueError, match=r"a.fcs': \$SPILLOVER must be .*; pass compensate=False"):
            Bags.from_fcs(tmp_path)
        assert Bags.from_fcs(tmp_path, compensate=False).n_points == 50
    spilled(tmp_path / "a.fcs", values, np.eye(2), written="0")
    assert np.allclose(Bags.from_fcs(tmp_path)[0], values, rtol=1e-5)
    write(tmp_path / "a.fcs", values)
    with pytest.raises(
        ValueError, match=r"a.fcs' has no \$SPILLOVER of its channels; leave that file out, or pass compensate=False"
    ):
        Bags.from_fcs(tmp_path, compensate=True)
    with pytest.raises(ValueError, match="must be 'auto', True or False, got 'yes'"):
        Bags.from_fcs(tmp_path, compensate="yes")
    with pytest.raises(
        ValueError, match=r"cofactor names the channel 'CD9', which is not read; there are 'FSC', 'CD4'"
    ):
        Bags.from_fcs(tmp_path, cofactor={"CD9": 5})


def test_names_that_repeat(tmp_path):
    write(tmp_path / "p.fcs", [[1.0, 2.0, 3.0]], SHORT, ["", "CD4", "CD4"])
    assert Bags.from_fcs(tmp_path).columns == ("FSC", "FL1", "FL2")


def test_damaged_and_empty_files(folder):
    whole = (folder / "p2.FCS").read_bytes()
    for content, said in (
        (b"", "p5.fcs' is empty"),
        (b"FCS3.1", "p5.fcs' is not a readable FCS file"),
        (b"patient,age\n" * 40, "p5.fcs' is not a readable FCS file"),
        (whole[:-9], "p5.fcs' is not a readable FCS file"),
        (whole[: len(whole) // 2], "p5.fcs' is not a readable FCS file"),
    ):
        (folder / "p5.fcs").write_bytes(content)
        with pytest.raises(ValueError, match=said):
            Bags.from_fcs(folder)
    write(folder / "p5.fcs", np.empty((0, 3)))
    with pytest.raises(ValueError, match=r"p5.fcs' (has no events|is not a readable)"):
        Bags.from_fcs(folder)


def test_missing_values(folder):
    write(folder / "p3.fcs", [[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]])
    with pytest.raises(ValueError, match=r"bag 2 \(id 'p3.fcs'\), row 0, column 'CD4'; missing values .*: 1 in 'CD4'"):
        Bags.from_fcs(folder)
    assert Bags.from_fcs(folder, nan="drop")[2].shape == (1, 3)
    assert Bags.from_fcs(folder, nan="indicator").columns == ("CD8", "FSC", "CD4", "CD4 missing")


def test_other_refusals(tmp_path, folder, monkeypatch):
    with pytest.raises(ValueError, match="no such file"):
        Bags.from_fcs(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty' holds no FCS files"):
        Bags.from_fcs(tmp_path / "empty")
    with pytest.raises(ValueError, match="names no FCS files"):
        Bags.from_fcs([])
    with pytest.raises(TypeError, match="a folder, a path or a list of paths, got int"):
        Bags.from_fcs(7)
    with pytest.raises(ValueError, match=r"file names are bag ids and must differ, got more than once: 'p1.fcs'"):
        Bags.from_fcs([folder / "p1.fcs", folder / "p1.fcs"])
    monkeypatch.setitem(sys.modules, "flowio", None)
    with pytest.raises(ImportError, match=r"needs flowio: pip install 'distembed\[fcs\]'"):
        Bags.from_fcs(folder)
