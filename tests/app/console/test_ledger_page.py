"""The ledger page: what ledgers hold, what it cost, what is left; exports that can be checked."""

from __future__ import annotations

import csv
import html
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from app.console.browser import Browser
from app.console.job_waiting import refused
from app.console.ledger_office import LedgerOffice
from cloister.app.console.console import make_console
from cloister.app.console.ledger_accounts import LEVELS, accounts_of
from cloister.app.console.ledger_charts import MOST_POINTS, spending_chart
from cloister.app.console.ledger_costs import LedgerCosts
from cloister.app.console.ledger_lines import KINDS, kind_of, parameters_of
from cloister.app.console.scene import Scene
from cloister.app.ledger_reading import read_ledger
from cloister.app.office import Office
from cloister.federate.engines.agreement import SitePrivacy
from cloister.privacy.ledger.entry import BEGINNING, Entry, entry_hash
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.outbox import FailedRelease, note_failure
from cloister.privacy.ledger.statement import overview
from cloister.privacy.level import Level
from cloister.privacy.release import BoundedRelease, Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease, LaplaceRelease
from cloister.privacy.releases.noisy_tables import NoisyTable, NoisyTablesRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.privacy.releases.tree import TreeRelease
from cloister.services.federation_folder import FederationFolder, FederationPlan
from services.processes import NODES, clicked_agreement, own_host

PRIVACY = SitePrivacy(epsilon=8.0, delta=1e-4, n_rounds=40, n_users=50)
ROUND = GaussianRelease(level=Level.USER, sigma=5.0, sensitivity=1.0, note="users stay hidden")
WORDS = LaplaceRelease(level=Level.DOCUMENT, scale=2.0, sensitivity=1.0)
ALL_KINDS: tuple[Release, ...] = (
    ROUND,
    DiscreteGaussianRelease(level=Level.USER, sigma=5.0, sensitivity=1.0),
    NoisyTablesRelease(level=Level.TOKEN, tables=(NoisyTable(name="a", sigma=3, n_moved=1),)),
    WORDS,
    DiscreteLaplaceRelease(level=Level.USER, scale=2.0, sensitivity=1),
    RandomisedResponseRelease(level=Level.INTERACTION, keep_probability=0.5, n_options=3),
    TreeRelease(level=Level.USER, sigma=6.0, sensitivity=1, n_rounds=8, n_contributions=1),
    BoundedRelease(level=Level.USER, epsilon=1.0, mechanism_name="by somebody"),
    UnprotectedRelease(level=Level.USER),
)


