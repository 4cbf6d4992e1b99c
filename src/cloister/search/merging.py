"""Merging: one list made of the servers' answers.

Scores of documents that were weighed with the same statistics compare as they are
(`merge_by_score`): the answer is the one that a single index would give. Where each server used its
own statistics they do not, and `merge_by_cori` brings them to one scale first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cloister.core.ids import ServerId
from cloister.search.node import Hit, SubAnswer

__all__ = ["Merged", "merge_by_cori", "merge_by_score"]

CORI_WEIGHT: Final = 0.4  # how much the server counts beside the document, as its authors chose


class Merged(NamedTuple):
    """A document of the merged list, with the score that it has there."""

    server_id: ServerId
    score: float
    hit: Hit


def merge_by_score(answers: Iterable[SubAnswer], k: int) -> list[Merged]:
    """Put the best k documents into one order; of equal scores the ids decide.

    Examples
    --------
    >>> from cloister.core.ids import DocId, PodId
    >>> def answer(server, *found):
    ...     hits = tuple(Hit(DocId(name), PodId("p"), score) for name, score in found)
    ...     return SubAnswer(ServerId(server), 1, hits)
    >>> merged = merge_by_score([answer("s", ("b", 2.0)), answer("t", ("a", 2.0), ("c", 1.0))], 2)
    >>> [one.hit.doc_id for one in merged]
    ['a', 'b']
    """
    return _best(
        (Merged(answer.server_id, hit.score, hit) for answer in answers for hit in answer.hits), k
    )


def merge_by_cori(
    answers: Sequence[SubAnswer], server_scores: Mapping[ServerId, float], k: int
) -> list[Merged]:
    """Merge answers whose scores do not compare, as CORI does.

    Callan, Lu and Croft (1995): with D' a document's score brought to 0 to 1 by the smallest and
    the largest of its server's answer, and C' the server's score brought to 0 to 1 over the servers
    asked, documents are ordered by (D' + 0.4 D' C') / 1.4. Where all are equal, D' or C' is 1.

    The result depends on how many documents each server returns, and is a guess: the best document
    of a poor server stands not far below that of a good one.
    """
    asked = [server_scores.get(answer.server_id, 0.0) for answer in answers]
    return _best(
        (
            Merged(answer.server_id, (1 + CORI_WEIGHT * share) * scaled / (1 + CORI_WEIGHT), hit)
            for answer, share in zip(answers, _scaled(asked), strict=True)
            for hit, scaled in zip(
                answer.hits, _scaled([hit.score for hit in answer.hits]), strict=True
            )
        ),
        k,
    )


def _best(merged: Iterable[Merged], k: int) -> list[Merged]:
    return sorted(merged, key=lambda one: (-one.score, one.hit.doc_id, one.server_id))[: max(k, 0)]


def _scaled(scores: Sequence[float]) -> list[float]:
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]
