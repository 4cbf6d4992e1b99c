"""The four ways in which parties learn a ranker: Local, Local+, Global and CS-F-LTR.

- ``local`` learns from the party's own rows; nothing crosses a boundary.
- ``local-plus`` learns from own and augmented rows; each party's sketch release crosses, once.
- ``global`` learns from all parties' own rows; parameters (or trees) cross again and again.
- ``cs-f-ltr`` learns from own and augmented rows of all; both cross.

The release of sketches has its own guarantee, which :mod:`cloister.sketch.noisy_release` states.
Parameters and trees have none: they are functions of labelled rows, handed on exactly. A tree even
names thresholds that are feature values of single rows. `crossings` lists everything that leaves,
as releases for a ledger; a party with a limit will refuse the unprotected ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.ids import PartyId
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.augmentation import appended
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease

__all__ = [
    "RUNS",
    "Crossing",
    "PartyRows",
    "RunName",
    "Scorer",
    "SiloLearner",
    "crossings",
    "rows_for",
    "train_run",
]

RunName = Literal["local", "local-plus", "global", "cs-f-ltr"]
RUNS: Final[tuple[RunName, ...]] = get_args(RunName)

Floats = NDArray[np.float64]


class Scorer(Protocol):
    """A trained ranker."""

    def score(self, data: RankingData | Any) -> Floats:
        """Score documents, the rows of a data set or of a matrix."""


class PartyRows(NamedTuple):
    """Rows that one party learns from, and how much each counts."""

    data: RankingData
    weights: Floats


class SiloLearner(Protocol):
    """Learns one ranker from the rows of one party, or of several that keep them to themselves."""

    @property
    def what_crosses(self) -> str:
        """What parties give each other while they learn."""

    def learn(self, rows: Mapping[PartyId, PartyRows], *, seed: int) -> Scorer:
        """Return the ranker."""

    def n_crossing(self, scorer: Scorer) -> int:
        """Return how many numbers one party gives away in all."""


class Crossing(NamedTuple):
    """One kind of thing that leaves a party, and what its ledger says of it."""

    what: str
    sender: PartyId
    recipients: tuple[PartyId, ...]
    release: Release


def augments(run: RunName) -> bool:
    """Say whether a run learns from other parties' documents.

    Examples
    --------
    >>> [run for run in RUNS if augments(run)]
    ['local-plus', 'cs-f-ltr']
    """
    return run in ("local-plus", "cs-f-ltr")


def federates(run: RunName) -> bool:
    """Say whether a run learns one ranker for all parties.

    Examples
    --------
    >>> [run for run in RUNS if federates(run)]
    ['global', 'cs-f-ltr']
    """
    return run in ("global", "cs-f-ltr")


def rows_for(
    run: RunName,
    own: RankingData,
    augmented: RankingData | None,
    *,
    augmented_weight: float = 1.0,
) -> PartyRows:
    """Return the rows that one party learns from in a run.

    Parameters
    ----------
    run
        Which run.
    own
        Its own labelled rows.
    augmented
        Rows with pseudo-labels; None where there are none.
    augmented_weight
        How much one of those counts beside one of its own; 0 leaves them out.
    """
    if not augments(run) or augmented_weight == 0:
        return PartyRows(own, np.ones(own.n_rows))
    if augmented is None:
        raise SettingsError(
            "this run needs augmented rows", where=run, remedy="make them with augment()"
        )
    weights = np.concatenate(
        [np.ones(own.n_rows), np.full(augmented.n_rows, float(augmented_weight))]
    )
    return PartyRows(appended([own, augmented]), weights)


def train_run(
    run: RunName,
    rows: Mapping[PartyId, PartyRows],
    learner: SiloLearner,
    *,
    seed: int,
) -> dict[PartyId, Scorer]:
    """Train a run; return each party's ranker, which for a federated run is the same for all.

    Parameters
    ----------
    run
        Which run.
    rows
        What each party learns from (`rows_for`), in the order of turns.
    learner
        How.
    seed
        One seed gives one result.
    """
    if federates(run):
        return dict.fromkeys(rows, learner.learn(rows, seed=seed))
    return {party: learner.learn({party: own}, seed=seed) for party, own in rows.items()}


def crossings(
    run: RunName,
    parties: list[PartyId],
    learner: SiloLearner,
    scorer: Scorer,
    *,
    sketches: Mapping[PartyId, tuple[Release, ...]] | None = None,
    n_variants: int = 1,
) -> list[Crossing]:
    """List all that leaves any party in a run, with the releases for its ledger.

    Parameters
    ----------
    run
        Which run.
    parties
        Who takes part.
    learner, scorer
        How the ranker was learnt, and the ranker.
    sketches
        What each party's sketch release is made of. None: exact counts crossed, which is
        recorded as unprotected.
    n_variants
        How many variants the parties trained and chose from together
        (`cloister.federate.silos.tuning`): all their parameters leave, and what each party tells
        of them.
    """
    found = []
    for sender in parties:
        others = tuple(party for party in parties if party != sender)
        if augments(run):
            exact: tuple[Release, ...] = (
                UnprotectedRelease(level=Level.DOCUMENT, note="exact term counts"),
            )
            for release in exact if sketches is None else sketches[sender]:
                found.append(Crossing("sketches", sender, others, release))
        if federates(run) and others:
            release = UnprotectedRelease(
                level=Level.DOCUMENT,
                n_values=max(1, learner.n_crossing(scorer) * n_variants),
                note=f"{learner.what_crosses}, exact: a sketch's guarantee does not cover them",
            )
            found.append(Crossing(learner.what_crosses, sender, others, release))
        if federates(run) and others and n_variants > 1:
            told = UnprotectedRelease(
                level=Level.DOCUMENT, n_values=n_variants, note="means over validation queries"
            )
            found.append(Crossing("validation figures", sender, others, told))
    return found
