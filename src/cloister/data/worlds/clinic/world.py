"""The clinic world: patients' records in pods, who may read them, and judged queries.

It stands in for the patient data of the ESPRESSO paper (section 6, table 2): organisations with
servers, one pod a patient, one document a pod, staff with rights over pods, search parties that may
read 5 to 100 per cent of all pods. Everything is invented. A pod depends on the settings and on its
number only, so any range can be made in any process, and a stream of pods needs no more memory than
one block of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import cached_property
from itertools import compress, repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import NotFound
from cloister.core.ids import AgentId, DocId, PartyId, PodId, ServerId
from cloister.core.random import stream
from cloister.core.records import Document, Judgement
from cloister.core.rights import Reader, Rights
from cloister.data.worlds.clinic.case import Case, PatientRow, patient_name, patient_rows
from cloister.data.worlds.clinic.latents import PURPOSE_NAMES, Latents
from cloister.data.worlds.clinic.names import zipf_ranks
from cloister.data.worlds.clinic.notes import write_record
from cloister.data.worlds.clinic.patient_kernel import draw_latents
from cloister.data.worlds.clinic.queries import KINDS, ClinicQuery, grade, make_query
from cloister.data.worlds.clinic.rights import granted_to_party, granted_to_staff, rights_of_pod
from cloister.data.worlds.clinic.settings import ClinicSettings
from cloister.data.worlds.clinic.sites import (
    HOST,
    make_organisations,
    make_search_parties,
    make_servers,
    make_staff,
    sites_of_pods,
)

__all__ = ["ClinicQuery", "ClinicSettings", "ClinicWorld", "Patient", "Pod"]

BLOCK: Final = 1_024  # pods made at a time; decides memory and speed, never the result
_PATIENT_ID: Final = re.compile(re.escape(HOST) + "/patients/([0-9]{7,18})#me")
SEXES: Final = ("female", "male")
QUERY_TRIES: Final = 40  # to find a condition that has no query of its kind yet


class Patient(NamedTuple):
    """The owner of a pod."""

    agent_id: AgentId
    name: str
    birth_date: date
    sex: str  # "female" or "male"


class Pod(NamedTuple):
    """A patient's pod: where it lies and who may read it."""

    pod_id: PodId
    doc_id: DocId
    server_id: ServerId
    organisation: PartyId
    patient: Patient
    rights: Rights


