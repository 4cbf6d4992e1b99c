"""A ledger that was restored, and the node that starts on it: nothing opens by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from cloister.app.restored_ledger import Lost, LostKind, check_restored, note_restored, stored_head
from cloister.core.errors import BudgetExceeded
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import STANDARD_LIMITS, Consent, Limit
from cloister.privacy.ledger.statement import overview
from cloister.privacy.level import Level
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease
from cloister.store.database import Database

OLD: Final = Path(__file__).parents[1] / "privacy" / "ledger_0_1_0.sql"
BOARD: Final = Consent(name="board", recipient="coordinator", purpose="pilot")
TO_HUB: Final = {"party_id": "clinic", "recipient": "coordinator", "purpose": "pilot, round 1"}
HOLD: Final = Lost()
NOISY: Final = GaussianRelease(level="user", sigma=4.0, sensitivity=1.0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "state.db") as opened:
        yield opened


def started(database: Database, *budgets: Limit) -> Ledger:
    """Start a node whose file names some limits."""
    ledger = Ledger(database, consents=(BOARD,))
    ledger.begin_limits("clinic", budgets)
    return ledger


def restored(database: Database, lost: Lost = HOLD) -> None:
    def work(connection: Any) -> None:
        head = stored_head(connection)
        manifest: Any = SimpleNamespace(ledger=head, made_at="2026-01-01T00:00:00+00:00")
        note_restored(connection, manifest=manifest, lost=lost)

    database.run(work)


def epsilons(ledger: Ledger) -> dict[Level, float]:
    return {level: limit.epsilon for level, limit in ledger.limits("clinic").items()}


@pytest.mark.parametrize("after", [6.0, 8.0])
def test_a_node_that_starts_on_a_held_ledger_releases_nothing(
    database: Database, after: float
) -> None:
    started(database, Limit(epsilon=6.0, delta=1e-6))
    restored(database)
    ledger = started(database, Limit(epsilon=after, delta=1e-6))
    assert set(epsilons(ledger).values()) == {0.0}
    with pytest.raises(BudgetExceeded, match="lets nothing pass"):
        ledger.release(NOISY, b"", **TO_HUB)


def test_a_node_that_starts_on_a_held_ledger_of_0_1_0_releases_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD.read_text())
    connection.close()
    with Database.open(path) as database:
        head = database.run(stored_head, read_only=True)
        assert head is not None
        restored(database)
        assert "is beyond its limit" in check_restored(database, head)[1]
        ledger = started(database, Limit(epsilon=8.0, delta=1e-6))
        assert epsilons(ledger) == {Level.TOKEN: 0.0}
        with pytest.raises(BudgetExceeded, match="lets nothing pass"):
            ledger.release(NOISY, b"", **TO_HUB)


def test_what_the_command_sets_after_a_hold_stays_whatever_the_file_names(
    database: Database,
) -> None:
    started(database)
    restored(database)
    ledger = started(database, Limit(epsilon=8.0, delta=1e-6))
    for level in Level:
        with pytest.raises(BudgetExceeded):
            ledger.release(NOISY, b"", **TO_HUB)
        ledger.set_limit("clinic", Limit(epsilon=3, delta=1e-6, level=level), purpose="known now")
    ledger.release(NOISY, b"", **TO_HUB)
    ledger = started(database, Limit(epsilon=8.0, delta=1e-6))
    assert set(epsilons(ledger).values()) == {3.0}
    check_ledger(ledger)


def test_a_restore_that_somebody_vouches_for_leaves_the_file_in_charge(database: Database) -> None:
    started(database, Limit(epsilon=6.0, delta=1e-6))
    restored(database, Lost(LostKind.NONE))
    assert epsilons(started(database, Limit(epsilon=6.0, delta=1e-6)))[Level.USER] == 6.0
    assert epsilons(started(database, Limit(epsilon=7.0, delta=1e-6)))[Level.USER] == 7.0


def test_every_limit_counts_what_was_lost(database: Database) -> None:
    started(database)
    restored(database, Lost(LostKind.CHARGE, 5.0))
    ledger = started(database)
    (statement,) = overview(ledger).statements
    for level, account in statement.limits.items():
        assert account.limit == STANDARD_LIMITS[level].fixed()
        assert (account.epsilon, account.n_releases) == (5.0, 1)
    document = LaplaceRelease(level="document", scale=2.0, sensitivity=1.0)
    with pytest.raises(BudgetExceeded, match="level document"):
        ledger.release(document, b"", **TO_HUB)
    check_ledger(ledger)
