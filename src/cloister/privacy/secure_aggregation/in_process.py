"""A whole round in one process, for tests, simulations and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from numpy.typing import ArrayLike

from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.secure_aggregation.client import AggregationClient, Stage
from cloister.privacy.secure_aggregation.messages import Message
from cloister.privacy.secure_aggregation.server import Aggregate, AggregationServer
from cloister.privacy.secure_aggregation.session import Session

__all__ = ["InputOf", "run_round"]

InputOf = Callable[[str, int], ArrayLike]  # (client_id, size of U2) -> vector
Clock = Callable[[str, str], AbstractContextManager[object]]
M = TypeVar("M", bound=Message)


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
        clients, server = self._clients, self._server
        for name in self._alive(Stage.ADVERTISE_KEYS):
            self._send("advertise keys", clients[name].advertise_keys, server.add_keys)
        roster = self._close("advertise keys", server.close_keys)
        for name in self._alive(Stage.SHARE_KEYS):
            share = self._call(clients[name].share_keys, roster)
            self._send("share keys", share, server.add_shares)
        delivered = self._close("share keys", server.close_shares)
        for name in self._alive(Stage.RECEIVE_SHARES):
            with self._clock("client", "share keys"):
                n_sharers = clients[name].receive_shares(delivered.pop(name))
            if name in self._alive(Stage.MASK_INPUT, (name,)):
                mask = self._call(clients[name].mask_input, input_of(name, n_sharers))
                self._send("masked input", mask, server.add_input)
                self._advance()
        survivors = self._close("masked input", server.close_inputs)
        for name in self._alive(Stage.SIGN_SURVIVORS):
            sign = self._call(clients[name].sign_survivors, survivors)
            self._send("consistency check", sign, server.add_signature)
        signatures = self._close("consistency check", server.close_signatures)
        for name in self._alive(Stage.REVEAL_SHARES):
            reveal = self._call(clients[name].reveal_shares, signatures[name])
            self._send("unmasking", reveal, server.add_revealed)
        return self._close("unmasking", server.close)

    def _alive(self, stage: Stage, names: Sequence[str] | None = None) -> list[str]:
        asked = self._clients if names is None else names
        return [name for name in asked if self._dropouts.get(name, Stage.DONE) > stage]

    def _send(self, stage: str, make: Callable[[], M], take: Callable[[M], None]) -> None:
        with self._clock("client", stage):
            message = make()
        with self._clock("server", stage):
            take(message)

    def _close(self, stage: str, close: Callable[[], T]) -> T:
        with self._clock("server", stage):
            return close()

    @staticmethod
    def _call(method: Callable[[A], M], argument: A) -> Callable[[], M]:
        return lambda: method(argument)


T = TypeVar("T")
A = TypeVar("A")
