from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.deadline import within
from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError, StoreError
from cloister.core.ids import AgentId, DocId, GroupId, PodId
from cloister.core.rights import NOBODY, STRANGER, Reader, Rights
from cloister.pods import folder_pod
from cloister.pods.datastore import LeftOut
from cloister.pods.folder_pod import FolderPod
from cloister.pods.web_access_control import Mode

ANN, BOB, EVE = (Reader(AgentId(name)) for name in ("ann", "bob", "eve"))
PRIVATE = Rights(owner=ANN.agent_id)


@pytest.fixture
def pod(tmp_path: Path) -> FolderPod:
    return FolderPod.create(tmp_path / "pod", PodId("ann-pod"), ANN.agent_id)


def may_read(pod: FolderPod, doc_id: DocId, reader: Reader) -> bool:
    """Ask by every route; they must agree."""
    try:
        pod.read(doc_id, reader)
        by_reading = True
    except AccessDenied:
        by_reading = False
    found = pod.resource(doc_id)
    assert (Mode.READ in pod.modes(doc_id, reader)) is by_reading
    assert (found is not None and found.rights.allow(reader)) is by_reading
    listed = {resource.doc_id: resource for resource in pod.resources()}
    assert listed.get(doc_id) == found
    return by_reading


def test_a_new_document_is_its_owners_alone(pod: FolderPod) -> None:
    doc_id = pod.write("visits/2024.txt", "cough")
    assert may_read(pod, doc_id, ANN)
    assert not may_read(pod, doc_id, BOB)
    assert not may_read(pod, doc_id, STRANGER)


def test_grant_and_revoke_change_the_rights_tag_and_not_the_documents(pod: FolderPod) -> None:
    doc_id = pod.write("a.txt", "cough")
    before = pod.resource(doc_id)
    assert before is not None
    pod.set_rights(doc_id, before.rights.grant("bob"))
    granted = pod.resource(doc_id)
    assert granted is not None
    assert may_read(pod, doc_id, BOB)
    assert granted.etag == before.etag
    assert granted.rights_etag != before.rights_etag
    pod.set_rights(doc_id, granted.rights.revoke("bob"))
    assert not may_read(pod, doc_id, BOB)
    assert pod.resource(doc_id) == before


def test_a_changed_text_changes_the_documents_tag_alone(pod: FolderPod) -> None:
    before = pod.resource(pod.write("a.txt", "cough"))
    after = pod.resource(pod.write("a.txt", "fever"))
    assert before is not None
    assert after is not None
    assert before.etag != after.etag
    assert before[2:] == after[2:]


def test_a_refusal_and_an_absence_look_alike(pod: FolderPod) -> None:
    doc_id = pod.write("a.txt", "cough")
    errors = []
    for name in (doc_id, "ann-pod/b.txt", "ann-pod/../a.txt", "other/a.txt", "ann-pod/.acl", ""):
        with pytest.raises(AccessDenied) as refused:
            pod.read(DocId(name), EVE)
        errors.append(str(refused.value))
        if name != doc_id:
            for attempt in (pod.text, pod.delete, lambda name: pod.set_rights(name, NOBODY)):
                with pytest.raises(AccessDenied):
                    attempt(DocId(name))
    assert len(set(errors)) == 1


def test_the_files_of_the_pod_itself_are_no_documents(pod: FolderPod, tmp_path: Path) -> None:
    pod.write("a.txt", "cough", rights=PRIVATE)
    (tmp_path / "pod" / "scan.png").write_bytes(b"\x89PNG")
    assert {path.name for path in (tmp_path / "pod").iterdir()} > {".acl", "a.txt.acl", ".pod.json"}
    assert [resource.doc_id for resource in pod.resources()] == ["ann-pod/a.txt"]
    for name in (".acl", ".pod.json", "a.txt.acl", ".x/a.txt", "scan.png", "../a.txt", ""):
        with pytest.raises(SettingsError):
            pod.write(name, "")


