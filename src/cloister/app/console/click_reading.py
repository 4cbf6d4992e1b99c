"""What a curious server reads off updates: click inference, by protection, in a few seconds."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from cloister.adversary.inferred_clicks import Measured
from cloister.app.console.attack_choices import CLICK_MODELS, MOST_SEED
from cloister.app.console.charts import Chart, Series
from cloister.app.console.jobs import Job
from cloister.app.console.lab_world import lab_world
from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.lab.reproduce.click_inference.attacking import BASELINES, BEST_GUESS
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings, Protection
from cloister.lab.reproduce.click_inference.trial import STAGES, Trial, try_attacks

__all__ = ["PROTECTIONS", "ReadingChoice", "reading_chart", "read_clicks"]

N_SUMS: Final = 20
N_ROUNDS: Final = 200  # of sums with noise, which epsilon is for
FEWEST_SUMMED, MOST_SUMMED = 10, 100  # in a sum
LEAST_EPSILON, MOST_EPSILON = 0.1, 100.0
PROTECTIONS: Final[dict[Protection, str]] = {
    "none": "none: each client's update as it is",
    "paper": "the thesis's noise on each client's weights",
    "sum": "secure sums: of many clients at once, and nothing else",
    "sum+noise": "secure sums of clipped updates, with noise",
}


class ReadingChoice(Settings):
    """What somebody chose.

    Parameters
    ----------
    protections
        Which are tried.
    click_model
        How clients click.
    clients
        In a sum.
    epsilon
        What `N_ROUNDS` rounds of sums with noise may reveal of a user, at delta 1e-6.
    seed
        Of all that is drawn.
    """

    protections: tuple[Protection, ...] = tuple(PROTECTIONS)
    click_model: str = "perfect"
    clients: int = Field(default=50, ge=FEWEST_SUMMED, le=MOST_SUMMED)
    epsilon: float = Field(default=4.5, ge=LEAST_EPSILON, le=MOST_EPSILON)
    seed: int = Field(default=1, ge=0, le=MOST_SEED)

    def check(self) -> None:
        """Raise where nothing was chosen, or what is not known."""
        if not self.protections:
            raise SettingsError("nothing was chosen", where="protections", remedy="choose one")
        if self.click_model not in CLICK_MODELS:
            known = ", ".join(CLICK_MODELS)
            raise SettingsError("no such click model", where=self.click_model,
                                remedy=f"known: {known}")  # fmt: skip


def read_clicks(choice: ReadingChoice, job: Job) -> None:
    """Attack the updates under each protection in turn, and tell what was found."""
    total = STAGES * len(choice.protections)
    for number, protection in enumerate(choice.protections):
        before = number * STAGES

        def advance(done: int, _: int, before: int = before) -> None:
            job.advance(before + done, total)

        trial = try_attacks(_settings(choice, protection), advance)
        job.add("readings", _found(protection, trial))


def reading_chart(readings: list[dict[str, Any]]) -> Chart:
    """Draw the best attack beside the best guess without the update."""
    names = [one["protection"] for one in readings]
    return Chart(
        "reading",
        "How well clicks are told from what was not clicked (AUC; 0.5 is chance, 1 is always)",
        "protection",
        "AUC",
        [
            Series("best attack on the update", names, [one["best"]["auc"] for one in readings],
                   style="bars", colour="series-2"),
            Series("best guess without the update", names,
                   [one["guess"]["auc"] for one in readings], style="bars", colour="series-1"),
        ],
        (0.0, 1.05),
        x_kind="category",
    )  # fmt: skip


def _settings(choice: ReadingChoice, protection: Protection) -> ClickInferenceSettings:
    summed: dict[str, Any] = {
        "clients": choice.clients,
        "observations": N_SUMS,
        "population": choice.clients,
    }
    return ClickInferenceSettings(
        data=lab_world(choice.seed),
        click_model=choice.click_model,
        protection=protection,
        epsilon=choice.epsilon,
        rounds=N_ROUNDS,
        train_clients=100,
        train_rounds=50,
        seed=choice.seed,
        **(summed if protection in ("sum", "sum+noise") else {}),
    )


def _found(protection: Protection, trial: Trial) -> dict[str, Any]:
    """Return a trial as plain values: all attacks and guesses, and the best of each."""
    rows = [_row(trial, name) for name in trial.successes]
    attacks = [row for row in rows if row["name"] not in BASELINES]
    return {
        "protection": protection,
        "rows": rows,
        "best": max(attacks, key=lambda row: float(row["auc"])),
        "guess": next(row for row in rows if row["name"] == BEST_GUESS),
        "n_observations": trial.n_observations,
        "n_pages": trial.n_pages,
        "clicks_per_page": trial.clicks_per_page,
        "sigma": trial.sigma,
    }


def _row(trial: Trial, name: str) -> dict[str, Any]:
    success, gained = trial.successes[name], trial.advantages.get(name, {})
    return {
        "name": name,
        "baseline": name in BASELINES,
        "accuracy": success.accuracy.value,
        "auc": success.auc.value,
        "advantage": _interval(gained.get("auc")),
        "individual": _interval(gained.get("individual_auc")),
    }


def _interval(measured: Measured | None) -> tuple[float, float] | None:
    """Return a number with half the width of its interval at 95 %."""
    if measured is None or measured.low is None:
        return None
    return measured.value, measured.value - measured.low