@pytest.fixture(scope="module")
def private_folder(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    agreed = clicked_agreement(name="pilot", privacy=PRIVACY, min_sites=3)
    plan = FederationPlan(nodes=NODES, agreement=agreed, host=own_host(), consent="test")
    return FederationFolder.make(tmp_path_factory.mktemp("ledger") / "federation", plan)


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[dict[str, Ledger]]:
    names = ("coordinator", *NODES)
    opened = {
        name: Ledger.open(str(tmp_path / f"{name}.db"), create=True) for name in names
    }  # fmt: skip
    yield opened
    for one in opened.values():
        one.close()


@pytest.fixture
def office(ledgers: dict[str, Ledger]) -> LedgerOffice:
    return LedgerOffice(ledgers)


@pytest.fixture
def ledger_scene(
    private_folder: FederationFolder, tmp_path: Path, office: LedgerOffice
) -> Iterator[Scene]:
    with Scene(private_folder, tmp_path / "home") as scene:
        scene.office.close()
        scene.office = cast(Office, office)
        yield scene


@pytest.fixture
def officer(ledger_scene: Scene) -> Browser:
    return Browser(make_console(ledger_scene))


def sent(ledger: Ledger, release: Release, *, party: str, to: str = "coordinator",
         purpose: str = "round 0") -> None:  # fmt: skip
    ledger.release(release, b"payload", party_id=party, recipient=to, purpose=purpose)


def seen(text: str) -> str:
    """Return a page's words, without tags and with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_empty_ledgers_are_said_to_be_empty(officer: Browser) -> None:
    page = officer.get("/ledger")
    assert page.status_code == 200
    assert "Nothing is recorded yet." in page.text
    assert "no round is recorded; 8 is agreed for 40 rounds" in seen(page.text)


def test_the_training_is_shown_beside_what_was_agreed(
    officer: Browser, ledgers: dict[str, Ledger]
) -> None:
    for _ in range(3):
        sent(ledgers["coordinator"], ROUND, party="pilot", to="readers")
    spent = overview(ledgers["coordinator"], delta=PRIVACY.delta).statements[0].real.epsilon
    words = seen(officer.get("/ledger").text)
    assert f"{spent:.4g} of 8 agreed, delta 0.0001; 3 of 40 rounds" in words
    assert f"{8 - spent:.4g} of the agreed" in words
    assert "by the ledger of" not in words


def test_a_failed_attempt_counts_for_the_training(
    officer: Browser, ledgers: dict[str, Ledger], ledger_scene: Scene
) -> None:
    """The coordinator knows finished rounds only; the node's ledger has the attempt besides."""
    sent(ledgers["clinic-a"], ROUND, party="clinic-a", purpose="pilot, round 0, attempt 0")
    spent = overview(ledgers["clinic-a"], delta=PRIVACY.delta).statements[0].real.epsilon
    assert f"{spent:.4g} of 8 agreed, delta 0.0001; 0 of 40 rounds; by" in seen(
        officer.get("/ledger").text
    )
    sent(ledgers["coordinator"], ROUND, party="pilot", to="readers")
    for node in NODES:
        sent(ledgers[node], ROUND, party=node, purpose="pilot, round 0, attempt 1")
    spent = overview(ledgers["clinic-a"], delta=PRIVACY.delta).statements[0].real.epsilon
    for purpose in ("votes in trial 1", "pilot-2, round 0, attempt 0"):
        sent(ledgers["clinic-a"], ROUND, party="clinic-a", purpose=purpose)
    sent(ledgers["clinic-a"], ROUND, party="clinic-a", to="x", purpose="pilot, round 9, attempt 0")
    words = seen(officer.get("/ledger").text)
    told = f"{spent:.4g} of 8 agreed, delta 0.0001; 1 of 40 rounds; by the ledger of clinic-a, "
    assert f"{told}which sent 2 sums: attempts that failed" in words
    assert f"{8 - spent:.4g} of the agreed, by the ledger of clinic-a" in words


def test_a_training_is_counted_where_the_coordinator_does_not_answer(
    private_folder: FederationFolder, tmp_path: Path, ledgers: dict[str, Ledger]
) -> None:
    sent(ledgers["clinic-b"], ROUND, party="clinic-b", purpose="pilot, round 0, attempt 0")
    with Scene(private_folder, tmp_path / "other") as scene:
        scene.office.close()
        nodes = {name: ledger for name, ledger in ledgers.items() if name != "coordinator"}
        scene.office = cast(Office, LedgerOffice(nodes))
        words = seen(Browser(make_console(scene)).get("/ledger").text)
    assert "of 8 agreed, delta 0.0001; rounds not seen" in words


def test_answers_to_searches_are_said_not_to_be_here(officer: Browser) -> None:
    words = seen(officer.get("/ledger").text)
    assert "Answers to searches go to those who may read them, and are not here." in words


def test_a_limit_and_what_is_left_of_it_come_from_the_ledger(
    officer: Browser, ledgers: dict[str, Ledger]
) -> None:
    ledger = ledgers["clinic-a"]
    ledger.set_limit("clinic-a", Limit(epsilon=3.0, delta=1e-5), purpose="by the board")
    sent(ledger, ROUND, party="clinic-a")
    account = overview(ledger).statements[0].limits[Level.USER]
    words = seen(officer.get("/ledger").text)
    assert f"1e-05 the limit's 3 {account.remains:.4g} of the limit" in words
    assert "limit epsilon 3 (delta 1e-05, level user)" in words
    assert '"name": "limit for clinic-a"' in officer.get("/ledger").text


def test_what_has_no_bound_is_said_in_words(
    officer: Browser, ledgers: dict[str, Ledger], ledger_scene: Scene
) -> None:
    ledger = ledgers["clinic-b"]
    sent(ledger, UnprotectedRelease(level=Level.USER), party="clinic-b")
    sent(ledger, ROUND, party="clinic-b")
    words = seen(officer.get("/ledger").text)
    assert "no bound 1 without protection; the others: " in words
    assert "nothing bounds what was spent by clinic-b" in words
    assert re.findall(r"\binf\b", words) == []


def test_each_level_that_releases_state_has_its_account(
    officer: Browser, ledgers: dict[str, Ledger], ledger_scene: Scene
) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a")
    sent(ledgers["clinic-a"], WORDS, party="clinic-a", to="broker", purpose="published")
    read = read_ledger(ledger_scene.office, "clinic-a")
    user, document = accounts_of([read], ledger_scene.folder.roster.agreement, LedgerCosts())
    assert (user.level, document.level) == (Level.USER, Level.DOCUMENT)
    assert (user.has_bound, user.n_smaller, user.n_unprotected) == (False, 1, 0)
    assert document.has_bound  # what hides a user hides each document
    assert LEVELS[Level.DOCUMENT] in seen(officer.get("/ledger").text)


def test_accounts_agree_with_the_ledgers_own_statements(
    ledgers: dict[str, Ledger], ledger_scene: Scene
) -> None:
    for release in (ROUND, ROUND, ALL_KINDS[4]):
        sent(ledgers["clinic-a"], release, party="clinic-a")
    sent(ledgers["clinic-a"], ALL_KINDS[7], party="clinic-a", to="broker")
    sent(ledgers["clinic-a"], ROUND.model_copy(update={"simulated": True}), party="clinic-a")
    read = read_ledger(ledger_scene.office, "clinic-a")
    account = accounts_of([read], ledger_scene.folder.roster.agreement, LedgerCosts())[0]
    stated = overview(ledgers["clinic-a"], delta=PRIVACY.delta).statements[0]
    assert account.epsilon == pytest.approx(stated.real.epsilon)
    assert account.epsilon_simulated == pytest.approx(stated.simulated.epsilon)
    assert (len(account.releases), account.n_simulated) == (4, 1)
    assert {
        one.name: (one.n_releases, pytest.approx(one.epsilon)) for one in account.recipients
    } == {name: tuple(spent) for name, spent in stated.recipients.items()}
    assert account.training is None


def test_a_release_that_failed_is_shown_with_its_reason(
    officer: Browser, ledgers: dict[str, Ledger]
) -> None:
    ledger = ledgers["clinic-a"]
    release = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0)
    receipt = ledger.release(release, b"x", party_id="clinic-a", recipient="broker", purpose="p")
    failed = FailedRelease(receipt.number, "2026-01-01T00:00:00+00:00", "refused by the broker")
    ledger.database.run(lambda connection: note_failure(connection, failed))
    text = officer.get("/ledger").text
    assert f"Entry {receipt.number} of clinic-a failed and stays charged: refused by the" in text


