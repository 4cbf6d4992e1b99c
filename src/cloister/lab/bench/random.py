"""Random numbers for kernels: counter-based streams against NumPy generators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, fill_uniform, next_uniform, start_stream
from cloister.core.kernel import kernel
from cloister.lab.bench import Advance, Figures, timed

__all__ = ["run"]

N_NUMBERS: Final = 10_000_000
N_CLIENTS: Final = 1_000_000
N_NUMPY_CLIENTS: Final = 10_000


@kernel
def _draw_each(n: int) -> float:
    state = np.zeros(STREAM_WORDS, np.uint32)
    start_stream(state, 1, 0, 0, 0)
    total = 0.0
    for _ in range(n):
        total += next_uniform(state)
    return total


@kernel
def _first_of_each_client(n: int) -> float:
    state = np.zeros(STREAM_WORDS, np.uint32)
    total = 0.0
    for client in range(n):
        start_stream(state, 1, 0, client, 0)
        total += next_uniform(state)
    return total


def run(advance: Advance) -> Figures:
    """Time a number drawn alone, in bulk, and the seeding of a million clients."""
    state = np.zeros(STREAM_WORDS, np.uint32)
    numbers: NDArray[Any] = np.empty(N_NUMBERS, np.float32)
    start_stream(state, 1, 0, 0, 0)
    numbers[:] = 0  # touch the memory: its first use costs more than the numbers
    fill_uniform(state, numbers[:8])
    _draw_each(1)
    _first_of_each_client(1)
    advance(1, 5)
    with timed() as bulk:
        fill_uniform(state, numbers)
    advance(2, 5)
    with timed() as single:
        _draw_each(N_NUMBERS)
    advance(3, 5)
    with timed() as clients:
        _first_of_each_client(N_CLIENTS)
    advance(4, 5)
    with timed() as numpy_clients:
        for child in np.random.SeedSequence(1).spawn(N_NUMPY_CLIENTS):
            np.random.Generator(np.random.PCG64(child)).random()
    advance(5, 5)
    return {
        "bulk_ns_per_number": bulk.cpu_s / N_NUMBERS * 1e9,
        "single_ns_per_number": single.cpu_s / N_NUMBERS * 1e9,
        "seed_and_draw_ns_per_client": clients.cpu_s / N_CLIENTS * 1e9,
        "numpy_seed_and_draw_ns_per_client": numpy_clients.cpu_s / N_NUMPY_CLIENTS * 1e9,
    }
