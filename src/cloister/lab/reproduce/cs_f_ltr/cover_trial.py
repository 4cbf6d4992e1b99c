"""How much of the true top K a noisy release still finds, at true epsilons."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from cloister.core.random import stream
from cloister.index.term_counts import TermCounts
from cloister.lab.reproduce.cs_f_ltr.corpus import cover_figures, open_corpus
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.cell_counts import row_cells
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
from cloister.sketch.release_planner import PlanFacts, dense_bytes, plan_release
from cloister.sketch.rtk_lists import RtkLists, select_row
from cloister.sketch.rtk_query import RtkQuery

__all__ = ["PAPER", "PLANNED", "SHAPES", "CoverSettings", "measure", "system_of"]

PLANNED, PAPER = "planned", "30 x 200"
SHAPES: Final = (PLANNED, PAPER)
MEMORY_BYTES: Final = dense_bytes(36_400) // 8  # an eighth of a sketch a document, at full size
QUIET_ROWS: Final = 3  # what the planner takes where noise is small


class CoverSettings(StudySettings):
    """One repetition.

    Parameters
    ----------
    data, seed
        The corpus; the seed also gives the hash key, the (simulated) noise and the terms.
    n_documents
        How many documents of a collection are drawn; all where None.
    n_terms
        Terms drawn by frequency.
    epsilons, delta
        What whole releases cost for one token: cells, lengths and frequencies together.
    k
        How many documents are asked for; a side of a cell has five times as many.
    mean_length
        About how long documents are, as the planner is told.
    """

    n_documents: int | None = Field(default=None, ge=1)
    n_terms: int = Field(default=1000, ge=1)
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    k: int = Field(default=150, ge=1)
    mean_length: float = Field(default=1000, ge=1)


def system_of(shape: str, epsilon: float | None) -> str:
    """Return the name of a release.

    Examples
    --------
    >>> system_of("30 x 200", 2.0), system_of("planned", None)
    ('30 x 200, epsilon 2', 'planned, no noise')
    """
    return f"{shape}, {'no noise' if epsilon is None else f'epsilon {epsilon:g}'}"


def measure(settings: CoverSettings, advance: Advance) -> Figures:
    """Return the cover rate of each shape without noise and at each epsilon."""
    corpus = open_corpus(
        settings.data,
        seed=settings.seed,
        n_terms=settings.n_terms,
        n_documents=settings.n_documents,
    )
    key = HashKey(stream(settings.seed, "cs-f-ltr", "hash key").bytes(32))
    figures: Figures = {}
    kinds = [(name, epsilon) for name in SHAPES for epsilon in (None, *settings.epsilons)]
    for done, (name, epsilon) in enumerate(kinds, 1):
        chosen = _chosen(settings, name, epsilon, corpus.counts.n_documents)
        lists, sigma = _lists(corpus.counts, key, chosen, epsilon, settings.seed)
        query = RtkQuery(lists, chosen.shape, corpus.counts.n_documents, sigma=sigma)
        found = query.top(key.hash_terms(corpus.terms, chosen.shape), settings.k)
        figures[system_of(name, epsilon)] = {
            **cover_figures(corpus, found),
            "sigma": sigma,
            "n_rows": chosen.n_rows,
            "n_columns": chosen.n_columns,
        }
        advance(done, len(kinds))
    return figures


def _chosen(
    settings: CoverSettings, shape: str, epsilon: float | None, n_documents: int
) -> NoisyReleaseSettings:
    facts = PlanFacts(
        epsilon=epsilon or max(settings.epsilons),
        delta=settings.delta,
        documents=n_documents,
        mean_length=settings.mean_length,
        memory_bytes=MEMORY_BYTES,
        k=settings.k,
    )
    planned = plan_release(facts).settings
    n_rows, n_columns = planned.n_rows, planned.n_columns
    if shape == PAPER:
        n_rows, n_columns = 30, 200
    elif epsilon is None:
        n_rows, n_columns = QUIET_ROWS, planned.shape.n_cells // QUIET_ROWS
    return planned.model_copy(update={"n_rows": n_rows, "n_columns": n_columns})


def _lists(
    counts: TermCounts, key: HashKey, chosen: NoisyReleaseSettings, epsilon: float | None, seed: int
) -> tuple[RtkLists, float]:
    """Return the lists of a release, and the width of its noise; without an epsilon, exact ones."""
    if epsilon is not None:
        words = SeededWords(int(stream(seed, "cs-f-ltr", "noise", f"{epsilon}").integers(2**62)))
        release = make_release(counts, key, chosen, words=words)
        return release.lists, release.cell_sigma
    hashed = key.hash_terms(counts.vocabulary, chosen.shape)
    lists = RtkLists.empty(chosen.shape.n_cells, chosen.cell_size)
    cells = None
    for row in range(chosen.n_rows):
        cells = row_cells(counts, hashed, row, out=cells)
        select_row(cells, chosen.cell_size, lists, row)
    return lists, 0.0
