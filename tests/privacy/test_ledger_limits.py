"""Limits by level, from the start; and releases without a bound, which somebody must agree to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.core.errors import BudgetExceeded, SettingsError
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import FROM_FILE, STANDARD, Ledger
from cloister.privacy.ledger.limits import STANDARD_LIMITS, Consent, Limit
from cloister.privacy.ledger.statement import overview
from cloister.privacy.level import Level
from cloister.privacy.release import UnprotectedRelease
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease
from cloister.store.database import Database

TO_HUB = {"party_id": "clinic", "recipient": "coordinator", "purpose": "pilot, round 0"}
BOARD = Consent(name="ethics board", recipient="coordinator", purpose="pilot")
EXACT = UnprotectedRelease(level="user")
NOISY = GaussianRelease(level="user", sigma=4.0, sensitivity=1.0)
DOCUMENT = LaplaceRelease(level="document", scale=2.0, sensitivity=1.0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "state.db") as opened:
        yield opened


def node(database: Database, *limits: Limit, consents: tuple[Consent, ...] = ()) -> Ledger:
    ledger = Ledger(database, consents=consents)
    ledger.begin_limits("clinic", limits)
    return ledger


def test_a_party_has_a_limit_of_each_level_from_the_start(database: Database) -> None:
    ledger = node(database)
    assert ledger.limits("clinic") == {
        level: limit.fixed() for level, limit in STANDARD_LIMITS.items()
    }
    assert set(STANDARD_LIMITS) == set(Level)
    assert {entry.purpose for entry in ledger.entries()} == {STANDARD}
    n_entries = ledger.head().number
    node(database)  # started again
    assert ledger.head().number == n_entries


def test_a_limit_changes_by_the_file_or_by_a_command_and_by_nothing_else(
    database: Database,
) -> None:
    first, second = Limit(epsilon=3, delta=1e-6), Limit(epsilon=4, delta=1e-6)
    ledger = node(database, first)
    assert ledger.limit("clinic") == first.fixed()
    assert [e.purpose for e in ledger.entries()].count(FROM_FILE) == 1
    closed = Limit(epsilon=0, delta=1e-6)
    ledger.set_limit("clinic", closed, purpose="restored: nothing may pass")
    node(database, first)  # the file says what it said before: the command's limit stays
    node(database)
    assert ledger.limit("clinic") == closed.fixed()
    node(database, second)
    assert ledger.limit("clinic") == second.fixed()
    ledger.set_limit("clinic", None, purpose="none wanted", level=Level.TOKEN)
    node(database, second)
    assert Level.TOKEN not in ledger.limits("clinic")
    check_ledger(ledger)


def test_what_has_no_bound_needs_a_consent_that_fits(database: Database) -> None:
    ledger = node(database, consents=(BOARD,))
    ledger.release(EXACT, b"", **TO_HUB)
    assert ledger.entries()[-1].release.consent == "ethics board"
    for change in (
        {"recipient": "broker"},
        {"purpose": "pilot2, round 0"},
        {"purpose": "pilot,2, round 0"},
        {"purpose": "other"},
    ):
        with pytest.raises(BudgetExceeded, match=r"nobody has agreed.*\[\[consents\]\]"):
            ledger.release(EXACT, b"", **(TO_HUB | change))
    with pytest.raises(BudgetExceeded, match="nobody has agreed"):
        node(database).release(EXACT, b"", **TO_HUB)  # the file names nobody any more


def test_a_consent_does_not_use_up_the_limit_and_is_shown(database: Database) -> None:
    ledger = node(database, consents=(BOARD,))
    ledger.release(EXACT, b"", **TO_HUB)
    ledger.release(NOISY, b"", **TO_HUB)
    (statement,) = overview(ledger).statements
    users = statement.limits[Level.USER]
    assert (users.n_releases, users.n_consented) == (1, 1)
    assert 0 < users.epsilon < users.limit.epsilon
    assert statement.real.epsilon == float("inf")  # of all releases together there is no bound
    assert not ledger.entries()[-1].release.consent  # what has a bound needs nobody's consent
    check_ledger(ledger)


def test_nobody_can_write_a_consent_into_a_release(database: Database) -> None:
    forged = EXACT.model_copy(update={"consent": "myself"})
    with pytest.raises(BudgetExceeded):
        node(database).release(forged, b"", **TO_HUB)
    plain = Ledger(database)
    plain.set_limit("other", Limit(epsilon=1, delta=1e-6), purpose="test")
    with pytest.raises(BudgetExceeded, match="not protected"):
        plain.release(forged, b"", **(TO_HUB | {"party_id": "other"}))


def test_a_limit_of_zero_stops_what_was_agreed_to_as_well(database: Database) -> None:
    ledger = node(database, consents=(BOARD,))
    ledger.set_limit("clinic", Limit(epsilon=0, delta=1e-6), purpose="hold")
    for release in (EXACT, NOISY):
        with pytest.raises(BudgetExceeded, match="lets nothing pass"):
            ledger.release(release, b"", **TO_HUB)


def test_a_release_for_smaller_units_needs_a_consent_and_keeps_to_their_limit(
    database: Database,
) -> None:
    with pytest.raises(BudgetExceeded, match="nobody has agreed"):
        node(database).release(DOCUMENT, b"", **TO_HUB)
    ledger = node(database, consents=(BOARD,))
    most = STANDARD_LIMITS[Level.DOCUMENT].epsilon
    for _ in range(int(most / 0.5)):
        ledger.release(DOCUMENT, b"", **TO_HUB)
    with pytest.raises(BudgetExceeded, match="level document"):
        ledger.release(DOCUMENT, b"", **TO_HUB)


def test_a_larger_units_limit_counts_for_what_lies_inside(database: Database) -> None:
    ledger = node(database)
    ledger.release(NOISY, b"", **TO_HUB)
    (statement,) = overview(ledger).statements
    counts = {level: one.n_releases for level, one in statement.limits.items()}
    assert counts == {Level.USER: 1, Level.DOCUMENT: 0, Level.INTERACTION: 0, Level.TOKEN: 0}
    ledger.set_limit("clinic", None, purpose="test", level=Level.USER)
    (statement,) = overview(ledger).statements
    assert statement.limits[Level.TOKEN].n_releases == 1  # now nothing else bounds it


def test_simulated_releases_never_use_up_what_real_ones_may_cost(database: Database) -> None:
    ledger = node(database)
    simulated = NOISY.model_copy(update={"simulated": True})
    for _ in range(5):
        ledger.release(simulated, b"", **TO_HUB)
    (statement,) = overview(ledger).statements
    assert statement.limits[Level.USER].epsilon == 0


def test_a_level_has_one_limit_in_a_file_and_a_consent_says_who() -> None:
    from cloister.federate.engines.site_file import SiteFile

    twice = [Limit(epsilon=1, delta=1e-6), Limit(epsilon=2, delta=1e-6)]
    with pytest.raises(SettingsError, match="one limit"):
        SiteFile(name="a", roster="r.json", state="s.db", budgets=twice)
    with pytest.raises(SettingsError, match="who agreed"):
        Consent(name=" ", recipient="coordinator", purpose="pilot")
