"""Word2Vec for each user (ESPRESSO, algorithm 1, part 1): a base model, tuned on what one may read.

The base model is trained on documents that everybody may read. Each user has a model of their own,
which starts from the base and is trained further on documents that this user may read, and on
nothing else; whoever calls `fine_tune` has asked for the rights before. Three forms:

``base``
    The base vectors as they are.
``paper``
    Algorithm 1: a new skip-gram model of the words that the user's documents hold at least five
    times; vectors of words that the base has are copied; five epochs. The vectors of contexts
    start from nothing, and words of the base that the user seldom reads are lost. The paper puts
    its failure at low access down to drift and overfitting, which it did not test.
``backed_off``
    The vectors of contexts are copied too, so that training begins where the base's ended. Each
    word of the base then goes only part of its way, n / (n + trust) for one that was read n times:
    a word read once hardly leaves its place, a frequent one follows the user's documents. Words
    that were not read keep the base's vector, and words new to the base get one from their first
    occurrence on.

A user's vectors are made of what the user may read, and tell of it. Whoever gets them gets the list
of words with their counts (``backed_off``: also of words read once; ``paper``: from five times on),
and sees by nearness which words stand together: a phrase of a document, a name beside an illness.
No noise is added and nothing is promised against somebody who has the file. So it belongs into the
user's own pod, for that user alone (`rights_of_vectors`); nothing here puts it there. When the
right to a document is taken back, the vectors still hold what was learnt of it, until they are made
anew; `WordVectors.basis` tells whether they are of the documents that may be read now.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError, MissingDependency
from cloister.core.ids import AgentId
from cloister.core.random import stream
from cloister.core.rights import Rights
from cloister.core.settings import Settings
from cloister.search.word_vector_table import WordVectors

__all__ = [
    "TUNING_FORMS",
    "SkipGramSettings",
    "TuningForm",
    "TuningSettings",
    "WordVectorSettings",
    "corpus_digest",
    "fine_tune",
    "rights_of_vectors",
    "train_base",
]

Vectors = NDArray[np.float32]
Words = Sequence[str]
TuningForm = Literal["base", "paper", "backed_off"]
TUNING_FORMS: Final[tuple[TuningForm, ...]] = get_args(TuningForm)
LONGEST: Final = 10_000  # words; of a longer text gensim leaves the rest out without a word


class SkipGramSettings(Settings):
    """What training a base and tuning it have in common.

    Parameters
    ----------
    window
        Words to each side that count as context; five in the paper.
    min_count
        Words seen less often get no vector; five in the paper. The form ``backed_off`` takes all.
    negative, learning_rate, subsample
        gensim's defaults, which the paper leaves as they are.
    """

    window: int = Field(default=5, ge=1)
    min_count: int = Field(default=5, ge=1)
    negative: int = Field(default=5, ge=1)
    learning_rate: float = Field(default=0.025, gt=0)
    subsample: float = Field(default=1e-3, ge=0)


class WordVectorSettings(SkipGramSettings):
    """How a base is trained.

    Parameters
    ----------
    size
        Numbers a vector has; 300 in the paper.
    epochs
        Passes over the public documents. These are few, and need more than the ten passes that
        the paper's listing has.
    """

    size: int = Field(default=300, ge=1)
    epochs: int = Field(default=40, ge=1)


class TuningSettings(SkipGramSettings):
    """How a user's vectors are made from the base.

    Parameters
    ----------
    form
        See the module.
    epochs
        Passes over the user's documents; five in the paper.
    trust
        Of the form ``backed_off``: a word of the base that was read so often goes half of its way.
    """

    form: TuningForm = "backed_off"
    epochs: int = Field(default=5, ge=1)
    trust: float = Field(default=1.0, ge=0)


def rights_of_vectors(user: AgentId) -> Rights:
    """Return who may read a user's vectors: that user, and nobody else."""
    return Rights(owner=user)


