"""One round of local training at many clients: the hot path of every simulation with PDGD.

A client copies the model, issues its queries one after the other, and after each page moves its
copy by what the clicks say. What leaves the client is the difference from where it began.

Clients are worked on in blocks whose number depends on nothing but the number of clients; inside
a block one copy of the model is used again for each. A block adds up its clients' differences in
double precision, and blocks are added in order: the result has the same bits for any number of
threads, and memory does not grow with the number of clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, checked_stream, start_stream
from cloister.core.errors import SettingsError
from cloister.core.kernel import kernel, parallel_kernel
from cloister.data.clicks import StackedTables
from cloister.data.partitions import FlatViews
from cloister.federate.browsing import (
    click_on_page,
    draw_entry,
    grades_of_page,
    record_page,
    score_entry,
)
from cloister.federate.fedprox import pull_back
from cloister.federate.population import Population, PopulationArrays
from cloister.rank.linear import add_linear_gradient
from cloister.rank.mlp import add_mlp_gradient
from cloister.rank.pdgd import PairRule, pair_coefficients
from cloister.rank.plackett_luce import sample_page
from cloister.rank.ranker import RankerShape

__all__ = ["LocalRule", "RoundSums", "train_clients"]

Floats = NDArray[np.float32]

PURPOSE: Final = 0x50444744  # "PDGD": keeps these streams apart from all others
MOST_BLOCKS: Final = 64
_LITTLE_WORK: Final = 1e6  # multiplications: about a tenth of a millisecond
_LANES: Final = 16  # room for documents is a multiple: loops fill whole vector registers


class LocalRule(NamedTuple):
    """How a client trains, as kernels take it.

    Parameters
    ----------
    learning_rate, decay
        Of a client's interactions, counted over rounds.
    proximal
        FedProx's mu: the pull back to where the round began; 0 for none.
    clip_norm
        The longest parameter vector that leaves a client, in Euclidean length; 0 for any.
    one_step
        Whether all of a round's gradients are taken where it began, and added (batch PDGD).
    """

    learning_rate: float
    decay: float
    proximal: float
    clip_norm: float
    one_step: bool


class RoundSums(NamedTuple):
    """What the clients of one round add up to, for each model that clients started from.

    Parameters
    ----------
    differences
        Sums of the clients' differences, each times its number of interactions; models x
        parameters.
    n_interactions
        By model.
    ndcg, max_rr, clicks
        Sums over all interactions.
    """

    differences: NDArray[np.float64]
    n_interactions: NDArray[np.float64]
    ndcg: float
    max_rr: float
    clicks: float


class _Room(NamedTuple):
    """Room to work in: for all blocks (with a first axis more), or for one.

    It is made outside the parallel loop: arrays that are made inside count their references, and
    each use of one would be an atomic operation.
    """

    local: Floats
    difference: Floats
    origin: Floats
    before: Floats
    scaled: Floats
    scores: Floats
    keys: Floats
    page: NDArray[np.int64]
    order: NDArray[np.int64]
    labels: NDArray[np.int8]
    clicked: NDArray[np.bool_]
    masses: NDArray[np.float64]
    coefficients: Floats
    hidden: Floats
    slopes: Floats
    stream: NDArray[np.uint32]


def _new_rooms(
    n_blocks: int, n_parameters: int, population: Population, shape: RankerShape
) -> _Room:
    width = max(n_parameters, population.arrays.features.shape[1])
    documents = -(-population.most_documents // _LANES) * _LANES
    shown, n_hidden = population.page_length, shape.n_hidden
    return _Room(
        np.zeros((n_blocks, width), np.float32),
        np.zeros((n_blocks, width), np.float32),
        np.empty((n_blocks, n_parameters), np.float32),
        np.empty((n_blocks, n_parameters), np.float32),
        np.zeros((n_blocks, width), np.float32),
        np.empty((n_blocks, documents), np.float32),
        np.empty((n_blocks, documents), np.float32),
        np.empty((n_blocks, shown), np.int64),
        np.empty((n_blocks, documents), np.int64),
        np.empty((n_blocks, shown), np.int8),
        np.empty((n_blocks, shown), np.bool_),
        np.empty((n_blocks, 2, shown + 1), np.float64),
        np.empty((n_blocks, shown), np.float32),
        np.empty((n_blocks, documents if n_hidden else 0, n_hidden), np.float32),
        np.empty((n_blocks, shown, n_hidden), np.float32),
        np.empty((n_blocks, STREAM_WORDS), np.uint32),
    )


@kernel
def _room_of(rooms: _Room, block: int) -> _Room:
    return _Room(
        rooms.local[block],
        rooms.difference[block],
        rooms.origin[block],
        rooms.before[block],
        rooms.scaled[block],
        rooms.scores[block],
        rooms.keys[block],
        rooms.page[block],
        rooms.order[block],
        rooms.labels[block],
        rooms.clicked[block],
        rooms.masses[block],
        rooms.coefficients[block],
        rooms.hidden[block],
        rooms.slopes[block],
        rooms.stream[block],
    )


@kernel
def _interact(
    arrays: PopulationArrays,
    client: int,
    parameters: Floats,
    shape: RankerShape,
    rule: PairRule,
    room: _Room,
    online: NDArray[np.float64],
) -> tuple[int, int]:
    """Let a client search and click once; leave the page's weights in ``room.coefficients``.

    Returns
    -------
    tuple
        The place of the query's first document, and how many documents of the page have a weight.
    """
    views = arrays.views
    entry = draw_entry(views, client, room.stream)
    first = views.starts[entry]
    n = views.stops[entry] - first
    weights = _in_units_of(arrays.units, parameters, room.scaled)
    score_entry(arrays, shape, weights, first, n, room.hidden, room.scores)
    shown = sample_page(room.scores, n, room.stream, room.keys, room.page, room.order)
    grades_of_page(views, client, first, room.page, shown, room.labels)
    last = click_on_page(arrays, client, room.labels, shown, room.stream, room.clicked)
    ideal = arrays.ideals[views.label_set[client], entry]
    record_page(room.labels, shown, ideal, room.clicked, last, online)
    if last < 0:
        return first, 0
    considered = pair_coefficients(
        room.scores,
        n,
        room.page[:shown],
        room.clicked,
        last,
        rule,
        room.keys,
        room.masses,
        room.coefficients,
    )
    return first, considered


@kernel
def _in_units_of(units: Floats, weights: Floats, scaled: Floats) -> Floats:
    """Return weights for features that are stored as multiples of a unit; none means of 1."""
    if len(units) == 0:
        return weights
    for i in range(len(units)):
        scaled[i] = weights[i] * units[i]
    return scaled


@kernel
def _train_client(
    arrays: PopulationArrays,
    client: int,
    n_steps: int,
    steps_before: int,
    origin: Floats,
    shape: RankerShape,
    pairs: PairRule,
    rule: LocalRule,
    room: _Room,
    online: NDArray[np.float64],
) -> None:
    """Find the difference that a client's interactions make to ``origin``.

    ``room.local`` is the client's copy, equal to ``origin`` when this begins. With ``one_step`` it
    stays so, and gradients are added to ``room.difference`` alone.
    """
    local, difference, before = room.local, room.difference, room.before
    if rule.one_step:
        for i in range(len(origin)):
            difference[i] = np.float32(0.0)
    rate = rule.learning_rate * rule.decay**steps_before
    for _ in range(n_steps):
        first, considered = _interact(arrays, client, local, shape, pairs, room, online)
        if rule.proximal > 0.0:
            for i in range(len(origin)):
                before[i] = local[i]
        page = room.page[:considered]
        coefficients = room.coefficients[:considered]
        for p in range(considered):
            coefficients[p] *= np.float32(rate)
        target = difference if rule.one_step else local
        _add_gradient(target, local, arrays, shape, first, page, coefficients, room)
        if rule.proximal > 0.0:
            pull_back(local, before, origin, np.float32(rate * rule.proximal))
        rate *= rule.decay
    if not rule.one_step:
        scale = _clipping(local[: len(origin)], rule.clip_norm)
        for i in range(len(origin)):
            difference[i] = local[i] * scale - origin[i]


@kernel
def _clipping(parameters: Floats, clip_norm: float) -> np.float32:
    """Return what to multiply parameters by so that they are no longer than ``clip_norm``."""
    if clip_norm <= 0.0:
        return np.float32(1.0)
    square = 0.0
    for value in parameters:
        square += np.float64(value) * np.float64(value)
    return np.float32(min(1.0, clip_norm / max(np.sqrt(square), 1e-300)))


@kernel
def _add_gradient(
    target: Floats,
    parameters: Floats,
    arrays: PopulationArrays,
    shape: RankerShape,
    first: int,
    page: NDArray[np.int64],
    coefficients: Floats,
    room: _Room,
) -> None:
    rows = arrays.views.rows
    if shape.n_hidden == 0:
        add_linear_gradient(target, arrays.features, arrays.units, rows, first, page, coefficients)
    else:
        add_mlp_gradient(
            target,
            parameters,
            shape.n_features,
            shape.n_hidden,
            shape.activation,
            arrays.features,
            rows,
            first,
            page,
            coefficients,
            room.hidden,
            room.slopes,
        )


@parallel_kernel
def _train_blocks(
    features: NDArray[Any],
    units: Floats,
    views: FlatViews,
    clicks: StackedTables,
    ideals: NDArray[np.float64],
    participants: NDArray[np.int64],
    queries_per_round: int,
    models: Floats,
    model_of_client: NDArray[np.int32],
    private: Floats,
    shape: RankerShape,
    pairs: PairRule,
    rule: LocalRule,
    seed: np.uint64,
    round: int,
    rooms: _Room,
    differences: NDArray[np.float64],
    online: NDArray[np.float64],
    updates: Floats,
) -> None:
    """Work on blocks in parallel; a loop that numba divides cannot take tuples of tuples."""
    n_blocks = len(differences)
    n = len(participants)
    for block in numba.prange(n_blocks):
        _train_block(
            PopulationArrays(features, units, views, clicks, ideals),
            participants,
            block * n // n_blocks,
            (block + 1) * n // n_blocks,
            queries_per_round,
            models,
            model_of_client,
            private,
            shape,
            pairs,
            rule,
            seed,
            round,
            _room_of(rooms, block),
            differences[block],
            online[block],
            updates,
        )


@kernel
def _train_block(
    arrays: PopulationArrays,
    participants: NDArray[np.int64],
    start: int,
    stop: int,
    queries_per_round: int,
    models: Floats,
    model_of_client: NDArray[np.int32],
    private: Floats,
    shape: RankerShape,
    pairs: PairRule,
    rule: LocalRule,
    seed: np.uint64,
    round: int,
    room: _Room,
    differences: NDArray[np.float64],
    online: NDArray[np.float64],
    updates: Floats,
) -> None:
    """Train the participants ``start`` to ``stop``, one after the other, in the same room."""
    n_parameters = models.shape[1]
    shared = n_parameters - private.shape[1]
    origin = room.origin
    for index in range(start, stop):
        client = participants[index]
        model = model_of_client[client] if len(model_of_client) else 0
        for i in range(n_parameters):
            origin[i] = models[model, i] if i < shared else private[client, i - shared]
            room.local[i] = origin[i]
        own = arrays.views.queries_per_round[client]
        n_steps = own if own > 0 else queries_per_round
        start_stream(room.stream, seed, round, client, PURPOSE)
        _train_client(
            arrays, client, n_steps, n_steps * round, origin, shape, pairs, rule, room, online
        )
        difference = room.difference
        total = differences[model]
        for i in range(shared):
            total[i] += n_steps * np.float64(difference[i])
        for i in range(shared, n_parameters):
            private[client, i - shared] = origin[i] + difference[i]
        online[3 + model] += n_steps
        if len(updates):
            for i in range(n_parameters):
                updates[index, i] = difference[i]


def train_clients(
    population: Population,
    participants: NDArray[np.int64],
    models: Floats,
    shape: RankerShape,
    pairs: PairRule,
    rule: LocalRule,
    *,
    queries_per_round: int,
    seed: int,
    round: int,
    model_of_client: NDArray[np.int32] | None = None,
    private: Floats | None = None,
    updates: Floats | None = None,
) -> RoundSums:
    """Let the participants train once, all from the same round's models.

    Parameters
    ----------
    population
        The clients.
    participants
        Numbers of those who take part.
    models
        Where clients begin; models x parameters.
    shape
        The ranker's make-up.
    pairs
        How pairs are read off a page.
    rule
        How a client trains.
    queries_per_round
        Interactions of a client that has no number of its own.
    seed, round
        Decide all that is drawn at random, with the client's number.
    model_of_client
        Which model each client begins from; the first unless given.
    private
        Clients x the last so many parameters, which never leave the client (FedPer). Read, and
        overwritten with what each participant learnt.
    updates
        Participants x parameters: receives each one's difference, where a rule needs them apart.
    """
    key, number, _, _ = checked_stream(seed, round=round)
    if population.precision == "half" and shape.n_hidden:
        raise SettingsError("half precision is for linear rankers", where="precision")
    n_models, n_parameters = models.shape
    n_blocks = min(len(participants), MOST_BLOCKS)
    differences = np.zeros((n_blocks, n_models, n_parameters))
    online = np.zeros((n_blocks, 3 + n_models))
    with _few_threads_for_little_work(population, participants, queries_per_round, shape):
        _train_blocks(
            *population.arrays,
            participants,
            queries_per_round,
            models,
            np.empty(0, np.int32) if model_of_client is None else model_of_client,
            np.empty((population.n_clients, 0), np.float32) if private is None else private,
            shape,
            pairs,
            rule,
            key,
            number,
            _new_rooms(n_blocks, n_parameters, population, shape),
            differences,
            online,
            np.empty((0, n_parameters), np.float32) if updates is None else updates,
        )
    sums = online.sum(axis=0)
    return RoundSums(
        differences.sum(axis=0), sums[3:], float(sums[0]), float(sums[1]), float(sums[2])
    )


@contextmanager
def _few_threads_for_little_work(
    population: Population, participants: NDArray[np.int64], queries: int, shape: RankerShape
) -> Iterator[None]:
    """Use one thread where waking the others would take longer than the work."""
    documents = population.data.n_rows / max(1, population.data.n_queries)
    multiplications = documents * shape.n_features * max(1, shape.n_hidden)
    before = numba.get_num_threads()
    if len(participants) * queries * multiplications < _LITTLE_WORK:
        numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)
