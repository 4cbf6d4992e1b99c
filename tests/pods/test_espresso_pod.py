from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.shard import IndexedDocument, Shard
from cloister.pods import table_keeping
from cloister.pods.espresso_pod import EVERYBODY, EspressoPod
from cloister.pods.folder_pod import FolderPod
from cloister.pods.sync import sync
from cloister.pods.table_keeping import TableCounts, TableKeeping
from cloister.search.selector_table import SelectorTable
from cloister.search.selector_table_making import make_selector_table
from cloister.search.table_settings import TableSettings

ANN, BOB, EVE, KEEPER = (Reader(AgentId(name)) for name in ("ann", "bob", "eve", "keeper"))
PRIVATE = Rights(owner=ANN.agent_id)
S1 = ServerId("s1")


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", server_id=S1) as opened:
        yield opened


@pytest.fixture
def keeper(tmp_path: Path) -> FolderPod:
    return FolderPod.create(tmp_path / "espresso", PodId("espresso"), KEEPER.agent_id)


@pytest.fixture
def pod(tmp_path: Path) -> FolderPod:
    return FolderPod.create(tmp_path / "pod", PodId("ann-pod"), ANN.agent_id)


@pytest.fixture
def keeping(tmp_path: Path, shard: Shard, keeper: FolderPod) -> TableKeeping:
    return TableKeeping(shard, EspressoPod(keeper), tmp_path / "record.json")


def df(keeper: FolderPod, reader: Reader, term: str) -> int | None:
    """Return in how many documents a term is by the reader's table; None where there is none."""
    content = EspressoPod(keeper).load(reader)
    if content is None:
        return None
    return SelectorTable.from_bytes(content).summary([term]).terms[term].n_documents


def test_a_table_is_its_users_alone_through_the_pod(keeper: FolderPod) -> None:
    espresso = EspressoPod(keeper)
    data_id = espresso.store(BOB.agent_id, b"one")
    assert espresso.store(BOB.agent_id, b"two") == data_id
    assert espresso.load(BOB) == b"two"
    for reader in (ANN, EVE, KEEPER, STRANGER):
        assert espresso.load(reader) is None
        with pytest.raises(AccessDenied):
            keeper.read_data(data_id, reader)
    assert list(keeper.resources()) == []
    assert espresso.stored([BOB.agent_id, EVE.agent_id]) == {"bob"}
    assert espresso.forget(BOB.agent_id)
    assert not espresso.forget(BOB.agent_id)
    assert espresso.load(BOB) is None
    assert list(keeper.data_ids()) == []


def test_who_has_no_table_gets_that_for_everybody(keeper: FolderPod) -> None:
    espresso = EspressoPod(keeper)
    espresso.store(BOB.agent_id, b"bob's")
    espresso.store(EVERYBODY, b"public")
    found = [espresso.load(reader) for reader in (BOB, EVE, STRANGER)]
    assert found == [b"bob's", b"public", b"public"]


def test_tables_are_made_for_those_whom_rights_name(
    pod: FolderPod, shard: Shard, keeper: FolderPod, keeping: TableKeeping
) -> None:
    pod.write("a.txt", "cough fever")
    shared = pod.write("b.txt", "cough", rights=PRIVATE.grant("bob").grant_group("ward"))
    sync(pod, shard)
    counts = keeping.refresh()
    assert counts._replace(bytes_made=0) == TableCounts(made=2)
    assert counts.bytes_made == sum(len(keeper.data(one) or b"") for one in keeper.data_ids())
    for reader, expected in ((ANN, 2), (BOB, 1), (EVE, None), (KEEPER, None), (STRANGER, None)):
        assert df(keeper, reader, "cough") == expected
    assert df(keeper, BOB, "fever") == 0
    for reader in (ANN, BOB):
        assert (
            EspressoPod(keeper).load(reader)
            == make_selector_table(shard.view(reader), S1, TableSettings()).to_bytes()
        )
    nurse = Reader(AgentId("nina"), frozenset({GroupId("ward")}))
    assert shard.view(nurse).level("document").n_entities == 1
    assert df(keeper, nurse, "cough") is None  # by a token alone: documented
    assert keeping.refresh() == TableCounts(unchanged=2)

    pod.set_rights(shared, PRIVATE)
    sync(pod, shard)
    assert keeping.refresh() == TableCounts(unchanged=1, removed=1)
    assert df(keeper, BOB, "cough") is None
    assert keeper.data(DocId("espresso/tables/x.bin")) is None


def test_what_is_public_has_a_table_for_everybody(
    pod: FolderPod, shard: Shard, keeper: FolderPod, keeping: TableKeeping
) -> None:
    pod.write("a.txt", "cough", rights=Rights(public=True))
    pod.write("b.txt", "cough", rights=PRIVATE)
    sync(pod, shard)
    assert keeping.refresh().made == 2
    assert [df(keeper, reader, "cough") for reader in (ANN, EVE, STRANGER)] == [2, 1, 1]
    assert keeping.refresh([EVE.agent_id]) == TableCounts()  # no right names her: no own table
    assert len(list(keeper.data_ids())) == 2


