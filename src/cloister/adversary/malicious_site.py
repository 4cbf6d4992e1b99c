"""A site that sends what it likes into secure sums, or breaks their protocol, by a strategy.

Masks are added modulo 2^64, so that whatever is added to a masked vector is added to the sum. A
strategy of the protocol sends shares that nobody can read, shares of another secret, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.engine import Engine
from cloister.federate.engines.site import Site
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteMethod, SiteReply
from cloister.privacy.secure_aggregation.keys import KeyPair
from cloister.privacy.secure_aggregation.messages import MaskedInput, RevealedShares, SharedKeys

__all__ = ["BREACHES", "STRATEGIES", "Breach", "MaliciousSite", "Turn"]

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


class Breach(NamedTuple):
    """How a site breaks the protocol.

    Parameters
    ----------
    silent
        Calls that it does not answer.
    lie
        Changes what its own program is about to share.
    forge
        By method: what it sends in the place of its answer.
    """

    silent: frozenset[SiteMethod] = frozenset()
    lie: Callable[[Site], None] = lambda site: None
    forge: Mapping[SiteMethod, Callable[[bytes], bytes]] = {}


class MaliciousSite:
    """An engine in which one site adds to its own masked vectors, or breaks the protocol.

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
    breach, own
        How it breaks the protocol, and its own program.
    """

    def __init__(
        self,
        engine: Engine,
        site: SiteId,
        agreement: FederationAgreement,
        strategy: Strategy,
        *,
        rng: np.random.Generator,
        breach: Breach = Breach(),  # noqa: B008 - a value that never changes
        own: Site | None = None,
    ) -> None:
        self._engine, self._site, self._agreement = engine, site, agreement
        self._strategy, self._rng = strategy, rng
        self._breach, self._own = breach, own
        self._silent = False
        self.n_sums = 0

    def sites(self) -> tuple[SiteId, ...]:
        """Return all sites, in order."""
        return self._engine.sites()

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Carry calls; change what the malicious site answers."""
        mine = calls.get(self._site)
        if mine is not None and mine.method is SiteMethod.SHARE_KEYS and self._own is not None:
            self._breach.lie(self._own)
        replies = self._engine.call(calls, timeout_s)
        if mine is None or self._site not in replies:
            return replies
        method, reply = mine.method, replies[self._site]
        if method in self._breach.silent:
            del replies[self._site]
        elif method in self._breach.forge and not reply.fault:
            payload = self._breach.forge[method](reply.payload)
            replies[self._site] = reply._replace(payload=payload)
        elif method is SiteMethod.MASK_INPUT and not reply.fault:
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


def _unreadable(n: int) -> Callable[[bytes], bytes]:
    """Make the shares for the first ``n`` others such that they cannot be read."""

    def forge(payload: bytes) -> bytes:
        shared = SharedKeys.from_bytes(payload)
        others = [packet.peer for packet in shared.packets if packet.peer != shared.sender][:n]
        packets = tuple(
            packet._replace(ciphertext=bytes(len(packet.ciphertext)))
            if packet.peer in others
            else packet
            for packet in shared.packets
        )
        return replace(shared, packets=packets).to_bytes()

    return forge


def _share_another_seed(site: Site) -> None:
    if site._open is not None:
        site._open.client._seed = bytes(32)


def _share_another_key(site: Site) -> None:
    if site._open is not None:
        site._open.client._mask = KeyPair.generate()


def _reveal_others(payload: bytes) -> bytes:
    revealed = RevealedShares.from_bytes(payload)
    wrong = tuple((owner, share ^ 1) for owner, share in revealed.seed_shares)
    return replace(revealed, seed_shares=wrong).to_bytes()


_STAGES: Final = (
    SiteMethod.ADVERTISE_KEYS,
    SiteMethod.SHARE_KEYS,
    SiteMethod.MASK_INPUT,
    SiteMethod.SIGN_SURVIVORS,
    SiteMethod.REVEAL_SHARES,
    SiteMethod.END_SESSION,
)

BREACHES: Final[dict[str, Breach]] = {
    "shares that nobody can read": Breach(forge={SiteMethod.SHARE_KEYS: _unreadable(10**6)}),
    "shares that one site cannot read": Breach(forge={SiteMethod.SHARE_KEYS: _unreadable(1)}),
    "shares that two sites cannot read": Breach(forge={SiteMethod.SHARE_KEYS: _unreadable(2)}),
    "shares of another seed": Breach(lie=_share_another_seed),
    "shares of another key, then silence": Breach(
        frozenset({SiteMethod.MASK_INPUT}), _share_another_key
    ),
    "reveals other shares": Breach(forge={SiteMethod.REVEAL_SHARES: _reveal_others}),
    **{f"never answers {one}": Breach(frozenset({one})) for one in _STAGES},
}
