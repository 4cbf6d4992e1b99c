"""A stream of bytes, encrypted under a passphrase, in chunks that cannot be changed or left out.

The key is scrypt's (RFC 7914) of the passphrase and a random salt, so each file has its own. Each
chunk of 64 KiB is sealed by AES-256-GCM. Its nonce is its number and whether it is the last one
(the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizar, 2015), and the file's head is
bound to each of them: chunks that are changed, repeated, reordered or cut off at the end are
refused.

What it protects: what a file holds, from those who have the file and not the passphrase, as far as
that cannot be guessed. How long the file is can be seen.
"""

from __future__ import annotations

import os
from typing import BinaryIO, Final

from cloister.core.errors import Damaged

__all__ = ["MAGIC", "OpenedStream", "SealingStream"]

MAGIC: Final = b"cloister sealed 1\n"
CHUNK_BYTES: Final = 1 << 16
SCRYPT_N: Final = 1 << 16  # 64 MiB and a tenth of a second for each guess
SCRYPT_R: Final = 8
SALT_BYTES: Final = 16
TAG_BYTES: Final = 16


class SealingStream:
    """Encrypts what is written to it; `finish` writes the last chunk, without which none opens.

    Examples
    --------
    >>> import io
    >>> stored = io.BytesIO()
    >>> sealing = SealingStream(stored, b"correct horse battery")
    >>> _ = sealing.write(b"everything")
    >>> sealing.finish()
    >>> _ = stored.seek(0)
    >>> OpenedStream(stored, b"correct horse battery").read(100)
    b'everything'
    """

    def __init__(self, stream: BinaryIO, passphrase: bytes) -> None:
        salt = os.urandom(SALT_BYTES)
        self._stream = stream
        self._head = MAGIC + salt
        self._cipher = _Cipher(passphrase, salt, self._head)
        self._waiting = bytearray()
        stream.write(self._head)

    def write(self, content: bytes) -> int:
        """Encrypt and write whole chunks; the last one waits, as it may be the very last."""
        self._waiting += content
        while len(self._waiting) > CHUNK_BYTES:
            chunk = bytes(self._waiting[:CHUNK_BYTES])
            del self._waiting[:CHUNK_BYTES]
            self._stream.write(self._cipher.sealed(chunk, last=False))
        return len(content)

    def finish(self) -> None:
        """Write what is left."""
        self._stream.write(self._cipher.sealed(bytes(self._waiting), last=True))
        self._waiting.clear()


class OpenedStream:
    """Decrypts a stream, chunk by chunk; nothing of a chunk is returned before it was checked.

    `Damaged` is raised for a wrong passphrase and for changed bytes alike.
    """

    def __init__(self, stream: BinaryIO, passphrase: bytes) -> None:
        head = stream.read(len(MAGIC) + SALT_BYTES)
        if len(head) != len(MAGIC) + SALT_BYTES or not head.startswith(MAGIC):
            raise _refused()
        self._stream = stream
        self._cipher = _Cipher(passphrase, head[len(MAGIC) :], head)
        self._sealed = stream.read(CHUNK_BYTES + TAG_BYTES)
        self._open = b""

    def read(self, size: int) -> bytes:
        """Return so many bytes, or fewer at the end."""
        parts = []
        while size > 0 and (self._open or self._next()):
            part, self._open = self._open[:size], self._open[size:]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _next(self) -> bool:
        """Open the next chunk; what comes after it says whether it is the last."""
        if not self._sealed:
            return False
        following = self._stream.read(CHUNK_BYTES + TAG_BYTES)
        self._open = self._cipher.opened(self._sealed, last=not following)
        self._sealed = following
        return bool(self._open)


class _Cipher:
    """Seals or opens one chunk after the other."""

    def __init__(self, passphrase: bytes, salt: bytes, head: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        key = Scrypt(salt=salt, length=32, n=SCRYPT_N, r=SCRYPT_R, p=1).derive(passphrase)
        self._aead = AESGCM(key)
        self._head = head
        self._number = 0

    def _nonce(self, *, last: bool) -> bytes:
        number, self._number = self._number, self._number + 1
        return number.to_bytes(11, "big") + bytes([last])

    def sealed(self, chunk: bytes, *, last: bool) -> bytes:
        return self._aead.encrypt(self._nonce(last=last), chunk, self._head)

    def opened(self, chunk: bytes, *, last: bool) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(self._nonce(last=last), chunk, self._head)
        except InvalidTag:
            raise _refused() from None


def _refused() -> Damaged:
    return Damaged(
        "the passphrase is another one, or the file was changed or cut off",
        where="encrypted backup",
        remedy="give the passphrase that it was made with, or take another copy",
    )
