"""The boxes of a private index: a closure at a time, then pairs.

For a closure: the soft kernel values of all of its words (or phrases) with all of its documents,
made coarse; the tree features of each word, coded; then the boxes of its members and its own. Pairs
are coded all at once and sealed in portions.

Stored levels are those of the values that `cloister.rank.c_knrm_star.DocumentKernels` gives, except
where a value lies within a relative 1e-4 of a power of the base: cosines of single precision are
rounded in another order here, and such a value may come to lie on the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.box_layout import ClosureBox, PairBox, PhraseBox, WordBox
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.closure_pairs import ClosurePairs
from cloister.cloud.feature_codes import FeatureCodes, feature_scale
from cloister.cloud.gram_vectors import document_grams, key_grams
from cloister.cloud.model_box import ModelBox
from cloister.cloud.pair_values import pair_values
from cloister.cloud.private_ranker import PrivateRanker
from cloister.cloud.ranking_keys import RankingKeys
from cloister.cloud.sealed_boxes import BoxSecret, BoxToken, box_name
from cloister.cloud.soft_match_map import ClosureKernels, gram_kernels
from cloister.cloud.term_closures import TermClosures
from cloister.index.analysis import TextAnalysis
from cloister.rank.document_priors import PRIOR_NAMES
from cloister.rank.kernel_pooling import GramTable
from cloister.rank.proximity_features import TermSequences
from cloister.rank.tree_features import TreeFeatures

__all__ = ["IndexBoxes"]

Integers = NDArray[np.int64]

VECTORS_AT_ONCE: Final = 1 << 18  # of kernel values: some 25 MB
PAIRS_AT_ONCE: Final = 4096  # sealed between two reports of progress


class IndexBoxes:
    """Makes the boxes of one index, step by step.

    Parameters
    ----------
    ranker, texts, priors, keys
        See `cloister.cloud.index_building.build_private_index`.
    boxes
        Keys of a new index.
    numbers
        The secret number of each document.
    """

    def __init__(
        self,
        ranker: PrivateRanker,
        texts: TermSequences,
        priors: NDArray[np.float32] | None,
        keys: RankingKeys,
        boxes: BoxSecret,
        numbers: Integers,
    ) -> None:
        self._ranker, self._texts, self._keys, self._boxes = ranker, texts, keys, boxes
        self._priors = priors
        self._numbers = numbers
        self._features: TreeFeatures | None = None
        self._codes: FeatureCodes | None = None
        settings = ranker.settings.features
        if settings is not None and ranker.forests is not None:
            one_place = settings.model_copy(update={"n_positions": 1})
            self._features = TreeFeatures(texts, priors, one_place)
            self._codes = FeatureCodes(boxes.tree_secret, ranker.forests, settings)

    @property
    def n_steps(self) -> int:
        """How many steps there are: the model, each closure, and pairs in portions."""
        n_closures = self._keys.word_closures.n_closures + self._keys.phrase_closures.n_closures
        return 1 + n_closures + len(self._pair_portions)

    def steps(self) -> Iterator[dict[bytes, bytes]]:
        """Yield the sealed boxes of each step, by label."""
        yield dict([self._sealed(self._boxes.token("model"), self._model().encode())])
        documents = [self._texts.document(d) for d in range(self._texts.n_documents)]
        words, pairs = (document_grams(self._ranker.neural, documents, n) for n in (1, 2))
        yield from self._word_steps(words, pairs)
        yield from self._phrase_steps(words)
        yield from self._pair_steps()

    def dictionary(self, secret: bytes, analysis: TextAnalysis) -> ClientDictionary:
        """Return what the client keeps."""
        forests = self._ranker.forests
        return ClientDictionary.of_keys(
            self._keys,
            self._texts.counts.document_frequencies(self._keys.words),
            (secret, self._boxes.index_id),
            analysis,
            self._ranker.settings.features,
            0 if forests is None else forests.longest,
            with_pairs=bool(self._pair_portions),
        )

    def _sealed(self, token: BoxToken, content: bytes) -> tuple[bytes, bytes]:
        return token.label, self._boxes.seal(token, content)

    def _model(self) -> ModelBox:
        layer, n_documents = self._ranker.layer, self._texts.n_documents
        plain = (layer.weights, layer.bias, self._ranker.settings.obfuscation.base, n_documents)
        if self._codes is None:
            return ModelBox(*plain)
        of_documents = {}
        if self._priors is not None:
            rows = self._priors[np.argsort(self._numbers)]
            of_documents = {f"prior.{n}": rows[:, i] for i, n in enumerate(PRIOR_NAMES)}
        codes = self._codes.document_codes(of_documents)
        return ModelBox(
            *plain,
            self._codes.private_forests(),
            self._codes.forest_of_length,
            self._codes.term_zeros,
            self._codes.pair_zeros,
            self._codes.pair_turned,
            codes if codes.shape[1] else np.empty((n_documents, 0), np.int64),
        )

    def _word_steps(self, words: GramTable, pairs: GramTable) -> Iterator[dict[bytes, bytes]]:
        names = self._keys.words
        keys = key_grams(self._ranker.neural, [(word,) for word in names])
        kernels = [gram_kernels(keys, words), gram_kernels(keys, pairs)]

        def contents(part: _Closure) -> Iterator[tuple[str, bytes]]:
            rows = zip(self._levels(kernels, part), self._term_codes(part), strict=True)
            for word, (levels, codes) in zip(part.members.tolist(), rows, strict=True):
                yield names[word], WordBox(part.token, levels, codes).encode()

        closures = self._keys.word_closures, self._keys.word_documents
        return self._closure_steps("word", *closures, contents)

    def _phrase_steps(self, words: GramTable) -> Iterator[dict[bytes, bytes]]:
        phrases = self._keys.phrases
        kernels = [gram_kernels(key_grams(self._ranker.neural, phrases), words)]

        def contents(part: _Closure) -> Iterator[tuple[str, bytes]]:
            rows = self._levels(kernels, part)
            for phrase, levels in zip(part.members.tolist(), rows, strict=True):
                yield box_name(*phrases[phrase]), PhraseBox(part.token, levels).encode()

        closures = self._keys.phrase_closures, self._keys.phrase_documents
        return self._closure_steps("phrase", *closures, contents)

    def _closure_steps(
        self,
        kind: Literal["word", "phrase"],
        closures: TermClosures,
        pairs: ClosurePairs,
        contents: Callable[[_Closure], Iterator[tuple[str, bytes]]],
    ) -> Iterator[dict[bytes, bytes]]:
        """Yield the boxes of each closure: its own, and those of its members."""
        for number in range(closures.n_closures):
            documents = pairs.of(number).astype(np.int64)
            renumbered = self._numbers[documents]
            order = np.argsort(renumbered)
            token = self._boxes.token("closure", box_name(kind, str(number)))
            box = ClosureBox(renumbered[order].astype(np.int32))
            made = dict([self._sealed(token, box.encode())])
            for part in _Closure(token, closures.members(number), documents[order]).portions():
                made.update(
                    self._sealed(self._boxes.token(kind, name), content)
                    for name, content in contents(part)
                )
            yield made

    def _levels(self, kernels: Sequence[ClosureKernels], closure: _Closure) -> NDArray[Any]:
        """Return [member, document, kernel], as stored."""
        found = [made(closure.members, closure.documents) for made in kernels]
        return self._ranker.settings.obfuscation.stored(np.concatenate(found, axis=2))

    def _term_codes(self, closure: _Closure) -> Integers:
        """Return [member, document, column]: codes of each word's features."""
        n_members, n_documents = len(closure.members), len(closure.documents)
        if self._codes is None or self._features is None:
            return np.empty((n_members, n_documents, 0), np.int64)
        words = [self._keys.words[word] for word in closure.members.tolist()]
        rows = np.concatenate([self._features.of([word], closure.documents) for word in words])
        names = [feature_scale(name) for name in self._features.names]
        codes = self._codes.term_codes(dict(zip(names, rows.T, strict=True)))
        return codes.reshape(n_members, n_documents, -1)

    @property
    def _pair_portions(self) -> range:
        """Where each portion of pairs begins; none where no tree asks for a pair."""
        if self._codes is None or not self._codes.pair_columns:
            return range(0)
        return range(0, len(self._keys.pairs), PAIRS_AT_ONCE)

    def _pair_steps(self) -> Iterator[dict[bytes, bytes]]:
        if self._codes is None or not self._pair_portions:
            return
        found = pair_values(self._texts, self._keys)
        pairs = np.repeat(np.arange(len(self._keys.pairs)), np.diff(found.starts))
        renumbered = self._numbers[found.documents]
        order = np.lexsort((renumbered, pairs))
        documents = renumbered[order].astype(np.int32)
        codes = self._codes.pair_codes(found.values, found.turned)[order]
        other = self._label_order()[pairs]  # pairs are sorted: `order` leaves them as they are
        codes[other] = codes[other][:, self._codes.pair_turned]
        for first in self._pair_portions:
            made: dict[bytes, bytes] = {}
            for pair in range(first, min(first + PAIRS_AT_ONCE, len(self._keys.pairs))):
                rows = slice(found.starts[pair], found.starts[pair + 1])
                token = self._boxes.token("pair", box_name(*self._keys.pairs[pair]))
                content = PairBox(documents[rows], codes[rows]).encode()
                made.update([self._sealed(token, content)])
            yield made

    def _label_order(self) -> NDArray[np.bool_]:
        """Say of which pairs the box has the higher word first: by the labels of their boxes.

        A query tells whether it has a pair the other way round than its box. By name, that would
        tell which of the two words comes first in the alphabet.
        """
        labels = {word: self._boxes.token("word", word).label for word in self._keys.words}
        return np.array([labels[a] > labels[b] for a, b in self._keys.pairs], np.bool_)


class _Closure(NamedTuple):
    """A closure's token, its members, its documents in the order of their secret numbers."""

    token: BoxToken
    members: Integers
    documents: Integers

    def portions(self) -> Iterator[_Closure]:
        """Yield the closure with some of its members at a time: a large one takes much memory."""
        n_each = max(1, VECTORS_AT_ONCE // max(1, len(self.documents)))
        for first in range(0, len(self.members), n_each):
            yield self._replace(members=self.members[first : first + n_each])
