"""``distembed distances``: all pairs of bags, or the nearest ones."""

from __future__ import annotations

from typing import Any

import click

from . import options as opt
from .app import Screen
from .results import check_outputs, free_name, open_writer

# a block pays for a look at all bags
_LEAST_ROWS = 64
_MOST_BLOCKS = 32


@click.command(
    "distances", epilog=opt.example("distembed distances points.parquet --bag cluster --divergence tv --nearest 5")
)
@opt.table
@opt.table_options()
@click.option(
    "--divergence", type=opt.RegisteredName("kernels.comparisons", exact=False), default="js", metavar="NAME",
    help="Of densities or points; 'distembed info --methods' shows which there are.",
)  # fmt: skip
@opt.embedding(None, "Take distances of vectors instead, in time linear in the number of bags")
@click.option("--against", metavar="TABLE", help="Compare with the bags of another table. [default: with each other]")
@click.option("--nearest", type=click.IntRange(min=1), metavar="K", help="The K nearest bags of each, not the matrix.")
@opt.seed
@opt.output
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Squared distances between bags.

    The matrix has a row and a column for each bag. With --nearest there is a row for each bag and rank. Without
    --scale, points are scaled linearly to the unit cube where the distance asks for it, and else stay in their units;
    directions of divergences that differ are averaged.
    """
    check_outputs({"-o": asked.output}, {"TABLE": asked.table, "--against": asked.against}, table=True)
    for option in ("set", "marginals"):
        if getattr(asked, "settings" if option == "set" else option) and asked.embedding is None:
            raise click.UsageError(f"--{option} applies to an embedding; name one by --embedding, or leave it out")
    if asked.output is None and screen.as_json:
        raise click.UsageError("--json needs -o here, because distances are many; name a file")
    from ..bags.ids import canonical_text

    opt.check_takes_labels(asked, "none")
    points = opt.open_table(asked.table, asked.options)
    opt.note_left_out(points, screen)
    bags = opt.read_all(points, screen)
    others = None
    if asked.against is not None:
        asked.options.columns = points.file_columns
        asked.options.categorical = points.categorical or None
        others = opt.read_all(opt.open_table([asked.against], asked.options), screen)
    compare, scaler = _comparison(bags, asked)
    ids = bags.ids
    columns = bags.ids if others is None else others.ids
    if asked.nearest is not None and asked.nearest > len(columns) - (others is None):
        most = len(columns) - (others is None)
        raise click.UsageError(f"--nearest {asked.nearest}: there are only {most} other bags; choose a smaller number")
    rows, targets = (None if each is None else compare.look_at(scaler(each)) for each in (bags, others))
    heads = [free_name(name, {points.bag}) for name in canonical_text(columns).tolist()]
    with open_writer(asked) as writer, screen.bar("comparing", len(bags)) as bar:
        for block, d2 in _blocks(compare, rows, targets, bag_count=bags.n_bags):
            if asked.nearest is None:
                writer.add({points.bag: ids[block]} | {head: d2[:, j] for j, head in enumerate(heads)})
            else:
                writer.add(_nearest(d2, block, ids, columns, asked.nearest, points.bag, others is None))
            bar.advance(len(d2))
    if asked.output is not None:
        what = f"{asked.nearest} nearest of" if asked.nearest else f"{len(columns):,} squared distances of"
        screen.line(f"{asked.output}: {what} {bags.n_bags:,} bags each", detail=True)
        how = {name: getattr(asked, name) for name in ("output", "divergence", "embedding", "nearest")}
        how["divergence"] = None if asked.embedding else asked.divergence
        screen.result({"command": "distances", "n_bags": bags.n_bags, **how})


def _comparison(bags: Any, asked: opt.Asked) -> tuple[Any, Any]:
    """The comparison, fitted to these bags, and what brings bags into its units."""
    from ..embeddings import HDDEmbedding, MomentEmbedding
    from ..kernels.comparisons import Comparison, wants_cube
    from .settings import make_scaler, new_pipeline

    if asked.embedding is not None:
        return Comparison(new_pipeline(asked.embedding, asked, None), bags, "distances"), lambda each: each
    cube = wants_cube(asked.divergence)
    like: Any = HDDEmbedding() if cube else MomentEmbedding()  # in its needs
    scaler = make_scaler(asked.scale or ("linear" if cube else "none"), like)
    if scaler is None:
        return Comparison(asked.divergence, bags, "distances"), lambda each: each
    scaler.fit(bags)
    return Comparison(asked.divergence, scaler.transform(bags), "distances"), scaler.transform


def _blocks(compare: Any, rows: Any, targets: Any, bag_count: int) -> Any:
    """Rows of the matrix, some at a time: their places and squared distances."""
    step = max(_LEAST_ROWS, -(-bag_count // _MOST_BLOCKS))
    if targets is None and bag_count <= step:
        yield slice(0, bag_count), compare.both_ways(rows)
        return
    for first in range(0, bag_count, step):
        block = slice(first, min(first + step, bag_count))
        yield block, compare.both_ways(rows[block], rows if targets is None else targets)


def _nearest(d2: Any, block: slice, ids: Any, columns: Any, k: int, bag: str, same: bool) -> dict[str, Any]:
    import numpy as np

    d2 = d2.copy()
    if same:
        d2[np.arange(len(d2)), np.arange(block.start, block.stop)] = np.inf  # a bag is not its own neighbour
    order = np.argsort(d2, axis=1, kind="stable")[:, :k]
    found = {
        "rank": np.tile(np.arange(1, k + 1), len(d2)),
        "neighbour": columns[order].ravel(),
        "squared_distance": np.take_along_axis(d2, order, axis=1).ravel(),
    }
    return {bag: np.repeat(ids[block], k)} | {free_name(name, {bag}): values for name, values in found.items()}
