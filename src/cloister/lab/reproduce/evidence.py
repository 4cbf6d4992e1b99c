"""The runs of a figure, and what is estimated from them: differences with their intervals.

Runs of one collection, fold and seed make a pair. Intervals are Student's at 95 % over pairs: with
five pairs a bootstrap interval would be far too narrow. Folds share training queries, so pairs of
several folds are not independent, and true intervals are somewhat wider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.lab.reproduce.claim import Estimate
from cloister.lab.reproduce.quantity import Outcome, Quantity
from cloister.lab.reproduce.study import StudyOutcome
from cloister.measure.significance import paired_differences

__all__ = ["Evidence", "Sample", "gap_difference", "paired", "student_interval"]

Repeat = tuple[str, int, int]
Sample = dict[Repeat, float]

CONFIDENCE: Final = 0.95


class Evidence:
    """The outcomes of a figure's runs.

    Parameters
    ----------
    outcomes
        By part and system.
    """

    def __init__(
        self, outcomes: Mapping[tuple[str, str], Sequence[Outcome | StudyOutcome]]
    ) -> None:
        self._outcomes = outcomes

    def outcomes(
        self, part: str, system: str, click_model: str | None = None
    ) -> list[Outcome | StudyOutcome]:
        """Return a system's outcomes, under one click model if it is given."""
        return [
            outcome
            for outcome in self._outcomes.get((part, system), ())
            if click_model in (None, outcome.click_model)
        ]

    def runs(self, part: str, system: str, click_model: str | None = None) -> list[Outcome]:
        """Return those of a system's outcomes that are runs, with their curves."""
        found = self.outcomes(part, system, click_model)
        return [outcome for outcome in found if isinstance(outcome, Outcome)]

    def sample(
        self, part: str, system: str, quantity: Quantity, click_model: str | None = None
    ) -> Sample:
        """Return one number for each repetition."""
        return {
            outcome.repeat: quantity.of(outcome)
            for outcome in self.outcomes(part, system, click_model)
        }


def paired(system: Sample, baseline: Sample | None, names: tuple[str, str]) -> Estimate:
    """Return the mean difference of two systems over the repetitions that both have.

    Without a baseline it is the mean itself.

    Examples
    --------
    >>> better = {("", 1, 1): 0.75, ("", 1, 2): 0.5, ("", 1, 3): 0.75}
    >>> estimate = paired(better, {("", 1, 1): 0.5, ("", 1, 2): 0.5}, ("FPDGD", "FOLtR-ES"))
    >>> estimate.value, estimate.n, estimate.means
    (0.125, 2, {'FPDGD': 0.625, 'FOLtR-ES': 0.5})
    """
    both = sorted(system.keys() & (system if baseline is None else baseline).keys())
    values = np.array([system[repeat] for repeat in both])
    bases = np.zeros(len(both)) if baseline is None else np.array([baseline[r] for r in both])
    kept = ~(np.isnan(values) | np.isnan(bases))
    values, bases = values[kept], bases[kept]
    if not len(values):
        return Estimate(None, note="no run has come to an end")
    differences, _ = paired_differences(values, bases)
    means = {names[0]: float(values.mean())}
    if baseline is not None:
        means[names[1]] = float(bases.mean())
    low, high = student_interval(differences)
    return Estimate(float(differences.mean()), low, high, len(differences), means)


def student_interval(values: ArrayLike) -> tuple[float | None, float | None]:
    """Return Student's interval of a mean; nothing for fewer than two values.

    Examples
    --------
    >>> low, high = student_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    array = np.asarray(values, np.float64)
    if len(array) < 2:
        return None, None
    reach = _t(len(array) - 1) * float(array.std(ddof=1)) / len(array) ** 0.5
    mean = float(array.mean())
    return mean - reach, mean + reach


def gap_difference(
    one: tuple[Sample, Sample], other: tuple[Sample, Sample], names: tuple[str, str]
) -> Estimate:
    """Return how much larger one gap is than another, on other data; Welch's interval.

    A gap is the mean paired difference of two systems.
    """
    gaps = [_differences(*pair) for pair in (one, other)]
    if min(map(len, gaps)) < 2:
        return Estimate(None, note="fewer than two pairs of runs")
    means = [float(gap.mean()) for gap in gaps]
    errors = [float(gap.var(ddof=1)) / len(gap) for gap in gaps]
    total = sum(errors)
    freedom = min(map(len, gaps)) - 1.0
    if total > 0:  # Welch and Satterthwaite's degrees of freedom
        parts = (error**2 / (len(gap) - 1) for error, gap in zip(errors, gaps, strict=True))
        freedom = total**2 / sum(parts)
    reach = _t(freedom) * total**0.5
    value = means[0] - means[1]
    told = dict(zip(names, means, strict=True))
    return Estimate(value, value - reach, value + reach, min(map(len, gaps)), told)


def _differences(system: Sample, baseline: Sample) -> NDArray[np.float64]:
    both = sorted(system.keys() & baseline.keys())
    return paired_differences([system[r] for r in both], [baseline[r] for r in both])[0]


def _t(freedom: float) -> float:
    from scipy.special import stdtrit  # Student's quantile, without the 1.2 s of scipy.stats

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))
