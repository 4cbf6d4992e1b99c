"""Many short strings in two flat arrays, which lie in a file and are read one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Damaged, DataError

__all__ = ["StringTable"]


class StringTable(Sequence[str]):
    """A sequence of strings that takes their UTF-8 bytes and four bytes more for each.

    Examples
    --------
    >>> table = StringTable.of(["a", "", "né"])
    >>> len(table), table[2], list(table)
    (3, 'né', ['a', '', 'né'])
    >>> list(table.select(np.array([2, 0]))), table.picked(np.array([2, 0, 1]))
    (['né', 'a'], ['né', 'a', ''])
    """

    def __init__(self, joined: NDArray[np.uint8], starts: NDArray[np.uint32]) -> None:
        self._joined = joined
        self._starts = starts

    @classmethod
    def of(cls, strings: Iterable[str]) -> StringTable:
        """Make a table of strings."""
        try:
            encoded = [string.encode("utf-8") for string in strings]
        except UnicodeEncodeError as error:
            raise DataError(
                "holds half of a surrogate pair", where=repr(error.object[:80])
            ) from None
        return cls(
            np.frombuffer(b"".join(encoded), np.uint8), _starts([len(one) for one in encoded])
        )

    @classmethod
    def chained(cls, tables: Sequence[StringTable]) -> StringTable:
        """Put tables one after the other."""
        joined = np.concatenate([np.empty(0, np.uint8), *(table._joined for table in tables)])
        sizes = [np.diff(table._starts) for table in tables]
        return cls(joined, _starts(np.concatenate([np.empty(0, np.uint32), *sizes])))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str, where: str) -> StringTable:
        """Take what `arrays` gave; raise `Damaged` where it cannot be."""
        try:
            joined, starts = arrays[f"{name}_bytes"], arrays[f"{name}_starts"]
        except KeyError as error:
            raise Damaged(f"the array {error} is missing", where=where) from None
        sound = (
            joined.ndim == starts.ndim == 1
            and joined.dtype == np.uint8
            and starts.dtype == np.uint32
            and len(starts) >= 1
            and starts[0] == 0
            and starts[-1] == len(joined)
            and bool((starts[1:] >= starts[:-1]).all())
        )
        if not sound:
            raise Damaged(f"the strings {name} do not fit together", where=where)
        return cls(joined, starts)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return both arrays as they are stored."""
        return {f"{name}_bytes": self._joined, f"{name}_starts": self._starts}

    def select(self, places: NDArray[Any]) -> StringTable:
        """Return the strings at some places, in the order given; a mask of places will do."""
        places = np.flatnonzero(places) if places.dtype == np.bool_ else places
        begins = self._starts[places].astype(np.int64)
        sizes = self._starts[places + 1] - begins
        starts = _starts(sizes)
        gaps = np.repeat(begins - starts[:-1], sizes)
        return StringTable(self._joined[gaps + np.arange(len(gaps))], starts)

    def blanked(self, blank: NDArray[np.bool_]) -> StringTable:
        """Return the same strings with empty ones where the mask says so."""
        sizes = np.diff(self._starts).astype(np.int64)
        if not sizes[blank].any():
            return self
        kept = self._joined[np.repeat(~blank, sizes)]
        return StringTable(kept, _starts(np.where(blank, 0, sizes)))

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        begin, end = int(self._starts[place]), int(self._starts[place + 1])
        return self._joined[begin:end].tobytes().decode("utf-8")

    def picked(self, places: NDArray[np.int32]) -> list[Any]:
        """Return the strings at some places; faster than one at a time."""
        joined = memoryview(self._joined)  # type: ignore[arg-type]
        begins, ends = self._starts[places].tolist(), self._starts[places + 1].tolist()
        return [str(joined[begin:end], "utf-8") for begin, end in zip(begins, ends, strict=True)]

    def tolist(self) -> list[str]:
        """Return all strings; faster than one at a time."""
        joined, starts = self._joined.tobytes(), self._starts.tolist()
        return [joined[begin:end].decode("utf-8") for begin, end in pairwise(starts)]


def _starts(sizes: Sequence[int] | NDArray[Any]) -> NDArray[np.uint32]:
    ends = np.cumsum(sizes, dtype=np.int64)
    if len(ends) and ends[-1] > np.iinfo(np.uint32).max:
        raise DataError("more than 4 GB of strings", where="strings", remedy="use more servers")
    return np.concatenate([[0], ends]).astype(np.uint32)
