r"""The bytes of an array file.

All numbers are little-endian:

====================  ====================================================================
bytes                 content
====================  ====================================================================
0 to 7                ``89 43 4C 53 4B 45 54 0A`` (``\x89CLSKET\n``)
8 to 11               version of the format, 1
12 to 15              zero
16 to 23              length of the description in bytes
24 to 31              length of the file in bytes
32 to 63              BLAKE2b, 32 bytes, of the bytes 0 to 31 and of the description
from 64               the description: JSON with sorted names, no blanks, ASCII
then                  the arrays, C order, each at a multiple of 64 bytes, zeros between them
====================  ====================================================================

The description holds ``kind``, ``header`` (the caller's) and ``arrays``: the name, type, shape,
offset and BLAKE2b of each, offsets from the first multiple of 64 after the description.

Nothing here opens a file: :mod:`cloister.store.array_file` does.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Damaged, DataError

__all__ = [
    "ALLOWED_TYPES",
    "MAGIC",
    "ArrayEntry",
    "ArrayHead",
    "Content",
    "aligned",
    "damaged",
    "digest",
    "head_bytes",
    "read_head",
    "require_name",
    "storable",
]

Content = mmap.mmap | memoryview

MAGIC: Final = b"\x89CLSKET\n"  # not text, and a changed line end shows
VERSION: Final = 1
ALIGNMENT: Final = 64  # a cache line; no type needs more
LARGEST_DESCRIPTION_BYTES: Final = 1 << 24
MOST_VALUES: Final = 1 << 59  # of an array: NumPy counts bytes to 2^63
MOST_DIMENSIONS: Final = 32
ALLOWED_TYPES: Final = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
_FIXED: Final = struct.Struct("<8sIIQQ")
_DIGEST_BYTES: Final = 32
_HEAD_BYTES: Final = _FIXED.size + _DIGEST_BYTES
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_AGAIN: Final = "fetch the file again, or restore it from a copy"


class ArrayEntry(NamedTuple):
    """Where an array lies, counted from the first one."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    digest: str

    @property
    def n_bytes(self) -> int:
        """How long it is."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class ArrayHead(NamedTuple):
    """What stands before the arrays.

    ``end`` is where it ends, ``first`` where the first array begins, if there is one.
    """

    header: dict[str, Any]
    entries: list[ArrayEntry]
    end: int
    first: int


def head_bytes(
    kind: str, header: Mapping[str, Any], entries: Sequence[ArrayEntry], n_array_bytes: int
) -> bytes:
    """Return all that stands before the arrays, which take so many bytes together."""
    description = _description(kind, header, entries)
    gap = bytes(aligned(len(description)) - len(description)) if entries else b""
    n_bytes = _HEAD_BYTES + len(description) + len(gap) + n_array_bytes
    fixed = _FIXED.pack(MAGIC, VERSION, 0, len(description), n_bytes)
    return fixed + _checksum(fixed, description) + description + gap


def read_head(content: Content, kind: str, *, where: str, what: str) -> ArrayHead:
    """Read what stands before the arrays, and check it; ``what`` such a file is called.

    Raises
    ------
    DataError
        The content is something else, of another kind, or of a newer version.
    Damaged
        It is cut off, too long, or does not match its checksum.
    """
    n_description = _checked_length(content, where, what)
    end = _HEAD_BYTES + n_description
    description = bytes(content[_HEAD_BYTES:end])
    fixed, checksum = bytes(content[: _FIXED.size]), bytes(content[_FIXED.size : _HEAD_BYTES])
    if _checksum(fixed, description) != checksum:
        damaged("the description does not match its checksum", where)
    header, entries = _read_description(description, kind, where)
    return ArrayHead(header, entries, end, _HEAD_BYTES + aligned(n_description))


def storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it is stored: little-endian, in C order; raise where it cannot be."""
    require_name(name, "array")
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in ALLOWED_TYPES:
        raise DataError(
            f"arrays of type {array.dtype} are not stored",
            where=f"array {name}",
            remedy=f"use one of {', '.join(ALLOWED_TYPES)}",
        )
    if not _is_possible(array.shape):
        raise DataError(f"the shape {array.shape} is not stored", where=f"array {name}")
    return np.asarray(array, dtype, order="C")