def test_simulated_releases_are_shown_apart(officer: Browser, ledgers: dict[str, Ledger]) -> None:
    sent(ledgers["clinic-a"], ROUND.model_copy(update={"simulated": True}), party="clinic-a")
    words = seen(officer.get("/ledger").text)
    assert "and 1 simulated, which protect nobody" in words
    assert "simulated: protects nobody" in words


def test_a_service_that_does_not_answer_is_named_and_the_rest_is_shown(
    private_folder: FederationFolder, tmp_path: Path, ledgers: dict[str, Ledger]
) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a", purpose="still here")
    with Scene(private_folder, tmp_path / "other") as scene:
        scene.office.close()
        del ledgers["clinic-c"]
        scene.office = cast(Office, LedgerOffice(ledgers))
        officer = Browser(make_console(scene))
        words = seen(officer.get("/ledger").text)
        assert "The ledger of clinic-c could not be read (no connection)" in words
        assert "not seen: clinic-c" in words
        assert "still here" in words
        assert officer.get("/ledger/export.json").json()["missing"] == {"clinic-c": "no connection"}
        lines = list(csv.DictReader(io.StringIO(officer.get("/ledger/export.csv").text)))
        assert [(one["service"], one["kind"]) for one in lines][-1] == ("clinic-c", "no answer")


def test_a_changed_entry_breaks_the_chain_on_the_page(
    officer: Browser, ledgers: dict[str, Ledger], office: LedgerOffice
) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a")
    assert "all hold" in seen(officer.get("/ledger").text)
    office.spoilt["clinic-a"] = {"recipient": "somebody else"}
    words = seen(officer.get("/ledger").text)
    assert "The chain of clinic-a is broken" in words
    assert "broken: clinic-a" in words


def test_a_ledger_of_another_version_does_not_take_the_page_away(
    officer: Browser, ledgers: dict[str, Ledger], office: LedgerOffice
) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a")
    sent(ledgers["clinic-b"], ROUND, party="clinic-b", purpose="still here")
    office.spoilt["clinic-a"] = {"body": '{"mechanism":"of tomorrow"}'}
    words = seen(officer.get("/ledger").text)
    assert "The ledger of clinic-a could not be read (not a release" in words
    assert "still here" in words


def test_entries_are_listed_newest_first_and_by_service(
    officer: Browser, ledgers: dict[str, Ledger]
) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a", purpose="the first")
    sent(ledgers["clinic-b"], ROUND, party="clinic-b", purpose="the second")
    both = officer.get("/ledger").text
    assert both.index("the second") < both.index("the first")
    assert "users stay hidden" in both
    alone = officer.get("/ledger?service=clinic-a").text
    assert "the first" in alone
    assert "the second" not in alone
    refused(officer.get("/ledger?service=clinic-z"), 404, "no such ledger", "clinic-a")
    refused(officer.get("/ledger?page=0"), 422, "page")


