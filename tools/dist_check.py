"""Build wheel and sdist, install each in a clean environment, and use it there. ``make dist-check`` runs it."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIAL = """
import distembed as de
from pathlib import Path
assert "site-packages" in de.__file__, de.__file__  # the installed one, not the repository's
assert (Path(de.__file__).parent / "py.typed").exists()
bags, y = de.datasets.make_cells(30, random_state=0)
model = de.DistributionRegressor("js", n_components=100, tune=None, random_state=0).fit(bags, y)
assert model.predict(bags).shape == (30,)
de.save(model, "m.distembed")
assert (de.load("m.distembed").predict(bags) == model.predict(bags)).all()
print("distembed", de.__version__, "works")
"""


def names_of(path: Path) -> set[str]:
    """Files of a wheel or sdist; those of an sdist without its folder."""
    if path.suffix == ".whl":
        return set(zipfile.ZipFile(path).namelist())
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def run(*command: object, folder: Path) -> None:
    """Run a command, and stop where it fails."""
    subprocess.run([str(part) for part in command], cwd=folder, check=True)


def main(arguments: list[str] | None = None) -> None:
    """Build both, look into them, install both and try them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where wheel and sdist go")
    out = parser.parse_args(arguments).out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, folder=ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *out.iterdir(), folder=ROOT)
    package = {f"distembed/{path.relative_to(ROOT / 'src' / 'distembed')}" for path in (ROOT / "src").rglob("*.py")}
    for path in sorted(out.iterdir()):
        names = {name.removeprefix("src/") for name in names_of(path)}
        missing = package - names
        if missing:
            raise SystemExit(f"{path.name} lacks {sorted(missing)}")
        with tempfile.TemporaryDirectory() as folder:
            venv.create(Path(folder, "venv"), with_pip=True)
            python = Path(folder, "venv", "bin", "python")
            run(
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                f"{path}[cli]",
                folder=Path(folder),
            )
            run(python, "-I", "-c", TRIAL, folder=Path(folder))
            run(python.with_name("distembed"), "--version", folder=Path(folder))
        print(f"{path.name}: {len(names)} files, installed and used in a clean environment")


if __name__ == "__main__":
    main()
