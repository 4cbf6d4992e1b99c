from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloister.core.errors import SettingsError
from cloister.lab.simulation.curve_image import curves_png
from cloister.lab.simulation.curve_page import curves_html
from cloister.lab.simulation.curves import COLOURS, MOST_POINTS, CurveGrid, curve_grid, mean_curve
from cloister.lab.simulation.experiment import Experiment
from cloister.lab.simulation.report import write_report
from cloister.lab.simulation.run_files import KeptRun, load_runs
from cloister.lab.simulation.running import run_grid

EXPERIMENT = Experiment(
    name="a small one",
    base={
        "data": "world:features?queries=20&documents=10&features=5",
        "clients": 5,
        "rounds": 7,
        "evaluate_every": 3,
    },
    vary={"click_model": ["perfect", "informational"]},
    variant=[{"name": "linear"}, {"name": "<b>MLP</b>", "ranker": "mlp"}],
    seeds=3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    run_grid(EXPERIMENT, folder, workers=1, threads=1)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[KeptRun]:
    return load_runs(folder)


@given(arrays(np.float64, (3, 8), elements=st.floats(0, 1)), st.sets(st.integers(0, 7)))
def test_a_mean_curve_is_the_mean_where_it_was_measured(
    values: np.ndarray, missing: set[int]
) -> None:
    values[:, sorted(missing)] = np.nan
    curves = [{"round": np.arange(1.0, 9.0), "offline_ndcg": row} for row in values]
    found = mean_curve(curves, "offline_ndcg")
    wanted = [column for column in range(8) if column not in missing]
    assert found.x.tolist() == [column + 1 for column in wanted]
    for place, column in enumerate(wanted):
        own = values[:, column].tolist()
        middle = sum(own) / 3
        spread = (sum((value - middle) ** 2 for value in own) / 2) ** 0.5
        assert found.mean[place] == pytest.approx(middle)
        assert found.deviation[place] == pytest.approx(spread, abs=1e-12)


def test_one_run_has_no_deviation_and_a_long_curve_few_points() -> None:
    n = 10 * MOST_POINTS + 3
    curve = {"round": np.arange(1.0, n + 1), "online_ndcg": np.linspace(0, 1, n)}
    found = mean_curve([curve], "online_ndcg")
    assert np.isnan(found.deviation).all()
    assert len(found.x) == MOST_POINTS
    assert (found.x[0], found.x[-1]) == (1, n)
    assert (np.diff(found.x) > 0).all()


def test_an_unknown_curve_is_refused(runs: list[KeptRun]) -> None:
    with pytest.raises(SettingsError, match="offline_ndcg"):
        curve_grid(runs, measures=["ndgc"])


def test_a_panel_is_a_click_model_and_a_line_a_system(runs: list[KeptRun]) -> None:
    grid = curve_grid(runs)
    assert grid.panels == ["perfect", "informational"]
    assert grid.systems == ["linear", "<b>MLP</b>"]
    line = grid.lines["offline_ndcg", "informational", "linear"]
    assert line.n_runs == 3
    assert line.x.tolist() == [3, 6, 7]
    own = [run for run in runs if run.settings.click_model == "informational"
           and run.system == "linear"]  # fmt: skip
    finals = [run.summary["offline_ndcg@10"] for run in own]
    assert line.mean[-1] == pytest.approx(sum(finals) / 3)
    by_interactions = curve_grid(runs, x="interactions").lines["offline_ndcg", "perfect", "linear"]
    assert by_interactions.x.tolist() == [60, 120, 140]


def test_another_setting_can_make_the_panels(runs: list[KeptRun]) -> None:
    grid = curve_grid(runs, panel="ranker", measures=["clicks"])
    assert grid.panels == ["linear", "mlp"]
    assert grid.systems == [
        "linear, click model perfect",
        "linear, click model informational",
        "<b>MLP</b>, click model perfect",
        "<b>MLP</b>, click model informational",
    ]


def test_more_systems_than_colours_are_told_apart_by_dashes() -> None:
    names = [f"system {i}" for i in range(3 * len(COLOURS))]
    grid = CurveGrid("rounds", "click_model", ["a"], names, [], {}, {})
    assert len({grid.style(name) for name in names}) == len(names)


@pytest.mark.parametrize("x", ["rounds", "interactions"])
def test_the_image_is_a_png_of_some_size(runs: list[KeptRun], x: str) -> None:
    from PIL import Image

    content = curves_png(curve_grid(runs, x=x), "a title")  # type: ignore[arg-type]
    with Image.open(io.BytesIO(content)) as image:
        assert image.format == "PNG"
        assert image.width > 700
        assert image.height > 700
        found = {colour for _, colour in image.convert("RGB").getcolors(1 << 20) or []}
    for colour in COLOURS[:2]:
        assert tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5)) in found


def test_one_run_can_be_drawn(runs: list[KeptRun]) -> None:
    grid = curve_grid(runs[:1])
    assert grid.note == ""
    assert curves_png(grid).startswith(b"\x89PNG")
    assert "Plotly.newPlot" in curves_html(grid)


def test_the_page_needs_no_network_and_sends_nothing(runs: list[KeptRun]) -> None:
    page = curves_html(curve_grid(runs), "a title")
    assert "a title" in page
    assert "offline nDCG@10" in page
    assert len(page) > 1_000_000  # plotly's script is inside
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page[:2000] + page[-200_000:])
    assert '"showSendToCloud": false' in page


def test_the_report_covers_the_folder(folder: Path) -> None:
    report = write_report(folder, title=EXPERIMENT.name)
    assert sorted(path.name for path in report.files) == [
        "curves.html", "curves.png", "summary.json", "summary.parquet",
    ]  # fmt: skip
    from pyarrow import parquet

    table = parquet.read_table(folder / "summary.parquet").to_pylist()
    told = json.loads((folder / "summary.json").read_text())
    assert table == told["runs"]
    assert len(table) == 12
    assert {"run", "system", "click_model", "ranker", "seed", "offline_ndcg@10"} <= set(table[0])
    assert "clients" not in table[0]
    assert told["settings_in_common"]["clients"] == 5
    assert "seed" not in told["settings_in_common"]
    assert len(told["comparisons"]) == 4
