"""Augmentation: rows of a training set from my queries and other parties' documents.

A party asks every other party's release for the documents with the highest counts of its query's
terms (reverse top-K), scores what comes back by BM25 from the estimated counts, and labels it by
rank: pseudo-labels, which nobody judged. The releases lie at the asking party, so asking tells
nobody anything: queries never leave. What the features can tell of the other party's documents is
bounded by the guarantee of the release they were computed from, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.ids import PartyId
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.party import Candidates, SiloQuery, others_than, shuffled
from cloister.index.term_counts import TermCounts
from cloister.index.term_source import TermSource, TermStatistics
from cloister.index.term_weights import TermMatches, TermWeightSettings, bm25, match_terms
from cloister.rank.features import features_of, joined_rows

__all__ = ["Answering", "AugmentationSettings", "ExactAnswers", "Released", "augment"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Statistics = Mapping[str, TermStatistics]


class Answering(TermSource, Protocol):
    """A term source that can also say which documents hold a term most often."""

    def top(self, term: str, k: int) -> tuple[NDArray[np.integer[Any]], Floats]:
        """Return at most ``k`` documents, highest count first, and the counts.

        Empty places of the answer, if there are any, hold the document -1.
        """


class Released(NamedTuple):
    """What one party lets others ask, by field."""

    party_id: PartyId
    fields: Mapping[str, Answering]

    @property
    def n_documents(self) -> int:
        """Number of documents, which is public."""
        return next(iter(self.fields.values())).n_documents


class ExactAnswers:
    """Exact counts that answer as a release does; no party would give them away.

    The best that any release can do: for comparison.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> ExactAnswers(count_terms(["cough", "cough cough fever"])).top("cough", 5)
    (array([1, 0]), array([2., 1.]))
    """

    def __init__(self, counts: TermCounts) -> None:
        self._counts = counts
        order = np.argsort(counts.terms, kind="stable")
        self._documents = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))[order]
        self._values = counts.counts[order].astype(np.float64)
        sizes = np.bincount(counts.terms, minlength=counts.n_terms)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self._counts.n_documents

    @property
    def n_tokens(self) -> float:
        """Number of tokens of all documents together."""
        return self._counts.n_tokens

    @property
    def lengths(self) -> Floats:
        """Number of tokens of each document."""
        return self._counts.lengths

    def document_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many documents each term occurs."""
        return self._counts.document_frequencies(terms)

    def collection_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return how often each term occurs in all documents together."""
        return self._counts.collection_frequencies(terms)

    def term_counts(self, terms: Sequence[str], documents: NDArray[np.integer[Any]]) -> Floats:
        """Return how often each term (row) occurs in each document (column)."""
        return self._counts.term_counts(terms, documents)

    def top(self, term: str, k: int) -> tuple[Integers, Floats]:
        """Return at most ``k`` documents, highest count first, ties by number; and the counts."""
        position = self._counts.positions.get(term)
        if position is None:
            return np.empty(0, np.int64), np.empty(0)
        here = slice(self._starts[position], self._starts[position + 1])
        best = np.argsort(-self._values[here], kind="stable")[:k]
        return self._documents[here][best], self._values[here][best]


class AugmentationSettings(Settings):
    """How many rows, and how they are labelled.

    Parameters
    ----------
    k
        Documents that a party's release is asked for, for each term and field.
    n_documents
        Of what came back, the best by BM25 become rows of a query; all parties together.
    n_others
        Further documents, drawn at random from all other parties, with label 0.
    labels
        ``each-party``: by the rank among one party's documents, which is how a party labels its
        own: the first ten get 2, to the hundredth 1. Documents of each party are then a query of
        their own. ``together``: by the rank among all other parties' documents, as one query.
        ``positive``: as ``together``, and each gets 1. The paper says "positive labels" and no
        more.
    """

    k: int = Field(default=150, ge=1)
    n_documents: int = Field(default=100, ge=1)
    n_others: int = Field(default=45, ge=0)
    labels: Literal["each-party", "together", "positive"] = "each-party"


class _Found(NamedTuple):
    """Documents that one party's release gave for a query, best first, and their scores."""

    documents: Integers
    scores: Floats


