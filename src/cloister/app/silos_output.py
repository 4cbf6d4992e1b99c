"""What ``cloister silos`` says: results for machines, tables for people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import typer

from cloister.app.output import number, table

if TYPE_CHECKING:
    from cloister.federate.silos.runs import Crossing
    from cloister.lab.silos.experiment import Figures
    from cloister.lab.silos.settings import SilosSettings
    from cloister.privacy.loss import Loss
    from cloister.privacy.release import Release

__all__ = ["show", "silos_result"]

Result = dict[str, Any]

SHOWN: Final = {
    "local": "Local",
    "local-plus": "Local+",
    "global": "Global",
    "cs-f-ltr": "CS-F-LTR",
    "cs-f-ltr-tuned": "tuned",
    "mixture": "mixture",
}
COMPARED: Final = "own_ndcg@10"
NO_BOUND: Final = "no bound"


def silos_result(
    settings: SilosSettings,
    repetitions: Sequence[Figures],
    crossed: Mapping[str, Sequence[Crossing]],
) -> Result:
    """Return what all repetitions gave, and what crossed in the first."""
    from cloister.lab.silos.collections import party_name

    parties = [str(party_name(number)) for number in range(settings.n_parties)]
    released = settings.counts == "release"
    return {
        "collection": settings.collection,
        "parties": parties,
        "ranker": settings.ranker,
        "counts": settings.counts,
        "epsilon_of_a_release": settings.epsilon if released else None,
        "delta": settings.delta if released else None,
        "seeds": [settings.seed + number for number in range(len(repetitions))],
        "simulated": True,
        "systems": {
            system: _system(repetitions, system, parties, settings.ranker)
            for system in repetitions[0]
        },
        "significance": _significance(repetitions, parties) if len(repetitions) > 1 else None,
        "crossed": {system: _crossed(found, settings) for system, found in crossed.items()},
        "settings": settings.model_dump(mode="json"),
    }


def _system(
    repetitions: Sequence[Figures], system: str, parties: Sequence[str], ranker: str
) -> Result:
    """Return means over repetitions: over parties, and by party."""
    means = {
        name: sum(one[system][name] for one in repetitions) / len(repetitions)
        for name in repetitions[0][system]
    }
    by_party: dict[str, Result] = {party: {} for party in parties}
    overall: Result = {"ranker": ranker}
    for name, mean in means.items():
        figure, _, party = name.partition(" ")
        (by_party[party] if party else overall)[figure] = mean
    return overall | {"parties": by_party}


def _significance(repetitions: Sequence[Figures], parties: Sequence[str]) -> Result:
    """Compare the mixture with Local on own queries, at each party (Bonferroni) and on average."""
    from cloister.lab.silos.experiment import compare_systems

    figures = {party: f"{COMPARED} {party}" for party in parties}
    found = compare_systems(repetitions, list(figures.values()), system="mixture")
    (average,) = compare_systems(repetitions, [COMPARED], system="mixture").values()
    return {
        "system": "mixture",
        "baseline": "local",
        "figure": COMPARED,
        "parties": {party: found[figure]._asdict() for party, figure in figures.items()},
        "average": average._asdict(),
    }


def _crossed(found: Sequence[Crossing], settings: SilosSettings) -> Result:
    """Say what left each party, and what it costs together for one token."""
    by_party: dict[str, list[Crossing]] = {}
    for one in found:
        by_party.setdefault(one.sender, []).append(one)
    costs = {party: _epsilon_of(given, settings.delta) for party, given in by_party.items()}
    sketches = {
        party: _epsilon_of([one for one in given if one.what == "sketches"], settings.delta)
        for party, given in by_party.items()
    }
    return {
        "epsilon": costs,
        "epsilon_of_sketches": sketches,
        "unbounded": [party for party, cost in costs.items() if math.isinf(cost)],
        "level": "token",
        "releases": [_described(one, settings.delta) for one in found],
    }


def _described(one: Crossing, delta: float) -> Result:
    release: Release = one.release
    return {
        "what": one.what,
        "sender": one.sender,
        "recipients": list(one.recipients),
        "mechanism": release.model_dump()["mechanism"],
        "level": str(release.level),
        "values": release.n_values,
        "epsilon": _epsilon_of([one], delta),
        "simulated": release.simulated,
        "note": release.note,
    }


def _epsilon_of(given: Iterable[Crossing], delta: float) -> float:
    """Return what crossings cost together for one token; infinite where nothing bounds it."""
    from cloister.privacy.accounting import losses_of
    from cloister.privacy.level import Level

    losses = losses_of([one.release for one in given], Level.TOKEN)
    return _composed(frozenset(losses.items()), delta) if losses else 0.0


@lru_cache(maxsize=256)
def _composed(losses: frozenset[tuple[Loss, int]], delta: float) -> float:
    from cloister.privacy.accounting import composed_epsilon

    return composed_epsilon(dict(losses), delta).epsilon


def show(result: Result) -> None:
    """Print tables for people."""
    counts = "exact counts"
    if result["counts"] == "release":
        counts = f"releases at epsilon {result['epsilon_of_a_release']:g}"
    seeds = len(result["seeds"])
    typer.echo(
        f"{result['collection']}, {len(result['parties'])} parties, {result['ranker']} ranker, "
        f"{counts}, {seeds} seed{'' if seeds == 1 else 's'}"
    )
    _show_figures(result, "own_ndcg@10", "nDCG@10 on a party's own test queries")
    _show_figures(result, "ndcg@10", "nDCG@10 on the test queries of all parties")
    if result["significance"]:
        _show_significance(result["significance"])
    _show_crossed(result)
    _show_notes(result)
    if result["ledger"]:
        recorded = result["ledger"]
        typer.echo(
            f"{recorded['address']}: {len(recorded['entries'])} entries of "
            f"{SHOWN['cs-f-ltr']}, tuned, marked as simulated"
        )
    typer.echo(f"{result['seconds']:.1f} s")


def _show_figures(result: Result, figure: str, title: str) -> None:
    systems = result["systems"]
    rows = [
        [party, *(_digits(systems[system]["parties"][party][figure]) for system in SHOWN)]
        for party in result["parties"]
    ]
    rows.append(["mean", *(_digits(systems[system][figure]) for system in SHOWN)])
    columns = ["party", *SHOWN.values()]
    if figure.startswith("own_"):
        columns.append("share")
        for row, party in zip(rows, result["parties"], strict=False):
            row.append(f"{systems['mixture']['parties'][party]['share']:.2f}")
        rows[-1].append("")
    table(title, columns, rows)


def _digits(value: float) -> str:
    return f"{value:.3f}"


def _show_significance(found: Result) -> None:
    rows = [
        [party, f"{one['mean_difference']:+.4f}", _p(one["p_corrected"]), _verdict(one)]
        for party, one in (*found["parties"].items(), ("mean", found["average"]))
    ]
    table(
        "mixture less Local, own test queries: paired t-tests over seeds",
        ["party", "nDCG@10", "p (Bonferroni)", "at .05"],
        rows,
    )
    typer.echo(
        "Seeds draw from one pool of queries, so that their test sets overlap: p-values are too "
        "small."
    )


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< .001"


def _verdict(one: Result) -> str:
    if not one["significant"]:
        return "no difference shown"
    return "better" if one["mean_difference"] > 0 else "worse"


def _show_crossed(result: Result) -> None:
    rows: list[list[Any]] = []
    for system, name in SHOWN.items():
        rows += _crossed_rows(name, result["crossed"][system]) or [[f"{name}: nothing", "", "0"]]
    table("what leaves a party", ["run", "numbers", "epsilon for one token"], rows)


def _crossed_rows(name: str, crossed: Result) -> list[list[Any]]:
    """Return a row for each kind of thing that leaves: of the party that gives most."""
    rows: list[list[Any]] = []
    for kind in dict.fromkeys(one["what"] for one in crossed["releases"]):
        values: Counter[str] = Counter()
        for one in crossed["releases"]:
            if one["what"] == kind:
                values[one["sender"]] += one["values"]
        cost = math.inf
        if kind == "sketches":  # fields together
            cost = max(crossed["epsilon_of_sketches"].values())
        rows.append([f"{name}: {kind}", max(values.values()), _bound(cost)])
    return rows


def _bound(epsilon: float) -> str:
    return number(float(epsilon)) if math.isfinite(epsilon) else NO_BOUND


def _show_notes(result: Result) -> None:
    if result["counts"] == "release":
        one = max(release["epsilon"] for release in result["crossed"]["local-plus"]["releases"])
        typer.echo(
            f"Sketches: epsilon at delta {result['delta']:g} of all fields together, as a ledger "
            f"adds them up; of one field at most {number(one)}. It holds against everybody who "
            "gets them, for ever and for any number of queries; a whole document has no bound. "
            "This is a simulation: noise comes from a seed and protects nobody, and nothing was "
            "sent."
        )
    else:
        typer.echo(
            "Counts are exact, which no party would give away: the best that any release could do. "
            "This is a simulation: nothing was sent."
        )
    typer.echo("What is handed round to learn together is exact: no guarantee covers it.")
