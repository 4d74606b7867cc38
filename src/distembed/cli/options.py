"""Options that commands share, what they open (tables of points, of labels), and columns for the Tab key.

Help must not load NumPy: what needs it is imported when a command runs, or when Tab asks for names of columns, which
are read from the header of the table that the command line names so far.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from .app import Screen, in_options

if TYPE_CHECKING:
    from ..bags import Bags
    from ..tables import BagTable, LabelTable


Function = Callable[..., Any]

BATCH_POINTS = 1_000_000
_NAME = re.compile(r'\s*("[^"]*"|[^,]*?)\s*(?:,|$)')  # of a column, among others
TYPES_OF_IDS = click.Choice(["auto", "integer", "text"])
_DECIMALS = click.Choice([".", ","])

seed = click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of all random draws.")
spreadsheet_safe = click.option(
    "--spreadsheet-safe", is_flag=True,
    help="In CSV, put a quote before text that a spreadsheet would run as a formula, such as =1+1.",
)  # fmt: skip
plot = click.option("--plot", metavar="FILE", help="Draw predicted against true, or the confusion matrix, to a PNG.")
classify = click.option(
    "--classify/--regress", default=None, help="Treat labels as classes, or as numbers. [default: text is classes]"
)
table = click.argument("table", nargs=-1, required=True, type=click.Path(path_type=str))


def output(function: Function) -> Function:
    """``-o`` and ``--spreadsheet-safe`` of a table."""
    text = "CSV, Parquet, ... by its suffix. [default: CSV on standard output]"
    return click.option("-o", "--output", metavar="FILE", help=text)(spreadsheet_safe(function))


def csv_signs(function: Function) -> Function:
    """``--delimiter`` and ``--decimal`` of CSV."""
    text = "Separator of values in CSV. [default: a comma; a semicolon with --decimal ,]"
    function = click.option("--decimal", type=_DECIMALS, default=".", help="Decimal sign of numbers in CSV.")(function)
    return click.option("--delimiter", metavar="SIGN", help=text)(function)


def column(*words: str, of: tuple[str, ...] = ("table",), several: bool = False, **more: Any) -> Function:
    """An option that names a column, or several, of tables by the names of their parameters; Tab completes them."""

    def complete(ctx: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return column_items(ctx, of, several, incomplete)

    if several:
        more |= {"multiple": True, "callback": column_names, "metavar": "A,B,..."}
    made: Function = click.option(*words, shell_complete=complete, **{"metavar": "COLUMN", **more})
    return made


def _combine(*options: Function) -> Function:
    """Options that come together, in this order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def given_options() -> dict[str, str]:
    """The options that the user has given, by the names of their values."""
    context = click.get_current_context()
    return {
        str(parameter.name): parameter.opts[-1]
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT
    }


def example(*lines: str) -> str:
    """Lines of examples at the end of a help page, not to be wrapped."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def _switch(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
    if value:
        setattr(ctx.find_root().command, str(option.name), True)
    return value


class Asked(SimpleNamespace):
    """What the user has asked for, by the names of arguments and options."""


def common(function: Function) -> Function:
    """``--json``, ``--quiet`` and ``--debug``; the function gets a :class:`Screen` and what was asked for."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output, for machines.")
    @click.option("-q", "--quiet", is_flag=True, callback=_switch, help="Print only results and errors.")
    @click.option(
        "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_switch,
        help="Show the traceback of an error.",
    )  # fmt: skip
    @functools.wraps(function)
    def wrapped(as_json: bool, quiet: bool, **asked: Any) -> Any:
        return function(Screen(quiet=quiet, as_json=as_json), Asked(**asked))

    return wrapped


def jobs(function: Function) -> Function:
    """``--jobs``: threads of everything that the command does."""

    @click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Threads. [default: all cores]")
    @functools.wraps(function)
    def wrapped(*args: Any, jobs: int | None, **options: Any) -> Any:
        from threadpoolctl import threadpool_limits

        options["options"].threads = jobs
        with threadpool_limits(jobs):  # none of them for None
            return function(*args, **options)

    return wrapped


# --------------------------------------------------------------------------------------------------------------
# Embeddings
# --------------------------------------------------------------------------------------------------------------


