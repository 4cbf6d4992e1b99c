"""``cloister attack poison``: one poisoning attack against several aggregation rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import click
import typer

from cloister.app.output import JsonFlag, command_result, number, progress, table

if TYPE_CHECKING:
    from cloister.lab.simulation.run import SimulationResult
    from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["poison"]

Result = dict[str, Any]
Advance = Callable[[int, int], None]

WORLD: Final = "world:features?queries=200&documents=20&features=20"


def _show(result: Result) -> None:
    settings = result["settings"]
    promotes = settings["attack"].startswith("promote")
    columns = ["rule", "honest", "attacked", "lost", "attackers out", "honest out", "tolerates"]
    columns += ["target"] if promotes else []
    title = (
        f"nDCG@10 under {settings['attack']} by {settings['attackers']} of "
        f"{settings['clients']} clients, {settings['click_model']} clicks"
    )
    table(title, columns, [_line(row, promotes) for row in result["rules"]])
    typer.echo(
        "honest: nobody attacks, though the rule expects it\n"
        "out: share of updates, of attackers and of honest clients under attack, that had no "
        "part in the model\n"
        "tolerates: attackers that the rule declares it withstands (krum, multi-krum, adaptive: no "
        "proof);\n! marks what is beyond it"
    )
    if promotes:
        typer.echo("target: share of test queries with it on the first page, honest > attacked")
    typer.echo(
        f"{number(settings['rounds'])} rounds of {settings['queries_per_round']} queries, seed "
        f"{settings['seed']}, {result['seconds']:.0f} s"
    )


def _line(row: Result, promotes: bool) -> list[Any]:
    beyond = "!" if row["beyond_bound"] else ""
    if row["attacked"] is None:
        empty = ["-", "no outcome", *["-"] * 3]
        return [row["rule"], *empty, f"{row['tolerates']}{beyond}", *["-"] * promotes]
    line = [row["rule"], f"{row['honest']:.4f}", f"{row['attacked']:.4f}", f"{row['lost']:.4f}"]
    line += [_percent(row["unused_attackers"]), _percent(row["unused_honest"])]
    line.append(f"{row['tolerates']}{beyond}")
    if promotes:
        line.append(f"{row['target_honest']:.2f} > {row['target_attacked']:.2f}")
    return line


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _choices(kind: str) -> Callable[[list[str] | str | None], Any]:
    """Return a check that names are those of the settings; these are imported late."""

    def check(given: list[str] | str | None) -> Any:
        from cloister.lab.simulation import settings

        known = get_args(getattr(settings, kind))
        for name in [given] if isinstance(given, str) else given or []:
            if name not in known or name == "none":
                names = ", ".join(one for one in known if one != "none")
                raise typer.BadParameter(f"no {name!r}; there are: {names}")
        return given

    return check


AttackOption = Annotated[
    str,
    typer.Option(
        help="What attackers do, as in poison-clicks, fang-krum or dyn-opt.",
        metavar="NAME",
        callback=_choices("AttackName"),
    ),
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        help="An aggregation rule, as in krum; all unless given. May be given often.",
        metavar="NAME",
        callback=_choices("RuleName"),
    ),
]
TargetFeature = Annotated[
    int,
    typer.Option(
        help="Of promotion: the document of each query that is highest in this feature, from "
        "0, is the target.",
        min=0,
    ),
]


@command_result(_show)
def poison(
    attack: AttackOption,
    attackers: Annotated[int, typer.Option(help="How many of the clients attack.", min=1)],
    data: Annotated[
        str, typer.Option(help="Where the data is: a path, or a built-in world.", metavar="ADDRESS")
    ] = WORLD,
    rule: RuleOption = None,
    clients: Annotated[int, typer.Option(help="How many there are.", min=2)] = 10,
    queries_per_round: Annotated[int, typer.Option(help="Of each client.", min=1)] = 5,
    rounds: Annotated[int, typer.Option(help="Of training.", min=1)] = 1_000,
    click_model: Annotated[
        str, typer.Option(help="Whose clicks: perfect, navigational, informational, ...")
    ] = "informational",
    knowledge: Annotated[
        str,
        typer.Option(
            help="Whether attackers know all updates of a round, or their own.",
            click_type=click.Choice(["partial", "full"]),
        ),
    ] = "partial",
    target_feature: TargetFeature = 0,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    threads: Annotated[
        int | None, typer.Option(help="Threads; the result is the same for any.", min=1)
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Poison a federation: what each rule loses to the attack, beside nobody attacking.

    One run of each, with one seed: `cloister reproduce poisoning` repeats, and has intervals.
    """
    from cloister.lab.simulation.settings import SimulationSettings

    start = time.perf_counter()
    settings = SimulationSettings(
        data=data,
        attack=attack,  # type: ignore[arg-type]
        attackers=attackers,
        knowledge=knowledge,  # type: ignore[arg-type]
        clients=clients,
        queries_per_round=queries_per_round,
        rounds=rounds,
        click_model=click_model,
        target_feature=target_feature,
        evaluate_every=rounds,
        seed=seed,
    )
    rows = _attacked(settings, list(dict.fromkeys(rule or _rules())), threads)
    return {
        "rules": rows,
        "settings": settings.model_dump(mode="json"),
        "seconds": time.perf_counter() - start,
    }


