"""MEDIQA 2019, task 3: consumer health questions, each with answers to rank.

Ben Abacha et al., "Overview of the MEDIQA 2019 Shared Task on Textual Inference, Question
Entailment and Question Answering", BioNLP 2019. One file of JSON lines a split, one question a
line: ``qid``, ``question`` and ``answers`` with ``aid``, ``score`` and ``text`` each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cloister.core.errors import NotFound
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query
from cloister.data.json_lines import JsonLine, read_json_lines
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_file import find_text_files

__all__ = ["open_mediqa"]

LOWEST_SCORE: Final = 1  # "incorrect"; 2 related, 3 correct but incomplete, 4 excellent


def open_mediqa(folder: str | Path) -> TextCollection:
    """Open a folder of MEDIQA question-answering files; the file names are the splits.

    Questions and answers are numbered anew in every file, so ids carry the split:
    ``test-7`` and ``test-7_Answer2``. An answer that two questions share is two documents. The
    grade is ``score - 1``, so that an incorrect answer has grade 0; ``fields`` keeps the score.
    """
    files = find_text_files(folder, ".jsonl")
    if not files:
        raise NotFound("no file of JSON lines here", where=str(folder))
    queries: list[Query] = []
    judgements: dict[str, tuple[Judgement, ...]] = {}
    for split, path in files.items():
        questions = list(_read_questions(split, path))
        queries.extend(Query(query_id, line.text("question")) for query_id, line in questions)
        judgements[split] = tuple(
            Judgement(query_id, doc_id, answer.whole_number("score") - LOWEST_SCORE)
            for query_id, line in questions
            for doc_id, answer in _answers(split, line)
        )
    return TextCollection(
        "mediqa", str(folder), partial(_read_answers, files), tuple(queries), judgements
    )


def _read_questions(split: str, path: Path) -> Iterator[tuple[QueryId, JsonLine]]:
    seen: set[QueryId] = set()
    for line in read_json_lines(path):
        query_id = QueryId(f"{split}-{line.identifier('qid')}")
        if query_id in seen:
            raise line.error(f"the question id {line.identifier('qid')!r} occurs twice")
        seen.add(query_id)
        yield query_id, line


def _answers(split: str, line: JsonLine) -> Iterator[tuple[DocId, JsonLine]]:
    for answer in line.objects("answers"):
        yield DocId(f"{split}-{answer.identifier('aid')}"), answer


def _read_answers(files: Mapping[str, Path]) -> Iterator[TextRecord]:
    seen: set[DocId] = set()
    for split, path in files.items():
        for query_id, line in _read_questions(split, path):
            for doc_id, answer in _answers(split, line):
                if doc_id in seen:
                    raise line.error(f"the answer id {answer.identifier('aid')!r} occurs twice")
                seen.add(doc_id)
                fields = {"split": split, "query_id": query_id, **answer.without("aid", "text")}
                yield TextRecord(Document(doc_id, answer.text("text")), fields)
