"""How near to each other the terms of a query stand in a document.

Positions are those of the analysed terms: words that the analysis leaves out take no place. For two
terms a, b of a query, a before b there, and a document with a at the places i and b at the places
j:

- closeness: 1 / the smallest ``|i - j|``, 0 where one of the two is missing;
- ordered, w = 5 and 10: number of (i, j) with ``0 < j - i < w``, in the query's order;
- unordered, w = 5 and 10: number of (i, j) with ``|i - j| < w``, in either order.

For one term, earliness: 1 / (1 + the first place), places from 0; 0 where it is missing. Closeness
and earliness fall as distance and place rise, so trees split them alike, and "never" needs no
made-up distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import inline_kernel, kernel
from cloister.index.term_counts import TermCounts

__all__ = ["PAIR_NAMES", "Proximity", "TermSequences", "proximity"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]

NARROW: Final = 5  # tokens of a window
WIDE: Final = 10
PAIR_NAMES: Final = ("closeness", "ordered5", "unordered5", "ordered10", "unordered10")
_CLOSENESS, _ORDERED_NARROW, _NARROW, _ORDERED_WIDE, _WIDE = range(5)
_N_PAIR: Final = 5


@dataclass(frozen=True, eq=False)
class TermSequences:
    """Documents as terms in their order, flat: those of one document are adjacent.

    Parameters
    ----------
    starts
        Where each document's terms begin, and the number of all at the end.
    terms
        Positions in the vocabulary.
    vocabulary
        The terms by position.

    Examples
    --------
    >>> texts = TermSequences.of([["mild", "cough"], ["cough", "cough", "fever"]])
    >>> texts.terms.tolist(), texts.starts.tolist(), texts.document(0)
    ([0, 1, 1, 1, 2], [0, 2, 5], ['mild', 'cough'])
    """

    starts: NDArray[np.int64]
    terms: NDArray[np.int32]
    vocabulary: Sequence[str] = field(repr=False)

    def __post_init__(self) -> None:
        sound = (
            len(self.starts) >= 1
            and self.starts[0] == 0
            and self.starts[-1] == len(self.terms)
            and bool((np.diff(self.starts) >= 0).all())
            and (not len(self.terms) or int(self.terms.min()) >= 0)
            and (not len(self.terms) or int(self.terms.max()) < len(self.vocabulary))
        )
        if not sound:
            raise DataError("starts, terms and vocabulary do not fit", where="TermSequences")

    @classmethod
    def of(cls, documents: Iterable[Sequence[str]]) -> TermSequences:
        """Give numbers to the terms of documents, in order of appearance."""
        positions: dict[str, int] = {}
        terms: list[int] = []
        starts = [0]
        for document in documents:
            terms += [positions.setdefault(term, len(positions)) for term in document]
            starts.append(len(terms))
        return cls(np.array(starts, np.int64), np.array(terms, np.int32), tuple(positions))

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def document(self, number: int) -> list[str]:
        """Return the terms of a document in their order."""
        here = self.terms[self.starts[number] : self.starts[number + 1]]
        return [self.vocabulary[term] for term in here.tolist()]

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each term in the vocabulary."""
        return {term: position for position, term in enumerate(self.vocabulary)}

    @cached_property
    def counts(self) -> TermCounts:
        """How often each term occurs in each document."""
        n_terms = max(len(self.vocabulary), 1)
        document = np.repeat(np.arange(self.n_documents), np.diff(self.starts))
        pairs, n = np.unique(document * n_terms + self.terms, return_counts=True)
        starts = np.searchsorted(pairs, np.arange(self.n_documents + 1) * n_terms)
        return TermCounts(
            starts.astype(np.int64),
            (pairs % n_terms).astype(np.int32),
            n.astype(np.int32),
            self.vocabulary,
        )

    def numbers(self, documents: Numbers) -> NDArray[np.int64]:
        """Return numbers of documents as kernels take them, if there are such documents."""
        numbers = np.ascontiguousarray(documents, np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.n_documents:
            raise DataError(f"there are {self.n_documents} documents", where="documents")
        return numbers


class Proximity(NamedTuple):
    """Proximity of a query's terms in some documents; pair features as in `PAIR_NAMES`."""

    earliness: Floats  # [n_documents, n_terms]
    pairs: Floats  # [n_documents, n_pairs asked for, 5]
    means: Floats  # [n_documents, 5]: over all pairs of the query, 0 where there are none
    closest: Floats  # [n_documents]: the highest closeness of all pairs

    @property
    def combined(self) -> Floats:
        """Means of pairs, highest closeness, highest and mean earliness: documents x 8."""
        n_terms = self.earliness.shape[1]
        highest = self.earliness.max(axis=1, initial=0.0)
        columns = [self.closest, highest, self.earliness.sum(axis=1) / max(n_terms, 1)]
        return np.concatenate([self.means, np.stack(columns, axis=1)], axis=1)


def proximity(
    terms: Sequence[str],
    documents: Numbers,
    texts: TermSequences,
    pairs: Sequence[tuple[int, int]] = (),
) -> Proximity:
    """Look how near the terms of a query stand in some documents.

    Parameters
    ----------
    terms
        Different terms, in the query's order.
    documents
        Numbers of documents.
    texts
        The documents.
    pairs
        Places (a, b) of terms in the query, a < b, of which single values are wanted.

    Examples
    --------
    >>> texts = TermSequences.of([["mild", "cough", "no", "fever"], ["fever", "cough"]])
    >>> near = proximity(["cough", "fever"], np.array([0, 1]), texts, [(0, 1)])
    >>> near.pairs[:, 0].tolist()
    [[0.5, 1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0, 1.0]]
    """
    if len(set(terms)) != len(terms):
        raise DataError("a term stands twice", where="terms", remedy="give different terms")
    chosen = np.array(pairs, np.int64).reshape(-1, 2)
    if len(chosen) and not (
        chosen.min() >= 0 and chosen.max() < len(terms) and (chosen[:, 0] < chosen[:, 1]).all()
    ):
        raise DataError("a pair (a, b) has 0 <= a < b < terms", where="pairs")
    numbers = texts.numbers(documents)
    slots = np.full(max(len(texts.vocabulary), 1), -1, np.int32)
    for slot, term in enumerate(terms):
        if (position := texts.positions.get(term)) is not None:
            slots[position] = slot
    return Proximity(*_look(texts.terms, texts.starts, numbers, slots, len(terms), chosen))


@kernel
def _look(
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    documents: NDArray[np.int64],
    slots: NDArray[np.int32],
    n_terms: int,
    chosen: NDArray[np.int64],
) -> tuple[Floats, Floats, Floats, Floats]:
    """Read each document once; ``slots`` has the place of a term in the query, or -1."""
    n = len(documents)
    earliness = np.zeros((n, n_terms))
    pairs = np.zeros((n, len(chosen), _N_PAIR))
    means = np.zeros((n, _N_PAIR))
    closest = np.zeros(n)
    n_pairs = n_terms * (n_terms - 1) // 2
    values = np.zeros((n_terms, n_terms, _N_PAIR))
    last = np.empty(n_terms, np.int64)
    recent = np.empty((2, WIDE), np.int64)  # places and slots of the last hits, in a ring
    for row in range(n):
        begin, end = starts[documents[row]], starts[documents[row] + 1]
        _read(tokens[begin:end], slots, earliness[row], values, last, recent)
        for k in range(len(chosen)):
            pairs[row, k] = values[chosen[k, 0], chosen[k, 1]]
        for a in range(n_terms):
            for b in range(a + 1, n_terms):
                closest[row] = max(closest[row], values[a, b, _CLOSENESS])
                for name in range(_N_PAIR):
                    means[row, name] += values[a, b, name]
        if n_pairs:
            means[row] /= n_pairs
    return earliness, pairs, means, closest


@kernel
def _read(
    tokens: NDArray[np.int32],
    slots: NDArray[np.int32],
    earliness: Floats,
    values: Floats,
    last: NDArray[np.int64],
    recent: NDArray[np.int64],
) -> None:
    """Fill the upper triangle of ``values`` for one document."""
    values[:] = 0.0
    last[:] = -1
    n_hits = 0
    for place in range(len(tokens)):
        slot = slots[tokens[place]]
        if slot < 0:
            continue
        if last[slot] < 0:
            earliness[slot] = 1.0 / (1.0 + place)
        for other in range(len(last)):
            if other != slot and last[other] >= 0:
                low, high = min(slot, other), max(slot, other)
                near = 1.0 / (place - last[other])
                values[low, high, _CLOSENESS] = max(values[low, high, _CLOSENESS], near)
        for back in range(1, min(n_hits, WIDE - 1) + 1):
            hit = (n_hits - back) % WIDE
            distance = place - recent[0, hit]
            if distance >= WIDE:
                break
            _count(values, recent[1, hit], slot, distance)
        recent[0, n_hits % WIDE] = place
        recent[1, n_hits % WIDE] = slot
        n_hits += 1
        last[slot] = place


@inline_kernel
def _count(values: Floats, before: int, after: int, distance: int) -> None:
    """Count one occurrence of two terms in a wide window, and in a narrow one."""
    if before != after:
        low, high = min(before, after), max(before, after)
        ordered = 1.0 if before < after else 0.0
        values[low, high, _WIDE] += 1.0
        values[low, high, _ORDERED_WIDE] += ordered
        if distance < NARROW:
            values[low, high, _NARROW] += 1.0
            values[low, high, _ORDERED_NARROW] += ordered
