"""A document's index resource: its analysed term counts, beside it in its pod, in a few bytes.

It has the document's rights (``Datastore.write_data`` with ``like``) and tells what an index tells
of the document: every term and how often. Whoever builds an index of the pod can take the counts
from it instead of fetching and analysing the text: another server, or one whose index was lost.

It is bound to one document, to one state of it (its ETag) and to one analysis, and is believed only
if all three fit and its checksum and counts do. A checksum finds damage, not forgery: whoever may
write in the pod can store counts that are not those of the text, as they can store another text.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import DataError
from cloister.core.ids import DocId
from cloister.index.analysis import MAX_WORD_CHARACTERS, TextAnalysis
from cloister.index.term_counts import TermCounts
from cloister.pods.document_text import MAX_DIFFERENT_WORDS, MAX_TEXT_CHARACTERS

__all__ = [
    "DocumentTerms",
    "decode_terms",
    "document_of",
    "encode_terms",
    "is_terms",
    "joined_counts",
    "terms_id",
]

ENDING: Final = ".terms.bin"  # an ending that no document has
MAGIC: Final = b"CLTERMS1"
DIGEST_BYTES: Final = 16
HEADER: Final = struct.Struct(f"<{DIGEST_BYTES}s{DIGEST_BYTES}sIQI")
MAX_UNPACKED_BYTES: Final = 20_000_000  # of terms and counts
TERM_BYTES: Final = 100  # of memory for a term and its count, besides its letters
_TERMS: Final = re.compile(r"[^\W_]+(?:\n[^\W_]+)*")  # a term is a run of letters and digits


class DocumentTerms(NamedTuple):
    """The terms of one document in rising order, and how often each occurs.

    Examples
    --------
    >>> DocumentTerms.of_text("fever, cough and fever", TextAnalysis())
    DocumentTerms(terms=('cough', 'fever'), counts=(1, 2))
    """

    terms: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """How much memory they take, roughly."""
        return sum(map(len, self.terms)) + TERM_BYTES * len(self.terms)

    @classmethod
    def of_text(cls, text: str, analysis: TextAnalysis) -> DocumentTerms:
        """Count the terms of a text."""
        counted = sorted(Counter(analysis.terms(text)).items())
        return cls(tuple(term for term, _ in counted), tuple(count for _, count in counted))


def terms_id(doc_id: DocId) -> DocId:
    """Return the id of a document's index resource.

    Examples
    --------
    >>> terms_id(DocId("ann/visits/2024.txt"))
    'ann/visits/2024.txt.terms.bin'
    """
    return DocId(doc_id + ENDING)


def document_of(data_id: DocId) -> DocId | None:
    """Return the document whose index resource this is; None for other data.

    Examples
    --------
    >>> document_of(DocId("ann/a.txt.terms.bin")), document_of(DocId("ann/word-vectors.bin"))
    ('ann/a.txt', None)
    """
    return DocId(data_id.removesuffix(ENDING)) if data_id.endswith(ENDING) else None


def is_terms(content: bytes) -> bool:
    """Say whether bytes claim to be an index resource; others are not ours to change."""
    return content.startswith(MAGIC)


def encode_terms(found: DocumentTerms, doc_id: DocId, etag: str, analysis: TextAnalysis) -> bytes:
    """Return the bytes of an index resource.

    Parameters
    ----------
    found
        What the document holds.
    doc_id, etag
        Of the document when it was read.
    analysis
        By which it was counted.
    """
    joined = "\n".join(found.terms).encode()
    counts = np.array(found.counts, "<u4").tobytes()
    header = HEADER.pack(
        _analysis_digest(analysis),
        _state_digest(doc_id, etag),
        len(found.terms),
        sum(found.counts),
        len(joined),
    )
    body = header + zlib.compress(joined + counts, 6)
    return MAGIC + _digest(body) + body


def decode_terms(content: bytes, doc_id: DocId, etag: str, analysis: TextAnalysis) -> DocumentTerms:
    """Return what an index resource says of one state of a document.

    Raises
    ------
    DataError
        It is damaged, of another document, state or analysis, or its counts cannot be true, or are
        those of a document that would be left out.

    Examples
    --------
    >>> analysis, doc_id = TextAnalysis(), DocId("ann/a.txt")
    >>> content = encode_terms(DocumentTerms(("cough",), (2,)), doc_id, "tag", analysis)
    >>> decode_terms(content, doc_id, "tag", analysis)
    DocumentTerms(terms=('cough',), counts=(2,))
    >>> decode_terms(content, doc_id, "another", analysis)
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: index resource: of another document, state or analysis; ...
    """
    start = len(MAGIC) + DIGEST_BYTES
    checksum, body = content[len(MAGIC) : start], content[start:]
    if not is_terms(content) or len(body) < HEADER.size or checksum != _digest(body):
        raise _wrong("damaged")
    analysed, state, n_terms, length, n_joined = HEADER.unpack_from(body)
    fits = analysed == _analysis_digest(analysis) and state == _state_digest(doc_id, etag)
    if not etag or not fits:
        raise _wrong("of another document, state or analysis")
    if n_terms > MAX_DIFFERENT_WORDS or length > MAX_TEXT_CHARACTERS:
        raise _wrong("more words than a document may have")
    unpacked = _unpacked(body[HEADER.size :], n_joined + 4 * n_terms)
    return _checked(unpacked[:n_joined], np.frombuffer(unpacked[n_joined:], "<u4"), length)


def joined_counts(documents: Sequence[DocumentTerms]) -> TermCounts:
    """Return the counts of several documents, as an index takes them.

    Examples
    --------
    >>> counts = joined_counts([DocumentTerms(("b",), (1,)), DocumentTerms(("a", "b"), (2, 3))])
    >>> counts.vocabulary, counts.starts.tolist(), counts.terms.tolist(), counts.counts.tolist()
    (['a', 'b'], [0, 1, 3], [1, 0, 1], [1, 2, 3])
    """
    vocabulary = sorted(set().union(*(one.terms for one in documents)))
    places = {term: place for place, term in enumerate(vocabulary)}
    return TermCounts(
        np.cumsum([0, *(len(one.terms) for one in documents)], dtype=np.int64),
        np.array([places[term] for one in documents for term in one.terms], np.int32),
        np.array([count for one in documents for count in one.counts], np.int32),
        vocabulary,
    )


def _unpacked(packed: bytes, n_bytes: int) -> bytes:
    """Unpack just so many bytes: no more memory is taken than was announced and is allowed."""
    if n_bytes > MAX_UNPACKED_BYTES:
        raise _wrong("too long")
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(packed, n_bytes + 1)
    except zlib.error:
        raise _wrong("damaged") from None
    if len(unpacked) != n_bytes or not unpacker.eof or unpacker.unused_data:
        raise _wrong("damaged")
    return unpacked


def _checked(
    joined: bytes, counts: np.ndarray[tuple[int], np.dtype[np.uint32]], length: int
) -> DocumentTerms:
    try:
        text = joined.decode()
    except UnicodeDecodeError:
        raise _wrong("no terms") from None
    terms = tuple(text.split("\n")) if text else ()
    sound = (
        (not text or _TERMS.fullmatch(text) is not None)
        and len(terms) == len(counts)
        and all(len(term) <= MAX_WORD_CHARACTERS for term in terms)
        and all(before < after for before, after in pairwise(terms))
        and (not terms or 1 <= int(counts.min()) <= int(counts.max()) < 2**31)
        and int(counts.sum(dtype=np.uint64)) == length
    )
    if not sound:
        raise _wrong("its counts cannot be true")
    return DocumentTerms(terms, tuple(counts.tolist()))


def _analysis_digest(analysis: TextAnalysis) -> bytes:
    """Stand for how words are cut: settings, versions of Unicode and, if used, of the stemmer."""
    parts: list[object] = [analysis.model_dump(mode="json"), unicodedata.unidata_version]
    if analysis.stemming != "none":
        from importlib.metadata import version

        parts.append(version("snowballstemmer"))
    return _digest(json.dumps(parts, sort_keys=True).encode())


def _state_digest(doc_id: DocId, etag: str) -> bytes:
    return _digest(json.dumps([doc_id, etag]).encode())


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def _wrong(what: str) -> DataError:
    return DataError(what, where="index resource", remedy="read the document instead")
