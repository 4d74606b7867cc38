"""``distembed embed``: a vector for every bag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import by_cluster
from . import options as opt
from .app import Screen
from .models import check_one_embedding, learner_of, load_model, table_of_model
from .results import check_outputs, open_writer

if TYPE_CHECKING:
    from ..bags import Bags
    from ..tables import BagTable


@click.command("embed", epilog=opt.example("distembed embed points.parquet --bag cluster -o features.parquet"))
@opt.table
@opt.table_options("that of --model")
@opt.embedding()
@click.option(
    "--components", type=click.IntRange(min=2), metavar="D", help="Make D random features of it. [default: none]"
)
@click.option("--model", metavar="FILE", help="Use a fitted model or embedding instead of fitting one.")
@click.option("--save-model", metavar="FILE", help="Write the fitted embedding, for --model.")
@click.option(
    "--fit-bags", type=click.IntRange(min=2), default=2000,
    help="Choose box and bandwidth from at most this many bags, drawn at random.",
)  # fmt: skip
@opt.seed
@opt.output
@by_cluster.workers
@by_cluster.scheduler
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Turn the bags of a table into vectors whose distances approximate those of the bags.

    The result has the bag's id and one column per feature; in an .h5ad file donors are rows, and features X. The
    table is read in batches, in bounded memory; with --workers or --scheduler, -o is a folder, and each part of the
    table a Parquet file in it. Without --scale, points are scaled linearly to the unit cube if the embedding
    needs it, and otherwise stay in their units.
    """
    if by_cluster.wants_cluster(asked):
        by_cluster.check_folder(asked)
        fitted = None if asked.model is None else named_model(asked, "embed")
        if fitted is not None:
            table_of_model(fitted, asked.table, asked.options)
        by_cluster.write_by_cluster("embed", fitted, asked, screen)
        return
    written = {"-o": asked.output, "--save-model": asked.save_model}
    check_outputs(written, {"TABLE": asked.table, "--model": asked.model}, table=True, h5ad=True)
    if asked.output is None and screen.as_json:
        raise click.UsageError("--json needs -o here, because features are many; name a file")
    fitted, points = model_and_table(asked, screen, "embed")
    learner = learner_of(fitted)
    transform = getattr(learner, "transform_features", None) or getattr(learner, "transform", None)
    if transform is None:
        raise click.UsageError(
            f"{asked.model!r} holds {type(fitted).__name__}, which makes no features; give another model"
        )
    n_features = 0
    with open_writer(asked, as_features=True) as writer, opt.counted_batches(points, screen, "embedding") as batches:
        for bags in batches:
            features: Any = transform(bags)
            n_features = features.shape[1]
            names = feature_names(fitted, n_features, points.bag)
            writer.add({points.bag: bags.ids, **dict(zip(names, features.T, strict=True))})
    if asked.save_model is not None:
        from ..files import save

        save(fitted, asked.save_model)
    if asked.output is not None:
        screen.line(f"{asked.output}: {n_features:,} features of {writer.n_rows:,} bags", detail=True)
        sizes = {"n_bags": writer.n_rows, "n_features": n_features}
        screen.result({"command": "embed", "output": asked.output, **sizes, "model": asked.save_model or asked.model})


def model_and_table(asked: opt.Asked, screen: Screen, what: str) -> tuple[Any, BagTable]:
    """The model that the user names, or an embedding that is fitted to some bags of the table; and the table."""
    from .settings import new_pipeline

    if asked.model is not None:
        fitted = named_model(asked, what)
        return fitted, table_of_model(fitted, asked.table, asked.options)
    opt.check_takes_labels(asked, "none")
    points = opt.open_table(asked.table, asked.options)
    opt.note_left_out(points, screen)
    some = _sample(points, asked.fit_bags, asked.seed, screen)
    fitted = new_pipeline(asked.embedding, asked, asked.components).fit(some)
    fitted.table_ = opt.table_facts(points, asked.options)
    return fitted, points


def named_model(asked: opt.Asked, what: str) -> Any:
    """The model of ``--model``, or that of a file of sketches."""
    for name in ("embedding", "settings", "marginals", "scale", "components", "fit_bags"):
        if name in (given := opt.given_options()):
            raise click.UsageError(
                f"{given[name]} applies to an embedding that is fitted here; leave out either it or --model"
            )
    fitted = load_model(asked.model)
    fitted = fitted.model if hasattr(fitted, "means_") and hasattr(fitted, "model") else fitted  # of sketches
    check_one_embedding(learner_of(fitted), asked.model, what)
    return fitted


def _sample(table: BagTable, most: int, seed: int, screen: Screen) -> Bags:
    """At most n bags, drawn evenly from all, in one pass."""
    import numpy as np

    from ..bags import concat

    rng = np.random.default_rng(seed)
    kept: Bags | None = None
    keys = np.empty(0)
    with opt.counted_batches(table, screen, "drawing bags") as batches:
        for bags in batches:
            keys = np.concatenate([keys, rng.uniform(size=bags.n_bags)])
            kept = bags if kept is None else concat([kept, bags])
            chosen = np.sort(np.argsort(keys, kind="stable")[:most])
            if len(chosen) < len(keys):
                kept = kept[chosen]
                keys = keys[chosen]
    assert kept is not None  # a table without rows is an error
    return kept


def feature_names(model: Any, n: int, bag: str) -> list[str]:
    """Names of features, none of them that of the bag."""
    found = [str(name) for name in model.get_feature_names_out()] if hasattr(model, "get_feature_names_out") else []
    if len(found) != n or len(set(found)) != n or bag in found:
        return [f"{'feature' if bag != 'feature' else 'f'}_{j}" for j in range(n)]
    return found
