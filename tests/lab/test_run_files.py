from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from pyarrow import parquet

import cloister
from cloister.core.errors import DataError, NotFound
from cloister.federate.learner import ClientRankers, Learner
from cloister.lab.simulation.run import SimulationResult, simulate
from cloister.lab.simulation.run_files import (
    load_runs,
    prepare_folder,
    read_run,
    rename_run,
    write_run,
)
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.ranker import Ranker
from cloister.rank.saving import load_saved

SETTINGS = SimulationSettings(
    data="world:features?queries=20&documents=10&features=5",
    clients=5,
    rounds=5,
    evaluate_every=2,
)


@pytest.fixture(scope="module")
def result() -> SimulationResult:
    return simulate(SETTINGS)


@pytest.fixture
def folder(tmp_path: Path, result: SimulationResult) -> Path:
    prepare_folder(tmp_path)
    write_run(tmp_path, result, system="a", position=3)
    return tmp_path


def test_a_run_comes_back_as_it_was(folder: Path, result: SimulationResult) -> None:
    kept = read_run(folder, SETTINGS)
    assert kept is not None
    assert (kept.settings, kept.system, kept.position) == (SETTINGS, "a", 3)
    assert kept.summary == result.summary()
    np.testing.assert_array_equal(kept.by_query, result.final.by_query)
    curves = kept.curves()
    assert list(curves) == list(result.curves)
    for name, values in result.curves.items():
        np.testing.assert_array_equal(curves[name], values)
    assert np.isnan(curves["offline_ndcg"]).tolist() == [True, False, True, False, False]


def test_every_file_carries_settings_and_version(folder: Path) -> None:
    stem = folder / "runs" / SETTINGS.digest()
    record = json.loads(stem.with_suffix(".json").read_text())
    metadata = parquet.read_schema(stem.with_suffix(".parquet")).metadata
    about = json.loads(metadata[b"cloister"])
    saved = load_saved(stem.with_suffix(".safetensors"))
    wanted = SETTINGS.model_dump(mode="json")
    assert record["settings"] == about["settings"] == saved.extra["settings"] == wanted
    assert set(record["versions"]) == {"cloister", "python", "numpy", "numba"}
    assert about["versions"]["cloister"] == saved.version == cloister.__version__


@pytest.mark.parametrize("ending", [".json", ".parquet"])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "changed"])
def test_a_damaged_pair_does_not_count(folder: Path, ending: str, damage: str) -> None:
    path = (folder / "runs" / SETTINGS.digest()).with_suffix(ending)
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "changed":
        place = content.index(b"offline_ndcg@10") + 20 if ending == ".json" else len(content) // 2
        content[place] = ord("7") if content[place] != ord("7") else ord("8")
        path.write_bytes(content)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    assert read_run(folder, SETTINGS) is None
    with pytest.raises(DataError, match="no whole run"):
        load_runs(folder)


def test_other_settings_are_not_there(folder: Path) -> None:
    assert read_run(folder, SETTINGS.model_copy(update={"seed": 2})) is None
    swapped = folder / "runs" / SETTINGS.model_copy(update={"seed": 2}).digest()
    for ending in (".json", ".parquet"):
        (folder / "runs" / SETTINGS.digest()).with_suffix(ending).rename(
            swapped.with_suffix(ending)
        )
    assert read_run(folder, SETTINGS.model_copy(update={"seed": 2})) is None


def test_a_run_can_be_named_anew(folder: Path) -> None:
    kept = read_run(folder, SETTINGS)
    assert kept is not None
    rename_run(folder, kept, system="b", position=1)
    (again,) = load_runs(folder)
    assert (again.system, again.position) == ("b", 1)
    assert again.summary == kept.summary


def test_nothing_stays_on_its_way_in(folder: Path) -> None:
    assert not list((folder / "incoming").iterdir())
    (folder / "incoming" / "tmp-left-by-a-dead-writer").write_text("half")
    prepare_folder(folder)
    assert not list((folder / "incoming").iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotFound, match=str(tmp_path / "file")):
        prepare_folder(tmp_path / "file")


def test_a_ranker_that_diverged_is_no_failure(tmp_path: Path, result: SimulationResult) -> None:
    class Diverged:
        def __init__(self) -> None:
            sound = result.learner.ranker
            self.ranker = Ranker(sound.settings, np.full_like(sound.parameters, np.nan))

        def client_rankers(self) -> ClientRankers:
            return ClientRankers((self.ranker,), np.zeros(SETTINGS.clients, np.int64))

    prepare_folder(tmp_path)
    write_run(tmp_path, replace(result, learner=cast(Learner, Diverged())))
    assert not list((tmp_path / "runs").glob("*.safetensors"))
    assert read_run(tmp_path, SETTINGS) is not None
