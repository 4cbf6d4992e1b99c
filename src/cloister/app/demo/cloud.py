"""The demo's step on private ranking: an encrypted index, asked through client and server.

Client and server run in this process, and hand each other bytes as they would over HTTP. Word
vectors come from counts, filters are untrained and there are no trees, for the base installation
has neither torch nor LightGBM; ``cloister cloud train`` makes a better ranker.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from cloister.app.demo.state import DemoState, StepOutcome
from cloister.cloud.client import InProcessTransport, PrivateIndexClient
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.index_building import build_private_index
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.cloud.query_opening import open_model, open_query
from cloister.cloud.query_trace import TraceCounts, server_view
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.cloud.sealed_boxes import SECRET_BYTES
from cloister.cloud.served_features import ServedFeatures, served_scores
from cloister.data.ranking_data import RankingData
from cloister.data.worlds.clinic_collection import clinic_collection
from cloister.lab.neural.collection import JudgedQuery, RankingCollection, ranking_collection
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings, DocumentKernels
from cloister.rank.cooccurrence_embedding import CooccurrenceSettings, cooccurrence_embedding
from cloister.rank.kernel_ranker import KernelRankerSettings, fit_kernel_ranker
from cloister.rank.neural_ranker import NeuralRanker

__all__ = ["rank_privately"]

N_DOCUMENTS: Final = 60
HEAD: Final = 1200  # characters of a record that are indexed: its summary and first notes
N_FILTERS: Final = 32
TOLERANCE: Final = 1e-9  # of scores, which are sums of floats
SETTINGS: Final = PrivateRankingSettings(features=None, min_phrase_documents=3)


def rank_privately(state: DemoState) -> StepOutcome:
    """Build an encrypted index of records, search it, and compare with the plain ranking."""
    collection = _heads(state)
    plain = _Plain.of(collection, state.seed)
    index, dictionary = build_private_index(
        plain.ranker,
        collection.texts,
        None,
        collection.doc_ids,
        secrets.token_bytes(SECRET_BYTES),
        keys=plain.keys,
    )
    client = _client(state, index, dictionary)
    compared = [_compared(client, plain, query) for query in collection.queries]
    shown, seen = max(
        ((query, _seen(client, index, query)) for query in collection.queries),
        key=lambda one: (one[1].n_phrases, one[1].n_words),
    )
    figures = {
        "documents": collection.texts.n_documents,
        "words": len(plain.keys.words),
        "bytes": index.size_bytes,
        "bytes_per_document": index.size_bytes / collection.texts.n_documents,
        "boxes": index.n_boxes,
        "box_sizes": len(set(server_view(index).box_bytes.tolist())),
        "closures": plain.keys.word_closures.n_closures,
        "smallest_closure": int(plain.keys.word_closures.sizes.min()),
        "query": " ".join(shown.terms),
        "seen": seen._asdict(),
        "queries": len(compared),
        "scores_agree": max(one[0] for one in compared) <= TOLERANCE,
        "same_order": all(one[1] for one in compared),
    }
    return StepOutcome(figures, _told(figures, seen))


def _told(figures: dict[str, Any], seen: TraceCounts) -> list[str]:
    same = "the same order" if figures["same_order"] else "ANOTHER ORDER"
    scores = "equal" if figures["scores_agree"] else "OTHER"
    return [
        f"the heads of {figures['documents']} records become an encrypted index: "
        f"{figures['bytes'] / 1e6:.1f} MB, {figures['bytes_per_document'] / 1e3:.0f} KB a record",
        f"at rest the server sees {figures['boxes']} sealed boxes of {figures['box_sizes']} sizes, "
        f"and that there are {figures['documents']} records; {figures['words']} words are in "
        f"closures of {figures['smallest_closure']} or more",
        f"asked for {figures['query']!r}, it opens {seen.n_words} words and {seen.n_phrases} "
        f"phrases: {seen.n_closures} closures with {seen.n_documents} records by secret numbers, "
        f"and {seen.n_levels} coarse kernel values without exact matches; these it may keep, and "
        "it would know the same words again",
        f"{figures['queries']} queries: {same} as the plain ranking at home, and {scores} scores "
        f"(to {TOLERANCE:g})",
    ]


def _heads(state: DemoState) -> RankingCollection:
    """Return the beginnings of some records as a judged collection."""
    whole = clinic_collection(state.clinic, "demo clinic", N_DOCUMENTS)
    records = [
        one._replace(document=one.document._replace(text=one.document.text[:HEAD]))
        for one in whole.iter_records()
    ]
    return ranking_collection("demo", replace(whole, read_records=lambda: iter(records)))


@dataclass(frozen=True, eq=False)
class _Plain:
    """A ranker and what it ranks, all in the clear, as the client has it."""

    ranker: PrivateRanker
    keys: RankingKeys
    served: ServedFeatures
    doc_ids: tuple[str, ...]

    @classmethod
    def of(cls, collection: RankingCollection, seed: int) -> _Plain:
        """Make vectors and filters, and fit the last layer to the collection's judgements."""
        texts = collection.texts
        embedding = cooccurrence_embedding(texts, CooccurrenceSettings(size=50, min_count=2))
        model = CKnrmStar(CKnrmStarSettings(n_filters=N_FILTERS))
        neural = NeuralRanker.initial(model, embedding, seed=seed)
        keys = find_keys(texts, embedding, SETTINGS)
        kernels = DocumentKernels.of(neural, [texts.document(i) for i in range(texts.n_documents)])
        served = ServedFeatures(kernels, None, keys, SETTINGS)
        layer = fit_kernel_ranker(
            _rows(collection, served), KernelRankerSettings(n_epochs=20), seed=seed
        )
        return cls(PrivateRanker(neural, layer, None, SETTINGS), keys, served, collection.doc_ids)

    def scores(self, query: JudgedQuery) -> dict[str, float]:
        """Return the score of every document."""
        numbers = np.arange(len(self.doc_ids))
        found = served_scores(self.ranker, self.served, query.terms, numbers)
        return dict(zip(self.doc_ids, found.tolist(), strict=True))


