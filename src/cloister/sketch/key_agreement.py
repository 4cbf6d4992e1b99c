"""How the parties of a federation agree on one hash key that their server never learns.

Each party draws 32 random bytes, its contribution. Three messages go from each to each other one,
sealed, through a relay that sees ciphertext only:

1. *commit*: the hash of the contribution;
2. *reveal*, once the commitments of all are there: the contribution, and all commitments as they
   arrived, so that nobody can show different ones to different parties;
3. *confirm*, once the contributions of all are there and fit: a code that only who has the key can
   compute.

The key is HKDF-SHA256 of all contributions in the order of party ids, salted with the digest of the
`KeyRoster`: the federation's name, the epoch, the parties and their identity keys. Messages carry
that digest, so those of another roster or epoch are refused.

**What holds.** The relay and whoever reads its traffic learn nothing about the key, while the
sealed messages hold. Who ends with a key knows that every other party had the same one when it
confirmed. One honest contribution makes the key random, for nobody can choose theirs after having
seen another: not even all other parties together can bring about a key of their choice.

**What does not.** Every party has the key and can pass it on. A party can stop after it has seen
the others' contributions, and so make the others try again: it may throw away keys that it
dislikes, one an attempt, each time under its name. The last confirmation may get lost: then its
recipient has no key, while others have one; a new epoch mends that.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from cloister.core.errors import CloisterError, SettingsError
from cloister.core.ids import checked_id
from cloister.privacy.identity import PUBLIC_KEY_BYTES, Directory, SigningIdentity
from cloister.privacy.sealed.handshake import hkdf_sha256, id_bytes
from cloister.privacy.sealed.prekeys import Prekeys, SignedPrekey
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from cloister.privacy.sealed.relay import InMemoryRelay, Relay
from cloister.privacy.sealed.sender import Sender
from cloister.sketch.keyed_hash import KEY_BYTES, HashKey

__all__ = [
    "KeyAgreement",
    "KeyAgreementFailed",
    "Outgoing",
    "KeyRoster",
    "SealedKeyAgreement",
    "agree_in_process",
]

DIGEST_BYTES: Final = 32
COMMIT, REVEAL, CONFIRM = STAGES = ("key-commit", "key-reveal", "key-confirm")
_ROSTER_INFO: Final = b"cloister key agreement roster 1"
_COMMIT_INFO: Final = b"cloister key agreement commitment 1"
_KEY_INFO: Final = b"cloister sketch hash key 1"


class KeyAgreementFailed(CloisterError):
    """A party did not keep to the protocol; ``where`` names it. No key was agreed on."""

    usual_remedy = "settle it with that party, then agree anew in the next epoch"


class Outgoing(NamedTuple):
    """A message to another party; ``repr()`` leaves the content out."""

    recipient: str
    topic: str
    content: bytes

    def __repr__(self) -> str:
        return f"<Outgoing {self.topic} to {self.recipient}>"


@dataclass(frozen=True)
class KeyRoster:
    """Who agrees on a key, for which federation, for the how manieth time.

    All parties must begin with the same roster. An epoch is used once, also when it failed.

    Parameters
    ----------
    federation
        Its name.
    parties
        The Ed25519 public key of each party, by party id.
    epoch
        Grows by one with each agreement.

    Examples
    --------
    >>> roster = KeyRoster("clinics", {"a": bytes(32), "b": bytes([1]) * 32})
    >>> roster.next_epoch().epoch, roster.next_epoch().digest() == roster.digest()
    (2, False)
    """

    federation: str
    parties: Mapping[str, bytes]
    epoch: int = 1

    def __post_init__(self) -> None:
        checked_id(self.federation)
        parties = {checked_id(party_id): bytes(key) for party_id, key in self.parties.items()}
        object.__setattr__(self, "parties", MappingProxyType(dict(sorted(parties.items()))))
        if len(parties) < 2:
            raise SettingsError("at least two parties agree on a key", where="roster")
        if {len(key) for key in parties.values()} != {PUBLIC_KEY_BYTES}:
            raise SettingsError(f"a public key has {PUBLIC_KEY_BYTES} bytes", where="roster")
        if len(set(parties.values())) != len(parties):
            raise SettingsError("two parties have one identity key", where="roster")
        if not 1 <= self.epoch < 1 << 64:
            raise SettingsError(f"epochs count from 1 (given: {self.epoch})", where="roster")

    def next_epoch(self, parties: Mapping[str, bytes] | None = None) -> KeyRoster:
        """Return the roster of the next agreement: the same parties, or those who are in it now."""
        return KeyRoster(
            self.federation, self.parties if parties is None else parties, self.epoch + 1
        )

    def digest(self) -> bytes:
        """Return a hash of all of it."""
        epoch = self.epoch.to_bytes(8, "big")
        parts = [id_bytes(self.federation), epoch]
        for party_id, public in self.parties.items():
            parts += [id_bytes(party_id), public]
        return _hash(_ROSTER_INFO, *parts)


class KeyAgreement:
    """One party's side of one agreement, without network or encryption: messages in and out.

    What goes in must come from whom it is said to come, and what goes out must be readable by its
    recipient only: `SealedKeyAgreement` sees to both. It lives in memory; after a crash the parties
    agree anew in the next epoch. Messages may come in any order.

    Parameters
    ----------
    roster
        The same for all.
    party_id
        Whose side this is.

    Examples
    --------
    >>> roster = KeyRoster("clinics", {"a": bytes(32), "b": bytes([1]) * 32})
    >>> sides = {name: KeyAgreement(roster, name) for name in roster.parties}
    >>> on_the_way = [(name, message) for name in sides for message in sides[name].begin()]
    >>> while on_the_way:
    ...     sender, message = on_the_way.pop()
    ...     answers = sides[message.recipient].accept(sender, message.topic, message.content)
    ...     on_the_way += [(message.recipient, answer) for answer in answers]
    >>> sides["a"].key() == sides["b"].key()
    True
    """

    def __init__(self, roster: KeyRoster, party_id: str) -> None:
        if party_id not in roster.parties:
            raise SettingsError("not a party of this roster", where=party_id)
        self.roster = roster
        self.party_id = party_id
        self._digest = roster.digest()
        self._contribution = secrets.token_bytes(KEY_BYTES)
        self._arrived: dict[str, dict[str, bytes]] = {stage: {} for stage in STAGES}
        self._secret: bytes | None = None
        self._failure: KeyAgreementFailed | None = None

    def begin(self) -> list[Outgoing]:
        """Return the first messages; calling it again is refused."""
        if self.party_id in self._arrived[COMMIT]:
            raise SettingsError("this agreement has begun", where=self.party_id)
        own = _commitment(self._digest, self.party_id, self._contribution)
        return self._send(COMMIT, own) + self._advance()

    def accept(self, sender: str, topic: str, content: bytes) -> list[Outgoing]:
        """Take a message of another party; return what to send now.

        Raises
        ------
        MessageRefused
            The message does not belong here. Nothing changed: the right one may still come.
        KeyAgreementFailed
            The sender did not keep to the protocol. This agreement has ended.
        """
        if self._failure:
            raise self._failure
        body = self._checked_body(sender, topic, content)
        if (known := self._arrived[topic].get(sender)) is not None:
            if known == body:
                raise Replayed(f"its {topic} was accepted before", where=sender)
            self._fail(sender, f"sent two different messages {topic}")
        self._arrived[topic][sender] = body
        return self._advance()

    def missing(self) -> tuple[str, ...]:
        """Return the parties whose next message has not arrived; empty when the key is agreed."""
        for stage in STAGES:
            if missing := tuple(p for p in self.roster.parties if p not in self._arrived[stage]):
                return missing
        return ()

    def key(self) -> HashKey:
        """Return the key that all have confirmed, or raise `KeyAgreementFailed`, naming a party."""
        if self._failure:
            raise self._failure
        if self._secret is None or self.missing():
            raise KeyAgreementFailed(
                f"{self.party_id} still waits for its message",
                where=", ".join(self.missing()),
                remedy="deliver the message, or agree anew in the next epoch",
            )
        return HashKey(self._secret[:KEY_BYTES])

    def __repr__(self) -> str:
        return f"<KeyAgreement of {self.party_id}, epoch {self.roster.epoch}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key agreement is not pickled or copied: it holds a secret")

    def _checked_body(self, sender: str, topic: str, content: bytes) -> bytes:
        if sender not in self.roster.parties or sender == self.party_id:
            raise MessageRefused("not another party of this roster", where=sender[:80])
        if topic not in STAGES:
            raise MessageRefused(f"no message of a key agreement ({topic[:80]!r})", where=sender)
        if content[:DIGEST_BYTES] != self._digest:
            raise MessageRefused(
                "its message is of another federation, epoch, or list of parties",
                where=sender,
                remedy="compare the rosters: name, epoch, party ids and identity keys",
            )
        body = content[DIGEST_BYTES:]
        n_parties = len(self.roster.parties)
        if len(body) != (DIGEST_BYTES * (1 + n_parties) if topic == REVEAL else DIGEST_BYTES):
            raise MessageRefused(f"its {topic} has a wrong length", where=sender)
        return body

    def _send(self, stage: str, body: bytes) -> list[Outgoing]:
        """Count an own message as arrived, and return it for each other party."""
        self._arrived[stage][self.party_id] = body
        others = [party_id for party_id in self.roster.parties if party_id != self.party_id]
        return [Outgoing(party_id, stage, self._digest + body) for party_id in others]

    def _advance(self) -> list[Outgoing]:
        """Go on as far as what has arrived allows."""
        out: list[Outgoing] = []
        if self._complete(COMMIT) and self.party_id not in self._arrived[REVEAL]:
            out += self._send(REVEAL, self._contribution + self._commitments())
        if self._complete(REVEAL) and self.party_id not in self._arrived[CONFIRM]:
            self._check_reveals()
            self._secret = self._derived()
            out += self._send(CONFIRM, self._code(self._secret, self.party_id))
        if self._complete(CONFIRM):
            self._check_codes()
        return out

    def _complete(self, stage: str) -> bool:
        return self.party_id in self._arrived[COMMIT] and len(self._arrived[stage]) == len(
            self.roster.parties
        )

    def _commitments(self) -> bytes:
        return b"".join(self._arrived[COMMIT][party_id] for party_id in self.roster.parties)

    def _check_reveals(self) -> None:
        own = self._commitments()
        for party_id in self.roster.parties:
            body = self._arrived[REVEAL][party_id]
            contribution, seen = body[:KEY_BYTES], body[KEY_BYTES:]
            if _commitment(self._digest, party_id, contribution) != _at(own, self._place(party_id)):
                self._fail(party_id, "revealed something else than it had committed to")
            for other in self.roster.parties:
                if _at(seen, self._place(other)) != _at(own, self._place(other)):
                    self._fail(
                        other,
                        f"its commitment is one to {self.party_id} and another to {party_id}, "
                        f"or {party_id} says so wrongly",
                    )

    def _derived(self) -> bytes:
        """Return the key and, behind it, the secret of the confirmations."""
        reveals = self._arrived[REVEAL]
        together = b"".join(reveals[party_id][:KEY_BYTES] for party_id in self.roster.parties)
        return hkdf_sha256(together, salt=self._digest, info=_KEY_INFO, n_bytes=2 * KEY_BYTES)

    def _code(self, secret: bytes, party_id: str) -> bytes:
        return hmac.digest(secret[KEY_BYTES:], id_bytes(party_id), "sha256")

    def _check_codes(self) -> None:
        secret = self._secret or self._derived()
        for party_id, code in self._arrived[CONFIRM].items():
            if not hmac.compare_digest(code, self._code(secret, party_id)):
                self._fail(party_id, "confirms another key")

    def _place(self, party_id: str) -> int:
        return list(self.roster.parties).index(party_id)

    def _fail(self, party_id: str, what: str) -> NoReturn:
        self._failure = KeyAgreementFailed(what, where=party_id)
        raise self._failure


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


def _commitment(roster_digest: bytes, party_id: str, contribution: bytes) -> bytes:
    return _hash(_COMMIT_INFO, roster_digest, id_bytes(party_id), contribution)


def _hash(*parts: bytes) -> bytes:
    """Hash parts so that no two lists of parts give the same bytes."""
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


def _at(joined: bytes, place: int) -> bytes:
    return joined[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]
