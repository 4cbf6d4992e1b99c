"""Settings of the poisoned-client evaluation, and the names of what it compares."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from cloister.data.normalise import Normalisation
from cloister.lab.reproduce.study import StudySettings

__all__ = ["UnlearningSettings"]


class UnlearningSettings(StudySettings):
    """One repetition.

    Parameters
    ----------
    data, fold, seed, click_model, normalise
        The repetition, and how features are read.
    n_clients, n_attackers
        How many take part, and how many of them are malicious and will be forgotten.
    strength
        The malicious client's z (eq. 6.3).
    queries_per_round, rounds
        Of training: the thesis's n and T.
    local_steps, intervals
        Of unlearning: values of n' and of delta-t.
    """

    normalise: Normalisation = "query_minmax"
    n_clients: int = Field(default=10, ge=2)
    n_attackers: int = Field(default=1, ge=1)
    strength: float = Field(default=2.0, gt=0)
    queries_per_round: int = Field(default=5, ge=1)
    rounds: int = Field(default=10_000, ge=1)
    local_steps: tuple[int, ...] = (1, 2, 3, 4)
    intervals: tuple[int, ...] = (5, 10, 20)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.n_attackers >= self.n_clients:
            raise ValueError("somebody must be honest")
        if any(interval % self.intervals[0] for interval in self.intervals):
            raise ValueError("intervals are multiples of the first")
        return self

    @property
    def forgotten(self) -> tuple[int, ...]:
        """The malicious clients: the last."""
        return tuple(range(self.n_clients - self.n_attackers, self.n_clients))

    @property
    def n_honest(self) -> int:
        """How many are honest."""
        return self.n_clients - self.n_attackers

    @property
    def poisoned(self) -> str:
        """The name of the poisoned configuration, as in 9H-1M."""
        return f"{self.n_honest}H-{self.n_attackers}M"

    @property
    def all_honest(self) -> str:
        """The name of the configuration in which everybody is honest, as in 10H-0M."""
        return f"{self.n_clients}H-0M"

    @property
    def without(self) -> str:
        """The name of the configuration without the malicious, as in 9H-0M."""
        return f"{self.n_honest}H-0M"

    def unlearned(self, steps: int, interval: int) -> str:
        """Return the name of an unlearned ranker."""
        return f"U({self.poisoned}) n'={steps} every {interval}"

    def short(self, steps: int, interval: int) -> str:
        """Return the name of short retraining of as many rounds and steps."""
        return f"short n'={steps} every {interval}"

    def fewer_rounds(self, steps: int, interval: int) -> str:
        """Return the name of short retraining of as many steps in fewer, full rounds."""
        return f"short n={self.queries_per_round} for n'={steps} every {interval}"

    def replay(self, interval: int) -> str:
        """Return the name of the replayed ranker."""
        return f"replay every {interval}"
