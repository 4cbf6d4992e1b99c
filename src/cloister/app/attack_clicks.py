"""``cloister attack clicks``: what a server reads off updates about what clients clicked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.attack_clicks_options import (
    SUM_OF,
    ClickModelName,
    ClientsInSum,
    DataAddress,
    FoldNumber,
    KnownOrder,
    Negatives,
    NegativesOption,
    Observations,
    OrderOption,
    PopulationSize,
    Protection,
    ProtectionOption,
    QueriesPerUpdate,
    RankerKind,
    RankerOption,
    Scaling,
    ScalingOption,
    TrainClients,
    TrainRounds,
)
from cloister.app.output import JsonFlag, command_result, number, progress, table
from cloister.core.errors import SettingsError

if TYPE_CHECKING:
    from cloister.adversary.inferred_clicks import Measured
    from cloister.lab.reproduce.click_inference.trial import Trial

__all__ = ["clicks", "speaking_of_options"]

Result = dict[str, Any]


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
    data: DataAddress,
    fold: FoldNumber = 1,
    click_model: ClickModelName = "perfect",
    protection: ProtectionOption = Protection.NONE,
    clients: ClientsInSum = None,
    population: PopulationSize = None,
    queries_per_update: QueriesPerUpdate = 1,
    ranker: RankerOption = RankerKind.LINEAR,
    order: OrderOption = KnownOrder.KNOWN,
    normalise: ScalingOption = Scaling.QUERY_MINMAX,
    negatives: NegativesOption = Negatives.WHOLE_PAGE,
    observations: Observations = 0,
    train_rounds: TrainRounds = 200,
    train_clients: TrainClients = 1000,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Guess what clients clicked from what they send: every attack, and guesses without it."""
    from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
    from cloister.lab.reproduce.click_inference.trial import try_attacks

    start = time.perf_counter()
    in_sum = _in_sum(protection, clients, population)
    if order is KnownOrder.CANDIDATES and (in_sum > 1 or queries_per_update > 1):
        raise SettingsError(
            "is for one query of one client",
            where="--order candidates",
            remedy="leave out --protection sum and sum+noise, and --queries-per-update",
        )
    with speaking_of_options():
        settings = ClickInferenceSettings(
            data=data,
            fold=fold,
            click_model=click_model,
            protection=protection.value,
            clients=in_sum,
            population=population or in_sum,
            queries_per_update=queries_per_update,
            ranker=ranker.value,
            order=order.value,
            normalise=normalise.value,
            negatives=negatives.value,
            observations=observations or (20 if in_sum > 1 else 0),
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


@contextmanager
def speaking_of_options(named: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let an error about a field of settings speak of the option.

    Parameters
    ----------
    named
        Options whose names are not those of their fields.

    Examples
    --------
    >>> with speaking_of_options({"n_shadows": "--shadows"}):
    ...     raise SettingsError("too few", where="n_shadows", remedy="give more")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: --shadows: too few; give more
    """
    try:
        yield
    except SettingsError as error:
        field = error.where if error.where.isidentifier() else ""
        option = (named or {}).get(field, f"--{field.replace('_', '-')}") if field else ""
        raise SettingsError(error.what, where=option, remedy=error.remedy) from None


def _in_sum(protection: Protection, clients: int | None, population: int | None) -> int:
    """Return how many clients are in what the server sees; refuse what would be ignored."""
    is_sum = protection in (Protection.SUM, Protection.SUM_AND_NOISE)
    if population is not None and protection is not Protection.SUM_AND_NOISE:
        raise SettingsError(
            "decides the noise, of which there is none",
            where="--population",
            remedy="leave it out, or give --protection sum+noise",
        )
    if not is_sum:
        if clients not in (None, 1):
            raise SettingsError(
                f"{clients} clients are seen only in a sum",
                where="--clients",
                remedy="leave it out, or give --protection sum or sum+noise",
            )
        return 1
    if clients == 1:
        raise SettingsError(
            "a sum of one client is its own update",
            where="--clients",
            remedy="give 2 or more, or another --protection",
        )
    if population is not None and population < (clients or SUM_OF):
        raise SettingsError(
            f"fewer than the {clients or SUM_OF} clients of a sum",
            where="--population",
            remedy="raise it, or lower --clients",
        )
    return clients or SUM_OF


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
