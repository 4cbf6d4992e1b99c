"""The benchmark of the overlay, at a small size."""

from __future__ import annotations

import shutil
import signal
import sys

import pytest

from cloister.core.errors import MissingDependency
from cloister.core.ids import ServerId
from cloister.lab.bench import Figures, overlay, select
from cloister.lab.bench.child_process import child_process
from cloister.lab.bench.nats_federation import find_broker
from cloister.lab.bench.overlay import OverlaySize, measure
from cloister.pods.search_server import SearchServer

SIZE = OverlaySize(n_servers=3, n_pods=10, n_searches=15, n_processes=1)


def quiet(done: int, total: int) -> None:
    """Show nothing."""


@pytest.fixture(scope="module")
def figures() -> Figures:
    try:
        find_broker()
    except MissingDependency as error:
        pytest.skip(error.what)
    return measure(SIZE, quiet)


def test_the_same_is_found_through_the_broker_and_in_one_process(figures: Figures) -> None:
    assert figures["searches_that_differ"] == 0
    assert figures["searches_with_missing_nodes"] == 0
    assert figures["n_searches"] == SIZE.n_searches


def test_times_are_those_of_searches(figures: Figures) -> None:
    for name in ("nats", "nats_5_servers", "in_process"):
        assert 0 < figures[f"{name}_p50_ms"] <= figures[f"{name}_p95_ms"]
    assert figures["nats_searcher_cpu_ms_per_search"] > 0
    assert figures["nats_nodes_cpu_ms_per_search"] > 0


def test_a_stopped_and_a_killed_node_are_named_within_the_timeout(figures: Figures) -> None:
    assert figures["stopped_node_missing"] == figures["killed_node_missing"] == "server-0002"
    assert figures["timeout_s"] <= figures["stopped_node_answer_s"] < 3 * figures["timeout_s"]
    assert figures["killed_node_answer_s"] < 3 * figures["timeout_s"]


def test_a_node_that_answers_otherwise_is_found_out(
    figures: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes' processes serve what is right, this process something else."""
    asked = SearchServer.ask
    monkeypatch.setattr(
        SearchServer,
        "ask",
        lambda self, reader, request: (
            asked(self, reader, request)
            if self.server_id != ServerId("server-0001") or not hasattr(request, "k")
            else asked(self, reader, request)._replace(hits=())
        ),
    )
    assert measure(SIZE, quiet)["searches_that_differ"] > 0


def test_a_missing_broker_is_said_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(MissingDependency, match="install the package nats-server"):
        measure(SIZE, quiet)


def test_a_process_is_ended_when_something_goes_wrong() -> None:
    children = []

    def fail() -> None:
        with child_process([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
            children.append(child)
            assert child.poll() is None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert children[0].returncode == -signal.SIGKILL


def test_the_last_server_has_a_process_to_itself() -> None:
    names = [ServerId(f"s{n}") for n in range(6)]
    groups = overlay._groups(names, 2)
    assert groups == [["s0", "s2", "s4"], ["s1", "s3"], ["s5"]]
    assert overlay._groups(names[:1], 2) == [["s0"]]


def test_the_benchmark_has_a_name() -> None:
    assert select("overlay") == ("overlay",)
