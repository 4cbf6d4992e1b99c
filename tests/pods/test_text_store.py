from __future__ import annotations

import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cloister.app.backup_trees import home_files
from cloister.core.errors import AccessDenied, Damaged
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.pods.extraction.pool import ExtractionPool
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.sync_times import SyncTime
from cloister.pods.text_store import FILE, KEY, KnownText, TextStore
from cloister.search.snippet import snippet

ANN, BOB = Reader(AgentId("ann")), Reader(AgentId("bob"))
SERVER, POD = ServerId("home"), PodId("ann")
A, B = DocId("ann/a.txt"), DocId("ann/b.txt")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TextStore]:
    with closing(TextStore(tmp_path / "texts")) as opened:
        yield opened


def test_a_text_is_there_for_its_document_and_version_alone(store: TextStore) -> None:
    assert store.text(A, "1") is None
    store.keep(POD, [KnownText(A, "1", "dry cough"), KnownText(B, "", "never kept")])
    assert store.text(A, "1") == "dry cough"
    assert [store.text(A, "2"), store.text(B, "1"), store.text(A, ""), store.text(B, "")] == [
        None
    ] * 4
    store.keep(POD, [KnownText(A, "2", "")])
    assert (store.text(A, "1"), store.text(A, "2")) == (None, "")
    assert store.failure(A, "2") is None
    store.keep(POD, [KnownText(A, "3", failure="not UTF-8")])
    assert (store.text(A, "3"), store.failure(A, "3")) == (None, "not UTF-8")
    assert store.missing(POD, {A: "3", B: "1"}) == {B}


def test_nothing_can_be_read_off_the_files_without_the_key(
    store: TextStore, tmp_path: Path
) -> None:
    store.keep(POD, [KnownText(A, "1", "dry cough"), KnownText(B, "1", failure="not UTF-8")])
    store.close()
    content = (tmp_path / "texts" / FILE).read_bytes()
    for secret in (b"cough", b"UTF-8", b"ann"):
        assert secret not in content
    for name in (FILE, KEY):
        assert stat.S_IMODE((tmp_path / "texts" / name).stat().st_mode) == 0o600
    (tmp_path / "texts" / KEY).unlink()
    with closing(TextStore(tmp_path / "texts")) as other:
        assert other.text(A, "1") is None
        other.keep(POD, [KnownText(B, "1", "fever")])
        assert (other.text(A, "1"), other.text(B, "1")) == (None, "fever")


def test_what_is_erased_is_gone_from_the_file_byte_by_byte(
    store: TextStore, tmp_path: Path
) -> None:
    store.keep(POD, [KnownText(A, "1", "x" * 50_000), KnownText(B, "1", "dry cough")])
    file = tmp_path / "texts" / FILE
    sealed = _sealed(file, store, A)
    assert len(sealed) > 50_000
    assert any(sealed[i : i + 64] in file.read_bytes() for i in range(0, 40_000, 4_000))
    store.retain(POD, {B: "1"})
    folder = list(file.parent.iterdir())
    left = b"".join(one.read_bytes() for one in folder if one.is_file())
    assert not any(sealed[i : i + 16] in left for i in range(0, len(sealed) - 16, 16))
    assert store.text(B, "1") == "dry cough"
    store.retain(POD, {B: "1"}, texts=False)
    assert store.text(B, "1") is None


def _sealed(file: Path, store: TextStore, doc_id: DocId) -> bytes:
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT sealed, rest FROM text WHERE document = ?"
        first, rest = connection.execute(query, (store._name(doc_id),)).fetchone()
        return bytes(first) + bytes(rest)


