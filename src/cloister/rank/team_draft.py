"""Team-draft interleaving: two rankings on one page, and clicks that say which is better.

Radlinski, Kurup and Joachims, *How does clickthrough data reflect retrieval quality?* (2008). The
rankings pick in turns, as captains do: who has fewer documents on the page picks next, a coin
decides where both have as many, and each picks its best document that is not there yet. A click is
credited to the ranking that picked the document. Where users click at random, both get as much.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError

__all__ = ["FIRST", "SECOND", "Interleaved", "credit", "interleave"]

FIRST: Final = 0
SECOND: Final = 1


class Interleaved(NamedTuple):
    """A page of two rankings.

    Parameters
    ----------
    page
        Places of the documents shown, best rank first.
    teams
        Which ranking picked each: `FIRST` or `SECOND`.
    """

    page: NDArray[np.int64]
    teams: NDArray[np.int8]


def interleave(
    first: ArrayLike, second: ArrayLike, n: int, rng: np.random.Generator
) -> Interleaved:
    """Put two rankings on one page of up to ``n`` documents.

    Parameters
    ----------
    first, second
        Places of documents, best first, each at most once.
    n
        Length of the page. It is shorter where one of the rankings has nothing left to pick.
    rng
        Throws the coins.

    Examples
    --------
    >>> made = interleave([3, 1, 2], [3, 2, 1], 2, np.random.default_rng(4))
    >>> made.page[0], set(made.teams.tolist()) == {FIRST, SECOND}
    (np.int64(3), True)
    """
    if n < 1:
        raise SettingsError(f"a page shows at least 1 document (given: {n})", where="n")
    rankings = (_checked(first, "first"), _checked(second, "second"))
    page: list[int] = []
    teams: list[int] = []
    picked: set[int] = set()
    next_of = [0, 0]
    while len(page) < n:
        for team in (FIRST, SECOND):
            next_of[team] = _next(rankings[team], next_of[team], picked)
        if any(next_of[team] == len(rankings[team]) for team in (FIRST, SECOND)):
            break
        ahead = teams.count(FIRST) - teams.count(SECOND)
        team = int(rng.integers(2)) if ahead == 0 else SECOND if ahead > 0 else FIRST
        page.append(rankings[team][next_of[team]])
        teams.append(team)
        picked.add(page[-1])
    return Interleaved(np.array(page, np.int64), np.array(teams, np.int8))


def credit(teams: NDArray[Any], clicked: NDArray[Any]) -> int:
    """Return the clicks on the second ranking's documents, less those on the first one's.

    Examples
    --------
    >>> credit(np.array([0, 1, 1]), np.array([True, True, True]))
    1
    """
    of_clicks = np.asarray(teams)[np.asarray(clicked, np.bool_)]
    return int((of_clicks == SECOND).sum()) - int((of_clicks == FIRST).sum())


def _next(ranking: list[int], start: int, picked: set[int]) -> int:
    """Return where the best document lies that is not picked yet; the length if there is none."""
    while start < len(ranking) and ranking[start] in picked:
        start += 1
    return start


def _checked(ranking: ArrayLike, where: str) -> list[int]:
    places = np.asarray(ranking)
    if places.ndim != 1 or (places.size and not np.issubdtype(places.dtype, np.integer)):
        raise DataError("a ranking is a row of whole numbers", where=where)
    if len(np.unique(places)) != len(places):
        raise DataError("a document is in the ranking twice", where=where)
    found: list[int] = places.tolist()
    return found
