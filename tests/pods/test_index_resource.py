from __future__ import annotations

import hashlib
import struct
import time
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument, Shard
from cloister.pods import index_resource
from cloister.pods.index_resource import (
    DocumentTerms,
    decode_terms,
    document_of,
    encode_terms,
    is_terms,
    joined_counts,
    terms_id,
)

PLAIN = TextAnalysis()
STEMMED = TextAnalysis(stemming="english", stop_words="none", min_length=1)
DOC = DocId("ann/a.txt")
ANYBODY = Reader("ann")  # type: ignore[arg-type]
WORDS = st.sampled_from(["cough", "fever", "5mg", "NAÏVE", "the"])
TEXTS = st.text(max_size=60) | st.lists(WORDS).map(" ".join)


@given(TEXTS, st.sampled_from([PLAIN, STEMMED, TextAnalysis.espresso()]))
def test_what_is_stored_is_what_is_read(text: str, analysis: TextAnalysis) -> None:
    found = DocumentTerms.of_text(text, analysis)
    assert dict(zip(found.terms, found.counts, strict=True)) == Counter(analysis.terms(text))
    content = encode_terms(found, DOC, "tag", analysis)
    assert is_terms(content)
    assert decode_terms(content, DOC, "tag", analysis) == found


def test_another_document_state_or_analysis_is_not_believed() -> None:
    content = encode_terms(DocumentTerms.of_text("cough", PLAIN), DOC, "tag", PLAIN)
    for doc_id, etag, analysis in (
        (DocId("ann/b.txt"), "tag", PLAIN),
        (DOC, "tag2", PLAIN),
        (DOC, "", PLAIN),
        (DOC, "tag", STEMMED),
        (DOC, "tag", TextAnalysis(min_length=3)),
    ):
        with pytest.raises(DataError):
            decode_terms(content, doc_id, etag, analysis)
    with pytest.raises(DataError):  # a server that gives no tags says nothing of states
        decode_terms(encode_terms(DocumentTerms((), ()), DOC, "", PLAIN), DOC, "", PLAIN)


@settings(max_examples=200)
@given(st.data())
def test_any_damage_is_found(data: st.DataObject) -> None:
    content = encode_terms(DocumentTerms(("cough", "fever"), (3, 1)), DOC, "tag", PLAIN)
    place = data.draw(st.integers(0, len(content) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(content)
    damaged[place] ^= 1 << bit
    for wrong in (bytes(damaged), content[:place], content + b"\0"):
        with pytest.raises(DataError):
            decode_terms(wrong, DOC, "tag", PLAIN)


def forged(
    n_terms: int, length: int, joined: bytes, counts: list[int], n_joined: int = -1
) -> bytes:
    """Return an index resource with a right checksum over whatever somebody likes to say."""
    header = index_resource.HEADER.pack(
        index_resource._analysis_digest(PLAIN),
        index_resource._state_digest(DOC, "tag"),
        n_terms,
        length,
        len(joined) if n_joined < 0 else n_joined,
    )
    packed = zlib.compress(joined + struct.pack(f"<{len(counts)}I", *counts))
    body = header + packed
    return b"CLTERMS1" + hashlib.blake2b(body, digest_size=16).digest() + body


def test_a_true_one_passes_as_the_forgeries_below_are_made() -> None:
    content = forged(2, 4, b"cough\nfever", [3, 1])
    assert decode_terms(content, DOC, "tag", PLAIN) == DocumentTerms(("cough", "fever"), (3, 1))


@pytest.mark.parametrize(
    "content",
    [
        forged(2, 4, b"fever\ncough", [3, 1]),  # not rising
        forged(2, 4, b"cough\ncough", [3, 1]),  # twice
        forged(2, 3, b"cough\nfever", [3, 0]),  # never
        forged(2, 5, b"cough\nfever", [3, 1]),  # another length
        forged(1, 4, b"cough\nfever", [4]),  # another number of terms
        forged(2, 4, b"cough\nfe er", [3, 1]),  # no term
        forged(2, 4, b"cough\n", [3, 1]),
        forged(2, 4, b"cough\n\xff\xff", [3, 1]),
        forged(1, 2**31, b"cough", [2**31]),  # more than an index can count
        forged(2, 4, b"cough\nfever", [3, 1], n_joined=3),
        forged(2**31, 4, b"cough\nfever", [3, 1]),  # as if it were very long
        forged(2, 4, b"cough\nfever" + b"x" * 100_000, [3, 1], n_joined=11),
        b"CLTERMS1",
        b"",
    ],
)
def test_what_cannot_be_true_is_refused_though_its_checksum_is_right(content: bytes) -> None:
    with pytest.raises(DataError):
        decode_terms(content, DOC, "tag", PLAIN)


def test_an_id_and_its_index_resource_belong_together() -> None:
    assert document_of(terms_id(DOC)) == DOC
    assert document_of(DocId("ann/word-vectors.bin")) is None


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXTS, max_size=5))
def test_an_index_of_stored_counts_is_that_of_the_texts(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    documents = [
        IndexedDocument(DocId(f"d{i}"), PodId("p"), text, Rights(public=True))
        for i, text in enumerate(texts)
    ]
    with shard_of(folder / "a") as plain, shard_of(folder / "b") as counted:
        plain.add(documents)
        if documents:
            terms = [DocumentTerms.of_text(text, PLAIN) for text in texts]
            counted.add_counted(documents, joined_counts(terms))
        plain.commit()
        counted.commit()
        one, other = plain.view(ANYBODY), counted.view(ANYBODY)
        assert one.vocabulary() == other.vocabulary()
        np.testing.assert_array_equal(one.lengths, other.lengths)
        for term in one.vocabulary():
            for some, others in zip(one.postings(term), other.postings(term), strict=True):
                np.testing.assert_array_equal(some, others)


def shard_of(folder: Path) -> Shard:
    return Shard.open(folder, server_id=ServerId("s"))


def test_an_index_resource_is_smaller_than_its_text() -> None:
    text = " ".join(f"word{i % 150}" for i in range(700))
    content = encode_terms(DocumentTerms.of_text(text, PLAIN), DOC, "tag", PLAIN)
    assert len(content) < len(text) / 5


@pytest.mark.parametrize(
    "found",
    [
        DocumentTerms(tuple(f"a{n:07}" for n in range(250_001)), (1,) * 250_001),
        DocumentTerms(("cough", "fever"), (8_000_000, 8_000_001)),
        DocumentTerms(("x" * 65,), (1,)),
    ],
    ids=["terms", "words", "letters"],
)
def test_terms_of_a_document_that_would_be_left_out_are_not_read(found: DocumentTerms) -> None:
    content = encode_terms(found, DOC, "tag", PLAIN)
    with pytest.raises(DataError):
        decode_terms(content, DOC, "tag", PLAIN)


def test_the_greatest_index_resource_is_read_in_a_moment() -> None:
    terms = tuple(f"{n:07}" + "x" * 57 for n in range(250_000))
    content = encode_terms(DocumentTerms(terms, (1,) * len(terms)), DOC, "tag", PLAIN)
    began = time.process_time()
    assert decode_terms(content, DOC, "tag", PLAIN).terms == terms
    assert time.process_time() - began < 2.0
