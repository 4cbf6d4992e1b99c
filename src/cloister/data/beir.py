"""The layout of the BEIR benchmark: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/*.tsv``.

Thakur et al., "BEIR: A Heterogenous Benchmark for Zero-shot Evaluation of Information Retrieval
Models", NeurIPS 2021. Every file may be compressed with gzip.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from cloister.core.errors import NotFound
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query
from cloister.data.json_lines import JsonLine, read_json_lines
from cloister.data.qrels import read_qrels
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_file import find_text_file, find_text_files

__all__ = ["is_beir", "open_beir"]

_QRELS_SUFFIXES: Final = (".tsv", ".txt", ".qrels")


def is_beir(folder: str | Path) -> bool:
    """Say whether a folder holds a collection in the BEIR layout."""
    return find_text_file(folder, "corpus.jsonl") is not None


def open_beir(folder: str | Path) -> TextCollection:
    """Open a folder in the BEIR layout; documents are read when they are needed.

    Queries or judgements may be missing, then the collection has none. The name of a file in
    ``qrels/`` is the name of its split.

    Raises
    ------
    NotFound
        The folder has no ``corpus.jsonl``.
    DataError
        A line cannot be read, or an id of a document or query occurs twice.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "corpus.jsonl")
    ...     _ = path.write_text('{"_id": 1, "text": "Cough.", "source": "NIH"}')
    ...     open_beir(folder).documents
    (Document(doc_id='1', text='Cough.', title=''),)
    """
    corpus = find_text_file(folder, "corpus.jsonl")
    if corpus is None:
        raise NotFound(
            "no corpus.jsonl or corpus.jsonl.gz here",
            where=str(folder),
            remedy="name a folder in the BEIR layout",
        )
    queries, query_fields = _read_queries(find_text_file(folder, "queries.jsonl"))
    return TextCollection(
        kind="beir",
        name=str(folder),
        read_records=partial(_read_corpus, corpus),
        queries=queries,
        judgements=_read_judgements(Path(folder, "qrels")),
        query_fields=query_fields,
    )


def _read_corpus(path: Path) -> Iterator[TextRecord]:
    for doc_id, line in _unique_lines(path, "document"):
        document = Document(DocId(doc_id), line.text("text"), line.text("title", optional=True))
        yield TextRecord(document, line.without("_id", "text", "title"))


def _read_queries(
    path: Path | None,
) -> tuple[tuple[Query, ...], dict[QueryId, dict[str, Any]]]:
    queries: list[Query] = []
    fields: dict[QueryId, dict[str, Any]] = {}
    for name, line in _unique_lines(path, "query") if path else ():
        query_id = QueryId(name)
        queries.append(Query(query_id, line.text("text")))
        fields[query_id] = line.without("_id", "text")
    return tuple(queries), fields


def _unique_lines(path: Path, what: str) -> Iterator[tuple[str, JsonLine]]:
    """Yield the lines of a file with their ids, and refuse an id that occurs twice."""
    seen: set[str] = set()
    for line in read_json_lines(path):
        name = line.identifier("_id")
        if name in seen:
            raise line.error(f"the {what} id {name!r} occurs twice")
        seen.add(name)
        yield name, line


def _read_judgements(folder: Path) -> dict[str, tuple[Judgement, ...]]:
    if not folder.is_dir():
        return {}
    files = find_text_files(folder, *_QRELS_SUFFIXES)
    return {split: tuple(read_qrels(path)) for split, path in files.items()}
