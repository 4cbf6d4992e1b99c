"""Backups: exact on both databases and across, of one moment, whole or not at all."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import os
import resource
import signal
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cloister.core.errors import CloisterError, Damaged, DataError, SettingsError, StoreError
from cloister.store import Database, Files, KeyedState
from cloister.store import backup as backup_module
from cloister.store.backup import BackupSource, TreeFile, write_backup
from cloister.store.backup_archive import ArchiveWriter
from cloister.store.restore import BackupTarget, _checked, _source, opened_backup, restore
from store import made_state
from store.conftest import Server
from store.made_state import FIRST, SECOND, TALLY, VISITS, filled, rows, store_files

KINDS = ("sqlite", "postgresql")
PASSPHRASE = b"correct horse battery staple"
_number = itertools.count()

MakeAddress = Callable[[str], str]


@pytest.fixture
def make_address(tmp_path: Path, request: pytest.FixtureRequest) -> MakeAddress:
    """Make empty databases, as many as wanted."""

    def make(kind: str) -> str:
        name = f"backup_{next(_number)}"
        if kind == "sqlite":
            return str(tmp_path / f"{name}.db")
        server: Server = request.getfixturevalue("server")
        server.execute(f"CREATE SCHEMA {name}")
        return server.address(name)

    return make


@pytest.fixture
def opened() -> Iterator[Callable[[str], Database]]:
    databases: list[Database] = []

    def open_one(address: str) -> Database:
        databases.append(Database.open(address))
        return databases[-1]

    yield open_one
    for database in databases:
        database.close()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small backup of a SQLite database, with a file of each kind."""
    path = tmp_path / "small.backup"
    with filled(str(tmp_path / "small.db")) as database:
        write_backup(_with_trees(database, tmp_path), path, version="1")
    return path


def _with_trees(database: Database, folder: Path) -> BackupSource:
    (folder / "pods.json").write_text("{}")

    def tree() -> Iterator[TreeFile]:
        with (folder / "pods.json").open("rb") as stream:
            yield TreeFile("sub/pods.json", stream)

    return BackupSource(database, store_files(folder / "files"), tree(), tree())


