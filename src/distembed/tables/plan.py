"""From the columns of files to a plan: which are there, what they hold, which are coordinates, and what is wrong.

Where the user names no coordinates they are the columns of numbers, or of lists where there are any, except those that
say nothing of points: an index, numbers of rows, constants. Types tell most of it, values the rest: the first piece is
read, and as much of the table as it takes to refute that a column is constant or numbers the rows.

Ids of bags have a kind in files (whole numbers, text, dates, ...), an arrow type in the sort, and NumPy's type in bags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags.coordinates import (
    HOLDS_TEXT,
    NAMELESS,
    NUMBERS_AS_TEXT,
    Watch,
    are_mostly_numbers,
    choose,
    first_stray,
    is_nameless,
    stray_text,
)
from ..bags.flat import few
from ..bags.ids import canonical_text
from ..bags.ragged import arrow_lists
from ..compute.checks import Argument, Message, closest_name
from .arrow import holds_lists, is_number, is_single, is_text, list_values, pa, point_endings, values_of
from .files import list_files, no_rows, read_pieces, read_schema
from .formats import FileSchema, Format, Reading, known_format
from .paths import AnyPath, TableError, stamp

BAG_TYPES = ("auto", "integer", "text")
_TIME_UNITS = ("s", "ms", "us", "ns")
ZONED = "time with a zone"  # ids of this kind are text in UTC: NumPy knows no zones
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,([0-9]{1,2}|[0-9]{4,})\s*")  # 1,234 may be a thousand


@dataclass(frozen=True)
class Plan:
    """How the files of a table become record batches."""

    files: tuple[AnyPath, ...]
    stamps: dict[AnyPath, tuple[int, int]]  # of the files when the plan was made
    how: Reading
    bag: str
    columns: tuple[str, ...]  # of the table
    names: tuple[str, ...]  # of the coordinates, more than `columns` where one column holds whole points
    weights: str | None
    ids: str  # integer, unsigned, number, boolean, text, date, the unit of a time, or ZONED
    guessed: bool  # whether CSV text was taken for integers or dates because it begins so
    dtype: np.dtype[Any]
    lists: bool  # one row per bag
    booleans: frozenset[tuple[AnyPath, str]]  # columns of CSV files that hold true and false
    rows: int | None
    left_out: dict[str, str]  # columns that are no coordinates, and why
    gaps: str = ""  # what becomes of missing coordinates: "" refused, else NaN, for "drop" or "fill"
    labels: dict[str, Any] = field(default_factory=dict)  # of categorical columns; None until they are known

    @property
    def format(self) -> Format:
        """The one format of all files."""
        return known_format(self.files[0])

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{str(self.files[0])!r}{more}"


def make_plan(
    source: Any,
    bag: Any,
    columns: Any,
    weights: str | None,
    how: Reading,
    bag_type: str,
    of_bags: str | None = None,
    labels: dict[str, Any] | None = None,
) -> Plan:
    """Return how a table of points is read, or the error that names what its files lack.

    `of_bags` is the argument that names `columns`, if they are not coordinates but describe bags. `labels`
    has the categorical columns, and their labels or None.
    """
    labels = labels or {}
    files = list_files(source)
    bag, how = bag_columns(files[0], bag, how)
    schemas = [read_schema(path, how, bag) for path in files]
    for schema, name in product(schemas, how.joined or [bag]):
        check_column(schema, "bag", name)
    schemas = [schema for schema in schemas if schema.rows != 0]
    if not schemas:
        raise no_rows(files)
    ids = kind_of_ids(schemas, bag, bag_type)  # first, because the looks at columns go bag by bag
    first = schemas[0]
    chosen = list(columns or ())
    left_out: dict[str, str] = {}
    if of_bags is None:
        chosen, left_out = choose_columns(schemas, bag, columns, weights, how, labels)
    for schema, name in product(schemas, chosen):
        check_column(schema, of_bags or "columns", name)
    for schema in schemas if weights is not None else ():
        check_column(schema, "weights", weights)
    names = chosen
    lists = False
    if of_bags is None:
        lists = holds_lists(first.type_of(chosen[0]))
        for schema in schemas:
            check_types(schema, chosen, weights, lists, labels)
        names = coordinate_names(schemas, chosen, how)
    typed = first.format.typed
    numbers = [(schema, name) for schema in schemas for name in (*chosen, weights) if name is not None]
    floats = [schema.type_of(name) for schema in schemas for name in chosen if name not in labels]
    single = of_bags is None and bool(floats) and all(map(is_single, floats))
    return Plan(
        files=tuple(schema.path for schema in schemas),
        stamps={schema.path: stamp(schema.path) for schema in schemas},
        how=how,
        bag=bag,
        columns=tuple(chosen),
        names=tuple(names),
        weights=weights,
        ids=ids,
        guessed=bag_type == "auto" and not typed,
        dtype=np.dtype(np.float32 if single else float),
        lists=lists,
        booleans=frozenset(
            (schema.path, name) for schema, name in numbers if not typed and pa.types.is_boolean(schema.type_of(name))
        ),
        rows=None if any(schema.rows is None for schema in schemas) else sum(schema.rows or 0 for schema in schemas),
        left_out=left_out,
        labels={name: labels[name] for name in chosen if name in labels},
    )


# --------------------------------------------------------------------------------------------------------------
# Ids
# --------------------------------------------------------------------------------------------------------------


def _id_kind(schema: FileSchema, bag: str) -> str:
    if schema.ids is not None:
        return schema.ids
    types = pa.types
    kind = schema.type_of(bag)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = {
        "unsigned": types.is_uint64,
        "integer": types.is_integer,
        "number": types.is_floating,
        "boolean": types.is_boolean,
        "date": types.is_date,
        "text": is_text,
    }
    found = next((name for name, test in tests.items() if test(kind)), None)
    if found is not None:
        return found
    if types.is_timestamp(kind):
        return ZONED if kind.tz else str(kind.unit)
    if types.is_null(kind):
        raise TableError(f"{str(schema.path)!r}: column {bag!r} of bag ids has no values; fill them in")
    raise TableError(
        f"{str(schema.path)!r}: column {bag!r} of bag ids must hold whole numbers, text, dates or times, got {kind}; "
        "convert it to text"
    )


def kind_of_ids(schemas: list[FileSchema], bag: str, bag_type: str) -> str:
    """Return the one kind of ids of several files: the type asked for, or the one they have."""
    kinds = {_id_kind(schema, bag): schema for schema in schemas if schema.ids is not None or schema.format.typed}
    if bag_type != "auto":
        return bag_type
    if len(kinds) < 2:
        return next(iter(kinds), "text")
    if set(kinds) <= set(_TIME_UNITS):
        return max(kinds, key=_TIME_UNITS.index)
    if set(kinds) == {"integer", "unsigned"}:
        return "integer"
    (one, a), (two, b) = list(kinds.items())[:2]
    if not a.format.typed:
        return "text"
    got = f"got {one} in {str(a.path)!r} and {two} in {str(b.path)!r}; convert one of them, or pass "
    rule = f"column {bag!r} of bag ids must be of one type in all files, "
    raise TableError(Message(rule, got, Argument("bag_type", "text")))


def id_type(kind: str) -> Any:
    """Return the arrow type that ids of a kind have in the sort."""
    types = {"text": pa.string(), ZONED: pa.string(), "number": pa.float64(), "unsigned": pa.uint64()}
    return types.get(kind, pa.int64())


def cast_ids(column: Any, kind: str) -> Any:
    """Return ids as they are in the sort: dates and times as whole numbers. Raises ArrowInvalid for what is none."""
    if kind == "number":  # adding zero makes -0 and 0 one id
        return pa.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0)
    if kind == "date":
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if kind in _TIME_UNITS:
        return column.cast(pa.timestamp(kind)).cast(pa.int64())
    if kind == ZONED or (kind == "text" and pa.types.is_timestamp(column.type)):
        return pa.array(canonical_text(column), pa.string())
    return column.cast(id_type(kind))


def id_values(ids: Any, kind: str) -> NDArray[Any]:
    """Return ids as they are in the sort, an arrow array, as NumPy ids of their kind."""
    if kind in ("text", ZONED):
        return np.array(ids.to_pylist(), dtype=str)
    values: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    if kind == "boolean":
        return values.astype(bool)
    unit = "D" if kind == "date" else kind
    return values.astype(f"M8[{unit}]") if kind in ("date", *_TIME_UNITS) else values


# --------------------------------------------------------------------------------------------------------------
# Columns
# --------------------------------------------------------------------------------------------------------------


def bag_columns(path: AnyPath, bag: Any, how: Reading) -> tuple[str, Reading]:
    """Return the name of the column of bag ids, and how tables are read in which several columns are joined to one.

    These are a list of names, or names with commas between them, unless the table has a column of that name.
    """
    names = [bag] if isinstance(bag, str) else list(bag)
    if len(names) == 1 and "," in names[0] and names[0] not in read_schema(path, how, None).counts:
        names = [name.strip() for name in names[0].split(",")]
    if not names or len(set(names)) < len(names):
        raise TableError(Message(Argument("bag"), f" must name a column, or several that differ, got {bag!r}"))
    joined = how._replace(joined=tuple(names) if len(names) > 1 else ())
    return joined.bag or names[0], joined


def check_column(schema: FileSchema, argument: str, name: Any) -> None:
    """Raise, with the closest name, unless a file has a column exactly once."""
    found = schema.counts[name]
    if found == 1:
        return
    where = Message(f"{str(schema.path)!r}: ", Argument(argument), f" names column {name!r}, which the table")
    if found:
        raise TableError(Message(where, f" has {found} times; rename one of them"))
    separators = [sign for sign in ";\t|" if len(schema.names) == 1 and sign in schema.names[0]]
    if separators and not schema.format.typed:
        why = f" lacks, because its header is one name, {schema.names[0]!r}; pass "
        raise TableError(Message(where, why, Argument("delimiter", separators[0])))
    near = closest_name(name, schema.names)
    hint = f"did you mean {near!r}?" if near else f"it has {few(schema.names)}"
    raise TableError(Message(where, f" lacks; {hint}"))


def choose_columns(
    schemas: Sequence[FileSchema], bag: str, columns: Any, weights: str | None, how: Reading, labels: Any = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the coordinate columns, with those of `labels`, and why others are none, unless named.

    A column of text with mostly numbers is an error that shows the first that is not.
    """
    own = (bag, *how.joined)
    if weights is not None and weights in own:
        raise TableError(f"weights must be another column than bag, got {bag!r} for both; name the column of weights")
    for schema, name in product(schemas, labels):
        check_column(schema, "categorical", name)
        if name in (*own, weights):
            whose = f" must not name {name!r}, the column of {'bag ids' if name in own else 'weights'}; leave it out"
            raise TableError(Message(Argument("categorical"), whose))
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        chosen += [name for name in labels if name not in chosen]
        both = [name for name in own if name in chosen]
        if both:
            raise TableError(f"columns must not contain {both[0]!r}, the column of bag ids; leave it out")
        if not chosen or len(set(chosen)) < len(chosen):
            raise TableError(f"columns must be one or more names that differ, got {few(chosen)}; name each column once")
        return chosen, {}
    first = schemas[0]
    kinds = _kinds(schemas, (*own, weights))
    lists = [name for name, kind in kinds.items() if holds_lists(kind)]
    numbers = [name for name, kind in kinds.items() if is_number(kind) or name in labels]
    texts = [name for name, kind in kinds.items() if is_text(kind)]
    coordinates = [*lists, *labels] if lists else numbers
    taken = set(coordinates)
    known = {*first.names, *own, weights}
    reasons = {name: _why_not(kind, bool(lists)) for name, kind in kinds.items() if name not in taken}
    absent = (name for schema in schemas for name in schema.names if name not in known)
    reasons |= dict.fromkeys(absent, f"is not in {str(first.path)!r}")
    if not lists:
        once = [name for name in texts if first.counts[name] == 1 and name not in labels]
        reasons |= dict.fromkeys(_numbers_as_text(first, bag, once, how) if once else (), NUMBERS_AS_TEXT)
    if not coordinates:
        raise TableError(
            Message(
                f"{str(first.path)!r}: ", Argument("columns", None),
                " takes every column of numbers, and there is none except ", Argument("bag", bag),
                f"; it has {few(first.names)}; convert a column, name it in columns, or, if it holds labels, in ",
                Argument("categorical"),
            )
        )  # fmt: skip
    for name in coordinates:
        if name not in labels and is_nameless(name, name == first.names[0], pa.types.is_integer(kinds[name])):
            reasons[name] = NAMELESS
    if not lists and len(numbers) > 1:
        judged = [name for name in numbers if name not in reasons and name not in labels]
        for schema, name in product(schemas, judged):
            check_column(schema, "columns", name)
        reasons |= _verdicts(schemas, bag, judged, how)
    chosen, left_out = choose(coordinates, reasons)
    return chosen, {name: left_out[name] for name in (*first.names, *left_out) if name in left_out}


