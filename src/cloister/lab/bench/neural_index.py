"""What the benchmark of private ranking works on: a collection, a ranker, its index, its queries.

NFCorpus where it is at hand, else a clinic world. Forests and the last layer are fitted to the
collection's judgements; the filters of C-KNRM* are untrained, since no time here depends on their
numbers. Hence nothing here says how good the rankings are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.client import InProcessTransport, PrivateIndexClient
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.index_building import build_private_index
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.cloud.private_ranker_training import (
    CandidateLists,
    PrivateRankerTraining,
    fit_private_ranker,
)
from cloister.cloud.rank_request import RankRequest
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.data.worlds.clinic_collection import clinic_collection
from cloister.lab.bench import Advance, Figures, timed
from cloister.lab.neural.candidates import CandidateSettings, find_candidates
from cloister.lab.neural.collection import (
    COLLECTIONS,
    RankingCollection,
    RankingCollectionSettings,
    open_ranking_collection,
    ranking_collection,
)
from cloister.lab.neural.vectors import vectors_file
from cloister.lab.reproduce.collection import data_folder
from cloister.lab.silos.reference_ranking import FullTextRanking
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings
from cloister.rank.cooccurrence_embedding import cooccurrence_embedding
from cloister.rank.embedding import Embedding
from cloister.rank.embedding_file import read_embedding
from cloister.rank.forest import ForestSettings
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.query_length_forests import QueryLengthForests, QueryLengthForestSettings

__all__ = ["BuiltScene", "NeuralSize", "ReRankedQuery", "RankedScene", "build", "prepare"]

N_TERMS: Final = 3  # of a query that is timed
NFCORPUS: Final = "nfcorpus"
WORLD: Final = "servers=3&pods=1000&document_bytes=0&queries=900&staff=5"


class NeuralSize(NamedTuple):
    """How much is measured.

    Parameters
    ----------
    world
        Settings of a clinic world; empty takes NFCorpus where it is, else `WORLD`.
    n_training
        Queries that forests and layer are fitted to.
    n_queries, n_candidates
        Queries of three terms that are timed, and documents that each ranks.
    n_rounds
        How often each is asked; times of the first round are told apart.
    n_filters, n_trees
        Of the C-KNRM*, and of each forest.
    n_closed
        Terms that are put into closures.
    n_random_rows
        Rows on which plain and private trees are compared.
    """

    world: str = ""
    n_training: int = 400
    n_queries: int = 200
    n_candidates: int = 100
    n_rounds: int = 6
    n_filters: int = 128
    n_trees: int = 200
    n_closed: int = 100_000
    n_random_rows: int = 10_000


class ReRankedQuery(NamedTuple):
    """A query of three terms and the documents that BM25 ranks first for it."""

    terms: tuple[str, ...]
    documents: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankedScene:
    """A collection with a ranker, before anything is sealed.

    Parameters
    ----------
    collection
        Documents and judgements.
    ranker
        Its filters are untrained.
    queries
        Those that are timed.
    warming
        A query that is asked before.
    vectors
        Which word vectors: their file, or how they were made.
    """

    collection: RankingCollection
    ranker: PrivateRanker
    queries: tuple[ReRankedQuery, ...] = field(repr=False)
    warming: ReRankedQuery = field(repr=False)
    vectors: str

    @property
    def forests(self) -> QueryLengthForests:
        """The ranker's trees."""
        if self.ranker.forests is None:
            raise DataError("the ranker has no trees", where="bench neural")
        return self.ranker.forests


@dataclass(frozen=True, eq=False)
class BuiltScene:
    """The same with its index.

    Parameters
    ----------
    scene
        What was sealed.
    keys
        Of the collection.
    index, dictionary
        What the server has, and what the client keeps.
    numbers
        The secret number of each document.
    """

    scene: RankedScene
    keys: RankingKeys
    index: PrivateIndex
    dictionary: ClientDictionary
    numbers: NDArray[np.int64] = field(repr=False)

    def candidates(self, query: ReRankedQuery) -> list[int]:
        """Return the secret numbers of the documents that a query ranks."""
        return [int(number) for number in self.numbers[query.documents]]

    def request(self, query: ReRankedQuery) -> RankRequest:
        """Return what the client sends to have all of them ranked."""
        client = PrivateIndexClient(self.dictionary, InProcessTransport())
        few = self.candidates(query)
        return client.request(query.terms, len(few), candidates=few)


