"""``cloister attack membership``: whether a query or a client was behind an update or a ranker."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.attack_clicks import speaking_of_options
from cloister.app.output import JsonFlag, command_result, number, progress, table
from cloister.core.errors import SettingsError

if TYPE_CHECKING:
    from cloister.adversary.membership import MembershipSuccess
    from cloister.lab.reproduce.membership.setting import (
        RankerMembershipSettings,
        UpdateMembershipSettings,
    )

__all__ = ["membership"]

Result = dict[str, Any]

WORLD: Final = "world:features?queries=400&documents=20"
FIELDS: Final = {"n_shadows": "--shadows", "n_attacked": "--federations"}  # else named alike


class Seen(StrEnum):
    """What the adversary sees."""

    UPDATE = "update"
    MODEL = "model"


class Target(StrEnum):
    """What is looked for in updates."""

    QUERY = "query"
    CLIENT = "client"


def _show(result: Result) -> None:
    columns = ["seen", "attack", "AUC", "found at 1 %", "advantage"]
    rows = [
        [
            found["seen"],
            found["attack"],
            *(_interval(found[name]) for name in ("auc", "true_positive_rate", "advantage")),
        ]
        for found in result["attacks"]
    ]
    table(f"membership inference on {result['on']}s", columns, rows)
    if result["on"] == "model":
        _show_rankers(result)
    queries = f" of {number(result['n_queries'])} queries" if result.get("n_queries") else ""
    typer.echo(
        f"{number(result['n_targets'])} targets{queries}; intervals at 95 %; found at 1 % false "
        f"alarms; chance is AUC 0.5, 0.01 found, advantage 0; {result['seconds']:.0f} s"
    )


def _show_rankers(result: Result) -> None:
    rows = [
        [
            found["ranker"],
            found["ndcg"],
            _interval(found["above_retrained"]),
            _interval(found["departure"]),
        ]
        for found in result["rankers"]
    ]
    columns = ["ranker", "nDCG@10", "AUC less retrained's", "who left, named"]
    table("rankers; who left is told from the rankers before and after", columns, rows)
    typer.echo(f"who left by chance: {1 / result['settings'][0]['clients']:.2f}")


def _interval(measured: Result | None) -> str:
    if measured is None:
        return "-"
    reach = max(measured["value"] - measured["low"], measured["high"] - measured["value"])
    return f"{measured['value']:.2f} ± {reach:.2f}"


@command_result(_show)
def membership(
    on: Annotated[Seen, typer.Option(help="What the adversary sees.")] = Seen.UPDATE,
    data: Annotated[str, typer.Option(help="A LETOR file or folder, or a world's address.")] = (
        WORLD
    ),
    fold: Annotated[int, typer.Option(help="Which fold.", min=1)] = 1,
    click_model: Annotated[str, typer.Option(help="How clients click.")] = "informational",
    clients: Annotated[
        int | None,
        typer.Option(help="In a sum (100 unless given), or in a federation (10).", min=2),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Of the noise: in sums 4.5 unless given, in training none."),
    ] = None,
    target: Annotated[
        Target | None, typer.Option(help="On updates: what is looked for (query).")
    ] = None,
    queries_per_update: Annotated[
        int | None, typer.Option(help="On updates: interactions of a client (1).", min=1, max=32)
    ] = None,
    observations: Annotated[
        int | None, typer.Option(help="On updates: targets of each trial (200).", min=4)
    ] = None,
    own_queries: Annotated[
        int | None,
        typer.Option(help="On models: queries of each client (20); 0 for shared ones.", min=0),
    ] = None,
    own_taste: Annotated[
        float | None,
        typer.Option(help="On models: share graded by a client's own taste (0).", min=0, max=1),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="On models: of each training (200).", min=1)
    ] = None,
    shadows: Annotated[
        int | None,
        typer.Option(help="Updates (1,000), or rankers (80), of the adversary's own.", min=8),
    ] = None,
    federations: Annotated[
        int | None, typer.Option(help="On models: how many are attacked (30).", min=4)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Tell whether a query, or a client, was behind an update or a ranker."""
    start = time.perf_counter()
    shared: Result = {"data": data, "fold": fold, "click_model": click_model, "seed": seed}
    of_updates: Result = {
        "target": None if target is None else target.value,
        "queries_per_update": queries_per_update,
        "observations": observations,
    }
    of_models: Result = {
        "own_queries": own_queries,
        "own_taste": own_taste,
        "rounds": rounds,
        "n_attacked": federations,
    }
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise SettingsError(f"{epsilon} is no finite number above 0", where="--epsilon")
    if on is Seen.UPDATE:
        _refuse(of_models, "--on model")
        settings = _update_settings(shared | _given(of_updates), epsilon, shadows)
        found = _on_updates(settings, clients or 100)
    else:
        _refuse(of_updates, "--on update")
        found = _on_models(_ranker_settings(shared, of_models, clients or 10, shadows), epsilon)
    return {"on": on.value, **found, "seconds": time.perf_counter() - start}


