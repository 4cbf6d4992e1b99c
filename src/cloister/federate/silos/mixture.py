"""The mixture: each party blends the federated ranker into its own, as far as that clearly helps.

Federation helps parties with poor data and can harm those with good data (CS-F-LTR, table I: the
parties A and B lose). So each party scores by (1 - share) * local + share * federated, both brought
to mean 0 and width 1 within a query, and chooses its share on queries of its own that neither
ranker was trained on. A share above 0 is taken only where the gain on those queries is clear; else
the party keeps its Local ranker, bit by bit. The choice needs nothing from anybody and tells nobody
anything.

This bounds the harm by chance and not by certainty: a party whose queries to come differ from those
it chose by can still lose.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.measure.named import evaluate

__all__ = ["Mixture", "MixtureSettings", "choose_share", "mixed_scores", "standardised"]

Floats = NDArray[np.float64]

_LEAST_WIDTH: Final = 1e-12


class MixtureSettings(Settings):
    """Which shares are tried, and what counts as a clear gain.

    Parameters
    ----------
    shares
        Shares of the federated ranker that are tried beside 0.
    measure
        What is to gain.
    guard
        A share is taken only where its mean gain over Local exceeds so many standard errors.
    n_folds
        The gain of *choosing* is estimated by cross-validation over the party's queries: on each
        part by the share that the other parts choose. It must be above the guard too. 1 leaves
        this out.
    rule
        Among shares with a clear gain: the ``best`` mean, or the ``smallest`` share whose mean is
        within a standard error of the best.
    """

    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    measure: str = "nDCG@10"
    guard: float = Field(default=1.0, ge=0)
    n_folds: int = Field(default=5, ge=1)
    rule: Literal["best", "smallest"] = "best"


class Mixture(NamedTuple):
    """A party's choice, and what it was made by."""

    share: float
    gain: float  # mean on the party's validation queries, of the chosen share over Local
    standard_error: float
    n_queries: int


def standardised(scores: NDArray[Any], offsets: NDArray[np.int64]) -> Floats:
    """Bring scores to mean 0 and standard deviation 1 within each query; equal scores become 0.

    Examples
    --------
    >>> standardised(np.array([1.0, 3.0, 5.0]), np.array([0, 2, 3])).tolist()
    [-1.0, 1.0, 0.0]
    """
    scores = np.asarray(scores, np.float64)
    lengths = np.diff(offsets)
    query = np.repeat(np.arange(len(lengths)), lengths)
    size = np.maximum(lengths, 1)
    centred = scores - (np.bincount(query, scores, len(lengths)) / size)[query]
    width = np.sqrt(np.bincount(query, centred**2, len(lengths)) / size)[query]
    return np.where(width > _LEAST_WIDTH, centred / np.where(width > 0, width, 1.0), 0.0)


def mixed_scores(
    local: NDArray[Any], federated: NDArray[Any], offsets: NDArray[np.int64], share: float
) -> Floats:
    """Blend the scores of two rankers; a share of 0 gives the local scores themselves.

    Examples
    --------
    >>> mixed_scores(np.array([1.0, 3.0]), np.array([9.0, 5.0]), np.array([0, 2]), 0.5).tolist()
    [0.0, 0.0]
    """
    if share == 0.0:
        return np.asarray(local, np.float64)
    own = standardised(local, offsets)
    return (1.0 - share) * own + share * standardised(federated, offsets)


def choose_share(
    local: NDArray[Any],
    federated: NDArray[Any],
    data: RankingData,
    *,
    seed: int,
    settings: MixtureSettings | None = None,
) -> Mixture:
    """Choose a party's share of the federated ranker on its validation queries.

    Parameters
    ----------
    local, federated
        Scores of both rankers, a row each.
    data
        The validation queries: their labels decide.
    seed
        Shares the queries out to the parts of the cross-validation.
    settings
        Shares, guard, rule.

    Examples
    --------
    >>> labels, offsets = np.tile([1, 0], 20).astype(np.int8), np.arange(0, 42, 2)
    >>> data = RankingData(np.zeros((40, 1)), labels, offsets)
    >>> good, noise = np.tile([1.0, 0.0], 20), np.random.default_rng(1).random(40)
    >>> choose_share(noise, good, data, seed=1).share > 0.5
    True
    >>> choose_share(good, noise, data, seed=1).share
    0.0
    """
    settings = settings or MixtureSettings()
    if not settings.shares or not all(0 < share <= 1 for share in settings.shares):
        raise DataError("shares lie above 0 and up to 1", where="shares")
    gains = _gains(local, federated, data, settings)
    best = _chosen(gains, settings)
    if (
        best >= 0
        and settings.n_folds > 1
        and not _is_clear(_by_folds(gains, seed, settings), settings)
    ):
        best = -1
    if best < 0:
        return Mixture(0.0, 0.0, 0.0, len(gains))
    mean, error = _mean_and_error(gains[:, best])
    return Mixture(settings.shares[best], mean, error, len(gains))


def _gains(
    local: NDArray[Any], federated: NDArray[Any], data: RankingData, settings: MixtureSettings
) -> Floats:
    """Return the gain over Local of each query (row) by each share; unjudged queries left out."""

    def measured(share: float) -> Floats:
        scores = mixed_scores(local, federated, data.offsets, share)
        return evaluate(scores, data, [settings.measure])[settings.measure]

    alone = measured(0.0)
    gains = np.stack([measured(share) - alone for share in settings.shares], axis=1)
    return np.asarray(gains[~np.isnan(alone)])


def _chosen(gains: Floats, settings: MixtureSettings) -> int:
    """Return the column of the share to take, -1 for none."""
    if len(gains) < 2:
        return -1
    clear = [column for column in range(gains.shape[1]) if _is_clear(gains[:, column], settings)]
    if not clear:
        return -1
    means = gains.mean(axis=0)
    best = max(clear, key=lambda column: (means[column], -column))
    if settings.rule == "smallest":
        floor = means[best] - _mean_and_error(gains[:, best])[1]
        best = min((column for column in clear if means[column] >= floor), default=best)
    return best


def _by_folds(gains: Floats, seed: int, settings: MixtureSettings) -> Floats:
    """Return each query's gain by the share that the other parts of the queries choose."""
    n_folds = min(settings.n_folds, len(gains))
    fold = stream(seed, "mixture", "folds").permutation(len(gains)) % n_folds
    outcome = np.zeros(len(gains))
    for part in range(n_folds):
        column = _chosen(gains[fold != part], settings)
        if column >= 0:
            outcome[fold == part] = gains[fold == part, column]
    return outcome


def _is_clear(gains: Floats, settings: MixtureSettings) -> bool:
    mean, error = _mean_and_error(gains)
    return mean > settings.guard * error and mean > 0.0


def _mean_and_error(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