def _kinds(schemas: Sequence[FileSchema], own: Sequence[str | None]) -> dict[str, Any]:
    """Return the types of the columns of the first file, of those without values as the first file that has some."""
    kinds = {}
    for name in schemas[0].names:
        if name not in own:
            found = [schema.type_of(name) for schema in schemas if name in schema.counts]
            kinds[name] = next((kind for kind in found if not pa.types.is_null(kind)), found[0])
    return kinds


def _why_not(kind: Any, lists: bool) -> str:
    """Return why columns of a type are not coordinates."""
    types = pa.types
    if types.is_null(kind):
        return "has no values"
    if types.is_temporal(kind):
        return "holds dates or times"
    if types.is_dictionary(kind) or is_text(kind):
        return HOLDS_TEXT
    return "has one value per row, and others have lists" if lists and is_number(kind) else f"is of type {kind}"


def _numbers_as_text(schema: FileSchema, bag: str, texts: list[str], how: Reading) -> list[str]:
    """Return the columns of text that hold numbers; if only most values are, raise with the first that is not."""
    n_rows = 0
    suspects = texts
    names = [bag, *texts]
    for batch in read_pieces(schema.path, how, names, dict.fromkeys(names, pa.string())):
        if not n_rows:
            suspects = [name for name in texts if are_mostly_numbers(values_of(batch, name).to_pylist())]
        if not suspects:
            break
        for name in suspects:
            words = values_of(batch, name).to_pylist()
            row = first_stray(None if word is None else how.plain(word) for word in words)
            if row is not None:
                place = schema.format.place(schema.path, how, n_rows + row)
                key = few([values_of(batch, bag)[row].as_py()])
                where = f"{str(schema.path)!r}, {place}, column {name!r} (bag {key}): "
                comma = _DECIMAL_COMMA.fullmatch(words[row]) is not None and not schema.format.typed
                more = ("; or, if the comma is a decimal sign, pass ", Argument("decimal", ",")) if comma else ()
                raise TableError(Message(where, stray_text(words[row]), *more))
        n_rows += batch.num_rows
    return suspects


