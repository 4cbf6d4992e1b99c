"""A rule that is on only when it is needed: FedAvg until somebody is found to push elsewhere.

Robust rules throw away part of what honest clients have learnt, in every round, whether anybody
attacks or not (thesis section 5.7). This rule takes the mean of all. Meanwhile it watches how
clients behave over many rounds (:mod:`cloister.federate.rules.behaviour`), and only those whose
purpose differs from the others', beyond chance, are suspended: their updates are watched on, and
not used, and what they gave since the last tests began is taken out of the model again. A suspended
client that behaves like the others for a while is taken back; each time it is
suspended again that takes twice as long, so that an attacker who comes and goes is out almost
always.

Until somebody is found, single updates are kept from doing much harm: what of an update lies
further from the middle of the round than four times what is usual is cut off. Honest updates are
hardly ever so far out.

With groups (``group_size`` above 1) it needs no single update: it sees the mean of each group of
clients, formed by secure aggregation, and groups are drawn anew in each round
(:mod:`cloister.federate.rules.groups`). A client's own mark on its group's mean is smaller, so that
it takes more rounds to be found.

What it bears: fewer than half of the clients, if they push elsewhere steadily enough to be told
from chance. This is measured, not proven: an attacker that stays within what chance explains is not
found, and neither can it do much. Clients who want something else than the majority look like
attackers. Where that is to be expected, clients should be divided into groups instead
(:mod:`cloister.federate.clustered`).
"""

from __future__ import annotations

import copy
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import kernel
from cloister.core.random import stream
from cloister.federate.client_groups import N_PARTS
from cloister.federate.rules.arrival import mean_of
from cloister.federate.rules.behaviour import Behaviour, Finding
from cloister.federate.rules.groups import plan_groups
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule

