"""``cloister demo``: five made-up clinics at work, step by step; then the console."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.console_packages import require_console_packages
from cloister.app.output import JsonFlag, command_result, console, number, say

if TYPE_CHECKING:
    from cloister.app.demo.state import DemoState

__all__ = ["demo"]

PORT: Final = 8400


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
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Serve the console afterwards.",
            show_default="serve, unless --json",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(help="Of the console; another where it is taken.", min=0, max=65535),
    ] = PORT,
    seed: Annotated[int, typer.Option(help="Seed of the world.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Five made-up clinics search and learn together, step by step; then comes the console."""
    require_console_packages("cloister demo")
    from cloister.app.demo.state import DemoState, run_step
    from cloister.app.demo.story import STEPS

    if not as_json:
        say("[dim]The first run compiles kernels; later ones start at once.[/dim]", marked=True)
    story: list[dict[str, Any]] = []
    with _ended_by_signals(), DemoState(seed) as state:
        for position, step in enumerate(STEPS, 1):
            with console(err=True).status(step.title):
                done = run_step(step, state)
            if not as_json:
                _show_step(done, position, len(STEPS))
            story.append(done)
        seconds = sum(step["seconds"] for step in story)
        if serve or (serve is None and not as_json):
            _serve(state, port, story, as_json=as_json)
    steps = [{key: step[key] for key in ("name", "seconds", "figures")} for step in story]
    return {"seed": seed, "seconds": seconds, "steps": steps}


def _serve(state: DemoState, port: int, story: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Serve the console until Ctrl-C."""
    from cloister.app.console.console import serve_console
    from cloister.app.console.scene import Scene
    from cloister.app.demo.clinic_federation import free_ports

    seconds = sum(step["seconds"] for step in story)

    def listening(address: str) -> None:
        console(err=as_json).print(
            f"\nAll of it took {number(seconds)} s. The console: [bold]{address}[/bold]"
        )
        say("[dim]Everybody in it is made up, so it is open to all on this machine. "
            "Ctrl-C ends it.[/dim]", marked=True)  # fmt: skip

    life, home = state.life, state.console_home
    with Scene(life.federation.folder, home, life=life, seed=state.seed, story=story) as scene:
        chosen = free_ports(1, first=port) if port else 0
        serve_console(scene, port=chosen, listening=listening)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end the demo as Ctrl-C does, so that its services end and its folder goes."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
