"""``distembed sketch``: what bags come to before they are vectors, to be merged with other parts of the same bags."""

from __future__ import annotations

import click

from . import options as opt
from .app import Screen
from .embed import model_and_table
from .models import learner_of
from .results import check_outputs


@click.command(
    "sketch", epilog=opt.example("distembed sketch monday.parquet --model model.distembed -o monday.sketches")
)
@opt.table
@opt.table_options("that of --model")
@opt.embedding()
@click.option(
    "--components", type=click.IntRange(min=2), metavar="D", help="Make D random features of it. [default: none]"
)
@click.option("--model", metavar="FILE", help="Use a fitted model or embedding, or that of other sketches.")
@click.option(
    "--fit-bags", type=click.IntRange(min=2), default=2000,
    help="Choose box and bandwidth from at most this many bags, drawn at random.",
)  # fmt: skip
@opt.seed
@click.option("-o", "--output", required=True, metavar="FILE", help="The file of sketches, such as monday.sketches.")
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Sketch the bags of a table: a few numbers for each, whatever the number of its points.

    Sketches of parts of a table, made on different days or by different people with the same --model, are joined by
    'distembed merge', which also makes vectors of them: those of the whole bags. The first part may fit the embedding
    itself; the others then take its file of sketches for their --model.
    """
    check_outputs({"-o": asked.output}, {"TABLE": asked.table, "--model": asked.model})
    from ..files import save
    from ..learners.sketched_bags import SketchedBags

    fitted, points = model_and_table(asked, screen, "sketch")
    found = SketchedBags(learner_of(fitted))
    with opt.counted_batches(points, screen, "sketching") as batches:
        found.extend(batches)
    save(found, asked.output)
    n_points = int(found.n_points_.sum())
    screen.line(f"{asked.output}: sketches of {found.n_bags:,} bags, {n_points:,} points", detail=True)
    screen.result({"command": "sketch", "output": asked.output, "n_bags": found.n_bags, "n_points": n_points})
