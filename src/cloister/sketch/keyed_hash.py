"""Where a term falls in each row of a sketch, and with which sign: keyed hashing.

One pass of BLAKE2b for each term of a vocabulary gives all rows: the digests are cut into words of
32 bits, one a row. The lowest bit is the sign, the others the column. Only who has the key can say
where a term falls; the parties of a federation share one key, and their server has none.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings

__all__ = ["HashKey", "HashedTerms", "SketchShape"]

KEY_BYTES: Final = 32
WORDS_A_DIGEST: Final = 16  # a digest of 64 bytes in words of four
LARGEST_WIDTH: Final = 1 << 20  # columns: their shares of 2^31 hash values then differ by 1/2048
BLOCK: Final = 2048  # terms whose digests stay in the cache until they are places
_PURPOSE: Final = b"cloister-sketch"


class SketchShape(Settings):
    """Rows and columns of a sketch (z and w in CS-F-LTR).

    Examples
    --------
    >>> SketchShape(n_rows=30, n_columns=200).n_cells
    6000
    """

    n_rows: int = Field(default=30, ge=1, le=1000)
    n_columns: int = Field(default=200, ge=1, le=LARGEST_WIDTH)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n_rows * self.n_columns


class HashedTerms(NamedTuple):
    """Where terms fall: one line a term, one entry a row of the sketch.

    Cell ``row * n_columns + column`` is the place of (row, column) in flat arrays.
    """

    shape: SketchShape
    columns: NDArray[np.uint32]  # [n_terms, n_rows]
    signs: NDArray[np.int8]  # [n_terms, n_rows]: +1 or -1
    key_fingerprint: str = ""  # of the key that hashed them; empty where it is not told

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return len(self.columns)

    def cells(self) -> NDArray[np.int64]:
        """Return the flat place of each term in each row."""
        return np.arange(self.shape.n_rows) * self.shape.n_columns + self.columns.astype(np.int64)


class HashKey:
    """The secret that decides where terms fall.

    Examples
    --------
    >>> key = HashKey(bytes(32))
    >>> hashed = key.hash_terms(["asthma", "cough"], SketchShape(n_rows=3, n_columns=10))
    >>> hashed.columns.shape, bool((abs(hashed.signs) == 1).all())
    ((2, 3), True)
    >>> key
    HashKey(fingerprint='31db8079beae45e0')
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise SettingsError(f"a hash key has {KEY_BYTES} bytes, not {len(secret)}", where="key")
        self._secret = bytes(secret)

    @classmethod
    def random(cls) -> HashKey:
        """Draw a new key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """Names the key without telling it: sketches of different keys cannot be compared."""
        return hashlib.blake2b(b"fingerprint", key=self._secret, digest_size=8).hexdigest()

    def secret_bytes(self) -> bytes:
        """Return the secret, for storing it where only its party can read."""
        return self._secret

    def hash_terms(self, terms: Sequence[str], shape: SketchShape) -> HashedTerms:
        """Return where each term falls in each row, and its signs."""
        columns = np.empty((len(terms), shape.n_rows), np.uint32)
        signs = np.empty((len(terms), shape.n_rows), np.int8)
        for begin in range(0, len(terms), BLOCK):
            block = slice(begin, begin + BLOCK)
            words = self._words(terms[block], shape.n_rows)
            shares = (words >> np.uint32(1)).astype(np.uint64) * np.uint64(shape.n_columns)
            columns[block] = shares >> np.uint64(31)
            signs[block] = 1 - 2 * (words & np.uint32(1)).astype(np.int8)
        return HashedTerms(shape, columns, signs, self.fingerprint)

    def _words(self, terms: Sequence[str], n_rows: int) -> NDArray[np.uint32]:
        """Return a word for each term and row."""
        n_digests = -(-n_rows // WORDS_A_DIGEST)
        started = [
            hashlib.blake2b(key=self._secret, salt=number.to_bytes(8, "little"), person=_PURPOSE)
            for number in range(n_digests)
        ]
        digests = bytearray()
        for term in terms:
            text = term.encode()
            for hasher in started:
                digest = hasher.copy()
                digest.update(text)
                digests += digest.digest()
        words = np.frombuffer(digests, "<u4").reshape(len(terms), n_digests * WORDS_A_DIGEST)
        return words[:, :n_rows]

    def __repr__(self) -> str:
        return f"HashKey(fingerprint={self.fingerprint!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashKey) and secrets.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a hash key is not pickled: write its secret where only its party reads")
