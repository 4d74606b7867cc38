"""``--workers`` and ``--scheduler``: fit, predict and embed by a cluster of Dask workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from . import options as opt
from .app import Screen

if TYPE_CHECKING:
    from ..cluster import ClusterTable
    from .fit_task import FitTask, Fitted

workers = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Work in N processes of this machine, by Dask."
)
scheduler = click.option(
    "--scheduler", metavar="ADDRESS", help="Work on the cluster of a Dask scheduler, such as tcp://host:8786."
)
checkpoint = click.option(
    "--checkpoint", metavar="FOLDER",
    help="With --workers or --scheduler: a folder that all workers see, or a URL, where sums are kept; the same "
    "command goes on from there.",
)  # fmt: skip


def wants_cluster(asked: opt.Asked) -> bool:
    """Whether the user asks for a cluster; options that have no meaning there are refused."""
    if asked.workers is None and asked.scheduler is None:
        if getattr(asked, "checkpoint", None) is not None:
            raise click.UsageError(
                "--checkpoint applies to --workers and --scheduler; leave it out, or add one of these"
            )
        return False
    if asked.workers is not None and asked.scheduler is not None:
        raise click.UsageError("--workers starts a cluster and --scheduler names one; give one of them")
    given = opt.given_options()
    options = asked.options
    alone = {"covariates", "covariates_from", "out_of_core", "restart", "temp_directory", "memory_limit", "jobs"}
    wrong = [option for name, option in given.items() if name in alone]
    wrong += ["--categorical"] if options.categorical is not None else []
    wrong += ["--nan"] if options.nan not in (None, "error") else []
    if wrong:
        raise click.UsageError(f"{wrong[0]} is not for {_how(asked)}; leave one of them out")
    return True


def _how(asked: opt.Asked) -> str:
    return "--workers" if asked.scheduler is None else "--scheduler"


@contextmanager
def client_of(asked: opt.Asked, screen: Screen) -> Iterator[Any]:
    """A client of the cluster that the user asks for; a note has the address where it can be watched."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(f"{_how(asked)} needs distributed: pip install 'distembed[cluster]'") from error
    if asked.scheduler is not None:
        try:
            client = Client(asked.scheduler, timeout=30)
        except OSError:
            raise click.UsageError(
                f"--scheduler {asked.scheduler!r}: nothing answers there; check the address"
            ) from None
        with client:
            _show_workers(client, screen)
            yield client
        return
    how = {"n_workers": asked.workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    # Dask's profiler takes time, and before Python 3.11.8 it may stop a process for good.
    no_profiler = dask.config.set({"distributed.worker.profile.enabled": False})
    with no_profiler, LocalCluster(**how) as local, Client(local) as client:
        _show_workers(client, screen)
        yield client


def _show_workers(client: Any, screen: Screen) -> None:
    n = len(client.scheduler_info(n_workers=-1)["workers"])
    screen.note(f"{n} worker{'' if n == 1 else 's'}; dashboard: {client.dashboard_link}")


def open_table(asked: opt.Asked) -> ClusterTable:
    """The table of points in parts."""
    from ..cluster import open as open_parts

    options = asked.options
    source = asked.table
    if options.bag is None:
        raise click.UsageError("--bag is missing, and the model does not remember one; name the column of bag ids")
    names = ("bag", "columns", "weights", "bag_type", "delimiter", "decimal")
    how = {name: getattr(options, name) for name in names}
    return open_parts(source[0] if len(source) == 1 else list(source), **how)


def check_folder(asked: opt.Asked) -> None:
    """Refuse a file where parts are to be written."""
    from ..tables.formats import format_of

    if asked.output in (None, "-") or format_of(str(asked.output)) is not None:
        raise click.UsageError(f"-o must be a folder with {_how(asked)}, such as results/: each part writes a file")


def fit_by_cluster(task: FitTask, asked: opt.Asked, screen: Screen) -> Fitted:
    """Fit to the bags of a table that are not kept out; score, calibrate, and learn from all, on the client."""
    from ..cluster import fit
    from ..tables import LabelTable
    from .fit_task import Fitted

    asked.options.bag = task.table.bag
    asked.options.columns = task.table.file_columns
    table = open_table(asked)
    start = perf_counter()
    with client_of(asked, screen) as client, screen.bar("surveying parts") as bar:
        survey = table.survey(client, bar)
        ids, y, groups, out = task.labelled(survey.ids)
        by = None if groups is None else dict(zip(ids.tolist(), groups.tolist(), strict=True))
        seconds = {"surveying parts": perf_counter() - start}
        start = perf_counter()
        labels = LabelTable(ids[~out], y[~out])
        model = fit(
            task.model, table, labels, client=client, missing="drop", groups=by, checkpoint=asked.checkpoint,
            covariates=None if task.covariates is None else task.covariates.table, progress=bar,
        )  # fmt: skip
        seconds["learning"] = perf_counter() - start
        model.table_ = task.model.table_
        fitted = Fitted(model, len(y), int(survey.sizes.sum()), seconds=seconds, n_unlabelled=len(survey.ids) - len(y))
        if out.any():
            bags = table.take(ids[out], survey, client)
            own = None if groups is None else groups[out]
            fitted.use_kept_out(bags, y[out], own, task.coverage, bar, task.covariates_of(ids[out]))
    return fitted


def write_by_cluster(how: str, model: Any, asked: opt.Asked, screen: Screen, covariates: Any = None) -> None:
    """Predictions or vectors of all bags, in a folder; an embedding is fitted to some bags where no model is given."""
    from .. import cluster
    from ..cluster.fitting import sample_of
    from .settings import new_pipeline

    check_folder(asked)
    table = open_table(asked)
    with client_of(asked, screen) as client, screen.bar("surveying parts") as bar:
        if model is None:
            survey = table.survey(client, bar)
            some = survey.ids[sample_of(survey.ids, asked.fit_bags, asked.seed)]
            model = new_pipeline(asked.embedding, asked, asked.components).fit(table.take(some, survey, client))
            model.table_ = {"bag": table.bag, "columns": list(table.columns), "weights": table.weights}
        options = {"std": asked.std, "covariates": covariates} if how == "predict" else {}
        files = getattr(cluster, how)(model, table, asked.output, client=client, progress=bar, **options)
    if how == "embed" and asked.save_model is not None:
        from ..files import save

        save(model, asked.save_model)
    screen.line(f"{asked.output}: {len(files)} files", detail=True)
    screen.result({"command": how, "output": asked.output, "files": files})
