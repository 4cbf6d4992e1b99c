"""An account of every page of the soak that no service keeps: triggers in the nodes' databases.

A trigger writes in the transaction that it watches, so that the account is right whatever is
killed. What services say of themselves is compared with it afterwards.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.federate.engines.site_memory import SiteMemory
from cloister.federate.online.click_log import ClickLog
from cloister.privacy.ledger.check import Checked, check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.secure_aggregation.messages import MaskedInput
from cloister.privacy.secure_aggregation.wire import MessageWriter
from cloister.store.database import Database

__all__ = ["Account", "CoordinatorAccount", "PageEnd", "account_of", "coordinator_account", "watch"]

_MASKED: Final = MessageWriter().raw(b"CSA1").number(MaskedInput.kind).done()
_TRIGGERS: Final = f"""
CREATE TABLE soak_shown (page_id TEXT PRIMARY KEY);
CREATE TABLE soak_gone (
    page_id TEXT PRIMARY KEY, taken_session TEXT, trial TEXT, taken_by TEXT, taken_round INTEGER,
    clicks BLOB, age_s REAL);
CREATE TABLE soak_masked (n INTEGER);
INSERT INTO soak_masked VALUES (0);
CREATE TRIGGER soak_on_show AFTER INSERT ON cloister_shown_page BEGIN
    INSERT INTO soak_shown VALUES (new.page_id);
END;
CREATE TRIGGER soak_on_end AFTER DELETE ON cloister_shown_page BEGIN
    INSERT INTO soak_gone VALUES (old.page_id, old.taken_session, old.trial, old.taken_by,
        old.taken_round, old.clicks, (julianday('now') - 2440587.5) * 86400 - old.shown_at / 1e6);
END;
CREATE TRIGGER soak_on_answer AFTER INSERT ON cloister_site_answer
WHEN substr(new.content, 1, {len(_MASKED)}) = X'{_MASKED.hex()}' BEGIN
    UPDATE soak_masked SET n = n + 1;
END;
"""
_LAST_SESSIONS: Final = """
SELECT session_id FROM cloister_site_session AS one WHERE masked = 1 AND attempt = (
    SELECT max(attempt) FROM cloister_site_session AS other
    WHERE other.training = one.training AND other.round = one.round AND other.masked = 1)
"""
_RELEASED: Final = re.compile(r"(?P<training>.+), round (?P<round>\d+), attempt \d+")


class PageEnd(NamedTuple):
    """What a page was when it was deleted, or is now."""

    trial: str
    taken_by: str
    taken_round: int
    clicks: bytes
    age_s: float


class Account(NamedTuple):
    """What a node's database says.

    Parameters
    ----------
    shown
        Ids of all pages that there ever were.
    gone, left
        Pages that were deleted, and that are there still.
    n_masked
        Answers of secure aggregation that hold a masked input.
    rounds_released
        For each round of the training: attempts of which a release is on the ledger.
    n_released
        All these releases.
    n_votes
        Releases of votes on the ledger.
    checked
        What the check of the ledger found whole.
    """

    shown: frozenset[str]
    gone: dict[str, PageEnd]
    left: dict[str, PageEnd]
    n_masked: int
    rounds_released: Counter[int]
    n_released: int
    n_votes: int
    checked: Checked


class CoordinatorAccount(NamedTuple):
    """What the coordinator's database and log say: sites and interactions of each round."""

    sites: dict[int, tuple[str, ...]]
    n_interactions: dict[int, int]
    round_times: tuple[str, ...]
    n_failed: int
    n_trials: int
    purposes: tuple[str, ...]
    checked: Checked


def watch(state: Path, site: str) -> None:
    """Make a node's tables before it runs for the first time, and watch them from then on."""
    with Database.open(state) as database:
        ClickLog(database)
        SiteMemory(database, site)  # type: ignore[arg-type]
    with closing(sqlite3.connect(state)) as connection:
        connection.executescript(_TRIGGERS)


def account_of(state: Path, training: str) -> Account:
    """Read a node's database; nobody must write to it meanwhile."""
    with closing(sqlite3.connect(state)) as connection:
        shown = frozenset(row[0] for row in connection.execute("SELECT page_id FROM soak_shown"))
        last = frozenset(row[0] for row in connection.execute(_LAST_SESSIONS))
        gone = _pages(connection.execute("SELECT * FROM soak_gone"), last)
        columns = "page_id, taken_session, trial, taken_by, taken_round, clicks, 0.0"
        left = _pages(connection.execute(f"SELECT {columns} FROM cloister_shown_page"), last)
        (n_masked,) = connection.execute("SELECT n FROM soak_masked").fetchone()
    with Database.open(state) as database:
        ledger = Ledger(database)
        checked = check_ledger(ledger)
        purposes = Counter(entry.purpose for entry in ledger.entries())
    found = [match for one in purposes if (match := _RELEASED.fullmatch(one))]
    mine = [match for match in found if match["training"] == training]
    return Account(
        shown=shown,
        gone=gone,
        left=left,
        n_masked=n_masked,
        rounds_released=Counter(int(match["round"]) - 1 for match in mine),
        n_released=sum(purposes[match.string] for match in mine),
        n_votes=sum(n for one, n in purposes.items() if one.startswith("votes in trial")),
        checked=checked,
    )


def coordinator_account(state: Path, log: Path) -> CoordinatorAccount:
    """Read the coordinator's database and log; nobody must write to them meanwhile."""
    query = "SELECT n_rounds, sites FROM cloister_federation_round WHERE n_rounds > 0"
    with closing(sqlite3.connect(state)) as connection:
        sites = {n - 1: tuple(json.loads(text)) for n, text in connection.execute(query)}
    with Database.open(state) as database:
        ledger = Ledger(database)
        checked = check_ledger(ledger)
        purposes = tuple(entry.purpose for entry in ledger.entries())
    lines = list(_lines(log.read_text(encoding="utf-8").splitlines()))
    rounds = [line for line in lines if line.get("event") == "round"]
    return CoordinatorAccount(
        sites=sites,
        n_interactions={line["round"] - 1: line["n_interactions"] for line in rounds},
        round_times=tuple(line["time"] for line in rounds),
        n_failed=sum(line.get("event") == "round_failed" for line in lines),
        n_trials=sum(line.get("event") == "trial_decided" for line in lines),
        purposes=purposes,
        checked=checked,
    )


def _lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Read lines of a log; a line that was cut by a kill is left out."""
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _pages(rows: sqlite3.Cursor, last: frozenset[str]) -> dict[str, PageEnd]:
    """Return pages; those locked in an attempt before a round's last were not counted by it."""
    found = {}
    for page_id, session, *rest in rows:
        page = PageEnd(*rest)
        found[page_id] = page if session in last else page._replace(taken_by="")
    return found
