"""A server's own side of a search: one reader's view of an index, as a `SearchNode`.

All that leaves is made of the view, and so of nothing but what the reader may read: counts, lists,
scores, the order of equal scores, and the version. Texts are asked for where they lie and under the
reader's rights, within a deadline, and while no lock is held. A document whose text is refused is
not shown. A pod that does not answer in time is left out and named.

Time is not hidden: a question takes the longer, the more the index holds of its terms.

A server that ranks by word vectors has the reader's vectors in its memory. They are made of all
that the reader may read on any server and tell of it (:mod:`cloister.search.word_vectors`): whoever
runs the server learns which words the reader reads elsewhere, and which stand together there. Give
a node vectors only where its keeper may know that. Other readers learn nothing of them.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple, Protocol

import numpy as np

from cloister.core.deadline import within
from cloister.core.errors import AccessDenied, NotFound
from cloister.core.ids import DocId, PodId, ServerId
from cloister.index.analysis import TextAnalysis
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import EntityStatistics
from cloister.index.reader_view import ReaderView
from cloister.index.term_totals import term_totals
from cloister.search.document_ranking import DocumentRanking, ScoredDocument
from cloister.search.impact_list import ImpactLists
from cloister.search.node import (
    Hit,
    LevelSummary,
    SearchNode,
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
    TermSummary,
)
from cloister.search.search_outcome import refusing_pods
from cloister.search.selector_table_making import make_selector_table
from cloister.search.snippet import first_line, snippet
from cloister.search.vector_document_ranking import VectorDocumentRanking, ViewVectors
from cloister.search.word_vector_table import WordVectors

__all__ = ["CONFIRM_TIMES", "PodReading", "ShardNode", "TextsRead"]

ReadText = Callable[[DocId], str]
KEPT_TABLES: Final = 4  # statistics that TF-IDF's vectors are kept for
CONFIRM_TIMES: Final = 2  # one pod that hangs leaves time to ask others in its place
KEPT_CANDIDATES: Final = 5_000  # that may be asked for by name


class TextsRead(NamedTuple):
    """What pods said of documents.

    Parameters
    ----------
    texts
        Of those that the reader may read now. Others were refused, or their pods are away.
    away
        Pods that did not answer in time.
    """

    texts: Mapping[DocId, str]
    away: frozenset[PodId] = frozenset()


class PodReading(Protocol):
    """Asks pods for texts, as one reader; each pod apart from the others."""

    @property
    def timeout_s(self) -> float:
        """How long the pods may take each time that some are asked; twice as long in all."""

    def away(self) -> frozenset[PodId]:
        """Return the pods that are not asked at the moment."""

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        """Say whether a document is known not to be fit to be shown at the moment."""

    def n_aside(self) -> int:
        """Return how many documents are known not to be."""

    def read(self, documents: Sequence[tuple[DocId, PodId]]) -> TextsRead:
        """Ask for texts, all pods at once, within `cloister.core.deadline`."""


class _OneByOne(PodReading):
    """Asks for one text after the other, without a deadline."""

    timeout_s = math.inf

    def __init__(self, read_text: ReadText) -> None:
        self._read_text = read_text

    def away(self) -> frozenset[PodId]:
        return frozenset()

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        return False

    def n_aside(self) -> int:
        return 0

    def read(self, documents: Sequence[tuple[DocId, PodId]]) -> TextsRead:
        texts = {}
        for doc_id, _ in documents:
            try:
                texts[doc_id] = self._read_text(doc_id)
            except (AccessDenied, NotFound):
                continue
        return TextsRead(texts)


class _Ranking(Protocol):
    def best(self, k: int) -> list[ScoredDocument]: ...

    def explained(self, found: ScoredDocument, hit: Hit) -> Hit: ...


class ShardNode(SearchNode):
    """One server as one reader reaches it.

    Calls from several threads take turns while they look at the index, and not while they wait for
    pods.

    Parameters
    ----------
    server_id
        Name of the server.
    view
        Gives what the reader may read now; called for each request.
    read_text
        Gives a document's text if the reader may read it where it lies, and raises `AccessDenied`
        or `NotFound` otherwise. Without it there are no snippets, and the index's rights are
        relied upon.
    pods
        The same, for pods that may be slow or hostile; in the place of ``read_text``.
    analysis
        How the documents were analysed; for snippets.
    vectors
        Gives the reader's own word vectors; called for each request that names some. Without it,
        such requests are refused. For the documents' mean vectors, 8 bytes are kept for each
        readable document and number of a vector.
    """

    def __init__(
        self,
        server_id: ServerId,
        view: Callable[[], ReaderView],
        read_text: ReadText | None = None,
        *,
        pods: PodReading | None = None,
        analysis: TextAnalysis | None = None,
        vectors: Callable[[], WordVectors] | None = None,
    ) -> None:
        self._server_id = server_id
        self._view = view
        self._pods = pods if read_text is None else _OneByOne(read_text)
        self._analysis = analysis or TextAnalysis()
        self._candidates: OrderedDict[DocId, PodId] = OrderedDict()
        self._tables: list[StatisticsTable] = []
        self._lists: ImpactLists | None = None
        self._kept_table: tuple[TableRequest, ServerTable] | None = None
        self._vectors = vectors
        self._kept_vectors: ViewVectors | None = None
        self._lock = Lock()

    @property
    def server_id(self) -> ServerId:
        """Name of the server."""
        return self._server_id

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        """Say what the reader may read here of some terms."""
        with self._lock:
            view = self._view()
            documents, pods = view.level("document"), view.level("pod")
            terms = _all_terms(view) if request.all_terms else {}
            for term in request.terms:  # lists are for terms by name
                terms[term] = self._term_summary(view, term, request.n_best)
            return ServerSummary(
                self._server_id,
                view.version,
                int(view.lengths.sum()),
                _level_summary(documents, request.with_pairs),
                _level_summary(pods, request.with_pairs),
                int(view.level("server").n_pairs) if request.with_pairs else 0,
                terms,
                self._view_vectors(view, request.vectors).mean if request.vectors else (),
            )

    def answer(self, query: SubQuery) -> SubAnswer:
        """Return the best documents that the reader may read here."""
        away = frozenset[PodId]() if self._pods is None else self._pods.away()
        with self._lock:
            view = self._view()
            missing = _with_matches(view, query, away)
        if query.only:
            hits, late = self._only(query, away)
        elif self._pods is None or not query.with_texts:
            hits, late = self._candidate_hits(view, query, away), frozenset()
        else:
            hits, late = self._confirmed_hits(self._pods, view, query, away)
        named = tuple(sorted(missing | late))
        return SubAnswer(self._server_id, view.version, hits, named)

    def table(self, request: TableRequest) -> ServerTable:
        """Return the reader's selector table; it is kept until what they may read changes."""
        with self._lock:
            view, kept = self._view(), self._kept_table
            if kept is None or kept[0] != request or kept[1].version != view.version:
                made = make_selector_table(view, self._server_id, request.settings)
                table = ServerTable(self._server_id, view.version, made.to_bytes())
                kept = self._kept_table = (request, table)
            return kept[1]

    def _ranking(self, view: ReaderView, query: SubQuery, without: frozenset[PodId]) -> _Ranking:
        if query.vectors is None:
            return DocumentRanking(view, self._with_known_tables(query), without)
        known = self._view_vectors(view, query.vectors.digest)
        return VectorDocumentRanking(known, query, query.vectors.model, without)

    def _view_vectors(self, view: ReaderView, digest: str) -> ViewVectors:
        """Return the mean vectors of what may be read now, by the vectors that were asked for."""
        vectors = None if self._vectors is None else self._vectors()
        if vectors is None or vectors.digest != digest:
            raise NotFound(
                "no word vectors, or others than those asked for",
                where=self._server_id,
                remedy="train them, or give the node those that the searcher has",
            )
        kept = self._kept_vectors
        if kept is None or kept.view is not view or kept.vectors.digest != digest:
            kept = self._kept_vectors = ViewVectors(view, vectors)
        return kept

    def _term_summary(self, view: ReaderView, term: str, n_best: int) -> TermSummary:
        if self._lists is None or self._lists.view is not view:
            self._lists = ImpactLists(view)
        found = view.postings(term)
        return TermSummary(
            len(found.documents),
            len(view.level("pod").matches(term).documents),
            found.n_occurrences,
            self._lists.best(term, n_best),
        )

    def _candidate_hits(
        self, view: ReaderView, query: SubQuery, away: frozenset[PodId]
    ) -> tuple[Hit, ...]:
        """Return the best documents as the index has them; note them, for who asks for texts."""
        with self._lock:
            ranking = self._ranking(view, query, away)
            listed = self._fit(ranking, query.k)
            for one in listed:
                self._candidates[one.doc_id] = one.pod_id
                self._candidates.move_to_end(one.doc_id)
            while len(self._candidates) > KEPT_CANDIDATES:
                self._candidates.popitem(last=False)
            return tuple(self._hit(ranking, one, query) for one in listed)

    def _fit(self, ranking: _Ranking, k: int) -> list[ScoredDocument]:
        """Return the best documents but those that are known not to be fit to be shown."""
        pods, listed = self._pods, ranking.best(k)
        if pods is None:
            return listed
        fit = [one for one in listed if not pods.is_aside(one.doc_id, one.pod_id)]
        if len(fit) < len(listed):
            listed = ranking.best(k + pods.n_aside())
            fit = [one for one in listed if not pods.is_aside(one.doc_id, one.pod_id)]
        return fit[:k]

    def _only(
        self, query: SubQuery, away: frozenset[PodId]
    ) -> tuple[tuple[Hit, ...], frozenset[PodId]]:
        """Confirm candidates of before, and return each with a passage."""
        pods = self._pods or _OneByOne(lambda _: "")
        with self._lock:
            wanted = [(one, self._candidates[one]) for one in query.only if one in self._candidates]
        asked = [one for one in wanted if one[1] not in away]
        with within(pods.timeout_s):
            read = pods.read(asked)
        shown = self._shown(read.texts, query)
        hits = (
            Hit(doc_id, pod_id, 0.0, *shown[doc_id]) for doc_id, pod_id in asked if doc_id in shown
        )
        return tuple(hits), read.away | {pod_id for _, pod_id in wanted if pod_id in away}

    def _confirmed_hits(
        self, pods: PodReading, view: ReaderView, query: SubQuery, away: frozenset[PodId]
    ) -> tuple[tuple[Hit, ...], frozenset[PodId]]:
        """Go down the ranking until enough documents were found that may be shown.

        The time of the pods begins when the first ranking is there: in a new process its kernels
        may still have to be compiled.
        """
        hits: dict[DocId, Hit] = {}
        refused: dict[DocId, PodId] = {}
        late: frozenset[PodId] = frozenset()
        ranking: _Ranking | None = None
        ends = math.inf
        while True:
            with self._lock:
                ranking = ranking or self._ranking(view, query, away | late)
                listed = self._fit(ranking, query.k + len(refused))
            looked_at = hits.keys() | refused.keys()
            waiting = [one for one in listed if one.doc_id not in looked_at]
            batch = waiting[: query.k - len(hits)]
            if not batch:
                break
            ends = min(ends, time.monotonic() + CONFIRM_TIMES * pods.timeout_s)
            with within(min(pods.timeout_s, ends - time.monotonic())):
                read = pods.read([(one.doc_id, one.pod_id) for one in batch])
            shown = self._shown(read.texts, query)
            with self._lock:
                hits |= {
                    one.doc_id: self._hit(ranking, one, query, *shown[one.doc_id])
                    for one in batch
                    if one.doc_id in shown
                }
            refused |= {
                one.doc_id: one.pod_id
                for one in batch
                if one.doc_id not in hits and one.pod_id not in read.away
            }
            left_out = read.away | refusing_pods(
                refused.values(), (hit.pod_id for hit in hits.values())
            )
            if not left_out <= late:
                late, ranking = late | left_out, None
        best = sorted(hits.values(), key=lambda hit: (-hit.score, hit.doc_id))
        return tuple(best), late

    def _shown(self, texts: Mapping[DocId, str], query: SubQuery) -> dict[DocId, tuple[str, str]]:
        """Return what is shown of texts: a passage, and the first line."""
        return {
            name: (snippet(text, query.terms, self._analysis), first_line(text))
            for name, text in texts.items()
        }

    def _hit(
        self,
        ranking: _Ranking,
        one: ScoredDocument,
        query: SubQuery,
        passage: str = "",
        title: str = "",
    ) -> Hit:
        """Return a document as it is shown."""
        hit = Hit(one.doc_id, one.pod_id, one.score, passage, title, one.length)
        return ranking.explained(one, hit) if query.explain else hit

    def _with_known_tables(self, query: SubQuery) -> SubQuery:
        """Put in equal tables that came before: the vectors of TF-IDF were made for them."""
        if not query.settings.model.startswith("tfidf"):
            return query
        return query._replace(
            pod_statistics=self._known(query.pod_statistics),
            document_statistics=self._known(query.document_statistics),
        )

    def _known(self, table: StatisticsTable | None) -> StatisticsTable | None:
        if table is None:
            return None
        for kept in self._tables:
            if kept is table or kept == table:
                return kept
        self._tables = [table, *self._tables[: KEPT_TABLES - 1]]
        return table


def _with_matches(view: ReaderView, query: SubQuery, pods: frozenset[PodId]) -> frozenset[PodId]:
    """Return which pods hold something for a query that the reader may read."""
    if not pods:
        return pods
    documents = [view.postings(term).documents for term in query.terms]
    if query.vectors is not None:
        documents = [view.documents]
    names = view.snapshot.pod_ids
    places = np.unique(view.pods[np.concatenate([np.empty(0, np.int32), *documents])])
    return pods & {names[place] for place in places.tolist()}


def _all_terms(view: ReaderView) -> dict[str, TermSummary]:
    """Return what there is of all terms that may be read, without lists."""
    flat = view.term_major()
    totals = zip(*term_totals(flat, view.pods).T.tolist(), strict=True)
    return {
        term.decode("utf-8"): TermSummary(*found)
        for term, found in zip(flat.terms, totals, strict=True)
    }


def _level_summary(level: EntityStatistics, with_pairs: bool) -> LevelSummary:
    return LevelSummary(int(level.n_entities), int(level.n_pairs) if with_pairs else 0)
