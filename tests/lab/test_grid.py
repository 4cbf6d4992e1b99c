from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import NotFound, SettingsError
from cloister.lab.simulation.experiment import Experiment, overridden, read_experiment
from cloister.lab.simulation.grid import expand, planned_runs
from cloister.lab.simulation.settings import SimulationSettings

WORLD = "world:features?queries=20&documents=10&features=5"


def test_a_grid_is_every_combination_in_a_fixed_order() -> None:
    experiment = Experiment(
        base={"data": "somewhere", "clients": 7},
        vary={"ranker": ["linear", "mlp"], "rounds": [3, 4]},
        folds=[1, 2],
        seeds=[5, 1],
    )
    found = [(run.ranker, run.rounds, run.fold, run.seed) for run in expand(experiment)]
    assert found == list(itertools.product(("linear", "mlp"), (3, 4), (1, 2), (5, 1)))
    assert {run.clients for run in expand(experiment)} == {7}


def test_a_world_has_no_second_fold_to_average_over() -> None:
    with pytest.raises(SettingsError, match="a world has one fold"):
        expand(Experiment(base={"data": WORLD}, folds=[1, 2]))


@given(
    rounds=st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    clients=st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)
def test_all_runs_of_a_grid_differ_and_none_is_missing(
    rounds: list[int], clients: list[int], seeds: list[int]
) -> None:
    vary = {"rounds": rounds, "clients": clients}
    runs = expand(Experiment(base={"data": WORLD}, vary=vary, seeds=seeds))
    assert len({run.digest() for run in runs}) == len(rounds) * len(clients) * len(seeds)
    assert {(run.rounds, run.clients, run.seed) for run in runs} == set(
        itertools.product(rounds, clients, seeds)
    )


def test_a_count_of_seeds_begins_with_that_of_the_base() -> None:
    assert [run.seed for run in expand(Experiment(base={"data": WORLD}, seeds=3))] == [1, 2, 3]
    later = Experiment(base={"data": WORLD, "seed": 4}, seeds=2)
    assert [run.seed for run in expand(later)] == [4, 5]


def test_all_folds_are_those_of_the_data(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        for part in ("train", "vali", "test"):
            (tmp_path / f"Fold{number}").mkdir(exist_ok=True)
            (tmp_path / f"Fold{number}" / f"{part}.txt").write_text("1 qid:1 1:0.5\n")
    found = expand(Experiment(base={"data": str(tmp_path)}, folds="all"))
    assert [run.fold for run in found] == [1, 2, 3]
    assert [run.fold for run in expand(Experiment(base={"data": WORLD}, folds="all"))] == [1]
    with pytest.raises(NotFound):
        expand(Experiment(base={"data": str(tmp_path / "nowhere")}, folds="all"))


def test_variants_have_names_and_keep_their_own_values() -> None:
    experiment = Experiment(
        base={"data": WORLD},
        vary={"learning_rate": [0.1, 0.2]},
        variant=[{"name": "a"}, {"name": "b", "method": "pdgd", "learning_rate": 0.5}],
    )
    found = [
        (run.system, run.settings.method, run.settings.learning_rate)
        for run in planned_runs(experiment)
    ]
    assert found == [("a", "fpdgd", 0.1), ("a", "fpdgd", 0.2), ("b", "pdgd", 0.5)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base": {"client": 3}}, r"base.client: unknown setting .* known: .*queries_per_round"),
        ({"vary": {"client": [3]}}, r"vary.client: unknown setting"),
        ({"vary": {"rounds": []}}, r"vary.rounds: an empty list"),
        ({"vary": {"seed": [1, 2]}}, r"vary.seed: .*; use seeds"),
        ({"vary": {"fold": [1, 2]}}, r"vary.fold: .*; use folds"),
        ({"variant": [{"method": "es"}]}, r"variant 1: a variant needs a name"),
        ({"variant": [{"name": "a"}, {"name": "a"}]}, r"variant a: given to two"),
        ({"variant": [{"name": "a", "x": 1}]}, r"variant a.x: unknown setting"),
        ({"variant": [{"name": "a", "seed": 1}]}, r"variant a.seed: .*; use seeds"),
        ({"folds": "every"}, r"folds: .*'every'"),
        ({"folds": [0]}, r"folds"),
        ({"seeds": 0}, r"seeds"),
        ({"seeds": [-1]}, r"seeds"),
        ({"seeds": True}, r"seeds"),
        ({"panel": "seed"}, r"panel"),
        ({"fold": [1]}, r"fold: unknown setting"),
    ],
)
def test_a_wrong_experiment_is_refused_with_its_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Experiment(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base": {}}, "data: missing"),
        ({"base": {"data": WORLD, "clients": 0}}, "clients"),
        ({"base": {"data": WORLD}, "vary": {"rounds": [2, 2]}}, "described twice"),
        ({"base": {"data": WORLD}, "variant": [{"name": "a"}, {"name": "b"}]}, "'a' and 'b'"),
        ({"base": {"data": WORLD, "click_model": "careless"}}, "unknown click model"),
        (
            {"base": {"data": WORLD, "partition": "clicks", "click_models": ["careless"]}},
            "unknown click model",
        ),
    ],
)
def test_a_grid_that_cannot_run_is_refused_before_it_runs(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        expand(Experiment(**fields))


def test_an_experiment_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'name = "n"\nseeds = [1, 2]\nfolds = "all"\n'
        f'[base]\ndata = "{WORLD}"\n[vary]\nrounds = [3, 4]\n'
        '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\nclients = 5\n'
    )
    experiment = read_experiment(path)
    assert not experiment.is_single
    assert len(expand(experiment)) == 8
    kept = tmp_path / "experiment.json"
    kept.write_text(experiment.model_dump_json(exclude_defaults=True))
    assert read_experiment(kept) == experiment


def test_a_file_of_settings_is_one_run(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'data = "{WORLD}"\nclients = 3\n')
    experiment = read_experiment(path)
    assert experiment.is_single
    assert expand(experiment) == [SimulationSettings(data=WORLD, clients=3)]
    kept = tmp_path / "run.json"
    settings = SimulationSettings(data=WORLD, clients=4, intents=(1, 2)).model_dump(mode="json")
    kept.write_text(json.dumps({"settings": settings, "summary": {}}))
    assert expand(read_experiment(kept)) == [SimulationSettings(**settings)]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "data = ", "not a TOML file"),
        ("a.toml", "client = 3", "a.toml: client: unknown setting"),
        ("a.toml", "[base]\nclient = 3", "a.toml: base.client: unknown setting"),
        ("a.json", "{", "not a JSON file"),
        ("a.json", "[]", "not a table"),
        ("a.toml", b"\xff\xfe", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=said):
        read_experiment(path)
    with pytest.raises(NotFound, match="nowhere"):
        read_experiment(tmp_path / "nowhere.toml")


def test_given_settings_win_over_the_file() -> None:
    experiment = Experiment(
        base={"data": "somewhere", "clients": 3},
        vary={"rounds": [1, 2]},
        seeds=[1, 2],
        folds=[1, 2],
    )
    changed = overridden(experiment, {"clients": 9, "rounds": 5, "seed": 7, "fold": 2})
    assert expand(changed) == [
        SimulationSettings(data="somewhere", clients=9, rounds=5, seed=7, fold=2)
    ]
    named = Experiment(base={"data": WORLD}, variant=[{"name": "a", "clients": 3}])
    with pytest.raises(SettingsError, match="clients: the variant 'a' has its own"):
        overridden(named, {"clients": 5})
    with pytest.raises(SettingsError, match="unknown setting"):
        overridden(named, {"client": 5})
