"""How well entities match a query: BM25, a language model, TF-IDF by cosine or distance.

An entity is a document, a pod or a server: the union of the documents in it (ESPRESSO, equations 1
to 4). The formulas are the same at each level, and take two things: *matches*, which are counts of
the query's terms in entities and the entities' lengths, and *statistics* of all entities of the
level. Both may be those of what one user may read; the statistics may also be published ones.

With c the count of a term in an entity, L the entity's length, q the count in the query:

- ``bm25`` (equations 5 to 9): sum of idf * c (k1 + 1) / (c + k1 (1 - b + b L / mean length)).
- ``lm`` (10 to 12): sum of q * ln((1 - mixing) + mixing * (c / L) / (df / sum of all df)).
- ``tfidf-cosine``, ``tfidf-euclidean`` (13 to 16): cosine of the vectors of c * idf and q * idf, or
  minus their distance.

Only entities that hold a term of the query are ranked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.settings import Settings

__all__ = [
    "COSINE",
    "DISTANCE",
    "SPARSE_MODELS",
    "SUM",
    "EntityStatistics",
    "ModelSettings",
    "QueryWeights",
    "SparseModel",
    "TermParameters",
    "query_weights",
]

Floats = NDArray[np.float64]
SparseModel = Literal["bm25", "lm", "tfidf-cosine", "tfidf-euclidean"]
SPARSE_MODELS: Final[tuple[SparseModel, ...]] = get_args(SparseModel)

SUM: Final = 0  # what becomes of the sum over terms: nothing,
COSINE: Final = 1  # the cosine,
DISTANCE: Final = 2  # or minus the distance
_HALF: Final = 0.5  # what a term that was never seen counts as, where one must divide by it


class ModelSettings(Settings):
    """Which model, and its parameters; the paper gives none of them.

    Parameters
    ----------
    model
        Which one.
    k1, b
        Of BM25: how soon repeated occurrences count less, and how much the length matters.
    idf
        ``non_negative``: ln(1 + (N - df + 0.5) / (df + 0.5)); ``printed``: equation 7, ln((N - df +
        0.5) / (df + 0.5)) + 1. Of a term that is in all of 50 servers the printed one is -3.6, and
        turns the ranking round.
    mixing
        Of the language model: how much the entity counts beside the background (lambda).
    """

    model: SparseModel = "bm25"
    k1: float = Field(default=1.2, gt=0)
    b: float = Field(default=0.75, ge=0, le=1)
    idf: Literal["non_negative", "printed"] = "non_negative"
    mixing: float = Field(default=0.5, gt=0, lt=1)


class EntityStatistics(Protocol):
    """What is known of all entities of a level: of one user's, or published."""

    @property
    def n_entities(self) -> float:
        """Number of entities that hold anything."""

    @property
    def mean_length(self) -> float:
        """Mean number of tokens of an entity."""

    @property
    def n_pairs(self) -> float:
        """Sum over all terms of the number of entities that hold it; the language model's."""

    def frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many entities each term is."""


class TermParameters(NamedTuple):
    """The weight of one term that occurs c times in an entity of length L.

    BM25: ``scale * c / (c + at_zero + by_length * L)``; the language model: ``scale * ln(1 +
    by_length * c / L)``; TF-IDF: ``scale * c``.
    """

    scale: float
    at_zero: float = 0.0
    by_length: float = 0.0


class QueryWeights(NamedTuple):
    """A query made ready for scoring with some statistics."""

    model: SparseModel
    terms: tuple[str, ...]  # different ones, in the order of the query
    parameters: tuple[TermParameters, ...]
    constant: float  # what each entity gets besides
    norm: float  # length of the query's vector
    finish: int


def query_weights(
    terms: Sequence[str], statistics: EntityStatistics, settings: ModelSettings
) -> QueryWeights:
    """Put statistics and settings into the weights of a query's terms.

    Examples
    --------
    >>> from cloister.index.entity_statistics import StatisticsTable
    >>> table = StatisticsTable(4, 2.0, 8, {"cough": 1, "fever": 4})
    >>> found = query_weights(["cough", "fever", "cough"], table, ModelSettings())
    >>> found.terms, [round(one.scale, 2) for one in found.parameters]
    (('cough', 'fever'), [5.3, 0.23])
    """
    counted = Counter(terms)
    different = tuple(counted)
    df = np.maximum(np.asarray(statistics.frequencies(different), np.float64), 0.0)
    within = np.array([counted[term] for term in different], np.float64)
    if settings.model == "lm":
        return _language_model(different, within, df, statistics, settings)
    idf = inverse_frequencies(df, statistics.n_entities, settings.idf)
    if settings.model == "bm25":
        at_zero, by_length = bm25_length(statistics.mean_length, settings)
        parameters = tuple(
            TermParameters(float(q * weight * (settings.k1 + 1)), at_zero, by_length)
            for q, weight in zip(within, idf, strict=True)
        )
        return QueryWeights("bm25", different, parameters, 0.0, 0.0, SUM)
    parameters = tuple(TermParameters(float(q * w * w)) for q, w in zip(within, idf, strict=True))
    norm = float(np.sqrt(np.sum((within * idf) ** 2)))
    finish = COSINE if settings.model == "tfidf-cosine" else DISTANCE
    return QueryWeights(settings.model, different, parameters, 0.0, norm, finish)


def inverse_frequencies(
    df: Floats, n_entities: float, form: Literal["non_negative", "printed"]
) -> Floats:
    """IDF of terms in so many of N entities; published figures may have df above N.

    Examples
    --------
    >>> inverse_frequencies(np.array([50.0]), 50, "printed").round(1).tolist()
    [-3.6]
    """
    n = max(float(n_entities), 0.0)
    df = np.minimum(df, n)
    ratio = (n - df + 0.5) / (df + 0.5)
    return np.log1p(ratio) if form == "non_negative" else np.log(ratio) + 1


def bm25_length(mean_length: float, settings: ModelSettings) -> tuple[float, float]:
    """Return k1 (1 - b) and k1 b / mean length: what stands below beside the count."""
    mean = mean_length if mean_length > 0 and math.isfinite(mean_length) else 1.0
    return settings.k1 * (1 - settings.b), settings.k1 * settings.b / mean


def _language_model(
    terms: tuple[str, ...],
    within: Floats,
    df: Floats,
    statistics: EntityStatistics,
    settings: ModelSettings,
) -> QueryWeights:
    """Split off ln(1 - mixing), which entities without a term get too."""
    background = np.maximum(df, _HALF) / max(statistics.n_pairs, _HALF)
    odds = settings.mixing / (1 - settings.mixing)
    parameters = tuple(
        TermParameters(float(q), 0.0, float(odds / share))
        for q, share in zip(within, background, strict=True)
    )
    constant = float(within.sum()) * math.log(1 - settings.mixing)
    return QueryWeights("lm", terms, parameters, constant, 0.0, SUM)
