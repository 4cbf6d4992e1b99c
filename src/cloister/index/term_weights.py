"""Weights of a query's terms in documents: TF, IDF, TF-IDF, BM25 and three language models.

Each formula takes `TermMatches` and gives one number a document: the sum over the query's terms,
a term that stands twice in the query counted twice. Counts may be exact or estimated. They are
made sound first, so that no weight is ever NaN or infinite:

- negative counts and lengths, as noise makes them, become 0;
- a document is at least as long as the highest count of a query term in it;
- a term occurs in 0 to N documents, and 0 to ``n_tokens`` times in the collection.

A term that occurs nowhere adds nothing to TF, IDF, TF-IDF and BM25. For the language models it
counts as half an occurrence in the collection: its logarithm is finite, and lower than that of any
term that occurs. Below, c is the count of a term in a document, L the document's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts
from cloister.index.term_source import TermSource, TermStatistics

__all__ = [
    "TermMatches",
    "TermWeightSettings",
    "absolute_discounting",
    "bm25",
    "dirichlet",
    "inverse_document_frequencies",
    "jelinek_mercer",
    "match_terms",
    "matched_idf",
    "term_frequency",
    "tf_idf",
]

Floats = NDArray[np.float64]

_HALF: Final = 0.5  # what a term that was never seen counts as, where a logarithm needs more than 0


class TermWeightSettings(Settings):
    """Which form of each weight, and its parameters.

    Parameters
    ----------
    tf
        ``relative``: c / L, as CS-F-LTR defines it; ``raw``: c, as LETOR's TF.
    idf
        ``non_negative``: ln(1 + (N - df + 0.5) / (df + 0.5)); ``printed``: ln(N / df), the form of
        CS-F-LTR, df taken as at least one half.
    bm25
        ``robertson``: the usual form, with the length of the document; ``printed``: the form of
        CS-F-LTR, on the relative TF and without it.
    k1, b
        Of BM25: how soon repeated occurrences count less, and how much the length matters.
    discount
        Of absolute discounting: what each distinct term of a document gives away.
    prior
        Of Dirichlet smoothing (mu): how many tokens the collection weighs.
    mixing
        Of Jelinek-Mercer smoothing (lambda): the share of the collection's model.
    distinct
        How many distinct terms a document has, which absolute discounting asks for: ``estimated``
        from its length L as L ^ ``distinct_exponent``, which a sketch can do too, or ``exact``,
        from exact counts only.
    distinct_exponent
        Heaps' exponent for single documents.

    Examples
    --------
    >>> TermWeightSettings.printed().bm25
    'printed'
    """

    tf: Literal["relative", "raw"] = "relative"
    idf: Literal["non_negative", "printed"] = "non_negative"
    bm25: Literal["robertson", "printed"] = "robertson"
    k1: float = Field(default=1.2, gt=0)
    b: float = Field(default=0.75, ge=0, le=1)
    # Zhai and Lafferty (2004): the best values for short queries.
    discount: float = Field(default=0.7, gt=0, le=1)
    prior: float = Field(default=2000.0, gt=0)
    mixing: float = Field(default=0.1, gt=0, le=1)
    distinct: Literal["estimated", "exact"] = "estimated"
    distinct_exponent: float = Field(default=0.9, gt=0, le=1)

    @classmethod
    def printed(cls) -> TermWeightSettings:
        """Return the forms printed in CS-F-LTR."""
        return cls(tf="relative", idf="printed", bm25="printed")


class TermMatches(NamedTuple):
    """What is known of a query's terms in some documents of one field; made by `match_terms`."""

    counts: Floats  # [n_terms, n_documents]
    lengths: Floats  # [n_documents]
    distinct_shares: Floats  # [n_documents]: distinct terms / length, 1 for an empty document
    n_documents: float  # of the collection
    mean_length: float  # of the collection
    document_frequencies: Floats  # [n_terms]
    likelihoods: Floats  # [n_terms]: share of the collection's tokens, above 0

    @property
    def relative(self) -> Floats:
        """Counts by length: c / L, 0 in an empty document."""
        return self.counts / np.where(self.lengths > 0, self.lengths, 1.0)


def match_terms(
    terms: Sequence[str],
    documents: NDArray[np.integer[Any]],
    source: TermSource,
    statistics: TermStatistics | None = None,
    settings: TermWeightSettings | None = None,
) -> TermMatches:
    """Look up a query's terms in some documents, and make what was found sound.

    Parameters
    ----------
    terms
        The query's terms.
    documents
        Numbers of documents of ``source``.
    source
        Exact or estimated counts of one field.
    statistics
        Of the collection that N, df, collection frequencies and the mean length are of; the
        source's own where not given.
    settings
        Only how to know the number of distinct terms.

    Raises
    ------
    DataError
        If a count is not a finite number, or exact distinct counts are asked of estimates.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> exact = count_terms(["cough cough fever", "fever", ""])
    >>> found = match_terms(["cough", "fever"], np.array([0, 2]), exact)
    >>> found.relative.round(2).tolist(), found.document_frequencies.tolist()
    ([[0.67, 0.0], [0.33, 0.0]], [1.0, 2.0])
    """
    settings = settings or TermWeightSettings()
    numbers = np.asarray(documents, np.int64)
    known: TermStatistics = source if statistics is None else statistics
    counts = np.maximum(_finite(source.term_counts(terms, numbers), "term_counts"), 0.0)
    own_lengths = _finite(source.lengths[numbers], "lengths")
    lengths = np.maximum(own_lengths, counts.max(axis=0, initial=0.0))
    n_documents = max(float(known.n_documents), 0.0)
    n_tokens = max(float(_finite(np.float64(known.n_tokens), "n_tokens")), _HALF)
    with_term = _finite(known.document_frequencies(terms), "document_frequencies")
    occurrences = _finite(known.collection_frequencies(terms), "collection_frequencies")
    return TermMatches(
        counts,
        lengths,
        _distinct_shares(counts, lengths, numbers, source, settings),
        n_documents,
        n_tokens / max(n_documents, 1.0),
        np.clip(with_term, 0.0, n_documents),
        np.clip(occurrences, _HALF, n_tokens) / n_tokens,
    )


