"""Source selection by best impacts: by what a server would put among the best k documents.

Each server names for each term the few documents in which it weighs most for this user
(`cloister.search.impact_list`). The weights of a document that several lists name are added up.
What the lists leave open is bounded: a document that is not in a term's list holds the term seldom
enough to stand below the list's end, and mostly not at all.

For each named document there are three scores. ``lower`` counts what is known, ``upper`` takes for
each open term as much as the list allows, and ``estimate`` takes what is to be expected if terms
were independent: the share of the remaining documents that hold the term, times the weight of their
mean count. Lower and upper bounds are certain if all servers tell the truth; the estimate is not.

A term may have no list, or more documents than its list. Of those that no list names only estimates
are made: so many documents hold it, as often as they do on average and as long as documents are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.ids import ServerId
from cloister.index.entity_weights import QueryWeights
from cloister.search.impact_list import list_length
from cloister.search.node import ServerSummary, TermSummary
from cloister.search.selection import ServerScore

__all__ = ["ServerOutlook", "rank_by_best_impact", "server_outlooks"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_UNNAMED: Final = 20  # documents that no list names of which a server is given estimates
_SLACK: Final = 1e-9  # more than rounding can do


class ServerOutlook(NamedTuple):
    """What a server may have for a query; one row a named document, one column a term.

    Parameters
    ----------
    documents
        Numbers of the documents that its lists name.
    lower, estimate, upper
        Their scores.
    open_weights
        What each term adds at most where its list does not name the document; 0 where it does.
    presence
        Share of the documents outside a term's list that hold it.
    n_unnamed
        How many documents no list names.
    unnamed_weights
        What each term adds to one of these at most.
    constant
        What each document gets besides.
    unnamed_estimates
        Scores to be expected of documents that no list names, best first; some of them.
    """

    server_id: ServerId
    documents: Ints
    lower: Floats
    estimate: Floats
    upper: Floats
    open_weights: Floats
    presence: Floats
    n_unnamed: int
    unnamed_weights: Floats
    constant: float
    unnamed_estimates: Floats = np.empty(0)

    @property
    def estimates(self) -> Floats:
        """What is to be expected of documents that lists name, and of others."""
        return np.concatenate([self.estimate, self.unnamed_estimates])

    @property
    def unnamed_upper(self) -> float:
        """The largest score that a document can have which no list names."""
        some = self.n_unnamed > 0 and bool((self.presence > 0).any())
        return float(self.unnamed_weights.sum()) + self.constant if some else -np.inf

    @property
    def best_upper(self) -> float:
        """The largest score that any document of the server can have."""
        return max(float(self.upper.max(initial=-np.inf)), self.unnamed_upper)


class _Floors(NamedTuple):
    """What is known of the documents outside the lists; one row a server, one column a term.

    For each of them ``at_zero / count + by_length * length / count >= least``.
    """

    at_zero: float
    by_length: Floats
    least: Floats
    n_documents: Floats  # that hold the term,
    n_occurrences: Floats  # and how often together
    presence: Floats

    @property
    def most_in_one(self) -> Floats:
        """How often one of them can hold the term, if each of the others has it once."""
        most = self.n_occurrences - self.n_documents + 1
        return np.where(self.n_documents > 0, np.maximum(most, 0.0), 0.0)


class _Named(NamedTuple):
    """The documents that lists name, ordered by server: counts of each term, and lengths."""

    servers: Ints
    documents: Ints
    counts: Floats
    lengths: Floats


def server_outlooks(summaries: Sequence[ServerSummary], query: QueryWeights) -> list[ServerOutlook]:
    """Work out bounds and estimates of each server's best scores.

    Parameters
    ----------
    summaries
        With best impacts for the query's terms.
    query
        The weights that documents are scored with, of BM25 or the language model.
    """
    if query.model not in ("bm25", "lm"):
        raise SettingsError("best impacts are for bm25 and lm", where="server_outlooks")
    named, floors = _read(summaries, query.terms)
    rows, lengths = named.servers, named.lengths[:, None]
    known = _weights(query, named.counts, lengths)
    most = _most_occurrences(named, floors)
    largest = _weights(query, most, lengths)
    mean = floors.n_occurrences / np.maximum(floors.n_documents, 1.0)
    expected = floors.presence[rows] * _weights(query, np.minimum(most, mean[rows]), lengths)
    certain = known.sum(axis=1) + query.constant
    lower = certain + np.minimum(largest, 0.0).sum(axis=1)
    open_weights = np.maximum(largest, 0.0)
    upper = certain + open_weights.sum(axis=1)
    estimate = certain + expected.sum(axis=1)
    unnamed = _most_anywhere(query, floors)
    ends = np.searchsorted(rows, np.arange(len(summaries) + 1))
    n_documents = np.array([one.documents.n_entities for one in summaries], np.int64)
    n_unnamed = np.maximum(n_documents - np.diff(ends), 0).tolist()
    expected_others = _expected_unnamed(summaries, query, floors, unnamed, n_unnamed)
    return [
        ServerOutlook(
            one.server_id, named.documents[part], lower[part], estimate[part], upper[part],
            open_weights[part], floors.presence[server],
            n_unnamed[server], unnamed[server], query.constant,
            expected_others[server] + query.constant,
        )
        for server, one in enumerate(summaries)
        for part in [slice(int(ends[server]), int(ends[server + 1]))]
    ]  # fmt: skip


def rank_by_best_impact(outlooks: Sequence[ServerOutlook], k: int) -> list[ServerScore]:
    """Rank servers by what they would put among the best k documents, by the estimates.

    A server's score is the sum of 1 / log2(1 + rank) over its documents there, as nDCG counts
    them. Between equals the best estimate decides, then the name. Servers that hold no term of the
    query are left out.

    Examples
    --------
    >>> def outlook(name, *estimates):
    ...     scores, none = np.array(estimates), np.zeros(1)
    ...     return ServerOutlook(ServerId(name), np.arange(len(scores)), scores, scores, scores,
    ...                          np.zeros((len(scores), 1)), none, 0, none, 0.0)
    >>> rank_by_best_impact([outlook("a", 1.0, 0.9), outlook("b", 5.0), outlook("c", 0.1)], 3)
    [ServerScore(server_id='a', score=1.13...), ServerScore(server_id='b', score=1.0),
     ServerScore(server_id='c', score=0.0)]
    """
    listed = sorted(outlooks, key=lambda one: one.server_id)
    scores = [one.estimates for one in listed]
    estimates = np.concatenate([np.empty(0), *scores])
    servers = np.repeat(np.arange(len(listed)), [len(one) for one in scores])
    best = np.argsort(-estimates, kind="stable")[: max(k, 0)]  # of equals the first server's
    gains = np.zeros(len(listed))
    np.add.at(gains, servers[best], 1 / np.log2(2 + np.arange(len(best))))
    order = sorted(
        (-gain, -float(found.max(initial=-np.inf)), one.server_id)
        for gain, found, one in zip(gains.tolist(), scores, listed, strict=True)
        if one.best_upper > -np.inf
    )
    return [ServerScore(server_id, -loss) for loss, _, server_id in order]


def _read(summaries: Sequence[ServerSummary], terms: Sequence[str]) -> tuple[_Named, _Floors]:
    """Put all lists into arrays."""
    nothing = TermSummary(0, 0, 0)
    found = [one.terms.get(term, nothing) for one in summaries for term in terms]
    shape = (len(summaries), len(terms))
    n_listed = np.array([len(one.best) for one in found], np.int64)
    groups = np.repeat(np.arange(len(found)), n_listed)
    numbers = chain.from_iterable(impact for one in found for impact in one.best)
    impacts = np.fromiter(numbers, np.int64).reshape(-1, 3)
    n_documents = np.array([one.documents.n_entities for one in summaries], np.float64)
    n_tokens = np.array([one.n_tokens for one in summaries], np.float64)
    means = n_tokens / np.maximum(n_documents, 1.0)
    at_zero = list_length(1.0)[0]
    by_length = np.array([list_length(mean)[1] for mean in means.tolist()], np.float64)
    counts, lengths = impacts[:, 1].astype(np.float64), impacts[:, 2].astype(np.float64)
    least, in_lists = np.zeros(len(found)), np.zeros(len(found))
    servers = groups // max(len(terms), 1)
    np.maximum.at(least, groups, at_zero / counts + by_length[servers] * lengths / counts)
    np.add.at(in_lists, groups, counts)
    frequencies = np.array([one.n_documents for one in found], np.float64)
    occurrences = np.array([one.n_occurrences for one in found], np.float64)
    left = np.maximum(frequencies - n_listed, 0.0).reshape(shape)
    outside = n_documents[:, None] - n_listed.reshape(shape)
    floors = _Floors(
        at_zero,
        by_length,
        least.reshape(shape) * (1 - _SLACK),
        left,
        np.maximum(occurrences - in_lists, 0.0).reshape(shape),
        np.clip(left / np.maximum(outside, 1.0), 0.0, 1.0),
    )
    return _joined(servers, groups % max(len(terms), 1), impacts, len(terms)), floors


def _joined(servers: Ints, columns: Ints, impacts: Ints, n_terms: int) -> _Named:
    """Put what several lists say of one document into one row."""
    order = np.lexsort((impacts[:, 0], servers))
    servers, columns, impacts = servers[order], columns[order], impacts[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(servers) != 0) | (np.diff(impacts[:, 0]) != 0)
    rows = np.cumsum(first) - 1
    counts = np.zeros((int(first.sum()), n_terms))
    counts[rows, columns] = impacts[:, 1]
    return _Named(servers[first], impacts[first, 0], counts, impacts[first, 2].astype(np.float64))


def _weights(query: QueryWeights, counts: Floats, lengths: Floats) -> Floats:
    """Return the terms' weights in many documents, as `term_weight` does one in one."""
    scale, at_zero, by_length = np.array(query.parameters, np.float64).reshape(-1, 3).T
    if query.model == "lm":
        return scale * np.log1p(by_length * (counts / np.maximum(lengths, 1.0)))
    below = np.maximum(counts + at_zero + by_length * lengths, np.finfo(np.float64).tiny)
    return scale * (counts / below)


