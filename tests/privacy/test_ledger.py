"""Recording, refusing, delivering and accounting, on both databases."""

from __future__ import annotations

import hashlib
import math
import sqlite3
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded, NotFound, SettingsError, StoreError
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.filters import charge_of
from cloister.privacy.ledger import writing
from cloister.privacy.ledger.entry import BEGINNING, Head
from cloister.privacy.ledger.history import history
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.statement import overview
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.store import Database, KeyedState
from store import conftest as databases

server = databases.server
address = databases.address

NOISY = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0)
TOKEN = LaplaceRelease(level="token", scale=10.0, sensitivity=1.0)
TO_HUB = {"party_id": "clinic", "recipient": "hub", "purpose": "test"}


@pytest.fixture
def ledger(address: str) -> Iterator[Ledger]:
    with Ledger.open(address) as opened:
        yield opened


def record(ledger: Ledger, release: Release, n: int = 1, **changes: str) -> None:
    """Record equal releases in one transaction: a commit each would take a test's time."""

    def work(connection: sa.Connection) -> None:
        for _ in range(n):
            ledger.release_in(connection, release, b"", **(TO_HUB | changes))

    ledger.database.run(work)


def test_a_release_is_recorded_with_all_that_it_states(address: str) -> None:
    in_vienna = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    release = NOISY.model_copy(update={"note": "Zürich\x00\x1f"})
    with Database.open(address) as database:
        ledger = Ledger(database, clock=lambda: in_vienna)
        receipt = ledger.release(
            release, b"\x00payload", party_id="klinik-ä", recipient="hub", purpose="Zweck: ß"
        )
        (entry,) = ledger.entries()
    assert entry.release == release
    assert (entry.party_id, entry.recipient, entry.purpose) == ("klinik-ä", "hub", "Zweck: ß")
    assert entry.recorded_at == "2026-01-02T02:04:05.000000+00:00"
    assert entry.payload_sha256 == hashlib.sha256(b"\x00payload").hexdigest()
    assert entry.size_bytes == 8
    assert entry.previous == BEGINNING
    assert receipt == entry.receipt()


def test_what_is_pending_is_sent_as_it_was_until_it_is_delivered(ledger: Ledger) -> None:
    one = ledger.release(NOISY, b"one", **TO_HUB)
    two = ledger.release(NOISY, b"two", **(TO_HUB | {"recipient": "other"}))
    assert [entry.number for entry in ledger.pending()] == [one.number, two.number]
    assert [entry.number for entry in ledger.pending(recipient="other")] == [two.number]
    assert ledger.pending(party_id="nobody") == []
    assert ledger.payload(one.number) == ledger.payload(one.number) == b"one"
    ledger.delivered(one.number)
    ledger.delivered(one.number)  # said twice, as after a crash
    assert [entry.number for entry in ledger.pending()] == [two.number]
    with pytest.raises(NotFound, match="no payload is waiting"):
        ledger.payload(one.number)
    with pytest.raises(NotFound, match="no release with this number"):
        ledger.delivered(99)
    assert ledger.entries()[0].payload_sha256 == one.payload_sha256


def test_a_failed_delivery_stays_pending_and_the_rest_with_it(ledger: Ledger) -> None:
    for content in (b"a", b"b", b"c"):
        ledger.release(NOISY, content, **TO_HUB)
    arrived: list[bytes] = []

    def send(_entry: object, payload: bytes) -> None:
        if payload == b"b" and len(arrived) == 1:
            arrived.append(b"?")
            raise ConnectionError("the line is down")
        arrived.append(payload)

    with pytest.raises(ConnectionError):
        ledger.deliver(send)
    assert ledger.deliver(send) == 2
    assert arrived == [b"a", b"?", b"b", b"c"]
    assert ledger.pending() == []


def test_a_payload_function_stores_its_state_with_the_release_or_not_at_all(
    ledger: Ledger,
) -> None:
    ledger.database.migrate(KeyedState.schema)
    ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")
    state = KeyedState("rounds")
    calls: list[int] = []

    def draw(connection: sa.Connection) -> bytes:
        calls.append(1)
        state.put(connection, "round", len(calls))
        return b"payload"

    ledger.release(NOISY, draw, **TO_HUB)
    with pytest.raises(BudgetExceeded):
        ledger.release(NOISY, draw, **TO_HUB)
    assert len(calls) == 1  # refused before anything was drawn
    with ledger.database.reading() as connection:
        entry = state.get(connection, "round")
    assert entry is not None
    assert entry.value == 1


