"""``cloister attack sketch``: what sketches and their answers tell, with and without protection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from cloister.app.attack_sketch_scene import DELTA, VOCABULARY, SketchScene, Subject
from cloister.app.output import JsonFlag, command_result, progress, table

__all__ = ["sketch"]

Result = dict[str, Any]

TEXT_LIKE: Final = 0.3  # share of topical tokens with which documents are as bursty as text


def _show(result: Result) -> None:
    rows = [
        [f["attack"], f["protection"], _interval(f), _share(f["predicted"]), _share(f["allowed"])]
        for f in result["attacks"]
    ]
    if rows:
        columns = ["attack", "protection", "right guesses", "predicted", "allowed"]
        table("a token more or none: guessed right (chance 0.5)", columns, rows)
    if result["terms"]:
        rows = [[f["n_true_rows"], _interval(f), f["n_candidates"]] for f in result["terms"]]
        columns = ["true rows", "term found", "candidates left"]
        table(f"an owner with the key, among {VOCABULARY:,} terms", columns, rows)
    if result["errors"]:
        rows = [list(f.values()) for f in result["errors"]]
        table("errors of estimates, shared noise", list(result["errors"][0]), rows)
    if result["budget"]:
        rows = [list(f.values()) for f in result["budget"]]
        names = ["answers", "Laplace", "Gaussian", "owner's median", "noise once"]
        table("noise (standard deviation) at epsilon 8 in all, 30 rows", names, rows)
    typer.echo(
        f"intervals at 95 % (Clopper and Pearson); delta {DELTA:g}; {result['seconds']:.0f} s"
    )


def _interval(found: Result) -> str:
    return f"{found['accuracy']:.3f} ({found['low']:.3f}-{found['high']:.3f})"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


@command_result(_show)
def sketch(
    subject: Annotated[
        list[Subject] | None, typer.Option(help="Which one; all unless given. May be given often.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Guesses of each attack.", min=10, max=10**6)] = 2000,
    documents: Annotated[
        int, typer.Option(help="In the collection that is attacked.", min=50, max=5000)
    ] = 400,
    burst_share: Annotated[
        float,
        typer.Option(help="Of topical tokens in a document; 0.3 is as in text.", min=0, max=1),
    ] = TEXT_LIKE,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Find tokens, terms and documents in sketches: as printed in CS-F-LTR, and as protected."""
    start = time.perf_counter()
    attacks = _attacks()
    scene = SketchScene(trials, documents, burst_share, seed)
    found: Result = {"attacks": [], "terms": [], "errors": [], "budget": []}
    with progress("attack sketches") as advance:
        chosen = list(dict.fromkeys(subject or Subject))
        for done, name in enumerate(chosen):
            advance(done, len(chosen))
            for kind, rows in attacks[name](scene).items():
                found[kind] += rows
    settings = {
        "trials": trials,
        "documents": documents,
        "burst_share": burst_share,
        "seed": seed,
        "delta": DELTA,
    }
    return {**found, "settings": settings, "seconds": time.perf_counter() - start}


def _attacks() -> dict[Subject, Callable[[SketchScene], Result]]:
    """Return what attacks each subject; imported late, for it needs the packages of numbers."""
    from cloister.app import attack_sketch_answers as answers
    from cloister.app import attack_sketch_releases as releases

    return {
        Subject.SHARED_NOISE: answers.attack_shared_noise,
        Subject.AVERAGING: answers.attack_by_averaging,
        Subject.TERMS: answers.attack_terms,
        Subject.RELEASE: releases.attack_release,
        Subject.SELECTION: releases.attack_selection,
        Subject.DOCUMENT: releases.attack_documents,
        Subject.BUDGET: answers.noise_of_a_budget,
    }
