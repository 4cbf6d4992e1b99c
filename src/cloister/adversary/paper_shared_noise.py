"""The counters of CS-F-LTR's term-frequency query, which share one noise value, and their audit.

The document's owner answers a query for a term with z counters of its sketch, to all of which it
adds the same Laplace variable of scale 1/epsilon (CS-F-LTR, eq. 5 and algorithm 2). A further
occurrence of the term raises the counters where its sign is +1 and lowers them where it is -1. The
noise cancels in differences between counters: whoever sees the answer is not hindered by it at any
epsilon. Theorem 1 of that paper holds for one number with the noise (a median, taken by the owner),
and not for what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease

__all__ = ["PaperSharedCounters", "PaperSharedNoise"]

Floats = NDArray[np.float64]


class PaperSharedNoise(Settings):
    """The printed protocol: one Laplace variable for all counters of an answer.

    It protects no answer of two or more counters of different sign from whoever sees it.

    Parameters
    ----------
    epsilon
        What the paper claims of an answer.

    Examples
    --------
    >>> noise = PaperSharedNoise(epsilon=0.1)
    >>> answer = noise.answer(np.array([4.0, -4.0]), 1, rng=np.random.default_rng(1))
    >>> round(float(answer[0, 0] - answer[0, 1]), 6)
    8.0
    """

    epsilon: float = Field(gt=0)

    def answer(self, counters: Floats, n_answers: int, *, rng: np.random.Generator) -> Floats:
        """Answer with the noisy counters, one row for each answer."""
        shared: Floats = rng.laplace(0.0, 1 / self.epsilon, (n_answers, 1))
        return counters + shared


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
        answer = UnprotectedRelease(
            level=Level.TOKEN,
            n_values=self.n_rows,
            simulated=True,
            claimed_epsilon=self.epsilon,
            note="CS-F-LTR eq. 5: counters that share one noise value; differences are exact",
        )
        return [answer] * self.n_rounds

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the term's count, read off the counters with the noise cancelled."""
        signs = np.where(np.arange(self.n_rows) % 2, -1.0, 1.0)
        noise = PaperSharedNoise(epsilon=self.epsilon)
        total = np.zeros(n_trials)
        for _ in range(self.n_rounds):
            answers = noise.answer((3 + neighbour) * signs, n_trials, rng=rng)
            total += (answers[:, signs > 0].mean(1) - answers[:, signs < 0].mean(1)) / 2
        return total
