"""Whom a service knows: a certificate of the authority alone makes nobody a member.

Services are known by the roster, operators and officers by the service's own file: who runs one
party's service has nothing to say at another's.
"""

from __future__ import annotations

from collections.abc import Callable

from cloister.federate.engines.roster import FederationRoster
from cloister.services.service_file import ServiceFile
from cloister.web.callers import Caller, Role

__all__ = ["known_to"]


def known_to(file: ServiceFile, roster: FederationRoster) -> Callable[[Caller], bool]:
    """Return what says whether a caller with a certificate is known to a service."""
    places = {Role.COORDINATOR: roster.coordinator, Role.BROKER: roster.broker}
    names: dict[Role, frozenset[str]] = {
        role: frozenset() if place is None else frozenset({place.name})
        for role, place in places.items()
    }
    names[Role.NODE] = frozenset(roster.site_ids)
    names[Role.OPERATOR] = frozenset(file.operators)
    names[Role.OFFICER] = frozenset(file.officers)
    return lambda caller: caller.name in names.get(caller.role, frozenset())
