"""Which documents of a closure hold the queried word, from the codes that a query opens.

A closure hides which of its words a document holds. The codes of the word's features take that
back: a frequency of 0 lies in another interval than one of 1 as soon as one tree splits between
them, and the server has the code of 0. It needs to know nothing of the collection. This is the
price of trees on the server: from the first query for a word on, its own documents are in the open,
for good, against the server. Words that were never queried stay sealed. Without trees on the server
there are no codes, and only soft levels are left to guess from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.code_order_recovery import CodedColumn
from cloister.adversary.guesses import Guesses, count_guesses
from cloister.adversary.inferred_clicks import area_under_curve
from cloister.adversary.label_naming import SeenLabels
from cloister.core.errors import DataError

__all__ = ["OccurrenceRecovery", "held_by_codes", "labels_of_codes", "recover_occurrence"]

Flags = NDArray[np.bool_]


class OccurrenceRecovery(NamedTuple):
    """How well a server tells documents that hold a word from others of its closure.

    Parameters
    ----------
    found
        Right guesses from codes; with plain values all are right.
    auc
        Of the intervals' places; 0.5 tells nothing.
    without_codes
        Share of right guesses where all documents get the answer that is more often right.
    """

    found: Guesses
    auc: float
    without_codes: float

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        return {**self._asdict(), "found": self.found._asdict()}


def held_by_codes(columns: Sequence[CodedColumn]) -> Flags:
    """Say which rows hold the word: a value of theirs is not in the interval of 0.

    Parameters
    ----------
    columns
        Features of the word that are 0 just where the document does not hold it.

    Examples
    --------
    >>> frequency = CodedColumn(np.array([3, 17, 9]), np.array([10]), 5)
    >>> held_by_codes([frequency]).tolist()
    [False, True, False]
    """
    if not columns:
        raise DataError("a coded feature of the word is needed", where="columns")
    held = [column.intervals != column.zero_interval for column in columns]
    return np.asarray(np.any(held, axis=0), np.bool_)


def labels_of_codes(closed: SeenLabels, columns: Sequence[Sequence[CodedColumn]]) -> SeenLabels:
    """Return what is left of closures once codes are open: labels with documents of their own.

    Parameters
    ----------
    closed
        What labels have by their closures.
    columns
        For each label the coded features of its word, one row a document that it has.
    """
    documents = closed.documents.copy()
    for label, features in enumerate(columns):
        documents[label, np.flatnonzero(closed.documents[label])] = held_by_codes(features)
    return SeenLabels(documents, closed.closures)


def recover_occurrence(columns: Sequence[CodedColumn], held: Flags) -> OccurrenceRecovery:
    """Guess which rows hold the word, and compare with the truth.

    Parameters
    ----------
    columns
        What the server has of the word's features.
    held
        Whether each document of the closure holds the word.
    """
    guess = held_by_codes(columns)
    places = np.sum([column.intervals for column in columns], axis=0).astype(np.float64)
    share = float(np.mean(held))
    return OccurrenceRecovery(
        count_guesses(guess == held), area_under_curve(places, held), max(share, 1 - share)
    )