def prepare(size: NeuralSize) -> RankedScene:
    """Open a collection, choose the queries, and fit forests and a last layer."""
    collection = _open(size.world)
    embedding, vectors = _embedding(collection)
    model = CKnrmStar(CKnrmStarSettings(n_filters=size.n_filters))
    neural = NeuralRanker.initial(model, embedding)
    forest = ForestSettings(n_trees=size.n_trees)
    training = PrivateRankerTraining(
        forests=QueryLengthForestSettings(min_queries=min(50, size.n_training), forest=forest),
        n_parts=2,
    )
    ranker = fit_private_ranker(
        collection.texts,
        collection.priors,
        neural,
        _training_lists(collection, size),
        PrivateRankingSettings(),
        training,
    )
    *queries, warming = _queries(collection, size)
    return RankedScene(collection, ranker, tuple(queries), warming, vectors)


def build(scene: RankedScene, advance: Advance) -> tuple[BuiltScene, Figures]:
    """Find the keys and build the index, and say what that took."""
    texts, ranker = scene.collection.texts, scene.ranker
    with timed() as finding:
        keys = find_keys(texts, ranker.neural.embedding, ranker.settings)
    secret = stream(0, "bench neural", "secret").bytes(32)
    doc_ids = [str(doc_id) for doc_id in scene.collection.doc_ids]
    with timed() as building:
        index, dictionary = build_private_index(
            ranker, texts, scene.collection.priors, doc_ids, secret, keys=keys, progress=advance
        )
    cpu_s, wall_s = finding.cpu_s + building.cpu_s, finding.wall_s + building.wall_s
    figures: Figures = {
        "find_keys_cpu_s": finding.cpu_s,
        "build_cpu_s": building.cpu_s,
        "keys_and_build_wall_s": wall_s,
        "keys_and_build_documents_per_cpu_s": texts.n_documents / cpu_s,
        "keys_and_build_documents_per_wall_s": texts.n_documents / wall_s,
    }
    numbers = _secret_numbers(scene.collection, index, dictionary)
    return BuiltScene(scene, keys, index, dictionary, numbers), figures


def _open(world: str) -> RankingCollection:
    if not world and (data_folder() / COLLECTIONS[NFCORPUS]).is_dir():
        return open_ranking_collection(RankingCollectionSettings(name=NFCORPUS))
    clinic = ClinicWorld(ClinicSettings.from_text(world or WORLD))
    return ranking_collection("clinic world", clinic_collection(clinic, "clinic world"))


def _embedding(collection: RankingCollection) -> tuple[Embedding, str]:
    file = vectors_file()
    if file is not None:
        return read_embedding(file, words=collection.texts.vocabulary), file.name
    return cooccurrence_embedding(collection.texts), "from counts of the collection"


def _training_lists(collection: RankingCollection, size: NeuralSize) -> CandidateLists:
    """Return queries whose candidates have different grades; not those for testing."""
    candidates = find_candidates(collection, CandidateSettings(depth=size.n_candidates))
    chosen = [
        (query.terms, found.documents, found.grades)
        for query, found in zip(collection.queries, candidates, strict=True)
        if query.role in ("training", "") and len(np.unique(found.grades)) > 1
    ]
    if not chosen:
        raise DataError("no query has candidates of different grades", where=collection.name)
    return CandidateLists(*zip(*chosen[: size.n_training], strict=True))


def _queries(collection: RankingCollection, size: NeuralSize) -> list[ReRankedQuery]:
    """Return one query more than are timed, of three terms and with enough candidates.

    Where there are too few, longer ones are cut to their first three terms.
    """
    ranking = FullTextRanking(collection.texts.counts)
    by_length = sorted(
        (query.terms for query in collection.queries if len(query.terms) >= N_TERMS),
        key=lambda terms: len(terms) > N_TERMS,
    )
    chosen = list[ReRankedQuery]()
    for terms in dict.fromkeys(terms[:N_TERMS] for terms in by_length):
        scores = ranking.scores(terms)
        best = np.argsort(-scores, kind="stable")[: size.n_candidates]
        if len(best) == size.n_candidates and scores[best[-1]] > 0:
            chosen.append(ReRankedQuery(terms, best.astype(np.int64)))
        if len(chosen) > size.n_queries:
            break
    if len(chosen) < 2:
        raise DataError(
            f"no two queries of {N_TERMS} terms have {size.n_candidates} candidates",
            where=collection.name,
        )
    return chosen


def _secret_numbers(
    collection: RankingCollection, index: PrivateIndex, dictionary: ClientDictionary
) -> NDArray[np.int64]:
    """Return the number of each document in the index, which the client reads off the names."""
    place = {str(doc_id): number for number, doc_id in enumerate(collection.doc_ids)}
    boxes = dictionary.boxes
    numbers = np.empty(index.n_documents, np.int64)
    for number in range(index.n_documents):
        name = boxes.open_document("name", number, index.document_name(number))
        numbers[place[name.decode()]] = number
    return numbers
