"""Options that commands share, and the checks of paths that are to be written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ._screen import Screen

__all__ = [
    "DIVERGENCES",
    "EMBEDDINGS",
    "TableOptions",
    "check_writable",
    "common",
    "embedding_options",
    "example",
    "jobs_option",
    "join_options",
    "label_options",
    "make_embedding",
    "output_option",
    "table_argument",
    "table_options",
]

Function = Callable[..., Any]

# Written out, because to ask the catalogue means to import NumPy and scikit-learn; a test compares.
EMBEDDINGS = (
    "js", "hellinger", "tv", "chi2", "l2", "l2-points", "mmd", "mmd-spectrum", "histogram-js", "histogram-chi2",
    "histogram-hellinger", "histogram-intersection", "codebook-js", "mean", "deviation", "covariance", "d3",
    "sliced-wasserstein", "bhattacharyya", "skl", "fisher",
)  # fmt: skip
DIVERGENCES = (
    "js", "hellinger", "tv", "chi2", "js_entropy", "mmd", "knn:kl", "knn:renyi:<a>", "knn:tsallis:<a>",
    "knn:hellinger", "knn:l2", "gaussian:hellinger", "gaussian:l2", "gaussian:kl", "gaussian:skl",
)  # fmt: skip


def _names(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names from ``a,b,c``, or from the option given several times."""
    found = tuple(name.strip() for part in value for name in part.split(",") if name.strip())
    return found or None


