"""How large a selector table may be."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["MAX_HASH_BITS", "MAX_LIST", "MIN_HASH_BITS", "TableSettings"]

MIN_HASH_BITS: Final = 4
MAX_HASH_BITS: Final = 24
MAX_LIST: Final = 1000  # documents


class TableSettings(Settings):
    """How large a selector table may be, and what it says.

    Parameters
    ----------
    n_best
        Longest list of a term.
    max_bytes
        Lists are left out until the table is no larger. Counts of terms are always there, so that
        a table without any list can still be larger.
    hash_bits
        A term that is not there is taken for one that is about once in ``2**hash_bits``.

    Examples
    --------
    >>> TableSettings(n_best=5).max_bytes
    450000
    """

    n_best: int = Field(default=20, ge=0, le=MAX_LIST)
    max_bytes: int = Field(default=450_000, ge=0)
    hash_bits: int = Field(default=14, ge=MIN_HASH_BITS, le=MAX_HASH_BITS)
