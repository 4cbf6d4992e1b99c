"""Word2Vec across servers (algorithm 1): servers, pods and documents by mean word vectors.

The base is trained on records of another clinic world, which stand for public ones: the paper's
pre-trained vectors are not to be had. A user's vectors are tuned on a sample of what the user may
read; at most ``n_tuning`` documents, where the paper takes all. There is one user for each access
level, and one sample for each seed. Servers, pods and documents are then ranked by all that the
user may read in them, not by a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.ids import DocId, ServerId
from cloister.core.random import stream
from cloister.index.reader_view import ReaderView
from cloister.lab.espresso.agreement import AgreementSettings, Ranking, Trial, at, measured, opened
from cloister.lab.espresso.federation import federation_folder
from cloister.lab.espresso.federation_contents import ANALYSIS, sample_texts, texts_of
from cloister.lab.espresso.server_vectors import (
    DocumentTerms,
    document_terms,
    query_means,
    server_means,
)
from cloister.lab.espresso.topic_queries import TopicQuery
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.run_files import write_aside
from cloister.search.word_vector_ranking import VectorModel
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
FORMS: Final = tuple(dict.fromkeys(form for _, form in SYSTEMS.values()))
OTHER_WORLD: Final = 1_000_000  # added to the seed: the world of public records


class VectorTrialSettings(AgreementSettings):
    """One trial of word vectors, in a clinic world.

    Parameters
    ----------
    n_public, base
        Public documents, and how base vectors are trained on them: once for all trials.
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


_ByQuery = dict[TopicQuery, list[_Found]]


def measure(settings: VectorTrialSettings, advance: Advance) -> Figures:
    """Return the figures of each form at each number of servers, and the seconds that it took."""
    n_steps = len(FORMS) + 2
    trial = opened(settings)
    base = _base(settings)
    words = [ANALYSIS.terms(text) for text in _read(trial, settings)]
    advance(1, n_steps)
    tuned: dict[TuningForm, WordVectors] = {}
    seconds: dict[TuningForm, float] = {}
    for done, form in enumerate(FORMS, 2):
        start = perf_counter()
        tuned[form] = fine_tune(base, words, TuningSettings(form=form), seed=settings.seed)
        seconds[form] = perf_counter() - start
        advance(done, n_steps)
    start = perf_counter()
    found = _found(trial, tuned, settings.n_pods)
    ranking_s = perf_counter() - start
    trial.close()
    figures: Figures = {}
    for name, (_, form) in SYSTEMS.items():
        rank = partial(_rankings, found[name], settings.n_servers)
        figures |= measured(name, trial, rank)
        for n in range(1, settings.n_servers + 1):
            figures[at(name, n)] |= {"tuning_s": seconds[form], "all_ranking_s": ranking_s}
    advance(n_steps, n_steps)
    return figures


def _base(settings: VectorTrialSettings) -> WordVectors:
    """Train base vectors, once for all users and all sets of queries."""
    folder = federation_folder(settings.federation)
    path: Path = folder / f"base-{settings.base.digest()[:16]}-{settings.n_public}.vectors"
    if not path.exists():
        seed = settings.federation.seed
        world = settings.federation.model_copy(update={"seed": seed + OTHER_WORLD})
        texts = sample_texts(world, settings.n_public, stream(seed, "espresso", "public"))
        words = [ANALYSIS.terms(text) for text in texts]
        write_aside(folder, path, train_base(words, settings.base, seed=seed).to_bytes())
    return WordVectors.from_bytes(path.read_bytes())


def _read(trial: Trial, settings: VectorTrialSettings) -> list[str]:
    """Return the texts of some documents that the user may read, drawn at random."""
    views = [shard.view(trial.reader) for shard in trial.federation.shards]
    ends = np.cumsum([len(view.documents) for view in views])
    rng = stream(settings.seed, "espresso", "tuning", settings.access)
    n = min(settings.n_tuning, int(ends[-1]))
    drawn = np.sort(rng.choice(int(ends[-1]), n, replace=False))
    servers = np.searchsorted(ends, drawn, side="right")
    places = drawn - np.concatenate([[0], ends])[servers]
    return texts_of(
        settings.federation,
        [
            views[server].doc_id(int(views[server].documents[place]))
            for server, place in zip(servers.tolist(), places.tolist(), strict=True)
        ],
    )


def _found(
    trial: Trial, tuned: Mapping[TuningForm, WordVectors], n_pods: int
) -> dict[str, _ByQuery]:
    """Rank on one server after another: the vectors of all at once would take gigabytes."""
    found: dict[str, _ByQuery] = {name: {q: [] for q in trial.queries} for name in SYSTEMS}
    terms = [ANALYSIS.terms(query.text) for query in trial.queries]
    queries = {form: query_means(vectors, terms) for form, vectors in tuned.items()}
    for shard in trial.federation.shards:
        view = shard.view(trial.reader)
        documents = document_terms(view)
        if not len(documents.numbers):
            continue
        means = {form: server_means(documents, vectors) for form, vectors in tuned.items()}
        for name, (model, form) in SYSTEMS.items():
            server, pods, of_documents = (
                level.scores(queries[form], model) for level in means[form]
            )
            for place, query in enumerate(trial.queries):
                known = any(term in tuned[form].positions for term in terms[place])
                if not known or not np.isfinite(server[0, place]):
                    continue
                chosen = _best(pods[:, place], n_pods)
                listed = _documents(view, documents, chosen, of_documents[:, place])
                score = float(server[0, place])
                found[name][query].append(_Found(shard.server_id, score, listed))
    return found


def _best(scores: NDArray[np.float64], n: int) -> list[int]:
    """Return the places of the best n scores that are any; of equal ones the first."""
    order = np.argsort(-scores, kind="stable")[:n]
    return [place for place in order.tolist() if np.isfinite(scores[place])]


def _documents(
    view: ReaderView,
    documents: DocumentTerms,
    pods: Sequence[int],
    scores: NDArray[np.float64],
) -> list[tuple[float, DocId]]:
    """Return the documents of some pods with their scores."""
    places = np.flatnonzero(np.isin(documents.pods, pods) & np.isfinite(scores)).tolist()
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
