"""The people of the demo: what they look for, and how they search and click.

They are in a hurry. How well a record serves them is its grade for the query, less one where it is
longer than a third of all records, and less two where it is longer than two thirds. No ranker is
told so: it shows in their clicks alone. They look at each result from the top and open all that
serve them (the click model ``perfect``).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.app.demo.clinic_federation import ClinicFederation, DemoUser
from cloister.app.user_sessions import UserSessions
from cloister.core.errors import NotFound
from cloister.data.clicks import click_model, sample_clicks
from cloister.data.worlds.clinic import ClinicWorld
from cloister.data.worlds.clinic.queries import ClinicQuery
from cloister.services.node.messages import SearchAnswer
from cloister.services.user_client import UserClient
from cloister.web.refusals import PeerUnreachable

__all__ = ["ClinicNeeds", "Day", "SimulatedUsers", "pod_number"]

N_GRADES: Final = 5  # of the click model's table; needs go from 0 to 3
HELD_OUT: Final = 20  # queries, the last ones, that simulated users never ask
AT_ONCE: Final = 4  # searches


def pod_number(pod_id: str) -> int:
    """Return the number of a pod of the world.

    Examples
    --------
    >>> pod_number("pod-0000013")
    13
    """
    return int(pod_id.rpartition("-")[2])


class ClinicNeeds:
    """How well each record serves the people of the demo, for a query.

    Parameters
    ----------
    world
        The clinics' records.
    """

    def __init__(self, world: ClinicWorld) -> None:
        self.world = world
        lengths = np.array([len(document.text) for document in world.documents()])
        self._loss = np.searchsorted(np.quantile(lengths, [1 / 3, 2 / 3]), lengths)
        self._known: dict[str, NDArray[np.int64]] = {}
        self.asked = world.queries[:-HELD_OUT]
        self.held_out = world.queries[-HELD_OUT:]

    def of(self, query: ClinicQuery) -> NDArray[np.int64]:
        """Return for each pod how well its record serves who asks the query, 0 to 3."""
        if query.query_id not in self._known:
            grades = self.world.grades(query).astype(np.int64)
            self._known[query.query_id] = np.maximum(grades - self._loss, 0)
        return self._known[query.query_id]


class Day(NamedTuple):
    """What simulated users did."""

    n_searches: int
    n_clicks: int
    n_missing: int  # answers in which a node was missing
    n_failed: int  # searches that the user's own node did not answer


class SimulatedUsers:
    """Users of the demo who search and click by themselves. One thread at a time.

    Parameters
    ----------
    federation, needs, sessions
        Where, what for, and by which connections.
    seed
        Decides who asks what; the pages that they get are the nodes' own draws.
    """

    def __init__(
        self, federation: ClinicFederation, needs: ClinicNeeds, sessions: UserSessions, seed: int
    ) -> None:
        self._users = [one for one in federation.users if one.role != "patient"]
        self._needs, self._sessions = needs, sessions
        self._rng = np.random.default_rng([seed, 77])
        self._model = click_model("perfect", N_GRADES)

    def search(self, n_each: int = 1, *, roles: Sequence[str] = ()) -> Day:
        """Let each user, or each of some roles, search so often, click, and leave the page."""
        turns = [
            (user, self._needs.asked[int(self._rng.integers(len(self._needs.asked)))])
            for user in self._users
            if not roles or user.role in roles
            for _ in range(n_each)
        ]
        seeds = self._rng.integers(2**31, size=len(turns)).tolist()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            done = list(pool.map(self._one_search, turns, seeds))
        return Day(*(sum(column) for column in zip(*done, strict=True)))

    def _one_search(self, turn: tuple[DemoUser, ClinicQuery], seed: int) -> Day:
        user, query = turn

        def work(client: UserClient) -> Day:
            page = client.search(query.text)
            clicks = self._clicked(page, query, seed)
            for rank in clicks:
                client.click(page.page_id, rank)
            if page.page_id:
                client.leave(page.page_id)
            return Day(1, len(clicks), bool(page.missing_nodes), 0)

        try:
            return self._sessions.call(user.agent_id, user.groups, work)
        except (NotFound, PeerUnreachable):  # the node is away, or was started again in between
            return Day(0, 0, 0, 1)

    def _clicked(self, page: SearchAnswer, query: ClinicQuery, seed: int) -> list[int]:
        """Return the ranks that a user opens."""
        if not page.results:
            return []
        needs = self._needs.of(query)
        shown = np.array([[needs[pod_number(one.pod)] for one in page.results]])
        clicks = sample_clicks(self._model, shown, seed=seed)[0]
        return [rank for rank, clicked in enumerate(clicks.tolist(), 1) if clicked]
