from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cloister.core.errors import StoreError
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.shard import Shard
from cloister.pods.datastore import LeftOut, Resource
from cloister.pods.extraction.pool import RawDocument
from cloister.pods.folder_pod import FolderPod
from cloister.pods.http_transport import TooLong
from cloister.pods.pod_gate import PodAway
from cloister.pods.sync import CutSync, SyncCounts, sync

ANN, BOB, EVE = (Reader(AgentId(name)) for name in ("ann", "bob", "eve"))
PRIVATE = Rights(owner=ANN.agent_id)
FOR_BOB = PRIVATE.grant("bob")


@pytest.fixture
def pod(tmp_path: Path) -> FolderPod:
    return FolderPod.create(tmp_path / "pod", PodId("ann-pod"), ANN.agent_id)


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", server_id=ServerId("s1")) as opened:
        yield opened


def found(shard: Shard, reader: Reader, term: str) -> set[str]:
    view = shard.view(reader)
    return {view.doc_id(number) for number in view.postings(term).documents.tolist()}


def test_adds_changes_deletes_and_rights_are_counted(pod: FolderPod, shard: Shard) -> None:
    a, b, c = (pod.write(f"{name}.txt", f"cough {name}") for name in ("aa", "bb", "cc"))
    assert sync(pod, shard) == SyncCounts(added=3)
    assert sync(pod, shard) == SyncCounts(unchanged=3)
    pod.write("aa.txt", "fever")
    pod.delete(b)
    pod.set_rights(c, FOR_BOB)
    pod.write("dd.txt", "cough")
    assert sync(pod, shard) == SyncCounts(added=1, changed=1, deleted=1, rights_changed=1)
    assert found(shard, ANN, "cough") == {c, "ann-pod/dd.txt"}
    assert found(shard, ANN, "fever") == {a}
    assert found(shard, BOB, "cough") == {c}
    assert sync(pod, shard) == SyncCounts(unchanged=3)


def test_a_revocation_is_found_though_the_document_did_not_change(
    pod: FolderPod, shard: Shard
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=FOR_BOB)
    sync(pod, shard)
    assert found(shard, BOB, "cough") == {doc_id}
    etag = shard.etags(pod.pod_id)[doc_id]
    pod.set_rights(doc_id, PRIVATE)
    assert sync(pod, shard) == SyncCounts(rights_changed=1)
    assert shard.etags(pod.pod_id)[doc_id] == etag
    assert found(shard, BOB, "cough") == set()
    assert shard.view(BOB).vocabulary() == []


def test_a_change_of_an_inherited_list_reaches_all_documents(
    pod: FolderPod, shard: Shard, tmp_path: Path
) -> None:
    for name in ("visits/a.txt", "visits/b.txt", "c.txt"):
        pod.write(name, "cough")
    sync(pod, shard)
    (tmp_path / "pod" / "visits" / ".acl").write_text(
        "@prefix acl: <http://www.w3.org/ns/auth/acl#>.\n"
        "<#r> a acl:Authorization; acl:agent <urn:cloister:agent:bob>;"
        "acl:default <./>; acl:mode acl:Read."
    )
    assert sync(pod, shard).rights_changed == 2
    assert found(shard, BOB, "cough") == {"ann-pod/visits/a.txt", "ann-pod/visits/b.txt"}
    assert found(shard, ANN, "cough") == {"ann-pod/c.txt"}


def test_rights_for_the_verified_survive_the_disk(
    pod: FolderPod, shard: Shard, tmp_path: Path
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=Rights(authenticated=True))
    sync(pod, shard)
    shard.close()
    with Shard.open(tmp_path / "shard", server_id=ServerId("s1")) as again:
        assert found(again, EVE, "cough") == {doc_id}
        assert found(again, STRANGER, "cough") == set()
        assert sync(pod, again) == SyncCounts(unchanged=1)


def test_pods_of_one_server_do_not_disturb_each_other(
    pod: FolderPod, shard: Shard, tmp_path: Path
) -> None:
    other = FolderPod.create(tmp_path / "other", PodId("bob-pod"), BOB.agent_id)
    a, b = pod.write("a.txt", "cough"), other.write("a.txt", "cough")
    sync(pod, shard)
    assert sync(other, shard) == SyncCounts(added=1)
    assert (found(shard, ANN, "cough"), found(shard, BOB, "cough")) == ({a}, {b})
    pod.delete(a)
    assert sync(pod, shard) == SyncCounts(deleted=1)
    assert found(shard, BOB, "cough") == {b}


