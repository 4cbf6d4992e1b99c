"""Ranking by word vectors at document, pod and server level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.index.entity_view import LEVELS, EntityView, Level
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from cloister.search.word_vector_ranking import VECTOR_MODELS, EntityVectors, VectorModel
from cloister.search.word_vector_table import WordVectors

ANN = Reader(AgentId("ann"))
KNOWN = ["cough", "fever", "rash", "knee", "burn", "vein"]
VECTORS = WordVectors(
    tuple(KNOWN),
    np.random.default_rng(5).normal(size=(6, 7)).astype(np.float32),
    np.ones(6, np.int64),
)


class Text(NamedTuple):
    words: list[str]
    pod: int
    readable: bool


texts = st.lists(
    st.builds(
        Text,
        st.lists(st.sampled_from([*KNOWN, "unknown"]), min_size=1, max_size=8),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=10,
)
queries = st.lists(st.sampled_from([*KNOWN, "unknown"]), min_size=1, max_size=4)


def view_of(listed: list[Text], level: Level) -> EntityView:
    segment = Segment(
        Postings.build(count_terms(" ".join(text.words) for text in listed)),
        [DocId(f"d{i}") for i in range(len(listed))],
        np.array([text.pod for text in listed], np.int32),
        np.ones(len(listed), np.bool_),
        np.array([int(text.readable) for text in listed], np.int32),
    )
    rights = (NOBODY, Rights(owner=AgentId("ann")))
    snapshot = Snapshot(1, (segment,), tuple(PodId(f"p{i}") for i in range(3)), rights)
    return ReaderView(snapshot, ANN).level(level)


def literal_scores(
    listed: list[Text], query: list[str], level: Level, model: VectorModel
) -> dict[int, float]:
    """Algorithm 1, lines 26 to 35, word by word."""
    entities: dict[int, list[str]] = {}
    for number, text in enumerate(listed):
        if text.readable:
            entity = {"document": number, "pod": text.pod, "server": 0}[level]
            entities.setdefault(entity, []).extend(w for w in text.words if w in KNOWN)
    rows = {word: VECTORS.vectors[i].astype(np.float64) for i, word in enumerate(KNOWN)}
    asked = [rows[word] for word in query if word in rows]
    if not asked:
        return {}
    q = np.mean(asked, axis=0)
    found = {}
    for entity, words in entities.items():
        if words:
            v = np.mean([rows[word] for word in words], axis=0)
            cosine = q @ v / np.linalg.norm(q) / np.linalg.norm(v)
            distance = np.sqrt(((q - v) ** 2).sum())
            found[entity] = float(cosine if model == "w2v-cosine" else 1 / (1 + distance))
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", VECTOR_MODELS)
@given(listed=texts, query=queries)
def test_scores_are_those_of_the_literal_algorithm(
    level: Level, model: VectorModel, listed: list[Text], query: list[str]
) -> None:
    ranked = EntityVectors(view_of(listed, level), VECTORS).best(query, 100, model)
    found = dict(zip(ranked.entities.tolist(), ranked.scores.tolist(), strict=True))
    assert found == pytest.approx(literal_scores(listed, query, level, model), abs=1e-7)
    assert (np.diff(ranked.scores) <= 0).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", VECTOR_MODELS)
@given(listed=texts, query=queries)
def test_unreadable_documents_change_no_bit_of_any_score(
    level: Level, model: VectorModel, listed: list[Text], query: list[str]
) -> None:
    with_hidden = EntityVectors(view_of(listed, level), VECTORS).best(query, 3, model)
    readable = [text for text in listed if text.readable]
    without = EntityVectors(view_of(readable, level), VECTORS).best(query, 3, model)
    assert with_hidden.scores.tolist() == without.scores.tolist()


@pytest.mark.parametrize("size", [7, 300])
def test_equal_entities_score_equal_wherever_they_stand(size: int) -> None:
    rng = np.random.default_rng(1)
    vectors = WordVectors(
        tuple(KNOWN), rng.normal(size=(6, size)).astype(np.float32), np.ones(6, np.int64)
    )
    other = Text(["knee", "vein"], 0, True)
    same = Text(["cough", "rash", "cough", "burn"], 1, True)
    listed = [same, other, same, other, other, same]
    entities = EntityVectors(view_of(listed, "document"), vectors)
    for model in VECTOR_MODELS:
        scores = entities.scores(["cough", "fever"], model)
        assert scores[0] == scores[2] == scores[5]
        assert len(entities.best(["cough", "fever"], 1, model).entities) == 3


@given(listed=texts, query=queries)
def test_the_parts_of_a_cosine_add_up_to_it(listed: list[Text], query: list[str]) -> None:
    entities = EntityVectors(view_of(listed, "document"), VECTORS)
    ranked = entities.best(query, 100, "w2v-cosine")
    for number, score in zip(ranked.entities.tolist(), ranked.scores.tolist(), strict=True):
        parts = entities.parts(query, number)
        assert [part.term for part in parts] == [word for word in query if word in KNOWN]
        assert sum(part.weight for part in parts) == pytest.approx(score, abs=1e-6)


def test_parts_of_what_may_not_be_read_are_none() -> None:
    listed = [Text(["cough"], 0, True), Text(["cough"], 0, False)]
    entities = EntityVectors(view_of(listed, "document"), VECTORS)
    assert entities.parts(["cough"], 0)
    assert not entities.parts(["cough"], 1)
    assert not entities.parts(["cough"], 99)


def test_an_unknown_query_finds_nothing() -> None:
    entities = EntityVectors(view_of([Text(["cough"], 0, True)], "document"), VECTORS)
    for model in VECTOR_MODELS:
        assert not len(entities.best(["unknown"], 5, model).entities)
        assert not len(entities.best([], 5, model).entities)
