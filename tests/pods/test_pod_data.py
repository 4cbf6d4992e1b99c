"""Data in folder pods: bytes beside documents, with rights of their own or a document's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cloister.core.errors import AccessDenied, SettingsError
from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.rights import NOBODY, STRANGER, Reader, Rights
from cloister.pods.folder_pod import FolderPod
from cloister.pods.index_resource import terms_id
from cloister.pods.pod_files import PodFiles
from cloister.pods.web_access_control import Mode

ANN, BOB, EVE = (Reader(AgentId(name)) for name in ("ann", "bob", "eve"))
PRIVATE = Rights(owner=ANN.agent_id)
FOR_BOB = Rights(agents=frozenset({BOB.agent_id}))


@pytest.fixture
def pod(tmp_path: Path) -> FolderPod:
    return FolderPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)


def readers(pod: FolderPod, data_id: DocId) -> set[str]:
    """Ask by both routes; they must agree."""
    found = set()
    for reader in (ANN, BOB, EVE, STRANGER):
        try:
            pod.read_data(data_id, reader)
            found.add(str(reader.agent_id))
        except AccessDenied:
            pass
        assert (Mode.READ in pod.modes(data_id, reader)) is (reader.agent_id in found)
    return found


def test_data_is_read_by_those_who_may_and_is_no_document(pod: FolderPod) -> None:
    data_id = pod.data_id("tables/x y.bin")
    pod.write_data(data_id, b"\0\xff", rights=FOR_BOB)
    assert pod.read_data(data_id, BOB) == b"\0\xff"
    assert readers(pod, data_id) == {"bob"}
    assert list(pod.data_ids()) == [data_id]
    assert list(pod.resources()) == []
    assert pod.resource(data_id) is None
    for attempt in (
        lambda: pod.text(data_id),
        lambda: pod.read(data_id, BOB),
        lambda: pod.grant(data_id, EVE.agent_id),
        lambda: pod.delete(data_id),
    ):
        with pytest.raises(AccessDenied):
            attempt()


def test_a_refusal_and_an_absence_of_data_look_alike(pod: FolderPod) -> None:
    data_id = pod.data_id("x.bin")
    pod.write_data(data_id, b"1", rights=FOR_BOB)
    told = set()
    for name in (data_id, "p/y.bin", "p/../x.bin", "q/x.bin", "p/.x.bin", "p/.acl", ""):
        with pytest.raises(AccessDenied) as error:
            pod.read_data(DocId(name), EVE)
        told.add(str(error.value))
    assert len(told) == 1


@pytest.mark.parametrize("name", ["a.txt", "a", "../a.bin", ".a.bin", "x/.y/a.bin", "a.bin.acl"])
def test_names_of_data_stay_inside_and_are_no_documents(pod: FolderPod, name: str) -> None:
    with pytest.raises(SettingsError):
        pod.data_id(name)
    with pytest.raises(SettingsError):
        pod.write_data(DocId(f"p/{name}"), b"", rights=NOBODY)
    with pytest.raises(SettingsError):
        pod.write("a.bin", "a text")


def test_either_rights_or_a_document_is_named(pod: FolderPod) -> None:
    doc_id = pod.write("a.txt", "cough")
    for wrong in ({}, {"rights": NOBODY, "like": doc_id}):
        with pytest.raises(SettingsError):
            pod.write_data(pod.data_id("x.bin"), b"", **wrong)  # type: ignore[arg-type]
    with pytest.raises(AccessDenied):
        pod.write_data(pod.data_id("x.bin"), b"1", like=DocId("p/none.txt"))
    assert list(pod.data_ids()) == []


def test_deleted_data_is_gone_with_its_list(pod: FolderPod, tmp_path: Path) -> None:
    data_id = pod.data_id("x.bin")
    pod.write_data(data_id, b"1", rights=FOR_BOB)
    pod.delete_data(data_id)
    assert readers(pod, data_id) == set()
    assert not (tmp_path / "pod" / "x.bin.acl").exists()
    with pytest.raises(AccessDenied):
        pod.delete_data(data_id)


@pytest.mark.parametrize("own", [False, True])
def test_data_like_a_document_follows_its_rules(pod: FolderPod, tmp_path: Path, own: bool) -> None:
    doc_id = pod.write("v/a.txt", "cough", rights=PRIVATE.grant("bob") if own else None)
    data_id = terms_id(doc_id)
    pod.write_data(data_id, b"1", like=doc_id)
    assert (tmp_path / "pod" / "v" / "a.txt.terms.bin.acl").exists() is own
    assert readers(pod, data_id) == ({"ann", "bob"} if own else {"ann"})
    assert pod.is_alike(data_id, doc_id)
    for change in (
        lambda: pod.grant(doc_id, EVE.agent_id),
        lambda: pod.revoke(doc_id, EVE.agent_id, BOB.agent_id),
        lambda: pod.grant(doc_id, public=True),
        lambda: pod.set_rights(doc_id, PRIVATE.grant("eve")),
    ):
        change()
        allowed = {r.agent_id for r in (ANN, BOB, EVE, STRANGER) if reads(pod, doc_id, r)}
        assert readers(pod, data_id) == allowed
        assert pod.is_alike(data_id, doc_id)


def reads(pod: FolderPod, doc_id: DocId, reader: Reader) -> bool:
    return Mode.READ in pod.modes(doc_id, reader)


def test_a_folders_list_changed_by_hand_holds_for_inherited_index_resources(
    pod: FolderPod, tmp_path: Path
) -> None:
    doc_id = pod.write("v/a.txt", "cough")
    pod.write_data(terms_id(doc_id), b"1", like=doc_id)
    (tmp_path / "pod" / "v" / ".acl").write_text(
        "@prefix acl: <http://www.w3.org/ns/auth/acl#>.\n"
        "<#r> a acl:Authorization; acl:agent <urn:cloister:agent:bob>;"
        "acl:default <./>; acl:mode acl:Read."
    )
    assert readers(pod, terms_id(doc_id)) == {"bob"}


def test_a_changed_or_deleted_document_leaves_no_index_resource(pod: FolderPod) -> None:
    doc_id = pod.write("a.txt", "secret", rights=PRIVATE.grant("bob"))
    for change in (
        lambda: pod.write("a.txt", "leaflet", rights=Rights(public=True)),
        lambda: pod.write("a.txt", "leaflet"),
        lambda: pod.delete(doc_id),
    ):
        pod.write_data(terms_id(doc_id), b"1", like=doc_id)
        change()
        assert list(pod.data_ids()) == []


class Killed(Exception):
    """Stands for the end of the process."""


def kill_after(monkeypatch: pytest.MonkeyPatch, n: int) -> Callable[[], int]:
    """Let n changes of files happen, and no more; return how many were tried."""
    done = []
    for name in ("write", "delete"):
        real = getattr(PodFiles, name)

        def change(files: PodFiles, *arguments: object, real: object = real) -> object:
            if len(done) == n:
                raise Killed
            done.append(1)
            return real(files, *arguments)  # type: ignore[operator]

        monkeypatch.setattr(PodFiles, name, change)
    return lambda: len(done)


SECRET_FOR_BOB = PRIVATE.grant("bob")


@pytest.mark.parametrize(
    "change",
    [
        lambda pod, doc: pod.revoke(doc, BOB.agent_id),
        lambda pod, doc: pod.set_rights(doc, PRIVATE.grant("eve")),
        lambda pod, doc: pod.write("v/a.txt", "other", rights=PRIVATE.grant("eve")),
        lambda pod, doc: pod.delete(doc),
        lambda pod, doc: pod.write_data(terms_id(doc), b"2", like=doc),
        lambda pod, doc: pod.grant(doc, EVE.agent_id),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_a_crash_between_two_writes_never_shows_more_of_the_index_than_of_the_document(
    tmp_path: Path, change: Callable[[FolderPod, DocId], None], own: bool
) -> None:
    for n in range(20):
        pod = FolderPod.create(tmp_path / str(n), PodId("p"), ANN.agent_id)
        doc_id = pod.write("v/a.txt", "secret", rights=SECRET_FOR_BOB if own else None)
        pod.write_data(terms_id(doc_id), b"1", like=doc_id)
        with pytest.MonkeyPatch.context() as patch:
            kill_after(patch, n)
            try:
                change(pod, doc_id)
                ended = True
            except Killed:
                ended = False
        again = FolderPod.open(tmp_path / str(n))
        allowed = {r.agent_id for r in (ANN, BOB, EVE, STRANGER) if reads(again, doc_id, r)}
        if again.data(terms_id(doc_id)) is not None:
            assert readers(again, terms_id(doc_id)) <= allowed, n
        if ended:
            return
    raise AssertionError("never ended")


def test_the_list_comes_before_the_content(
    pod: FolderPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder passes Read on to Bob; data for Eve alone is never Bob's."""
    (tmp_path / "pod" / "open").mkdir()
    (tmp_path / "pod" / "open" / ".acl").write_text(
        "@prefix acl: <http://www.w3.org/ns/auth/acl#>.\n"
        "<#r> a acl:Authorization; acl:agent <urn:cloister:agent:bob>;"
        "acl:default <./>; acl:mode acl:Read."
    )
    data_id = pod.data_id("open/x.bin")
    seen: list[set[str]] = []
    real = PodFiles.write

    def watched(files: PodFiles, name: str, content: bytes) -> None:
        real(files, name, content)
        seen.append(readers(pod, data_id))

    monkeypatch.setattr(PodFiles, "write", watched)
    for content in (b"1", b"2"):
        pod.write_data(data_id, content, rights=Rights(agents=frozenset({EVE.agent_id})))
    assert seen == [set(), {"eve"}, set(), {"eve"}]
