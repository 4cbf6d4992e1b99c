"""Building a private index: from a collection and a ranker to sealed boxes.

It runs at the client, in the clear, and is the only step that sees the whole collection.
:mod:`cloister.cloud.index_boxes` makes the boxes. Numbers of documents are a random permutation
from the operating system; their names, and texts if wanted, are sealed for the client alone.

What the boxes guarantee is said in `cloister.cloud.sealed_boxes`, what opened ones tell in
`cloister.cloud.soft_match_map` and `cloister.cloud.private_trees`. At rest the server sees how many
boxes and documents there are, and padded sizes: words of one closure have boxes of one size, so
sizes hint at closures.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.index_boxes import IndexBoxes
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_ranker import PrivateRanker
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.cloud.sealed_boxes import BoxSecret, DocumentPart
from cloister.core.errors import DataError
from cloister.index.analysis import TextAnalysis
from cloister.rank.proximity_features import TermSequences

__all__ = ["build_private_index"]

Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]


def build_private_index(
    ranker: PrivateRanker,
    texts: TermSequences,
    priors: NDArray[np.float32] | None,
    doc_ids: Sequence[str],
    secret: bytes,
    *,
    analysis: TextAnalysis | None = None,
    document_texts: Sequence[str] | None = None,
    keys: RankingKeys | None = None,
    progress: Progress | None = None,
) -> tuple[PrivateIndex, ClientDictionary]:
    """Build what the server is given, and what the client keeps to ask it.

    Parameters
    ----------
    ranker
        Trained on what a server can look up.
    texts
        The documents, analysed.
    priors
        A row a document, for trees with features T1.
    doc_ids
        Names of the documents.
    secret
        32 bytes, from the operating system. It may serve several indexes: each has its own id, and
        keys of its own.
    analysis
        How the texts were cut into terms; the client cuts queries alike.
    document_texts
        Texts to be stored, sealed, for the client to fetch; none where not given.
    keys
        What `cloister.cloud.ranking_keys.find_keys` gives, if it is there already.
    progress
        Told how many steps are done, of how many.

    Raises
    ------
    DataError
        If names, texts or priors are not of these documents.
    """
    _check(texts, doc_ids, document_texts)
    keys = keys or find_keys(texts, ranker.neural.embedding, ranker.settings)
    boxes = BoxSecret.fresh(secret)
    numbers = _permutation(texts.n_documents)
    contents = IndexBoxes(ranker, texts, priors, keys, boxes, numbers)
    sealed: dict[bytes, bytes] = {}
    for step, made in enumerate(contents.steps(), 1):
        sealed.update(made)
        if progress is not None:
            progress(step, contents.n_steps)
    names = _sealed_documents(boxes, "name", doc_ids, numbers)
    stored = document_texts and _sealed_documents(boxes, "text", document_texts, numbers)
    index = PrivateIndex.of(boxes.index_id, sealed, names, stored or None)
    return index, contents.dictionary(secret, analysis or TextAnalysis())


def _permutation(n: int) -> Integers:
    """Return the secret number of each document: a permutation from the operating system."""
    words = np.frombuffer(secrets.token_bytes(16 * n), np.uint64).reshape(n, 2)
    numbers = np.empty(n, np.int64)
    numbers[np.lexsort((words[:, 0], words[:, 1]))] = np.arange(n)
    return numbers


def _sealed_documents(
    boxes: BoxSecret, part: DocumentPart, contents: Sequence[str], numbers: Integers
) -> list[bytes]:
    """Seal what belongs to documents, by secret number; all names are as long as the longest."""
    encoded = [content.encode() for content in contents]
    least = max(map(len, encoded), default=0) if part == "name" else 0
    sealed = [b""] * len(encoded)
    for number, content in zip(numbers.tolist(), encoded, strict=True):
        sealed[number] = boxes.seal_document(part, number, content, least_bytes=least)
    return sealed


def _check(
    texts: TermSequences, doc_ids: Sequence[str], document_texts: Sequence[str] | None
) -> None:
    n = texts.n_documents
    if len(doc_ids) != n or len(set(doc_ids)) != n:
        raise DataError(f"{n} different names of documents are needed", where="doc_ids")
    if document_texts is not None and len(document_texts) != n:
        raise DataError(f"{n} texts are needed", where="document_texts")
