"""What the experiments of the FOLTR thesis have in common: collections, click models, repetitions.

The thesis uses MQ2007, MSLR-WEB10K, Yahoo and 200 queries with intents of ClueWeb09. Here are
MQ2008, which the thesis uses in chapter 3.1 as well; a sample of MSLR-WEB10K with 43 training and
43 test queries; the 61 ClueWeb09 queries whose features are public; and built-in worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.figure import Part
from cloister.lab.simulation.experiment import Experiment
from cloister.measure.online import GAMMA

__all__ = [
    "CLICKS",
    "Ground",
    "TWO_CLICKS",
    "clueweb09",
    "discounts",
    "features_worlds",
    "intents_worlds",
    "mq2008",
    "mslr",
]

CLICKS: Final = ("perfect", "navigational", "informational")
TWO_CLICKS: Final = ("perfect", "informational")  # the least and the most noise
POINTS: Final = 40  # measurements along a learning curve
WORLDS: Final = 5  # of each kind; each is a repetition


class Ground(NamedTuple):
    """A collection: how it is read, and over what its runs are repeated.

    Parameters
    ----------
    collection
        What the runs are on.
    base
        Settings of all runs on it.
    worlds
        Addresses that are repetitions of each other.
    folds
        Folds that are.
    paper
        What the thesis uses in its place.
    """

    collection: Collection
    base: dict[str, Any]
    worlds: tuple[str, ...] = ()
    folds: tuple[int, ...] = (1,)
    paper: str = ""

    def part(
        self,
        variants: Sequence[dict[str, Any]],
        *,
        rounds: int,
        seeds: int = 1,
        clicks: Sequence[str] = CLICKS,
        name: str = "",
        paper: str | None = None,
        **base: Any,
    ) -> Part:
        """Return the runs of some systems on this collection.

        Parameters
        ----------
        variants
            The systems: a name and settings each.
        rounds, base
            Settings of all systems.
        seeds
            Repetitions for each fold or world.
        clicks
            Click models.
        name
            Of the part, where the collection's will not do.
        paper
            What the thesis uses in its place, where it is another than usual.
        """
        shared = {"evaluate_every": max(1, rounds // POINTS)} | self.base | base
        vary: dict[str, tuple[Any, ...]] = {"click_model": tuple(clicks)}
        if self.worlds:
            vary["data"] = self.worlds
        experiment = Experiment(
            name=name or self.collection.name,
            base=shared | {"rounds": rounds},
            vary=vary,
            variant=tuple(variants),
            folds=self.folds,
            seeds=seeds,
        )
        told = self.paper if paper is None else paper
        return Part(name or self.collection.name, self.collection, experiment, told)


def mq2008(data: Collections) -> Ground:
    """Return MQ2008, whose features come normalised: five folds."""
    found = data["MQ2008"]
    base = {"data": found.address, "normalise": "none"}
    return Ground(found, base, folds=(1, 2, 3, 4, 5), paper="MQ2007")


def mslr(data: Collections) -> Ground:
    """Return the MSLR sample, normalised query by query: one fold."""
    found = data["MSLR sample"]
    return Ground(found, {"data": found.address}, paper="MSLR-WEB10K")


def clueweb09(data: Collections) -> Ground:
    """Return ClueWeb09 with its first four intents: five folds."""
    found = data["ClueWeb09"]
    base = {"data": found.address, "intents": (0, 1, 2, 3)}
    return Ground(found, base, folds=(1, 2, 3, 4, 5), paper="ClueWeb09, 200 queries")


def features_worlds() -> Ground:
    """Return features worlds of the sizes of MQ2007, with five grades."""
    return _worlds("features world", "world:features?queries=500")


def intents_worlds() -> Ground:
    """Return intents worlds: four groups of users, 200 queries of 100 documents."""
    return _worlds("intents world", "world:intents?queries=200")


def _worlds(name: str, address: str) -> Ground:
    worlds = tuple(f"{address}&seed={seed}" for seed in range(1, WORLDS + 1))
    return Ground(Collection(name, address), {"data": address}, worlds)


def discounts(rounds: int) -> float:
    """Return what online nDCG adds up to where every page is perfect.

    Examples
    --------
    >>> round(0.8 * discounts(10_000), 2)  # the constant of thesis table 4.3
    1589.23
    """
    return float((1 - GAMMA**rounds) / (1 - GAMMA))