def test_only_what_changed_for_a_user_is_made_anew(
    pod: FolderPod, shard: Shard, keeper: FolderPod, keeping: TableKeeping, tmp_path: Path
) -> None:
    pod.write("a.txt", "cough", rights=PRIVATE.grant("bob"))
    pod.write("b.txt", "cough", rights=PRIVATE.grant("eve"))
    sync(pod, shard)
    assert keeping.refresh().made == 3
    pod.write("a.txt", "fever")
    sync(pod, shard)
    assert keeping.refresh()._replace(bytes_made=0) == TableCounts(made=2, unchanged=1)
    assert [df(keeper, reader, "cough") for reader in (ANN, BOB, EVE)] == [1, 0, 1]
    (bobs,) = (one for one in keeper.data_ids() if readable(keeper, one, BOB))
    keeper.delete_data(bobs)  # by hand: it comes back
    assert keeping.refresh()._replace(bytes_made=0) == TableCounts(made=1, unchanged=2)
    (tmp_path / "record.json").write_text("{")
    assert keeping.refresh().made == 3
    smaller = TableKeeping(shard, EspressoPod(keeper), tmp_path / "record.json", small())
    assert smaller.refresh().made == 3


def small() -> TableSettings:
    return TableSettings(n_best=1)


def readable(keeper: FolderPod, data_id: DocId, reader: Reader) -> bool:
    try:
        return bool(keeper.read_data(data_id, reader))
    except AccessDenied:
        return False


def test_some_users_are_looked_at_and_the_others_stay(
    pod: FolderPod, shard: Shard, keeper: FolderPod, keeping: TableKeeping
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE.grant("bob", "eve"))
    sync(pod, shard)
    keeping.refresh()
    assert keeping.forget([BOB.agent_id, AgentId("nobody")]) == 1
    pod.revoke(doc_id, BOB.agent_id)
    sync(pod, shard)
    assert keeping.refresh([BOB.agent_id]) == TableCounts()
    assert [df(keeper, reader, "cough") for reader in (ANN, BOB, EVE)] == [1, None, 1]
    assert keeping.refresh([AgentId("keeper")]) == TableCounts()  # whom no right names
    keeping.forget([EVE.agent_id])  # nothing changes for her: it comes back
    assert keeping.refresh([EVE.agent_id]).made == 1
    assert keeping.refresh() == TableCounts(unchanged=2)


def test_all_that_is_out_of_date_is_gone_before_any_table_is_made(
    pod: FolderPod,
    shard: Shard,
    keeper: FolderPod,
    keeping: TableKeeping,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE.grant("bob", "eve"))
    pod.write("b.txt", "cough", rights=PRIVATE.grant("bob", "eve"))
    sync(pod, shard)
    keeping.refresh()
    pod.revoke(doc_id, BOB.agent_id, EVE.agent_id)
    sync(pod, shard)
    seen = []
    real = make_selector_table

    def watched(*arguments: object, **options: object) -> SelectorTable:
        seen.append([df(keeper, reader, "cough") for reader in (BOB, EVE)])
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(table_keeping, "make_selector_table", watched)
    assert keeping.refresh().made == 2
    assert seen == [[None, None], [1, None]]
    assert [df(keeper, reader, "cough") for reader in (ANN, BOB, EVE)] == [2, 1, 1]


def test_a_table_of_what_changed_while_it_was_made_does_not_stay(
    pod: FolderPod,
    shard: Shard,
    keeper: FolderPod,
    keeping: TableKeeping,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doc_id = pod.write("a.txt", "cough", rights=PRIVATE.grant("bob"))
    sync(pod, shard)
    real = make_selector_table

    def revoking(*arguments: object, **options: object) -> SelectorTable:
        made = real(*arguments, **options)  # type: ignore[arg-type]
        shard.set_rights({doc_id: PRIVATE})
        return made

    monkeypatch.setattr(table_keeping, "make_selector_table", revoking)
    keeping.refresh([BOB.agent_id])
    assert df(keeper, BOB, "cough") is None


RIGHTS = st.builds(
    Rights,
    owner=st.sampled_from([AgentId("ann"), AgentId("")]),
    agents=st.frozensets(st.sampled_from([BOB.agent_id, EVE.agent_id])),
    public=st.booleans(),
    authenticated=st.booleans(),
)
STEPS = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.tuples(st.sampled_from(["cough", "cough fever", "rash"]), RIGHTS),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=10, deadline=None)
@given(STEPS)
def test_after_a_refresh_each_has_the_table_of_what_they_may_read_or_none(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, tuple[str, Rights]]]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    keeper = FolderPod.create(folder / "own", PodId("own"), KEEPER.agent_id)
    espresso = EspressoPod(keeper)
    with Shard.open(folder / "shard", server_id=S1) as shard:
        keeping = TableKeeping(shard, espresso, folder / "record.json")
        for documents in steps:
            shard.delete(list(shard.etags(PodId("p"))))
            shard.add(
                IndexedDocument(DocId(name), PodId("p"), text, rights)
                for name, (text, rights) in documents.items()
            )
            shard.commit()
            keeping.refresh()
            every = [rights for _, rights in documents.values()]
            named = {one for rights in every for one in (rights.owner, *rights.agents)}
            for reader in (ANN, BOB, EVE, KEEPER, STRANGER):
                own = reader.agent_id in named and any(one.allow(reader) for one in every)
                of = reader if own else STRANGER
                expected = None
                if any(one.allow(of) for one in every):
                    expected = make_selector_table(shard.view(of), S1).to_bytes()
                assert espresso.load(reader) == expected
            assert keeping.refresh().made == 0
