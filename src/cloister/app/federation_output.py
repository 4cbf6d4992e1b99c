"""Federations for people."""

from __future__ import annotations

from typing import Any

import typer

from cloister.app.output import table
from cloister.core.errors import kind_in_words

__all__ = [
    "found_text",
    "show_done",
    "show_ended",
    "show_found",
    "show_made",
    "show_published",
    "show_round",
    "show_serving",
    "show_status",
]

Result = dict[str, Any]


def show_made(result: Result) -> None:
    """Show what was made, and what to do next."""
    table("", ["service", "address"], [[*pair] for pair in result["services"].items()])
    for node, users in result["users"].items():
        typer.echo(f"{node}: {', '.join(users)}")
    typer.echo(f"each node's limit for a user: epsilon {result['limits']['user']:g}")
    if result["consent"]:
        typer.echo(f"who agreed to releases without a bound: {result['consent']}")
    typer.echo(f"next: {result['next']}")


def show_status(result: Result) -> None:
    """Show a line or two for each service."""
    for name, told in result["services"].items():
        typer.echo(f"{name}: {_status_line(told)}")
        if "unknown_to_coordinator" in told:
            typer.echo(f"{name} is in no round: start the coordinator again to read the new roster")


def _status_line(told: Result) -> str:
    if "error" in told:
        return f"does not answer ({told['error']})"
    if "n_failed" in told:
        return _coordinator_line(told)
    if "n_rounds" in told:  # of a coordinator's file
        return "; ".join([f"{told['n_rounds']} rounds", *_suspicion_parts(told["suspicion"])])
    if "tables" in told:
        return f"{told['form']} statistics of {len(told['tables'])} nodes"
    line = (
        f"{told['n_documents']} documents in {told['n_pods']} pods; {told['n_pages']} pages kept, "
        f"{told['n_pages_ready']} ready to learn from; ranker {told['serving'][:12]}"
    )
    if told["publication"] == "waiting":
        return f"{line}; statistics wait for the broker"
    if told["publication"] == "failed":
        return f"{line}; publication failed ({told['publication_reason']})"
    return line


def _coordinator_line(told: Result) -> str:
    parts = [f"{told['n_rounds']} rounds", f"{told['n_failed']} failed"]
    parts += ["paused"] if told["paused"] else []
    parts += [f"silent: {', '.join(told['silent_nodes'])}"] if told["silent_nodes"] else []
    parts += _suspicion_parts(told["suspicion"])
    parts.append(f"ranker {told['serving']['serving'][:12]}")
    if trial := told["serving"]["trial"]:
        parts.append(f"{trial['candidate'][:12]} on trial ({trial['state']})")
    parts += [f"trial {one['outcome']}" for one in told["trials"][-3:]]
    return "; ".join(parts)


def _suspicion_parts(told: Result) -> list[str]:
    if not (told["n_spoilt"] or told["named"] or told["late"] or told["suspects"]):
        return []
    parts = [f"{told['n_spoilt']} sums spoilt"]
    late = ", ".join(f"{node} {n}" for node, n in sorted(told["late"].items()))
    parts += [f"dropped out late, times: {late}"] if late else []
    parts += [f"training stopped: {told['stopped']}"] if told["stopped"] else []
    parts += [f"named: {', '.join(told['named'])}"] if told["named"] else []
    parts += [f"suspected: {', '.join(sorted(told['suspects']))}"] if told["suspects"] else []
    return parts + ([f"next round without {told['left_out']}"] if told["left_out"] else [])


def show_round(result: Result) -> None:
    """Show what became of a round."""
    n = result["n_interactions"]
    rest = "" if n is None else f", from {n} pages"
    typer.echo(f"round {result['round_number']}: {', '.join(result['nodes'])}{rest}")
    for name in result["silent"]:
        typer.echo(f"{name} was silent")
    for name, fault in result["faults"].items():
        typer.echo(f"{name}: {kind_in_words(fault)}")


def show_serving(result: Result) -> None:
    """Show which ranker serves and which is on trial."""
    typer.echo(f"serving {result['serving'][:12]}")
    if trial := result["trial"]:
        typer.echo(f"on trial {trial['candidate'][:12]}, {trial['share']:.0%} of searches")


def show_done(result: Result) -> None:
    """Show what a service answered."""
    typer.echo(_status_line(result) if "n_rounds" in result else "done")


def show_published(result: Result) -> None:
    """Show what became of a publication."""
    said = {
        "arrived": "the broker has the new statistics",
        "waiting": "the broker does not answer; the node sends the statistics until it does",
    }
    typer.echo(said[result["state"]])


def show_ended(result: Result) -> None:
    """Show which services were ended."""
    typer.echo(f"ended: {', '.join(result['ended']) or 'none ran'}")


def found_text(n_shown: int, n_found: int, may_be_more: bool) -> str:
    """Say how many results a page shows, and of how many.

    Examples
    --------
    >>> found_text(10, 30, False), found_text(10, 50, True)
    ('the first 10 of 30 results', 'the first 10 of 50 results or more')
    >>> found_text(3, 3, False), found_text(1, 1, True), found_text(0, 0, True)
    ('3 results', '1 result; there may be more', 'no results')
    """
    if not n_found:
        return "no results"
    if n_shown < n_found:
        return f"the first {n_shown} of {n_found} results{' or more' if may_be_more else ''}"
    return f"{n_found} result{'' if n_found == 1 else 's'}" + (
        "; there may be more" if may_be_more else ""
    )


def show_found(result: Result) -> None:
    """Show a result page."""
    rows = [
        [f"{one['rank']}. {one['title']}", one["doc_id"], one["server"], f"{one['score']:.3f}"]
        for one in result["results"]
    ]
    columns = ["title", "document", "node", "score"]
    table(f"{result['query']!r} as {result['user']}", columns, rows)
    typer.echo(found_text(len(rows), result["n_found"], result["may_be_more"]))
    for one in result["results"]:
        for line in one["explanation"]:
            typer.echo(line)
    for rank in result["not_clicked"]:
        typer.echo(f"there is no result {rank} to click")
    if result["missing_nodes"]:
        typer.echo(f"no answer from: {', '.join(result['missing_nodes'])}")
    if result["missing_pods"]:
        typer.echo(f"no answer from the pods: {', '.join(result['missing_pods'])}")
