"""The field's own tools as the oracle: trec_eval and gdeval through ir_measures, ties included.

Both break ties by document id, the highest first. Documents are named so that this is the order in
which they are given.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ir_measures import AP, ERR, RR, P, nDCG

from cloister.core.random import stream
from cloister.measure.named import evaluate_ranked
from cloister.measure.ranked import RankedLabels, count_grades, rank_labels
from measure import literal

GAINS = {grade: 2**grade - 1 for grade in range(5)}
ORACLES = {
    "nDCG@1": nDCG(gains=GAINS) @ 1,
    "nDCG@10": nDCG(gains=GAINS) @ 10,
    "nDCG": nDCG(gains=GAINS),
    "P@1": P @ 1,
    "P@5": P @ 5,
    "MAP": AP,
    "MAP@3": AP @ 3,
    "MRR": RR,
}
GRADED_ORACLES = {"P@5": P(rel=2) @ 5, "MAP": AP(rel=2), "MRR": RR(rel=2)}


def _by_trec_eval(
    drawn: Sequence[literal.Query],
    measure: object,
    *,
    depth: int | None = None,
    provider: object = ir_measures,
) -> list[float]:
    """Value of each query; 0 where the tool says nothing. A run may hold only the first rows."""
    qrels, run = {}, {}
    for query, (scores, labels) in enumerate(drawn, 1):
        names = [f"d{9999 - i}" for i in range(len(scores))]
        qrels[str(query)] = dict(zip(names, (max(r, 0) for r in labels), strict=True))
        run[str(query)] = dict(list(zip(names, map(float, scores), strict=True))[:depth])
    outcome = {m.query_id: m.value for m in provider.iter_calc([measure], qrels, run)}  # type: ignore[attr-defined]
    return [outcome.get(str(query), 0.0) for query in range(1, len(drawn) + 1)]


@settings(deadline=None, max_examples=40)
@given(drawn=literal.queries(min_documents=1))
def test_measures_agree_with_trec_eval(drawn: list[literal.Query]) -> None:
    assume(drawn)
    ranked = rank_labels(*literal.flat(drawn))
    values = evaluate_ranked(ranked, ORACLES, nothing_relevant="zero")
    for name, oracle in ORACLES.items():
        np.testing.assert_allclose(
            values[name], _by_trec_eval(drawn, oracle), rtol=1e-6, err_msg=name
        )


@settings(deadline=None, max_examples=20)
@given(drawn=literal.queries(min_documents=1))
def test_measures_of_a_higher_grade_agree_with_trec_eval(drawn: list[literal.Query]) -> None:
    assume(drawn)
    ranked = rank_labels(*literal.flat(drawn))
    values = evaluate_ranked(ranked, GRADED_ORACLES, relevant_grade=2, nothing_relevant="zero")
    for name, oracle in GRADED_ORACLES.items():
        np.testing.assert_allclose(
            values[name], _by_trec_eval(drawn, oracle), rtol=1e-6, err_msg=name
        )


@settings(deadline=None, max_examples=20)
@given(drawn=literal.queries(min_documents=1), depth=st.integers(1, 8))
def test_measures_of_an_incomplete_run_agree_with_trec_eval(
    drawn: list[literal.Query], depth: int
) -> None:
    assume(drawn)
    judged = count_grades(*literal.flat(drawn)[1:])
    returned = [(scores[:depth], labels[:depth]) for scores, labels in drawn]
    ranked = rank_labels(*literal.flat(returned), grade_counts=judged)
    values = evaluate_ranked(ranked, ORACLES, nothing_relevant="zero")
    for name, oracle in ORACLES.items():
        np.testing.assert_allclose(
            values[name], _by_trec_eval(drawn, oracle, depth=depth), rtol=1e-6, err_msg=name
        )


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a Perl script")
def test_err_and_ndcg_agree_with_gdeval() -> None:
    rng = stream(21)
    drawn = []
    for n in rng.integers(1, 60, size=300):
        labels = rng.choice(5, size=n, p=[0.6, 0.2, 0.1, 0.06, 0.04])
        drawn.append((rng.integers(-5, 20, size=n).tolist(), labels.tolist()))
    ranked = rank_labels(*literal.flat(drawn))
    for k in (1, 10, 20):
        names = [f"ERR@{k}", f"nDCG@{k}"]
        values = evaluate_ranked(ranked, names, max_grade=4, nothing_relevant="zero")
        for name, oracle in zip(names, [ERR @ k, nDCG(dcg="exp-log2") @ k], strict=True):
            theirs = _by_trec_eval(drawn, oracle, provider=ir_measures.gdeval)
            np.testing.assert_allclose(values[name], theirs, atol=5.1e-6)  # five digits printed


def _mq2008(path: Path) -> list[literal.Query]:
    """Read labels, and feature 25 (BM25 of the whole document) as the score."""
    line = re.compile(r"(\d+) qid:(\d+) .* 25:(\S+) ")
    queries: dict[str, literal.Query] = {}
    with gzip.open(path, "rt") as lines:
        for match in map(line.match, lines):
            label, query, score = match.groups()  # type: ignore[union-attr]
            scores, labels = queries.setdefault(query, ([], []))
            scores.append(float(score))  # type: ignore[arg-type]
            labels.append(int(label))
    return list(queries.values())


def test_a_real_collection_agrees_with_trec_eval(real_data: Callable[[str], Path]) -> None:
    drawn = _mq2008(real_data("ltr/mq2008") / "S5.txt.gz")
    ranked: RankedLabels = rank_labels(*literal.flat(drawn))
    assert len(drawn) == 156
    assert (ranked.n_relevant() > 0).sum() == 105
    values = evaluate_ranked(ranked, ORACLES, nothing_relevant="zero")
    for name, oracle in ORACLES.items():
        np.testing.assert_allclose(
            values[name], _by_trec_eval(drawn, oracle), rtol=1e-6, err_msg=name
        )