def test_a_payload_function_cannot_release_past_the_limit(ledger: Ledger) -> None:
    ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")

    def draw(connection: sa.Connection) -> bytes:
        ledger.release_in(connection, NOISY, b"inner", **TO_HUB)
        return b"outer"

    with pytest.raises(BudgetExceeded):
        ledger.release(NOISY, draw, **TO_HUB)
    assert ledger.pending() == []


def test_a_release_over_the_limit_is_refused_and_leaves_no_trace(ledger: Ledger) -> None:
    ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="pilot")
    ledger.release(NOISY, b"one", **TO_HUB)
    head = ledger.head()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.release(NOISY, b"two", **TO_HUB)
    decides = Limit(epsilon=3.0, delta=1e-6).filter
    charge = charge_of(NOISY, Level.USER, decides.order)
    one, two = (decides.spent(charge.times(n)) for n in (1, 2))
    message = str(caught.value)
    assert f'party "clinic" has spent epsilon {one:.6g} of 3' in message
    assert f"would bring it to {two:.6g}" in message
    assert "cloister ledger limit clinic" in message
    assert ledger.head() == head
    assert len(ledger.pending()) == 1
    raised = Limit(epsilon=two + 1e-9, delta=1e-6, order=decides.order)
    ledger.set_limit("clinic", raised, purpose="raised")
    ledger.release(NOISY, b"two", **TO_HUB)
    (statement,) = overview(ledger).statements
    account = statement.limits[Level.USER]
    assert account.epsilon == pytest.approx(two)
    assert account.used == pytest.approx(1.0)
    assert account.epsilon_report == composed_epsilon(losses_of([NOISY] * 2), 1e-6).epsilon < two


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (UnprotectedRelease(level="user"), "not protected"),
        (TOKEN, "protects one token and says nothing of a user"),
    ],
)
def test_what_has_no_finite_cost_is_refused_by_any_limit(
    ledger: Ledger, release: Release, said: str
) -> None:
    ledger.set_limit("clinic", Limit(epsilon=1e9, delta=0.1), purpose="test")
    with pytest.raises(BudgetExceeded, match=said):
        ledger.release(release, b"", **TO_HUB)
    grouped = TOKEN.model_copy(update={"group_sizes": {Level.USER: 30}})
    ledger.release(grouped, b"", **TO_HUB)
    assert ledger.cost("clinic", delta=1e-12).epsilon == pytest.approx(3.0, abs=1e-6)


def test_a_limit_of_a_smaller_unit_lets_its_protection_pass(ledger: Ledger) -> None:
    ledger.set_limit("clinic", Limit(epsilon=1.0, delta=1e-6, level="token"), purpose="test")
    ledger.release(TOKEN, b"", **TO_HUB)
    assert ledger.cost("clinic", delta=1e-6, level="token").epsilon == pytest.approx(0.1, abs=1e-4)
    assert ledger.cost("clinic", delta=1e-6).epsilon == math.inf


def test_limits_are_of_one_party_and_their_history_is_kept(ledger: Ledger) -> None:
    tight, wide = Limit(epsilon=0.0, delta=1e-6), Limit(epsilon=9.0, delta=1e-5)
    assert ledger.limit("clinic") is None
    ledger.set_limit("clinic", tight, purpose="closed")
    ledger.release(NOISY, b"", **(TO_HUB | {"party_id": "other"}))
    with pytest.raises(BudgetExceeded):
        ledger.release(NOISY, b"", **TO_HUB)
    ledger.set_limit("clinic", wide, purpose="open")
    assert ledger.limit("clinic") == wide.fixed()
    ledger.set_limit("clinic", None, purpose="none wanted")
    assert ledger.limit("clinic") is None
    ledger.release(UnprotectedRelease(level="user"), b"", **TO_HUB)
    changes = [entry for entry in ledger.entries(party_id="clinic") if entry.kind == "limit"]
    assert [entry.limit for entry in changes] == [tight.fixed(), wide.fixed(), None]
    assert [entry.purpose for entry in changes] == ["closed", "open", "none wanted"]


def test_a_ledger_may_ask_for_limits(address: str) -> None:
    with Ledger.open(address, require_limit=True) as ledger:
        with pytest.raises(NotFound, match=r'"clinic".* cloister ledger limit'):
            ledger.release(NOISY, b"", **TO_HUB)
        ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")
        ledger.release(NOISY, b"", **TO_HUB)


