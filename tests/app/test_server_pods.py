"""Index resources in pods, and tables in the servers' own pods, as people use them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.outcome import Run
from cloister.app.granting import change_rights
from cloister.app.pods_adding import add_server_pod, made_pod, registered_pod
from cloister.app.pods_syncing import synced
from cloister.core.errors import StoreError
from cloister.core.ids import AgentId, PodId, ServerId
from cloister.core.rights import Reader
from cloister.pods.espresso_pod import EspressoPod
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import PodRegistry
from cloister.pods.search_server import SearchServer
from cloister.search.node import SubQuery

TEXTS = {
    "north": {"a.txt": "cough and fever", "b.txt": "cough cough cough"},
    "south": {"a.txt": "asthma and a cough"},
    "west": {"a.txt": "knee pain"},
}


class Scene(NamedTuple):
    folder: Path
    template: Path


TABLES = ("search", "--as", "ann", "x", "--from-pods", "-S", "1")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Three pods of Ann's on three servers, two of which Ben may read in part; made once."""
    base = tmp_path_factory.mktemp("server-pods")
    folder, template = base / "scene", base / "template"
    with PodRegistry(folder / "home") as registry:
        for server, files in TEXTS.items():
            pod = folder / f"pod-{server}"
            pod.mkdir(parents=True)
            for name, text in files.items():
                (pod / name).write_text(text)
            found = registered_pod(
                registry,
                str(pod),
                pod=None,
                owner="ann",
                server=server,
                credentials=None,
                index_in_pod=True,
            )
            with made_pod(found):
                registry.add(found)
            own = str(folder / f"own-{server}")
            add_server_pod(registry, server, own, owner=None, credentials=None)
        synced(registry, list(registry.pods.values()))
        shared = ["pod-north/a.txt", "pod-south/a.txt"]
        change_rights(registry, shared, ["ben"], [], public=False, give=True)
    shutil.copytree(folder, template)
    return Scene(folder, template)


