"""A key agreement whose messages travel sealed, through a relay that sees ciphertext only.

:mod:`cloister.sketch.key_agreement` has the protocol, and says what holds and what does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cloister.core.errors import SettingsError
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.sealed.prekeys import Prekeys, SignedPrekey
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.refusals import Replayed
from cloister.privacy.sealed.relay import InMemoryRelay, Relay
from cloister.privacy.sealed.sender import Sender
from cloister.sketch.key_agreement import KeyAgreement, Outgoing
from cloister.sketch.key_roster import KeyRoster
from cloister.sketch.keyed_hash import HashKey

__all__ = ["SealedKeyAgreement", "agree_in_process"]


@dataclass(frozen=True)
class SealedKeyAgreement:
    """One party's side, with sealed envelopes in and out.

    The identity keys of the roster must be those that sender and receiver know; where the
    directory has another key for a party, the roster is refused.
    """

    agreement: KeyAgreement
    sender: Sender = field(repr=False)
    receiver: Receiver = field(repr=False)
    directory: Directory = field(repr=False)

    def __post_init__(self) -> None:
        for party_id, public in self.agreement.roster.parties.items():
            if self.directory.public(party_id) != public:
                raise SettingsError(
                    "the roster has another identity key than the directory", where=party_id
                )

    def begin(self) -> list[Outgoing]:
        """Return the first envelopes, by recipient."""
        return self._sealed(self.agreement.begin())

    def accept(self, envelope: bytes) -> list[Outgoing]:
        """Open an envelope and return those to send now; raises as `KeyAgreement.accept`.

        Envelopes that come again are recognised by what is in them: the state, which lives in
        memory, is the record of what was accepted.
        """
        message = self.receiver.open_without_replay_check(envelope)
        return self._sealed(self.agreement.accept(message.sender, message.topic, message.content))

    def key(self) -> HashKey:
        """Return the key that all have confirmed."""
        return self.agreement.key()

    def _sealed(self, messages: Iterable[Outgoing]) -> list[Outgoing]:
        return [
            message._replace(
                content=self.sender.seal(message.recipient, message.topic, message.content)
            )
            for message in messages
        ]


def agree_in_process(
    federation: str,
    identities: Mapping[str, SigningIdentity],
    *,
    epoch: int = 1,
    relay: Relay | None = None,
) -> dict[str, HashKey]:
    """Let all parties agree inside one process, for tests and simulations.

    Parameters
    ----------
    federation, epoch
        As in `KeyRoster`.
    identities
        The parties.
    relay
        What carries the envelopes.

    Examples
    --------
    >>> identities = {name: SigningIdentity.generate() for name in ("a", "b", "c")}
    >>> keys = agree_in_process("clinics", identities)
    >>> len({key.fingerprint for key in keys.values()})
    1
    """
    relay = InMemoryRelay() if relay is None else relay
    directory = Directory({name: identity.public for name, identity in identities.items()})
    roster = KeyRoster(federation, {name: directory.public(name) for name in directory}, epoch)
    prekeys = {name: Prekeys(name, identity) for name, identity in identities.items()}
    for name, held in prekeys.items():
        relay.publish(name, held.current().to_bytes())
    sides = {}
    for name, identity in identities.items():
        sender = Sender(name, identity, directory)
        for other in identities:
            if other != name:
                sender.learn(SignedPrekey.from_bytes(relay.prekey(other)))
        receiver = Receiver(prekeys[name], directory)
        sides[name] = SealedKeyAgreement(KeyAgreement(roster, name), sender, receiver, directory)
    _carry(sides, relay)
    return {name: side.key() for name, side in sides.items()}


def _carry(sides: Mapping[str, SealedKeyAgreement], relay: Relay) -> None:
    """Pass envelopes on until none waits."""
    for side in sides.values():
        for message in side.begin():
            relay.send(message.recipient, message.content)
    carried = True
    while carried:
        carried = False
        for name, side in sides.items():
            for delivery in relay.receive(name):
                carried = True
                answers: list[Outgoing] = []
                with suppress(Replayed):
                    answers = side.accept(delivery.envelope)
                relay.acknowledge(name, delivery.delivery_id)
                for message in answers:
                    relay.send(message.recipient, message.content)
