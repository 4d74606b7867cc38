"""Archives of NumPy that claim more than they hold: one sentence, and no memory."""

import io
import re
import tracemalloc
import zipfile

import numpy as np
import pytest
from command_line import refused

import distembed as de
from distembed.compute.npz import npz_headers
from distembed.embeddings.sketches import Sketch


def header(shape, kind="<f8"):
    """The first bytes of an array that follows, or does not."""
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    text += b" " * ((-len(text) - 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def plain(value):
    """An array as its bytes."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(value))
    return out.getvalue()


def write(path, how=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


HOSTILE = {
    "terabytes": (header((2**42, 1)), "takes 35,184,372,088,832 bytes, and the file holds at most 0"),
    "empty text": (header((2**43,), "<U0"), "no values"),
    "empty values": (header((2**43,), "|V0"), "no values"),
    "empty rows": (header((2**40, 0)), "no values"),
    "empty columns": (header((0, 2**60)), "no values"),
    "negative": (header((-2, -3)) + bytes(48), r"has the shape \(-2, -3\), and lengths are 0 or more"),
    "overflow": (header((2**62, 2**62)), "and the file holds at most 0"),
    "long text": (header((4,), "<U1000000000"), "not a valid dtype"),
    "no array": (b"PK" * 50, "magic"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_arrays_that_claim_too_much_are_refused_before_memory_is_taken(name, tmp_path):
    data, text = HOSTILE[name]
    head = {"format": plain(["distembed.Bags", "points", "offsets"]), "version": plain(1)}
    path = write(tmp_path / "b.npz", **head, points=data, offsets=plain([0, 1]))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"can't read bags from .*{text}"):
            de.Bags.load(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_sketches_that_claim_too_much_are_refused(tmp_path):
    path = write(tmp_path / "s.npz", means=header((2**42, 1)))
    with pytest.raises(ValueError, match=r"can't read a sketch from .* takes 35,184,372,088,832 bytes"):
        Sketch.load(path)


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "no array"])
def test_commands_refuse_such_tables_in_one_sentence(name, tmp_path):
    data, text = HOSTILE[name]
    path = write(tmp_path / "t.npz", x=data)
    assert re.search(rf"t\.npz'.*{text}", refused("embed", path, "--bag", "bag", "-o", tmp_path / "out.csv"))


def test_members_that_unfold_to_too_much_are_refused(tmp_path):
    zeros = header((2**20,)) + bytes(2**23)
    path = write(tmp_path / "a.npz", x=zeros)  # as honest zeros are
    assert npz_headers(str(path), path.stat().st_size)["x"].shape == (2**20,)
    path = write(tmp_path / "a.npz", zipfile.ZIP_LZMA, x=zeros)  # which unfolds without a bound
    with pytest.raises(ValueError, match=r"the file holds at most 0"):
        npz_headers(str(path), path.stat().st_size)


def test_an_array_alone_is_not_bags(tmp_path):
    (tmp_path / "x.npz").write_bytes(header((2**42,)))
    with pytest.raises(ValueError, match=r"it holds a single array, and was not written by Bags.save"):
        de.Bags.load(tmp_path / "x.npz")
