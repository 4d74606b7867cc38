"""Commands that are stopped, that share their files, whose disks are full, and whose tables change."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from soak import Part

PROGRAM = [sys.executable, "-m", "distembed.cli"]
REPRODUCE = [sys.executable, "-m", "reproduce"]
START = 0.5  # seconds within which Python may still be starting, and ends by its own rules
POINTS = ["points.csv", "--bag", "bag"]
LABELLED = [*POINTS, "--labels", "labels.csv", "--label", "mass"]

# What commands write, by name: the words, and the file that tells whether all is well.
COMMANDS: dict[str, tuple[list[str], str]] = {
    "fit": (["fit", *LABELLED, "--embedding", "js", "-o", "fit.distembed"], "fit.distembed"),
    "fit --out-of-core": (
        ["fit", *LABELLED, "--embedding", "mmd", "--out-of-core", "-o", "ooc.distembed", "--components", "300"],
        "ooc.distembed",
    ),
    "fit auto": (["fit", *LABELLED, "-o", "auto.distembed", "--time-limit", "2"], "auto.distembed"),
    "embed": (["embed", *POINTS, "--embedding", "mmd", "-o", "embed.csv"], "embed.csv"),
    "predict": (["predict", "model.distembed", "points.csv", "-o", "predict.csv"], "predict.csv"),
    "reproduce": (
        ["reproduce", "gram", "--quick", "--steps", "*A features*", "--cache", "cache", "-o", "results"],
        "results/gram.md",
    ),
}  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Tables of more rows than one piece has, not in order, and a model."""
    from distembed.tables import write_table

    rng = np.random.default_rng(0)
    names = np.array([f"b{i:02d}" for i in range(60)])
    bag = rng.permutation(np.repeat(np.arange(60), 1_150))
    x, y = rng.normal(size=(2, len(bag))) + bag / 20
    for suffix in ("csv", "parquet", "arrow"):
        write_table({"bag": names[bag], "x": x, "y": y}, folder / f"points.{suffix}")
    write_table({"bag": names, "mass": np.arange(60) / 20}, folder / "labels.csv")
    ended = call(["fit", *LABELLED, "--embedding", "mean", "-o", "model.distembed", "-q"], folder)
    if ended.returncode:
        raise RuntimeError(ended.stderr)


def begin(words: list[str], folder: Path, **more: Any) -> subprocess.Popen[str]:
    """Start a command in a folder."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    program = REPRODUCE + words[1:] if words[0] == "reproduce" else PROGRAM + words
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(program, cwd=folder, text=True, env=environment, **pipes, **more)


def call(words: list[str], folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    child = begin(words, folder, **more)
    try:
        out, err = child.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        err += "\nhangs for five minutes"
    return subprocess.CompletedProcess(words, child.returncode, out, err)


class Reference:
    """What each command comes to if nobody disturbs it, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds = folder, {}
        write_inputs(folder)
        self.inputs = sorted(path.name for path in folder.iterdir())
        self._bags: Any = None
        for name, (words, _) in COMMANDS.items():
            start = time.monotonic()
            ended = call(words, folder)
            self.seconds[name] = time.monotonic() - start
            if ended.returncode:
                raise RuntimeError(f"{name}: {ended.stderr}")

    def copy_to(self, folder: Path) -> None:
        """The inputs alone."""
        folder.mkdir()
        for name in self.inputs:
            shutil.copy(self.folder / name, folder / name)

    def differs(self, name: str, folder: Path) -> str | None:
        """How the output of a command differs from the reference, or None; a fit with a time limit may differ."""
        output = COMMANDS[name][1]
        if output.endswith(".distembed"):
            from distembed import load
            from distembed.tables import read_bags

            if self._bags is None:
                self._bags = read_bags(self.folder / "points.csv", bag="bag")[:10]
            try:
                one, two = (load(place / output).predict(self._bags) for place in (self.folder, folder))
            except Exception as error:
                return f"{output} can't be used: {type(error).__name__}: {error}"
            same = name == "fit auto" or np.allclose(one, two, rtol=1e-9, atol=1e-12)
        else:
            one, two = (_without_times((place / output).read_text()) for place in (self.folder, folder))
            same = one == two
        return None if same else f"{output} is another than that of an undisturbed run"


