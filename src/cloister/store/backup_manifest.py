"""What a backup says of itself: its members and their checksums, of which state, made when."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.store.backup_archive import Member, damaged
from cloister.store.backup_rows import Column, Kind

__all__ = ["AppliedMigration", "BackupHead", "BackupManifest", "BackupTable", "TreeEntry"]

FORMAT: Final = "cloister backup 1"
LONGEST_PATH: Final = 4096
_TABLE: Final = re.compile(r"cloister_[a-z0-9_]{1,54}")


class AppliedMigration(Settings):
    """A step that the tables had gone through."""

    component: str
    number: int = Field(ge=1)
    name: str


class BackupTable(Settings):
    """A table: its columns, and how many rows are in the backup."""

    name: str
    columns: tuple[tuple[str, Kind], ...]
    n_rows: int = Field(ge=0)

    @property
    def typed(self) -> tuple[Column, ...]:
        """The columns."""
        return tuple(Column(*one) for one in self.columns)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _TABLE.fullmatch(name):
            raise ValueError("not a table of Cloister's")
        return name


class TreeEntry(Settings):
    """A file of the home folder, or an included one: its member, and where it lay."""

    member: str
    path: str

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        parts = path.split("/")
        inside = all(part not in ("", ".", "..") for part in parts) and "\0" not in path
        if not inside or len(path) > LONGEST_PATH or PurePosixPath(path).is_absolute():
            raise ValueError("not a path below a folder")
        return path


class BackupHead(Settings):
    """The last entry of the ledger in a backup; number 0 where the ledger is empty."""

    number: int = Field(ge=0)
    hash: str


class BackupManifest(Settings):
    """The list of what is in a backup.

    Parameters
    ----------
    version
        Of Cloister.
    made_at
        Coordinated universal time, ISO 8601: when the state was read.
    database
        The kind that the rows were read from.
    migrations
        By which the tables came to be.
    tables
        In the order in which their rows can be written.
    ledger
        Its head; None where there is no ledger.
    home, included
        Files beside the database.
    members
        Everything before the manifest: name, size, SHA-256.
    """

    format: Literal["cloister backup 1"] = "cloister backup 1"
    version: str
    made_at: str
    database: Literal["sqlite", "postgresql"]
    migrations: tuple[AppliedMigration, ...]
    tables: tuple[BackupTable, ...]
    ledger: BackupHead | None = None
    home: tuple[TreeEntry, ...] = ()
    included: tuple[TreeEntry, ...] = ()
    members: tuple[tuple[str, int, str], ...]

    @model_validator(mode="after")
    def _check(self) -> BackupManifest:
        for listed in ([one.name for one in self.tables], [one[0] for one in self.members]):
            if len(set(listed)) != len(listed):
                raise ValueError("something is listed twice")
        for kind, entries in (("home", self.home), ("included", self.included)):
            held = {name for name, _, _ in self.members if name.startswith(f"{kind}/")}
            if held != {one.member for one in entries} or len(held) != len(entries):
                raise ValueError("a file has no member, or a member no file")
            _check_paths([one.path for one in entries])
        known = {one.name for one in self.tables}
        named = (name.split("/")[1] for name, _, _ in self.members if name.startswith("tables/"))
        if not known.issuperset(named):
            raise ValueError("a member belongs to no table")
        return self

    def holds(self, members: list[Member]) -> bool:
        """Say whether these are the members, with these sizes and checksums."""
        return [tuple(one) for one in members] == list(self.members)

    @classmethod
    def from_bytes(cls, content: bytes) -> BackupManifest:
        """Read a manifest; raise `Damaged` at anything that cannot be one."""
        try:
            return cls.model_validate_json(content)
        except (ValidationError, SettingsError, ValueError, RecursionError):
            raise damaged("the manifest cannot be read", "manifest.json") from None


def _check_paths(paths: list[str]) -> None:
    """Raise where two files would be one, or one of them a folder."""
    known = set(paths)
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    if len(known) != len(paths) or known & folders:
        raise ValueError("two files have the same place")