def test_a_file_that_cannot_be_read_is_left_out(
    pod: FolderPod, shard: Shard, tmp_path: Path
) -> None:
    doc_id = pod.write("a.json", '{"x": "cough"}')
    sync(pod, shard)
    (tmp_path / "pod" / "a.json").write_text("{")
    reason = "not JSON, or deeper than 50 levels"
    named = (LeftOut("ann-pod/a.json", reason),)
    assert sync(pod, shard) == SyncCounts(left_out=1, left_out_files=named)
    assert found(shard, ANN, "cough") == set()
    pod.write("a.json", '{"x": "cough"}')
    assert sync(pod, shard) == SyncCounts(added=1)
    assert found(shard, ANN, "cough") == {doc_id}


class ChangingPod(FolderPod):
    """A pod whose owner makes a text private, and then writes the secret, while it is read."""

    n_changes = 1

    def content(self, doc_id: DocId) -> RawDocument:
        if self.n_changes:
            self.n_changes -= 1
            self.set_rights(doc_id, PRIVATE)
            self.write("a.txt", f"secret {self.n_changes}")
        return super().content(doc_id)


@pytest.mark.parametrize("n_changes", [1, 2, 100])
def test_a_text_is_indexed_with_the_rights_that_held_when_it_was_read(
    tmp_path: Path, shard: Shard, n_changes: int
) -> None:
    pod = ChangingPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, ChangingPod)
    pod.write("a.txt", "open", rights=Rights(public=True))
    pod.n_changes = n_changes
    counts = sync(pod, shard)
    assert found(shard, STRANGER, "secret") == set()
    assert found(shard, ANN, "secret") == ({"p/a.txt"} if n_changes < 3 else set())
    named = (LeftOut("p/a.txt", "changed while it was read"),)
    left_out = SyncCounts(left_out=1, left_out_files=named)
    assert counts == (SyncCounts(added=1) if n_changes < 3 else left_out)


class WatchedPod(FolderPod):
    """A pod that looks at the index each time a text is read."""

    shard: Shard
    seen: list[tuple[set[str], set[str]]]

    def content(self, doc_id: DocId) -> RawDocument:
        self.seen.append((found(self.shard, STRANGER, "secret"), found(self.shard, BOB, "old")))
        return super().content(doc_id)


def test_what_takes_away_holds_before_any_text_is_read(tmp_path: Path, shard: Shard) -> None:
    pod = WatchedPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, WatchedPod)
    pod.shard, pod.seen = shard, []
    pod.write("a.txt", "secret", rights=PRIVATE)
    pod.write("b.txt", "old", rights=FOR_BOB)
    sync(pod, shard)
    pod.seen.clear()
    pod.write("a.txt", "leaflet", rights=Rights(public=True))  # the old text stays secret
    pod.set_rights(DocId("p/b.txt"), PRIVATE)
    pod.write("c.txt", "new")
    assert sync(pod, shard) == SyncCounts(added=1, changed=1, rights_changed=2)
    assert pod.seen == [(set(), set()), (set(), set())]
    assert found(shard, STRANGER, "leaflet") == {"p/a.txt"}


class RevokedPod(FolderPod):
    """A pod in which somebody revokes, with the command, while a sync is under way."""

    shard: Shard
    during = ""

    def resources(self, left_out: list[LeftOut] | None = None) -> Iterator[Resource]:
        yield from list(super().resources(left_out))
        self._revoke_during("resources")

    def resource(self, doc_id: DocId) -> Resource | None:
        found = super().resource(doc_id)  # as it was before the revocation
        self._revoke_during("resource")
        return found

    def _revoke_during(self, step: str) -> None:
        if self.during == step:
            self.during = ""
            self.revoke(DocId("p/a.txt"), BOB.agent_id)
            self.shard.set_rights({DocId("p/a.txt"): PRIVATE})


