"""Many noisy releases of one small corpus at once, for audits of the guarantee."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloister.index.term_counts import TermCounts
from cloister.privacy.mechanisms.aes_noise import Words, add_noise
from cloister.privacy.mechanisms.noise_table import noise_table
from cloister.privacy.releases.noisy_tables import NoisyTablesRelease
from cloister.sketch.cell_counts import row_cells
from cloister.sketch.document_cutting import cut_documents
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyReleaseSettings, exact_frequencies
from cloister.sketch.release_noise import planned_release

__all__ = ["NoisyTrials", "noisy_trials"]


@dataclass(frozen=True, eq=False)
class NoisyTrials:
    """All noisy numbers of many simulated releases of one small corpus, before selection.

    More than a release tells: what is selected from them is post-processing. For audits.
    """

    cells: NDArray[np.int32]  # [n_trials, n_rows, n_columns, n_documents]
    lengths: NDArray[np.int32]  # [n_trials, n_documents]
    document_frequencies: NDArray[np.int32]  # [n_trials, rows, columns]
    collection_frequencies: NDArray[np.int32]
    release: NoisyTablesRelease


def noisy_trials(
    counts: TermCounts,
    key: HashKey,
    settings: NoisyReleaseSettings,
    *,
    n_trials: int,
    words: Words,
) -> NoisyTrials:
    """Make many releases of a small corpus at once, for audits: about 10 ns a number.

    Parameters
    ----------
    counts, key, settings
        As for `make_release`; keep the sketches tiny, since all trials stay in memory.
    n_trials
        How many.
    words
        Where noise comes from, as a rule `SeededWords`. Call again with another seed for more.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.privacy.mechanisms.aes_noise import SeededWords
    >>> settings = NoisyReleaseSettings(n_rows=2, n_columns=4, cell_size=1, epsilon=1.0,
    ...                                 statistics_rows=1, statistics_columns=4)
    >>> trials = noisy_trials(count_terms(["cough"]), HashKey(bytes(32)), settings,
    ...                       n_trials=1000, words=SeededWords(1))
    >>> trials.cells.shape
    (1000, 2, 4, 1)
    """
    if settings.max_length is not None:
        counts = cut_documents(counts, settings.max_length, key)
    release = planned_release(settings, n_documents=counts.n_documents, simulated=words.simulated)
    noise = {table.name: noise_table(table.family, table.width) for table in release.tables}
    hashed = key.hash_terms(counts.vocabulary, settings.shape)
    exact = {
        "cells": np.stack([row_cells(counts, hashed, row) for row in range(settings.n_rows)]),
        "lengths": counts.lengths,
    }
    names = ("document frequencies", "collection frequencies")
    exact |= dict(zip(names, exact_frequencies(counts, key, settings), strict=True))
    noisy = []
    for purpose, (name, table) in enumerate(exact.items()):
        many = np.repeat(table[None].astype(np.int32), n_trials, axis=0)
        if name in noise:
            add_noise(many, noise[name], words, purpose=purpose)
        noisy.append(many)
    return NoisyTrials(noisy[0], noisy[1], noisy[2], noisy[3], release)
