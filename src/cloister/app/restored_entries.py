"""Entries of a ledger that came after a backup, taken from an export of that ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from cloister.core.errors import CloisterError, Damaged
from cloister.core.file_errors import explained
from cloister.privacy.ledger.entry import Entry, Head, entry_hash
from cloister.privacy.ledger.reading import head_in
from cloister.privacy.ledger.spending import add_spent, spent_by
from cloister.privacy.ledger.tables import DELIVERIES, ENTRIES

__all__ = ["add_exported", "exported_entries"]

FORMAT: Final = "cloister ledger 1"


def exported_entries(path: Path) -> list[tuple[Entry, str | None]]:
    """Read ``cloister ledger export --format json``: each entry, and when it was delivered."""
    with explained(path):
        content = path.read_bytes()
    try:
        told = json.loads(content)
        if told["format"] != FORMAT:
            raise ValueError
        return [(_entry(fields), fields["delivered_at"]) for fields in told["entries"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(
            "not a ledger", where=str(path), remedy="make one: cloister ledger export FILE"
        ) from None


def _entry(fields: dict[str, Any]) -> Entry:
    """Return an entry as it was hashed: its body is canonical JSON."""
    body = json.dumps(fields[fields["kind"]], sort_keys=True, separators=(",", ":"))
    return Entry(**{name: fields[name] for name in Entry._fields if name != "body"}, body=body)


def add_exported(connection: sa.Connection, entries: list[tuple[Entry, str | None]]) -> int:
    """Add those entries that come after the last one here, as they are; return how many.

    Raises `Damaged` where they do not go on from it. Payloads are not in an export: what was not
    delivered counts as delivered now, since it has been paid for and cannot be sent again.
    """
    last = head_in(connection)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    n_added = 0
    for entry, delivered_at in _after(last, entries):
        connection.execute(ENTRIES.insert(), entry._asdict())
        if entry.kind == "release":
            add_spent(connection, spent_by(entry))
            sent = {"number": entry.number, "delivered_at": delivered_at or now}
            connection.execute(DELIVERIES.insert(), sent)
        n_added += 1
    return n_added


def _after(
    last: Head, entries: list[tuple[Entry, str | None]]
) -> Iterator[tuple[Entry, str | None]]:
    """Give the entries after the last one, each checked against the one before."""
    known = {entry.number: entry.hash for entry, _ in entries}
    if last.number and known.get(last.number) != last.hash:
        raise _another(last.number)
    for entry, delivered_at in entries:
        if entry.number <= last.number:
            continue
        if (entry.number, entry.previous) != (last.number + 1, last.hash) or not _whole(entry):
            raise _another(entry.number)
        yield entry, delivered_at
        last = Head(entry.number, entry.hash)


def _whole(entry: Entry) -> bool:
    try:
        _ = entry.limit if entry.kind == "limit" else entry.release
        return entry.hash == entry_hash(entry)
    except (CloisterError, ValueError, TypeError):
        return False


def _another(number: int) -> Damaged:
    return Damaged(
        "the export does not go on from the backup's ledger",
        where=f"ledger entry {number}",
        remedy="nothing was changed; name an export of the same ledger, made after the backup",
    )
