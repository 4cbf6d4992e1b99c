"""Searches the pods of a home folder as one user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloister.core.ids import AgentId, GroupId, checked_id
from cloister.core.rights import Reader
from cloister.index.entity_weights import ModelSettings
from cloister.pods.datastore import refused
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry
from cloister.pods.search_server import SearchServer
from cloister.pods.server_tables import LoadedTables, ServerTables
from cloister.pods.user_vectors import load_vectors, require_current
from cloister.search.published_statistics import PublishedStatistics, threshold_statistics
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import (
    Searcher,
)
from cloister.search.server_contents import contents_of
from cloister.search.word_vector_ranking import VECTOR_MODELS
from cloister.search.word_vector_table import WordVectors
from cloister.services.node.messages import require_query

__all__ = ["search_home"]


def search_home(
    registry: PodRegistry,
    query: str,
    user: str,
    *,
    groups: Sequence[str],
    model: Any,
    statistics: Any,
    threshold: int,
    selection: Any,
    n_servers: int | None,
    n_pods: int | None,
    k: int,
    explain: bool,
    timeout_s: float,
    vectors_file: Path | None = None,
    from_pods: bool = False,
    credentials: Path | None = None,
) -> dict[str, Any]:
    """Return what the command prints."""
    require_query(query)
    reader = Reader(AgentId(checked_id(user)), frozenset(GroupId(name) for name in groups))
    by_vectors = model in VECTOR_MODELS
    settings = SearchSettings(
        model=ModelSettings() if by_vectors else ModelSettings(model=model),
        vector_model=model if by_vectors else None,
        statistics=statistics,
        selection=selection if n_servers is not None else "all",
        n_servers=n_servers,
        n_pods=n_pods,
        summaries="kept" if from_pods else "asked",
    )
    loaded = ServerTables(registry).load(reader, credentials) if from_pods else None
    published = _published(registry, threshold) if statistics == "global" else None
    vectors = _vectors(registry, reader, vectors_file) if by_vectors else None
    servers = registry.search_servers() if vectors is None else _servers(registry, reader, vectors)
    with InProcessOverlay(servers, timeout_s=timeout_s) as overlay:
        nodes = overlay.nodes_for_trusted(reader)
        searcher = Searcher(
            nodes if loaded is None else [one for one in nodes if one.server_id in loaded.tables],
            settings=settings,
            published=published,
            vectors=vectors,
            ask=ask_within(timeout_s),
            tables=None if loaded is None else loaded.tables.get,
        )
        told = _told(searcher.search(query, k=k, explain=explain), query, user)
    return told if loaded is None else told | _told_of_tables(told, loaded)


def _vectors(registry: PodRegistry, reader: Reader, file: Path | None) -> WordVectors:
    """Return a user's vectors, from a file or the user's pod, if they are of what may be read."""
    found = load_vectors(registry, reader) if file is None else WordVectors.open(file)
    return require_current(registry, reader, found)


def _servers(registry: PodRegistry, reader: Reader, vectors: WordVectors) -> list[SearchServer]:
    """Return the servers with one user's vectors; they rank for nobody else."""

    def vectors_of(asker: Reader) -> WordVectors:
        if asker != reader:
            raise refused()
        return vectors

    return registry.search_servers(vectors_of)


def _published(registry: PodRegistry, threshold: int) -> PublishedStatistics:
    contents = [
        contents_of(registry.shard(name).snapshot(), name) for name in registry.server_ids()
    ]
    return threshold_statistics(contents, threshold=threshold)


def _told_of_tables(told: dict[str, Any], loaded: LoadedTables) -> dict[str, Any]:
    """Return which servers could not be chosen, since there was no table to go by."""
    return {
        "missing_nodes": sorted({*told["missing_nodes"], *loaded.missing}),
        "servers_without_table": sorted(loaded.without),
    }


def _told(outcome: SearchOutcome, query: str, user: str) -> dict[str, Any]:
    results = []
    for place, one in enumerate(outcome.results):
        told: dict[str, Any] = {
            "doc_id": one.doc_id,
            "score": one.score,
            "pod": one.pod_id,
            "server": one.server_id,
            "snippet": one.snippet,
        }
        if outcome.explanations:
            explained = outcome.explanations[place]
            told["explanation"] = explained.as_dict()
            told["explanation_lines"] = explained.text().splitlines()
        results.append(told)
    return {
        "query": query,
        "user": user,
        "results": results,
        "servers_asked": list(outcome.servers_asked),
        "missing_nodes": list(outcome.missing),
        "missing_pods": list(outcome.missing_pods),
    }
