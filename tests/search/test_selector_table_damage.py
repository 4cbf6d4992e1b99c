"""Bytes that no server would send: damage, and lies with a true checksum."""

from __future__ import annotations

import time
import tracemalloc
from functools import cache
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.index.entity_weights import ModelSettings, query_weights
from cloister.index.reader_view import ReaderView
from cloister.search.best_impact import rank_by_best_impact, server_outlooks
from cloister.search.bit_codes import padded_words
from cloister.search.node import LevelSummary, ServerSummary
from cloister.search.selector_table import SelectorTable
from cloister.search.selector_table_codec import (
    length_code,
    pack_counts,
    pack_lengths,
    pack_lists,
    unpack_counts,
)
from cloister.search.selector_table_head import TableHead, opened
from cloister.search.selector_table_making import make_selector_table
from cloister.search.summary_statistics import user_statistics
from cloister.search.table_settings import TableSettings
from search.small_world import ALICE, WORDS, Note, snapshot

NAME = ServerId("s0")
N_CHECK = 8


def a_table(hash_bits: int, one_each: bool, n_words: int = 40) -> bytes:
    rng = np.random.default_rng(n_words)
    words = [*WORDS, *(f"w{n}" for n in range(n_words))]
    notes = [
        Note(f"d{n:02}", f"p{n if one_each else n % 3}", NAME, " ".join(rng.choice(words, 15)))
        for n in range(12)
    ]
    settings = TableSettings(n_best=3, hash_bits=hash_bits)
    return make_selector_table(ReaderView(snapshot(notes), ALICE), NAME, settings).to_bytes()


@cache
def tables() -> list[bytes]:
    return [a_table(4, True), a_table(14, False), a_table(4, False, 300)]


some_table = st.integers(0, 2).map(lambda number: tables()[number])
WORDS_ASKED = (*WORDS, *(f"w{n}" for n in range(40)), "unknown")


def signed(content: bytes) -> bytes:
    return content + blake2b(content, digest_size=N_CHECK).digest()


def read_or_refused(content: bytes) -> SelectorTable | None:
    try:
        return SelectorTable.from_bytes(content)
    except DataError:
        return None


def assert_sound(table: SelectorTable) -> None:
    """Check all that a searcher relies on."""
    summary = table.summary(WORDS_ASKED)
    n_documents, n_pods = summary.documents.n_entities, summary.pods.n_entities
    assert 0 <= summary.version < 2**63
    assert 0 <= n_pods <= n_documents < 2**31
    assert 0 <= summary.n_tokens < 2**63
    lengths: dict[int, int] = {}
    for found in summary.terms.values():
        in_lists = sum(one.n_occurrences for one in found.best)
        n_left = found.n_documents - len(found.best)
        assert 0 <= n_left <= n_documents
        assert 0 <= found.n_pods <= min(n_pods, found.n_documents)
        assert found.n_documents <= found.n_occurrences <= summary.n_tokens
        assert in_lists + n_left <= found.n_occurrences
        assert len({one.document for one in found.best}) == len(found.best)
        for one in found.best:
            assert 0 <= one.document < n_documents
            assert 1 <= one.n_occurrences <= one.length <= summary.n_tokens
            assert lengths.setdefault(one.document, one.length) == one.length
    whole = user_statistics([summary], list(WORDS), "document")
    weights = query_weights(list(WORDS), whole, ModelSettings())
    (outlook,) = server_outlooks([summary], weights)
    assert (outlook.lower <= outlook.upper + 1e-9).all()
    rank_by_best_impact([outlook], 5)


def test_the_tables_to_be_damaged_are_sound():
    for content in tables():
        assert_sound(SelectorTable.from_bytes(content))


