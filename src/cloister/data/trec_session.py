"""Logged clicks of the TREC Session track, as prepared for the Neural Click Model.

One result page a line, tab-separated: session, query id, the ids of the documents shown, their
vertical, the clicks, and in a file of human labels the relevance of each. Lists are written as
``[1, 2, 3]``. ``queries.tsv`` and ``urls.tsv`` name what the ids stand for.

Carterette et al., "Evaluating Retrieval over Sessions: The TREC Session Track 2011-2014", SIGIR
2016.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.core.errors import DataError, NotFound
from cloister.core.ids import DocId, QueryId
from cloister.data.text_file import find_text_file, find_text_files, read_lines, shortened

__all__ = [
    "SessionLog",
    "SessionLogSummary",
    "SessionPage",
    "SessionSplitSummary",
    "open_trec_session",
    "read_session_pages",
]

_NAME_TABLES: Final = ("queries", "urls")


class SessionPage(NamedTuple):
    """One result page of a session, best first: what was shown, and what was clicked.

    ``clicks`` holds 1 for a clicked document, else 0; ``relevance`` a human grade for each, where
    there is one: -2 for spam, 0 not relevant, up to 4.
    """

    session_id: str
    query_id: QueryId
    doc_ids: tuple[DocId, ...]
    clicks: tuple[int, ...]
    relevance: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SessionSplitSummary:
    """Counts of one file; ``labels`` counts the human grades where there are any."""

    pages: int
    sessions: int
    clicks: int
    labels: dict[int, int]


@dataclass(frozen=True)
class SessionLogSummary:
    """Counts of a session log.

    ``queries`` and ``documents`` count the names, ``labels`` the human grades over all splits.
    """

    kind: str
    queries: int
    documents: int
    labels: dict[int, int]
    splits: dict[str, SessionSplitSummary]

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain dicts, as the command line prints them."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class SessionLog:
    """Result pages by split, and the names of queries and documents."""

    pages: Mapping[str, tuple[SessionPage, ...]] = field(repr=False)
    query_texts: Mapping[QueryId, str] = field(repr=False)
    document_names: Mapping[DocId, str] = field(repr=False)

    def summary(self) -> SessionLogSummary:
        """Count pages, sessions, clicks and grades of each split."""
        return SessionLogSummary(
            kind="trec-session",
            queries=len(self.query_texts),
            documents=len(self.document_names),
            labels=_grades(chain.from_iterable(self.pages.values())),
            splits={split: _summarise(pages) for split, pages in self.pages.items()},
        )


def open_trec_session(folder: str | Path) -> SessionLog:
    """Read a folder of session files; the file names are the splits."""
    files = find_text_files(folder, ".tsv")
    splits = {name: path for name, path in files.items() if name not in _NAME_TABLES}
    if not splits:
        raise NotFound("no file of sessions (such as train.tsv) here", where=str(folder))
    queries, urls = (_read_names(find_text_file(folder, f"{name}.tsv")) for name in _NAME_TABLES)
    return SessionLog(
        pages={split: tuple(read_session_pages(path)) for split, path in splits.items()},
        query_texts={QueryId(name): text for name, text in queries.items()},
        document_names={DocId(name): text for name, text in urls.items()},
    )


def read_session_pages(path: str | Path) -> Iterator[SessionPage]:
    r"""Yield the result pages of one file, plain or gzip.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.tsv")
    ...     _ = path.write_text("8\t21\t[5, 6]\t[1, 1]\t[0, 1]\n")
    ...     next(read_session_pages(path))
    SessionPage(session_id='8', query_id='21', doc_ids=('5', '6'), clicks=(0, 1), relevance=None)
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            yield _parsed(line.rstrip("\r\n").split("\t"))
        except ValueError as error:
            raise DataError(f"{error}: {shortened(line)}", where=f"{path}:{number}") from None


def _parsed(columns: Sequence[str]) -> SessionPage:
    if len(columns) not in (5, 6):
        raise ValueError(f"{len(columns)} columns, expected 5 or 6")
    session_id, query_id = columns[:2]
    if not session_id or not query_id:
        raise ValueError("an empty id")
    doc_ids, verticals, clicks, *labels = (_whole_numbers(text) for text in columns[2:])
    if any(len(part) != len(doc_ids) for part in (verticals, clicks, *labels)):
        raise ValueError("the lists differ in length")
    if not set(clicks) <= {0, 1}:
        raise ValueError("a click is neither 0 nor 1")
    shown = tuple(DocId(str(doc_id)) for doc_id in doc_ids)
    return SessionPage(session_id, QueryId(query_id), shown, clicks, labels[0] if labels else None)


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError(f"{shortened(text)} is not a list of whole numbers")
    return tuple(values)


def _read_names(path: Path | None) -> dict[str, str]:
    names: dict[str, str] = {}
    for number, line in read_lines(path) if path else ():
        name, tab, text = line.rstrip("\r\n").partition("\t")
        if not tab or name in names:
            what = "an id that occurs twice" if tab else "no tab"
            raise DataError(f"{what}: {shortened(line)}", where=f"{path}:{number}")
        names[name] = text
    return names


def _summarise(pages: Sequence[SessionPage]) -> SessionSplitSummary:
    return SessionSplitSummary(
        pages=len(pages),
        sessions=len({page.session_id for page in pages}),
        clicks=sum(sum(page.clicks) for page in pages),
        labels=_grades(pages),
    )


def _grades(pages: Iterable[SessionPage]) -> dict[int, int]:
    grades = Counter(grade for page in pages for grade in page.relevance or ())
    return dict(sorted(grades.items()))
