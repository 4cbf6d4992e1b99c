"""The peer of the search benchmark: tantivy, with a filter for what a reader may read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloister.core.errors import MissingDependency

__all__ = ["TantivyIndex"]

HEAP_BYTES = 500_000_000


class TantivyIndex:
    """An index of texts and of the readers of each.

    Parameters
    ----------
    folder
        Where it lies.
    n_threads
        Of the writer.
    """

    def __init__(self, folder: Path, *, n_threads: int = 2) -> None:
        self._tantivy = _tantivy()
        builder = self._tantivy.SchemaBuilder()
        builder.add_text_field("text", stored=False)
        builder.add_text_field("readers", stored=False, tokenizer_name="raw")
        builder.add_unsigned_field("number", stored=True, indexed=False)
        self._schema = builder.build()
        self._index = self._tantivy.Index(self._schema, path=str(folder))
        self._n_threads = n_threads

    def build(self, texts: Sequence[str], readers: Sequence[Sequence[str]]) -> None:
        """Index texts, each with the names of who may read it."""
        writer = self._index.writer(heap_size=HEAP_BYTES, num_threads=self._n_threads)
        for number, (text, names) in enumerate(zip(texts, readers, strict=True)):
            document = self._tantivy.Document(number=number, text=text)
            for name in names:
                document.add_text("readers", name)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def top(self, terms: Sequence[str], reader: str, k: int) -> list[Any]:
        """Return the best k of what a reader may read: addresses and scores."""
        query, occur = self._tantivy.Query, self._tantivy.Occur
        wanted = [(occur.Should, query.term_query(self._schema, "text", term)) for term in terms]
        allowed = query.const_score_query(
            query.term_query(self._schema, "readers", reader, "basic"), 0.0
        )
        both = query.boolean_query(
            [(occur.Must, query.boolean_query(wanted)), (occur.Must, allowed)]
        )
        return list(self._searcher.search(both, k, count=False).hits)


def _tantivy() -> Any:
    try:
        import tantivy
    except ImportError:
        raise MissingDependency(
            "tantivy is not installed", where="bench search", remedy="pip install tantivy"
        ) from None
    return tantivy
