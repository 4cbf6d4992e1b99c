"""The audit of CS-F-LTR's counters that share one noise value.

What is audited is :class:`cloister.sketch.paper_shared_noise.PaperSharedNoise`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.core.settings import Settings
from cloister.privacy.release import Release
from cloister.sketch.paper_shared_noise import PaperSharedNoise
from cloister.sketch.per_query_release import Asked

__all__ = ["PaperSharedCounters"]

Floats = NDArray[np.float64]


class PaperSharedCounters(Settings):
    """Whether a document holds one more occurrence of the term, from the counters sent.

    Parameters
    ----------
    epsilon
        What the paper claims of an answer.
    n_rows
        Counters that belong to the term (z, or with decoys z1 of them). Its signs are + and - in
        turn, and the document holds nothing else in its cells.
    n_rounds
        Answers, each with fresh noise.

    Examples
    --------
    >>> from cloister.adversary.audit import AuditSettings, audit
    >>> found = audit(PaperSharedCounters(epsilon=0.1), AuditSettings(n_trials=10_000))
    >>> found.lower_bound == found.ceiling, found.ledger_epsilon
    (True, inf)
    """

    epsilon: float = Field(default=0.5, gt=0)
    n_rows: int = Field(default=30, ge=2)
    n_rounds: int = Field(default=1, ge=1)

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "paper-shared-noise"

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "a document with a term 3 or 4 times; all noisy counters of the term are seen"

    @property
    def claimed_epsilon(self) -> float:
        """What the paper states, once, whatever the number of queries."""
        return self.epsilon

    def releases(self) -> Sequence[Release]:
        """Return what the ledger records of the answers: as good as unprotected."""
        rows = np.arange(self.n_rows)
        asked = Asked(rows[None], np.zeros(1, np.int64), np.zeros((1, self.n_rows, 1), np.int64))
        return [PaperSharedNoise(epsilon=self.epsilon).record(asked, simulated=True)] * (
            self.n_rounds
        )

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the term's count, read off the counters with the noise cancelled."""
        signs = np.where(np.arange(self.n_rows) % 2, -1.0, 1.0)
        noise = PaperSharedNoise(epsilon=self.epsilon)
        total = np.zeros(n_trials)
        for _ in range(self.n_rounds):
            answers = noise.answer((3 + neighbour) * signs, n_trials, rng=rng)
            total += (answers[:, signs > 0].mean(1) - answers[:, signs < 0].mean(1)) / 2
        return total
