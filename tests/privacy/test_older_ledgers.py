"""A ledger that version 0.1.0 made, with releases of every kind, is whole and goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded, Damaged
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.statement import overview
from cloister.privacy.level import Level

# Parties: "clinic" with a limit for tokens, "open" without one, and "planned", whose rounds cost
# exactly its limit of 4.5 by loss distributions.
OLD: Final = Path(__file__).with_name("ledger_0_1_0.sql")
HEAD: Final = "51fa2c7516e4031760fee2e16c320b714ed2262455860a56e7cb0e74e3cadb8f"
TO_HUB = {"party_id": "clinic", "recipient": "hub", "purpose": "now"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD.read_text())
    connection.close()
    with Ledger.open(path, create=False) as opened:
        yield opened


def raise_the_planned_limit(ledger: Ledger) -> None:
    ledger.set_limit("planned", Limit(epsilon=5.0, delta=1e-6), purpose="what the filter counts")


def test_an_older_ledger_is_whole(ledger: Ledger) -> None:
    raise_the_planned_limit(ledger)
    checked = check_ledger(ledger, pinned=HEAD)
    assert (checked.n_releases, checked.n_pending) == (18, 1)


def test_an_older_plan_at_its_limit_is_beyond_it_until_the_limit_is_raised(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match=r'"planned" is beyond its limit.* 4\.8'):
        check_ledger(ledger)
    statement = overview(ledger, party_id="planned").statements[0]
    assert statement.real.epsilon <= 4.5 < statement.limits[Level.USER].epsilon
    raise_the_planned_limit(ledger)
    check_ledger(ledger)


def test_equal_releases_of_both_versions_count_together(ledger: Ledger) -> None:
    raise_the_planned_limit(ledger)
    old = ledger.entries(party_id="clinic")[1].release
    before = overview(ledger, party_id="clinic").statements[0].limits[Level.TOKEN]
    ledger.release(old, b"again", **TO_HUB)
    after = overview(ledger, party_id="clinic").statements[0].limits[Level.TOKEN]
    assert after.n_releases == before.n_releases + 1
    assert after.used > before.used
    check_ledger(ledger)


@pytest.mark.parametrize(
    "change", ["n_releases = n_releases + 1", "release = '{}'", "simulated = true"]
)
def test_a_changed_count_of_an_older_ledger_is_found(ledger: Ledger, change: str) -> None:
    raise_the_planned_limit(ledger)
    changed = f"UPDATE cloister_ledger_spending SET {change}"
    with ledger.database.transaction() as connection:
        connection.execute(
            sa.text(f"{changed} WHERE party_id = 'clinic' AND recipient = 'hub' AND NOT simulated")
        )
    with pytest.raises(Damaged, match='party "clinic"'):
        check_ledger(ledger)
