"""Feature vectors of one query's candidates, made at the user's home node.

They are made of the answers that this user got, and of nothing else: each number that goes in came
from a server that had checked what the user may read. Features are brought to 0 to 1 within the
query, by the smallest and the largest of its candidates, as LETOR's are; one that is equal for all
candidates is 0.

A ranker is learnt over all nodes of a federation, so the list is fixed: nodes that ask for scores
by another model would give the same names to other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.search.merging import Merged

__all__ = ["PAGE_FEATURES", "page_features", "raw_page_features"]

Floats = NDArray[np.float64]

PAGE_FEATURES: Final = (
    "score",  # in the merged list
    "matched_share",  # terms of the query that the document has, of all that the query has
    "tf_sum",  # occurrences, over matched terms
    "tf_min",
    "tf_max",
    "log_tf_sum",  # ln(1 + tf)
    "normalised_tf_sum",  # tf over the document's length
    "idf_sum",  # ln(1 + (N - df + 0.5) / (df + 0.5)), over matched terms
    "idf_max",
    "tfidf_sum",
    "tfidf_min",
    "tfidf_max",
    "weight_max",  # what the best term adds to the score
    "log_length",  # ln(1 + length)
    "pod_share",  # candidates that lie in the same pod, of all
    "at_home",  # whether the document lies at the user's own server
)


class _Parts(NamedTuple):
    """What all matched terms of all candidates say, flat; ``owner`` is the candidate's place."""

    owner: NDArray[np.int64]
    tf: Floats
    idf: Floats
    weight: Floats


def page_features(candidates: Sequence[Merged], *, home: ServerId) -> NDArray[np.float32]:
    """Return the features of a query's candidates, each from 0 to 1; one row a candidate.

    Parameters
    ----------
    candidates
        The merged answers; scores come with their parts (``SubQuery.explain``), else the features
        of terms are 0.
    home
        The user's own server.

    Examples
    --------
    >>> from cloister.core.ids import DocId, PodId
    >>> from cloister.search.node import Hit, TermPart
    >>> def found(server, name, n):
    ...     part = TermPart("cough", 0.5 * n, n, 2, 10)
    ...     return Merged(ServerId(server), 0.5 * n, Hit(
    ...         DocId(name), PodId(server), 0.5 * n, length=8, parts=(part,)))
    >>> features = page_features([found("a", "x", 3), found("b", "y", 1)], home=ServerId("b"))
    >>> dict(zip(PAGE_FEATURES, features[0].tolist()))["tf_sum"], features.shape
    (1.0, (2, 16))
    """
    raw = raw_page_features(candidates, home=home)
    if not len(raw):
        return np.empty((0, len(PAGE_FEATURES)), np.float32)
    low = raw.min(axis=0)
    width = raw.max(axis=0) - low
    scaled: NDArray[np.float32] = ((raw - low) / np.where(width > 0, width, np.inf)).astype("f4")
    return scaled


def raw_page_features(candidates: Sequence[Merged], *, home: ServerId) -> Floats:
    """Return the features before they are brought to one scale."""
    n = len(candidates)
    raw = np.zeros((n, len(PAGE_FEATURES)))
    if not n:
        return raw
    length = _numbers([one.hit.length for one in candidates])
    raw[:, 0] = _numbers([one.score for one in candidates], lowest=-np.inf)
    raw[:, 1] = [_matched_share(one) for one in candidates]
    raw[:, 2:13] = _of_terms(_parts(candidates), n, length)
    raw[:, 13] = np.log1p(length)
    raw[:, 14] = _pod_shares(candidates)
    raw[:, 15] = [one.server_id == home for one in candidates]
    return raw


def _of_terms(parts: _Parts, n: int, length: Floats) -> Floats:
    """Return the features from tf_sum to weight_max."""
    owner, tf, idf, weight = parts
    tfidf = tf * idf
    sums = [np.bincount(owner, values, n) for values in (tf, np.log1p(tf), idf, tfidf)]
    columns = [
        sums[0],
        _lowest(owner, tf, n),
        _highest(owner, tf, n),
        sums[1],
        sums[0] / np.maximum(length, 1.0),
        sums[2],
        _highest(owner, idf, n),
        sums[3],
        _lowest(owner, tfidf, n),
        _highest(owner, tfidf, n),
        _highest(owner, weight, n),
    ]
    return np.stack(columns, axis=1)


def _parts(candidates: Sequence[Merged]) -> _Parts:
    """Lay the matched terms of all candidates side by side."""
    rows = [
        (place, part.n_occurrences, part.frequency, part.n_entities, part.weight)
        for place, one in enumerate(candidates)
        for part in one.hit.parts
        if part.n_occurrences > 0
    ]
    table = np.array(rows, np.float64).reshape(len(rows), 5)
    if not np.isfinite(table).all():
        raise _not_finite()
    entities = np.maximum(table[:, 3], 0.0)
    # Published frequencies carry noise, and may lie below 0 or above the number of documents.
    frequency = np.clip(table[:, 2], 0.0, entities)
    idf = np.log1p((entities - frequency + 0.5) / (frequency + 0.5))
    return _Parts(table[:, 0].astype(np.int64), table[:, 1], idf, table[:, 4])


def _highest(owner: NDArray[np.int64], values: Floats, n: int) -> Floats:
    """Return the largest value of each candidate; 0 for one without any."""
    found = np.full(n, -np.inf)
    np.maximum.at(found, owner, values)
    return np.where(np.isneginf(found), 0.0, found)


def _lowest(owner: NDArray[np.int64], values: Floats, n: int) -> Floats:
    return -_highest(owner, -values, n)


def _matched_share(one: Merged) -> float:
    parts = one.hit.parts
    return sum(part.n_occurrences > 0 for part in parts) / len(parts) if parts else 0.0


def _pod_shares(candidates: Sequence[Merged]) -> Floats:
    numbers: dict[tuple[str, str], int] = {}
    pods = [numbers.setdefault((one.server_id, one.hit.pod_id), len(numbers)) for one in candidates]
    shares: Floats = np.bincount(pods)[pods] / len(pods)
    return shares


def _numbers(values: Sequence[float], *, lowest: float = 0.0) -> Floats:
    array = np.array(values, np.float64)
    if not np.isfinite(array).all():
        raise _not_finite()
    return np.maximum(array, lowest)


def _not_finite() -> DataError:
    return DataError(
        "a number of an answer is not finite",
        where="page_features",
        remedy="leave the server's answer out",
    )
