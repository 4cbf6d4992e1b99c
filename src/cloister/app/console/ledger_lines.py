"""Entries of ledgers as lines of a table: what protects a release, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cloister.app.console.ledger_costs import cost_of_one, release_of
from cloister.app.ledger_reading import ReadLedger
from cloister.app.output import number
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.release import BoundedRelease, Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease, LaplaceRelease
from cloister.privacy.releases.noisy_tables import NoisyTablesRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.privacy.releases.tree import TreeRelease

__all__ = ["KINDS", "LedgerTableLine", "kind_of", "lines_of", "parameters_of"]

KINDS: Final = {
    "gaussian": "normal noise",
    "discrete-gaussian": "discrete normal noise",
    "noisy-tables": "noisy tables",
    "laplace": "Laplace noise",
    "discrete-laplace": "discrete Laplace noise",
    "randomised-response": "randomised response",
    "tree": "tree of noisy sums",
    "bounded": "a stated bound",
    "none": "nothing: exact values",
}
FAMILIES: Final = {
    "discrete-gaussian": "normal noise, sigma",
    "discrete-laplace": "Laplace noise, scale",
}


class LedgerTableLine(NamedTuple):
    """One entry for the table.

    Parameters
    ----------
    service, entry
        Whose entry.
    kind, parameters, note
        What protects it, in words; or what limit was set.
    level
        The unit that it is stated for; empty for a limit.
    epsilon
        What it costs alone; None for a limit.
    simulated
        Whether it protects nobody.
    """

    service: str
    entry: Entry
    kind: str
    parameters: str
    note: str
    level: str
    epsilon: float | None
    simulated: bool


def lines_of(
    ledgers: Sequence[ReadLedger], deltas: dict[tuple[str, str], float], usual: float
) -> list[LedgerTableLine]:
    """Return all entries, newest first.

    Parameters
    ----------
    ledgers
        Whose entries.
    deltas, usual
        The chance with which a cost may fail, by service and party; else the usual one.
    """
    lines = [
        _line(ledger.service, entry, deltas.get((ledger.service, entry.party_id), usual))
        for ledger in ledgers
        for entry in ledger.entries
    ]
    return sorted(lines, key=lambda one: (one.entry.recorded_at, one.entry.number), reverse=True)


def _line(service: str, entry: Entry, delta: float) -> LedgerTableLine:
    if entry.kind == "limit":
        limit = entry.limit
        told = "taken away" if limit is None else str(limit)
        return LedgerTableLine(service, entry, "limit", told, "", "", None, False)
    release = release_of(entry.body)
    return LedgerTableLine(
        service,
        entry,
        kind_of(release),
        parameters_of(release),
        release.note,
        release.level.value,
        cost_of_one(entry.body, delta),
        release.simulated,
    )


def kind_of(release: Release) -> str:
    """Say what protects a release."""
    return KINDS[str(release.model_dump(include={"mechanism"})["mechanism"])]


def parameters_of(release: Release) -> str:
    """Say in short how wide the noise is.

    Examples
    --------
    >>> parameters_of(GaussianRelease(level="user", sigma=2.0, sensitivity=0.5))
    'sigma 4 times the sensitivity'
    """
    match release:
        case GaussianRelease() | DiscreteGaussianRelease():
            width = f"sigma {number(release.sigma / release.sensitivity)} times the sensitivity"
            drawn = f", drawn with chance {number(release.sampling_rate)}"
            return width + (drawn if release.sampling_rate < 1 else "")
        case NoisyTablesRelease():
            return ", ".join(
                f"{one.name}: {FAMILIES[one.family]} {number(one.width)}" for one in release.tables
            )
        case LaplaceRelease() | DiscreteLaplaceRelease():
            return f"scale {number(release.scale)}, sensitivity {number(release.sensitivity)}"
        case RandomisedResponseRelease():
            return f"true with chance {number(release.keep_probability)} of {release.n_options}"
        case TreeRelease():
            width = number(release.sigma / release.tree_sensitivity)
            return f"sigma {width} times the sensitivity, all {release.n_rounds} rounds at once"
        case BoundedRelease():
            bound = f"epsilon {number(release.epsilon)}, delta {number(release.delta)}"
            return f"{release.mechanism_name}: {bound}"
        case UnprotectedRelease():
            return f"{number(release.n_values)} values as they are"
        case _:
            return ""
