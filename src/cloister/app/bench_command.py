"""``cloister bench``: every figure that the documents quote, measured on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, number, progress, table

__all__ = ["bench"]


def _show(result: dict[str, Any]) -> None:
    for name, figures in result["figures"].items():
        for one in figures.pop("list", ()):  # of wrong inputs
            typer.echo(f"{one['typed']}\n  {one['exit_code']}  {one['answer']}")
            if one["faults"]:
                typer.echo(f"  WRONG: {'; '.join(one['faults'])}")
        table(name, ["", ""], [[figure, number(value)] for figure, value in figures.items()])


@command_result(_show)
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="startup, letor, measures, clicks, random, worlds, clinic, pdgd, mechanisms, "
            "ledger, secure-aggregation, sealed, rules, poisoning, malicious-site, sketch, search, "
            "search-rights, pods, hostile-pods, overlay, neural, services, wrong-inputs, or all."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run at the smallest size, to see that it runs.")
    ] = False,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Measure: the product, and where there is one its peer in the same run."""
    from cloister.lab.bench import machine, run_benchmark, select

    if name == "wrong-inputs":  # of this command line, not of the library
        from cloister.app.wrong_inputs import run

        with progress(f"bench {name}") as advance:
            return {"figures": {name: run(advance)}, "machine": machine()}
    figures = {}
    for chosen in select(name):
        with progress(f"bench {chosen}") as advance:
            figures[chosen] = run_benchmark(chosen, advance, quick=quick)
    return {"figures": figures, "machine": machine()}
