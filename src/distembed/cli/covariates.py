"""Columns that belong to bags, such as the age of a patient: in which table they are, and their values for bags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from ..compute.arrays import Array
from ..compute.checks import Message, closest_name
from ..tables import BagTable, TableError
from ..tables.cell_files import cell_file_kind, obs_columns, obs_covariates
from ..tables.files import list_files, read_schema
from ..tables.formats import Reading
from ..tables.labels import CovariateTable, read_covariates
from .app import in_options
from .options import OPTIONS_OF_LABELS, Asked, reading_of_labels


class Place(NamedTuple):
    """A table that may have covariates, and its column of bag ids."""

    source: list[str]
    bag: str

    def __str__(self) -> str:
        return repr(self.source[0]) if len(self.source) == 1 else f"{self.source[0]!r} and {len(self.source) - 1} more"

    def columns(self, how: Mapping[str, Any]) -> Sequence[str]:
        """Names of its columns; FCS files have none that belong to bags."""
        kind = cell_file_kind(self.source)
        if kind is not None:
            return obs_columns(self.source) if kind == "AnnData" else ()
        return read_schema(list_files(self.source)[0], Reading(how["delimiter"], how["decimal"]), None).names


class Covariates(NamedTuple):
    """Columns that belong to bags, and where they come from."""

    table: CovariateTable
    where: str  # file and column of ids, for messages

    def of(self, ids: Any) -> dict[str, Array]:
        """The columns for bags, in their order."""
        try:
            return self.table.of(ids)
        except TableError as error:
            raise TableError(Message(f"{self.where}: ", *error.args)) from None


def find_covariates(
    names: Sequence[str],
    places: Sequence[Place],
    points: BagTable,
    asked: Asked,
    kinds: Mapping[str, str] | None = None,
) -> Covariates:
    """The covariates of these names, from the first table that has all of them.

    Parameters
    ----------
    names : sequence of str
        Of columns.
    places : sequence of Place
        Where to look.
    points : BagTable
        Of bags; where their ids are text, ids here are too.
    asked : Asked
        Says how tables are read.
    kinds : mapping of str to str, optional
        What they held when the model was fitted.
    """
    lacks = []
    known = dict[str, None]()
    for place in places:
        options = asked.options
        if place.source == list(asked.table):
            how = {name: getattr(options, name) for name in ("bag_type", "delimiter", "decimal")}
        else:
            how = reading_of_labels(asked, options)
        how |= {"bag_type": "text"} if points.ids_are_text else {}
        there = place.columns(how)
        absent = [name for name in names if name not in there]
        if not absent:
            return _read(names, place, how, kinds)
        lacks.append(f"{place} has no column {', '.join(map(repr, absent))}")
        known |= dict.fromkeys(there)
    strange = next((name for name in names if name not in known), "")
    near = closest_name(strange, known)
    hint = f"did you mean {near!r}?" if near else "name their table by --covariates-from"
    raise click.UsageError(
        f"covariates {', '.join(map(repr, names))} must be in one table, but {' and '.join(lacks)}; {hint}"
    )


def _read(names: Sequence[str], place: Place, how: dict[str, Any], kinds: Mapping[str, str] | None) -> Covariates:
    where = f"{place}, column {place.bag!r}"
    given: dict[str, Any] = {"bag": place.bag, "covariates": names, "kinds": kinds}
    try:
        if cell_file_kind(place.source) == "AnnData":
            return Covariates(obs_covariates(place.source, **given), where)
        return Covariates(read_covariates(place.source, **given, **how), where)
    except TableError as error:
        raise TableError(in_options(error, **OPTIONS_OF_LABELS, label="--covariates")) from None


def covariates_of_model(model: Any, asked: Asked, points: BagTable) -> Covariates | None:
    """The covariates that a fitted learner needs for new bags: from the table that the user names, or that of points.

    Parameters
    ----------
    model : learner
        Fitted.
    asked : Asked
        Names the table of points, and perhaps one of covariates and its column of bag ids.
    points : BagTable
        The table of points.
    """
    encoder = getattr(model, "encoder_", None)
    if encoder is None:
        if asked.covariates_from is not None:
            raise click.UsageError("--covariates-from: the model was fitted without covariates; leave it out")
        return None
    from ..learners.covariates import NumberColumn

    place = Place(list(asked.table), points.bag)
    if asked.covariates_from is not None:
        remembered = getattr(model, "table_", {}).get("labels_bag") or points.bag
        place = Place([asked.covariates_from], asked.labels_bag or remembered)
    kinds = {each.name: "number" if isinstance(each, NumberColumn) else "text" for each in encoder.columns_}
    return find_covariates(list(kinds), [place], points, asked, kinds)
