"""The slides' tables on private neural ranking: printed numbers, claims, and files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from cloister.lab.neural import systems
from cloister.lab.neural.map_cost import MapCost
from cloister.lab.neural.trial import systems_of
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.claim import Below
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.neural.paper_tables import PAPER_COLLECTIONS, PRINTED, printed
from cloister.lab.reproduce.neural.query_samples import (
    counted_ratio,
    higher,
    keeps,
    query_sample,
)
from cloister.lab.reproduce.rows import rows_of
from cloister.lab.reproduce.running import evidence_of, run_missing
from cloister.lab.reproduce.study import Study, StudyJob, StudyOutcome, StudySettings
from cloister.measure.significance import paired_t_test
from lab.neural.made_collection import small_settings, write_collection

NOWHERE = Collections(Path("nowhere"))


def tables(size: str = "quick") -> list[Figure]:
    """Return all four tables."""
    return figures_of("neural", Size("full" if size == "full" else "quick"), NOWHERE)


def outcome(values: list[float], *, fold: int = 1, seed: int = 1, **more: float) -> StudyOutcome:
    """Return what a job found of a system."""
    found: dict[str, object] = {f"queries@{k}": values for k in (1, 3, 10)}
    found |= {f"ndcg@{k}": float(np.mean(values)) for k in (1, 3, 10)}
    return StudyOutcome(StudySettings(data="d", fold=fold, seed=seed), found | more)


def test_printed_numbers_are_those_that_the_slides_speak_of() -> None:
    assert all(len(numbers) == 6 for numbers in PRINTED.values())
    kept = [
        printed(systems.obfuscated(10), on, 10) / printed(systems.T1, on, 10)
        for on in PAPER_COLLECTIONS
    ]
    assert kept == pytest.approx([0.963, 0.993], abs=5e-4)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_tables_share_their_trials_and_claims_name_parts(size: str) -> None:
    found = tables(size)
    assert [figure.key for figure in found] == ["table-1", "table-2", "table-3", "table-4"]
    for figure in found:
        names = [part.name for part in figure.parts]
        assert names == ["NFCorpus", "MEDIQA", "WikiQA", "MS MARCO 5k"]
        assert all(part in names for claim in figure.claims for part in claim.parts)
        jobs = [job.settings.digest() for part in figure.parts for job in part.jobs]  # type: ignore[union-attr]
        assert len(set(jobs)) == len(jobs)
        assert jobs == [j.settings.digest() for p in found[0].parts for j in p.jobs]  # type: ignore[union-attr]


def test_systems_of_claims_are_measured_by_the_trials() -> None:
    costs = dict.fromkeys(MapCost._fields, 2.0)
    for figure in tables():
        outcomes: dict[tuple[str, str], list[StudyOutcome]] = {}
        for part in figure.parts:
            assert isinstance(part, Study)
            for job in part.jobs:
                assert isinstance(job.settings, NeuralTrialSettings)
                for system in systems_of(job.settings):
                    made = outcome([0.5, 0.7, 0.6, 0.4, 0.3], fold=job.settings.fold, **costs)
                    outcomes.setdefault((part.name, system), []).append(made)
        evidence = Evidence(outcomes)
        for claim in figure.claims:
            assert claim.estimate(evidence).value is not None, claim.compared
        assert figure.pictures is not None
        lines = list(csv.DictReader(io.StringIO(figure.pictures(evidence)["values.csv"].decode())))
        assert {line["data"] for line in lines} >= {"NFCorpus", "Robust04 (slides)"}
        assert all(line["ndcg@10"] for line in lines)


def test_tables_skip_collections_that_are_not_here() -> None:
    (figure, *_) = tables()
    rows = rows_of(figure, Evidence({}))
    assert {row["verdict"] for row in rows} == {"skipped"}


def test_a_query_counts_once_with_its_mean_over_seeds() -> None:
    made = [outcome([0.0, 1.0]), outcome([1.0, 1.0], seed=2), outcome([0.25], fold=2)]
    sample = query_sample(Evidence({("p", "s"): made}), "p", "s", 3)
    assert sample == {("d", 1, 0): 0.5, ("d", 1, 1): 1.0, ("d", 2, 0): 0.25}


def test_a_claim_of_better_ranking_is_a_paired_test_over_queries() -> None:
    ours, theirs = [0.5, 0.7, 0.9, 0.4], [0.4, 0.6, 0.6, 0.35]
    evidence = Evidence({("p", "a"): [outcome(ours)], ("p", "b"): [outcome(theirs)]})
    claim = higher("a above b", part="p", system="a", baseline="b", n_comparisons=3)
    found = claim.estimate(evidence)
    tested = paired_t_test(ours, theirs, n_comparisons=3)
    assert found.value == pytest.approx(tested.mean_difference)
    assert found.n == 4
    assert found.note == f"p = {tested.p_value:.2g}, corrected {tested.p_corrected:.2g}"
    assert found.low is not None
    assert (found.low > 0) == (tested.p_value < 0.05)
    assert claim.estimate(Evidence({})).value is None


def test_a_share_that_is_kept_is_the_ratio_of_means() -> None:
    whole = [0.5, 0.4, 0.9, 0.3, 0.8, 0.6, 0.7]
    kept = [0.9 * value for value in whole]
    ours, theirs = outcome(kept, soft_share_of_order=0.25), outcome(whole, soft_share_of_order=0.5)
    evidence = Evidence({("p", "a"): [ours], ("p", "b"): [theirs]})
    enough, too_little = (
        keeps("kept", part="p", system="a", baseline="b", share=share) for share in (0.85, 0.95)
    )
    found = enough.estimate(evidence)
    assert (found.value, found.low, found.high) == pytest.approx((0.9, 0.9, 0.9))
    assert list(found.means) == ["a", "b"]
    assert found.note == "soft kernels make up 0.25 and 0.50 of the order"
    assert enough.expects.verdict(found) == "agrees"
    assert too_little.expects.verdict(too_little.estimate(evidence)) == "differs"


def test_bytes_are_compared_repetition_by_repetition() -> None:
    made = {
        ("p", "a"): [outcome([1.0], closed_bytes=6.0), outcome([1.0], seed=2, closed_bytes=9.0)],
        ("p", "b"): [outcome([1.0], closed_bytes=12.0), outcome([1.0], seed=2, closed_bytes=10.0)],
    }
    claim = counted_ratio(
        "less", part="p", system="a", baseline="b", name="closed_bytes", expects=Below(1.0)
    )
    found = claim.estimate(Evidence(made))
    assert (found.value, found.low, found.high, found.n) == pytest.approx((0.7, 0.5, 0.9, 2))
    assert claim.expects.verdict(found) == "agrees"
    assert claim.estimate(Evidence({})).value is None


def test_a_table_is_made_of_trials_that_were_run(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "made")
    job = StudyJob(
        "cloister.lab.neural.trial:measure", small_settings(folder, thresholds=(0.3, 0.7))
    )
    (_, _, third, _) = tables()
    here = Study("NFCorpus", Collection("NFCorpus", str(folder)), (job,), "made up")
    claims = tuple(claim for claim in third.claims if claim.parts == ("NFCorpus",))
    figure = Figure("table-3", "made", "none", (here,), claims, measures=())
    done = run_missing([figure], tmp_path / "out", workers=1)
    assert (done.n_done, done.failures) == (1, ())
    assert run_missing([figure], tmp_path / "out", workers=1).n_skipped == 1
    for row in rows_of(figure, evidence_of(figure, tmp_path / "out")):
        assert row["n"] == 12
        assert 0.3 < row["ours"] < 3
