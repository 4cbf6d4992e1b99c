"""Nodes whose clocks are wrong by seconds, minutes and days.

What Python takes for the time is shifted in the whole service. TLS keeps to the machine's clock:
what a wrong one does to certificates is not tested here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from cloister.core.errors import AccessDenied, CloisterError
from cloister.core.ids import AgentId
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_table import ShownPage
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.user_client import UserClient
from cloister.store.database import Database
from services.faults.clinics import Clinics, made
from services.faulty_service import CLOCK
from services.processes import wait_until

NODES = ("clinic-a", "clinic-b", "clinic-c")
MINUTES_S, DAYS_S = 180, 3 * 86_400
SCHEDULE = "\n[schedule]\nround_every_s = 0.5\ntimeout_s = 10.0\n"
PARTY = "clinic-a:party-100"


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinics]:
    found = made(tmp_path_factory.mktemp("wrong-clocks") / "f", settings={"coordinator": SCHEDULE})
    with found.processes as processes:
        processes.launch("clinic-b", {CLOCK: str(MINUTES_S)})
        processes.launch("clinic-c", {CLOCK: str(-DAYS_S)})
        processes.start("coordinator", "clinic-a")
        for node in ("clinic-b", "clinic-c"):
            processes.await_started(node)
        yield found


def user(clinics: Clinics, agent: str, *, lifetime_s: float = 600.0) -> UserClient:
    node = agent.partition(":")[0]
    token = clinics.folder.token(agent, lifetime_s=lifetime_s)
    authority = clinics.folder.folder / "authority" / "authority.pem"
    return UserClient(clinics.folder.url(node), token, authority)


def refusal(clinics: Clinics, client: UserClient) -> str:
    """Return what a user is told who is refused."""
    with client, pytest.raises(AccessDenied) as told:
        client.search(clinics.world.world.queries[0].text)
    return str(told.value)


def show_pages(clinics: Clinics) -> None:
    """Put a page, old by every clock, into each node's log: without new pages it stays out."""
    features = np.eye(4, len(PAGE_FEATURES))
    page = ShownPage(AgentId("of:nobody"), "0" * 64, features, np.zeros(4), np.arange(4))
    for node in NODES:
        path = clinics.folder.folder / node / "state.db"
        with Database.open(path) as database:
            ClickLog(database, clock=lambda: time.time() - 2 * DAYS_S).show(page)


def wait_counted(clinics: Clinics, *nodes: str) -> None:
    """Wait for a round, begun from now on, that counts these nodes."""
    since = clinics.asked("coordinator", "/v1/status")["n_rounds"]

    def counted() -> bool:
        show_pages(clinics)
        last = clinics.asked("coordinator", "/v1/status")["last_round"]
        return bool(last and last["round_number"] > since + 1 and set(nodes) <= set(last["nodes"]))

    wait_until(counted, 40)


def restart(clinics: Clinics, node: str, shift_s: float) -> None:
    clinics.processes.kill(node)
    clinics.processes.start(node, environment={CLOCK: str(shift_s)})


def test_rounds_count_nodes_whatever_their_clocks_say(clinics: Clinics) -> None:
    with user(clinics, "clinic-b:staff-005") as ben:  # of a node that is minutes ahead
        ben.search(clinics.world.world.queries[0].text)
        wait_counted(clinics, "clinic-a", "clinic-b", "clinic-c")

        def learnt() -> bool:
            show_pages(clinics)
            return ben.kept() == 0

        wait_until(learnt, what="the page was not learnt from")


def test_nodes_with_another_time_refuse_each_other_and_the_search_goes_on(
    clinics: Clinics,
) -> None:
    answer = clinics.search(PARTY)
    assert {one.server for one in answer.results} == {"clinic-a"}
    assert sorted(answer.missing_nodes) == ["clinic-b", "clinic-c"]
    logs = clinics.processes.log("clinic-b") + clinics.processes.log("clinic-c")
    assert PARTY not in logs


def test_tokens_that_have_not_begun_or_have_ended_are_refused_like_any_other(
    clinics: Clinics,
) -> None:
    strange = UserClient(
        clinics.folder.url("clinic-c"),
        "not.a.token",
        clinics.folder.folder / "authority" / "authority.pem",
    )
    usual = refusal(clinics, strange)
    early = refusal(clinics, user(clinics, "clinic-c:staff-010"))
    late = refusal(clinics, user(clinics, "clinic-b:staff-005", lifetime_s=MINUTES_S / 2))
    assert early == usual
    assert late.partition(": ")[2] == usual.partition(": ")[2]  # but for the node's address


def test_a_clock_that_jumps_leaves_the_ledger_in_order(clinics: Clinics) -> None:
    wait_counted(clinics, "clinic-c")
    for shift_s in (DAYS_S, -DAYS_S):
        restart(clinics, "clinic-c", shift_s)
        wait_counted(clinics, "clinic-c")
    entries = clinics.ledger("clinic-c")  # its chain is checked
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    releases = [entry for entry in entries if entry.kind == "release"]
    rounds = [int(entry.purpose.split(", ")[1].split()[1]) for entry in releases]
    assert all(before <= after for before, after in pairwise(rounds))
    times = [entry.recorded_at for entry in entries]
    assert times != sorted(times)  # the times that it notes are the node's own


def test_some_seconds_are_forgiven(clinics: Clinics) -> None:
    restart(clinics, "clinic-b", 3.0)

    def asked() -> bool:
        try:
            return "clinic-b" not in clinics.search(PARTY).missing_nodes
        except CloisterError:
            return False

    wait_until(asked, 20, what="a node that is some seconds ahead is refused")