def _verdicts(schemas: Sequence[FileSchema], bag: str, names: list[str], how: Reading) -> dict[str, str]:
    """Return why columns of numbers are not coordinates, by their values; the first piece clears most columns."""
    begin = next(iter(_pieces(schemas[0], [bag, *names], [bag], how)), None)
    watches = {name: Watch() for name in names}
    if begin is not None:
        _watch(watches, begin, bag)
    watches = {name: Watch() for name, watch in watches.items() if watch.is_open}
    for schema in schemas:
        for batch in _pieces(schema, [bag, *watches], [bag], how) if watches else ():
            _watch(watches, batch, bag)
            watches = {name: watch for name, watch in watches.items() if watch.is_open}
            if not watches:
                return {}
        for watch in watches.values():
            watch.end_file()
    found = {name: watch.verdict() for name, watch in watches.items()}
    return {name: why for name, why in found.items() if why is not None}


def _watch(watches: dict[str, Watch], batch: Any, bag: str) -> None:
    """Show watches the rows of a batch."""
    ids = values_of(batch, bag).dictionary_encode()
    codes = ids.indices.fill_null(len(ids.dictionary)).to_numpy()
    bags = [*ids.dictionary.to_pylist(), None]
    for name, watch in watches.items():
        column = values_of(batch, name)
        other = pa.types.is_decimal(column.type) or pa.types.is_null(column.type)
        column = column.cast(pa.float64()) if other else column
        watch.add(column.to_numpy(zero_copy_only=False), codes, bags)