@functools.cache
def undisturbed() -> Reference:
    """The reference, computed once, in a folder that goes when the program ends."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Reference(folder)


def _without_times(text: str) -> list[str]:
    """The lines of an output but those, and the last cells of tables, that tell seconds."""
    lines = [line for line in text.splitlines() if "took" not in line and "second" not in line]
    return [line.rsplit("|", 3)[0] if line.startswith("|") else line for line in lines]


def left_over(folder: Path) -> list[str]:
    """Temporary files that nobody needs any more."""
    return [path.name for path in folder.rglob("*") if path.name.startswith(".") or path.suffix in (".tmp", ".partial")]


def kills(part: Part) -> None:
    """Stop commands at random moments, let them go on now and then, and look at what they leave."""
    rng, reference = part.rng, undisturbed()
    with tempfile.TemporaryDirectory() as name:
        folders = {each: Path(name, f"chain {i}") for i, each in enumerate(COMMANDS)}
        for folder in folders.values():
            reference.copy_to(folder)
        done = 0
        while part.goes_on(done):
            which = list(COMMANDS)[done % len(COMMANDS)]
            number = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[int(rng.integers(3))]
            wait = float(rng.uniform(0, 1.05 * reference.seconds[which]))
            _one_kill(part, reference, which, folders[which], number, wait)
            if (done // len(COMMANDS)) % 4 == 3:
                _finish(part, reference, which, folders[which])
            done += 1
            part.counts["kills"] = done
        for which, folder in folders.items():
            _finish(part, reference, which, folder)
        took = ", ".join(f"{which} {seconds:.1f}" for which, seconds in reference.seconds.items())
        part.notes.append(f"seconds of undisturbed commands: {took}")


def _one_kill(part: Part, reference: Reference, which: str, folder: Path, number: int, wait: float) -> None:
    words, output = COMMANDS[which]
    child = begin(words, folder)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(wait)
    child.send_signal(number)
    sent = time.monotonic()
    try:
        _, err = child.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        part.finding(f"{which} does not end within a minute of {signal.Signals(number).name} after {wait:.2f} s")
        return
    late = time.monotonic() - sent
    part.counts[signal.Signals(number).name] += 1
    lines = [line for line in err.splitlines() if line.strip()]
    told = (
        bool(lines) and lines[-1].startswith("distembed: stopped") and all(x.startswith("distembed: ") for x in lines)
    )
    code = child.returncode
    where = f"{which}, {signal.Signals(number).name} after {wait:.2f} of {reference.seconds[which]:.2f} s"
    if code == 0:
        part.counts["had ended"] += 1
    elif code == -signal.SIGKILL == -number or (code == 128 + number and told):
        part.counts["stopped"] += 1
    elif wait < START:
        part.counts["outside the program"] += 1
    else:
        part.finding(f"{where}: code {code}: {' / '.join(lines[-3:])}")
    if late > 10:
        part.finding(f"{where}: ends {late:.0f} s after the signal")
    if (folder / output).exists() and (wrong := reference.differs(which, folder)) is not None:
        part.finding(f"{where}: {wrong}")


def _finish(part: Part, reference: Reference, which: str, folder: Path) -> None:
    """Let a command end, compare, and begin anew."""
    words, output = COMMANDS[which]
    ended = call(words, folder)
    part.counts["finished after kills"] += 1
    wrong = f"code {ended.returncode}: {ended.stderr}" if ended.returncode else reference.differs(which, folder)
    left = left_over(folder)
    if wrong or left:
        part.finding(f"{which}, after kills: {wrong or f'{left} are left'}")
    (folder / output).unlink(missing_ok=True)
    shutil.rmtree(folder / "cache", ignore_errors=True)


def sharing(part: Part) -> None:
    """Three processes on one command."""
    reference = undisturbed()
    with tempfile.TemporaryDirectory() as name:
        for i, which in enumerate(COMMANDS):
            if not part.goes_on(i):
                break
            folder = Path(name, f"shared {i}")
            reference.copy_to(folder)
            children = [begin(COMMANDS[which][0], folder) for _ in range(3)]
            ends = [(child.communicate(), child.returncode) for child in children]
            part.counts["commands"] += 1
            for (_, err), code in ends:
                if code:
                    part.finding(f"{which}, one of three: code {code}: {err}")
            wrong = reference.differs(which, folder) if (folder / COMMANDS[which][1]).exists() else "no output"
            left = left_over(folder)
            if wrong or left:
                part.finding(f"{which}, by three: {wrong or f'{left} are left'}")


@contextlib.contextmanager
def small_disk(folder: Path, how: str) -> Iterator[Callable[[], None] | None]:
    """A folder on a disk of 1.5 MB, or read-only; where it can't be mounted, a limit for children to set."""
    folder.mkdir()
    old = folder / "old"
    words = ["mount", "-t", "tmpfs", "-o", "size=1500k", "none", str(folder)]
    mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        old.write_text("old")
        if mounted and how == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        elif how == "read-only":
            folder.chmod(0o555)
        yield None if mounted or how == "read-only" else _limit_files
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        else:
            folder.chmod(0o755)


