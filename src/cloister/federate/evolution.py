"""FOLtR-ES: federated online learning to rank with evolution strategies (thesis section 3.1).

In a round each participant perturbs the model, shows its users pages ranked by the perturbed
model, and sends the seed and the mean of the privatised rewards; the server adds up and lets Adam
take a step. :mod:`cloister.rank.evolution_strategies` has the arithmetic, and says what the
messages protect and what they do not.

Clients are worked on in blocks whose number depends on nothing but the number of participants. A
block adds up what its clients contribute in double precision, as the server would from their
seeds, and blocks are added in order: the result has the same bits for any number of threads, and
memory does not grow with the number of clients.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, checked_stream, draw_below, start_stream
from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel, parallel_kernel
from cloister.core.random import whole_number
from cloister.data.clicks import StackedTables
from cloister.data.partitions import FlatViews
from cloister.federate.browsing import (
    click_on_page,
    draw_entry,
    grades_of_page,
    record_page,
    score_entry,
)
from cloister.federate.learner import ClientRankers, RoundOutcome
from cloister.federate.participation import draw_participants
from cloister.federate.population import Population, PopulationArrays
from cloister.rank.evolution_strategies import (
    AdamState,
    EvolutionEpsilon,
    EvolutionSettings,
    adam_step,
    evolution_epsilon,
    fill_perturbation,
    randomised_response,
    reward_signal,
    stochastic_level,
)
from cloister.rank.plackett_luce import top_places
from cloister.rank.ranker import Ranker, RankerShape

__all__ = ["EvolutionStrategies"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

INTERACTION_PURPOSE: Final = 0x4553494E  # "ESIN": apart from the perturbations' and all others
MOST_BLOCKS: Final = 128


class EvolutionStrategies:
    """Federated training by evolution strategies, as a :class:`~cloister.federate.learner.Learner`.

    Parameters
    ----------
    population
        The clients.
    ranker
        Where training begins. The public code begins with zeros, for a neural ranker too: a
        perturbation then decides the ranking, while it hardly moves random weights far larger
        than sigma.
    settings
        How it learns, and how rewards are privatised.
    queries_per_round
        Interactions of a client that has no number of its own; 4 in the thesis.
    seed
        With the round and the client's number it decides all that is drawn at random.
    participants
        How many clients, drawn anew each round, take part; all of them unless given.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=8&documents=5&features=4").train
    >>> learner = EvolutionStrategies(
    ...     population=Population(iid(train, 100), click_model("perfect", 5)),
    ...     ranker=Ranker.initial(RankerSettings(n_features=4)),
    ...     settings=EvolutionSettings(keep_probability=0.9),
    ... )
    >>> learner.step().n_interactions, learner.n_rounds, round(learner.epsilon().per_message, 1)
    (400, 1, 18.0)
    """

    def __init__(
        self,
        *,
        population: Population,
        ranker: Ranker,
        settings: EvolutionSettings | None = None,
        queries_per_round: int = 4,
        seed: int = 0,
        participants: int | None = None,
    ) -> None:
        self.population = population
        self.settings = settings or EvolutionSettings()
        self.queries_per_round = _at_least_one(queries_per_round, "queries_per_round")
        if participants is not None:
            participants = _at_least_one(participants, "participants")
        self.participants = participants
        self.seed = int(checked_stream(seed)[0])
        self._ranker = ranker
        self._adam = AdamState.initial(ranker.settings.n_parameters)
        self._values = self.settings.reward_values(population.page_length)
        self._check()

    def _check(self) -> None:
        n_features = self.population.n_features
        if self._ranker.settings.n_features != n_features:
            raise SettingsError(
                f"the ranker reads {self._ranker.settings.n_features} features, the data has "
                f"{n_features}",
                where="ranker",
            )
        if not np.isfinite(self._ranker.parameters).all():
            raise DataError("a parameter is not finite", where="ranker")
        if self._ranker.settings.kind != "linear" and self.population.precision != "single":
            raise SettingsError(
                "only linear rankers read features in half precision",
                where="ranker",
                remedy='use Population(..., precision="single")',
            )
        self._draw()  # refuses a wrong number of participants before the first round

    @property
    def n_rounds(self) -> int:
        """Rounds done so far."""
        return self._adam.n_steps

    @property
    def ranker(self) -> Ranker:
        """The server's ranker, without a perturbation."""
        return self._ranker

    def client_rankers(self) -> ClientRankers:
        """Return the ranker of every client: all use the server's."""
        return ClientRankers((self._ranker,), np.zeros(self.population.n_clients, np.int64))

    def epsilon(self) -> EvolutionEpsilon:
        """Return the true cost so far of the client that searches most, if it missed no round.

        It is infinite where rewards are sent as they are.
        """
        most = int(self.population.n_interactions(self.queries_per_round).max())
        return evolution_epsilon(
            self.settings.keep_probability,
            len(self._values),
            n_interactions=most,
            n_messages=self.n_rounds,
        )

    def step(self) -> RoundOutcome:
        """Train for one round."""
        sums, online = self._round(self._draw())
        ndcg, max_rr, clicks, n = online.tolist()
        # eq. 3.4: the mean of reward * (theta - phi) / sigma^2, and theta - phi is sigma * normal
        gradient = sums / (self.settings.sigma * n)
        self._adam, change = adam_step(self._adam, gradient, self.settings)
        self._ranker = self._ranker.with_parameters(self._ranker.parameters + change)
        return RoundOutcome(int(n), ndcg / n, max_rr / n, clicks / n)

    def _draw(self) -> Places:
        """Return who takes part in the next round."""
        return draw_participants(
            self.population.n_clients, self.participants, seed=self.seed, round=self.n_rounds
        )

    def _round(self, participants: Places) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the participants' perturbations add up to, and the online sums."""
        settings, parameters = self.settings, self._ranker.parameters
        key, number, _, _ = checked_stream(self.seed, round=self.n_rounds)
        n_blocks = min(len(participants), MOST_BLOCKS)
        sums = np.zeros((n_blocks, len(parameters)))
        online = np.zeros((n_blocks, 4))
        _run_blocks(
            *self.population.arrays,
            participants,
            self.queries_per_round,
            parameters,
            self._ranker.settings.shape,
            _Rule(
                np.float32(settings.sigma),
                settings.antithetic,
                settings.reward == "ndcg",
                settings.keep_probability,
            ),
            self._values,
            self.population.page_length,
            self.population.most_documents,
            key,
            number,
            sums,
            online,
        )
        return sums.sum(axis=0), online.sum(axis=0)


