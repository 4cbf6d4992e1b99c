"""Keys of terms: hashes that are spread evenly over as many numbers as a table needs.

A key is below ``n * 2**32`` where n is the number of terms. Its upper part tells n terms apart but
for a few; its lower part tells those apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import ServerId

__all__ = ["KEY_BITS", "TermKeys"]

KEY_BITS: Final = 32  # of a key, beside those that number the terms


class TermKeys:
    """Makes the keys of one server: what two servers mistake are different terms.

    The server's id is no secret. Keys hide nothing: who has them can try out words.

    Examples
    --------
    >>> keys = TermKeys(ServerId("clinic"), 2)
    >>> keys.of_all([b"cough", b"fever"]).tolist() == [keys.of("cough"), keys.of("fever")]
    True
    """

    def __init__(self, server_id: ServerId, n_terms: int) -> None:
        person = b"selector-table"
        self._key = blake2b(server_id.encode("utf-8"), digest_size=32, person=person).digest()
        self._n_terms = n_terms

    def of(self, term: str) -> int:
        """Return the key of a term."""
        hashed = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key)
        return (int.from_bytes(hashed.digest(), "little") * self._n_terms) >> KEY_BITS

    def of_all(self, terms: Sequence[bytes]) -> NDArray[np.uint64]:
        """Return the keys of many terms, which are in UTF-8."""
        key = self._key
        joined = b"".join([blake2b(term, digest_size=8, key=key).digest() for term in terms])
        hashes = np.frombuffer(joined, "<u8").astype(np.uint64)
        half, n = np.uint64(KEY_BITS), np.uint64(self._n_terms)
        low = hashes & np.uint64(2**KEY_BITS - 1)
        return (hashes >> half) * n + ((low * n) >> half)