@pytest.mark.parametrize("during", ["resources", "resource"])
def test_a_revocation_during_a_sync_is_not_undone_by_it(
    tmp_path: Path, shard: Shard, during: str
) -> None:
    pod = RevokedPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, RevokedPod)
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE)
    sync(pod, shard)
    pod.grant(doc_id, BOB.agent_id)  # by another program: the index does not know
    if during == "resource":
        pod.write("a.txt", "fever")
    pod.shard, pod.during = shard, during
    sync(pod, shard)
    assert pod.during == ""
    assert found(shard, BOB, "cough") == found(shard, BOB, "fever") == set()
    assert found(shard, ANN, "fever" if during == "resource" else "cough") == {doc_id}


class UntaggedPod(FolderPod):
    """A pod on a server that gives no tags."""

    def resources(self, left_out: list[LeftOut] | None = None) -> Iterator[Resource]:
        yield from (one._replace(etag="") for one in super().resources(left_out))

    def resource(self, doc_id: DocId) -> Resource | None:
        found = super().resource(doc_id)
        return None if found is None else found._replace(etag="")


def test_documents_without_tags_are_read_at_each_sync_and_stay_readable(
    tmp_path: Path, shard: Shard
) -> None:
    pod = UntaggedPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    doc_id = pod.write("a.txt", "cough", rights=FOR_BOB)
    for _ in range(2):
        sync(pod, shard)
        assert found(shard, BOB, "cough") == {doc_id}
    pod.write("a.txt", "fever", rights=PRIVATE)
    sync(pod, shard)
    assert found(shard, BOB, "fever") == found(shard, BOB, "cough") == set()
    assert found(shard, ANN, "fever") == {doc_id}


class DeadPod(FolderPod):
    """A pod that does not answer."""

    def resources(self, left_out: list[LeftOut] | None = None) -> Iterator[Resource]:
        yield from list(super().resources(left_out))[:1]
        raise StoreError("the server does not answer")


def test_an_unreachable_pod_is_kept(pod: FolderPod, shard: Shard, tmp_path: Path) -> None:
    pod.write("a.txt", "cough")
    pod.write("b.txt", "cough")
    sync(pod, shard)
    dead = DeadPod(tmp_path / "pod", pod.pod_id, pod.owner)
    with pytest.raises(StoreError):
        sync(dead, shard)
    assert len(found(shard, ANN, "cough")) == 2


class TiredPod(FolderPod):
    """A pod whose server stops to answer after some documents."""

    n_left = 0

    def content(self, doc_id: DocId) -> RawDocument:
        if not self.n_left:
            raise PodAway("the server does not answer")
        self.n_left -= 1
        return super().content(doc_id)


def test_a_sync_that_is_cut_keeps_what_was_read_and_the_next_one_goes_on(
    tmp_path: Path, shard: Shard
) -> None:
    pod = TiredPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, TiredPod)
    for number in range(40):
        (tmp_path / "pod" / f"{number}.txt").write_text("cough")
    pod.n_left = 30
    with pytest.raises(CutSync, match="30 of 40 new or changed documents are indexed"):
        sync(pod, shard)
    assert len(found(shard, ANN, "cough")) == 30
    pod.n_left = 100
    assert sync(pod, shard) == SyncCounts(added=10, unchanged=30)


def test_a_sync_reads_so_many_bytes_and_new_documents_before_changed_ones(
    tmp_path: Path, shard: Shard
) -> None:
    pod = FolderPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    for number in range(20):
        (tmp_path / "pod" / f"{number}.txt").write_text("cough " * 100)
    sync(pod, shard)
    for number in range(20):
        (tmp_path / "pod" / f"{number}.txt").write_text("fever " * 100)
    (tmp_path / "pod" / "new.txt").write_text("ankle")
    with pytest.raises(CutSync, match="of its documents changed"):
        sync(pod, shard, most_bytes=5_000)
    assert found(shard, ANN, "ankle") == {"p/new.txt"}
    assert 0 < len(found(shard, ANN, "fever")) < 12
    assert len(found(shard, ANN, "cough")) == 20 - len(found(shard, ANN, "fever"))


class LongPod(FolderPod):
    """A pod whose server sends documents that are too long."""

    n_sent = 0

    def content(self, doc_id: DocId) -> RawDocument:
        self.n_sent += 1
        raise TooLong("the answer is too long", n_bytes=1_000)


def test_what_is_fetched_of_documents_that_are_too_long_counts(
    tmp_path: Path, shard: Shard
) -> None:
    pod = LongPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, LongPod)
    for number in range(20):
        (tmp_path / "pod" / f"{number}.txt").write_text("cough")
    with pytest.raises(CutSync, match="of its documents changed"):
        sync(pod, shard, most_bytes=5_000)
    assert pod.n_sent == 5


