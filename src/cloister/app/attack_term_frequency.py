"""``cloister attack term-frequency``: how often a word occurs, from its soft kernel values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cloister.app.attack_cloud_scene import (
    WORLD,
    AttackedData,
    AttackSeed,
    AttackVectors,
    CloudScene,
)
from cloister.app.output import JsonFlag, command_result, progress, table

__all__ = ["term_frequency"]

Result = dict[str, Any]

MEASURED: Final = (
    "exact",
    "exact_occurring",
    "exact_told",
    "absolute_error",
    "auc",
    "above_bayes",
)


def _show(result: Result) -> None:
    attacks = result["attacks"]
    shown = ("exact", "above_bayes", "exact_occurring", "auc")
    rows = [
        [
            one["design"],
            one["view"],
            one["reader"],
            *(f"{one[name]['value']:.3f}" for name in shown),
        ]
        for one in attacks
    ]
    columns = ["stored", "seen", "read by", "right", "above", "tf > 0", "AUC"]
    table("how often a word occurs in a document: guessed right", columns, rows)
    limits = {one["design"]: one["bounds"] for one in attacks}
    rows = [
        [design, *(f"{of[name]:.3f}" for name in ("prior", "bayes", "ceiling", "ceiling_auc"))]
        for design, of in limits.items()
    ]
    columns = ["stored", "commonest", "Bayes", "ceiling", "ceiling of AUC"]
    table("what can be guessed from the one vector", columns, rows)
    typer.echo(
        "commonest: always that frequency. Bayes: the best guess for each vector, learnt on known "
        "documents. ceiling: no rule on the one vector does better; other views see more than it. "
        "above: right less Bayes, or less the commonest if better. tf > 0: right where the word "
        "occurs. AUC: of telling that it does."
    )
    typer.echo(
        "Unmasked is the slides' design, masked with r = 10 is ours. "
        f"{result['scene']['n_attacked_rows']:,} rows of documents that the server does not know; "
        f"intervals at 95 % over documents: right {_reach(result, 'exact')}, above "
        f"{_reach(result, 'above_bayes')}, AUC {_reach(result, 'auc')}; {result['seconds']:.0f} s"
    )


def _reach(result: Result, name: str) -> str:
    """Return how far the widest interval of a figure reaches to a side."""
    found = (one[name] for one in result["attacks"])
    reach = [(one["high"] - one["low"]) / 2 for one in found if one["low"] is not None]
    return f"\N{PLUS-MINUS SIGN}{max(reach):.3f} at most" if reach else "unknown"


@command_result(_show)
def term_frequency(
    data: AttackedData = WORLD,
    vectors: AttackVectors = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Of `cloister cloud train`: attack the kernels of its C-KNRM*, not K-NRM's.",
        ),
    ] = None,
    documents: Annotated[
        int, typer.Option(help="Drawn from the collection.", min=10, max=100_000)
    ] = 200,
    known: Annotated[
        float, typer.Option(help="Share of these that the server knows.", min=0.05, max=0.95)
    ] = 0.5,
    min_size: Annotated[int, typer.Option(help="p of the closures.", min=1, max=1000)] = 5,
    all_views: Annotated[
        bool, typer.Option("--all-views", help="Also what lengths, documents and labels add.")
    ] = False,
    seed: AttackSeed = 0,
    as_json: JsonFlag = False,
) -> Result:
    """Read term frequencies from soft kernel values: as the slides store them, and as we do.

    Needs the extra `trees`.
    """
    from cloister.adversary.frequency_views import VIEWS
    from cloister.adversary.term_frequency_recovery import (
        RecoverySettings,
        recover_term_frequencies,
    )

    start = time.perf_counter()
    scene = _scene(data, vectors, model, documents, known, min_size, seed)
    settings = RecoverySettings(views=VIEWS if all_views else VIEWS[:1], seed=seed)
    with progress("attack kernel values") as advance:
        found = recover_term_frequencies(scene, settings, progress=advance)
    return {
        "attacks": [_row(one) for one in found],
        "scene": dict(scene.summary()),
        "settings": {
            "data": data, "documents": documents, "known": known, "min_size": min_size,
            "model": None if model is None else str(model), "seed": seed,
        },
        "seconds": time.perf_counter() - start,
    }  # fmt: skip


def _scene(
    data: str,
    vectors: Path | None,
    model: Path | None,
    documents: int,
    known: float,
    min_size: int,
    seed: int,
) -> Any:
    """Return what the server holds of the collection, and the truth beside it."""
    from cloister.adversary.kernel_scene import (
        KernelSceneSettings,
        c_knrm_star_scene,
        knrm_scene,
    )
    from cloister.cloud.adaptive_clustering import AdaptiveThresholds
    from cloister.cloud.private_ranker_file import load_private_ranker

    settings = KernelSceneSettings(
        n_documents=documents,
        known_share=known,
        closures=AdaptiveThresholds(min_size=min_size),
        seed=seed,
    )
    ranker = None if model is None else load_private_ranker(model).neural
    scene = CloudScene(data, vectors)
    texts = scene.collection.texts
    if ranker is not None:
        return c_knrm_star_scene(texts, ranker, settings)
    return knrm_scene(texts, scene.embedding, settings)


def _row(found: Any) -> Result:
    measured = {name: getattr(found, name)._asdict() for name in MEASURED}
    return {
        "design": found.design.name,
        "masked": found.design.masked,
        "base": found.design.base,
        "view": found.view,
        "reader": found.reader,
        **measured,
        "balanced_accuracy": found.balanced_accuracy,
        "bounds": found.bounds._asdict(),
    }
