"""What features and search need to know of terms, from exact counts or from sketches alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["TermSource", "TermStatistics"]

Floats = NDArray[np.float64]


class TermStatistics(Protocol):
    """Statistics of terms over a collection, or over all collections of a federation."""

    @property
    def n_documents(self) -> int:
        """Number of documents."""

    @property
    def n_tokens(self) -> float:
        """Number of tokens of all documents together, or an estimate of it."""

    def document_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many documents each term occurs; an estimate may be a fraction."""

    def collection_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return how often each term occurs in all documents together."""


class TermSource(TermStatistics, Protocol):
    """Statistics, and the counts of terms in single documents, which go by number."""

    @property
    def lengths(self) -> Floats:
        """Number of tokens of each document, or an estimate of it."""

    def term_counts(self, terms: Sequence[str], documents: NDArray[np.integer[Any]]) -> Floats:
        """Return how often each term (row) occurs in each document (column), or estimates."""
