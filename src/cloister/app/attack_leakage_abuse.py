"""``cloister attack leakage-abuse``: words of labels, by a server that knows some documents."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, NamedTuple

import typer

from cloister.app.attack_cloud_scene import (
    WORLD,
    AttackedData,
    AttackSeed,
    AttackVectors,
    CloudScene,
    shown_interval,
)
from cloister.app.output import JsonFlag, command_result, progress, table

__all__ = ["leakage_abuse"]

Result = dict[str, Any]

SHARES: Final = (0.05, 0.1, 0.5)


def _show(result: Result) -> None:
    rows = [
        [
            one["protection"],
            one["share"],
            shown_interval(one["attack"]["exact"]),
            f"{one['attack']['up_to_closure']['value']:.3f}",
            f"{one['by_frequency']['exact']['value']:.3f}",
            f"{one['attack']['chance']['value']:.4f}",
        ]
        for one in result["attacks"]
    ]
    columns = ["closures", "share", "word named", "closure", "frequency", "chance"]
    table("labels of queried words, named by the server", columns, rows)
    settings = result["settings"]
    linked = ", which it can link to its numbers" if settings["linked"] else ""
    typer.echo(
        f"share: of the documents, which the server has in plain{linked}; closure: a word of the "
        "right closure named; frequency: the best guess by frequency alone; "
        f"{settings['labels']} labels at most, {settings['draws']} draws, intervals at 95 %; "
        f"{result['seconds']:.0f} s"
    )
    typer.echo(
        "With trees, codes of a queried word show its own documents (`cloister attack "
        "code-order`): then the rows without closures hold for it."
    )


def _shares(given: list[float] | None) -> list[float] | None:
    for share in given or ():
        if not 0 < share <= 1:
            raise typer.BadParameter(f"{share} is no share above 0 and up to 1")
    return given


@command_result(_show)
def leakage_abuse(
    data: AttackedData = WORLD,
    vectors: AttackVectors = None,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="Of the documents that the server knows. May be given often.",
            callback=_shares,
            show_default="0.05, 0.1, 0.5",
        ),
    ] = None,
    labels: Annotated[int, typer.Option(help="That it has seen.", min=2, max=10_000)] = 100,
    linked: Annotated[
        bool, typer.Option("--linked", help="It can link documents it knows to its numbers.")
    ] = False,
    min_size: Annotated[int, typer.Option(help="p of the closures.", min=2, max=1000)] = 5,
    draws: Annotated[int, typer.Option(help="Of queries and known documents.", min=1)] = 5,
    seed: AttackSeed = 0,
    as_json: JsonFlag = False,
) -> Result:
    """Name the words of labels by their documents: without closures, and with them.

    Closures are tried against a server that can compute them, and against one that cannot.
    """
    start = time.perf_counter()
    scene = CloudScene(data, vectors)
    known = {"n_labels": labels, "linked": linked}
    forms = _forms(scene, min_size)
    cases = [(form, one) for one in share or SHARES for form in forms]
    attacks = []
    with progress("attack labels") as advance:
        for done, (form, one) in enumerate(cases):
            advance(done, len(cases))
            attacks.append(_attacked(scene, form, {"share": one, **known}, draws, seed))
    return {
        "attacks": attacks,
        "scene": scene.as_dict(),
        "settings": {
            "data": data, "labels": labels, "linked": linked, "min_size": min_size,
            "draws": draws, "seed": seed,
        },
        "seconds": time.perf_counter() - start,
    }  # fmt: skip


class _Form(NamedTuple):
    """How labels lead to documents: the keys of closures, and whether the server has these."""

    name: str
    keys: dict[str, Any]
    closures_known: bool


def _forms(scene: CloudScene, min_size: int) -> list[_Form]:
    from cloister.cloud.closure_pairs import closure_pairs
    from cloister.rank.kernel_pooling import GramCounts

    closures = scene.closures(min_size)
    occurrences = GramCounts.of_terms(scene.collection.texts.counts)
    closed = {"pairs": closure_pairs(closures, occurrences), "closures": closures}
    return [
        _Form("none", {}, True),
        _Form(f"of {min_size}, known to it", closed, True),
        _Form(f"of {min_size}", closed, False),
    ]


def _attacked(scene: CloudScene, form: _Form, known: Result, draws: int, seed: int) -> Result:
    """Attack the labels of one form."""
    from cloister.adversary.leakage_abuse import AbuseSettings, abuse_leakage

    found = abuse_leakage(
        scene.collection.texts.counts,
        [query.terms for query in scene.collection.queries],
        AbuseSettings(**known, closures_known=form.closures_known),
        **form.keys,
        n_draws=draws,
        seed=seed,
    ).as_dict()
    del found["settings"]
    return {"protection": form.name, "share": known["share"], **found}
