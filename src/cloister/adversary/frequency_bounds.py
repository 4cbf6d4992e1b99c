"""What can be guessed of term frequencies without any vector, and what from one vector at most."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.frequency_readers import frequency_table
from cloister.adversary.inferred_clicks import area_under_curve
from cloister.adversary.kernel_scene import KernelDesign, KernelScene
from cloister.cloud.kernel_obfuscation import TermFrequencyGuess, bayes_success

__all__ = ["FrequencyBounds", "frequency_bounds"]

Integers = NDArray[np.int64]


class FrequencyBounds(NamedTuple):
    """What can be guessed without a vector, and what from a vector alone, on the attacked rows.

    Parameters
    ----------
    prior, prior_told
        Share of right guesses that always name the commonest frequency; of the rows that occur, by
        one who is told that they do.
    bayes, bayes_told
        The same for the best guess for each vector, learnt on the known documents.
    ceiling, ceiling_told
        The same learnt on the attacked rows themselves: no rule on the vector alone does better.
    prior_error
        Mean absolute error of always naming the median.
    ceiling_auc
        Of telling words that occur from those that do not; highest for rules on the vector alone.
    label, label_auc
        Share of right guesses, and AUC, from how often the same label occurs in the known
        documents. No value is looked at.
    """

    prior: float
    prior_told: float
    bayes: float
    bayes_told: float
    ceiling: float
    ceiling_told: float
    prior_error: float
    ceiling_auc: float
    label: float
    label_auc: float


def frequency_bounds(scene: KernelScene, design: KernelDesign) -> FrequencyBounds:
    """Return what the prior and the Bayes-optimal guesses reach on the attacked rows."""
    stored, known, truth = scene.stored(design), scene.known, scene.frequencies
    learnt, attacked = (stored[known], truth[known]), (stored[~known], truth[~known])
    told_learnt, told = _occurring(*learnt), _occurring(*attacked)
    ceiling = frequency_table(*attacked, attacked[0], doubt=0.0)
    labels = scene.words[:, None]
    by_label = frequency_table(labels[known], truth[known], labels[~known])
    return FrequencyBounds(
        prior=_right_share(_commonest(learnt[1]), attacked[1]),
        prior_told=_right_share(_commonest(told_learnt[1]), told[1]),
        bayes=_right_share(TermFrequencyGuess.learnt(*learnt).guess(attacked[0]), attacked[1]),
        bayes_told=_right_share(TermFrequencyGuess.learnt(*told_learnt).guess(told[0]), told[1]),
        ceiling=bayes_success(*attacked),
        ceiling_told=bayes_success(*told),
        prior_error=float(np.abs(attacked[1] - np.median(learnt[1])).mean()),
        ceiling_auc=area_under_curve(ceiling.occurrence, attacked[1] > 0),
        label=_right_share(by_label.likeliest, attacked[1]),
        label_auc=area_under_curve(by_label.occurrence, attacked[1] > 0),
    )


def _occurring(stored: NDArray[Any], frequencies: Integers) -> tuple[NDArray[Any], Integers]:
    return stored[frequencies > 0], frequencies[frequencies > 0]


def _commonest(frequencies: Integers) -> int:
    return int(np.bincount(frequencies).argmax())


def _right_share(guess: Integers | int, truth: Integers) -> float:
    return float(np.asarray(guess == truth).mean())
