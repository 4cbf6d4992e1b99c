"""``cloister cloud train``: a C-KNRM*, trees and a last layer, learnt from a judged collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.app.cloud_collection import open_collection
from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.fixed_threshold_clustering import FixedThreshold
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.cloud.private_ranker_file import save_private_ranker
from cloister.cloud.private_ranker_training import CandidateLists, fit_private_ranker
from cloister.cloud.ranking_keys import find_keys
from cloister.cloud.served_features import ServedFeatures, served_scores
from cloister.core.errors import DataError, MissingDependency, NotFound, SettingsError
from cloister.core.settings import Settings
from cloister.lab.neural.candidates import QueryCandidates, find_candidates
from cloister.lab.neural.collection import RankingCollection, ranking_collection
from cloister.lab.neural.folds import query_folds
from cloister.lab.neural.query_rows import QueryRows, query_rows
from cloister.measure.mean import mean
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings, DocumentKernels
from cloister.rank.embedding import Embedding, train_embedding
from cloister.rank.embedding_file import read_embedding
from cloister.rank.neural_batches import JudgedTexts
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.neural_training import NeuralTraining, TrainingPass, fit_neural
from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

__all__ = ["TrainingChoices", "train_model"]

Result = dict[str, Any]
Advance = Callable[[int, int], None]

LEAST_QUERIES: Final = 10  # two a fold
PASS_TERMS: Final = 200  # of a document while filters are trained; scores are of whole documents
N_AROUND: Final = 3  # steps beside the passes: word vectors, the private ranker, measuring


class TrainingChoices(Settings):
    """What is trained.

    Parameters
    ----------
    trees
        Features of the trees, or none.
    base
        r of the levels; None stores plain values.
    closures, threshold, min_size
        How terms are put together: the lowest threshold (adaptive) or the only one, and p.
    n_filters
        Of the convolutions.
    n_passes
        Over the training queries, at most.
    """

    trees: Literal["T1", "T2", "none"] = "T1"
    base: float | None = Field(default=10.0, ge=2)
    closures: Literal["adaptive", "fixed"] = "adaptive"
    threshold: float = Field(default=0.3, ge=0.05, le=0.9)
    min_size: int = Field(default=5, ge=1)
    n_filters: int = Field(default=64, ge=1)
    n_passes: int = Field(default=8, ge=1)

    @property
    def private(self) -> PrivateRankingSettings:
        """The same as the ranker keeps it.

        Examples
        --------
        >>> TrainingChoices(threshold=0.75).private.closures.thresholds
        (0.75, 0.8, 0.9)
        """
        steps = tuple(t / 10 for t in range(1, 10) if t / 10 > self.threshold + 1e-9)
        features = None
        if self.trees != "none":
            features = TreeFeatureSettings(kind=self.trees, combined=False)
        return PrivateRankingSettings(
            obfuscation=KernelObfuscation(base=self.base),
            closures=FixedThreshold(threshold=self.threshold, min_size=self.min_size)
            if self.closures == "fixed"
            else AdaptiveThresholds(thresholds=(self.threshold, *steps), min_size=self.min_size),
            features=features,
        )


def train_model(
    data: str,
    out: Path,
    choices: TrainingChoices,
    *,
    vectors: Path | None,
    seed: int,
    advance: Advance,
) -> Result:
    """Train on a collection's training queries, choose by its validation queries, and save.

    The collection's own split is used; where it has none, three fifths of the queries train, one
    fifth validates and one tests.
    """
    start = time.perf_counter()
    _refuse_early(out, choices, vectors)
    n_steps = choices.n_passes + N_AROUND
    collection = ranking_collection(data, open_collection(data))
    training, validation, test = _parts(collection, data, seed)
    documents = [collection.texts.document(i) for i in range(collection.texts.n_documents)]
    embedding = _embedding(collection, documents, vectors, seed)
    advance(1, n_steps)
    neural = _trained(
        NeuralRanker.initial(
            CKnrmStar(CKnrmStarSettings(n_filters=choices.n_filters)), embedding, seed=seed
        ),
        (training.texts(documents), validation.texts(documents)),
        seed,
        choices.n_passes,
        lambda done: advance(1 + done.number, n_steps),
    )
    ranker = fit_private_ranker(
        collection.texts,
        collection.priors,
        neural,
        _lists(training),
        choices.private,
        seed=seed,
        validation=_lists(validation),
    )
    advance(n_steps - 1, n_steps)
    save_private_ranker(ranker, out)
    return {
        "model": str(out),
        "collection": data,
        "documents": collection.texts.n_documents,
        "vectors": len(embedding),
        "training_queries": training.n_queries,
        **_measured(ranker, collection, documents, {"validation": validation, "test": test}),
        "trees": choices.trees,
        "settings": choices.model_dump(mode="json") | {"seed": seed},
        "seconds": time.perf_counter() - start,
    }


def _trained(
    start: NeuralRanker,
    texts: tuple[JudgedTexts, JudgedTexts],
    seed: int,
    n_passes: int,
    passed: Callable[[TrainingPass], None],
) -> NeuralRanker:
    """Train filters on the first texts, and keep the pass that ranks the second ones best."""
    training, validation = texts
    settings = NeuralTraining(n_epochs=n_passes, max_document_terms=PASS_TERMS)
    return fit_neural(
        start, training, settings, seed=seed, validation=validation, progress=passed
    ).ranker


def _refuse_early(out: Path, choices: TrainingChoices, vectors: Path | None) -> None:
    """Refuse, before the work, a place that is taken and packages that are missing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SettingsError(
            "there is something of this name already",
            where=str(out),
            remedy="choose another name, or remove it",
        )
    if not out.absolute().parent.is_dir():
        raise NotFound(
            "no such folder", where=str(out.absolute().parent), remedy="make the folder first"
        )
    packages = ["torch"]
    packages += ["lightgbm"] if choices.trees != "none" else []
    packages += ["gensim"] if vectors is None else []
    for name in packages:
        if find_spec(name) is None:
            raise MissingDependency(
                f"the package {name} is not installed",
                where="cloister cloud train",
                remedy="pip install 'cloister[neural]'",
            )