def _pieces(schema: FileSchema, names: list[str], texts: list[str], how: Reading) -> Iterator[Any]:
    """Return the record batches of a file; in CSV, columns are text, or numbers, or true and false."""
    kinds = {name: pa.bool_() if pa.types.is_boolean(schema.type_of(name)) else pa.float64() for name in names}
    return read_pieces(schema.path, how, names, kinds | dict.fromkeys(texts, pa.string()))


def check_types(schema: FileSchema, chosen: list[str], weights: str | None, lists: bool, labels: Any) -> None:
    """Raise if a coordinate or weight is of a type that holds no numbers or, of `labels`, none of these."""
    for name in chosen if weights is None else [*chosen, weights]:
        kind = schema.type_of(name)
        if name in labels:
            _check_label_type(schema, name, lists)
            continue
        if lists != holds_lists(kind) and (lists or list_values(kind) is not None):
            rule = "lists of numbers, as the other columns" if lists else "numbers, as the other columns"
        elif not (lists or not schema.format.typed or is_number(kind) or pa.types.is_null(kind)):
            rule = "numbers"
        else:
            continue
        said = f"{str(schema.path)!r}: column {name!r} must hold {rule}, got {kind}; convert it, leave it out"
        raise TableError(Message(said, ", or, if it holds labels, name it in ", Argument("categorical")))


