"""Attacks on CS-F-LTR's counters that share one noise value: membership, and cancelling the noise.

The adversary is the querier, or whoever sees its answer. It takes what it knows of the document
off the counters. Rows of which it knows everything are then equal: they all show the one noise
value, and where the token was added, that value plus the token's sign. Which of the two hypotheses
makes the rows agree better is the guess. Rows with tokens that the adversary does not know stand
apart and are outvoted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.distinguishing import laplace_log_ratio, normal_log_ratio
from cloister.adversary.guesses import (
    Guesses,
    guess_by_score,
    laplace_accuracy,
    normal_accuracy,
)
from cloister.adversary.sketch_targets import SketchTargets
from cloister.core.kernel import kernel
from cloister.index.term_counts import TermCounts
from cloister.privacy.mechanisms import NoiseSource, SimulatedNoise
from cloister.sketch.document_owner import exact_sketches
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.medians import column_medians
from cloister.sketch.paper_shared_noise import PaperSharedNoise
from cloister.sketch.per_query_release import IndependentNoise, ReleasePolicy

__all__ = [
    "EstimateErrors",
    "independent_noise_accuracy",
    "independent_noise_membership",
    "shared_noise_membership",
    "sign_splitting",
]

Floats = NDArray[np.float64]

CLEAN: Final = 0.6  # share of rows in which the adversary takes itself to know everything
FALL: Final = 0.67  # of the chances of larger and larger unknown counts in the others
FARTHEST: Final = 20  # distances beyond count as this one


def shared_noise_membership(
    targets: SketchTargets, epsilon: float, *, rng: np.random.Generator
) -> Guesses:
    """Tell from one answer with the printed noise whether a document has one more token."""
    answers = _answers(targets, PaperSharedNoise(epsilon=epsilon), SimulatedNoise(rng))
    rest = answers - targets.known
    # All counters are whole numbers plus the one noise value: differences are whole numbers.
    without = np.rint(rest - rest[:, :1]).astype(np.int64)
    weights = _log_chances()
    scores = _best_fit(without - targets.shifts, weights) - _best_fit(without, weights)
    return guess_by_score(scores, targets.added, rng=rng)


def independent_noise_membership(
    targets: SketchTargets, noise: IndependentNoise, *, n_answers: int = 1, rng: np.random.Generator
) -> Guesses:
    """Guess by the likelihood ratio of answers with independent noise, each drawn afresh."""
    source = SimulatedNoise(rng)
    ratio = laplace_log_ratio if noise.noise == "laplace" else normal_log_ratio
    scores = np.zeros(len(targets.added))
    for _ in range(n_answers):
        seen = (_answers(targets, noise, source) - targets.known) * targets.shifts
        scores += (ratio(seen, 1.0, noise.width) * (targets.shifts != 0)).sum(1)
    return guess_by_score(scores, targets.added, rng=rng)


def independent_noise_accuracy(
    noise: IndependentNoise, *, n_rows: int, n_answers: int = 1
) -> float:
    """Return how often `independent_noise_membership` is right where all rows count.

    Examples
    --------
    >>> noise = IndependentNoise(noise="gaussian", width=5.0)
    >>> round(independent_noise_accuracy(noise, n_rows=25), 4)  # Phi(1/2)
    0.6915
    """
    n_values = n_rows * n_answers
    if noise.noise == "laplace":
        return laplace_accuracy(noise.width, n_values=n_values)
    return normal_accuracy(n_values**0.5 / noise.width)


def _answers(targets: SketchTargets, policy: ReleasePolicy, source: NoiseSource) -> Floats:
    return np.asarray(policy.noised(targets.asked(), source)[0].T, np.float64)


@kernel
def _best_fit(values: NDArray[np.int64], weights: Floats) -> Floats:
    """Return how well one noise value fits each row of numbers, at best.

    ``weights`` are the log chances that a number stands so far from the noise value.
    """
    n, n_rows = values.shape
    best = np.full(n, -np.inf)
    for trial in range(n):
        for row in range(n_rows):
            fit = 0.0
            for other in range(n_rows):
                apart = abs(values[trial, other] - values[trial, row])
                fit += weights[min(apart, len(weights) - 1)]
            best[trial] = max(best[trial], fit)
    return best


def _log_chances() -> Floats:
    """Return the log chances of distances: none in known rows, falling by a third in others."""
    apart = np.arange(FARTHEST + 1)
    chances = (1 - CLEAN) * (1 - FALL) / (1 + FALL) * FALL**apart
    chances[0] += CLEAN
    return np.asarray(np.log(chances), np.float64)


class EstimateErrors(NamedTuple):
    """Mean absolute errors of estimated counts.

    Parameters
    ----------
    exact
        Of the sketch alone, without noise.
    printed
        Of eq. 6 with the sign, from the noisy counters.
    split
        With the noise cancelled: half of (median where the sign is +) less (median where it is -).
    noise
        Mean absolute noise value; no error, but what the others are to be compared with.
    noise_error
        Of the noise value as read off the answer: half of the sum of the same two medians.
    """

    exact: float
    printed: float
    split: float
    noise: float
    noise_error: float


def sign_splitting(
    counts: TermCounts,
    key: HashKey,
    shape: SketchShape,
    epsilon: float,
    *,
    n_trials: int,
    rng: np.random.Generator,
) -> EstimateErrors:
    """Estimate terms that documents hold, from counters with the printed noise."""
    entries = rng.integers(len(counts.terms), size=n_trials)
    documents = np.searchsorted(counts.starts, entries, side="right") - 1
    hashed = key.hash_terms([counts.vocabulary[counts.terms[i]] for i in entries], shape)
    rows = np.arange(shape.n_rows)
    cells = exact_sketches(counts, key, shape)[rows, hashed.columns, documents[:, None]]
    exact, truth = cells.astype(np.float64), counts.counts[entries].astype(np.float64)
    noise: Floats = rng.laplace(0.0, 1 / epsilon, (n_trials, 1))
    plus = _median_where(exact + noise, hashed.signs > 0)
    minus = _median_where(exact + noise, hashed.signs < 0)
    usable = np.isfinite(plus + minus)

    def error(estimates: Floats, wanted: Floats) -> float:
        return float(np.abs(estimates - wanted)[usable].mean())

    return EstimateErrors(
        exact=error(column_medians((exact * hashed.signs).T.copy()), truth),
        printed=error(column_medians(((exact + noise) * hashed.signs).T.copy()), truth),
        split=error((plus - minus) / 2, truth),
        noise=float(np.abs(noise).mean()),
        noise_error=error((plus + minus) / 2, noise[:, 0]),
    )


def _median_where(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Return the median of the chosen numbers of each row; NaN where there are none."""
    return np.array(
        [
            np.median(row[mask]) if mask.any() else np.nan
            for row, mask in zip(values, chosen, strict=True)
        ]
    )
