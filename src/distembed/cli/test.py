"""``distembed test``: whether groups of bags differ, inside strata and given covariates."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from . import options as opt
from .app import Screen
from .results import check_outputs, put_table

_Answer = tuple[dict[str, Any], dict[str, Any]]  # columns of the table, and what --json has


@click.command(
    "test",
    epilog=opt.example(
        "distembed test cells.parquet --bag patient --labels patients.csv --label status --strata hospital"
    ),
)
@opt.table
@opt.table_options()
@click.option(
    "--labels", metavar="FILE", help="Table of factors, strata and covariates, one row per bag. [default: TABLE]"
)
@opt.column(
    "--label", of=("labels", "table"), several=True, required=True,
    help="Its column of groups, or several factors: each is tested given the others.",
)  # fmt: skip
@opt.column("--labels-bag", of=("labels", "table"), help="Its column of bag ids. [default: that of --bag]")
@opt.labels_signs
@opt.column("--strata", of=("labels", "table"), help="Column of site, batch or patient: bags change places inside it.")
@opt.column("--covariates", of=("labels", "table"), several=True, help="Columns that are adjusted for, such as age.")
@opt.column("--units", of=("labels", "table"), help="Column of units whose bags count as one, such as patients.")
@click.option(
    "--divergence", type=opt.RegisteredName("kernels.comparisons", exact=False), default="mmd", metavar="NAME",
    help="Of densities or points; 'distembed info --methods' shows which there are.",
)  # fmt: skip
@click.option("--match-sizes", is_flag=True, help="Draw points until two groups have the same distribution of sizes.")
@click.option("--permutations", type=click.IntRange(min=1), default=999, help="How many.")
@click.option("--columns-too", is_flag=True, help="Test each column of the points as well, for two groups.")
@opt.seed
@click.option("-o", "--output", metavar="FILE", help="A table of the factors. [default: none]")
@opt.spreadsheet_safe
@opt.jobs
@opt.common
def command(screen: Screen, asked: opt.Asked) -> None:
    """Test whether groups of bags differ, by permutations of whole bags.

    A column of labels with two values is a test of two groups. More values, numbers, and several columns are an
    analysis of variance on distances: for each factor the share of all differences that it explains beyond the others,
    and its p-value. With --strata bags change places inside strata alone, and differences between strata are removed.
    """
    check_outputs({"-o": asked.output}, {"TABLE": asked.table, "--labels": asked.labels}, table=True)
    points = opt.open_table(asked.table, asked.options)
    opt.note_left_out(points, screen)
    _leave_out(asked, points)
    bags = opt.read_all(points, screen)
    factors, strata, units, covariates = _design(asked, points, bags)
    design = {"strata": strata, "units": units, "covariates": covariates}
    groups = _two_groups(factors)
    found: dict[str, Any] = {"command": "test", "n_bags": bags.n_bags, "divergence": asked.divergence}
    if groups is None:
        table, more = _test_factors(bags, factors, design, asked, screen)
    else:
        table, more = _test_groups(bags, groups, design, asked, screen)
    if asked.output is not None:
        put_table(table, asked)
        found["output"] = asked.output
    screen.result(found | more)


class _Groups(NamedTuple):
    """Two values of a label, and the bags of each."""

    label: str
    values: tuple[Any, Any]
    rows: tuple[Any, Any]


def _test_groups(bags: Any, groups: _Groups, design: dict[str, Any], asked: opt.Asked, screen: Screen) -> _Answer:
    """The test of two groups, and of each column."""
    from ..two_sample import groups_test, which_coordinates

    rows = groups.rows
    drawn: Any = {"n_permutations": asked.permutations, "random_state": asked.seed}
    given: Any = {key: None if each is None else _reordered(each, rows) for key, each in design.items()}
    if asked.columns_too and any(each is not None for each in given.values()):
        raise click.UsageError("--columns-too takes no strata, units or covariates; leave one of them out")
    first, second = (bags[each] for each in rows)
    with screen.bar("permuting"):
        answer = groups_test(first, second, asked.divergence, match_sizes=asked.match_sizes, **given, **drawn)
    counts = {str(value): len(each) for value, each in zip(groups.values, rows, strict=True)}
    screen.line(f"{groups.label}: " + ", ".join(f"{n:,} bags of {value!r}" for value, n in counts.items()))
    screen.line(str(answer))
    found = {"groups": counts, "p": answer.pvalue, "statistic": answer.statistic}
    found["n_permutations"] = answer.n_permutations
    if asked.columns_too:
        columns = which_coordinates(first, second, permute="bags", **drawn)
        order = columns.adjusted.argsort(kind="stable")
        screen.table(
            "columns", ("column", "adjusted p"), [(columns.names[j], f"{columns.adjusted[j]:.3g}") for j in order]
        )
        found["columns"] = {columns.names[j]: float(columns.adjusted[j]) for j in order}
    return {"factor": [groups.label], "statistic": [answer.statistic], "p": [answer.pvalue]}, found


def _test_factors(bags: Any, factors: Any, design: dict[str, Any], asked: opt.Asked, screen: Screen) -> _Answer:
    """The test of each factor given the others."""
    from ..two_sample import factors_test

    if asked.match_sizes or asked.columns_too:
        option = "--match-sizes" if asked.match_sizes else "--columns-too"
        raise click.UsageError(f"{option} is for one label of two values; leave it out")
    drawn: Any = {"n_permutations": asked.permutations, "random_state": asked.seed}
    with screen.bar("permuting"):
        answer = factors_test(bags, factors, asked.divergence, **design, **drawn)
    table = {"factor": list(answer.names), "statistic": answer.statistics, "p": answer.pvalues, "r2": answer.r2}
    rows = list(zip(answer.names, answer.degrees, answer.r2, answer.statistics, answer.pvalues, strict=True))
    cells = [(name, str(q), f"{r2:.3g}", f"{value:.3g}", f"{p:.3g}") for name, q, r2, value, p in rows]
    cells.append(("residual", "", f"{answer.residual:.3g}", "", ""))
    screen.table(f"{bags.n_bags:,} bags, {asked.divergence}", ("factor", "df", "R2", "F", "p"), cells)
    tested = [{"name": name, "r2": float(r2), "F": float(value), "p": float(p)} for name, _, r2, value, p in rows]
    return table, {"factors": tested, "n_permutations": answer.n_permutations}


def _leave_out(asked: opt.Asked, points: Any) -> None:
    """Refuse a factor that is a column of the points too, where it would explain itself."""
    named = [*asked.label, *(asked.covariates or ()), *(each for each in (asked.strata, asked.units) if each)]
    own = [name for name in named if name in points.columns]
    if own and asked.options.columns is not None:
        raise click.UsageError(f"{own[0]!r} is a column of the points and a factor; leave it out of --columns")
    if own:
        raise click.UsageError(f"{own[0]!r} is a factor, and would be a column of the points; name those by --columns")


def _design(asked: opt.Asked, points: Any, bags: Any) -> tuple[dict[str, Any], Any, Any, dict[str, Any] | None]:
    """Factors, strata, units and covariates, in the order of the bags."""
    from .covariates import Place, find_covariates

    covariates = list(asked.covariates or ())
    names = list(dict.fromkeys([*asked.label, *covariates, *(each for each in (asked.strata, asked.units) if each)]))
    source = list(asked.table) if asked.labels is None else [asked.labels]
    place = Place(source, asked.labels_bag or points.bag)
    columns = find_covariates(names, [place], points, asked).of(bags.ids)
    factors = {name: columns[name] for name in asked.label}
    strata = None if asked.strata is None else columns[asked.strata]
    units = None if asked.units is None else columns[asked.units]
    return factors, strata, units, {name: columns[name] for name in covariates} or None


def _two_groups(factors: dict[str, Any]) -> _Groups | None:
    """The groups of a single factor of two values."""
    import numpy as np

    if len(factors) != 1:
        return None
    ((label, values),) = factors.items()
    given = np.asarray(values).tolist()
    distinct = sorted({*given}, key=str)
    if len(distinct) != 2:
        return None
    codes = np.array([distinct.index(each) for each in given])
    return _Groups(label, (distinct[0], distinct[1]), (np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)))


def _reordered(values: Any, rows: tuple[Any, Any]) -> Any:
    """A column, or a table, for the bags of both groups, one below the other."""
    import numpy as np

    order = np.concatenate(rows)
    if isinstance(values, dict):
        return {name: np.asarray(column)[order] for name, column in values.items()}
    return np.asarray(values)[order]
