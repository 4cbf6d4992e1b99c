"""A hash key in a file that nobody but its owner may read.

The file has one line: ``cloister-hash-key 1``, the fingerprint and the secret in hexadecimal. The
fingerprint lets a damaged file be told from a sound one. Whoever reads the file can read what is
hidden by the key alone: exact sketches. Noisy releases keep their guarantee against readers with
the key.

A key for several parties is agreed on with :mod:`cloister.sketch.key_agreement`, so that no server
learns it; `write_key` then stores what came out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cloister.core.errors import Damaged, DataError, SettingsError
from cloister.privacy.private_file import read_private_file, write_private_file
from cloister.sketch.keyed_hash import HashKey

__all__ = ["read_key", "write_key"]

_MAGIC: Final = "cloister-hash-key 1"
_REMEDY: Final = "restore it from a copy; a new key makes sketches that cannot be compared"


def write_key(path: str | Path, key: HashKey) -> None:
    """Write a key to a new file with mode 0600; a file that is there already stays.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_key(f"{folder}/hash.key", HashKey(bytes(32)))
    ...     read_key(f"{folder}/hash.key")
    HashKey(fingerprint='31db8079beae45e0')
    """
    line = f"{_MAGIC} {key.fingerprint} {key.secret_bytes().hex()}\n"
    write_private_file(path, line.encode("ascii"))


def read_key(path: str | Path) -> HashKey:
    """Read what `write_key` wrote; refuse a file that others may read.

    Raises
    ------
    NotFound
        There is no such file.
    AccessDenied
        Others may read or write it.
    DataError
        It is something else.
    Damaged
        The secret does not fit the fingerprint.
    """
    content = read_private_file(path)
    if not content.startswith(_MAGIC.encode() + b" "):
        raise DataError(
            "not a hash key file", where=str(path), remedy="make one: cloister sketch key FILE"
        )
    try:
        fingerprint, secret = content.decode("ascii").removeprefix(_MAGIC).split()
        key = HashKey(bytes.fromhex(secret))
        sound = key.fingerprint == fingerprint
    except (ValueError, SettingsError):
        sound = False
    if not sound:
        raise Damaged("the key does not fit its fingerprint", where=str(path), remedy=_REMEDY)
    return key
