"""Organisations, servers, staff and search parties of the clinic world."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cloister.core.ids import AgentId, GroupId, PartyId, ServerId
from cloister.core.random import stream
from cloister.core.rights import Reader
from cloister.data.worlds.clinic.condition import SPECIALTIES
from cloister.data.worlds.clinic.latents import SitesOfPods
from cloister.data.worlds.clinic.names import FAMILY_NAME, GIVEN_NAMES, PLACE, spell
from cloister.data.worlds.clinic.settings import ClinicSettings

__all__ = [
    "Organisation", "SearchParty", "Server", "StaffMember", "make_organisations",
    "make_search_parties", "make_servers", "make_staff", "sites_of_pods", "specialty_group",
]  # fmt: skip

HOST: Final = "https://clinic.example"
# Of five people in an organisation three are doctors, one is a nurse, one works in a specialty.
ROLES: Final = ("doctor", "doctor", "nurse", "specialist", "doctor")


class Organisation(NamedTuple):
    """Somebody who keeps data: a group of practices under one name."""

    party_id: PartyId
    name: str


class Server(NamedTuple):
    """A machine of an organisation that holds pods."""

    server_id: ServerId
    organisation: PartyId
    specialty: str  # more of its patients than elsewhere have such problems


class StaffMember(NamedTuple):
    """Somebody who works for an organisation and may read some of its pods.

    A doctor reads the pods of their patients and of those they deputise for, a nurse the pods they
    help with, a specialist all pods that their organisation referred to their specialty.
    """

    agent_id: AgentId
    name: str
    organisation: PartyId
    role: str  # "doctor", "nurse" or "specialist"
    specialty: str  # of a specialist, else empty
    groups: frozenset[GroupId]

    @property
    def reader(self) -> Reader:
        """The verified identity with which this person reads."""
        return Reader(self.agent_id, self.groups)


class SearchParty(NamedTuple):
    """Somebody who may read a random share of all pods, as in the ESPRESSO experiments."""

    agent_id: AgentId
    access_percent: int

    @property
    def reader(self) -> Reader:
        """The verified identity with which this party reads."""
        return Reader(self.agent_id)


def organisation_id(number: int) -> PartyId:
    """Return the id of an organisation."""
    return PartyId(f"org-{number:03}")


def server_id(number: int) -> ServerId:
    """Return the id of a server."""
    return ServerId(f"server-{number:04}")


def specialty_group(organisation: PartyId, specialty: str) -> GroupId:
    """Return the group of an organisation's specialists.

    Examples
    --------
    >>> specialty_group(organisation_id(2), "urology")
    'https://clinic.example/groups/org-002/urology'
    """
    return GroupId(f"{HOST}/groups/{organisation}/{specialty}")


def make_organisations(settings: ClinicSettings) -> tuple[Organisation, ...]:
    """Return the organisations, named after invented places."""
    ranks = stream(settings.seed, "clinic", "organisations").permutation(5_000)
    return tuple(
        Organisation(organisation_id(i), f"{spell(PLACE, int(ranks[i]))} Health")
        for i in range(settings.organisations)
    )


def make_servers(settings: ClinicSettings) -> tuple[Server, ...]:
    """Return the servers, spread evenly over the organisations in order."""
    kinds = stream(settings.seed, "clinic", "servers").integers(
        len(SPECIALTIES), size=settings.servers
    )
    return tuple(
        Server(
            server_id(i),
            organisation_id(i * settings.organisations // settings.servers),
            SPECIALTIES[kinds[i]],
        )
        for i in range(settings.servers)
    )


def make_staff(settings: ClinicSettings) -> tuple[StaffMember, ...]:
    """Return the staff, spread evenly over the organisations in order."""
    rng = stream(settings.seed, "clinic", "staff")
    surnames = rng.permutation(max(20_000, settings.staff))
    given = rng.integers(2**31, size=settings.staff)
    members, seen = [], dict[int, int]()
    for i in range(settings.staff):
        organisation = i * settings.organisations // settings.staff
        place = seen[organisation] = seen.get(organisation, -1) + 1
        names = GIVEN_NAMES[given[i] % 2]
        name = f"{names[given[i] // 2 % len(names)]} {spell(FAMILY_NAME, int(surnames[i]))}"
        members.append(_member(i, name, organisation_id(organisation), place))
    return tuple(members)


def _member(number: int, name: str, organisation: PartyId, place: int) -> StaffMember:
    role = ROLES[place % len(ROLES)]
    specialty = SPECIALTIES[place // len(ROLES) % len(SPECIALTIES)] if role == "specialist" else ""
    groups = {specialty_group(organisation, specialty)} if specialty else set[GroupId]()
    return StaffMember(
        AgentId(f"{HOST}/staff/{number:05}#me"), name, organisation, role, specialty,
        frozenset(groups),
    )  # fmt: skip


def make_search_parties(settings: ClinicSettings) -> tuple[SearchParty, ...]:
    """Return one search party for each access level."""
    return tuple(
        SearchParty(AgentId(f"{HOST}/parties/access-{level:03}#me"), level)
        for level in settings.access
    )


def sites_of_pods(
    settings: ClinicSettings, servers: tuple[Server, ...], staff: tuple[StaffMember, ...]
) -> SitesOfPods:
    """Return what the kernels must know about servers and staff, as arrays."""
    leans = stream(settings.seed, "clinic", "ages").uniform(0.75, 1.3, size=len(servers))
    number = {organisation_id(i): i for i in range(settings.organisations)}
    home = np.array([number[member.organisation] for member in staff], np.int32)
    role = np.array([member.role for member in staff])
    lists = {}
    for name in ("doctor", "nurse"):
        chosen = np.flatnonzero(role == name).astype(np.int32)  # staff are in order of organisation
        counts = np.bincount(home[chosen], minlength=settings.organisations)
        lists[name] = chosen, np.concatenate(([0], np.cumsum(counts)))
    return SitesOfPods(
        pods=settings.pods,
        focus=settings.focus,
        server_specialty=np.array([SPECIALTIES.index(s.specialty) for s in servers], np.int8),
        server_lean=leans,
        server_organisation=np.array([number[s.organisation] for s in servers], np.int32),
        doctors=lists["doctor"][0],
        doctor_offsets=lists["doctor"][1],
        nurses=lists["nurse"][0],
        nurse_offsets=lists["nurse"][1],
    )
