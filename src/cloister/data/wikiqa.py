"""WikiQA: questions from a search log, each with sentences of one Wikipedia page to rank.

Yang et al., "WikiQA: A Challenge Dataset for Open-Domain Question Answering", EMNLP 2015. One file
a split, tab-separated, with the header ``qid label question answer``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.errors import DataError, NotFound
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_file import find_text_files, first_line, read_lines, shortened

__all__ = ["WIKIQA_COLUMNS", "open_wikiqa"]

WIKIQA_COLUMNS: Final = ("qid", "label", "question", "answer")


class _Pair(NamedTuple):
    split: str
    query_id: QueryId
    doc_id: DocId
    grade: int
    question: str
    answer: str


def open_wikiqa(folder: str | Path) -> TextCollection:
    """Open a folder of WikiQA files; the file names are the splits.

    Questions are numbered anew in every file and sentences have no ids, so ids carry the split and
    the place: question ``dev-2`` has the sentences ``dev-2-1``, ``dev-2-2`` and so on. Every line
    is a document of its own, also where two questions share a sentence.
    """
    files = {
        split: path
        for split, path in find_text_files(folder, ".tsv").items()
        if tuple(first_line(path).split("\t")) == WIKIQA_COLUMNS
    }
    if not files:
        raise NotFound(
            f"no tab-separated file with the header {' '.join(WIKIQA_COLUMNS)}", where=str(folder)
        )
    queries: dict[QueryId, Query] = {}
    judgements: dict[str, list[Judgement]] = {split: [] for split in files}
    for pair in _read_pairs(files):
        queries.setdefault(pair.query_id, Query(pair.query_id, pair.question))
        judgements[pair.split].append(Judgement(pair.query_id, pair.doc_id, pair.grade))
    return TextCollection(
        "wikiqa",
        str(folder),
        partial(_read_sentences, files),
        tuple(queries.values()),
        {split: tuple(part) for split, part in judgements.items()},
    )


def _read_pairs(files: Mapping[str, Path]) -> Iterator[_Pair]:
    for split, path in files.items():
        n_sentences: Counter[str] = Counter()
        for number, line in read_lines(path):
            if number == 1 or not line.strip():
                continue
            columns = line.rstrip("\r\n").split("\t")
            if len(columns) != len(WIKIQA_COLUMNS):
                raise _malformed(path, number, line, f"{len(columns)} columns, expected 4")
            qid, label, question, answer = columns
            if label not in ("0", "1"):
                raise _malformed(path, number, line, f"the label {label!r} is neither 0 nor 1")
            if not qid:
                raise _malformed(path, number, line, "an empty question id")
            n_sentences[qid] += 1
            query_id = QueryId(f"{split}-{qid}")
            doc_id = DocId(f"{query_id}-{n_sentences[qid]}")
            yield _Pair(split, query_id, doc_id, int(label), question, answer)


def _read_sentences(files: Mapping[str, Path]) -> Iterator[TextRecord]:
    for pair in _read_pairs(files):
        fields = {"split": pair.split, "query_id": pair.query_id}
        yield TextRecord(Document(pair.doc_id, pair.answer), fields)


def _malformed(path: Path, number: int, line: str, what: str) -> DataError:
    return DataError(f"{what}: {shortened(line)}", where=f"{path}:{number}")
