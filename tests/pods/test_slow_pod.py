"""A pod's server that drips bytes costs its own documents, and nobody else's search anything."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.pods.folder_pod import FolderPod
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_pod import SolidPod
from cloister.pods.sync import sync
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from pods.hostile_server import HostileServer, answer, drip, hostile_server

SERVER = ServerId("clinic-a")
NURSE, EVE = Reader(AgentId("nurse")), Reader(AgentId("eve"))
LISTED = "<{0}> <http://www.w3.org/ns/ldp#contains> <{0}a.txt> ."
PUBLIC = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
<#r> a acl:Authorization; acl:agentClass <http://xmlns.com/foaf/0.1/Agent>;
    acl:accessTo <{}a.txt>; acl:mode acl:Read."""


class Mallory:
    """A pod of one public document, whose server drips when it is told to."""

    def __init__(self) -> None:
        self.slow = threading.Event()
        self.text = b"cough and fever"

    def __call__(self, connection: socket.socket, path: str) -> None:
        if self.slow.is_set():
            drip(connection, b"HTTP/1.1 200 OK\r\nX-Slow: ")
        root = f"http://localhost:{connection.getsockname()[1]}/p/"
        link = f'link: <{path.rsplit("/", 1)[1]}.acl>; rel="acl"'
        if path == "/p/":
            connection.sendall(answer(LISTED.format(root).encode(), "text/turtle", link))
        elif path == "/p/a.txt":
            connection.sendall(answer(self.text, "text/plain", link, 'etag: "1"'))
        elif path == "/p/a.txt.acl":
            connection.sendall(answer(PUBLIC.format(root).encode(), "text/turtle"))
        else:
            connection.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


class Scene(NamedTuple):
    registry: PodRegistry
    mallory: Mallory
    server: HostileServer
    root: str
    overlay: InProcessOverlay

    def search(self, reader: Reader, query: str) -> tuple[list[DocId], float]:
        began = time.monotonic()
        found = Searcher(
            self.overlay.nodes_for_trusted(reader),
            TextAnalysis(),
            SearchSettings(selection="all"),
            ask=ask_within(3.0),
        ).search(query, k=5)
        return [one.hit.doc_id for one in found.candidates], time.monotonic() - began


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    mallory = Mallory()
    with hostile_server(mallory) as server, PodRegistry(tmp_path / "home") as registry:
        root = server.address + "p/"
        bob = FolderPod.create(tmp_path / "bob", PodId("bob"), AgentId("bob"))
        rights = Rights(owner=AgentId("bob"), agents=frozenset({NURSE.agent_id}))
        bob.write("b.txt", "broken ankle, no cough", rights=rights)
        folder = RegisteredPod(
            pod_id="bob",
            owner="bob",
            server_id=SERVER,
            kind="folder",
            address=str(tmp_path / "bob"),
        )
        solid = RegisteredPod(
            pod_id=root, owner="m", server_id=SERVER, kind="solid", address=root, credentials="-"
        )
        registry.add(folder)
        registry.add(solid)
        registry._stores[root] = SolidPod(
            SolidClient(gate=registry.gate(solid)), root, owner=AgentId("m")
        )
        for pod in registry.pods.values():
            counts = sync(registry.datastore(pod), registry.shard(SERVER))
            assert counts.added == 1
        servers = [registry.search_server(SERVER)]
        with InProcessOverlay(servers, timeout_s=3.0) as overlay:
            made = Scene(registry, mallory, server, root, overlay)
            made.search(NURSE, "ankle")
            yield made
        mallory.slow.clear()


