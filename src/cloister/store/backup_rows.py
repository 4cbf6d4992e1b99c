"""Rows of tables as lines of text, exactly: every value comes back as it was, on either database.

A row is one line of JSON in ASCII. How a value is written follows from the kind of its column:
integers as they are, floats as hexadecimal text, text with escapes (NUL among them), bytes in
base64, truth values as they are. What does not fit its column's kind is refused, both ways.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import sqlalchemy as sa

from cloister.core.errors import DataError

__all__ = [
    "Column",
    "Kind",
    "Row",
    "columns_of",
    "decoded_row",
    "encoded_row",
    "refuse_what_cannot_be_held",
    "rows_of",
    "table_of",
]

Kind: TypeAlias = Literal["boolean", "integer", "float", "text", "bytes"]
Row: TypeAlias = tuple[Any, ...]

N_ROWS_AHEAD: Final = 500  # fetched at a time; one by one where a value may be large
_LARGEST: Final = 2**63 - 1

_TYPES: Final[dict[Kind, type[sa.types.TypeEngine[Any]]]] = {
    "boolean": sa.Boolean,  # before integers: neither is the other here
    "integer": sa.BigInteger,
    "float": sa.Double,
    "text": sa.Text,
    "bytes": sa.LargeBinary,
}
_FAMILIES: Final[dict[Kind, tuple[type[sa.types.TypeEngine[Any]], ...]]] = {
    "boolean": (sa.Boolean,),
    "integer": (sa.Integer,),
    "float": (sa.Float,),
    "text": (sa.String,),
    "bytes": (sa.LargeBinary,),
}


class Column(NamedTuple):
    """A column: its name, and what it holds."""

    name: str
    kind: Kind


def columns_of(connection: sa.Connection, table: str) -> tuple[Column, ...]:
    """Return the columns of a table that is there, in their order."""
    found = sa.inspect(connection).get_columns(table)
    return tuple(Column(one["name"], _kind(one["type"], table)) for one in found)


def _kind(type_: sa.types.TypeEngine[Any], table: str) -> Kind:
    for kind, family in _FAMILIES.items():
        if isinstance(type_, family):
            return kind
    raise DataError(f"columns of type {type_} cannot be backed up", where=table)


def table_of(name: str, columns: Sequence[Column]) -> sa.TableClause:
    """Return a table for statements that read or write all of its columns."""
    return sa.table(name, *(sa.column(one.name, _TYPES[one.kind]) for one in columns))


def rows_of(
    connection: sa.Connection, name: str, columns: Sequence[Column]
) -> Iterator[tuple[Any, ...]]:
    """Read a table in the caller's transaction; only a few rows are in memory at a time."""
    ahead = 1 if any(one.kind == "bytes" for one in columns) else N_ROWS_AHEAD
    options = {"stream_results": True, "max_row_buffer": ahead}
    table = table_of(name, columns)
    query = sa.select(*(table.c[one.name] for one in columns))
    for row in connection.execute(query, execution_options=options):
        yield tuple(row)


def encoded_row(row: Sequence[Any], columns: Sequence[Column], *, where: str) -> bytes:
    r"""Return a row as one line.

    Examples
    --------
    >>> columns = (Column("number", "integer"), Column("name", "text"), Column("key", "bytes"))
    >>> encoded_row((7, "Zoë", b"\xff"), columns, where="visit")
    b'[7,"Zo\\u00eb","/w=="]\n'
    """
    values = [
        None if value is None else _written(value, column, where)
        for value, column in zip(row, columns, strict=True)
    ]
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def decoded_row(line: bytes, columns: Sequence[Column], *, where: str) -> Row:
    r"""Read a line.

    Examples
    --------
    >>> columns = (Column("x", "float"), Column("y", "text"))
    >>> decoded_row(b'["0x1.8000000000000p+1",null]', columns, where="visit")
    (3.0, None)
    """
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != len(columns):
        raise DataError("a row cannot be read", where=where)
    return tuple(
        None if value is None else _read(value, column, where)
        for value, column in zip(values, columns, strict=True)
    )


def _written(value: Any, column: Column, where: str) -> Any:
    kind = column.kind
    if kind == "bytes" and isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    if kind == "float" and isinstance(value, float):
        return value.hex()
    return _checked(value, column, where)


def _read(value: Any, column: Column, where: str) -> Any:
    parse = _PARSERS.get(column.kind)
    if parse is None:
        return _checked(value, column, where)
    try:
        return parse(value)
    except (ValueError, TypeError, OverflowError):
        raise _misfit(column, where) from None


def _checked(value: Any, column: Column, where: str) -> Any:
    """Return a boolean, an integer or a text if it is what its column says."""
    fits = {
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "text": isinstance(value, str),
    }
    if not fits.get(column.kind, False):
        raise _misfit(column, where)
    if column.kind == "integer" and not -_LARGEST - 1 <= value <= _LARGEST:
        raise _misfit(column, where)
    if column.kind == "text" and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _misfit(column, where)
    return value


def _misfit(column: Column, where: str) -> DataError:
    return DataError(f"a value is no {column.kind}", where=f"{where}.{column.name}")


def _float(text: str) -> float:
    value = float.fromhex(text)
    if value.hex() != text:
        raise ValueError("not as it was written")
    return value


_PARSERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    "float": _float,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}


def refuse_what_cannot_be_held(
    row: Sequence[Any], columns: Sequence[Column], database_kind: str, *, where: str
) -> None:
    """Raise where a database cannot hold a value that the other one can.

    Of one thing nothing is said: SQLite keeps the float -0.0 as 0.0, which is equal to it.
    """
    for value, column in zip(row, columns, strict=True):
        if database_kind == "postgresql" and isinstance(value, str) and "\0" in value:
            what = "PostgreSQL's text has no NUL characters"
        elif database_kind == "sqlite" and isinstance(value, float) and math.isnan(value):
            what = "SQLite's numbers have no NaN"
        else:
            continue
        raise DataError(
            what,
            where=f"{where}.{column.name}",
            remedy="restore into a database of the kind that the backup was made of",
        )
