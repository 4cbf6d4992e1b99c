"""A clinic world in the homes of a federation's nodes: for trying it out, tests and measurements.

Each node gets one server of the world: its patients' pods as folders with access lists, indexed.
People are named by their node, as tokens name them: ``clinic-a:staff-003``, ``clinic-a:patient-7``.
Search parties of the world, who may read a share of all pods everywhere, are users of the first
node, or of all nodes in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cloister.core.ids import AgentId, GroupId, ServerId
from cloister.core.rights import Rights
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld, Pod
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import PodRegistry, RegisteredPod

__all__ = ["SampleClinics", "SampleUser"]


class SampleUser(NamedTuple):
    """Somebody who can search at a node."""

    agent_id: AgentId
    groups: frozenset[GroupId]
    role: str
    name: str = ""


class SampleClinics:
    """A clinic world with one server for each node.

    Parameters
    ----------
    nodes
        Their names.
    pods
        Patients of each.
    seed
        Of the world.
    staff
        People who work at each.
    access
        What search parties may read, in per cent of all pods: one party each.
    parties_everywhere
        Whether search parties are users of all nodes in turn.

    Examples
    --------
    >>> clinics = SampleClinics(["clinic-a", "clinic-b"], pods=4)
    >>> clinics.users("clinic-b")[0].agent_id
    'clinic-b:staff-005'
    """

    def __init__(
        self,
        nodes: list[str],
        *,
        pods: int = 20,
        seed: int = 1,
        staff: int = 5,
        access: tuple[int, ...] = (5, 10, 25, 50, 100),
        parties_everywhere: bool = False,
    ) -> None:
        n = len(nodes)
        settings = ClinicSettings(
            organisations=n,
            servers=n,
            pods=pods,
            staff=staff * n,
            access=access,
            queries=60,
            seed=seed,
        )
        self.world = ClinicWorld(settings)
        self.nodes = tuple(nodes)
        self._node_of = {
            server.organisation: node
            for server, node in zip(self.world.servers, nodes, strict=True)
        }
        n_with_parties = n if parties_everywhere else 1
        self._agents = {
            member.agent_id: AgentId(f"{self._node_of[member.organisation]}:staff-{number:03}")
            for number, member in enumerate(self.world.staff)
        } | {
            party.agent_id: AgentId(f"{nodes[i % n_with_parties]}:party-{party.access_percent}")
            for i, party in enumerate(self.world.search_parties)
        }

    def users(self, node: str) -> list[SampleUser]:
        """Return the people who search at a node: its staff, and its search parties."""
        staff = [
            SampleUser(self._agents[one.agent_id], self._groups(one.groups), one.role, one.name)
            for one in self.world.staff
            if self._node_of[one.organisation] == node
        ]
        parties = [
            SampleUser(agent, frozenset(), "search party", f"may read {one.access_percent} %")
            for one in self.world.search_parties
            if (agent := self._agents[one.agent_id]).startswith(f"{node}:")
        ]
        return staff + parties

    def patient(self, number: int) -> SampleUser:
        """Return the patient who owns a pod, by the pod's number."""
        pod = self.world.pod(number)
        return SampleUser(self._owner(pod), frozenset(), "patient", pod.patient.name)

    def rights(self, pod: Pod) -> Rights:
        """Return who may read a pod, by the names that tokens have."""
        rights = pod.rights
        return Rights(
            owner=self._owner(pod),
            agents=frozenset(self._agents[agent] for agent in rights.agents),
            groups=self._groups(rights.groups),
        )

    def fill(self, homes: Mapping[str, Path]) -> int:
        """Write each node's pods below its home and index them; return how many there are."""
        n_pods = self.world.settings.pods
        for number, node in enumerate(self.nodes):
            with PodRegistry(homes[node]) as registry:
                span = number * n_pods, (number + 1) * n_pods
                self._fill_one(registry, ServerId(node), span)
        return self.world.n_pods

    def _fill_one(self, registry: PodRegistry, node: ServerId, span: tuple[int, int]) -> None:
        folder = registry.home / "pods"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for pod, document in zip(self.world.pods(*span), self.world.documents(*span), strict=True):
            place, rights = folder / pod.pod_id, self.rights(pod)
            store = FolderPod.create(place, pod.pod_id, rights.owner)
            store.write("record.txt", document.text, rights=rights)
            registered = RegisteredPod(
                pod_id=pod.pod_id,
                owner=rights.owner,
                server_id=node,
                kind="folder",
                address=str(place),
            )
            registry.add(registered)
            registry.sync(registered)

    def _owner(self, pod: Pod) -> AgentId:
        number = int(pod.pod_id.rpartition("-")[2])
        return AgentId(f"{self._node_of[pod.organisation]}:patient-{number}")

    def _groups(self, groups: frozenset[GroupId]) -> frozenset[GroupId]:
        """Name groups by their node: the last two parts are the organisation and the specialty."""
        named = (group.rsplit("/", 2)[-2:] for group in groups)
        return frozenset(
            GroupId(f"{node}:{specialty}")
            for organisation, specialty in named
            for party, node in self._node_of.items()
            if party == organisation
        )