def test_whoever_writes_holds_up_no_reader(store: TextStore, tmp_path: Path) -> None:
    store.keep(POD, [KnownText(A, "1", "dry cough")])
    with closing(sqlite3.connect(tmp_path / "texts" / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # another process writes
        writer = threading.Thread(target=store.keep, args=(POD, [KnownText(B, "1", "fever")]))
        writer.start()
        time.sleep(0.1)
        began = time.monotonic()
        assert store.text(A, "1") == "dry cough"
        assert time.monotonic() - began < 0.5
        other.execute("ROLLBACK")
        writer.join()
    assert store.text(B, "1") == "fever"


def test_many_long_texts_are_written_in_steps_between_which_others_read(store: TextStore) -> None:
    store.keep(POD, [KnownText(A, "1", "dry cough")])
    long = [KnownText(DocId(f"ann/{n}"), "1", "x" * 2_000_000) for n in range(12)]
    waits = []
    for work in (lambda: store.keep(POD, long), lambda: store.retain(POD, {A: "1"})):
        writer = threading.Thread(target=work)
        writer.start()
        while writer.is_alive():
            began = time.monotonic()
            assert store.text(A, "1") == "dry cough"
            waits.append(time.monotonic() - began)
            time.sleep(0.005)
    assert max(waits) < 1.0


def test_the_beginning_of_a_text_is_what_a_passage_is_made_of(store: TextStore) -> None:
    text = "dry cough " * 10_000 + "fever"
    store.keep(POD, [KnownText(A, "1", text), KnownText(B, "1", "dry cough")])
    assert store.text(A, "1") == text
    beginning = store.beginning(A, "1")
    assert beginning is not None
    assert text.startswith(beginning)
    assert len(beginning) < 20_000
    for terms in (["dry"], ["fever"], ["nothing"]):
        assert snippet(beginning, terms) == snippet(text, terms)
    assert store.beginning(B, "1") == "dry cough"


@pytest.mark.parametrize("damage", ["no database", "changed bytes", "emptied"])
def test_a_damaged_file_gives_no_text_and_is_made_anew(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "texts"
    with closing(TextStore(folder)) as store:
        store.keep(POD, [KnownText(A, "1", "dry cough " * 1000)])
    file = folder / FILE
    content = bytearray(file.read_bytes())
    if damage == "no database":
        content[:100] = b"\xff" * 100
    elif damage == "changed bytes":
        content[-3_000:] = bytes(3_000)
    else:
        content.clear()
    file.write_bytes(content)
    with closing(TextStore(folder)) as store:
        assert store.text(A, "1") is None
        if damage != "changed bytes":
            store.keep(POD, [KnownText(A, "1", "fever")])
            assert store.text(A, "1") == "fever"


def test_a_key_that_others_may_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    with closing(TextStore(folder)) as store:
        store.keep(POD, [KnownText(A, "1", "cough")])
    (folder / KEY).chmod(0o644)
    with closing(TextStore(folder)) as store, pytest.raises(AccessDenied, match="chmod 600"):
        store.text(A, "1")
    (folder / KEY).write_bytes(b"short")
    (folder / KEY).chmod(0o600)
    with closing(TextStore(folder)) as store, pytest.raises(Damaged):
        store.text(A, "1")


class KeptTexts(RuleBasedStateMachine):
    """Several stores on one folder say what a dictionary says."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = Path(tempfile.mkdtemp())
        self.stores = [TextStore(self.folder / "texts") for _ in range(2)]
        self.held: dict[tuple[str, str], tuple[str, str, bool]] = {}

    docs = st.sampled_from(["a", "b", "c"])
    pods = st.sampled_from(["p", "q"])
    tags = st.sampled_from(["1", "2"])
    which = st.integers(0, 1)

    @rule(
        which=which, pod=pods, doc=docs, tag=tags, text=st.text(max_size=20), failed=st.booleans()
    )
    def keep(self, which: int, pod: str, doc: str, tag: str, text: str, failed: bool) -> None:
        text = text.encode(errors="ignore").decode() or "x"
        known = KnownText(DocId(pod + doc), tag, **{"failure" if failed else "text": text})
        self.stores[which].keep(PodId(pod), [known])
        self.held[pod, doc] = (tag, text, failed)

    @rule(which=which, pod=pods, wanted=st.dictionaries(docs, tags), texts=st.booleans())
    def retain(self, which: int, pod: str, wanted: dict[str, str], texts: bool) -> None:
        etags = {DocId(pod + doc): tag for doc, tag in wanted.items()}
        self.stores[which].retain(PodId(pod), etags, texts=texts)
        for key, (tag, _, failed) in list(self.held.items()):
            if key[0] == pod and (wanted.get(key[1]) != tag or not (failed or texts)):
                del self.held[key]

    @invariant()
    def all_is_as_it_was_kept(self) -> None:
        for pod in "pq":
            for doc in "abc":
                for tag in "12":
                    held = self.held.get((pod, doc), ("", "", False))
                    wanted = held[1] if held[0] == tag else None
                    for store in self.stores:
                        texts = (
                            store.text(DocId(pod + doc), tag),
                            store.failure(DocId(pod + doc), tag),
                        )
                        assert texts == ((None, wanted) if held[2] else (wanted, None))

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)


KeptTexts.TestCase.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
TestKeptTexts = KeptTexts.TestCase


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[PodRegistry]:
    pod = FolderPod.create(tmp_path / "pod", POD, ANN.agent_id)
    pod.write("a.txt", "dry cough", rights=Rights(owner=ANN.agent_id).grant("bob"))
    pod.write("b.txt", "fever")
    with PodRegistry(tmp_path / "home") as opened:
        opened.add(
            RegisteredPod(
                pod_id=POD,
                owner="ann",
                server_id=SERVER,
                kind="folder",
                address=str(tmp_path / "pod"),
            )
        )
        opened.sync(opened.pod(POD))
        yield opened


@pytest.fixture
def no_children(registry: PodRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise AssertionError("a document was read")

    monkeypatch.setattr(ExtractionPool, "extract", refuse)
    monkeypatch.setattr(ExtractionPool, "extract_all", refuse)


def pod_of(registry: PodRegistry) -> FolderPod:
    store = registry.datastore(registry.pod(POD))
    assert isinstance(store, FolderPod)
    return store


def test_a_kept_text_is_not_shown_to_who_gets_a_right_when_it_was_cleared(
    registry: PodRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, eve = pod_of(registry), Reader(AgentId("eve"))
    version_of, texts = FolderPod.version, iter(["cleared", "cleared again"])

    def version(self: FolderPod, doc_id: DocId) -> str:
        monkeypatch.setattr(FolderPod, "version", version_of)
        found = version_of(self, doc_id)
        pod.write("a.txt", next(texts))  # between a look at the version and one at the rights
        pod.grant(A, eve.agent_id)
        return found

    monkeypatch.setattr(FolderPod, "version", version)
    with pytest.raises(AccessDenied):
        registry.read_text(SERVER, A, eve)
    assert registry.read_text(SERVER, A, eve) == "cleared"
    pod.revoke(A, eve.agent_id)
    monkeypatch.setattr(FolderPod, "version", version)
    with pytest.raises(AccessDenied):
        pod.confirm(A, eve)


@pytest.mark.usefixtures("no_children")
def test_a_kept_text_is_shown_to_whom_the_pod_lets_read_it_now(registry: PodRegistry) -> None:
    assert registry.read_text(SERVER, A, BOB) == "dry cough"
    pod_of(registry).revoke(A, BOB.agent_id)
    with pytest.raises(AccessDenied):
        registry.read_text(SERVER, A, BOB)  # though neither index nor kept text know of it yet
    assert registry.read_text(SERVER, A, ANN) == "dry cough"
    pod_of(registry).delete(A)
    with pytest.raises(AccessDenied):
        registry.read_text(SERVER, A, ANN)


def test_a_text_that_changed_since_is_read_anew(registry: PodRegistry) -> None:
    pod_of(registry).write("a.txt", "wet cough")
    assert registry.read_text(SERVER, A, ANN) == "wet cough"


def test_a_sync_erases_what_is_gone_and_keeps_what_changed(registry: PodRegistry) -> None:
    pod, kept = pod_of(registry), registry._texts
    tags = {one.doc_id: one.etag for one in pod.resources()}
    pod.write("a.txt", "wet cough")
    pod.delete(B)
    registry.sync(registry.pod(POD))
    assert [kept.text(name, tag) for name, tag in tags.items()] == [None, None]
    (now,) = pod.resources()
    assert kept.text(A, now.etag) == "wet cough"
    registry.remove(POD)
    assert kept.text(A, now.etag) is None


def test_texts_of_a_pod_that_was_not_synced_for_a_day_are_erased(registry: PodRegistry) -> None:
    (a, b), kept = pod_of(registry).resources(), registry._texts
    registry.sync_times.note(POD, SyncTime(time.time() - 23 * 3600, 1.0))
    registry.erase_old_texts()
    assert kept.text(A, a.etag) == "dry cough"
    registry.sync_times.note(POD, SyncTime(time.time() - 25 * 3600, 1.0))
    registry.erase_old_texts()
    assert kept.missing(POD, {A: a.etag, B: b.etag}) == {A, B}
    registry.sync(registry.pod(POD))
    registry.erase_old_texts()
    assert kept.text(B, b.etag) == "fever"


def test_texts_that_are_lost_are_kept_again_by_the_next_sync(registry: PodRegistry) -> None:
    pod = pod_of(registry)
    shutil.rmtree(registry.home / "texts")
    registry._texts.close()
    del registry._texts._key, registry._texts._cipher
    counts = registry.sync(registry.pod(POD))
    assert (counts.unchanged, counts.left_out) == (2, 0)
    assert [registry._texts.text(one.doc_id, one.etag) for one in pod.resources()] == [
        "dry cough",
        "fever",
    ]


def test_no_kept_text_is_in_a_backup(registry: PodRegistry) -> None:
    assert (registry.home / "texts" / FILE).exists()
    names = [one.path for one in home_files(registry.home)]
    assert "pods.json" in names
    assert not [name for name in names if name.startswith("texts")]


def test_a_pod_that_no_longer_keeps_texts_loses_them_at_its_next_sync(
    registry: PodRegistry,
) -> None:
    (first, _) = pod_of(registry).resources()
    kept = registry.texts(registry.pod(POD))
    kept._replace(is_keeping=False).retain({first.doc_id: first.etag})
    assert registry._texts.text(first.doc_id, first.etag) is None


def test_a_solid_pod_keeps_texts_only_where_its_owner_agreed(tmp_path: Path) -> None:
    def pod(keep_text: bool, kind: str = "solid") -> RegisteredPod:
        fields = {"pod_id": "p", "owner": "o", "server_id": "s", "kind": kind, "address": "x"}
        return RegisteredPod.model_validate(fields | {"keep_text": keep_text})

    with PodRegistry(tmp_path) as registry:
        keeping = [registry.texts(pod(keep)).is_keeping for keep in (False, True)]
        assert keeping == [False, True]
        assert registry.texts(pod(False, "folder")).is_keeping
