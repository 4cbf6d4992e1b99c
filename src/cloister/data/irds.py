"""A bridge to the collections of the ``ir_datasets`` package, named ``irds:vaswani`` and the like.

MacAvaney et al., "Simplified Data Wrangling with ir_datasets", SIGIR 2021. The package fetches a
collection at its first use and keeps it under ``$IR_DATASETS_HOME``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from cloister.core.errors import CloisterError, DataError, MissingDependency, NotFound
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_file import shortened

__all__ = ["IRDS_PREFIX", "open_irds"]

IRDS_PREFIX: Final = "irds:"
_QUERY_FIELDS: Final = ("text", "query", "title", "description")  # in this order of preference
_INSTALL: Final = "pip install cloister[irds]"


def open_irds(name: str) -> TextCollection:
    """Open a collection of ``ir_datasets``; the prefix ``irds:`` may be left out.

    Queries and judgements are read at once, documents when they are needed. The last part of the
    name is the name of the split: ``test`` for ``irds:beir/nfcorpus/test``. A title that the text
    begins with is taken off the text.

    Raises
    ------
    MissingDependency
        ``ir_datasets`` is not installed, or a package that it needs for this collection.
    NotFound
        It knows no collection of this name.
    DataError
        The collection has no documents, or could not be fetched or read.
    """
    name = name.removeprefix(IRDS_PREFIX)
    dataset = _load(name)
    if not dataset.has_docs():
        raise DataError(
            "a collection without documents",
            where=IRDS_PREFIX + name,
            remedy=f"see https://ir-datasets.com/{name.split('/')[0]}.html for its parts",
        )
    with _explained(name, "queries"):
        queries = tuple(_queries(dataset)) if dataset.has_queries() else ()
    with _explained(name, "judgements"):
        judgements = tuple(_judgements(dataset)) if dataset.has_qrels() else ()
    return TextCollection(
        kind="irds",
        name=IRDS_PREFIX + name,
        read_records=partial(_read_records, name),
        queries=queries,
        judgements={name.rpartition("/")[2]: judgements} if judgements else {},
    )


def _load(name: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise MissingDependency(
            "the package ir_datasets is not installed", where=IRDS_PREFIX + name, remedy=_INSTALL
        ) from None
    with _explained(name, "description"):
        try:
            return ir_datasets.load(name)
        except KeyError:
            near = difflib.get_close_matches(name, list(ir_datasets.registry), n=3)
            raise NotFound(
                "ir_datasets knows no collection of this name",
                where=IRDS_PREFIX + name,
                remedy=f"did you mean {', '.join(near)}"
                if near
                else "https://ir-datasets.com lists the names",
            ) from None


@contextmanager
def _explained(name: str, part: str) -> Iterator[None]:
    """Turn whatever the package raises into an error that says what to do.

    It passes on the errors of its downloads, archives and parsers, which have no common type.
    """
    where = IRDS_PREFIX + name
    try:
        yield
    except CloisterError:
        raise
    except ImportError as error:
        raise MissingDependency(
            f"ir_datasets needs another package for the {part}: {error}", where=where
        ) from error
    except Exception as error:
        raise DataError(
            f"ir_datasets could not provide the {part} ({type(error).__name__}: "
            f"{shortened(str(error))})",
            where=where,
            remedy="fetch the collection once with a network connection, or put its files under "
            "$IR_DATASETS_HOME as ir_datasets describes",
        ) from error


def _queries(dataset: Any) -> Iterator[Query]:
    for query in dataset.queries_iter():
        yield Query(QueryId(query.query_id), _text(query, "query_id"))


def _judgements(dataset: Any) -> Iterator[Judgement]:
    for qrel in dataset.qrels_iter():
        yield Judgement(QueryId(qrel.query_id), DocId(qrel.doc_id), int(qrel.relevance))


def _read_records(name: str) -> Iterator[TextRecord]:
    with _explained(name, "documents"):
        for doc in _load(name).docs_iter():
            title = getattr(doc, "title", "")
            title = title if isinstance(title, str) else ""
            text = _text(doc, "doc_id")
            if text.startswith((f"{title} ", f"{title}\n")):
                text = text[len(title) :].lstrip()
            fields = {key: value for key, value in doc._asdict().items() if key != "doc_id"}
            yield TextRecord(Document(DocId(doc.doc_id), text, title), fields)


def _text(record: Any, id_field: str) -> str:
    """Return the text of a document or query: what its type calls its default, else its words."""
    if hasattr(record, "default_text"):
        return str(record.default_text())
    for name in _QUERY_FIELDS:
        if isinstance(getattr(record, name, None), str):
            return str(getattr(record, name))
    words = (value for key, value in record._asdict().items() if key != id_field)
    return " ".join(value for value in words if isinstance(value, str))
