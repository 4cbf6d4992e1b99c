"""Statistics of terms over several collections as if they were one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.index.term_source import TermStatistics

__all__ = ["PooledStatistics"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PooledStatistics:
    """Sums over the parties of N, tokens, document and collection frequencies; `TermStatistics`.

    Nothing is protected here: what the parts tell, the sums tell whoever computes them. For the
    same features everywhere all parties must pool the same parts: a party that takes its own exact
    counts in the place of its release gets other features than the others do. The parts are
    taken not to change: N and the number of tokens are added up once.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> both = PooledStatistics([count_terms(["cough fever"]), count_terms(["cough", "cough"])])
    >>> both.n_documents, both.n_tokens, both.document_frequencies(["cough", "fever"]).tolist()
    (3, 4.0, [3.0, 1.0])
    """

    parts: Sequence[TermStatistics]

    def __post_init__(self) -> None:
        if not self.parts:
            raise DataError("no statistics to pool", where="PooledStatistics")
        object.__setattr__(self, "parts", tuple(self.parts))

    @cached_property
    def n_documents(self) -> int:
        """Number of documents of all parts."""
        return sum(part.n_documents for part in self.parts)

    @cached_property
    def n_tokens(self) -> float:
        """Number of tokens of all parts, or an estimate of it."""
        return float(sum(part.n_tokens for part in self.parts))

    def document_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many documents of all parts each term occurs.

        An estimate below 0 counts as 0, so that it cannot take away from another part.
        """
        return self._added([part.document_frequencies(terms) for part in self.parts])

    def collection_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return how often each term occurs in all parts; negative estimates count as 0."""
        return self._added([part.collection_frequencies(terms) for part in self.parts])

    @staticmethod
    def _added(parts: Sequence[Floats]) -> Floats:
        total = np.zeros_like(parts[0], np.float64)
        for part in parts:
            total += np.maximum(part, 0.0)
        return total
