"""A party of a federation across silos: its documents, its queries, its labelled rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import PartyId, QueryId
from cloister.index.term_counts import TermCounts

__all__ = ["Candidates", "Party", "SiloQuery", "own_candidates"]


class SiloQuery(NamedTuple):
    """A query with the best of its party's documents, best first, and their grades.

    A grade of 0 is allowed: the document was found, and is not relevant.
    """

    query_id: QueryId
    terms: tuple[str, ...]
    documents: NDArray[np.int64]
    grades: NDArray[np.int8]


class Candidates(NamedTuple):
    """The documents of one query that become rows of a training or test set."""

    query_id: str
    terms: tuple[str, ...]
    documents: NDArray[np.int64]
    labels: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Party:
    """What one party holds. Nothing of it leaves but by a named release.

    Parameters
    ----------
    party_id
        Its name.
    fields
        Exact term counts of its documents by field (``body``, and ``title`` where there are
        titles); all fields speak of the same documents.
    training, validation, test
        Its queries. Models learn from the first, settings and mixtures are chosen on the second.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> query = SiloQuery(QueryId("q"), ("fever",), np.array([1]), np.array([2], np.int8))
    >>> party = Party(PartyId("clinic-a"), {"body": count_terms(["cough", "fever"])}, (query,))
    >>> party.n_documents
    2
    """

    party_id: PartyId
    fields: Mapping[str, TermCounts] = field(repr=False)
    training: tuple[SiloQuery, ...] = field(default=(), repr=False)
    validation: tuple[SiloQuery, ...] = field(default=(), repr=False)
    test: tuple[SiloQuery, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if len({counts.n_documents for counts in self.fields.values()}) != 1:
            raise DataError(
                "a party needs fields, and all of them of the same documents",
                where=f"party {self.party_id!r}",
            )
        for query in (*self.training, *self.validation, *self.test):
            _check(query, self.n_documents)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return next(iter(self.fields.values())).n_documents


def own_candidates(
    queries: Sequence[SiloQuery], n_documents: int, n_others: int, rng: np.random.Generator
) -> list[Candidates]:
    """Return each query's graded documents and a sample of others, with label 0.

    They stand in an order drawn at random: where a ranker gives equal scores, the order of rows
    must not tell who is relevant.

    Parameters
    ----------
    queries
        Of one party.
    n_documents
        How many documents it has.
    n_others
        How many documents outside the graded ones to draw for a query; fewer where there are
        not so many.
    rng
        Draws them.

    Examples
    --------
    >>> query = SiloQuery(QueryId("q"), ("fever",), np.array([1]), np.array([2], np.int8))
    >>> (one,) = own_candidates([query], 3, 5, np.random.default_rng(1))
    >>> sorted(zip(one.documents.tolist(), one.labels.tolist(), strict=True))
    [(0, 0), (1, 2), (2, 0)]
    """
    found = []
    for query in queries:
        others = others_than(query.documents, n_documents, n_others, rng)
        labels = np.concatenate([query.grades, np.zeros(len(others), np.int8)])
        documents = np.concatenate([query.documents, others])
        found.append(shuffled(Candidates(query.query_id, query.terms, documents, labels), rng))
    return found


def shuffled(candidates: Candidates, rng: np.random.Generator) -> Candidates:
    """Return the same candidates in another order."""
    order = rng.permutation(len(candidates.documents))
    return candidates._replace(
        documents=candidates.documents[order], labels=candidates.labels[order]
    )


def others_than(
    taken: NDArray[np.int64], n_documents: int, n_others: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw documents that are not among those taken, each at most once."""
    n_others = min(n_others, n_documents - len(taken))
    drawn = rng.choice(n_documents, min(n_documents, n_others + len(taken)), replace=False)
    return drawn[~np.isin(drawn, taken)][:n_others].astype(np.int64)


def _check(query: SiloQuery, n_documents: int) -> None:
    documents = query.documents
    sound = len(documents) == len(query.grades) and len(np.unique(documents)) == len(documents)
    if sound and len(documents):
        sound = 0 <= documents.min() <= documents.max() < n_documents
    if not sound:
        raise DataError(
            f"needs one grade for each of several of the {n_documents} documents",
            where=f"query {query.query_id!r}",
        )
