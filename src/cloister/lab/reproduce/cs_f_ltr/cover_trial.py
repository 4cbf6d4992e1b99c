"""How much of the true top K a noisy release still finds, at true epsilons."""

from __future__ import annotations

import time
from typing import Final

from pydantic import Field

from cloister.core.random import stream
from cloister.lab.reproduce.cs_f_ltr.corpus import SearchedCorpus, cover_figures, open_corpus
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance
from cloister.privacy.mechanisms.aes_noise import SeededWords, Words
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
from cloister.sketch.release_planner import PlanFacts, plan_release
from cloister.sketch.rtk_query import ReverseTop, RtkQuery
from cloister.sketch.rtk_sketch import RtkSketch
from cloister.sketch.sketched_counts import SketchedCounts

__all__ = ["PAPER", "PLANNED", "SHAPES", "CoverSettings", "measure", "system_of"]

PLANNED, PAPER = "planned", "30 x 200"
SHAPES: Final = (PLANNED, PAPER)
MEMORY_BYTES: Final = 54_000_000  # about an eighth of a sketch a document, at full size
PAPER_ALPHA: Final = 5  # list length over k
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
        How many documents are asked for.
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
        if epsilon is None:
            told, found = _without_noise(corpus, key, chosen, settings.k)
        else:
            words = stream(settings.seed, "cs-f-ltr", "noise", f"{epsilon}").integers(2**62)
            told, found = _with_noise(corpus, key, chosen, SeededWords(int(words)), settings.k)
        figures[system_of(name, epsilon)] = {
            **cover_figures(corpus, found),
            **told,
            "n_rows": chosen.n_rows,
            "n_columns": chosen.n_columns,
            "cell_size": chosen.cell_size,
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
    if shape == PAPER:
        own: dict[str, object] = {"n_rows": 30, "n_columns": 200, "family": "narrowest"}
        own["cell_size"] = min(PAPER_ALPHA * settings.k, n_documents)
    elif epsilon is None:
        own = {"n_rows": QUIET_ROWS, "n_columns": planned.shape.n_cells // QUIET_ROWS}
    else:
        own = {}
    return planned.model_copy(update=own)


def _with_noise(
    corpus: SearchedCorpus, key: HashKey, chosen: NoisyReleaseSettings, words: Words, k: int
) -> tuple[dict[str, float], ReverseTop]:
    """Make a release, and read it as others do; return what it costs and what they find."""
    before = time.process_time()
    release = make_release(corpus.counts, key, chosen, words=words)
    told = {
        "build_cpu_s": time.process_time() - before,
        "size_bytes": release.size_bytes,
        "true_epsilon": release.epsilon(),
        "laplace": float(release.cells.family == "discrete-laplace"),
        "sigma": release.cells.sigma,
    }
    return told, SketchedCounts(release, key).tops(corpus.terms, k)


def _without_noise(
    corpus: SearchedCorpus, key: HashKey, chosen: NoisyReleaseSettings, k: int
) -> tuple[dict[str, float], ReverseTop]:
    hashed = key.hash_terms(corpus.counts.vocabulary, chosen.shape)
    sketch = RtkSketch.build(corpus.counts, hashed, cell_size=chosen.cell_size)
    query = RtkQuery(sketch.lists, chosen.shape, corpus.counts.n_documents)
    found = query.top(key.hash_terms(corpus.terms, chosen.shape), k)
    return {"sigma": 0.0, "size_bytes": sketch.size_bytes}, found
