"""Order and values of features from the codes of private trees.

A server that holds trees on codes and coded rows knows the codes of all thresholds, so it knows
between which two of them each value lies. It sorts documents by that, and needs no key. With some
rows whose values it knows, it says what the others' are: values of an interval are like those of
known rows in it, and between known ones elsewhere. For whole numbers (term frequencies) it need not
know any row: trees split them between neighbours, so the number of thresholds below a value is
nearly the value.

:mod:`cloister.cloud.code_leakage` measures the order with one forest; here the server puts together
what all forests tell that share a scale.

**Without protection** values are in the open. **Without codes** (no trees on the server) nothing of
this is left, and the best guess is the most common value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.code_leakage import path_places, rank_correlation
from cloister.cloud.private_trees import TreeCodes
from cloister.core.errors import DataError
from cloister.privacy.mechanisms.aes_noise import Words
from cloister.rank.labelled_rows import feature_matrix

__all__ = [
    "CodedColumn",
    "OrderRecovery",
    "ValueRecovery",
    "coded_column",
    "guess_values",
    "recover_order",
    "recover_values",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class CodedColumn(NamedTuple):
    """What the server has of one scale.

    Parameters
    ----------
    codes
        Of the rows.
    thresholds
        Codes of all thresholds on this scale, of all forests, rising.
    zero
        Code of the value 0, which stands for documents without the word.
    """

    codes: Integers
    thresholds: Integers
    zero: int

    @property
    def intervals(self) -> Integers:
        """How many thresholds lie below each row's value."""
        return np.searchsorted(self.thresholds, self.codes).astype(np.int64)

    @property
    def zero_interval(self) -> int:
        """How many thresholds lie below 0."""
        return int(np.searchsorted(self.thresholds, self.zero))


def coded_column(
    codes: TreeCodes,
    scale: tuple[str, int],
    values: NDArray[Any],
    *,
    forests: Sequence[int] = (0,),
    words: Words | None = None,
) -> CodedColumn:
    """Code values as a client does, with what the server's forests tell of the scale.

    Parameters
    ----------
    codes
        The client's.
    scale
        One that trees ask for.
    forests
        Those that the server holds.
    words
        Where the randomness comes from; see `TreeCodes.coded_rows`.
    """
    coded = codes.coded_values(scale, np.append(np.asarray(values, np.float64), 0.0), words)
    return CodedColumn(coded[:-1], _threshold_codes(codes, scale, forests), int(coded[-1]))


def _threshold_codes(codes: TreeCodes, scale: tuple[str, int], forests: Sequence[int]) -> Integers:
    found = [np.empty(0, np.int64)]
    for forest in forests:
        private = codes.private_forest(forest)
        for place, column in enumerate(codes.columns(forest)):
            if codes.scale(column, forest) == scale:
                found.append(private.codes[private.columns == place])
    return np.unique(np.concatenate(found))


class ValueRecovery(NamedTuple):
    """How often values are guessed exactly, for rows whose values the server does not know.

    Parameters
    ----------
    n_rows
        Rows that were guessed.
    by_known_rows
        Share guessed right, with the known rows.
    by_counting
        With none: the number of thresholds between 0 and the value. For whole numbers only.
    without_codes
        The most common value of the known rows. With plain values it would be 1.
    """

    n_rows: int
    by_known_rows: float
    by_counting: float
    without_codes: float


def guess_values(column: CodedColumn, known: Integers, values: NDArray[Any]) -> Floats:
    """Guess the value of every row from those of some: the most common of the same interval.

    Where no known row is in the interval, on the line between those of the nearest that have one.
    Intervals are in the order of their values, so guesses rise with codes.

    Parameters
    ----------
    column
        What the server has.
    known, values
        Rows that the server knows, and their values.

    Examples
    --------
    >>> column = CodedColumn(np.array([3, 12, 14, 22, 35]), np.array([10, 20, 30]), 0)
    >>> guess_values(column, np.array([0, 1, 4]), np.array([0.0, 1.0, 5.0])).tolist()
    [0.0, 1.0, 1.0, 3.0, 5.0]
    """
    if not len(known) or len(known) != len(values):
        raise DataError("one value of each known row, and at least one, is needed", where="known")
    intervals = column.intervals
    places = np.unique(intervals[known])
    common = [_most_common(np.asarray(values)[intervals[known] == place]) for place in places]
    return np.interp(intervals, places, common)


def recover_values(column: CodedColumn, known: Integers, values: NDArray[Any]) -> ValueRecovery:
    """Guess the values of rows that are not known, and count right guesses.

    Parameters
    ----------
    column
        What the server has.
    known
        Rows whose values it knows.
    values
        Of all rows: the truth. The guess sees those of known rows only.
    """
    truth = np.asarray(values, np.float64)
    rest = np.setdiff1d(np.arange(len(truth)), known)
    if not len(rest):
        raise DataError("all rows are known", where="known")
    guess = guess_values(column, known, truth[known])
    if bool((truth == np.rint(truth)).all()):
        guess = np.rint(guess)
    counted = np.maximum(column.intervals - column.zero_interval, 0)
    common = np.full(len(truth), _most_common(truth[known]))
    right = [float(np.mean(one[rest] == truth[rest])) for one in (guess, counted, common)]
    return ValueRecovery(len(rest), *right)


def _most_common(values: Floats) -> float:
    found, counts = np.unique(values, return_counts=True)
    return float(found[counts.argmax()])


class OrderRecovery(NamedTuple):
    """How well a server sorts rows by one feature: Spearman's correlation with the values.

    1 is what plain values give, 0 what nothing gives.

    Parameters
    ----------
    feature
        Name of the feature.
    n_thresholds
        On its scale.
    by_codes
        Sorted by codes.
    by_intervals
        By the number of thresholds below.
    by_paths
        By the turns that rows take in the trees, without looking at codes.
    """

    feature: str
    n_thresholds: int
    by_codes: float
    by_intervals: float
    by_paths: float


def recover_order(
    codes: TreeCodes,
    rows: Any,
    names: Sequence[str],
    forest: int = 0,
    *,
    forests: Sequence[int] = (0,),
    words: Words | None = None,
) -> list[OrderRecovery]:
    """Sort rows by each feature that a forest splits on.

    Parameters
    ----------
    codes
        The client's.
    rows
        Plain features: the truth, and what the client codes.
    names
        Of the features.
    forest
        Which one the rows are scored by.
    forests
        Those that the server holds, and whose thresholds it knows.
    words
        Where the randomness comes from; see `TreeCodes.coded_rows`.
    """
    matrix = feature_matrix(rows, codes.n_features(forest))
    coded = codes.coded_rows(matrix, forest, words)
    places = path_places(codes.private_forest(forest), coded)
    found = []
    for place, column in enumerate(codes.columns(forest)):
        scale = codes.scale(column, forest)
        seen = CodedColumn(coded[:, place], _threshold_codes(codes, scale, forests), 0)
        values = matrix[:, column.feature]
        there = ~np.isnan(values)
        correlations = [
            rank_correlation(values[there], guess[there])
            for guess in (seen.codes, seen.intervals, places[:, place])
        ]
        found.append(OrderRecovery(names[column.feature], len(seen.thresholds), *correlations))
    return found
