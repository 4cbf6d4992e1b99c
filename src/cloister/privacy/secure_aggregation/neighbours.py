"""Who shares secrets with whom: everybody, or the clients near by on a random ring.

Bell et al. (2020), "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead", section 3:
clients stand on a circle in random order, and each is joined to the k / 2 next on either side (a
Harary graph on a random permutation). A client's *holders* are itself and its k neighbours, in all
W = k + 1 places; t of them can open its secrets, and t of them must sign one set of survivors.

What must hold against a server that lies, with c(L) the most colluding clients in any L successive
places:

- complete graph, W = n:  2 t > n + c  (Bonawitz et al. 2017, theorem 6.5);
- ring:  2 t >= W + 2 c(W) + 2  and  3 t >= 2 W + 2 + c(2 (W - t) + c(W)) + c(W - t + c(W)).

Then whatever the server tells, from one roster it gets at most one sum: over all honest members of
one U3 that honest clients accepted. Clients that it showed another roster are not in that U3;
clients that sent a vector under a U2 of their own and never signed are in the sum or there is none.

A client *accepts* (U2, U3) when t of its holders signed it; only then does it open shares. It signs
once, with itself in U3, and only if every neighbour in U3 sent it shares that it could read; an
honest client's are readable only under the roster that the client itself was shown. The server can
use the vector of an honest client u only if u's seed was opened, and each mask of u goes only with
the other client's key, or against the same mask in the vector of a client of this roster that is
in the sum too. Let W = 2 h + 1. On the ring:

1. No accepting client has its mask key opened. Of its holders t signed a U3 with it and t others
   accepted one without it, save colluders counted twice: 2 t <= W + c(W). For the same reason no
   client has both secrets opened.
2. Two clients that accepted different sets stand d >= 2 t - W - c places apart, since their t
   signers each lie in W + d places and only the c colluders where both neighbourhoods overlap
   signed twice.
3. All accepting holders of an opened client u accepted the same sets. Else two successive ones
   differ, with d - 1 places between them in which none accepts; with the colluders there, at most
   W - d + 1 + c holders open u. That is less than t by the last inequality.
4. A client u in a sum has t - c(W) >= h + 2 accepting honest holders, and t holders in the U2 that
   it masked under. So some holder p is both. By 1 the mask with p stays unless p is in the sum.
5. By 3 the accepting holders of p accepted what p did, so they are in the U2 that p masked under,
   and as in 4 in the sum. Of h + 2 among 2 h + 1 places, one at least is on either side of p. So
   accepting clients of the sum follow one another all around the ring, at most h apart, with one
   and the same U2 and U3. Any honest client that accepts stands within h of one, so is one of them.
6. An honest member v of this U3 is within h of one of them, who could read v's shares: v was shown
   this roster. All who open anything have v in U3, so v's key is not opened, and v is in the sum.
   Who is not in U3 has no seed opened. Neighbours of accepting clients signed their keys, so no
   entry of the roster is made up.

In a complete graph all of this holds at once, with t + t - n - c >= 1 clients in 4.

Who colludes is decided before the order is drawn; a server that can corrupt clients of its choice
afterwards is not covered on a ring.

W and t are computed so that the inequalities hold but with probability ``2**-security_bits`` over
the random order, even if a server tries ``2**grinding_bits`` orders, and so that every client keeps
t holders but with probability ``2**-failure_bits`` when the stated number of clients drop out
whatever their place. Tails are exact hypergeometric sums in integers, with the union bound over
the n places: every client computes the same numbers on any machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Final, NamedTuple

from cloister.core.errors import SettingsError

__all__ = ["Plan", "plan_graph", "ring_order", "holders_at"]

COMPLETE_UP_TO: Final = 32  # clients among whom a ring would save little
_N_TAILS_BITS: Final = 2  # three tails are added up: each may have a quarter of the probability


class Plan(NamedTuple):
    """The size of the graph: how many clients hold a client's shares, and how many open them."""

    n_holders: int
    threshold: int