class RegisteredName(click.ParamType):  # type: ignore[type-arg]  # no class of that kind in click 8.1
    """A name of a registry, which is loaded when a name is to be looked up or completed.

    Parameters
    ----------
    module : str
        Where its ``available()`` is.
    exact : bool
        Whether other names are refused here; else the library decides, which accepts names such as ``knn:renyi:0.9``.
    more : tuple of str
        Names that are not in the registry.
    rows : bool
        Whether rows of a leaderboard, ``"view, head"``, are names too, which the library checks.
    """

    name = "name"

    def __init__(self, module: str, exact: bool = True, more: tuple[str, ...] = (), rows: bool = False) -> None:
        self._module = module
        self._exact = exact
        self._more = more
        self._rows = rows

    def _known(self) -> Any:
        return import_module(f"..{self._module}", __package__).available()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse a name that is not registered, unless something else is being completed."""
        judged = self._exact and not (ctx is not None and ctx.resilient_parsing)
        judged = judged and not (self._rows and ", " in value)
        if judged and value not in self._more and value not in self._known():
            self.fail(f"{value!r} is not one of {', '.join(map(repr, [*self._more, *self._known()]))}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(name) for name in [*self._more, *self._known()] if name.startswith(incomplete)]


def _settings(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """Parameters from ``name=value``."""
    if not value or ctx.resilient_parsing:
        return {}
    from .settings import settings

    return settings(ctx, option, value)


def _marginals(ctx: click.Context, option: click.Parameter, value: str | None) -> str | int | None:
    """``each``, ``pairs`` or a number of directions."""
    if value in (None, "each", "pairs"):
        return value
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise click.BadParameter(f"{value!r} must be 'each', 'pairs' or a number of random directions", ctx, option)


def embedding(
    default: str | None = "js", text: str = "How bags become vectors", more: tuple[str, ...] = ()
) -> Function:
    """``--embedding``, ``--set`` as a dict ``settings``, ``--marginals`` and ``--scale``."""
    names = RegisteredName("embeddings", more=more, rows="auto" in more)
    known = "'distembed info --methods' shows which there are."
    return _combine(
        click.option("--embedding", type=names, default=default, metavar="NAME", help=f"{text}; {known}"),
        click.option(
            "--set", "settings", multiple=True, callback=_settings, metavar="NAME=VALUE",
            help="A parameter of the embedding, such as n_basis=20 or nodes='Sobol(4096)'; may be given again.",
        ),
        click.option(
            "--marginals", callback=_marginals, metavar="each|pairs|K",
            help="Embed each coordinate, each pair, or K random directions, instead of all coordinates together.",
        ),
        click.option(
            "--scale", type=click.Choice(["auto", "linear", "asinh", "rank", "sigmoid", "standardize", "none"]),
            help="How points are scaled: to the unit cube, linearly or not, or to deviation one.",
        ),
    )  # fmt: skip


def are_candidates(embedding: str | None) -> bool:
    """Whether ``--embedding`` asks for candidates of an ensemble, all of them or one by the name of its row."""
    return embedding == "auto" or ", " in (embedding or "")


def check_takes_labels(asked: Asked, usual_scale: str) -> None:
    """Refuse categorical columns for embeddings that don't take them, before any table is read.

    If points are standardized, each label becomes a column of 0 and 1, which any embedding takes.
    """
    from ..embeddings import available

    if asked.options.categorical is None or are_candidates(asked.embedding):
        return
    method = None if asked.embedding is None else available()[asked.embedding]
    scale = asked.scale or usual_scale
    standardized = scale == "standardize" or (scale == "auto" and (method is None or method.units == "any"))
    if standardized or getattr(getattr(method, "kind", None), "takes_categories", False):
        return
    what = "--divergence compares" if method is None else f"--embedding {method.name} takes"
    both = method is None or method.units == "any"
    remedy = f"add --embedding js{' or --scale standardize, which take' if both else ', which takes'} labels too"
    raise click.UsageError(f"{what} numerical columns only; {remedy}, or leave out --categorical")


# --------------------------------------------------------------------------------------------------------------
# Tables of points
# --------------------------------------------------------------------------------------------------------------


@dataclass
class TableOptions:
    """What :func:`distembed.tables.open_bags` takes besides the files; None where the user gave nothing."""

    bag: str | None = None
    columns: tuple[str, ...] | None = None
    weights: str | None = None
    bag_type: str = "auto"
    delimiter: str | None = None
    decimal: str = "."
    memory_limit: str = "1GB"
    temp_directory: str | None = None
    threads: int | None = None
    nan: Any = None
    categorical: Any = None
    rep: str | None = None
    layer: str | None = None
    cofactor: float | None = None
    compensate: bool | None = None


def column_names(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names from ``a,b,c``, or from the option given several times; those in double quotes are as they stand.

    Examples
    --------
    >>> column_names(None, None, ('x, "height, cm"', '" y "'))
    ('x', 'height, cm', ' y ')
    """
    found = (match.group(1) for part in value for match in _NAME.finditer(part))
    names = (name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name for name in found)
    return tuple(name for name in names if name) or None


