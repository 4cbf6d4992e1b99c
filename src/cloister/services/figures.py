"""The figures of services for Prometheus: read when they are asked for, so that none is stale."""

from __future__ import annotations

import math
from collections.abc import Callable

from cloister.core.errors import CloisterError
from cloister.services.broker.published_tables import PublishedTables
from cloister.services.coordinator.coordinator import Coordinator
from cloister.services.node.node import Node
from cloister.web.metrics import ServiceMetrics

__all__ = ["broker_figures", "coordinator_figures", "node_figures"]


def node_figures(metrics: ServiceMetrics, node: Node) -> None:
    """Tell of a node: documents, pages of all users together, rounds, what waits on its ledger."""
    _add(metrics, "documents", "Documents in the index", lambda: node.n_documents)
    _add(metrics, "pods_away", "Pods that are left alone", lambda: node.n_pods_away)
    _add(metrics, "pods_hidden", "Pods not synced for too long", lambda: node.n_pods_hidden)
    _add(metrics, "slowest_sync_s", "Longest last sync of a pod", lambda: node.slowest_sync_s)
    _add(metrics, "pages", "Result pages that are kept", lambda: node.log.state().n_pages)
    _add(metrics, "pages_ready", "Pages to learn from", lambda: node.log.state().n_ready)
    _add(metrics, "last_round", "Last round begun here", lambda: node.last_round)
    _add(metrics, "ledger_entries", "Entries of the ledger", lambda: node.ledger.head().number)


def coordinator_figures(metrics: ServiceMetrics, coordinator: Coordinator) -> None:
    """Tell of a coordinator: rounds done and failed, nodes that are silent, trials."""
    _add(metrics, "rounds", "Rounds done", lambda: coordinator.federation.n_rounds)
    _add(metrics, "rounds_failed", "Rounds failed since start", lambda: coordinator.rounds.n_failed)
    _add(metrics, "spoilt_sums", "Sums discarded", lambda: coordinator.federation.log.n_spoilt())
    _add(metrics, "silent_nodes", "Nodes that are silent", lambda: len(coordinator.silent_nodes()))
    _add(metrics, "paused", "Whether the schedule stands", lambda: coordinator.rounds.paused)
    _add(metrics, "trial", "Whether a trial is under way", coordinator.on_trial)
    _add(metrics, "ledger_entries", "Entries of the ledger", coordinator.n_ledger_entries)


def broker_figures(metrics: ServiceMetrics, tables: PublishedTables) -> None:
    """Tell of a broker: nodes whose tables it holds."""
    _add(metrics, "tables", "Nodes whose tables are held", lambda: len(tables.held()))


def _add(metrics: ServiceMetrics, name: str, text: str, read: Callable[[], float]) -> None:
    def value() -> float:
        try:
            return float(read())
        except CloisterError:  # the store is away: no figure is better than an old one
            return math.nan

    metrics.gauge(name, text).set_function(value)