@pytest.fixture
def home(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scene as it was made."""
    shutil.rmtree(scene.folder)
    shutil.copytree(scene.template, scene.folder)
    monkeypatch.setenv("CLOISTER_HOME", str(scene.folder / "home"))
    return scene.folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, type]]:
    """Write down which server was asked what."""
    made: list[tuple[str, type]] = []
    real = SearchServer.ask

    def ask(server: SearchServer, reader: Reader, request: Any) -> Any:
        made.append((server.server_id, type(request)))
        return real(server, reader, request)

    monkeypatch.setattr(SearchServer, "ask", ask)
    return made


def answer(call: Run, user: str, query: str, *options: str) -> dict[str, Any]:
    outcome = call("search", "--as", user, query, "--json", *options)
    assert outcome.code == 0, outcome.err
    return outcome.json


def found(told: dict[str, Any]) -> list[str]:
    return [one["doc_id"] for one in told["results"]]


def holders(folder: Path, *names: str) -> list[str]:
    """Return for whom a server's own pod has a table."""
    espresso = EspressoPod(FolderPod.open(folder))
    return sorted(espresso.stored(map(AgentId, (*names, ""))))


def test_pods_and_servers_pods_are_added_by_commands(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "a.txt").write_text("cough")
    added = call("pods", "add", str(tmp_path / "ann"), "--owner", "ann", "--index-in-pod", "--json")
    assert added.json["synced"][0]["pod_index_written"] == 1
    own = call("pods", "server-pod", "home", str(tmp_path / "own" / "home"), "--json")
    assert [one["made"] for one in own.json["tables"]] == [1]
    assert "yes" in call("pods", "list").out
    shown = call("pods", "sync")
    assert "tables made" in shown.out
    assert found(answer(call, "ann", "cough", "--from-pods", "-S", "1")) == ["ann/a.txt"]


def test_only_the_servers_chosen_by_tables_are_asked(
    call: Run, home: Path, asked: list[tuple[str, type]]
):
    told = answer(call, "ann", "cough", "--from-pods", "-S", "1")
    assert found(told) == ["pod-north/b.txt", "pod-north/a.txt"]
    assert asked == [("north", SubQuery)]
    assert told["servers_without_table"] == told["missing_nodes"] == []
    asked.clear()
    plain = answer(call, "ann", "cough", "--servers", "1")
    assert {name for name, _ in asked} == {"north", "south", "west"}
    assert plain["results"] == told["results"]


def test_each_user_goes_by_their_own_table(call: Run, home: Path, asked: list[tuple[str, type]]):
    told = answer(call, "ben", "cough asthma", "--from-pods", "-S", "3")
    assert found(told) == ["pod-south/a.txt", "pod-north/a.txt"]
    assert told["servers_without_table"] == ["west"]
    assert {name for name, _ in asked} == {"north", "south"}
    nothing = answer(call, "eve", "cough asthma", "--from-pods", "-S", "3")
    assert nothing["results"] == []
    assert nothing["servers_without_table"] == ["north", "south", "west"]
    assert holders(home / "own-north", "ann", "ben", "eve") == ["ann", "ben"]
    assert holders(home / "own-west", "ann", "ben", "eve") == ["ann"]
    shown = call("search", "--as", "ben", "asthma", "--from-pods", "-S", "1")
    assert "no table of this user on: west" in shown.err + shown.out


def test_a_revocation_takes_the_table_too_and_a_grant_makes_one(call: Run, home: Path):
    assert call("revoke", "pod-north/a.txt", "--from", "ben").code == 0
    assert holders(home / "own-north", "ann", "ben") == ["ann"]
    told = answer(call, "ben", "cough", "--from-pods", "-S", "3")
    assert found(told) == ["pod-south/a.txt"]
    assert told["servers_without_table"] == ["north", "west"]
    assert call("grant", "pod-west/a.txt", "--to", "ben").code == 0
    told = answer(call, "ben", "knee", "--from-pods", "-S", "3")
    assert (found(told), told["servers_without_table"]) == (["pod-west/a.txt"], ["north"])


def test_what_becomes_public_is_in_a_table_for_everybody_until_it_is_not(call: Run, home: Path):
    assert call("grant", "pod-west/a.txt", "--public").code == 0
    assert holders(home / "own-west", "ann") == ["", "ann"]
    assert found(answer(call, "eve", "knee", "--from-pods", "-S", "1")) == ["pod-west/a.txt"]
    assert call("revoke", "pod-west/a.txt", "--public").code == 0
    assert holders(home / "own-west", "ann") == ["ann"]
    assert found(answer(call, "eve", "knee", "--from-pods", "-S", "1")) == []


def test_a_sync_brings_tables_up_to_date(call: Run, home: Path):
    (home / "pod-west" / "b.txt").write_text("asthma asthma")
    synced = call("pods", "sync", "--json").json
    tables = {one["server"]: (one["made"], one["unchanged"]) for one in synced["tables"]}
    assert tables == {"north": (0, 2), "south": (0, 2), "west": (1, 0)}
    assert found(answer(call, "ann", "asthma", "--from-pods", "-S", "1")) == ["pod-west/b.txt"]
    acl = home / "pod-north" / "a.txt.acl"
    acl.write_text(acl.read_text().replace("ben", "bea"))
    synced = call("pods", "sync", "--json").json
    (north,) = (one for one in synced["tables"] if one["server"] == "north")
    assert (north["made"], north["unchanged"], north["removed"]) == (1, 1, 1)
    assert holders(home / "own-north", "ann", "bea", "ben") == ["ann", "bea"]


def test_between_syncs_a_table_may_be_old_and_documents_are_not(call: Run, home: Path):
    acl = home / "pod-south" / "a.txt.acl"
    acl.write_text(acl.read_text().replace("ben", "bea"))
    told = answer(call, "ben", "asthma", "--from-pods", "-S", "1")
    assert told["servers_asked"] == ["south"]  # as the old table says
    assert told["results"] == []  # as the pod says


def test_index_resources_follow_documents_by_every_command(call: Run, home: Path):
    index = home / "pod-north" / "a.txt.terms.bin"
    pod = FolderPod.open(home / "pod-north")
    ben = Reader(AgentId("ben"))
    assert pod.read_data(pod.data_id("a.txt.terms.bin"), ben) == index.read_bytes()
    assert call("revoke", "pod-north/a.txt", "--from", "ben").code == 0
    assert pod.modes(pod.data_id("a.txt.terms.bin"), ben) == frozenset()
    listed = call("pods", "list", "--json").json
    assert [one["index_in_pod"] for one in listed["pods"]] == [True] * 3
    assert [one["server"] for one in listed["server_pods"]] == ["north", "south", "west"]
    removed = call("pods", "remove", "pod-north", "--json").json
    assert (removed["removed"], removed["index_left"]) == (2, False)
    assert list((home / "pod-north").glob("*.bin*")) == []
    assert holders(home / "own-north", "ann", "ben") == []


def test_a_rebuilt_index_is_made_from_the_index_resources(call: Run, home: Path):
    for file in sorted((home / "home" / "servers" / "north").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (synced,) = call("pods", "sync", "pod-north", "--json").json["synced"]
    assert (synced["added"], synced["from_pod_index"]) == (2, 2)
    assert found(answer(call, "ann", "fever")) == ["pod-north/a.txt"]


def test_a_server_gives_its_pod_up_with_all_tables(call: Run, home: Path):
    assert call("pods", "server-pod", "north", "--remove", "--json").json["removed"] == 2
    assert holders(home / "own-north", "ann", "ben") == []
    told = answer(call, "ann", "cough", "--from-pods", "-S", "3")
    assert told["servers_without_table"] == ["north"]
    assert found(told) == ["pod-south/a.txt"]


def test_a_server_gives_a_pod_up_that_is_gone(call: Run, home: Path):
    shutil.rmtree(home / "own-north")
    told = call("pods", "server-pod", "north", "--remove", "--json").json
    assert (told["removed"], told["tables_left"]) == (0, True)
    assert call("pods", "server-pod", "north", "--remove").code == 2
    assert call("pods", "server-pod", "north", str(home / "own-again")).code == 0
    assert holders(home / "own-again", "ann", "ben") == ["ann", "ben"]


def test_tables_of_a_server_whose_last_pod_was_removed_go_with_the_next_sync(call: Run, home: Path):
    with PodRegistry(home / "home") as registry:
        registry.remove(PodId("pod-north"))  # as where the command was killed before the tables
    assert holders(home / "own-north", "ann", "ben") == ["ann", "ben"]
    assert call("pods", "sync").code == 0
    assert holders(home / "own-north", "ann", "ben") == []


def test_a_damaged_table_costs_its_server_and_a_pod_that_fails_keeps_no_right_alive(
    call: Run, home: Path, monkeypatch: pytest.MonkeyPatch
):
    for file in (home / "own-north" / "tables").glob("*.bin"):
        file.write_bytes(b"nonsense")
    told = answer(call, "ann", "cough", "--from-pods", "-S", "3")
    assert (told["missing_nodes"], found(told)) == (["north"], ["pod-south/a.txt"])

    def fails(*arguments: object) -> None:
        raise StoreError("the server does not answer")

    monkeypatch.setattr(EspressoPod, "forget", fails)
    monkeypatch.setattr(EspressoPod, "store", fails)
    revoked = call("revoke", "pod-south/a.txt", "--from", "ben", "--json")
    assert revoked.code == 0
    assert revoked.json["tables_failed"] == ["south"]
    assert found(answer(call, "ben", "asthma")) == []
    assert json.loads(call("pods", "sync", "--json").out)["tables_failed"] != []


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("search", "--as", "ann", "x", "--from-pods"), 2, "--servers"),
        ((*TABLES, "--model", "tfidf-cosine"), 2, "bm25"),
        ((*TABLES, "--group", "g"), 2, "--group"),
        (("search", "--as", "ann", "x", "--credentials", "f"), 2, "--from-pods"),
        (("pods", "server-pod", "north"), 2, "--remove"),
        (("pods", "server-pod", "a/b", "elsewhere"), 2, "no pod was added"),
        (("pods", "server-pod", "a", "https://pods.example/a/"), 2, "no pod was added"),
        (("pods", "server-pod", "nowhere", "elsewhere"), 2, "no pod was added"),
    ],
)
def test_wrong_usage_is_told_and_leaves_nothing(
    call: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    word: str,
):
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    outcome = call(*arguments)
    assert outcome.code == code
    assert word in outcome.err
    assert not (tmp_path / "elsewhere").exists()


def test_a_pod_has_one_use_and_a_server_one_pod(call: Run, home: Path):
    for arguments, word in (
        (("pods", "server-pod", "east", str(home / "pod-north")), "already"),
        (("pods", "add", str(home / "own-north"), "--owner", "ann"), "already"),
        (("pods", "server-pod", "north", str(home / "another")), "pod of its own"),
    ):
        outcome = call(*arguments)
        assert outcome.code == 2
        assert word in outcome.err
    assert not (home / "another").exists()


def test_versions_let_a_searcher_keep_what_it_has(home: Path):
    with PodRegistry(home / "home") as registry:
        server = next(one for one in registry.search_servers() if one.server_id == "north")
        ann = Reader(AgentId("ann"))
        assert server._version is not None
        assert server._version(ann) == registry.shard(ServerId("north")).view(ann).version