def test_long_ledgers_have_pages_and_lines_of_few_points(
    officer: Browser, ledgers: dict[str, Ledger], ledger_scene: Scene
) -> None:
    for number in range(105):
        sent(ledgers["clinic-a"], ROUND, party="clinic-a", purpose=f"round {number}.")
    first, last = officer.get("/ledger").text, officer.get("/ledger?page=2").text
    assert "Entries 1 to 100 of 105" in first
    assert ("round 104." in first, "round 4." in first) == (True, False)
    assert "Entries 101 to 105 of 105" in last
    assert "round 0." in last
    assert "page 2 of 2" in officer.get("/ledger?page=99").text
    read = read_ledger(ledger_scene.office, "clinic-a")
    costs = LedgerCosts()
    accounts = accounts_of([read], ledger_scene.folder.roster.agreement, costs)
    drawn = spending_chart(accounts, costs, patience_s=60)
    assert drawn.complete
    assert len(drawn.chart.series[0].x) == MOST_POINTS + 1  # and now
    assert drawn.chart.series[0].y[-1] == pytest.approx(accounts[0].epsilon)
    began = time.perf_counter()
    officer.get("/ledger")
    assert time.perf_counter() - began < 1.0  # 0.15 s on a quiet machine


def test_costs_of_the_past_may_take_several_views(
    officer: Browser, ledgers: dict[str, Ledger], ledger_scene: Scene
) -> None:
    for _ in range(4):
        sent(ledgers["clinic-a"], ALL_KINDS[4], party="clinic-a")
    read = read_ledger(ledger_scene.office, "clinic-a")
    costs = LedgerCosts()
    accounts = accounts_of([read], ledger_scene.folder.roster.agreement, costs)
    drawn = spending_chart(accounts, costs, patience_s=0)
    assert (drawn.n_known, drawn.n_points, drawn.complete) == (1, 4, False)
    assert spending_chart(accounts, costs, patience_s=60).complete
    assert spending_chart(accounts, costs, patience_s=0).complete
    part = officer.get("/ledger/spending")
    assert part.status_code == 200
    assert ("data-live-end" in part.text) != ("are being worked out" in part.text)


def test_exported_chains_can_be_checked_elsewhere(
    officer: Browser, ledgers: dict[str, Ledger]
) -> None:
    for release in ALL_KINDS:
        sent(ledgers["clinic-a"], release, party="clinic-a")
    answer = officer.get("/ledger/export.json")
    assert "attachment" in answer.headers["content-disposition"]
    exported = {one["service"]: one for one in answer.json()["ledgers"]}
    assert set(exported) == {"coordinator", *NODES}
    previous = BEGINNING
    for fields in exported["clinic-a"]["entries"]:
        entry = Entry(**fields)
        assert (entry.previous, entry_hash(entry)) == (previous, entry.hash)
        previous = entry.hash
    assert exported["clinic-a"]["head"] == {"number": len(ALL_KINDS), "hash": previous}
    alone = officer.get("/ledger/export.json?service=clinic-b").json()
    assert [one["service"] for one in alone["ledgers"]] == ["clinic-b"]


def test_exported_cells_are_no_formulas(officer: Browser, ledgers: dict[str, Ledger]) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a", purpose="=cmd|' /C calc'!A0")
    answer = officer.get("/ledger/export.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    (line,) = csv.DictReader(io.StringIO(answer.text))
    assert line["purpose"] == "'=cmd|' /C calc'!A0"
    assert (line["service"], line["mechanism"], line["level"]) == ("clinic-a", "gaussian", "user")
    assert line["hash"] == ledgers["clinic-a"].head().hash


def test_markup_in_an_entry_is_shown_as_text(officer: Browser, ledgers: dict[str, Ledger]) -> None:
    sent(ledgers["clinic-a"], ROUND, party="clinic-a", to="<script>", purpose="<b>&</script>")
    text = officer.get("/ledger").text
    assert "<script>alert" not in text
    assert "&lt;b&gt;&amp;&lt;/script&gt;" in text
    assert '"to <script>"' not in text


@pytest.mark.parametrize("release", ALL_KINDS, ids=lambda one: str(one.mechanism))
def test_every_kind_of_release_is_told_in_words(release: Any) -> None:
    assert kind_of(release) in KINDS.values()
    assert parameters_of(release)
