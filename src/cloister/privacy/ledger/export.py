"""A ledger as a file for others: JSON or CSV, without payloads, written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import sqlalchemy as sa

from cloister.core.errors import DataError, StoreError
from cloister.core.file_errors import explained, refuse_existing, refused_remedy, wrong_place
from cloister.privacy.ledger.entry import Entry, Head
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.outbox import failures_in
from cloister.privacy.ledger.reading import entries_in, head_in
from cloister.privacy.ledger.tables import DELIVERIES
from cloister.store.incoming import incoming_file, sync_folder

__all__ = ["ExportFormat", "csv_line", "entry_cells", "entry_columns", "export_ledger"]

ExportFormat = Literal["json", "csv"]

FORMAT: Final = "cloister ledger 1"
DELIVERED: Final = "delivered_at"
_FORMULA_BEGINS: Final = ("=", "+", "-", "@", "\t", "\r")
_STATED: Final = ("mechanism", "level", "neighbours", "simulated", "claimed_epsilon")


def export_ledger(
    ledger: Ledger, path: str | Path, *, file_format: ExportFormat = "json", replace: bool = False
) -> Head:
    """Write all entries of one moment to a file; return the head that it ends with.

    The file is written at once and whole, and only its owner may read it. ``replace`` lets it take
    the place of an earlier export, and of nothing else. JSON holds everything that the hashes are
    made of, so that others can check the chain. In CSV a text that a spreadsheet would take for a
    formula begins with an apostrophe.
    """
    path = Path(path)
    refuse_existing(path, force=replace, ours=_require_export)
    write = _write_json if file_format == "json" else _write_csv
    try:
        with incoming_file(path.parent) as incoming:
            head = ledger.database.run(partial(write, incoming.stream), read_only=True)
            incoming.stream.flush()
            os.fsync(incoming.stream.fileno())
            incoming.path.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise wrong_place(error, path) or StoreError(
            f"cannot be written: {error.strerror}", where=str(path), remedy=refused_remedy(error)
        ) from None
    return head


def _require_export(path: Path) -> None:
    begins = (_opening({})[:-2].encode(), csv_line(entry_columns(DELIVERED)))
    with explained(path), path.open("rb") as stream:
        if not stream.read(max(map(len, begins))).startswith(begins):
            raise DataError("not an export of a ledger", where=str(path))


def _opening(more: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT} | more)


def _rows(connection: sa.Connection) -> Iterator[tuple[Entry, str | None]]:
    """Give each entry with the time of its delivery."""
    query = sa.select(DELIVERIES.c.number, DELIVERIES.c.delivered_at)
    delivered = {row.number: row.delivered_at for row in connection.execute(query)}
    for entry in entries_in(connection):
        yield entry, delivered.get(entry.number)


def _write_json(stream: BinaryIO, connection: sa.Connection) -> Head:
    head = head_in(connection)
    _restart(stream)
    opening = _opening({"head": head._asdict()})[:-1]
    stream.write(f'{opening}, "entries": ['.encode())
    separator = "\n"
    failures = {one.number: one for one in failures_in(connection)}
    for entry, delivered_at in _rows(connection):
        fields: dict[str, Any] = entry._asdict()
        fields[entry.kind] = json.loads(fields.pop("body"))
        fields[DELIVERED] = delivered_at
        if failed := failures.get(entry.number):
            fields |= {"failed_at": failed.failed_at, "failure": failed.reason}
        stream.write(f"{separator}{json.dumps(fields)}".encode())
        separator = ",\n"
    stream.write(b"\n]}\n")
    return head


def _write_csv(stream: BinaryIO, connection: sa.Connection) -> Head:
    _restart(stream)
    stream.write(csv_line(entry_columns(DELIVERED)))
    for entry, delivered_at in _rows(connection):
        stream.write(csv_line(entry_cells(entry, delivered_at)))
    return head_in(connection)


def entry_columns(*more: str) -> list[str]:
    """Return the names of an entry's cells, with those of what is added to them."""
    names = [name for name in Entry._fields if name != "body"]
    return [*names, *more, *_STATED, "body"]


def entry_cells(entry: Entry, *more: Any) -> list[Any]:
    r"""Return an entry as cells; what a release states of itself has cells of its own.

    Examples
    --------
    >>> entry = Entry(1, "limit", "2026-01-01T00:00:00+00:00", "clinic-a", "", "=1+1", "null",
    ...               "", 0, "0" * 64)
    >>> csv_line(entry_cells(entry)[:7])
    b"1,limit,2026-01-01T00:00:00+00:00,clinic-a,,'=1+1,\r\n"
    """
    body = json.loads(entry.body) or {}
    fields = [value for name, value in entry._asdict().items() if name != "body"]
    return [*fields, *more, *(body.get(name) for name in _STATED), entry.body]


def _restart(stream: BinaryIO) -> None:
    """Begin at the beginning, for a transaction may be tried again."""
    stream.seek(0)
    stream.truncate()


def csv_line(cells: list[Any]) -> bytes:
    """Return one line of a CSV file, in which no cell is a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([_cell(cell) for cell in cells])
    return line.getvalue().encode()


def _cell(value: Any) -> Any:
    """Return what a spreadsheet shows as it is: no formula begins with an apostrophe."""
    if isinstance(value, str) and value.startswith(_FORMULA_BEGINS):
        return f"'{value}"
    return "" if value is None else value
