"""Which label is which word, from how often labels and words occur together.

A server that answers queries for keyed labels sees each label's documents, and so the number of
documents of each label and of each two labels. Whoever knows some of the documents in plain counts
the same for words. Islam et al. (NDSS 2012) and Cash et al. (CCS 2015, the count attack) match the
two. The search here begins with the counts of single labels and lets labels in as neighbours step
by step, the surest first, as the refined score attack of Damie et al. (USENIX Security 2021) does.
Then, as IHOP of Oya and Kerschbaum (USENIX Security 2022) does, it frees a part of the labels again
and again and assigns them anew, one word each, by how well they go with those that stay.

The likelihood is our own. The known documents are a part of the collection, n_known of n. A word
pair that is in c of the known ones is in K of all with the chance of a beta-binomial,
``K - c ~ BetaBinomial(n - n_known, a + c, b + n_known - c)``, where a and b come from the mean
number that the server sees. With all documents known it says K = c; with few it says how little c
tells. Chances of different pairs are multiplied as if they were independent, which they are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.known_occurrences import KnownOccurrences
from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.core.settings import Settings

__all__ = [
    "CountChances",
    "MatchingSettings",
    "assign_rows",
    "match_by_cooccurrence",
]

Integers = NDArray[np.int64]
Counts = NDArray[np.int32]
Floats = NDArray[np.float64]

LEAST: Final = -40.0  # log chance of one pair, at least: a wrong neighbour must not rule out all
REACH: Final = 25.0  # words whose own count is that much less likely than the best are passed over
OUT: Final = -1e9


class MatchingSettings(Settings):
    """How long is searched.

    Parameters
    ----------
    n_steps
        In how many steps the labels are let in as neighbours, the surest first. With large steps
        the first ones are wrong too often, and mislead the rest.
    n_rounds
        How often after that a part of the labels is assigned anew. With no step and no round
        labels go by their own counts alone.
    n_starts
        How often the whole is tried; the likeliest outcome counts.
    free_share
        The part of the labels that a round assigns anew.
    strength
        Of the prior: a, the number of documents that it counts as.
    """

    n_steps: int = Field(default=75, ge=0)
    n_rounds: int = Field(default=15, ge=0)
    n_starts: int = Field(default=1, ge=1)
    free_share: float = Field(default=0.25, gt=0, le=1)
    strength: float = Field(default=0.1, gt=0)


def match_by_cooccurrence(
    seen: NDArray[np.bool_],
    known: KnownOccurrences,
    settings: MatchingSettings | None = None,
    *,
    candidates: NDArray[np.bool_] | None = None,
    given: Mapping[int, int] | None = None,
    rng: np.random.Generator,
) -> Integers:
    """Guess the row of each label; -1 where no row is left for it.

    Parameters
    ----------
    seen
        Labels x documents of the server: which documents each label has.
    known
        What is known in plain; which documents of the server they are is not.
    candidates
        Rows that come into question; those of the known documents where not given.
    given
        Rows of some labels that are known beforehand.

    Examples
    --------
    >>> words = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]], bool)
    >>> known = KnownOccurrences(np.array([0, 2, 4, 5, 5, 6, 7]),
    ...                          np.array([0, 1, 0, 1, 0, 2, 2], np.int32), 3)
    >>> match_by_cooccurrence(words[[2, 0, 1]], known, given={1: 0},
    ...                       rng=np.random.default_rng(0)).tolist()
    [2, 0, 1]
    """
    settings, given = settings or MatchingSettings(), dict(given or {})
    if known.n_documents > seen.shape[1]:
        raise DataError("more documents are known than the server has", where="known")
    frequencies = known.frequencies
    open_rows = frequencies > 0
    if candidates is not None:
        open_rows = open_rows & candidates
    search = _Search(seen, known, frequencies, open_rows, settings)
    return search.found(given, rng)


class CountChances(NamedTuple):
    """Log chance of K, given c: ``by_rest[K - c] + by_all[K] + by_known[c]``.

    Examples
    --------
    >>> chances = CountChances.of(0.3, 0.1, 10, 4)
    >>> table = chances.single(np.arange(11), np.array([2]))
    >>> float(np.exp(table).sum().round(9)), table[9, 0]
    (1.0, np.float64(-1000000000.0))
    """

    by_rest: Floats
    by_all: Floats
    by_known: Floats

    @classmethod
    def of(cls, mean: float, strength: float, n: int, n_known: int) -> CountChances:
        """Make the tables for shares of this mean; n_known of n documents are known."""
        from scipy.special import betaln, gammaln

        mean = min(max(mean, 1e-9), 0.5)
        a, b = strength, strength * (1 - mean) / mean
        rest, every, part = np.arange(n - n_known + 1), np.arange(n + 1), np.arange(n_known + 1)
        chosen = gammaln(n - n_known + 1) - gammaln(rest + 1) - gammaln(n - n_known - rest + 1)
        return cls(chosen, betaln(every + a, n - every + b), -betaln(part + a, n_known - part + b))

    def single(self, seen: Integers, known: Integers) -> Floats:
        """Return the table labels x rows; `OUT` where K cannot be."""
        rest = seen[:, None] - known[None, :]
        fits = (rest >= 0) & (rest < len(self.by_rest))
        table = self.by_rest[np.where(fits, rest, 0)] + self.by_all[seen][:, None]
        return np.where(fits, table + self.by_known[known], OUT)


class _Search:
    """Labels that are assigned to rows, better in every round."""

    def __init__(
        self,
        seen: NDArray[np.bool_],
        known: KnownOccurrences,
        frequencies: Integers,
        open_rows: NDArray[np.bool_],
        settings: MatchingSettings,
    ) -> None:
        n_labels, n = seen.shape
        ones = seen.astype(np.float32)
        self._known, self._settings, self._n_labels = known, settings, n_labels
        self._rows = np.flatnonzero(open_rows)
        self._together = (ones @ ones.T).astype(np.int32)  # exact below 2^24 documents
        alone = np.diagonal(self._together).astype(np.int64)
        pairs = (self._together.sum() - alone.sum()) / max(1, n_labels * (n_labels - 1))
        shape = (settings.strength, n, known.n_documents)
        self._pairs = CountChances.of(float(pairs) / n, *shape)
        single = CountChances.of(float(alone.mean()) / n, *shape)
        table = single.single(alone, frequencies[self._rows])
        near = table >= table.max(axis=1, keepdims=True, initial=OUT) - REACH
        self._single = np.where(near, table, OUT)

    def found(self, given: Mapping[int, int], rng: np.random.Generator) -> Integers:
        """Search from several beginnings, and return the likeliest rows."""
        start = np.full(self._n_labels, -1, np.int64)
        for label, row in given.items():
            start[label] = row
        tries = [self._tried(start, number, rng) for number in range(self._settings.n_starts)]
        return max(tries, key=self._likelihood)

    def _tried(self, start: Integers, number: int, rng: np.random.Generator) -> Integers:
        """Let labels in step by step, then assign parts of them anew."""
        guess, sure, every = start.copy(), np.flatnonzero(start >= 0), np.flatnonzero(start < 0)
        scores = self._scores(guess, every, sure)
        guess[every] = self._assigned(scores, guess[sure])
        for step in range(1, self._settings.n_steps + 1):
            n_sure = len(every) * step // (self._settings.n_steps + 1)
            # The first try takes the surest; others, sure ones by chance.
            lead = _lead(scores) * np.exp(min(number, 1) * rng.normal(size=len(every)))
            surest = every[np.argsort(-lead, kind="stable")[:n_sure]]
            scores = self._scores(guess, every, np.concatenate([sure, surest]))
            guess[every] = self._assigned(scores, guess[sure])
        n_free = max(1, round(self._settings.free_share * len(every)))
        for _ in range(self._settings.n_rounds if len(every) else 0):
            free = rng.permutation(every)[:n_free]
            stay = np.setdiff1d(np.flatnonzero(guess >= 0), free)
            guess[free] = self._assigned(self._scores(guess, free, stay), guess[stay])
        return guess

    def _likelihood(self, guess: Integers) -> float:
        """Return the sum of all labels' scores; pairs count twice."""
        named = np.flatnonzero(guess >= 0)
        named = named[np.isin(guess[named], self._rows)]  # a given row may be in no known document
        scores = self._scores(guess, named, named)
        places = np.searchsorted(self._rows, guess[named])
        return float(scores[np.arange(len(named)), places].sum())

    def _scores(self, guess: Integers, labels: Integers, others: Integers) -> Floats:
        """Return labels x rows: log chances of own counts, and of those with other labels."""
        scores = self._single[labels]
        others = others[guess[others] >= 0]
        together = self._known.together(guess[others])[self._rows]
        seen = self._together[np.ix_(labels, others)]
        seen[labels[:, None] == others] = -1
        _add_pairs(seen, together, *self._pairs, scores)
        return scores

    def _assigned(self, scores: Floats, taken: Integers) -> Integers:
        return assign_rows(np.where(np.isin(self._rows, taken), 2 * OUT, scores), self._rows)


