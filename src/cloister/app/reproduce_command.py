"""``cloister reproduce``: a paper's experiments done again, its statements beside what came out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, progress, say, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloister.lab.reproduce.figure import Figure, Size
    from cloister.lab.reproduce.running import RunsOutcome

__all__ = ["reproduce"]

Result = dict[str, Any]


def _show(result: Result) -> None:
    from cloister.lab.reproduce.report import interval_text, number_text

    for key, title in result["figures"].items():
        chosen = [row for row in result["rows"] if row["figure"] == key]
        lines = [
            [
                f"{row['data']}: {row['compared']}",
                number_text(row["paper"]),
                number_text(row["ours"]),
                interval_text(row),
                row["verdict"],
            ]
            for row in chosen
        ]
        table(f"{key}: {title}", ["here", "paper", "ours", "95 %", "verdict"], lines)
    counts = ", ".join(f"{count} {name}" for name, count in result["verdicts"].items())
    typer.echo(f"{counts}; {result['runs']} runs, {result['seconds']:.0f} s ({result['size']})")
    for file in result["files"]:
        typer.echo(file)


def _known_paper(name: str) -> str:
    from cloister.lab.reproduce import NAMES

    if name not in NAMES:
        raise typer.BadParameter(f"no paper {name!r}; there are: {', '.join(NAMES)}")
    return name


def _known_figures(ctx: typer.Context, keys: list[str] | None) -> list[str] | None:
    from cloister.lab.reproduce import figures_of
    from cloister.lab.reproduce.collection import Collections, data_folder
    from cloister.lab.reproduce.figure import Size

    figures = figures_of(ctx.params["name"], Size("quick"), Collections(data_folder()))
    known = [figure.key for figure in figures]
    for key in keys or ():
        if key not in known:
            raise typer.BadParameter(f"no figure {key!r}; there are: {', '.join(known)}")
    return keys


@command_result(_show)
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="Whose: foltr, click-inference, poisoning, unlearning, membership, cs-f-ltr, "
            "espresso, neural.",
            callback=_known_paper,
            is_eager=True,
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds and repetitions: minutes, not hours.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="One figure, as in figure-3.6. May be given often.",
            metavar="FIGURE",
            callback=_known_figures,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Where collections lie. [default: $CLOISTER_DATA, or shared/data beside the "
            "checkout]",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where runs, curves and the report go; what is there is not done again. "
            "[default: in the cache]",
            metavar="FOLDER",
            file_okay=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; one a core unless given.", min=1)
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Run a paper's experiments, and put its statements beside what comes out."""
    from cloister.lab.reproduce import figures_of
    from cloister.lab.reproduce.collection import Collections, data_folder
    from cloister.lab.reproduce.figure import Size

    size = Size("quick" if quick else "full")
    collections = Collections(data_folder(data))
    figures = figures_of(name, size, collections, only or ())
    return _reproduced(figures, size, out or _default_folder(name, size), workers)


def _default_folder(name: str, size: Size) -> Path:
    import cloister
    from cloister.data.cache import cache_folder

    return cache_folder() / "reproduce" / f"{name}-{size.name}-{cloister.__version__}"


def _reproduced(figures: Sequence[Figure], size: Size, folder: Path, workers: int | None) -> Result:
    from cloister.lab.reproduce.report import write_curves, write_report
    from cloister.lab.reproduce.rows import counted, rows_of
    from cloister.lab.reproduce.running import evidence_of

    start = time.perf_counter()
    outcome = _run(figures, folder, workers)
    rows: list[Result] = []
    curves: list[Path] = []
    with progress("figures") as advance:
        for done, figure in enumerate(figures, 1):
            evidence = evidence_of(figure, folder)
            rows += rows_of(figure, evidence)
            curves += write_curves(folder, figure, evidence)
            advance(done, len(figures))
    files = write_report(folder, figures, rows, size=size, curves=curves)
    _refuse_failures(outcome, folder)
    return {
        "size": size.name,
        "verdicts": counted(rows),
        "figures": {figure.key: figure.title for figure in figures},
        "rows": rows,
        "runs": outcome.n_done + outcome.n_skipped,
        "done": outcome.n_done,
        "seconds": time.perf_counter() - start,
        "files": [str(file) for file in files],
        "curves": [str(file) for file in curves],
    }


def _run(figures: Sequence[Figure], folder: Path, workers: int | None) -> RunsOutcome:
    from cloister.lab.reproduce.running import run_missing

    try:
        with progress("interactions of all runs") as advance:
            return run_missing(figures, folder, workers=workers, advance=advance)
    except KeyboardInterrupt:
        say(f"what was done is kept in {folder}; the same command goes on with the rest")
        raise


def _refuse_failures(outcome: RunsOutcome, folder: Path) -> None:
    """Fail where a run failed; the report of the others is written."""
    from cloister.core.errors import DataError

    if outcome.failures:
        first = outcome.failures[0]
        typer.echo(first.trace, err=True)
        raise DataError(
            f"{len(outcome.failures)} runs failed, the first with: {first.error}",
            where=str(folder / "report.md"),
            remedy=first.remedy,
        )
