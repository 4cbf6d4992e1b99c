"""One line of the ledger, and the hash that ties it to the line before."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from cloister.core.errors import SettingsError
from cloister.core.ids import checked_id, content_id
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.release import Release
from cloister.privacy.releases.reading import read_release

__all__ = [
    "BEGINNING",
    "HELD",
    "Entry",
    "EntryKind",
    "Head",
    "Label",
    "Receipt",
    "change_limits",
    "change_of",
    "checked_label",
    "checked_name",
    "checked_purpose",
    "entry_hash",
    "limit_body",
    "read_limit",
]

EntryKind = Literal["release", "limit"]

BEGINNING: Final = "0" * 64  # what the first entry has for the hash of the one before
MAX_PURPOSE_LENGTH: Final = 1000
HELD: Final = "releases since are not known, so nothing may pass"  # in the purpose of a hold
_FORMAT: Final = "cloister ledger 1"


class Head(NamedTuple):
    """The last entry of a ledger: who has it written down can tell whether the past was changed.

    An empty ledger has number 0.
    """

    number: int
    hash: str


class Receipt(NamedTuple):
    """The proof that a release is recorded; only with it may the payload be sent.

    Parameters
    ----------
    number
        The entry's place in the ledger, from 1.
    payload_sha256, size_bytes
        What the payload is.
    hash
        Of the entry.
    """

    number: int
    payload_sha256: str
    size_bytes: int
    hash: str


class Label(NamedTuple):
    """Whose privacy, to whom and why: checked by `checked_label`."""

    party_id: str
    recipient: str
    purpose: str


class Entry(NamedTuple):
    """A recorded release, or a change of a party's limit.

    Parameters
    ----------
    number
        1, 2, 3, ... without gaps.
    kind
        What ``body`` is.
    recorded_at
        Coordinated universal time, ISO 8601, by the clock of the machine that recorded it.
    party_id
        Whose privacy it costs, or whose limit it is.
    recipient
        Who gets the payload; empty for a limit.
    purpose
        Why, in somebody's words.
    body
        Canonical JSON: the release, or the new limit of one level. Where it was taken away,
        ``{"level": ..., "removed": true}``, or ``null`` for the limits of all levels.
    payload_sha256, size_bytes
        What was sent; of no bytes for a limit.
    previous
        The hash of the entry before.
    hash
        `entry_hash` of this entry.
    """

    number: int
    kind: EntryKind
    recorded_at: str
    party_id: str
    recipient: str
    purpose: str
    body: str
    payload_sha256: str
    size_bytes: int
    previous: str
    hash: str = ""

    @classmethod
    def draft(
        cls, kind: EntryKind, recorded_at: str, label: Label, body: str, content: bytes
    ) -> Entry:
        """Return an entry that has no place in a ledger yet."""
        return cls(0, kind, recorded_at, *label, body, content_id(content), len(content), "")

    @property
    def release(self) -> Release:
        """What was released."""
        return read_release(self.body, where=f"ledger entry {self.number}")

    @property
    def limit(self) -> Limit | None:
        """The limit that was set; None where it was taken away."""
        return read_limit(self.body)

    @property
    def is_hold(self) -> bool:
        """Whether a restore set this limit to 0, until somebody sets another by a command."""
        return self.kind == "limit" and HELD in self.purpose

    def sealed(self) -> Entry:
        """Return this entry with its hash."""
        return self._replace(hash=entry_hash(self))

    def receipt(self) -> Receipt:
        """Return what the caller of a release gets."""
        return Receipt(self.number, self.payload_sha256, self.size_bytes, self.hash)


@lru_cache(maxsize=256)
def read_limit(body: str) -> Limit | None:
    """Read the body of an entry that sets a limit; None where it takes one away."""
    fields = json.loads(body)
    return None if fields is None or fields.get("removed") else Limit(**fields)


def limit_body(limit: Limit | None, level: Level | None) -> str:
    """Return the body of an entry that sets a limit, or takes one away (all without a level)."""
    if limit is not None:
        return limit.fixed().canonical()
    gone = None if level is None else {"level": level.value, "removed": True}
    return json.dumps(gone, sort_keys=True, separators=(",", ":"))


def change_limits(limits: dict[Level, Limit], body: str) -> dict[Level, Limit]:
    """Return a party's limits by level, after one more entry about them.

    Examples
    --------
    >>> both = change_limits({}, limit_body(Limit(epsilon=1, delta=1e-6), None))
    >>> list(both), change_limits(both, limit_body(None, Level.USER))
    ([<Level.USER: 'user'>], {})
    """
    changed = change_of(body)
    kept = {level: one for level, one in limits.items() if level not in changed}
    return kept | {level: one for level, one in changed.items() if one is not None}


def change_of(body: str) -> dict[Level, Limit | None]:
    """Return the limits that an entry changes, by level; None for one that it takes away."""
    limit = read_limit(body)
    if limit is not None:
        return {limit.level: limit}
    fields = json.loads(body)
    return dict.fromkeys(Level if fields is None else [Level(fields["level"])])


def entry_hash(entry: Entry) -> str:
    """Return the SHA-256 of everything that an entry says, the previous hash included.

    Examples
    --------
    >>> entry = Entry(1, "limit", "2026-01-01T00:00:00+00:00", "clinic-a", "", "", "null",
    ...               "", 0, BEGINNING)
    >>> entry_hash(entry) == entry_hash(entry._replace(purpose="other"))
    False
    """
    fields: list[Any] = [_FORMAT, *entry[:-1]]
    return content_id(json.dumps(fields, separators=(",", ":")).encode())


def checked_label(party_id: str, recipient: str, purpose: str) -> Label:
    """Return the three texts, if both databases can keep them."""
    return Label(checked_name(party_id), checked_name(recipient), checked_purpose(purpose))


def checked_name(text: str) -> str:
    """Return ``text`` if it can name a party or a recipient, in both databases."""
    checked_id(text)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise SettingsError("a name must be valid Unicode", where=ascii(text[:80]))
    return text


def checked_purpose(text: str) -> str:
    """Return ``text`` if it is one line of ordinary text."""
    if len(text) > MAX_PURPOSE_LENGTH or not all(map(str.isprintable, text)):
        raise SettingsError(
            f"at most {MAX_PURPOSE_LENGTH} printable characters on one line",
            where="purpose",
            remedy="say it shorter",
        )
    return text
