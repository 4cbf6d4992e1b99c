"""A server's own side of a search: one reader's view of an index, as a `SearchNode`.

All that leaves is made of the view, and so of nothing but what the reader may read: counts, lists,
scores, the order of equal scores, and the version. Texts are asked for one by one, from where they
lie and under the reader's rights; a document whose text is refused is not shown.

Time is not hidden: a question takes the longer, the more the index holds of its terms.

A server that ranks by word vectors has the reader's vectors in its memory. They are made of all
that the reader may read on any server and tell of it (:mod:`cloister.search.word_vectors`): whoever
runs the server learns which words the reader reads elsewhere, and which stand together there. Give
a node vectors only where its keeper may know that. Other readers learn nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, Protocol

from cloister.core.errors import AccessDenied, NotFound
from cloister.core.ids import DocId, ServerId
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
from cloister.search.selector_table_making import make_selector_table
from cloister.search.snippet import first_line, snippet
from cloister.search.vector_document_ranking import VectorDocumentRanking, ViewVectors
from cloister.search.word_vector_table import WordVectors

__all__ = ["ShardNode"]

ReadText = Callable[[DocId], str]
KEPT_TABLES: Final = 4  # statistics that TF-IDF's vectors are kept for


class _Ranking(Protocol):
    def best(self, k: int) -> list[ScoredDocument]: ...

    def explained(self, found: ScoredDocument, hit: Hit) -> Hit: ...


class ShardNode(SearchNode):
    """One server as one reader reaches it. Calls from several threads take turns.

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
        analysis: TextAnalysis | None = None,
        vectors: Callable[[], WordVectors] | None = None,
    ) -> None:
        self._server_id = server_id
        self._view = view
        self._read_text = read_text
        self._analysis = analysis or TextAnalysis()
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
        with self._lock:
            view = self._view()
            ranking = self._ranking(view, query)
            return SubAnswer(self._server_id, view.version, self._hits(ranking, query))

    def table(self, request: TableRequest) -> ServerTable:
        """Return the reader's selector table; it is kept until what they may read changes."""
        with self._lock:
            view, kept = self._view(), self._kept_table
            if kept is None or kept[0] != request or kept[1].version != view.version:
                made = make_selector_table(view, self._server_id, request.settings)
                table = ServerTable(self._server_id, view.version, made.to_bytes())
                kept = self._kept_table = (request, table)
            return kept[1]

    def _ranking(self, view: ReaderView, query: SubQuery) -> _Ranking:
        if query.vectors is None:
            return DocumentRanking(view, self._with_known_tables(query))
        known = self._view_vectors(view, query.vectors.digest)
        return VectorDocumentRanking(known, query, query.vectors.model)

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

    def _hits(self, ranking: _Ranking, query: SubQuery) -> tuple[Hit, ...]:
        """Go down the ranking until enough documents were found that may be shown."""
        hits: dict[DocId, Hit | None] = {}
        n_wanted = query.k
        while True:
            listed = ranking.best(n_wanted)
            for one in listed:
                if one.doc_id not in hits:
                    hits[one.doc_id] = self._hit(ranking, one, query)
                shown = tuple(hit for hit in hits.values() if hit is not None)
                if len(shown) == query.k:
                    return shown
            if len(listed) < n_wanted or query.k < 1:
                return tuple(hit for hit in hits.values() if hit is not None)
            n_wanted *= 2

    def _hit(self, ranking: _Ranking, one: ScoredDocument, query: SubQuery) -> Hit | None:
        """Return a document as it is shown; None where its text is refused."""
        title = passage = ""
        if self._read_text is not None:
            try:
                text = self._read_text(one.doc_id)
            except (AccessDenied, NotFound):
                return None
            title, passage = first_line(text), snippet(text, query.terms, self._analysis)
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
