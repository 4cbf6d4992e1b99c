"""Small sessions with identities, for the tests of secure aggregation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.secure_aggregation import (
    AggregationClient,
    AggregationServer,
    FixedPoint,
    Session,
)
from cloister.privacy.secure_aggregation.messages import DeliveredShares, Roster, SurvivorSet

__all__ = ["Party", "identities_of", "replace", "session_of"]


@cache
def _identity(name: str) -> SigningIdentity:
    return SigningIdentity.generate()


def identities_of(n: int) -> dict[str, SigningIdentity]:
    return {name: _identity(name) for name in (f"client-{i}" for i in range(n))}


def session_of(n: int, min_survivors: int, *, n_values: int = 3, n_colluders: int = 0) -> Session:
    return Session.new(
        identities_of(n),
        n_values=n_values,
        fixed_point=FixedPoint(bound=2.0**40, scale_bits=0),
        min_survivors=min_survivors,
        n_colluders=n_colluders,
    )


class Party:
    """All clients of a session and an honest server, to be driven stage by stage."""

    def __init__(
        self, n: int = 5, min_survivors: int = 4, *, session: Session | None = None
    ) -> None:
        self.identities = identities_of(n)
        self.session = session or session_of(n, min_survivors)
        self.directory = Directory({k: v.public for k, v in self.identities.items()})
        self.server = AggregationServer(self.session, self.directory)
        self.clients = {
            name: AggregationClient(self.session, name, identity, self.directory)
            for name, identity in self.identities.items()
        }

    def __getitem__(self, place: int) -> AggregationClient:
        return self.clients[f"client-{place}"]

    def vector(self, place: int) -> NDArray[np.int64]:
        return np.arange(self.session.n_values) * 10 + place

    def advertise(self) -> Roster:
        for client in self.clients.values():
            self.server.add_keys(client.advertise_keys())
        return self.server.close_keys()

    def share(self) -> dict[str, DeliveredShares]:
        roster = self.advertise()
        for client in self.clients.values():
            self.server.add_shares(client.share_keys(roster))
        return self.server.close_shares()

    def mask(self, silent: tuple[int, ...] = ()) -> SurvivorSet:
        delivered = self.share()
        for place, (name, client) in enumerate(self.clients.items()):
            client.receive_shares(delivered[name])
            if place not in silent:
                self.server.add_input(client.mask_input(self.vector(place)))
        return self.server.close_inputs()
