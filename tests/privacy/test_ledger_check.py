"""Every damage is found and named; an untouched ledger passes; exports say all but payloads."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded, CloisterError, Damaged, NotFound
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.entry import BEGINNING, Entry, entry_hash
from cloister.privacy.ledger.export import export_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.spending import spent_by
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease
from store import conftest as databases

server = databases.server
address = databases.address

NOISY = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0, note='a "note", and more')


def fill(ledger: Ledger) -> None:
    ledger.set_limit("clinic", Limit(epsilon=9.0, delta=1e-6), purpose="pilot")
    for number in range(4):
        receipt = ledger.release(
            NOISY, bytes([number]), party_id="clinic", recipient="hub", purpose=f"round {number}"
        )
        if number < 2:
            ledger.delivered(receipt.number)


@pytest.fixture
def ledger(address: str) -> Iterator[Ledger]:
    with Ledger.open(address) as opened:
        fill(opened)
        yield opened


def test_an_untouched_ledger_is_whole(ledger: Ledger) -> None:
    checked = check_ledger(ledger)
    assert (checked.n_entries, checked.n_releases, checked.n_pending) == (5, 4, 2)
    assert checked.head == ledger.head()
    earlier = ledger.entries()[1].hash
    assert check_ledger(ledger, pinned=earlier) == checked
    assert check_ledger(ledger, pinned=BEGINNING) == checked
    with pytest.raises(Damaged, match="no entry has the hash"):
        check_ledger(ledger, pinned="f" * 64)


ENTRY = "UPDATE cloister_ledger_entry SET"
DAMAGE = {
    f"{ENTRY} purpose = 'other' WHERE number = 3": "entry 3: the entry was changed",
    f"{ENTRY} party_id = 'other' WHERE number = 2": "entry 2: the entry was changed",
    f"{ENTRY} recorded_at = '2020' WHERE number = 2": "entry 2: the entry was changed",
    f"{ENTRY} body = x'00' WHERE number = 5": "entry 5: the entry was changed",
    f"{ENTRY} body = '{{}}' WHERE number = 5": "entry 5: the entry was changed",
    f"{ENTRY} size_bytes = 9 WHERE number = 5": "entry 5: the entry was changed",
    f"{ENTRY} previous = 'x' WHERE number = 4": "entry 4: the chain is broken",
    f"{ENTRY} hash = 'x' WHERE number = 4": "entry 4: the entry was changed",
    f"{ENTRY} number = 9 WHERE number = 5": "entry 9: entry 5 is missing",
    "DELETE FROM cloister_ledger_entry WHERE number = 3": "entry 4: entry 3 is missing",
    "DELETE FROM cloister_ledger_entry WHERE number = 1": "entry 2: entry 1 is missing",
    "DELETE FROM cloister_ledger_entry WHERE number = 5": "entry 5: a release must be either",
    "DELETE FROM cloister_ledger_outbox WHERE number = 4": "entry 4: a release must be either",
    "DELETE FROM cloister_ledger_delivery": "entry 2: a release must be either",
    "UPDATE cloister_ledger_outbox SET payload = 'x' WHERE number = 5": "entry 5: the payload",
    "UPDATE cloister_ledger_spending SET n_releases = 1": "the count of releases to 'hub'",
    "DELETE FROM cloister_ledger_spending": "the count of releases to 'hub'",
}


@pytest.mark.parametrize("statement", DAMAGE)
def test_the_first_damage_is_named(ledger: Ledger, statement: str) -> None:
    with ledger.database.transaction() as connection:
        connection.execute(sa.text(statement))
    with pytest.raises(Damaged, match=DAMAGE[statement]):
        check_ledger(ledger)


def rewrite(ledger: Ledger, number: int, **changes: str) -> None:
    """Change an entry and all hashes after it, as somebody can who may write the database."""
    with ledger.database.transaction() as connection:
        previous = BEGINNING
        for entry in ledger.entries():
            if entry.number == number:
                entry = entry._replace(**changes)  # type: ignore[arg-type]
            entry = entry._replace(previous=previous).sealed()
            previous = entry.hash
            values = {"body": entry.body, "previous": entry.previous, "hash": entry.hash}
            sets = ", ".join(f"{name} = :{name}" for name in values)
            connection.execute(
                sa.text(f"{ENTRY} {sets} WHERE number = :number"), values | {"number": entry.number}
            )


def test_a_chain_made_anew_is_found_by_the_head_that_was_written_down(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        fill(ledger)
        head = ledger.head()
        rewrite(ledger, 3, body=NOISY.model_copy(update={"note": "nothing happened"}).canonical())
        check_ledger(ledger)  # the chain alone does not show it
        with pytest.raises(Damaged, match="no entry has the hash that was written down"):
            check_ledger(ledger, pinned=head.hash)


@pytest.mark.parametrize(("number", "said"), [(3, "not a release"), (1, "not a limit")])
def test_a_body_that_cannot_be_read_is_damage(tmp_path: Path, number: int, said: str) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        fill(ledger)
        rewrite(ledger, number, body='{"mechanism":"magic"}')
        with pytest.raises(CloisterError, match=said):
            check_ledger(ledger)


def test_a_party_beyond_its_limit_fails_the_check(ledger: Ledger) -> None:
    ledger.set_limit("clinic", Limit(epsilon=1.0, delta=1e-6), purpose="lowered")
    with pytest.raises(BudgetExceeded, match='party "clinic" is beyond its limit'):
        check_ledger(ledger)


def test_equal_releases_count_as_one_kind_whatever_their_notes() -> None:
    entry = Entry(1, "release", "", "a", "b", "", NOISY.canonical(), "", 0, BEGINNING)
    other = entry._replace(body=NOISY.model_copy(update={"note": "x"}).canonical())
    assert spent_by(entry) == spent_by(other)
    laplace = LaplaceRelease(level="user", scale=1.0, sensitivity=1.0).canonical()
    assert spent_by(entry._replace(body=laplace)).key != spent_by(entry).key
    assert spent_by(entry._replace(recipient="c")).key != spent_by(entry).key


def test_a_json_export_lets_others_check_the_chain(ledger: Ledger, tmp_path: Path) -> None:
    head = export_ledger(ledger, tmp_path / "out.json")
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported["head"] == {"number": 5, "hash": head.hash}
    previous = BEGINNING
    for fields in exported["entries"]:
        body = json.dumps(fields[fields["kind"]], sort_keys=True, separators=(",", ":"))
        values = [body if name == "body" else fields[name] for name in Entry._fields]
        entry = Entry(*values)
        assert entry.previous == previous
        assert entry.hash == entry_hash(entry)
        previous = entry.hash
    assert previous == head.hash
    delivered = [fields["delivered_at"] is not None for fields in exported["entries"]]
    assert delivered == [False, True, True, False, False]


def test_a_csv_export_has_a_row_for_each_entry(ledger: Ledger, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    export_ledger(ledger, out, file_format="csv")
    export_ledger(ledger, out, file_format="csv", replace=True)
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["number"] for row in rows] == list("12345")
    assert rows[1]["mechanism"] == "gaussian"
    assert json.loads(rows[1]["body"])["note"] == NOISY.note
    assert rows[4]["payload_sha256"] == hashlib.sha256(b"\x03").hexdigest()
    assert out.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.glob("*tmp*")) == []


def test_an_export_that_cannot_be_written_says_so(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such folder"):
        export_ledger(ledger, tmp_path / "nowhere" / "out.json")