def test_a_link_out_of_the_pod_is_no_document(pod: FolderPod, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "pod" / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert list(pod.resources()) == []
    with pytest.raises(AccessDenied):
        pod.read(DocId("ann-pod/link.txt"), ANN)


@pytest.mark.parametrize("damage", ["<#r> a", "", "\xff", "x" * 1_000_001, None])
def test_a_damaged_list_lets_nobody_read(
    pod: FolderPod, tmp_path: Path, damage: str | None
) -> None:
    doc_id = pod.write("a.txt", "cough")
    acl = tmp_path / "pod" / "a.txt.acl"
    if damage is None:
        acl.symlink_to(tmp_path / "pod" / ".acl")
    else:
        acl.write_text(damage, "latin-1")
    assert not may_read(pod, doc_id, ANN)
    pod.set_rights(doc_id, PRIVATE)  # the owner has Control, and mends it
    assert may_read(pod, doc_id, ANN)


def test_a_pod_without_a_list_lets_nobody_read(pod: FolderPod, tmp_path: Path) -> None:
    doc_id = pod.write("a.txt", "cough")
    (tmp_path / "pod" / ".acl").unlink()
    assert not may_read(pod, doc_id, ANN)


def test_members_of_a_group_file_may_read(pod: FolderPod, tmp_path: Path) -> None:
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE.grant_group("ward"))
    stated = Reader(EVE.agent_id, frozenset({GroupId("ward")}))
    assert may_read(pod, doc_id, stated)  # no list of members: the verified identity says it
    tag = pod.resource(doc_id)
    (tmp_path / "pod" / ".groups.ttl").write_text(
        "@prefix v: <http://www.w3.org/2006/vcard/ns#>.\n"
        "<urn:cloister:group:ward> v:hasMember <urn:cloister:agent:bob>."
    )
    assert may_read(pod, doc_id, BOB)
    assert not may_read(pod, doc_id, stated)  # the list says it, and nothing else
    changed = pod.resource(doc_id)
    assert tag is not None
    assert changed is not None
    assert tag.rights_etag != changed.rights_etag


@pytest.mark.parametrize(
    "listed",
    [
        "<urn:cloister:group:ward> a <http://www.w3.org/2006/vcard/ns#Group>.",
        "<urn:cloister:group:ward> a <http",
    ],
)
def test_the_last_to_leave_a_group_and_a_damaged_list_let_nobody_in_by_a_token(
    pod: FolderPod, tmp_path: Path, listed: str
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE.grant_group("ward"))
    (tmp_path / "pod" / ".groups.ttl").write_text(listed)
    assert not may_read(pod, doc_id, Reader(BOB.agent_id, frozenset({GroupId("ward")})))
    found = pod.resource(doc_id)
    assert found is not None
    assert not found.rights.groups
    assert may_read(pod, doc_id, ANN)


def test_grants_and_revocations_leave_groups_as_they_are(pod: FolderPod, tmp_path: Path) -> None:
    groups = tmp_path / "pod" / ".groups.ttl"
    member = "<urn:cloister:group:ward> <http://www.w3.org/2006/vcard/ns#hasMember>"
    groups.write_text(f"{member} <urn:cloister:agent:bob>.")
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE.grant_group("ward"))
    pod.grant(doc_id, EVE.agent_id)
    assert may_read(pod, doc_id, EVE)
    pod.revoke(doc_id, EVE.agent_id, BOB.agent_id)
    assert not may_read(pod, doc_id, EVE)
    assert may_read(pod, doc_id, BOB)  # by the group
    groups.write_text("")
    assert not may_read(pod, doc_id, BOB)
    assert may_read(pod, doc_id, ANN)


def test_a_name_that_is_too_long_for_an_id_is_refused(pod: FolderPod) -> None:
    with pytest.raises(SettingsError):
        pod.write("é" * 120 + ".txt", "cough")


