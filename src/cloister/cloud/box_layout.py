"""What is inside the boxes of a private index, byte by byte, once a token has opened them.

All numbers are little-endian; arrays are in C order, row after row, without gaps. The model's box
is apart, in :mod:`cloister.cloud.model_box`.

A **word's or phrase's box** has a row for each document of its closure, in the order of these:

==================  ====================================================================
bytes               content
==================  ====================================================================
0 to 3              n, the number of documents of its closure
4                   l, the stored kernel values of a row: 20 of a word, 10 of a phrase
5                   bytes of a stored value: 1 (a level) or 4 (plain, single precision)
6                   c, the codes of a row; 0 without trees, and of a phrase
7                   b, the bytes of a code: 4 or 8
8 to 23             label of the closure's box
24 to 55            key of the closure's box
then                codes, b n c bytes
then                stored values, n l or 4 n l bytes
==================  ====================================================================

A **closure's box** has n (bytes 0 to 3), zeros (4 to 7) and n numbers of documents of 4 bytes each,
rising. A **pair's box** has n (0 to 3), c (4), b (5), zeros (6 to 7), codes (b n c bytes) and n
numbers of documents as above. Codes are signed, and take 4 bytes where all of a box fit into 4.

A length that does not fit, documents that do not rise or do not exist, and another number of
columns than asked for are refused. An opened box comes from whoever has its key (GCM says so), not
necessarily from a sound program.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.sealed_boxes import KEY_BYTES, LABEL_BYTES, BoxToken
from cloister.core.errors import DataError

__all__ = ["PHRASE_COLUMNS", "WORD_COLUMNS", "ClosureBox", "PairBox", "PhraseBox", "WordBox"]

Codes = NDArray[np.int64]
Documents = NDArray[np.int32]
Content = bytes | memoryview

WORD_COLUMNS: Final = 20  # word x word and word x pair, ten soft kernels each
PHRASE_COLUMNS: Final = 10  # pair x word
_KEY: Final = struct.Struct(f"<IBBBB{LABEL_BYTES}s{KEY_BYTES}s")
_CLOSURE: Final = struct.Struct("<II")
_PAIR: Final = struct.Struct("<IBBH")
_CODE_TYPES: Final[Mapping[int, np.dtype[Any]]] = {4: np.dtype("<i4"), 8: np.dtype("<i8")}
_LEVEL_TYPES: Final[Mapping[int, np.dtype[Any]]] = {1: np.dtype("<u1"), 4: np.dtype("<f4")}


@dataclass(frozen=True, eq=False)
class WordBox:
    """Stored kernel values and coded features of a word with the documents of its closure.

    Parameters
    ----------
    closure
        Opens the closure's box, which names the documents.
    levels
        [document, 20]: word x word, then word x pair; bytes, or single precision where plain.
    codes
        [document, term columns of the model].

    Examples
    --------
    >>> token = BoxToken(bytes(16), bytes(32))
    >>> box = WordBox(token, np.ones((3, 20), np.uint8), np.zeros((3, 6), np.int64))
    >>> WordBox.decode(box.encode()).codes.shape
    (3, 6)
    """

    closure: BoxToken
    levels: NDArray[Any] = field(repr=False)
    codes: Codes = field(repr=False)

    def __post_init__(self) -> None:
        _check_rows(self.closure, self.levels, self.codes, WORD_COLUMNS)

    def encode(self) -> bytes:
        """Return the content of the box."""
        return _key_bytes(self.closure, self.levels, self.codes)

    @classmethod
    def decode(cls, content: Content) -> WordBox:
        """Read a content; the arrays are views of it. Raises DataError where it is not sound."""
        return cls(*_key_parts(content, "word"))


@dataclass(frozen=True, eq=False)
class PhraseBox:
    """Stored kernel values of two adjacent words with the documents of their closure.

    Parameters
    ----------
    closure
        Opens the closure's box.
    levels
        [document, 10]: pair x word.
    """

    closure: BoxToken
    levels: NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        none = np.empty((len(self.levels), 0), np.int64)
        _check_rows(self.closure, self.levels, none, PHRASE_COLUMNS)

    def encode(self) -> bytes:
        """Return the content of the box."""
        return _key_bytes(self.closure, self.levels, np.empty((len(self.levels), 0), np.int64))

    @classmethod
    def decode(cls, content: Content) -> PhraseBox:
        """Read a content; the array is a view of it. Raises DataError where it is not sound."""
        closure, levels, codes = _key_parts(content, "phrase")
        if codes.shape[1]:
            _refuse("a phrase has no codes", "phrase box")
        return cls(closure, levels)


@dataclass(frozen=True, eq=False)
class ClosureBox:
    """The documents of a closure.

    Parameters
    ----------
    documents
        Their numbers, rising.
    """

    documents: Documents = field(repr=False)

    def encode(self) -> bytes:
        """Return the content of the box."""
        documents = np.ascontiguousarray(self.documents, "<i4")
        return _CLOSURE.pack(len(documents), 0) + documents.tobytes()

    @classmethod
    def decode(cls, content: Content, n_documents: int) -> ClosureBox:
        """Read a content, given the number of documents of the index; raises DataError."""
        n, zero = _head(_CLOSURE, content, "closure box")
        if zero or len(content) != _CLOSURE.size + 4 * n:
            _refuse("its length contradicts its content", "closure box")
        documents = np.frombuffer(content, "<i4", n, _CLOSURE.size)
        _check_documents(documents, n_documents, "closure box")
        return cls(documents)


@dataclass(frozen=True, eq=False)
class PairBox:
    """Coded proximity features of two words with the documents that have them near each other.

    Parameters
    ----------
    documents
        Numbers, rising.
    codes
        [document, pair columns of the model]: for a query that has first the word whose own box
        has the lower label. The model says which column to read the other way round.
    """

    documents: Documents = field(repr=False)
    codes: Codes = field(repr=False)

    def __post_init__(self) -> None:
        _check_codes(self.codes, len(self.documents), "pair box")

    def encode(self) -> bytes:
        """Return the content of the box."""
        documents = np.ascontiguousarray(self.documents, "<i4")
        codes, n_bytes = _code_bytes(self.codes)
        head = _PAIR.pack(len(documents), self.codes.shape[1], n_bytes, 0)
        return b"".join((head, codes, documents.tobytes()))

    @classmethod
    def decode(cls, content: Content, n_documents: int) -> PairBox:
        """Read a content, given the number of documents of the index; raises DataError."""
        n, n_columns, n_bytes, zero = _head(_PAIR, content, "pair box")
        codes_end = _PAIR.size + n_bytes * n * n_columns
        if zero or n_bytes not in _CODE_TYPES or len(content) != codes_end + 4 * n:
            _refuse("its length contradicts its content", "pair box")
        codes = _codes(content, _PAIR.size, (n, n_columns), n_bytes)
        documents = np.frombuffer(content, "<i4", n, codes_end)
        _check_documents(documents, n_documents, "pair box")
        return cls(documents, codes)


def _key_bytes(closure: BoxToken, levels: NDArray[Any], codes: Codes) -> bytes:
    n, n_columns = levels.shape
    stored = np.ascontiguousarray(levels, levels.dtype.newbyteorder("<"))
    coded, n_bytes = _code_bytes(codes)
    sizes = n, n_columns, levels.dtype.itemsize, codes.shape[1], n_bytes
    return b"".join((_KEY.pack(*sizes, *closure), coded, stored.tobytes()))


def _key_parts(content: Content, what: str) -> tuple[BoxToken, NDArray[Any], Codes]:
    where = f"{what} box"
    n, n_columns, level_bytes, n_codes, code_bytes, label, key = _head(_KEY, content, where)
    dtype = _LEVEL_TYPES.get(level_bytes)
    codes_end = _KEY.size + code_bytes * n * n_codes
    n_levels = n * n_columns
    if (
        dtype is None
        or code_bytes not in _CODE_TYPES
        or len(content) != codes_end + level_bytes * n_levels
    ):
        _refuse("its length contradicts its content", where)
    codes = _codes(content, _KEY.size, (n, n_codes), code_bytes)
    levels = np.frombuffer(content, dtype, n_levels, codes_end)
    return BoxToken(label, key), levels.reshape(n, n_columns), codes


def _code_bytes(codes: Codes) -> tuple[bytes, int]:
    """Return codes as they are stored, and how many bytes each has."""
    limits = np.iinfo(np.int32)
    fits = not codes.size or (limits.min <= int(codes.min()) and int(codes.max()) <= limits.max)
    n_bytes = 4 if fits else 8
    return np.ascontiguousarray(codes, _CODE_TYPES[n_bytes]).tobytes(), n_bytes


def _codes(content: Content, begin: int, shape: tuple[int, int], n_bytes: int) -> Codes:
    stored = np.frombuffer(content, _CODE_TYPES[n_bytes], shape[0] * shape[1], begin)
    return stored.astype(np.int64, copy=False).reshape(shape)


def _head(layout: struct.Struct, content: Content, where: str) -> tuple[Any, ...]:
    if len(content) < layout.size:
        _refuse("too short", where)
    return layout.unpack(content[: layout.size])


def _check_rows(closure: BoxToken, levels: NDArray[Any], codes: Codes, n_columns: int) -> None:
    where = "word box" if n_columns == WORD_COLUMNS else "phrase box"
    if levels.ndim != 2 or levels.shape[1] != n_columns:
        _refuse(f"rows of {n_columns} stored values are needed", where)
    if levels.dtype not in (np.uint8, np.float32):
        _refuse("stored values are bytes or of single precision", where)
    if levels.dtype == np.float32 and not bool((np.isfinite(levels) & (levels >= 0)).all()):
        _refuse("plain kernel values are finite and at least 0", where)
    if len(closure.label) != LABEL_BYTES or len(closure.key) != KEY_BYTES:
        _refuse("the closure's label or key is of another size", where)
    _check_codes(codes, len(levels), where)


def _check_codes(codes: Codes, n: int, where: str) -> None:
    if codes.ndim != 2 or len(codes) != n or codes.dtype != np.int64 or codes.shape[1] > 255:
        _refuse("one row of codes, 255 at most, for each document is needed", where)


def _check_documents(documents: Documents, n_documents: int, where: str) -> None:
    sound = not len(documents) or (
        documents[0] >= 0
        and documents[-1] < n_documents
        and bool((documents[1:] > documents[:-1]).all())
    )
    if not sound:
        _refuse(f"numbers of {n_documents} documents, rising, are needed", where)


def _refuse(what: str, where: str) -> NoReturn:
    raise DataError(what, where=where, remedy="build the index again")
