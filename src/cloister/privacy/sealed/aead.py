"""AES-256-GCM over a header in the clear and several parts.

Long contents are encrypted and decrypted straight into the result. Each further buffer of a
megabyte would cost more than the cipher, since its pages come fresh from the system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Aead", "TAG_BYTES"]

TAG_BYTES: Final = 16
LONG_BYTES: Final = 2**17  # from here on, copying costs more than setting a cipher up


class Aead:
    """A key of AES-256-GCM; ``repr()`` does not show it.

    The caller must never use a nonce of 12 bytes twice.

    Examples
    --------
    >>> aead = Aead(bytes(32))
    >>> sealed = aead.seal(bytes(12), b"header", (b"two ", b"parts"))
    >>> sealed[:6], aead.open(bytes(12), b"header", memoryview(sealed)[6:], lambda plain: 3)
    (b'header', b'two')
    """

    __slots__ = ("_cipher", "_key")

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._key = key
        self._cipher: AESGCM = AESGCM(key)

    def seal(self, nonce: bytes, header: bytes, parts: Sequence[bytes]) -> bytes:
        """Return the header, the encrypted parts, and the tag over both."""
        n_bytes = sum(map(len, parts))
        if n_bytes >= LONG_BYTES:
            return self._seal_long(nonce, header, parts, n_bytes)
        return header + self._cipher.encrypt(nonce, b"".join(parts), header)

    def open(
        self,
        nonce: bytes,
        header: bytes,
        ciphertext: memoryview,
        n_kept: Callable[[memoryview], int],
    ) -> bytes:
        """Return the first bytes of the joined parts.

        Parameters
        ----------
        n_kept
            Reads from the verified parts how many bytes to return.

        Raises
        ------
        cryptography.exceptions.InvalidTag
            The key, the nonce, the header, the ciphertext and its tag do not belong together.
        """
        if len(ciphertext) >= LONG_BYTES:
            return self._open_long(nonce, header, ciphertext, n_kept)
        plain = self._cipher.decrypt(nonce, ciphertext, header)
        return plain[: n_kept(memoryview(plain))]

    def _seal_long(
        self, nonce: bytes, header: bytes, parts: Sequence[bytes], n_bytes: int
    ) -> bytes:
        """Encrypt each part to its place in the result, which is allocated once."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        encryptor = Cipher(algorithms.AES(self._key), modes.GCM(nonce)).encryptor()
        encryptor.authenticate_additional_data(header)
        result = _zeros(len(header) + n_bytes + TAG_BYTES)
        with result.getbuffer() as places:
            places[: len(header)] = header
            begin = len(header)
            for part in parts:
                encryptor.update_into(part, places[begin : begin + len(part)])
                begin += len(part)
            encryptor.finalize()
            places[begin:] = encryptor.tag
        return result.getvalue()

    def _open_long(
        self,
        nonce: bytes,
        header: bytes,
        ciphertext: memoryview,
        n_kept: Callable[[memoryview], int],
    ) -> bytes:
        """Decrypt to the result and cut it to its length in place."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        tag = bytes(ciphertext[-TAG_BYTES:])
        decryptor = Cipher(algorithms.AES(self._key), modes.GCM(nonce, tag)).decryptor()
        decryptor.authenticate_additional_data(header)
        result = _zeros(len(ciphertext) - TAG_BYTES)
        with result.getbuffer() as plain:
            decryptor.update_into(ciphertext[:-TAG_BYTES], plain)
            decryptor.finalize()
            n_bytes = n_kept(plain)
        result.truncate(n_bytes)
        return result.getvalue()

    def __repr__(self) -> str:
        return "<Aead>"


def _zeros(n_bytes: int) -> BytesIO:
    """Allocate a buffer that becomes ``bytes`` without a copy."""
    result = BytesIO()
    result.seek(n_bytes - 1)
    result.write(b"\0")
    return result
