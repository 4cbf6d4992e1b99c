"""A private index with made-up contents, filled by hand, and a literal scorer of it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.box_layout import ClosureBox, PairBox, PhraseBox, WordBox
from cloister.cloud.model_box import ModelBox, SourcedForest
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_trees import PrivateForest
from cloister.cloud.rank_request import AskedBox, AskedPair, AskedWord, RankRequest
from cloister.cloud.sealed_boxes import BoxSecret, BoxToken, box_name

N_TERM, N_PAIR, N_DOCUMENT = 3, 4, 2
TURNED = [0, 2, 1, 3]
LARGEST = 1000  # of made-up codes


def asked(token: BoxToken) -> dict[str, bytes]:
    return {"label": token.label, "key": token.key}


def made_forest(rng: np.random.Generator, n_columns: int, n_trees: int = 4) -> PrivateForest:
    """Make trees of three questions each."""
    left, right = [], []
    for tree in range(n_trees):
        node, leaf = 3 * tree, 4 * tree
        left += [node + 1, -1 - leaf, -1 - (leaf + 2)]
        right += [node + 2, -1 - (leaf + 1), -1 - (leaf + 3)]
    return PrivateForest(
        np.arange(0, 3 * n_trees, 3, dtype=np.int32),
        rng.integers(0, n_columns, 3 * n_trees).astype(np.int32),
        rng.integers(0, LARGEST, 3 * n_trees),
        np.array(left, np.int32),
        np.array(right, np.int32),
        rng.normal(size=4 * n_trees),
        n_columns,
    )


class MadeIndex:
    """Words w0, w1 ... in closures of two, some phrases and pairs of them."""

    def __init__(
        self,
        seed: int = 0,
        *,
        base: float | None = 10,
        trees: bool = True,
        n_documents: int = 12,
        n_words: int = 6,
        n_places: int = 3,
        texts: bool = False,
        n_held: int | None = None,
    ) -> None:
        """Fill an index; each closure has half of the documents, or exactly so many."""
        rng = np.random.default_rng(seed)
        self.n_held = n_held
        self.rng, self.base, self.trees, self.n_documents = rng, base, trees, n_documents
        self.secret = BoxSecret.fresh(rng.bytes(32))
        self.boxes: dict[bytes, bytes] = {}
        self.plain: dict[tuple[str, str], Any] = {}
        n_closures = (n_words + 1) // 2
        self.closures = [self._documents() for _ in range(n_closures)]
        for number, documents in enumerate(self.closures):
            self._put("closure", str(number), ClosureBox(documents))
        for word in range(n_words):
            self._put_word(word)
        for a, b in [(0, 1), (1, 2), (3, 0)]:
            self._put_phrase(a, b)
        for a, b in [(0, 1), (0, 2), (1, 3)]:
            self._put_pair(a, b)
        self.model = self._model(n_places)
        self._put("model", "", self.model)
        names = [self._document("name", d, f"document {d}") for d in range(n_documents)]
        sealed = [self._document("text", d, f"text {d}") for d in range(n_documents)]
        self.index = PrivateIndex.of(
            self.secret.index_id, self.boxes, names, sealed if texts else None
        )

    def _documents(self) -> NDArray[np.int32]:
        if self.n_held is None:
            return np.flatnonzero(self.rng.random(self.n_documents) < 0.5).astype(np.int32)
        held = self.rng.choice(self.n_documents, self.n_held, replace=False)
        return np.sort(held).astype(np.int32)

    def _document(self, part: Any, number: int, content: str) -> bytes:
        return self.secret.seal_document(part, number, content.encode())

    def _values(self, shape: tuple[int, int]) -> NDArray[Any]:
        if self.base is None:
            return (self.rng.random(shape) * 30).astype(np.float32)
        return self.rng.integers(1, 6, shape).astype(np.uint8)

    def _codes(self, n: int, n_columns: int) -> NDArray[np.int64]:
        return self.rng.integers(0, LARGEST, (n, n_columns if self.trees else 0))

    def _put(self, kind: Any, name: str, content: Any) -> None:
        token = self.secret.token(kind, name)
        self.boxes[token.label] = self.secret.seal(token, content.encode())
        self.plain[kind, name] = content

    def _put_word(self, word: int) -> None:
        n = len(self.closures[word // 2])
        token = self.secret.token("closure", str(word // 2))
        box = WordBox(token, self._values((n, 20)), self._codes(n, N_TERM))
        self._put("word", f"w{word}", box)

    def _put_phrase(self, a: int, b: int) -> None:
        number = (a + b) % len(self.closures)
        token = self.secret.token("closure", str(number))
        box = PhraseBox(token, self._values((len(self.closures[number]), 10)))
        self._put("phrase", box_name(f"w{a}", f"w{b}"), box)

    def _put_pair(self, a: int, b: int) -> None:
        documents = self._documents()
        box = PairBox(documents, self._codes(len(documents), N_PAIR))
        self._put("pair", box_name(f"w{a}", f"w{b}"), box)

    def _model(self, n_places: int) -> ModelBox:
        rng = self.rng
        soft = {"bias": 0.25, "base": self.base, "n_documents": self.n_documents}
        if not self.trees:
            return ModelBox(weights=rng.normal(size=30), **soft)
        rows = [(0, p, -1, c) for p in range(n_places) for c in range(N_TERM)]
        rows += [
            (1, a, b, c) for a in range(n_places) for b in range(a + 1, n_places)
            for c in range(N_PAIR)
        ]  # fmt: skip
        rows += [(2, -1, -1, c) for c in range(N_DOCUMENT)]
        sources = np.array(rows, np.int32)
        forests = tuple(
            SourcedForest(made_forest(rng, len(rows)), sources, spread) for spread in (0.5, 3.0)
        )
        return ModelBox(
            weights=rng.normal(size=31), **soft, forests=forests, forest_of_length=(0, 1, 0),
            term_zeros=rng.integers(0, LARGEST, N_TERM),
            pair_zeros=rng.integers(0, LARGEST, N_PAIR),
            pair_turned=np.array(TURNED, np.int32),
            document_codes=rng.integers(0, LARGEST, (self.n_documents, N_DOCUMENT)),
        )  # fmt: skip

    def request(
        self, words: list[str], *, candidates: list[int] | None = None, k: int = 10
    ) -> RankRequest:
        """Ask for different words, the first ones at the places 0, 1 ...; "?" stand for unknown."""
        known = [(place, word) for place, word in enumerate(words) if word[0] == "w"]
        pairs = []
        for a, first in known:
            for b, second in known:
                name = box_name(min(first, second), max(first, second))
                if a < b and ("pair", name) in self.plain:
                    box = asked(self.secret.token("pair", name))
                    pairs.append(AskedPair(first=a, second=b, turned=first > second, **box))
        phrases = [box_name(*two) for two in pairwise(words)]
        return RankRequest(
            model=AskedBox(**asked(self.secret.token("model"))),
            n_terms=len(words),
            words=tuple(
                AskedWord(place=place, **asked(self.secret.token("word", word)))
                for place, word in known
            ),
            phrases=tuple(
                AskedBox(**asked(self.secret.token("phrase", name)))
                for name in phrases
                if ("phrase", name) in self.plain
            ),
            pairs=tuple(pairs),
            candidates=None if candidates is None else tuple(candidates),
            k=k,
        )

    def literal_score(self, words: list[str], document: int) -> float:
        """Score one document, one value after the other."""
        phi = [0.0] * len(self.model.weights)
        for word in words:
            row = self._row("word", word, document, "levels", 20)
            for column in range(20):
                phi[column] += self._feature(row[column])
        for two in pairwise(words):
            row = self._row("phrase", box_name(*two), document, "levels", 10)
            for column in range(10):
                phi[20 + column] += self._feature(row[column])
        if self.trees:
            length = min(len(words), len(self.model.forest_of_length) - 1)
            forest, sources, spread = self.model.forests[self.model.forest_of_length[length]]
            codes = [self._code(words, document, *source) for source in sources.tolist()]
            phi[30] = _walk(forest, codes) / spread
        total = sum(w * value for w, value in zip(self.model.weights, phi, strict=True))
        return float(total + self.model.bias)

    def _feature(self, stored: float) -> float:
        return float(stored) if self.base is not None else 0.01 * math.log(max(stored, 1e-10))

    def _row(self, kind: str, name: str, document: int, part: str, width: int) -> list[float]:
        box = self.plain.get((kind, name))
        if box is not None:
            closure = next(
                held for number, held in enumerate(self.closures)
                if self.secret.token("closure", str(number)) == box.closure
            )  # fmt: skip
            if document in closure:
                return getattr(box, part)[closure.tolist().index(document)].tolist()
        return [0.0 if self.base is None else 1.0] * width

    def _code(
        self, words: list[str], document: int, kind: int, first: int, second: int, column: int
    ) -> int:
        if kind == 2:
            return int(self.model.document_codes[document, column])
        if kind == 0:
            zero = int(self.model.term_zeros[column])
            box = self.plain.get(("word", words[first])) if first < len(words) else None
            held = self.closures[int(words[first][1:]) // 2].tolist() if box is not None else []
        else:
            zero = int(self.model.pair_zeros[column])
            both = words[first : first + 1] + words[second : second + 1]
            box = self.plain.get(("pair", box_name(*sorted(both)))) if len(both) == 2 else None
            held = box.documents.tolist() if box is not None else []
            if len(both) == 2 and both[0] > both[1]:
                column = TURNED[column]
        return int(box.codes[held.index(document), column]) if document in held else zero


def _walk(forest: PrivateForest, codes: list[int]) -> float:
    total = 0.0
    for root in forest.roots.tolist():
        node = root
        while node >= 0:
            goes_left = codes[forest.columns[node]] <= forest.codes[node]
            node = int(forest.left[node] if goes_left else forest.right[node])
        total += float(forest.values[-1 - node])
    return total
