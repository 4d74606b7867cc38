"""What tables ask of pyarrow: its modules, imported at their first use, types of columns, and arrays of NumPy's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Package:
    """A module of the extra `tables`, imported when something of it is used, or the error with how to install it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return Package, (self._name,)

    def __getattr__(self, attribute: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            package = self._name.partition(".")[0]
            raise ImportError(f"reading and writing tables needs {package}: pip install 'distembed[tables]'") from error
        return getattr(module, attribute)


pa = Package("pyarrow")
compute = Package("pyarrow.compute")
arrow_csv = Package("pyarrow.csv")
ipc = Package("pyarrow.ipc")
parquet = Package("pyarrow.parquet")


# --------------------------------------------------------------------------------------------------------------
# Types
# --------------------------------------------------------------------------------------------------------------


def is_text(kind: Any) -> bool:
    """Whether values of an arrow type are text."""
    return str(kind) in ("string", "large_string", "string_view")


def is_number(kind: Any) -> bool:
    """Whether values of an arrow type are real numbers."""
    types = pa.types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def list_values(kind: Any) -> Any:
    """Return the type of the values of a list type, or None."""
    types = pa.types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if lists else None


def point_endings(kind: Any) -> list[str] | None:
    """Return the endings of the coordinates' names if lists of this type are of whole points, else None."""
    types = pa.types
    values = list_values(kind)
    if values is None:
        return None
    if types.is_struct(values):
        return [field.name for field in values] if all(is_number(field.type) for field in values) else None
    inner = list_values(values)
    if inner is None or not is_number(inner):
        return None
    return [str(j) for j in range(values.list_size)] if types.is_fixed_size_list(values) else []


def holds_lists(kind: Any) -> bool:
    """Whether values of an arrow type are lists of numbers or of whole points."""
    values = list_values(kind)
    return values is not None and (is_number(values) or point_endings(kind) is not None)


def is_single(kind: Any) -> bool:
    """Whether the numbers of a type fit float32: single or half precision, in lists or not."""
    types = pa.types
    if types.is_struct(kind):
        return all(is_single(field.type) for field in kind)
    values = list_values(kind)
    return bool(types.is_float32(kind) or types.is_float16(kind)) if values is None else is_single(values)


# --------------------------------------------------------------------------------------------------------------
# Arrays
# --------------------------------------------------------------------------------------------------------------


def values_of(batch: Any, name: str) -> Any:
    """Return a column of a record batch, categories as the values they stand for."""
    column = batch.column(batch.schema.get_field_index(name))
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def arrow_array(values: NDArray[Any]) -> Any:
    """Return a NumPy array as an arrow one: contiguous, in the machine's byte order, at most double precision."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        signs = values.view(np.uint32).reshape(len(values), -1)
        if np.any((signs[:, :-1] == 0) & (signs[:, 1:] != 0)):  # pyarrow cuts NumPy's text at the first NUL
            return pa.array(values.tolist(), pa.string())
    return pa.array(values)
