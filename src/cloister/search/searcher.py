"""Search across servers: ask what they have, choose, ask for documents, merge.

1. Each server says what the user may know of it for the query's terms (`known_summaries`), or
   their tables say it that are kept (`known_tables`).
2. The numbers are added up: the user's statistics over all servers (`summary_statistics`); or
   published ones are taken.
3. Servers are ranked (`selection`, `best_impact`, `learned_selection`), and the best are asked, all
   S or until no other can matter (`adaptive_stop`).
4. Each ranks its pods and their documents with those statistics; answers are merged (`merging`).

With word vectors there are no statistics: servers are ranked by their mean vectors
(`vector_selection`) and rank with the user's vectors, which each of them must have.

Statistics are those of the moment when the servers were asked for them, or for their tables. Rights
are checked by each server at each request: what was revoked since then is not in the answer, though
it may still count in statistics: of that one query, or for as long as a table is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.records import Result
from cloister.index.analysis import TextAnalysis
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_view import LEVELS, Level
from cloister.index.entity_weights import EntityStatistics, ModelSettings, query_weights
from cloister.search.adaptive_stop import can_stop
from cloister.search.all_term_statistics import AllTermStatistics
from cloister.search.asking import Ask, ask_in_turn
from cloister.search.asking_each import NodeGroup, ask_each
from cloister.search.best_impact import ServerOutlook, rank_by_best_impact, server_outlooks
from cloister.search.explanation import ScoreExplanation, explain
from cloister.search.known_summaries import KnownSummaries
from cloister.search.known_tables import KnownTables, TableSource
from cloister.search.learned_selection import LearnedSelection
from cloister.search.merging import Merged, merge_by_cori, merge_by_score
from cloister.search.node import (
    LevelScore,
    SearchNode,
    ServerSummary,
    SubAnswer,
    SubQuery,
    VectorQuery,
)
from cloister.search.search_outcome import SearchOutcome, ShownTexts
from cloister.search.search_settings import SearchSettings
from cloister.search.selection import ServerScore, explained_servers, rank_servers
from cloister.search.summary_statistics import (
    PublishedLevels,
    statistics_of_terms,
    user_statistics,
)
from cloister.search.vector_explanation import VectorExplanation, explain_vectors
from cloister.search.vector_selection import similar_servers
from cloister.search.word_vector_ranking import VectorModel
from cloister.search.word_vector_table import WordVectors

__all__ = ["Searcher"]


MOST_SCORE: Final = 1e6  # of a document or a term, far beyond any model's


class _SearchPlan(NamedTuple):
    """Whom to ask in which order, and with what."""

    servers: list[ServerScore]
    outlooks: dict[ServerId, ServerOutlook]
    query: SubQuery
    missing: tuple[ServerId, ...] = ()
    explained: tuple[tuple[ServerId, LevelScore], ...] = ()


class Searcher:
    """Searches some servers for one user. One object serves one thread at a time.

    Parameters
    ----------
    nodes
        The servers, as this user reaches them.
    analysis
        As the documents were analysed.
    settings
        How to search.
    published
        Statistics for ``global``.
    learned
        The selector for ``learned``.
    vectors
        The user's, for a ``vector_model``; each server must have the same.
    ask
        How several nodes are asked, and for how long one waits. Where servers are asked different
        things it is called from several threads at once, unless it is `ask_in_turn`.
    tables
        Where the user's selector tables come from, where summaries are ``kept``; the nodes
        themselves where not given.
    """

    def __init__(
        self,
        nodes: Sequence[SearchNode],
        analysis: TextAnalysis | None = None,
        settings: SearchSettings | None = None,
        *,
        published: PublishedLevels | None = None,
        learned: LearnedSelection | None = None,
        vectors: WordVectors | None = None,
        ask: Ask = ask_in_turn,
        tables: TableSource | None = None,
    ) -> None:
        self.settings = settings or SearchSettings()
        self._analysis = analysis or TextAnalysis()
        self._nodes = {node.server_id: node for node in nodes}
        if len(self._nodes) != len(nodes):
            raise SettingsError("two servers have the same name", where="Searcher.nodes")
        if self.settings.statistics == "global" and published is None:
            raise SettingsError("global statistics are not given", where="Searcher.published")
        if self.settings.selection == "learned" and learned is None:
            raise SettingsError("the learned selector is not given", where="Searcher.learned")
        if self.settings.vector_model is not None and vectors is None:
            raise SettingsError("the user's vectors are not given", where="Searcher.vectors")
        if tables is not None and self.settings.summaries != "kept":
            raise SettingsError("tables are not used", where="Searcher.tables")
        self._vectors = vectors
        self._published: dict[Level, EntityStatistics] = {}
        if published is not None and self.settings.statistics == "global":
            self._published = {level: published.level(level) for level in LEVELS}
        self._all_terms = AllTermStatistics(self._published)
        self._learned = learned
        self._ask = ask
        n_best = self.settings.n_best if self.settings.needs_lists else 0
        self._known: KnownSummaries | KnownTables = KnownSummaries(nodes, ask, n_best)
        if self.settings.summaries == "kept":
            kept = self.settings.table, self.settings.table_age_s
            self._known = KnownTables(nodes, ask, *kept, source=tables)

    def search(
        self,
        query_text: str,
        *,
        k: int = 10,
        explain: bool = False,
        explain_levels: bool = False,
        with_texts: bool = True,
    ) -> SearchOutcome:
        """Return the best k documents that the user may read.

        Parameters
        ----------
        query_text
            What to search for.
        explain
            Whether results come with explanations.
        explain_levels
            Whether candidates come with explanations, those of their pods too, and the outcome
            with those of servers. With word vectors there are none of pods and servers.
        with_texts
            Whether documents are confirmed with their pods and come with passages. Otherwise they
            are candidates: whoever shows some asks for their texts with `show`.
        """
        if k < 1:
            raise SettingsError(f"must be at least 1 (given: {k})", where="k")
        terms = tuple(self._analysis.terms(query_text))
        if not terms:
            return SearchOutcome(())
        model, vectors = self.settings.vector_model, self._vectors
        if model is not None and vectors is not None:
            plan = self._vector_plan(terms, k, explain or explain_levels, model, vectors)
        else:
            plan = self._plan(terms, k, explain or explain_levels, explain_levels)
        plan = plan._replace(query=plan.query._replace(with_texts=with_texts))
        answers, asked, failed = self._answers(plan, k)
        merged = self._merged(answers, plan, k)
        missing = set(plan.missing) | failed
        return SearchOutcome(
            tuple(_result(one) for one in merged),
            asked,
            tuple(name for name in self._nodes if name in missing),
            plan.query.document_statistics,
            _explanations(merged) if explain else (),
            tuple(merged),
            plan.explained,
            _missing_pods(answers),
        )

    def show(self, query_text: str, chosen: Sequence[Merged]) -> ShownTexts:
        """Confirm candidates of a search with their pods, and return what is shown of their texts.

        Each server is asked for its own, all at once. A candidate that does not come back may not
        be shown: its pod refused, or did not answer.
        """
        terms = tuple(self._analysis.terms(query_text))
        by_server: dict[ServerId, list[DocId]] = {}
        for one in chosen:
            by_server.setdefault(one.server_id, []).append(one.hit.doc_id)
        model = self.settings.model
        groups = [
            NodeGroup([self._nodes[name]], SubQuery(terms, model, len(ids), only=tuple(ids)))
            for name, ids in by_server.items()
        ]
        found = ask_each(self._ask, groups)
        answers = [one for one in found.values() if isinstance(one, SubAnswer)]
        shown = {
            (one.server_id, hit.doc_id): hit
            for one in answers
            for hit in one.hits
            if hit.doc_id in by_server.get(one.server_id, ())
        }
        answered = {one.server_id for one in answers}
        missing = tuple(name for name in by_server if name not in answered)
        return ShownTexts(shown, missing, _missing_pods(answers))

    def _vector_plan(
        self,
        terms: tuple[str, ...],
        k: int,
        explain: bool,
        model: VectorModel,
        vectors: WordVectors,
    ) -> _SearchPlan:
        settings, asked = self.settings, VectorQuery(model, vectors.digest)
        query = SubQuery(terms, settings.model, k, settings.n_pods, explain=explain, vectors=asked)
        if settings.selection == "all":
            return _SearchPlan([ServerScore(name, 0.0) for name in self._nodes], {}, query)
        nodes = list(self._nodes.values())
        found = similar_servers(nodes, self._ask, vectors, terms, model)
        return _SearchPlan(found.servers[: settings.n_servers], {}, query, found.missing)

    def _plan(
        self, terms: tuple[str, ...], k: int, explain: bool, explain_levels: bool
    ) -> _SearchPlan:
        settings, different = self.settings, tuple(dict.fromkeys(terms))
        own = settings.statistics == "own"
        ranks_servers = settings.selection == "entity" or explain_levels
        with_norms = settings.is_vector and (not own or ranks_servers)
        summaries, missing = self._known.gather(
            terms, with_pairs=settings.model.model == "lm", all_terms=with_norms
        )
        if with_norms:
            self._all_terms.update(summaries)
        documents = self._table(summaries, different, "document")
        pods = None if settings.n_pods is None else self._table(summaries, different, "pod")
        query = SubQuery(
            terms,
            settings.model,
            k,
            settings.n_pods,
            None if own else pods,
            None if own else documents,
            explain,
            explain_pods=explain_levels,
        )
        outlooks = self._outlooks(summaries, terms, documents) if settings.needs_lists else {}
        servers = self._ranked(summaries, terms, outlooks, k)
        explained = self._explained(summaries, terms) if explain_levels else ()
        return _SearchPlan(servers[: settings.n_servers], outlooks, query, missing, explained)

    def _table(
        self, summaries: Sequence[ServerSummary], terms: Sequence[str], level: Level
    ) -> StatisticsTable:
        """Return statistics of a level for a query's terms."""
        if level in self._published:
            return statistics_of_terms(self._published[level], terms)
        return user_statistics(summaries, terms, level)

    def _groups(self, names: Sequence[ServerId], query: SubQuery) -> list[NodeGroup]:
        """Return what servers are asked; with TF-IDF each gets statistics of its own terms."""
        if not self.settings.is_vector or query.document_statistics is None:
            return [NodeGroup([self._nodes[name] for name in names], query)]
        known = self._all_terms
        return [NodeGroup([self._nodes[name]], known.narrowed(query, name)) for name in names]

    def _outlooks(
        self, summaries: Sequence[ServerSummary], terms: Sequence[str], documents: StatisticsTable
    ) -> dict[ServerId, ServerOutlook]:
        """Look ahead with the model, or with BM25 where it is one of vectors."""
        model = self.settings.model
        if self.settings.is_vector:
            model = model.model_copy(update={"model": "bm25"})
        weights = query_weights(terms, documents, model)
        return {one.server_id: one for one in server_outlooks(summaries, weights)}

    def _ranked(
        self,
        summaries: Sequence[ServerSummary],
        terms: Sequence[str],
        outlooks: dict[ServerId, ServerOutlook],
        k: int,
    ) -> list[ServerScore]:
        match self.settings.selection:
            case "all":
                return [ServerScore(one.server_id, 0.0) for one in summaries]
            case "best-impact":
                return rank_by_best_impact(list(outlooks.values()), k)
            case "learned" if self._learned is not None:
                return self._learned.rank(summaries, terms)
            case _:
                return rank_servers(summaries, terms, *self._entity_model())

    def _explained(
        self, summaries: Sequence[ServerSummary], terms: Sequence[str]
    ) -> tuple[tuple[ServerId, LevelScore], ...]:
        """Return how servers stand as entities, by whatever else they may be chosen."""
        return tuple(explained_servers(summaries, terms, *self._entity_model()))

    def _entity_model(
        self,
    ) -> tuple[ModelSettings, EntityStatistics | None, NDArray[np.float64] | None]:
        """Return by what servers are ranked as entities: model, statistics, lengths of vectors."""
        model = self.settings.model
        norms = self._all_terms.norms(model.idf) if self.settings.is_vector else None
        return model, self._published.get("server"), norms

    def _answers(
        self, plan: _SearchPlan, k: int
    ) -> tuple[list[SubAnswer], tuple[ServerId, ...], set[ServerId]]:
        """Ask the servers of a plan, all at once or until the others cannot matter."""
        stop = self.settings.stop
        waiting = [one.server_id for one in plan.servers]
        n_at_once = max(len(waiting), 1) if stop.form == "never" else stop.n_at_once
        answers: list[SubAnswer] = []
        asked: list[ServerId] = []
        failed: set[ServerId] = set()
        while waiting:
            wave, waiting = waiting[:n_at_once], waiting[n_at_once:]
            found = ask_each(self._ask, self._groups(wave, plan.query))
            for name in wave:
                answer = found.get(name)
                if isinstance(answer, SubAnswer) and _sound(answer, name):
                    answers.append(answer._replace(hits=answer.hits[:k]))
                    if isinstance(self._known, KnownTables):
                        self._known.noticed(name, answer.version)
                else:
                    failed.add(name)
            asked += wave
            left = (plan.outlooks[name] for name in waiting if name in plan.outlooks)
            if waiting and can_stop(stop, left, _kth_score(answers, k)):
                break
        return answers, tuple(asked), failed

    def _merged(self, answers: list[SubAnswer], plan: _SearchPlan, k: int) -> list[Merged]:
        if self.settings.statistics == "own":
            return merge_by_cori(answers, dict(plan.servers), k)
        return merge_by_score(answers, k)