def _most_occurrences(named: _Named, floors: _Floors) -> Floats:
    """Return how often named documents can hold the terms whose lists do not name them."""
    rows, lengths = named.servers, named.lengths[:, None]
    least = floors.least[rows]
    allowed = floors.at_zero + floors.by_length[rows, None] * lengths
    by_floor = np.divide(allowed, least, out=np.full(least.shape, np.inf), where=least > 0)
    room = lengths - named.counts.sum(axis=1, keepdims=True)
    most = np.minimum(np.minimum(by_floor + _SLACK, floors.most_in_one[rows]), room)
    return np.where(named.counts > 0, 0.0, np.floor(np.maximum(most, 0.0)))


def _expected_unnamed(
    summaries: Sequence[ServerSummary],
    query: QueryWeights,
    floors: _Floors,
    most: Floats,
    n_unnamed: Sequence[int],
) -> list[Floats]:
    """Return the scores to be expected of each server's documents that no list names.

    For each term that documents outside its list hold: its weight there, and what the others add on
    average. Such a document may be in another term's list, and it may be counted for each of its
    terms, but there are never more than documents that no list names.
    """
    n_documents = np.array([one.documents.n_entities for one in summaries], np.float64)
    n_tokens = np.array([one.n_tokens for one in summaries], np.float64)
    lengths = (n_tokens / np.maximum(n_documents, 1.0))[:, None]
    mean = floors.n_occurrences / np.maximum(floors.n_documents, 1.0)
    weights = np.minimum(_weights(query, mean, lengths), most)
    average = floors.presence * weights
    scores = weights + average.sum(axis=1, keepdims=True) - average
    n_each = np.minimum(floors.n_documents, MOST_UNNAMED).astype(np.int64)
    return [
        np.sort(np.repeat(row, n))[::-1][: min(MOST_UNNAMED, n_others)]
        for row, n, n_others in zip(scores, n_each, n_unnamed, strict=True)
    ]


def _most_anywhere(query: QueryWeights, floors: _Floors) -> Floats:
    """Return what terms add at most to a document outside their lists, of whatever length."""
    scale, at_zero, by_length = np.array(query.parameters, np.float64).reshape(-1, 3).T
    list_slope = floors.by_length[:, None]
    if query.model == "lm":  # length / count is at least this, and at least 1
        shortest = np.maximum(1.0, (floors.least - floors.at_zero) / list_slope)
        weights = scale * np.log1p(by_length / shortest)
    else:
        # Of at_zero / count + by_length * length / count: each part is at least the share that it
        # has of the list's, and the length is at least the count.
        share = np.minimum(at_zero / floors.at_zero, by_length / list_slope)
        alone = at_zero / np.maximum(floors.most_in_one, 1.0) + by_length
        weights = scale / (1 + np.maximum(share * floors.least, alone))
    return np.where((floors.n_documents > 0) & (scale > 0), weights, 0.0)