def _check_label_type(schema: FileSchema, name: str, lists: bool) -> None:
    """Raise if a column can't hold labels, because it has lists or bytes, or others have one row per bag."""
    types = pa.types
    kind = schema.type_of(name)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if lists or types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        rule = f" names {name!r}, which must hold text, whole numbers or truth values in one row per point, got {kind}"
        raise TableError(Message(f"{str(schema.path)!r}: ", Argument("categorical"), f"{rule}; leave it out"))


def coordinate_names(schemas: list[FileSchema], chosen: list[str], how: Reading) -> list[str]:
    """Return the names of the coordinates: those of the columns, unless one column holds whole points."""
    path = schemas[0].path
    kind = schemas[0].type_of(chosen[0])
    whole = [name for name in chosen if point_endings(schemas[0].type_of(name)) is not None]
    if not whole:
        return chosen
    if len(chosen) > 1:
        raise TableError(
            f"{str(path)!r}: column {whole[0]!r} holds whole points, so it must be the only one of columns, got "
            f"{few(chosen)}; name it alone"
        )
    endings = point_endings(kind) or [str(j) for j in range(_first_width(schemas, chosen[0], how))]
    return endings if pa.types.is_struct(list_values(kind)) else [f"{chosen[0]}_{end}" for end in endings]


def _first_width(schemas: list[FileSchema], name: str, how: Reading) -> int:
    """Return the number of coordinates of the first point in a column of lists of lists."""
    for schema in schemas:
        for batch in read_pieces(schema.path, how, [name], {}):
            column = batch.column(name).drop_null()
            points = arrow_lists(pa, column)[0].drop_null() if len(column) else column  # type: ignore[index]
            if len(points):
                return len(points[0])
    raise TableError(f"{str(schemas[0].path)!r}: column {name!r} holds no points; check how it was written")
