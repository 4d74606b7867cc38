"""``distembed explore``: what is in a table of bags, without labels, in one HTML file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from . import options as opt
from .app import Screen
from .results import check_outputs

_MOST_IN_MEMORY = 20_000_000  # values of points


@click.command("explore", epilog=opt.example("distembed explore weather.parquet --bag day -o weather.html"))
@opt.table
@opt.table_options()
@click.option("--labels", metavar="FILE", help="Table of factors, one row per bag. [default: TABLE]")
@opt.column(
    "--factors", of=("labels", "table"), several=True,
    help="Columns such as site or batch: how much of the differences does each explain?",
)  # fmt: skip
@opt.column("--labels-bag", of=("labels", "table"), help="Its column of bag ids. [default: that of --bag]")
@opt.labels_signs
@click.option(
    "--embedding", default="ranks", metavar="NAME",
    help="Features for map and groups: ranks, or a name of 'distembed info --methods'.",
)  # fmt: skip
@click.option("--n-groups", type=click.IntRange(min=1), metavar="K", help="Number of groups. [default: estimated]")
@click.option("--groups", type=click.Choice(["kmeans", "hdbscan"]), default="kmeans", help="Method of clustering.")
@click.option("--axes", type=click.Choice(["principal", "umap"]), default="principal", help="Axes of the map.")
@click.option("--bags", "bags_output", metavar="FILE", help="Also write a table of one row per bag: size, group, p.")
@opt.seed
@click.option("-o", "--output", required=True, metavar="FILE", help="The page, such as bags.html.")
@opt.spreadsheet_safe
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Explore the bags of a table without labels, in one HTML file that needs no network.

    The page shows sizes and columns, a map of the bags that is robust to outliers, groups and the columns in which
    they differ, odd bags with p-values given their size and the column that makes them odd, near duplicates, and how
    much factors and the size of the bags explain. A table that does not fit into memory is read twice, in batches.
    """
    check_outputs({"-o": asked.output}, {"TABLE": asked.table, "--labels": asked.labels})
    if asked.bags_output is not None:
        check_outputs({"--bags": asked.bags_output}, {"TABLE": asked.table, "--labels": asked.labels}, table=True)
    if asked.labels is not None and not asked.factors:
        raise click.UsageError("--labels is a table whose columns --factors must name; name some")
    from ..exploration import explore
    from ..exploration.rows import make_rows

    begin = perf_counter()
    points = opt.open_table(asked.table, asked.options)
    opt.note_left_out(points, screen)
    _check_factors(asked, points)
    try:
        make_rows("explore", asked.embedding)
    except ValueError as error:
        raise click.UsageError(str(error).replace("explore(embedding=...)", "--embedding")) from None
    large = (points.known_points or 0) * max(len(points.columns), 1) > _MOST_IN_MEMORY
    source: Any = points if large else opt.read_all(points, screen)
    factors = _factors(asked, points, source)
    with screen.bar("exploring"):
        found = explore(
            source,
            factors=factors,
            embedding=asked.embedding,
            n_groups=asked.n_groups or "auto",
            groups=asked.groups,
            axes=asked.axes,
            random_state=asked.seed,
        )
    seconds = perf_counter() - begin
    _write(found, asked, points.bag, seconds, screen)
    for line in found.summary["text"]:
        screen.line(line)
    screen.result({
        "command": "explore", "output": asked.output,
        **{name: value for name, value in found.summary.items() if name not in ("text", "oddest")},
        "oddest": [{"bag": name, "column": column, "p": p} for name, column, p in found.summary["oddest"]],
    })  # fmt: skip


def _check_factors(asked: opt.Asked, points: Any) -> None:
    """Refuse a factor that is a column of the points too, where it would explain itself."""
    own = [name for name in asked.factors or () if name in points.columns]
    if own:
        raise click.UsageError(f"{own[0]!r} is a factor, and a column of the points too; name those by --columns")


def _factors(asked: opt.Asked, points: Any, source: Any) -> dict[str, Any] | None:
    """Columns of factors, in the order of the bags."""
    if not asked.factors:
        return None
    import numpy as np

    from .covariates import Place, find_covariates

    place = Place(list(asked.table) if asked.labels is None else [asked.labels], asked.labels_bag or points.bag)
    ids = source.ids if source is not points else np.concatenate([batch.ids for batch in points.batches()])
    return find_covariates(list(asked.factors), [place], points, asked).of(ids)


def _write(found: Any, asked: opt.Asked, bag: str, seconds: float, screen: Screen) -> None:
    from .. import report
    from .results import free_name, open_writer

    run = {"command": shlex.join(["distembed", *sys.argv[1:]]), "seconds": f"{seconds:.1f}", "seed": asked.seed}
    with screen.bar("writing the page"):
        report.explore(found, asked.output, name=f"bags of {Path(asked.table[0]).name}", run=run)
    if asked.bags_output is None:
        return
    columns = {
        "size": found.sizes,
        "x": found.map.xy[:, 0],
        "y": found.map.xy[:, 1],
        "group": found.groups.labels + 1,
        "p": found.odd.pvalues,
        "oddness": found.odd.oddness,
        "odd_column": found.odd.odd_columns,
    }
    page, asked.output = asked.output, asked.bags_output
    with open_writer(asked) as writer:
        writer.add({bag: found.ids} | {free_name(name, {bag}): values for name, values in columns.items()})
    asked.output = page