def _at_least_one(value: int, where: str) -> int:
    number = whole_number(value, where=where)
    if number < 1:
        raise SettingsError(f"must be at least 1 (given: {number})", where=where)
    return number


class _Rule(NamedTuple):
    """How clients work, as kernels take it."""

    sigma: np.float32
    antithetic: bool
    by_ndcg: bool
    keep_probability: float


class _Room(NamedTuple):
    """Room to work in, for one block of clients."""

    normals: Floats
    model: Floats
    scores: Floats
    page: Places
    order: Places
    labels: NDArray[np.int8]
    clicked: NDArray[np.bool_]
    hidden: Floats
    stream: NDArray[np.uint32]


@kernel
def _new_room(
    n_parameters: int, width: int, most_documents: int, page_length: int, n_hidden: int
) -> _Room:
    return _Room(
        np.empty(n_parameters, np.float32),
        np.zeros(max(n_parameters, width), np.float32),  # padded as features are
        np.empty(most_documents, np.float32),
        np.empty(page_length, np.int64),
        np.empty(most_documents, np.int64),
        np.empty(page_length, np.int8),
        np.empty(page_length, np.bool_),
        np.empty((most_documents if n_hidden else 0, n_hidden), np.float32),
        np.empty(STREAM_WORDS, np.uint32),
    )


