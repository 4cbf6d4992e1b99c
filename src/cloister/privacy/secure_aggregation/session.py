"""What all parties of one round agree on before it begins."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from functools import cached_property
from typing import Self

from pydantic import Field, field_validator, model_validator

from cloister.core.ids import checked_id
from cloister.core.settings import Settings
from cloister.privacy.secure_aggregation.fixed_point import FixedPoint
from cloister.privacy.secure_aggregation.neighbours import Plan, plan_graph

__all__ = ["Session"]


class Session(Settings):
    """The public parameters of one round of secure aggregation.

    Every party must get them from somebody whom it trusts to set them: a client takes part in the
    session that it was told of, with the protection that these numbers give.

    A client takes part in a session once. Nothing here remembers that beyond one
    `AggregationClient`: a client that is started again and joins the same session with fresh keys
    can be summed twice, and its two vectors be told apart. Whoever runs clients keeps the ids of
    the sessions that each began, on disk before its keys leave, and refuses them afterwards
    (`cloister.federate.engines.site_sessions` does).

    Parameters
    ----------
    session_id
        64 hexadecimal digits, never used before: the caller's duty, as said above.
    members
        The clients that may take part.
    n_values
        Length of the vectors.
    fixed_point
        How values become integers.
    min_survivors
        A sum over fewer clients is not revealed; noise shares are calibrated on it.
    n_colluders
        How many clients may collude with a server that lies.
    announced
        SHA-256 of what the clients were told to compute, 64 hexadecimal digits; empty unless given.
        Clients that were told different things have different contexts, and form no sum.
    security_bits, grinding_bits, failure_bits
        See `neighbours`; the defaults bound what fails by 2^-40 and 2^-20.

    Examples
    --------
    >>> session = Session.new(["c", "a", "b"], n_values=2, min_survivors=2,
    ...                       fixed_point=FixedPoint(bound=1.0), n_colluders=0)
    >>> session.members, session.plan(3)
    (('a', 'b', 'c'), Plan(n_holders=3, threshold=2))
    """

    session_id: str = Field(pattern=r"^[0-9a-f]{64}$")
    members: tuple[str, ...] = Field(min_length=2)
    n_values: int = Field(ge=1)
    fixed_point: FixedPoint
    min_survivors: int = Field(ge=2)
    n_colluders: int = Field(ge=0)
    announced: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    security_bits: int = Field(default=40, ge=20, le=256)
    grinding_bits: int = Field(default=40, ge=0, le=256)
    failure_bits: int = Field(default=20, ge=1, le=256)

    @classmethod
    def new(
        cls,
        members: Iterable[str],
        *,
        n_values: int,
        fixed_point: FixedPoint,
        min_survivors: int,
        n_colluders: int,
    ) -> Self:
        """Make a session with a fresh random id."""
        return cls(
            session_id=secrets.token_hex(32),
            members=tuple(sorted(members)),
            n_values=n_values,
            fixed_point=fixed_point,
            min_survivors=min_survivors,
            n_colluders=n_colluders,
        )

    @field_validator("members")
    @classmethod
    def _sorted_ids(cls, members: tuple[str, ...]) -> tuple[str, ...]:
        for member in members:
            checked_id(member)
        if list(members) != sorted(set(members)):
            raise ValueError("members are sorted and all different")
        return members

    @model_validator(mode="after")
    def _feasible(self) -> Self:
        n = len(self.members)
        if self.min_survivors > n:
            raise ValueError(f"{self.min_survivors} survivors of {n} members")
        if self.min_survivors < self.n_colluders + 2:
            raise ValueError("colluders could take a sum apart: it has one honest client or none")
        self.fixed_point.largest_sum(n)
        self.plan(n)
        return self

    def plan(self, n_advertised: int) -> Plan:
        """Return the size of the graph when this many clients have advertised keys."""
        return plan_graph(
            n_advertised,
            self.min_survivors,
            self.n_colluders,
            security_bits=self.security_bits,
            grinding_bits=self.grinding_bits,
            failure_bits=self.failure_bits,
        )

    def n_to_abort(self, n_advertised: int) -> int:
        """Return how many of a client's holders must promise to reveal nothing of its seed.

        Of h holders t can open a seed. If ``h - t + n_colluders + 1`` have promised, at least
        ``h - t + 1`` of them are honest and keep it, and at most ``t - 1`` shares are left.

        Examples
        --------
        >>> Session.new("abcde", n_values=2, min_survivors=4, fixed_point=FixedPoint(bound=1.0),
        ...             n_colluders=1).n_to_abort(5)
        3
        """
        plan = self.plan(n_advertised)
        return plan.n_holders - plan.threshold + self.n_colluders + 1

    @cached_property
    def context(self) -> bytes:
        """The 32 bytes that stand for all these parameters in every message and every key."""
        return hashlib.sha256(self.canonical().encode()).digest()

    @cached_property
    def member_set(self) -> frozenset[str]:
        """The members, for a quick look."""
        return frozenset(self.members)
