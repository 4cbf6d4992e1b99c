"""``cloister cloud build`` and ``show``: a private index, and what it tells at rest."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cloister.app.cloud_collection import open_collection
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.closure_pairs import log2_deniability
from cloister.cloud.index_building import build_private_index
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_ranker_file import load_private_ranker
from cloister.cloud.query_trace import server_view
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.cloud.sealed_boxes import SECRET_BYTES
from cloister.core.errors import DataError, StoreError
from cloister.core.file_errors import refuse_existing
from cloister.core.records import Document
from cloister.index.analysis import TextAnalysis
from cloister.rank.document_priors import document_priors
from cloister.rank.proximity_features import TermSequences

__all__ = ["build_index", "check_targets", "show_index"]

Result = dict[str, Any]
Advance = Callable[[int, int], None]


def build_index(
    data: str,
    model: Path,
    client: Path,
    out: Path,
    *,
    with_texts: bool,
    advance: Advance | None = None,
) -> Result:
    """Build a private index and the client's dictionary, and write both.

    The secret is drawn by the operating system. The index is written first: a program that is
    killed leaves an index that nobody can open, and the dictionary that was there.
    """
    ranker = load_private_ranker(model)
    start = time.perf_counter()
    documents = _documents(data)
    analysis = TextAnalysis()
    texts = TermSequences.of(analysis.terms(whole_text(document)) for document in documents)
    if not texts.vocabulary:
        raise DataError("the documents have no words", where=data, remedy="name other documents")
    read_seconds = time.perf_counter() - start
    start = time.perf_counter()
    keys = find_keys(texts, ranker.neural.embedding, ranker.settings)
    index, dictionary = build_private_index(
        ranker,
        texts,
        document_priors(documents),
        [document.doc_id for document in documents],
        secrets.token_bytes(SECRET_BYTES),
        analysis=analysis,
        keys=keys,
        document_texts=[whole_text(one) for one in documents] if with_texts else None,
        progress=advance,
    )
    seconds = time.perf_counter() - start
    index.write(out)
    dictionary.save(client)
    return {
        "collection": data,
        "client": str(client),
        **_described(index, out),
        "words": len(dictionary.words),
        "phrases": len(dictionary.phrases),
        "pairs": len(dictionary.pairs),
        **closure_figures(keys),
        "trees": "none" if ranker.settings.features is None else ranker.settings.features.kind,
        "read_seconds": read_seconds,
        "build_seconds": seconds,
    }


def _documents(data: str) -> tuple[Document, ...]:
    documents = open_collection(data).documents
    if not documents:
        raise DataError("no documents", where=data, remedy="name a collection that has some")
    return documents


def whole_text(document: Document) -> str:
    """Return the title and the text of a document, as it is indexed."""
    return f"{document.title}\n{document.text}" if document.title else document.text


def closure_figures(keys: RankingKeys) -> Result:
    """Say how large closures of words are, and what they leave open at rest of occurrence."""
    sizes = keys.word_closures.sizes
    held = np.diff(keys.word_documents.starts)
    return {
        "closures": len(sizes),
        "closure_size_smallest": int(sizes.min()),
        "closure_size_mean": float(sizes.mean()),
        "closure_size_largest": int(sizes.max()),
        "log2_deniability": log2_deniability(sizes, held),
        "closure_documents": int(held.sum()),
    }


def show_index(path: Path) -> Result:
    """Say what a server sees of an index before any query; every checksum is compared."""
    index = PrivateIndex.open(path)
    view = server_view(index)
    sizes, counts = np.unique(view.box_bytes, return_counts=True)
    return {
        **_described(index, path),
        "labels": [bytes(label).hex() for label in view.labels[:3]],
        "box_bytes_smallest": int(view.box_bytes.min()) if len(view.box_bytes) else 0,
        "box_bytes_largest": int(view.box_bytes.max()) if len(view.box_bytes) else 0,
        "box_sizes": len(sizes),
        "boxes_of_a_size_of_their_own": int((counts == 1).sum()),
        "name_bytes_total": int(view.name_bytes.sum()),
        "text_bytes_total": int(view.text_bytes.sum()),
        "checksums": "match",
    }


def check_targets(client: Path, out: Path, *, force: bool) -> None:
    """Refuse, before the work, what `build_index` could not write."""
    if client.absolute() == out.absolute():
        raise StoreError(
            "the client's file and the index are two files",
            where=str(out),
            remedy="choose another name for one: the client's file stays at home",
        )
    refuse_existing(client, force=force, ours=ClientDictionary.load)
    refuse_existing(out, force=force, ours=PrivateIndex.open)


def _described(index: PrivateIndex, path: Path) -> Result:
    size = path.stat().st_size
    return {
        "file": str(path),
        "index_id": index.index_id.hex(),
        "documents": index.n_documents,
        "boxes": index.n_boxes,
        "has_texts": index.has_texts,
        "bytes": size,
        "bytes_per_document": size / max(1, index.n_documents),
    }
