"""``cloister backup`` and ``cloister restore`` as an operator uses them."""

from __future__ import annotations

import re
import shlex
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import cloister
from app.outcome import Outcome, Run
from cloister.app.known_schemas import known_schemas
from cloister.app.lazy_commands import COMMANDS, LazyCommand
from cloister.core.errors import BudgetExceeded
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_table import ShownPage
from cloister.index.shard import IndexedDocument, Shard
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.store import Database, Files
from federate.engines.made_federation import SITES, A, B, C, Killed, Scene, agreed, secure
from store.conftest import Server, server  # noqa: F401  the fixture, for one test

NOISY = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0)  # two of them: epsilon 3.3
ANN = AgentId("ann")


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands in the list, with the lines of their own help."""
    from cloister.app import backup_commands

    for name in ("backup", "restore"):
        line = (getattr(backup_commands, name).__doc__ or "").splitlines()[0]
        monkeypatch.setitem(COMMANDS, name, LazyCommand("backup_commands", name, line))  # type: ignore[arg-type]


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A ledger with a limit and a release, and files."""
    path = str(tmp_path / "state.db")
    with Ledger.open(path) as ledger:
        ledger.set_limit("clinic", Limit(epsilon=5.0, delta=1e-6), purpose="pilot")
        _release(ledger)
    Files(tmp_path / "files").put(b"a model")
    return path


def _release(ledger: Ledger) -> None:
    ledger.release(NOISY, b"sums", party_id="clinic", recipient="hub", purpose="round")


def _done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.err
    return outcome


def test_a_backup_says_what_it_holds_and_a_check_says_the_same(
    call: Run, state: str, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    written = _done(
        call("backup", state, "--out", str(out), "--files", str(tmp_path / "files"), "--json")
    ).json
    with Ledger.open(state) as ledger:
        assert written["ledger"] == ledger.head()._asdict()
    assert written["rows"]["cloister_ledger_entry"] == 2
    assert (written["files"], written["encrypted"]) == (1, False)
    assert written["version"] == cloister.__version__
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    checked = _done(call("backup", "--check", str(out), "--json")).json
    assert checked == written | {"checked": True}
    assert "Every byte is as it was written" in call("backup", "--check", str(out)).out


def test_a_damaged_backup_fails_its_check(call: Run, state: str, tmp_path: Path) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out)))
    content = bytearray(out.read_bytes())
    content[len(content) // 2] ^= 1
    out.write_bytes(content)
    for arguments in (("backup", "--check", str(out)), _restoring(out, tmp_path)):
        outcome = call(*arguments)
        assert outcome.code == 1
        assert "another copy" in outcome.err
    assert not (tmp_path / "new.db").exists()


def _restoring(out: Path, folder: Path, *more: str) -> tuple[str, ...]:
    places = ("--state", str(folder / "new.db"), "--files", str(folder / "new-files"))
    return ("restore", str(out), *places, *more)


def test_a_restored_ledger_lets_nothing_pass_until_a_limit_is_set(
    call: Run, state: str, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out), "--files", str(tmp_path / "files")))
    outcome = _done(call(*_restoring(out, tmp_path)))
    assert "Nothing may pass" in outcome.out
    said = next(line for line in outcome.out.splitlines() if "cloister ledger limit" in line)
    command = shlex.split(said[said.index("cloister ledger limit") :])
    assert command[-2:] == ["--ledger", str(tmp_path / "new.db")]
    with Ledger.open(tmp_path / "new.db") as ledger, Ledger.open(state) as lost:
        *before, note = ledger.entries()
        assert before == lost.entries()
        assert note.limit == Limit(epsilon=0.0, delta=1e-6).fixed()
        for words in ("restored", lost.head().hash, "the limit was epsilon 5"):
            assert words in note.purpose
        assert [ledger.payload(one.number) for one in ledger.pending()] == [b"sums"]
        with pytest.raises(BudgetExceeded):
            _release(ledger)
        with pytest.raises(BudgetExceeded):
            check_ledger(ledger)
        ledger.set_limit("clinic", Limit(epsilon=5.0, delta=1e-6), purpose="nothing was lost")
        assert check_ledger(ledger, pinned=lost.head().hash).n_entries == 4
        _release(ledger)
    assert Files(tmp_path / "new-files").verify().n_files == 1


