"""``cloister cloud search``: a query as tokens to the server, names and texts opened here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cloister.cloud.client import IndexTransport, PrivateIndexClient
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.http_client import HttpTransport
from cloister.cloud.http_service import read_token
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.query_opening import open_model, open_query
from cloister.cloud.query_trace import OpenedKey, OpenedPair, QueryTrace
from cloister.cloud.rank_request import RankRequest
from cloister.core.errors import Damaged, DataError, NotFound, SettingsError
from cloister.rank.tree_features import distinct_terms

__all__ = ["asked_terms", "own_index", "query_trace", "read_dictionary", "search_index", "traced"]

Result = dict[str, Any]


def search_index(
    query: str,
    client_file: Path,
    server: str,
    token_file: Path,
    *,
    k: int,
    with_text: bool,
    trace: bool,
    index: Path | None,
    ca_file: Path | None = None,
) -> Result:
    """Rank the documents of an index for a query; see `cloister.cloud.query_trace` for the price.

    Parameters
    ----------
    index
        The client's copy of what was uploaded: with it the trace says what the boxes hold.
    """
    dictionary = read_dictionary(client_file)
    terms = asked_terms(query, dictionary)
    held = None if index is None else own_index(index, dictionary)  # before anything is sent
    with HttpTransport(server, read_token(token_file), ca_file=ca_file) as transport:
        found = _found(terms, PrivateIndexClient(dictionary, transport), k, with_text=with_text)
        if trace:
            seen = query_trace(terms, dictionary, transport, k=k, held=held)
            found["trace"] = seen | {"texts_fetched": len(found["results"]) if with_text else 0}
    return {"query": query, "server": server, **found}


def read_dictionary(path: Path) -> ClientDictionary:
    """Read the client's file; an error names it."""
    try:
        return ClientDictionary.load(path)
    except (DataError, Damaged) as error:
        raise type(error)(
            error.what,
            where=str(path),
            remedy="name the file that `cloister cloud build --client` wrote",
        ) from None


def asked_terms(query: str, dictionary: ClientDictionary) -> tuple[str, ...]:
    """Return the different terms of a query; nothing is sent where none of them has a box.

    Raises
    ------
    SettingsError
        If the query has no terms.
    DataError
        If no document has any of them.
    """
    terms = distinct_terms(dictionary.analysis.terms(query))
    if not terms:
        raise SettingsError(
            "the query has no words to search for",
            where="query",
            remedy="use other words; stop words and single letters are left out",
        )
    if not any(map(dictionary.has_word, terms)):
        raise DataError(
            f"no document has: {', '.join(terms)}", where="query", remedy="use other words"
        )
    return tuple(terms)


def _found(
    terms: tuple[str, ...], client: PrivateIndexClient, k: int, *, with_text: bool
) -> Result:
    start = time.perf_counter()
    hits = client.search_terms(terms, k)
    seconds = time.perf_counter() - start
    results: list[Result] = [{"doc_id": hit.doc_id, "score": hit.score} for hit in hits]
    if with_text:
        for one, hit in zip(results, hits, strict=True):
            one["text"] = _text(client, hit.number)
    return {
        "index_id": client.index_id,
        "results": results,
        "unknown_terms": [term for term in terms if not client.dictionary.has_word(term)],
        "seconds": seconds,
    }


def _text(client: PrivateIndexClient, number: int) -> str:
    try:
        return client.document(number)
    except NotFound as error:
        raise NotFound(
            error.what, where="--text", remedy="build the index --with-texts, or leave --text out"
        ) from None


def query_trace(
    terms: tuple[str, ...],
    dictionary: ClientDictionary,
    transport: IndexTransport,
    *,
    k: int,
    held: PrivateIndex | None,
) -> Result:
    """Say what the server saw of a query: what was sent and, given the index, what that opened."""
    request = PrivateIndexClient(dictionary, transport).request(terms, k)
    opened = None
    if held is not None:
        opened = open_query(held, request, open_model(held, request.model))
    return traced(request, opened)


def own_index(path: Path, dictionary: ClientDictionary) -> PrivateIndex:
    """Open the client's copy of an index.

    Raises
    ------
    DataError
        If it is another one.
    """
    held = PrivateIndex.open(path)
    if held.index_id != dictionary.index_id:
        raise DataError(
            "this is another index than the client's",
            where=str(path),
            remedy="name the file that was built with the client's file",
        )
    return held


def traced(request: RankRequest, opened: QueryTrace | None) -> Result:
    """Return a request, and what it opened where that is known, as plain values."""
    boxes = [{"kind": "model", "label": request.model.label.hex()}]
    for kind in ("word", "phrase", "pair"):
        asked = getattr(request, f"{kind}s")
        held = getattr(opened, f"{kind}s") if opened else (None,) * len(asked)
        boxes += [
            {"kind": kind, "label": box.label.hex(), **_contents(content)}
            for box, content in zip(asked, held, strict=True)
        ]
    return {
        "n_terms": request.n_terms,
        "k": request.k,
        "bytes": len(request.to_json()),
        "opened": opened is not None,
        "counts": opened.counts._asdict() if opened else None,
        "boxes": boxes,
    }


def _contents(held: OpenedKey | OpenedPair | None) -> Result:
    """Say how much an opened box holds."""
    if held is None:
        return {}
    found: Result = {"documents": len(held.documents), "codes": int(held.codes.size)}
    if isinstance(held, OpenedKey):
        found |= {"closure": held.closure.hex(), "levels": int(held.levels.size)}
    return found