def term_frequency(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """TF: the sum of c (LETOR) or of c / L (CS-F-LTR, definition 2)."""
    return _sum(found.counts if settings.tf == "raw" else found.relative)


def inverse_document_frequencies(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """IDF of each term, never below 0.

    The printed form gives infinity where df is 0, so df is at least one half there.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> exact = count_terms(["cough", "fever", "fever", "fever"])
    >>> found = match_terms(["cough", "fever"], np.array([0]), exact)
    >>> inverse_document_frequencies(found, TermWeightSettings.printed()).round(3).tolist()
    [1.386, 0.288]
    """
    n, df = found.n_documents, found.document_frequencies
    if settings.idf == "printed":  # CS-F-LTR, section III-B
        return np.log(max(n, _HALF) / np.maximum(df, _HALF))
    return np.log1p((n - df + 0.5) / (df + 0.5))


def matched_idf(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """IDF of the query's terms that occur in the document, summed, as LETOR has it.

    Summed over the whole query it would be the same for each document. A count estimated below
    one counts as that part of an occurrence.
    """
    present = np.minimum(found.counts, 1.0)
    return _weighted(inverse_document_frequencies(found, settings), present)


def tf_idf(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """TF-IDF: the sum of TF times IDF."""
    tf = found.counts if settings.tf == "raw" else found.relative
    return _weighted(inverse_document_frequencies(found, settings), tf)


def bm25(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """BM25: the sum of IDF * x (k1 + 1) / (x + k1 B).

    Robertson's form (Robertson and Zaragoza, 2009) has x = c and B = 1 - b + b L / mean length;
    the printed one (CS-F-LTR, section III-B) has x = c / L and B = 1.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> exact = count_terms(["cough cough fever", "fever", "rash"])
    >>> bm25(match_terms(["cough"], np.arange(3), exact), TermWeightSettings()).round(3).tolist()
    [1.101, 0.0, 0.0]
    """
    if settings.bm25 == "printed":
        x, scale = found.relative, np.ones_like(found.lengths)
    else:
        x = found.counts
        scale = 1 - settings.b + settings.b * found.lengths / found.mean_length
    below = x + settings.k1 * scale
    saturated = x * (settings.k1 + 1) / np.where(below > 0, below, 1.0)
    return _weighted(inverse_document_frequencies(found, settings), saturated)


def absolute_discounting(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """LMIR.ABS: the sum of ln(max(c - discount, 0) / L + discount * u / L * p(t | collection)).

    u is the number of distinct terms of the document (Zhai and Lafferty, 2004). An empty
    document has the collection's model.
    """
    kept = np.maximum(found.counts - settings.discount, 0.0)
    kept /= np.where(found.lengths > 0, found.lengths, 1.0)
    given = np.where(found.lengths > 0, settings.discount * found.distinct_shares, 1.0)
    return _sum(np.log(kept + np.outer(found.likelihoods, given)))


def dirichlet(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """LMIR.DIR: the sum of ln((c + prior * p(t | collection)) / (L + prior)); same table."""
    likely = found.counts + settings.prior * found.likelihoods[:, np.newaxis]
    return _sum(np.log(likely / (found.lengths + settings.prior)))


def jelinek_mercer(found: TermMatches, settings: TermWeightSettings) -> Floats:
    """LMIR.JM: the sum of ln((1 - mixing) c / L + mixing * p(t | collection)); same table."""
    mixed = settings.mixing * found.likelihoods[:, np.newaxis]
    return _sum(np.log((1 - settings.mixing) * found.relative + mixed))


def _sum(weights: Floats) -> Floats:
    return np.asarray(weights.sum(axis=0))


def _weighted(weights: Floats, values: Floats) -> Floats:
    """Sum over terms in their order: a product of matrices may add up in another one."""
    return _sum(weights[:, np.newaxis] * values)


def _distinct_shares(
    counts: Floats,
    lengths: Floats,
    documents: NDArray[np.int64],
    source: TermSource,
    settings: TermWeightSettings,
) -> Floats:
    if settings.distinct == "estimated":
        # A term that occurs c times leaves room for L - (c - 1) distinct ones at most.
        n_tokens = np.maximum(lengths, 1.0)
        most = 1 - np.maximum(counts.max(axis=0, initial=0.0) - 1, 0.0) / n_tokens
        return np.asarray(np.minimum(n_tokens ** (settings.distinct_exponent - 1), most))
    if not isinstance(source, TermCounts):
        raise DataError(
            "estimated counts do not tell how many distinct terms a document has",
            where="distinct",
            remedy='set distinct="estimated"',
        )
    n_distinct = source.starts[documents + 1] - source.starts[documents]
    return np.where(lengths > 0, n_distinct / np.where(lengths > 0, lengths, 1.0), 1.0)


def _finite(values: Any, where: str) -> Floats:
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise DataError("a number is not finite", where=where)
    return array
