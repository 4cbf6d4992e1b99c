"""Word2Vec across servers (algorithm 1): servers, pods and documents by mean word vectors.

The base is trained on records of another clinic world, which stand for public ones: the paper's
pre-trained vectors are not to be had. A user's vectors are tuned on a sample of what the user may
read; at most ``n_tuning`` documents, where the paper takes all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field

from cloister.core.ids import DocId, ServerId
from cloister.core.random import stream
from cloister.index.reader_view import ReaderView
from cloister.lab.espresso.agreement import AgreementSettings, Ranking, Trial, measured, opened
from cloister.lab.espresso.federation import ANALYSIS, federation_folder, sample_texts, texts_of
from cloister.lab.espresso.topic_queries import TopicQuery
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.run_files import write_aside
from cloister.search.word_vector_ranking import EntityVectors, VectorModel
from cloister.search.word_vector_table import WordVectors
from cloister.search.word_vectors import (
    TuningForm,
    TuningSettings,
    WordVectorSettings,
    fine_tune,
    train_base,
)

__all__ = ["MENDED", "SYSTEMS", "VectorTrialSettings", "measure"]

MENDED: Final = "W2V cosine, backed off"
SYSTEMS: Final[dict[str, tuple[VectorModel, TuningForm]]] = {
    "W2V cosine": ("w2v-cosine", "paper"),
    "W2V Euclidean": ("w2v-euclidean", "paper"),
    MENDED: ("w2v-cosine", "backed_off"),
}
OTHER_WORLD: Final = 1_000_000  # added to the seed: the world of public records


class VectorTrialSettings(AgreementSettings):
    """One trial of word vectors, in a clinic world.

    Parameters
    ----------
    n_public, base
        Public documents, and how base vectors are trained on them.
    n_tuning
        Documents that a user's vectors are tuned on, at most.
    """

    n_public: int = Field(default=300, ge=1)
    base: WordVectorSettings = WordVectorSettings()
    n_tuning: int = Field(default=300, ge=1)


class _Found(NamedTuple):
    """What one server has for one query: its own score, and the documents of its best pods."""

    server_id: ServerId
    score: float
    documents: Sequence[tuple[float, DocId]]


def measure(settings: VectorTrialSettings, advance: Advance) -> Figures:
    """Return the figures of each form at each number of servers."""
    trial = opened(settings)
    base = _base(settings)
    words = [ANALYSIS.terms(text) for text in _read(trial, settings)]
    advance(1, len(SYSTEMS) + 1)
    tuned: dict[TuningForm, WordVectors] = {}
    figures: Figures = {}
    for done, (name, (model, form)) in enumerate(SYSTEMS.items(), 2):
        if form not in tuned:
            tuned[form] = fine_tune(base, words, TuningSettings(form=form), seed=settings.seed)
        found = _found(trial, tuned[form], model, settings.n_pods)
        figures |= measured(name, trial, partial(_rankings, found, settings.n_servers))
        advance(done, len(SYSTEMS) + 1)
    trial.close()
    return figures


def _base(settings: VectorTrialSettings) -> WordVectors:
    """Train base vectors, once for all users."""
    folder = federation_folder(settings.federation)
    name = f"base-{settings.base.digest()[:16]}-{settings.n_public}-{settings.seed}.vectors"
    path: Path = folder / name
    if not path.exists():
        other = settings.federation.seed + OTHER_WORLD
        world = settings.federation.model_copy(update={"seed": other})
        rng = stream(settings.seed, "espresso", "public")
        texts = sample_texts(world, settings.n_public, rng)
        words = [ANALYSIS.terms(text) for text in texts]
        made = train_base(words, settings.base, seed=settings.seed)
        write_aside(folder, path, made.to_bytes())
    return WordVectors.from_bytes(path.read_bytes())


def _read(trial: Trial, settings: VectorTrialSettings) -> list[str]:
    """Return the texts of some documents that the user may read, drawn at random."""
    views = [shard.view(trial.reader) for shard in trial.federation.shards]
    readable = [view.doc_id(number) for view in views for number in view.documents.tolist()]
    n = min(settings.n_tuning, len(readable))
    rng = stream(settings.seed, "espresso", "tuning", settings.access)
    drawn = np.sort(rng.choice(len(readable), n, replace=False)).tolist()
    return texts_of(settings.federation, [readable[place] for place in drawn])


def _found(
    trial: Trial, vectors: WordVectors, model: VectorModel, n_pods: int
) -> dict[TopicQuery, list[_Found]]:
    """Rank on one server after another: the vectors of all at once would take gigabytes."""
    found: dict[TopicQuery, list[_Found]] = {query: [] for query in trial.queries}
    for shard in trial.federation.shards:
        view = shard.view(trial.reader)
        whole, pods, documents = (
            EntityVectors(view.level(level), vectors) for level in ("server", "pod", "document")
        )
        for query in trial.queries:
            terms = ANALYSIS.terms(query.text)
            best = whole.best(terms, 1, model)
            if not len(best.entities):
                continue
            chosen = pods.best(terms, n_pods, model).entities[:n_pods]
            listed = _documents(view, documents, chosen.tolist(), terms, model)
            found[query].append(_Found(shard.server_id, float(best.scores[0]), listed))
    return found


def _documents(
    view: ReaderView,
    documents: EntityVectors,
    pods: Sequence[int],
    terms: Sequence[str],
    model: VectorModel,
) -> list[tuple[float, DocId]]:
    """Return the documents of some pods with their scores."""
    scores = documents.scores(terms, model)
    places = np.flatnonzero(np.isin(view.pods[documents.numbers], pods)).tolist()
    return [(float(scores[i]), view.doc_id(int(documents.numbers[i]))) for i in places]


def _rankings(
    found: Mapping[TopicQuery, Sequence[_Found]], n_servers: int, query: TopicQuery
) -> list[Ranking]:
    """Return what the best 1, 2, … servers give together, best first."""
    servers = sorted(found[query], key=lambda one: (-one.score, one.server_id))
    rankings: list[Ranking] = []
    for n in range(1, n_servers + 1):
        listed = [document for one in servers[:n] for document in one.documents]
        rankings.append([doc_id for _, doc_id in sorted(listed, key=lambda d: (-d[0], d[1]))])
    return rankings
