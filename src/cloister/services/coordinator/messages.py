"""What nodes and operators say to a coordinator, and its answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cloister.web.messages import Message

__all__ = [
    "CoordinatorStatus",
    "PauseRequest",
    "RoundDone",
    "RoundLine",
    "RoundsPage",
    "ServingAnswer",
    "SiteRequest",
    "SuspicionAnswer",
    "TrialAnswer",
    "TrialPast",
    "TrialRequest",
]

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class TrialAnswer(Message):
    """A trial that is under way.

    While it is ``open``, nodes show ``share`` of their pages interleaved; while it is ``voting``,
    they show none any more and send their votes.
    """

    trial_id: str
    candidate: Digest
    share: float = Field(ge=0, le=1)
    epsilon: float = Field(gt=0)  # of the noise on votes; a node with another gives none
    state: Literal["open", "voting"]


class ServingAnswer(Message):
    """What nodes rank with: the SHA-256 of the serving ranker, and the trial under way."""

    serving: Digest
    trial: TrialAnswer | None = None


class RoundDone(Message):
    """What became of a round; the first is number 1."""

    round_number: int
    nodes: list[str]
    silent: list[str]
    faults: dict[str, str]
    n_interactions: int | None


class RoundLine(Message):
    """A round that was done: when, with which nodes, and the ledger's entry of its ranker.

    ``left_out`` are the members of the roster whose updates are not in it. ``spoilt`` says why its
    sum was discarded, and is empty where it counted.
    """

    round_number: int
    recorded_at: str  # ISO 8601, UTC
    nodes: list[str]
    left_out: list[str]
    entry: int
    spoilt: str = ""


class RoundsPage(Message):
    """Rounds, oldest first, and how many there are in all."""

    rounds: list[RoundLine]
    n_rounds: int


class TrialPast(Message):
    """A trial that was decided."""

    trial_id: str
    candidate: str
    outcome: str
    margin: int | None
    n_votes: int | None
    threshold: int | None


class SuspicionAnswer(Message):
    """Nodes that may have spoilt sums.

    ``suspects`` are in every spoilt sum, with the number of rounds that counted without them. The
    next round leaves ``left_out`` out. No round asks ``named`` nodes. ``late`` counts how often
    each node dropped out of an attempt that failed after others had released. ``stopped`` says
    why training waits for the operator; it is empty where it does not.
    """

    n_spoilt: int  # in the whole training
    suspects: dict[str, int]
    left_out: str
    named: list[str]
    late: dict[str, int]
    stopped: str


class CoordinatorStatus(Message):
    """How the training and its trials stand."""

    training: str
    n_rounds: int
    paused: bool
    n_failed: int
    last_error: str
    last_round: RoundDone | None
    members: list[str]  # of the roster that the coordinator read when it started
    silent_nodes: list[str]
    suspicion: SuspicionAnswer
    serving: ServingAnswer
    trials: list[TrialPast]


class PauseRequest(Message):
    """Stops the schedule of rounds, or lets it go on."""

    paused: bool


class SiteRequest(Message):
    """Names a node that rounds ask no more, or ask again."""

    node: str
    excluded: bool


class TrialRequest(Message):
    """Opens a trial of the newest ranker."""

    share: float = Field(default=0.2, gt=0, le=1)
