"""Key agreement: X25519, then HKDF-SHA256 with everything that the key is for in its ``info``.

The function KA of Bonawitz et al. (2017), section 3.3. Keys for encryption and keys for masks come
from different key pairs and carry different purposes; a key also depends on the session, on the
roster of all advertised keys, and on the two clients, so that none can be carried elsewhere.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from cloister.privacy.secure_aggregation.errors import AggregationFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = ["KEY_BYTES", "KeyPair", "digest"]

KEY_BYTES: Final = 32
ENCRYPTION: Final = b"cloister secure aggregation: encryption of shares"
MASK: Final = b"cloister secure aggregation: pairwise mask"


def digest(*parts: bytes) -> bytes:
    """Return the SHA-256 of some parts, each with its length before it.

    Examples
    --------
    >>> digest(b"ab", b"c") == digest(b"a", b"bc")
    False
    """
    return hashlib.sha256(_joined(*parts)).digest()


class KeyPair:
    """A fresh X25519 key pair for one session; ``repr()`` shows the public half only."""

    __slots__ = ("_private", "public")

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self.public: Final[bytes] = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> KeyPair:
        """Draw a pair from the system's random source."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_private_bytes(cls, private: bytes) -> KeyPair:
        """Rebuild a pair from its 32 private bytes."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return cls(X25519PrivateKey.from_private_bytes(private))

    def private_bytes(self) -> bytes:
        """Return the 32 private bytes, to be shared out."""
        return self._private.private_bytes_raw()

    def agree(self, peer: bytes, purpose: bytes, transcript: bytes, low: int, high: int) -> bytes:
        """Return the 32 bytes that only the owners of the two private keys can know.

        ``low`` and ``high`` are the places of the two clients in the roster, the smaller first;
        ``transcript`` stands for the session and the roster.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError:  # a point of low order: the result would not depend on our key
            raise AggregationFailed(
                "a public key is not usable", where=f"client {low} or {high} of the roster"
            ) from None
        info = _joined(purpose, transcript, low.to_bytes(4, "little"), high.to_bytes(4, "little"))
        return HKDF(SHA256(), KEY_BYTES, None, info).derive(secret)

    def __repr__(self) -> str:
        return f"<KeyPair public={self.public.hex()}>"


def _joined(*parts: bytes) -> bytes:
    return b"".join([len(part).to_bytes(8, "little") + part for part in parts])