def corpus_digest(documents: Iterable[Words]) -> str:
    """Return 32 hexadecimal digits that stand for some documents in any order.

    Examples
    --------
    >>> corpus_digest([["a"], ["b"]]) == corpus_digest([["b"], ["a"]]) != corpus_digest([["a"]])
    True
    """
    parts = sorted(
        hashlib.blake2b("\0".join(words).encode(), digest_size=16).digest() for words in documents
    )
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def train_base(
    documents: Sequence[Words], settings: WordVectorSettings | None = None, *, seed: int = 1
) -> WordVectors:
    """Train the base on analysed documents that everybody may read.

    One seed gives the same vectors: gensim runs with one worker.
    """
    settings = settings or WordVectorSettings()
    model = _model(settings.size, settings, settings.min_count, seed)
    if not _build(model, documents):
        raise DataError(
            f"no word occurs {settings.min_count} times",
            where="documents of the base",
            remedy="give more documents, or lower min_count",
        )
    _train(model, documents, settings.epochs)
    return WordVectors(
        tuple(model.wv.index_to_key),
        np.array(model.wv.vectors, np.float32),
        np.array(model.wv.expandos["count"], np.int64),
        np.array(model.syn1neg, np.float32),
        corpus_digest(documents),
    )


def fine_tune(
    base: WordVectors,
    documents: Sequence[Words],
    settings: TuningSettings | None = None,
    *,
    seed: int = 1,
) -> WordVectors:
    """Make a user's vectors from the base and analysed documents that this user may read."""
    settings = settings or TuningSettings()
    counts = Counter(word for words in documents for word in words)
    basis = corpus_digest(documents)
    if settings.form == "base":
        seen = np.array([counts[word] for word in base.words], np.int64)
        return WordVectors(base.words, base.vectors, seen, basis=basis)
    backed_off = settings.form == "backed_off"
    if backed_off and base.contexts is None:
        raise DataError("the base has no vectors of contexts", where="base",
                        remedy="use what train_base returned")  # fmt: skip
    model = _model(base.size, settings, 1 if backed_off else settings.min_count, seed)
    if _build(model, documents):
        _copy(base, model, contexts=backed_off)
        _train(model, documents, settings.epochs)
    tuned = dict(zip(model.wv.index_to_key, model.wv.vectors, strict=True))
    if backed_off:
        _back_off(base, tuned, counts, settings.trust)
    words = tuple(tuned)
    vectors = np.array(list(tuned.values()), np.float32).reshape(len(words), base.size)
    seen = np.array([counts[word] for word in words], np.int64)
    return WordVectors(words, vectors, seen, basis=basis)


def _back_off(
    base: WordVectors, tuned: dict[str, Vectors], counts: Mapping[str, int], trust: float
) -> None:
    """Draw words towards the base the more, the less often they were read."""
    for place, word in enumerate(base.words):
        start = base.vectors[place]
        if word in tuned:
            share = np.float32(counts[word] / (counts[word] + trust))
            tuned[word] = start + share * (tuned[word] - start)
        else:
            tuned[word] = start


def _model(size: int, settings: SkipGramSettings, min_count: int, seed: int) -> Any:
    return _word2vec()(
        vector_size=size,
        window=settings.window,
        min_count=min_count,
        sg=1,
        negative=settings.negative,
        alpha=settings.learning_rate,
        min_alpha=min(1e-4, settings.learning_rate),
        sample=settings.subsample,
        workers=1,
        seed=int(stream(seed, "word vectors").integers(2**31)),
    )


def _build(model: Any, documents: Sequence[Words]) -> bool:
    """Collect the words; say whether there are any to train."""
    model.build_vocab(_pieces(documents))
    return len(model.wv) > 0


def _copy(base: WordVectors, model: Any, *, contexts: bool) -> None:
    """Start the words that the base has where it has them (algorithm 1, lines 12 to 16)."""
    for row, word in enumerate(model.wv.index_to_key):
        place = base.positions.get(word)
        if place is not None:
            model.wv.vectors[row] = base.vectors[place]
            if contexts and base.contexts is not None:
                model.syn1neg[row] = base.contexts[place]


def _train(model: Any, documents: Sequence[Words], epochs: int) -> None:
    model.train(_pieces(documents), total_examples=model.corpus_count, epochs=epochs)


def _pieces(documents: Sequence[Words]) -> list[list[str]]:
    """Cut long documents, of which gensim would read the beginning alone."""
    return [
        list(words[first : first + LONGEST])
        for words in documents
        for first in range(0, len(words), LONGEST)
    ]


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingDependency(
            "gensim is not installed", where="word vectors",
            remedy="pip install 'cloister[vectors]'",
        ) from None  # fmt: skip
    return Word2Vec
