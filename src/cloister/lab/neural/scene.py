"""What a trial works on: a collection, its queries by what they are for, and word vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.lab.neural.candidates import CandidateSettings, QueryCandidates, find_candidates
from cloister.lab.neural.collection import (
    RankingCollection,
    RankingCollectionSettings,
    open_ranking_collection,
)
from cloister.lab.neural.folds import query_folds
from cloister.lab.neural.query_rows import QueryRows, query_rows
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.rank.embedding import Embedding, train_embedding
from cloister.rank.embedding_file import read_embedding

__all__ = ["NeuralScene", "open_scene"]


class NeuralScene(NamedTuple):
    """A collection with the queries of one fold.

    Parameters
    ----------
    collection
        Documents and judgements.
    documents
        The terms of each document.
    embedding
        Vectors of the words that documents and queries hold.
    training, validation, test
        Queries with candidates.
    """

    collection: RankingCollection
    documents: list[list[str]]
    embedding: Embedding
    training: QueryRows
    validation: QueryRows
    test: QueryRows

    @property
    def parts(self) -> tuple[QueryRows, QueryRows, QueryRows]:
        """Training, validation and test queries."""
        return self.training, self.validation, self.test


def open_scene(settings: NeuralTrialSettings) -> NeuralScene:
    """Read the collection, draw its queries, and read or train word vectors."""
    collection = open_ranking_collection(
        RankingCollectionSettings(name=settings.name, data=settings.data)
    )
    candidates = _candidates(collection, settings.candidates)
    folds = query_folds(collection)
    if not 1 <= settings.fold <= len(folds):
        raise SettingsError(
            f"{collection.name} has {len(folds)} folds (given: {settings.fold})", where="fold"
        )
    fold = folds[settings.fold - 1]
    rng = stream(settings.seed, "neural", "queries", settings.fold)
    tested = {collection.queries[query].terms for query in fold.test.tolist()}
    training, validation = (
        _trainable(part, collection, candidates, tested)
        for part in (fold.training, fold.validation)
    )
    drawn = (
        _drawn(training, settings.n_training, rng),
        _drawn(validation, settings.n_validation, rng),
        fold.test[: settings.n_test],
    )
    documents = [collection.texts.document(i) for i in range(collection.texts.n_documents)]
    return NeuralScene(
        collection,
        documents,
        _embedding(collection, documents, settings),
        *(query_rows(collection, candidates, part) for part in drawn),
    )


@lru_cache(maxsize=4)
def _candidates(
    collection: RankingCollection, settings: CandidateSettings
) -> tuple[QueryCandidates, ...]:
    return find_candidates(collection, settings)


def _trainable(
    queries: NDArray[np.int64],
    collection: RankingCollection,
    candidates: tuple[QueryCandidates, ...],
    tested: set[tuple[str, ...]],
) -> NDArray[np.int64]:
    """Leave out queries that test too, and those of one grade only, which teach nothing."""
    kept = [
        query
        for query in queries.tolist()
        if collection.queries[query].terms not in tested
        and len(np.unique(candidates[query].grades)) > 1
    ]
    return np.array(kept, np.int64)


def _drawn(queries: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if len(queries) <= n:
        return queries
    return np.sort(rng.choice(queries, n, replace=False))


def _embedding(
    collection: RankingCollection, documents: list[list[str]], settings: NeuralTrialSettings
) -> Embedding:
    if not settings.vectors:
        return train_embedding(documents, settings.own_vectors, seed=settings.seed)
    words = dict.fromkeys(collection.texts.vocabulary)
    words |= dict.fromkeys(term for query in collection.queries for term in query.terms)
    return read_embedding(settings.vectors, words=list(words))
