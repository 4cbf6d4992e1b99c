"""One trial: every attack and every baseline on the same observations."""

from __future__ import annotations

from typing import NamedTuple

from cloister.adversary.inferred_clicks import (
    Measured,
    Success,
    advantage,
    individual_advantage,
    success,
)
from cloister.lab.reproduce.click_inference.attacking import (
    BASELINES,
    BEST_GUESS,
    attack,
    guess_without_update,
)
from cloister.lab.reproduce.click_inference.scene import make_scene, observe
from cloister.lab.reproduce.click_inference.server_view import server_view
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance, silent

__all__ = ["Trial", "measure", "try_attacks"]


STAGES = 4


class Trial(NamedTuple):
    """What came out.

    Parameters
    ----------
    successes
        By attack or baseline.
    advantages
        Of each attack: ``auc`` and ``accuracy`` less those of the best guess without the update,
        and ``individual_auc``, that of the AUC on the client less that on others with the same
        page.
    n_observations, n_pages
        How many were seen.
    clicks_per_page
        On average.
    sigma
        Of the noise in each coordinate of what was seen.
    """

    successes: dict[str, Success]
    advantages: dict[str, dict[str, Measured]]
    n_observations: int
    n_pages: int
    clicks_per_page: float
    sigma: float


def try_attacks(settings: ClickInferenceSettings, advance: Advance | None = None) -> Trial:
    """Carry out one trial.

    Examples
    --------
    >>> trial = try_attacks(ClickInferenceSettings(
    ...     data="world:features?queries=30&documents=15&features=20", train_clients=20,
    ...     train_rounds=5))
    >>> round(trial.successes["least squares"].recall.value, 2)
    1.0
    """
    told = advance or silent
    scene = make_scene(settings)
    told(1, STAGES)
    searches, seen = observe(scene, settings)
    told(2, STAGES)
    view = server_view(scene, settings, searches, seen)
    told(3, STAGES)
    attacks = attack(scene, settings, view, seen)
    guesses = guess_without_update(settings, view) | attacks
    best = guesses[BEST_GUESS]
    told(4, STAGES)
    return Trial(
        {name: success(guess, view.clicked) for name, guess in guesses.items()},
        {
            name: advantage(guess, best, view.clicked)
            | {"individual_auc": individual_advantage(guess, best, view.clicked, view.others)}
            for name, guess in guesses.items()
            if name not in BASELINES
        },
        len(view.clicked),
        view.clicked.shape[0] * view.clicked.shape[1],
        float(view.clicked.sum(axis=2).mean()),
        seen.sigma,
    )


def measure(settings: StudySettings, advance: Advance | None = None) -> Figures:
    """Return a trial's figures by system, as a study keeps them."""
    chosen = ClickInferenceSettings.model_validate(settings.model_dump())
    trial = try_attacks(chosen, advance)
    figures: Figures = {}
    for name, found in trial.successes.items():
        figures[name] = {key: value.value for key, value in found._asdict().items()}
        for key, value in trial.advantages.get(name, {}).items():
            figures[name][f"advantage_{key}"] = value.value
    return figures
