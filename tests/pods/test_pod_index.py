"""Index resources in folder pods, as sync writes and uses them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cloister.core.errors import AccessDenied, StoreError
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import Shard
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.folder_pod import FolderPod
from cloister.pods.index_resource import DocumentTerms, decode_terms, encode_terms, terms_id
from cloister.pods.pod_files import PodFiles
from cloister.pods.pod_index import remove_index_resources
from cloister.pods.sync import SyncCounts, sync

ANN, BOB, EVE = (Reader(AgentId(name)) for name in ("ann", "bob", "eve"))
PRIVATE = Rights(owner=ANN.agent_id)
FOR_BOB = PRIVATE.grant("bob")
PLAIN = TextAnalysis()


class CountingPod(FolderPod):
    """A pod that counts how many texts are fetched."""

    n_texts = 0

    def content(self, doc_id: DocId) -> RawDocument:
        self.n_texts += 1
        return super().content(doc_id)


@pytest.fixture
def pod(tmp_path: Path) -> CountingPod:
    made = CountingPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(made, CountingPod)
    return made


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", server_id=ServerId("s1")) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Shard]:
    """Another server, which has nothing yet."""
    with Shard.open(tmp_path / "other", server_id=ServerId("s2")) as opened:
        yield opened


def found(shard: Shard, reader: Reader, term: str) -> set[str]:
    view = shard.view(reader)
    return {view.doc_id(number) for number in view.postings(term).documents.tolist()}


def index_readers(pod: FolderPod, doc_id: DocId) -> set[str]:
    names = set()
    for reader in (ANN, BOB, EVE, STRANGER):
        try:
            pod.read_data(terms_id(doc_id), reader)
        except AccessDenied:
            continue
        names.add(str(reader.agent_id))
    return names


def test_another_server_is_filled_without_a_text_being_fetched(
    pod: CountingPod, shard: Shard, other: Shard
) -> None:
    pod.write("a.txt", "cough and fever", rights=FOR_BOB)
    pod.write("v/b.html", "<p>cough</p><script>hidden</script>")
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(added=2, pod_index_written=2)
    assert pod.n_texts == 2
    assert sync(pod, other, index_in_pod=True) == SyncCounts(added=2, from_pod_index=2)
    assert pod.n_texts == 2
    for reader in (ANN, BOB, EVE, STRANGER):
        for term in ("cough", "fever", "hidden"):
            assert found(shard, reader, term) == found(other, reader, term)
        assert (shard.view(reader).lengths == other.view(reader).lengths).all()
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(unchanged=2)
    assert pod.n_texts == 2


def test_without_asking_nothing_is_written_into_a_pod(pod: CountingPod, shard: Shard) -> None:
    pod.write("a.txt", "cough")
    sync(pod, shard)
    assert list(pod.data_ids()) == []


def test_asked_for_later_what_is_missing_is_written(pod: CountingPod, shard: Shard) -> None:
    doc_id = pod.write("a.txt", "cough")
    sync(pod, shard)
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(unchanged=1, pod_index_written=1)
    assert list(pod.data_ids()) == [terms_id(doc_id)]


def test_an_index_resource_of_a_changed_text_is_replaced(
    pod: CountingPod, shard: Shard, tmp_path: Path
) -> None:
    doc_id = pod.write("a.txt", "cough")
    sync(pod, shard, index_in_pod=True)
    (tmp_path / "pod" / "a.txt").write_text("fever")  # by another program
    counts = sync(pod, shard, index_in_pod=True)
    assert counts == SyncCounts(changed=1, pod_index_written=1)
    assert found(shard, ANN, "cough") == set()
    assert found(shard, ANN, "fever") == {doc_id}
    resource = pod.resource(doc_id)
    assert resource is not None
    stored = decode_terms(pod.data(terms_id(doc_id)) or b"", doc_id, resource.etag, PLAIN)
    assert stored == DocumentTerms(("fever",), (1,))


@pytest.mark.parametrize("wrong", ["damaged", "other tag", "other analysis", "other document", ""])
def test_anything_wrong_with_an_index_resource_means_that_the_text_is_read(
    pod: CountingPod, shard: Shard, other: Shard, wrong: str
) -> None:
    doc_id = pod.write("a.txt", "cough")
    sync(pod, shard, index_in_pod=True)
    resource = pod.resource(doc_id)
    assert resource is not None
    lie = DocumentTerms(("lie",), (1,))
    content = encode_terms(
        lie,
        DocId("p/b.txt") if wrong == "other document" else doc_id,
        "tag" if wrong == "other tag" else resource.etag,
        TextAnalysis(min_length=1) if wrong == "other analysis" else PLAIN,
    )
    if wrong == "damaged":
        content = content[:-1]
    pod.write_data(terms_id(doc_id), content, like=doc_id)
    pod.n_texts = 0
    counts = sync(pod, other, index_in_pod=True)
    if wrong:
        assert counts == SyncCounts(added=1, pod_index_written=1)
        assert (pod.n_texts, found(other, ANN, "cough")) == (1, {doc_id})
    else:  # who may write the pod is believed: documented
        assert counts == SyncCounts(added=1, from_pod_index=1)
        assert (pod.n_texts, found(other, ANN, "lie")) == (0, {doc_id})


def test_a_list_changed_by_another_program_reaches_the_index_resource_with_the_next_sync(
    pod: CountingPod, shard: Shard, tmp_path: Path
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=FOR_BOB)
    sync(pod, shard, index_in_pod=True)
    assert index_readers(pod, doc_id) == {"ann", "bob"}
    acl = tmp_path / "pod" / "a.txt.acl"
    acl.write_text(acl.read_text().replace("bob", "eve"))
    assert index_readers(pod, doc_id) == {"ann", "bob"}  # documented: until the next sync
    pod.n_texts = 0
    sync(pod, shard, index_in_pod=True)
    assert index_readers(pod, doc_id) == {"ann", "eve"}
    acl.unlink()
    sync(pod, shard, index_in_pod=True)
    assert index_readers(pod, doc_id) == {"ann"}
    assert not (tmp_path / "pod" / "a.txt.terms.bin.acl").exists()
    assert pod.n_texts == 0


def test_new_readers_never_get_the_terms_of_an_older_text(
    pod: CountingPod, shard: Shard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doc_id = pod.write("a.txt", "secret", rights=PRIVATE)
    sync(pod, shard, index_in_pod=True)
    (tmp_path / "pod" / "a.txt").write_text("leaflet")
    acl = tmp_path / "pod" / "a.txt.acl"
    acl.write_text(acl.read_text().replace("urn:cloister:agent:ann", "urn:cloister:agent:eve"))
    secret = pod.data(terms_id(doc_id))
    seen: list[bool] = []
    for name in ("write", "delete"):
        real = getattr(PodFiles, name)

        def watched(files: PodFiles, *arguments: object, real: object = real) -> object:
            result = real(files, *arguments)  # type: ignore[operator]
            seen.append(
                "eve" in index_readers(pod, doc_id) and pod.data(terms_id(doc_id)) == secret
            )
            return result

        monkeypatch.setattr(PodFiles, name, watched)
    sync(pod, shard, index_in_pod=True)
    assert len(seen) > 2
    assert not any(seen)
    assert "eve" in index_readers(pod, doc_id)


def test_what_has_no_document_any_more_is_removed_and_other_data_stays(
    pod: CountingPod, shard: Shard, tmp_path: Path
) -> None:
    pod.write("a.txt", "cough")
    pod.write("b.txt", "cough")
    pod.write_data(pod.data_id("word-vectors.bin"), b"vectors", rights=PRIVATE)
    (tmp_path / "pod" / "c.txt.terms.bin").write_bytes(b"somebody's own file")
    sync(pod, shard, index_in_pod=True)
    (tmp_path / "pod" / "a.txt").unlink()
    sync(pod, shard, index_in_pod=True)
    names = ["p/b.txt.terms.bin", "p/c.txt.terms.bin", "p/word-vectors.bin"]
    assert list(pod.data_ids()) == names
    pod.write("c.txt", "cough")  # our write takes the name; a sync alone leaves the file alone
    assert remove_index_resources(pod) == 1
    assert list(pod.data_ids()) == ["p/word-vectors.bin"]


def test_somebody_elses_file_of_that_name_is_left_alone(
    pod: CountingPod, shard: Shard, tmp_path: Path
) -> None:
    (tmp_path / "pod" / "a.txt.terms.bin").write_bytes(b"somebody's own file")
    (tmp_path / "pod" / "a.txt").write_text("cough")
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(added=1, pod_index_failed=1)
    assert (tmp_path / "pod" / "a.txt.terms.bin").read_bytes() == b"somebody's own file"
    assert found(shard, ANN, "cough") == {"p/a.txt"}


class ReadOnlyPod(CountingPod):
    """A pod in which the client may not write."""

    def write_data(self, data_id: DocId, content: bytes, **rights: object) -> None:
        raise AccessDenied("not allowed, or no such resource")


class FullPod(CountingPod):
    """A pod with no room left."""

    def write_data(self, data_id: DocId, content: bytes, **rights: object) -> None:
        raise StoreError("the server answered with status 507")


@pytest.mark.parametrize("kind", [ReadOnlyPod, FullPod])
def test_a_pod_that_takes_no_index_resource_is_indexed_all_the_same(
    tmp_path: Path, shard: Shard, kind: type[CountingPod]
) -> None:
    pod = kind.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, CountingPod)
    for name in ("a", "b", "c"):
        pod.write(f"{name}.txt", "cough")
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(added=3, pod_index_failed=3)
    assert len(found(shard, ANN, "cough")) == 3
    pod.n_texts = 0
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(unchanged=3, pod_index_failed=1)
    assert pod.n_texts == 1  # one is tried, not all


def test_a_document_with_a_very_long_name_has_no_index_resource(
    pod: CountingPod, shard: Shard
) -> None:
    pod.write("x" * 245 + ".txt", "cough")
    assert sync(pod, shard, index_in_pod=True) == SyncCounts(added=1)
    assert list(pod.data_ids()) == []


NAMES = st.sampled_from(["a.txt", "b.txt", "x/c.txt"])
TEXTS = st.lists(st.sampled_from(["cough", "fever", "rash"]), max_size=3).map(" ".join)
RIGHTS = st.builds(
    Rights,
    owner=st.just(ANN.agent_id),
    agents=st.frozensets(st.sampled_from([BOB.agent_id, EVE.agent_id])),
    public=st.booleans(),
    authenticated=st.booleans(),
)


class IndexedPod(RuleBasedStateMachine):
    """Index resources are read by nobody who may not read the document, and tell its terms.

    Texts are changed through the pod and behind its back; servers come with empty indexes.
    """

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.pod = FolderPod.create(self.folder / "pod", PodId("p"), ANN.agent_id)
        self.truth: dict[DocId, tuple[str, Rights]] = {}
        self.n_servers = 0

    @rule(name=NAMES, text=TEXTS, rights=RIGHTS)
    def write(self, name: str, text: str, rights: Rights) -> None:
        self.truth[self.pod.write(name, text, rights=rights)] = (text, rights)

    @rule(name=NAMES, text=TEXTS)
    def change_behind(self, name: str, text: str) -> None:
        doc_id = DocId(f"p/{name}")
        if doc_id in self.truth:
            (self.folder / "pod" / name).write_text(text)
            self.truth[doc_id] = (text, self.truth[doc_id][1])

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.truth.pop(DocId(f"p/{name}"), None):
            self.pod.delete(DocId(f"p/{name}"))

    @rule(name=NAMES, rights=RIGHTS)
    def share(self, name: str, rights: Rights) -> None:
        doc_id = DocId(f"p/{name}")
        if doc_id in self.truth:
            self.pod.set_rights(doc_id, rights)
            self.truth[doc_id] = (self.truth[doc_id][0], rights)

    @rule()
    def sync_a_new_server(self) -> None:
        self.n_servers += 1
        folder = self.folder / f"shard{self.n_servers}"
        with Shard.open(folder, server_id=ServerId("s")) as shard:
            counts = sync(self.pod, shard, index_in_pod=True)
            assert counts.from_pod_index + counts.pod_index_written == len(self.truth)
            for reader in (ANN, BOB, EVE, STRANGER):
                for term in ("cough", "fever", "rash"):
                    assert found(shard, reader, term) == {
                        doc_id
                        for doc_id, (text, rights) in self.truth.items()
                        if term in text.split() and rights.allow(reader)
                    }

    @invariant()
    def index_resources_are_read_by_those_who_read_the_document(self) -> None:
        for data_id in self.pod.data_ids():
            _, rights = self.truth[DocId(data_id.removesuffix(".terms.bin"))]
            for reader in (ANN, BOB, EVE, STRANGER):
                try:
                    self.pod.read_data(data_id, reader)
                    allowed = True
                except AccessDenied:
                    allowed = False
                assert allowed is rights.allow(reader)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


IndexedPod.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestIndexedPod = IndexedPod.TestCase
