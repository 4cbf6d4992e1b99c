"""A score by word vectors, taken apart for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cloister.core.ids import DocId
from cloister.search.node import Hit, VectorScore
from cloister.search.word_vector_ranking import VectorModel, VectorPart

__all__ = ["VectorExplanation", "explain_vectors"]


@dataclass(frozen=True)
class VectorExplanation:
    """Why a document has its score by word vectors.

    The parts add up to the cosine but for rounding. A distance has no such parts; those of the
    cosine are shown beside it. A word can add to the score of a document that does not hold it.
    """

    doc_id: DocId
    score: float
    length: int
    rest: VectorScore

    @property
    def model(self) -> VectorModel:
        """Name of the model."""
        return self.rest.model

    @property
    def parts(self) -> tuple[VectorPart, ...]:
        """What each word of the query with a vector adds to the cosine."""
        return self.rest.parts

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {
            "doc_id": str(self.doc_id),
            "score": self.score,
            "length": self.length,
            "model": self.model,
            "terms": [part._asdict() for part in self.parts],
            "unknown": list(self.rest.unknown),
            "cosine": self.rest.cosine,
            "distance": self.rest.distance,
        }

    def text(self) -> str:
        """Return it as lines to read.

        Examples
        --------
        >>> parts = (VectorPart("cough", 0.5), VectorPart("fever", 0.25))
        >>> rest = VectorScore("w2v-cosine", parts, ("rash",), 0.75, 1.5)
        >>> print(VectorExplanation(DocId("note-1"), 0.75, 9, rest).text())
        note-1: 0.7500 by w2v-cosine
          cough: 0.5000 of the cosine
          fever: 0.2500 of the cosine
          rash: has no vector
          cosine 0.7500, distance 1.5000, of the mean vectors of query and document
        """
        lines = [f"{self.doc_id}: {self.score:.4f} by {self.model}"]
        lines += [f"  {part.term}: {part.weight:.4f} of the cosine" for part in self.parts]
        lines += [f"  {term}: has no vector" for term in self.rest.unknown]
        lines.append(
            f"  cosine {self.rest.cosine:.4f}, distance {self.rest.distance:.4f}, of the mean "
            "vectors of query and document"
        )
        return "\n".join(lines)


def explain_vectors(hit: Hit) -> VectorExplanation | None:
    """Return the explanation of a document that was ranked by vectors; None for any other."""
    if hit.vector_score is None:
        return None
    return VectorExplanation(hit.doc_id, hit.score, hit.length, hit.vector_score)
