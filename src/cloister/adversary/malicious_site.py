"""A site that sends what it likes into secure sums, by a strategy.

Masks are added modulo 2^64, so that whatever is added to a masked vector is added to the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.engine import Engine
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteMethod, SiteReply
from cloister.privacy.secure_aggregation.messages import MaskedInput

__all__ = ["STRATEGIES", "MaliciousSite", "Turn"]

Words = NDArray[np.uint64]


class Turn(NamedTuple):
    """What a strategy knows when it is its turn.

    Parameters
    ----------
    agreement
        What was agreed on.
    n_sums
        Sums that the site was in before.
    n_sites
        Sites of the federation.
    rng
        For what it draws at random.
    """

    agreement: FederationAgreement
    n_sums: int
    n_sites: int
    rng: np.random.Generator


Strategy = Callable[[Turn], Words | None]


class MaliciousSite:
    """An engine in which one site adds to its own masked vectors, or withholds its answers.

    Parameters
    ----------
    engine
        The engine below, with an honest site of this name.
    site
        Who misbehaves.
    agreement
        What was agreed on.
    strategy
        Returns what to add, of the length of the sum; None to fall silent after the others have
        sent their vectors.
    rng
        For what the strategy draws.
    """

    def __init__(
        self,
        engine: Engine,
        site: SiteId,
        agreement: FederationAgreement,
        strategy: Strategy,
        *,
        rng: np.random.Generator,
    ) -> None:
        self._engine, self._site, self._agreement = engine, site, agreement
        self._strategy, self._rng = strategy, rng
        self._silent = False
        self.n_sums = 0

    def sites(self) -> tuple[SiteId, ...]:
        """Return all sites, in order."""
        return self._engine.sites()

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Carry calls; change what the malicious site answers."""
        replies = self._engine.call(calls, timeout_s)
        if self._site not in replies:
            return replies
        method, reply = calls[self._site].method, replies[self._site]
        if method is SiteMethod.MASK_INPUT and not reply.fault:
            replies[self._site] = self._changed(reply)
        elif self._silent and method in (SiteMethod.SIGN_SURVIVORS, SiteMethod.REVEAL_SHARES):
            del replies[self._site]
        return replies

    def _changed(self, reply: SiteReply) -> SiteReply:
        turn = Turn(self._agreement, self.n_sums, len(self.sites()), self._rng)
        added = self._strategy(turn)
        self.n_sums += 1
        self._silent = added is None
        if added is None:
            return reply
        masked = MaskedInput.from_bytes(reply.payload)
        return reply._replace(payload=replace(masked, values=masked.values + added).to_bytes())


def _pushed(turn: Turn, length: float, n_interactions: float = 0.0) -> Words:
    """Return a vector of this length, in units of updates, along the first parameter."""
    agreed = turn.agreement
    bits = agreed.scale_bits if agreed.protection is None else agreed.protection.scale_bits
    values = np.zeros(agreed.n_parameters + (agreed.privacy is None), np.int64)
    values[0] = int(length * 2.0**bits)
    if agreed.privacy is None:
        values[-1] = int(n_interactions * 2.0**bits)
    return values.view(np.uint64)


def _huge(turn: Turn) -> Words:
    return _pushed(turn, turn.n_sites * turn.agreement.fixed_point.bound * 0.9 * _unit(turn))


def _unit(turn: Turn) -> float:
    """Return what a whole number of the agreed range is worth in units of updates."""
    protection = turn.agreement.protection
    return 1.0 if protection is None else 2.0**-protection.scale_bits


def _under_bound(turn: Turn) -> Words:
    """Stay below what the check allows: with noise, by what it allows for the noise."""
    agreed = turn.agreement
    if agreed.privacy is None:
        n = agreed.largest_value / 2  # so many that nobody else's updates matter
        return _pushed(turn, 0.99 * agreed.largest_update * n, n)
    taking_part = agreed.privacy.n_users * agreed.sampling_rate
    return _pushed(turn, 0.9 * agreed.privacy.clip_norm * taking_part)


def _just_over(turn: Turn) -> Words:
    agreed = turn.agreement
    if agreed.privacy is None:
        return _pushed(turn, 2.5 * agreed.largest_update * 1000, 1000)
    return _pushed(turn, 2.5 * agreed.longest_sum(turn.n_sites))


def _out_of_range(turn: Turn) -> Words:
    return np.full(len(_pushed(turn, 0)), 2**62, np.uint64)


def _wrapped(turn: Turn) -> Words:
    """Go once around modulo 2^64 on all parameters, and land where honest sites could not."""
    return _pushed(turn, 0) - np.uint64(2**63 - 1)


def _at_random(turn: Turn) -> Words:
    return turn.rng.integers(0, 2**64, len(_pushed(turn, 0)), dtype=np.uint64)


def _every_third(turn: Turn) -> Words:
    return _out_of_range(turn) if turn.n_sums % 3 == 0 else _pushed(turn, 0)


def _now_and_then(turn: Turn) -> Words:
    return _out_of_range(turn) if turn.rng.random() < 0.3 else _pushed(turn, 0)


def _withheld(turn: Turn) -> Words | None:
    return None


def _nothing(turn: Turn) -> Words:
    return _pushed(turn, 0)


def _wrong_count(turn: Turn) -> Words:
    return _pushed(turn, 0.0, turn.agreement.largest_value / 2)


def _negative_count(turn: Turn) -> Words:
    return _pushed(turn, 0.0, -turn.agreement.largest_value / 2)


STRATEGIES: Final[dict[str, Strategy]] = {
    "honest": _nothing,
    "huge value": _huge,
    "out of range": _out_of_range,
    "around 2^64": _wrapped,
    "random words": _at_random,
    "over the bound": _just_over,
    "under the bound": _under_bound,
    "every third sum": _every_third,
    "now and then": _now_and_then,
    "silent at the end": _withheld,
    "count too high": _wrong_count,
    "count negative": _negative_count,
}
