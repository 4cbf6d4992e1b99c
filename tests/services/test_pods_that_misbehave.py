"""Pods whose servers lie, refuse or are slow take nothing of other pods' results from a search."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cloister.core.errors import CloisterError
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_drawing import ServedRanker
from cloister.index.analysis import TextAnalysis
from cloister.pods import registry as registry_module
from cloister.pods.datastore import LeftOut
from cloister.pods.folder_pod import FolderPod
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.pod_gate import PodGate
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_pod import SolidPod
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.services.first_ranker import first_ranker
from cloister.services.node.user_search import FoundPage, PageKeeping, Reach, UserSearch
from cloister.services.service_file import NodeSearchSettings
from cloister.store.database import Database
from pods.hostile_server import hostile_server

SERVER = ServerId("clinic-a")
NURSE = Reader(AgentId("nurse"))
LONG_AGO = formatdate(time.time() - 3600, usegmt=True)
PUBLIC = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
<#r> a acl:Authorization; acl:agentClass <http://xmlns.com/foaf/0.1/Agent>;
    acl:accessTo <{0}>; acl:default <{0}>; acl:mode acl:Read{1}."""
Fields = dict[str, bytes]


class SolidServer:
    """A pod of public documents; ``twist`` may change what an answer says."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.inherits = False  # the list of the pod itself holds for all
        self.group = ""
        self.status = b"200 OK"  # of documents
        self.takes_s = 0.0  # one after the other
        self.paths: list[str] = []
        self.twist: Callable[[str, Fields], None] = lambda path, fields: None
        self._lock = threading.Lock()

    def __call__(self, connection: socket.socket, path: str) -> None:
        self.paths.append(path)
        with self._lock:
            time.sleep(self.takes_s)
        fields = self._fields(f"http://localhost:{connection.getsockname()[1]}/p/", path)
        self.twist(path, fields)
        body, status = fields.pop("body"), fields.pop("status")
        lines = [b"HTTP/1.1 " + status, *(k.encode() + b": " + v for k, v in fields.items())]
        connection.sendall(b"\r\n".join([*lines, b"connection: close", b"", b""]) + body)

    def _fields(self, root: str, path: str) -> Fields:
        name = path.removeprefix("/p/")
        listed, list_of = name.removesuffix(".acl"), name + ".acl"
        has_list = not listed if self.inherits else listed in self.documents
        if path == "/p/":
            kind, body = "application/n-triples", self._listing(root)
        elif name.endswith(".acl") and has_list:
            kind, body = "text/turtle", PUBLIC.format(root + listed, self.group).encode()
        elif name in self.documents:
            kind, body = "text/plain", self.documents[name]
        else:
            return {"status": b"404 No", "content-length": b"0", "body": b""}
        return {
            "status": self.status if name in self.documents else b"200 OK",
            "content-type": kind.encode(),
            "content-length": str(len(body)).encode(),
            "etag": b'"1"',
            "date": formatdate(usegmt=True).encode(),
            "last-modified": LONG_AGO.encode(),
            "link": f'<{list_of}>; rel="acl"'.encode(),
            "body": body,
        }

    def _listing(self, root: str) -> bytes:
        contains = "<{0}> <http://www.w3.org/ns/ldp#contains> <{0}{1}> ."
        said = '<{0}{1}> <urn:changed> "{2}" .'
        lines = [
            line.format(root, name, LONG_AGO)
            for name in self.documents
            for line in (contains, said)
        ]
        return "\n".join(lines).encode()


class Scene(NamedTuple):
    registry: PodRegistry
    server: SolidServer
    root: str
    solid: RegisteredPod
    pages: Callable[[], FoundPage]

    def store(self) -> SolidPod:
        found = self.registry.datastore(self.solid)
        assert isinstance(found, SolidPod)
        return found

    def found_alone(self, query: str = "cough") -> list[DocId]:
        """Search as the command line does."""
        overlay = InProcessOverlay([self.registry.search_server(SERVER)], timeout_s=3.0)
        searcher = Searcher(
            overlay.nodes_for_trusted(NURSE),
            TextAnalysis(),
            SearchSettings(selection="all"),
            ask=ask_within(3.0),
        )
        found = searcher.search(query, k=10)
        assert not found.missing
        return [one.doc_id for one in found.results]


def shown_in(page: FoundPage) -> list[DocId]:
    assert not page.missing
    return [one.hit.doc_id for one in page.shown]


@contextmanager
def scene_with(
    place: Path,
    hostile: dict[str, bytes],
    honest: dict[str, str],
    *,
    keep_text: bool = False,
    gate: PodGate | None = None,
    inherits: bool = False,
    **settings: Any,
) -> Iterator[Scene]:
    server = SolidServer()
    server.documents, server.inherits = hostile, inherits
    with (
        hostile_server(server) as there,
        PodRegistry(place / "home") as registry,
        Database.open(place / "state.db") as database,
    ):
        root = there.address + "p/"
        bob = FolderPod.create(place / "bob", PodId("bob"), AgentId("bob"))
        for name, text in honest.items():
            bob.write(name, text, rights=Rights(owner=AgentId("bob"), public=True))
        fields = {"server_id": SERVER, "owner": "bob", "pod_id": "bob", "kind": "folder"}
        registry.add(RegisteredPod.model_validate(fields | {"address": str(place / "bob")}))
        solid = RegisteredPod(
            pod_id=root,
            owner="mallory",
            server_id=SERVER,
            kind="solid",
            address=root,
            credentials="-",
            keep_text=keep_text,
        )
        registry.add(solid)
        if gate is not None:
            registry._gates[PodId(root)] = gate
        client = SolidClient(gate=registry.gate(solid))
        registry._stores[root] = SolidPod(client, root, owner=AgentId("mallory"))
        for pod in registry.pods.values():
            assert registry.sync(pod).left_out == 0
        ranker = first_ranker(RankerSettings(n_features=len(PAGE_FEATURES)))
        own = InProcessOverlay([registry.search_server(SERVER)], timeout_s=3.0)
        search = UserSearch(
            Reach(SERVER, own, None, lambda reader: None, None),  # type: ignore[arg-type, return-value]
            PageKeeping(lambda: ServedRanker("0" * 64, ranker), ClickLog(database)),
            NodeSearchSettings(**settings),
        )
        yield Scene(registry, server, root, solid, lambda: search.search(NURSE, "cough"))


NASTY = [
    b"<http://[>",
    b'<http://[>; rel="acl"',
    b'<http://[::1>; rel="acl"',
    b'<\x01>; rel="acl"',
    b"<//[/x>;rel=acl",
    b'"\xe9"',
    b'"\xff\xfe"',
    "\N{SNOWMAN}".encode(),
    b"9" * 5_000,
    b"-1",
    b"",
    b"Mon, 99 Foo 99999 99:99:99 +9999999999999",
    b"Thu, 01 Jan 1970 00:00:00 -0000",
    b"text/html; charset=idna",
    b"a, <" * 10_000,
    b"(" * 10_000,
    *(bytes(random.Random(n).choices([*range(32, 256), 9], k=60)) for n in range(6)),
]
HEADERS = ("link", "etag", "last-modified", "date", "content-type", "content-length", "dpop-nonce")


@pytest.mark.parametrize("field", [*HEADERS, "content-encoding", "set-cookie", "status", "body"])
def test_whatever_a_server_says_in_a_field_a_search_shows_all_of_other_pods(
    field: str, tmp_path: Path
) -> None:
    gate = PodGate("mallory", n_failures=1_000_000)
    honest = {"b.txt": "dry cough"}
    with scene_with(tmp_path, {"a.txt": b"cough"}, honest, gate=gate) as scene:
        store = scene.store()
        for value in NASTY:
            for where in ("/p/a.txt", "/p/a.txt.acl"):

                def twist(
                    path: str, fields: Fields, value: bytes = value, where: str = where
                ) -> None:
                    if path == where:
                        fields[field] = value
                        if field == "body":
                            fields["content-length"] = str(len(value)).encode()

                scene.server.twist = twist
                store._access._lists.clear()
                for _ in range(2):  # what the first one leaves behind is sent by the second
                    assert DocId("bob/b.txt") in shown_in(scene.pages()), (field, value, where)
                assert DocId("bob/b.txt") in scene.found_alone(), (field, value, where)
                store._access._addresses.clear()  # as after a restart
                assert DocId("bob/b.txt") in shown_in(scene.pages()), (field, value, where)
                assert DocId("bob/b.txt") in scene.found_alone(), (field, value, where)
                left_out: list[LeftOut] = []
                store._known.clear()
                try:
                    listed = [one.doc_id for one in store.resources(left_out)]
                except CloisterError:
                    continue
                assert set(listed) | {one.name for one in left_out} <= {scene.root + "a.txt"}


@pytest.mark.parametrize(
    "group", ["http://[", "http://[::1", "\\u0001", "{root}\\u0001", "{root}g\\uD800", "a b", ""]
)
def test_whatever_group_a_list_names_a_search_shows_all_of_other_pods(
    group: str, tmp_path: Path
) -> None:
    with scene_with(tmp_path, {"a.txt": b"cough"}, {"b.txt": "dry cough"}) as scene:
        scene.server.group = f"; acl:agentGroup <{group.format(root=scene.root)}>"
        scene.store()._access._lists.clear()
        assert DocId("bob/b.txt") in shown_in(scene.pages())
        assert DocId("bob/b.txt") in scene.found_alone()
        assert len(list(scene.store().resources([]))) <= 1


def test_an_error_that_nobody_foresaw_is_the_fault_of_its_own_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    with scene_with(tmp_path, {"a.txt": b"cough"}, {"b.txt": "dry cough"}) as scene:
        monkeypatch.setattr(SolidPod, "text", fail)
        for _ in range(3):
            assert shown_in(scene.pages()) == ["bob/b.txt"]
        assert scene.registry.away_pods() == {scene.root}
    (tmp_path / "2").mkdir()
    with scene_with(tmp_path / "2", {"a.txt": b"cough"}, {"b.txt": "dry cough"}) as scene:
        monkeypatch.undo()
        monkeypatch.setattr(FolderPod, "version", fail)
        page = scene.pages()
        assert (shown_in(page), page.missing_pods) == ([scene.root + "a.txt"], ("bob",))


@pytest.mark.parametrize("refusal", ["403", "404", "too long", "revoked"])
def test_a_pod_that_refuses_all_that_the_index_has_of_it_empties_no_page(
    refusal: str, tmp_path: Path
) -> None:
    hostile = {f"{n}.txt": b"cough cough cough" for n in range(25)}
    honest = {f"{n}.txt": f"dry cough {n} of a patient who sleeps badly" for n in range(20)}
    with scene_with(tmp_path, hostile, honest) as scene:
        assert len(shown_in(scene.pages())) == 10
        if refusal == "too long":
            hostile |= dict.fromkeys(hostile, b"cough" + b"x" * 2_100_000)
        elif refusal == "revoked":
            scene.server.inherits = True
            scene.server.twist = lambda path, fields: fields.update(
                body=fields["body"].replace(b"acl:Read", b"acl:None")
            )
        else:
            scene.server.status = refusal.encode() + b" No"
        page = scene.pages()
        assert [name.partition("/")[0] for name in shown_in(page)] == ["bob"] * 10
        assert page.missing_pods == (scene.root,)
        assert [name.partition("/")[0] for name in scene.found_alone()] == ["bob"] * 10


def test_a_pod_that_hangs_leaves_time_to_fill_the_page_with_others(tmp_path: Path) -> None:
    hostile = {f"{n}.txt": b"cough cough cough" for n in range(25)}
    honest = {f"{n}.txt": f"dry cough {n} of a patient who sleeps badly" for n in range(20)}
    with scene_with(tmp_path, hostile, honest) as scene:
        scene.server.takes_s = 3.0
        assert [name.partition("/")[0] for name in scene.found_alone()] == ["bob"] * 10
        began = time.monotonic()
        page = scene.pages()
        assert time.monotonic() - began < 2.5
        assert [name.partition("/")[0] for name in shown_in(page)] == ["bob"] * 10
        assert page.missing_pods == (scene.root,)


def test_a_document_that_cannot_be_shown_is_not_asked_for_again_at_once(tmp_path: Path) -> None:
    now = [0.0]
    gate = PodGate("there", clock=lambda: now[0])
    with scene_with(tmp_path, {"a.txt": b"cough"}, {"b.txt": "dry cough"}, gate=gate) as scene:
        scene.server.documents["a.txt"] = b"cough" + b"x" * 2_100_000
        n_asked = []
        for later_s in (0.0, 1.0, 60.0, 1.0):
            now[0] += later_s
            scene.server.paths.clear()
            assert shown_in(scene.pages()) == ["bob/b.txt"]
            n_asked.append(scene.server.paths.count("/p/a.txt"))
        assert n_asked[0] == n_asked[2] > 0
        assert n_asked[1] == n_asked[3] == 0


def test_a_pod_that_refuses_a_few_documents_shows_the_rest(tmp_path: Path) -> None:
    hostile = {f"{n}.txt": b"cough cough" for n in range(9)}
    with scene_with(tmp_path, hostile, {"b.txt": "dry cough"}) as scene:
        refused = {"/p/1.txt", "/p/5.txt", "/p/7.txt"}
        scene.server.twist = lambda path, fields: fields.update(
            status=b"403 No" if path in refused else fields["status"]
        )
        page = scene.pages()
        assert (len(shown_in(page)), page.missing_pods) == (7, ())
        assert len(scene.found_alone()) == 7


@pytest.mark.parametrize("keep_text", [False, True])
def test_a_page_of_one_pod_takes_few_requests_and_a_server_that_answers_in_time_shows_it(
    keep_text: bool, tmp_path: Path
) -> None:
    hostile = {f"{n}.txt": b"dry cough" for n in range(10)}
    nothing = {"b.txt": "nothing"}
    with scene_with(tmp_path, hostile, nothing, keep_text=keep_text, inherits=True) as scene:
        scene.pages()
        scene.server.paths.clear()
        assert len(shown_in(scene.pages())) == 10
        assert len(scene.server.paths) == (31 if keep_text else 32)
        assert scene.server.paths.count("/p/.acl") == (1 if keep_text else 2)
        scene.server.takes_s = 0.012
        for _ in range(3):
            assert len(shown_in(scene.pages())) == 10
        scene.server.takes_s = 0.05  # too slow for a page, but each answer comes in time
        for _ in range(4):
            page = scene.pages()
            assert page.missing_pods == (scene.root,)
            assert len(shown_in(page)) < 10
            time.sleep(0.3)
        assert scene.registry.gate(scene.solid).state().state == "closed"


def test_rights_that_are_taken_away_while_texts_are_read_show_nothing(tmp_path: Path) -> None:
    hostile = {f"{n}.txt": b"dry cough" for n in range(6)}
    with scene_with(tmp_path, hostile, {"b.txt": "nothing"}, inherits=True) as scene:
        assert len(shown_in(scene.pages())) == 6

        def twist(path: str, fields: Fields) -> None:
            if path == "/p/.acl" and "/p/3.txt" in scene.server.paths:
                fields["body"] = fields["body"].replace(b"acl:Read", b"acl:None")
                fields["etag"] = b'"2"'

        scene.server.paths.clear()
        scene.server.twist = twist
        assert shown_in(scene.pages()) == []


def test_all_that_a_server_misses_in_one_search_is_one_failure(tmp_path: Path) -> None:
    hostile = {f"{n}.txt": b"dry cough" for n in range(10)}
    with scene_with(tmp_path, hostile, {"b.txt": "dry cough"}) as scene:
        gate = scene.registry.gate(scene.solid)
        scene.server.status = b"500 No"
        for n_failed in (1, 2, 3):
            assert gate.state().state == "closed"
            assert shown_in(scene.pages()) == ["bob/b.txt"]
            assert n_failed - 1 < gate._failed <= n_failed
        assert gate.state().state == "open"


def test_a_folder_on_a_disk_that_hangs_keeps_nobody_from_other_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene_with(tmp_path, {"a.txt": b"cough"}, {"b.txt": "dry cough"}) as scene:
        for name in ("carl", "dora"):
            pod = FolderPod.create(tmp_path / name, PodId(name), AgentId(name))
            rights = Rights(owner=AgentId(name), public=True)
            pod.write("c.txt", "a cough", rights=rights)
            fields = {"server_id": SERVER, "owner": name, "pod_id": name, "kind": "folder"}
            registered = RegisteredPod.model_validate(fields | {"address": str(tmp_path / name)})
            scene.registry.add(registered)
            scene.registry.sync(registered)
        others = {scene.root + "a.txt", "carl/c.txt", "dora/c.txt"}
        assert set(shown_in(scene.pages())) == others | {"bob/b.txt"}
        scene.registry._stores.pop(str(tmp_path / "bob"))  # as at the start of a node
        hangs = threading.Event()
        opened = registry_module._folder_pod

        def hung(pod: RegisteredPod) -> FolderPod:
            hangs.wait(30.0)
            return opened(pod)

        monkeypatch.setattr(registry_module, "_folder_pod", hung)
        syncing = threading.Thread(target=scene.registry.sync, args=(scene.registry.pod("bob"),))
        syncing.start()
        for _ in range(3):
            began = time.monotonic()
            page = scene.pages()
            assert set(shown_in(page)) == others
            assert page.missing_pods == ("bob",)
            assert time.monotonic() - began < 2.5
        assert scene.registry.away_pods() == {"bob"}
        began = time.monotonic()
        assert set(shown_in(scene.pages())) == others
        assert time.monotonic() - began < 0.5  # nobody waits for it any more
        hangs.set()
        syncing.join()