def _rows(collection: RankingCollection, served: ServedFeatures) -> RankingData:
    n, queries = collection.texts.n_documents, collection.queries
    labels = np.zeros((len(queries), n), np.int8)
    for row, query in zip(labels, queries, strict=True):
        row[query.documents] = query.grades
    features = [served.soft(query.terms, np.arange(n)) for query in queries]
    offsets = np.arange(len(queries) + 1) * n
    return RankingData(np.concatenate(features).astype(np.float32), labels.reshape(-1), offsets)


def _client(
    state: DemoState, index: PrivateIndex, dictionary: ClientDictionary
) -> PrivateIndexClient:
    """Upload the index's file to a server in this process."""
    index.write(state.folder / "records.private-index")
    client = PrivateIndexClient(dictionary, InProcessTransport())
    client.upload(state.folder / "records.private-index")
    return client


def _compared(client: PrivateIndexClient, plain: _Plain, query: JudgedQuery) -> tuple[float, bool]:
    """Return the largest difference from plain scores, and whether the order is that of these."""
    hits = client.search_terms(query.terms, len(plain.doc_ids))
    scores = plain.scores(query)
    own = np.array([scores[hit.doc_id] for hit in hits])
    apart = np.abs(own - [hit.score for hit in hits]).max(initial=0.0)
    return float(apart), bool((np.diff(own) <= TOLERANCE).all())


def _seen(client: PrivateIndexClient, index: PrivateIndex, query: JudgedQuery) -> TraceCounts:
    """Return how much the server saw of a query."""
    request = client.request(query.terms)
    return open_query(index, request, open_model(index, request.model)).counts