def test_what_was_lost_can_be_charged_and_counts_against_the_limit(
    call: Run, state: str, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out)))
    shown = _done(call(*_restoring(out, tmp_path, "--lost-epsilon", "2", "--json"))).json
    assert (shown["lost"], shown["beyond_limit"]) == ("charge", None)
    with Ledger.open(tmp_path / "new.db") as ledger, Ledger.open(state) as lost:
        assert check_ledger(ledger).n_releases == 2
        spent = ledger.cost("clinic", delta=1e-6).epsilon
        assert spent >= lost.cost("clinic", delta=1e-6).epsilon + 1.9
        assert ledger.cost("clinic", delta=1e-6, recipient="unknown").epsilon == pytest.approx(2.0)
        with pytest.raises(BudgetExceeded):
            _release(ledger)  # 3.3 and 2 are more than 5
        _release(lost)


def test_a_charge_beyond_the_limit_is_recorded_and_said(
    call: Run, state: str, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out)))
    shown = _done(call(*_restoring(out, tmp_path, "--lost-epsilon", "9", "--json"))).json
    assert "beyond its limit" in shown["beyond_limit"]


def test_limits_stay_where_somebody_vouches_that_nothing_was_released(
    call: Run, state: str, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out)))
    _done(call(*_restoring(out, tmp_path, "--nothing-released-since")))
    with Ledger.open(tmp_path / "new.db") as ledger:
        assert ledger.limit("clinic") == Limit(epsilon=5.0, delta=1e-6).fixed()
        assert "vouches" in ledger.entries()[-1].purpose
        _release(ledger)
        check_ledger(ledger)


def test_what_was_released_since_comes_back_from_an_export(
    call: Run, state: str, tmp_path: Path
) -> None:
    out, export = tmp_path / "state.backup", tmp_path / "ledger.json"
    _done(call("backup", state, "--out", str(out)))
    with Ledger.open(state) as lost:
        lost.set_limit("clinic", Limit(epsilon=6.0, delta=1e-6), purpose="more")
        _release(lost)
    _done(call("ledger", "export", str(export), "--ledger", state))
    given = ("--ledger-export", str(export), "--nothing-released-since", "--json")
    assert _done(call(*_restoring(out, tmp_path, *given))).json["added_entries"] == 2
    with Ledger.open(tmp_path / "new.db") as ledger, Ledger.open(state) as lost:
        assert ledger.entries()[:-1] == lost.entries()
        assert ledger.cost("clinic", delta=1e-6) == lost.cost("clinic", delta=1e-6)
        assert check_ledger(ledger, pinned=lost.head().hash).n_pending == 1


@pytest.mark.parametrize("wrong", ["another ledger", "changed", "older", "no ledger"])
def test_an_export_that_does_not_go_on_from_the_backup_changes_nothing(
    call: Run, state: str, tmp_path: Path, wrong: str
) -> None:
    out, export, other = tmp_path / "state.backup", tmp_path / "ledger.json", state
    if wrong == "older":
        _done(call("ledger", "export", str(export), "--ledger", state))
        with Ledger.open(state) as ledger:
            _release(ledger)
    _done(call("backup", state, "--out", str(out)))
    if wrong == "another ledger":
        other = str(tmp_path / "other.db")
    with Ledger.open(other) as ledger:
        for _ in range(4):
            _release(ledger) if ledger.limit("clinic") is None else ledger.set_limit(
                "clinic", Limit(epsilon=9.0, delta=1e-6), purpose="more"
            )
    if wrong != "older":
        _done(call("ledger", "export", str(export), "--ledger", other))
    if wrong == "changed":
        export.write_text(export.read_text().replace('"epsilon": 9.0', '"epsilon": 90.0'))
    if wrong == "no ledger":
        export.write_text("[]")
    outcome = call(*_restoring(out, tmp_path, "--ledger-export", str(export)))
    assert (outcome.code, "ledger" in outcome.err) == (1, True)
    _done(call(*_restoring(out, tmp_path)))  # it is still empty


