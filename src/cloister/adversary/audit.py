"""An empirical audit: what a distinguishing attack shows, beside the claim and the ledger's bound.

A subject is a protection with two neighbouring inputs and an adversary who knows everything but
which of them it was. Its releases go through the product's own code, over and over; the ledger's
epsilon is what the accounting says of the same releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.distinguishing import epsilon_lower_bound
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.release import Release

__all__ = ["Advance", "Audit", "AuditSettings", "Neighbour", "Subject", "audit"]

Floats = NDArray[np.float64]
Neighbour = Literal[0, 1]
Advance = Callable[[int, int], None]

BATCH: Final = 10_000  # trials drawn from one random stream
MOST_TRIALS: Final = 10**8  # their scores are held in memory, 8 bytes each and input
MOST_ROUNDS: Final = 10_000


class AuditSettings(Settings):
    """How a subject is audited.

    Parameters
    ----------
    epsilon
        What the protection is set to, or claims, of each round; where None, the subject's own. The
        sound federated training takes it as that of all rounds together.
    delta
        Of the guarantee that is tried.
    n_trials
        Of each of the two inputs.
    n_rounds
        Releases that the adversary sees of one trial; where None, the subject's own.
    confidence
        Of the lower bound.
    seed
        Of all that is drawn.
    secure_noise
        Whether the single mechanisms draw from ``opendp``, as real clients do, which takes longer
        and follows no seed.
    """

    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    n_trials: int = Field(default=1_000_000, ge=2, le=MOST_TRIALS)
    n_rounds: int | None = Field(default=None, ge=1, le=MOST_ROUNDS)
    confidence: float = Field(default=0.99, gt=0, lt=1)
    seed: int = Field(default=1, ge=0)
    secure_noise: bool = False


class Subject(Protocol):
    """What is audited."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""

    @property
    def claimed_epsilon(self) -> float | None:
        """What its inventors claim of what the adversary sees, if that is not the ledger's."""

    @property
    def n_rounds(self) -> int:
        """Rounds, or single releases, that the adversary sees of one trial."""

    def releases(self) -> Sequence[Release]:
        """Return what the ledger would record of one trial."""

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Run trials with one of the inputs; high scores speak for neighbour 1."""


class Audit(NamedTuple):
    """What an audit found.

    Parameters
    ----------
    mechanism, neighbours
        The subject, and what is told apart.
    claimed_epsilon
        What its inventors claim; None where nobody claims anything but the ledger does.
    ledger_epsilon
        What the accounting says of the same releases at ``delta``; infinite where nothing holds.
    lower_bound, ceiling, confidence
        As in `LowerBound`.
    delta, n_trials, n_rounds
        As in `AuditSettings`.
    """

    mechanism: str
    neighbours: str
    claimed_epsilon: float | None
    ledger_epsilon: float
    lower_bound: float
    ceiling: float
    confidence: float
    delta: float
    n_trials: int
    n_rounds: int

    @property
    def refutes_ledger(self) -> bool:
        """Whether the attack shows more than the ledger states: then something is broken."""
        return self.lower_bound > self.ledger_epsilon

    @property
    def refutes_claim(self) -> bool | None:
        """Whether the attack shows more than is claimed; None where nothing is."""
        return None if self.claimed_epsilon is None else self.lower_bound > self.claimed_epsilon

    @property
    def verdict(self) -> str:
        """What the figures say, in words."""
        parts = []
        if self.refutes_claim is not None:
            parts.append("exceeds the claim" if self.refutes_claim else "below the claim")
        if math.isinf(self.ledger_epsilon):
            parts.append("the ledger states no bound")
        else:
            place = "exceeds" if self.refutes_ledger else "below"
            parts.append(f"{place} the ledger's bound")
        return ", ".join(parts)


def audit(
    subject: Subject, settings: AuditSettings, *, advance: Advance = lambda done, total: None
) -> Audit:
    """Attack one subject.

    Results are a function of the subject and the settings alone, except with secure noise.
    """
    scores = [_all_scores(subject, neighbour, settings, advance) for neighbour in (0, 1)]
    bound = epsilon_lower_bound(*scores, delta=settings.delta, confidence=settings.confidence)
    releases = subject.releases()
    spent = composed_epsilon(losses_of(releases, releases[0].level), settings.delta)
    return Audit(
        mechanism=subject.name,
        neighbours=subject.neighbours,
        claimed_epsilon=subject.claimed_epsilon,
        ledger_epsilon=spent.epsilon,
        lower_bound=bound.epsilon,
        ceiling=bound.ceiling,
        confidence=bound.confidence,
        delta=bound.delta,
        n_trials=bound.n_trials,
        n_rounds=subject.n_rounds,
    )


def _all_scores(
    subject: Subject, neighbour: Neighbour, settings: AuditSettings, advance: Advance
) -> Floats:
    n = settings.n_trials
    scores = np.empty(n)
    for batch, start in enumerate(range(0, n, BATCH)):
        stop = min(start + BATCH, n)
        rng = stream(settings.seed, "audit", subject.name, neighbour, batch)
        scores[start:stop] = subject.scores(neighbour, stop - start, rng=rng)
        advance(neighbour * n + stop, 2 * n)
    return scores
