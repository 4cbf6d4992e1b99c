"""``cloister silos``: parties that keep their documents learn to rank together, simulated."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from cloister.app.output import JsonFlag, checked_usage, command_result, progress, say
from cloister.app.silos_options import (
    FirstSeed,
    Labels,
    NumberOfSeeds,
    Parties,
    RankerOption,
    ReleaseDelta,
    ReleaseEpsilon,
    Sharing,
    SilosCollection,
    SimulationLedger,
    TestQueries,
    TrainingQueries,
    ValidationQueries,
)
from cloister.app.silos_output import show, silos_result
from cloister.app.silos_recording import record_crossings, refuse_early
from cloister.core.errors import NotFound, SettingsError

if TYPE_CHECKING:
    from cloister.federate.silos.runs import Crossing
    from cloister.lab.silos.experiment import Figures
    from cloister.lab.silos.settings import SilosSettings

__all__ = ["RECORDED", "silos"]

Result = dict[str, Any]

RECORDED: Final = "cs-f-ltr-tuned"  # what it crosses holds what every other system crosses
USUAL_DELTA: Final = 1e-6


def _check(given: Mapping[str, Any]) -> None:
    """Find now what would else come to light when the work is done."""
    if given["delta"] is not None and given["epsilon"] is None:
        raise typer.BadParameter("--delta goes with --epsilon; without them counts are exact")
    if given["ledger"] is not None and given["seeds"] > 1:
        raise typer.BadParameter("a ledger goes with one run: leave out --ledger or --seeds")
    try:
        settings = _settings(given)
    except SettingsError as error:
        raise typer.BadParameter(f"{error.message}; {error.remedy}") from None
    except NotFound:
        return  # the command says so
    if given["sharing"] and settings.collection in ("medquad", "clinic"):
        raise typer.BadParameter(f"--sharing: {settings.collection} has parties of its own")


def _settings(given: Mapping[str, Any]) -> SilosSettings:
    """Put together what is asked for, with the first seed."""
    from cloister.lab.silos.addresses import collection_fields
    from cloister.lab.silos.settings import SilosSettings

    counts: Result = {"counts": "exact"}
    if given["epsilon"] is not None:
        delta = USUAL_DELTA if given["delta"] is None else given["delta"]
        counts = {"counts": "release", "epsilon": given["epsilon"], "delta": delta}
    sharing = {"sharing": given["sharing"]} if given["sharing"] else {}
    return SilosSettings(
        **collection_fields(given["collection"], given["parties"]),
        **counts,
        **sharing,
        labels=given["labels"],
        ranker=given["ranker"],
        n_training=given["queries"],
        n_validation=given["validation_queries"],
        n_test=given["test_queries"],
        seed=given["seed"],
    )


@checked_usage(_check)
@command_result(show)
def silos(
    ctx: typer.Context,
    collection: SilosCollection,
    parties: Parties = None,
    epsilon: ReleaseEpsilon = None,
    delta: ReleaseDelta = None,
    ranker: RankerOption = "pointwise",
    queries: TrainingQueries = 200,
    validation_queries: ValidationQueries = 60,
    test_queries: TestQueries = 57,
    labels: Labels = "reference",
    sharing: Sharing = None,
    seed: FirstSeed = 1,
    seeds: NumberOfSeeds = 1,
    ledger: SimulationLedger = None,
    as_json: JsonFlag = False,
) -> Result:
    """Train rankers across parties that keep their documents, and measure them at each.

    Says of every run what leaves a party, and what that truly costs.
    """
    start = time.perf_counter()
    settings = _settings(ctx.params)
    if ledger is not None:
        _refuse_early(ledger, settings)
    say(f"{settings.collection}: reading, sharing out to {settings.n_parties} parties")
    repetitions, crossed = _trained(settings, range(seed, seed + seeds))
    recorded = None if ledger is None else _recorded(ledger, crossed)
    result = silos_result(settings, repetitions, crossed)
    return result | {"ledger": recorded, "seconds": time.perf_counter() - start}


def _refuse_early(ledger: str, settings: SilosSettings) -> None:
    from cloister.lab.silos.collections import party_name

    refuse_early(ledger, [party_name(number) for number in range(settings.n_parties)])


def _trained(
    settings: SilosSettings, seeds: Sequence[int]
) -> tuple[list[Figures], dict[str, list[Crossing]]]:
    """Return the figures of every seed, and what crossed for each system with the first."""
    from cloister.lab.silos.experiment import figures_of
    from cloister.lab.silos.training import SYSTEMS, train_silos

    figures: list[Figures] = []
    crossed: dict[str, list[Crossing]] = {}
    with progress("rankers") as advance:
        for number, seed in enumerate(seeds):

            def step(done: int, total: int, before: int = number) -> None:
                advance(before * total + done, len(seeds) * total)

            trained = train_silos(settings.model_copy(update={"seed": seed}), advance=step)
            figures.append(figures_of(trained))
            crossed = crossed or {system: trained.crossings(system) for system in SYSTEMS}
    return figures, crossed


def _recorded(ledger: str, crossed: Mapping[str, Sequence[Crossing]]) -> Result:
    return {"system": RECORDED} | record_crossings(ledger, crossed[RECORDED])