def test_a_party_is_known_by_its_limits_and_not_by_its_releases(address: str) -> None:
    simulated = NOISY.model_copy(update={"simulated": True})
    with Ledger.open(address) as ledger:  # as version 0.1.0 and libraries release
        ledger.release(NOISY, b"", **TO_HUB)
        ledger.release(simulated, b"", **TO_HUB)
    with Ledger.open(address, require_limit=True) as ledger:
        for release in (NOISY, simulated, UnprotectedRelease(level="user")):
            with pytest.raises(NotFound, match="nobody has set a limit"):
                ledger.release(release, b"", **TO_HUB)
        ledger.set_limit("clinic", None, purpose="none wanted")
        ledger.release(simulated, b"", **TO_HUB)
        ledger.release(NOISY, b"", **TO_HUB)


def test_a_release_can_be_checked_against_the_limit_without_a_trace(address: str) -> None:
    with Ledger.open(address, require_limit=True) as ledger:
        with pytest.raises(NotFound, match="nobody has set a limit"):
            ledger.check(NOISY, **TO_HUB)
        ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")
        ledger.check(NOISY, **TO_HUB)
        ledger.release(NOISY, b"", **TO_HUB)
        head = ledger.head()
        with pytest.raises(BudgetExceeded, match="has spent"):
            ledger.check(NOISY, **TO_HUB)
        assert ledger.head() == head


def test_simulated_releases_are_accounted_and_limited_apart(ledger: Ledger) -> None:
    simulated = NOISY.model_copy(update={"simulated": True})
    ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")
    ledger.release(NOISY, b"", **TO_HUB)
    ledger.release(simulated, b"", **TO_HUB)
    with pytest.raises(BudgetExceeded, match="in simulated releases"):
        ledger.release(simulated, b"", **TO_HUB)
    (statement,) = overview(ledger).statements
    assert statement.real == statement.simulated
    assert statement.real.n_releases == 1


def test_recipients_apart_cost_less_than_together(ledger: Ledger) -> None:
    record(ledger, NOISY, 3)
    record(ledger, NOISY, 1, recipient="university")
    (statement,) = overview(ledger, delta=1e-5).statements
    for name, n in {"hub": 3, "university": 1}.items():
        exact = composed_epsilon(losses_of([NOISY] * n), 1e-5).epsilon
        assert statement.recipients[name] == (n, exact)
        assert ledger.cost("clinic", delta=1e-5, recipient=name).epsilon == exact
    together = composed_epsilon(losses_of([NOISY] * 4), 1e-5).epsilon
    assert statement.real.epsilon == together > statement.recipients["hub"].epsilon


def test_claims_stand_beside_what_holds(ledger: Ledger) -> None:
    claimed = LaplaceRelease(level="user", scale=1.0, sensitivity=30.5, claimed_epsilon=4.5)
    record(ledger, claimed, 2)
    record(ledger, claimed, 1, recipient="university")
    record(ledger, NOISY)
    ((claim,),) = (statement.claims for statement in overview(ledger).statements)
    assert (claim.mechanism, claim.n_releases, claim.claimed_epsilon) == ("laplace", 3, 4.5)
    assert claim.one_epsilon == pytest.approx(30.5, abs=1e-3)
    assert claim.all_epsilon == composed_epsilon(losses_of([claimed] * 3), 1e-6).epsilon


def test_a_statement_speaks_of_the_limits_own_delta_and_level(ledger: Ledger) -> None:
    ledger.set_limit("clinic", Limit(epsilon=5, delta=1e-4, level="token"), purpose="test")
    record(ledger, NOISY)
    record(ledger, NOISY, party_id="other")
    first, second = overview(ledger).statements
    assert (first.delta, first.level) == (1e-4, Level.TOKEN)
    assert (second.delta, second.level, second.limit) == (1e-6, Level.USER, None)
    (asked,) = overview(ledger, party_id="clinic", delta=1e-5, level="user").statements
    assert (asked.delta, asked.level) == (1e-5, Level.USER)
    assert asked.neighbours == ("add-remove",)
    with pytest.raises(NotFound, match="no such party"):
        overview(ledger, party_id="nobody")


def test_the_history_grows_day_by_day(tmp_path: Path) -> None:
    times = [datetime(2026, 1, day, 12, tzinfo=UTC) for day in (1, 1, 2, 5, 6)]
    simulated = NOISY.model_copy(update={"simulated": True})
    with Database.open(tmp_path / "ledger.db") as database:
        ledger = Ledger(database, clock=iter(times).__next__)
        for release in (NOISY, NOISY, NOISY, simulated, NOISY):
            record(ledger, release)
        days = history(ledger, "clinic", delta=1e-6)
    assert [(day.date, day.n_releases) for day in days] == [
        ("2026-01-01", 2),
        ("2026-01-02", 3),
        ("2026-01-06", 4),
    ]
    for day in days:
        losses = losses_of([NOISY] * day.n_releases)
        assert day.epsilon == composed_epsilon(losses, 1e-6, method="rdp").epsilon


