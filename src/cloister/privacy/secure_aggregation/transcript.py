"""What a client and the server derive from the roster, in the same way and from nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.keys import digest
from cloister.privacy.secure_aggregation.messages import AdvertisedKeys, Roster
from cloister.privacy.secure_aggregation.neighbours import holders_at, ring_order
from cloister.privacy.secure_aggregation.session import Session
from cloister.privacy.secure_aggregation.wire import MessageWriter

__all__ = ["ADVERTISING", "SURVIVING", "Transcript", "commitment_to_seed"]

ADVERTISING = b"secure aggregation: advertised keys"  # purposes of signatures
SURVIVING = b"secure aggregation: survivors"


def commitment_to_seed(context: bytes, client_id: str, seed: bytes) -> bytes:
    """Return the hash by which a self-mask's seed is known before it is revealed."""
    return digest(b"self-mask seed", context, client_id.encode(), seed)


class Transcript:
    """The checked roster: its digest, the graph, and who holds whose shares.

    The order on the ring comes from a hash over the session and all signed keys, so that nobody
    chooses it alone. A server can still try many orders by leaving clients out or by having
    colluding clients sign other keys; ``grinding_bits`` of the session are the margin for it.
    """

    def __init__(self, session: Session, roster: Roster) -> None:
        _check_roster(session, roster)
        self.session = session
        self.entries: dict[int, AdvertisedKeys] = dict(enumerate(roster.entries))
        self.n_clients = len(roster.entries)
        self.digest = digest(b"roster", roster.to_bytes())
        self.plan = session.plan(self.n_clients)
        self._order, self._places = self._ring()

    def place_of(self, keys: AdvertisedKeys) -> int:
        """Return the place of a client in the roster, by what it advertised."""
        for place, entry in self.entries.items():
            if entry == keys:
                return place
        raise AggregationFailed("the roster does not have this client's keys", where=keys.client_id)

    def keep(self, places: Iterable[int]) -> None:
        """Forget the keys of all others: a client needs those of its holders, and no more."""
        self.entries = {place: self.entries[place] for place in places}

    def holders(self, client: int) -> tuple[int, ...]:
        """Return who holds a client's shares: itself and its neighbours on the ring."""
        return holders_at(self._order, self._places[client], self.plan.n_holders)

    def _ring(self) -> tuple[list[int], list[int]]:
        """Return the clients in the order of the ring, and the place of each in it."""
        seed = digest(b"ring", self.digest)
        order = ring_order(seed, [entry.client_id for entry in self.entries.values()])
        places = [0] * len(order)
        for place, client in enumerate(order):
            places[client] = place
        return order, places

    def client_id(self, place: int) -> str:
        """Return the id of the client at a place of the roster."""
        return self.entries[place].client_id

    def sealed_for(self, sender: int, receiver: int, *share_digests: bytes) -> bytes:
        """Return the associated data of an encrypted pair of shares."""
        places = sender.to_bytes(4, "little") + receiver.to_bytes(4, "little")
        return digest(b"sealed shares", self.digest, places, *share_digests)

    def share_digest(self, kind: bytes, owner: int, holder: int, share: bytes) -> bytes:
        """Return the hash by which a share is known before it is revealed.

        A share is uniform among more than 2^520 values, so the hash says nothing of it that could
        be found by trying.
        """
        places = owner.to_bytes(4, "little") + holder.to_bytes(4, "little")
        return digest(kind, self.digest, places, share)

    def signed_sets(self, sharers: tuple[int, ...], survivors: tuple[int, ...]) -> bytes:
        """Return what clients sign in the consistency check: the roster, U2 and U3."""
        return MessageWriter().raw(self.digest).rising(sharers).rising(survivors).done()


def _check_roster(session: Session, roster: Roster) -> None:
    ids = [entry.client_id for entry in roster.entries]
    if roster.context != session.context or any(
        entry.context != session.context for entry in roster.entries
    ):
        raise AggregationFailed("a message of another session", where="roster")
    if any(left >= right for left, right in itertools.pairwise(ids)):
        raise AggregationFailed("clients are not in order, or there twice", where="roster")
    if not session.member_set.issuperset(ids):
        raise AggregationFailed("somebody is no member of the session", where="roster")
    if len(ids) < session.min_survivors:
        raise AggregationFailed(
            f"{len(ids)} clients advertised keys; {session.min_survivors} are needed",
            where="roster",
        )
