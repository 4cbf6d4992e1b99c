"""Opening the boxes that a query names: from an index and a request to its trace.

A request comes from a client and an opened box from whoever has its key, not necessarily from sound
programs: what does not fit together is refused, and nothing is scored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.box_layout import ClosureBox, PairBox, PhraseBox, WordBox
from cloister.cloud.model_box import ModelBox
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.query_trace import OpenedKey, OpenedPair, QueryTrace
from cloister.cloud.rank_request import AskedBox, RankRequest
from cloister.cloud.sealed_boxes import BoxToken, open_box
from cloister.core.errors import DataError

__all__ = ["open_model", "open_query"]

Integers = NDArray[np.int64]
Documents = NDArray[np.int32]


def open_model(index: PrivateIndex, asked: AskedBox) -> ModelBox:
    """Open the model's box of an index.

    Raises
    ------
    DataError
        If there is no such box, it does not open, or it is of other documents.
    """
    model = ModelBox.decode(_content(index, asked.label, asked.key))
    if model.n_documents != index.n_documents:
        raise DataError("the model is of another index", where="model box")
    return model


def open_query(index: PrivateIndex, request: RankRequest, model: ModelBox) -> QueryTrace:
    """Open all boxes that a request names.

    Raises
    ------
    DataError
        If a box is missing, does not open, or does not fit the model or its closure; or if a
        candidate is no document of the index.
    """
    closures: dict[BoxToken, Documents] = {}
    words, phrases = list[OpenedKey](), list[OpenedKey]()
    for word in request.words:
        box = WordBox.decode(_content(index, word.label, word.key))
        words.append(_opened(index, closures, model, word.label, word.place, box, box.codes))
    for phrase in request.phrases:
        other = PhraseBox.decode(_content(index, phrase.label, phrase.key))
        phrases.append(_opened(index, closures, model, phrase.label, -1, other, None))
    pairs = []
    for pair in request.pairs:
        near = PairBox.decode(_content(index, pair.label, pair.key), index.n_documents)
        if near.codes.shape[1] != len(model.pair_zeros):
            raise DataError("a box of a pair does not fit the model", where="pair box")
        places = (pair.first, pair.second, pair.turned)
        pairs.append(OpenedPair(pair.label, *places, near.documents, near.codes))
    return QueryTrace(
        request.n_terms,
        tuple(words),
        tuple(phrases),
        tuple(pairs),
        _candidates(request, index.n_documents),
        request.k,
    )


def _opened(
    index: PrivateIndex,
    closures: dict[BoxToken, Documents],
    model: ModelBox,
    label: bytes,
    place: int,
    box: WordBox | PhraseBox,
    codes: Integers | None,
) -> OpenedKey:
    token = box.closure
    if token not in closures:
        content = _content(index, token.label, token.key)
        closures[token] = ClosureBox.decode(content, index.n_documents).documents
    documents = closures[token]
    if codes is None:
        codes, n_columns = np.empty((len(documents), 0), np.int64), 0
    else:
        n_columns = len(model.term_zeros)
    stored = np.float32 if model.base is None else np.uint8
    fits = len(box.levels) == len(documents) and codes.shape == (len(documents), n_columns)
    if not fits or box.levels.dtype != stored:
        raise DataError("a box does not fit the model or its closure", where="box")
    return OpenedKey(label, place, token.label, documents, box.levels, codes)


def _candidates(request: RankRequest, n_documents: int) -> Integers | None:
    if request.candidates is None:
        return None
    candidates = np.array(request.candidates, np.int64)
    if len(candidates) and int(candidates.max()) >= n_documents:
        raise DataError(f"there are {n_documents} documents", where="candidates")
    return candidates


def _content(index: PrivateIndex, label: bytes, key: bytes) -> memoryview:
    sealed = index.box(label)
    if sealed is None:
        raise DataError(
            "the index has no box of this label",
            where="box",
            remedy="ask with the dictionary that was made with this index",
        )
    return open_box(key, sealed, label)
