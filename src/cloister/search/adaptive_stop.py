"""Adaptive stop: ask enough servers for this query, and no more.

Servers are asked in the order of their promise. Once k documents were found, the question is
whether a server that was not asked can still put one among them.

- *strict*: no document of such a server can reach the k-th score, by certain upper bounds. The best
  k are then those that asking all servers would give, if servers tell the truth about their lists
  and documents are not held back by a limit on pods.
- *probable*: the expected number of documents that would enter the best k is at most ``risk``. It
  counts each open term as present with the share of documents that hold it, independently of the
  others, and then with its largest weight. Terms of one query occur together more often than that
  in most texts, so the true number can be larger; the largest weights err the other way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.settings import Settings
from cloister.search.best_impact import ServerOutlook

__all__ = ["StopSettings", "can_stop", "expected_entrants"]

Floats = NDArray[np.float64]

MAX_OPEN_TERMS: Final = 8  # that may be there or not; those that weigh less are taken to be there
_SLACK: Final = 1e-9  # more than rounding can do


class StopSettings(Settings):
    """When to stop asking servers.

    Parameters
    ----------
    form
        ``never`` asks all that were selected.
    risk
        Of the probable form: expected number of documents among the best k that are missed.
    n_at_once
        How many servers are asked before looking again.
    """

    form: Literal["never", "strict", "probable"] = "never"
    risk: float = Field(default=0.1, gt=0)
    n_at_once: int = Field(default=1, ge=1)


def can_stop(settings: StopSettings, left: Iterable[ServerOutlook], kth_score: float) -> bool:
    """Say whether the servers that are left need not be asked.

    Parameters
    ----------
    left
        What those servers may have.
    kth_score
        The score of the last document of the best k so far; minus infinity while there are fewer.
    """
    if settings.form == "never" or kth_score == -np.inf:
        return False
    least = kth_score - _SLACK * max(1.0, abs(kth_score))
    if settings.form == "strict":
        return all(one.best_upper < least for one in left)
    expected = 0.0
    for one in left:
        if one.best_upper >= least:
            expected += expected_entrants(one, least)
        if expected > settings.risk:
            return False
    return True


def expected_entrants(outlook: ServerOutlook, least: float) -> float:
    """Return how many documents of a server are expected to score at least so much.

    Examples
    --------
    >>> from cloister.core.ids import ServerId
    >>> one = np.array([1.0])
    >>> outlook = ServerOutlook(ServerId("a"), np.array([7]), one, one + 0.1, one + 0.5,
    ...                         np.array([[0.0, 0.5]]), np.array([0.1, 0.2]), 100,
    ...                         np.array([0.4, 0.5]), 0.0)
    >>> round(expected_entrants(outlook, 1.2), 3), round(expected_entrants(outlook, 0.8), 3)
    (0.2, 3.0)
    """
    if outlook.n_unnamed or len(outlook.lower):
        rows = np.vstack([outlook.open_weights, outlook.unnamed_weights])
        sums = np.concatenate([outlook.lower, [outlook.constant]])
        chances = _chances(sums, rows, outlook.presence, least)
        return float(chances[:-1].sum() + outlook.n_unnamed * chances[-1])
    return 0.0


def _chances(sums: Floats, weights: Floats, presence: Floats, least: float) -> Floats:
    """Return for each row how likely its sum with the weights that are there reaches a score."""
    order = np.argsort(-weights.max(axis=0), kind="stable")
    uncertain, certain = order[:MAX_OPEN_TERMS], order[MAX_OPEN_TERMS:]
    sums = sums + weights[:, certain].sum(axis=1)
    there = np.array(list(itertools.product([0.0, 1.0], repeat=len(uncertain))))
    shares = presence[uncertain]
    likely = np.where(there > 0, shares, 1 - shares).prod(axis=1)
    reached = sums[:, None] + weights[:, uncertain] @ there.T >= least
    return np.asarray(reached @ likely, np.float64)
