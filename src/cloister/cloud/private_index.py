"""The server's file: sealed boxes by label, and sealed names and texts of documents.

An array file (:mod:`cloister.store.array_layout` has its bytes) of the kind ``private-index``. Its
header has ``format`` (1), ``index_id`` (32 hexadecimal digits), ``n_documents``, ``n_boxes`` and
``has_texts``; its arrays are

========================  ============  ========================================================
name                      type, shape   content
========================  ============  ========================================================
``labels``                u1 (n, 16)    labels of the boxes, rising as bytes, each once
``starts``                i8 (n + 1)    where each box begins in ``sealed``, and the end
``sealed``                u1            the boxes, one after the other
``document_name_starts``  i8 (d + 1)    where each document's sealed name begins, and the end
``document_names``        u1            sealed names, by the documents' secret numbers
``document_text_starts``  i8 (d + 1)    the same of texts, all empty where there are none
``document_texts``        u1            sealed texts
========================  ============  ========================================================

All of it is checked when it is read, as it comes from a client. What is in the boxes
(:mod:`cloister.cloud.box_layout`) can be checked only when a query opens them. The file's checksums
find damage; a box that was altered by somebody without its key does not open.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.sealed_boxes import INDEX_ID_BYTES, LABEL_BYTES, LEAST_BOX_BYTES
from cloister.core.errors import DataError
from cloister.store.array_file import StoredArrays, from_bytes, open_arrays, to_bytes, write_arrays

__all__ = ["PrivateIndex"]

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

KIND: Final = "private-index"
FORMAT: Final = 1
MOST_DOCUMENTS: Final = 2**31 - 1  # numbers of documents are of 32 bits
_WHAT: Final = "a private index"
_TYPES: Final = {
    "labels": np.uint8,
    "starts": np.int64,
    "sealed": np.uint8,
    "document_name_starts": np.int64,
    "document_names": np.uint8,
    "document_text_starts": np.int64,
    "document_texts": np.uint8,
}


@dataclass(frozen=True, eq=False)
class PrivateIndex:
    """An index as the server has it; the arrays are those of the file.

    Raises
    ------
    DataError
        If the arrays do not fit together.

    Examples
    --------
    >>> index = PrivateIndex.of(bytes(16), {b"L" * 16: b"a sealed box" * 2}, [b"name" * 8])
    >>> bytes(index.box(b"L" * 16)[:8]), index.box(bytes(16)), index.n_documents
    (b'a sealed', None, 1)
    """

    index_id: bytes
    labels: Bytes = field(repr=False)
    starts: Integers = field(repr=False)
    sealed: Bytes = field(repr=False)
    document_name_starts: Integers = field(repr=False)
    document_names: Bytes = field(repr=False)
    document_text_starts: Integers = field(repr=False)
    document_texts: Bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.index_id) != INDEX_ID_BYTES:
            _refuse(f"an index id has {INDEX_ID_BYTES} bytes")
        for name, array in self._arrays.items():
            if array.dtype != _TYPES[name] or array.ndim != (2 if name == "labels" else 1):
                _refuse(f"{name} is of another type or shape")
        if self.labels.shape[1] != LABEL_BYTES or not _rising(self.labels):
            _refuse(f"labels are {LABEL_BYTES} bytes each, rising")
        if len(self.starts) != len(self.labels) + 1:
            _refuse("labels and boxes are not as many")
        _check_starts(self.starts, self.sealed, "starts", LEAST_BOX_BYTES)
        _check_starts(self.document_name_starts, self.document_names, "names", LEAST_BOX_BYTES)
        least = LEAST_BOX_BYTES if self.has_texts else 0
        _check_starts(self.document_text_starts, self.document_texts, "texts", least)
        if len(self.document_name_starts) != len(self.document_text_starts):
            _refuse("names and texts are of other documents")
        if self.n_documents > MOST_DOCUMENTS:
            _refuse(f"{self.n_documents} documents are too many")

    @classmethod
    def of(
        cls,
        index_id: bytes,
        boxes: Mapping[bytes, bytes],
        names: Sequence[bytes],
        texts: Sequence[bytes] | None = None,
    ) -> PrivateIndex:
        """Make an index of sealed boxes by label, and of sealed names and texts by number."""
        labels = sorted(boxes)
        flat = np.frombuffer(b"".join(labels), np.uint8)
        if any(len(label) != LABEL_BYTES for label in labels):
            _refuse(f"labels are {LABEL_BYTES} bytes each")
        starts, sealed = _joined([boxes[label] for label in labels])
        texts = [b""] * len(names) if texts is None else texts
        return cls(
            bytes(index_id), flat.reshape(-1, LABEL_BYTES), starts, sealed,
            *_joined(names), *_joined(texts),
        )  # fmt: skip

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> PrivateIndex:
        """Map a file into memory and check it.

        Parameters
        ----------
        verify
            Whether the arrays are compared with their checksums, which reads the whole file.

        Raises
        ------
        NotFound
            There is no such file.
        DataError
            It is no private index, of a newer format, or its parts contradict each other.
        Damaged
            It is cut off or does not match its checksums.
        """
        return cls._of_stored(open_arrays(path, KIND, verify=verify, what=_WHAT))

    @classmethod
    def from_bytes(cls, content: bytes) -> PrivateIndex:
        """Read what `to_bytes` made; raises as `open`."""
        return cls._of_stored(from_bytes(content, KIND, what=_WHAT))

    @classmethod
    def _of_stored(cls, stored: StoredArrays) -> PrivateIndex:
        header, arrays = stored
        if header.get("format") != FORMAT:
            raise DataError(
                f"a private index of format {header.get('format')!r}, this version reads {FORMAT}",
                where=KIND,
                remedy="build the index again",
            )
        if set(arrays) != set(_TYPES):
            _refuse("the arrays are not those of a private index")
        try:
            index_id = bytes.fromhex(header["index_id"])
        except (KeyError, TypeError, ValueError):
            _refuse("the index id cannot be read")
        index = cls(index_id, **arrays)
        if header != index._header:
            _refuse("the header contradicts the arrays")
        return index

    def write(self, path: str | Path) -> None:
        """Write the file, in the place of one that may be there."""
        write_arrays(path, KIND, self._header, self._arrays)

    def to_bytes(self) -> bytes:
        """Return what `write` would write."""
        return to_bytes(KIND, self._header, self._arrays)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.document_name_starts) - 1

    @property
    def n_boxes(self) -> int:
        """Number of boxes."""
        return len(self.labels)

    @property
    def has_texts(self) -> bool:
        """Whether the documents' texts are there."""
        return bool(len(self.document_texts))

    @property
    def size_bytes(self) -> int:
        """What the arrays take together; the file has some hundred bytes more."""
        return sum(array.nbytes for array in self._arrays.values())

    def box(self, label: bytes) -> memoryview | None:
        """Return the sealed box of a label, if there is one."""
        place = bisect.bisect_left(range(self.n_boxes), label, key=self._label)
        if place == self.n_boxes or self._label(place) != label:
            return None
        return _slice(self.sealed, self.starts, place)

    def document_name(self, number: int) -> memoryview:
        """Return the sealed name of a document."""
        self._require(number)
        return _slice(self.document_names, self.document_name_starts, number)

    def document_text(self, number: int) -> memoryview:
        """Return the sealed text of a document, empty where the index has no texts."""
        self._require(number)
        return _slice(self.document_texts, self.document_text_starts, number)

    def _require(self, number: int) -> None:
        if not 0 <= number < self.n_documents:
            raise DataError(f"there are {self.n_documents} documents", where=f"document {number}")

    @cached_property
    def _label_bytes(self) -> memoryview:
        return self.labels.reshape(-1).data

    def _label(self, place: int) -> bytes:
        return bytes(self._label_bytes[place * LABEL_BYTES : (place + 1) * LABEL_BYTES])

    @property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _TYPES}

    @property
    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "index_id": self.index_id.hex(),
            "n_documents": self.n_documents,
            "n_boxes": self.n_boxes,
            "has_texts": self.has_texts,
        }


def _joined(parts: Sequence[bytes]) -> tuple[Integers, Bytes]:
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return starts, np.frombuffer(b"".join(parts), np.uint8)


def _slice(content: Bytes, starts: Integers, place: int) -> memoryview:
    return content.data[int(starts[place]) : int(starts[place + 1])]


def _rising(labels: Bytes) -> bool:
    words = np.ascontiguousarray(labels).view(">u8").astype(np.uint64)
    high, low = words[:, 0], words[:, 1]
    rises = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    return bool(rises.all())


def _check_starts(starts: Integers, content: Bytes, what: str, least: int) -> None:
    sound = (
        len(starts) >= 1
        and starts[0] == 0
        and starts[-1] == len(content)
        and bool((starts[1:] >= starts[:-1]).all())  # a difference could overflow
        and (len(starts) == 1 or int(np.diff(starts).min()) >= least)
    )
    if not sound:
        _refuse(f"{what} do not fit their content")


def _refuse(what: str) -> NoReturn:
    raise DataError(what, where=KIND, remedy="build the index again, or fetch it again")
