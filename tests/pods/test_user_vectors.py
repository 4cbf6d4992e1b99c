"""A user's word vectors in the user's own pod: trained on what may be read, for nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError
from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.entity_weights import ModelSettings
from cloister.pods.acl_turtle import write_acl
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.sync import sync
from cloister.pods.user_vectors import (
    load_vectors,
    readable_basis,
    readable_texts,
    require_current,
    store_vectors,
    train_public_base,
    train_user_vectors,
)
from cloister.pods.web_access_control import AccessRules, Authorization, Mode
from cloister.search.node import SubQuery, VectorQuery
from cloister.search.word_vector_table import WordVectors
from cloister.search.word_vectors import (
    TuningSettings,
    WordVectorSettings,
)

ANN, BOB, EVE = (Reader(AgentId(name)) for name in ("ann", "bob", "eve"))
SMALL = WordVectorSettings(size=8, epochs=2, min_count=1)
TUNING = TuningSettings(min_count=1, epochs=2)
VECTORS = WordVectors(("cough", "fever"), np.eye(2, dtype=np.float32), np.array([3, 1]))


class Home:
    """Pods of Ann and Bob on two servers, with one public note."""

    def __init__(self, folder: Path, registry: PodRegistry) -> None:
        self.folder, self.registry = folder, registry
        self.ann = self.add("ann", "north")
        self.bob = self.add("bob", "south")
        self.ann.write("a.txt", "cough and fever at night")
        self.bob.write("b.txt", "secret diagnosis of bob")
        self.public = self.bob.write("p.txt", "fever is common", rights=Rights(public=True))
        self.sync()

    def add(self, name: str, server: str, owner: str = "") -> FolderPod:
        folder = self.folder / name
        pod = FolderPod.create(folder, PodId(name), AgentId(owner or name))
        self.registry.add(
            RegisteredPod(
                pod_id=name, owner=owner or name, server_id=server, kind="folder",
                address=str(folder),
            )
        )  # fmt: skip
        return pod

    def sync(self) -> None:
        for pod in self.registry.pods.values():
            sync(self.registry.datastore(pod), self.registry.shard(ServerId(pod.server_id)))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with PodRegistry(tmp_path / "home") as registry:
        yield Home(tmp_path, registry)


def test_the_owner_gets_back_what_was_stored(home: Home) -> None:
    assert store_vectors(home.registry, ANN.agent_id, VECTORS) == "ann"
    found = load_vectors(home.registry, ANN)
    assert found.words == VECTORS.words
    assert found.digest == VECTORS.digest


@pytest.mark.parametrize(
    "reader", [BOB, EVE, STRANGER, Reader(AgentId("eve"), frozenset({GroupId("ann")}))]
)
def test_nobody_else_gets_them(home: Home, reader: Reader) -> None:
    store_vectors(home.registry, ANN.agent_id, VECTORS)
    with pytest.raises(NotFound, match="no word vectors"):
        load_vectors(home.registry, reader)
    for name in ("word-vectors.bin", "word-vectors.bin.acl"):
        with pytest.raises(AccessDenied):
            home.ann.read(DocId(f"ann/{name}"), reader)


def test_they_stay_private_in_a_pod_that_everybody_may_read(home: Home) -> None:
    everybody = Authorization(frozenset({Mode.READ}), public=True)
    (home.folder / "ann" / ".acl").write_text(write_acl(AccessRules((everybody,)).bound_to("./")))
    store_vectors(home.registry, ANN.agent_id, VECTORS)
    assert load_vectors(home.registry, ANN).digest == VECTORS.digest
    for reader in (BOB, STRANGER):
        with pytest.raises(NotFound):
            load_vectors(home.registry, reader)
    (home.folder / "ann" / "word-vectors.bin.acl").unlink()  # inherited rules do not count
    with pytest.raises(NotFound):
        load_vectors(home.registry, ANN)


def test_a_file_on_disk_is_for_the_keeping_program_alone(home: Home) -> None:
    store_vectors(home.registry, ANN.agent_id, VECTORS)
    assert (home.folder / "ann" / "word-vectors.bin").stat().st_mode & 0o077 == 0


def test_a_sync_does_not_index_them(home: Home) -> None:
    before = readable_basis(home.registry, ANN)
    store_vectors(home.registry, ANN.agent_id, VECTORS)
    home.sync()
    assert readable_basis(home.registry, ANN) == before
    assert home.registry.shard(ServerId("north")).n_documents == 1


def test_who_owns_no_folder_pod_is_told_so(home: Home) -> None:
    with pytest.raises(SettingsError, match="owns no folder pod") as caught:
        store_vectors(home.registry, EVE.agent_id, VECTORS)
    assert "--out" in caught.value.remedy


def test_of_several_pods_one_has_the_vectors(home: Home) -> None:
    store_vectors(home.registry, ANN.agent_id, VECTORS)
    home.add("aaa", "north", owner="ann")
    assert store_vectors(home.registry, ANN.agent_id, VECTORS) == "aaa"
    assert not (home.folder / "ann" / "word-vectors.bin").exists()
    assert load_vectors(home.registry, ANN).digest == VECTORS.digest


def test_texts_are_those_that_may_be_read(home: Home) -> None:
    def words(reader: Reader) -> set[str]:
        return {word for text in readable_texts(home.registry, reader).documents for word in text}

    assert "cough" in words(ANN)
    assert "common" in words(ANN)
    assert "secret" not in words(ANN)
    assert "secret" in words(BOB)
    assert "cough" not in words(BOB)
    assert words(STRANGER) == words(EVE) == {"fever", "common"}


def test_what_the_pod_refuses_by_now_is_left_out_though_the_index_is_behind(home: Home) -> None:
    home.bob.revoke(home.public, public=True)
    texts = readable_texts(home.registry, ANN)
    assert (len(texts.documents), texts.n_left_out) == (1, 1)


def test_vectors_are_bit_for_bit_the_same_whatever_is_hidden(home: Home) -> None:
    def trained() -> WordVectors:
        base = train_public_base(home.registry, SMALL)
        return train_user_vectors(home.registry, ANN, base, TUNING)

    before = trained()
    home.bob.write("c.txt", "another secret cough fever")
    home.add("carl", "east").write("x.txt", "hidden hidden fever")
    home.sync()
    after = trained()
    assert (after.digest, after.basis) == (before.digest, before.basis)
    assert "secret" not in before.words


@pytest.mark.parametrize("change", ["write", "grant", "revoke", "delete"])
def test_vectors_are_refused_once_the_user_may_read_something_else(home: Home, change: str) -> None:
    vectors = train_user_vectors(
        home.registry, ANN, train_public_base(home.registry, SMALL), TUNING
    )
    assert require_current(home.registry, ANN, vectors) is vectors
    if change == "write":
        home.ann.write("a.txt", "cough and fever at noon")
    elif change == "grant":
        home.bob.grant(DocId("bob/b.txt"), ANN.agent_id)
    elif change == "revoke":
        home.bob.revoke(home.public, public=True)
    else:
        home.ann.delete(DocId("ann/a.txt"))
    home.sync()
    with pytest.raises(DataError, match="other documents") as caught:
        require_current(home.registry, ANN, vectors)
    assert "train again: cloister vectors train --as ann" in caught.value.remedy


def test_who_may_read_nothing_has_nothing_to_train_on(home: Home) -> None:
    base = train_public_base(home.registry, SMALL)
    home.bob.revoke(home.public, public=True)
    home.sync()
    with pytest.raises(NotFound, match="nothing to train on"):
        train_user_vectors(home.registry, EVE, base, TUNING)
    with pytest.raises(DataError, match="everybody may read"):
        train_public_base(home.registry, SMALL)


def test_servers_rank_with_the_vectors_of_the_reader_who_asks(home: Home) -> None:
    store_vectors(home.registry, ANN.agent_id, VECTORS)
    servers = home.registry.search_servers(lambda reader: load_vectors(home.registry, reader))
    query = SubQuery(
        ("fever",), ModelSettings(), 5, vectors=VectorQuery("w2v-cosine", VECTORS.digest)
    )
    found = [hit.doc_id for server in servers for hit in server.ask(ANN, query).hits]
    assert sorted(found) == ["ann/a.txt", "bob/p.txt"]
    for server in servers:
        with pytest.raises(AccessDenied):
            server.ask(BOB, query)
