"""Private keys and certificates in files: PEM, keys with mode 0600, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloister.core.errors import AccessDenied, DataError, SettingsError
from cloister.core.file_errors import writing
from cloister.privacy.private_file import read_private_file, write_private_file
from cloister.store.incoming import incoming_file, sweep, sync_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = [
    "kept_key",
    "new_key",
    "read_key",
    "read_passphrase",
    "replace_public_file",
    "require_replaceable",
    "write_key",
]

MIN_PASSPHRASE_BYTES: Final = 12
READABLE: Final = 0o644
OWNER_ONLY: Final = 0o600
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


def new_key() -> EllipticCurvePrivateKey:
    """Draw a P-256 key from the system's random source."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    return generate_private_key(SECP256R1())


def write_key(path: Path, key: EllipticCurvePrivateKey, passphrase: bytes | None = None) -> None:
    """Write a key (PKCS 8, PEM) to a new file; with a passphrase it is encrypted."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    write_private_file(path, pem)


def read_key(path: Path, passphrase: bytes | None = None) -> EllipticCurvePrivateKey:
    """Read a P-256 key; refuse a file that others may read, and a wrong passphrase."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = read_private_file(path)
    if (b"ENCRYPTED" in content[:64]) != (passphrase is not None):
        needed = "needs a passphrase" if passphrase is None else "has no passphrase"
        remedy = "give the passphrase file" if passphrase is None else "give no passphrase file"
        raise AccessDenied(f"the key {needed}", where=str(path), remedy=remedy)
    try:
        key = load_pem_private_key(content, passphrase)
    except (ValueError, TypeError):
        what = "not a key in PEM" if passphrase is None else "not this key's passphrase"
        raise DataError(what, where=str(path), remedy="check the file") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise DataError("not a P-256 key", where=str(path), remedy="make a new key")
    return key


def kept_key(path: Path) -> EllipticCurvePrivateKey:
    """Return the key in a file; where there is none yet, draw one and keep it there."""
    if path.exists():
        return read_key(path)
    key = new_key()
    write_key(path, key)
    return key


def read_passphrase(path: Path | str | None) -> bytes | None:
    """Return the first line of a file that its owner alone may read; None where none is named."""
    if path is None:
        return None
    passphrase = read_private_file(path).split(b"\n", 1)[0].rstrip(b"\r")
    if len(passphrase) < MIN_PASSPHRASE_BYTES:
        raise SettingsError(
            f"a passphrase has at least {MIN_PASSPHRASE_BYTES} bytes",
            where=str(path),
            remedy="take a longer one: whoever has the key file can try passphrases for ever",
        )
    return passphrase


def require_replaceable(path: Path) -> None:
    """Refuse a place where there is anything but the certificate of a service or a person."""
    from cryptography import x509

    if not path.exists():
        return
    content = path.read_bytes() if path.is_file() else b""
    right = content.startswith(_CERTIFICATE) and b"PRIVATE KEY" not in content
    if right:
        try:
            leaf = x509.load_pem_x509_certificate(content)
            basic = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
            right = not basic.value.ca
        except x509.ExtensionNotFound:
            pass
        except ValueError:
            right = True  # a certificate that is damaged
    if not right:
        raise SettingsError(
            "there is something that a certificate must not replace",
            where=str(path),
            remedy="choose another file",
        )


def replace_public_file(path: Path, content: bytes, *, mode: int = READABLE) -> None:
    """Write a whole file, in the place of one that may be there; everybody may read it.

    A crash leaves the old file or the new one. What it leaves in the folder ``.incoming`` beside
    it the next writer clears away.
    """
    folder = path.parent / ".incoming"
    with writing(path):
        folder.mkdir(mode=0o700, exist_ok=True)
        sweep(folder)
        with incoming_file(folder) as incoming:
            incoming.stream.write(content)
            incoming.stream.flush()
            os.fchmod(incoming.stream.fileno(), mode)
            os.fsync(incoming.stream.fileno())
            incoming.path.replace(path)
        sync_folder(path.parent)
