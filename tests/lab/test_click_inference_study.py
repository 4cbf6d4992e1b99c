"""Trials of click inference, and the figures made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from cloister.core.errors import DataError, SettingsError
from cloister.lab.reproduce.click_inference import figures
from cloister.lab.reproduce.click_inference.attacking import (
    BASELINES,
    BEST_GUESS,
    guess_without_update,
)
from cloister.lab.reproduce.click_inference.scene import make_scene, noise_sigma, observe
from cloister.lab.reproduce.click_inference.server_view import server_view
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
from cloister.lab.reproduce.click_inference.trial import measure, try_attacks
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.study import Study
from cloister.privacy.calibration import planned_noise

WORLD = "world:features?queries=60&documents=20&features=20"


def chosen(**given: Any) -> ClickInferenceSettings:
    """Return settings of a small trial."""
    small: dict[str, Any] = {
        "data": WORLD,
        "train_clients": 20,
        "train_rounds": 5,
        "click_model": "informational",
    }
    return ClickInferenceSettings(**(small | given))


def test_a_single_update_gives_clicks_away_and_the_best_guess_does_not() -> None:
    trial = try_attacks(chosen())
    assert trial.successes["least squares"].accuracy.value > 0.98
    assert trial.successes[BEST_GUESS].auc.value < 0.9
    assert trial.advantages["least squares"]["individual_auc"].value > 0.2


def test_the_papers_noise_does_not_stop_least_absolute_deviations() -> None:
    trial = try_attacks(chosen(protection="paper", data=WORLD.replace("=20", "=46")))
    robust = trial.successes["least absolute deviations"]
    assert robust.accuracy.value > 0.9
    assert robust.accuracy.value > trial.successes["least squares"].accuracy.value


def test_a_sum_keeps_an_advantage_that_noise_takes_away() -> None:
    plain = try_attacks(chosen(protection="sum", clients=10, observations=30))
    noisy = try_attacks(chosen(protection="sum+noise", clients=10, population=10, observations=30))
    kept = plain.advantages["prior and update"]["individual_auc"]
    gone = noisy.advantages["prior and update"]["individual_auc"]
    assert kept.low is not None
    assert kept.low > 0.02
    assert gone.low is not None
    assert gone.high is not None
    assert gone.low < 0 < gone.high or abs(gone.value) < 0.01


def test_baselines_are_the_same_whatever_the_updates_are() -> None:
    settings = chosen()
    scene = make_scene(settings)
    searches, seen = observe(scene, settings)
    view = server_view(scene, settings, searches, seen)
    other = seen._replace(updates=np.zeros_like(seen.updates))
    blind = server_view(scene, settings, searches, other)
    blind = blind._replace(clicked=~blind.clicked)
    for name in BASELINES:
        one, two = (guess_without_update(settings, v)[name] for v in (view, blind))
        np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.parametrize("order", ["unknown", "candidates"])
def test_a_server_that_knows_less_of_the_page_still_finds_clicks(order: str) -> None:
    trial = try_attacks(chosen(order=order))
    name = "sparse" if order == "candidates" else "least squares"
    assert trial.successes[name].auc.value > 0.9
    assert trial.successes[name].recall.value > 0.9
    random = trial.successes["random 3"]
    n_candidates = 20 if order == "candidates" else 10
    assert random.recall.value == pytest.approx(3 / n_candidates, abs=0.1)


def test_several_queries_and_neural_rankers_are_attacked_too() -> None:
    several = try_attacks(chosen(queries_per_update=2, data=WORLD.replace("=20", "=46")))
    assert several.n_pages == 2 * several.n_observations
    assert several.successes["least squares"].accuracy.value > 0.95
    neural = try_attacks(chosen(ranker="mlp", hidden=8))
    assert neural.successes["least squares"].accuracy.value > 0.95


def test_equal_settings_give_equal_figures_and_another_seed_others() -> None:
    first, again, other = (measure(chosen(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_noise_is_that_of_private_fpdgd() -> None:
    settings = chosen(protection="sum+noise", clients=5, population=5, rounds=3)
    multiplier = planned_noise(4.5, 1e-6, n_rounds=3).multiplier
    assert noise_sigma(settings) == pytest.approx(0.3 * multiplier)


@pytest.mark.parametrize(
    "given",
    [
        {"clients": 10},
        {"protection": "sum+noise", "clients": 10, "population": 5},
        {"order": "candidates", "queries_per_update": 2},
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        chosen(**given)


def test_data_without_full_pages_is_refused() -> None:
    with pytest.raises(DataError, match="10 candidates"):
        try_attacks(chosen(data="world:features?queries=9&documents=2&features=5"))


def test_clients_who_hardly_click_are_not_waited_for_without_end() -> None:
    with pytest.raises(DataError, match="clicked on all their pages"):
        try_attacks(chosen(click_model="pbm-20", queries_per_update=16, observations=1))


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_claim_is_about_a_part_of_its_figure(
    size: Literal["quick", "full"], tmp_path: Path
) -> None:
    found = figures(Size(size), Collections(tmp_path))
    assert len({figure.key for figure in found}) == len(found)
    for figure in found:
        names = [part.name for part in figure.parts]
        assert len(set(names)) == len(names)
        assert all(isinstance(part, Study) for part in figure.parts)
        assert all(part in names for claim in figure.claims for part in claim.parts)


@pytest.mark.parametrize(
    ("name", "more", "accuracy"),
    [("ltr/mq2008", {}, 0.8), ("ltr/mslr-web-sample", {"train_queries": 2}, 0.75)],
)
def test_single_updates_on_real_pages_give_clicks_away(
    name: str, more: dict[str, int], accuracy: float, real_data: Callable[[str], Path]
) -> None:
    base: dict[str, Any] = {"data": str(real_data(name)), "train_rounds": 20, "train_clients": 200}
    squares = {
        "none": ("least squares", 0.95, 0.95),
        "paper": ("least squares, clipping known", 0.9, accuracy),
    }
    for protection, least in (("none", 0.95), ("paper", 0.9)):
        base |= more | {"click_model": "navigational", "protection": protection}
        settings = ClickInferenceSettings(**base)
        found = try_attacks(settings).successes
        assert found["least absolute deviations"].recall.value > least
        assert found["least absolute deviations"].accuracy.value > least
        attack, least_recall, least_accuracy = squares[protection]
        assert found[attack].recall.value >= least_recall
        assert found[attack].accuracy.value >= least_accuracy
    assert found[BEST_GUESS].recall.value < 0.5
