"""Names of things: plain strings whose type says what they name."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NewType

from cloister.core.errors import SettingsError

__all__ = [
    "AgentId",
    "ClientId",
    "DocId",
    "GroupId",
    "PartyId",
    "PodId",
    "QueryId",
    "ServerId",
    "checked_id",
    "content_id",
]

QueryId = NewType("QueryId", str)
DocId = NewType("DocId", str)
AgentId = NewType("AgentId", str)  # a person or program; a WebID where pods are Solid pods
GroupId = NewType("GroupId", str)
PartyId = NewType("PartyId", str)  # an organisation that keeps data
ClientId = NewType("ClientId", str)  # a participant in federated training
PodId = NewType("PodId", str)
ServerId = NewType("ServerId", str)

MAX_ID_LENGTH: Final = 512  # long enough for a WebID, short enough for an index key
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\s]")


def checked_id(text: str) -> str:
    """Return ``text`` if it can be an id, else raise.

    Examples
    --------
    >>> checked_id("clinic-a")
    'clinic-a'
    """
    if not 1 <= len(text) <= MAX_ID_LENGTH or _FORBIDDEN.search(text):
        raise SettingsError(
            f"an id has 1 to {MAX_ID_LENGTH} characters, none of them blank or a control character",
            where=repr(text[:80]),
        )
    return text


def content_id(content: bytes) -> str:
    """Return the SHA-256 of some bytes, as files are named in the store.

    Examples
    --------
    >>> content_id(b"")[:16]
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(content).hexdigest()