@given(some_table, st.data())
def test_damage_is_found(content, data):
    place = data.draw(st.integers(0, 8 * len(content) - 1))
    damaged = bytearray(content)
    damaged[place // 8] ^= 1 << (place % 8)
    with pytest.raises(DataError):
        SelectorTable.from_bytes(bytes(damaged))


def test_a_part_of_a_table_is_none():
    content = tables()[1]
    for n in range(len(content)):
        with pytest.raises(DataError):
            SelectorTable.from_bytes(content[:n])


@given(st.binary(max_size=300))
@example(b"")
def test_any_bytes_are_refused(content):
    with pytest.raises(DataError):
        SelectorTable.from_bytes(content)


def test_lies_with_a_true_checksum_are_refused_or_could_be_true():
    """Each bit of a table turned round, one at a time, and the checksum made anew."""
    n_read = n_refused = 0
    for content in tables()[:2]:
        for place in range(8 * (len(content) - N_CHECK)):
            lie = bytearray(content[:-N_CHECK])
            lie[place // 8] ^= 1 << (place % 8)
            table = read_or_refused(signed(bytes(lie)))
            n_read, n_refused = n_read + (table is not None), n_refused + (table is None)
            if table is not None and place % 7 == 0:
                assert_sound(table)
    assert n_read > 50
    assert n_refused > 500


@given(some_table, st.data())
def test_heavy_lies_with_a_true_checksum_are_refused_or_could_be_true(content, data):
    lie = bytearray(content[:-N_CHECK])
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(4, len(lie)))
        size = data.draw(st.integers(0, 12))
        lie[begin : begin + size] = data.draw(st.binary(max_size=12))
    table = read_or_refused(signed(bytes(lie)))
    if table is not None:
        assert_sound(table)


@given(
    st.builds(
        TableHead,
        server_id=st.just(NAME),
        hash_bits=st.integers(0, 30),
        n_best=st.integers(0, 1100),
        version=st.integers(0, 2**64 - 1),
        n_documents=st.sampled_from([0, 1, 9, 2**31 - 1, 2**31, 2**64 - 1]),
        n_pods=st.sampled_from([0, 1, 9, 2**31 - 1, 2**64 - 1]),
        n_terms=st.sampled_from([0, 1, 3, 20, 2**32 - 1]),
        n_listed=st.sampled_from([0, 1, 3, 2**32 - 1]),
        n_named=st.sampled_from([0, 1, 3, 2**31 - 1, 2**32 - 1]),
        least_length=st.sampled_from([0, 5, 2**32 - 1]),
        length_parameter=st.integers(0, 255),
    ),
    st.binary(max_size=60),
)
def test_any_header_before_any_bits_is_refused_or_could_be_true(head, stream):
    table = read_or_refused(head.with_stream(stream))
    if table is not None:
        assert_sound(table)


def hostile_tables() -> dict[str, bytes]:
    """Headers that promise the most, before bits that are cheap to send."""
    zeros, ones = bytes(200_000), b"\xff" * 200_000
    most = TableHead(NAME, 4, 1000, 1, 2**31 - 1, 2**31 - 1, 200_000)
    return {
        "terms without number": most._replace(n_terms=2**32 - 1).with_stream(ones),
        "documents without number": most._replace(n_named=2**31 - 1).with_stream(ones),
        "every term listed": most._replace(n_listed=200_000).with_stream(ones),
        "nothing but zeros": most.with_stream(zeros),
        "nothing but ones": most.with_stream(ones),
        "no terms, many bits": most._replace(n_terms=0).with_stream(ones),
    }


@pytest.mark.parametrize("name", hostile_tables())
def test_a_hostile_table_takes_neither_memory_nor_time(name):
    content = hostile_tables()[name]
    tracemalloc.start()
    begun = time.process_time()
    read_or_refused(content)
    took = time.process_time() - begun
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * len(content)
    assert took < 2


def test_one_hash_for_all_terms_is_read_in_time():
    """All terms in one place of the hashes: each must still be told apart by its rest."""
    n_terms = 20_000
    bits = "".join("1" + "0000" + "1" + "1" for _ in range(n_terms))
    bits += format(0, "028b") * n_terms  # all of them equal
    stream = np.packbits(np.array(list(bits), np.uint8), bitorder="little").tobytes()
    head = TableHead(NAME, 4, 0, 1, 5, 5, n_terms)
    table = SelectorTable.from_bytes(head.with_stream(stream))
    begun = time.process_time()
    table.summary([f"w{n}" for n in range(2000)])
    assert time.process_time() - begun < 1


def test_kernels_do_not_read_beyond_the_words():
    """Every end, also one in the middle of a code."""
    head, stream = opened(tables()[1])
    words = padded_words(stream)
    for end in range(0, 8 * len(stream), 5):
        cut = words[: -(-end // 64) + 3].copy()
        hashes, fine = np.empty(head.n_terms, np.int64), np.empty(head.n_terms, np.int64)
        counts = np.empty((head.n_terms, 3), np.int64)
        position = unpack_counts(cut, end, head.hash_bits, head.one_each, hashes, fine, counts)
        assert position <= end + 64


def built(counts, lists, lengths, n_documents=5, n_pods=4, n_best=2) -> bytes:
    """Pack whatever is said of terms, in the order of their hashes, and of their lists."""
    words = np.zeros(100, np.uint64)
    hashes, nothing = np.arange(len(counts)), np.zeros(len(counts), np.int64)
    n_bits = pack_counts(
        words, 14, n_documents == n_pods, hashes, nothing, np.array(counts, np.int64)
    )
    sizes = np.cumsum([0, *(len(one) for one in lists)]).astype(np.int64)
    documents = np.array([d for one in lists for d, _ in one], np.int32)
    listed = np.array([n for one in lists for _, n in one], np.int32)
    least, parameter = length_code(np.array(lengths, np.int64))
    n_bits = pack_lengths(words, n_bits, np.array(lengths, np.int64), least, parameter)
    n_bits = pack_lists(words, n_bits, sizes, documents, listed, len(lengths))
    head = TableHead(
        NAME, 14, n_best, 1, n_documents, n_pods, len(counts), sum(map(bool, lists)),
        len(lengths), least, parameter,
    )  # fmt: skip
    return head.with_stream(words.tobytes()[: -(-n_bits // 8)])


TRUE = ([(3, 2, 7), (1, 1, 4)], [[(0, 3), (1, 2)], []], [4, 5])
WRONG = {
    "a term in more documents than there are": ([(6, 2, 7), (1, 1, 4)], *TRUE[1:]),
    "a term in more pods than there are": ([(5, 5, 9), (1, 1, 4)], *TRUE[1:]),
    "a list with more than all occurrences": (TRUE[0], [[(0, 4), (1, 4)], []], [4, 5]),
    "nothing left for the third document": (TRUE[0], [[(0, 4), (1, 3)], []], [4, 5]),
    "a complete list that leaves something": ([(2, 2, 7), (1, 1, 4)], *TRUE[1:]),
    "a document shorter than its terms": (*TRUE[:2], [2, 5]),
    "a document that no list names": (*TRUE[:2], [4, 5, 5]),
    "documents longer than all terms": (*TRUE[:2], [4, 8]),
}


def test_a_table_built_by_hand_is_read():
    table = SelectorTable.from_bytes(built(*TRUE))
    assert table.summary(()) == ServerSummary(
        NAME, 1, 11, LevelSummary(5, 4), LevelSummary(4, 3), 2, {}
    )


@pytest.mark.parametrize("name", WRONG)
def test_contents_that_cannot_be_true_are_refused(name):
    with pytest.raises(DataError):
        SelectorTable.from_bytes(built(*WRONG[name]))


def test_more_pods_than_documents_are_refused():
    with pytest.raises(DataError):
        SelectorTable.from_bytes(built(*TRUE, n_documents=4, n_pods=5))


def test_bytes_behind_the_lists_are_refused():
    head, stream = opened(built(*TRUE))
    SelectorTable.from_bytes(head.with_stream(stream))
    for more in (bytes(1), bytes(8), b"\xff"):
        with pytest.raises(DataError):
            SelectorTable.from_bytes(head.with_stream(stream + more))
