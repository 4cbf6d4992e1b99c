"""What every way of training offers: one round at a time, and the rankers that came out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cloister.privacy.release import Release
from cloister.rank.ranker import Ranker

__all__ = ["ClientRankers", "Learner", "PlanReader", "Recorder", "RoundOutcome"]


@runtime_checkable
class PlanReader(Protocol):
    """A recorder that wants to know of a private training's plan before the first round."""

    def __call__(self, release: Release) -> None:
        """Take notice of a release before it is made."""

    def read_plan(self, release: Release, n_releases: int, *, order: float) -> None:
        """Take notice of so many equal releases, and of the order that they were planned for."""


Recorder = Callable[[Release], None] | PlanReader  # either refuses by raising


class RoundOutcome(NamedTuple):
    """What users saw in one round: means over its interactions.

    A query with nothing relevant counts 0 in ``ndcg`` (thesis, online), and so does a page
    without a click in ``max_rr``.
    """

    n_interactions: int
    ndcg: float
    max_rr: float
    clicks: float


class ClientRankers(NamedTuple):
    """The rankers that clients use: each once, and which client uses which."""

    rankers: tuple[Ranker, ...]
    of_client: NDArray[np.int64]


class Learner(Protocol):
    """A way of training, with its state."""

    @property
    def n_rounds(self) -> int:
        """Rounds done so far."""

    @property
    def ranker(self) -> Ranker:
        """The ranker that a new client would get."""

    def step(self) -> RoundOutcome:
        """Train for one round."""

    def client_rankers(self) -> ClientRankers:
        """Return the ranker of every client."""
