"""The parts of an entity's score, at any level: what each term adds, and what else makes it.

`cloister.search.explanation.added_up` puts them together again.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloister.index.entity_scoring import term_weight
from cloister.index.entity_weights import EntityStatistics, ModelSettings, QueryWeights
from cloister.search.node import ScoreRest, TermPart

__all__ = ["score_rest", "term_parts"]


def term_parts(
    weights: QueryWeights, statistics: EntityStatistics, counts: Sequence[int], length: float
) -> tuple[TermPart, ...]:
    """Return what each different term of a query adds to the score of one entity.

    Parameters
    ----------
    weights, statistics
        Of the query, and what they were made of.
    counts
        How often the entity holds each of ``weights.terms``.
    length
        Its number of tokens.

    Examples
    --------
    >>> from cloister.index.entity_statistics import StatisticsTable
    >>> from cloister.index.entity_weights import query_weights
    >>> table = StatisticsTable(3, 2.0, 3, {"cough": 2, "rash": 1})
    >>> weights = query_weights(["cough", "rash"], table, ModelSettings())
    >>> [round(one.weight, 4) for one in term_parts(weights, table, [1, 0], 1)]
    [0.5909, 0.0]
    """
    frequencies = statistics.frequencies(weights.terms).tolist()
    n_entities = float(statistics.n_entities)
    return tuple(
        TermPart(
            term,
            term_weight(weights.model, parameters, count, length) if count else 0.0,
            count,
            df,
            n_entities,
        )
        for term, parameters, count, df in zip(
            weights.terms, weights.parameters, counts, frequencies, strict=True
        )
    )


def score_rest(
    weights: QueryWeights,
    statistics: EntityStatistics,
    settings: ModelSettings,
    length: float,
    norm: float = 0.0,
) -> ScoreRest:
    """Return what makes an entity's score besides its terms; ``norm`` is of its TF-IDF vector."""
    mean = float(statistics.mean_length)
    factor = 1.0
    if settings.model == "bm25":
        factor = 1 - settings.b + settings.b * length / (mean if mean > 0 else 1.0)
    return ScoreRest(settings.model, weights.constant, weights.norm, norm, mean, factor)
