"""The client of a private index: it turns a query into tokens, and opens what comes back.

What the server learns of a query is said in :mod:`cloister.cloud.query_trace`. What the client
learns is an answer that it cannot check: names are sealed with the documents' numbers, so they are
true; scores, order, and what is left out are the server's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.rank_request import (
    MAX_CANDIDATES,
    MAX_WORDS,
    AskedBox,
    AskedPair,
    AskedWord,
    RankAnswer,
    RankRequest,
)
from cloister.cloud.sealed_boxes import BoxKind, box_name
from cloister.cloud.server import PrivateIndexServer
from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.core.ids import DocId
from cloister.rank.tree_features import distinct_terms, feature_places

__all__ = ["IndexTransport", "InProcessTransport", "PrivateHit", "PrivateIndexClient"]

Asked = TypeVar("Asked", bound=AskedBox)


class IndexTransport(Protocol):
    """The way to a server."""

    def upload(self, index_id: str, index: Path) -> None:
        """Send an index's file."""

    def rank(self, index_id: str, request: RankRequest) -> RankAnswer:
        """Send a query and return the answer."""

    def document_text(self, index_id: str, number: int) -> bytes:
        """Fetch a document's sealed text."""

    def remove(self, index_id: str) -> None:
        """Remove an index."""


class PrivateHit(NamedTuple):
    """A document that was found.

    Parameters
    ----------
    doc_id
        Its name.
    score
        As the server computed it.
    number
        Its number in the index, by which `PrivateIndexClient.document` asks for its text and
        `PrivateIndexClient.search` for its rank.
    """

    doc_id: DocId
    score: float
    number: int


