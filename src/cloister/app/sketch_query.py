"""``cloister sketch query``: which documents have these terms, by estimate, and how sure is that.

Every answer comes with what made-up terms get from the same file. They occur in no text, so what
they find is collisions and noise alone: an estimate that does not stand out from theirs says
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.index.analysis import TextAnalysis
from cloister.index.term_source import TermSource
from cloister.index.term_weights import TermWeightSettings, bm25, match_terms
from cloister.sketch.rtk_query import ReverseTop

__all__ = ["Answer", "ReverseSource", "Score", "answer_query", "query_terms"]

Floats = NDArray[np.float64]
Score = Literal["counts", "bm25"]

POOL: Final = 150  # documents that each of several terms puts forward, at least
N_MADE_UP: Final = 99  # queries: with the one asked, a hundred
MOST_AS_GOOD: Final = 4  # of them, where a result stands out: by chance 5 times in 100


class ReverseSource(Protocol):
    """What a query reads: an exact RTK-Sketch or a noisy release, opened with its key."""

    def top(self, term: str, k: int) -> ReverseTop:
        """Return the documents in which a term is most frequent, by estimate, in one line."""

    def term_counts(self, terms: Sequence[str], documents: NDArray[np.integer[Any]]) -> Floats:
        """Return how often each term (row) occurs in each document (column), by estimate."""


class Answer(NamedTuple):
    """Documents by number, best first.

    Parameters
    ----------
    documents, scores
        What was found, and by which score.
    counts
        Estimated counts: [n_terms, n_documents].
    made_up
        The best score that each of `N_MADE_UP` made-up queries of as many terms gets.
    """

    documents: NDArray[np.int64]
    scores: Floats
    counts: Floats
    made_up: Floats

    @property
    def made_up_as_good(self) -> NDArray[np.int64]:
        """How many made-up queries find a document that scores as high, for each document."""
        return np.asarray((self.made_up >= self.scores[:, None]).sum(axis=1), np.int64)

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        """Whether a document scores higher than terms that occur nowhere get it, as a rule.

        Of a term that occurs nowhere the best document stands out 5 times in 100, over keys.
        """
        return np.asarray(self.made_up_as_good <= MOST_AS_GOOD)


def query_terms(words: Sequence[str]) -> list[str]:
    """Cut words into terms as texts were.

    Raises
    ------
    SettingsError
        If nothing is left of them.

    Examples
    --------
    >>> query_terms(["Chest pain", "the"])
    ['chest', 'pain']
    """
    terms = TextAnalysis().terms(" ".join(words))
    if not terms:
        raise SettingsError(
            "no term is left: stop words and single characters are not counted",
            where=" ".join(words)[:80] or "terms",
            remedy="name other words",
        )
    return terms


def answer_query(source: ReverseSource, terms: Sequence[str], k: int, score: Score) -> Answer:
    """Find the k best documents for one term or several, and what made-up ones would find.

    One term: a reverse top-k query. Several: each puts `POOL` documents or more forward, and all
    terms are estimated in all of these. Documents with a score of 0 or less are left out. For BM25
    made-up terms count as frequent as those asked for.
    """
    statistics = None if score == "counts" else _Statistics.of(source, terms)
    documents, scores, counts = _best(source, terms, k, statistics)
    made_up = [
        _best(source, [f"\0{number} {i}" for i in range(len(terms))], 1, statistics).scores
        for number in range(N_MADE_UP)
    ]
    best = np.array([float(found[0]) if len(found) else 0.0 for found in made_up])
    return Answer(documents, scores, counts, best)


class _Statistics(NamedTuple):
    """Statistics of the terms asked for, whatever terms stand in their places."""

    n_documents: int
    n_tokens: float
    with_term: Floats
    occurrences: Floats

    @classmethod
    def of(cls, source: ReverseSource, terms: Sequence[str]) -> _Statistics:
        if not hasattr(source, "document_frequencies"):
            raise DataError(
                "this sketch has no lengths and frequencies, which BM25 needs",
                where="--score bm25",
                remedy="use --score counts, or a noisy release, which has them",
            )
        known = cast("TermSource", source)
        return cls(
            known.n_documents,
            known.n_tokens,
            known.document_frequencies(terms),
            known.collection_frequencies(terms),
        )

    def document_frequencies(self, terms: Sequence[str]) -> Floats:
        return self.with_term

    def collection_frequencies(self, terms: Sequence[str]) -> Floats:
        return self.occurrences


class _Found(NamedTuple):
    documents: NDArray[np.int64]
    scores: Floats
    counts: Floats


def _best(
    source: ReverseSource, terms: Sequence[str], k: int, statistics: _Statistics | None
) -> _Found:
    """Find the best by BM25 with these statistics, or by counts where there are none."""
    if len(terms) == 1 and statistics is None:
        top = source.top(terms[0], k)
        there = (top.documents[0] >= 0) & (top.counts[0] > 0)
        counts = top.counts[0][there]
        return _Found(top.documents[0][there].astype(np.int64), counts, counts[None])
    put_forward = [source.top(term, max(k, POOL)).documents[0] for term in dict.fromkeys(terms)]
    pool = np.unique(np.concatenate(put_forward))
    pool = pool[pool >= 0].astype(np.int64)
    counts = source.term_counts(terms, pool)
    scores = counts.sum(axis=0)
    if statistics is not None:
        settings = TermWeightSettings()
        found = match_terms(terms, pool, cast("TermSource", source), statistics, settings)
        scores = bm25(found, settings)
    best = np.lexsort((pool, -scores))[:k]
    best = best[scores[best] > 0]
    return _Found(pool[best], scores[best], counts[:, best])
