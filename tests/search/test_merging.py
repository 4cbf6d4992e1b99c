from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import DocId, PodId, ServerId
from cloister.search.merging import merge_by_cori, merge_by_score
from cloister.search.node import Hit, SubAnswer

scores = st.floats(-5, 5).map(lambda value: round(value, 1))
answers = st.lists(st.lists(scores, max_size=5), max_size=4).map(
    lambda lists: [
        SubAnswer(
            ServerId(f"s{server}"),
            1,
            tuple(
                Hit(DocId(f"d{i}-{server}"), PodId("p"), score)
                for i, score in enumerate(sorted(found, reverse=True))
            ),
        )
        for server, found in enumerate(lists)
    ]
)


@given(answers, st.integers(1, 8), st.randoms())
def test_the_best_come_first_whatever_the_order_of_the_answers(given_answers, k, random):
    merged = merge_by_score(given_answers, k)
    every = [(-hit.score, hit.doc_id) for answer in given_answers for hit in answer.hits]
    assert [(-one.score, one.hit.doc_id) for one in merged] == sorted(every)[:k]
    shuffled = random.sample(given_answers, len(given_answers))
    assert merge_by_score(shuffled, k) == merged


def answer(server: str, *found: float) -> SubAnswer:
    hits = tuple(Hit(DocId(f"{server}{i}"), PodId("p"), score) for i, score in enumerate(found))
    return SubAnswer(ServerId(server), 1, hits)


def test_cori_weighs_documents_by_their_server():
    merged = merge_by_cori(
        [answer("a", 10.0, 6.0, 2.0), answer("b", 0.3, 0.1)], {"a": 1, "b": 3}, 9
    )
    # By hand: D' = 1, .5, 0 and 1, 0; C' = 0 and 1.
    assert [(one.hit.doc_id, pytest.approx(one.score)) for one in merged] == [
        ("b0", 1.0),
        ("a0", 1 / 1.4),
        ("a1", 0.5 / 1.4),
        ("a2", 0.0),
        ("b1", 0.0),
    ]


def test_cori_takes_the_highest_value_where_all_are_equal():
    merged = merge_by_cori([answer("a", 3.0), answer("b", 1.0)], {"a": 2.0, "b": 2.0}, 2)
    assert [one.score for one in merged] == [1.0, 1.0]


@given(answers, st.floats(0.1, 10), st.floats(-5, 5))
def test_cori_does_not_look_at_the_scale_of_a_server(given_answers, factor, shift):
    """Comparing up to rounding: equal scores stay equal, others keep their distance."""
    moved = [
        one._replace(hits=tuple(hit._replace(score=hit.score * factor + shift) for hit in one.hits))
        for one in given_answers
    ]
    ranks = {one.server_id: float(i) for i, one in enumerate(given_answers)}
    wanted = {one.hit.doc_id: one.score for one in merge_by_cori(given_answers, ranks, 99)}
    found = {one.hit.doc_id: one.score for one in merge_by_cori(moved, ranks, 99)}
    assert found == pytest.approx(wanted, abs=1e-9)