def test_a_ledger_moves_to_postgresql_and_back(
    call: Run,
    state: str,
    tmp_path: Path,
    server: Server,  # noqa: F811
) -> None:
    there, back = tmp_path / "there.backup", tmp_path / "back.backup"
    server.execute("CREATE SCHEMA moved")
    address = server.address("moved")
    _done(call("backup", state, "--out", str(there)))
    vouched = "--nothing-released-since"
    _done(call("restore", str(there), "--state", address, vouched))
    with Ledger.open(address) as ledger:
        _release(ledger)
        entries = ledger.entries()
    _done(call("backup", address, "--out", str(back)))
    _done(call(*_restoring(back, tmp_path, vouched)))
    with Ledger.open(tmp_path / "new.db") as ledger, Ledger.open(state) as first:
        assert ledger.entries()[:-1] == entries
        assert entries[:2] == first.entries()
        assert check_ledger(ledger).n_pending == 2


def test_a_party_that_the_backup_does_not_know_can_be_held(
    call: Run, state: str, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out)))
    _done(call(*_restoring(out, tmp_path, "--party", "late")))
    with Ledger.open(tmp_path / "new.db") as ledger, pytest.raises(BudgetExceeded):
        ledger.release(NOISY, b"", party_id="late", recipient="hub", purpose="")


@pytest.mark.parametrize(("vouched", "n_kept"), [(False, 0), (True, 1)])
def test_pages_come_back_only_where_nothing_can_have_been_learnt_from_them_since(
    call: Run, state: str, tmp_path: Path, vouched: bool, n_kept: int
) -> None:
    out = tmp_path / "state.backup"
    with Database.open(state) as database:
        page = ShownPage(ANN, "0" * 64, np.eye(2), np.zeros(2), np.array([1, 0]))
        ClickLog(database).show(page)
    _done(call("backup", state, "--out", str(out)))
    more = ("--nothing-released-since",) if vouched else ()
    shown = _done(call(*_restoring(out, tmp_path, *more, "--json"))).json
    assert shown["dropped_pages"] == 1 - n_kept
    with Database.open(tmp_path / "new.db") as database:
        assert ClickLog(database).state().n_pages == n_kept


def test_a_ledger_that_was_damaged_before_is_found_after_restoring(
    call: Run, state: str, tmp_path: Path
) -> None:
    import sqlalchemy as sa

    out = tmp_path / "state.backup"
    with Database.open(state) as database, database.transaction() as connection:
        connection.execute(sa.text("UPDATE cloister_ledger_entry SET purpose='x' WHERE number=1"))
    _done(call("backup", state, "--out", str(out)))
    outcome = call(*_restoring(out, tmp_path))
    assert outcome.code == 1
    assert "the entry was changed" in outcome.err


def test_an_encrypted_backup_needs_its_passphrase(call: Run, state: str, tmp_path: Path) -> None:
    out, right, wrong, short = (tmp_path / n for n in ("b", "right", "wrong", "short"))
    right.write_text("correct horse battery\n")
    wrong.write_text("correct horse batteries\n")
    short.write_text("horse\n")
    _done(call("backup", state, "--out", str(out), "--passphrase-file", str(right)))
    assert b"clinic" not in out.read_bytes()
    assert call("backup", "--check", str(out)).code == 2
    told = ((wrong, "another one, or the file was changed", 1), (short, "at least 12", 2))
    for file, words, code in told:
        outcome = call(*_restoring(out, tmp_path, "--passphrase-file", str(file)))
        assert (outcome.code, words in outcome.err) == (code, True)
    assert not (tmp_path / "new.db").exists()
    _done(call(*_restoring(out, tmp_path, "--passphrase-file", str(right))))