class PrivateIndexClient:
    """Asks one index. Threads may share it if they may share the transport.

    Parameters
    ----------
    dictionary
        Made with the index.
    transport
        The way to the server that has the index.
    """

    def __init__(self, dictionary: ClientDictionary, transport: IndexTransport) -> None:
        self.dictionary = dictionary
        self._transport = transport
        self._boxes = dictionary.boxes

    @property
    def index_id(self) -> str:
        """Id of the index, as it stands in addresses."""
        return self.dictionary.index_id.hex()

    def upload(self, index: str | Path) -> None:
        """Send the index's file to the server.

        Raises
        ------
        DataError
            If it is not the index of the dictionary.
        """
        found = PrivateIndex.open(index).index_id
        if found != self.dictionary.index_id:
            raise DataError(
                "the dictionary is of another index",
                where=str(index),
                remedy="take the two files that were built together",
            )
        self._transport.upload(self.index_id, Path(index))

    def search(
        self, text: str, k: int = 10, *, candidates: Sequence[int] | None = None
    ) -> list[PrivateHit]:
        """Rank documents for a query in words.

        Parameters
        ----------
        text
            The query.
        k
            How many documents are wanted.
        candidates
            Numbers of documents to be ranked; not given, all of the closures of the query's words.
        """
        terms = self.dictionary.analysis.terms(text)
        return self.search_terms(terms, k, candidates=candidates)

    def search_terms(
        self, terms: Sequence[str], k: int = 10, *, candidates: Sequence[int] | None = None
    ) -> list[PrivateHit]:
        """Rank documents for the terms of a query, see `search`."""
        request = self.request(terms, k, candidates=candidates)
        answer = self._transport.rank(self.index_id, request)
        told = set(answer.documents)
        strange = candidates is not None and not told.issubset(candidates)
        if len(answer.documents) > k or len(told) < len(answer.documents) or strange:
            raise DataError("the answer is not what was asked for", where="server")
        found = zip(answer.documents, answer.names, answer.scores, strict=True)
        return [PrivateHit(self._name(number, name), score, number)
                for number, name, score in found]  # fmt: skip

    def document(self, number: int) -> str:
        """Fetch and open the text of a document, given its number.

        Raises
        ------
        NotFound
            If there is no such document, or the index has no texts.
        """
        sealed = self._transport.document_text(self.index_id, number)
        if not sealed:
            raise NotFound("no text of such a document is stored")
        return self._boxes.open_document("text", number, sealed).decode()

    def request(
        self, terms: Sequence[str], k: int = 10, *, candidates: Sequence[int] | None = None
    ) -> RankRequest:
        """Return what is sent for the terms of a query; the boxes stand in the order of labels."""
        words = distinct_terms(terms)
        if len(words) > MAX_WORDS:
            raise DataError(f"a query has at most {MAX_WORDS} different terms", where="terms")
        if not 1 <= k <= MAX_CANDIDATES:
            raise SettingsError(f"from 1 to {MAX_CANDIDATES} documents can be asked for", where="k")
        has = self.dictionary.has_word
        places = self._places(words)
        return RankRequest(
            model=AskedBox(**self._box("model")),
            n_terms=len(words),
            words=_by_label(
                AskedWord(**self._box("word", word), place=places.get(word, -1))
                for word in words
                if has(word)
            ),
            phrases=_by_label(
                AskedBox(**self._box("phrase", *phrase))
                for phrase in pairwise(words)
                if self.dictionary.has_phrase(*phrase)
            ),
            pairs=self._pairs(words, places),
            candidates=None if candidates is None else tuple(candidates),
            k=k,
        )

    def _places(self, words: Sequence[str]) -> dict[str, int]:
        """Return the feature places of the words that have one, as in training."""
        if self.dictionary.features is None:
            return {}
        df = np.array([self.dictionary.document_frequency(word) for word in words])
        placed = feature_places(df, self.dictionary.features)
        return {words[term]: place for place, term in enumerate(placed)}

    def _pairs(self, words: Sequence[str], places: dict[str, int]) -> tuple[AskedPair, ...]:
        """Return the pairs of placed words that have a box, which has the lower label first."""
        asked = []
        for before, after in combinations([word for word in words if word in places], 2):
            if self.dictionary.has_pair(before, after):
                first, second = sorted((places[before], places[after]))
                box = self._box("pair", min(before, after), max(before, after))
                labels = [self._boxes.token("word", word).label for word in (before, after)]
                turned = labels[0] > labels[1]
                asked.append(AskedPair(**box, first=first, second=second, turned=turned))
        return _by_label(asked)

    def _box(self, kind: BoxKind, *words: str) -> dict[str, Any]:
        return self._boxes.token(kind, box_name(*words))._asdict()

    def _name(self, number: int, sealed: bytes) -> DocId:
        return DocId(self._boxes.open_document("name", number, sealed).decode())


def _by_label(boxes: Iterable[Asked]) -> tuple[Asked, ...]:
    return tuple(sorted(boxes, key=lambda box: box.label))


class InProcessTransport:
    """A server in the same process, for tests and for trying things out: nothing is protected.

    Requests and answers are turned into bytes and back, as over a network.
    """

    def __init__(self) -> None:
        self._servers: dict[str, PrivateIndexServer] = {}

    def upload(self, index_id: str, index: Path) -> None:
        """Take an index's file."""
        self._servers[index_id] = PrivateIndexServer(PrivateIndex.open(index))

    def rank(self, index_id: str, request: RankRequest) -> RankAnswer:
        """Answer a query."""
        asked = RankRequest.from_json(request.to_json())
        return RankAnswer.from_json(self._server(index_id).rank(asked).to_json())

    def document_text(self, index_id: str, number: int) -> bytes:
        """Return a document's sealed text."""
        return self._server(index_id).document_text(number)

    def remove(self, index_id: str) -> None:
        """Remove an index."""
        self._server(index_id)
        del self._servers[index_id]

    def _server(self, index_id: str) -> PrivateIndexServer:
        if index_id not in self._servers:
            raise NotFound("no such index", remedy="upload it first")
        return self._servers[index_id]