def table_options(remembered: str = "") -> Function:
    """The options of a table of points, as one argument ``options``; columns may be remembered by something."""
    usual = f" [default: {remembered}]" if remembered else ""

    def decorate(function: Function) -> Function:
        none = usual or " [default: none]"

        @column("--bag", help=f"Column of bag ids, or several: date,origin; FCS files need none.{usual}")
        @column(
            "--columns", several=True,
            help="Columns of coordinates; double quotes keep commas and spaces of a name."
            + (usual or " [default: all columns of numbers]"),
        )  # fmt: skip
        @column("--categorical", several=True, help=f"Categorical columns to use as coordinates too.{none}")
        @column("--weights", help=f"Column of point weights.{none}")
        @click.option("--bag-type", type=TYPES_OF_IDS, default="auto", help="Type of ids; text keeps 007 as it is.")
        @click.option(
            "--nan", type=click.Choice(["error", "drop", "indicator"]),
            help="Missing values: raise an error, drop the points, or impute with indicator columns."
            + (usual or " [default: error]"),
        )  # fmt: skip
        @click.option("--rep", metavar="KEY", help=f"For .h5ad files: coordinates from obsm.{usual or ' [default: X]'}")
        @click.option("--layer", metavar="KEY", help=f"For .h5ad files: a layer instead of X.{none}")
        @click.option(
            "--cofactor", type=click.FloatRange(min=0, min_open=True), metavar="C",
            help=f"For FCS files: transform to asinh(x / C).{usual or ' [default: x]'}",
        )  # fmt: skip
        @click.option(
            "--compensate/--no-compensate", default=None,
            help=f"Of FCS files: undo spill-over by $SPILLOVER.{usual or ' [default: where a file has it]'}",
        )  # fmt: skip
        @csv_signs
        @click.option("--memory-limit", default="1GB", help="Memory for sorting; larger tables are sorted on disk.")
        @click.option(
            "--temp", "temp_directory", metavar="FOLDER",
            help="Folder for temporary files of sorting. [default: the system's]",
        )  # fmt: skip
        @functools.wraps(function)
        def wrapped(*args: Any, **given: Any) -> Any:
            own = {name: given.pop(name) for name in vars(TableOptions()) if name in given}
            return function(*args, options=TableOptions(**own), **given)

        made: Function = wrapped
        return made

    return decorate


def open_table(source: Sequence[str], options: TableOptions) -> BagTable:
    """The table of points: a long table, an .h5ad file or FCS files."""
    from ..tables import open_bags
    from ..tables.cell_files import cell_file_kind

    if options.bag is None and cell_file_kind(list(source)) == "FCS":
        options.bag = "file"
    if options.bag is None:
        raise click.UsageError("--bag is missing, and no model remembers one; name the column of bag ids")
    given = {**vars(options), "nan": options.nan or "error"}
    return open_bags(source[0] if len(source) == 1 else list(source), **given)


def note_left_out(table: BagTable, screen: Screen) -> None:
    """Note which columns are not used as coordinates, and why, unless the user has named those that are."""
    from ..bags.coordinates import left_out_text

    if table.left_out:
        screen.note(in_options(UserWarning(left_out_text(table.columns, table.left_out))))