def _restored(path: Path, database: Database, folder: Path, **options: Any) -> None:
    target = BackupTarget(
        database, [FIRST], folder / "files-2", folder / "home-2", folder / "included-2"
    )
    with opened_backup(path, **options) as backup:
        restore(backup, target)


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_all_rows_come_back_exactly_on_either_database(
    make_address: MakeAddress,
    opened: Callable[[str], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    target: str,
    passphrase: bytes | None,
) -> None:
    monkeypatch.setattr(backup_module, "PART_BYTES", 1 << 16)  # several members
    path = tmp_path / "state.backup"
    with filled(make_address(source), n_more=700) as database:
        manifest = write_backup(
            _with_trees(database, tmp_path), path, version="1", passphrase=passphrase
        )
        before, tally = rows(database), rows(database, TALLY)
    assert len(before) == 704
    assert sum(one[0].startswith("tables/cloister_visit/") for one in manifest.members) > 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (b"xxxxxxxx" in path.read_bytes()) == (passphrase is None)
    restored = opened(make_address(target))
    _restored(path, restored, tmp_path, passphrase=passphrase)
    if target == "sqlite":  # which has one zero
        before = [tuple(value.replace("-0.0", "0.0") for value in row) for row in before]
    assert rows(restored) == before
    assert rows(restored, TALLY) == tally
    assert restored.migrate(FIRST) == ()
    files = Files(tmp_path / "files-2")
    assert files.verify() == (2, 3_000_007, ())
    assert (tmp_path / "home-2/sub/pods.json").read_text() == "{}"
    assert (tmp_path / "included-2/sub/pods.json").read_text() == "{}"
    with restored.transaction() as connection:  # new rows are numbered after the old ones
        connection.execute(sa.text("INSERT INTO cloister_tally (total) VALUES (9)"))
    assert rows(restored, TALLY)[-1] == ("6", "9")


def test_nul_characters_come_back_in_sqlite_and_are_refused_by_postgresql(
    make_address: MakeAddress, opened: Callable[[str], Database], tmp_path: Path
) -> None:
    path = tmp_path / "state.backup"
    with filled(make_address("sqlite")) as database:
        with database.transaction() as connection:
            connection.execute(VISITS.update().values(note="a\0b"))
        write_backup(BackupSource(database), path, version="1")
        before = rows(database)
    restored = opened(make_address("sqlite"))
    _restored(path, restored, tmp_path)
    assert rows(restored) == before
    other = opened(make_address("postgresql"))
    with pytest.raises(DataError, match="NUL"):
        _restored(path, other, tmp_path)
    assert _is_empty(other)


def test_what_sqlite_has_no_word_for_is_refused_and_not_changed(
    make_address: MakeAddress, opened: Callable[[str], Database], tmp_path: Path
) -> None:
    path = tmp_path / "state.backup"
    with filled(make_address("postgresql")) as database:
        with database.transaction() as connection:
            connection.execute(VISITS.update().values(length=math.nan))
        write_backup(BackupSource(database), path, version="1")
    with pytest.raises(DataError, match="NaN"):
        _restored(path, opened(make_address("sqlite")), tmp_path)
    restored = opened(make_address("postgresql"))
    _restored(path, restored, tmp_path)
    assert {row[1] for row in rows(restored)} == {"nan"}


def test_a_value_of_another_type_than_its_column_is_refused(
    make_address: MakeAddress, tmp_path: Path
) -> None:
    with filled(make_address("sqlite")) as database:
        with database.transaction() as connection:
            connection.execute(sa.text("UPDATE cloister_visit SET note = x'00ff' WHERE number = 7"))
        with pytest.raises(CloisterError):
            write_backup(BackupSource(database), tmp_path / "state.backup", version="1")
    assert not (tmp_path / "state.backup").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_older_tables_are_brought_up_to_date_and_newer_ones_are_refused(
    make_address: MakeAddress, opened: Callable[[str], Database], tmp_path: Path, kind: str
) -> None:
    old, new = tmp_path / "old.backup", tmp_path / "new.backup"
    with filled(make_address(kind)) as database:
        write_backup(BackupSource(database), old, version="1")
        database.migrate(SECOND)
        write_backup(BackupSource(database), new, version="2")
    restored = opened(make_address(kind))
    with opened_backup(old) as backup:
        restore(backup, BackupTarget(restored, [SECOND]))
    with restored.reading() as connection:
        moods = set(connection.scalars(sa.text("SELECT mood FROM cloister_visit")))
    assert moods == {"unknown"}
    assert restored.migrate(SECOND) == ()
    empty = opened(make_address(kind))
    for schemas, words in (([FIRST], "newer than this program"), ([], "no such component")):
        with opened_backup(new) as backup, pytest.raises(StoreError, match=words):
            restore(backup, BackupTarget(empty, schemas))
    assert _is_empty(empty)


@pytest.mark.parametrize("kind", KINDS)
def test_only_an_empty_database_is_restored_into(
    make_address: MakeAddress,
    opened: Callable[[str], Database],
    tmp_path: Path,
    small: Path,
    kind: str,
) -> None:
    database = opened(make_address(kind))
    database.migrate(KeyedState.schema)
    with pytest.raises(SettingsError, match="restore into an empty one"):
        _restored(small, database, tmp_path)
    assert not (tmp_path / "home-2").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_while_others_write_is_of_one_moment(
    make_address: MakeAddress, opened: Callable[[str], Database], tmp_path: Path, kind: str
) -> None:
    address = make_address(kind)
    database = filled(address, n_more=3000)
    stop = threading.Event()
    n_commits = 0

    def write() -> None:
        """Add a visit and one to the tally, together."""
        nonlocal n_commits
        writer = opened(address)

        def one(connection: sa.Connection) -> None:
            total = connection.scalar(sa.select(TALLY.c.total).where(TALLY.c.place == 1)) or 0
            changed = TALLY.update().where(TALLY.c.place == 1)
            connection.execute(VISITS.insert().values(number=1_000_000 + total, note="new"))
            connection.execute(changed.values(total=total + 1))

        while not stop.is_set():
            writer.run(one)
            n_commits += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = []
        for number in range(4):
            path, before = tmp_path / f"{number}.backup", n_commits
            write_backup(BackupSource(database), path, version="1")
            seen.append(n_commits - before)
            restored = opened(make_address("sqlite"))
            with opened_backup(path) as backup:
                restore(backup, BackupTarget(restored, [FIRST]))
            new = [row for row in rows(restored) if row[2] == "'new'"]
            assert rows(restored, TALLY)[0] == ("1", str(len(new)))
    finally:
        stop.set()
        thread.join(30)
        database.close()
    assert max(seen) > 0  # somebody did write meanwhile


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_every_changed_byte_and_every_cut_is_refused(
    tmp_path: Path, passphrase: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.store.sealed_stream.SCRYPT_N", 2)  # thousands of openings
    path = tmp_path / "state.backup"
    with filled(str(tmp_path / "state.db")) as database:
        write_backup(BackupSource(database), path, version="1", passphrase=passphrase)
    whole = path.read_bytes()

    def refused(content: bytes) -> None:
        with pytest.raises((Damaged, SettingsError)):
            _checked(_source(io.BytesIO(content), passphrase, path))

    for place in range(len(whole)):
        refused(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    for end in range(0, len(whole), 97):
        refused(whole[:end])
    for more in (b"\0", bytes(512), whole):
        refused(whole + more)
    with opened_backup(path, passphrase=passphrase):
        pass


def test_a_wrong_passphrase_is_refused_in_the_words_of_damage(tmp_path: Path) -> None:
    path = tmp_path / "state.backup"
    with filled(str(tmp_path / "state.db"), n_more=500) as database:
        write_backup(BackupSource(database), path, version="1", passphrase=PASSPHRASE)
    said = []
    for passphrase, content in (
        (PASSPHRASE + b"!", path.read_bytes()),
        (PASSPHRASE, path.read_bytes()[:-100]),
        (PASSPHRASE, path.read_bytes()[:100_000]),
    ):
        (tmp_path / "tried").write_bytes(content)
        with (
            pytest.raises(Damaged) as caught,
            opened_backup(tmp_path / "tried", passphrase=passphrase),
        ):
            pass
        said.append(str(caught.value))
    assert len(set(said)) == 1
    with pytest.raises(SettingsError, match="is encrypted"), opened_backup(path):
        pass


def test_an_open_backup_in_the_place_of_an_encrypted_one_is_refused(small: Path) -> None:
    with pytest.raises(SettingsError, match="not encrypted"), opened_backup(small, passphrase=b"x"):
        pass


def test_other_programs_can_unpack_it(small: Path, tmp_path: Path) -> None:
    with tarfile.open(small) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    told, _, name = (tmp_path / "unpacked/manifest.json.sha256").read_text().partition("  ")
    content = (tmp_path / "unpacked" / name.strip()).read_bytes()
    assert hashlib.sha256(content).hexdigest() == told
    for name, _, sha256 in json.loads(content)["members"]:
        assert hashlib.sha256((tmp_path / "unpacked" / name).read_bytes()).hexdigest() == sha256


def _spawned(*arguments: str) -> int:
    command = [sys.executable, made_state.__file__, *arguments]
    return subprocess.run(command, timeout=120, check=False).returncode


def test_a_backup_that_is_killed_leaves_no_file(tmp_path: Path) -> None:
    address = str(tmp_path / "state.db")
    filled(address).close()
    folder = tmp_path / "backups"
    folder.mkdir()
    path = folder / "state.backup"
    assert _spawned("die_backing_up", address, str(path)) == -signal.SIGKILL
    assert [one.name for one in folder.iterdir()] == [".incoming"]
    assert len(list((folder / ".incoming").iterdir())) == 1
    with Database.open(address) as database:
        write_backup(BackupSource(database), path, version="1")
    assert not list((folder / ".incoming").iterdir())


WHEN = ("in the home", "before the folders", "after the folders")


@pytest.mark.parametrize("when", WHEN)
def test_a_restore_that_is_killed_leaves_the_database_empty_and_can_be_repeated(
    make_address: MakeAddress,
    opened: Callable[[str], Database],
    tmp_path: Path,
    small: Path,
    when: str,
) -> None:
    address = make_address("sqlite")
    _dies_and_is_repeated(address, opened, tmp_path, small, when)


def test_a_restore_into_postgresql_that_is_killed_leaves_it_empty(
    make_address: MakeAddress, opened: Callable[[str], Database], tmp_path: Path, small: Path
) -> None:
    _dies_and_is_repeated(make_address("postgresql"), opened, tmp_path, small, WHEN[1])


def _dies_and_is_repeated(
    address: str, opened: Callable[[str], Database], tmp_path: Path, small: Path, when: str
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    arguments = (str(small), address, str(folder), when)
    assert _spawned("die_restoring", *arguments) == -signal.SIGKILL
    assert (folder / "home").exists() == (when == "after the folders")
    database = opened(address)
    assert _is_empty(database)
    target = BackupTarget(database, [FIRST], folder / "files", folder / "home")
    with opened_backup(small) as backup:
        restore(backup, target)
    assert len(rows(database)) == 4
    assert (folder / "home/sub/pods.json").read_text() == "{}"


def test_where_the_disk_is_full_nothing_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    with filled(str(tmp_path / "state.db"), n_more=3000) as database:
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, usual[1]))
        try:
            with pytest.raises(StoreError, match="cannot be written"):
                write_backup(BackupSource(database), folder / "state.backup", version="1")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
            signal.signal(signal.SIGXFSZ, before)
    assert [one.name for one in folder.iterdir()] == [".incoming"]
    assert not list((folder / ".incoming").iterdir())


def test_a_restore_that_finds_no_room_changes_nothing(
    tmp_path: Path, opened: Callable[[str], Database]
) -> None:
    path = tmp_path / "state.backup"
    with filled(str(tmp_path / "state.db"), n_more=3000) as database:
        write_backup(BackupSource(database), path, version="1")
    restored = opened(str(tmp_path / "new.db"))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, usual[1]))
    try:
        with pytest.raises(StoreError):
            _restored(path, restored, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, before)
    assert _is_empty(restored)
    _restored(path, restored, tmp_path)
    assert len(rows(restored)) == 3004


