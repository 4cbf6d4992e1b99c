"""Users of the soak: they search again and again, and click by a click model on true grades."""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import CloisterError, NotFound
from cloister.data.clicks import click_model, sample_clicks
from cloister.data.worlds.clinic.queries import ClinicQuery
from cloister.lab.bench.soak_federation import SETTLE_S
from cloister.services.federation_folder import FederationFolder
from cloister.services.node.messages import SearchAnswer
from cloister.services.sample_clinics import SampleClinics, SampleUser
from cloister.services.user_client import UserClient

__all__ = ["Acknowledged", "Failed", "SearchingUsers", "client_of"]

N_GRADES: Final = 5  # the world's grades 0 to 3 on the scale of the click models with five
TOKEN_S: Final = 600.0
ANSWER_S: Final = 15.0
REST_S: Final = 0.5  # after a search that failed


class Acknowledged(NamedTuple):
    """A page that its user was shown, and the ranks of the clicks that were confirmed."""

    node: str
    page_id: str
    clicked: tuple[int, ...]


class Failed(NamedTuple):
    """A search or click that failed: when, where, and with what kind of error."""

    at: float
    node: str
    kind: str


class _Client(NamedTuple):
    client: UserClient
    until: float


def client_of(folder: FederationFolder, user: SampleUser) -> UserClient:
    """Return a user's way to the home node, with a new token."""
    token = folder.token(user.agent_id, groups=user.groups, lifetime_s=TOKEN_S)
    return UserClient.in_folder(folder, user.agent_id, token, timeout_s=ANSWER_S)


class SearchingUsers:
    """The users of one node, who search in turn, in a thread of their own.

    Parameters
    ----------
    folder, clinics
        The federation and its world.
    node
        Whose users they are.
    every_s
        From one search to the next.
    seed
        Decides who searches for what, and what is clicked.
    """

    def __init__(
        self,
        folder: FederationFolder,
        clinics: SampleClinics,
        node: str,
        *,
        every_s: float,
        seed: int,
    ) -> None:
        self._folder, self._clinics = folder, clinics
        self.node = node
        self._users = clinics.users(node)
        self._every_s = every_s
        self._rng = np.random.default_rng(seed)
        self._model = click_model("informational", N_GRADES)
        self._clients: dict[str, _Client] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"users of {node}", daemon=True)
        self.pages: list[Acknowledged] = []
        self.failed: list[Failed] = []
        self.latencies_s: list[float] = []
        self.n_empty = 0
        self.n_incomplete = 0
        self.n_late_clicks = 0

    def start(self) -> None:
        """Begin to search."""
        self._thread.start()

    def stop(self) -> None:
        """Search no more."""
        self._stop.set()
        self._thread.join()
        for one in self._clients.values():
            one.client.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._every_s, time.monotonic() - self._every_s)
            try:
                self._search()
            except CloisterError as error:
                self.failed.append(Failed(time.monotonic(), self.node, type(error).__name__))
                self._stop.wait(REST_S)

    def _search(self) -> None:
        queries = self._clinics.world.queries
        user = self._users[int(self._rng.integers(len(self._users)))]
        query = queries[int(self._rng.integers(len(queries)))]
        client = self._client(user)
        began = time.perf_counter()
        answer = client.search(query.text)
        self.latencies_s.append(time.perf_counter() - began)
        self.n_incomplete += bool(answer.missing_nodes)
        if not answer.page_id:
            self.n_empty += 1
            return
        self._click(client, answer, query)

    def _click(self, client: UserClient, answer: SearchAnswer, query: ClinicQuery) -> None:
        """Click by the model; what was confirmed before an error is kept."""
        confirmed: list[int] = []
        shown = time.monotonic()
        try:
            for rank in self._wanted(answer, query):
                client.click(answer.page_id, rank)
                confirmed.append(rank)
        except NotFound:
            if time.monotonic() - shown < SETTLE_S / 2:  # not a page that has closed meanwhile
                raise
            self.n_late_clicks += 1
        finally:
            self.pages.append(Acknowledged(self.node, answer.page_id, tuple(confirmed)))

    def _wanted(self, answer: SearchAnswer, query: ClinicQuery) -> list[int]:
        grades = self._clinics.world.grades(query)
        numbers = [int(one.pod.rpartition("-")[2]) for one in answer.results]
        page = grades[numbers].astype(np.int8)[None, :]
        seed = int(self._rng.integers(2**63))
        return (np.flatnonzero(sample_clicks(self._model, page, seed=seed)[0]) + 1).tolist()

    def _client(self, user: SampleUser) -> UserClient:
        known, now = self._clients.get(user.agent_id), time.monotonic()
        if known is None or known.until < now:
            if known is not None:
                known.client.close()
            known = _Client(client_of(self._folder, user), now + TOKEN_S / 2)
            self._clients[user.agent_id] = known
        return known.client
