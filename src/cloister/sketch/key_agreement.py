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
that digest, so those of another roster or epoch are refused. Here is the protocol alone;
:mod:`cloister.sketch.sealed_key_agreement` seals its messages.

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

import hmac
import secrets
from typing import Final, NamedTuple, NoReturn

from cloister.core.errors import CloisterError, SettingsError
from cloister.privacy.sealed.handshake import hkdf_sha256, id_bytes
from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from cloister.sketch.key_roster import KeyRoster, hash_parts
from cloister.sketch.keyed_hash import KEY_BYTES, HashKey

__all__ = ["KeyAgreement", "KeyAgreementFailed", "Outgoing"]

DIGEST_BYTES: Final = 32
COMMIT, REVEAL, CONFIRM = STAGES = ("key-commit", "key-reveal", "key-confirm")
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


def _commitment(roster_digest: bytes, party_id: str, contribution: bytes) -> bytes:
    return hash_parts(_COMMIT_INFO, roster_digest, id_bytes(party_id), contribution)


def _at(joined: bytes, place: int) -> bytes:
    return joined[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]