def test_a_file_that_is_there_is_never_replaced(tmp_path: Path, small: Path) -> None:
    before = small.read_bytes()
    with (
        filled(str(tmp_path / "state.db")) as database,
        pytest.raises(SettingsError, match="not replaced"),
    ):
        write_backup(BackupSource(database), small, version="1")
    assert small.read_bytes() == before


def test_a_damaged_file_of_the_store_is_no_part_of_a_backup(tmp_path: Path) -> None:
    files = store_files(tmp_path / "files")
    damaged = files.path(next(files.digests()))
    damaged.chmod(0o600)
    damaged.write_bytes(b"something else")
    with filled(str(tmp_path / "state.db")) as database, pytest.raises(Damaged):
        write_backup(BackupSource(database, files), tmp_path / "state.backup", version="1")
    assert not (tmp_path / "state.backup").exists()


def test_no_file_is_removed_while_it_is_backed_up(tmp_path: Path) -> None:
    files = store_files(tmp_path / "files")
    removed: list[int] = []
    remover = threading.Thread(
        target=lambda: removed.append(len(files.remove_unreferenced([], older_than_s=0)))
    )

    def meanwhile(connection: sa.Connection) -> None:
        remover.start()
        remover.join(0.3)
        assert remover.is_alive()

    path = tmp_path / "state.backup"
    with filled(str(tmp_path / "state.db")) as database:
        source = BackupSource(database, files, ledger_head=meanwhile)
        manifest = write_backup(source, path, version="1")
    remover.join(30)
    assert removed == [2]
    assert sum(name.startswith("files/") for name, _, _ in manifest.members) == 2


