"""Collections as parties: documents, queries at the party of their best answer, labels.

A query belongs to the party that holds its best answer: the first document of the reference ranking
over all documents (judgements by grade, then BM25). Its labels come from the reference ranking of
that party's own documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import PartyId
from cloister.core.random import stream
from cloister.federate.silos.party import Party, SiloQuery
from cloister.index.analysis import TextAnalysis
from cloister.index.term_counts import TermCounts, count_terms
from cloister.lab.silos.reference_ranking import FullTextRanking, Reference
from cloister.lab.silos.settings import CollectionSettings, RowSettings
from cloister.lab.silos.texts import Texts, read_texts

__all__ = ["Silo", "make_parties", "open_silos", "party_name", "reference_labels"]

N_HIGHLY_RELEVANT: Final = 10  # first places of a reference ranking, label 2
N_RELEVANT: Final = 100  # label 1 from there to here
HIGHEST: Final = 2
MOST_TERMS: Final = 16  # of a query; the first are kept


class Silo(NamedTuple):
    """A party's documents and all queries that are its own."""

    party_id: PartyId
    fields: dict[str, TermCounts]
    queries: tuple[SiloQuery, ...]
    judged: NDArray[np.bool_]  # whether people judged a document of the query relevant


def party_name(number: int) -> PartyId:
    """Return what a party is called.

    Examples
    --------
    >>> party_name(0), party_name(3)
    ('party-a', 'party-d')
    """
    return PartyId(f"party-{chr(ord('a') + number)}")


def reference_labels(n: int) -> NDArray[np.int8]:
    """Return the labels of the first ``n`` places of a reference ranking.

    Examples
    --------
    >>> np.bincount(reference_labels(140)).tolist()
    [40, 90, 10]
    """
    rank = np.arange(n)
    return ((rank < N_HIGHLY_RELEVANT).astype(np.int8) + (rank < N_RELEVANT)).astype(np.int8)


@lru_cache(maxsize=4)
def open_silos(settings: CollectionSettings) -> tuple[Silo, ...]:
    """Read a collection, share it out, and find each query's party and labels."""
    texts = read_texts(settings)
    fields = {"body": count_terms(texts.bodies)}
    if any(texts.titles):
        fields["title"] = count_terms(texts.titles)
    whole = _added(list(fields.values()))
    found = _labelled_queries(texts, whole, settings)
    silos = []
    for number in range(settings.n_parties):
        own = np.flatnonzero(texts.party == number)
        queries, judged = found[number]
        silos.append(
            Silo(
                party_name(number),
                {name: _own_words(counts.select(own)) for name, counts in fields.items()},
                tuple(queries),
                np.array(judged, np.bool_),
            )
        )
    return tuple(silos)


def _added(fields: Sequence[TermCounts]) -> TermCounts:
    """Return the counts of the fields put together into one text."""
    vocabulary = tuple(dict.fromkeys(word for counts in fields for word in counts.vocabulary))
    position = {word: i for i, word in enumerate(vocabulary)}
    documents, terms, values = [], [], []
    for counts in fields:
        to_whole = np.array([position[word] for word in counts.vocabulary], np.int64)
        documents.append(np.repeat(np.arange(counts.n_documents), np.diff(counts.starts)))
        terms.append(to_whole[counts.terms])
        values.append(counts.counts)
    n_terms = max(len(vocabulary), 1)
    pairs, place = np.unique(
        np.concatenate(documents) * n_terms + np.concatenate(terms), return_inverse=True
    )
    added = np.bincount(place, np.concatenate(values), len(pairs)).astype(np.int32)
    starts = np.searchsorted(pairs, np.arange(fields[0].n_documents + 1) * n_terms)
    return TermCounts(
        starts.astype(np.int64), (pairs % n_terms).astype(np.int32), added, vocabulary
    )


def _own_words(counts: TermCounts) -> TermCounts:
    """Leave out of the vocabulary what none of the documents holds."""
    present, terms = np.unique(counts.terms, return_inverse=True)
    words = tuple(counts.vocabulary[i] for i in present)
    return TermCounts(counts.starts, terms.astype(np.int32), counts.counts, words)


def _labelled_queries(
    texts: Texts, whole: TermCounts, settings: CollectionSettings
) -> list[tuple[list[SiloQuery], list[bool]]]:
    ranking, analysis = FullTextRanking(whole), TextAnalysis()
    everything = np.arange(len(texts.bodies))
    own = [np.flatnonzero(texts.party == i) for i in range(settings.n_parties)]
    found: list[tuple[list[SiloQuery], list[bool]]] = [([], []) for _ in own]
    seen: set[frozenset[str]] = set()
    for query in texts.queries:
        terms = tuple(dict.fromkeys(analysis.terms(query.text)))[:MOST_TERMS]
        if frozenset(terms) in seen:  # the same query again must not be trained on and tested with
            continue
        seen.add(frozenset(terms))
        judged = texts.judged.get(query.query_id, {})
        scores = ranking.scores(terms)
        best = ranking.reference(terms, judged, everything, depth=1, scores=scores)
        if not len(best.documents):
            continue
        party = int(texts.party[best.documents[0]])
        here = ranking.reference(terms, judged, own[party], depth=N_RELEVANT, scores=scores)
        grades = _grades(here, settings)
        if grades.any():
            documents = np.searchsorted(own[party], here.documents)
            found[party][0].append(SiloQuery(query.query_id, terms, documents, grades))
            found[party][1].append(bool(judged))
    return found


def _grades(reference: Reference, settings: CollectionSettings) -> NDArray[np.int8]:
    if settings.labels == "judged":
        return np.minimum(reference.grades, HIGHEST).astype(np.int8)
    return reference_labels(len(reference.documents))


def make_parties(settings: RowSettings) -> list[Party]:
    """Return the parties of one repetition, their queries drawn and split.

    Judged queries go first, so that all of them are used; which of a party's queries train,
    validate and test is drawn from all.
    """
    basis = CollectionSettings(
        **{name: getattr(settings, name) for name in CollectionSettings.model_fields}
    )
    return [_split(silo, settings) for silo in open_silos(basis)]


def _split(silo: Silo, settings: RowSettings) -> Party:
    sizes = np.array([settings.n_training, settings.n_validation, settings.n_test])
    rng = stream(settings.seed, "silos", "split", str(silo.party_id))
    order = rng.permutation(len(silo.queries))
    order = order[np.argsort(~silo.judged[order], kind="stable")][: sizes.sum()]
    if len(order) < 3:
        raise DataError(
            f"{len(order)} queries are too few to train, validate and test",
            where=str(silo.party_id),
            remedy="share the documents out otherwise, or use labels='reference'",
        )
    chosen = [silo.queries[i] for i in rng.permutation(order)]
    shares = np.maximum(1, np.floor(sizes * len(order) / sizes.sum())).astype(int)
    n_test, n_validation = int(shares[2]), int(shares[1])
    n_training = min(settings.n_training, len(order) - n_test - n_validation)
    return Party(
        silo.party_id,
        silo.fields,
        training=tuple(chosen[:n_training]),
        validation=tuple(chosen[n_training : n_training + n_validation]),
        test=tuple(chosen[n_training + n_validation :]),
    )
