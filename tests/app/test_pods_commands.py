"""``cloister pods``, ``search``, ``grant`` and ``revoke`` as people use them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.outcome import Run
from cloister.core.ids import DocId
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.folder_pod import FolderPod
from cloister.pods.pod_gate import PodAway

NOTES = {
    "visit1.txt": "cough and fever since monday, asthma likely",
    "visit2.txt": "no cough, knee pain",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Run) -> Path:
    """Two pods on two servers."""
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    for name, text in NOTES.items():
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / name).write_text(text)
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "a.txt").write_text("bob has asthma and a cough")
    assert call("pods", "add", str(tmp_path / "notes"), "--owner", "ann").code == 0
    assert (
        call("pods", "add", str(tmp_path / "bob"), "--owner", "bob", "--server", "south").code == 0
    )
    return tmp_path


def found(call: Run, user: str, query: str, *options: str) -> list[str]:
    return [one["doc_id"] for one in answer(call, user, query, *options)["results"]]


def answer(call: Run, user: str, query: str, *options: str) -> dict[str, Any]:
    outcome = call("search", "--as", user, query, "--json", *options)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.mark.usefixtures("home")
def test_each_user_finds_what_that_user_may_read(call: Run):
    assert found(call, "ann", "asthma cough") == ["notes/visit1.txt", "notes/visit2.txt"]
    assert found(call, "bob", "asthma cough") == ["bob/a.txt"]
    assert found(call, "eve", "asthma cough") == []


@pytest.mark.parametrize(
    "before",
    [
        ("pods", "list"),
        ("pods", "add", "plain.txt"),
        ("pods", "add", "http://localhost:1/a/", "--credentials", "none.json"),
        ("search", "cough", "--as", "ann"),
    ],
)
def test_a_command_before_the_first_pod_leaves_nothing_in_the_way_of_it(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...]
):
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.txt").write_text("cough")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("cough")
    call(*before)
    assert not (tmp_path / "home").exists()
    assert call("pods", "add", "notes", "--owner", "ann").code == 0
    assert found(call, "ann", "cough") == ["notes/a.txt"]


def test_a_home_in_which_a_lock_alone_was_left_takes_its_first_pod(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".syncs.lock").touch()
    (tmp_path / "notes").mkdir()
    assert call("pods", "add", str(tmp_path / "notes"), "--owner", "ann").code == 0


def test_a_pod_that_stops_to_answer_while_it_is_added_keeps_what_is_indexed(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    (tmp_path / "notes").mkdir()
    for number in range(6):
        (tmp_path / "notes" / f"{number}.txt").write_text("cough")
    whole = FolderPod.content

    def tired(pod: FolderPod, doc_id: DocId) -> RawDocument:
        if doc_id > "notes/3":
            raise PodAway("the server does not answer")
        return whole(pod, doc_id)

    monkeypatch.setattr(FolderPod, "content", tired)
    outcome = call("pods", "add", str(tmp_path / "notes"), "--owner", "ann")
    assert outcome.code == 0
    assert "3 of 6 new or changed documents are indexed" in " ".join(outcome.err.split())
    assert len(found(call, "ann", "cough")) == 3
    assert call("pods", "sync").code == 1
    monkeypatch.setattr(FolderPod, "content", whole)
    assert call("pods", "sync").code == 0
    assert len(found(call, "ann", "cough")) == 6


def test_files_that_are_left_out_are_named_with_the_reason(call: Run, home: Path):
    notes = home / "notes"
    (notes / "scan.pdf").write_bytes(b"%PDF")
    (notes / "latin.txt").write_bytes("früh".encode("latin-1"))
    shown = " ".join(call("pods", "sync", "notes").err.split())
    assert "left out: notes/scan.pdf: no text of a kind that is read" in shown
    assert "left out: notes/latin.txt: not UTF-8" in shown
    (synced,) = json.loads(call("pods", "sync", "notes", "--json").out)["synced"]
    assert synced["left_out"] == 2
    assert {"name": "notes/latin.txt", "reason": "not UTF-8"} in synced["left_out_files"]
    (notes / "key.txt").write_text(f"cough {'x' * 65}")
    again = call("pods", "sync", "notes", "--json").out
    assert json.loads(again)["synced"][0]["long_words"] == ["notes/key.txt"]
    (notes / "key.txt").write_text(f"fever {'x' * 65}")
    why = "words of more than 64 letters are not indexed"
    shown = " ".join(call("pods", "sync", "notes").err.split())
    assert f"indexed in part: notes/key.txt: {why}" in shown
    for number in range(30):
        (notes / f"{number}.pdf").write_bytes(b"%PDF")
    assert "notes: 12 more are left out; --json names all" in call("pods", "sync", "notes").err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("model", ["bm25", "lm", "tfidf-cosine", "tfidf-euclidean"])
@pytest.mark.parametrize("statistics", ["user", "global"])
def test_every_model_and_statistics_keep_to_the_rights(call: Run, model: str, statistics: str):
    options = ("--model", model, "--statistics", statistics, "--servers", "1", "--threshold", "2")
    assert sorted(found(call, "ann", "cough", *options)) == ["notes/visit1.txt", "notes/visit2.txt"]
    assert found(call, "eve", "cough", *options) == []


@pytest.mark.usefixtures("home")
def test_a_grant_holds_for_the_next_search_and_so_does_its_end(call: Run):
    assert call("grant", "notes/visit1.txt", "--to", "eve").code == 0
    assert found(call, "eve", "asthma") == ["notes/visit1.txt"]
    assert call("revoke", "notes/visit1.txt", "--from", "eve").code == 0
    assert found(call, "eve", "asthma") == []
    assert found(call, "ann", "asthma") == ["notes/visit1.txt"]


@pytest.mark.usefixtures("home")
def test_what_is_public_is_found_by_everybody_until_it_is_not(call: Run):
    assert call("grant", "bob/a.txt", "--public").code == 0
    assert found(call, "stranger", "asthma") == ["bob/a.txt"]
    assert call("revoke", "bob/a.txt", "--public").code == 0
    assert found(call, "stranger", "asthma") == []


@pytest.mark.usefixtures("home")
def test_what_is_not_there_and_what_is_not_known_are_refused_alike(call: Run):
    names = ("notes/visit9.txt", "carl/a.txt", "../notes/visit1.txt")
    errors = {call("grant", one, "--to", "eve", "--json").out.replace(one, "X") for one in names}
    assert len(errors) == 1
    assert "no such document" in errors.pop()


def test_an_acl_changed_by_hand_is_taken_over_by_a_sync_though_the_text_is_the_same(
    call: Run, home: Path
):
    assert call("grant", "notes/visit2.txt", "--to", "eve").code == 0
    acl = home / "notes" / "visit2.txt.acl"
    acl.write_text(acl.read_text().replace("eve", "eva"))
    assert found(call, "eve", "knee") == []  # the pod is asked before a text is shown
    synced = json.loads(call("pods", "sync", "--json").out)["synced"]
    assert {one["pod"]: one["rights_changed"] for one in synced} == {"notes": 1, "bob": 0}
    assert found(call, "eva", "knee") == ["notes/visit2.txt"]


def test_changed_and_deleted_files_follow_at_the_next_sync(call: Run, home: Path):
    (home / "notes" / "visit1.txt").write_text("measles")
    (home / "notes" / "visit2.txt").unlink()
    (home / "notes" / "visit3.txt").write_text("mumps")
    (synced,) = json.loads(call("pods", "sync", "notes", "--json").out)["synced"]
    assert (synced["added"], synced["changed"], synced["deleted"]) == (1, 1, 1)
    assert found(call, "ann", "measles mumps cough") == ["notes/visit1.txt", "notes/visit3.txt"]


@pytest.mark.usefixtures("home")
def test_the_parts_of_an_explained_score_add_up(call: Run):
    for one in answer(call, "ann", "asthma cough", "--explain")["results"]:
        assert sum(part["weight"] for part in one["explanation"]["terms"]) == one["score"]
    shown = call("search", "--as", "ann", "asthma cough", "--explain").out
    assert "in 1 of 2 documents" in shown


def test_a_pod_that_is_taken_out_is_found_no_more(call: Run, home: Path):
    assert json.loads(call("pods", "remove", "bob", "--json").out)["removed"] == 1
    assert found(call, "bob", "asthma") == []
    assert (home / "bob" / "a.txt").exists()
    listed = json.loads(call("pods", "list", "--json").out)["pods"]
    assert [one["pod"] for one in listed] == ["notes"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("search", "asthma"), 2, "--as"),
        (("search", "--as", "ann", "asthma", "-k", "0"), 2, "-k"),
        (("search", "--as", "a b", "asthma"), 2, "id"),
        (("search", "--as", "ann", "asthma", "--model", "magic"), 2, "--model"),
        (("grant", "notes/visit1.txt"), 2, "agent"),
        (("pods", "sync", "nowhere"), 2, "no such pod"),
        (("pods", "add", "nowhere"), 2, "no such folder"),
        (("pods", "add", "https://example.invalid/ann/"), 2, "credentials"),
    ],
)
def test_wrong_input_is_told_with_what_to_do(call: Run, arguments, code: int, word: str):
    outcome = call(*arguments)
    assert outcome.code == code
    assert word in outcome.err


def test_a_folder_that_is_no_pod_needs_an_owner_and_a_name_is_used_once(call: Run, home: Path):
    (home / "more").mkdir()
    assert "--owner" in call("pods", "add", str(home / "more")).err
    again = call("pods", "add", str(home / "notes"))
    assert again.code == 2
    assert "this name" in again.err


@pytest.mark.usefixtures("home")
def test_a_query_of_stop_words_finds_nothing_and_is_no_error(call: Run):
    assert found(call, "ann", "the of and") == []


def test_somebody_who_leaves_a_group_loses_what_the_group_may_read(call: Run, home: Path):
    groups = home / "notes" / ".groups.ttl"
    member = "<urn:cloister:group:ward> <http://www.w3.org/2006/vcard/ns#hasMember>"
    groups.write_text(f"{member} <urn:cloister:agent:nina>.")
    assert call("grant", "notes/visit1.txt", "--group", "ward").code == 0
    assert call("grant", "notes/visit1.txt", "--to", "eve").code == 0
    assert found(call, "nina", "asthma") == ["notes/visit1.txt"]
    groups.write_text("")
    assert found(call, "nina", "asthma") == []
    assert call("pods", "sync").code == 0
    assert found(call, "nina", "asthma") == []
    assert found(call, "eve", "asthma") == ["notes/visit1.txt"]


def test_a_server_cannot_be_named_out_of_the_home(call: Run, home: Path):
    (home / "more").mkdir()
    outcome = call("pods", "add", str(home / "more"), "--owner", "ann", "--server", "../there")
    assert outcome.code == 2
    assert "folder" in outcome.err
    assert not (home / "there").exists()


def test_a_pod_that_is_gone_costs_its_documents_only(call: Run, home: Path):
    assert call("grant", "bob/a.txt", "--to", "ann").code == 0
    (home / "bob").rename(home / "away")
    assert found(call, "ann", "asthma") == ["notes/visit1.txt"]
    outcome = call("pods", "sync", "--json")
    assert outcome.code == 0
    assert [one["pod"] for one in json.loads(outcome.out)["failed"]] == ["bob"]


def test_a_pod_that_does_not_answer_is_named_to_whom_it_holds_something_for(
    call: Run, home: Path, monkeypatch: pytest.MonkeyPatch
):
    assert call("grant", "bob/a.txt", "--to", "ann").code == 0
    answers = FolderPod.version

    def fail(pod: FolderPod, *arguments: Any) -> str:
        if pod.pod_id == "bob":
            raise PodAway("the folder does not answer", where="bob")
        return answers(pod, *arguments)

    monkeypatch.setattr(FolderPod, "version", fail)
    for user, results, missing in (
        ("ann", ["notes/visit1.txt"], ["bob"]),
        ("bob", [], ["bob"]),
        ("eve", [], []),
    ):
        told = answer(call, user, "asthma")
        assert ([one["doc_id"] for one in told["results"]], told["missing_pods"]) == (
            results,
            missing,
        )
        shown = call("search", "--as", user, "asthma")
        assert ("no answer from the pods: bob" in shown.err) == bool(missing)
        assert ("nothing found" in shown.err) == (not results)
        assert ("servers and pods that answered" in shown.err) == (not results and bool(missing))


def test_a_text_that_was_changed_is_indexed_before_others_get_to_read_it(call: Run, home: Path):
    (home / "notes" / "visit1.txt").write_text("knee pain")
    told = call("grant", "notes/visit1.txt", "--to", "eve", "--json")
    assert told.json["documents"][0]["agents"] == ["eve"]
    assert found(call, "eve", "asthma") == []  # the old text was never meant for Eve
    assert found(call, "eve", "knee") == ["notes/visit1.txt"]
    (home / "notes" / "visit1.txt").write_text("hip pain")
    assert "may be read by ann" in call("revoke", "notes/visit1.txt", "--from", "eve").err
    assert found(call, "ann", "hip") == ["notes/visit1.txt"]
    assert found(call, "eve", "hip") == found(call, "eve", "knee") == []


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--owner", "eve", "--pod", "notes"), "of this name"),
        (("--owner", "eve", "--pod", "notes/visit1"), "begins as that of the pod 'notes'"),
        (("--owner", "eve", "--server", "a b"), "a server's name"),
        (("--owner", "e v e"), "blank"),
        ((), "--owner"),
    ],
)
def test_a_folder_that_cannot_be_added_stays_as_it_is(
    call: Run, home: Path, options: tuple[str, ...], word: str
):
    (home / "more").mkdir()
    outcome = call("pods", "add", str(home / "more"), *options)
    assert outcome.code == 2
    assert word in outcome.err
    assert list((home / "more").iterdir()) == []
    assert call("pods", "add", str(home / "more"), "--owner", "eve", "--pod", "eves").code == 0


def test_pods_lie_apart_by_whatever_way_they_are_named(call: Run, home: Path):
    (home / "notes" / "inner").mkdir()
    (home / "link").symlink_to(home / "notes")
    for place in (home / "notes" / "inner", home, home / "link", home / "bob" / ".." / "notes"):
        outcome = call("pods", "add", str(place), "--owner", "eve", "--pod", "eves")
        assert outcome.code == 2, place
    assert list((home / "notes" / "inner").iterdir()) == []


def test_a_folder_that_says_it_is_another_pod_takes_no_document_from_it(call: Run, home: Path):
    described = (home / "notes" / ".pod.json").read_text()
    (home / "bob" / ".pod.json").write_text(described)
    (home / "bob" / "visit1.txt").write_text("forged")
    told = call("pods", "sync", "--json").json
    assert [one["pod"] for one in told["failed"]] == ["bob"]
    assert "another pod" in told["failed"][0]["error"]
    assert found(call, "ann", "asthma") == ["notes/visit1.txt"]
    assert found(call, "ann", "forged") == []


def test_what_is_shown_of_pods_and_rights_is_so(call: Run, home: Path):
    listed = call("pods", "list").out.splitlines()
    (line,) = [line for line in listed if line.split()[:1] == ["bob"]]
    assert line.split()[:6] == ["bob", "south", "bob", "folder", "1", "no"]
    assert "read by nobody" in call("revoke", "bob/a.txt", "--from", "bob").err
    (home / "bob" / "a.txt.acl").write_text(
        "@prefix acl: <http://www.w3.org/ns/auth/acl#>. <#r> a acl:Authorization;"
        " acl:agentClass acl:AuthenticatedAgent; acl:accessTo <./a.txt>; acl:mode acl:Read."
    )
    told = call("grant", "bob/a.txt", "--to", "bob").err
    assert "read by bob, everybody with a verified identity" in " ".join(told.split())
    assert call("grant", "bob/a.txt", "--to", "").code == 2


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("address", "issuer", "word", "code"),
    [
        ("http://localhost:1/ann/", '"http://localhost:1/"', "does not answer", 1),
        ("http://localhost:1/ann", '"http://localhost:1/"', "slash", 2),
        ("http://localhost:1/ann/", "5", "no client credentials", 1),
        ("http://localhost:1/ann/", '"http://pods.example/"', "https", 1),
    ],
)
def test_a_solid_pod_that_cannot_be_indexed_is_not_added(
    call: Run, tmp_path: Path, address: str, issuer: str, word: str, code: int
):
    file = tmp_path / "credentials.json"
    secret = '"client_id": "i", "client_secret": "hidden", "web_id": "http://localhost:1/a#me"'
    file.touch(mode=0o600)
    file.write_text(f'{{"issuer": {issuer}, {secret}}}')
    outcome = call("pods", "add", address, "--credentials", str(file))
    assert outcome.code == code
    assert word in outcome.err
    assert "hidden" not in outcome.err
    assert len(call("pods", "list", "--json").json["pods"]) == 2


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_credentials_that_others_may_read_or_write_are_not_used(
    call: Run, tmp_path: Path, mode: int
):
    file = tmp_path / "credentials.json"
    file.write_text("{}")
    file.chmod(mode)
    outcome = call("pods", "add", "http://localhost:1/ann/", "--credentials", str(file))
    assert outcome.code == 1
    assert "others may read or write" in outcome.err
    assert f"chmod 600 {file}" in outcome.err


def test_with_a_damaged_index_no_command_stops_half_way(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    for name in ("pod", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("cough")
    assert call("pods", "add", str(tmp_path / "pod"), "--owner", "bob").code == 0
    index = tmp_path / "home" / "servers" / "home"
    (index / "CURRENT").write_bytes(b"damaged")
    listed = (tmp_path / "home" / "pods.json").read_bytes()
    commands = (("remove", "pod"), ("add", str(tmp_path / "new"), "--owner", "bob"), ("sync",))
    for command in commands:
        refused = call("pods", *command, "--json")
        assert refused.code == 1
        assert str(index) in refused.json["error"]
        assert "cloister pods sync" in refused.json["remedy"]
    assert (tmp_path / "home" / "pods.json").read_bytes() == listed
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]
    shutil.rmtree(index)  # as the remedy says
    assert call("pods", "sync").code == 0
    assert "pod/a.txt" in call("search", "cough", "--as", "bob").out
