"""Other names for parts of :mod:`.tables`, for modules that have not moved to them yet."""

from .tables.array_files import arrow_array
from .tables.errors import TableError, no_rows
from .tables.files import FORMATS, format_of, list_files
from .tables.ids import id_values
from .tables.packages import arrow, need
from .tables.pieces import stream
from .tables.readers import describe
from .tables.readers import read_pieces as _raw
from .tables.schemas import check_column, is_number
from .tables.text_files import separator
from .tables.writing import table_file as replacing

__all__ = [
    "FORMATS",
    "TableError",
    "_raw",
    "arrow",
    "arrow_array",
    "check_column",
    "describe",
    "format_of",
    "id_values",
    "is_number",
    "list_files",
    "need",
    "no_rows",
    "replacing",
    "separator",
    "stream",
]
