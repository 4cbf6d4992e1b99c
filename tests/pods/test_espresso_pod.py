from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.core.errors import AccessDenied, DataError, SettingsError
from cloister.core.ids import AgentId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.shard import Shard
from cloister.pods.espresso_pod import EspressoPod
from cloister.pods.folder_pod import FolderPod
from cloister.pods.sync import sync
from cloister.search.node import ServerSummary, SummaryRequest
from cloister.search.shard_node import ShardNode

ANN, BOB, EVE, KEEPER = (Reader(AgentId(name)) for name in ("ann", "bob", "eve", "keeper"))
PRIVATE = Rights(owner=ANN.agent_id)
TERMS = SummaryRequest(("cough", "fever"), n_best=2)


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", server_id=ServerId("s1")) as opened:
        yield opened


@pytest.fixture
def keeper(tmp_path: Path) -> FolderPod:
    return FolderPod.create(tmp_path / "espresso", PodId("espresso"), KEEPER.agent_id)


def summary_of(shard: Shard, reader: Reader) -> ServerSummary:
    return ShardNode(shard.server_id, lambda: shard.view(reader)).summarise(TERMS)


def test_each_user_gets_their_own_summary_and_nobody_elses(
    tmp_path: Path, shard: Shard, keeper: FolderPod
) -> None:
    pod = FolderPod.create(tmp_path / "pod", PodId("ann-pod"), ANN.agent_id)
    pod.write("a.txt", "cough fever")
    shared = pod.write("b.txt", "cough", rights=PRIVATE.grant("bob"))
    sync(pod, shard)
    espresso = EspressoPod(keeper)
    espresso.refresh([ANN, BOB], lambda reader: summary_of(shard, reader))
    ann, bob = espresso.load(ANN), espresso.load(BOB)
    assert ann == summary_of(shard, ANN)
    assert bob == summary_of(shard, BOB)
    assert ann is not None
    assert bob is not None
    assert (ann.terms["cough"].n_documents, bob.terms["cough"].n_documents) == (2, 1)
    assert "fever" not in bob.terms or bob.terms["fever"].n_documents == 0
    assert espresso.load(EVE) is None
    assert espresso.load(STRANGER) is None
    assert espresso.load(KEEPER) is None

    pod.set_rights(shared, PRIVATE)
    sync(pod, shard)
    espresso.refresh([BOB], lambda reader: summary_of(shard, reader))
    revoked = espresso.load(BOB)
    assert revoked is not None
    assert revoked.documents.n_entities == 0


def test_the_resource_itself_is_refused_to_all_others(shard: Shard, keeper: FolderPod) -> None:
    doc_id = EspressoPod(keeper).store(BOB.agent_id, summary_of(shard, BOB))
    for reader in (ANN, EVE, KEEPER, STRANGER):
        with pytest.raises(AccessDenied):
            keeper.read(doc_id, reader)
    assert keeper.resource(doc_id).rights == Rights(agents=frozenset({BOB.agent_id}))  # type: ignore[union-attr]


def test_a_forgotten_summary_is_gone(shard: Shard, keeper: FolderPod) -> None:
    espresso = EspressoPod(keeper)
    espresso.store(BOB.agent_id, summary_of(shard, BOB))
    espresso.forget(BOB.agent_id)
    espresso.forget(BOB.agent_id)
    assert espresso.load(BOB) is None
    assert list(keeper.resources()) == []


def test_a_summary_has_a_user_and_a_damaged_one_is_told(shard: Shard, keeper: FolderPod) -> None:
    espresso = EspressoPod(keeper)
    with pytest.raises(SettingsError):
        espresso.store(AgentId(""), summary_of(shard, BOB))
    doc_id = espresso.store(BOB.agent_id, summary_of(shard, BOB))
    for damage in ("{", "[1]", "null"):
        keeper.write(doc_id.removeprefix("espresso/"), damage)
        with pytest.raises(DataError):
            espresso.load(BOB)
