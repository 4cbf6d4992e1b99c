"""Searches the pods of a home folder as one user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloister.core.ids import AgentId, GroupId, checked_id
from cloister.core.rights import Reader
from cloister.index.entity_weights import ModelSettings
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry
from cloister.search.published_statistics import (
    PublishedStatistics,
    contents_of,
    threshold_statistics,
)
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher, SearchOutcome

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
) -> dict[str, Any]:
    """Return what the command prints."""
    reader = Reader(AgentId(checked_id(user)), frozenset(GroupId(name) for name in groups))
    settings = SearchSettings(
        model=ModelSettings(model=model),
        statistics=statistics,
        selection=selection if n_servers is not None else "all",
        n_servers=n_servers,
        n_pods=n_pods,
    )
    published = _published(registry, threshold) if statistics == "global" else None
    with InProcessOverlay(registry.search_servers(), timeout_s=timeout_s) as overlay:
        searcher = Searcher(
            overlay.nodes_for_trusted(reader),
            settings=settings,
            published=published,
            ask=ask_within(timeout_s),
        )
        return _told(searcher.search(query, k=k, explain=explain), query, user)


def _published(registry: PodRegistry, threshold: int) -> PublishedStatistics:
    contents = [
        contents_of(registry.shard(name).snapshot(), name) for name in registry.server_ids()
    ]
    return threshold_statistics(contents, threshold=threshold)


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
    }