@pytest.mark.parametrize(
    ("sampling_rate", "sigma", "n_rounds", "rdp", "pld"),
    [(0.01, 1.0, 1000, 2.4367, 2.1245), (0.1, 2.0, 500, 6.6793, 6.2167)],
)
def test_the_ledger_agrees_with_the_oracle_values(
    tmp_path: Path, sampling_rate: float, sigma: float, n_rounds: int, rdp: float, pld: float
) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for round_ in range(n_rounds // 100):
            release = GaussianRelease(
                level="user",
                sigma=sigma,
                sensitivity=1.0,
                sampling_rate=sampling_rate,
                note=f"rounds of {round_}",  # notes differ, the cost does not
            )
            record(ledger, release, 100)
        assert ledger.cost("clinic", delta=1e-6, method="rdp").epsilon == pytest.approx(
            rdp, abs=1e-3
        )
        assert ledger.cost("clinic", delta=1e-6, method="pld").epsilon == pytest.approx(
            pld, abs=1e-3
        )
        assert ledger.cost("clinic", delta=1e-6).epsilon == pytest.approx(pld, abs=1e-3)


def test_many_answers_of_one_message_are_counted_not_listed(tmp_path: Path) -> None:
    answers = RandomisedResponseRelease(
        level="interaction",
        keep_probability=0.5,
        n_options=2 + 9,
        n_answers=4,
        group_sizes={"user": 10**9},
    )
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        record(ledger, answers, 2)
        exact = 8 * math.log(0.5 * 10 / 0.5)
        cost = ledger.cost("clinic", delta=1e-15, level="interaction").epsilon
        assert cost == pytest.approx(exact, abs=2e-3)
        assert ledger.cost("clinic", delta=1e-6).epsilon > 1e9


@pytest.mark.parametrize(
    "wrong",
    [
        {"party_id": ""},
        {"party_id": "two words"},
        {"party_id": "\ud800"},
        {"recipient": "a\nb"},
        {"recipient": "x" * 513},
        {"purpose": "x" * 1001},
        {"purpose": "a\x00b"},
        {"purpose": "\ud800"},
    ],
)
def test_names_that_a_database_could_not_keep_are_refused(
    ledger: Ledger, wrong: dict[str, str]
) -> None:
    with pytest.raises(SettingsError):
        ledger.release(NOISY, b"", **(TO_HUB | wrong))
    assert ledger.head() == Head(0, BEGINNING)


def test_long_names_and_large_payloads_are_kept(ledger: Ledger) -> None:
    long = {"party_id": "ä" * 512, "recipient": "ö" * 512, "purpose": "ü" * 1000}
    payload = bytes(range(256)) * 20_000
    release = NOISY.model_copy(update={"note": "€" * 1000})
    receipt = ledger.release(release, payload, **long)
    ledger.release(release, payload, **long)
    assert ledger.payload(receipt.number) == payload
    assert ledger.cost(long["party_id"], delta=1e-6).epsilon > 3


def test_a_missing_ledger_is_an_error_and_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no ledger here"):
        Ledger.open(tmp_path / "ledger.db", create=False)
    assert not (tmp_path / "ledger.db").exists()
    Database.open(tmp_path / "other.db").close()
    with pytest.raises(NotFound, match="no ledger in this database"):
        Ledger.open(tmp_path / "other.db", create=False)


def test_times_are_of_the_clock_in_utc(ledger: Ledger) -> None:
    before = datetime.now(UTC)
    ledger.release(NOISY, b"", **TO_HUB)
    recorded = datetime.fromisoformat(ledger.entries()[0].recorded_at)
    assert before <= recorded <= datetime.now(UTC)


# --- limits are checked before the transaction, and in it


def test_an_account_that_changed_meanwhile_is_checked_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.set_limit("clinic", Limit(epsilon=3.0, delta=1e-6), purpose="test")
    works: list[Callable[[], object]] = [lambda: record(ledger, NOISY)]
    true_check = writing.refuse_beyond

    def check(*args: object) -> None:
        true_check(*args)  # type: ignore[arg-type]
        if works:
            works.pop()()  # while the first check is being made

    monkeypatch.setattr(writing, "refuse_beyond", check)
    with pytest.raises(BudgetExceeded):
        ledger.release(NOISY, b"second", **TO_HUB)
    assert len(ledger.pending()) == 1


def test_writing_inside_a_payload_function_is_refused_at_once(ledger: Ledger, address: str) -> None:
    waiting = ledger.release(NOISY, b"", **TO_HUB).number
    with Ledger.open(address) as same:
        for work in (
            lambda: ledger.release(NOISY, b"", **TO_HUB),
            lambda: same.release(NOISY, b"", **TO_HUB),
            lambda: ledger.set_limit("clinic", None, purpose="test"),
            lambda: ledger.delivered(waiting),
        ):

            def draw(_connection: sa.Connection, work: Callable[[], object] = work) -> bytes:
                work()
                return b""

            with pytest.raises(StoreError, match=r"middle of a release.* use release_in"):
                ledger.release(NOISY, draw, **TO_HUB)
    assert [entry.number for entry in ledger.pending()] == [waiting]
    ledger.release(NOISY, b"", **TO_HUB)  # and the next one passes


@pytest.mark.parametrize(
    "payload", [bytearray(b"abcdefgh"), memoryview(array("I", b"abcdefgh")), b"abcdefgh"]
)
def test_any_object_that_holds_bytes_is_a_payload(ledger: Ledger, payload: bytearray) -> None:
    receipt = ledger.release(NOISY, payload, **TO_HUB)
    drawn = ledger.release(NOISY, lambda _: payload, **TO_HUB)  # type: ignore[arg-type, return-value]
    assert ledger.payload(receipt.number) == ledger.payload(drawn.number) == b"abcdefgh"
    assert receipt.size_bytes == drawn.size_bytes == 8


@pytest.mark.parametrize("payload", ["text", None, 5, lambda _: "text"])
def test_what_holds_no_bytes_is_no_payload(ledger: Ledger, payload: bytes) -> None:
    with pytest.raises(SettingsError, match="payload: bytes are needed"):
        ledger.release(NOISY, payload, **TO_HUB)
    assert ledger.head().number == 0


# --- looking changes nothing


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_a_foreign_database_is_not_changed_by_a_look(tmp_path: Path, journal_mode: str) -> None:
    path = tmp_path / "a file?.db"
    foreign = sqlite3.connect(path)
    foreign.execute(f"PRAGMA journal_mode = {journal_mode}")
    foreign.execute("CREATE TABLE visit (place TEXT)")
    foreign.commit()
    foreign.close()
    before = content_of(tmp_path)
    for look in (lambda: Ledger.open(path, create=False), lambda: Ledger.reading(path).__enter__()):
        with pytest.raises(NotFound, match="no ledger in this database"):
            look()
    assert content_of(tmp_path) == before


@pytest.mark.parametrize("create", [True, False])
def test_tables_of_somebody_else_are_not_taken_for_a_ledger(tmp_path: Path, create: bool) -> None:
    foreign = sqlite3.connect(tmp_path / "x.db")
    foreign.execute("CREATE TABLE cloister_ledger_entry (number INTEGER, hash TEXT)")
    foreign.commit()
    foreign.close()
    before = content_of(tmp_path)
    with pytest.raises(StoreError, match="other columns than a ledger's"):
        Ledger.open(tmp_path / "x.db", create=create)
    assert content_of(tmp_path) == before


def test_a_ledger_that_may_only_be_read_is_read_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.release(NOISY, b"x", **TO_HUB)
    before = content_of(tmp_path)
    monkeypatch.setattr("os.access", lambda *_: False)
    with Ledger.reading(path) as seen:
        assert [entry.party_id for entry in seen.entries()] == ["clinic"]
        with pytest.raises(StoreError, match="read-only"):
            seen.release(NOISY, b"y", **TO_HUB)
    assert content_of(tmp_path) == before
    with Ledger.open(path) as writer:  # beside a writer, of whom it sees each commit
        writer.release(NOISY, b"y", **TO_HUB)
        with Ledger.reading(path) as seen:
            assert len(seen.entries()) == 2
            writer.release(NOISY, b"z", **TO_HUB)
            assert len(seen.entries()) == 3


def test_a_ledger_that_changes_while_it_is_read_as_it_lies_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.release(NOISY, b"x", **TO_HUB)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(StoreError, match="changed while it was read"), Ledger.reading(path):  # noqa: SIM117
        with Ledger.open(path) as writer:
            writer.release(NOISY, b"y", **TO_HUB)