@lru_cache(maxsize=256)
def plan_graph(
    n: int,
    min_survivors: int,
    n_colluders: int,
    *,
    security_bits: int = 40,
    grinding_bits: int = 40,
    failure_bits: int = 20,
) -> Plan:
    """Return the smallest ring that bears the stated dropouts and colluders, or all of ``n``.

    Raises
    ------
    SettingsError
        If neither a ring nor the complete graph can bear them.

    Examples
    --------
    >>> plan_graph(8, min_survivors=6, n_colluders=1)
    Plan(n_holders=8, threshold=6)
    >>> plan_graph(1000, min_survivors=900, n_colluders=50)
    Plan(n_holders=219, threshold=172)
    """
    n_dropouts = n - min_survivors
    bits = security_bits + grinding_bits + _N_TAILS_BITS

    def threshold(half: int) -> int | None:
        return _ring_threshold(n, n_dropouts, n_colluders, 2 * half + 1, failure_bits, bits)

    low, high = 1, (n - 1) // 2
    while low < high:  # halve the range; what is returned was itself checked
        middle = (low + high) // 2
        low, high = (low, middle) if threshold(middle) else (middle + 1, high)
    found = threshold(low) if n > COMPLETE_UP_TO and 2 * low + 1 < n - 1 else None
    if found:
        return Plan(2 * low + 1, found)
    if 2 * min_survivors > n + n_colluders:
        return Plan(n, min_survivors)
    raise SettingsError(
        f"{min_survivors} survivors of {n} clients with {n_colluders} colluders are too few for"
        " a server that lies",
        where="secure aggregation",
        remedy=f"ask for at least {(n + n_colluders) // 2 + 1} survivors, or expect fewer"
        " colluders",
    )


def ring_order(seed: bytes, client_ids: Sequence[str]) -> list[int]:
    """Return places of clients in random order: sorted by a hash under the seed."""
    keys = [hashlib.sha256(seed + client_id.encode()).digest() for client_id in client_ids]
    return sorted(range(len(keys)), key=keys.__getitem__)


def holders_at(order: Sequence[int], place: int, n_holders: int) -> tuple[int, ...]:
    """Return who holds the shares of the client at a place of the ring, in rising order.

    They are the client itself and its neighbours. To hold is mutual: ``u`` holds shares of ``v``
    where ``v`` holds shares of ``u``.

    Examples
    --------
    >>> [holders_at([2, 0, 1, 3, 4], place, 3) for place in range(5)]
    [(0, 2, 4), (0, 1, 2), (0, 1, 3), (1, 3, 4), (2, 3, 4)]
    """
    n = len(order)
    if n_holders == n:
        return tuple(range(n))
    first = place - n_holders // 2
    return tuple(sorted(order[(first + step) % n] for step in range(n_holders)))


def _ring_threshold(
    n: int, n_dropouts: int, n_colluders: int, width: int, failure_bits: int, bits: int
) -> int | None:
    """Return the threshold for rings of ``width`` holders, or None where they are too small."""
    threshold = width - _most_marked(n, n_dropouts, width, failure_bits)
    colluders = _most_marked(n, n_colluders, width, bits)
    if 2 * threshold < width + 2 * colluders + 2:
        return None
    # Two neighbourhoods overlap in one stretch, or, where the ring is short, at both ends.
    overlap = min(width, 2 * (width - threshold) + colluders) if 2 * width <= n else width
    gap = min(width, width - threshold + colluders)
    needed = 2 * width + 2
    needed += _most_marked(n, n_colluders, overlap, bits) + _most_marked(n, n_colluders, gap, bits)
    return threshold if 3 * threshold >= needed else None


def _most_marked(n: int, n_marked: int, n_drawn: int, bits: int) -> int:
    """Return the least m with n * P[X > m] <= 2**-bits for hypergeometric X.

    X counts the marked among ``n_drawn`` drawn from ``n`` without putting back: the marked in
    successive places of a random order. The factor n is the union bound over places.
    """
    all_draws = comb(n, n_drawn)
    count = min(n_marked, n_drawn)
    fewest = max(0, n_drawn - (n - n_marked))
    ways = comb(n_marked, count) * comb(n - n_marked, n_drawn - count)
    tail = 0
    while count > fewest:
        tail += ways  # draws with at least `count` marked
        if (tail * n) << bits > all_draws:
            return count
        ways = ways * count * (n - n_marked - n_drawn + count)
        ways //= (n_marked - count + 1) * (n_drawn - count + 1)
        count -= 1
    return fewest