def test_a_text_is_never_there_with_other_rights(
    pod: FolderPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever step fails, the old text has no new reader and the new text no old one."""
    everybody = Rights(public=True)
    steps = 0
    write = pod._files.write
    for secret, new in (("old", everybody), ("new", PRIVATE)):
        for crash_at in range(4):
            old = everybody if new is PRIVATE else PRIVATE
            doc_id = pod.write("a.txt", "old", rights=old)
            steps = 0

            def crashing(name: str, content: bytes, crash_at: int = crash_at) -> None:
                nonlocal steps
                steps += 1
                if steps > crash_at:
                    raise OSError
                write(name, content)

            monkeypatch.setattr(pod._files, "write", crashing)
            if crash_at < 3:
                with pytest.raises(OSError):  # noqa: PT011
                    pod.write("a.txt", "new", rights=new)
            else:
                pod.write("a.txt", "new", rights=new)
            monkeypatch.setattr(pod._files, "write", write)
            assert not (pod.text(doc_id) == secret and may_read(pod, doc_id, STRANGER))


def test_a_deleted_document_is_gone_with_its_list(pod: FolderPod, tmp_path: Path) -> None:
    doc_id = pod.write("a.txt", "cough", rights=Rights(public=True))
    pod.delete(doc_id)
    assert not may_read(pod, doc_id, ANN)
    assert not (tmp_path / "pod" / "a.txt.acl").exists()
    assert list(pod.resources()) == []


def test_a_pod_is_opened_again(pod: FolderPod, tmp_path: Path) -> None:
    doc_id = pod.write("a.txt", "cough")
    again = FolderPod.open(tmp_path / "pod")
    assert (again.pod_id, again.owner) == (pod.pod_id, pod.owner)
    assert again.read(doc_id, ANN) == "cough"
    with pytest.raises(SettingsError):
        FolderPod.create(tmp_path / "pod", PodId("x"), BOB.agent_id)
    with pytest.raises(NotFound):
        FolderPod.open(tmp_path)
    (tmp_path / "pod" / ".pod.json").write_text("{}")
    with pytest.raises(DataError):
        FolderPod.open(tmp_path / "pod")


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_any_name_makes_an_id_and_back(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("pod")
    pod = FolderPod.create(folder, PodId("p"), ANN.agent_id)
    try:
        doc_id = pod.write(name + ".txt", "cough", rights=PRIVATE.grant("bob"))
    except SettingsError:
        return
    assert [resource.doc_id for resource in pod.resources()] == [doc_id]
    assert may_read(pod, doc_id, BOB)
    assert not may_read(pod, doc_id, EVE)


def test_files_that_did_not_change_are_not_read_again_and_those_that_did_are(
    pod: FolderPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = [time.time_ns()]
    monkeypatch.setattr(time, "time_ns", lambda: now_ns[0])
    pod.write("a.txt", "cough")
    pod.write("b.txt", "fever")
    read: list[bytes] = []
    digest = folder_pod._digest
    monkeypatch.setattr(folder_pod, "_digest", lambda one: read.append(one) or digest(one))

    def listed() -> list[bytes]:
        read.clear()
        fresh = FolderPod.open(tmp_path / "pod")
        assert list(pod.resources()) == list(fresh.resources())
        return read[: len(read) - 2]  # the fresh one reads both

    assert listed() == [b"cough", b"fever"]
    assert listed() == [b"cough", b"fever"]  # they are so young that a change might not show
    now_ns[0] += 4_000_000_000
    assert listed() == [b"cough", b"fever"]
    assert listed() == []
    assert pod.confirm(DocId("ann-pod/a.txt"), ANN) == digest(b"cough")
    file = tmp_path / "pod" / "a.txt"
    times = file.stat()
    file.write_text("COUGH", encoding="utf-8")  # as long as before, and its times set back
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert pod.confirm(DocId("ann-pod/a.txt"), ANN) == digest(b"COUGH")
    assert listed() == []
    now_ns[0] += 3_600_000_000_000
    assert listed() == [b"COUGH", b"fever"]  # once in an hour
    (tmp_path / "pod" / "b.txt").unlink()
    assert [one.doc_id for one in pod.resources()] == ["ann-pod/a.txt"]


def test_a_document_with_too_many_readers_is_left_out_and_named(
    pod: FolderPod, tmp_path: Path
) -> None:
    doc_id = pod.write("a.txt", "cough")
    pod.write("b.txt", "cough")
    members = ", ".join(f"<x{n}:>" for n in range(1_500))
    (tmp_path / "pod" / ".groups.ttl").write_text(
        "@prefix vcard: <http://www.w3.org/2006/vcard/ns#>.\n"
        + "".join(f"<#{group}> vcard:hasMember {members}.\n" for group in "gh")
    )
    pod.grant(doc_id, groups=[GroupId("https://pod.invalid/.groups.ttl#g")])
    assert len(list(pod.resources())) == 2
    pod.grant(doc_id, groups=[GroupId("https://pod.invalid/.groups.ttl#h")])
    left_out: list[LeftOut] = []
    assert [one.doc_id for one in pod.resources(left_out)] == ["ann-pod/b.txt"]
    assert left_out == [LeftOut(doc_id, "more than 2,000 readers")]
    assert pod.resource(doc_id) is None


def n_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_folders_in_folders_are_cut_at_a_depth_and_hold_no_files_open(
    pod: FolderPod, tmp_path: Path
) -> None:
    pod.write("a.txt", "cough")
    folder = os.open(tmp_path / "pod", os.O_RDONLY)
    n_open = n_open_files()
    for _ in range(60):
        os.mkdir("x", dir_fd=folder)
        inner = os.open("x", os.O_RDONLY, dir_fd=folder)
        os.close(os.open("b.txt", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.close(folder)
        folder = inner
    os.close(folder)
    left_out: list[LeftOut] = []
    found = []
    for one in pod.resources(left_out):
        found.append(one.doc_id)
        assert n_open_files() < n_open + 5
    assert len(found) == 34
    assert left_out == [LeftOut("ann-pod/" + "x/" * 33, "more than 32 folders deep")]


@pytest.mark.parametrize(
    ("limit", "value", "n_listed", "reason"),
    [
        ("pod_files.MAX_FOLDERS", 3, 6, "more than 3 folders"),
        ("folder_pod.MAX_DOCUMENTS", 7, 7, "more than 7 documents"),
        ("pod_files.MAX_NAMES", 14, 6, "more than 14 files"),
    ],
)
def test_a_pod_of_too_many_files_is_cut_and_named(
    pod: FolderPod,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
    n_listed: int,
    reason: str,
) -> None:
    for number in range(10):
        pod.write(f"{number % 5}/{number}.txt", "cough")
    pod.write("a.txt", "cough")
    pod.write("b.txt", "cough")
    assert len(list(pod.resources())) == 12
    monkeypatch.setattr(f"cloister.pods.{limit}", value, raising=False)
    left_out: list[LeftOut] = []
    assert len(list(pod.resources(left_out))) == n_listed
    assert {one.reason for one in left_out} == {reason}


def test_a_folder_whose_name_is_no_text_is_left_out(pod: FolderPod, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "pod") + b"/\xff"
    Path(os.fsdecode(folder)).mkdir()
    Path(os.fsdecode(folder), "a.txt").write_text("cough")
    pod.write("b.txt", "cough")
    assert [one.doc_id for one in pod.resources()] == ["ann-pod/b.txt"]


def test_a_folder_that_is_not_listed_in_time_is_an_error(pod: FolderPod) -> None:
    pod.write("a.txt", "cough")
    with within(0.0), pytest.raises(StoreError, match="not listed in time"):
        list(pod.resources())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("#" * 16_001, "larger than 16,000 bytes: it lets nobody read"),
        ("<a", "cannot be read as Turtle: it lets nobody read"),
    ],
    ids=["long", "damaged"],
)
def test_a_list_that_cannot_be_read_is_named(
    pod: FolderPod, tmp_path: Path, content: str, why: str
) -> None:
    for name in ("x/a.txt", "x/b.txt", "c.txt"):
        pod.write(name, "cough")
    for name in ("x/.acl", "c.txt.acl"):
        (tmp_path / "pod" / name).write_text(content)
    left_out: list[LeftOut] = []
    assert [one.rights for one in pod.resources(left_out)] == [NOBODY] * 3
    assert left_out == [LeftOut("ann-pod/c.txt.acl", why), LeftOut("ann-pod/x/.acl", why)]
