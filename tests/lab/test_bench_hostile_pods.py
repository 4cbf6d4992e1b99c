"""The benchmark of hostile pods, at its smallest size: real nodes, a real hostile server."""

from __future__ import annotations

from cloister.lab.bench import run_benchmark
from cloister.lab.bench.hostile_pod_server import KINDS


def test_honest_users_find_their_documents_while_hostile_pods_do_their_worst() -> None:
    figures = run_benchmark("hostile-pods", lambda done, total: None, quick=True)
    assert figures["honest_results_missing"] == 0
    assert figures["honest_results_missing_without_attack"] == 0
    assert figures["short_pages_without_attack"] == 0
    assert all(figures[f"asked_{kind}"] for kind in KINDS)
    assert figures["stop_wall_s"] < 15.0
