"""Documents to search by sketches, and the terms that they are searched for."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.data.beir import open_beir
from cloister.data.worlds.address import is_world
from cloister.index.term_counts import TermCounts, count_terms
from cloister.lab.silos.zipf_corpus import ZipfCorpusSettings, make_corpus
from cloister.measure.cover_rate import cover_rate
from cloister.measure.ranking import RankedRows
from cloister.sketch.rtk_query import ReverseTop

__all__ = ["ZIPF", "SearchedCorpus", "cover_figures", "open_corpus"]

ZIPF: Final = "world:zipf"
BLOCK: Final = 100  # terms whose true counts are ranked together


class SearchedCorpus(NamedTuple):
    """Documents, distinct terms, how often each was drawn, and their true counts."""

    counts: TermCounts
    terms: tuple[str, ...]
    n_drawn: NDArray[np.int64]
    truth: NDArray[np.int32]  # [n_terms, n_documents]


def open_corpus(
    address: str, *, seed: int, n_terms: int, n_documents: int | None = None
) -> SearchedCorpus:
    """Make or read a corpus, and draw terms by how often they occur in it.

    Parameters
    ----------
    address
        ``world:zipf?documents=5000``, or a collection's folder, of which bodies are taken.
    seed
        Of the corpus where it is made, of the documents where some are drawn, and of the terms.
    n_terms
        How many are drawn; frequent ones come up more than once.
    n_documents
        How many documents of a collection are drawn; all where None.

    Examples
    --------
    >>> address = "world:zipf?documents=40&mean_length=50&vocabulary=300"
    >>> corpus = open_corpus(address, seed=1, n_terms=20)
    >>> int(corpus.n_drawn.sum()), corpus.truth.shape == (len(corpus.terms), 40)
    (20, True)
    """
    if is_world(address):
        fields = address.partition("?")[2]
        settings = ZipfCorpusSettings.from_text(fields).model_copy(update={"seed": seed})
        counts = make_corpus(settings).counts
    else:
        counts = _collection(address, seed, n_documents)
    frequencies = np.bincount(counts.terms, counts.counts, counts.n_terms)
    rng = stream(seed, "cs-f-ltr", "query terms")
    drawn = rng.choice(counts.n_terms, n_terms, p=frequencies / frequencies.sum())
    chosen, n_drawn = np.unique(drawn, return_counts=True)
    terms = tuple(counts.vocabulary[term] for term in chosen.tolist())
    return SearchedCorpus(counts, terms, n_drawn, _true_counts(counts, chosen))


def _collection(folder: str, seed: int, n_documents: int | None) -> TermCounts:
    bodies = [document.text for document in open_beir(folder).documents]
    if n_documents is not None and n_documents < len(bodies):
        rng = stream(seed, "cs-f-ltr", "documents")
        kept = np.sort(rng.choice(len(bodies), n_documents, replace=False))
        bodies = [bodies[number] for number in kept.tolist()]
    return count_terms(bodies)


def _true_counts(counts: TermCounts, chosen: NDArray[np.int64]) -> NDArray[np.int32]:
    line = np.full(counts.n_terms, -1, np.int64)
    line[chosen] = np.arange(len(chosen))
    lines = line[counts.terms]
    entries = np.flatnonzero(lines >= 0)
    documents = np.searchsorted(counts.starts, entries, side="right") - 1
    truth = np.zeros((len(chosen), counts.n_documents), np.int32)
    truth[lines[entries], documents] = counts.counts[entries]
    return truth


def cover_figures(corpus: SearchedCorpus, found: ReverseTop) -> dict[str, float]:
    """Return mean cover rates over the terms as drawn; of equal counts any document is right.

    ``cover_rate`` is of the K documents with the highest counts, however low: a term that fewer
    hold has zeros among them, which any document fills. ``holders_covered`` is of those that hold
    the term at all.
    """
    return {
        "cover_rate": _mean_cover(corpus, found, -np.inf),
        "holders_covered": _mean_cover(corpus, found, 0.0),
    }


def _mean_cover(corpus: SearchedCorpus, found: ReverseTop, above: float) -> float:
    n_terms, k = found.documents.shape
    rates = []
    for first in range(0, n_terms, BLOCK):
        part = slice(first, first + BLOCK)
        rates.append(_cover(found.documents[part], corpus.truth[part], k, above))
    return float(np.average(np.concatenate(rates), weights=corpus.n_drawn))


def _cover(
    documents: NDArray[np.int32], truth: NDArray[np.int32], k: int, above: float
) -> NDArray[np.float64]:
    n_terms, n_documents = truth.shape
    offsets = np.arange(n_terms + 1, dtype=np.int64) * n_documents
    rows = np.where(documents >= 0, documents + offsets[:-1, None], -1).ravel()
    found = RankedRows(rows.astype(np.int64), np.arange(n_terms + 1, dtype=np.int64) * k)
    return cover_rate(found, truth.ravel(), offsets, k=k, above=above)