__all__ = ["Adaptive", "Decision"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_TEST: Final = 2 * N_PARTS  # turns of the usual client; then after twice as many, and so on
LONGEST: Final = 16 * N_PARTS  # turns that are looked at together
CERTAINTY: Final = 6.0  # standard deviations from chance that it takes to suspend
ON_PROBATION: Final = 4.0  # the same for those who were suspended before
AT_EASE: Final = 1.5  # with no more than that, over a long time, suspended clients are taken back
PATIENCE: Final = 4 * LONGEST  # turns before that is judged; twice as many after each offence
FAR: Final = 4.0  # times the usual distance from the middle of a round
MOST_DOUBLINGS: Final = 20  # of the time that it takes to be taken back
MEMORY: Final = 0.95  # of usual distances, from turn to turn


class Decision(NamedTuple):
    """What a test has led to: in which round, how sure, and who."""

    round: int
    certainty: float
    suspended: tuple[int, ...]
    taken_back: tuple[int, ...]
    is_clear: bool


class Adaptive(Rule):
    """The mean of all clients that behave like the others.

    Parameters
    ----------
    n_attackers, beyond
        As for every rule; how many attackers there are is not used.
    certainty
        How many standard deviations from chance it takes to suspend a client.
    group_size
        Of how many clients at least the server sees no more than their mean; 1 for single updates.
    seed
        Decides groups.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rule = Adaptive()
    >>> for round in range(60):
    ...     updates = 1.0 + rng.standard_normal((10, 20))
    ...     updates[7:] -= 2.0
    ...     outcome = rule.aggregate(updates, np.arange(10), round=round)
    >>> rule.suspended, bool(outcome.update.mean() > 0.9)
    ((7, 8, 9), True)
    """

    name = "adaptive"

    def __init__(
        self,
        *,
        n_attackers: int = 0,
        beyond: Beyond = "refuse",
        certainty: float = CERTAINTY,
        group_size: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__(n_attackers=n_attackers, beyond=beyond)
        if group_size < 1:
            raise SettingsError(f"at least 1 (given: {group_size})", where="group_size")
        self.certainty = certainty
        self.group_size = group_size
        self.seed = seed
        self.decisions: list[Decision] = []
        self._recent = Behaviour()  # by which clients are suspended
        self._lasting = Behaviour()  # by which they are taken back
        self._due = FIRST_TEST
        self._is_suspended = np.zeros(0, np.bool_)
        self._offences = np.zeros(0, np.int64)
        self._usual = np.zeros(0)  # mean square distance from the middle, by client
        self._given = np.zeros((0, 0))  # what of each client went into the model lately

    def __deepcopy__(self, memo: dict[int, object]) -> Adaptive:
        """Return a rule that goes on by itself: whoever tries out a round needs one, and often."""
        twin = copy.copy(self)
        twin.decisions = list(self.decisions)
        twin._recent, twin._lasting = self._recent.copy(), self._lasting.copy()
        twin._is_suspended = self._is_suspended.copy()
        twin._offences = self._offences.copy()
        twin._usual = self._usual.copy()
        twin._given = self._given.copy()
        return twin

    @property
    def suspended(self) -> tuple[int, ...]:
        """Clients whose updates are not used now."""
        return tuple(np.flatnonzero(self._is_suspended).tolist())

    def most_attackers(self, n: int) -> int:
        """Return the most that are fewer than half: measured, not proven."""
        return (n - 1) // 2

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say that there is always an outcome."""
        return True

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Take the mean of trusted clients, and look at everybody's behaviour."""
        order = np.argsort(received.clients)
        clients = received.clients[order]
        self._make_room(int(clients[-1]) + 1, received.updates.shape[1])
        seen, used, watched = self._seen(received.updates[order], clients, received.round)
        self._recent.observe(clients[watched], seen[watched], used[watched])
        if self._is_suspended.any():
            self._lasting.observe(clients[watched], seen[watched], used[watched])
        bounded = _bounded(seen, clients, used, self._usual)
        update = mean_of(bounded, used.astype(np.float64), float(used.sum()))
        self._given[clients[used]] += bounded[used] / used.sum()
        before = self._is_suspended.copy()
        self._judge(received.round)
        update += self._taken_out(np.flatnonzero(self._is_suspended & ~before))
        if self._recent.usual_turns == 0:  # what was given before is no longer looked at
            self._given[:] = 0.0
        by_row = np.zeros(received.n, np.bool_)
        by_row[order] = used
        return Chosen(update, by_row)

    def _seen(
        self, updates: Floats, clients: Ints, round: int
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what the server sees of each client, whose is used, and whose is watched."""
        suspended = self._is_suspended[clients]
        if suspended.all():
            suspended[:] = False
        if self.group_size == 1:
            return updates, ~suspended, np.ones(len(clients), np.bool_)
        rng = stream(self.seed, "groups", round)
        plan = plan_groups(suspended, self.group_size, rng)
        return _group_means(updates, plan.group), plan.used, plan.watched

    def _make_room(self, n_clients: int, n_parameters: int) -> None:
        missing = n_clients - len(self._offences)
        if missing > 0:
            known = self._given.reshape(len(self._offences), -1) if len(self._offences) else None
            self._given = np.zeros((n_clients, n_parameters))
            if known is not None:
                self._given[: len(known)] = known
            self._is_suspended = np.concatenate((self._is_suspended, np.zeros(missing, np.bool_)))
            self._offences = np.concatenate((self._offences, np.zeros(missing, np.int64)))
            self._usual = np.concatenate((self._usual, np.full(missing, np.nan)))

    def _judge(self, round: int) -> None:
        """Suspend and take back, where there is enough to judge by."""
        if self._recent.usual_turns >= self._due:
            finding = self._found()
            new = finding.suspects[~self._is_suspended[finding.suspects]]
            self._due *= 2
            if self._due > LONGEST:
                self._due = FIRST_TEST
                self._recent.begin_anew()
            self._offences[new] += 1
            self._decide(round, finding, new, new[:0])
        held = np.flatnonzero(self._is_suspended)
        if len(held) and self._lasting.usual_turns >= self._patience(held).min():
            patient = held[self._patience(held) <= self._lasting.usual_turns]
            trusted = np.flatnonzero(~self._is_suspended)
            differs = [self._lasting.distance(client, trusted) for client in patient]
            back = patient[np.array(differs) <= AT_EASE]
            self._lasting.begin_anew()
            self._decide(round, Finding(held, held, max(differs), True), back[:0], back)

    def _taken_out(self, new: Ints) -> Floats:
        """Return the way back to a model without what those now suspended have lately given.

        What the others gave counts for more in their place. Sums of groups cannot be taken apart.
        """
        others = np.flatnonzero(~self._is_suspended & self._given.any(axis=1))
        if not len(new) or not len(others) or self.group_size > 1:
            return np.zeros(self._given.shape[1])
        taken = self._given[new].sum(axis=0)
        grown = self._given[others].sum(axis=0) * len(new) / len(others)
        self._given[others] *= 1.0 + len(new) / len(others)
        self._given[new] = 0.0
        return np.asarray(grown - taken)

    def _patience(self, held: Ints) -> Ints:
        """Return how many turns each must behave like the others before it is taken back."""
        turns: Ints = PATIENCE * 2 ** np.minimum(self._offences[held] - 1, MOST_DOUBLINGS)
        return turns

    def _found(self) -> Finding:
        """Test everybody; it takes less to suspend those who were suspended before."""
        finding = self._recent.find(certainty=min(ON_PROBATION, self.certainty))
        known = finding.is_clear and bool((self._offences[finding.suspects] > 0).all())
        if known and finding.certainty <= self.certainty:
            return finding
        return self._recent.find(certainty=self.certainty)

    def _decide(self, round: int, finding: Finding, new: Ints, back: Ints) -> None:
        """Act, and tell of it; with somebody new to be watched, begin to watch anew."""
        self._is_suspended[new] = True
        self._is_suspended[back] = False
        if len(new):
            self._lasting.begin_anew()
        if len(new) or len(back) or not finding.is_clear:
            names = tuple(new.tolist()), tuple(back.tolist())
            self.decisions.append(Decision(round, finding.certainty, *names, finding.is_clear))


@kernel
def _group_means(updates: Floats, group: Ints) -> Floats:
    """Return for every row the mean of its group, zeros for rows of none."""
    n, width = updates.shape
    sums = np.zeros((group.max() + 1, width))
    sizes = np.zeros(len(sums))
    for i in range(n):
        if group[i] >= 0:
            sizes[group[i]] += 1.0
            for j in range(width):
                sums[group[i], j] += updates[i, j]
    means = np.zeros((n, width))
    for i in range(n):
        if group[i] >= 0:
            for j in range(width):
                means[i, j] = sums[group[i], j] / sizes[group[i]]
    return means


@kernel
def _bounded(updates: Floats, clients: Ints, trusted: NDArray[np.bool_], usual: Floats) -> Floats:
    """Cut off what lies further from the middle than `FAR` times what is usual.

    The middle is the median of each parameter over trusted rows. What is usual is the median, over
    trusted clients, of each one's own root mean square distance, with a memory of some turns.
    """
    n, width = updates.shape
    middle = np.empty(width)
    rows = np.flatnonzero(trusted)
    for j in range(width):
        middle[j] = np.median(updates[rows, j])
    distances = np.empty(n)
    for i in range(n):
        square = 0.0
        for j in range(width):
            square += (updates[i, j] - middle[j]) ** 2
        distances[i] = np.sqrt(square)
        old = usual[clients[i]]
        usual[clients[i]] = square if np.isnan(old) else MEMORY * old + (1.0 - MEMORY) * square
    farthest = FAR * np.sqrt(np.median(usual[clients[rows]]))
    bounded = updates.copy()
    for i in range(n):
        if distances[i] > farthest:
            for j in range(width):
                bounded[i, j] = middle[j] + (updates[i, j] - middle[j]) * farthest / distances[i]
    return bounded