def _description(kind: str, header: Mapping[str, Any], entries: Sequence[ArrayEntry]) -> bytes:
    listed = [entry._asdict() for entry in entries]
    try:
        text = _canonical({"kind": kind, "header": dict(header), "arrays": listed})
        whole = (
            all(isinstance(name, str) for name in header) and _canonical(json.loads(text)) == text
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be written as JSON ({error})", where=f"{kind} header") from None
    if not whole or len(text) > LARGEST_DESCRIPTION_BYTES:
        raise DataError(
            "too long, or with names that are no strings or not different",
            where=f"{kind} header",
            remedy="put what is long into an array",
        )
    return text


def _checked_length(content: Content, where: str, what: str) -> int:
    """Check the first bytes with the file's length; return the description's length."""
    if bytes(content[: len(MAGIC)]) != MAGIC[: len(content)] or not len(content):
        raise DataError(f"not {what}", where=where, remedy="name another file")
    if len(content) < _HEAD_BYTES:
        damaged("the file is cut off", where)
    _, version, zero, n_description, n_bytes = _FIXED.unpack(bytes(content[: _FIXED.size]))
    if version != VERSION:
        raise DataError(
            f"written in format {version}, this version reads {VERSION}",
            where=where,
            remedy="install the version of Cloister that wrote it; else the file is damaged",
        )
    if n_bytes != len(content):
        how = "the file is cut off" if n_bytes > len(content) else "something follows the file"
        damaged(f"{how}: {len(content)} bytes, where {n_bytes} are announced", where)
    if zero or n_description > min(LARGEST_DESCRIPTION_BYTES, n_bytes - _HEAD_BYTES):
        damaged("the first bytes contradict each other", where)
    return int(n_description)


def _read_description(
    text: bytes, kind: str, where: str
) -> tuple[dict[str, Any], list[ArrayEntry]]:
    try:
        read = json.loads(text)
        if _canonical(read) != text:
            raise ValueError("not in canonical form")
        found, header = str(read["kind"]), dict(read["header"])
        entries = [_entry(listed) for listed in read["arrays"]]
        if len({entry.name for entry in entries}) != len(entries) or len(read) != 3:
            raise ValueError("not the names of an array file")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"its description cannot be read ({error})", where=where) from None
    if found != kind:
        raise DataError(
            f"a file of kind {found[:80]!r}, where {kind!r} is needed",
            where=where,
            remedy="name another file",
        )
    return header, entries


def _entry(listed: Mapping[str, Any]) -> ArrayEntry:
    entry = ArrayEntry(**listed)
    sound = (
        type(entry.name) is str
        and _NAME.fullmatch(entry.name)
        and entry.dtype in ALLOWED_TYPES
        and _is_possible(entry.shape)
        and type(entry.offset) is int
        and 0 <= entry.offset < MOST_VALUES
    )
    if not sound:
        raise ValueError("an array is described that cannot be")
    return entry._replace(shape=tuple(entry.shape))


def _is_possible(shape: Sequence[int]) -> bool:
    """Tell whether an array of this shape can be written and read."""
    return (
        len(shape) <= MOST_DIMENSIONS
        and all(type(size) is int and size >= 0 for size in shape)
        and math.prod(max(size, 1) for size in shape) < MOST_VALUES
    )


def aligned(n_bytes: int) -> int:
    """Return the next place where an array may begin."""
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def digest(content: bytes | memoryview) -> str:
    """Return the checksum of an array's bytes."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _checksum(fixed: bytes, description: bytes) -> bytes:
    return hashlib.blake2b(fixed + description, digest_size=_DIGEST_BYTES).digest()


def _canonical(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def require_name(name: str, what: str) -> None:
    """Raise unless this can be the name of a kind or of an array."""
    if not _NAME.fullmatch(name):
        raise DataError(
            f"a name has up to 64 of a-z, 0-9, _ and -, a letter first (given: {name[:80]!r})",
            where=what,
        )


def damaged(what: str, where: str) -> NoReturn:
    """Raise what a damaged file raises."""
    raise Damaged(what, where=where, remedy=_AGAIN)
