"""Migrations: applied once, in order, whole; never backwards."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.operations import Operations

from cloister.core.errors import StoreError
from cloister.store.database import Database
from cloister.store.migrations import Migration, Schema


def create_cell(operations: Operations) -> None:
    operations.create_table(
        "cell",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("monk", sa.Text, nullable=True),
    )
    operations.create_table(
        "book",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "cell_id", sa.Integer, sa.ForeignKey("cell.id", ondelete="CASCADE"), nullable=False
        ),
    )


def add_floor(operations: Operations) -> None:
    operations.add_column("cell", sa.Column("floor", sa.Integer, nullable=True))


def require_monk(operations: Operations) -> None:
    operations.execute("UPDATE cell SET monk = '' WHERE monk IS NULL")
    with operations.batch_alter_table("cell") as batch:
        batch.alter_column("monk", existing_type=sa.Text, nullable=False)


CREATE = Migration(1, "create", create_cell)
FLOOR = Migration(2, "floor", add_floor)
MONK = Migration(3, "monk", require_monk)


def cells(*migrations: Migration) -> Schema:
    return Schema("cells", migrations)


def columns(database: Database, table: str) -> list[str]:
    with database.reading() as connection:
        return [column["name"] for column in sa.inspect(connection).get_columns(table)]


def recorded(database: Database) -> list[tuple[str, int, str]]:
    query = "SELECT component, number, name FROM cloister_migration ORDER BY component, number"
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def test_missing_migrations_are_applied_in_order_and_only_once(database: Database) -> None:
    assert database.migrate(cells(CREATE)) == (CREATE,)
    assert database.migrate(cells(CREATE, FLOOR, MONK)) == (FLOOR, MONK)
    assert database.migrate(cells(CREATE, FLOOR, MONK)) == ()
    assert columns(database, "cell") == ["id", "monk", "floor"]
    assert recorded(database) == [
        ("cells", 1, "create"),
        ("cells", 2, "floor"),
        ("cells", 3, "monk"),
    ]


def test_components_have_separate_histories(database: Database) -> None:
    def create_garden(operations: Operations) -> None:
        operations.create_table("garden", sa.Column("id", sa.Integer, primary_key=True))

    database.migrate(cells(CREATE, FLOOR))
    database.migrate(Schema("gardens", (Migration(1, "create", create_garden),)))
    assert [row[0] for row in recorded(database)] == ["cells", "cells", "gardens"]


def test_a_failed_migration_leaves_nothing_and_can_be_repeated(database: Database) -> None:
    def half(operations: Operations) -> None:
        add_floor(operations)
        operations.create_table("attic", sa.Column("id", sa.Integer, primary_key=True))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.migrate(cells(CREATE, Migration(2, "floor", half)))
    assert columns(database, "cell") == ["id", "monk"]
    assert recorded(database) == [("cells", 1, "create")]
    assert database.migrate(cells(CREATE, FLOOR)) == (FLOOR,)


def test_a_killed_migration_leaves_nothing(
    database: Database, address: str, spawn: Callable[..., Any]
) -> None:
    assert spawn("die_migrating", address).wait(timeout=60) == -signal.SIGKILL
    with database.reading() as connection:
        assert not sa.inspect(connection).has_table("half")
    database.migrate(cells(CREATE))
    assert recorded(database) == [("cells", 1, "create")]


def test_two_racing_processes_apply_each_migration_once(
    database: Database, address: str, race: Callable[..., list[str]]
) -> None:
    applied = race("migrate", address)
    assert sum(map(int, applied)) == 2
    with database.reading() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM room")) == 1
    assert recorded(database) == [("rooms", 1, "create"), ("rooms", 2, "fill")]


def test_rebuilding_a_table_keeps_the_rows_that_refer_to_it(database: Database) -> None:
    database.migrate(cells(CREATE, FLOOR))
    with database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO cell (id) VALUES (1)"))
        connection.execute(sa.text("INSERT INTO book (id, cell_id) VALUES (7, 1)"))
    database.migrate(cells(CREATE, FLOOR, MONK))
    with database.transaction() as connection:
        assert connection.scalar(sa.text("SELECT id FROM book")) == 7
        connection.execute(sa.text("DELETE FROM cell"))  # and foreign keys are enforced again
        assert connection.scalar(sa.text("SELECT count(*) FROM book")) == 0


def test_a_migration_that_breaks_references_is_undone(database: Database) -> None:
    def orphan(operations: Operations) -> None:
        operations.execute("INSERT INTO book (id, cell_id) VALUES (7, 99)")

    with pytest.raises(StoreError, match=r"(?i)refer|foreign key"):
        database.migrate(cells(CREATE, Migration(2, "orphan", orphan)))
    assert recorded(database) == [("cells", 1, "create")]


def test_a_newer_database_is_refused(database: Database) -> None:
    database.migrate(cells(CREATE, FLOOR))
    with pytest.raises(StoreError, match=r"newer than this program.*install the newer version"):
        database.migrate(cells(CREATE))


def test_a_different_history_is_refused(database: Database) -> None:
    database.migrate(cells(CREATE, FLOOR))
    other = Migration(2, "cellar", add_floor)
    with pytest.raises(StoreError, match=r"migration 2 is 'floor' in the database and 'cellar'"):
        database.migrate(cells(CREATE, other, MONK))


def test_a_history_with_gaps_is_refused(database: Database) -> None:
    database.migrate(cells(CREATE, FLOOR))
    with database.transaction() as connection:
        connection.execute(sa.text("DELETE FROM cloister_migration WHERE number = 1"))
    with pytest.raises(StoreError, match="gaps"):
        database.migrate(cells(CREATE, FLOOR))


@pytest.mark.parametrize("numbers", [(2,), (1, 3), (2, 1), (1, 1), (0, 1)])
def test_a_schema_with_wrong_numbers_is_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(StoreError, match="number them 1, 2, 3"):
        cells(*(Migration(number, "x", add_floor) for number in numbers))


def test_running_transactions_go_on_during_a_check_without_changes(database: Database) -> None:
    database.migrate(cells(CREATE))
    with database.transaction():
        assert database.migrate(cells(CREATE)) == ()
