r"""One file format for all sketches: named arrays and a JSON header, checksummed and mappable.

The layout, all numbers little-endian:

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

The checksums find damage, not forgery: whoever alters a file can compute them anew. What comes from
others is to come in a sealed message.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Damaged, DataError
from cloister.data.text_file import explained
from cloister.store.file_errors import writing
from cloister.store.incoming import incoming_file, sweep, sync_folder

__all__ = [
    "ALLOWED_TYPES",
    "StoredArrays",
    "arrays_aside",
    "from_bytes",
    "is_sketch_file",
    "open_arrays",
    "to_bytes",
    "write_arrays",
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


class StoredArrays(NamedTuple):
    """What a file holds: the caller's header, and the arrays, which cannot be written to."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class _Entry(NamedTuple):
    """Where an array lies, counted from the first one."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    digest: str

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def write_arrays(
    path: str | Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a file, in the place of one that may be there; only its owner may read it.

    It is written in the folder ``.incoming`` beside its place and renamed when it is on the disk: a
    crash leaves the old file or the new one.

    Parameters
    ----------
    kind
        What the arrays are, such as ``count-sketch``; reading asks for it.
    header
        What JSON can say. Tuples come back as lists.
    arrays
        Of the types in `ALLOWED_TYPES`, in either byte order.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     table = np.eye(2, dtype=np.int64)
    ...     write_arrays(f"{folder}/a", "example", {"rows": 2}, {"table": table})
    ...     header, arrays = open_arrays(f"{folder}/a", "example")
    >>> header, arrays["table"].tolist(), arrays["table"].flags.writeable
    ({'rows': 2}, [[1, 0], [0, 1]], False)
    """
    with arrays_aside(path, kind, header, arrays) as put_in_place:
        put_in_place()


