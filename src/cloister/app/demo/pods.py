"""The demo's step on pods: a doctor searches what patients keep, and a patient grants and revokes.

The pods are folders with access control lists; their servers run in this process. What is shown
goes the ways of ``cloister search``, ``grant`` and ``revoke``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cloister.app.demo.state import DemoState, StepOutcome
from cloister.app.granting import change_rights
from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, DocId
from cloister.core.rights import Reader
from cloister.data.worlds.clinic import ClinicWorld, Pod
from cloister.pods.folder_pod import FolderPod
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.search.searcher import Searcher

__all__ = ["search_pods"]

N_SERVERS: Final = 3
PODS_A_SERVER: Final = 8
QUERY: Final = "blood pressure"  # which most records mention
STRANGER: Final = Reader(AgentId("https://elsewhere.example/stranger#me"))
TIMEOUT_S: Final = 60.0  # the first search compiles kernels


def search_pods(state: DemoState) -> StepOutcome:
    """Put records into pods, search them as several people, grant one and revoke it."""
    with PodRegistry(state.folder / "pods-home") as registry:
        pods = _fill(registry, state.clinic, state.folder / "pods")
        return _told(registry, state.clinic, pods)


def _fill(registry: PodRegistry, world: ClinicWorld, folder: Path) -> dict[DocId, Pod]:
    """Make a folder pod of each patient, register and index it; return where each record is."""
    pods = {}
    for server in range(N_SERVERS):
        first = server * world.settings.pods
        span = first, first + PODS_A_SERVER
        for pod, document in zip(world.pods(*span), world.documents(*span), strict=True):
            place, owner = folder / pod.pod_id, pod.patient.agent_id
            store = FolderPod.create(place, pod.pod_id, owner)
            pods[store.write("record.txt", document.text, rights=pod.rights)] = pod
            registered = RegisteredPod(
                pod_id=pod.pod_id,
                owner=owner,
                server_id=pod.server_id,
                kind="folder",
                address=str(place),
            )
            registry.add(registered)
            registry.sync(registered)
    return pods


def _told(registry: PodRegistry, world: ClinicWorld, pods: dict[DocId, Pod]) -> StepOutcome:
    doctor, everywhere = world.staff[0], world.search_parties[-1].reader  # who may read all
    with InProcessOverlay(registry.search_servers(), timeout_s=TIMEOUT_S) as overlay:
        ask = ask_within(TIMEOUT_S)
        people = (doctor.reader, STRANGER, everywhere)
        searchers = {
            who: Searcher(overlay.nodes_for_trusted(who), ask=ask) for who in people
        }  # kept: what they remember must not outlive a right

        def found(who: Reader) -> list[DocId]:
            outcome = searchers[who].search(QUERY, k=len(pods))
            return [one.doc_id for one in outcome.results]

        there, own, others = (found(who) for who in (everywhere, doctor.reader, STRANGER))
        record = next(one for one in there if one not in own)
        _let(doctor.agent_id, registry, record, give=True)
        granted = found(doctor.reader)
        _let(doctor.agent_id, registry, record, give=False)
        revoked = found(doctor.reader)
        refusal = _refusal(registry, record)
    allowed = {name for name in there if pods[name].rights.allow(doctor.reader)}
    pod = pods[record]
    return StepOutcome(
        {
            "pods": len(pods),
            "servers": N_SERVERS,
            "matching": len(there),
            "found_by_doctor": len(own),
            "found_as_rights_say": set(own) == allowed,
            "found_by_stranger": len(others),
            "found_after_grant": sorted(set(granted) - set(own)),
            "found_after_revocation": sorted(set(revoked) - set(own)),
            "refusal": refusal,
        },
        [
            f"{len(pods)} patients' pods on {N_SERVERS} servers; {QUERY!r} is in {len(there)}",
            f"{doctor.role} {doctor.name} finds {len(own)}, all that they may read of these; "
            f"a stranger finds {len(others)}",
            f"{pod.patient.name} ({pod.server_id}) grants: the next search finds {len(granted)}; "
            f"and revokes: {len(revoked)}",
            f"a stranger who knows the record's name reads: {refusal}",
        ],
    )


def _let(agent: AgentId, registry: PodRegistry, record: DocId, *, give: bool) -> None:
    """Change the record's access control list, and the index with it."""
    change_rights(registry, [record], [agent], [], public=False, give=give)


def _refusal(registry: PodRegistry, record: DocId) -> str:
    """Ask the pod itself for a record's text; return what a stranger is told."""
    try:
        return registry.datastore(registry.owner_of(record)).read(record, STRANGER)
    except AccessDenied as error:
        return error.what
