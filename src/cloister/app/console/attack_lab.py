"""An experiment of the attack lab: the same training honest, attacked, defended, and both."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from cloister.app.console.attack_choices import LabChoice
from cloister.app.console.jobs import Job
from cloister.app.console.lab_world import lab_world
from cloister.federate.evaluation import Offline
from cloister.lab.simulation.attack_figures import attack_figures
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.run import SimulationResult, simulate
from cloister.lab.simulation.run_files import finite_or_none, prepare_folder, write_run
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["CURVE", "FIGURES", "Trial", "TrialName", "run_lab", "trials_of"]

POINTS: Final = 40  # of a learning curve, about
CURVE: Final = "curve "  # before a trial's name, in what a job finds: [rounds, nDCG@10] pairs
FIGURES: Final = "figures "  # the same for its figures

TrialName = Literal["honest", "attacked", "defended", "insured"]


class Trial(NamedTuple):
    """One of the trainings that are compared.

    Parameters
    ----------
    name
        In the program.
    title
        On the page.
    system
        In the files of results.
    settings
        What decides it.
    """

    name: TrialName
    title: str
    system: str
    settings: SimulationSettings


def trials_of(choice: LabChoice) -> tuple[Trial, ...]:
    """Return the trainings of a choice: without those that would be the same again.

    Examples
    --------
    >>> [one.name for one in trials_of(LabChoice(attack="lie", rule="median"))]
    ['honest', 'attacked', 'defended', 'insured']
    >>> [one.name for one in trials_of(LabChoice(attack="lie", rule="fedavg"))]
    ['honest', 'attacked']
    """
    attack = f"{choice.attack} by {choice.n_attackers} of {choice.clients}"
    guess = "" if choice.expected is None else f" expecting {choice.expected}"
    found = [Trial("honest", "nobody attacks", "fedavg", _settings(choice))]
    if choice.n_attackers:
        attacked = _settings(choice, attacked=True)
        found.append(Trial("attacked", "attacked, no defence", f"fedavg, {attack}", attacked))
    if choice.n_attackers and choice.rule != "fedavg":
        both = _settings(choice, attacked=True, defended=True)
        title = f"attacked, {choice.rule}"
        found.append(Trial("defended", title, f"{choice.rule}{guess}, {attack}", both))
    if choice.rule != "fedavg":
        title = f"nobody attacks, {choice.rule}"
        settings = _settings(choice, defended=True)
        found.append(Trial("insured", title, f"{choice.rule}{guess}", settings))
    return tuple(found)


def run_lab(choice: LabChoice, results: Path, job: Job) -> None:
    """Run all trainings of a choice, tell their curves as they grow, and keep them as results."""
    prepare_folder(results)
    trials = trials_of(choice)
    total = len(trials) * choice.rounds
    for number, trial in enumerate(trials):
        result = _trained(trial, job, before=number * choice.rounds, total=total)
        write_run(results, result, system=trial.system, position=number)
        job.put(f"{FIGURES}{trial.name}", _figures(choice, result))


def _trained(trial: Trial, job: Job, *, before: int, total: int) -> SimulationResult:
    def advance(done: int, _: int) -> None:
        job.advance(before + done, total)

    def measured(n_rounds: int, offline: Offline) -> None:
        job.add(f"{CURVE}{trial.name}", [n_rounds, offline.ndcg])

    return simulate(trial.settings, advance=advance, measured=measured)


def _settings(
    choice: LabChoice, *, attacked: bool = False, defended: bool = False
) -> SimulationSettings:
    return SimulationSettings(
        data=lab_world(choice.seed),
        clients=choice.clients,
        rounds=choice.rounds,
        click_model=choice.click_model,
        evaluate_every=max(1, choice.rounds // POINTS),
        seed=choice.seed,
        attack=choice.attack if attacked else "none",
        attackers=choice.n_attackers if attacked else 0,
        rule=choice.rule if defended else "fedavg",
        expected_attackers=choice.n_expected if defended else None,
    )


def _figures(choice: LabChoice, result: SimulationResult) -> dict[str, Any]:
    """Return a training's figures; how well the target is seen also where nobody promotes it."""
    figures = result.summary()
    if choice.attack.startswith("promote") and choice.n_attackers:
        test = make_clients(result.settings).test[0].data
        seen = attack_figures(_settings(choice, attacked=True), result.learner, test)
        figures |= {name: value for name, value in seen.items() if name.startswith("target_")}
    return {name: finite_or_none(value) for name, value in figures.items()}