def _is_empty(database: Database) -> bool:
    with database.reading() as connection:
        return sa.inspect(connection).get_table_names() == []


# What somebody else might put into an archive.

Change = Callable[[dict[str, Any], dict[str, bytes]], None]


def _forged(small: Path, change: Change) -> bytes:
    """Return an archive with right checksums after somebody changed what is in it."""
    with tarfile.open(small) as archive:
        held = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    manifest = json.loads(held.pop("manifest.json"))
    del held["manifest.json.sha256"]
    change(manifest, held)
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    members = [writer.add(name, len(content), [content]) for name, content in held.items()]
    manifest["members"] = members
    content = json.dumps(manifest).encode()
    writer.add("manifest.json", len(content), [content])
    line = f"{hashlib.sha256(content).hexdigest()}  manifest.json\n".encode()
    writer.add("manifest.json.sha256", len(line), [line])
    writer.finish()
    return file.getvalue()


def _path(to: str) -> Change:
    def change(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
        manifest["home"][0]["path"] = to

    return change


def _unknown_table(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    manifest["tables"].append({"name": "cloister_x", "columns": [["a", "text"]], "n_rows": 1})
    held["tables/cloister_x/000000"] = b'["a"]\n'


def _foreign_table(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    manifest["tables"].append({"name": "pg_authid", "columns": [["a", "text"]], "n_rows": 0})


def _missing_table(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    manifest["tables"] = [one for one in manifest["tables"] if one["name"] != "cloister_tally"]
    del held["tables/cloister_tally/000000"]


def _other_column(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    visit = next(one for one in manifest["tables"] if one["name"] == "cloister_visit")
    visit["columns"][0][0] = 'number") VALUES (1); DROP TABLE x; --'


def _other_rows(content: bytes) -> Change:
    def change(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
        held["tables/cloister_tally/000000"] = content

    return change


def _wrong_digest(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    name = next(one for one in held if one.startswith("files/"))
    held[name] = b"another model"


def _unlisted_file(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    held["home/000009"] = b"stray"


def _migration_gap(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    manifest["migrations"][0]["number"] = 2


FORGERIES: dict[str, Change] = {
    "upwards": _path("../../evil"),
    "inside upwards": _path("a/../../evil"),
    "absolute": _path("/tmp/evil"),
    "nul": _path("a\0b"),
    "empty": _path(""),
    "unknown table": _unknown_table,
    "foreign table": _foreign_table,
    "missing table": _missing_table,
    "other column": _other_column,
    "wrong digest": _wrong_digest,
    "unlisted file": _unlisted_file,
    "migration gap": _migration_gap,
    "no row": _other_rows(b"{}\n"),
    "deep row": _other_rows(b"[" * 100_000 + b"\n"),
    "wrong type": _other_rows(b'["1",0]\n[5,6]\n'),
    "too large": _other_rows(b"[1,9223372036854775808]\n[5,6]\n"),
    "too many rows": _other_rows(b"[1,0]\n[5,6]\n[7,8]\n"),
    "too few rows": _other_rows(b"[1,0]\n"),
    "no end": _other_rows(b"[1,0]\n[5,6]"),
    "row twice": _other_rows(b"[5,0]\n[5,6]\n"),
    "broken reference": _other_rows(b"[1,0]\n[5,6]\n"),
}


def _refer_to_nothing(manifest: dict[str, Any], held: dict[str, bytes]) -> None:
    name = "tables/cloister_visit/000000"
    first, rest = held[name].split(b"\n", 1)
    held[name] = json.dumps([*json.loads(first)[:-1], 77]).encode() + b"\n" + rest


FORGERIES["broken reference"] = _refer_to_nothing


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_archive_changes_nothing(
    tmp_path: Path, small: Path, opened: Callable[[str], Database], name: str
) -> None:
    forged = tmp_path / "forged.backup"
    forged.write_bytes(_forged(small, FORGERIES[name]))
    folder = tmp_path / "inner" / "new"
    folder.mkdir(parents=True)
    database = opened(str(tmp_path / "new.db"))
    with pytest.raises(CloisterError):
        _restored(forged, database, folder)
    assert _is_empty(database)
    assert {one.name for one in folder.iterdir()} <= {"files-2"}
    assert not list(tmp_path.rglob("evil"))


def test_an_archive_that_nobody_forged_passes_the_same_test(
    tmp_path: Path, small: Path, opened: Callable[[str], Database]
) -> None:
    forged = tmp_path / "forged.backup"
    forged.write_bytes(_forged(small, lambda manifest, held: None))
    database = opened(str(tmp_path / "new.db"))
    _restored(forged, database, tmp_path)
    assert len(rows(database)) == 4


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, b"x", b"L"])
def test_links_folders_and_long_names_are_refused(tmp_path: Path, small: Path, kind: bytes) -> None:
    told = tarfile.TarInfo("home/000000")
    told.type, told.linkname, told.size = kind, "/etc/passwd", 10**15
    (tmp_path / "bad").write_bytes(told.tobuf(tarfile.GNU_FORMAT) + small.read_bytes())
    with pytest.raises(Damaged, match="no backup has"), opened_backup(tmp_path / "bad"):
        pass


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "tables/users/000000", "home/a"])
def test_names_that_no_backup_has_are_refused(tmp_path: Path, small: Path, name: str) -> None:
    head = tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "bad").write_bytes(head + small.read_bytes())
    with pytest.raises(Damaged, match="no backup has"), opened_backup(tmp_path / "bad"):
        pass


@pytest.mark.parametrize("size", [-1, -5, -512, -(10**15)])
def test_a_size_below_nothing_is_refused(tmp_path: Path, small: Path, size: int) -> None:
    told = tarfile.TarInfo("home/000000")
    told.size, told.mode = size, 0o600
    head = told.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")
    (tmp_path / "bad").write_bytes(head + small.read_bytes())
    with pytest.raises(Damaged, match="no backup has"), opened_backup(tmp_path / "bad"):
        pass


def test_a_size_that_is_not_there_is_refused_without_asking_for_memory(
    tmp_path: Path, small: Path
) -> None:
    file = io.BytesIO()
    with pytest.raises(StoreError):
        ArchiveWriter(file).add("home/000000", 10**15, [b"little"])
    (tmp_path / "bad").write_bytes(file.getvalue())
    with pytest.raises(Damaged, match="ends in the middle"), opened_backup(tmp_path / "bad"):
        pass


def test_memory_stays_small_whatever_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    monkeypatch.setattr(backup_module, "PART_BYTES", 1 << 16)
    with filled(str(tmp_path / "state.db")) as database:
        with database.transaction() as connection:
            for number in range(40):
                values = {"number": 1000 + number, "image": os.urandom(1 << 20)}
                connection.execute(VISITS.insert().values(**values))
        tracemalloc.start()
        write_backup(BackupSource(database), tmp_path / "state.backup", version="1")
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        with Database.open(str(tmp_path / "new.db")) as restored:
            _restored(tmp_path / "state.backup", restored, tmp_path)
        read = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (tmp_path / "state.backup").stat().st_size > 50_000_000
    assert written < 12_000_000
    assert read < 30_000_000
