"""The server of a private index: it opens the boxes that a query names, scores, and sorts.

It is honest but curious: it answers as written here, and looks at all that it can
(:mod:`cloister.cloud.query_trace`). Nothing here proves to a client that the answer is right: a
server that cheats can leave documents out and make scores up, for the client sees no box. It cannot
give a document another's name or text.

The score of a document is w . phi + b: sums of stored kernel values over the query's words and
adjacent words, and with trees the score of the forest for the query's length. What no box holds
counts as absent: no soft match, and the code of 0. Neither torch nor LightGBM is needed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.box_layout import PHRASE_COLUMNS, WORD_COLUMNS
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.model_box import MOST_PLACES, ModelBox, SourcedForest
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.query_opening import open_model, open_query
from cloister.cloud.query_trace import OpenedKey, QueryTrace
from cloister.cloud.rank_request import AskedBox, RankAnswer, RankRequest
from cloister.cloud.server_kernel import code_rows, find_places, gather_rows, weighted_sums
from cloister.core.errors import DataError, NotFound

__all__ = ["PrivateIndexServer", "score_trace"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK: Final = 512  # documents scored at a time: their codes stay in the cache
_WORDS: Final = slice(0, WORD_COLUMNS)
_PHRASES: Final = slice(WORD_COLUMNS, WORD_COLUMNS + PHRASE_COLUMNS)


class PrivateIndexServer:
    """Answers requests from one index. Threads may share it.

    The model's box is opened once and kept, as long as requests bring its key.

    Parameters
    ----------
    index
        As the client uploaded it.
    """

    def __init__(self, index: PrivateIndex) -> None:
        self.index = index
        self._model: tuple[AskedBox, ModelBox] | None = None

    def rank(self, request: RankRequest) -> RankAnswer:
        """Score the candidates, or all documents of the closures, and return the best.

        Raises
        ------
        DataError
            If a box that is asked for is missing, does not open or does not fit, or a candidate is
            no document of this index.
        """
        model = self._opened_model(request.model)
        trace = self.trace(request)
        documents = trace.documents if trace.candidates is None else trace.candidates
        blocks = np.split(documents, range(BLOCK, len(documents), BLOCK))
        scores = np.concatenate([score_trace(model, trace, block) for block in blocks])
        best = np.lexsort((documents, -scores))[: request.k]
        numbers = documents[best].tolist()
        return RankAnswer(
            documents=tuple(numbers),
            names=tuple(bytes(self.index.document_name(number)) for number in numbers),
            scores=tuple(scores[best].tolist()),
            n_scored=len(documents),
        )

    def trace(self, request: RankRequest) -> QueryTrace:
        """Return all that a request shows to the server, besides the model; raises as `rank`."""
        return open_query(self.index, request, self._opened_model(request.model))

    def document_text(self, number: int) -> bytes:
        """Return the sealed text of a document.

        Raises
        ------
        NotFound
            If there is no such document, or the index has no texts.
        """
        if not 0 <= number < self.index.n_documents or not self.index.has_texts:
            raise NotFound("no text of such a document is stored")
        return bytes(self.index.document_text(number))

    def description(self) -> dict[str, Any]:
        """Return counts and sizes of the index."""
        return {
            "n_documents": self.index.n_documents,
            "n_boxes": self.index.n_boxes,
            "has_texts": self.index.has_texts,
            "size_bytes": self.index.size_bytes,
        }

    def _opened_model(self, asked: AskedBox) -> ModelBox:
        kept = self._model
        if kept is None or kept[0] != asked:
            kept = (asked, open_model(self.index, asked))
            self._model = kept
        return kept[1]


def score_trace(model: ModelBox, trace: QueryTrace, documents: Integers) -> Floats:
    """Return w . phi + b of each document, from what a query opened.

    Raises
    ------
    DataError
        If a score is not finite, as weights near the largest number make it.
    """
    places = [_places(key, documents) for key in (*trace.words, *trace.phrases)]
    phi = np.empty((len(documents), len(model.weights)))
    soft = KernelObfuscation(base=model.base)
    n_words, n_phrases = trace.n_terms, max(0, trace.n_terms - 1)
    of_words, of_phrases = places[: len(trace.words)], places[len(trace.words) :]
    _add_soft(phi[:, _WORDS], soft, trace.words, of_words, n_words)
    _add_soft(phi[:, _PHRASES], soft, trace.phrases, of_phrases, n_phrases)
    forest = model.forest_for(trace.n_terms)
    if forest is not None:
        rows = _coded(model, forest, trace, documents, of_words)
        phi[:, -1] = forest.forest.score(rows) / forest.spread
    scores = np.empty(len(documents))
    weighted_sums(phi, model.weights, model.bias, scores)
    if not bool(np.isfinite(scores).all()):
        raise DataError("the model gives no finite scores", where="model box")
    return scores


def _places(key: OpenedKey, documents: Integers) -> Integers:
    places = np.empty(len(documents), np.int64)
    find_places(documents, key.documents, places)
    return places


def _add_soft(
    phi: Floats,
    soft: KernelObfuscation,
    keys: tuple[OpenedKey, ...],
    places: list[Integers],
    n_keys: int,
) -> None:
    """Sum stored values over ``n_keys`` keys, of which those without a box are absent."""
    absent = np.full((1, phi.shape[1]), soft.absent, soft.dtype)
    phi[:] = (n_keys - len(keys)) * soft.features(absent)
    for key, own in zip(keys, places, strict=True):
        rows = np.full((len(phi), phi.shape[1]), soft.absent, soft.dtype)
        gather_rows(own, key.levels, rows)
        phi += soft.features(rows[:, np.newaxis])


def _coded(
    model: ModelBox,
    forest: SourcedForest,
    trace: QueryTrace,
    documents: Integers,
    word_places: list[Integers],
) -> Integers:
    """Return the codes of each document as a forest's trees take them."""
    n = len(documents)
    placed = [(w, own) for w, own in zip(trace.words, word_places, strict=True) if w.place >= 0]
    of_terms = np.empty((1 + len(placed), n, len(model.term_zeros)), np.int64)
    of_terms[:] = model.term_zeros  # slot 0 is for places without a word
    term_slots = np.zeros(MOST_PLACES, np.int32)
    for slot, (word, own) in enumerate(placed, 1):
        gather_rows(own, word.codes, of_terms[slot])
        term_slots[word.place] = slot
    of_pairs = np.empty((1 + len(trace.pairs), n, len(model.pair_zeros)), np.int64)
    of_pairs[:] = model.pair_zeros
    pair_slots = np.zeros((MOST_PLACES, MOST_PLACES), np.int32)
    own = np.empty(n, np.int64)
    for slot, pair in enumerate(trace.pairs, 1):
        find_places(documents, pair.documents, own)
        found = np.flatnonzero(own >= 0)
        codes = pair.codes[own[found]]
        of_pairs[slot, found] = codes[:, model.pair_turned] if pair.turned else codes
        pair_slots[pair.first, pair.second] = slot
    rows = np.empty((n, forest.forest.n_columns), np.int64)
    sources = (forest.sources, documents, term_slots, of_terms, pair_slots, of_pairs)
    code_rows(*sources, model.document_codes, rows)
    return rows
