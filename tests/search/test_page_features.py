"""Features of candidates against a literal reading of their names."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.search.merging import Merged
from cloister.search.node import Hit, TermPart
from cloister.search.page_features import PAGE_FEATURES, page_features, raw_page_features

HOME = ServerId("home")
AWAY = ServerId("away")


def _literal(one: Merged, everyone: list[Merged]) -> dict[str, float]:
    """Read each feature off its name, with loops."""
    matched = [part for part in one.hit.parts if part.n_occurrences > 0]
    tf = [float(part.n_occurrences) for part in matched]
    idf = []
    for part in matched:
        n = max(part.n_entities, 0)
        df = min(max(part.frequency, 0), n)
        idf.append(math.log(1 + (n - df + 0.5) / (df + 0.5)))
    tfidf = [a * b for a, b in zip(tf, idf, strict=True)]
    pod = (one.server_id, one.hit.pod_id)
    beside = [other for other in everyone if (other.server_id, other.hit.pod_id) == pod]
    return {
        "score": one.score,
        "matched_share": len(matched) / len(one.hit.parts) if one.hit.parts else 0,
        "tf_sum": sum(tf),
        "tf_min": min(tf, default=0),
        "tf_max": max(tf, default=0),
        "log_tf_sum": sum(math.log(1 + value) for value in tf),
        "normalised_tf_sum": sum(tf) / max(one.hit.length, 1),
        "idf_sum": sum(idf),
        "idf_max": max(idf, default=0),
        "tfidf_sum": sum(tfidf),
        "tfidf_min": min(tfidf, default=0),
        "tfidf_max": max(tfidf, default=0),
        "weight_max": max((part.weight for part in matched), default=0),
        "log_length": math.log(1 + one.hit.length),
        "pod_share": len(beside) / len(everyone),
        "at_home": float(one.server_id == HOME),
    }


_part = st.builds(
    TermPart,
    st.just("t"),
    st.floats(-5, 5),
    st.integers(0, 9),
    st.floats(-3, 40),
    st.floats(-1, 30),
)
_candidate = st.builds(
    lambda server, pod, score, length, parts: Merged(
        server, score, Hit(DocId("d"), PodId(pod), score, length=length, parts=tuple(parts))
    ),
    st.sampled_from([HOME, AWAY]),
    st.sampled_from(["p", "q"]),
    st.floats(-10, 50),
    st.integers(0, 500),
    st.lists(_part, max_size=4),
)


@given(candidates=st.lists(_candidate, max_size=12))
def test_each_feature_is_what_its_name_says(candidates: list[Merged]) -> None:
    raw = raw_page_features(candidates, home=HOME)
    assert raw.shape == (len(candidates), len(PAGE_FEATURES))
    for row, one in zip(raw, candidates, strict=True):
        expected = _literal(one, candidates)
        assert list(expected) == list(PAGE_FEATURES)
        np.testing.assert_allclose(row, list(expected.values()), rtol=1e-12, atol=1e-12)


@given(candidates=st.lists(_candidate, min_size=1, max_size=12))
def test_features_span_0_to_1_within_the_query_or_are_0(candidates: list[Merged]) -> None:
    raw = raw_page_features(candidates, home=HOME)
    features = page_features(candidates, home=HOME)
    for column, before in zip(features.T, raw.T, strict=True):
        if before.min() < before.max():
            assert (column.min(), column.max()) == (0.0, 1.0)
            assert column[before.argmax()] == 1.0
        else:
            assert not column.any()


def test_an_answer_without_numbers_is_refused() -> None:
    bad = Merged(HOME, math.nan, Hit(DocId("d"), PodId("p"), math.nan))
    with pytest.raises(DataError, match="not finite"):
        page_features([bad], home=HOME)
    part = TermPart("t", 1.0, 2, math.inf, 3)
    with pytest.raises(DataError, match="not finite"):
        page_features(
            [Merged(HOME, 1.0, Hit(DocId("d"), PodId("p"), 1.0, parts=(part,)))], home=HOME
        )


def test_a_hundred_candidates_take_a_few_milliseconds_at_most() -> None:
    parts = tuple(TermPart(f"t{i}", 1.0 + i, 1 + i, 5.0, 100.0) for i in range(5))
    hits = [
        Hit(DocId(f"d{i}"), PodId(f"p{i % 9}"), float(i), length=i, parts=parts) for i in range(100)
    ]
    candidates = [Merged(AWAY, hit.score, hit) for hit in hits]
    page_features(candidates, home=HOME)
    taken_s = []
    for _ in range(5):
        start = time.perf_counter()
        page_features(candidates, home=HOME)
        taken_s.append(time.perf_counter() - start)
    assert min(taken_s) < 0.02  # about a millisecond, with room for a busy machine
