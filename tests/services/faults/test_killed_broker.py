"""The broker is killed (-9) while nodes publish and select; nothing is published twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.faults.clinics import Clinics, made
from services.faulty_service import ARMED
from services.processes import wait_until


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinics]:
    found = made(tmp_path_factory.mktemp("killed-broker") / "f")
    with found.processes as processes:
        processes.start("broker", "clinic-a", "clinic-b")
        yield found


def arm(clinics: Clinics, point: str) -> None:
    (clinics.folder.folder / "broker" / ARMED).write_text(point, encoding="utf-8")


def held(clinics: Clinics) -> dict[str, str]:
    """Return the digests of the tables that the broker holds."""
    tables = clinics.asked("broker", "/v1/status")["tables"]
    return {one["node"]: one["digest"] for one in tables}


@pytest.mark.parametrize("point", ["taking tables", "took tables"])
def test_tables_arrive_once_though_the_broker_dies_while_it_takes_them(
    clinics: Clinics, point: str
) -> None:
    before = len(clinics.ledger("clinic-a"))
    arm(clinics, point)
    digest = clinics.asked("clinic-a", "/v1/publications", post=True)["digest"]
    assert clinics.processes.wait_dead("broker") == -9
    assert clinics.asked("clinic-a", "/v1/status")["published"] == digest
    clinics.processes.start("broker")
    wait_until(lambda: held(clinics).get("clinic-a") == digest, what="the tables did not arrive")
    entries = clinics.ledger("clinic-a")
    assert len(entries) == before + 1  # made once, recorded once
    assert entries[-1].purpose == "published statistics"
    ledger = clinics.asked("clinic-a", "/v1/ledger")
    wait_until(lambda: clinics.asked("clinic-a", "/v1/ledger")["n_pending"] == 0)
    assert ledger["n_entries"] == before + 1


def test_a_broker_that_is_away_fails_no_publication_and_no_search(clinics: Clinics) -> None:
    clinics.asked("clinic-b", "/v1/publications", post=True)
    arm(clinics, "selecting")
    answer = clinics.search("clinic-a:party-100")
    assert clinics.processes.wait_dead("broker") == -9
    assert answer.results  # all nodes were asked instead
    assert answer.page_id
    assert answer.missing_nodes == ["clinic-c"]  # which was never started
    before = len(clinics.ledger("clinic-b"))
    digest = clinics.asked("clinic-b", "/v1/publications", post=True)["digest"]
    assert clinics.search("clinic-b:staff-005").missing_nodes == ["clinic-c"]
    clinics.processes.start("broker")
    wait_until(lambda: held(clinics).get("clinic-b") == digest)
    assert len(clinics.ledger("clinic-b")) == before + 1
    assert clinics.search("clinic-a:party-100").results
