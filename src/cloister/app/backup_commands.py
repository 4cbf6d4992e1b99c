"""``cloister backup`` and ``cloister restore``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.backup_output import backup_result, show_backup, show_restored
from cloister.app.output import JsonFlag, checked_usage, command_result, console
from cloister.core.errors import NotFound, SettingsError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from cloister.app.restored_ledger import Lost
    from cloister.privacy.ledger.entry import Entry
    from cloister.store.backup_manifest import BackupManifest
    from cloister.store.files import Files

__all__ = ["backup", "restore"]

SHORTEST_PASSPHRASE: Final = 12  # characters; a backup can be guessed at for as long as it exists

StateOption = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="ADDRESS",
        help="An empty database: a SQLite file (made where missing), or "
        "postgresql://USER@HOST/DATABASE.",
    ),
]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="A file with the passphrase that the backup is encrypted with.",
    ),
]


def _check_backup(given: Mapping[str, Any]) -> None:
    if given["check"] is not None:
        if given["state"] is not None or given["out"] is not None:
            raise typer.BadParameter("--check FILE stands alone")
    elif given["state"] is None or given["out"] is None:
        raise typer.BadParameter("say what to back up and where: STATE --out FILE")


def _check_restore(given: Mapping[str, Any]) -> None:
    epsilon = given["lost_epsilon"]
    if epsilon is not None and not 0 < epsilon <= 700:
        raise typer.BadParameter("--lost-epsilon lies above 0, and at most at 700")
    if epsilon is not None and given["nothing_released"]:
        raise typer.BadParameter("either --lost-epsilon or --nothing-released-since")


@checked_usage(_check_backup)
@command_result(show_backup)
def backup(
    state: Annotated[
        str | None,
        typer.Argument(
            metavar="[STATE]",
            help="The database: a SQLite file, or postgresql://USER@HOST/DATABASE.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; one that is there stays."),
    ] = None,
    files: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Content-addressed files of the state.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A home folder: pods and indexes.")
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="A file or folder more; may be given again."),
    ] = None,
    passphrase_file: PassphraseOption = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Check every byte of a backup, and say what it holds."),
    ] = None,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Write all state of one moment to one file, while services go on; or check such a file.

    The file holds everything: keep it where the database might be kept, or encrypt it. Write the
    ledger's head down elsewhere: it tells which releases a restored ledger does not know.
    """
    from cloister.store.restore import opened_backup

    passphrase = _passphrase(passphrase_file)
    if check is not None:
        working = console(err=True).status("checking")
        with working, opened_backup(check, passphrase=passphrase) as opened:
            manifest = opened.manifest
        return backup_result(check, manifest, encrypted=passphrase is not None) | {"checked": True}
    if state is None or out is None:
        raise SettingsError("say what to back up and where", where="backup")
    with console(err=True).status("backing up"):
        manifest = _written(state, out, files, home, include or [], passphrase)
    return backup_result(out, manifest, encrypted=passphrase is not None)


def _written(
    state: str,
    out: Path,
    files: Path | None,
    home: Path | None,
    include: list[Path],
    passphrase: bytes | None,
) -> BackupManifest:
    from cloister import __version__
    from cloister.app.backup_trees import home_files, included_files
    from cloister.app.restored_ledger import stored_head
    from cloister.store.backup import BackupSource, write_backup
    from cloister.store.database import Database

    _require_state(state)
    with Database.open(state) as database:
        source = BackupSource(
            database,
            None if files is None else _files(files),
            () if home is None else home_files(home),
            included_files(include),
            stored_head,
        )
        return write_backup(source, out, version=__version__, passphrase=passphrase)


def _require_state(state: str) -> None:
    """Raise where a SQLite file is missing: opening it would make one."""
    from cloister.store.addresses import parse_address

    address = parse_address(state)
    if address.url.drivername == "sqlite+pysqlite" and not Path(address.shown).exists():
        raise NotFound("there is no database here", where=address.shown)


