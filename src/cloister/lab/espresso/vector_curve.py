"""How well word vectors rank for users who may read little or much: base, paper's form, mended.

A collection is cut in two at random. The public part is what everybody may read; the base vectors
are trained on it, since none that was trained on more can be had here, and it is not searched. All
other documents lie in pods. A user at an access level may read that share of them, and a user's
higher levels contain the lower ones. The vectors of a user are tuned on these documents alone.

Two figures, both nDCG at 10: *agreement* with the BM25 of the same user over the same documents
(its best documents are what should be found, each worth the same), and *relevance*, where a
collection has judgements, counted over documents that the user may read.

In a small part of a collection any ranking agrees more by chance: compare forms at one level, not
one form over levels. `CurvePoint.chance` is what a random order would get.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.random import stream
from cloister.core.rights import Reader, Rights
from cloister.core.settings import Settings
from cloister.index.analysis import TextAnalysis
from cloister.index.entity_weights import ModelSettings
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from cloister.lab.espresso.curve_texts import CurveTexts
from cloister.lab.espresso.mean_ndcg import mean_ndcg
from cloister.search.word_vector_ranking import EntityVectors, VectorModel
from cloister.search.word_vector_table import WordVectors
from cloister.search.word_vectors import (
    TUNING_FORMS,
    TuningForm,
    TuningSettings,
    WordVectorSettings,
    fine_tune,
    train_base,
)

__all__ = ["CUTOFF", "CurvePoint", "CurveSettings", "access_curve", "chance_ndcg"]

CUTOFF: Final = 10  # documents that are looked at
Rankings = list[list[int]]


class CurveSettings(Settings):
    """What is measured.

    Parameters
    ----------
    levels
        Per cent of the pods' documents that a user may read.
    public_percent
        Share of the collection that everybody may read.
    n_users
        Users at each level; figures are means over them.
    n_gold
        How many of BM25's best documents a query should find.
    model
        How vectors are compared.
    forms
        Of tuning.
    base, tuning
        How vectors are trained; the form in ``tuning`` is not looked at.
    seed
        Of the cut, of what is granted and of training.
    """

    levels: tuple[Annotated[int, Field(gt=0, le=100)], ...] = (5, 10, 25, 50, 100)
    public_percent: float = Field(default=20.0, gt=0, lt=100)
    n_users: int = Field(default=3, ge=1)
    n_gold: int = Field(default=10, ge=1)
    model: VectorModel = "w2v-cosine"
    forms: tuple[TuningForm, ...] = TUNING_FORMS
    base: WordVectorSettings = WordVectorSettings()
    tuning: TuningSettings = TuningSettings()
    seed: int = Field(default=1, ge=0)


class CurvePoint(NamedTuple):
    """Figures of one form at one level: means over users.

    ``relevance`` is NaN where nothing that may be read was judged. ``seconds`` is the time of
    tuning; ``n_tokens`` what was read in one epoch. Neither is of interest for BM25.
    """

    access_percent: int
    form: TuningForm | Literal["bm25"]
    agreement: float
    relevance: float
    chance: float
    n_documents: float
    n_tokens: float
    seconds: float


def access_curve(
    texts: CurveTexts,
    settings: CurveSettings | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> list[CurvePoint]:
    """Return the figures by level and form, and those of BM25 beside them.

    Everything but the seconds is the same for the same seed.

    Parameters
    ----------
    advance
        Is told how many users of all levels are done, and of how many.
    """
    settings = settings or CurveSettings()
    analysis = TextAnalysis.espresso()
    order = stream(settings.seed, "vector curve", "public").permutation(len(texts.documents))
    n_public = int(len(order) * settings.public_percent / 100)
    words = [analysis.terms(text) for text in texts.documents]
    base = train_base([words[i] for i in order[:n_public]], settings.base, seed=settings.seed)
    pods = np.sort(order[n_public:])
    queries = [analysis.terms(query) for query in texts.queries]
    granted = _granted(pods, settings)
    snapshot = _snapshot([texts.documents[i] for i in pods], pods, granted, analysis)
    study = _Study(base, words, pods, queries, texts.grades, settings)
    found: dict[tuple[int, str], list[CurvePoint]] = defaultdict(list)
    for done, (level, user) in enumerate(granted, 1):
        view = ReaderView(snapshot, Reader(_agent(level, user)))
        for point in study.points(level, user, view):
            found[level, point.form].append(point)
        if advance is not None:
            advance(done, len(granted))
    return [_mean(points) for points in found.values()]


class _Study(NamedTuple):
    """What is the same for all users."""

    base: WordVectors
    words: Sequence[list[str]]
    pods: NDArray[np.int64]
    queries: Sequence[list[str]]
    grades: Sequence[Mapping[int, int]]
    settings: CurveSettings

    def points(self, level: int, user: int, view: ReaderView) -> Iterator[CurvePoint]:
        """Give the figures of one user: BM25, then each form."""
        documents = view.level("document")
        n_gold = max(self.settings.n_gold, CUTOFF)
        bm25 = [documents.best(q, n_gold, ModelSettings()).entities.tolist() for q in self.queries]
        gold = [ranking[: self.settings.n_gold] for ranking in bm25]
        readable = [self.words[i] for i in self.pods[view.documents]]
        size = len(readable), sum(map(len, readable))
        yield self._point(level, "bm25", bm25, gold, view, size, 0.0)
        for form in self.settings.forms:
            tuning = self.settings.tuning.model_copy(update={"form": form})
            start = perf_counter()
            seed = self.settings.seed + 1_000 * user
            vectors = fine_tune(self.base, readable, tuning, seed=seed)
            seconds = perf_counter() - start
            entities = EntityVectors(documents, vectors)
            rankings = [
                entities.best(q, CUTOFF, self.settings.model).entities.tolist()
                for q in self.queries
            ]
            yield self._point(level, form, rankings, gold, view, size, seconds)

    def _point(
        self,
        level: int,
        form: TuningForm | Literal["bm25"],
        rankings: Rankings,
        gold: Rankings,
        view: ReaderView,
        size: tuple[int, int],
        seconds: float,
    ) -> CurvePoint:
        place = {int(number): i for i, number in enumerate(self.pods)}
        here = set(view.documents.tolist())
        wanted = [dict.fromkeys(numbers, 1) for numbers in gold]
        judged = [
            {place[d]: g for d, g in grades.items() if place.get(d) in here}
            for grades in self.grades
        ]
        agreement, relevance = (mean_ndcg(rankings, one, CUTOFF) for one in (wanted, judged))
        n_documents, n_tokens = size
        chance = chance_ndcg(wanted, n_documents)
        return CurvePoint(level, form, agreement, relevance, chance, n_documents, n_tokens, seconds)


def chance_ndcg(gold: Sequence[Mapping[int, int]], n_documents: int) -> float:
    """Return the expected nDCG@10 of a random order of so many documents.

    Examples
    --------
    >>> round(chance_ndcg([{3: 1}], 10), 3), chance_ndcg([{3: 1}], 1)
    (0.454, 1.0)
    """
    discounts = 1 / np.log2(np.arange(2, CUTOFF + 2))
    shown = discounts[: min(CUTOFF, n_documents)].sum()
    values = [
        len(one) / n_documents * shown / discounts[: min(CUTOFF, len(one))].sum()
        for one in gold
        if one
    ]
    return float(np.mean(values)) if values else float("nan")


def _granted(
    pods: NDArray[np.int64], settings: CurveSettings
) -> dict[tuple[int, int], NDArray[np.int64]]:
    """Return the places of the documents that each user may read at each level."""
    found = {}
    for user in range(settings.n_users):
        order = stream(settings.seed, "vector curve", "grants", user).permutation(len(pods))
        for level in settings.levels:
            found[level, user] = order[: max(len(order) * level // 100, 1)]
    return found


def _snapshot(
    texts: Sequence[str],
    pods: NDArray[np.int64],
    granted: Mapping[tuple[int, int], NDArray[np.int64]],
    analysis: TextAnalysis,
) -> Snapshot:
    """Index all pods' documents once, each with its readers."""
    readers: list[set[AgentId]] = [set() for _ in texts]
    for (level, user), places in granted.items():
        for place in places.tolist():
            readers[place].add(_agent(level, user))
    numbers = np.arange(len(texts), dtype=np.int32)
    segment = Segment(
        Postings.build(count_terms(texts, analysis)),
        [DocId(f"document-{number}") for number in pods],
        numbers,
        np.ones(len(texts), np.bool_),
        numbers,
    )
    rights = tuple(Rights(agents=frozenset(agents)) for agents in readers)
    return Snapshot(1, (segment,), tuple(PodId(f"pod-{number}") for number in pods), rights)


def _agent(level: int, user: int) -> AgentId:
    return AgentId(f"user-{user}-{level}")


def _mean(points: Sequence[CurvePoint]) -> CurvePoint:
    figures = np.array([point[2:] for point in points], np.float64)
    return CurvePoint(points[0].access_percent, points[0].form, *figures.mean(axis=0).tolist())
