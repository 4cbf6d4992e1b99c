"""Small data sets, one division of them among clients of each kind, and threads to train them."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import (
    ClientView,
    Views,
    by_click_behaviour,
    by_document_preference,
    by_label,
    by_quantity,
    draw_shared_queries,
    iid,
    iid_disjoint,
    mixed_click_behaviour,
    with_quantities,
    with_shared_queries,
)
from cloister.data.ranking_data import RankingData

two_threads = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="this machine offers one thread only"
)

USERS = [click_model(name, 3) for name in ("perfect", "navigational", "informational", "pbm-1")]
PERFECT, NAVIGATIONAL, INFORMATIONAL, POSITION_BASED = USERS
LEAVES_ANYWHERE = click_model("informational", 3, stop="at_each_document")


def ragged(
    seed: int, *, n_queries: int = 12, most_documents: int = 8, n_features: int = 5
) -> RankingData:
    """Make queries of 0 to so many documents with random features and grades 0 to 2."""
    rng = stream(seed, "test", "ragged")
    lengths = rng.integers(0, most_documents + 1, n_queries)
    lengths[:3] = (0, 1, most_documents)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    features = rng.normal(size=(int(offsets[-1]), n_features)).astype(np.float32)
    labels = rng.integers(0, 3, len(features)).astype(np.int8)
    labels[1:7] = (0, 0, 1, 1, 2, 2)  # enough of each to divide
    return RankingData(features, labels, offsets)


PARTITIONS = (
    "iid",
    "disjoint",
    "intents",
    "labels",
    "clicks",
    "clicks mixed",
    "quantity",
    "shared",
    "everything",
)


def divided(data: RankingData, partition: str, *, seed: int) -> Views:
    """Return three to five clients who differ in one way, or in all."""
    intents = stream(seed, "test", "intents").integers(0, 3, (data.n_rows, 3)).astype(np.int8)
    by_grade = by_label(data, n_labels_per_client=2, seed=seed)
    match partition:
        case "iid":
            return iid(data, 5)
        case "disjoint":
            return iid_disjoint(data, 5, seed=seed)
        case "intents":
            return by_document_preference(data, intents, seed=seed, n_clients=5)
        case "labels":
            return by_grade
        case "clicks":
            return by_click_behaviour(data, [*USERS, LEAVES_ANYWHERE])
        case "clicks mixed":
            return mixed_click_behaviour(data, USERS, 5)
        case "quantity":
            return by_quantity(data, (1, 2, 4), n_clients=5)
        case "shared":
            return with_shared_queries(by_grade, draw_shared_queries(data, 0.3, seed=seed))
    mixed = (
        by_grade[0],
        replace(by_grade[1], labels=np.ascontiguousarray(intents[:, 0])),
        ClientView(data, labels=np.ascontiguousarray(intents[:, 1]), click_models=(PERFECT,)),
        ClientView(data, queries=np.array([2, 5, 7]), click_models=(POSITION_BASED, NAVIGATIONAL)),
        ClientView(data),
    )
    return with_quantities(mixed, (2, 1, 3))
