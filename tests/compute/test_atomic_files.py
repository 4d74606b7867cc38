"""Files that are written whole, and what is left beside them by those who were killed."""

import errno
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from distembed.compute import atomic_files
from distembed.compute.atomic_files import obstacle, scratch_folder, write_whole

HOLDERS = {
    "file": "write_whole(sys.argv[1] + '/a.csv')",
    "folder": "scratch_folder(sys.argv[1])",
}


def start(kind, folder):
    """A process that holds something temporary in a folder until it is ended."""
    code = f"""
import sys, time
from distembed.compute.atomic_files import scratch_folder, write_whole
with {HOLDERS[kind]}:
    print("held", flush=True)
    time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    return child


def use(kind, folder):
    if kind == "folder":
        with scratch_folder(folder):
            return
    with write_whole(folder / "a.csv") as file:
        file.write(b"x")


@pytest.mark.skipif(sys.platform == "win32", reason="no locks that end with their process")
@pytest.mark.parametrize("kind", HOLDERS)
def test_what_a_killed_process_leaves_goes_and_what_a_live_one_holds_stays(tmp_path, kind):
    with start(kind, tmp_path) as child:
        use(kind, tmp_path)
        assert len([name for name in os.listdir(tmp_path) if name != "a.csv"]) == 1
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert len([name for name in os.listdir(tmp_path) if name != "a.csv"]) == 1
        use(kind, tmp_path)
        assert [name for name in os.listdir(tmp_path) if name != "a.csv"] == []


def test_what_is_not_ours_stays(tmp_path):
    names = [".a.csv.tmp", ".a.csv.0123456789abcdeg.tmp", ".b.csv.0123456789abcdef.tmp", "a.csv.0123456789abcdef.tmp"]
    for name in names:
        (tmp_path / name).touch()
    for name in (
        "distembed-pictures",
        "distembed-abcdefgh",
    ):  # the second is a name of ours, and nobody's mark is in it
        (tmp_path / name).mkdir()
        names.append(name)
    for kind in HOLDERS:
        use(kind, tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "a.csv"])


def test_obstacles_are_found_by_writing(tmp_path, monkeypatch):
    assert obstacle(tmp_path / "a") is None
    assert os.listdir(tmp_path) == []

    def refuse(number):
        def made(path):
            raise OSError(number, os.strerror(number), path)

        monkeypatch.setattr(atomic_files, "_made", made)

    for number, said in (
        (errno.EROFS, "takes no file: read-only file system; name another folder"),
        (errno.EACCES, "takes no file: permission denied; name another folder"),
        (errno.ENOSPC, "takes no file: no space left on device; make room there, or name another folder"),
    ):
        refuse(number)
        assert obstacle(tmp_path / "a") == f"folder {str(tmp_path)!r} {said}"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_a_disk_that_is_full_at_the_end_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "_made", lambda path: os.open("/dev/full", os.O_RDWR))
    assert "no space left on device; make room there" in obstacle(tmp_path / "a")
    with pytest.raises(OSError, match="No space left on device") as caught, write_whole(tmp_path / "a") as file:
        file.write(b"x")
    assert caught.value.filename == str(tmp_path / "a")


def test_a_folder_goes_whatever_happens_in_it(tmp_path):
    def work():
        with scratch_folder(tmp_path) as folder:
            open(os.path.join(folder, "x"), "w").close()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert os.listdir(tmp_path) == []
    with scratch_folder() as folder:
        assert os.path.dirname(folder) == tempfile.gettempdir()
