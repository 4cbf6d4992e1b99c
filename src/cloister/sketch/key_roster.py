"""Who agrees on a hash key: the roster that all parties of an agreement begin with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cloister.core.errors import SettingsError
from cloister.core.ids import checked_id
from cloister.privacy.identity import PUBLIC_KEY_BYTES
from cloister.privacy.sealed.handshake import id_bytes

__all__ = ["KeyRoster", "hash_parts"]

_ROSTER_INFO: Final = b"cloister key agreement roster 1"


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
        return hash_parts(_ROSTER_INFO, *parts)


def hash_parts(*parts: bytes) -> bytes:
    """Hash parts so that no two lists of parts give the same bytes."""
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()
