"""The ledger's tables, in SQLite and PostgreSQL.

Entries are only ever added. What is not delivered yet lies in the outbox, with its payload; what
was delivered keeps its time; what never will be is a failure, with the reason, and stays charged.
Spending is a count of equal releases, so that a limit is checked without reading all entries;
`cloister.privacy.ledger.check` counts again from the entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["DELIVERIES", "ENTRIES", "FAILURES", "LEDGER_SCHEMA", "OUTBOX", "SPENDING"]

ENTRIES: Final = sa.table(
    "cloister_ledger_entry",
    sa.column("number", sa.BigInteger),
    sa.column("kind", sa.Text),
    sa.column("recorded_at", sa.Text),  # ISO 8601, UTC
    sa.column("party_id", sa.Text),
    sa.column("recipient", sa.Text),
    sa.column("purpose", sa.Text),
    sa.column("body", sa.Text),  # JSON: the release, or the limit
    sa.column("payload_sha256", sa.Text),
    sa.column("size_bytes", sa.BigInteger),
    sa.column("previous", sa.Text),
    sa.column("hash", sa.Text),
)
OUTBOX: Final = sa.table(
    "cloister_ledger_outbox",
    sa.column("number", sa.BigInteger),
    sa.column("payload", sa.LargeBinary),
)
DELIVERIES: Final = sa.table(
    "cloister_ledger_delivery",
    sa.column("number", sa.BigInteger),
    sa.column("delivered_at", sa.Text),
)
FAILURES: Final = sa.table(
    "cloister_ledger_failure",
    sa.column("number", sa.BigInteger),
    sa.column("failed_at", sa.Text),
    sa.column("reason", sa.Text),
)
SPENDING: Final = sa.table(
    "cloister_ledger_spending",
    sa.column("key", sa.Text),  # a digest: the columns are too long for an index together
    sa.column("party_id", sa.Text),
    sa.column("recipient", sa.Text),
    sa.column("simulated", sa.Boolean),
    sa.column("release", sa.Text),  # JSON, without the note
    sa.column("n_releases", sa.BigInteger),
)


def _create_tables(operations: Operations) -> None:
    texts = ("kind", "recorded_at", "party_id", "recipient", "purpose", "body")
    digests = ("previous", "hash", "payload_sha256")
    operations.create_table(
        "cloister_ledger_entry",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in (*texts, *digests)),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
    )
    operations.create_table(
        "cloister_ledger_outbox",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    operations.create_table(
        "cloister_ledger_delivery",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("delivered_at", sa.Text, nullable=False),
    )
    operations.create_table(
        "cloister_ledger_spending",
        sa.Column("key", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("party_id", "recipient")),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("release", sa.Text, nullable=False),
        sa.Column("n_releases", sa.BigInteger, nullable=False),
    )
    operations.create_index(
        "cloister_ledger_entry_party", "cloister_ledger_entry", ["party_id", "kind", "number"]
    )
    operations.create_index(
        "cloister_ledger_spending_party", "cloister_ledger_spending", ["party_id"]
    )


def _create_failures(operations: Operations) -> None:
    operations.create_table(
        "cloister_ledger_failure",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("failed_at", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )


LEDGER_SCHEMA: Final = Schema(
    "ledger",
    (
        Migration(1, "create the tables", _create_tables),
        Migration(2, "create the table of failures", _create_failures),
    ),
)
