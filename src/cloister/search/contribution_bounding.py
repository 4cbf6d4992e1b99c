"""Contribution bounding: what is counted of a unit, so that its weight in all tables is bounded.

A document is in as many counters as it has different terms, and a pod in more. Differential privacy
needs a bound on what one unit moves: of each unit at most so many terms count, chosen by what is in
that unit alone, and each moves a counter by one. The numbers counted are exact, and may not leave
before noise is added (`cloister.search.noisy_statistics`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.index.entity_view import Level
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.search.server_contents import JoinedContents

__all__ = ["bounded_sizes", "bounded_tables", "on_word_list"]

Integers = NDArray[np.int64]
Words64 = NDArray[np.uint64]

# SplitMix64 (Steele, Lea and Flood 2014): the step, and the two multipliers of its finaliser.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def on_word_list(joined: JoinedContents, word_list: Sequence[str]) -> JoinedContents:
    """Leave out what is not on the list, before anything is counted."""
    positions = {word: position for position, word in enumerate(word_list)}
    places = np.array([positions.get(term, -1) for term in joined.vocabulary], np.int64)
    terms = places[joined.terms]
    known = terms >= 0
    return joined._replace(
        vocabulary=tuple(word_list),
        documents=joined.documents[known],
        terms=terms[known],
        counts=joined.counts[known],
    )


def bounded_tables(
    joined: JoinedContents, settings: NoisyStatisticsSettings
) -> dict[str, Integers]:
    """Count what is counted of each unit: tables of one or more rows, one column a term.

    Row j of the table ``terms`` has in how many pods more than j documents hold a term, where the
    unit is a pod; else it has one row, for documents.
    """
    if settings.unit == "pod":
        return _tables_of_pods(joined, settings)
    kept = _kept(joined.documents, joined, settings)
    counted = joined._replace(documents=joined.documents[kept], terms=joined.terms[kept])
    names: dict[str, Level] = {"terms": "document", "pods": "pod", "servers": "server"}
    return {name: counted.frequencies(level)[None] for name, level in names.items()}


def _tables_of_pods(
    joined: JoinedContents, settings: NoisyStatisticsSettings
) -> dict[str, Integers]:
    n_terms, pod_of = max(1, len(joined.vocabulary)), joined.entities["pod"]
    pairs, where, n = np.unique(
        pod_of[joined.documents] * n_terms + joined.terms, return_inverse=True, return_counts=True
    )
    occurrences = np.bincount(where, joined.counts, len(pairs)).astype(np.int64)
    n = np.minimum(n, settings.max_documents)
    rows = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    pods, terms = np.divmod(np.repeat(pairs, n), n_terms)
    spread = joined._replace(terms=terms, counts=np.repeat(occurrences, n))
    kept = _kept(pods, spread, settings, rows)
    cells = rows[kept] * n_terms + terms[kept]
    table = np.bincount(cells, minlength=settings.max_documents * n_terms).astype(np.int64)
    server_of = np.zeros(int(pod_of.max(initial=0)) + 1, np.int64)
    server_of[pod_of] = joined.entities["server"]
    held = np.unique(server_of[pods[kept]] * n_terms + terms[kept])
    servers = np.bincount(held % n_terms, minlength=n_terms).astype(np.int64)
    used = slice(len(joined.vocabulary))  # none, where there are no terms
    return {"terms": table.reshape(-1, n_terms)[:, used], "servers": servers[None, used]}


def _kept(
    units: Integers,
    joined: JoinedContents,
    settings: NoisyStatisticsSettings,
    rows: Integers | None = None,
) -> Integers:
    """Return which entries stay: ``max_terms`` of each unit, by what is in that unit alone."""
    word = np.array([_word(term) for term in joined.vocabulary], np.uint64)[joined.terms]
    content = np.zeros(int(units.max(initial=0)) + 1, np.uint64)
    np.add.at(content, units, word * joined.counts.astype(np.uint64))
    place = _mixed(word + _STEP * content[units])
    keys: list[NDArray[Any]] = [place]
    if settings.kept == "frequent":
        keys.append(-joined.counts)
    if rows is not None:
        keys.append(rows)
    order = np.lexsort((*keys, units))
    first = np.searchsorted(units[order], units[order])
    kept: Integers = order[np.arange(len(order)) - first < settings.max_terms]
    return kept


def _word(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


def _mixed(words: Words64) -> Words64:
    """Mix words as SplitMix64 does: quick, and no privacy rests on it."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def bounded_sizes(joined: JoinedContents, settings: NoisyStatisticsSettings) -> Integers:
    """Count the units that are at least so long, for each step; then documents and pods.

    A unit moves each of the counters by one at most, and the sum of the first times a step is the
    number of tokens. Where the unit is a pod, row j counts the pods with more than j documents.
    """
    n_pods = joined.n_entities["pod"]
    lengths, pod_of = joined.lengths, joined.entities["pod"]
    if settings.unit == "pod":
        lengths = np.bincount(pod_of, lengths, n_pods).astype(np.float64)
        n_documents = np.bincount(pod_of, minlength=n_pods)
        numbers = [int((n_documents > j).sum()) for j in range(settings.max_documents)]
    else:
        numbers = [len(lengths), n_pods]
    steps = (np.arange(settings.n_lengths) + 0.5) * (settings.max_length / settings.n_lengths)
    long = [int((lengths >= step).sum()) for step in steps]
    return np.array(long + numbers, np.int64)
