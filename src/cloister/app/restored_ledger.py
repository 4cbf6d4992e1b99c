"""What a restored ledger does not know: releases that were made after the backup.

Whoever got them has them, so limits would be spent twice. Restoring therefore writes into the
ledger, in the same transaction, that the state was restored and from which head. Later entries can
be added from an export (`restored_entries`); about what is still unknown, one of three is done:

- *hold* (unless told otherwise): the limits of every party that the ledger knows become epsilon 0,
  so that nothing of theirs is released until somebody who knows sets limits, by a command: what a
  node's file names does not count;
- *charge*: one release of a stated epsilon for every party stands for those that were lost; each of
  its limits counts it;
- *nothing was released*: limits stay, because somebody vouches for it.

A party of which the backup holds no entry must be named, if its releases began after the backup.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.entry import (
    HELD,
    MAX_PURPOSE_LENGTH,
    Entry,
    Head,
    Label,
    checked_name,
    limit_body,
)
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.outbox import note_delivery, put_pending
from cloister.privacy.ledger.reading import head_in, limits_in, parties_in
from cloister.privacy.ledger.spending import add_spent, spent_by
from cloister.privacy.ledger.statement import USUAL_DELTA
from cloister.privacy.ledger.tables import ENTRIES
from cloister.privacy.ledger.writing import append
from cloister.privacy.level import Level
from cloister.privacy.release import BoundedRelease
from cloister.store.backup_manifest import BackupHead, BackupManifest
from cloister.store.database import Database

__all__ = ["Lost", "LostKind", "check_restored", "note_restored", "stored_head"]

UNKNOWN: Final = "unknown"  # who got what was lost


class LostKind(StrEnum):
    """What is done about releases after the backup."""

    HOLD = "hold"
    CHARGE = "charge"
    NONE = "none"


class Lost(NamedTuple):
    """What is known of releases after the backup.

    Parameters
    ----------
    kind
        What is done.
    epsilon
        For a charge: what each party's lost releases cost at most.
    parties
        Those concerned besides the ones that the backup's ledger knows.
    """

    kind: LostKind = LostKind.HOLD
    epsilon: float = 0.0
    parties: tuple[str, ...] = ()


def stored_head(connection: sa.Connection) -> BackupHead | None:
    """Return the head of the ledger in a state; None where there is no ledger."""
    if not sa.inspect(connection).has_table(ENTRIES.name):
        return None
    return BackupHead(**head_in(connection)._asdict())


def note_restored(connection: sa.Connection, *, manifest: BackupManifest, lost: Lost) -> None:
    """Write into a restored ledger that it was restored, in the caller's transaction."""
    if manifest.ledger is None:
        return
    for party_id in sorted({*parties_in(connection), *map(checked_name, lost.parties)}):
        limits = limits_in(connection, party_id)
        told = _told(manifest.ledger, manifest.made_at, lost, limits)
        label = Label(party_id, "", told[:MAX_PURPOSE_LENGTH])
        if lost.kind is LostKind.CHARGE:
            _charge(connection, label, lost.epsilon)
            continue
        closed = Limit(epsilon=0.0, delta=USUAL_DELTA)
        after = list(limits.values()) or ([closed] if lost.kind is LostKind.HOLD else [])
        for one in after:
            if lost.kind is LostKind.HOLD:
                one = Limit(epsilon=0.0, delta=one.delta, level=one.level)
            body = limit_body(one, None)
            append(connection, Entry.draft("limit", _now(), label, body, b""))
        if not after:
            append(connection, Entry.draft("limit", _now(), label, limit_body(None, None), b""))


def _charge(connection: sa.Connection, label: Label, epsilon: float) -> None:
    """Record what was lost as one release, whether the limits allow it or not: it has happened."""
    release = BoundedRelease(
        level=Level.USER,
        neighbours="replace",  # then it costs the same for what a user holds
        every_limit=True,
        epsilon=epsilon,
        mechanism_name="lost releases",
        note=label.purpose,
    )
    label = label._replace(recipient=UNKNOWN)
    entry = append(connection, Entry.draft("release", _now(), label, release.canonical(), b""))
    add_spent(connection, spent_by(entry))
    put_pending(connection, entry.number, b"")
    note_delivery(connection, entry.number, _now())


def _told(head: BackupHead, made_at: str, lost: Lost, limits: dict[Level, Limit]) -> str:
    what = {
        LostKind.HOLD: f"{HELD}; the limit was {', '.join(map(str, limits.values())) or 'none'}",
        LostKind.CHARGE: f"epsilon {lost.epsilon:g} stands for releases since",
        LostKind.NONE: "nothing was released since, somebody vouches for it",
    }
    return f"restored from a backup of {made_at}, head {head.number} {head.hash}: {what[lost.kind]}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def check_restored(database: Database, head: BackupHead) -> tuple[Head, str]:
    """Check the chain of a restored ledger, with the backup's head in it.

    Return the head, and what is said of limits that let nothing pass; raise `Damaged` where the
    ledger was damaged when it was backed up.
    """
    ledger = Ledger(database, read_only=True)
    try:
        return check_ledger(ledger, pinned=head.hash).head, ""
    except BudgetExceeded as error:  # the last thing that is checked
        return ledger.head(), error.message
