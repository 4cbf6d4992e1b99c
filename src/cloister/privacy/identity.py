"""Who said it: a party's long-term Ed25519 key, and the directory of known public keys.

A signature shows that the holder of the private key signed these bytes for this purpose. It does
not show when, nor that the bytes are new: protocols that need that put a number or a time inside.
Who owns a public key is decided outside: whoever fills a `Directory` vouches for its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Self

from cloister.core.errors import AccessDenied, DataError, SettingsError
from cloister.core.ids import checked_id
from cloister.privacy.private_file import read_private_file, write_private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["Directory", "PUBLIC_KEY_BYTES", "SIGNATURE_BYTES", "SigningIdentity"]

PUBLIC_KEY_BYTES: Final = 32
PRIVATE_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_PREFIX: Final = b"cloister signature 1\x00"


class SigningIdentity:
    """A long-term Ed25519 key pair.

    ``repr()`` shows the public half only, and an identity cannot be pickled: private bytes leave it
    through `private_bytes` and `save`, both asked for by name.

    Examples
    --------
    >>> identity = SigningIdentity.generate()
    >>> directory = Directory({"clinic-a": identity.public})
    >>> signature = identity.sign(b"greeting", b"good morning")
    >>> directory.verify("clinic-a", b"greeting", b"good morning", signature)
    >>> directory.verify("clinic-a", b"farewell", b"good morning", signature)
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: clinic-a: the signature does not fit; ...
    """

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public: Final[bytes] = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Self:
        """Draw a new key from the system's random source."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_private_bytes(cls, private: bytes) -> Self:
        """Take a key from its 32 private bytes (RFC 8032's secret key)."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if len(private) != PRIVATE_KEY_BYTES:
            raise DataError(
                f"a private key has {PRIVATE_KEY_BYTES} bytes, not {len(private)}",
                where="signing identity",
            )
        return cls(Ed25519PrivateKey.from_private_bytes(private))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a key that `save` wrote; refuse a file that others may read."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        content = read_private_file(path)
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise DataError("not an unencrypted Ed25519 key in PEM", where=str(path))
        return cls(key)

    def save(self, path: str | Path) -> None:
        """Write the key (PKCS 8, PEM, not encrypted) to a new file with mode 0600."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private_file(path, pem)

    def private_bytes(self) -> bytes:
        """Return the 32 private bytes; whoever has them can sign as this party."""
        return self._key.private_bytes_raw()

    def sign(self, purpose: bytes, message: bytes) -> bytes:
        """Return the signature of a message for one purpose; it verifies for no other purpose."""
        return self._key.sign(_signed_bytes(purpose, message))

    def __repr__(self) -> str:
        return f"<SigningIdentity public={self.public.hex()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing identity is not pickled or copied; use save() and load()")


class _Known(NamedTuple):
    public: bytes
    key: Ed25519PublicKey


class Directory:
    """The public keys that a party knows, by id.

    An id keeps its key: another key for a known id is refused until the id was removed. Threads
    may share a directory.

    Parameters
    ----------
    keys
        Raw Ed25519 public keys, 32 bytes each, by the id of their owner.

    Examples
    --------
    >>> directory = Directory()
    >>> directory.add("clinic-a", SigningIdentity.generate().public)
    >>> "clinic-a" in directory, list(directory), len(directory)
    (True, ['clinic-a'], 1)
    """

    def __init__(self, keys: Mapping[str, bytes] | None = None) -> None:
        self._keys: dict[str, _Known] = {}
        for owner, public in (keys or {}).items():
            self.add(owner, public)

    def add(self, owner: str, public: bytes) -> None:
        """Make an id known by its public key; adding the same key again changes nothing."""
        new = _Known(bytes(public), _public_key(owner, public))
        if self._keys.setdefault(checked_id(owner), new).public != new.public:
            raise AccessDenied(
                "the directory has another key for this id",
                where=owner,
                remedy="ask the owner which key is theirs; remove the old one before adding a new",
            )

    def remove(self, owner: str) -> None:
        """Forget an id; its signatures are refused from now on."""
        self._keys.pop(owner, None)

    def public(self, owner: str) -> bytes:
        """Return the raw public key of an id."""
        return self._known(owner).public

    def verify(self, owner: str, purpose: bytes, message: bytes, signature: bytes) -> None:
        """Raise `AccessDenied` unless ``owner`` is known and signed the message for the purpose."""
        from cryptography.exceptions import InvalidSignature

        key = self._known(owner).key
        try:
            key.verify(signature, _signed_bytes(purpose, message))
        except InvalidSignature:
            raise AccessDenied(
                "the signature does not fit",
                where=owner,
                remedy="refuse the message: it was altered, meant for something else, or forged",
            ) from None

    def __contains__(self, owner: object) -> bool:
        return owner in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._keys))

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<Directory of {len(self)} identities>"

    def _known(self, owner: str) -> _Known:
        try:
            return self._keys[owner]
        except KeyError:
            raise AccessDenied(
                "no such identity is known",
                where=owner[:80],
                remedy="get its public key from its owner and add it to the directory",
            ) from None


def _public_key(owner: str, public: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if len(public) != PUBLIC_KEY_BYTES:
        raise DataError(
            f"a public key has {PUBLIC_KEY_BYTES} bytes, not {len(public)}", where=owner
        )
    return Ed25519PublicKey.from_public_bytes(public)


def _signed_bytes(purpose: bytes, message: bytes) -> bytes:
    """Prefix a message so that no two pairs of purpose and message give the same bytes."""
    if not 1 <= len(purpose) <= 255:
        raise SettingsError("a purpose has 1 to 255 bytes", where=repr(purpose[:80]))
    return b"".join((_PREFIX, bytes((len(purpose),)), purpose, message))
