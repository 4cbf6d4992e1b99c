"""Studies: jobs are kept by their settings, read like runs, and done once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloister.core.errors import DataError
from cloister.lab.reproduce.claim import Above
from cloister.lab.reproduce.collection import Collection
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.report import write_curves, write_report
from cloister.lab.reproduce.rows import rows_of
from cloister.lab.reproduce.running import evidence_of, run_missing
from cloister.lab.reproduce.study import Figures, Study, StudyJob, StudySettings, read_study
from cloister.lab.simulation.run import Advance

CALLS: list[StudySettings] = []


def measured(settings: StudySettings, advance: Advance) -> Figures:
    """Return made-up figures that depend on the repetition."""
    CALLS.append(settings)
    advance(1, 1)
    if settings.seed == 99:
        raise DataError("no such thing", where="seed 99")
    low = float("nan") if settings.seed == 3 else 0.25
    return {
        "attack": {"recall": 0.5 + settings.seed / 100, "path": [1.0, 2.0]},
        "guess": {"recall": low},
    }


def _figure(seeds: tuple[int, ...]) -> Figure:
    jobs = tuple(
        StudyJob(
            f"{__name__}:measured",
            StudySettings(data="world:features", seed=seed, click_model=click),
        )
        for seed in seeds
        for click in ("perfect", "informational")
    )
    study = Study("made", Collection("made", "world:features"), jobs, "made up")
    recall = figure("recall")
    claims = (
        versus("better", part="made", system="attack", baseline="guess", quantity=recall),
        alone("high", part="made", system="attack", quantity=recall, expects=Above(0.5)),
    )
    return Figure("table-x", "made", "paper's", (study,), claims, measures=())


def test_jobs_are_done_once_and_read_like_runs(tmp_path: Path) -> None:
    CALLS.clear()
    made = _figure((1, 2))
    first = run_missing([made], tmp_path, workers=1)
    again = run_missing([made], tmp_path, workers=1)
    assert (first.n_done, again.n_done, again.n_skipped, len(CALLS)) == (4, 0, 4, 4)
    rows = rows_of(made, evidence_of(made, tmp_path))
    assert rows[0]["ours"] == pytest.approx(0.265)
    assert rows[0]["n"] == 2
    assert rows[1]["verdict"] in ("agrees", "undecided")
    assert "2 repetitions" in rows[0]["setting"]


def test_a_failing_job_is_reported_and_the_others_are_kept(tmp_path: Path) -> None:
    outcome = run_missing([_figure((1, 99))], tmp_path, workers=1)
    assert outcome.n_done == 2
    assert {failure.error for failure in outcome.failures} == {"seed 99: no such thing"}


def test_what_is_no_number_is_left_out_of_estimates(tmp_path: Path) -> None:
    made = _figure((1, 3))
    run_missing([made], tmp_path, workers=1)
    assert rows_of(made, evidence_of(made, tmp_path))[0]["n"] == 1


def test_curves_and_single_figures_are_read_back(tmp_path: Path) -> None:
    made = _figure((1,))
    run_missing([made], tmp_path, workers=1)
    (study,) = made.parts
    assert isinstance(study, Study)
    found = read_study(study.jobs[0], tmp_path)
    assert found is not None
    assert found["attack"].curve("path").tolist() == [1.0, 2.0]
    assert found["attack"].at_end("recall") == 0.51


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    made = _figure((1,))
    run_missing([made], tmp_path, workers=1)
    (study,) = made.parts
    assert isinstance(study, Study)
    study.jobs[0].path(tmp_path).write_bytes(b"{")
    with pytest.raises(DataError, match="cannot be read"):
        read_study(study.jobs[0], tmp_path)


def test_pictures_stand_in_the_report(tmp_path: Path) -> None:
    from dataclasses import replace

    made = replace(_figure((1,)), pictures=lambda evidence: {"map.png": b"picture"})
    run_missing([made], tmp_path, workers=1)
    evidence = evidence_of(made, tmp_path)
    curves = write_curves(tmp_path, made, evidence)
    rows = rows_of(made, evidence)
    write_report(tmp_path, [made], rows, size=Size("quick"), curves=curves)
    assert (tmp_path / "curves" / "table-x-map.png").read_bytes() == b"picture"
    assert "table-x-map.png" in (tmp_path / "report.md").read_text()
