"""All ledgers of a federation as one file: JSON, for checking chains elsewhere, or CSV."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cloister.app.ledger_reading import ReadLedger
from cloister.privacy.ledger.entry import BEGINNING
from cloister.privacy.ledger.export import csv_line, entry_cells, entry_columns

__all__ = ["FORMAT", "ledgers_csv", "ledgers_json"]

FORMAT: Final = "cloister ledgers 1"
NO_ANSWER: Final = "no answer"  # the kind of a line that stands for a ledger that is missing


def ledgers_json(
    federation: str, ledgers: Sequence[ReadLedger], missing: Mapping[str, str]
) -> bytes:
    """Return all entries with everything that their hashes are made of, and who did not answer."""
    told = {
        "format": FORMAT,
        "federation": federation,
        "ledgers": [_ledger(one) for one in ledgers],
        "missing": dict(missing),
    }
    return json.dumps(told, indent=1, allow_nan=False).encode() + b"\n"


def ledgers_csv(ledgers: Sequence[ReadLedger], missing: Mapping[str, str]) -> bytes:
    """Return all entries as lines of a table that no spreadsheet takes for formulas.

    A service that did not answer has a line too, so that nobody takes the file for all.
    """
    lines = [["service", *entry_columns()]]
    lines += [[one.service, *entry_cells(entry)] for one in ledgers for entry in one.entries]
    lines += [[service, "", NO_ANSWER] for service in missing]
    return b"".join(map(csv_line, lines))


def _ledger(one: ReadLedger) -> dict[str, Any]:
    last = one.entries[-1] if one.entries else None
    return {
        "service": one.service,
        "head": {"number": last.number, "hash": last.hash} if last
                else {"number": 0, "hash": BEGINNING},
        "pending": one.n_pending,
        "chain_holds": one.chain_holds,
        "entries": [entry._asdict() for entry in one.entries],
    }  # fmt: skip
