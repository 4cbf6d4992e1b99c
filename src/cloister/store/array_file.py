"""Named arrays and a JSON header in one file, checksummed and mappable.

:mod:`cloister.store.array_layout` has the layout byte by byte.

The checksums find damage, not forgery: whoever alters a file can compute them anew. What comes from
others is to come in a sealed message.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.file_errors import explained, writing
from cloister.store.array_layout import (
    ALLOWED_TYPES,
    ArrayEntry,
    Content,
    aligned,
    damaged,
    digest,
    head_bytes,
    read_head,
    require_name,
    storable,
)
from cloister.store.incoming import incoming_file, sweep, sync_folder

__all__ = [
    "ALLOWED_TYPES",
    "StoredArrays",
    "arrays_aside",
    "from_bytes",
    "open_arrays",
    "to_bytes",
    "write_arrays",
]


class StoredArrays(NamedTuple):
    """What a file holds: the caller's header, and the arrays, which cannot be written to."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


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


def open_arrays(
    path: str | Path, kind: str, *, verify: bool = True, what: str = "an array file"
) -> StoredArrays:
    """Map a file into memory.

    Files are replaced and never altered in place, so what was opened stays as it was.

    Parameters
    ----------
    kind
        What the file must be.
    verify
        Whether the arrays are compared with their checksums, which reads them all. The sizes and
        the description are always checked.
    what
        What the reader calls such a file, for the error about a foreign one.

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
    return _parsed(mapped, kind, where=str(path), what=what, verify=verify)


def from_bytes(
    content: bytes,
    kind: str,
    *,
    verify: bool = True,
    what: str = "an array file",
    where: str | Path = "",
) -> StoredArrays:
    """Read what `to_bytes` made; the arrays are views of ``content``. Raises as `open_arrays`.

    ``where`` names the file that the bytes are from.
    """
    view = memoryview(content).toreadonly()
    return _parsed(view, kind, where=str(where) or f"{kind} bytes", what=what, verify=verify)


def _pieces(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> list[bytes | memoryview]:
    """Return the bytes of a file in their order, without copying the arrays."""
    require_name(kind, "kind")
    entries: list[ArrayEntry] = []
    pieces: list[bytes | memoryview] = []
    end = 0
    for name, array in arrays.items():
        stored = storable(name, array)
        content = stored.reshape(-1).view(np.uint8).data
        offset = aligned(end)
        entries.append(ArrayEntry(name, stored.dtype.str, stored.shape, offset, digest(content)))
        pieces += [bytes(offset - end), content]
        end = offset + len(content)
    return [head_bytes(kind, header, entries, end), *pieces]


def _parsed(content: Content, kind: str, *, where: str, what: str, verify: bool) -> StoredArrays:
    head = read_head(content, kind, where=where, what=what)
    arrays: dict[str, NDArray[Any]] = {}
    end = head.end
    for entry in head.entries:
        place = head.first + entry.offset
        if place != aligned(end) or place + entry.n_bytes > len(content):
            damaged(f"array {entry.name} cannot lie where it is said to", where)
        if any(content[end:place]):
            damaged(f"something stands before array {entry.name}", where)
        end = place + entry.n_bytes
        arrays[entry.name] = _view(content, place, entry)
        if verify and digest(arrays[entry.name].reshape(-1).view(np.uint8).data) != entry.digest:
            damaged(f"array {entry.name} does not match its checksum", where)
    if end != len(content):
        damaged("something stands after the last array", where)
    return StoredArrays(head.header, arrays)


def _view(content: Content, place: int, entry: ArrayEntry) -> NDArray[Any]:
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
