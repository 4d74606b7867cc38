"""``distembed merge``: files of sketches joined to one, or to vectors."""

from __future__ import annotations

import click

from . import options as opt
from .app import Screen
from .embed import feature_names
from .results import check_outputs, put_table


@click.command("merge", epilog=opt.example("distembed merge monday.sketches tuesday.sketches -o features.parquet"))
@click.argument("sketches", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option(
    "-o", "--output", required=True, metavar="FILE",
    help="A table of vectors, such as features.parquet, or another file of sketches, such as both.sketches.",
)  # fmt: skip
@opt.spreadsheet_safe
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Join files of sketches that 'distembed sketch' made with one model.

    Points of a bag that is in several files count all; give each file once. A table has the bag's id and one column per
    feature, as that of 'distembed embed' for all points together.
    """
    from ..files import load, save
    from ..learners.sketched_bags import SketchedBags
    from ..tables.formats import format_of

    is_table = format_of(asked.output) is not None
    check_outputs({"-o": asked.output}, {"SKETCHES": list(asked.sketches)}, table=is_table)
    found: SketchedBags | None = None
    for path in asked.sketches:
        one = load(path)
        if not isinstance(one, SketchedBags):
            raise click.UsageError(f"{path!r} holds {type(one).__name__}; give files that 'distembed sketch' wrote")
        found = one if found is None else found.merge(one)
    assert found is not None
    if is_table:
        rows = found.rows()
        bag = getattr(found.model, "table_", {}).get("bag", "bag")
        names = feature_names(found.model, rows.shape[1], bag)
        put_table({bag: found.ids_, **dict(zip(names, rows.T, strict=True))}, asked)
    else:
        save(found, asked.output)
    screen.line(f"{asked.output}: {found.n_bags:,} bags from {len(asked.sketches)} files", detail=True)
    sizes = {"n_bags": found.n_bags, "n_points": int(found.n_points_.sum())}
    screen.result({"command": "merge", "output": asked.output, **sizes})