def assign_rows(scores: Floats, rows: Integers) -> Integers:
    """Give each label a row of its own so that the sum of scores is the largest; -1 for no row.

    Parameters
    ----------
    scores
        Labels x rows.
    rows
        What the columns stand for.

    Examples
    --------
    >>> assign_rows(np.array([[5.0, 4.0], [9.0, 1.0]]), np.array([7, 8])).tolist()
    [8, 7]
    """
    from scipy.optimize import linear_sum_assignment

    found = np.full(len(scores), -1, np.int64)
    n_best = min(scores.shape)  # no label needs more than its best so many
    if n_best:
        columns = np.unique(np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best])
        labels, places = linear_sum_assignment(scores[:, columns], maximize=True)
        found[labels] = rows[columns[places]]
    return found


def _lead(scores: Floats) -> Floats:
    """Return by how much the best row of each label is ahead of the second."""
    if scores.shape[1] < 2:
        return np.zeros(len(scores))
    two = np.partition(scores, -2, axis=1)[:, -2:]
    lead: Floats = two[:, 1] - two[:, 0]
    return lead


@kernel
def _add_pairs(
    seen: Counts,
    together: Counts,
    by_rest: Floats,
    by_all: Floats,
    by_known: Floats,
    scores: Floats,
) -> None:
    """Add to the scores (labels x rows) the log chances of the counts with other labels."""
    n_rest = len(by_rest)
    for label in range(scores.shape[0]):
        for row in range(scores.shape[1]):
            if scores[label, row] <= OUT:
                continue
            total = 0.0
            for other in range(seen.shape[1]):
                every, part = seen[label, other], together[row, other]
                rest = every - part
                if every < 0:
                    continue  # the label itself
                chance = LEAST
                if 0 <= rest < n_rest:
                    chance = max(LEAST, by_rest[rest] + by_all[every] + by_known[part])
                total += chance
            scores[label, row] += total
