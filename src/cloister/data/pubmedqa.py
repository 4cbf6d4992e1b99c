"""PubMedQA: questions about the abstract that they head, as known-item search.

Jin et al., "PubMedQA: A Dataset for Biomedical Research Question Answering", EMNLP 2019. JSON
lines with ``_id``, ``question`` and ``contexts``, the abstract without its conclusion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from cloister.core.errors import NotFound
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query
from cloister.data.json_lines import JsonLine, read_json_lines
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_file import find_text_files

__all__ = ["open_pubmedqa"]


def open_pubmedqa(folder: str | Path) -> TextCollection:
    """Open a folder of PubMedQA files; the file names are the splits.

    Each question is a query, the abstract that it was asked about its only relevant document; both
    have the PubMed id. Documents have no title, since the title of the article is the question.
    ``fields`` holds the rest: ``answer``, ``decision``, ``meshes``, ``labels``, ``year``.
    """
    files = find_text_files(folder, ".jsonl")
    if not files:
        raise NotFound("no file of JSON lines here", where=str(folder))
    queries: list[Query] = []
    judgements: dict[str, list[Judgement]] = {split: [] for split in files}
    for split, name, line in _read_articles(files):
        queries.append(Query(QueryId(name), line.text("question")))
        judgements[split].append(Judgement(QueryId(name), DocId(name), 1))
    return TextCollection(
        "pubmedqa",
        str(folder),
        partial(_read_abstracts, files),
        tuple(queries),
        {split: tuple(part) for split, part in judgements.items()},
    )


def _read_articles(files: Mapping[str, Path]) -> Iterator[tuple[str, str, JsonLine]]:
    seen: set[str] = set()
    for split, path in files.items():
        for line in read_json_lines(path):
            name = line.identifier("_id")
            if name in seen:
                raise line.error(f"the article id {name!r} occurs twice")
            seen.add(name)
            yield split, name, line


def _read_abstracts(files: Mapping[str, Path]) -> Iterator[TextRecord]:
    for split, name, line in _read_articles(files):
        contexts = line.fields.get("contexts")
        if not isinstance(contexts, list) or not all(isinstance(part, str) for part in contexts):
            raise line.error("no list of texts in field 'contexts'")
        fields = {"split": split, **line.without("_id", "contexts")}
        yield TextRecord(Document(DocId(name), "\n".join(contexts)), fields)