def _parts(
    collection: RankingCollection, data: str, seed: int
) -> tuple[QueryRows, QueryRows, QueryRows]:
    """Return the training, validation and test queries that have candidates."""
    candidates = find_candidates(collection)
    if len(collection.queries) < LEAST_QUERIES:
        raise DataError(
            f"{len(collection.queries)} judged queries are too few to learn from",
            where=data,
            remedy=f"name a collection with at least {LEAST_QUERIES}",
        )
    fold = query_folds(collection, seed=seed)[0]
    training = _telling(fold.training, candidates)
    validation = _telling(fold.validation, candidates)
    if not len(training) or not len(validation):
        raise DataError(
            "no training or no validation query has candidates of different grades",
            where=data,
            remedy="judge more queries or documents",
        )
    test = fold.test[[len(candidates[query].documents) > 0 for query in fold.test]]
    training_rows, validation_rows, test_rows = (
        query_rows(collection, candidates, part) for part in (training, validation, test)
    )
    return training_rows, validation_rows, test_rows


def _telling(
    queries: NDArray[np.int64], candidates: tuple[QueryCandidates, ...]
) -> NDArray[np.int64]:
    """Leave out queries with candidates of one grade only: they teach nothing."""
    kept = [query for query in queries.tolist() if len(np.unique(candidates[query].grades)) > 1]
    return np.array(kept, np.int64)


def _embedding(
    collection: RankingCollection, documents: list[list[str]], vectors: Path | None, seed: int
) -> Embedding:
    if vectors is None:
        return train_embedding(documents, seed=seed)
    words = dict.fromkeys(collection.texts.vocabulary)
    words |= dict.fromkeys(term for query in collection.queries for term in query.terms)
    return read_embedding(vectors, words=list(words))


def _lists(rows: QueryRows) -> CandidateLists:
    return CandidateLists(rows.terms, rows.documents, rows.grades)


def _measured(
    ranker: PrivateRanker,
    collection: RankingCollection,
    documents: list[list[str]],
    parts: dict[str, QueryRows],
) -> Result:
    """Return nDCG@10 of what the server will answer, and of BM25, for some queries."""
    texts, settings = collection.texts, ranker.settings
    served = ServedFeatures(
        DocumentKernels.of(ranker.neural, documents),
        TreeFeatures(texts, collection.priors, settings.features) if settings.features else None,
        find_keys(texts, ranker.neural.embedding, settings),
        settings,
    )

    def scored(terms: Sequence[str], own: NDArray[np.int64]) -> NDArray[np.float64]:
        return served_scores(ranker, served, terms, own)

    found: Result = {}
    for name, rows in parts.items():
        known = rows.n_queries > 0
        found |= {
            f"{name}_queries": rows.n_queries,
            f"{name}_ndcg@10": mean(rows.ndcg(rows.made(scored))[10]) if known else None,
            f"{name}_bm25_ndcg@10": mean(rows.ndcg(rows.bm25)[10]) if known else None,
        }
    return found