def _limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


def disks(part: Part) -> None:
    """Outputs, temporary files and checkpoints where there is no room for them."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        undisturbed().copy_to(home)
        cases = [
            ("embed", ["embed", *POINTS, "--embedding", "mmd", "--set", "n_components=4000", "-o"]),
            ("fit", ["fit", *LABELLED, "--embedding", "mmd", "--components", "2000", "--updatable", "-o"]),
            ("out-of-core", ["fit", *LABELLED, "--embedding", "mmd", "--out-of-core", "--components", "998", "-o"]),
            ("sort", ["embed", *POINTS, "--embedding", "mean", "--memory-limit", "12MB", "-o", "e.csv", "--temp"]),
            ("predict", ["predict", "model.distembed", "points.csv", "-o"]),
        ]  # fmt: skip
        done = 0
        for how in ("full", "read-only"):
            for which, words in cases:
                if not part.goes_on(done):
                    return
                done += 1
                folder = Path(name, f"disk {done}")
                with small_disk(folder, how) as first:
                    if how == "read-only" and os.geteuid() == 0 and os.access(folder, os.W_OK):
                        part.notes.append("read-only folders: not tried, because root may write anywhere")
                        break
                    target = (
                        str(folder)
                        if which == "sort"
                        else str(folder / ("m.csv" if which in ("embed", "predict") else "m"))
                    )
                    ended = call([*words, target], home, preexec_fn=first)
                    left = [path.name for path in folder.iterdir() if path.name != "old"]
                lines = ended.stderr.strip().splitlines()
                told = (
                    ended.returncode == 2 and lines and str(folder) in lines[-1] and lines[-1].startswith("distembed: ")
                )
                part.counts["disks"] = done
                fits = ended.returncode == 0 and how == "full"
                part.counts["room enough" if fits else "told" if told else "other"] += 1
                if not (told or fits):
                    part.finding(f"{which} on a {how} disk: code {ended.returncode}: {' / '.join(lines[-3:])}")
                if not fits and [each for each in left if not each.endswith(".partial")]:
                    part.finding(f"{which} on a {how} disk leaves {left}")


def _changes() -> dict[str, Callable[[Path, np.random.Generator], None]]:
    """What may happen to a file while it is read."""

    def cut(path: Path, rng: np.random.Generator) -> None:
        os.truncate(path, int(rng.integers(path.stat().st_size)))

    def append(path: Path, rng: np.random.Generator) -> None:
        with path.open("ab") as file:
            file.write(rng.bytes(10_000))

    def overwrite(path: Path, rng: np.random.Generator) -> None:
        with path.open("r+b") as file:
            file.seek(int(rng.integers(path.stat().st_size)))
            file.write(bytes(50_000))

    def replace(path: Path, rng: np.random.Generator) -> None:
        other = path.with_name(f"other{path.suffix}")
        other.write_bytes(path.read_bytes()[: int(rng.integers(path.stat().st_size))])
        os.replace(other, path)

    def remove(path: Path, rng: np.random.Generator) -> None:
        path.unlink()

    return {"is cut": cut, "grows": append, "is overwritten": overwrite, "is replaced": replace, "is removed": remove}


def changes(part: Part) -> None:
    """Change a table while a command reads it."""
    rng, ways = part.rng, _changes()
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name, "run"), Path(name, "kept")
        undisturbed().copy_to(kept)
        done = 0
        while part.goes_on(done):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(kept, folder)
            points = ("points.csv", "points.parquet", "points.arrow")[done % 3]
            how = list(ways)[(done // 3) % len(ways)]
            words = [points if word == "points.csv" else word for word in COMMANDS["embed"][0]]
            if done % 2:
                words = [points if word == "points.csv" else word for word in COMMANDS["fit --out-of-core"][0]]
            child = begin(words, folder)
            time.sleep(float(rng.uniform(0.4, 3.0)))
            ways[how](folder / points, rng)
            try:
                _, err = child.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                child.kill()
                _, err = child.communicate()
                err += "\nhangs for two minutes"
            lines = [line for line in err.splitlines() if line.strip()]
            done += 1
            part.counts["changes"] = done
            plain = all(line.startswith("distembed: ") for line in lines)
            if child.returncode not in (0, 2) or not plain:
                said = f"code {child.returncode}: {' / '.join(lines[-3:])}"
                part.finding(f"{words[0]} of {points}, which {how}: {said}")
            else:
                part.counts["ended" if child.returncode == 0 else "told"] += 1
