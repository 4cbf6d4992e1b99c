"""The index on disk: one writer, many readers, rights at once, damage refused, deletion meant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.contention import Busy
from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    Damaged,
    NotFound,
    SettingsError,
    StoreError,
)
from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.rights import NOBODY, STRANGER, Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.merge_policy import MergePolicy
from cloister.index.rights_json import rights_from_json, rights_to_json
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.shard_settings import ShardSettings
from cloister.index.term_counts import count_terms

SERVER, POD = ServerId("s1"), PodId("p1")
ALICE, BOB = Reader(AgentId("alice")), Reader(AgentId("bob"))
ALICES = Rights(owner=AgentId("alice"))
PUBLIC = Rights(public=True)
NEVER = ShardSettings(merging=MergePolicy(kind="never"))


def document(name: str, text: str, rights: Rights = PUBLIC, pod: str = "p1") -> IndexedDocument:
    return IndexedDocument(DocId(name), PodId(pod), text, rights, f"etag-{name}")


def opened(folder: Path, settings: ShardSettings = NEVER) -> Shard:
    return Shard.open(folder, server_id=SERVER, settings=settings)


def found(shard: Shard, reader: Reader, *terms: str) -> list[str]:
    return [name for name, _, _ in shard.view(reader).level("document").top(terms, 100)]


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with opened(tmp_path / "shard") as one:
        one.add([document("a", "cough fever"), document("b", "cough", ALICES)])
        one.commit()
        one.add([document("c", "rash cough cough", ALICES, "p2")])
        one.commit()
        yield one


def folder_of(shard: Shard) -> Path:
    return shard._files.folder


def test_nothing_is_seen_before_the_commit(shard: Shard) -> None:
    shard.add([document("d", "cough")])
    shard.delete([DocId("a")])
    assert found(shard, STRANGER, "cough") == ["a"]
    assert shard.etags(POD).keys() == {"b", "d"}
    shard.commit()
    assert found(shard, STRANGER, "cough") == ["d"]


def test_a_revocation_takes_effect_on_the_next_view_in_each_process(shard: Shard) -> None:
    with opened(folder_of(shard)) as elsewhere:
        granted = ALICES.grant("bob")
        shard.set_rights({DocId("b"): granted, DocId("c"): granted})
        assert set(found(elsewhere, BOB, "cough")) == {"a", "b", "c"}
        elsewhere.set_rights({DocId("b"): granted.revoke("bob")})
        assert set(found(shard, BOB, "cough")) == {"a", "c"}
        assert set(found(elsewhere, BOB, "cough")) == {"a", "c"}


def test_rights_change_at_once_while_other_changes_wait(shard: Shard) -> None:
    shard.add([document("b", "asthma", ALICES)])
    shard.set_rights({DocId("b"): NOBODY})
    assert found(shard, ALICE, "cough") == ["c", "a"]
    shard.commit()
    assert found(shard, ALICE, "asthma") == []
    assert shard.rights(POD)[DocId("b")] == NOBODY


def test_without_changes_nothing_is_committed(shard: Shard) -> None:
    before, view = shard.version, shard.view(ALICE)
    shard.add([])
    shard.delete([DocId("none")])
    assert shard.commit() == before
    assert shard.purge() == before
    assert shard.view(ALICE) is view
    assert shard.merge() == before + 1
    assert shard.merge() == before + 1


def test_what_is_rolled_back_leaves_no_file(tmp_path: Path) -> None:
    with opened(tmp_path, ShardSettings(buffer_chars=1)) as shard:
        shard.add([document("a", "syphilis")])
        assert b"syphilis" in _all_bytes(tmp_path)
        shard.rollback()
        assert b"syphilis" not in _all_bytes(tmp_path)
        assert found(shard, STRANGER, "syphilis") == []


def test_rights_can_change_while_documents_are_still_coming(shard: Shard) -> None:
    def slowly() -> Iterator[IndexedDocument]:
        yield document("d", "asthma", ALICES)
        with ThreadPoolExecutor(1) as other:
            other.submit(shard.set_rights, {DocId("b"): NOBODY, DocId("d"): NOBODY}).result(20)
        assert found(shard, ALICE, "cough") == ["c", "a"]
        yield document("e", "asthma", ALICES)

    shard.add(slowly())
    shard.commit()
    assert found(shard, ALICE, "asthma") == ["e"]
    assert found(shard, ALICE, "cough") == ["c", "a"]


def test_rights_that_could_not_be_written_are_not_committed_later(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard.add([document("d", "asthma")])
    with monkeypatch.context() as patched:

        def full(path: Path, target: Path) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(Path, "replace", full)
        with pytest.raises(StoreError, match="No space"):
            shard.set_rights({DocId("b"): PUBLIC})
    shard.commit()
    assert found(shard, STRANGER, "cough") == ["a"]


def test_rights_of_a_document_that_is_not_there_are_refused_without_effect(shard: Shard) -> None:
    before = shard.version
    with pytest.raises(NotFound) as raised:
        shard.set_rights({DocId("a"): NOBODY, DocId("secret"): PUBLIC})
    assert "secret" not in str(raised.value)
    assert shard.version == before
    assert found(shard, STRANGER, "fever") == ["a"]
    with opened(folder_of(shard)) as other:  # the lock was let go
        other.set_rights({DocId("a"): NOBODY})


def test_a_second_writer_waits_for_the_first_and_then_writes(shard: Shard) -> None:
    with opened(folder_of(shard)) as second:
        shard.add([document("d", "cough")])
        waiting = Thread(target=second.set_rights, args=({DocId("a"): NOBODY},))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        shard.commit()
        waiting.join(10)
        assert not waiting.is_alive()
        assert "a" not in found(shard, ALICE, "cough")


def test_a_writer_stays_one_over_several_commits(shard: Shard) -> None:
    with opened(folder_of(shard), NEVER.model_copy(update={"wait_s": 0.05})) as second:
        with shard.writing():
            shard.add([document("d", "cough")])
            shard.commit()
            with pytest.raises(Busy):
                second.set_rights({DocId("a"): NOBODY})
        second.set_rights({DocId("a"): NOBODY})


def test_a_second_writer_is_refused_when_the_first_takes_too_long(shard: Shard) -> None:
    with opened(folder_of(shard), NEVER.model_copy(update={"wait_s": 0.05})) as second:
        shard.add([document("d", "cough")])
        with pytest.raises(Busy, match="another process is changing this index"):
            second.add([document("e", "cough")])
        with pytest.raises(Busy):
            second.set_rights({DocId("a"): NOBODY})
        assert set(found(second, ALICE, "cough")) == {"a", "b", "c"}  # reading goes on
        shard.commit()
        second.add([document("e", "cough")])
        second.commit()
        assert set(found(shard, STRANGER, "cough")) == {"a", "d", "e"}


def test_an_index_of_another_server_or_analysis_is_refused(tmp_path: Path) -> None:
    mine = TextAnalysis(stop_words="none")
    Shard.open(tmp_path, server_id=SERVER, analysis=mine).close()
    with pytest.raises(SettingsError, match="another server"):
        Shard.open(tmp_path, server_id=ServerId("s2"))
    with pytest.raises(SettingsError, match="another analysis"):
        Shard.open(tmp_path, server_id=SERVER, analysis=TextAnalysis())
    with Shard.open(tmp_path, server_id=SERVER) as shard:
        assert shard.analysis == mine
        shard.add([document("a", "the")])
        shard.commit()
        assert found(shard, STRANGER, "the") == ["a"]


def test_a_missing_index_is_made_only_if_asked(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Shard.open(tmp_path / "none", server_id=SERVER, create=False)
    assert not (tmp_path / "none").exists()


def test_segments_without_a_commit_are_not_taken_for_an_empty_index(shard: Shard) -> None:
    (folder_of(shard) / "CURRENT").unlink()
    with pytest.raises(Damaged, match="no CURRENT"):
        opened(folder_of(shard))
    assert list(folder_of(shard).glob("segment-*"))


@pytest.mark.parametrize("name", ["CURRENT", "segment"])
def test_each_damaged_byte_is_refused(tmp_path: Path, name: str) -> None:
    with opened(tmp_path) as shard:
        shard.add([document("a", "cough fever", ALICES)])
        shard.commit()
    path = next(path for path in tmp_path.iterdir() if path.name.startswith(name))
    content = path.read_bytes()
    places = np.random.default_rng(7).choice(len(content), 150, replace=False).tolist()
    for place in [*range(70), *places]:
        damaged = bytearray(content)
        damaged[place] ^= 0x21
        path.write_bytes(damaged)
        with pytest.raises(Damaged):
            opened(tmp_path)
    for length in (0, 5, 63, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(Damaged):
            opened(tmp_path)
    path.write_bytes(content)
    with opened(tmp_path) as shard:
        assert found(shard, ALICE, "fever") == ["a"]


def test_a_missing_or_exchanged_segment_is_refused(shard: Shard) -> None:
    first, second = sorted(folder_of(shard).glob("segment-*"))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(Damaged):
        opened(folder_of(shard))
    first.write_bytes(content)
    second.unlink()
    with pytest.raises(Damaged, match="missing"):
        opened(folder_of(shard))


def test_purged_documents_leave_no_trace_in_the_files(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        shard.add([document("a", "cough"), document("hidden-name", "syphilis", ALICES, "odd-pod")])
        shard.commit()
        shard.delete([DocId("hidden-name")])
        shard.commit()
        assert b"syphilis" in _all_bytes(tmp_path)  # as the docstring says
        assert b"alice" not in _all_bytes(tmp_path)
        shard.purge()
        content = _all_bytes(tmp_path)
        for trace in (b"syphilis", b"hidden-name", b"odd-pod", b"alice"):
            assert trace not in content
        assert b"cough" in content
        assert found(shard, STRANGER, "cough") == ["a"]


def test_an_emptied_index_has_no_segments(shard: Shard) -> None:
    shard.delete([DocId("a"), DocId("b"), DocId("c"), DocId("c"), DocId("none")])
    shard.commit()
    assert not list(folder_of(shard).glob("segment-*"))
    assert shard.view(ALICE).level("document").n_entities == 0


def test_the_policy_keeps_segments_few(tmp_path: Path) -> None:
    how = ShardSettings(merging=MergePolicy(per_tier=3))
    with opened(tmp_path, how) as shard:
        for number in range(20):
            shard.add([document(f"d{number}", "cough")])
            shard.commit()
            assert len(list(tmp_path.glob("segment-*"))) <= 2
        assert len(found(shard, STRANGER, "cough")) == 20


def test_ties_are_in_order_of_ids_whenever_documents_came(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        for name in ("c", "a", "d", "b"):
            shard.add([document(name, "cough")])
            shard.commit()
        before = shard.view(STRANGER).level("document").top(["cough"], 2)
        assert [name for name, _, _ in before] == ["a", "b"]
        shard.merge()
        after = shard.view(STRANGER).level("document").top(["cough"], 2)
        assert [one[:2] for one in after] == [one[:2] for one in before]


def test_a_view_stays_as_it_was_made(shard: Shard) -> None:
    view = shard.view(ALICE)
    shard.delete([DocId("b"), DocId("a")])
    shard.purge()
    assert {name for name, _, _ in view.level("document").top(["cough"], 9)} == {"a", "b", "c"}
    assert found(shard, ALICE, "cough") == ["c"]


def test_views_are_kept_and_few(tmp_path: Path) -> None:
    with opened(tmp_path, ShardSettings(max_views=2)) as shard:
        assert shard.view(ALICE) is shard.view(ALICE)
        first = shard.view(ALICE)
        nurse = Reader(AgentId("alice"), frozenset({GroupId("nurses")}))
        assert shard.view(nurse) is not first
        shard.view(BOB)
        assert len(shard._last._views) == 2
        assert shard.view(ALICE) is not first
        before = shard.view(BOB)
        shard.add([document("a", "cough")])
        shard.commit()
        assert shard.view(BOB) is not before


def test_a_name_that_may_not_be_read_is_not_given(shard: Shard) -> None:
    view = shard.view(BOB)
    readable = set(view.documents.tolist())
    texts = set()
    for number in [*range(-2, 5), 10**9]:
        if number in readable:
            assert view.doc_id(number) == "a"
            continue
        for ask in (view.doc_id, view.pod_id, view.level("document").name):
            with pytest.raises(AccessDenied) as raised:
                ask(number)
            texts.add(str(raised.value))
    with pytest.raises(AccessDenied) as raised:
        view.level("pod").name(1)
    assert texts == {str(raised.value)}  # hidden or absent, the words are the same


def test_what_is_hidden_changes_no_version_and_no_answer(shard: Shard) -> None:
    def seen() -> tuple[object, ...]:
        view = shard.view(BOB)
        levels = [view.level(level) for level in ("document", "pod", "server")]
        tops = [[one[:2] for one in level.top(["cough", "rash"], 5)] for level in levels]
        return view.version, tops, [level.n_pairs for level in levels], view.vocabulary()

    before = seen()
    shard.add([document(f"x{n}", "cough rash rash", ALICES, f"q{n}") for n in range(9)])
    shard.commit()
    assert seen() == before
    shard.delete([DocId("b"), DocId("x3")])
    shard.merge()
    assert seen() == before
    shard.set_rights({DocId("x1"): ALICES.grant("bob")})
    assert seen() != before


def test_threads_share_a_view_and_a_shard(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    words = [f"w{n}" for n in range(40)]
    texts = [" ".join(rng.choice(words, 30)) for _ in range(300)]
    queries = [[str(word) for word in rng.choice(words, 3)] for _ in range(60)]
    how = ShardSettings(view_bytes=20_000)  # so that lists come and go
    with opened(tmp_path, how) as shard:
        shard.add(document(f"d{n}", text, pod=f"p{n % 9}") for n, text in enumerate(texts))
        shard.commit()

        def answer(query: list[str]) -> object:
            view = shard.view(ALICE)
            return [view.level(level).top(query, 10) for level in ("document", "pod")]

        wanted = [answer(query) for query in queries]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(answer, queries * 5)) == wanted * 5
        finally:
            sys.setswitchinterval(before)


def test_threads_may_read_while_one_writes(tmp_path: Path) -> None:
    with opened(tmp_path, ShardSettings(merging=MergePolicy(per_tier=2))) as shard:

        def read() -> None:
            n = 0
            while n < 15:
                names = found(shard, STRANGER, "cough")
                assert names == sorted(f"d{number:02}" for number in range(len(names)))
                assert len(names) >= n
                n = len(names)

        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            for number in range(15):
                shard.add([document(f"d{number:02}", "cough")])
                shard.commit()
            for reader in readers:
                reader.result(timeout=30)


def test_counted_documents_are_as_good_as_texts(tmp_path: Path) -> None:
    texts = ["cough fever cough", "", "rash"]
    several = [document(f"d{n}", text) for n, text in enumerate(texts)]
    with opened(tmp_path / "texts") as one, opened(tmp_path / "counts") as two:
        one.add(several)
        two.add_counted(several, count_terms(texts))
        one.commit(), two.commit()
        for query in (["cough"], ["fever", "rash"]):
            assert found(one, STRANGER, *query) == found(two, STRANGER, *query)
        with pytest.raises(CloisterError):
            two.add_counted(several[:2], count_terms(texts))


def test_ids_that_cannot_be_are_refused(shard: Shard) -> None:
    for name in ("", "two words", "\ud800", "x" * 600):
        with pytest.raises(CloisterError):
            shard.add([document(name, "cough")])
    shard.rollback()


agents = st.frozensets(st.text(min_size=1, max_size=4).map(AgentId), max_size=3)
any_rights = st.builds(
    Rights,
    owner=st.text(max_size=4).map(AgentId),
    agents=agents,
    groups=st.frozensets(st.text(min_size=1, max_size=4).map(GroupId), max_size=3),
    public=st.booleans(),
    authenticated=st.booleans(),
)


@given(st.lists(any_rights, max_size=5))
def test_rights_come_back_from_json(several: list[Rights]) -> None:
    assert list(rights_from_json(rights_to_json(several))) == several


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"[1]",
        b'[{"public":1}]',
        b'[{"agents":"bob"}]',
        b'[{"agents":[1]}]',
        b'[{"all":true}]',
    ],
)
def test_rights_that_are_not_understood_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="rights"):
        rights_from_json(content)


def _all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
