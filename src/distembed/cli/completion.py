"""Names of columns for the Tab key: read from the header of the table that the command line names so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem


def column_items(ctx: click.Context, tables: Sequence[str], several: bool, incomplete: str) -> list[CompletionItem]:
    """Columns whose names begin so, of the first of these parameters that names a table that is there.

    Of `several`, with commas between them, the last is completed, and those before it are not offered again. A table
    that can't be read has none: completion says nothing of errors.
    """
    before, _, word = incomplete.rpartition(",") if several else ("", "", incomplete)
    given = (_given(ctx, name) for name in tables)
    sources = [[each] if isinstance(each, str) else list(each) for each in given if each]
    done, begin = set(before.split(",")), f"{before}," if before else ""
    for source in sources:
        try:
            names = _columns(source, ctx)
        except Exception:
            continue
        quoted = {name: f'"{name}"' if several and ("," in name or name != name.strip()) else name for name in names}
        return [CompletionItem(begin + quoted[name]) for name in names if name.startswith(word) and name not in done]
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
    from ..tables.bag_table import field_of
    from ..tables.files import Reading, describe, list_files

    kind = field_of(source)
    if kind == "AnnData":
        from ..bags.anndata import contents

        found = contents(Path(source[0]))
        return [*found.obs, *found.variables]
    if kind == "FCS":
        from ..tables import open_bags

        return open_bags(source, bag="file").columns
    how = Reading(ctx.params.get("delimiter"), ctx.params.get("decimal") or ".")
    return describe(list_files(source)[0], how, None).names
