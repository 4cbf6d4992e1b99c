"""What was released: the mechanism and its parameters, and not yet what it costs.

A release states its sensitivity, the unit that it protects and what neighbouring inputs differ in.
:mod:`cloister.privacy.accounting` says what releases cost together; the ledger keeps them.
:mod:`cloister.privacy.releases` has the releases of the known mechanisms; here are those of which
only a bound is known, or nothing protects.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections import Counter
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss

__all__ = ["UNBOUNDED", "BoundedRelease", "Release", "UnprotectedRelease"]

UNBOUNDED: Final = Loss("unbounded")
LARGEST_EXPONENT: Final = 700.0  # of e, in a double
_LATER: Final = ("own_delta", "every_limit", "consent")


class Release(Settings):
    """What every release states.

    Parameters
    ----------
    level
        The unit that is protected.
    neighbours
        Whether neighbouring inputs differ by one unit more or less (``add-remove``), or by one
        unit changed to any other (``replace``); the sensitivity is stated for this.
    group_sizes
        How many units at most a larger one holds, by level: with it the release also has a cost
        for the larger unit, by group privacy. Without it that cost is unbounded.
    n_values
        How many numbers were released.
    simulated
        Whether noise came from a seeded generator: nobody is protected by such a release.
    claimed_epsilon
        What the inventors of a mechanism claim, where that is not what holds.
    own_delta
        Of a release that is made in one go, no part of which depends on another part's noise: the
        chance with which its own epsilon may fail. A limit that adds up epsilons counts it with
        its exact epsilon at this delta.
    every_limit
        Count it in the limits of smaller units too, even if the party has one for this unit.
    consent
        Who agreed to a release that a limit has no bound for, as the ledger was told; the ledger
        writes it.
    note
        Anything that a reader of the ledger should know.
    """

    level: Level
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    group_sizes: dict[Level, int] = Field(default_factory=dict)
    n_values: int = Field(default=1, ge=1)
    simulated: bool = False
    claimed_epsilon: float | None = Field(default=None, gt=0)
    own_delta: float | None = Field(default=None, gt=0, lt=1)
    every_limit: bool = False
    consent: str = Field(default="", max_length=200)
    note: str = Field(default="", max_length=1000)

    @model_validator(mode="after")
    def _groups_are_larger(self) -> Self:
        for level, size in self.group_sizes.items():
            if level == self.level or not level.covers(self.level):
                raise ValueError(f"a {level.value} does not hold units of {self.level.value}")
            if size < 1:
                raise ValueError(f"a {level.value} holds at least one {self.level.value}")
        return self

    def canonical(self) -> str:
        """Return JSON with sorted names; what came later than the first ledgers only if it is set.

        So the ledgers of earlier versions keep their counts.
        """
        fields = self.model_dump(mode="json")
        for name in _LATER:
            if fields[name] == type(self).model_fields[name].default:
                del fields[name]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def losses(self, level: Level) -> tuple[Loss, ...]:
        """Return what this release can reveal of one unit of a level."""
        group_size = self._group_size(level)
        return (UNBOUNDED,) if group_size is None else self._losses(group_size)

    def loss_counts(self, level: Level) -> Counter[Loss]:
        """Return the same losses, each with how often it is suffered."""
        return Counter(self.losses(level))

    def _group_size(self, level: Level) -> int | None:
        """Return how many protected units a change to one of a level amounts to, at most.

        None if nobody says. A part of a unit may change the unit to any other, which is one unit
        removed and one added.
        """
        if level == self.level:
            return 1
        if self.level.covers(level):
            return 1 if self.neighbours == "replace" else 2
        return self.group_sizes.get(level)

    @abstractmethod
    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        """Return the losses of a group of so many units."""


class BoundedRelease(Release):
    """A release by any other mechanism, whose guarantee is stated from outside.

    Parameters
    ----------
    epsilon, delta
        What it guarantees.
    mechanism_name
        What it is called.
    """

    mechanism: Literal["bounded"] = "bounded"
    epsilon: float = Field(ge=0)
    delta: float = Field(default=0.0, ge=0, lt=1)
    mechanism_name: str

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        # Group privacy of (epsilon, delta): each member in turn, Dwork and Roth 2014, theorem 2.2:
        # delta (1 + e^epsilon + ... + e^((k - 1) epsilon)), and 1 where a double cannot hold it.
        epsilon, delta = group_size * self.epsilon, self.delta
        if delta and group_size > 1:
            if self.epsilon == 0:
                delta *= group_size
            elif epsilon < LARGEST_EXPONENT:
                delta *= math.expm1(epsilon) / math.expm1(self.epsilon)
            else:
                delta = 1.0
        return (Loss("bound", epsilon, delta=min(1.0, delta)),)


class UnprotectedRelease(Release):
    """A release of exact values: whoever gets it knows them.

    It has no finite epsilon. It is recorded all the same, and a party with a limit refuses it.
    """

    mechanism: Literal["none"] = "none"

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (UNBOUNDED,)
