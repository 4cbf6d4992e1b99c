"""Documents cut to a most number of tokens, so that a whole document has a stated privacy cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.index.term_counts import TermCounts
from cloister.sketch.keyed_hash import HashKey, SketchShape

__all__ = ["cut_documents"]


def cut_documents(counts: TermCounts, max_length: int, key: HashKey) -> TermCounts:
    """Return the documents with the tokens of longer ones left out beyond ``max_length``.

    Which terms stay is decided by their hash alone, term by term, and not by the other documents:
    so a document's cut depends on that document only. A token added to a document that is already
    cut can push one other token out.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> counts = count_terms(["cough cough fever rash", "fever"])
    >>> cut_documents(counts, 3, HashKey(bytes(32))).lengths.tolist()
    [3.0, 1.0]
    """
    if max_length < 1:
        raise SettingsError(f"must be at least 1 (given: {max_length})", where="max_length")
    long = np.flatnonzero(counts.lengths > max_length)
    if not len(long):
        return counts
    order = _order(counts, key)
    kept = counts.counts.copy()
    for document in long:
        begin, end = counts.starts[document], counts.starts[document + 1]
        entries = begin + np.argsort(order[counts.terms[begin:end]])
        before = np.cumsum(kept[entries]) - kept[entries]
        kept[entries] = np.clip(max_length - before, 0, kept[entries])
    stay = kept > 0
    n_before = np.concatenate([[0], np.cumsum(stay)])
    return TermCounts(
        n_before[counts.starts].astype(np.int64),
        counts.terms[stay],
        kept[stay],
        counts.vocabulary,
    )


def _order(counts: TermCounts, key: HashKey) -> NDArray[np.int64]:
    """Return each term's place in an order by hash, of equal hashes by the term itself."""
    hashed = key.hash_terms(counts.vocabulary, SketchShape(n_rows=1, n_columns=1 << 20))
    placed = np.lexsort((np.array(counts.vocabulary), hashed.columns[:, 0]))
    order = np.empty(counts.n_terms, np.int64)
    order[placed] = np.arange(counts.n_terms)
    return order
