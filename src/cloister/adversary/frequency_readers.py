"""Readers of term frequencies from soft kernel values: in closed form, by a table, by trees.

Two need nothing but the definition of the kernels (`cloister.rank.kernel_pooling`):

- `kernel_at_09`: where exact matches are not masked, each occurrence adds exp(-0.5) to the kernel
  at 0.9, and soft matches add to it. So tf = floor(K / exp(-0.5)), at most.
- `kernel_sum`: the ten values of each other word add up to sqrt(pi / 2) = 1.253, nearly; those of
  an exact match to 0.618, or to 0 where it is masked. So tf = length - sum / 1.253 where they are
  masked, and about twice that where they are not.

Two learn from documents that the adversary knows: `frequency_table` counts which frequencies went
with a vector, and `fit_forest` fits LightGBM's trees (extra ``trees``) to any columns. They give a
`FrequencyPosterior`: how likely each frequency is.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError, MissingDependency
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.rank.kernel_pooling import KERNEL_MEANS, N_SOFT

__all__ = [
    "EXACT_AT_09",
    "SUM_OF_KERNELS",
    "AnchoredColumns",
    "FrequencyForestSettings",
    "FrequencyPosterior",
    "estimated_posterior",
    "fit_forest",
    "frequency_table",
    "kernel_at_09",
    "kernel_sum",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EXACT_AT_09: Final = math.exp(-0.5)  # what an exact match adds to the kernel at 0.9
EXACT_SUM: Final = float(np.exp(-(((1 - KERNEL_MEANS[:N_SOFT]) / 0.1) ** 2) / 2).sum())
SUM_OF_KERNELS: Final = math.sqrt(math.pi / 2)  # sqrt(2 pi) x width 0.1 / distance 0.2 of means
ROUNDING: Final = 1e-3  # of single precision: a value so little below a whole number is that one


@dataclass(frozen=True, eq=False)
class FrequencyPosterior:
    """How likely each frequency is, by row.

    Parameters
    ----------
    values
        The frequencies, rising.
    chances
        Rows x frequencies; each row adds up to 1.

    Examples
    --------
    >>> posterior = FrequencyPosterior(np.array([0, 1, 2]), np.array([[0.6, 0.1, 0.3]]))
    >>> posterior.likeliest.tolist(), posterior.likeliest_occurring.tolist()
    ([0], [2])
    >>> posterior.middle.tolist(), posterior.occurrence.tolist()
    ([0], [0.4])
    """

    values: Integers
    chances: Floats

    @property
    def likeliest(self) -> Integers:
        """The guess that is right most often; the lowest of equals."""
        return np.asarray(self.values[self.chances.argmax(axis=1)])

    @property
    def likeliest_occurring(self) -> Integers:
        """The same by one who is told that the word occurs."""
        there = self.values > 0
        return np.asarray(self.values[there][self.chances[:, there].argmax(axis=1)])

    @property
    def middle(self) -> Integers:
        """The guess with the smallest mean absolute error: the median."""
        below = np.cumsum(self.chances, axis=1)
        return np.asarray(self.values[(below >= 0.5 - 1e-12).argmax(axis=1)])

    @property
    def occurrence(self) -> Floats:
        """How likely it is that the word occurs."""
        return np.asarray(1.0 - self.chances[:, self.values == 0].sum(axis=1))


def kernel_at_09(stored: NDArray[Any]) -> Integers:
    """Read frequencies from plain values of the kernel at 0.9 that were not masked.

    Right unless soft matches add up to exp(-0.5); never too low.

    Examples
    --------
    >>> values = np.zeros((2, 10))
    >>> values[:, 9] = [2 * EXACT_AT_09, 3 * EXACT_AT_09 + 0.2]
    >>> kernel_at_09(values).tolist()
    [2, 3]
    """
    at = int(np.flatnonzero(np.isclose(KERNEL_MEANS, 0.9))[0])
    values = np.asarray(stored, np.float64)[:, at] / EXACT_AT_09
    return np.floor(values * (1 + ROUNDING) + ROUNDING).astype(np.int64)


def kernel_sum(stored: NDArray[Any], lengths: NDArray[Any], *, masked: bool = True) -> Floats:
    """Estimate frequencies from plain values and the document's length.

    Parameters
    ----------
    stored
        Soft kernel values of words with words, in the first ten columns.
    lengths
        Words of each row's document that have a vector, or an estimate of that. A word without a
        vector matches nothing; where all values are 0 the estimate is 0.
    masked
        Whether exact matches are left out of the values.

    Examples
    --------
    >>> values = np.full((1, 10), SUM_OF_KERNELS * 98 / 10)
    >>> kernel_sum(values, np.array([100])).round(6).tolist()
    [2.0]
    """
    sums = np.asarray(stored, np.float64)[:, :N_SOFT].sum(axis=1)
    missing = lengths - sums / SUM_OF_KERNELS
    if not masked:
        missing = missing / (1 - EXACT_SUM / SUM_OF_KERNELS)
    return np.where(sums > 0, np.maximum(missing, 0.0), 0.0)


def frequency_table(
    vectors: NDArray[Any], frequencies: Integers, asked: NDArray[Any], *, doubt: float = 1.0
) -> FrequencyPosterior:
    """Return how often each frequency went with a vector, for the vectors asked about.

    Parameters
    ----------
    vectors, frequencies
        What is known: rows and the frequency of each.
    asked
        Rows to guess.
    doubt
        So many rows of the frequencies of all are added to each vector's own. With 0, and the rows
        known asked about, no rule on vectors alone does better on these rows.

    Examples
    --------
    >>> known = np.array([[1], [1], [1], [2]])
    >>> found = frequency_table(known, np.array([0, 0, 3, 3]), np.array([[1], [9]]), doubt=0)
    >>> found.values.tolist(), found.chances.round(2).tolist()
    ([0, 3], [[0.67, 0.33], [0.5, 0.5]])
    """
    if not len(vectors) or vectors.shape[1:] != asked.shape[1:]:
        raise DataError("rows of one length are needed", where="frequency_table")
    both = np.concatenate([vectors, asked])
    which = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
    values, kind = np.unique(frequencies, return_inverse=True)
    counts = np.zeros((int(which.max()) + 1, len(values)))
    np.add.at(counts, (which[: len(vectors)], kind), 1.0)
    overall = counts.sum(axis=0) / len(vectors)
    counts += np.where(counts.any(axis=1, keepdims=True), doubt, 1.0) * overall
    chances = counts / counts.sum(axis=1, keepdims=True)
    return FrequencyPosterior(values, chances[which[len(vectors) :]])


def estimated_posterior(estimates: NDArray[Any], most: int) -> FrequencyPosterior:
    """Return an estimate as a posterior: sure of the nearest frequency, or of two by nearness.

    Examples
    --------
    >>> estimated_posterior(np.array([1.2]), 2).chances.round(2).tolist()
    [[0.0, 0.8, 0.2]]
    """
    values = np.arange(most + 1)
    near = np.clip(np.asarray(estimates, np.float64), 0, most)
    chances = np.maximum(1.0 - np.abs(near[:, None] - values), 0.0)
    return FrequencyPosterior(values, chances)


class FrequencyForestSettings(Settings):
    """How trees learn frequencies.

    Parameters
    ----------
    n_rounds
        Each adds one tree for each class.
    learning_rate, n_leaves, min_leaf_rows, l2
        Of LightGBM.
    n_rows
        Drawn from the known rows where there are more.
    min_class_rows
        A frequency (less the anchor) that fewer rows have is learnt as the nearest that has more.
    """

    n_rounds: int = Field(default=40, ge=1)
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    n_leaves: int = Field(default=31, ge=2)
    min_leaf_rows: int = Field(default=20, ge=1)
    l2: float = Field(default=5.0, ge=0)
    n_rows: int = Field(default=30_000, ge=1)
    min_class_rows: int = Field(default=100, ge=1)


class AnchoredColumns(NamedTuple):
    """What trees see of some rows.

    Parameters
    ----------
    columns
        Rows x columns.
    anchors
        A first estimate of each row's frequency; trees learn what it is off by. Zeros for none.
    """

    columns: Floats
    anchors: Integers


def fit_forest(
    known: AnchoredColumns,
    frequencies: Integers,
    asked: AnchoredColumns,
    settings: FrequencyForestSettings | None = None,
    *,
    seed: int = 0,
) -> FrequencyPosterior:
    """Fit trees to known rows and their frequencies, and return what they say of other rows.

    Raises
    ------
    MissingDependency
        If LightGBM is not installed.
    """
    settings = settings or FrequencyForestSettings()
    chosen = stream(seed, "frequency-forest").permutation(len(frequencies))[: settings.n_rows]
    kinds, which = _classes(frequencies[chosen] - known.anchors[chosen], settings.min_class_rows)
    chances = np.ones((len(asked.columns), 1))
    if len(kinds) > 1:
        lightgbm = _lightgbm()
        quiet = {"verbosity": -1, "num_threads": 1}
        data = lightgbm.Dataset(known.columns[chosen], label=which, params=quiet)
        booster = lightgbm.train(_parameters(settings, len(kinds), seed), data, settings.n_rounds)
        chances = np.asarray(booster.predict(asked.columns, num_threads=1), np.float64)
    return _moved(chances, kinds, asked.anchors)


def _classes(offs: Integers, min_rows: int) -> tuple[Integers, Integers]:
    """Return the differences that enough rows have, and the nearest of them for each row."""
    values, counts = np.unique(offs, return_counts=True)
    kept = values[counts >= min(min_rows, int(counts.max()))]
    nearest = np.abs(offs[:, None] - kept).argmin(axis=1)
    return kept, np.asarray(nearest, np.int64)


def _moved(chances: Floats, kinds: Integers, anchors: Integers) -> FrequencyPosterior:
    """Turn chances of differences into chances of frequencies; none is below 0."""
    at = np.maximum(anchors[:, None] + kinds, 0)
    moved = np.zeros((len(chances), max(int(at.max()), 1) + 1))
    np.add.at(moved, (np.arange(len(chances))[:, None], at), chances)
    return FrequencyPosterior(np.arange(moved.shape[1]), moved)


def _parameters(settings: FrequencyForestSettings, n_classes: int, seed: int) -> dict[str, Any]:
    return {
        "objective": "multiclass",
        "num_class": n_classes,
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.n_leaves,
        "min_data_in_leaf": settings.min_leaf_rows,
        "lambda_l2": settings.l2,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }


def _lightgbm() -> Any:
    try:
        return importlib.import_module("lightgbm")
    except ImportError:
        raise MissingDependency(
            "the package lightgbm is not installed",
            where="frequency forest",
            remedy="pip install 'cloister[trees]'",
        ) from None
