"""Documents, queries and judgements of a text collection, whatever layout they came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Judgement, Query

__all__ = ["CollectionSummary", "SplitSummary", "TextCollection", "TextRecord"]


class TextRecord(NamedTuple):
    """A document and what else its source says about it, such as ``source`` or ``url``."""

    document: Document
    fields: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class TextCollection:
    """A text collection: documents read when needed, queries and judgements at hand.

    Parameters
    ----------
    kind
        The layout that it was read from, such as ``"beir"``.
    name
        Where it lies: a folder, or a name such as ``irds:vaswani``.
    read_records
        Starts a new pass over the documents; each call gives an iterator from the beginning.
    queries
        All queries, judged or not.
    judgements
        Relevance judgements by the name of their split.
    query_fields
        What else the source says about a query, by query id.

    Examples
    --------
    >>> from cloister.core.ids import DocId, QueryId
    >>> records = [TextRecord(Document(DocId("d1"), "Cough and fever."), {"source": "NIH"})]
    >>> collection = TextCollection(
    ...     "beir", "tiny", lambda: iter(records), (Query(QueryId("q1"), "cough"),),
    ...     {"test": (Judgement(QueryId("q1"), DocId("d1"), 2),)})
    >>> collection.documents[0].text, collection.fields["d1"]["source"]
    ('Cough and fever.', 'NIH')
    >>> collection.summary().labels
    {2: 1}
    """

    kind: str
    name: str
    read_records: Callable[[], Iterator[TextRecord]] = field(repr=False)
    queries: tuple[Query, ...] = field(repr=False)
    judgements: Mapping[str, tuple[Judgement, ...]] = field(repr=False)
    query_fields: Mapping[QueryId, Mapping[str, Any]] = field(default_factory=dict, repr=False)

    def iter_records(self) -> Iterator[TextRecord]:
        """Stream the documents with their fields; nothing is kept in memory."""
        return self.read_records()

    def iter_documents(self) -> Iterator[Document]:
        """Stream the documents; from memory if `documents` was used before."""
        loaded: tuple[Document, ...] | None = self.__dict__.get("documents")
        if loaded is not None:
            return iter(loaded)
        return (record.document for record in self.read_records())

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """All documents, read at the first use and kept."""
        return tuple(self.iter_documents())

    @cached_property
    def fields(self) -> Mapping[DocId, Mapping[str, Any]]:
        """The further fields of every document by its id, read at the first use and kept."""
        return {record.document.doc_id: record.fields for record in self.read_records()}

    def summary(self) -> CollectionSummary:
        """Count documents, queries and judgements in one pass over the documents."""
        doc_ids: set[DocId] = set()
        n_documents = n_empty = 0
        for document in self.iter_documents():
            doc_ids.add(document.doc_id)
            n_documents += 1
            n_empty += not (document.text.strip() or document.title.strip())
        query_ids = {query.query_id for query in self.queries}
        splits = {
            name: _summarise(judgements, query_ids, doc_ids)
            for name, judgements in self.judgements.items()
        }
        return CollectionSummary(
            kind=self.kind,
            documents=n_documents,
            empty_documents=n_empty,
            queries=len(self.queries),
            judged_queries=len({j.query_id for part in self.judgements.values() for j in part}),
            judgements=sum(split.judgements for split in splits.values()),
            labels=_added(split.labels for split in splits.values()),
            splits=splits,
        )


@dataclass(frozen=True)
class SplitSummary:
    """Counts of one split.

    ``unknown_queries`` and ``unknown_documents`` count the judgements that name a query or document
    which the collection does not have; ``repeated`` those whose pair was judged before.
    """

    judged_queries: int
    judgements: int
    labels: dict[int, int]
    unknown_queries: int
    unknown_documents: int
    repeated: int


@dataclass(frozen=True)
class CollectionSummary:
    """Counts of a text collection; ``labels`` counts the judgements of each grade over all splits.

    An empty document has neither text nor title.
    """

    kind: str
    documents: int
    empty_documents: int
    queries: int
    judged_queries: int
    judgements: int
    labels: dict[int, int]
    splits: dict[str, SplitSummary]

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain dicts, as the command line prints them."""
        return asdict(self)


def _summarise(
    judgements: Collection[Judgement], query_ids: Collection[QueryId], doc_ids: Collection[DocId]
) -> SplitSummary:
    grades = Counter(judgement.grade for judgement in judgements)
    n_pairs = len({(judgement.query_id, judgement.doc_id) for judgement in judgements})
    return SplitSummary(
        judged_queries=len({judgement.query_id for judgement in judgements}),
        judgements=len(judgements),
        labels=dict(sorted(grades.items())),
        unknown_queries=sum(judgement.query_id not in query_ids for judgement in judgements),
        unknown_documents=sum(judgement.doc_id not in doc_ids for judgement in judgements),
        repeated=len(judgements) - n_pairs,
    )


def _added(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for part in counts:
        total.update(part)
    return dict(sorted(total.items()))
