"""Small worlds of servers, pods, documents and rights, and what a literal search finds in them."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_view import Level
from cloister.index.entity_weights import ModelSettings
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from cloister.search.shard_node import ShardNode

ANALYSIS = TextAnalysis(stop_words="none", min_length=1)
WORDS = ("asthma", "cough", "fever", "rash", "ward", "night")
ALICE = Reader(AgentId("alice"))
READS = Rights(agents=frozenset({AgentId("alice")}))
HIDDEN = Rights(owner=AgentId("bob"))


class Note(NamedTuple):
    doc_id: str
    pod_id: str
    server_id: str
    text: str
    readable: bool = True


def snapshot(notes: Sequence[Note], version: int = 1, sizes: Iterable[int] = ()) -> Snapshot:
    """Index notes, in segments of some sizes and one for the rest."""
    pod_ids = tuple(PodId(name) for name in dict.fromkeys(note.pod_id for note in notes))
    segments, left = [], list(notes)
    for size in [*sizes, len(left)]:
        part, left = left[:size], left[size:]
        segments.append(segment(part, pod_ids))
    return Snapshot(version, tuple(segments), pod_ids, (READS, HIDDEN))


def segment(notes: Sequence[Note], pod_ids: Sequence[str]) -> Segment:
    return Segment(
        Postings.build(count_terms([note.text for note in notes], ANALYSIS)),
        [DocId(note.doc_id) for note in notes],
        np.array([pod_ids.index(note.pod_id) for note in notes], np.int32),
        np.ones(len(notes), np.bool_),
        np.array([0 if note.readable else 1 for note in notes], np.int32),
        np.array([stamp(note) for note in notes], np.uint64),
    )


def stamp(note: Note) -> int:
    content = "\0".join([note.doc_id, note.pod_id, note.text])
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "little")


def node(notes: Sequence[Note], name: str, sizes: Iterable[int] = ()) -> ShardNode:
    """Return Alice's node of one server."""
    mine = [note for note in notes if note.server_id == name]
    view = ReaderView(snapshot(mine, sizes=sizes), ALICE)
    return ShardNode(ServerId(name), lambda: view, reading(mine), analysis=ANALYSIS)


def nodes(notes: Sequence[Note], sizes: Iterable[int] = ()) -> list[ShardNode]:
    names = sorted({note.server_id for note in notes})
    return [node(notes, name, list(sizes)) for name in names]


def reading(notes: Sequence[Note]) -> Callable[[DocId], str]:
    texts = {note.doc_id: note for note in notes}

    def read(doc_id: DocId) -> str:
        if not texts[doc_id].readable:
            raise AccessDenied("not allowed, or no such resource")
        return texts[doc_id].text

    return read


# The literal search: dictionaries, and the formulas as printed.


def entities(notes: Iterable[Note], level: Level) -> dict[str, Counter[str]]:
    """Return the terms of each entity in which Alice may read anything."""
    found: dict[str, Counter[str]] = {}
    for note in notes:
        if note.readable:
            name = {"document": note.doc_id, "pod": note.pod_id, "server": note.server_id}[level]
            found.setdefault(name, Counter()).update(ANALYSIS.terms(note.text))
    return found


def literal_statistics(found: dict[str, Counter[str]]) -> StatisticsTable:
    df = Counter(term for terms in found.values() for term in terms)
    n = len(found)
    length = sum(terms.total() for terms in found.values())
    return StatisticsTable(n, length / n if n else 0.0, sum(df.values()), df)


def literal_scores(
    found: dict[str, Counter[str]],
    query: Sequence[str],
    settings: ModelSettings,
    statistics: StatisticsTable | None = None,
) -> dict[str, float]:
    """Score each entity that holds a term of the query."""
    whole = statistics or literal_statistics(found)
    return {
        name: _literal_score(terms, Counter(query), settings, whole)
        for name, terms in found.items()
        if any(terms[term] for term in query)
    }


def ordered(scores: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))


def _literal_idf(term: str, settings: ModelSettings, whole: StatisticsTable) -> float:
    n = whole.n_entities
    df = min(whole.table.get(term, 0), n)
    ratio = (n - df + 0.5) / (df + 0.5)
    return math.log(1 + ratio) if settings.idf == "non_negative" else math.log(ratio) + 1


def _literal_score(
    terms: Counter[str], query: Counter[str], settings: ModelSettings, whole: StatisticsTable
) -> float:
    length = terms.total()
    if settings.model == "bm25":
        mean = whole.mean_length or 1.0
        norm = settings.k1 * (1 - settings.b + settings.b * length / mean)
        return sum(
            n * _literal_idf(t, settings, whole) * terms[t] * (settings.k1 + 1) / (terms[t] + norm)
            for t, n in query.items()
        )
    if settings.model == "lm":
        total, mixing = max(whole.n_pairs, 0.5), settings.mixing
        return sum(
            n
            * math.log(
                (1 - mixing)
                + mixing * (terms[t] / length) / (max(whole.table.get(t, 0), 0.5) / total)
            )
            for t, n in query.items()
        )
    vector = {t: n * _literal_idf(t, settings, whole) for t, n in terms.items()}
    asked = {t: n * _literal_idf(t, settings, whole) for t, n in query.items()}
    if settings.model == "tfidf-cosine":
        below = math.hypot(*vector.values()) * math.hypot(*asked.values())
        return sum(vector.get(t, 0.0) * w for t, w in asked.items()) / below if below else 0.0
    every = vector.keys() | asked.keys()
    return -math.sqrt(sum((vector.get(t, 0.0) - asked.get(t, 0.0)) ** 2 for t in every))


# Random worlds.

mostly = st.sampled_from([True, True, True, False])
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
queries = st.lists(st.sampled_from((*WORDS, "unknown")), min_size=1, max_size=4).map(" ".join)


@st.composite
def worlds(draw: st.DrawFn, max_servers: int = 4, max_notes: int = 14) -> list[Note]:
    """Draw notes in pods on servers, some of them hidden; each server has a note."""
    n_servers = draw(st.integers(1, max_servers))
    places = st.tuples(st.integers(0, n_servers - 1), st.integers(0, 2), texts, mostly)
    drawn = draw(st.lists(places, min_size=1, max_size=max_notes))
    names = draw(st.permutations(range(len(drawn))))
    return [
        Note(f"d{name:02}", f"s{server}-p{pod}", f"s{server}", text, readable)
        for name, (server, pod, text, readable) in zip(names, drawn, strict=True)
    ]


def reader_only(notes: Iterable[Note]) -> list[Note]:
    return [note for note in notes if note.readable]