def _files(folder: Path) -> Files:
    from cloister.store.files import Files

    if not (folder / "lock").exists():
        raise NotFound("no content-addressed files here", where=str(folder))
    return Files(folder)


def _passphrase(file: Path | None) -> bytes | None:
    """Read a passphrase: the file without the end of its line."""
    from cloister.core.file_errors import explained

    if file is None:
        return None
    with explained(file):
        content = file.read_bytes()
    passphrase = content.removesuffix(b"\n").removesuffix(b"\r")
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise SettingsError(
            f"a passphrase has at least {SHORTEST_PASSPHRASE} bytes",
            where=str(file),
            remedy="draw one: openssl rand -base64 32",
        )
    return passphrase


@checked_usage(_check_restore)
@command_result(show_restored)
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")],
    state: StateOption,
    files: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where content-addressed files go.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the home folder goes.")
    ] = None,
    included: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where included files go, under their old paths."),
    ] = None,
    passphrase_file: PassphraseOption = None,
    lost_epsilon: Annotated[
        float | None,
        typer.Option(
            "--lost-epsilon",
            metavar="E",
            help="What each party's releases after the backup cost at most; it is recorded.",
        ),
    ] = None,
    nothing_released: Annotated[
        bool,
        typer.Option(
            "--nothing-released-since",
            help="Vouch that nothing was released after the backup; it is recorded.",
        ),
    ] = False,
    ledger_export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An export of the ledger that was lost (JSON): its later entries are added.",
        ),
    ] = None,
    party: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A party that released for the first time after the backup; may be given again.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Bring a backup back, into an empty database of either kind: all of it, or nothing.

    A restored ledger does not know of releases after the backup. Unless you say what they cost, or
    that there were none, each party's limits become 0: nothing is released until you set them anew.
    Pages that users were shown are left out, unless nothing was released: they may have been
    learnt from since, or deleted.
    """
    from cloister.app.restored_entries import exported_entries
    from cloister.app.restored_ledger import Lost, LostKind

    kind = LostKind.NONE if nothing_released else LostKind.HOLD
    if lost_epsilon is not None:
        kind = LostKind.CHARGE
    lost = Lost(kind, lost_epsilon or 0.0, tuple(party or ()))
    places = {"files": files, "home": home, "included": included}
    exported = [] if ledger_export is None else exported_entries(ledger_export)
    with console(err=True).status("restoring"):
        return _restored(file, state, places, _passphrase(passphrase_file), lost, exported)


def _restored(
    file: Path,
    state: str,
    places: Mapping[str, Path | None],
    passphrase: bytes | None,
    lost: Lost,
    exported: list[tuple[Entry, str | None]],
) -> dict[str, Any]:
    from cloister.app.known_schemas import known_schemas
    from cloister.app.restored_entries import add_exported
    from cloister.app.restored_ledger import LostKind, check_restored, note_restored
    from cloister.app.restored_pages import drop_pages
    from cloister.store.addresses import parse_address
    from cloister.store.database import Database
    from cloister.store.restore import BackupTarget, opened_backup
    from cloister.store.restore import restore as restore_backup

    with opened_backup(file, passphrase=passphrase) as opened, Database.open(state) as database:
        manifest = opened.manifest
        result = backup_result(file, manifest, encrypted=passphrase is not None)

        def also(connection: sa.Connection) -> None:
            result["added_entries"] = add_exported(connection, exported) if exported else 0
            note_restored(connection, manifest=manifest, lost=lost)
            vouched = lost.kind is LostKind.NONE
            result["dropped_pages"] = 0 if vouched else drop_pages(connection)

        restore_backup(opened, BackupTarget(database, known_schemas(), **places), also=also)
        result |= {"state": parse_address(state).shown, "lost": lost.kind.value}
        result |= {"left_out": [kind for kind in ("home", "included") if places[kind] is None]}
        if manifest.ledger is None:
            return result
        head, beyond = check_restored(database, manifest.ledger)
        return result | {"restored_head": head._asdict(), "beyond_limit": beyond or None}