def _rules() -> tuple[str, ...]:
    from cloister.lab.simulation.settings import RuleName

    return get_args(RuleName)


def _attacked(
    settings: SimulationSettings, rules: Sequence[str], threads: int | None
) -> list[Result]:
    """Run every rule twice, with a bar over all rounds."""
    rows = []
    total = 2 * settings.rounds * len(rules)
    with progress(f"rounds under {settings.attack}") as advance:
        for position, name in enumerate(rules):
            begun = 2 * settings.rounds * position

            def told(done: int, _rounds: int, begun: int = begun) -> None:
                advance(begun + done, total)

            rows.append(_row(settings, name, threads, told))
    return rows


def _row(settings: SimulationSettings, rule: str, threads: int | None, advance: Advance) -> Result:
    """Run one rule, without attackers and with them; it expects them in both."""
    from cloister.federate.rules import make_rule
    from cloister.lab.simulation.run import simulate

    n, m = settings.clients, settings.attackers
    made = make_rule(rule, n_attackers=m, beyond="mark")
    most = made.most_attackers(n)
    bound = {"rule": rule, "tolerates": most, "beyond_bound": m > most}
    if not made.computable(n, m):
        keys = ("honest", "attacked", "lost", "unused_attackers", "unused_honest")
        return bound | dict.fromkeys(keys)
    shared = {"rule": rule, "expected_attackers": m}
    alone = settings.model_copy(update=shared | {"attack": "none", "attackers": 0})
    before = simulate(alone, threads=threads, advance=advance)
    after = simulate(
        settings.model_copy(update=shared),
        threads=threads,
        advance=lambda done, total: advance(done + total, total),
    )
    found = after.summary()
    row = bound | {
        "honest": before.final.ndcg,
        "attacked": after.final.ndcg,
        "lost": before.final.ndcg - after.final.ndcg,
        "unused_attackers": found.get("unused_attackers"),
        "unused_honest": found.get("unused_honest"),
        "unused_honest_when_nobody_attacks": before.summary().get("unused_honest"),
    }
    return row | _exposure(settings, before, found)


def _exposure(settings: SimulationSettings, before: SimulationResult, found: Result) -> Result:
    """Return how often a promoted target is shown; nothing for another attack."""
    from cloister.adversary.poisoning import exposure
    from cloister.lab.simulation.clients import make_clients, promotion_target

    target = promotion_target(settings, make_clients(before.settings).test[0].data)
    if target is None:
        return {}
    seen = exposure(before.learner.ranker, target, seed=settings.seed)
    return {"target_honest": seen.top_share, "target_attacked": found["target_on_first_page"]}
