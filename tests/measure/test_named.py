"""Measures by name."""

from __future__ import annotations

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.data.ranking_data import RankingData
from cloister.measure.average_precision import average_precision
from cloister.measure.err import err
from cloister.measure.named import evaluate, evaluate_ranked, measure_names, parse_measure
from cloister.measure.ndcg import ndcg
from cloister.measure.precision import precision
from cloister.measure.ranked import rank_labels
from cloister.measure.reciprocal_rank import reciprocal_rank


@pytest.fixture
def world() -> tuple[np.ndarray, RankingData]:
    rng = stream(41)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 90, size=50))])
    labels = rng.choice(5, size=offsets[-1], p=[0.9, 0.04, 0.03, 0.02, 0.01]).astype(np.int8)
    data = RankingData(np.zeros((len(labels), 1), np.float32), labels, offsets)
    return rng.integers(40, size=len(labels)).astype(np.float32), data


def test_each_name_stands_for_its_measure(world: tuple[np.ndarray, RankingData]) -> None:
    scores, data = world
    ranked = rank_labels(scores, data.labels, data.offsets)
    expected = {
        "nDCG@10": ndcg(ranked, k=10),
        "nDCG": ndcg(ranked),
        "ERR@10": err(ranked, k=10, max_grade=4),
        "ERR": err(ranked, max_grade=4),
        "MAP": average_precision(ranked, relevant_grade=2),
        "MAP@5": average_precision(ranked, k=5, relevant_grade=2),
        "MRR": reciprocal_rank(ranked, relevant_grade=2),
        "MRR@3": reciprocal_rank(ranked, k=3, relevant_grade=2),
        "P@5": precision(ranked, k=5, relevant_grade=2),
    }
    assert {parse_measure(name).name for name in expected} == set(measure_names())
    together = evaluate(scores, data, expected, relevant_grade=2, max_grade=4)
    assert list(together) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(together[name], values)
        alone = evaluate(scores, data, [name], relevant_grade=2, max_grade=4)
        np.testing.assert_array_equal(alone[name], values)  # ranked only as deep as needed
        zero = evaluate_ranked(
            ranked, [name], relevant_grade=2, max_grade=4, nothing_relevant="zero"
        )
        np.testing.assert_array_equal(zero[name], np.nan_to_num(values))


def test_ties_are_broken_as_asked(world: tuple[np.ndarray, RankingData]) -> None:
    scores, data = world
    drawn = evaluate(scores, data, ["nDCG@10"], ties="random", rng=stream(1))["nDCG@10"]
    again = evaluate(scores, data, ["nDCG@10"], ties="random", rng=stream(1))["nDCG@10"]
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, evaluate(scores, data, ["nDCG@10"])["nDCG@10"], equal_nan=True)


@pytest.mark.parametrize("text", ["nDCG@10", "ndcg@10", " NDCG@10 "])
def test_letters_may_be_small_or_capital(text: str) -> None:
    assert str(parse_measure(text)) == "nDCG@10"


@pytest.mark.parametrize("text", ["BLEU", "nDCG@", "nDCG@ten", "nDCG@1.5", "", "@10", "nDCG 10"])
def test_an_unknown_name_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(SettingsError, match="known: nDCG, ERR, MAP, MRR, P"):
        parse_measure(text)


@pytest.mark.parametrize("text", ["nDCG@0", "P@-5", "MAP@00"])
def test_a_name_with_a_cut_off_below_one_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        parse_measure(text)


@pytest.mark.parametrize("digits", ["99999999999999999999", "2147483648", "9" * 5000])
def test_a_name_with_a_cut_off_beyond_any_ranking_is_refused(
    digits: str, world: tuple[np.ndarray, RankingData]
) -> None:
    with pytest.raises(SettingsError, match="at most 2147483647"):
        parse_measure(f"nDCG@{digits}")
    with pytest.raises(SettingsError, match="at most 2147483647"):
        evaluate(*world, [f"nDCG@{digits}"])


def test_the_largest_cut_off_is_the_whole_ranking(world: tuple[np.ndarray, RankingData]) -> None:
    values = evaluate(*world, ["nDCG@2147483647", "nDCG"])
    np.testing.assert_array_equal(values["nDCG@2147483647"], values["nDCG"])


def test_what_a_measure_needs_is_asked_for(world: tuple[np.ndarray, RankingData]) -> None:
    scores, data = world
    with pytest.raises(SettingsError, match="max_grade"):
        evaluate(scores, data, ["ERR@10"])
    with pytest.raises(SettingsError, match="write P@5"):
        evaluate(scores, data, ["P"])


def test_no_measures_give_no_values(world: tuple[np.ndarray, RankingData]) -> None:
    assert evaluate(*world, []) == {}
