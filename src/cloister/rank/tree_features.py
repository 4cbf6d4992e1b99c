"""Features of a query and a document for tree ensembles: T1 and T2.

Private neural ranking replaces the exact-match kernel by a tree ensemble on these features. T2 has
term frequencies only. T1 adds how near the terms stand (`cloister.rank.proximity_features`) and
what the document is like (`cloister.rank.document_priors`): collections of plain texts have no page
quality, and priors of the text stand in.

Each feature has a key: what must be known to compute it before a query comes.

- ``term``: values of one query term in the document, one column for each place in the query;
- ``pair``: values of two query terms in the document, one column for each pair of places;
- ``document``: priors, the same for every query;
- ``query``: sums, means, smallest and largest over all terms or pairs of a query. They need
  arithmetic on plain values. A server that holds coded values can look up the other three by key,
  but cannot compute these; ``combined=False`` leaves them out.

Terms are different ones, in the query's order. Places that a short query does not have are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.index.term_weights import (
    TermMatches,
    TermWeightSettings,
    bm25,
    dirichlet,
    match_terms,
    tf_idf,
)
from cloister.rank.document_priors import PRIOR_NAMES, SourcePriors
from cloister.rank.proximity_features import PAIR_NAMES, TermSequences, proximity

__all__ = [
    "FeatureKey",
    "TERM_NAMES",
    "TreeFeature",
    "TreeFeatureSettings",
    "TreeFeatures",
    "distinct_terms",
    "feature_places",
]

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]
FeatureKey = Literal["term", "pair", "document", "query"]

TERM_NAMES: Final = ("tf", "relative_tf", "bm25", "lm", "tf_idf")
_WAYS: Final = ("sum", "min", "max", "mean")


class TreeFeatureSettings(Settings):
    """Which features.

    Parameters
    ----------
    kind
        ``T1``: term frequencies, proximity and priors; ``T2``: term frequencies only.
    n_positions
        Places of a query that have columns of their own. Of a longer query the rarest terms that
        occur in the collection have them.
    order
        Which term has the first place: the ``rarest``, or the first of the ``query``.
    combined
        Whether sums, means, smallest and largest over the query are among the features.
    source_prior
        Whether T1 has the prior of a document's source, learnt in training.
    weights
        Forms and parameters of BM25, language model (Dirichlet) and TF-IDF (of the relative TF).

    Examples
    --------
    >>> TreeFeatureSettings(kind="T2", n_positions=2, combined=False).features[-1]
    TreeFeature(name='tf_idf[2]', key='term')
    """

    kind: Literal["T1", "T2"] = "T1"
    n_positions: int = Field(default=5, ge=1, le=32)
    order: Literal["rarest", "query"] = "rarest"
    combined: bool = True
    source_prior: bool = False
    weights: TermWeightSettings = TermWeightSettings()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of places, from 0, that have columns of their own."""
        return tuple(combinations(range(self.n_positions), 2)) if self.kind == "T1" else ()

    @property
    def features(self) -> tuple[TreeFeature, ...]:
        """The features in the order of their columns; places are named from 1."""
        places = range(1, self.n_positions + 1)
        columns = [TreeFeature(f"{n}[{i}]", "term") for i in places for n in TERM_NAMES]
        if self.combined:
            columns += [TreeFeature(f"{way}.{n}", "query") for way in _WAYS for n in TERM_NAMES]
            columns += [TreeFeature(name, "query") for name in ("n_terms", "matched_share")]
        if self.kind == "T2":
            return tuple(columns)
        columns += [TreeFeature(f"earliness[{i}]", "term") for i in places]
        columns += [
            TreeFeature(f"{n}[{a + 1},{b + 1}]", "pair") for a, b in self.pairs for n in PAIR_NAMES
        ]
        if self.combined:
            columns += [TreeFeature(f"mean.{n}", "query") for n in PAIR_NAMES]
            names = ("max.closeness", "max.earliness", "mean.earliness")
            columns += [TreeFeature(name, "query") for name in names]
        priors = (*PRIOR_NAMES, "source") if self.source_prior else PRIOR_NAMES
        return (*columns, *(TreeFeature(f"prior.{n}", "document") for n in priors))


class TreeFeature(NamedTuple):
    """A column: its name, and what must be known to compute it."""

    name: str
    key: FeatureKey


def distinct_terms(terms: Sequence[str]) -> tuple[str, ...]:
    """Return the different terms of a query, in its order; their number is the query's length.

    Examples
    --------
    >>> distinct_terms(["dry", "cough", "dry"])
    ('dry', 'cough')
    """
    return tuple(dict.fromkeys(terms))


def feature_places(document_frequencies: NDArray[Any], settings: TreeFeatureSettings) -> list[int]:
    """Return which of a query's different terms have feature places of their own, in their order.

    Parameters
    ----------
    document_frequencies
        Of each term.
    settings
        How many places there are, and who comes first.

    Examples
    --------
    >>> feature_places(np.array([9, 0, 4]), TreeFeatureSettings(n_positions=2))
    [2, 0]
    """
    df = np.asarray(document_frequencies, np.float64)
    nowhere = np.where(df > 0, df, np.inf)
    rarest = np.argsort(nowhere, kind="stable")[: settings.n_positions].tolist()
    return sorted(rarest) if settings.order == "query" else list(rarest)


