"""``cloister sketch build``, ``add`` and ``delete``: exact sketches, which stay at home."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from cloister.app.sketch_collection import Counted
from cloister.app.sketch_opening import describe
from cloister.core.contention import lock_patiently
from cloister.core.errors import DataError, NotFound
from cloister.core.file_errors import explained
from cloister.sketch.cell_counts import cell_type
from cloister.sketch.count_min import CountMin
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.rtk_sketch import SLACK, RtkSketch

__all__ = [
    "ExactKind",
    "add_documents",
    "build_sketch",
    "changing",
    "default_cell_size",
    "delete_documents",
]

ExactKind = Literal["rtk", "count-sketch", "count-min"]
Result = dict[str, Any]

LEAST_CELL_SIZE: Final = 50  # small collections need no thrift
DOCUMENTS_AN_ENTRY: Final = 48  # two lists of 6 bytes an entry: an eighth of 2 bytes a document


def default_cell_size(n_documents: int) -> int:
    """Return how long lists are where nobody says: an eighth of the per-document sketches' size.

    Examples
    --------
    >>> default_cell_size(36_400), default_cell_size(1_000), default_cell_size(7)
    (752, 50, 7)
    """
    thrifty = n_documents // DOCUMENTS_AN_ENTRY - SLACK - 1  # and what a list has beside entries
    return max(1, min(n_documents, max(LEAST_CELL_SIZE, thrifty)))


def build_sketch(
    counted: Counted, key: HashKey, shape: SketchShape, kind: ExactKind, cell_size: int | None
) -> tuple[RtkSketch | CountSketch | CountMin, Result]:
    """Sketch documents; return the sketch and what it is.

    An RTK-Sketch tells documents apart. A Count Sketch or Count-Min adds all of them up.
    """
    counts = counted.counts
    start = time.perf_counter()
    hashed = key.hash_terms(counts.vocabulary, shape)
    made: RtkSketch | CountSketch | CountMin
    if kind == "rtk":
        size = cell_size or default_cell_size(counts.n_documents)
        made = RtkSketch.build(counts, hashed, cell_size=size, doc_ids=counted.doc_ids)
    else:
        made = (CountSketch if kind == "count-sketch" else CountMin).from_counts(counts, hashed)
    seconds = time.perf_counter() - start
    dense = counts.n_documents * shape.n_cells * cell_type(counts)().itemsize
    return made, describe(made) | {
        "documents": counts.n_documents,
        "terms": counts.n_terms,
        "tokens": int(counts.n_tokens),
        "build_seconds": seconds,
        "per_document_sketches_bytes": dense,
    }


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Let one at a time read a sketch file, change it and write it in its own place.

    The lock is on the file. Who waited for one that was replaced meanwhile waits for the new one.
    """
    while True:
        with explained(path):
            stream: BinaryIO = path.open("rb")
        with stream:
            lock_patiently(stream, what="this sketch", where=str(path))
            if path.exists() and os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                yield
                return


def add_documents(sketch: RtkSketch, counted: Counted, key: HashKey) -> None:
    """Add documents to a sketch."""
    known = set(sketch.doc_ids) & set(counted.doc_ids)
    if known:
        raise DataError(
            f"document {sorted(map(str, known))[0]!r} is there already",
            where="documents to add",
            remedy="delete it first, then add what it has become",
        )
    hashed = key.hash_terms(counted.counts.vocabulary, sketch.shape)
    sketch.add(counted.counts, hashed, counted.doc_ids)


def delete_documents(
    sketch: RtkSketch, doc_ids: Sequence[str], numbers: Sequence[int], where: str | Path
) -> list[str]:
    """Delete documents by id and by number, all or none; return their ids."""
    named = [*doc_ids, *(_id_of(sketch, number, where) for number in numbers)]
    wanted = list(dict.fromkeys(named))
    present = set(sketch.doc_ids)
    for doc_id in wanted:
        if doc_id not in present:
            raise NotFound(
                f"there is no document {doc_id!r}",
                where=str(where),
                remedy="check the id; numbers are given with --number",
            )
    for doc_id in wanted:
        sketch.delete(doc_id)
    return wanted


def _id_of(sketch: RtkSketch, number: int, where: str | Path) -> str:
    found = sketch.doc_ids[number] if 0 <= number < len(sketch.doc_ids) else None
    if found is None:
        raise NotFound(
            f"there is no document of number {number}",
            where=str(where),
            remedy="see the numbers that `cloister sketch query` shows",
        )
    return found
