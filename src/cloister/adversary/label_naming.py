"""Words for labels: what a server saw of queried words, what it knows, and its best guess.

The scene is that of :mod:`cloister.adversary.leakage_abuse`. Where labels have documents of
closures that the server can compute, closures are matched first; within a closure only the known
documents' frequencies tell one word from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.cooccurrence_matching import (
    MatchingSettings,
    match_by_cooccurrence,
)
from cloister.adversary.known_occurrences import KnownOccurrences
from cloister.adversary.linked_documents import match_by_linked_documents
from cloister.cloud.closure_pairs import ClosurePairs
from cloister.cloud.term_closures import TermClosures
from cloister.index.term_counts import TermCounts

__all__ = [
    "KnownCollection",
    "SeenLabels",
    "labels_of_closures",
    "labels_of_words",
    "name_labels",
]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class SeenLabels(NamedTuple):
    """What the server saw of queried words.

    Parameters
    ----------
    documents
        Labels x documents of the server: which documents each label has.
    closures
        A number for the closure label of each; without closures each label has its own.
    """

    documents: Flags
    closures: Integers


def labels_of_words(counts: TermCounts, words: Integers) -> SeenLabels:
    """Return what an ordinary searchable index shows: each label has its word's documents."""
    place = np.full(counts.n_terms, -1, np.int64)
    place[words] = np.arange(len(words))
    owners = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
    at = place[counts.terms]
    documents = np.zeros((len(words), counts.n_documents), np.bool_)
    documents[at[at >= 0], owners[at >= 0]] = True
    return SeenLabels(documents, np.arange(len(words)))


def labels_of_closures(
    pairs: ClosurePairs, closures: TermClosures, words: Integers, n_documents: int
) -> SeenLabels:
    """Return what a closed map shows: each label has the documents of its word's closure."""
    documents = np.zeros((len(words), n_documents), np.bool_)
    for label, closure in enumerate(closures.labels[words].tolist()):
        documents[label, pairs.of(closure)] = True
    numbers = np.unique(closures.labels[words], return_inverse=True)[1].reshape(-1)
    return SeenLabels(documents, numbers.astype(np.int64))


class KnownCollection(NamedTuple):
    """What the server knows beforehand.

    Parameters
    ----------
    sample
        Documents in plain. Words of the vocabulary that are in none of them are not used.
    closures
        The closure of each word, if the server can compute it.
    candidates
        Words that users may ask for, if it has a list of them.
    linked
        The server's number of each known document, if something tells it.
    wrong_links
        Share of these that are wrong, as the server reckons.
    """

    sample: TermCounts
    closures: TermClosures | None = None
    candidates: Flags | None = None
    linked: Integers | None = None
    wrong_links: float = 0.0


def name_labels(
    seen: SeenLabels,
    known: KnownCollection,
    settings: MatchingSettings | None = None,
    *,
    closed: bool = False,
    given: Mapping[int, int] | None = None,
    rng: np.random.Generator,
) -> Integers:
    """Guess the word of each label, as its place in the vocabulary; -1 for no guess.

    Parameters
    ----------
    seen, known
        What the server saw, and what it knows.
    settings
        Of the search by co-occurrence.
    closed
        Whether labels have documents of closures.
    given
        Words of some labels that are known beforehand; not used with linked documents.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> counts = count_terms(["cough fever", "cough fever", "cough", "rash"])
    >>> seen = labels_of_words(counts, np.array([1, 0]))
    >>> found = name_labels(seen, KnownCollection(counts), rng=np.random.default_rng(0))
    >>> [counts.vocabulary[word] for word in found]
    ['fever', 'cough']
    """
    rows = KnownOccurrences(known.sample.starts, known.sample.terms, known.sample.n_terms)
    if not closed or known.closures is None:
        fits = not closed
        return _matched(seen.documents, rows, known, known.candidates, settings, given, fits, rng)
    closures = known.closures
    first, which = np.unique(seen.closures, return_index=True, return_inverse=True)[1:]
    which = which.reshape(-1)
    told = {int(which[label]): int(closures.labels[w]) for label, w in (given or {}).items()}
    wanted = None
    if known.candidates is not None:
        wanted = np.bincount(closures.labels, known.candidates) > 0
    documents = seen.documents[first]
    found = _matched(
        documents, _by_closure(rows, closures), known, wanted, settings, told, True, rng
    )
    return _words_within(found[which], closures, known, rows.frequencies, given or {})


def _matched(
    documents: Flags,
    rows: KnownOccurrences,
    known: KnownCollection,
    candidates: Flags | None,
    settings: MatchingSettings | None,
    given: Mapping[int, int] | None,
    exact: bool,
    rng: np.random.Generator,
) -> Integers:
    if known.linked is not None:
        return match_by_linked_documents(
            documents,
            known.linked,
            rows,
            exact=exact,
            wrong_links=known.wrong_links,
            candidates=candidates,
        )
    return match_by_cooccurrence(
        documents, rows, settings, candidates=candidates, given=given, rng=rng
    )


def _by_closure(rows: KnownOccurrences, closures: TermClosures) -> KnownOccurrences:
    """Return which closures each known document has."""
    n = rows.n_documents
    owners = np.repeat(np.arange(n), np.diff(rows.starts))
    keys = np.unique(owners * closures.n_closures + closures.labels[rows.rows])
    starts = np.searchsorted(keys, np.arange(n + 1) * closures.n_closures).astype(np.int64)
    found = (keys % closures.n_closures).astype(np.int32)
    return KnownOccurrences(starts, found, closures.n_closures)


def _words_within(
    found: Integers,
    closures: TermClosures,
    known: KnownCollection,
    frequencies: Integers,
    given: Mapping[int, int],
) -> Integers:
    """Guess the word within each label's closure: the most frequent that no other label has."""
    guess = np.full(len(found), -1, np.int64)
    for label, word in given.items():
        guess[label] = word
    used = set(given.values())
    for label in np.flatnonzero((guess < 0) & (found >= 0)).tolist():
        members = closures.members(int(found[label]))
        if known.candidates is not None:
            members = members[known.candidates[members]]
        ranked = members[np.argsort(-frequencies[members], kind="stable")].tolist()
        guess[label] = next((word for word in ranked if word not in used), -1)
        used.add(int(guess[label]))
    return guess