def test_a_dripping_server_takes_no_search_away_from_others(scene: Scene) -> None:
    assert scene.search(EVE, "cough")[0] == [scene.root + "a.txt"]
    scene.mallory.slow.set()
    threads = [threading.Thread(target=scene.search, args=(EVE, "cough")) for _ in range(12)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    found, took_s = scene.search(NURSE, "ankle")  # while all of them wait
    assert found == ["bob/b.txt"]
    assert took_s < 0.9
    for thread in threads:
        thread.join()
    found, took_s = scene.search(EVE, "cough")  # by now the server is left alone
    assert (found, took_s < 0.5) == ([], True)


def test_one_reader_who_waits_for_a_pod_does_not_keep_himself_waiting_for_another(
    scene: Scene,
) -> None:
    scene.mallory.slow.set()
    found, took_s = scene.search(NURSE, "cough")  # holds a readable one in both pods
    assert found == ["bob/b.txt"]
    assert took_s < 2.0


def test_the_pod_that_is_away_is_named_to_whom_it_would_have_shown_something(scene: Scene) -> None:
    scene.mallory.slow.set()

    def missing(query: str) -> tuple[str, ...]:
        (node,) = scene.overlay.nodes_for_trusted(NURSE)
        settings = SearchSettings(selection="all")
        searcher = Searcher([node], TextAnalysis(), settings, ask=ask_within(3.0))
        return searcher.search(query, k=5).missing_pods

    for _ in range(4):
        assert missing("cough") == (scene.root,)
    assert scene.registry.away_pods() == {scene.root}
    assert missing("cough") == (scene.root,)
    assert missing("ankle") == ()


def test_a_search_waits_a_moment_only_for_a_pod_on_probation(scene: Scene) -> None:
    gate = scene.registry.gate(scene.registry.pod(scene.root))
    scene.mallory.slow.set()
    while gate.state().state == "closed":
        scene.search(EVE, "cough")
    for _ in range(3):
        gate._until = time.monotonic()  # its rest is over
        assert not gate.is_away
        found, took_s = scene.search(EVE, "cough")
        assert (found, took_s < 0.4) == ([], True)
        while gate._n_searches:  # the trial goes on without anybody waiting
            time.sleep(0.05)
        assert gate.state().state == "open"
    scene.mallory.slow.clear()
    gate._until = time.monotonic()
    assert scene.search(EVE, "cough")[0] == [scene.root + "a.txt"]


def test_a_document_that_cannot_be_shown_is_no_candidate_for_a_while(scene: Scene) -> None:
    (node,) = scene.overlay.nodes_for_trusted(NURSE)
    searcher = Searcher([node], TextAnalysis(), SearchSettings(selection="all"), ask=ask_within(3))

    def candidates() -> list[DocId]:
        found = searcher.search("cough", k=5, with_texts=False)
        searcher.show("cough", found.candidates)
        return sorted(one.hit.doc_id for one in found.candidates)

    both = sorted(["bob/b.txt", scene.root + "a.txt"])
    assert candidates() == both
    scene.mallory.text = b"cough " * 500_000
    assert candidates() == both  # it is asked for, and too long
    asked = scene.server.n_requests
    assert candidates() == ["bob/b.txt"]
    assert scene.server.n_requests == asked
    gate = scene.registry.gate(scene.registry.pod(scene.root))
    gate._aside = dict.fromkeys(gate._aside, time.monotonic())  # a minute later
    scene.mallory.text = b"cough"
    assert [candidates(), candidates()] == [both, both]


def test_a_pod_that_was_not_synced_for_long_is_in_no_count_until_it_is_synced_again(
    scene: Scene,
) -> None:
    registry = scene.registry

    def n_documents() -> int:
        return int(registry._view(SERVER, EVE).level("document").n_entities)

    assert n_documents() == 1  # no interval, nothing is hidden
    registry.sync_s = 60.0
    assert n_documents() == 0  # never synced by the registry
    solid, version = registry.pod(scene.root), registry._view(SERVER, EVE).version
    registry.sync(solid)
    assert n_documents() == 1
    assert registry._view(SERVER, EVE).version != version
    registry.sync_times.flush()
    kept = registry.home / "syncs.json"
    times = json.loads(kept.read_text())
    kept.write_text(json.dumps({scene.root: [times[scene.root][0] - 181.0, 1.0]}))
    registry._hidden.clear()
    assert n_documents() == 0
    assert scene.search(EVE, "cough")[0] == []