class ClinicWorld:
    """A synthetic network of clinics.

    Parameters
    ----------
    settings
        Sizes, seed and style.

    Examples
    --------
    >>> world = ClinicWorld(ClinicSettings(organisations=2, servers=2, pods=10, staff=6))
    >>> world.n_pods, len(world.staff), [party.access_percent for party in world.search_parties]
    (20, 6, [5, 10, 25, 50, 100])
    >>> pod = world.pod(13)
    >>> pod.pod_id, pod.server_id, pod.organisation
    ('pod-0000013', 'server-0001', 'org-001')
    >>> everything = world.search_parties[-1]
    >>> pod.rights.allow(everything.reader)
    True
    >>> len(world.document(13).text) >= 5_000
    True
    """

    def __init__(self, settings: ClinicSettings | None = None) -> None:
        self.settings = settings or ClinicSettings()
        self.organisations = make_organisations(self.settings)
        self.servers = make_servers(self.settings)
        self.staff = make_staff(self.settings)
        self.search_parties = make_search_parties(self.settings)
        self._sites = sites_of_pods(self.settings, self.servers, self.staff)
        self._staff_number = {member.agent_id: i for i, member in enumerate(self.staff)}
        self._clinicians = tuple(
            f"Nurse {member.name}" if member.role == "nurse" else f"Dr {member.name}"
            for member in self.staff
        )

    @property
    def n_pods(self) -> int:
        """Pods in all; each holds one document."""
        return self.settings.n_pods

    def latents(self, start: int = 0, stop: int | None = None) -> Latents:
        """Return what is true of the patients of a range of pods."""
        start, stop = self._range(start, stop)
        return draw_latents(self.settings.seed, start, stop, self._sites, self.settings.tail)

    def pod(self, number: int) -> Pod:
        """Return one pod, numbered from 0."""
        self._check(number)
        return next(self.pods(number, number + 1))

    def pods(self, start: int = 0, stop: int | None = None) -> Iterator[Pod]:
        """Return the pods of a range one by one, in bounded memory."""
        for first, last in self._blocks(start, stop):
            parties = [self._granted(p.access_percent, first, last) for p in self.search_parties]
            rows = patient_rows(self.latents(first, last))
            granted = _columns(parties, last - first)
            for number, row, given in zip(range(first, last), rows, granted, strict=True):
                agents = [party.agent_id for party in compress(self.search_parties, given)]
                yield self._pod(number, row, agents)

    def document(self, number: int) -> Document:
        """Return the record that lies in one pod."""
        self._check(number)
        return next(self.documents(number, number + 1))

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Return the records of a range of pods one by one, in bounded memory."""
        for first, last in self._blocks(start, stop):
            for number, row in enumerate(patient_rows(self.latents(first, last)), first):
                yield self._document(number, row)

    def reader(self, agent_id: str) -> Reader:
        """Return an agent with the groups that the world knows them to belong to."""
        number = self._staff_number.get(AgentId(agent_id))
        return Reader(AgentId(agent_id)) if number is None else self.staff[number].reader

    def readable(self, agent_id: str, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Say for each pod of a range whether an agent may read it.

        The answer is that of ``pod(i).rights.allow(reader(agent_id))``, without making the pods.
        Somebody whom the world does not know may read nothing.
        """
        start, stop = self._range(start, stop)
        for party in self.search_parties:
            if party.agent_id == agent_id:
                return self._granted(party.access_percent, start, stop)
        number = self._staff_number.get(AgentId(agent_id))
        if number is not None:
            return self._readable_by_staff(number, start, stop)
        return np.equal(np.arange(start, stop), _patient_number(agent_id), dtype=np.bool_)

    @cached_property
    def queries(self) -> tuple[ClinicQuery, ...]:
        """The queries of the world: short, medium and long ones in turn."""
        taken: set[tuple[str, str]] = set()
        return tuple(self._query(number, taken) for number in range(self.settings.queries))

    def grades(
        self, query: ClinicQuery, start: int = 0, stop: int | None = None
    ) -> NDArray[np.int8]:
        """Return how relevant each pod of a range is for a query, 0 to 3."""
        blocks = self._blocks(start, stop)
        parts = [grade(query, self.latents(first, last)) for first, last in blocks]
        return np.concatenate(parts) if parts else np.empty(0, np.int8)

    def judgements(
        self, *queries: ClinicQuery, start: int = 0, stop: int | None = None
    ) -> Iterator[Judgement]:
        """Return the judgements above 0 for some queries (all if none is given), pod by pod."""
        queries = queries or self.queries
        for first, last in self._blocks(start, stop):
            latents = self.latents(first, last)
            grades = np.stack([grade(query, latents) for query in queries], axis=1)
            for row, column in np.argwhere(grades).tolist():
                yield Judgement(
                    queries[column].query_id, doc_id(first + row), int(grades[row, column])
                )

    def _query(self, number: int, taken: set[tuple[str, str]]) -> ClinicQuery:
        """Return a query; prefer a condition that has none of this kind yet."""
        rng = stream(self.settings.seed, "clinic", "query", number)
        kind = KINDS[number % len(KINDS)]
        for _ in range(QUERY_TRIES):
            pod = int(rng.integers(self.n_pods))
            latents = self.latents(pod, pod + 1)
            row = next(patient_rows(latents))
            query = make_query(number, kind, row, int(latents.age[0]), rng)
            if (query.condition, kind) not in taken:
                break
        taken.add((query.condition, kind))
        return query

    def _pod(self, number: int, row: PatientRow, parties: list[AgentId]) -> Pod:
        server = self.servers[number // self.settings.pods]
        agent = patient_id(number)
        name = patient_name(self._ranks(number), row.sex)
        patient = Patient(agent, name, date.fromordinal(row.birth), SEXES[row.sex])
        rights = rights_of_pod(agent, row, server, self.staff, parties)
        return Pod(
            pod_id(number), doc_id(number), server.server_id, server.organisation, patient, rights
        )

    def _document(self, number: int, row: PatientRow) -> Document:
        carers = (row.doctor, row.doctor, row.deputy, row.nurse)
        case = Case(
            self.settings.seed, number, row,
            clinicians=tuple(self._clinicians[i] for i in carers if i >= 0),
            ranks=self._ranks(number),
        )  # fmt: skip
        text = write_record(case, int(self.settings.document_bytes * row.size_factor))
        return Document(doc_id(number), text, f"Medical record of {case.name}")

    def _ranks(self, number: int) -> Callable[[], int]:
        return zipf_ranks(
            self.settings.seed, number, PURPOSE_NAMES,
            n=self.settings.names, exponent=self.settings.zipf,
        )  # fmt: skip

    def _granted(self, level: int, start: int, stop: int) -> NDArray[np.bool_]:
        return granted_to_party(self.settings.seed, level, start, stop)

    def _readable_by_staff(self, number: int, start: int, stop: int) -> NDArray[np.bool_]:
        member = self.staff[number]
        here = np.array([s.organisation == member.organisation for s in self.servers])
        parts = [np.empty(0, np.bool_)]
        for first, last in self._blocks(start, stop):
            local = here[np.arange(first, last) // self.settings.pods]
            parts.append(granted_to_staff(member, number, self.latents(first, last), local))
        return np.concatenate(parts)

    def _range(self, start: int, stop: int | None) -> tuple[int, int]:
        stop = self.n_pods if stop is None else stop
        if not 0 <= start <= stop <= self.n_pods:
            raise NotFound(
                f"there are no pods {start} to {stop}", where="clinic world",
                remedy=f"pods are numbered from 0 to {self.n_pods - 1}",
            )  # fmt: skip
        return start, stop

    def _check(self, number: int) -> None:
        self._range(number, number + 1)

    def _blocks(self, start: int, stop: int | None) -> Iterator[tuple[int, int]]:
        """Cut a range into blocks, at the same places whatever the range."""
        start, stop = self._range(start, stop)
        while start < stop:
            last = min(stop, (start // BLOCK + 1) * BLOCK)
            yield start, last
            start = last


def pod_id(number: int) -> PodId:
    """Return the id of a pod."""
    return PodId(f"pod-{number:07}")


def doc_id(number: int) -> DocId:
    """Return the id of the document that lies in a pod."""
    return DocId(f"record-{number:07}")


def patient_id(number: int) -> AgentId:
    """Return the id of the patient who owns a pod."""
    return AgentId(f"{HOST}/patients/{number:07}#me")


def _patient_number(agent_id: str) -> int:
    """Return the number of the pod that somebody owns; -1 for who is no patient."""
    found = _PATIENT_ID.fullmatch(agent_id)
    number = int(found[1]) if found else -1
    return number if patient_id(number) == agent_id else -1


def _columns(parties: list[NDArray[np.bool_]], n: int) -> Iterator[tuple[bool, ...]]:
    """Return, pod by pod, which of the parties may read it."""
    if not parties:
        return repeat((), n)
    return zip(*(granted.tolist() for granted in parties), strict=True)
