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

from collections.abc import Mapping, Sequence
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
    "Learnt",
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


class Learnt(NamedTuple):
    """A ranker that several parties learnt together, and how."""

    learner: SiloLearner
    scorer: Scorer

    @property
    def n_crossing(self) -> int:
        """How many numbers one party gave away for it."""
        return self.learner.n_crossing(self.scorer)


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
    parties: Sequence[PartyId],
    learnt: Sequence[Learnt] = (),
    *,
    sketches: Mapping[PartyId, tuple[Release, ...]] | None = None,
    n_exact: Mapping[PartyId, int] | None = None,
    simulated: bool = False,
) -> list[Crossing]:
    """List all that leaves any party in a run, with the releases for its ledger.

    Parameters
    ----------
    run
        Which run.
    parties
        Who takes part.
    learnt
        What a federated run learnt: one ranker, or all variants that the parties trained and
        chose from together (`cloister.federate.silos.tuning`). The parameters of every variant
        leave, and what each party tells of it.
    sketches
        What each party's sketch release is made of. None: exact counts crossed, which is
        recorded as unprotected.
    n_exact
        How many exact counts each party gave, where it gave those.
    simulated
        Whether nothing left in truth; unprotected releases are marked so. Sketches say
        themselves where their noise comes from.
    """
    if federates(run) and not learnt:
        raise SettingsError(
            "this run hands rankers round", where=run, remedy="give what was learnt, and how"
        )
    found = []
    for sender in parties:
        others = tuple(party for party in parties if party != sender)
        if augments(run) and sketches is not None:
            found += [Crossing("sketches", sender, others, one) for one in sketches[sender]]
        elif augments(run):
            exact = _exact_counts(1 if n_exact is None else n_exact[sender], simulated)
            found.append(Crossing("exact counts", sender, others, exact))
        if federates(run) and others:
            found += [
                Crossing(what, sender, others, release)
                for what, release in _while_learning(learnt, simulated)
            ]
    return found


def _exact_counts(n_counts: int, simulated: bool) -> Release:
    return UnprotectedRelease(
        level=Level.DOCUMENT,
        n_values=max(1, n_counts),
        simulated=simulated,
        note="exact term counts",
    )


def _while_learning(learnt: Sequence[Learnt], simulated: bool) -> list[tuple[str, Release]]:
    """Return what one party gives the others so that they learn and choose together."""
    what = learnt[0].learner.what_crosses
    handed = UnprotectedRelease(
        level=Level.DOCUMENT,
        n_values=max(1, sum(one.n_crossing for one in learnt)),
        simulated=simulated,
        note=f"{what}, exact: a sketch's guarantee does not cover them",
    )
    if len(learnt) == 1:
        return [(what, handed)]
    told = UnprotectedRelease(
        level=Level.DOCUMENT,
        n_values=len(learnt),
        simulated=simulated,
        note="means over validation queries",
    )
    return [(what, handed), ("validation figures", told)]