def _settings(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """Parameters from ``name=value``: numbers, true, false, none or text."""
    found: dict[str, Any] = {}
    for part in value:
        name, sign, text = part.partition("=")
        if not sign or not name.strip().isidentifier():
            raise click.BadParameter(f"{part!r} must be NAME=VALUE, such as n_basis=20", ctx, option)
        found[name.strip()] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def embedding_options(
    default: str | None = "js", text: str = "How bags become vectors"
) -> Callable[[Function], Function]:
    """``--embedding`` and ``--set``, the latter as a dict ``settings``."""

    def decorate(function: Function) -> Function:
        function = click.option(
            "--set",
            "settings",
            multiple=True,
            callback=_settings,
            metavar="NAME=VALUE",
            help="A parameter of the embedding, such as n_basis=20; may be given again.",
        )(function)
        return click.option(
            "--embedding",
            type=click.Choice(EMBEDDINGS),
            default=default,
            show_default=True,
            metavar="NAME",
            help=f"{text}: {', '.join(EMBEDDINGS)}.",
        )(function)

    return decorate


def make_embedding(name: str, settings: dict[str, Any]) -> Any:
    """An embedding of the catalogue with parameters of the user's."""
    from ..embeddings import available

    method = available()[name]
    known = method.make().get_params(deep=False)
    wrong = [each for each in settings if each not in known]
    if wrong:
        raise click.UsageError(f"--set {wrong[0]}: {name} has no such parameter; it has {', '.join(known)}")
    return method.make(**settings)


def _switch(name: str) -> Callable[[click.Context, click.Parameter, bool], bool]:
    def switch(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
        if value:
            setattr(ctx.find_root().command, name, True)
        return value

    return switch


def common(function: Function) -> Function:
    """``--json``, ``--quiet`` and ``--debug``; the function gets a :class:`Screen` first."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output, for machines.")
    @click.option("-q", "--quiet", is_flag=True, callback=_switch("quiet"), help="Print results and errors alone.")
    @click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_switch("debug"),
        help="Show where an error comes from.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, as_json: bool, quiet: bool, **options: Any) -> Any:
        return function(Screen(quiet=quiet, as_json=as_json), *args, **options)

    return wrapped


def table_argument(function: Function) -> Function:
    """The table of points: files, directories or globs."""
    return click.argument("table", nargs=-1, required=True, type=click.Path(path_type=str))(function)


class TableOptions:
    """What :class:`distembed.tables.BagTable` is told beside the files; None where the user did not say."""

    def __init__(
        self,
        bag: str | None,
        columns: tuple[str, ...] | None,
        weights: str | None,
        bag_type: str,
        delimiter: str | None,
        memory_limit: str,
        temp: str | None,
    ) -> None:
        self.bag, self.columns, self.weights = bag, columns, weights
        self.bag_type, self.delimiter = bag_type, delimiter
        self.memory_limit, self.temp = memory_limit, temp
        self.jobs: int | None = None


def table_options(remembered: str = "") -> Callable[[Function], Function]:
    """The options of a table of points, as one argument ``options``; columns may be remembered by something."""
    bag_required = not remembered
    remembered = f" [default: {remembered}]" if remembered else ""

    def decorate(function: Function) -> Function:
        @click.option("--bag", required=bag_required, metavar="COLUMN", help=f"Column of bag ids.{remembered}")
        @click.option(
            "--columns",
            multiple=True,
            callback=_names,
            metavar="A,B,...",
            help="Columns of coordinates." + (remembered or " [default: all columns of numbers]"),
        )
        @click.option("--weights", metavar="COLUMN", help=f"Column of point weights.{remembered or ' [default: none]'}")
        @click.option(
            "--bag-type",
            type=click.Choice(["auto", "integer", "text"]),
            default="auto",
            show_default=True,
            help="What ids are; text keeps 007 as it is.",
        )
        @click.option("--delimiter", metavar="SIGN", help="What stands between values in CSV. [default: a comma]")
        @click.option(
            "--memory-limit", default="1GB", show_default=True, help="Memory for sorting; beyond it, disk is used."
        )
        @click.option("--temp", metavar="FOLDER", help="Where sorting puts temporary files. [default: the system's]")
        @functools.wraps(function)
        def wrapped(*args: Any, **given: Any) -> Any:
            names = ("bag", "columns", "weights", "bag_type", "delimiter", "memory_limit", "temp")
            options = TableOptions(**{name: given.pop(name) for name in names})
            return function(*args, options=options, **given)

        return wrapped

    return decorate


def label_options(function: Function) -> Function:
    """The table of labels: ``--labels``, ``--label`` and ``--labels-bag``."""
    for option in (
        click.option("--labels-bag", metavar="COLUMN", help="Its column of bag ids. [default: that of --bag]"),
        click.option("--label", required=True, metavar="COLUMN", help="Its column of labels."),
        click.option("--labels", required=True, metavar="FILE", help="Table of labels, one row a bag."),
    ):
        function = option(function)
    return function


def join_options(unknown: str) -> Callable[[Function], Function]:
    """What becomes of bags without label and labels without bag."""

    def decorate(function: Function) -> Function:
        function = click.option(
            "--unknown",
            type=click.Choice(["error", "warn", "ignore"]),
            default=unknown,
            show_default=True,
            help="What becomes of a label without a bag.",
        )(function)
        return click.option(
            "--missing",
            type=click.Choice(["error", "drop"]),
            default="error",
            show_default=True,
            help="What becomes of a bag without a label.",
        )(function)

    return decorate


def jobs_option(function: Function) -> Function:
    """``--jobs``: threads of everything that the command does."""

    @click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Threads. [default: all cores]")
    @functools.wraps(function)
    def wrapped(*args: Any, jobs: int | None, **options: Any) -> Any:
        if jobs is None:
            return function(*args, **options)
        from threadpoolctl import threadpool_limits

        if isinstance(options.get("options"), TableOptions):
            options["options"].jobs = jobs
        with threadpool_limits(jobs):
            return function(*args, **options)

    return wrapped


def output_option(function: Function) -> Function:
    """``-o``: where the resulting table goes."""
    return click.option(
        "-o", "--output", metavar="FILE", help="CSV, Parquet, ... by its suffix. [default: CSV on standard output]"
    )(function)


def example(*lines: str) -> str:
    """Lines of examples at the end of a help page, not to be wrapped."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def check_writable(path: str | None, option: str = "-o") -> None:
    """Refuse a path that can't be written before any work is done."""
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise click.UsageError(f"{option} {path!r} is a directory; name a file in it")
    if not target.parent.is_dir():
        raise click.UsageError(f"{option} {path!r}: folder {str(target.parent)!r} does not exist; make it first")
