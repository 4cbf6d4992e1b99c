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
from typing import Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import checked_stream
from cloister.core.errors import SettingsError
from cloister.federate.local_training_kernel import LocalRule, new_rooms, train_blocks
from cloister.federate.population import Population
from cloister.rank.pdgd import PairRule
from cloister.rank.ranker import RankerShape

__all__ = ["LocalRule", "RoundSums", "train_clients"]

Floats = NDArray[np.float32]

MOST_BLOCKS: Final = 64
_LITTLE_WORK: Final = 1e6  # multiplications: about a tenth of a millisecond


class RoundSums(NamedTuple):
    """What the clients of one round add up to, for each model that clients started from.

    Parameters
    ----------
    differences
        Sums of the clients' differences, each times its number of interactions (with
        ``one_step``, where a difference is a sum of gradients already, each once); models x
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
    parts: Floats | None = None,
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
    parts
        Clients x parts x at least as many numbers as parameters and as stored features: each
        client's gradients, times the learning rate, are added here by part of its queries, or of
        the rounds.
    """
    key, number, _, _ = checked_stream(seed, round=round)
    if shape.n_features != population.n_features:
        raise SettingsError(
            f"the ranker reads {shape.n_features} features, the data has {population.n_features}",
            where="ranker",
        )
    if population.precision == "half" and shape.n_hidden:
        raise SettingsError("half precision is for linear rankers", where="precision")
    n_models, n_parameters = models.shape
    n_blocks = min(len(participants), MOST_BLOCKS)
    differences = np.zeros((n_blocks, n_models, n_parameters))
    online = np.zeros((n_blocks, 3 + n_models))
    with _few_threads_for_little_work(population, participants, queries_per_round, shape):
        train_blocks(
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
            new_rooms(n_blocks, n_parameters, population, shape),
            differences,
            online,
            np.empty((0, n_parameters), np.float32) if updates is None else updates,
            np.empty((0, 0, 0), np.float32) if parts is None else parts,
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
