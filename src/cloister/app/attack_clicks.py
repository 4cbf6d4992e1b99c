"""``cloister attack clicks``: what a server reads off updates about what clients clicked."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, number, progress, table

if TYPE_CHECKING:
    from cloister.adversary.inferred_clicks import Measured
    from cloister.lab.reproduce.click_inference.trial import Trial

__all__ = ["clicks"]

Result = dict[str, Any]


class Protection(StrEnum):
    """What stands between a client's update and the server."""

    NONE = "none"
    PAPER = "paper"
    SUM = "sum"
    SUM_AND_NOISE = "sum+noise"


class RankerKind(StrEnum):
    """What is trained."""

    LINEAR = "linear"
    MLP = "mlp"


class KnownOrder(StrEnum):
    """What the server knows of a page."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CANDIDATES = "candidates"


class Scaling(StrEnum):
    """How features are read."""

    NONE = "none"
    QUERY_MINMAX = "query_minmax"
    GLOBAL_MINMAX = "global_minmax"
    GLOBAL_ZSCORE = "global_zscore"


class Negatives(StrEnum):
    """Which unclicked documents PDGD learns from."""

    WHOLE_PAGE = "whole_page"
    TO_LAST_CLICK = "to_last_click"


def _show(result: Result) -> None:
    columns = ["", "accuracy", "precision", "recall", "AUC", "advantage", "of the client"]
    rows = [
        [
            found["name"],
            *(_value(found[name]) for name in ("accuracy", "precision", "recall", "auc")),
            _interval(found["advantage_auc"]),
            _interval(found["individual_auc"]),
        ]
        for found in result["attacks"]
    ]
    table("guesses of clicks, baselines first", columns, rows)
    noise = f"noise {result['sigma']:.3g} a coordinate; " if result["sigma"] else ""
    typer.echo(
        f"{number(result['observations'])} observations of {number(result['pages'])} pages, "
        f"{result['clicks_per_page']:.2f} clicks a page; {noise}± at 95 %"
    )
    typer.echo(
        "best guess: from rank, score and click model, no update; advantage: AUC less its AUC; "
        "of the client: the advantage less that on others' clicks on the same pages"
    )


def _value(measured: Result | None) -> Any:
    if measured is None or measured["value"] != measured["value"]:
        return "-"
    return f"{measured['value']:.3f}"


def _interval(measured: Result | None) -> str:
    if measured is None:
        return "-"
    if measured["low"] is None:
        return f"{measured['value']:+.3f}"
    return f"{measured['value']:+.3f} ± {measured['value'] - measured['low']:.3f}"


@command_result(_show)
def clicks(
    data: Annotated[str, typer.Option(help="A LETOR file or folder, or a world's address.")],
    fold: Annotated[int, typer.Option(help="Which fold.", min=1)] = 1,
    click_model: Annotated[
        str, typer.Option(help="How the attacked clients click; the ranker learns from perfect.")
    ] = "perfect",
    protection: Annotated[
        Protection, typer.Option(help="What stands between an update and the server.")
    ] = Protection.NONE,
    clients: Annotated[int, typer.Option(help="Clients in a sum.", min=1)] = 1,
    population: Annotated[
        int | None,
        typer.Option(help="Clients of whom those in a sum are drawn; no others unless given."),
    ] = None,
    queries_per_update: Annotated[
        int, typer.Option(help="Pages behind each client's update.", min=1, max=32)
    ] = 1,
    ranker: Annotated[RankerKind, typer.Option(help="What is trained.")] = RankerKind.LINEAR,
    order: Annotated[
        KnownOrder,
        typer.Option(help="Whether the server knows a page in order, as a set, or not at all."),
    ] = KnownOrder.KNOWN,
    normalise: Annotated[
        Scaling, typer.Option(help="How features are read.")
    ] = Scaling.QUERY_MINMAX,
    negatives: Annotated[
        Negatives, typer.Option(help="Which unclicked documents PDGD learns from.")
    ] = Negatives.WHOLE_PAGE,
    observations: Annotated[
        int,
        typer.Option(help="Updates or sums that are seen; one of each query if 0, 20 sums.", min=0),
    ] = 0,
    train_rounds: Annotated[
        int, typer.Option(help="Rounds of training the global ranker.", min=1)
    ] = 200,
    train_clients: Annotated[int, typer.Option(help="Clients of that training.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Guess what clients clicked from what they send: every attack, and guesses without it."""
    from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
    from cloister.lab.reproduce.click_inference.trial import try_attacks

    start = time.perf_counter()
    settings = ClickInferenceSettings(
        data=data,
        fold=fold,
        click_model=click_model,
        protection=protection.value,
        clients=clients,
        population=population or max(clients, 1),
        queries_per_update=queries_per_update,
        ranker=ranker.value,
        order=order.value,
        normalise=normalise.value,
        negatives=negatives.value,
        observations=observations or (20 if clients > 1 else 0),
        train_rounds=train_rounds,
        train_clients=train_clients,
        seed=seed,
    )
    with progress("click inference") as advance:
        trial = try_attacks(settings, advance)
    return {
        "attacks": [_found(trial, name) for name in trial.successes],
        "observations": trial.n_observations,
        "pages": trial.n_pages,
        "clicks_per_page": trial.clicks_per_page,
        "sigma": trial.sigma,
        "settings": settings.model_dump(mode="json"),
        "seconds": time.perf_counter() - start,
    }


def _found(trial: Trial, name: str) -> Result:
    """Return one attack's figures, each with its interval."""
    gained = trial.advantages.get(name, {})
    return {
        "name": name,
        **{key: _plain(value) for key, value in trial.successes[name]._asdict().items()},
        "advantage_auc": _plain(gained.get("auc")),
        "advantage_accuracy": _plain(gained.get("accuracy")),
        "individual_auc": _plain(gained.get("individual_auc")),
    }


def _plain(measured: Measured | None) -> Result | None:
    return None if measured is None else measured._asdict()
