"""Who of those with a certificate belongs to the federation: the roster says it."""

from __future__ import annotations

from cloister.core.errors import NotFound
from cloister.federate.engines.roster import FederationRoster
from cloister.web.callers import Caller

__all__ = ["require_member"]


def require_member(caller: Caller, roster: FederationRoster) -> str:
    """Return a node's name if the roster has it; a certificate alone makes nobody a member."""
    if all(member.name != caller.name for member in roster.members):
        raise NotFound("nothing of this kind")
    return caller.name