@parallel_kernel
def _run_blocks(
    features: NDArray[Any],
    units: Floats,
    views: FlatViews,
    clicks: StackedTables,
    ideals: NDArray[np.float64],
    participants: Places,
    queries_per_round: int,
    parameters: Floats,
    shape: RankerShape,
    rule: _Rule,
    values: NDArray[np.float64],
    page_length: int,
    most_documents: int,
    seed: np.uint64,
    round: int,
    sums: NDArray[np.float64],
    online: NDArray[np.float64],
) -> None:
    """Work on blocks in parallel; a loop that numba divides cannot take tuples of tuples."""
    n_blocks = len(sums)
    n = len(participants)
    for block in numba.prange(n_blocks):
        _run_block(
            PopulationArrays(features, units, views, clicks, ideals),
            participants[block * n // n_blocks : (block + 1) * n // n_blocks],
            queries_per_round,
            parameters,
            shape,
            rule,
            values,
            _new_room(
                len(parameters), features.shape[1], most_documents, page_length, shape.n_hidden
            ),
            seed,
            round,
            sums[block],
            online[block],
        )


@kernel
def _run_block(
    arrays: PopulationArrays,
    participants: Places,
    queries_per_round: int,
    parameters: Floats,
    shape: RankerShape,
    rule: _Rule,
    values: NDArray[np.float64],
    room: _Room,
    seed: np.uint64,
    round: int,
    sums: NDArray[np.float64],
    online: NDArray[np.float64],
) -> None:
    """Add up each client's perturbation times its reward signal and number of interactions."""
    normals = room.normals
    for client in participants:
        own = arrays.views.queries_per_round[client]
        n = own if own > 0 else queries_per_round
        n_plus = (n + 1) // 2 if rule.antithetic else n
        fill_perturbation(normals, seed, round, client, room.stream)
        start_stream(room.stream, seed, round, client, INTERACTION_PURPOSE)
        plus, minus = 0.0, 0.0
        _perturb(parameters, normals, rule.sigma, arrays.units, room.model)
        for _ in range(n_plus):
            plus += _interact(arrays, client, shape, rule, values, room, online)
        if n > n_plus:
            _perturb(parameters, normals, -rule.sigma, arrays.units, room.model)
        for _ in range(n - n_plus):
            minus += _interact(arrays, client, shape, rule, values, room, online)
        online[3] += n
        weight = n * reward_signal(plus, n_plus, minus, n - n_plus)
        if weight != 0.0:
            for i in range(len(normals)):
                sums[i] += weight * np.float64(normals[i])


@kernel
def _perturb(
    parameters: Floats, normals: Floats, sigma: np.float32, units: Floats, model: Floats
) -> None:
    """Write the perturbed model, for features that are stored as multiples of units, if any."""
    for i in range(len(parameters)):
        model[i] = parameters[i] + sigma * normals[i]
    if len(units):
        for i in range(len(parameters)):
            model[i] *= units[i]


@kernel
def _interact(
    arrays: PopulationArrays,
    client: int,
    shape: RankerShape,
    rule: _Rule,
    values: NDArray[np.float64],
    room: _Room,
    online: NDArray[np.float64],
) -> float:
    """Let a client search once with ``room.model`` and click; return the privatised reward."""
    views = arrays.views
    entry = draw_entry(views, client, room.stream)
    first = views.starts[entry]
    n = views.stops[entry] - first
    score_entry(arrays, shape, room.model, first, n, room.hidden, room.scores)
    shown = top_places(room.scores, n, room.page, room.order)
    _shuffle_ties(room.scores, n, room.page, shown, room.stream, room.order)
    grades_of_page(views, client, first, room.page, shown, room.labels)
    last = click_on_page(arrays, client, room.labels, shown, room.stream, room.clicked)
    ideal = arrays.ideals[views.label_set[client], entry]
    ndcg, rank = record_page(room.labels, shown, ideal, room.clicked, last, online)
    return _reward(ndcg, rank, rule, values, room.stream)


@kernel
def _reward(
    ndcg: float, rank: int, rule: _Rule, values: NDArray[np.float64], stream: NDArray[np.uint32]
) -> float:
    """Return an interaction's reward; one that is kept for certain is not rounded either."""
    if rule.keep_probability >= 1.0:
        return ndcg if rule.by_ndcg else float(values[rank])
    value = stochastic_level(ndcg, len(values), stream) if rule.by_ndcg else rank
    return float(values[randomised_response(value, len(values), rule.keep_probability, stream)])


@kernel
def _shuffle_ties(
    keys: Floats, n: int, page: Places, shown: int, stream: NDArray[np.uint32], room: Places
) -> None:
    """Put documents with equal keys in random order; nothing is drawn where none are equal.

    ``page`` holds the places of the ``shown`` highest of ``n`` keys, highest first. Candidates
    beyond the page whose keys equal the last one's compete for its places too.
    """
    p = 0
    while p < shown:
        key = keys[page[p]]
        q = p + 1
        while q < shown and keys[page[q]] == key:
            q += 1
        n_equal = q - p
        if q == shown:
            n_equal = 0
            for i in range(n):
                n_equal += keys[i] == key
        if n_equal > 1:
            found = 0
            for i in range(n):
                if keys[i] == key:
                    room[found] = i
                    found += 1
            for place in range(q - p):
                other = place + draw_below(stream, n_equal - place)
                page[p + place] = room[other]
                room[other] = room[place]
        p = q
