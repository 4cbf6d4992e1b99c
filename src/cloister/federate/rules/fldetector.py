"""FLDetector: clients whose updates do not follow from their last ones (Zhang et al., KDD 2022).

Each client's update is predicted from its last one and from how the model moved since, with an
L-BFGS estimate of the Hessian along the model's path. Whose updates keep missing their predictions
is suspicious. Where scores fall into two clusters, the worse one has no part in the round.

What differs from the paper: updates stand for gradients (an update is a step against one, so the
sign of a change is turned); a client that was away is predicted along the whole way since it was
last seen, and its window counts its own turns; clients are judged anew in every round, and come
back when their scores do, where the paper removes them for good and trains again from the
beginning; a cluster that holds half of the judged clients or more is not left out.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.federate.rules.arrival import mean_of
from cloister.federate.rules.gap_statistic import gap_to_one_cluster, two_means
from cloister.federate.rules.lbfgs import hessian_times
from cloister.federate.rules.norm_bounding import lengths
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule

__all__ = ["FLDetector"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MIN_JUDGED: Final = 4  # of fewer scores none is called an outlier
_LEAST_COSINE: Final = 1e-8  # a step and a change nearer to a right angle tell of no curvature


class FLDetector(Rule):
    """The mean of the updates of clients that are not suspicious.

    It tolerates no attacker by proof. Nobody is judged before a window of own turns has passed; an
    attacker whose updates are as steady as honest ones is not seen; where honest updates vary much
    from round to round, as they do after a few clicks, only gross attacks stand out.

    The memory is two vectors and a window of scores for each client ever seen. One object serves
    one training, in which the model moves by what it returns.

    Parameters
    ----------
    n_attackers, beyond
        As for every rule. Since none is borne by proof, the rule works with attackers expected only
        where beyond is ``mark``.
    window
        Over how many of its last turns a client's score is averaged, and how many steps of the
        model the Hessian is estimated from.
    caution
        By how many standard errors of the gap statistic two clusters must be the better
        explanation. The paper's rule is 1.

    Examples
    --------
    >>> rule = FLDetector(window=3)
    >>> for round in range(5):
    ...     updates = [[1.0], [1.0], [1.1], [0.9], [30.0 * (-1) ** round]]
    ...     outcome = rule.aggregate(updates, clients=range(5), round=round)
    >>> outcome.used, outcome.update.round(6)
    (array([ True,  True,  True,  True, False]), array([1.]))
    """

    name = "fldetector"

    def __init__(
        self,
        *,
        n_attackers: int = 0,
        beyond: Beyond = "refuse",
        window: int = 10,
        caution: float = 1.0,
    ) -> None:
        super().__init__(n_attackers=n_attackers, beyond=beyond)
        if window < 1:
            raise SettingsError(f"at least 1 (given: {window})", where="window")
        self.window = window
        self.caution = caution
        self._slot: dict[int, int] = {}
        self._memory: _Memory | None = None

    def most_attackers(self, n: int) -> int:
        """Return 0: what is found is found by statistics, not by proof."""
        return 0

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say that clients can always be compared with their past."""
        return True

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Leave suspicious clients out, and average the others."""
        if self._memory is None:
            self._memory = _Memory(received.updates.shape[1], self.window)
        memory = self._memory
        slots = self._slots(received.clients)
        memory.hold(len(self._slot))
        memory.score(slots, received.updates)
        used = ~self._suspicious(*memory.judged(slots))
        update = mean_of(received.updates, used.astype(np.float64), float(used.sum()))
        memory.learn(slots, received.updates, update)
        return Chosen(update, used)

    def _slots(self, clients: Ints) -> Ints:
        """Return where each client's memory lies."""
        slot = self._slot
        return np.array([slot.setdefault(client, len(slot)) for client in clients.tolist()])

    def _suspicious(self, judged: Flags, scores: Floats) -> Flags:
        suspicious = np.zeros(len(judged), np.bool_)
        n = len(scores)
        if n >= MIN_JUDGED:
            split = two_means(scores)
            apart = gap_to_one_cluster(n, split.log_ratio) > self.caution
            if apart and 2 * split.upper.sum() < n:
                suspicious[judged] = split.upper
        return suspicious


class _Memory:
    """What is known of clients and of the model's path.

    Parameters
    ----------
    n_parameters
        Length of an update.
    window
        As for FLDetector.
    """

    def __init__(self, n_parameters: int, window: int) -> None:
        self.position = np.zeros(n_parameters)  # of the model, from where it began
        self.turn = 0
        self.last_move: Floats | None = None
        self.pairs: deque[tuple[Floats, Floats]] = deque(maxlen=window)
        self.updates = np.zeros((0, n_parameters))  # of each client, its last
        self.positions = np.zeros((0, n_parameters))  # of the model then
        self.turns = np.zeros(0, np.int64)  # when that was; -1 for never
        self.shares = np.zeros((0, window))  # of the round's errors, in a ring
        self.n_shares = np.zeros(0, np.int64)

    def hold(self, n_clients: int) -> None:
        """Make room for so many clients."""
        room = len(self.turns)
        if n_clients > room:
            more = max(n_clients, 2 * room) - room
            self.updates = np.pad(self.updates, ((0, more), (0, 0)))
            self.positions = np.pad(self.positions, ((0, more), (0, 0)))
            self.shares = np.pad(self.shares, ((0, more), (0, 0)))
            self.turns = np.pad(self.turns, (0, more), constant_values=-1)
            self.n_shares = np.pad(self.n_shares, (0, more))

    def score(self, slots: Ints, updates: Floats) -> None:
        """Note how far each known client's update is from its prediction, beside the others."""
        known = self.turns[slots] >= 0
        if not known.any():
            return
        at = slots[known]
        errors = lengths(self._predicted(at) - updates[known])
        mean = errors.mean()
        self.shares[at, self.n_shares[at] % self.shares.shape[1]] = (
            errors / mean if mean > 0 else 1.0
        )
        self.n_shares[at] += 1

    def _predicted(self, slots: Ints) -> Floats:
        """Return the last updates, moved by what the way since changes in a slope.

        Clients last seen in the same round share that way.
        """
        _, first, way = np.unique(self.turns[slots], return_index=True, return_inverse=True)
        steps = np.array([step for step, _ in self.pairs]).reshape(-1, len(self.position))
        changes = np.array([change for _, change in self.pairs]).reshape(steps.shape)
        changed = hessian_times(steps, changes, self.position - self.positions[slots[first]])
        predicted: Floats = self.updates[slots] - changed[way]
        return predicted

    def judged(self, slots: Ints) -> tuple[Flags, Floats]:
        """Return whose window is full, and their scores: the mean of its shares."""
        window = self.shares.shape[1]
        judged = self.n_shares[slots] >= window
        return judged, self.shares[slots[judged]].sum(axis=1) / window

    def learn(self, slots: Ints, updates: Floats, move: Floats) -> None:
        """Remember what clients sent, and by what the model moves."""
        self.updates[slots] = updates
        self.positions[slots] = self.position
        self.turns[slots] = self.turn
        if self.last_move is not None:
            step, change = self.last_move, self.last_move - move
            product = step @ change
            if product > _LEAST_COSINE * np.sqrt(step @ step) * np.sqrt(change @ change):
                self.pairs.append((step, change))
        self.last_move = move
        self.position = self.position + move
        self.turn += 1
