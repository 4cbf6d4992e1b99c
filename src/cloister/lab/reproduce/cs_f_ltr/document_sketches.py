"""Counts estimated from a sketch of each document, as CS-F-LTR's algorithms 1 and 2 have it.

Lengths and frequencies are exact: the paper sketches counts alone. Nothing here protects anybody;
the noise is that of `cloister.sketch.paper_shared_noise.PaperSharedNoise`, which hides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.federate.silos.augmentation import ExactAnswers
from cloister.index.term_counts import TermCounts
from cloister.sketch.cell_counts import cell_type, row_cells
from cloister.sketch.keyed_hash import HashKey, SketchShape

__all__ = ["DocumentSketches", "SketchKind"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]
SketchKind = Literal["count-sketch", "count-min"]

BLOCK: Final = 4096  # documents whose counters are put together at a time


class DocumentSketches(ExactAnswers):
    """The sketches of one field of a party's documents; a `TermSource` that also answers `top`.

    Parameters
    ----------
    counts
        The documents.
    key, shape
        Of the sketches.
    kind
        The median of signed counters, or the minimum of unsigned ones.
    n_true_rows
        How many rows an estimate is made of (z1); all where None.
    claimed_epsilon, rng
        Adds Laplace noise of scale 1 / epsilon to each answer, the same to all its counters, as
        the paper prints it; none where None.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> counts = count_terms(["fever", "cough cough fever", "cough"])
    >>> sketches = DocumentSketches(counts, HashKey(bytes(32)), SketchShape())
    >>> sketches.term_counts(["cough"], np.array([0, 1, 2])).tolist()
    [[0.0, 2.0, 1.0]]
    """

    def __init__(
        self,
        counts: TermCounts,
        key: HashKey,
        shape: SketchShape,
        *,
        kind: SketchKind = "count-sketch",
        n_true_rows: int | None = None,
        claimed_epsilon: float | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        if claimed_epsilon is not None and rng is None:
            raise SettingsError("noise needs a generator", where="rng")
        super().__init__(counts)  # lengths and frequencies are exact
        self._key, self._shape = key, shape
        self._signed = kind == "count-sketch"
        self._n_rows = shape.n_rows if n_true_rows is None else n_true_rows
        self._claimed_epsilon, self._rng = claimed_epsilon, rng
        hashed = key.hash_terms(counts.vocabulary, shape)
        self._cells = np.empty(
            (self._n_rows, shape.n_columns, counts.n_documents), cell_type(counts)
        )
        for row in range(self._n_rows):
            row_cells(counts, hashed, row, signed=self._signed, out=self._cells[row])

    def term_counts(self, terms: Sequence[str], documents: Numbers) -> Floats:
        """Return estimates of how often each term (row) occurs in each document (column)."""
        return np.maximum(self._estimates(terms, documents, noisy=True), 0.0)

    def top(self, term: str, k: int) -> tuple[NDArray[np.int64], Floats]:
        """Return at most ``k`` documents by estimate; the selection has no noise, as printed."""
        estimates = self._estimates([term], np.arange(self.n_documents), noisy=False)[0]
        best = np.argsort(-estimates, kind="stable")[:k]
        best = best[estimates[best] > 0]
        return best, estimates[best]

    def _estimates(self, terms: Sequence[str], documents: Numbers, *, noisy: bool) -> Floats:
        hashed = self._key.hash_terms(terms, self._shape)
        rows = np.arange(self._n_rows)
        estimates = np.zeros((len(terms), len(documents)))
        for term in range(len(terms)):
            cells = self._cells[rows, hashed.columns[term, : self._n_rows]]
            for first in range(0, len(documents), BLOCK):
                here = slice(first, first + BLOCK)
                counters = cells[:, documents[here]].astype(np.float64)
                if noisy:
                    counters += self._shared_noise(counters.shape[1])
                estimates[term, here] = self._put_together(counters, hashed.signs[term])
        return estimates

    def _shared_noise(self, n_documents: int) -> Floats:
        if self._claimed_epsilon is None or self._rng is None:
            return np.zeros(n_documents)
        return self._rng.laplace(0.0, 1 / self._claimed_epsilon, n_documents)

    def _put_together(self, counters: Floats, signs: NDArray[np.int8]) -> Floats:
        if not self._signed:
            return np.asarray(counters.min(axis=0), np.float64)
        signed = counters * signs[: self._n_rows, None]
        return np.asarray(np.median(signed, axis=0), np.float64)