def _given(options: Result) -> Result:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: Result, needed: str) -> None:
    """Refuse options that would be ignored."""
    for name in _given(options):
        option = FIELDS.get(name, f"--{name.replace('_', '-')}")
        raise SettingsError(
            f"is for {needed}", where=option, remedy=f"leave it out, or give {needed}"
        )


def _update_settings(
    chosen: Result, epsilon: float | None, shadows: int | None
) -> UpdateMembershipSettings:
    from cloister.lab.reproduce.membership.setting import UpdateMembershipSettings

    fixed: Result = {"observations": 200, "epsilon": 4.5 if epsilon is None else epsilon}
    with speaking_of_options(FIELDS):
        return UpdateMembershipSettings(**(fixed | chosen), n_shadows=shadows or 1000)


def _ranker_settings(
    shared: Result, chosen: Result, clients: int, shadows: int | None
) -> RankerMembershipSettings:
    from cloister.lab.reproduce.membership.setting import RankerMembershipSettings

    least = 4 * clients  # two a person
    if shadows is not None and shadows < least:
        raise SettingsError(f"{clients} clients need {least} shadows or more", where="--shadows")
    if chosen["own_taste"] and chosen["own_queries"] == 0:
        raise SettingsError("needs --own-queries above 0", where="--own-taste")
    fixed = {"rounds": 200, "n_attacked": 30, "clients": clients}
    with speaking_of_options(FIELDS):
        return RankerMembershipSettings(
            **(shared | fixed | _given(chosen)), n_shadows=shadows or max(80, least)
        )


def _on_updates(settings: UpdateMembershipSettings, clients: int) -> Result:
    """Attack single updates, sums, and sums with noise."""
    from cloister.lab.reproduce.membership.update_trial import try_updates

    steps = {
        "one update": settings,
        f"sum of {clients}": settings.model_copy(update={"clients": clients}),
        f"sum of {clients}, noise": settings.model_copy(update={"clients": clients, "noise": True}),
    }
    attacks: list[Result] = []
    for name, chosen in steps.items():
        with progress(f"membership, {name}") as advance:
            trial = try_updates(chosen, advance)
        attacks += [_row(name, attack, found) for attack, found in trial.successes.items()]
    return {
        "attacks": attacks,
        "n_targets": settings.observations,
        "n_queries": trial.n_queries,
        "settings": [chosen.model_dump(mode="json") for chosen in steps.values()],
    }


def _on_models(settings: RankerMembershipSettings, epsilon: float | None) -> Result:
    """Attack trained, unlearned and retrained rankers, and with an epsilon privately trained."""
    from cloister.lab.reproduce.membership.ranker_trial import try_rankers

    with progress("membership, rankers") as advance:
        trial = try_rankers(settings, advance)
    attacks = [
        _row(ranker, attack, found)
        for ranker, by_attack in trial.successes.items()
        for attack, found in by_attack.items()
    ]
    rankers = [
        {
            "ranker": name,
            "ndcg": ndcg,
            "above_retrained": _plain(trial.above_retrained.get(name)),
            "below_trained": _plain(trial.below_trained.get(name)),
            "departure": _plain(trial.departures.get(name)),
        }
        for name, ndcg in trial.ndcg.items()
    ]
    chosen = [settings]
    if epsilon is not None:
        chosen.append(settings.model_validate(settings.model_dump() | {"epsilon": epsilon}))
        with progress("membership, private training") as advance:
            private = try_rankers(chosen[1], advance)
        name = f"trained, epsilon {epsilon:g}"
        attacks += [_row(name, attack, f) for attack, f in private.successes["trained"].items()]
        empty = dict.fromkeys(("above_retrained", "below_trained", "departure"))
        rankers.append({"ranker": name, "ndcg": private.ndcg["trained"], **empty})
    return {
        "attacks": attacks,
        "rankers": rankers,
        "n_targets": trial.n_federations,
        "settings": [one.model_dump(mode="json") for one in chosen],
    }


def _row(seen: str, attack: str, found: MembershipSuccess) -> Result:
    measured = {name: _plain(value) for name, value in found._asdict().items()}
    return {"seen": seen, "attack": attack, **measured}


def _plain(measured: Any) -> Result | None:
    return None if measured is None else dict(measured._asdict())
