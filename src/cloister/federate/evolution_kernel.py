"""One round of FOLtR-ES at many clients: kernels for :mod:`cloister.federate.evolution`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, draw_below, start_stream
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
from cloister.federate.population import PopulationArrays
from cloister.rank.evolution_strategies import (
    fill_perturbation,
    randomised_response,
    reward_signal,
    stochastic_level,
)
from cloister.rank.plackett_luce import top_places
from cloister.rank.ranker import RankerShape

__all__ = ["INTERACTION_PURPOSE", "EvolutionRule", "run_blocks"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

INTERACTION_PURPOSE: Final = 0x4553494E  # "ESIN": apart from the perturbations' and all others


class EvolutionRule(NamedTuple):
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
def run_blocks(
    features: NDArray[Any],
    units: Floats,
    views: FlatViews,
    clicks: StackedTables,
    ideals: NDArray[np.float64],
    participants: Places,
    queries_per_round: int,
    parameters: Floats,
    shape: RankerShape,
    rule: EvolutionRule,
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
    rule: EvolutionRule,
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
    rule: EvolutionRule,
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
    ndcg: float,
    rank: int,
    rule: EvolutionRule,
    values: NDArray[np.float64],
    stream: NDArray[np.uint32],
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