class StuckPod(FolderPod):
    """A pod whose server never gives one document."""

    def content(self, doc_id: DocId) -> RawDocument:
        if doc_id.endswith("/a.txt"):
            raise PodAway("the server does not answer")
        return super().content(doc_id)


def test_a_document_that_is_never_given_keeps_no_other_out_of_the_index(
    tmp_path: Path, shard: Shard
) -> None:
    pod = StuckPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    for name in "abc":
        pod.write(f"{name}.txt", "cough")
    with pytest.raises(CutSync):
        sync(pod, shard)
    assert found(shard, ANN, "cough") == {"p/b.txt", "p/c.txt"}


class SilentPod(FolderPod):
    """A pod whose server is silent once a text was read, and its rights were looked at."""

    n_left = -1

    def resource(self, doc_id: DocId) -> Resource | None:
        if not self.n_left:
            raise PodAway("the server does not answer")
        self.n_left -= 1
        return super().resource(doc_id)


def test_a_changed_text_whose_rights_could_not_be_confirmed_is_nobodys_until_they_are(
    tmp_path: Path, shard: Shard
) -> None:
    pod = SilentPod.create(tmp_path / "pod", PodId("p"), ANN.agent_id)
    assert isinstance(pod, SilentPod)
    doc_id = pod.write("a.txt", "cough", rights=FOR_BOB)
    sync(pod, shard)
    pod.write("a.txt", "fever", rights=FOR_BOB)
    pod.n_left = 1
    with pytest.raises(CutSync):
        sync(pod, shard)
    assert found(shard, BOB, "fever") == found(shard, ANN, "fever") == set()
    pod.n_left = -1
    sync(pod, shard)
    assert found(shard, BOB, "fever") == {doc_id}


NAMES = st.sampled_from(["a.txt", "b.txt", "x/c.txt"])
TEXTS = st.lists(st.sampled_from(["cough", "fever", "rash"]), max_size=3).map(" ".join)
RIGHTS = st.builds(
    Rights,
    owner=st.just(ANN.agent_id),
    agents=st.frozensets(st.sampled_from([BOB.agent_id, EVE.agent_id])),
    public=st.booleans(),
    authenticated=st.booleans(),
)


class SyncedPod(RuleBasedStateMachine):
    """After each sync every reader finds in the index just what the pod lets them read."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.pod = FolderPod.create(self.folder / "pod", PodId("p"), ANN.agent_id)
        self.shard = Shard.open(self.folder / "shard", server_id=ServerId("s"))
        self.truth: dict[DocId, tuple[str, Rights]] = {}
        self.synced = True

    @rule(name=NAMES, text=TEXTS, rights=RIGHTS)
    def write(self, name: str, text: str, rights: Rights) -> None:
        self.truth[self.pod.write(name, text, rights=rights)] = (text, rights)
        self.synced = False

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.truth.pop(DocId(f"p/{name}"), None):
            self.pod.delete(DocId(f"p/{name}"))
            self.synced = False

    @rule(name=NAMES, rights=RIGHTS)
    def share(self, name: str, rights: Rights) -> None:
        doc_id = DocId(f"p/{name}")
        if doc_id in self.truth:
            self.pod.set_rights(doc_id, rights)
            self.truth[doc_id] = (self.truth[doc_id][0], rights)
            self.synced = False

    @rule()
    def sync(self) -> None:
        sync(self.pod, self.shard)
        self.synced = True

    @rule()
    def reopen(self) -> None:
        self.shard.close()
        self.shard = Shard.open(self.folder / "shard", server_id=ServerId("s"))

    @invariant()
    def each_finds_what_they_may_read(self) -> None:
        if not self.synced:
            return
        for reader in (ANN, BOB, EVE, STRANGER):
            for term in ("cough", "fever", "rash"):
                assert found(self.shard, reader, term) == {
                    doc_id
                    for doc_id, (text, rights) in self.truth.items()
                    if term in text.split() and rights.allow(reader)
                }

    def teardown(self) -> None:
        self.shard.close()
        shutil.rmtree(self.folder)


SyncedPod.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestSyncedPod = SyncedPod.TestCase
