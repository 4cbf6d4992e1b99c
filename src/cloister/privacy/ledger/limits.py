"""How much privacy a party gives away at most, and who agreed to what no limit can bound."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from cloister.core.settings import Settings
from cloister.privacy.filters import PrivacyFilter
from cloister.privacy.level import Level

__all__ = ["STANDARD_LIMITS", "Consent", "Limit", "one_a_level"]


class Limit(Settings):
    """The most that all releases of a party may cost together, however they are chosen.

    It applies to all recipients together, as if they shared what they get, and to simulated
    releases apart from real ones. A `PrivacyFilter` decides.

    Parameters
    ----------
    epsilon
        What the composed epsilon may not exceed.
    delta
        The chance with which that may fail; well below one over the number of units.
    level
        The unit that is meant: a limit for users refuses what protects smaller units only.
    failures
        The part of delta for releases that may fail by themselves; a tenth unless given.
    order
        At which divergences are added up; the best one for normal noise unless given. It is fixed
        when the limit is set, before any release.

    Examples
    --------
    >>> str(Limit(epsilon=4.5, delta=1e-6))
    'epsilon 4.5 (delta 1e-06, level user)'
    """

    epsilon: float = Field(ge=0)
    delta: float = Field(gt=0, lt=1)
    level: Level = Level.USER
    failures: float | None = Field(default=None, ge=0, lt=1)
    order: float | None = Field(default=None, gt=1, le=1e5)

    @model_validator(mode="after")
    def _failures_are_a_part(self) -> Self:
        if self.failures is not None and self.failures > self.delta:
            raise ValueError("failures are a part of delta: at most as much")
        return self

    @property
    def filter(self) -> PrivacyFilter:
        """What decides."""
        return PrivacyFilter.of(self.epsilon, self.delta, failures=self.failures, order=self.order)

    def fixed(self) -> Limit:
        """Return this limit with its order and its failures written out."""
        decided = self.filter
        return self.model_copy(update={"order": decided.order, "failures": decided.failures})

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:.6g} (delta {self.delta:.6g}, level {self.level})"


def one_a_level(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """Return the limits of a party's file; raise where a level has two."""
    levels = [one.level for one in limits]
    if len(set(levels)) < len(levels):
        raise ValueError("a level has one limit: delete the other")
    return limits


class Consent(Settings):
    """Who agreed that a party makes releases which have no bound at the level of a limit.

    It names one recipient and one purpose: releases for anything else are refused as before.

    Parameters
    ----------
    name
        Who agreed, in words that a reader of the ledger understands: "ethics board, 2 March 2026".
    recipient
        Who may get them, as the ledger has it: ``coordinator``, ``broker``.
    purpose
        What for: the name of a training, or ``published statistics``. It covers this purpose and
        those that continue it after a comma and a space ("pilot, round 3"), which no training's
        name can hold.

    Examples
    --------
    >>> board = Consent(name="ethics board", recipient="coordinator", purpose="pilot")
    >>> board.covers("coordinator", "pilot, round 3, attempt 1"), board.covers("broker", "pilot")
    (True, False)
    """

    name: str = Field(min_length=1, max_length=200)
    recipient: str = Field(min_length=1)
    purpose: str = Field(min_length=1)

    @field_validator("name")
    @classmethod
    def _one_line(cls, name: str) -> str:
        if not name.strip() or not all(map(str.isprintable, name)):
            raise ValueError("say who agreed, in printable characters on one line")
        return name

    def covers(self, recipient: str, purpose: str) -> bool:
        """Tell whether a release is one of those that were agreed to."""
        begins = purpose == self.purpose or purpose.startswith(f"{self.purpose}, ")
        return recipient == self.recipient and begins


STANDARD_LIMITS: Final = {
    one.level: one
    for one in (
        # "Reasonable" protection ends at epsilon 10 (Ponomareva et al. 2023, "How to DP-fy ML").
        Limit(epsilon=10.0, delta=1e-5, level=Level.USER),
        # A promise about a smaller unit says less about a person, so it gets half that epsilon.
        Limit(epsilon=5.0, delta=1e-6, level=Level.DOCUMENT),
        Limit(epsilon=5.0, delta=1e-6, level=Level.INTERACTION),
        Limit(epsilon=5.0, delta=1e-6, level=Level.TOKEN),
    )
}
"""What a node or a site has from the start, by level, where its file names nothing else."""
