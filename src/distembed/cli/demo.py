"""``distembed demo``: the whole path on data made on the spot."""

from __future__ import annotations

import shlex
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path

import click

from . import options as opt
from .app import Screen, command_of

_TRAIN = 240
_NEW = 60


@click.command("demo", short_help="The whole path on small tables made on the spot.")
@click.argument("folder", default="distembed-demo", type=click.Path(path_type=Path))
@click.option(
    "--embedding", type=opt.RegisteredName("embeddings", more=("auto",)), default="auto", metavar="NAME",
    help="How bags become vectors: many ways (auto), or one by its name, such as js, which is faster.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the data.")
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Make small tables in FOLDER, fit, predict and evaluate, and show the commands.

    Patients are bags of cells with two markers, and have a severity between 0 and 1 that neither the mean nor the
    covariance of their cells shows: it is in the shape of the whole cloud.
    """
    from ..datasets import make_cells
    from ..tables import write_bags, write_table

    folder: Path = asked.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise click.UsageError(f"{str(folder)!r} is a file; name a folder") from None
    bags, severity = make_cells(_TRAIN + _NEW, random_state=asked.seed)
    path = {name: str(folder / name) for name in ("cells.csv", "severity.csv", "new_cells.csv", "new_severity.csv")}
    for cells, labels, some in (
        ("cells.csv", "severity.csv", slice(0, _TRAIN)),
        ("new_cells.csv", "new_severity.csv", slice(_TRAIN, None)),
    ):
        write_bags(bags[some], path[cells], bag="patient")
        write_table({"patient": bags.ids[some], "severity": severity[some]}, path[labels])
    model, predictions, picture = (str(folder / name) for name in ("model.distembed", "predictions.csv", "fit.png"))
    commands: list[list[str]] = [
        ["info", path["cells.csv"], "--bag", "patient"],
        [
            "fit", path["cells.csv"], "--bag", "patient", "--labels", path["severity.csv"], "--label", "severity",
            *([] if asked.embedding == "auto" else ["--embedding", asked.embedding]), "-o", model, "--plot", picture,
        ],
        ["predict", model, path["new_cells.csv"], "-o", predictions],
        ["evaluate", predictions, "--labels", path["new_severity.csv"], "--label", "severity"],
    ]  # fmt: skip
    screen.line(f"{_TRAIN} patients in {path['cells.csv']}, {_NEW} new ones in {path['new_cells.csv']}")
    done = [_run(words, screen) for words in commands]
    screen.line(f"\n{picture} shows the fit. Next: distembed fit --help")
    screen.result({"command": "demo", "folder": str(folder), "commands": done})


def _run(words: list[str], screen: Screen) -> str:
    """Show a command and run it."""
    shown = f"distembed {shlex.join(words)}"
    screen.line(f"\n$ {shown}")
    name = words[0]
    more = ["--quiet"] if screen.quiet or screen.as_json else []
    away = redirect_stdout(StringIO()) if screen.as_json else nullcontext()
    with command_of(name).make_context(f"distembed {name}", [*words[1:], *more]) as context, away:
        context.command.invoke(context)
    return shown
