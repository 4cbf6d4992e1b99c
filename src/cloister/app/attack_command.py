"""``cloister attack``: what an adversary gets out of each protection."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.attack_clicks import clicks
from cloister.app.attack_code_order import code_order
from cloister.app.attack_leakage_abuse import leakage_abuse
from cloister.app.attack_membership import membership
from cloister.app.attack_poison import poison
from cloister.app.attack_rare_term import rare_term
from cloister.app.attack_sketch import sketch
from cloister.app.attack_term_frequency import term_frequency
from cloister.app.output import JsonFlag, command_result, number, progress, table

if TYPE_CHECKING:
    from cloister.adversary.audit import AuditSettings

__all__ = ["app"]

app = typer.Typer(help="Attack the protections, and say what came out.", no_args_is_help=True)

Result = dict[str, Any]

# As in AuditSettings, which is imported late: it needs the packages of numbers.
MOST_TRIALS: Final = 10**8
MOST_ROUNDS: Final = 10_000


app.command("clicks")(clicks)
app.command("code-order")(code_order)
app.command("leakage-abuse")(leakage_abuse)
app.command("membership")(membership)
app.command("poison")(poison)
app.command("rare-term")(rare_term)
app.command("sketch")(sketch)
app.command("term-frequency")(term_frequency)


def _show(result: Result) -> None:
    audits = result["audits"]
    columns = ["mechanism", "claimed", "ledger", "attack", "what the attack shows"]
    rows = [
        [
            found["mechanism"],
            "-" if found["claimed_epsilon"] is None else found["claimed_epsilon"],
            "none" if found["ledger_epsilon"] == float("inf") else found["ledger_epsilon"],
            found["lower_bound"],
            _shown(found),
        ]
        for found in audits
    ]
    table("epsilon: as claimed, as the ledger states it, and the least that holds", columns, rows)
    for found in audits:
        if found["n_rounds"] > 1:
            typer.echo(f"{found['mechanism']}: {number(found['n_rounds'])} rounds")
    settings, ceiling = result["settings"], number(audits[0]["ceiling"])
    typer.echo(
        f"delta {settings['delta']:g}; each bound holds with confidence "
        f"{settings['confidence']:.3g}; {number(settings['n_trials'])} trials of each input show "
        f"{ceiling} at most; {result['seconds']:.0f} s"
    )


def _shown(found: Result) -> str:
    """Say the most telling part of a verdict."""
    if found["refutes_ledger"]:
        return "exceeds the ledger"
    return "exceeds the claim" if found["refutes_claim"] else "stays below"


def _known_mechanisms(names: list[str] | None) -> list[str] | None:
    if names:
        from cloister.adversary.audits import SUBJECTS

        for name in names:
            if name not in SUBJECTS:
                raise typer.BadParameter(f"no mechanism {name!r}; there are: {', '.join(SUBJECTS)}")
    return names


def _positive(value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is no finite number above 0")
    return value


def _probability(value: float) -> float:
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value} does not lie between 0 and 1")
    return value


@app.command("distinguish")
@command_result(_show)
def distinguish(
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="Which one, as in paper-laplace; all unless given. May be given often.",
            metavar="NAME",
            callback=_known_mechanisms,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="What it is set to, or claims; its own unless given.", callback=_positive
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Of the guarantee that is tried.", callback=_probability)
    ] = 1e-6,
    trials: Annotated[
        int, typer.Option(help="Of each of the two inputs.", min=2, max=MOST_TRIALS)
    ] = 1_000_000,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Releases seen in a trial; its own unless given.", min=1, max=MOST_ROUNDS
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Of each lower bound.", callback=_probability)
    ] = 0.99,
    secure_noise: Annotated[
        bool,
        typer.Option(
            "--secure-noise",
            help="Single mechanisms draw noise as real clients do: slower, and without a seed.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Tell neighbouring inputs apart: a lower bound on every mechanism's true epsilon."""
    from cloister.adversary.audit import AuditSettings
    from cloister.adversary.audits import SUBJECTS

    start = time.perf_counter()
    settings = AuditSettings(
        epsilon=epsilon,
        delta=delta,
        n_trials=trials,
        n_rounds=rounds,
        confidence=confidence,
        seed=seed,
        secure_noise=secure_noise,
    )
    audits = [_audited(name, settings) for name in mechanism or SUBJECTS]
    return {
        "audits": audits,
        "settings": settings.model_dump(mode="json"),
        "seconds": time.perf_counter() - start,
    }


def _audited(name: str, settings: AuditSettings) -> Result:
    from cloister.adversary.audit import audit
    from cloister.adversary.audits import make_subject

    start = time.perf_counter()
    with progress(f"distinguish {name}") as advance:
        found = audit(make_subject(name, settings), settings, advance=advance)
    return found._asdict() | {
        "verdict": found.verdict,
        "refutes_claim": found.refutes_claim,
        "refutes_ledger": found.refutes_ledger,
        "seconds": time.perf_counter() - start,
    }
