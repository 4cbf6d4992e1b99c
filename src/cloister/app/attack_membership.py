"""``cloister attack membership``: whether a query or a client was behind an update or a ranker."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.output import JsonFlag, command_result, number, progress, table

if TYPE_CHECKING:
    from cloister.adversary.membership import MembershipSuccess
    from cloister.lab.reproduce.membership.setting import (
        RankerMembershipSettings,
        UpdateMembershipSettings,
    )

__all__ = ["membership"]

Result = dict[str, Any]

WORLD: Final = "world:features?queries=400&documents=20"


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
    typer.echo(
        f"{number(result['n_targets'])} targets; intervals at 95 %; found at 1 % false alarms; "
        f"chance is AUC 0.5, 0.01 found, advantage 0; {result['seconds']:.0f} s"
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
    target: Annotated[Target, typer.Option(help="On updates: what is looked for.")] = Target.QUERY,
    queries_per_update: Annotated[
        int, typer.Option(help="On updates: interactions of a client.", min=1, max=32)
    ] = 1,
    observations: Annotated[
        int, typer.Option(help="On updates: targets of each trial.", min=4)
    ] = 200,
    own_queries: Annotated[
        int, typer.Option(help="On models: queries of each client; 0 for shared ones.", min=0)
    ] = 20,
    own_taste: Annotated[
        float, typer.Option(help="On models: share graded by a client's own taste.", min=0, max=1)
    ] = 0.0,
    rounds: Annotated[int, typer.Option(help="On models: of each training.", min=1)] = 200,
    shadows: Annotated[
        int | None,
        typer.Option(help="Updates (1,000), or rankers (80), of the adversary's own.", min=8),
    ] = None,
    federations: Annotated[int, typer.Option(help="On models: how many are attacked.", min=4)] = 30,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Tell whether a query, or a client, was behind an update or a ranker."""
    from cloister.lab.reproduce.membership.setting import (
        RankerMembershipSettings,
        UpdateMembershipSettings,
    )

    start = time.perf_counter()
    shared: dict[str, Any] = {
        "data": data, "fold": fold, "click_model": click_model, "seed": seed
    }  # fmt: skip
    if on is Seen.UPDATE:
        update = UpdateMembershipSettings(
            **shared,
            target=target.value,
            queries_per_update=queries_per_update,
            observations=observations,
            epsilon=epsilon or 4.5,
            n_shadows=shadows or 1000,
        )
        found = _on_updates(update, clients or 100)
    else:
        ranker = RankerMembershipSettings(
            **shared,
            clients=clients or 10,
            own_queries=own_queries,
            own_taste=own_taste,
            rounds=rounds,
            n_shadows=shadows or max(80, 4 * (clients or 10)),
            n_attacked=federations,
        )
        found = _on_models(ranker, epsilon)
    return {"on": on.value, **found, "seconds": time.perf_counter() - start}


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
    told = [chosen.model_dump(mode="json") for chosen in steps.values()]
    return {"attacks": attacks, "n_targets": settings.observations, "settings": told}


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