@pytest.mark.parametrize(
    "arguments",
    [
        ("backup",),
        ("backup", "state.db"),
        ("backup", "state.db", "--check", "x"),
        ("restore", "x"),
        ("restore", "x", "--state", "y", "--lost-epsilon", "-1"),
        ("restore", "x", "--state", "y", "--lost-epsilon", "1", "--nothing-released-since"),
    ],
)
def test_wrong_usage_is_exit_code_2(call: Run, arguments: tuple[str, ...]) -> None:
    assert call(*arguments).code == 2


def test_what_is_not_there_is_said_and_not_made(call: Run, state: str, tmp_path: Path) -> None:
    out = str(tmp_path / "state.backup")
    for arguments in (
        (str(tmp_path / "none.db"),),
        (state, "--files", str(tmp_path / "none")),
        (state, "--home", str(tmp_path / "none")),
        (state, "--include", str(tmp_path / "none")),
    ):
        assert call("backup", *arguments, "--out", out).code == 2
    assert not list(tmp_path.glob("none*"))
    assert not (tmp_path / "state.backup").exists()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with one pod and an index."""
    pod = RegisteredPod(
        pod_id="p1", owner="ann", server_id="s1", kind="folder", address=str(tmp_path / "pod")
    )
    with PodRegistry(tmp_path / "home") as registry:
        registry.add(pod)
        _add(registry.shard(ServerId("s1")), 0)
    return tmp_path / "home"


def _add(shard: Shard, number: int) -> None:
    rights = Rights(owner=ANN)
    shard.add([IndexedDocument(DocId(f"d{number}"), PodId("p1"), f"cough {number}", rights)])
    shard.commit()


def _n_documents(home: Path) -> float:
    with PodRegistry(home) as registry:
        assert list(registry.pods) == ["p1"]
        view = registry.shard(ServerId("s1")).view(Reader(ANN))
        return view.level("document").n_entities


def test_a_home_folder_comes_back_with_its_index_while_somebody_writes_to_it(
    call: Run, state: str, home: Path, tmp_path: Path
) -> None:
    stop = threading.Event()
    n_added = 1

    def write() -> None:
        nonlocal n_added
        with PodRegistry(home) as registry:
            while not stop.is_set():
                _add(registry.shard(ServerId("s1")), n_added)  # merges remove old segments
                n_added += 1

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    try:
        for number in range(5):
            out, new = tmp_path / f"{number}.backup", tmp_path / f"home-{number}"
            at_least = n_added
            _done(call("backup", state, "--out", str(out), "--home", str(home)))
            at_most = n_added + 1
            database = ("--state", str(tmp_path / f"{number}.db"))
            _done(call("restore", str(out), *database, "--home", str(new)))
            counts.append(_n_documents(new))
            assert at_least <= counts[-1] <= at_most
    finally:
        stop.set()
        writer.join(30)
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_an_index_as_of_one_commit_is_copied_also_where_its_segments_are_removed(
    home: Path, tmp_path: Path
) -> None:
    from cloister.app.backup_trees import home_files

    with PodRegistry(home) as registry:
        shard = registry.shard(ServerId("s1"))
        _add(shard, 1)
        wanted = 0
        for number, file in enumerate(home_files(home)):
            if not wanted and "/s1/" in file.path:
                wanted = 2 + number  # of this moment is the index
            copy = tmp_path / "copy" / file.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.stream.read())
            shard.merge()  # other segments, another CURRENT
            _add(shard, 10 + number)
    assert _n_documents(tmp_path / "copy") == wanted > 0


def test_included_files_come_back_under_their_old_paths(
    call: Run, state: str, tmp_path: Path
) -> None:
    out, config = tmp_path / "state.backup", tmp_path / "config"
    (config / "keys").mkdir(parents=True)
    (config / "site.toml").write_text("a = 1")
    (config / "keys/signing.pem").write_text("secret")
    given = ("--include", str(config), "--include", str(config / "site.toml"))
    written = _done(call("backup", state, "--out", str(out), *given, "--json")).json
    assert written["included_files"] == 2
    assert "Left out: 2 files" in _done(call(*_restoring(out, tmp_path))).out
    (tmp_path / "new.db").unlink()
    _done(call(*_restoring(out, tmp_path, "--included", str(tmp_path / "new"))))
    copy = tmp_path / "new" / str(config).lstrip("/")
    assert (copy / "site.toml").read_text() == "a = 1"
    assert stat.S_IMODE((copy / "keys/signing.pem").stat().st_mode) == 0o600


def test_what_would_be_left_out_silently_is_an_error(call: Run, state: str, tmp_path: Path) -> None:
    out, config = tmp_path / "state.backup", tmp_path / "config"
    config.mkdir()
    (config / "link").symlink_to(tmp_path)
    outcome = call("backup", state, "--out", str(out), "--include", str(config))
    assert (outcome.code, "not followed" in outcome.err) == (2, True)
    Database.open(tmp_path / "foreign.db").close()
    outcome = call("backup", str(tmp_path / "foreign.db"), "--out", str(out))
    assert (outcome.code, "nothing of Cloister's" in outcome.err) == (2, True)
    assert not out.exists()


def test_a_folder_with_something_in_it_is_not_restored_into(
    call: Run, state: str, home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "state.backup"
    _done(call("backup", state, "--out", str(out), "--home", str(home)))
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy/notes.txt").write_text("mine")
    outcome = call(*_restoring(out, tmp_path, "--home", str(tmp_path / "busy")))
    assert (outcome.code, "not empty" in outcome.err) == (2, True)
    _done(call(*_restoring(out, tmp_path, "--home", str(tmp_path / "free"))))


def test_every_component_with_tables_can_be_restored() -> None:
    root = Path(cloister.__file__).parent
    pattern = re.compile(r'= Schema\(\s*"([^"]+)"')
    found = {
        name
        for path in root.rglob("*.py")
        for name in pattern.findall(path.read_text())
        if ">>> schema = Schema" not in path.read_text()
    }
    assert found == {schema.component for schema in known_schemas()}


# A site whose database is older than the federation.

MakeScene = Callable[[FederationAgreement], Scene]


@pytest.fixture
def make_scene(tmp_path: Path) -> Iterator[MakeScene]:
    scenes: list[Scene] = []

    def make(agreement: FederationAgreement) -> Scene:
        (tmp_path / "scene").mkdir()
        scenes.append(Scene(tmp_path / "scene", agreement))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


def _put_back(scene: Scene, call: Run, name: str, out: Path, *more: str) -> None:
    """Lose a database and restore it."""
    scene._databases[name].close()
    path = scene.folder / f"{name}.db"
    for file in scene.folder.glob(f"{name}.db*"):
        file.unlink()
    _done(call("restore", str(out), "--state", str(path), *more))


@pytest.mark.parametrize("agreement", [agreed(), secure()])
def test_a_site_restored_from_before_the_last_round_is_counted_once_in_each_round(
    call: Run, make_scene: MakeScene, tmp_path: Path, agreement: FederationAgreement
) -> None:
    scene, out = make_scene(agreement), tmp_path / "b.backup"
    federation = scene.coordinator()
    federation.step()
    _done(call("backup", str(scene.folder / f"{B}.db"), "--out", str(out)))
    federation.step()
    _put_back(scene, call, B, out, "--nothing-released-since")
    scene.start(B)
    for number in (2, 3):
        before = federation.model
        done = federation.step()
        assert (done.round_number, done.sites, done.faults) == (number, SITES, {})
        wanted = scene.mean_of(before, number, A, B, C)
        np.testing.assert_allclose(federation.model, wanted, rtol=0, atol=1e-9)
    kinds = [entry.kind for entry in scene.sites[B].ledger.entries()]
    assert kinds == ["release", "limit", "release", "release"]  # that of round 1 is not known


@pytest.mark.parametrize("agreement", [agreed(), secure()])
def test_a_site_that_is_held_releases_nothing_and_the_others_go_on_without_it(
    call: Run, make_scene: MakeScene, tmp_path: Path, agreement: FederationAgreement
) -> None:
    scene, out = make_scene(agreement), tmp_path / "b.backup"
    federation = scene.coordinator()
    federation.step()
    _done(call("backup", str(scene.folder / f"{B}.db"), "--out", str(out)))
    federation.step()
    _put_back(scene, call, B, out)
    scene.start(B)
    before = federation.model
    done = federation.step()
    assert (done.sites, done.faults) == ((A, C), {B: "BudgetExceeded"})
    wanted = scene.mean_of(before, 2, A, C)
    np.testing.assert_allclose(federation.model, wanted, rtol=0, atol=1e-9)
    assert [entry.kind for entry in scene.sites[B].ledger.entries()] == ["release", "limit"]


def test_a_site_restored_in_the_middle_of_a_round_answers_anew_and_is_counted_once(
    call: Run, make_scene: MakeScene, tmp_path: Path
) -> None:
    """Its first answer left and is not on its ledger: what a charge or a hold is for."""
    scene, out = make_scene(agreed()), tmp_path / "b.backup"
    federation = scene.coordinator()
    federation.step()
    _done(call("backup", str(scene.folder / f"{B}.db"), "--out", str(out)))
    before = federation.model
    scene.engine.kill_after = scene.engine.n_calls
    with pytest.raises(Killed):
        federation.step()
    _put_back(scene, call, B, out, "--nothing-released-since")
    scene.start(B)
    federation = scene.coordinator()
    assert federation.step().sites == SITES
    wanted = scene.mean_of(before, 1, A, B, C)
    np.testing.assert_allclose(federation.model, wanted, rtol=0, atol=1e-9)
    assert scene.n_releases() == [2, 3, 2]  # B's third entry says that it was restored


def test_a_coordinator_one_round_back_gets_the_same_answers_and_counts_them_once(
    call: Run, make_scene: MakeScene, tmp_path: Path
) -> None:
    scene, out = make_scene(agreed()), tmp_path / "c.backup"
    federation = scene.coordinator()
    federation.step()
    _done(call("backup", str(scene.folder / "coordinator.db"), "--out", str(out)))
    federation.step()
    wanted = federation.model
    _put_back(scene, call, "coordinator", out, "--nothing-released-since")
    federation = scene.coordinator()
    assert federation.n_rounds == 1
    assert federation.step().sites == SITES
    np.testing.assert_array_equal(federation.model, wanted)
    assert scene.n_releases() == [2, 2, 2]  # the same bytes again are no new release


def test_a_coordinator_further_back_is_refused_by_every_site(
    call: Run, make_scene: MakeScene, tmp_path: Path
) -> None:
    scene, out = make_scene(agreed()), tmp_path / "c.backup"
    federation = scene.coordinator()
    federation.step()
    _done(call("backup", str(scene.folder / "coordinator.db"), "--out", str(out)))
    federation.step()
    federation.step()
    _put_back(scene, call, "coordinator", out, "--nothing-released-since")
    federation = scene.coordinator()
    with pytest.raises(AggregationFailed):
        federation.step()
    assert (federation.n_rounds, scene.n_releases()) == (1, [3, 3, 3])


def test_a_copied_file_is_no_backup(call: Run, state: str, tmp_path: Path) -> None:
    shutil.copy(state, tmp_path / "copy.db")
    outcome = call("backup", "--check", str(tmp_path / "copy.db"))
    assert (outcome.code, "not a backup" in outcome.err) == (1, True)
