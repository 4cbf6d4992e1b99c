"""A second reading of the wire format, with HMAC by hand, that shares no code with the package."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def literal_hkdf(secret: bytes, salt: bytes, info: bytes, n_bytes: int) -> bytes:
    """RFC 5869, section 2."""
    key = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    done, block = b"", b""
    for counter in range(1, -(-n_bytes // 32) + 1):
        block = hmac.new(key, block + info + bytes((counter,)), hashlib.sha256).digest()
        done += block
    return done[:n_bytes]


def literal_open(
    envelope: bytes, prekey: X25519PrivateKey, sender: bytes, recipient: bytes
) -> tuple[str, bytes]:
    """Open an envelope with the prekey's private half and both identities' public keys."""
    n_sender = int.from_bytes(envelope[53:55], "big")
    n_recipient = int.from_bytes(envelope[55:57], "big")
    n_opening = 57 + n_sender + n_recipient
    prekey_public = prekey.public_key().public_bytes_raw()
    transcript = envelope[:n_opening] + sender + recipient + prekey_public
    signature = envelope[n_opening : n_opening + 64]
    purpose = b"sealed session opening"
    signed = b"cloister signature 1\0" + bytes((len(purpose),)) + purpose + transcript
    Ed25519PublicKey.from_public_bytes(sender).verify(signature, signed)
    shared = prekey.exchange(X25519PublicKey.from_public_bytes(envelope[21:53]))
    salt = hashlib.sha256(transcript).digest()
    key = literal_hkdf(shared, salt, b"cloister sealed session keys 1", 64)[:32]
    number = envelope[n_opening + 65 : n_opening + 73]
    header, sealed = envelope[: n_opening + 73], envelope[n_opening + 73 :]
    plain = AESGCM(key).decrypt(bytes(4) + number, sealed, header)
    n_content = int.from_bytes(plain[-10:-2], "big")
    n_topic = int.from_bytes(plain[-2:], "big")
    return plain[-10 - n_topic : -10].decode(), plain[:n_content]
