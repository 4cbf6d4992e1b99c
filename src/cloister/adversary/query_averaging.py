"""Repeated queries for a median: the mean of many answers tells what one hides, if noise is fresh.

Each answer with fresh noise costs epsilon again; nobody who leaves that uncounted has a guarantee.
An owner that answers a repeated query from memory sends the first answer again, and averaging is
of no use. That is tried on a whole `DocumentOwner`, with its ledger.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cloister.adversary.distinguishing import laplace_log_ratio
from cloister.adversary.guesses import Guesses, guess_by_score, laplace_accuracy
from cloister.adversary.sketch_membership import with_tokens
from cloister.adversary.sketch_targets import SketchTargets
from cloister.index.term_counts import TermCounts
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.mechanisms import SimulatedNoise
from cloister.sketch.document_owner import DocumentOwner, exact_sketches
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.per_query_release import Asked, OwnerMedian
from cloister.sketch.tf_messages import TfAnswer
from cloister.sketch.tf_query import Querier

__all__ = ["median_accuracy", "median_membership", "repeated_query_membership"]

STEP: Final = 2  # by which a token of the term moves the doubled median
QUERIER: Final = "querier"


def median_accuracy(policy: OwnerMedian, *, n_answers: int = 1) -> float:
    """Return how often the best guess from so many answers is right, each with fresh noise.

    Examples
    --------
    >>> round(median_accuracy(OwnerMedian(epsilon=0.5)), 3)
    0.611
    """
    return laplace_accuracy(policy.scale(sensitivity=STEP), shift=STEP, n_values=n_answers)


def median_membership(
    targets: SketchTargets, policy: OwnerMedian, *, n_answers: int, rng: np.random.Generator
) -> Guesses:
    """Guess from medians with fresh noise whether one token of the term was added.

    Parameters
    ----------
    targets
        Trials in which all rows count: a token then moves the median by exactly 1.
    policy
        The owner's release.
    n_answers
        How often the same is asked.
    """
    source = SimulatedNoise(rng)
    now, known = _signed(targets, targets.counters), _signed(targets, targets.known)
    before = 2 * np.median(known.counters[0], axis=0)
    scale = policy.scale(sensitivity=STEP)
    scores = np.zeros(len(targets.added))
    for _ in range(n_answers):
        scores += laplace_log_ratio(policy.noised(now, source)[0, 0] - before, STEP, scale)
    return guess_by_score(scores, targets.added, rng=rng)


def _signed(targets: SketchTargets, counters: np.ndarray) -> Asked:
    """Return counters times signs, as if each trial's term had the sign + everywhere."""
    n_trials, n_rows = counters.shape
    signs = np.ones((1, n_rows), np.int8)
    signed = (counters * targets.shifts).T[None].copy()
    return Asked(np.arange(n_rows)[None], np.arange(n_trials), signed, signs)


def repeated_query_membership(
    counts: TermCounts,
    key: HashKey,
    shape: SketchShape,
    policy: OwnerMedian,
    ledger: Ledger,
    *,
    n_trials: int,
    n_answers: int,
    rng: np.random.Generator,
) -> Guesses:
    """Ask a `DocumentOwner` the same again and again, and guess from all that it answers.

    Every document is a trial: it has one token of the term more, or not. One query asks for all.
    The adversary adds up the likelihood ratios of all answers, whether they differ or not.

    Parameters
    ----------
    counts, key, shape
        Trials are documents drawn from the collection; the term is drawn too.
    policy, ledger
        Of the owner.
    n_answers
        How often the same is asked.
    """
    term = int(rng.integers(counts.n_terms))
    documents = counts.select(rng.integers(counts.n_documents, size=n_trials))
    added = rng.integers(2, size=n_trials).astype(np.bool_)
    owner = DocumentOwner(
        "owner",
        with_tokens(documents, np.full(n_trials, term), added),
        key,
        shape,
        policy=policy,
        ledger=ledger,
        queriers=[QUERIER],
        source=SimulatedNoise(rng),
    )
    querier = Querier(key, shape, rng=rng)
    query = querier.ask([counts.vocabulary[term]], open_rows=True).to_bytes()
    hashed = key.hash_terms([counts.vocabulary[term]], shape)
    cells = exact_sketches(documents, key, shape)[np.arange(shape.n_rows), hashed.columns[0]]
    before = 2 * np.median(hashed.signs[0][:, None] * cells.astype(np.int64), axis=0)
    scores = np.zeros(n_trials)
    for _ in range(n_answers):
        seen = TfAnswer.from_bytes(owner.answer(query, querier=QUERIER)).counters[0, 0]
        scores += laplace_log_ratio(seen - before, STEP, policy.scale(sensitivity=STEP))
    return guess_by_score(scores, added, rng=rng)
