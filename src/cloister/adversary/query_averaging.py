"""Repeated queries against fresh noise: the mean of many answers tells what one hides.

Each answer of a median with fresh noise costs epsilon again; nobody who leaves that uncounted has
a guarantee. Against an owner that answers a repeated query from memory the second answer is the
first, and averaging is of no use.
"""

from __future__ import annotations

import numpy as np

from cloister.adversary.distinguishing import laplace_log_ratio
from cloister.adversary.guesses import Guesses, guess_by_score
from cloister.adversary.sketch_targets import SketchTargets
from cloister.privacy.mechanisms import SimulatedNoise
from cloister.sketch.per_query_release import Asked, OwnerMedian

__all__ = ["median_membership"]

STEP = 2.0  # by which a token of the term moves the doubled median


def median_membership(
    targets: SketchTargets,
    policy: OwnerMedian,
    *,
    n_answers: int,
    remembered: bool = False,
    rng: np.random.Generator,
) -> Guesses:
    """Guess from medians taken by the owner whether one token of the term was added.

    Parameters
    ----------
    targets
        Trials in which all rows count: a token then moves the median by exactly 1.
    policy
        The owner's release.
    n_answers
        How often the same is asked.
    remembered
        Whether the owner repeats its first answer, or draws fresh noise for each.
    """
    source = SimulatedNoise(rng)
    now, known = _signed(targets, targets.counters), _signed(targets, targets.known)
    before = 2 * np.median(known.counters[0], axis=0)
    scale = policy.scale(sensitivity=2)
    scores = np.zeros(len(targets.added))
    answer = policy.noised(now, source)[0, 0]
    for number in range(n_answers):
        if number and not remembered:
            answer = policy.noised(now, source)[0, 0]
        if number == 0 or not remembered:  # an answer that comes again tells nothing new
            scores += laplace_log_ratio(answer - before, STEP, scale)
    return guess_by_score(scores, targets.added, rng=rng)


def _signed(targets: SketchTargets, counters: np.ndarray) -> Asked:
    """Return counters times signs, as if each trial's term had the sign + everywhere."""
    n_trials, n_rows = counters.shape
    signs = np.ones((1, n_rows), np.int8)
    signed = (counters * targets.shifts).T[None].copy()
    return Asked(np.arange(n_rows)[None], np.arange(n_trials), signed, signs)
