"""What is broken on purpose during the soak, one fault at a time, and mended again."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from cloister.core.errors import CloisterError
from cloister.core.ids import DocId
from cloister.lab.bench.soak_users import Acknowledged, client_of
from cloister.pods.folder_pod import FolderPod
from cloister.services.federation_folder import FederationFolder
from cloister.services.node.messages import SearchAnswer
from cloister.services.processes import Processes
from cloister.services.sample_clinics import SampleClinics, SampleUser

__all__ = ["Away", "Faults", "try_fault"]

DEAD_S: Final = 3.0  # until a service that was killed is started again
HALTED_S: Final = 6.0  # longer than a stage of a round waits
SETTLED_S: Final = 6.0  # until all others know that somebody is back
N_LOOKS: Final = 3
MOST_LOOKS: Final = 30
_WORDS: Final = 12  # of a document, as the query that finds it


class Away(NamedTuple):
    """From when to when a service was dead or stopped, in seconds that never go back."""

    service: str
    began: float
    ended: float


class Faults:
    """Breaks a federation, again and again.

    Parameters
    ----------
    processes
        The services.
    clinics
        The world that is in them.
    spared
        A node that is stopped at times and never killed, so that one life lasts from the beginning
        to the end.
    """

    def __init__(self, processes: Processes, clinics: SampleClinics, *, spared: str) -> None:
        self._processes, self._clinics = processes, clinics
        self._folder: FederationFolder = processes.folder
        self._killed = [node for node in clinics.nodes if node != spared]
        self._spared = spared
        self._pods = itertools.cycle(range(clinics.world.n_pods))
        self.away: list[Away] = []
        self.n_faults: Counter[str] = Counter()
        self.pages: list[Acknowledged] = []
        self.leaks: list[str] = []
        self.n_looks = 0

    def first_half(self) -> Iterator[Callable[[], None]]:
        """Give faults of all services, without end."""
        first, second = self._killed[0], self._killed[-1]
        yield from itertools.cycle(
            [
                lambda: self.kill(first),
                lambda: self.halt(self._spared),
                lambda: self.kill("broker"),
                self.revoke_and_grant,
                lambda: self.kill("coordinator"),
                lambda: self.kill(second),
                lambda: self.halt(first),
            ]
        )

    def second_half(self) -> Iterator[Callable[[], None]]:
        """Give faults of nodes alone, without end: the others live on, and can be seen to grow."""
        first, second = self._killed[0], self._killed[-1]
        yield from itertools.cycle(
            [
                lambda: self.kill(first),
                self.revoke_and_grant,
                lambda: self.halt(self._spared),
                lambda: self.kill(second),
                lambda: self.halt(second),
            ]
        )

    def kill(self, service: str) -> None:
        """Kill -9 a service, and start it again after some seconds."""
        began = time.monotonic()
        self._processes.kill(service)
        time.sleep(DEAD_S)
        self._processes.start(service)
        self._note("kill", service, began)

    def halt(self, service: str) -> None:
        """Stop a service for longer than it is waited for."""
        began = time.monotonic()
        self._processes.halt(service)
        time.sleep(HALTED_S)
        self._processes.go_on(service)
        self._note("halt", service, began)

    def revoke_and_grant(self) -> None:
        """Take a document from somebody, see that it is not found, and give it back."""
        number = next(self._pods)
        node = self._clinics.nodes[number // self._clinics.world.settings.pods]
        user = self._reader_of_all()
        text = self._clinics.world.document(number).text
        query = " ".join(text.split()[:_WORDS])
        pod_id = self._clinics.world.pod(number).pod_id
        pod = FolderPod.open(self._folder.home(node) / "pods" / pod_id)
        doc_id = next(iter(pod.resources())).doc_id
        pod.revoke(doc_id, user.agent_id)
        self._sync(node)
        if any(self._finds(user, query, doc_id) for _ in range(N_LOOKS)):
            self.leaks.append(f"{doc_id} was shown after it was revoked")
        pod.grant(doc_id, user.agent_id)
        self._sync(node)
        if not any(self._finds(user, query, doc_id) for _ in range(MOST_LOOKS)):
            self.leaks.append(f"{doc_id} was not found after it was granted")
        self.n_faults["revoke and grant"] += 1

    def _note(self, kind: str, service: str, began: float) -> None:
        self.away.append(Away(service, began, time.monotonic()))
        self.n_faults[f"{kind} {service}"] += 1

    def _reader_of_all(self) -> SampleUser:
        users = self._clinics.users(self._clinics.nodes[0])
        return next(one for one in users if one.agent_id.endswith("party-100"))

    def _sync(self, node: str) -> None:
        with self._folder.client(node) as operator:
            operator.post_json("/v1/syncs")

    def _finds(self, user: SampleUser, query: str, doc_id: DocId) -> bool:
        self.n_looks += 1
        with client_of(self._folder, user) as client:
            answer: SearchAnswer = client.search(query)
        if answer.page_id:
            self.pages.append(Acknowledged(self._clinics.nodes[0], answer.page_id, ()))
        return any(one.doc_id == doc_id for one in answer.results)


def try_fault(fault: Callable[[], None]) -> str:
    """Do a fault; return what went wrong with doing it, if anything did."""
    try:
        fault()
    except CloisterError as error:
        return str(error)
    return ""
