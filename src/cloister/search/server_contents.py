"""All documents of some servers, exactly: what published statistics are made from.

They stay with whoever makes the tables, and tell that one of every document, whoever may read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.index.entity_view import Level
from cloister.index.snapshot import Snapshot
from cloister.index.term_counts import TermCounts

__all__ = ["JoinedContents", "ServerContents", "contents_of", "joined_contents"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class ServerContents(NamedTuple):
    """All documents of one server, exactly. They stay with who makes the tables.

    Parameters
    ----------
    pods
        Number of each document's pod; pods of different servers are different ones.
    """

    server_id: ServerId
    counts: TermCounts
    pods: NDArray[np.integer[Any]]


def contents_of(snapshot: Snapshot, server_id: ServerId) -> ServerContents:
    """Take all live documents out of an index, whoever may read them: for the server's operator."""
    parts = []
    positions: dict[str, int] = {}
    n_before, pods = 0, []
    for segment in snapshot.segments:
        postings = segment.postings
        numbers = n_before + np.cumsum(segment.live) - 1  # of the documents that stay
        for number in range(postings.n_terms):
            documents, counts = postings.readable(number, segment.live)
            if len(documents):
                place = positions.setdefault(postings.term(number), len(positions))
                parts.append((numbers[documents], np.full(len(documents), place), counts))
        n_before += int(segment.live.sum())
        pods.append(segment.pods[segment.live])
    empty = np.empty(0, np.int64)
    documents, terms, counts = (np.concatenate([empty, *(p[i] for p in parts)]) for i in range(3))
    order = np.lexsort((terms, documents))
    starts = np.searchsorted(documents[order], np.arange(n_before + 1))
    counted = TermCounts(
        starts.astype(np.int64),
        terms[order].astype(np.int32),
        counts[order].astype(np.int32),
        tuple(positions),
    )
    return ServerContents(server_id, counted, np.concatenate([empty, *pods]))


class JoinedContents(NamedTuple):
    """The documents of some servers in one, with numbers of documents, pods and servers.

    Entry i says that ``documents[i]`` holds ``terms[i]``, ``counts[i]`` times.
    """

    vocabulary: Sequence[str]
    documents: Integers
    terms: Integers
    counts: Integers
    lengths: Floats  # by document
    entities: Mapping[Level, Integers]  # the entity of each document

    @property
    def n_entities(self) -> dict[Level, int]:
        """How many documents there are, and pods and servers that hold any."""
        return {level: len(np.unique(numbers)) for level, numbers in self.entities.items()}

    def frequencies(self, level: Level) -> Integers:
        """Return in how many entities each term of the vocabulary is."""
        n_terms = max(1, len(self.vocabulary))
        pairs = np.unique(self.entities[level][self.documents] * n_terms + self.terms)
        return np.bincount(pairs % n_terms, minlength=len(self.vocabulary)).astype(np.int64)


def joined_contents(servers: Iterable[ServerContents]) -> JoinedContents:
    """Put the documents of some servers together."""
    listed = list(servers)
    positions: dict[str, int] = {}
    columns: dict[str, list[NDArray[Any]]] = {
        name: [np.empty(0, np.int64)]
        for name in ("documents", "terms", "counts", "lengths", "pod", "server")
    }
    n_documents = n_pods = 0
    for number, (server_id, counts, pods) in enumerate(listed):
        if len(pods) != counts.n_documents:
            raise DataError("each document needs a pod", where=str(server_id))
        places = np.array([positions.setdefault(t, len(positions)) for t in counts.vocabulary])
        within = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
        columns["documents"].append(n_documents + within)
        columns["terms"].append(places.astype(np.int64)[counts.terms])
        columns["counts"].append(counts.counts)
        columns["lengths"].append(counts.lengths)
        different, place = np.unique(pods, return_inverse=True)
        columns["pod"].append(n_pods + place)
        columns["server"].append(np.full(len(pods), number))
        n_documents, n_pods = n_documents + len(pods), n_pods + len(different)
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    entities: dict[Level, Integers] = {
        "document": np.arange(n_documents),
        "pod": whole["pod"].astype(np.int64),
        "server": whole["server"].astype(np.int64),
    }
    return JoinedContents(
        tuple(positions),
        whole["documents"].astype(np.int64),
        whole["terms"].astype(np.int64),
        whole["counts"].astype(np.int64),
        whole["lengths"].astype(np.float64),
        entities,
    )
