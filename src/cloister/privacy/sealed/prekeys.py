"""Signed X25519 keys of a recipient that are used for some time and then destroyed."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from cloister.core.errors import AccessDenied, CloisterError, DataError
from cloister.core.ids import checked_id
from cloister.privacy.contents import as_bytes
from cloister.privacy.identity import SIGNATURE_BYTES, Directory, SigningIdentity
from cloister.privacy.private_file import (
    read_private_file,
    remove_private_file,
    write_private_file,
)
from cloister.privacy.sealed.handshake import id_bytes
from cloister.privacy.sealed.refusals import MessageRefused
from cloister.privacy.sealed.settings import SealedSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = ["Prekeys", "SignedPrekey"]

PREKEY_PURPOSE: Final = b"sealed prekey"
PRIVATE_BYTES: Final = 32
# version, number, valid from and until (s), public key; the id and the signature follow
_FIXED: Final = struct.Struct(">BQQQ32s")
_VERSION: Final = 1


class SignedPrekey(NamedTuple):
    """The public half of a prekey, as it is given to senders."""

    party_id: str
    number: int
    valid_from_s: int
    valid_until_s: int
    public: bytes
    signature: bytes

    def signed_part(self) -> bytes:
        """Return the bytes that the party signs."""
        times = (self.number, self.valid_from_s, self.valid_until_s)
        return _FIXED.pack(_VERSION, *times, self.public) + id_bytes(self.party_id)

    def to_bytes(self) -> bytes:
        """Write the prekey for publication."""
        return self.signed_part() + self.signature

    @classmethod
    def from_bytes(cls, content: bytes) -> SignedPrekey:
        """Read a published prekey; `verify` says whether it is true."""
        content = as_bytes(content, where="prekey")
        if len(content) <= _FIXED.size + SIGNATURE_BYTES or content[0] != _VERSION:
            raise DataError("not a signed prekey", where="prekey", remedy="fetch it again")
        _, number, valid_from_s, valid_until_s, public = _FIXED.unpack_from(content)
        try:
            party_id = checked_id(content[_FIXED.size : -SIGNATURE_BYTES].decode())
        except (UnicodeDecodeError, CloisterError):
            raise DataError("its id is not valid", where="prekey") from None
        signature = content[-SIGNATURE_BYTES:]
        return cls(party_id, number, valid_from_s, valid_until_s, public, signature)

    def verify(self, directory: Directory) -> None:
        """Raise `AccessDenied` unless its party signed it."""
        directory.verify(self.party_id, PREKEY_PURPOSE, self.signed_part(), self.signature)


class _Held(NamedTuple):
    prekey: SignedPrekey
    private: X25519PrivateKey


class Prekeys:
    """A recipient's prekeys with their private halves.

    Parameters
    ----------
    party_id
        Whose keys they are.
    identity
        The party's long-term key, which signs them.
    folder
        Where the private halves lie, in files with mode 0600; one process at a time may use it.
        Without a folder they live in memory, and messages that are under way at a restart are lost.
    clock
        The time in seconds since 1970.

    Examples
    --------
    >>> prekeys = Prekeys("clinic-a", SigningIdentity.generate(), clock=lambda: 1_000.0)
    >>> first = prekeys.current()
    >>> first.number, first.valid_until_s - first.valid_from_s
    (1000, 86400)
    >>> prekeys.current() == first
    True
    """

    def __init__(
        self,
        party_id: str,
        identity: SigningIdentity,
        *,
        folder: str | Path | None = None,
        settings: SealedSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.party_id = checked_id(party_id)
        self.identity_public = identity.public
        self._identity = identity
        self._folder = None if folder is None else Path(folder)
        self._settings = settings or SealedSettings()
        self._clock = clock
        self._lock = threading.RLock()
        self._held: dict[int, _Held] = {}
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held = dict(map(self._read, self._folder.glob("prekey-*")))

    def current(self) -> SignedPrekey:
        """Return the prekey to publish; make a new one where half its lifetime is over."""
        with self._lock:
            now_s = self._clock()
            newest = self._held.get(max(self._held, default=-1))
            half = self._settings.prekey_lifetime_s / 2
            if newest and newest.prekey.valid_from_s <= now_s < newest.prekey.valid_until_s - half:
                return newest.prekey
            return self.rotate()

    def rotate(self) -> SignedPrekey:
        """Make a new prekey now; older ones go on working until they are destroyed."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        with self._lock:
            private = X25519PrivateKey.generate()
            now_s = int(self._clock())
            # Numbers grow also when all keys were destroyed: the clock is their second source.
            number = max(now_s, *(n + 1 for n in self._held), 0)
            until_s = now_s + self._settings.prekey_lifetime_s
            public = private.public_key().public_bytes_raw()
            unsigned = SignedPrekey(self.party_id, number, now_s, until_s, public, b"")
            signature = self._identity.sign(PREKEY_PURPOSE, unsigned.signed_part())
            prekey = unsigned._replace(signature=signature)
            if self._folder is not None:
                content = prekey.to_bytes() + private.private_bytes_raw()
                write_private_file(_path(self._folder, number), content)
            self._held[number] = _Held(prekey, private)
            return prekey

    def find(self, number: int) -> tuple[SignedPrekey, X25519PrivateKey]:
        """Return a prekey that may still be used, or raise `MessageRefused`."""
        held = self._held.get(number)
        if held is None or self._clock() > self._destroy_at_s(held.prekey):
            raise MessageRefused(
                f"prekey {number} does not exist, or no longer",
                where=self.party_id,
                remedy="let the sender fetch the current prekey and send again",
            )
        return held.prekey, held.private

    def destroy(self, number: int) -> None:
        """Destroy a prekey: what was sealed for it can no longer be read by anybody."""
        with self._lock:
            if self._folder is not None:
                remove_private_file(_path(self._folder, number))
            self._held.pop(number, None)

    def destroy_expired(self) -> list[int]:
        """Destroy the prekeys whose time and grace are over; return their numbers."""
        with self._lock:
            now_s = self._clock()
            expired = [n for n, held in self._held.items() if now_s > self._destroy_at_s(held[0])]
            for number in sorted(expired):
                self.destroy(number)
            return sorted(expired)

    def numbers(self) -> list[int]:
        """Return the numbers of the prekeys that are held."""
        return sorted(self._held)

    def __repr__(self) -> str:
        return f"<Prekeys of {self.party_id}: {self.numbers()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("prekeys are not pickled or copied; give them a folder")

    def _destroy_at_s(self, prekey: SignedPrekey) -> float:
        return prekey.valid_until_s + self._settings.prekey_grace_s

    def _read(self, path: Path) -> tuple[int, _Held]:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        content = read_private_file(path)
        try:
            prekey = SignedPrekey.from_bytes(content[:-PRIVATE_BYTES])
            prekey.verify(Directory({self.party_id: self.identity_public}))
        except CloisterError:
            raise AccessDenied(
                "not a prekey of this party",
                where=str(path),
                remedy="use the folder and the identity that belong together",
            ) from None
        private = X25519PrivateKey.from_private_bytes(content[-PRIVATE_BYTES:])
        return prekey.number, _Held(prekey, private)


def _path(folder: Path, number: int) -> Path:
    return folder / f"prekey-{number}"
