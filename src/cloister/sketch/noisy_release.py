"""The one-shot noisy release: noise on every cell once, then the lists; any number of queries.

A party adds discrete noise (Laplace for few rows, normal for many) to every cell of every
document's Count Sketch and chooses the two-sided lists of an RTK-Sketch from the noisy cells. What
it ships is a function of noisy numbers, so the lists, their order and every later query are
post-processing and cost nothing more. With it go what features need besides: noisy document
lengths, and noisy Count Sketches of document and collection frequencies. All four tables are in the
stated cost.

What it guarantees:

- Unit: one token more or less in one document of this field (``token`` level); with ``max_length``
  or exact lengths one token replaced by any other, with noise of twice the width. Titles and
  bodies are two releases; a token lies in one of them.
- Against everyone who gets the file, with or without the hash key, whatever else they know, for
  ever and for any number of queries. The noise comes from AES-256, so against whoever cannot break
  that.
- A changed corpus is a new release with its own cost, and the costs add up on the ledger.

What it does not protect: that a document exists, how many there are and their numbers, which are
public; a whole document, save at the cost of as many tokens as it may have (``max_length``, and
lengths that are not exact); the
settings, which must not be chosen by looking at the counts; the time that making it takes. The
hash key hides terms from those who do not have it, and no more; it is never in the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.index.term_counts import TermCounts
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.ledger.entry import Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.aes_noise import AesWords, Words, add_noise
from cloister.privacy.mechanisms.noise_table import NoiseTable, noise_table
from cloister.privacy.releases.noisy_tables import NoisyTable, NoisyTablesRelease
from cloister.sketch.cell_counts import cell_type, row_cells
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.document_cutting import cut_documents
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.list_check import require_array, require_sound_lists
from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release
from cloister.sketch.rtk_lists import RtkLists, select_cells
from cloister.store.array_file import (
    StoredArrays,
    arrays_aside,
    from_bytes,
    open_arrays,
    to_bytes,
    write_arrays,
)

__all__ = ["NoisyRelease", "NoisyReleaseSettings", "exact_frequencies", "make_release"]

# Which words noise what: no two values of a release share a word.
_LENGTHS, _DOCUMENT_FREQUENCIES, _COLLECTION_FREQUENCIES, _FIRST_ROW = 1, 2, 3, 16
FORMAT: Final = 2  # 2: records name the family of the noise; files of format 1 are read too
BLOCK_BYTES: Final = 1 << 26  # cells that are laid out and noised together
_ARRAYS: Final = (
    "ids", "values", "sizes", "floors", "lengths", "document_frequencies", "collection_frequencies"
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class NoisyRelease:
    """What leaves a party, and the record for the ledger.

    Parameters
    ----------
    settings
        How it was made.
    key_fingerprint
        Names the hash key.
    lists
        Two-sided lists of the noisy cells.
    lengths
        Noisy number of tokens of each document; exact where the settings say so.
    document_frequencies, collection_frequencies
        Noisy Count Sketches: rows x columns.
    release
        What the ledger records.
    """

    settings: NoisyReleaseSettings
    key_fingerprint: str
    lists: RtkLists
    lengths: NDArray[np.int32]
    document_frequencies: NDArray[np.int32]
    collection_frequencies: NDArray[np.int32]
    release: NoisyTablesRelease

    kind: ClassVar[str] = "noisy-release"

    def __post_init__(self) -> None:
        settings = self.settings
        table = (settings.statistics_rows, settings.statistics_columns)
        for name in _ARRAYS[5:]:
            require_array(name, getattr(self, name), np.int32, table, self.kind)
        require_array("lengths", self.lengths, np.int32, self.lengths.shape[:1], self.kind)
        present = np.ones(self.n_documents, np.bool_)
        require_sound_lists(
            self.lists, settings.shape.n_cells, settings.cell_size, present, self.kind
        )

    @property
    def n_documents(self) -> int:
        """Number of documents, which is public."""
        return len(self.lengths)

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a seed: such a release protects nobody."""
        return self.release.simulated

    @property
    def size_bytes(self) -> int:
        """Memory of all arrays."""
        return self.lists.size_bytes + sum(
            table.nbytes
            for table in (self.lengths, self.document_frequencies, self.collection_frequencies)
        )

    @property
    def cells(self) -> NoisyTable:
        """The record of the cells: the family of their noise and its width."""
        return self.release.tables[0]

    def epsilon(self, delta: float | None = None, level: Level = Level.TOKEN) -> float:
        """Return what it costs, by default at the delta that it was made for.

        For a document that is the cost of ``max_length`` tokens replaced: its whole text changed to
        any other. Without a ``max_length``, and with exact lengths, it is infinite.
        """
        losses = losses_of([self.release], level)
        return composed_epsilon(losses, delta or self.settings.delta).epsilon

    def record(self, ledger: Ledger, *, party_id: str, recipient: str, purpose: str) -> Receipt:
        """Record it on a ledger, or be refused; send nothing before this returns.

        The ledger keeps the digest and the size of the bytes, not the bytes.
        """
        content = self.to_bytes()
        statement = {
            "kind": self.kind,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
        }
        payload = json.dumps(statement, sort_keys=True).encode()
        return ledger.release(
            self.release, payload, party_id=party_id, recipient=recipient, purpose=purpose
        )

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        write_arrays(path, self.kind, self._header(), self._arrays())

    @contextmanager
    def saved_aside(self, path: str | Path) -> Iterator[Callable[[], None]]:
        """Write it beside its place; what this yields gives it its name. See `arrays_aside`."""
        with arrays_aside(path, self.kind, self._header(), self._arrays()) as put_in_place:
            yield put_in_place

    def to_bytes(self) -> bytes:
        """Return what `save` writes."""
        return to_bytes(self.kind, self._header(), self._arrays())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; the arrays are mapped from the file."""
        return cls._from_stored(open_arrays(path, cls.kind, what="a sketch file"), str(path))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read what `to_bytes` made."""
        stored = from_bytes(content, cls.kind, what="a sketch file")
        return cls._from_stored(stored, f"{cls.kind} bytes")

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "settings": self.settings.model_dump(mode="json"),
            "key_fingerprint": self.key_fingerprint,
            "release": self.release.model_dump(mode="json"),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        given = (*self.lists, self.lengths, self.document_frequencies, self.collection_frequencies)
        return dict(zip(_ARRAYS, given, strict=True))

    @classmethod
    def _from_stored(cls, stored: StoredArrays, where: str) -> Self:
        if (written := stored.header.get("format", 1)) not in (1, FORMAT):
            raise DataError(
                f"a noisy release in format {written}, this version reads up to {FORMAT}",
                where=where,
                remedy="install the version of Cloister that wrote it",
            )
        try:
            arrays = [stored.arrays[name] for name in _ARRAYS]
            settings = NoisyReleaseSettings(**stored.header["settings"])
            release = NoisyTablesRelease(**stored.header["release"])
            fingerprint = str(stored.header["key_fingerprint"])
        except (KeyError, TypeError, SettingsError) as error:
            raise DataError(f"its header cannot be read ({error})", where=where) from None
        lists = RtkLists(*arrays[:4])
        try:
            return cls(settings, fingerprint, lists, arrays[4], arrays[5], arrays[6], release)
        except DataError as error:
            raise DataError(error.what, where=where) from None


