"""From an opened sketch file and a query's terms to what ``cloister sketch query`` prints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from cloister.app.sketch_collection import iter_documents
from cloister.app.sketch_opening import AnySketch, describe, reverse_source
from cloister.app.sketch_query import Answer, Score, answer_query
from cloister.core.errors import DataError
from cloister.sketch.count_min import CountMin
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.rtk_sketch import RtkSketch

__all__ = ["answer"]

Result = dict[str, Any]


def answer(
    opened: AnySketch,
    key: HashKey,
    terms: Sequence[str],
    k: int,
    *,
    score: Score = "counts",
    ids_of: str | None = None,
) -> Result:
    """Answer a query; ``ids_of`` is the collection that was sketched, for its document ids."""
    about = _of_file(opened) | {"terms": list(terms)}
    if isinstance(opened, CountSketch | CountMin):
        estimates = opened.estimate(key.hash_terms(terms, opened.shape))
        counts = [{"term": t, "count": c} for t, c in zip(terms, estimates.tolist(), strict=True)]
        return about | {"counts": counts, "results": []}
    names = opened.doc_ids if isinstance(opened, RtkSketch) else None
    if ids_of is not None:
        names = [str(document.doc_id) for document in iter_documents(ids_of)]
        n = len(opened.doc_ids) if isinstance(opened, RtkSketch) else opened.n_documents
        if len(names) != n:
            raise DataError(
                f"{len(names)} documents, where {n} were sketched",
                where=ids_of,
                remedy="name the collection that the sketch was made of",
            )
    source = reverse_source(opened, key)
    start = time.perf_counter()
    found = answer_query(source, terms, k, score)
    return about | {
        "score": score,
        "k": k,
        "results": _lines(found, names),
        "made_up_queries": len(found.made_up),
        "made_up_median": float(np.median(found.made_up)),
        "seconds": time.perf_counter() - start,
    }


def _of_file(opened: AnySketch) -> Result:
    """Return what a reader of answers must know of the file."""
    wanted = ("kind", "protected", "simulated", "documents", "epsilon", "delta", "level", "sigma")
    about = describe(opened)
    return {name: about[name] for name in (*wanted, "needs_rebuild") if name in about}


def _lines(found: Answer, names: Sequence[str | None] | None) -> list[Result]:
    as_good, stands_out = found.made_up_as_good, found.stands_out
    return [
        {
            "document": int(document),
            "doc_id": None if names is None else names[document],
            "score": float(found.scores[i]),
            "counts": found.counts[:, i].tolist(),
            "made_up_as_good": int(as_good[i]),
            "stands_out": bool(stands_out[i]),
        }
        for i, document in enumerate(found.documents)
    ]