def table_facts(table: BagTable, options: TableOptions) -> dict[str, Any]:
    """What a model remembers of its table, so new ones are read alike."""
    named = {"bag": table.bag, "columns": list(table.file_columns), "weights": table.weights}
    more: dict[str, Any] = {"nan": table.nan, "categorical": table.categorical, "rep": options.rep}
    more |= {name: getattr(options, name) for name in ("layer", "cofactor", "compensate")}
    return named | {name: value for name, value in more.items() if value not in (None, "error", {})}


@contextmanager
def counted_batches(table: BagTable, screen: Screen, doing: str) -> Iterator[Iterator[Bags]]:
    """Batches of a table, under a bar that counts their points."""
    from ..compute.checks import in_pieces

    pieces = in_pieces((table.known_points or 0) / BATCH_POINTS)
    with screen.bar(doing, table.known_points, "points") as bar, pieces:

        def counted() -> Iterator[Bags]:
            for bags in table.batches(max_points=BATCH_POINTS):
                yield bags
                bar.advance(bags.n_points)

        yield counted()


def read_all(table: BagTable, screen: Screen) -> Bags:
    """All bags, in memory."""
    from ..bags import concat

    with counted_batches(table, screen, "reading") as batches:
        parts = list(batches)
    return parts[0] if len(parts) == 1 else concat(parts)


# --------------------------------------------------------------------------------------------------------------
# Labels
# --------------------------------------------------------------------------------------------------------------


def labels(default: str) -> Function:
    """The options of a table of labels; that of points may have them."""
    return _combine(
        click.option(
            "--labels",
            metavar="FILE",
            help=f"Table of labels, one row per bag or per point, or .h5ad. [default: {default}]",
        ),
        column("--label", of=("labels", "table"), required=True, help="Its column of labels, one value per bag."),
        column("--labels-bag", of=("labels", "table"), help="Its column of bag ids. [default: that of --bag]"),
        labels_signs,
    )


def labels_signs(function: Function) -> Function:
    """``--labels-delimiter`` and ``--labels-decimal``: of tables of labels, or of covariates."""
    usual = "of the table of labels, or of covariates. [default: that of --"
    function = click.option("--labels-decimal", type=_DECIMALS, help=f"Decimal sign {usual}decimal]")(function)
    return click.option("--labels-delimiter", metavar="SIGN", help=f"Delimiter {usual}delimiter]")(function)


def reading_of_labels(asked: Asked, points: Any) -> dict[str, Any]:
    """How a table of labels, or of covariates, is read: as that of points, unless the user chooses otherwise."""
    signs = {name: getattr(asked, f"labels_{name}") or getattr(points, name) for name in ("delimiter", "decimal")}
    return {"bag_type": points.bag_type, **signs}


def covariates_from(usual: str, *also: str) -> Function:
    """The table of covariates, by this name and others."""
    text = f"Table with the covariates, one row per bag. [default: {usual}]"
    return click.option("--covariates-from", *also, "covariates_from", metavar="FILE", help=text)


def join(unknown: str) -> Function:
    """Options for bags without a label and labels without a bag."""
    drop = click.Choice(["error", "drop"])
    ignore = click.Choice(["error", "warn", "ignore"])
    return _combine(
        click.option("--missing", type=drop, default="error", help="How to handle a bag without a label."),
        click.option("--unknown", type=ignore, default=unknown, help="How to handle a label without a bag."),
    )


def empty(where: str) -> Function:
    """Whether ids without points are empty bags."""
    text = f"Treat ids of {where} without points as empty bags, which have a label and no points."
    return click.option("--empty", is_flag=True, help=text)


OPTIONS_OF_LABELS = {"bag": "--labels-bag", "delimiter": "--labels-delimiter", "decimal": "--labels-decimal"}


class Labels(NamedTuple):
    """Labels of bags, and where they come from."""

    table: LabelTable
    where: str  # file and column of ids, for messages


