"""A score taken apart for a person.

The parts add up to the score exactly: to the last bit, in the order in which they are listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cloister.core.ids import DocId
from cloister.index.entity_weights import SparseModel
from cloister.search.node import Hit, ScoreRest, TermPart

__all__ = ["ScoreExplanation", "added_up", "explain"]


def added_up(parts: Sequence[TermPart], rest: ScoreRest) -> float:
    """Put a score together from its parts: add up the terms, then finish as the model does.

    Examples
    --------
    >>> parts = [TermPart("cough", 1.5, 2, 3, 10), TermPart("fever", 0.25, 1, 9, 10)]
    >>> added_up(parts, ScoreRest("bm25"))
    1.75
    >>> added_up(parts, ScoreRest("tfidf-cosine", 0.0, 2.0, 3.5))
    0.25
    """
    total = 0.0
    for part in parts:
        total += part.weight
    if rest.model == "tfidf-cosine":
        below = rest.query_norm * rest.document_norm
        return total / below if below > 0 else 0.0
    if rest.model == "tfidf-euclidean":
        # Products, as in the kernel: the last bit of Python's power can be another one.
        norms = rest.query_norm * rest.query_norm + rest.document_norm * rest.document_norm
        squared = norms - 2 * total
        return -math.sqrt(max(squared, 0.0))
    return total + rest.constant


@dataclass(frozen=True)
class ScoreExplanation:
    """Why a document has its score.

    Parameters
    ----------
    parts
        What each different term of the query adds.
    rest
        What else makes the score.
    """

    doc_id: DocId
    score: float
    length: int
    parts: tuple[TermPart, ...]
    rest: ScoreRest

    @property
    def model(self) -> SparseModel:
        """Name of the model."""
        return self.rest.model

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {
            "doc_id": str(self.doc_id),
            "score": self.score,
            "length": self.length,
            "terms": [part._asdict() for part in self.parts],
            **self.rest._asdict(),
        }

    def text(self) -> str:
        """Return it as lines to read.

        Examples
        --------
        >>> part = TermPart("cough", 1.25, 2, 3, 10)
        >>> rest = ScoreRest("bm25", mean_length=8.0, length_factor=1.09375)
        >>> print(ScoreExplanation(DocId("note-1"), 1.25, 9, (part,), rest).text())
        note-1: 1.2500 by bm25
          cough: 1.2500 (2 times here; in 3 of 10 documents)
          length: 9 tokens, 8.0 on average, factor 1.094
        """
        lines = [f"{self.doc_id}: {self.score:.4f} by {self.model}"]
        lines += [f"  {_part_line(part)}" for part in self.parts]
        return "\n".join([*lines, *(f"  {line}" for line in self._rest_lines())])

    def _rest_lines(self) -> list[str]:
        rest = self.rest
        if rest.model == "lm":
            return [f"length: {self.length} tokens", f"every document: {rest.constant:.4f}"]
        if rest.model == "bm25":
            return [
                f"length: {self.length} tokens, {rest.mean_length:.1f} on average, "
                f"factor {rest.length_factor:.3f}"
            ]
        how = "divided by both" if rest.model == "tfidf-cosine" else "minus the distance"
        return [
            f"length of the vectors: query {rest.query_norm:.4f}, document "
            f"{rest.document_norm:.4f}; {how}"
        ]


def explain(hit: Hit) -> ScoreExplanation | None:
    """Return the explanation of a document that was asked for with one; None otherwise."""
    if hit.rest is None:
        return None
    return ScoreExplanation(hit.doc_id, hit.score, hit.length, hit.parts, hit.rest)


def _part_line(part: TermPart) -> str:
    if not part.n_occurrences:
        return f"{part.term}: not here (in {part.frequency:g} of {part.n_entities:g} documents)"
    times = "once" if part.n_occurrences == 1 else f"{part.n_occurrences} times"
    return (
        f"{part.term}: {part.weight:.4f} ({times} here; in {part.frequency:g} of "
        f"{part.n_entities:g} documents)"
    )
