"""Count Sketch (Charikar, Chen, Farach-Colton 2002): term counts in a table with random signs.

In row ``a`` term ``t`` falls into column ``h_a(t)`` with sign ``g_a(t)``. The table holds

    C(a, c) = sum of g_a(t) f(t) over the terms t with h_a(t) = c        (CS-F-LTR eq. 2)

and the estimate of ``f(t)`` is the median over rows of ``g_a(t) C(a, h_a(t))``. Over keys, the
error of a row is symmetric about 0, with variance ``(F2 - f(t)^2) / n_columns``, F2 the sum of all
squared counts. So the median is unbiased too, and an error of more than twice that deviation grows
exponentially less likely with the number of rows.

Equations 3 and 6 of CS-F-LTR leave the sign out of the estimate; ``signed=False`` shows what that
gives.

A sketch hides nothing by itself: who has the key reads all counts from it, up to its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.index.term_counts import TermCounts
from cloister.sketch.keyed_hash import HashedTerms, SketchShape
from cloister.store.array_file import (
    StoredArrays,
    from_bytes,
    open_arrays,
    to_bytes,
    write_arrays,
)

__all__ = ["CountSketch", "CountTable", "Frequencies"]

Frequencies = Literal["collection", "document"]

LARGEST_TOTAL: Final = 2.0**62  # of absolute counts added at once: below it no cell overflows


@dataclass(frozen=True, eq=False)
class CountTable:
    """What Count Sketch and Count-Min share: a table of sums, for the counts of one key's terms.

    Sketches do not change: adding, removing and merging return new ones. They are linear, so what
    was added can be removed again, in any order, without a trace.

    Parameters
    ----------
    shape
        Rows and columns.
    key_fingerprint
        Names the key that hashed the terms. Sketches of different keys cannot be compared.
    table
        Sums by row and column.
    """

    shape: SketchShape
    key_fingerprint: str
    table: NDArray[np.int64]

    kind: ClassVar[str]
    signed: ClassVar[bool]

    def __post_init__(self) -> None:
        if self.table.dtype != np.int64 or self.table.shape != _size(self.shape):
            raise DataError(
                f"a table of {self.table.dtype} {self.table.shape}, where int64 "
                f"{_size(self.shape)} is needed",
                where=type(self).__name__,
            )
        if not self.key_fingerprint:
            raise DataError("the fingerprint of the key is missing", where=type(self).__name__)

    @classmethod
    def empty(cls, shape: SketchShape, key_fingerprint: str) -> Self:
        """Return the sketch of nothing."""
        return cls(shape, key_fingerprint, np.zeros(_size(shape), np.int64))

    @classmethod
    def from_counts(
        cls, counts: TermCounts, hashed: HashedTerms, *, frequencies: Frequencies = "collection"
    ) -> Self:
        """Sketch documents as one; for a single document select it first.

        Parameters
        ----------
        counts
            The documents.
        hashed
            Where the terms of their vocabulary fall, in the vocabulary's order.
        frequencies
            Whether a document counts as often as it has the term, or once.
        """
        if hashed.n_terms != counts.n_terms:
            raise DataError(
                f"{hashed.n_terms} hashed terms for a vocabulary of {counts.n_terms}",
                where="hashed",
            )
        totals = np.zeros(counts.n_terms, np.int64)
        _total(counts.terms, counts.counts, frequencies == "document", totals)
        return cls.empty(hashed.shape, hashed.key_fingerprint).add(hashed, totals)

    def add(self, hashed: HashedTerms, counts: NDArray[np.integer[Any]]) -> Self:
        """Return the sketch with these terms counted in, so often each; counts may be negative.

        Raises
        ------
        DataError
            Another shape or key, counts that do not fit the terms, or a sum beyond 64 bits.
        """
        self._require_fitting(hashed)
        checked = _checked_counts(counts, hashed.n_terms)
        added = np.zeros(_size(self.shape), np.int64)
        _scatter(hashed.columns, self._signs(hashed), checked, added)
        return type(self)(self.shape, self.key_fingerprint, _checked_sum(self.table, added))

    def remove(self, hashed: HashedTerms, counts: NDArray[np.integer[Any]]) -> Self:
        """Return the sketch with these terms taken out again; see `add`."""
        return self.add(hashed, -_checked_counts(counts, hashed.n_terms))

    def merge(self, other: Self) -> Self:
        """Return the sketch of what both have counted."""
        if type(self) is not type(other):
            raise DataError(f"a {other.kind} cannot be merged with a {self.kind}", where="merge")
        if self.shape != other.shape:
            raise DataError(
                f"{_text(self.shape)} cannot be merged with {_text(other.shape)}", where="merge"
            )
        if self.key_fingerprint != other.key_fingerprint:
            raise _other_key(other.key_fingerprint, self.key_fingerprint)
        return type(self)(self.shape, self.key_fingerprint, _checked_sum(self.table, other.table))

    def save(self, path: str | Path) -> None:
        """Write the sketch to a file, which does not hold the key."""
        write_arrays(path, self.kind, self._header(), {"table": self.table})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; the table is mapped from the file."""
        return cls._from_stored(open_arrays(path, cls.kind, what="a sketch file"), str(path))

    def to_bytes(self) -> bytes:
        """Return what `save` would write."""
        return to_bytes(self.kind, self._header(), {"table": self.table})

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read what `to_bytes` made."""
        stored = from_bytes(content, cls.kind, what="a sketch file")
        return cls._from_stored(stored, f"{cls.kind} bytes")

    def _header(self) -> dict[str, Any]:
        return {"key_fingerprint": self.key_fingerprint, "shape": self.shape.model_dump()}

    @classmethod
    def _from_stored(cls, stored: StoredArrays, where: str) -> Self:
        try:
            shape = SketchShape(**stored.header["shape"])
            fingerprint = stored.header["key_fingerprint"]
            table = stored.arrays["table"]
        except (KeyError, TypeError) as error:
            raise DataError(f"its header lacks {error}", where=where) from None
        return cls(shape, str(fingerprint), table)

    def _require_fitting(self, hashed: HashedTerms) -> None:
        """Refuse terms that were hashed otherwise: kernels do not check what they write to."""
        lines = (hashed.n_terms, self.shape.n_rows)
        if hashed.shape != self.shape or {hashed.columns.shape, hashed.signs.shape} != {lines}:
            raise DataError(
                f"terms hashed for {_text(hashed.shape)}, where {_text(self.shape)} is needed",
                where=type(self).__name__,
            )
        if hashed.key_fingerprint not in ("", self.key_fingerprint):
            raise _other_key(hashed.key_fingerprint, self.key_fingerprint)
        if hashed.n_terms and int(hashed.columns.max()) >= self.shape.n_columns:
            raise DataError("a term falls outside the table", where=type(self).__name__)

    def _signs(self, hashed: HashedTerms) -> NDArray[np.int8]:
        return hashed.signs if self.signed else np.ones_like(hashed.signs)


@dataclass(frozen=True, eq=False)
class CountSketch(CountTable):
    """A table of signed counts; `estimate` reads it.

    Examples
    --------
    >>> from cloister.sketch.keyed_hash import HashKey
    >>> key, shape = HashKey(bytes(32)), SketchShape(n_rows=5, n_columns=50)
    >>> hashed = key.hash_terms(["cough", "fever", "rash"], shape)
    >>> sketch = CountSketch.empty(shape, key.fingerprint).add(hashed, np.array([7, 2, 0]))
    >>> sketch.estimate(hashed)
    array([7., 2., 0.])
    >>> sketch.remove(hashed, np.array([7, 2, 0])).table.any()
    np.False_
    """

    kind: ClassVar[str] = "count-sketch"
    signed: ClassVar[bool] = True

    def estimate(self, hashed: HashedTerms, *, signed: bool = True) -> NDArray[np.float64]:
        """Return the median over rows for each term; of an even number, the middle two's mean.

        Parameters
        ----------
        hashed
            The terms.
        signed
            False leaves the sign out, as CS-F-LTR eq. 3 is printed: then rows with sign -1 answer
            with the opposite of the count, and the estimate is of no use.
        """
        self._require_fitting(hashed)
        signs = hashed.signs if signed else np.ones_like(hashed.signs)
        return _median_over_rows(self.table, hashed.columns, signs)


def _size(shape: SketchShape) -> tuple[int, int]:
    return shape.n_rows, shape.n_columns


def _text(shape: SketchShape) -> str:
    return f"{shape.n_rows} x {shape.n_columns} cells"


def _other_key(found: str, needed: str) -> DataError:
    return DataError(
        f"hashed with key {found}, where key {needed} is needed",
        where="key fingerprint",
        remedy="sketch again with the key that the parties agreed on last",
    )


def _checked_counts(counts: NDArray[np.integer[Any]], n_terms: int) -> NDArray[np.int64]:
    """Return the counts as 64-bit integers whose sum cannot overflow in any order."""
    if counts.shape != (n_terms,) or not np.issubdtype(counts.dtype, np.integer):
        raise DataError(
            f"{counts.dtype} {counts.shape}, where whole numbers ({n_terms},) are needed",
            where="counts",
        )
    if float(np.abs(counts.astype(np.float64)).sum()) >= LARGEST_TOTAL:
        raise DataError("the counts add up to 2^62 or more", where="counts")
    return counts.astype(np.int64)


def _checked_sum(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    total = a + b
    if (((a ^ total) & (b ^ total)) < 0).any():  # both summands have the other sign
        raise DataError("a cell would pass 2^63", where="table", remedy="start a new sketch")
    return total


@kernel
def _total(
    terms: NDArray[np.int32], counts: NDArray[np.int32], once: bool, totals: NDArray[np.int64]
) -> None:
    for i in range(len(terms)):
        totals[terms[i]] += 1 if once else counts[i]


@kernel
def _scatter(
    columns: NDArray[np.uint32],
    signs: NDArray[np.int8],
    counts: NDArray[np.int64],
    table: NDArray[np.int64],
) -> None:
    n_terms, n_rows = columns.shape
    for term in range(n_terms):
        if counts[term] != 0:
            for row in range(n_rows):
                table[row, columns[term, row]] += signs[term, row] * counts[term]


@kernel
def _median_over_rows(
    table: NDArray[np.int64], columns: NDArray[np.uint32], signs: NDArray[np.int8]
) -> NDArray[np.float64]:
    n_terms, n_rows = columns.shape
    estimates = np.empty(n_terms)
    answers = np.empty(n_rows)
    for term in range(n_terms):
        for row in range(n_rows):
            answer = signs[term, row] * np.float64(table[row, columns[term, row]])
            place = row
            while place > 0 and answers[place - 1] > answer:  # sorted as they come
                answers[place] = answers[place - 1]
                place -= 1
            answers[place] = answer
        low, high = answers[(n_rows - 1) // 2], answers[n_rows // 2]
        estimates[term] = 0.5 * low + 0.5 * high + 0.0  # and no minus zero
    return estimates
