"""The two messages of a term-frequency query, as bytes: columns asked for, and counters sent back.

A reader takes exactly what a writer wrote; anything else is a `DataError`. Sizes are checked
against the length of the message before anything is allocated.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.sketch.keyed_hash import SketchShape

__all__ = ["TfAnswer", "TfQuery"]

ID_BYTES: Final = 16
FINGERPRINT_BYTES: Final = 8
MOST_TERMS: Final = 1000  # of one query
ALL_DOCUMENTS: Final = 0xFFFFFFFF
LARGEST: Final = 2**31 - 1  # counters travel in 32 bits; beyond, they are cut off after the noise
# magic, version, opened, id, key, terms, rows, columns, documents
_QUERY: Final = struct.Struct("<3sBB16s8sIIII")
_ANSWER: Final = struct.Struct("<3sBB16sIII")  # magic, version, kind, id, terms, rows, documents
_MAGIC: Final = {"query": b"CTQ", "answer": b"CTA"}
_VERSION: Final = 1
_KINDS: Final = {0: "<i4", 1: "<f8"}
_VALUE_BYTES: Final = {0: 4, 1: 8}


class TfQuery(NamedTuple):
    """What a querier asks for: one column in each row of the sketch, for each term.

    Parameters
    ----------
    query_id
        Sixteen bytes that name the query; the answer carries them too.
    key_fingerprint
        Which hash key the columns were made with.
    shape
        Of the sketches that are asked.
    columns
        Terms x rows. Some rows may hold decoys.
    documents
        Numbers of the documents that are asked about; None for all of them.
    signs
        Terms x rows, only in a query for a median taken by the owner: the terms' signs in the rows
        that count, and 0 in the others. None hides which rows count.
    """

    query_id: bytes
    key_fingerprint: str
    shape: SketchShape
    columns: NDArray[np.uint32]
    documents: NDArray[np.int64] | None = None
    signs: NDArray[np.int8] | None = None

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return len(self.columns)

    def content(self) -> bytes:
        """Return all but the id: two queries with the same content ask the same."""
        return self._replace(query_id=bytes(ID_BYTES)).to_bytes()

    def to_bytes(self) -> bytes:
        """Write the query."""
        n_documents = ALL_DOCUMENTS if self.documents is None else len(self.documents)
        head = _QUERY.pack(
            _MAGIC["query"],
            _VERSION,
            self.signs is not None,
            self.query_id,
            bytes.fromhex(self.key_fingerprint),
            self.n_terms,
            self.shape.n_rows,
            self.shape.n_columns,
            n_documents,
        )
        parts = [head, self.columns.astype("<u4").tobytes()]
        if self.signs is not None:
            parts.append(self.signs.astype(np.int8).tobytes())
        if self.documents is not None:
            parts.append(self.documents.astype("<u4").tobytes())
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, message: bytes) -> TfQuery:
        """Read a query, and see that its numbers can be columns, signs and documents."""
        head = _head(_QUERY, message, "query")
        opened, query_id, key, n_terms, n_rows, n_columns, n_documents = head
        if not 1 <= n_terms <= MOST_TERMS:
            raise _malformed(f"a query has 1 to {MOST_TERMS} terms, not {n_terms}")
        try:
            shape = SketchShape(n_rows=n_rows, n_columns=n_columns)
        except SettingsError:
            raise _malformed(f"no sketch has {n_rows} rows of {n_columns} columns") from None
        n_listed = 0 if n_documents == ALL_DOCUMENTS else n_documents
        sizes = [4 * n_terms * n_rows, opened * n_terms * n_rows, 4 * n_listed]
        columns, signs, documents = _parts(message, _QUERY.size, sizes)
        query = cls(
            query_id,
            key.hex(),
            shape,
            np.frombuffer(columns, "<u4").reshape(n_terms, n_rows),
            None
            if n_documents == ALL_DOCUMENTS
            else np.frombuffer(documents, "<u4").astype(np.int64),
            np.frombuffer(signs, np.int8).reshape(n_terms, n_rows) if opened else None,
        )
        query.check()
        return query

    def check(self) -> None:
        """Raise `DataError` where the parts cannot belong to one query."""
        n_rows, n_columns = self.shape.n_rows, self.shape.n_columns
        if self.columns.ndim != 2 or self.columns.shape[1] != n_rows:
            raise _malformed(f"one column for each of {n_rows} rows is needed")
        if self.columns.max(initial=0) >= n_columns:
            raise _malformed(f"a column is beyond the last of {n_columns}")
        if self.signs is not None:
            _check_signs(self.signs, self.columns.shape)
        if self.documents is not None and len(np.unique(self.documents)) != len(self.documents):
            raise _malformed("a document is named twice")
        if self.documents is not None and not len(self.documents):
            raise _malformed("no document is named")


class TfAnswer(NamedTuple):
    """What an owner sends back.

    Parameters
    ----------
    query_id
        Of the query.
    counters
        Terms x rows x documents, in the query's order: whole numbers, or fractions where the noise
        is continuous. For a median taken by the owner 1 x 1 x documents, doubled, so that it is
        whole.
    """

    query_id: bytes
    counters: NDArray[Any]

    def to_bytes(self) -> bytes:
        """Write the answer; whole numbers beyond 32 bits are cut off there."""
        kind = 1 if self.counters.dtype.kind == "f" else 0
        head = _ANSWER.pack(_MAGIC["answer"], _VERSION, kind, self.query_id, *self.counters.shape)
        values = self.counters if kind else np.clip(self.counters, -LARGEST, LARGEST)
        return head + bytes(values.astype(_KINDS[kind]).tobytes())

    @classmethod
    def from_bytes(cls, message: bytes) -> TfAnswer:
        """Read an answer."""
        kind, query_id, *shape = _head(_ANSWER, message, "answer")
        if kind not in _KINDS:
            raise _malformed(f"no kind of numbers is called {kind}")
        n_values = shape[0] * shape[1] * shape[2]
        (values,) = _parts(message, _ANSWER.size, [n_values * _VALUE_BYTES[kind]])
        counters = np.frombuffer(values, _KINDS[kind]).reshape(shape)
        if kind and not np.isfinite(counters).all():
            raise _malformed("a counter is not finite")
        return cls(query_id, counters.astype(np.float64 if kind else np.int64))


def _check_signs(signs: NDArray[np.int8], shape: tuple[int, ...]) -> None:
    """See that all terms have signs in the same rows, and none in the others."""
    rows = signs[0] != 0
    if signs.shape != shape or not np.isin(signs, (-1, 0, 1)).all() or not rows.any():
        raise _malformed("signs are +1 or -1 in the rows that count, and 0 elsewhere")
    if ((signs != 0) != rows).any():
        raise _malformed("all terms of a query count in the same rows")


def _head(layout: struct.Struct, message: bytes, name: str) -> tuple[Any, ...]:
    if len(message) < layout.size:
        raise _malformed("the message ends too early")
    magic, version, *fields = layout.unpack_from(message)
    if magic != _MAGIC[name]:
        raise _malformed(f"not a term-frequency {name}")
    if version != _VERSION:
        raise _malformed(f"version {version}, where version {_VERSION} is known")
    if fields[0] not in (0, 1):
        raise _malformed("its first field is neither 0 nor 1")
    return tuple(fields)


def _parts(message: bytes, begin: int, sizes: list[int]) -> list[bytes]:
    """Cut the rest of a message into parts of these sizes, which must fill it."""
    if begin + sum(sizes) != len(message):
        raise _malformed(f"{len(message)} bytes, where {begin + sum(sizes)} belong to it")
    parts = []
    for size in sizes:
        parts.append(message[begin : begin + size])
        begin += size
    return parts


def _malformed(what: str) -> DataError:
    return DataError(
        what, where="term-frequency message", remedy="refuse the message and its sender"
    )
