"""Everything that decides one trial of private neural ranking."""

from __future__ import annotations

from pydantic import Field

from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.lab.neural.candidates import CandidateSettings
from cloister.lab.neural.collection import RankingCollectionName
from cloister.lab.reproduce.study import StudySettings
from cloister.rank.embedding import EmbeddingSettings
from cloister.rank.forest import ForestSettings
from cloister.rank.layer_fitting import LayerSettings
from cloister.rank.neural_training import NeuralTraining
from cloister.rank.query_length_forests import QueryLengthForestSettings

__all__ = ["NeuralTrialSettings"]


class NeuralTrialSettings(StudySettings):
    """One trial: a collection, a fold and a seed.

    Parameters
    ----------
    data, fold, seed
        The collection's folder; which of its folds, 1 where it has a split of its own; and what is
        drawn at random: training queries, first weights, pairs, ties.
    name
        Which collection it is.
    candidates
        What is re-ranked.
    n_training, n_validation, n_test
        Queries of each kind, at most; drawn by the seed, test queries by no seed: they are the same
        in every repetition.
    vectors
        A file of word vectors; trained on the collection where empty.
    own_vectors
        How they are trained then.
    n_filters, longest
        Of the convolutions, and words of the longest n-grams of Conv-KNRM.
    train_vectors
        Whether K-NRM trains word vectors too.
    convolutions, drmm, knrm
        How Conv-KNRM and C-KNRM*, DRMM, and K-NRM with its vectors are trained.
    layer
        How the last layer of every kernel model is fitted.
    forests
        How trees grow.
    n_positions
        Terms of a query that have tree features of their own.
    n_parts
        Parts of the training queries whose tree signal comes from trees grown on the others.
    bases
        r of the obfuscations that are tried; the last one is that of the closed maps.
    thresholds
        Of the closures that are tried, fixed and adaptive.
    min_size
        p of the adaptive closures.
    min_phrase_documents, min_pair_documents
        Of the keys, see `cloister.cloud.private_ranker`.
    """

    name: RankingCollectionName
    candidates: CandidateSettings = CandidateSettings()
    n_training: int = Field(default=1000, ge=1)
    n_validation: int = Field(default=300, ge=1)
    n_test: int = Field(default=1000, ge=1)
    vectors: str = ""
    own_vectors: EmbeddingSettings = EmbeddingSettings()
    n_filters: int = Field(default=128, ge=1)
    longest: int = Field(default=3, ge=2, le=3)
    train_vectors: bool = False
    convolutions: NeuralTraining = NeuralTraining(
        learning_rate=1e-4,
        layer_rate=100,
        n_epochs=6,
        patience=2,
        batch_pairs=32,
        max_document_terms=200,
    )
    drmm: NeuralTraining = NeuralTraining(learning_rate=1e-2, n_epochs=15, max_document_terms=200)
    knrm: NeuralTraining = NeuralTraining(n_epochs=10, max_document_terms=200)
    layer: LayerSettings = LayerSettings()
    forests: QueryLengthForestSettings = QueryLengthForestSettings(
        min_queries=400, forest=ForestSettings(n_trees=100, n_leaves=7, min_leaf_rows=50)
    )
    n_positions: int = Field(default=5, ge=1)
    n_parts: int = Field(default=5, ge=2)
    bases: tuple[float, ...] = Field(default=(5.0, 10.0), min_length=1)
    thresholds: tuple[float, ...] = Field(default=(0.3, 0.7), min_length=1)
    min_size: int = Field(default=5, ge=1)
    min_phrase_documents: int = Field(default=5, ge=1)
    min_pair_documents: int = Field(default=3, ge=1)

    def adaptive(self, lowest: float) -> AdaptiveThresholds:
        """Return adaptive closures from 0.9 down to a threshold, what is left kept as it is.

        Examples
        --------
        >>> NeuralTrialSettings(data="", name="wikiqa").adaptive(0.7).thresholds
        (0.7, 0.8, 0.9)
        """
        steps = tuple(t / 10 for t in range(1, 10) if t / 10 > lowest + 1e-9)
        return AdaptiveThresholds(
            thresholds=(lowest, *steps), min_size=self.min_size, remainder="keep"
        )
