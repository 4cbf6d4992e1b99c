"""An index as a dict, and what a reader finds in it: slow, from the formulas, with no arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cloister.core.rights import Reader, Rights
from cloister.index.entity_view import Level
from cloister.index.entity_weights import ModelSettings


class Entry(NamedTuple):
    """A document as the oracle keeps it."""

    pod_id: str
    terms: tuple[str, ...]
    rights: Rights
    etag: str = ""
    text: str = ""


class LiteralEntities:
    """What one reader may read at one level: a Counter of terms for each entity."""

    def __init__(self, index: Mapping[str, Entry], reader: Reader, level: Level) -> None:
        self.entities: dict[str, Counter[str]] = {}
        for doc_id, entry in index.items():
            if entry.rights.allow(reader):
                name = {"document": doc_id, "pod": entry.pod_id, "server": ""}[level]
                self.entities.setdefault(name, Counter()).update(entry.terms)

    @property
    def n_entities(self) -> int:
        return len(self.entities)

    @property
    def n_tokens(self) -> int:
        return sum(counts.total() for counts in self.entities.values())

    @property
    def mean_length(self) -> float:
        return self.n_tokens / self.n_entities if self.entities else 0.0

    @property
    def n_pairs(self) -> int:
        return sum(len(counts) for counts in self.entities.values())

    @property
    def vocabulary(self) -> list[str]:
        return sorted(set().union(*self.entities.values()), key=str.encode)

    def frequency(self, term: str) -> int:
        return sum(term in counts for counts in self.entities.values())

    def occurrences(self, term: str) -> int:
        return sum(counts[term] for counts in self.entities.values())

    def scores(self, terms: Sequence[str], settings: ModelSettings) -> dict[str, float]:
        """Score the entities that hold a term of the query, by the formulas as they are printed."""
        query = Counter(terms)
        form = {"bm25": self._bm25, "lm": self._lm}.get(settings.model, self._tfidf)
        return {
            name: form(counts, query, settings)
            for name, counts in self.entities.items()
            if any(term in counts for term in query)
        }

    def _idf(self, term: str, settings: ModelSettings) -> float:
        df = self.frequency(term)
        ratio = (self.n_entities - df + 0.5) / (df + 0.5)
        return math.log(1 + ratio) if settings.idf == "non_negative" else math.log(ratio) + 1

    def _bm25(self, counts: Counter[str], query: Counter[str], settings: ModelSettings) -> float:
        relative = counts.total() / self.mean_length
        below = settings.k1 * (1 - settings.b + settings.b * relative)
        return sum(
            n
            * self._idf(term, settings)
            * counts[term]
            * (settings.k1 + 1)
            / (counts[term] + below)
            for term, n in query.items()
        )

    def _lm(self, counts: Counter[str], query: Counter[str], settings: ModelSettings) -> float:
        total = 0.0
        for term, n in query.items():
            background = max(self.frequency(term), 0.5) / self.n_pairs
            share = counts[term] / counts.total() / background
            total += n * math.log((1 - settings.mixing) + settings.mixing * share)
        return total

    def _tfidf(self, counts: Counter[str], query: Counter[str], settings: ModelSettings) -> float:
        every = {*counts, *query}
        idf = {term: self._idf(term, settings) for term in every}
        ours = [counts[term] * idf[term] for term in every]
        theirs = [query[term] * idf[term] for term in every]
        if settings.model == "tfidf-euclidean":
            return -math.dist(ours, theirs)
        below = math.hypot(*ours) * math.hypot(*theirs)
        return sum(a * b for a, b in zip(ours, theirs, strict=True)) / below if below else 0.0
