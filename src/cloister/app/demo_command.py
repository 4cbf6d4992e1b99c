"""``cloister demo``: the built-in world at work, step by step."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, console, number, say

__all__ = ["demo"]


def _show_step(step: dict[str, Any], position: int, total: int) -> None:
    out = console()
    out.print(
        f"\n[bold]{position}/{total} {step['title']}[/bold] [dim]{step['seconds']:.1f} s[/dim]"
    )
    for line in step["lines"]:
        out.print(f"  {line}", soft_wrap=True, markup=False)


def _show_end(result: dict[str, Any]) -> None:
    console().print(f"\nDone in {number(result['seconds'])} s. Next: cloister --help")


@command_result(_show_end)
def demo(
    serve: Annotated[
        bool,
        typer.Option(
            "--serve/--no-serve",
            help="Serve the console afterwards. There is no console yet: both end the same.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the world.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Make a clinic world and a features world, and do with them all that Cloister can today."""
    from cloister.app.demo import STEPS, DemoState, run_step

    if not as_json:
        say("[dim]The first run compiles kernels; later ones start at once.[/dim]")
    steps: list[dict[str, Any]] = []
    with DemoState(seed) as state:
        for position, step in enumerate(STEPS, 1):
            with console(err=True).status(step.title):
                done = run_step(step, state)
            if not as_json:
                _show_step(done, position, len(STEPS))
            steps.append({key: done[key] for key in ("name", "seconds", "figures")})
    return {"seed": seed, "seconds": sum(step["seconds"] for step in steps), "steps": steps}
