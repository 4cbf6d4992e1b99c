"""One round of local training at many clients: the kernels.

:mod:`cloister.federate.local_training` says what they do, and calls them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, start_stream
from cloister.core.kernel import inline_kernel, kernel, parallel_kernel
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

__all__ = ["PURPOSE", "LocalRule", "Room", "new_rooms", "train_blocks"]

Floats = NDArray[np.float32]

PURPOSE: Final = 0x50444744  # "PDGD": keeps these streams apart from all others
_SHY: Final = 1 - 1e-6  # single precision may round each number up: a length stays below its bound
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
    parts_by_query
        Whether what a client learns is kept apart by part of its queries, or of the rounds; only
        where it is kept apart at all.
    one_step
        Whether all of a round's gradients are taken where it began, and added (batch PDGD).
    clip_update
        The longest difference that leaves a client, in Euclidean length; 0 for any.
    equal_weights
        Whether each client's difference counts once, whatever its number of interactions.
    """

    learning_rate: float
    decay: float
    proximal: float
    clip_norm: float
    one_step: bool
    parts_by_query: bool = True
    clip_update: float = 0.0
    equal_weights: bool = False


class Room(NamedTuple):
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


def new_rooms(n_blocks: int, n_parameters: int, population: Population, shape: RankerShape) -> Room:
    """Make room for so many blocks."""
    width = max(n_parameters, population.arrays.features.shape[1])
    documents = -(-population.most_documents // _LANES) * _LANES
    shown, n_hidden = population.page_length, shape.n_hidden
    return Room(
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
def _room_of(rooms: Room, block: int) -> Room:
    return Room(
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
    entry: int,
    parameters: Floats,
    shape: RankerShape,
    rule: PairRule,
    room: Room,
    online: NDArray[np.float64],
) -> tuple[int, int]:
    """Let a client search and click once; leave the page's weights in ``room.coefficients``.

    Returns
    -------
    tuple
        The place of the query's first document, and how many documents of the page have a weight.
    """
    views = arrays.views
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
    round: int,
    origin: Floats,
    shape: RankerShape,
    pairs: PairRule,
    rule: LocalRule,
    room: Room,
    online: NDArray[np.float64],
    parts: Floats,
) -> None:
    """Find the difference that a client's interactions make to ``origin``.

    ``room.local`` is the client's copy, equal to ``origin`` when this begins. With ``one_step`` it
    stays so, and gradients are added to ``room.difference`` alone.
    """
    local, difference, before = room.local, room.difference, room.before
    if rule.one_step:
        for i in range(len(origin)):
            difference[i] = np.float32(0.0)
    rate = rule.learning_rate * rule.decay ** (n_steps * round)
    for _ in range(n_steps):
        entry = draw_entry(arrays.views, client, room.stream)
        first, considered = _interact(arrays, client, entry, local, shape, pairs, room, online)
        if rule.proximal > 0.0:
            for i in range(len(origin)):
                before[i] = local[i]
        page = room.page[:considered]
        coefficients = room.coefficients[:considered]
        for p in range(considered):
            coefficients[p] *= np.float32(rate)
        if len(parts):
            number = entry - arrays.views.holding_bounds[arrays.views.holding[client]]
            if not rule.parts_by_query:
                number = round
            part = parts[client, number % parts.shape[1]]
            _add_gradient(part, local, arrays, shape, first, page, coefficients, room)
        target = difference if rule.one_step else local
        _add_gradient(target, local, arrays, shape, first, page, coefficients, room)
        if rule.proximal > 0.0:
            pull_back(local, before, origin, np.float32(rate * rule.proximal))
        rate *= rule.decay
    if not rule.one_step:
        scale = _clipping(local[: len(origin)], rule.clip_norm)
        for i in range(len(origin)):
            difference[i] = local[i] * scale - origin[i]
    if rule.clip_update > 0.0:
        scale = _clipping(difference[: len(origin)], rule.clip_update * _SHY)
        for i in range(len(origin)):
            # A length that is no number leaves nothing: one client cannot spoil a private sum.
            difference[i] = difference[i] * scale if scale > 0.0 else np.float32(0.0)


@kernel
def _clipping(parameters: Floats, clip_norm: float) -> np.float32:
    """Return what to multiply parameters by so that they are no longer than ``clip_norm``."""
    if clip_norm <= 0.0:
        return np.float32(1.0)
    square = 0.0
    for value in parameters:
        square += np.float64(value) * np.float64(value)
    return np.float32(min(1.0, clip_norm / max(np.sqrt(square), 1e-300)))


@inline_kernel
def _add_gradient(
    target: Floats,
    parameters: Floats,
    arrays: PopulationArrays,
    shape: RankerShape,
    first: int,
    page: NDArray[np.int64],
    coefficients: Floats,
    room: Room,
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
def train_blocks(
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
    rooms: Room,
    differences: NDArray[np.float64],
    online: NDArray[np.float64],
    updates: Floats,
    parts: Floats,
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
            parts,
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
    room: Room,
    differences: NDArray[np.float64],
    online: NDArray[np.float64],
    updates: Floats,
    parts: Floats,
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
            arrays,
            client,
            n_steps,
            round,
            origin,
            shape,
            pairs,
            rule,
            room,
            online,
            parts,
        )
        difference = room.difference
        total = differences[model]
        weight = 1.0 if rule.one_step or rule.equal_weights else float(n_steps)
        for i in range(shared):
            total[i] += weight * np.float64(difference[i])
        for i in range(shared, n_parameters):
            private[client, i - shared] = origin[i] + difference[i]
        online[3 + model] += n_steps
        if len(updates):
            for i in range(n_parameters):  # what is private does not leave the client
                updates[index, i] = difference[i] if i < shared else np.float32(0.0)
