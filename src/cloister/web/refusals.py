"""How errors are told to callers: one form, a status by kind, nothing from inside.

A body is ``{"error": ..., "remedy": ...}``. Whatever does not exist, is hidden, or is there for
other roles only, gets the same 404; whoever is not identified gets the same 401 everywhere. Errors
of the store and of missing packages are told without their texts.
"""

from __future__ import annotations

import json
import math
from typing import Final, NamedTuple

from cloister.core.errors import (
    AccessDenied,
    BudgetExceeded,
    CloisterError,
    Conflict,
    DataError,
    MissingDependency,
    NotFound,
    SettingsError,
    StoreError,
)

__all__ = [
    "NotIdentified",
    "PeerBusy",
    "PeerUnreachable",
    "REFUSAL_HEADER",
    "Refusal",
    "TooLong",
    "TooMany",
    "UnknownMethod",
    "WrongContent",
    "refusal_of",
]

REFUSAL_HEADER: Final = "x-refusal"  # the kind of a refusal, in one word
MAX_TEXT: Final = 500  # characters of an error that are told


class NotIdentified(AccessDenied):
    """Nobody knows who asks."""

    usual_remedy = "send a valid token, or come with a valid certificate"


class TooLong(CloisterError):
    """More was sent than is taken."""

    usual_remedy = "send less"


class WrongContent(CloisterError):
    """The body is of another kind than the route takes."""

    usual_remedy = "send the kind of content that the service's description names"


class UnknownMethod(CloisterError):
    """The caller may use this path, with another method."""

    usual_remedy = "use one of the methods that the answer names"

    def __init__(self, allowed: str) -> None:
        super().__init__("this method is not for this path")
        self.allowed = allowed


class TooMany(CloisterError):
    """Somebody asks more often than is taken."""

    usual_remedy = "wait and ask again"

    def __init__(self, what: str, *, wait_s: float = 1.0, busy: bool = False) -> None:
        super().__init__(what)
        self.wait_s, self.busy = wait_s, busy


class PeerUnreachable(CloisterError):
    """Another service did not answer, or could not."""

    usual_remedy = "see that the service runs, and ask again"


class PeerBusy(PeerUnreachable):
    """Another service asks us to come later."""

    usual_remedy = "wait and ask again"

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", wait_s: float = 1.0
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.wait_s = wait_s


class Refusal(NamedTuple):
    """What a caller is told.

    Parameters
    ----------
    status
        Of HTTP.
    kind
        One word, for logs and counts.
    error, remedy
        Texts for the caller.
    headers
        Beside the content's own.
    """

    status: int
    kind: str
    error: str
    remedy: str
    headers: tuple[tuple[str, str], ...] = ()

    def body(self) -> bytes:
        """Return the JSON text."""
        return json.dumps({"error": self.error, "remedy": self.remedy}).encode()


NOT_IDENTIFIED: Final = Refusal(
    401,
    "not_identified",
    "this needs an identity",
    NotIdentified.usual_remedy,
    (("www-authenticate", "Bearer"),),
)
NOTHING_HERE: Final = Refusal(
    404, "nothing_here", "there is nothing here for you", "check the address and your role"
)
FAILED: Final = Refusal(500, "failed", "the service failed", "see the service's log")
NOT_NOW: Final = Refusal(
    503, "not_now", "the service cannot do this now", "try again later", (("retry-after", "5"),)
)
INVALID: Final = Refusal(400, "invalid", "the request cannot be read", "check the request")

_TOLD: Final[tuple[tuple[type[CloisterError], int, str], ...]] = (
    (AccessDenied, 403, "denied"),
    (Conflict, 409, "conflict"),
    (BudgetExceeded, 409, "budget"),
    (TooLong, 413, "too_long"),
    (WrongContent, 415, "wrong_content"),
    (DataError, 400, "invalid"),
    (SettingsError, 400, "invalid"),
)
_FIXED: Final[tuple[tuple[type[CloisterError], Refusal], ...]] = (
    (NotIdentified, NOT_IDENTIFIED),
    (NotFound, NOTHING_HERE),
    (PeerUnreachable, NOT_NOW),
    (MissingDependency, NOT_NOW),
)


def refusal_of(error: Exception) -> Refusal:
    """Return what a caller is told about an error.

    Examples
    --------
    >>> refusal_of(DataError("the vector has 3 numbers, not 4", where="/var/lib/x")).error
    'the vector has 3 numbers, not 4'
    >>> refusal_of(StoreError("cannot open /var/lib/x")).error
    'the service cannot do this now'
    """
    if isinstance(error, TooMany):
        return _too_many(error)
    if isinstance(error, UnknownMethod):
        allowed = (("allow", error.allowed),)
        return Refusal(405, "unknown_method", error.what, error.remedy, allowed)
    for kind, refusal in _FIXED:
        if isinstance(error, kind):
            return refusal
    for kind, status, word in _TOLD:
        if isinstance(error, kind):
            return Refusal(status, word, error.what[:MAX_TEXT], error.remedy[:MAX_TEXT])
    return NOT_NOW if isinstance(error, StoreError) else FAILED


def _too_many(error: TooMany) -> Refusal:
    status, kind = (503, "busy") if error.busy else (429, "too_many")
    wait = (("retry-after", str(max(1, math.ceil(error.wait_s)))),)
    return Refusal(status, kind, error.what, error.remedy, wait)