class TreeFeatures:
    """Features of queries and the documents of one collection.

    Parameters
    ----------
    texts
        The documents, analysed as queries are.
    priors
        Of `cloister.rank.document_priors.document_priors`, one row a document; T1 needs them.
    settings
        Which features.
    sources
        Priors of the documents' sources; ``source_prior`` needs them.

    Examples
    --------
    >>> texts = TermSequences.of([["cough", "dry", "cough"], ["fever"]])
    >>> made = TreeFeatures(texts, settings=TreeFeatureSettings(kind="T2", n_positions=1))
    >>> made.names[:3], made.of(["cough"], np.array([0, 1]))[:, 0].tolist()
    (('tf[1]', 'relative_tf[1]', 'bm25[1]'), [2.0, 0.0])
    """

    def __init__(
        self,
        texts: TermSequences,
        priors: NDArray[np.float32] | None = None,
        settings: TreeFeatureSettings | None = None,
        *,
        sources: SourcePriors | None = None,
    ) -> None:
        self.texts = texts
        self.settings = settings or TreeFeatureSettings()
        self.features = self.settings.features
        self._priors = priors
        self._sources = sources
        self._check()

    def _check(self) -> None:
        if self.settings.kind == "T2":
            return
        n_documents = self.texts.n_documents
        if self._priors is None:
            raise DataError(
                "T1 needs priors of the documents",
                where="priors",
                remedy="give document_priors(documents), or ask for T2",
            )
        if self._priors.shape != (n_documents, len(PRIOR_NAMES)):
            raise DataError("one row of priors a document is needed", where="priors")
        if self.settings.source_prior and (
            self._sources is None or len(self._sources.source_of) != n_documents
        ):
            raise DataError("the source of each document is needed", where="sources")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(feature.name for feature in self.features)

    def of(
        self, terms: Sequence[str], documents: Numbers, *, without: int | None = None
    ) -> NDArray[np.float32]:
        """Return the features of one query and some documents: documents x features.

        Parameters
        ----------
        terms
            The query's terms.
        documents
            Numbers of documents.
        without
            The query's number, if its rows are for training: the priors of sources leave out its
            grades.
        """
        distinct = distinct_terms(terms)
        numbers = self.texts.numbers(documents)
        found = match_terms(distinct, numbers, self.texts.counts)
        places = feature_places(found.document_frequencies, self.settings)
        by_term = _term_weights(found, self.settings.weights)
        blocks: list[NDArray[Any]] = [_padded(by_term[:, places], self.settings.n_positions)]
        if self.settings.combined:
            blocks.append(_combined(by_term))
        if self.settings.kind == "T1":
            blocks += self._nearness(distinct, numbers, places)
            blocks += self._priors_of(numbers, without)
        return np.concatenate(blocks, axis=1, dtype=np.float32)

    def _priors_of(self, documents: NDArray[np.int64], without: int | None) -> list[NDArray[Any]]:
        blocks: list[NDArray[Any]] = []
        if self._priors is not None:
            blocks.append(self._priors[documents])
        if self.settings.source_prior and self._sources is not None:
            blocks.append(self._sources.of(documents, without=without)[:, np.newaxis])
        return blocks

    def _nearness(
        self, terms: Sequence[str], documents: NDArray[np.int64], places: list[int]
    ) -> list[Floats]:
        n_positions = self.settings.n_positions
        wanted = [pair for pair in self.settings.pairs if pair[1] < len(places)]
        asked = [(places[a], places[b]) for a, b in wanted]
        near = proximity(terms, documents, self.texts, [(min(p), max(p)) for p in asked])
        columns = [self.settings.pairs.index(pair) for pair in wanted]
        pairs = np.zeros((len(documents), len(self.settings.pairs), len(PAIR_NAMES)))
        pairs[:, columns] = near.pairs
        blocks = [
            _padded(near.earliness[:, places, np.newaxis], n_positions),
            pairs.reshape(len(documents), len(self.settings.pairs) * len(PAIR_NAMES)),
        ]
        return [*blocks, near.combined] if self.settings.combined else blocks


def _term_weights(found: TermMatches, weights: TermWeightSettings) -> Floats:
    """Return documents x terms x `TERM_NAMES`: the weights of each term by itself."""
    n_terms, n_documents = found.counts.shape
    values = np.empty((n_documents, n_terms, len(TERM_NAMES)))
    values[:, :, 0] = found.counts.T
    values[:, :, 1] = found.relative.T
    for term in range(n_terms):
        one = slice(term, term + 1)
        alone = found._replace(
            counts=found.counts[one],
            document_frequencies=found.document_frequencies[one],
            likelihoods=found.likelihoods[one],
        )
        for column, weight in enumerate((bm25, dirichlet, tf_idf), 2):
            values[:, term, column] = weight(alone, weights)
    return values


def _padded(values: Floats, n_positions: int) -> Floats:
    """Flatten documents x places x values, with 0 for places that are not there."""
    n_documents, n_places, n_values = values.shape
    padded = np.zeros((n_documents, n_positions, n_values))
    padded[:, :n_places] = values
    return padded.reshape(n_documents, n_positions * n_values)


def _combined(by_term: Floats) -> Floats:
    n_documents, n_terms, n_values = by_term.shape
    if not n_terms:
        return np.zeros((n_documents, len(_WAYS) * n_values + 2))
    total = by_term.sum(axis=1)
    matched = (by_term[:, :, :1] > 0).mean(axis=1)
    length = np.full((n_documents, 1), float(n_terms))
    lowest, highest = by_term.min(axis=1), by_term.max(axis=1)
    return np.concatenate([total, lowest, highest, total / n_terms, length, matched], axis=1)