def _missing_pods(answers: Sequence[SubAnswer]) -> tuple[PodId, ...]:
    return tuple(sorted({name for one in answers for name in one.missing_pods}))


def _sound(answer: SubAnswer, server_id: ServerId) -> bool:
    """Say whether an answer comes from the server that was asked and can be merged.

    A number that no model gives is a lie, and would crush the scores of all others.
    """
    return answer.server_id == server_id and all(
        abs(number) <= MOST_SCORE  # and no NaN
        for hit in answer.hits
        for number in (
            hit.score,
            *(part.weight for part in hit.parts),
            *(() if hit.pod is None else _numbers(hit.pod)),
        )
    )


def _numbers(found: LevelScore) -> tuple[float, ...]:
    return (found.score, *(part.weight for part in found.parts))


def _kth_score(answers: Sequence[SubAnswer], k: int) -> float:
    scores = sorted((hit.score for answer in answers for hit in answer.hits), reverse=True)
    return scores[k - 1] if len(scores) >= k else -math.inf


def _result(one: Merged) -> Result:
    return Result(one.hit.doc_id, one.score, one.hit.pod_id, one.server_id, one.hit.snippet)


def _explanations(merged: Sequence[Merged]) -> tuple[ScoreExplanation | VectorExplanation, ...]:
    found = (explain_vectors(one.hit) or explain(one.hit) for one in merged)
    return tuple(one for one in found if one is not None)