def augment(
    queries: Sequence[SiloQuery],
    others: Sequence[Released],
    statistics: Statistics,
    rng: np.random.Generator,
    settings: AugmentationSettings | None = None,
) -> RankingData:
    """Return rows of a party's queries and the other parties' documents, pseudo-labelled.

    Parameters
    ----------
    queries
        The party's own; their grades are not looked at.
    others
        The other parties' releases.
    statistics
        By field, pooled over all parties.
    rng
        Draws the documents with label 0.
    settings
        How many rows, and how labelled.
    """
    settings = settings or AugmentationSettings()
    found = [[ask(query.terms, one, statistics, settings.k) for one in others] for query in queries]
    chosen = [_labelled(parts, settings) for parts in found]
    share = -(-settings.n_others // max(len(others), 1))
    parts = []
    for number, one in enumerate(others):
        rows = [
            _with_others(query, *chosen[i][number], one.n_documents, share, rng)
            for i, query in enumerate(queries)
        ]
        parts.append(rows_of(rows, one.fields, statistics))
    return appended(parts) if settings.labels == "each-party" else joined_rows(parts)


def ask(terms: Sequence[str], one: Released, statistics: Statistics, k: int) -> _Found:
    """Ask a release for a query's best documents, by BM25 over all fields together."""
    tops = [np.ravel(field.top(term, k)[0]) for term in terms for field in one.fields.values()]
    documents = np.unique(np.concatenate([np.empty(0, np.int64), *tops])).astype(np.int64)
    documents = documents[documents >= 0]  # places that a short answer leaves empty
    scores = _scores(terms, documents, one.fields, statistics)
    kept = np.flatnonzero(scores > 0)
    best = kept[np.argsort(-scores[kept], kind="stable")]
    return _Found(documents[best], scores[best])


def _scores(
    terms: Sequence[str],
    documents: Integers,
    fields: Mapping[str, TermSource],
    statistics: Statistics,
) -> Floats:
    """Return BM25 as if the fields were one text.

    Counts and lengths add up; a term is taken to be in as many documents as in the field where
    it is in most, since the releases do not tell in how many it is in any.
    """
    found = [match_terms(terms, documents, fields[name], statistics[name]) for name in fields]
    both = TermMatches(
        counts=np.sum([one.counts for one in found], axis=0),
        lengths=np.sum([one.lengths for one in found], axis=0),
        distinct_shares=found[0].distinct_shares,
        n_documents=found[0].n_documents,
        mean_length=sum(one.mean_length for one in found),
        document_frequencies=np.max([one.document_frequencies for one in found], axis=0),
        likelihoods=found[0].likelihoods,
    )
    return bm25(both, TermWeightSettings())


def _labelled(
    parts: Sequence[_Found], settings: AugmentationSettings
) -> list[tuple[Integers, NDArray[np.int8]]]:
    """Choose the best documents over all parties; label them by rank."""
    party = np.repeat(np.arange(len(parts)), [len(part.documents) for part in parts])
    place = np.concatenate([np.arange(len(part.documents)) for part in parts] or [party])
    scores = np.concatenate([part.scores for part in parts] or [np.empty(0)])
    rank = np.empty(len(scores), np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    if settings.labels == "each-party":
        kept = place < -(-settings.n_documents // max(len(parts), 1))
        labels = labels_by_rank(place)
    else:
        kept = rank < settings.n_documents
        labels = labels_by_rank(rank)
    if settings.labels == "positive":
        labels = np.ones(len(rank), np.int8)
    chosen = []
    for number, part in enumerate(parts):
        own = kept[party == number]
        chosen.append((part.documents[own], labels[party == number][own]))
    return chosen


def labels_by_rank(rank: Integers) -> NDArray[np.int8]:
    """Return 2 for the first ten, 1 to the hundredth, else 0; ranks count from 0.

    Examples
    --------
    >>> labels_by_rank(np.array([0, 9, 10, 99, 100])).tolist()
    [2, 2, 1, 1, 0]
    """
    return ((rank < 10).astype(np.int8) + (rank < 100)).astype(np.int8)


def _with_others(
    query: SiloQuery,
    documents: Integers,
    labels: NDArray[np.int8],
    n_documents: int,
    n_others: int,
    rng: np.random.Generator,
) -> Candidates:
    others = others_than(documents, n_documents, n_others, rng)
    found = Candidates(
        str(query.query_id),
        query.terms,
        np.concatenate([documents, others]),
        np.concatenate([labels, np.zeros(len(others), np.int8)]),
    )
    return shuffled(found, rng)


def rows_of(
    candidates: Sequence[Candidates],
    fields: Mapping[str, TermSource],
    statistics: Statistics | None,
) -> RankingData:
    """Return the features and labels of candidates."""
    return features_of(
        [one.terms for one in candidates],
        [one.documents for one in candidates],
        [one.labels for one in candidates],
        fields,
        statistics,
        query_ids=[one.query_id for one in candidates],
    )


def appended(parts: Sequence[RankingData]) -> RankingData:
    """Put data sets one after another; each keeps its queries.

    Examples
    --------
    >>> one = RankingData(np.ones((2, 1)), np.zeros(2, np.int8), np.array([0, 2]))
    >>> appended([one, one]).offsets.tolist()
    [0, 2, 4]
    """
    lengths = np.concatenate([part.lengths for part in parts])
    return RankingData(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        tuple(name for part in parts for name in part.query_ids),
    )
