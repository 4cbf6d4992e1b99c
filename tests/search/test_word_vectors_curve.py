"""The curve over access levels: what it counts, and that mended vectors hold at low access."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import ScoredDoc, nDCG

from cloister.data.worlds.clinic import ClinicSettings
from cloister.lab.espresso.curve_texts import CurveTexts, beir_texts, clinic_texts
from cloister.lab.espresso.mean_ndcg import mean_ndcg
from cloister.lab.espresso.vector_curve import (
    CUTOFF,
    CurvePoint,
    CurveSettings,
    access_curve,
    chance_ndcg,
)
from cloister.search.word_vectors import WordVectorSettings

QUICK = WordVectorSettings(size=20, epochs=2)


@pytest.fixture(scope="module")
def texts() -> CurveTexts:
    return clinic_texts(
        ClinicSettings(
            servers=2, organisations=2, pods=40, staff=10, queries=12, document_bytes=1_500
        )
    )


SETTINGS = CurveSettings(levels=(10, 100), n_users=2, base=QUICK)


@pytest.fixture(scope="module")
def curve(texts: CurveTexts) -> list[CurvePoint]:
    return access_curve(texts, SETTINGS)


def figures(points: list[CurvePoint]) -> list[CurvePoint]:
    return [point._replace(seconds=0.0) for point in points]


def test_one_seed_gives_the_same_curve(texts: CurveTexts, curve: list[CurvePoint]) -> None:
    assert figures(access_curve(texts, SETTINGS)) == figures(curve)
    assert [(point.access_percent, point.form) for point in curve] == [
        (level, form) for level in (10, 100) for form in ("bm25", "base", "paper", "backed_off")
    ]


def test_bm25_agrees_with_itself_and_users_read_their_share(curve: list[CurvePoint]) -> None:
    for point in curve:
        if point.form == "bm25":
            assert point.agreement == 1.0
        assert 0.0 <= point.agreement <= 1.0
        assert point.n_documents == 64 * point.access_percent // 100  # 80 less the public 16


def test_ndcg_is_that_of_ir_measures() -> None:
    rng = np.random.default_rng(2)
    rankings = [rng.permutation(30)[: rng.integers(1, 15)].tolist() for _ in range(8)]
    graded = [{int(d): 1 for d in rng.permutation(30)[:7]} for _ in range(8)]
    qrels = {str(q): {str(d): g for d, g in one.items()} for q, one in enumerate(graded)}
    run = [
        ScoredDoc(str(q), str(d), -float(rank))
        for q, ranking in enumerate(rankings)
        for rank, d in enumerate(ranking)
    ]
    theirs = ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10]
    assert mean_ndcg(rankings, graded, CUTOFF) == pytest.approx(theirs)


def test_nothing_to_find_is_not_counted() -> None:
    assert mean_ndcg([[1], [2]], [{1: 1}, {}], CUTOFF) == 1.0
    assert math.isnan(mean_ndcg([[1]], [{}], CUTOFF))


@pytest.mark.parametrize(("n_gold", "n_documents"), [(10, 50), (3, 50), (4, 6)])
def test_chance_is_what_random_orders_get(n_gold: int, n_documents: int) -> None:
    rng = np.random.default_rng(3)
    gold = dict.fromkeys(range(n_gold), 1)
    orders = [rng.permutation(n_documents)[:10].tolist() for _ in range(4_000)]
    drawn = mean_ndcg(orders, [gold] * len(orders), CUTOFF)
    assert chance_ndcg([gold], n_documents) == pytest.approx(drawn, abs=0.01)


def test_at_low_access_the_mended_form_beats_the_papers_and_the_base(
    real_data: Callable[[str], Path],
) -> None:
    """NFCorpus at 5 per cent, in small: human judgements and agreement with the user's BM25."""
    settings = CurveSettings(levels=(5,), n_users=1, base=WordVectorSettings(size=50, epochs=10))
    points = access_curve(beir_texts(real_data("text/nfcorpus")), settings)
    by_form = {point.form: point for point in points}
    base, paper, mended = (by_form[form] for form in ("base", "paper", "backed_off"))
    assert mended.relevance > base.relevance
    assert mended.relevance > paper.relevance
    assert mended.agreement > base.agreement
    assert mended.agreement > paper.agreement
