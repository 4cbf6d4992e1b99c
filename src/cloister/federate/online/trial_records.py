"""What a coordinator remembers of rankers that serve and of trials, as records of its database."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import NotFound
from cloister.federate.online.noisy_sign_test import SignTest, VoteCounts
from cloister.store.keyed_state import Json, KeyedState

__all__ = [
    "Event",
    "Serving",
    "Trial",
    "TrialState",
    "add_event",
    "events_in",
    "put_serving",
    "put_trial",
    "serving_in",
    "trial_in",
]

TrialState = Literal["open", "voting", "promoted", "kept", "cancelled"]

_SERVING: Final = KeyedState("online-serving")
_TRIALS: Final = KeyedState("online-trials")
_EVENTS: Final = KeyedState("online-events")
_KEY: Final = "state"


class Serving(NamedTuple):
    """Which ranker serves.

    Parameters
    ----------
    serving
        Its digest.
    before
        Those that served before and were replaced, oldest first: the way back.
    rolled_back
        Those that served and were taken back; none of them is tried again.
    trial
        The trial under way; empty for none.
    """

    serving: str
    before: tuple[str, ...] = ()
    rolled_back: tuple[str, ...] = ()
    trial: str = ""


class Trial(NamedTuple):
    """A trial of a candidate against the ranker that served when it was opened.

    Parameters
    ----------
    trial_id
        Its name.
    champion, candidate
        Digests of the two.
    share
        Of searches whose page is made of both.
    epsilon
        Of the noise on each node's votes.
    alpha, min_votes
        By which it will be judged (`SignTest`), as they were when it was opened.
    opened_at, voting_at
        When it was opened, and when votes were called: ISO 8601 in coordinated universal time;
        empty before.
    state
        ``open``: pages are shown; ``voting``: no more are; then how it ended.
    votes
        By node, with noise.
    decision
        The numbers on which it was decided; empty before.
    """

    trial_id: str
    champion: str
    candidate: str
    share: float
    epsilon: float
    state: TrialState = "open"
    votes: dict[str, VoteCounts] = {}  # noqa: RUF012 - never changed in place
    decision: dict[str, Any] = {}  # noqa: RUF012
    alpha: float = SignTest().alpha
    min_votes: int = SignTest().min_votes
    opened_at: str = ""
    voting_at: str = ""

    @property
    def under_way(self) -> bool:
        """Whether it is not decided yet."""
        return self.state in ("open", "voting")

    @property
    def test(self) -> SignTest:
        """How its votes are judged."""
        return SignTest(alpha=self.alpha, min_votes=self.min_votes, epsilon=self.epsilon)


class Event(NamedTuple):
    """What happened, and when: ISO 8601 in coordinated universal time."""

    number: int
    at: str
    what: str
    about: dict[str, Any]


def serving_in(connection: sa.Connection) -> Serving | None:
    """Return which ranker serves; None before the first."""
    found = _SERVING.get(connection, _KEY)
    if found is None:
        return None
    value = found.value
    return Serving(
        value["serving"], tuple(value["before"]), tuple(value["rolled_back"]), value["trial"]
    )


def put_serving(connection: sa.Connection, state: Serving) -> None:
    """Write down which ranker serves."""
    value: dict[str, Json] = {
        "serving": state.serving,
        "before": list(state.before),
        "rolled_back": list(state.rolled_back),
        "trial": state.trial,
    }
    _SERVING.put(connection, _KEY, value)


def trial_in(connection: sa.Connection, trial_id: str) -> Trial:
    """Return a trial."""
    found = _TRIALS.get(connection, trial_id)
    if found is None:
        raise NotFound("no such trial", where=trial_id)
    votes = {node: VoteCounts(*counts) for node, counts in found.value["votes"].items()}
    return Trial(**(found.value | {"trial_id": trial_id, "votes": votes}))


def put_trial(connection: sa.Connection, trial: Trial) -> None:
    """Write a trial down."""
    value = trial._asdict() | {"votes": {node: list(one) for node, one in trial.votes.items()}}
    del value["trial_id"]
    _TRIALS.put(connection, trial.trial_id, value)


def add_event(connection: sa.Connection, at: str, what: str, **about: Any) -> None:
    """Add to the history, which nothing is ever taken from."""
    number = 1 + max(map(int, _EVENTS.items(connection, last=1)), default=0)
    value: dict[str, Json] = {"at": at, "what": what, "about": about}
    _EVENTS.put(connection, f"{number:09d}", value, expected_version=0)


def events_in(connection: sa.Connection, last: int | None = None) -> list[Event]:
    """Return the history, or the last so many events of it; oldest first."""
    found = _EVENTS.items(connection, last=last)
    return [Event(int(key), one["at"], one["what"], one["about"]) for key, one in found.items()]
