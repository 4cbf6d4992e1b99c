"""``cloister ledger`` as a privacy officer uses it."""

from __future__ import annotations

import csv
import errno
import json
import os
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.outcome import Run
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.release import UnprotectedRelease
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.laplace import LaplaceRelease

NOISY = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0)
CLAIMED = LaplaceRelease(
    level="user", scale=1.0, sensitivity=30.5, claimed_epsilon=4.5, simulated=True
)


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with three parties, in the place that the environment names."""
    path = str(tmp_path / "ledger.db")
    monkeypatch.setenv("CLOISTER_LEDGER", path)
    with Ledger.open(path) as ledger:
        ledger.set_limit("clinic", Limit(epsilon=5.0, delta=1e-5), purpose="pilot")
        first = ledger.release(NOISY, b"1", party_id="clinic", recipient="hub", purpose="one")
        ledger.release(NOISY, b"2", party_id="clinic", recipient="uni", purpose="two")
        ledger.release(CLAIMED, b"3", party_id="lab", recipient="hub", purpose="a run")
        ledger.release(
            UnprotectedRelease(level="user"), b"4", party_id="open", recipient="hub", purpose="all"
        )
        ledger.delivered(first.number)
    return path


def test_show_gives_the_figures_by_party(call: Run, address: str) -> None:
    shown = call("ledger", "show", "--json").json
    epsilon = composed_epsilon(losses_of([NOISY] * 2), 1e-5).epsilon
    assert shown["releases"] == {"clinic": 2, "lab": 0, "open": 1}
    assert shown["epsilon"] == {"clinic": epsilon, "lab": 0.0, "open": None}
    assert shown["unbounded"] == ["open"]
    assert shown["delta"] == {"clinic": 1e-5, "lab": 1e-6, "open": 1e-6}
    assert shown["limit"] == {"clinic": 5.0, "lab": None, "open": None}
    assert shown["pending"] == 3
    clinic, lab = shown["parties"]["clinic"], shown["parties"]["lab"]
    limited = clinic["limits"]["user"]
    assert limited["epsilon_report"] == epsilon < limited["epsilon_filter"] < 5.0
    assert clinic["remains"] == limited["remains"] == 5.0 - limited["epsilon_filter"]
    assert 0 < limited["used"] < 1
    assert set(clinic["recipients"]) == {"hub", "uni"}
    assert lab["simulated"]["releases"] == 1
    assert lab["claims"][0]["claimed_epsilon"] == 4.5
    assert lab["claims"][0]["epsilon_of_one"] == pytest.approx(30.5, abs=1e-3)
    with Ledger.open(address, create=False) as ledger:
        assert shown["head"] == ledger.head()._asdict()


def test_show_tells_people_the_same(call: Run, address: str) -> None:
    outcome = call("ledger", "show")
    assert outcome.code == 0
    for words in ("No limit is set for: lab, open", "no bound", "protect", "claimed", "head: "):
        assert words in outcome.out


def test_show_takes_a_party_a_delta_and_a_level(call: Run, address: str) -> None:
    arguments = ("--party", "clinic", "--delta", "1e-3", "--level", "token", "--ledger", address)
    shown = call("ledger", "show", *arguments, "--json").json
    epsilon = composed_epsilon(losses_of([NOISY] * 2, Level.TOKEN), 1e-3).epsilon
    assert shown["epsilon"] == {"clinic": epsilon}
    assert shown["parties"]["clinic"]["level"] == "token"
    assert [day["releases"] for day in shown["days"]][-1] == 2
    assert "by the filter" in call("ledger", "show", *arguments).out  # the limit is for users


def test_check_passes_names_damage_and_knows_a_head(call: Run, address: str) -> None:
    checked = call("ledger", "check", "--json")
    assert checked.code == 0
    assert checked.json["entries"] == 5
    assert set(checked.json) >= {"releases", "epsilon", "delta", "limit"}
    head = checked.json["head"]["hash"]
    assert "does not show" in call("ledger", "check").out
    assert call("ledger", "check", "--head", head).code == 0
    assert call("ledger", "check", "--head", "f" * 64).code == 1
    with Ledger.open(address) as ledger, ledger.database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE cloister_ledger_entry SET purpose = 'x' WHERE number = 3")
        )
    broken = call("ledger", "check", "--json")
    assert broken.code == 1
    assert broken.json["error"] == "ledger entry 3: the entry was changed: its hash does not fit"
    assert "backup" in broken.json["remedy"]


def test_a_party_beyond_its_limit_fails_the_check(call: Run, address: str) -> None:
    lowered = call("ledger", "limit", "clinic", "--epsilon", "0.5", "--purpose", "stop")
    assert "every further release is refused" in lowered.out
    assert "beyond its limit" in call("ledger", "check").err
    assert call("ledger", "check").code == 1


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_export_writes_a_file_without_payloads(
    call: Run, address: str, tmp_path: Path, file_format: str
) -> None:
    out = tmp_path / f"out.{file_format}"
    result = call("ledger", "export", "--format", file_format, str(out), "--json").json
    assert result["entries"] == 5
    assert set(result) >= {"releases", "epsilon", "delta", "limit"}
    text = out.read_text()
    if file_format == "json":
        assert len(json.loads(text)["entries"]) == 5
    else:
        assert len(text.splitlines()) == 6
    assert call("ledger", "export", str(tmp_path / "no" / "out")).code == 2


def test_an_export_replaces_an_earlier_export_when_told_so_and_nothing_else(
    call: Run, address: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out.json")
    for file_format in ("json", "csv"):
        call("ledger", "export", out, "--format", file_format, "--force")
        assert call("ledger", "export", out).code == 2
    before = Path(address).read_bytes()
    (tmp_path / "link.db").symlink_to(address)
    (tmp_path / "key").write_bytes(b"secret")
    for file in (address, str(tmp_path / "link.db"), str(tmp_path / "key")):
        for more in ((), ("--force",)):
            assert call("ledger", "export", file, *more).code == 2
    assert Path(address).read_bytes() == before
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert call("ledger", "check").code == 0


def test_a_limit_is_set_recorded_and_taken_away(call: Run, tmp_path: Path) -> None:
    at = ("--ledger", str(tmp_path / "new" / "ledger.db"))
    assert call("ledger", "limit", "clinic", "--epsilon", "2", *at).code == 2
    assert not (tmp_path / "new").exists()
    made = call("ledger", "limit", "clinic", "--epsilon", "2", "--delta", "1e-7", "--new", *at)
    assert made.code == 0
    with Ledger.open(at[1], create=False) as ledger:
        assert ledger.limit("clinic") == Limit(epsilon=2, delta=1e-7).fixed()
    gone = call("ledger", "limit", "clinic", "--epsilon", "none", "--json", *at)
    assert gone.json["limit"] == {"clinic": None}
    with Ledger.open(at[1], create=False) as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["limit", "limit"]
        assert "nothing" not in call("ledger", "show", *at).out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "--delta", "2"), 2, "between 0 and 1"),
        (("show", "--delta", "nan"), 2, "not a finite number"),
        (("show", "--level", "person"), 2, "user"),
        (("show", "--party", "nobody"), 2, "known: clinic, lab, open"),
        (("show", "--ledger", "/no/such.db"), 2, "there is no ledger here"),
        (("show", "--ledger", "mysql://x/y"), 2, "not known"),
        (("export",), 2, "OUT"),
        (("export", "--format", "xml", "x"), 2, "xml"),
        (("limit", "nosuch", "--epsilon", "3"), 2, "limits for: clinic"),
        (("limit", "lab", "--epsilon", "3"), 2, "limits for: clinic"),  # it has only released
        (("limit", "clinic"), 2, "--epsilon"),
        (("limit", "clinic", "--epsilon", "-1"), 2, "at least 0"),
        (("limit", "clinic", "--epsilon", "much"), 2, "at least 0"),
        (("limit", "clinic", "--epsilon", "nan"), 2, "at least 0"),
        (("limit", "two words", "--epsilon", "1"), 2, "an id has"),
        (("limit", "clinic", "--epsilon", "1", "--purpose", "a\nb"), 2, "printable"),
        (("show", "--party", "two words"), 2, "an id has"),
        (("limit", "clinic", "--epsilon", "1", "--delta", "1"), 2, "between 0 and 1"),
    ],
)
def test_wrong_input_is_answered_plainly(
    call: Run, address: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    outcome = call("ledger", *arguments)
    assert outcome.code == code
    assert said in outcome.err
    assert "Traceback" not in outcome.err
    assert set(call("ledger", *arguments, "--json").json) == {"error", "remedy"}


def test_a_file_that_is_no_ledger_is_said_to_be_none(call: Run, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but a text that is longer than a header\n" * 100)
    outcome = call("ledger", "show", "--ledger", str(text))
    assert outcome.code == 1
    assert "no SQLite database" in outcome.err


def test_without_a_choice_the_ledger_is_in_the_users_data_folder(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOISTER_LEDGER", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert str(tmp_path / "cloister" / "ledger.db") in call("ledger", "show").err


@pytest.mark.parametrize("wrong", [("two words",), ("clinic", "--purpose", "a\nb")])
def test_a_limit_that_cannot_be_recorded_leaves_nothing_behind(
    call: Run, tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    at = ("--epsilon", "1", "--new", "--ledger", str(tmp_path / "new" / "ledger.db"))
    assert call("ledger", "limit", *wrong, *at).code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_without_limits_is_made_by_asking_for_none(call: Run, tmp_path: Path) -> None:
    at = ("--ledger", str(tmp_path / "ledger.db"))
    made = call("ledger", "limit", "clinic", "--epsilon", "none", "--new", *at)
    assert made.code == 0
    assert "clinic, user: no limit" in made.out
    assert call("ledger", "show", "--json", *at).json["limit"] == {"clinic": None}


@pytest.mark.parametrize(
    ("table", "said"),
    [("visit (place TEXT)", "no ledger in"), ("cloister_ledger_entry (x TEXT)", "other columns")],
)
@pytest.mark.parametrize("command", ["show", "check", "export", "limit"])
def test_a_foreign_database_is_left_as_it_was(
    call: Run, tmp_path: Path, table: str, said: str, command: str
) -> None:
    path = tmp_path / "foreign.db"
    foreign = sqlite3.connect(path)
    foreign.execute(f"CREATE TABLE {table}")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()
    more = {"export": (str(tmp_path / "out"),), "limit": ("clinic", "--epsilon", "1")}
    outcome = call("ledger", command, *more.get(command, ()), "--ledger", str(path))
    assert outcome.code == (1 if said == "other columns" else 2)
    assert said in outcome.err
    assert "cloister ledger limit PARTY" in outcome.err or said == "other columns"
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.db"]
    assert path.read_bytes() == before


def test_a_text_that_looks_like_a_formula_is_none_in_csv(call: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    formula = "=HYPERLINK(A1)"
    with Ledger.open(path) as ledger:
        ledger.release(NOISY, b"1", party_id="+49", recipient="@hub", purpose=formula)
    out = tmp_path / "out.csv"
    call("ledger", "export", "--format", "csv", str(out), "--ledger", path)
    with out.open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["party_id"], row["recipient"], row["purpose"]) == ("'+49", "'@hub", f"'{formula}")
    assert (row["number"], row["kind"]) == ("1", "release")
    call("ledger", "export", str(out), "--ledger", path, "--force")
    (entry,) = json.loads(out.read_text())["entries"]
    assert (entry["party_id"], entry["purpose"]) == ("+49", formula)


def test_a_file_that_may_not_be_read_is_told_as_that(
    call: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read every file, so the system's word is put in its mouth."""

    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    shown = call("ledger", "show", "--json")
    assert shown.code == 1
    assert shown.json["error"] == f"{address}: cannot be read: Permission denied"
    assert "chmod" in shown.json["remedy"]
    checked = call("backup", "--check", address, "--json")  # a parameter that is a path
    assert (checked.code, checked.json) == (1, shown.json)
