"""What ``cloister backup`` and ``cloister restore`` say."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from cloister.app.output import number, table

if TYPE_CHECKING:
    from cloister.store.backup_manifest import BackupManifest

__all__ = ["backup_result", "show_backup", "show_restored"]

Result = dict[str, Any]

_LOST: Final = {
    "hold": "Releases that it does not know may have been made since. Nothing may pass until you "
    "know of them: every limit of every party is 0 now, whatever a node's file names.\nSet each "
    "anew, less what was spent since: "
    "cloister ledger limit PARTY --level LEVEL --epsilon E --ledger {ledger}",
    "charge": "Each party was charged what you said its releases after the backup cost.",
    "none": "Recorded: somebody vouches that nothing was released after the backup.",
}


def backup_result(file: Path, manifest: BackupManifest, *, encrypted: bool) -> Result:
    """Return what a backup holds."""
    ledger = manifest.ledger
    return {
        "file": str(file),
        "made_at": manifest.made_at,
        "version": manifest.version,
        "database": manifest.database,
        "encrypted": encrypted,
        "ledger": None if ledger is None else ledger.model_dump(),
        "rows": {one.name: one.n_rows for one in manifest.tables},
        "files": sum(name.startswith("files/") for name, _, _ in manifest.members),
        "home_files": len(manifest.home),
        "included_files": len(manifest.included),
        "size_bytes": sum(size for _, size, _ in manifest.members),
        "migrations": {one.component: one.number for one in manifest.migrations},
    }


def show_backup(result: Result) -> None:
    """Tell people what a backup holds."""
    did = "Every byte is as it was written" if result.get("checked") else "Written"
    lock = "encrypted" if result["encrypted"] else "not encrypted: it holds everything"
    typer.echo(f"{did}: {result['file']} ({lock}).")
    _show_content(result)


def show_restored(result: Result) -> None:
    """Tell people what came back, and what they must do."""
    typer.echo(f"Restored into {result['state']}.")
    _show_content(result)
    for kind in result["left_out"]:
        if result[f"{kind}_files"]:
            typer.echo(f"Left out: {result[f'{kind}_files']} files (--{kind} FOLDER restores them)")
    if result["dropped_pages"]:
        n = number(result["dropped_pages"])
        typer.echo(f"Left out: {n} pages of the click log, which may have been learnt from since.")
    if result["added_entries"]:
        typer.echo(f"Added from the export: {number(result['added_entries'])} ledger entries.")
    if "restored_head" in result:
        typer.echo(_LOST[result["lost"]].format(ledger=shlex.quote(result["state"])))
        typer.echo(f"The ledger is whole; its head is {_head(result['restored_head'])}.")
    if result["home_files"] and "home" not in result["left_out"]:
        typer.echo(
            "Rights may have changed since: run `cloister pods sync` before anybody searches."
        )


def _show_content(result: Result) -> None:
    typer.echo(f"State of {result['made_at']}, from {result['database']}, by {result['version']}.")
    table("", ["table", "rows"], [[name, n] for name, n in result["rows"].items()])
    for kind, name in (
        ("files", "by content"),
        ("home_files", "home"),
        ("included_files", "included"),
    ):
        if result[kind]:
            typer.echo(f"{name}: {number(result[kind])} files")
    if result["ledger"] is not None:
        typer.echo(f"Head of its ledger: {_head(result['ledger'])}")


def _head(head: Result) -> str:
    return f"{head['number']} {head['hash']}"