def open_labels(asked: Asked, table: Sequence[str], points: Any, bag: str, label: str, classes: bool | None) -> Labels:
    """A column of the table of labels, or else of `table`, or of obs in an .h5ad file; its values may be classes.

    `points` has how the table of points, or of predictions, is read.
    """
    from ..tables import TableError, read_labels
    from ..tables.cell_files import cell_file_kind, obs_labels

    source = list(table) if asked.labels is None else [asked.labels]
    where = f"{source[0]!r}{f' and {len(source) - 1} more' if len(source) > 1 else ''}, column {bag!r}"
    kind = cell_file_kind(source)
    how = reading_of_labels(asked, points)
    if asked.labels is None and kind != "AnnData":
        how = {name: getattr(points, name) for name in how}
        _check_has_labels(source, kind, label, how)
    try:
        if kind == "AnnData":
            return Labels(obs_labels(source, bag=bag, label=label, classes=classes), where)
        found = read_labels(source, bag=bag, label=label, classes=classes, missing=asked.missing, **how)
    except (TableError, ValueError) as error:
        raise TableError(in_options(error, **({} if asked.labels is None else OPTIONS_OF_LABELS))) from None
    return Labels(found, where)


def _check_has_labels(source: list[str], kind: str | None, label: str, how: dict[str, Any]) -> None:
    """Refuse a table of points, or of predictions, without the column of labels."""
    from ..compute.checks import closest_name
    from ..tables.files import list_files, read_schema
    from ..tables.formats import Reading

    names: Sequence[str] = ()
    if kind != "FCS":
        names = read_schema(list_files(source)[0], Reading(how["delimiter"], how["decimal"]), None).names
    if label not in names:
        near = closest_name(label, names)
        hint = f"did you mean {near!r}?" if near else "name the table of labels"
        raise click.UsageError(f"--labels is missing, and {source[0]!r} has no column {label!r}; {hint}")


# --------------------------------------------------------------------------------------------------------------
# Names of columns for the Tab key
# --------------------------------------------------------------------------------------------------------------


def column_items(ctx: click.Context, tables: Sequence[str], several: bool, incomplete: str) -> list[CompletionItem]:
    """Columns whose names begin so, of the first of these parameters that names a table that is there.

    Of `several`, with commas between them, the last is completed, and those before it are not offered again. A table
    that can't be read has none: completion reports no errors. Names that a terminal would obey are not offered.
    """
    before, _, word = incomplete.rpartition(",") if several else ("", "", incomplete)
    given = (_given(ctx, name) for name in tables)
    sources = [[each] if isinstance(each, str) else list(each) for each in given if each]
    done = set(before.split(","))
    begin = f"{before}," if before else ""
    for source in sources:
        try:
            names = _columns(source, ctx)
        except Exception:
            continue
        quoted = {name: f'"{name}"' if several and ("," in name or name != name.strip()) else name for name in names}
        offered = [name for name in names if name.startswith(word) and name not in done and name.isprintable()]
        return [CompletionItem(begin + quoted[name]) for name in offered]
    return []


def _given(ctx: click.Context, name: str) -> str | Sequence[str] | None:
    """What the command line has so far for a parameter; arguments wait in ``ctx.args`` while an option has no value."""
    if ctx.params.get(name):
        return ctx.params[name]  # type: ignore[no-any-return]
    arguments = [each for each in ctx.command.params if isinstance(each, click.Argument)]
    for place, each in enumerate(arguments):
        if each.name == name:
            return ctx.args[place : place + 1] if each.nargs == 1 else ctx.args[place:]
    return None


def _columns(source: list[str], ctx: click.Context) -> Sequence[str]:
    """Names of the columns of a table; of .h5ad files variables and columns of obs, of FCS files channels."""
    from ..tables.cell_files import cell_file_kind
    from ..tables.files import list_files, read_schema
    from ..tables.formats import Reading

    kind = cell_file_kind(source)
    if kind == "AnnData":
        from ..bags.anndata import contents

        found = contents(Path(source[0]))
        return [*found.obs, *found.variables]
    if kind == "FCS":
        from ..tables import open_bags

        return open_bags(source, bag="file").columns
    how = Reading(ctx.params.get("delimiter"), ctx.params.get("decimal") or ".")
    return read_schema(list_files(source)[0], how, None).names
