"""Sketch files of any kind, opened and described; with the right key, read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.app.sketch_query import ReverseSource
from cloister.app.sketch_release import describe_release
from cloister.core.errors import DataError
from cloister.sketch import rtk_sketch
from cloister.sketch.count_min import CountMin
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyRelease
from cloister.sketch.rtk_query import ReverseTop
from cloister.sketch.rtk_sketch import RtkSketch
from cloister.sketch.sketched_counts import SketchedCounts
from cloister.store.array_file import open_arrays

__all__ = ["AnySketch", "describe", "open_sketch", "require_key", "reverse_source", "sketch_kind"]

AnySketch = RtkSketch | NoisyRelease | CountSketch | CountMin
Result = dict[str, Any]

_KINDS: Final[dict[str, type[AnySketch]]] = {
    rtk_sketch.KIND: RtkSketch,
    NoisyRelease.kind: NoisyRelease,
    CountSketch.kind: CountSketch,
    CountMin.kind: CountMin,
}


def open_sketch(path: str | Path) -> AnySketch:
    """Open a file of whatever kind it is; all checksums are compared.

    Raises
    ------
    DataError
        The file is something else.
    Damaged
        It is cut off or altered.
    """
    return _KINDS[sketch_kind(path)].load(path)


def sketch_kind(path: str | Path) -> str:
    """Find out a file's kind by asking for each; its arrays are not looked at."""
    for kind in _KINDS:
        try:
            open_arrays(path, kind, verify=False, what="a sketch file")
        except DataError as error:
            refused = error
            continue
        return kind
    raise refused


def require_key(opened: AnySketch, key: HashKey, where: str | Path) -> None:
    """Raise unless the key is the one that the file was made with."""
    if opened.key_fingerprint != key.fingerprint:
        raise DataError(
            f"made with key {opened.key_fingerprint}, and the key given is {key.fingerprint}",
            where=str(where),
            remedy="give the key that it was made with, or make the sketch anew with this one",
        )


def reverse_source(opened: RtkSketch | NoisyRelease, key: HashKey) -> ReverseSource:
    """Return what answers reverse queries."""
    return SketchedCounts(opened, key) if isinstance(opened, NoisyRelease) else _Exact(opened, key)


class _Exact:
    """An exact RTK-Sketch that takes terms as words."""

    def __init__(self, sketch: RtkSketch, key: HashKey) -> None:
        self._sketch = sketch
        self._key = key

    def top(self, term: str, k: int = 150) -> ReverseTop:
        return self._sketch.top(self._key.hash_terms([term], self._sketch.shape), k)

    def term_counts(
        self, terms: Sequence[str], documents: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        hashed = self._key.hash_terms(terms, self._sketch.shape)
        return self._sketch.term_counts(hashed, documents)


def describe(opened: AnySketch) -> Result:
    """Say what a sketch is, how large, and what it may cost to hand it on."""
    if isinstance(opened, NoisyRelease):
        return describe_release(opened)
    about: Result = {
        "protected": False,
        "simulated": False,
        "key_fingerprint": opened.key_fingerprint,
        "n_rows": opened.shape.n_rows,
        "n_columns": opened.shape.n_columns,
        "epsilon": None,
    }
    if isinstance(opened, RtkSketch):
        return {"kind": rtk_sketch.KIND} | about | {
            "documents": opened.n_documents,
            "deleted": len(opened.doc_ids) - opened.n_documents,
            "cell_size": opened.cell_size,
            "slack": opened.lists.capacity - opened.cell_size,
            "size_bytes": opened.size_bytes,
            "holes": opened.n_holes,
            "needs_rebuild": opened.needs_rebuild,
        }  # fmt: skip
    return {"kind": opened.kind} | about | {"size_bytes": opened.table.nbytes}