def make_release(
    counts: TermCounts,
    key: HashKey,
    settings: NoisyReleaseSettings,
    *,
    words: Words | None = None,
) -> NoisyRelease:
    """Noise the sketches of one field of all documents, and select.

    Parameters
    ----------
    counts
        The exact counts, which stay.
    key
        The hash key of the federation.
    settings
        Sizes, and what it may cost.
    words
        Where noise comes from: by default AES under a new key. `SeededWords` gives a simulated
        release.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.privacy.mechanisms.aes_noise import SeededWords
    >>> counts = count_terms(["cough cough fever", "fever", "rash"])
    >>> settings = NoisyReleaseSettings(n_rows=2, n_columns=8, cell_size=3, epsilon=4.0,
    ...                                 statistics_columns=16, max_length=10)
    >>> noisy = make_release(counts, HashKey(bytes(32)), settings, words=SeededWords(1))
    >>> noisy.epsilon() <= 4.0, noisy.n_documents, noisy.simulated
    (True, 3, True)
    """
    words = words or AesWords()
    if settings.max_length is not None:
        counts = cut_documents(counts, settings.max_length, key)
    release = planned_release(settings, n_documents=counts.n_documents, simulated=words.simulated)
    noise = {table.name: noise_table(table.family, table.width) for table in release.tables}
    lists = _noisy_lists(counts, key, settings, noise["cells"], words)
    lengths = counts.lengths.astype(np.int64)
    if "lengths" in noise:
        add_noise(lengths, noise["lengths"], words, purpose=_LENGTHS)
    frequencies = exact_frequencies(counts, key, settings)
    for name, table, purpose in (
        ("document frequencies", frequencies[0], _DOCUMENT_FREQUENCIES),
        ("collection frequencies", frequencies[1], _COLLECTION_FREQUENCIES),
    ):
        add_noise(table, noise[name], words, purpose=purpose)
    return NoisyRelease(
        settings,
        key.fingerprint,
        lists,
        _narrowed(lengths),
        _narrowed(frequencies[0]),
        _narrowed(frequencies[1]),
        release,
    )


def _noisy_lists(
    counts: TermCounts,
    key: HashKey,
    settings: NoisyReleaseSettings,
    noise: NoiseTable,
    words: Words,
) -> RtkLists:
    """Noise a row of all documents' sketches and select from it, some columns at a time."""
    hashed = key.hash_terms(counts.vocabulary, settings.shape)
    lists = RtkLists.empty(settings.shape.n_cells, settings.cell_size)
    n_documents, n_columns = counts.n_documents, settings.n_columns
    together = BLOCK_BYTES // max(1, n_documents * np.dtype(cell_type(counts)).itemsize)
    together = max(2, together - together % 2)  # an even place in the stream of words
    for row in range(settings.n_rows):
        for first in range(0, n_columns, together):
            block = range(first, min(first + together, n_columns))
            cells = row_cells(counts, hashed, row, columns=block)
            place = first * n_documents
            add_noise(cells, noise, words, purpose=_FIRST_ROW + row, first=place)
            select_cells(cells, settings.cell_size, lists, row * n_columns + first)
    return lists


def exact_frequencies(
    counts: TermCounts, key: HashKey, settings: NoisyReleaseSettings
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return exact Count Sketches of document and collection frequencies."""
    hashed = key.hash_terms(counts.vocabulary, settings.statistics_shape)
    return (
        CountSketch.from_counts(counts, hashed, frequencies="document").table,
        CountSketch.from_counts(counts, hashed, frequencies="collection").table,
    )


def _narrowed(table: NDArray[np.int64]) -> NDArray[np.int32]:
    """Cut noisy numbers to 32 bits: post-processing."""
    limits = np.iinfo(np.int32)
    return np.clip(table, limits.min, limits.max).astype(np.int32)
