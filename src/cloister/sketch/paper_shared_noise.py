"""CS-F-LTR's release of counters as printed: one Laplace variable for all counters of an answer.

The document's owner answers a query for a term with z counters of its sketch, to all of which it
adds the same Laplace variable of scale 1/epsilon (CS-F-LTR, eq. 5 and algorithm 2). A further
occurrence of the term raises the counters where its sign is +1 and lowers them where it is -1. The
noise cancels in differences between counters: whoever sees the answer is not hindered by it at any
epsilon. Theorem 1 of that paper holds for one number with the noise (a median taken by the owner,
as in :class:`cloister.sketch.per_query_release.OwnerMedian`), and not for what is sent.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import NoiseSource
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.sketch.per_query_release import Asked

__all__ = ["PaperSharedNoise"]

Floats = NDArray[np.float64]


class PaperSharedNoise(Settings):
    """The printed protocol. Its true guarantee is none.

    It protects no answer of two or more counters from whoever sees it, at any level, for any
    length of time. The ledger records an unprotected release with what the paper claims.

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

    opened: ClassVar[bool] = False

    def opening(self, n_rows: int, *, n_values: int, simulated: bool) -> None:
        """Nothing is paid for in advance."""

    def record(self, asked: Asked, *, simulated: bool) -> Release:
        """Return what the ledger records of one answer: as good as unprotected."""
        return UnprotectedRelease(
            level=Level.TOKEN,
            n_values=asked.counters.size,
            simulated=simulated,
            claimed_epsilon=self.epsilon,
            note="CS-F-LTR eq. 5: counters that share one noise value; differences are exact",
        )

    def noised(self, asked: Asked, source: NoiseSource) -> NDArray[Any]:
        """Add one variable to all counters of a term and a document (algorithm 2, line 4)."""
        n_terms, _, n_documents = asked.counters.shape
        shared = source.laplace(np.zeros(n_terms * n_documents), 1 / self.epsilon)
        noised: Floats = asked.counters + shared.reshape(n_terms, 1, n_documents)
        return noised

    def answer(self, counters: Floats, n_answers: int, *, rng: np.random.Generator) -> Floats:
        """Answer with the noisy counters of one document, one row for each answer."""
        shared: Floats = rng.laplace(0.0, 1 / self.epsilon, (n_answers, 1))
        return counters + shared