@contextmanager
def arrays_aside(
    path: str | Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Iterator[Callable[[], None]]:
    """Write a file beside its place, on the disk; what this yields gives it its name.

    For what must happen between the two. Without that call the file is gone at the end. The
    parameters are those of `write_arrays`.
    """
    path = Path(path)
    pieces = _pieces(kind, header, arrays)
    with ExitStack() as stack:
        with writing(path):
            folder = path.parent / ".incoming"
            folder.mkdir(mode=0o700, exist_ok=True)
            sweep(folder)
            incoming = stack.enter_context(incoming_file(folder))  # made with mode 0600
            for piece in pieces:
                incoming.stream.write(piece)
            incoming.stream.flush()
            os.fsync(incoming.stream.fileno())

        def put_in_place() -> None:
            with writing(path):
                incoming.path.replace(path)
                sync_folder(path.parent)

        yield put_in_place


def to_bytes(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return what `write_arrays` would write. Equal content gives equal bytes.

    Examples
    --------
    >>> content = to_bytes("example", {}, {"counts": np.array([3, 1], np.int16)})
    >>> from_bytes(content, "example").arrays["counts"]
    array([3, 1], dtype=int16)
    """
    return b"".join(_pieces(kind, header, arrays))


def is_sketch_file(path: str | Path) -> bool:
    """Say whether a file begins as the files of this format do; nothing else is checked."""
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def open_arrays(path: str | Path, kind: str, *, verify: bool = True) -> StoredArrays:
    """Map a file into memory.

    Files are replaced and never altered in place, so what was opened stays as it was.

    Parameters
    ----------
    kind
        What the file must be.
    verify
        Whether the arrays are compared with their checksums, which reads them all. The sizes and
        the description are always checked.

    Raises
    ------
    NotFound
        There is no such file.
    DataError
        The file is something else, of another kind, or of a newer version.
    Damaged
        The file is cut off, too long, or does not match its checksums.
    """
    path = Path(path)
    with explained(path), path.open("rb") as stream:
        mapped = _mapped(stream)
    return _parsed(mapped, kind, where=str(path), verify=verify)


def from_bytes(content: bytes, kind: str, *, verify: bool = True) -> StoredArrays:
    """Read what `to_bytes` made; the arrays are views of ``content``. Raises as `open_arrays`."""
    return _parsed(memoryview(content).toreadonly(), kind, where=f"{kind} bytes", verify=verify)


def _pieces(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> list[bytes | memoryview]:
    """Return the bytes of a file in their order, without copying the arrays."""
    _require_name(kind, "kind")
    entries: list[_Entry] = []
    pieces: list[bytes | memoryview] = []
    end = 0
    for name, array in arrays.items():
        stored = _storable(name, array)
        content = stored.reshape(-1).view(np.uint8).data
        offset = _aligned(end)
        digest = _digest(content)
        entries.append(_Entry(name, stored.dtype.str, stored.shape, offset, digest))
        pieces += [bytes(offset - end), content]
        end = offset + len(content)
    description = _description(kind, header, entries)
    gap = bytes(_aligned(len(description)) - len(description)) if entries else b""
    n_bytes = _HEAD_BYTES + len(description) + len(gap) + end
    fixed = _FIXED.pack(MAGIC, VERSION, 0, len(description), n_bytes)
    return [fixed, _checksum(fixed, description), description, gap, *pieces]


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    _require_name(name, "array")
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


def _description(kind: str, header: Mapping[str, Any], entries: list[_Entry]) -> bytes:
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


def _parsed(content: Content, kind: str, *, where: str, verify: bool) -> StoredArrays:
    n_description = _checked_head(content, where)
    begin = _HEAD_BYTES + n_description
    description = bytes(content[_HEAD_BYTES:begin])
    head = bytes(content[:_HEAD_BYTES])
    if _checksum(head[: _FIXED.size], description) != head[_FIXED.size :]:
        _damaged("the description does not match its checksum", where)
    header, entries = _read_description(description, kind, where)
    first = _HEAD_BYTES + _aligned(n_description)
    arrays: dict[str, NDArray[Any]] = {}
    end = begin
    for entry in entries:
        place = first + entry.offset
        if place != _aligned(end) or place + entry.n_bytes > len(content):
            _damaged(f"array {entry.name} cannot lie where it is said to", where)
        if any(content[end:place]):
            _damaged(f"something stands before array {entry.name}", where)
        end = place + entry.n_bytes
        arrays[entry.name] = _view(content, place, entry)
        if verify and _digest(arrays[entry.name].reshape(-1).view(np.uint8).data) != entry.digest:
            _damaged(f"array {entry.name} does not match its checksum", where)
    if end != len(content):
        _damaged("something stands after the last array", where)
    return StoredArrays(header, arrays)


def _checked_head(content: Content, where: str) -> int:
    """Check the first bytes against each other and the file's length; return a length."""
    if bytes(content[: len(MAGIC)]) != MAGIC[: len(content)] or not len(content):
        raise DataError("not a sketch file", where=where, remedy="name another file")
    if len(content) < _HEAD_BYTES:
        _damaged("the file is cut off", where)
    _, version, zero, n_description, n_bytes = _FIXED.unpack(bytes(content[: _FIXED.size]))
    if version != VERSION:
        raise DataError(
            f"written in format {version}, this version reads {VERSION}",
            where=where,
            remedy="install the version of Cloister that wrote it; else the file is damaged",
        )
    if n_bytes != len(content):
        what = "the file is cut off" if n_bytes > len(content) else "something follows the file"
        _damaged(f"{what}: {len(content)} bytes, where {n_bytes} are announced", where)
    if zero or n_description > min(LARGEST_DESCRIPTION_BYTES, n_bytes - _HEAD_BYTES):
        _damaged("the first bytes contradict each other", where)
    return int(n_description)


def _read_description(text: bytes, kind: str, where: str) -> tuple[dict[str, Any], list[_Entry]]:
    try:
        read = json.loads(text)
        if _canonical(read) != text:
            raise ValueError("not in canonical form")
        found, header = str(read["kind"]), dict(read["header"])
        entries = [_entry(listed) for listed in read["arrays"]]
        if len({entry.name for entry in entries}) != len(entries) or len(read) != 3:
            raise ValueError("not the names of a sketch file")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"its description cannot be read ({error})", where=where) from None
    if found != kind:
        raise DataError(
            f"a file of kind {found[:80]!r}, where {kind!r} is needed",
            where=where,
            remedy="name another file",
        )
    return header, entries


def _entry(listed: Mapping[str, Any]) -> _Entry:
    entry = _Entry(**listed)
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


def _view(content: Content, place: int, entry: _Entry) -> NDArray[Any]:
    """Return an array over mapped bytes: a plain one, which kernels take as any other."""
    n_values = math.prod(entry.shape)
    if not n_values:
        array: NDArray[Any] = np.empty(entry.shape, entry.dtype)
        array.flags.writeable = False
        return array
    return np.frombuffer(content, entry.dtype, n_values, place).reshape(entry.shape)


def _mapped(stream: BinaryIO) -> Content:
    if not os.fstat(stream.fileno()).st_size:
        return memoryview(b"")
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _checksum(fixed: bytes, description: bytes) -> bytes:
    return hashlib.blake2b(fixed + description, digest_size=_DIGEST_BYTES).digest()


def _canonical(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _require_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise DataError(
            f"a name has up to 64 of a-z, 0-9, _ and -, a letter first (given: {name[:80]!r})",
            where=what,
        )


def _damaged(what: str, where: str) -> NoReturn:
    raise Damaged(what, where=where, remedy=_AGAIN)
