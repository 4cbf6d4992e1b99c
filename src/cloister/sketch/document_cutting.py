"""Documents cut to a most number of tokens, so that a whole document has a stated privacy cost.

Each document has an order of all terms of its own, and keeps the first tokens in it. The order is
that of a keyed hash of the term, mixed with the document's number. What it must give:

- It is fixed by the key, the document's number and the terms; counts and other documents do not
  change it. So the tokens of a document, laid out in it, are a sorted list, of which the first
  ``max_length`` stay. A token more, less or changed in that list changes at most one of those that
  stay to another: that is what `cloister.sketch.release_noise` accounts for.
- Different documents lose different terms, and the order has nothing to do with where terms fall
  in a sketch.

The mixing is quick and not cryptographic: no privacy rests on it, only an even loss of terms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import inline_kernel, parallel_kernel
from cloister.index.term_counts import TermCounts
from cloister.sketch.keyed_hash import HashKey

__all__ = ["cut_documents"]

_PURPOSE: Final = b"cloister-cutting"
_DIGEST_BYTES: Final = 16  # a word for the order, and one for where two terms' words are the same
# SplitMix64 (Steele, Lea and Flood 2014): the step, and the two multipliers of its finaliser.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_27: Final = np.uint64(27)
_30: Final = np.uint64(30)
_31: Final = np.uint64(31)

Words64 = NDArray[np.uint64]


def cut_documents(counts: TermCounts, max_length: int, key: HashKey) -> TermCounts:
    """Return the documents with the tokens of longer ones left out beyond ``max_length``.

    Which tokens stay depends on the key, the document's number and the document alone. A token
    added to a document that is already cut can push one other token out.

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
    words = _term_words(counts.vocabulary, key)
    kept = counts.counts.copy()
    _keep_first(long, counts.starts, counts.terms, words, max_length, kept)
    stay = kept > 0
    n_before = np.concatenate([[0], np.cumsum(stay)])
    return TermCounts(
        n_before[counts.starts].astype(np.int64),
        counts.terms[stay],
        kept[stay],
        counts.vocabulary,
    )


def _term_words(vocabulary: Sequence[str], key: HashKey) -> Words64:
    """Return two words of a keyed hash for each term."""
    started = hashlib.blake2b(key=key.secret_bytes(), person=_PURPOSE, digest_size=_DIGEST_BYTES)
    digests = bytearray()
    for term in vocabulary:
        hasher = started.copy()
        hasher.update(term.encode())
        digests += hasher.digest()
    return np.frombuffer(digests, "<u8").reshape(len(vocabulary), 2)


@inline_kernel
def _mixed(word: Any, document: int) -> Any:
    """Mix a term's word with a document's number; different words stay different."""
    mixed = word + _STEP * np.uint64(document + 1)
    mixed = (mixed ^ (mixed >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    return mixed ^ (mixed >> _31)


@parallel_kernel
def _keep_first(
    documents: NDArray[np.int64],
    starts: NDArray[np.int64],
    terms: NDArray[np.int32],
    words: Words64,
    max_length: int,
    kept: NDArray[np.int32],
) -> None:
    """Lower the counts of some documents to what stays of them."""
    for i in numba.prange(len(documents)):
        document = documents[i]
        begin, end = starts[document], starts[document + 1]
        places = np.empty(end - begin, np.uint64)
        for j in range(end - begin):
            places[j] = _mixed(words[terms[begin + j], 0], document)
        order = np.argsort(places)
        for j in range(1, len(order)):  # words of 64 bits are nearly never the same
            m = j
            while (
                m > 0
                and places[order[m]] == places[order[m - 1]]
                and (words[terms[begin + order[m]], 1] < words[terms[begin + order[m - 1]], 1])
            ):
                order[m], order[m - 1] = order[m - 1], order[m]
                m -= 1
        left = max_length
        for j in order:
            stays = min(left, int(kept[begin + j]))
            kept[begin + j] = stays
            left -= stays
