"""Training of neural rankers: the pairwise hinge, Adam, early stopping.

In each pass, pairs of a better and a worse document are drawn of every query; the loss of a pair is
max(0, 1 - (score of the better - score of the worse)), the mean over a batch is minimised by Adam.
Word vectors, where they are trained, move only in steps whose texts hold their words (lazy Adam).
After a pass the validation queries are ranked; the weights with the best nDCG@10 there are kept.

The same data, settings and seed give the same weights with one version of torch, on one kind of
processor and one number of threads. Nothing is drawn from torch's global random state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.measure.mean import mean
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_ranker import draw_pairs
from cloister.rank.neural_batches import JudgedTexts, NumberedTexts, Numbers
from cloister.rank.neural_ranker import (
    VECTORS,
    NeuralModel,
    NeuralRanker,
    Tensor,
    load_torch,
    require_extra,
    score_numbered,
    tensors_of,
    torch_threads,
)

__all__ = ["FittedNeural", "NeuralTraining", "TrainingPass", "fit_neural", "validation_ndcg"]

LAYER: Final = ("weights", "bias")  # parameters of the last layer of kernel models


class NeuralTraining(Settings):
    """How a neural ranker is trained.

    Parameters
    ----------
    learning_rate
        Of Adam; 0.001 in the papers.
    layer_rate
        The last layer of a kernel model learns so many times faster. Its features are small
        (0.01 ln K), so that its weights have a long way to go: with one rate, filters fit the
        training queries before the layer has left its random beginning.
    n_epochs
        Passes over the queries, at most.
    pairs_per_query
        Pairs of documents drawn of each query in a pass, at most.
    batch_pairs
        Pairs of a step.
    margin
        Of the hinge. Scores lie within -1 to 1.
    patience
        With a validation set: stop after so many passes without a better nDCG@10 there.
    max_document_terms
        Longer documents are cut while training; scores are always of whole documents.
    n_threads
        Threads of torch while training.
    """

    learning_rate: float = Field(default=1e-3, gt=0)
    layer_rate: float = Field(default=1.0, gt=0)
    n_epochs: int = Field(default=20, ge=1)
    pairs_per_query: int = Field(default=20, ge=1)
    batch_pairs: int = Field(default=16, ge=1)
    margin: float = Field(default=1.0, gt=0)
    patience: int = Field(default=3, ge=1)
    max_document_terms: int = Field(default=1000, ge=1)
    n_threads: int = Field(default=1, ge=1)


class TrainingPass(NamedTuple):
    """What one pass came to; the number counts from 1, ``ndcg`` is NaN without a validation set."""

    number: int
    loss: float
    ndcg: float
    seconds: float


class FittedNeural(NamedTuple):
    """A trained ranker, the passes that were run, and the number of the one it is from."""

    ranker: NeuralRanker
    passes: tuple[TrainingPass, ...]
    best: int


def fit_neural(
    start: NeuralRanker,
    train: JudgedTexts,
    settings: NeuralTraining | None = None,
    *,
    seed: int = 0,
    validation: JudgedTexts | None = None,
    progress: Callable[[TrainingPass], None] | None = None,
) -> FittedNeural:
    """Train a ranker further.

    Parameters
    ----------
    start
        Where training begins: `NeuralRanker.initial`, or a trained one.
    train
        Queries with graded candidates.
    settings
        How it is trained.
    seed
        For the pairs and their order.
    validation
        Decides which pass is kept; the last one where not given, or where nothing in it is
        relevant.
    progress
        Told of each pass when it is done.

    Raises
    ------
    DataError
        If no query has candidates of different grades, or the steps were too large.
    MissingDependency
        If torch is not installed.
    """
    settings = settings or NeuralTraining()
    for texts in (train, validation):
        if texts is not None:
            require_extra(start.model, texts)
    if validation is not None and not (validation.labels > 0).any():
        validation = None  # it has no nDCG
    tensors = tensors_of(start)
    optimizers = _optimizers(tensors, start.model, settings)
    numbered = NumberedTexts(train, start.embedding, max_terms=settings.max_document_terms)
    checked = None if validation is None else NumberedTexts(validation, start.embedding)
    ranker, best, passes = start, 0, []
    for number in range(1, settings.n_epochs + 1):
        begin = time.perf_counter()
        rng = stream(seed, "neural training", number)
        pairs = draw_pairs(train.labels, train.offsets, settings.pairs_per_query, rng)
        with torch_threads(settings.n_threads):
            loss = _run_pass(start.model, tensors, optimizers, numbered, pairs, settings)
        now = _ranker_of(start, tensors)
        found = float("nan") if checked is None else _ndcg(now, checked)
        passes.append(TrainingPass(number, loss, found, time.perf_counter() - begin))
        if progress is not None:
            progress(passes[-1])
        if validation is None or not best or found > passes[best - 1].ndcg:
            ranker, best = now, number
        if number - best >= settings.patience:
            break
    return FittedNeural(ranker, tuple(passes), best)


def validation_ndcg(ranker: NeuralRanker, texts: JudgedTexts) -> float:
    """Return the mean nDCG@10 over the queries that have a relevant candidate."""
    return _ndcg(ranker, NumberedTexts(texts, ranker.embedding))


def _ndcg(ranker: NeuralRanker, numbered: NumberedTexts) -> float:
    texts = numbered.texts
    scores = score_numbered(ranker.model, tensors_of(ranker), numbered)
    return mean(ndcg(rank_labels(scores, texts.labels, texts.offsets, depth=10), k=10))


def _optimizers(
    tensors: Mapping[str, Tensor], model: NeuralModel, settings: NeuralTraining
) -> list[Tensor]:
    """Return Adam for what is learnt; word vectors, if learnt, have one of their own."""
    torch = load_torch()
    rate = settings.learning_rate
    learnt = [name for name in sorted(tensors) if not model.constant(name)]
    for name in learnt:
        tensors[name].requires_grad_(True)
    groups = [
        {"params": [tensors[name]], "lr": rate * (settings.layer_rate if name in LAYER else 1.0)}
        for name in learnt
        if name != VECTORS
    ]
    found = [torch.optim.Adam(groups, fused=True)]
    if VECTORS in learnt:
        found.append(torch.optim.SparseAdam([tensors[VECTORS]], lr=rate))
    return found


def _run_pass(
    model: NeuralModel,
    tensors: Mapping[str, Tensor],
    optimizers: list[Tensor],
    numbered: NumberedTexts,
    pairs: Numbers,
    settings: NeuralTraining,
) -> float:
    """Take a step for each batch of pairs; return the mean loss of a pair."""
    total = 0.0
    for first in range(0, len(pairs), settings.batch_pairs):
        batch = pairs[first : first + settings.batch_pairs]
        scores = model.scores(tensors, numbered.batch(batch.T.reshape(-1)))
        ahead = scores[: len(batch)] - scores[len(batch) :]
        loss = (settings.margin - ahead).clamp(min=0).mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        total += float(loss.detach()) * len(batch)
    return total / len(pairs)


def _ranker_of(start: NeuralRanker, tensors: Mapping[str, Tensor]) -> NeuralRanker:
    """Copy what was learnt so far; word vectors are brought back to the length 1."""
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}
    vectors = arrays.pop(VECTORS)
    embedding = start.embedding
    if not start.model.constant(VECTORS):
        if not np.isfinite(vectors).all():
            raise DataError(
                "a word vector is not finite",
                where="fit_neural",
                remedy="train again, with a smaller learning rate",
            )
        embedding = Embedding(embedding.words, vectors[1:])
    return replace(start, embedding=embedding, parameters=arrays)
