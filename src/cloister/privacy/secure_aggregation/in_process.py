"""A whole round in one process, for tests, simulations and benchmarks.

Every message goes from one side to the other as bytes, as an engine would carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from numpy.typing import ArrayLike

from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.secure_aggregation.client import AggregationClient, Stage
from cloister.privacy.secure_aggregation.messages import (
    AdvertisedKeys,
    DeliveredShares,
    MaskedInput,
    RevealedShares,
    Roster,
    SharedKeys,
    SurvivorSet,
    SurvivorSignature,
    SurvivorSignatures,
)
from cloister.privacy.secure_aggregation.server import Aggregate, AggregationServer
from cloister.privacy.secure_aggregation.session import Session

__all__ = ["InputOf", "run_round"]

InputOf = Callable[[str, int], ArrayLike]  # (client_id, size of U2) -> vector
Clock = Callable[[str, str], AbstractContextManager[object]]


def _no_clock(side: str, stage: str) -> AbstractContextManager[object]:
    return nullcontext()


def run_round(
    session: Session,
    identities: Mapping[str, SigningIdentity],
    input_of: InputOf,
    *,
    dropouts: Mapping[str, Stage] | None = None,
    clock: Clock = _no_clock,
    advance: Callable[[], None] = lambda: None,
) -> Aggregate:
    """Run all stages; a client that drops out at a stage does not send that stage's message.

    Parameters
    ----------
    session
        The public parameters.
    identities
        The signing keys of all members.
    input_of
        Gives a client's vector, when the size of U2 is known; called for those alive then.
    dropouts
        The stage at which a client falls silent, by client.
    clock
        Makes a context that measures ``("client" or "server", stage)``.
    advance
        Called after each vector that was masked.

    Examples
    --------
    >>> from cloister.privacy.secure_aggregation.fixed_point import FixedPoint
    >>> identities = {name: SigningIdentity.generate() for name in "abcd"}
    >>> session = Session.new(identities, n_values=2, min_survivors=3, n_colluders=0,
    ...                       fixed_point=FixedPoint(bound=9.0))
    >>> found = run_round(session, identities, lambda client, n: [1.0, 0.5],
    ...                   dropouts={"d": Stage.MASK_INPUT})
    >>> session.fixed_point.decode(found.total, n_clients=len(found.client_ids))
    array([3. , 1.5])
    """
    directory = Directory({name: identity.public for name, identity in identities.items()})
    return _Round(session, identities, directory, dropouts or {}, clock, advance).run(input_of)


class _Round:
    def __init__(
        self,
        session: Session,
        identities: Mapping[str, SigningIdentity],
        directory: Directory,
        dropouts: Mapping[str, Stage],
        clock: Clock,
        advance: Callable[[], None],
    ) -> None:
        self._clients = {
            name: AggregationClient(session, name, identities[name], directory)
            for name in session.members
        }
        self._server = AggregationServer(session, directory)
        self._dropouts = dropouts
        self._clock = clock
        self._advance = advance

    def run(self, input_of: InputOf) -> Aggregate:
        roster = self._advertise_keys()
        delivered = self._share_keys(roster)
        survivors = self._mask_inputs(delivered, input_of)
        signatures = self._sign_survivors(survivors)
        return self._unmask(signatures)

    def _advertise_keys(self) -> bytes:
        for name in self._alive(Stage.ADVERTISE_KEYS):
            with self._at_client("advertise keys"):
                keys = self._clients[name].advertise_keys().to_bytes()
            with self._at_server("advertise keys"):
                self._server.add_keys(AdvertisedKeys.from_bytes(keys))
        with self._at_server("advertise keys"):
            return self._server.close_keys().to_bytes()

    def _share_keys(self, roster: bytes) -> dict[str, DeliveredShares]:
        for name in self._alive(Stage.SHARE_KEYS):
            with self._at_client("share keys"):
                shares = self._clients[name].share_keys(Roster.from_bytes(roster)).to_bytes()
            with self._at_server("share keys"):
                self._server.add_shares(SharedKeys.from_bytes(shares))
        with self._at_server("share keys"):
            return self._server.close_shares()

    def _mask_inputs(self, delivered: dict[str, DeliveredShares], input_of: InputOf) -> bytes:
        for name in self._alive(Stage.RECEIVE_SHARES):
            client = self._clients[name]
            with self._at_server("share keys"):
                shares = delivered.pop(name).to_bytes()
            with self._at_client("share keys"):
                n_sharers = client.receive_shares(DeliveredShares.from_bytes(shares))
            if self._is_alive(name, Stage.MASK_INPUT):
                values = input_of(name, n_sharers)
                with self._at_client("masked input"):
                    masked = client.mask_input(values).to_bytes()
                with self._at_server("masked input"):
                    self._server.add_input(MaskedInput.from_bytes(masked))
                self._advance()
        with self._at_server("masked input"):
            return self._server.close_inputs().to_bytes()

    def _sign_survivors(self, survivors: bytes) -> dict[str, SurvivorSignatures]:
        for name in self._alive(Stage.SIGN_SURVIVORS):
            with self._at_client("consistency check"):
                told = SurvivorSet.from_bytes(survivors)
                signature = self._clients[name].sign_survivors(told).to_bytes()
            with self._at_server("consistency check"):
                self._server.add_signature(SurvivorSignature.from_bytes(signature))
        with self._at_server("consistency check"):
            return self._server.close_signatures()

    def _unmask(self, signatures: dict[str, SurvivorSignatures]) -> Aggregate:
        for name in self._alive(Stage.REVEAL_SHARES):
            with self._at_server("consistency check"):
                signed = signatures.pop(name).to_bytes()
            with self._at_client("unmasking"):
                told = SurvivorSignatures.from_bytes(signed)
                revealed = self._clients[name].reveal_shares(told).to_bytes()
            with self._at_server("unmasking"):
                self._server.add_revealed(RevealedShares.from_bytes(revealed))
        with self._at_server("unmasking"):
            return self._server.close()

    def _alive(self, stage: Stage) -> list[str]:
        return [name for name in self._clients if self._is_alive(name, stage)]

    def _is_alive(self, name: str, stage: Stage) -> bool:
        return self._dropouts.get(name, Stage.DONE) > stage

    def _at_client(self, stage: str) -> AbstractContextManager[object]:
        return self._clock("client", stage)

    def _at_server(self, stage: str) -> AbstractContextManager[object]:
        return self._clock("server", stage)
