"""What a search across servers found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.records import Result
from cloister.index.entity_statistics import StatisticsTable
from cloister.search.explanation import ScoreExplanation
from cloister.search.merging import Merged
from cloister.search.node import Hit, LevelScore
from cloister.search.vector_explanation import VectorExplanation

__all__ = ["SearchOutcome", "ShownTexts", "refusing_pods"]

SEVERAL: Final = 3


class SearchOutcome(NamedTuple):
    """What a search found.

    Parameters
    ----------
    results
        Best first.
    servers_asked
        For documents, in the order in which they were asked.
    missing
        Servers that failed or did not answer in time; the results are made without them.
    statistics
        Of documents, with which scores were made; None where each server took its
        own, and with word vectors, which need none.
    explanations
        One for each result, where asked for.
    candidates
        The results as servers gave them, with the parts of their scores where asked for.
    servers
        Where asked for: how each server stands that holds a term of the query, best first, ranked
        as the entity that it is for the user (`cloister.search.selection`).
    missing_pods
        Pods that hold something for the query and did not answer in time, refused most of what
        the index has of them, or have documents too large for an answer; the results are made
        without the rest of them.
    """

    results: tuple[Result, ...]
    servers_asked: tuple[ServerId, ...] = ()
    missing: tuple[ServerId, ...] = ()
    statistics: StatisticsTable | None = None
    explanations: tuple[ScoreExplanation | VectorExplanation, ...] = ()
    candidates: tuple[Merged, ...] = ()
    servers: tuple[tuple[ServerId, LevelScore], ...] = ()
    missing_pods: tuple[PodId, ...] = ()


class ShownTexts(NamedTuple):
    """What the pods of chosen candidates said.

    Parameters
    ----------
    shown
        By server and document, of those that the user may read now: with title and passage.
    missing, missing_pods
        Servers and pods that did not answer in time.
    """

    shown: Mapping[tuple[ServerId, DocId], Hit]
    missing: tuple[ServerId, ...] = ()
    missing_pods: tuple[PodId, ...] = ()


def refusing_pods(refused: Iterable[PodId], confirmed: Iterable[PodId]) -> frozenset[PodId]:
    """Return the pods that refuse several documents of one search, and more than they confirm.

    The rest of what the index has of them is out of date, too, or a lie. A search asks them for no
    more: it would find its page empty otherwise.

    Parameters
    ----------
    refused, confirmed
        The pod of each document.

    Examples
    --------
    >>> ann, bob = PodId("ann"), PodId("bob")
    >>> sorted(refusing_pods([ann, ann, ann, bob, bob, bob], [bob] * 3))
    ['ann']
    """
    shown = Counter(confirmed)
    counts = Counter(refused).items()
    return frozenset(pod_id for pod_id, n in counts if n >= SEVERAL and n > shown[pod_id])
