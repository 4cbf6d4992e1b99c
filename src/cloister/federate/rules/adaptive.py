"""A rule that is on only when it is needed: the mean until somebody is found to push elsewhere.

Robust rules throw away part of what honest clients have learnt, in every round, whether anybody
attacks or not (thesis section 5.7). This rule takes the mean of all, which is FedAvg where clients
have the same number of interactions; claims of more are not believed. Meanwhile it watches how
clients behave over many rounds (:mod:`cloister.federate.rules.behaviour`), and only those whose
push differs from the others', beyond chance and by enough to matter, are suspended: their updates
are watched on and not used, and what they gave since the last tests began is taken out of the model
again. A suspended client that behaves like the others for a while is taken back; each time it is
suspended again that takes twice as long, so that an attacker who comes and goes is out almost
always.

Until somebody is found, single updates are kept from doing much harm: what of an update lies
further from the middle of the round than four times what is usual is cut off. Honest updates are
hardly ever so far out.

With groups (``group_size`` above 1) it needs no single update: it sees the mean of each group of
clients, formed by secure aggregation, and groups are drawn anew in each round
(:mod:`cloister.federate.rules.groups`). A client's own mark on its group's mean is smaller, so that
it takes more rounds to be found, and what it gave cannot be taken out.

What it tolerates: fewer than half of the clients, if they push elsewhere steadily enough. This is
measured, not proven. An attacker that stays within what chance explains is not found. Clients who
want something else than the majority, or who search for few and unusual things, look like
attackers; where that is to be expected, clients should be divided into groups instead
(:mod:`cloister.federate.clustered`). Names must be hard to come by: whoever takes a new one every
few rounds is never seen long enough.
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
from cloister.federate.rules.behaviour import LEAST_CLIENTS, Behaviour, Finding
from cloister.federate.rules.groups import plan_groups
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule

__all__ = ["Adaptive", "Decision"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_TEST: Final = 2 * N_PARTS  # turns of half a round's clients; then twice as many, and so on
LONGEST: Final = 16 * N_PARTS  # turns that are looked at together
CERTAINTY: Final = 6.0  # standard deviations from chance that it takes to suspend
ON_PROBATION: Final = 4.0  # the same for those who were suspended before
EFFECT: Final = 0.2  # how far apart pushes must be, in usual distances; more after fewer turns
AT_EASE: Final = 1.5  # with no more than that, over a long time, suspended clients are taken back
PATIENCE: Final = 4 * LONGEST  # turns before that is judged; twice as many after each offence
MOST_DOUBLINGS: Final = 20  # of the time that it takes to be taken back
FAR: Final = 4.0  # times the usual distance from the middle of a round
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
        Decides groups, and into which part of the record a turn goes; the server's secret.
    least_effect
        How far apart, in usual distances of single updates, the mean pushes of suspects and others
        must lie. Less finds weaker attackers, and suspends more honest clients who are unusual.

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
        least_effect: float = EFFECT,
    ) -> None:
        super().__init__(n_attackers=n_attackers, beyond=beyond)
        if group_size < 1:
            raise SettingsError(f"at least 1 (given: {group_size})", where="group_size")
        self.certainty = certainty
        self.group_size = group_size
        self.seed = seed
        self.least_effect = least_effect
        self.decisions: list[Decision] = []
        self._slots: dict[int, int] = {}  # the place of each client in what follows
        self._recent = Behaviour(seed=seed)  # by which clients are suspended
        self._lasting = Behaviour(seed=seed + 1)  # by which they are taken back
        self._due = FIRST_TEST
        self._is_suspended = np.zeros(0, np.bool_)
        self._offences = np.zeros(0, np.int64)
        self._usual = np.zeros(0)  # mean square distance from the middle
        self._given = np.zeros((0, 0))  # what of each client went into the model lately

    def __deepcopy__(self, memo: dict[int, object]) -> Adaptive:
        """Return a rule that goes on by itself: whoever tries out a round needs one, and often."""
        twin = copy.copy(self)
        twin.decisions, twin._slots = list(self.decisions), dict(self._slots)
        twin._recent, twin._lasting = self._recent.copy(), self._lasting.copy()
        twin._is_suspended = self._is_suspended.copy()
        twin._offences = self._offences.copy()
        twin._usual = self._usual.copy()
        twin._given = self._given.copy()
        return twin

    @property
    def suspended(self) -> tuple[int, ...]:
        """Clients whose updates are not used now."""
        return self._names(np.flatnonzero(self._is_suspended))

    def _names(self, slots: Ints) -> tuple[int, ...]:
        clients = list(self._slots)
        return tuple(sorted(clients[slot] for slot in slots))

    def most_attackers(self, n: int) -> int:
        """Return the most that are fewer than half: measured, not proven."""
        return (n - 1) // 2

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say that there is always an outcome."""
        return True

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Take the mean of trusted clients, and look at everybody's behaviour."""
        order = np.argsort(received.clients)
        slots = self._slots_of(received.clients[order], received.updates.shape[1])
        seen, used, watched = self._seen(received.updates[order], slots, received.round)
        by_row = np.zeros(received.n, np.bool_)
        by_row[order] = used
        if not used.any():
            return Chosen(np.zeros(seen.shape[1]), by_row)
        bounded, pushes = _bounded(seen, slots, used, self._usual)
        update = mean_of(bounded, used.astype(np.float64), float(used.sum()))
        self._recent.observe(slots[watched], pushes[watched], used[watched])
        if self._is_suspended.any():
            self._lasting.observe(slots[watched], pushes[watched], used[watched])
        if self.group_size == 1:
            self._given[slots[used]] += bounded[used] / used.sum()
        self._take_back(received.round)
        new = self._suspend(received.round, received.n)
        return Chosen(update + self._taken_out(new) if len(new) else update, by_row)

    def _slots_of(self, clients: Ints, n_parameters: int) -> Ints:
        """Return the places of clients, with new ones for those not seen before."""
        for client in clients.tolist():
            self._slots.setdefault(client, len(self._slots))
        missing = len(self._slots) - len(self._offences)
        if missing > 0:
            missing = max(missing, len(self._offences))
            self._is_suspended = np.concatenate((self._is_suspended, np.zeros(missing, np.bool_)))
            self._offences = np.concatenate((self._offences, np.zeros(missing, np.int64)))
            self._usual = np.concatenate((self._usual, np.full(missing, np.nan)))
            room = np.zeros((missing if self.group_size == 1 else 0, n_parameters))
            self._given = np.concatenate((self._given.reshape(-1, n_parameters), room))
        return np.array([self._slots[client] for client in clients.tolist()], np.int64)

    def _seen(
        self, updates: Floats, slots: Ints, round: int
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what the server sees of each client, whose is used, and whose is watched."""
        suspended = self._is_suspended[slots]
        if self.group_size == 1:
            return updates, ~suspended, np.ones(len(slots), np.bool_)
        plan = plan_groups(suspended, self.group_size, stream(self.seed, "groups", round))
        if not plan.used.any():
            return np.zeros_like(updates), plan.used, plan.watched
        return _group_means(updates, plan.group), plan.used, plan.watched

    def _suspend(self, round: int, n_participants: int) -> Ints:
        """Test the trusted clients, where there is enough to judge by; return the newly suspended.

        Never are half of all known clients or more suspended together.
        """
        trusted = np.flatnonzero(~self._is_suspended[: len(self._slots)])
        seen_enough = int((self._recent.turns(trusted) >= self._due).sum())
        if seen_enough < max(LEAST_CLIENTS, n_participants // 2):
            return trusted[:0]
        finding = self._found(trusted)
        held = int(self._is_suspended.sum())
        if held + len(finding.suspects) > (len(self._slots) - 1) // 2:
            finding = Finding(finding.suspects[:0], finding.certainty, False)
        new = finding.suspects
        self._is_suspended[new] = True
        self._offences[new] += 1
        self._lasting.forget(new)
        if len(new) or not finding.is_clear:
            self._tell(round, finding.certainty, new, new[:0], finding.is_clear)
        self._due *= 2
        if self._due > LONGEST:
            self._due = FIRST_TEST
            self._recent.forget()
            if not len(new):
                self._given[:] = 0.0  # what was given so far is no longer looked at
        return new

    def _found(self, trusted: Ints) -> Finding:
        """Test the trusted; it takes less to suspend those who were suspended before."""
        # In the mean of g clients one of them weighs 1/g, and chance is smaller by the root of g.
        effect = self.least_effect * float(np.sqrt(LONGEST / self._due / self.group_size))
        weaker = min(ON_PROBATION, self.certainty)
        finding = self._recent.find(trusted, certainty=weaker, least_effect=effect / 2)
        known = finding.is_clear and bool((self._offences[finding.suspects] > 0).all())
        if known and len(finding.suspects):
            return finding
        return self._recent.find(trusted, certainty=self.certainty, least_effect=effect)

    def _take_back(self, round: int) -> None:
        """Take back who has behaved like the others for long enough, each by its own turns."""
        held = np.flatnonzero(self._is_suspended)
        patience = PATIENCE * 2 ** np.minimum(self._offences[held] - 1, MOST_DOUBLINGS)
        judged = held[self._lasting.turns(held) >= patience]
        if not len(judged):
            return
        steadiness = self._lasting.consistency(judged)
        back = judged[steadiness <= AT_EASE]
        self._is_suspended[back] = False
        self._recent.forget(back)
        self._lasting.forget(judged)
        if len(back):
            self._tell(round, float(steadiness.max()), back[:0], back, True)

    def _tell(
        self, round: int, certainty: float, suspended: Ints, back: Ints, is_clear: bool
    ) -> None:
        names = self._names(suspended), self._names(back)
        self.decisions.append(Decision(round, certainty, *names, is_clear))

    def _taken_out(self, new: Ints) -> Floats:
        """Return the way back to a model without what those now suspended have lately given.

        What the others gave counts for more in their place. Exact where all take part in every
        round, but for what was cut off; sums of groups cannot be taken apart.
        """
        others = np.flatnonzero(~self._is_suspended[: len(self._given)])
        others = others[self._given[others].any(axis=1)]
        if not len(others):
            return np.zeros(self._given.shape[1])
        taken = self._given[new].sum(axis=0)
        grown = self._given[others].sum(axis=0) * len(new) / len(others)
        self._given[others] *= 1.0 + len(new) / len(others)
        self._given[new] = 0.0
        if self._due == FIRST_TEST:
            self._given[:] = 0.0
        return np.asarray(grown - taken)


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
def _bounded(
    updates: Floats, slots: Ints, trusted: NDArray[np.bool_], usual: Floats
) -> tuple[Floats, Floats]:
    """Cut off what lies further from the middle than `FAR` times what is usual.

    The middle is the median of each parameter over trusted rows. What is usual is the median, over
    trusted clients, of each one's own root mean square distance, with a memory of some turns. Also
    returned is how far each row then lies from the middle, in usual distances.
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
        old = usual[slots[i]]
        usual[slots[i]] = square if np.isnan(old) else MEMORY * old + (1.0 - MEMORY) * square
    unit = np.sqrt(np.median(usual[slots[rows]]))
    bounded = updates.copy()
    pushes = np.zeros((n, width))
    for i in range(n):
        if distances[i] > FAR * unit:
            for j in range(width):
                bounded[i, j] = middle[j] + (updates[i, j] - middle[j]) * FAR * unit / distances[i]
        if unit > 0.0:
            for j in range(width):
                pushes[i, j] = (bounded[i, j] - middle[j]) / unit
    return bounded, pushes
