r"""Sealed boxes: what lies on the server, each piece under a key of its own.

A box has a label, by which the server finds it, and a key, with which the server opens it once a
query names both: the `BoxToken`. Label and key are 48 bytes of keyed BLAKE2b over the kind and the
name of the box; the BLAKE2b key is HKDF-SHA256 of the client's secret and of the index's id, which
is drawn anew for every index. The content is sealed with AES-256-GCM, the label as associated data.

The nonce is zero, which is sound because a key seals once: `BoxSecret.seal` refuses a second time,
and another index has other keys. A content is padded to a size of Padmé
(`cloister.privacy.sealed.padding`) before. A sealed box is, in bytes::

    AES-256-GCM( length of the content | content | zeros up to Padmé's size ) | tag

with a length of 8 bytes, little-endian, and a tag of 16. Names and texts of documents are sealed
under two further keys, each with a random nonce of 12 bytes in front and the document's number as
associated data; these keys are in no token.

**What holds**, against a server that has all boxes and not the secret, as long as AES-256, BLAKE2b
and the secret do: of a box whose token it never saw, it learns the label, which says nothing, and
the padded size. Such a box, altered or put in another's place, does not open. A document's name or
text that was altered, or is another document's, does not open for the client.

**What does not.** A token opens its box for ever: what was asked for once stays readable, and the
same word has the same label in every query. Who has a token can also seal another content with it:
the tag tells a server of damage, and tells nobody of a server that cheats. Sizes of boxes are in
the open up to Padmé's rounding.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from typing import Final, Literal, NamedTuple, get_args

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.sealed.handshake import hkdf_sha256
from cloister.privacy.sealed.padding import padme

__all__ = ["BoxKind", "BoxSecret", "BoxToken", "box_name", "open_box"]

BoxKind = Literal["model", "word", "phrase", "closure", "pair"]
DocumentPart = Literal["name", "text"]

SECRET_BYTES: Final = 32
INDEX_ID_BYTES: Final = 16
LABEL_BYTES: Final = 16
KEY_BYTES: Final = 32
TAG_BYTES: Final = 16
NONCE_BYTES: Final = 12
LEAST_BOX_BYTES: Final = 8 + TAG_BYTES
_ZERO_NONCE: Final = bytes(NONCE_BYTES)
_LENGTH: Final = struct.Struct("<Q")
_PERSON: Final = b"cloister box 1"
_PURPOSE: Final = b"cloister private index 1 "


class BoxToken(NamedTuple):
    """What a query carries for each box: with it the server finds and opens the box.

    ``repr()`` does not show the key.

    Parameters
    ----------
    label
        16 bytes; the box's place in the index.
    key
        32 bytes; whoever has it can read the box.
    """

    label: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"BoxToken(label={self.label.hex()})"


def box_name(*words: str) -> str:
    r"""Return the name of a box of several words.

    Examples
    --------
    >>> box_name("dry", "cough")
    'dry\x00cough'
    """
    if any("\0" in word for word in words):
        raise DataError("a word of a box has no zero character", where="box_name")
    return "\0".join(words)


class BoxSecret:
    """The client's keys of one index; ``repr()`` does not show them.

    Parameters
    ----------
    secret
        32 bytes that the client keeps.
    index_id
        16 bytes that the server may know. **No two indexes may share it under one secret**: take
        `BoxSecret.fresh` to build one, and the index's own id to ask it.

    Examples
    --------
    >>> boxes = BoxSecret.fresh(bytes(32))
    >>> token = boxes.token("word", "cough")
    >>> sealed = boxes.seal(token, b"levels")
    >>> bytes(open_box(token.key, sealed, token.label))
    b'levels'
    """

    def __init__(self, secret: bytes, index_id: bytes) -> None:
        if len(secret) != SECRET_BYTES or len(index_id) != INDEX_ID_BYTES:
            raise SettingsError(
                f"a secret of {SECRET_BYTES} bytes and an index id of {INDEX_ID_BYTES} are needed",
                where="BoxSecret",
            )
        self.index_id = bytes(index_id)
        self._root = _derived(secret, self.index_id, "boxes")
        self._trees = _derived(secret, self.index_id, "trees")
        self._documents = {
            part: _derived(secret, self.index_id, f"document {part}s")
            for part in get_args(DocumentPart)
        }
        self._sealed: set[bytes] = set()

    @classmethod
    def fresh(cls, secret: bytes) -> BoxSecret:
        """Return the keys of a new index, with an id from the operating system."""
        return cls(secret, secrets.token_bytes(INDEX_ID_BYTES))

    @property
    def tree_secret(self) -> bytes:
        """The secret of the codes of trees, for this index alone; it never leaves the client."""
        return self._trees

    def token(self, kind: BoxKind, name: str = "") -> BoxToken:
        """Return label and key of a box. Another kind, name or index gives unrelated ones."""
        if kind not in get_args(BoxKind):
            raise SettingsError(f"unknown kind of box (given: {kind!r})", where="BoxSecret.token")
        named = kind.encode()
        data = bytes([len(named)]) + named + name.encode()  # one reading only
        digest = hashlib.blake2b(
            data, key=self._root, digest_size=LABEL_BYTES + KEY_BYTES, person=_PERSON
        ).digest()
        return BoxToken(digest[:LABEL_BYTES], digest[LABEL_BYTES:])

    def seal(self, token: BoxToken, content: bytes) -> bytes:
        """Return the sealed box; a token seals once, since its nonce is zero.

        Raises
        ------
        SettingsError
            If the token has sealed a box before: a second one would give both away.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if token.label in self._sealed:
            raise SettingsError(
                "this token has sealed a box already", where="BoxSecret.seal",
                remedy="take BoxSecret.fresh for another index",
            )  # fmt: skip
        self._sealed.add(token.label)
        return AESGCM(token.key).encrypt(_ZERO_NONCE, _padded(content), token.label)

    def seal_document(
        self, part: DocumentPart, number: int, content: bytes, *, least_bytes: int = 0
    ) -> bytes:
        """Seal the name or the text of a document, under a key that is in no token.

        Parameters
        ----------
        least_bytes
            A shorter content is padded to so many bytes before Padmé's rounding.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(NONCE_BYTES)
        cipher = AESGCM(self._documents[part])
        padded = _padded(content, least_bytes)
        return nonce + cipher.encrypt(nonce, padded, _LENGTH.pack(number))

    def open_document(self, part: DocumentPart, number: int, sealed: bytes | memoryview) -> bytes:
        """Open what `seal_document` sealed for this document; raises as `open_box`."""
        nonce, rest = bytes(sealed[:NONCE_BYTES]), sealed[NONCE_BYTES:]
        plain = _opened(
            self._documents[part], nonce, rest, _LENGTH.pack(number), f"document {part}"
        )
        return bytes(plain)

    def __repr__(self) -> str:
        return f"BoxSecret(index_id={self.index_id.hex()})"


def open_box(key: bytes, sealed: bytes | memoryview, label: bytes) -> memoryview:
    """Open a box: what a server does with a token.

    Raises
    ------
    DataError
        If the key is not the box's, or the box was altered: the two look alike.
    """
    if len(key) != KEY_BYTES:
        raise DataError(f"the key of a box has {KEY_BYTES} bytes", where="open_box")
    return _opened(key, _ZERO_NONCE, sealed, label, "box")


def _opened(
    key: bytes, nonce: bytes, sealed: bytes | memoryview, associated: bytes, what: str
) -> memoryview:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(sealed) < LEAST_BOX_BYTES:
        raise DataError("too short for a sealed content", where=what)
    try:
        plain = memoryview(AESGCM(key).decrypt(nonce, sealed, associated))
    except InvalidTag:
        raise DataError(
            "it does not open with this key",
            where=what,
            remedy="use the keys of this index; if they are, restore the index from a copy",
        ) from None
    (n_bytes,) = _LENGTH.unpack(plain[: _LENGTH.size])
    if n_bytes > len(plain) - _LENGTH.size:
        raise DataError("its length contradicts its size", where=what)
    return plain[_LENGTH.size : _LENGTH.size + n_bytes]


def _padded(content: bytes, least_bytes: int = 0) -> bytes:
    n_bytes = _LENGTH.size + len(content)
    n_zeros = padme(_LENGTH.size + max(len(content), least_bytes)) - n_bytes
    return b"".join((_LENGTH.pack(len(content)), content, bytes(n_zeros)))


def _derived(secret: bytes, index_id: bytes, purpose: str) -> bytes:
    info = _PURPOSE + purpose.encode()
    return hkdf_sha256(secret, salt=index_id, info=info, n_bytes=KEY_BYTES)
