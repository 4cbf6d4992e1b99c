"""Neural rankers of texts: what K-NRM, Conv-KNRM, C-KNRM* and DRMM have in common.

A model says which parameters there are and how torch computes scores from them; it holds none
itself. A `NeuralRanker` is a model with its parameters, kept as NumPy arrays, and the embedding. So
rankers can be made, saved and looked at without torch (extra ``neural``); it is loaded when
something is scored or trained. First weights come from NumPy streams, not from torch's
global state.

Parameters and a trained embedding tell of the queries, documents and judgements that they were
learnt from. Nothing here protects them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, MissingDependency
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.rank.embedding import Embedding
from cloister.rank.neural_batches import JudgedTexts, NumberedTexts, TextBatch

__all__ = ["NeuralModel", "NeuralRanker", "TextRanker", "load_torch", "tensors_of", "uniform"]

Floats = NDArray[np.float32]
Parameters = Mapping[str, Floats]
Tensor = Any  # torch.Tensor, which is not imported here
Tensors = Mapping[str, Tensor]

VECTORS: Final = "vectors"  # the name of the word vectors among tensors
_BATCH_CELLS: Final = 200_000  # pairs of words compared at once


class TextRanker(Protocol):
    """Whatever scores documents for a query, both given as words."""

    def score(
        self, query_terms: Sequence[str], documents: Sequence[Sequence[str]]
    ) -> NDArray[np.floating[Any]]:
        """Return a score for each document; higher is better."""


class NeuralModel(Protocol):
    """What a kind of neural ranker is made of."""

    @property
    def settings(self) -> Settings:
        """Its settings."""

    @property
    def kind(self) -> str:
        """Its name in files."""

    @property
    def n_extra(self) -> int:
        """Further features that it takes for each pair."""

    def constant(self, name: str) -> bool:
        """Say whether training leaves a parameter as it is; ``vectors`` are the word vectors."""

    def initial(self, embedding: Embedding, rng: np.random.Generator) -> dict[str, Floats]:
        """Return the parameters of an untrained ranker; word vectors are not among them."""

    def scores(self, tensors: Tensors, batch: TextBatch) -> Tensor:
        """Return the score of each pair. ``tensors`` has the parameters, and ``vectors``."""


@dataclass(frozen=True, eq=False)
class NeuralRanker:
    """A model with its parameters and word vectors; a `TextRanker`.

    Raises
    ------
    DataError
        If the parameters are not those that the model has, or not finite.
    """

    model: NeuralModel
    embedding: Embedding = field(repr=False)
    parameters: Parameters = field(repr=False)

    def __post_init__(self) -> None:
        expected = self.model.initial(self.embedding, stream(0, "shapes"))
        given = {
            name: np.ascontiguousarray(value, np.float32) for name, value in self.parameters.items()
        }
        if {k: v.shape for k, v in given.items()} != {k: v.shape for k, v in expected.items()}:
            raise DataError(
                "the parameters are not those of the model", where=f"NeuralRanker {self.model.kind}"
            )
        if not all(np.isfinite(value).all() for value in given.values()):
            raise DataError(
                "a parameter is not finite",
                where=f"NeuralRanker {self.model.kind}",
                remedy="train again, with a smaller learning rate",
            )
        object.__setattr__(self, "parameters", given)

    @classmethod
    def initial(cls, model: NeuralModel, embedding: Embedding, *, seed: int = 0) -> NeuralRanker:
        """Return an untrained ranker."""
        rng = stream(seed, "neural ranker", model.kind)
        return cls(model, embedding, model.initial(embedding, rng))

    def score(
        self,
        query_terms: Sequence[str],
        documents: Sequence[Sequence[str]],
        extra: NDArray[Any] | None = None,
    ) -> Floats:
        """Return a score for each document.

        Parameters
        ----------
        query_terms, documents
            Analysed texts.
        extra
            Further features, a row a document, for a model that takes them.
        """
        n = len(documents)
        texts = JudgedTexts(
            [query_terms],
            documents,
            np.arange(n),
            np.zeros(n, np.int8),
            np.array([0, n]),
            np.zeros((n, 0), np.float32) if extra is None else np.asarray(extra, np.float32),
        )
        return self.score_rows(texts)

    def score_rows(self, texts: JudgedTexts) -> Floats:
        """Return a score for each row of judged texts; the grades are not looked at."""
        require_extra(self.model, texts)
        return score_numbered(self.model, tensors_of(self), NumberedTexts(texts, self.embedding))


def score_numbered(model: NeuralModel, tensors: Tensors, numbered: NumberedTexts) -> Floats:
    """Return a score for each row of texts whose words are numbered."""
    torch = load_torch()
    found = np.zeros(numbered.texts.n_rows, np.float32)
    with torch.inference_mode(), torch_threads(1):  # the kernels, which take longest, have one
        for rows, batch in numbered.all_batches(_BATCH_CELLS):
            found[rows] = model.scores(tensors, batch).numpy()
    return found


def require_extra(model: NeuralModel, texts: JudgedTexts) -> None:
    """Refuse texts that have other further features than the model takes."""
    if texts.n_extra != model.n_extra:
        raise DataError(
            f"{model.n_extra} further features are needed (given: {texts.n_extra})", where="extra"
        )


def tensors_of(ranker: NeuralRanker) -> dict[str, Tensor]:
    """Return copies of all parameters and of the word vectors as tensors.

    Row 0 of ``vectors`` is zero: it stands for words without a vector.
    """
    torch = load_torch()
    tensors = {name: torch.tensor(value) for name, value in ranker.parameters.items()}
    vectors = np.zeros((len(ranker.embedding) + 1, ranker.embedding.size), np.float32)
    vectors[1:] = ranker.embedding.vectors
    tensors[VECTORS] = torch.from_numpy(vectors)
    return tensors


def uniform(rng: np.random.Generator, n_inputs: int, *shape: int) -> Floats:
    """Return first weights, uniform within +-1 / sqrt(n_inputs).

    Examples
    --------
    >>> bool((abs(uniform(np.random.default_rng(0), 4, 10)) <= 0.5).all())
    True
    """
    bound = 1 / np.sqrt(n_inputs)
    return rng.uniform(-bound, bound, shape).astype(np.float32)


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Let torch use so many threads for a while.

    Compiled kernels that run on all threads raise torch's number too, so that this is to be said
    after them. With more threads than cores to spare, small steps take many times longer.
    """
    torch = load_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def load_torch() -> Any:
    """Import torch, or say how to get it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingDependency(
            "the package torch is not installed",
            where="neural ranker",
            remedy="pip install 'cloister[neural]'",
        ) from None
