"""No release without its record, wherever a process dies; no limit passed by two at once."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from cloister.privacy.accounting import divergence
from cloister.privacy.filters import Charge
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.loss import Loss
from cloister.store import KeyedState
from store import conftest as databases

server = databases.server
address = databases.address

CHILD = str(Path(__file__).with_name("ledger_child.py"))


def run_child(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, CHILD, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def see_that_nothing_is_lost_or_unrecorded(address: str, log: Path) -> int:
    received: dict[int, set[str]] = defaultdict(set)
    for line in log.read_text().splitlines():
        number, digest = line.split()
        received[int(number)].add(digest)
    with Ledger.open(address, create=False) as ledger:
        recorded = {entry.number: entry.payload_sha256 for entry in ledger.entries()}
        # Every payload that arrived has its entry, with the same digest: once drawn, never anew.
        assert all(digests == {recorded[number]} for number, digests in received.items())
        assert set(received) == set(recorded)  # and the last start has sent all that waited
        assert ledger.pending() == []
        assert check_ledger(ledger).n_releases == len(recorded)
        with ledger.database.reading() as connection:
            last = KeyedState("rounds").get(connection, "last")
        assert last is not None
        assert last.value == recorded[max(recorded)]  # the caller's state went with the release
    return len(recorded)


def test_a_process_that_dies_anywhere_has_sent_nothing_unrecorded(
    address: str, tmp_path: Path
) -> None:
    step = "1" if "://" not in address else "3"
    n_deaths = int(run_child("die_everywhere", address, str(tmp_path / "log"), step))
    assert n_deaths >= 15
    see_that_nothing_is_lost_or_unrecorded(address, tmp_path / "log")


def test_a_process_killed_at_any_time_has_sent_nothing_unrecorded(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")
    run_child("die_any_time", ledger, str(tmp_path / "log"), "15")
    assert see_that_nothing_is_lost_or_unrecorded(ledger, tmp_path / "log") > 0


def test_two_processes_at_once_do_not_pass_the_limit_together(address: str) -> None:
    with Ledger.open(address) as ledger:
        ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")
    said = [int(line) for line in run_child("race", address, "0.2").split()]
    assert len(said) == 2
    n = sum(said)
    decides = Limit(epsilon=3.0, delta=1e-6).filter
    one = Charge(divergence(Loss("bound", 0.2), decides.order), 0.2)
    assert decides.admits(one.times(n))
    assert not decides.admits(one.times(n + 1))
    with Ledger.open(address, create=False) as ledger:
        assert check_ledger(ledger).n_releases == n


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_an_error_in_a_callers_transaction_undoes_the_record(tmp_path: Path, moment: str) -> None:
    from privacy.ledger_child import NOISY

    with Ledger.open(tmp_path / "ledger.db") as ledger:

        def work() -> None:
            with ledger.database.transaction() as connection:
                ledger.release_in(
                    connection, NOISY, b"x", party_id="a", recipient="b", purpose="test"
                )
                if moment == "before the commit":
                    raise RuntimeError(moment)
            raise RuntimeError(moment)

        with pytest.raises(RuntimeError, match=moment):
            work()
        n = 0 if moment == "before the commit" else 1
        assert len(ledger.pending()) == check_ledger(ledger).n_releases == n
