"""What a noisy release of statistics will put on the ledger, known before it is made.

The tables, the least noise of each with which the release fits a limit of its epsilon and delta,
and the threshold of terms that are found and not on a public list. It depends on the settings and
on the numbers of servers and listed words alone, not on any document.

A limit sets a tenth of its delta aside for releases that may fail by themselves. A term of one unit
alone passes the threshold with a hundredth of the settings' delta at most, so that ten publications
fit a limit of the same delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cloister.privacy.calibration import planned_noise
from cloister.privacy.filters import FAILURES_SHARE
from cloister.privacy.release import BoundedRelease, Release
from cloister.privacy.releases.noisy_tables import NoisyTable, NoisyTablesRelease
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings

__all__ = [
    "PlannedStatistics",
    "planned_statistics",
    "sized_tables",
    "table_names",
    "threshold_of_found_terms",
]

SIZES_SHARE: Final = 0.1  # of the squared distance, for the numbers of entities and the lengths
FOUND_SHARE: Final = 0.1 * FAILURES_SHARE  # of delta, for found terms; ten times fit a limit


class PlannedStatistics(NamedTuple):
    """What a release will put on the ledger, and the threshold of found terms (0 for none)."""

    tables: NoisyTablesRelease
    releases: tuple[Release, ...]
    threshold: int


def planned_statistics(
    settings: NoisyStatisticsSettings,
    *,
    n_servers: int = 1,
    n_words: int | None = None,
    simulated: bool = False,
) -> PlannedStatistics:
    """Say what a release with these settings will put on the ledger, before it is made.

    Parameters
    ----------
    n_words
        Size of the word list; None where terms are found.

    Examples
    --------
    >>> settings = NoisyStatisticsSettings(epsilon=1.0, unit="document", max_terms=100)
    >>> planned = planned_statistics(settings)
    >>> [table.name for table in planned.tables.tables], planned.threshold
    (['terms', 'pods', 'sizes'], 434)
    """
    names = table_names(settings, n_servers)
    n_sizes = settings.n_lengths + (settings.max_documents if settings.unit == "pod" else 2)
    tables = _calibrated(settings, names, n_sizes)
    release = NoisyTablesRelease(
        level=settings.level,
        tables=sized_tables(tables, n_words or 0, n_sizes),
        simulated=simulated,
    )
    if n_words is not None:
        return PlannedStatistics(release, (release,), 0)
    threshold, chance = threshold_of_found_terms(
        tables[0].sigma, settings.max_terms, FOUND_SHARE * settings.delta
    )
    shown = BoundedRelease(
        level=settings.level,
        epsilon=0.0,
        delta=chance,
        mechanism_name="terms above a noisy threshold",
        simulated=simulated,
    )
    return PlannedStatistics(release, (release, shown), threshold)


def sized_tables(
    tables: Sequence[NoisyTable], n_words: int, n_sizes: int
) -> tuple[NoisyTable, ...]:
    """Say how many values each table has."""
    return tuple(
        table.model_copy(update={"n_values": n_sizes if table.name == "sizes" else max(1, n_words)})
        for table in tables
    )


def table_names(settings: NoisyStatisticsSettings, n_servers: int) -> tuple[str, ...]:
    """Return which tables of terms there are; of one server one knows how many servers it is."""
    names = ("terms",) if settings.unit == "pod" else ("terms", "pods")
    return names if n_servers == 1 else (*names, "servers")


def _calibrated(
    settings: NoisyStatisticsSettings, names: tuple[str, ...], n_sizes: int
) -> tuple[NoisyTable, ...]:
    """Return the tables with the least noise that fits a limit of the settings' epsilon and delta.

    A unit moves at most ``max_terms`` counters of each table of terms and ``n_sizes`` sizes, each
    by one step: the squared distance is their number over sigma^2, summed over the tables.
    """
    moved = {**dict.fromkeys(names, settings.max_terms), "sizes": n_sizes}
    shares = {**dict.fromkeys(names, (1 - SIZES_SHARE) / len(names)), "sizes": SIZES_SHARE}
    multiplier = planned_noise(settings.epsilon, settings.delta, n_rounds=1).multiplier
    return tuple(
        NoisyTable(name=name, width=multiplier * math.sqrt(n / shares[name]), n_moved=n)
        for name, n in moved.items()
    )


def threshold_of_found_terms(sigma: float, max_terms: int, delta: float) -> tuple[int, float]:
    """Return the least threshold, and the chance that any term of one unit alone reaches it.

    Such a term's number is 1 plus noise, and there are at most ``max_terms``.
    """
    reach = math.ceil(40 * sigma)  # beyond, the weights are below e^-800
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    tails = np.cumsum(weights[::-1])[::-1] / weights.sum()  # chance of at least x
    chances = max_terms * tails * (1 + 1e-9)
    first = int(np.argmax(chances <= delta))
    return first - reach + 1, float(chances[first])
