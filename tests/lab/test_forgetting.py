"""A stored federation forgets clients, says what it did, and survives being killed."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.adversary.poisoning.opposite_model import OppositeModel
from cloister.core.contention import Busy
from cloister.core.errors import (
    AccessDenied,
    BudgetExceeded,
    Conflict,
    Damaged,
    DataError,
    NotFound,
    SettingsError,
    StoreError,
)
from cloister.federate.retraining import Retraining
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import Keep, MemoryUpdateStore
from cloister.lab.forgetting.canary_study import CanarySettings, canary_figures
from cloister.lab.forgetting.certificate import (
    certificate_digest,
    signed_certificate,
    verify_certificate,
)
from cloister.lab.forgetting.evaluation import replayed, unlearning_figures
from cloister.lab.forgetting.evaluation_settings import UnlearningSettings
from cloister.lab.forgetting.federation import StoredFederation
from cloister.lab.forgetting.forgetting import Due, forget, stored_training
from cloister.lab.forgetting.statement import Method
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Size
from cloister.lab.reproduce.study import Study, StudyOutcome
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.learners import make_learner
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.release import UnprotectedRelease
from cloister.rank.ranker import Ranker
from cloister.rank.saving import load_ranker

WORLD = "world:features?queries=30&documents=10&features=6"
SETTINGS = SimulationSettings(data=WORLD, clients=5, queries_per_round=3, rounds=30, seed=4)


def _made(folder: Path, keep: Keep = "updates") -> Path:
    with StoredFederation.create(folder, SETTINGS, keep_every=5, keep=keep) as federation:
        stored_training(federation)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _made(tmp_path / "federation")


@pytest.fixture
def federation(folder: Path) -> Iterator[StoredFederation]:
    with StoredFederation.open(folder) as opened:
        yield opened


def test_forgetting_is_fed_eraser_on_what_was_kept(federation: StoredFederation) -> None:
    plain = make_learner(SETTINGS, make_clients(SETTINGS))
    expected = FedEraser(
        plain.population,  # type: ignore[attr-defined]
        plain.ranker,
        history=federation.store.kept_rounds(),
        forgotten=[4],
        local_steps=2,
        seed=unlearning_seed(4, [4]),
        settings=plain.settings,  # type: ignore[attr-defined]
    ).run()
    before = federation.state()
    done = forget(federation, ["client-4"], local_steps=2)
    after = federation.state()
    assert np.array_equal(after.ranker.parameters, expected.parameters)
    assert np.array_equal(done.ranker.parameters, expected.parameters)
    assert not np.array_equal(before.ranker.parameters, after.ranker.parameters)
    assert (before.forgotten, after.forgotten) == ((), (4,))
    assert all(4 not in kept.clients for kept in federation.store.kept_rounds())
    assert np.array_equal(load_ranker(federation.ranker_file).parameters, after.ranker.parameters)


def test_every_ranker_on_the_way_is_shown(federation: StoredFederation) -> None:
    seen: list[tuple[int, Ranker]] = []
    done = forget(federation, ["client-4"], watch=lambda n, ranker: seen.append((n, ranker)))
    assert [n for n, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(seen[-1][1].parameters, done.ranker.parameters)
    assert len({ranker.parameters.tobytes() for _, ranker in seen}) == 6


def test_who_watches_can_call_it_off(federation: StoredFederation) -> None:
    before, kept = federation.state(), federation.store.digest()

    def enough(n_rounds: int, ranker: Ranker) -> None:
        if n_rounds == 3:
            raise Conflict("enough")

    with pytest.raises(Conflict, match="enough"):
        forget(federation, ["client-4"], watch=enough)
    after = federation.state()
    assert (after.version, after.forgotten) == (before.version, ())
    assert federation.store.digest() == kept
    forget(federation, ["client-4"])  # and nobody holds the folder


def test_the_certificate_says_what_was_done(federation: StoredFederation) -> None:
    before, kept = federation.state(), federation.store.digest()
    certificate = forget(federation, ["client-4", "client-0"]).certificate
    verify_certificate(certificate, federation.identity.public)
    assert certificate["forgotten"] == ["client-0", "client-4"]
    assert certificate["cost"] == {
        "rounds": 6,
        "messages": 18,
        "client_steps": 54,
        "client_steps_of_retraining": 270,
    }
    assert certificate["sha256"] == {
        "ranker_before": before.ranker_sha256,
        "ranker_after": federation.state().ranker_sha256,
        "kept_before": kept,
        "kept_after": federation.store.digest(),
    }
    assert certificate["deleted"]["kept_updates"] == 12
    assert certificate["deleted"]["bytes"] == 12 * 4 * 6
    assert certificate["method"]["local_steps"] == 3
    remains = " ".join(certificate["remains"])
    for words in ("no epsilon back", "shaped by", "proves nothing", "difference", "--out"):
        assert words in remains
    on_disk = json.loads(federation.certificate_file(1).read_text())
    assert on_disk == certificate
    verify_certificate(on_disk, federation.identity.public)


@pytest.mark.parametrize(
    "change",
    [
        {"forgotten": ["client-1"]},
        {"cost": {}},
        {"at": "2020-01-01T00:00:00+00:00"},
        {"extra": 1},
        {"public_key": "00" * 32},
    ],
)
def test_a_changed_certificate_does_not_verify(
    federation: StoredFederation, change: dict[str, object]
) -> None:
    certificate = forget(federation, ["client-4"]).certificate
    with pytest.raises(AccessDenied):
        verify_certificate(certificate | change, federation.identity.public)


def test_another_key_or_no_signature_does_not_verify() -> None:
    one, other = SigningIdentity.generate(), SigningIdentity.generate()
    certificate = signed_certificate({"number": 1}, one)
    with pytest.raises(AccessDenied):
        verify_certificate(certificate, other.public)
    for wrong in ({}, {"signature": "zz"}, {"signature": 3}, {"signature": "00"}):
        with pytest.raises(DataError, match="no signature"):
            verify_certificate({"number": 1, **wrong}, one.public)
    with pytest.raises(DataError, match="JSON"):
        signed_certificate({"number": float("nan")}, one)


@pytest.mark.parametrize("keep", ["updates", "lengths"])
def test_one_after_the_other_is_both_at_once(tmp_path: Path, keep: Keep) -> None:
    with StoredFederation.open(_made(tmp_path / "a", keep)) as federation:
        forget(federation, ["client-4"])
        second = forget(federation, ["client-1"])
        assert federation.state().forgotten == (1, 4)
        first = federation.state().certificates[0]
        assert second.certificate["previous_sha256"] == certificate_digest(first)
        assert second.certificate["forgotten_before"] == ["client-4"]
        assert second.certificate["number"] == 2
    with StoredFederation.open(_made(tmp_path / "b")) as federation:
        both = forget(federation, ["client-1", "client-4"])
    assert np.array_equal(second.ranker.parameters, both.ranker.parameters)


def test_retraining_replaces_what_is_kept(federation: StoredFederation) -> None:
    plain = make_learner(SETTINGS, make_clients(SETTINGS))
    kept = MemoryUpdateStore(keep_every=5, keep="updates")
    expected = Retraining(
        plain.population,  # type: ignore[attr-defined]
        plain.ranker,
        forgotten=[4],
        n_planned=30,
        seed=unlearning_seed(4, [4]),
        settings=plain.settings,  # type: ignore[attr-defined]
        observers=[kept],
    ).run()
    done = forget(federation, ["client-4"], method="retrain")
    assert np.array_equal(done.ranker.parameters, expected.parameters)
    assert federation.store.digest() == kept.digest()
    assert not any("shaped by" in sentence for sentence in done.certificate["remains"])
    assert any("of all who stay" in what for what in done.certificate["deleted"]["what"])
    assert done.cost == (30, 120, 360)
    second = forget(federation, ["client-3"]).certificate  # from the new record
    assert not any("of all who stay" in what for what in second["deleted"]["what"])
    assert federation.state().forgotten == (3, 4)


def test_mixed_methods_are_not_both_at_once(tmp_path: Path) -> None:
    with StoredFederation.open(_made(tmp_path / "a")) as federation:
        forget(federation, ["client-4"], method="retrain")
        mixed = forget(federation, ["client-1"])
    with StoredFederation.open(_made(tmp_path / "b")) as federation:
        both = forget(federation, ["client-1", "client-4"])
    assert not np.array_equal(mixed.ranker.parameters, both.ranker.parameters)


def test_forgetting_removes_bytes_from_the_disk(folder: Path) -> None:
    with StoredFederation.open(folder) as federation:
        kept = federation.store.kept_rounds()
        old = federation.state().ranker.parameters.astype("<f4").tobytes()
        encoded = base64.b64encode(old)
    gone = [one.updates[4].tobytes() for one in kept if one.updates is not None]
    stay = [one.updates[3].tobytes() for one in kept if one.updates is not None]
    assert len(gone) == 6
    assert all(update in _content(folder) for update in (*gone, *stay, old, encoded))
    with StoredFederation.open(folder) as federation:
        forget(federation, ["client-4"])
        assert all(update in _content(folder) for update in stay)
        assert not any(update in _content(folder) for update in (*gone, old, encoded))
    assert not any(update in _content(folder) for update in (*gone, old, encoded))


def test_bytes_that_a_reader_holds_are_told_of_and_go_when_it_closes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.lab.forgetting.folder.READERS_TIMEOUT_S", 0.05)
    with StoredFederation.open(folder) as federation:
        first = federation.store.kept_rounds()[0].updates
        assert first is not None
        gone = first[4].tobytes()
        with closing(sqlite3.connect(folder / "federation.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM cloister_kept_update").fetchone()
            with pytest.raises(StoreError, match=r"is done.*may remain") as told:
                forget(federation, ["client-4"])
            assert "do not forget again" in told.value.remedy
            assert gone in _content(folder)
        assert federation.state().forgotten == (4,)
        assert federation.certificate_file(1).is_file()
    assert gone not in _content(folder)


def _content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("clients", "kind", "words"),
    [
        (["client-5"], NotFound, "client-0 to client-4"),
        (["clinic"], NotFound, "no such client"),
        (["client-01"], NotFound, "no such client"),
        (["client-1", "client-1"], SettingsError, "twice"),
        ([], SettingsError, "at least one"),
        ([f"client-{number}" for number in range(5)], SettingsError, "nobody would be left"),
    ],
)
def test_wrong_clients_are_refused_and_nothing_changes(
    federation: StoredFederation, clients: list[str], kind: type[Exception], words: str
) -> None:
    before, kept = federation.state(), federation.store.digest()
    with pytest.raises(kind, match=words):
        forget(federation, clients)
    assert federation.state().version == before.version
    assert federation.store.digest() == kept


def test_nobody_is_forgotten_twice_and_the_last_client_stays(
    federation: StoredFederation,
) -> None:
    forget(federation, ["client-4"])
    with pytest.raises(Conflict, match="forgotten already"):
        forget(federation, ["client-4"])
    forget(federation, ["client-3", "client-2", "client-1"])
    for method in ("fed-eraser", "retrain"):
        with pytest.raises(SettingsError, match="nobody would be left"):
            forget(federation, ["client-0"], method=method)  # type: ignore[arg-type]


def test_a_folder_without_a_federation_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound, match="no federation"):
            StoredFederation.open(folder)
    assert not (tmp_path / "federation.db").exists()


def test_an_unfinished_training_is_no_federation_yet_and_begins_anew(tmp_path: Path) -> None:
    StoredFederation.create(tmp_path, SETTINGS, keep_every=3).close()
    with StoredFederation.open(tmp_path) as federation, pytest.raises(StoreError, match="its end"):
        forget(federation, ["client-1"])
    _made(tmp_path)
    with pytest.raises(Conflict, match="a trained federation"):
        StoredFederation.create(tmp_path, SETTINGS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 4.5, "delta": 1e-3}, "never sees a single update"),
        ({"method": "es"}, "plain FPDGD"),
        ({"paper_epsilon": 4.5}, "plain FPDGD"),
        ({"method": "pdgd"}, "plain FPDGD"),
        ({"share_data": 0.2}, "queries that a client shared"),
        ({"share_data": 0.2, "warm_up_rounds": 3}, "queries that a client shared"),
        ({"normalise": "global_minmax"}, "everybody's documents"),
        ({"normalise": "global_zscore"}, "everybody's documents"),
    ],
)
def test_what_cannot_be_forgotten_from_single_updates_is_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    settings = SimulationSettings(**(SETTINGS.model_dump() | change))
    with pytest.raises(SettingsError, match=words):
        StoredFederation.create(tmp_path / "new", settings)
    assert not (tmp_path / "new").exists()


def test_all_releases_are_told_of_before_any_work_and_a_refusal_stops_it(
    federation: StoredFederation,
) -> None:
    told: list[Due] = []
    done: list[int] = []

    def refuse(due: Sequence[Due]) -> None:
        raise BudgetExceeded("enough")

    def take(due: Sequence[Due]) -> None:
        assert not done
        told.extend(due)

    version, kept = federation.state().version, federation.store.digest()
    with pytest.raises(BudgetExceeded):
        forget(federation, ["client-4"], record=refuse, advance=lambda now, _: done.append(now))
    assert not done
    assert (federation.state().version, federation.store.digest()) == (version, kept)
    forget(
        federation,
        ["client-4", "client-2"],
        record=take,
        advance=lambda now, _: done.append(now),
    )
    assert [one.forgotten for one in told] == ["client-4", "client-2"] + [None] * 6
    assert len(done) == 6
    assert all(isinstance(one.release, UnprotectedRelease) for one in told)
    assert "difference" in told[0].release.note


def test_attackers_who_stay_and_behave_are_told_of(tmp_path: Path) -> None:
    settings = SimulationSettings(
        **(SETTINGS.model_dump() | {"attack": "opposite", "attackers": 2})
    )
    attack = OppositeModel(attackers=settings.attacking_clients, seed=1)
    with StoredFederation.create(tmp_path, settings, keep_every=5) as federation:
        with pytest.raises(SettingsError, match="nobody carries it out"):
            stored_training(federation)
        stored_training(federation, tampering=attack)
        first = forget(federation, ["client-0"], tampering=attack).certificate
        second = forget(federation, ["client-3"]).certificate
        third = forget(federation, ["client-4"]).certificate
    told = [any("honest" in s for s in one["remains"]) for one in (first, second, third)]
    assert told == [False, True, False]


@pytest.mark.parametrize("attack", ["poison-clicks", "promote-clicks"])
def test_clients_who_poisoned_clicks_are_honest_while_others_are_forgotten(
    tmp_path: Path, attack: str
) -> None:
    settings = SETTINGS.model_copy(update={"attack": attack, "attackers": 2})
    with StoredFederation.create(tmp_path, settings, keep_every=5) as federation:
        trained = simulate(settings, observers=[federation.store])
        federation.finish(trained.learner.ranker)
        history = federation.store.kept_rounds()
        done = forget(federation, ["client-0"])

    def erased(of: SimulationSettings) -> Any:
        plain: Any = make_learner(of, make_clients(of))
        return FedEraser(
            plain.population,
            plain.ranker,
            history=history,
            forgotten=[0],
            seed=unlearning_seed(4, [0]),
            settings=plain.settings,
        ).run()

    assert any("simulated as honest" in sentence for sentence in done.certificate["remains"])
    assert np.array_equal(done.ranker.parameters, erased(SETTINGS).parameters)
    assert not np.array_equal(done.ranker.parameters, erased(settings).parameters)


def test_without_an_attack_the_rule_still_expects_one(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(
        update={"attack": "opposite", "attackers": 1, "rule": "trimmed-mean", "off_rounds": 2}
    )
    with StoredFederation.create(tmp_path, settings, keep_every=5) as federation:
        trained = simulate(settings, observers=[federation.store])
        federation.finish(trained.learner.ranker)
        certificate = forget(federation, ["client-0"]).certificate
    assert certificate["method"]["rule"] == "trimmed-mean"
    assert certificate["method"]["expected_attackers"] == 1
    assert any("simulated as honest" in sentence for sentence in certificate["remains"])


_RULES = [
    "krum", "multi-krum", "trimmed-mean", "median", "bulyan", "norm-bounding", "fldetector",
    "adaptive",
]  # fmt: skip


@pytest.mark.parametrize("method", ["fed-eraser", "retrain"])
@pytest.mark.parametrize("rule", _RULES)
def test_no_rule_keeps_a_client_from_being_forgotten_but_the_last(
    tmp_path: Path, rule: str, method: Method
) -> None:
    settings = SimulationSettings(
        **(
            SETTINGS.model_dump()
            | {"clients": 13, "rounds": 6, "rule": rule, "expected_attackers": 3}
            | ({"group_size": 3} if rule == "adaptive" else {})
        )
    )
    with StoredFederation.create(tmp_path, settings, keep_every=2) as federation:
        stored_training(federation)
        some = forget(federation, ["client-12"], method=method).certificate
        forget(federation, [f"client-{n}" for n in range(2, 12)], method=method)
        last = forget(federation, ["client-0"], method=method).certificate
        assert federation.state().forgotten == (0, *range(2, 13))
    assert some["method"]["expected_attackers"] == (2 if rule == "bulyan" else 3)
    fewer = rule in ("krum", "multi-krum", "trimmed-mean", "bulyan")
    assert last["method"]["expected_attackers"] == (0 if fewer else 3)
    assert any("expected 0 attackers" in sentence for sentence in last["remains"]) == fewer


def test_a_folder_takes_one_training_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.lab.forgetting.folder.WAIT_S", 0.1)
    other = SETTINGS.model_copy(update={"seed": 9})
    with StoredFederation.create(tmp_path, SETTINGS, keep_every=5) as federation:
        simulated = simulate(SETTINGS, observers=[federation.store])
        kept = federation.store.digest()
        with pytest.raises(Busy, match="another process is changing this federation"):
            StoredFederation.create(tmp_path, other, keep_every=3)
        assert federation.store.digest() == kept
        federation.finish(simulated.learner.ranker)
    with StoredFederation.open(tmp_path) as federation:
        assert federation.settings == SETTINGS
        assert federation.store.digest() == kept


def test_a_killed_training_lets_the_next_one_in(tmp_path: Path) -> None:
    child = f"""
import os, signal
from cloister.lab.forgetting.federation import StoredFederation
from cloister.lab.simulation.settings import SimulationSettings
held = StoredFederation.create({str(tmp_path)!r}, SimulationSettings(**{SETTINGS.model_dump()!r}))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", child]).returncode == -9
    _made(tmp_path)


def test_who_waits_too_long_for_another_to_make_it_forget_is_refused_before_the_work(
    folder: Path, federation: StoredFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.lab.forgetting.folder.WAIT_S", 0.1)
    told: list[str] = []

    def meanwhile(due: Sequence[Due]) -> None:
        with StoredFederation.open(folder) as second:
            with pytest.raises(Busy, match="another process") as error:
                forget(second, ["client-1"], record=lambda due: told.append("recorded"))
            told.append(error.value.what)

    forget(federation, ["client-4"], record=meanwhile)
    assert len(told) == 1
    assert "recorded" not in told
    assert federation.state().forgotten == (4,)
    with StoredFederation.open(folder) as second:
        forget(second, ["client-1"])  # the lock is let go


def test_more_client_steps_than_retraining_takes_are_refused(
    federation: StoredFederation,
) -> None:
    version = federation.state().version
    with pytest.raises(SettingsError, match="384 client steps, and training anew takes 360"):
        forget(federation, ["client-4"], local_steps=16)
    assert federation.state().version == version
    assert forget(federation, ["client-4"], local_steps=15).cost.n_client_steps == 360


def test_folders_that_are_missing_are_made_again(folder: Path) -> None:
    for name in ("certificates", "incoming"):
        shutil.rmtree(folder / name)
    with StoredFederation.open(folder) as federation:
        for name in ("certificates", "incoming"):
            shutil.rmtree(folder / name)
        forget(federation, ["client-4"])
        assert federation.certificate_file(1).is_file()


def test_a_place_that_cannot_be_written_to_is_found_before_the_work(
    folder: Path, federation: StoredFederation
) -> None:
    shutil.rmtree(folder / "certificates")
    (folder / "certificates").write_text("no folder")
    version = federation.state().version
    told: list[Due] = []
    with pytest.raises(NotFound, match="a file, not a folder"):
        forget(federation, ["client-4"], record=told.extend)
    assert not told
    assert federation.state().version == version


def test_files_that_fail_after_the_change_are_told_of_as_such(
    folder: Path, federation: StoredFederation
) -> None:
    def spoil(done: int, total: int) -> None:
        shutil.rmtree(folder / "certificates", ignore_errors=True)

    with pytest.raises(StoreError, match="the forgetting is done and certified") as told:
        forget(federation, ["client-4"], advance=spoil)
    assert "could not be written" in told.value.what
    assert "do not forget again" in told.value.remedy
    assert federation.state().forgotten == (4,)
    with StoredFederation.open(folder) as again:
        assert again.certificate_file(1).is_file()


@pytest.mark.parametrize("name", ["ranker", "forgotten", "about"])
@pytest.mark.parametrize(
    "value", ['{"parameters": "AAAA", "settings": {}}', '{"parameters": "?"}', "7", "{", "[null]"]
)
def test_a_damaged_record_is_called_damaged(folder: Path, name: str, value: str) -> None:
    with closing(sqlite3.connect(folder / "federation.db")) as database, database:
        (n,) = database.execute(
            "SELECT count(*) FROM cloister_keyed_state WHERE name = ?", (name,)
        ).fetchone()
        assert n == 1
        database.execute("UPDATE cloister_keyed_state SET value = ? WHERE name = ?", (value, name))
    with pytest.raises(Damaged):
        StoredFederation.open(folder)


def test_a_ranker_of_half_a_number_is_called_damaged(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "federation.db")) as database, database:
        (text,) = database.execute(
            "SELECT value FROM cloister_keyed_state WHERE name = 'ranker'"
        ).fetchone()
        record = json.loads(text)
        record["parameters"] = base64.b64encode(
            base64.b64decode(record["parameters"])[:-2]
        ).decode()
        database.execute(
            "UPDATE cloister_keyed_state SET value = ? WHERE name = 'ranker'",
            (json.dumps(record),),
        )
    with pytest.raises(Damaged):
        StoredFederation.open(folder)


def test_two_changes_of_one_state_are_refused(federation: StoredFederation) -> None:
    before = federation.state()
    forget(federation, ["client-4"])
    with pytest.raises(Conflict, match="somebody else was forgotten here meanwhile"):
        federation.change(before, lambda connection: (before.ranker, (1,), {}))
    assert federation.state().forgotten == (4,)


_CHILD = """
import os, signal, sys
from cloister.lab.forgetting import forgetting
from cloister.lab.forgetting.federation import StoredFederation
when = sys.argv[2]
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if when == "inside":
    forgetting.signed_certificate = die
else:
    StoredFederation.write_files = lambda self: None
federation = StoredFederation.open(sys.argv[1])
if when == "after":
    StoredFederation.write_files = die
forgetting.forget(federation, ["client-4"])
"""


@pytest.mark.parametrize("when", ["inside", "after"])
def test_a_kill_leaves_the_old_state_or_the_new(folder: Path, when: str) -> None:
    with StoredFederation.open(folder) as federation:
        before, kept = federation.state(), federation.store.digest()
    assert subprocess.run([sys.executable, "-c", _CHILD, str(folder), when]).returncode == -9
    with StoredFederation.open(folder) as federation:
        state = federation.state()
        if when == "inside":
            assert state.version == before.version
            assert federation.store.digest() == kept
            forget(federation, ["client-4"])
        else:
            assert state.forgotten == (4,)
            assert federation.store.digest() == state.certificates[0]["sha256"]["kept_after"]
        state = federation.state()
        files = load_ranker(federation.ranker_file), federation.certificate_file(1)
    assert np.array_equal(files[0].parameters, state.ranker.parameters)
    assert json.loads(files[1].read_text()) == state.certificates[0]


SMALL = {
    "data": WORLD,
    "click_model": "perfect",
    "rounds": 40,
    "local_steps": (1, 3),
    "intervals": (5, 10),
}


def test_the_evaluation_counts_steps_and_names_its_systems() -> None:
    settings = UnlearningSettings(**SMALL, n_attackers=3)
    told: list[tuple[int, int]] = []
    figures = unlearning_figures(settings, lambda done, total: told.append((done, total)))
    assert list(figures)[:3] == ["7H-3M", "10H-0M", "7H-0M"]
    assert len(figures) == 3 + 2 + 3 * 4
    assert figures["7H-0M"]["client_steps"] == 7 * 5 * 40
    for steps in (1, 3):
        for interval in (5, 10):
            unlearned = figures[settings.unlearned(steps, interval)]
            short = figures[settings.short(steps, interval)]
            assert unlearned["rounds"] == short["rounds"] == 40 / interval
            assert unlearned["client_steps"] == short["client_steps"] == 7 * steps * 40 / interval
            assert unlearned["share_of_steps"] == pytest.approx(steps / 5 / interval)
            assert unlearned["kept_bytes"] == 40 / interval * 7 * 4 * 6
            assert unlearned["kept_lengths_bytes"] == 40 / interval * 7 * 8
    curve = figures[settings.unlearned(3, 10)]["curve_ndcg"]
    assert isinstance(curve, list)
    assert curve[-1] == figures[settings.unlearned(3, 10)]["offline_ndcg@10"]
    assert told[-1][0] == told[-1][1]


def test_the_poisoned_ranker_is_worst_and_unlearning_helps() -> None:
    settings = UnlearningSettings(
        **(SMALL | {"data": "world:features?queries=100", "rounds": 400, "n_attackers": 3})
    )
    figures = unlearning_figures(settings, lambda done, total: None)
    ndcg = {name: found["offline_ndcg@10"] for name, found in figures.items()}
    assert ndcg["7H-3M"] < ndcg["7H-0M"] - 0.02
    assert ndcg["7H-3M"] < ndcg[settings.unlearned(3, 5)] - 0.02


def test_malicious_and_intervals_must_fit() -> None:
    for wrong in ({"n_attackers": 10}, {"intervals": (5, 12)}):
        with pytest.raises(SettingsError):
            UnlearningSettings(data=WORLD, **wrong)


def test_replaying_adds_up_the_kept_updates_of_those_who_stay(
    federation: StoredFederation,
) -> None:
    first = federation.state().ranker
    kept = federation.store.kept_rounds()
    expected = first.parameters.astype(np.float64)
    for one in kept:
        assert one.updates is not None
        expected = expected + 5 * one.updates[:4].astype(np.float64).mean(axis=0)
    found = replayed(first, kept, [4], keep_every=5)
    np.testing.assert_allclose(found.parameters, expected, rtol=1e-5)


def test_the_canary_study_tests_every_ranker() -> None:
    settings = CanarySettings(data=WORLD, rounds=30, sizes=(0.1, 0.5), n_directions=6)
    figures = canary_figures(settings, lambda done, total: None)
    assert set(figures) == {
        "unmarked", "retrained", "marked 0.1", "forgotten 0.1", "marked 0.5", "forgotten 0.5",
    }  # fmt: skip
    for found in figures.values():
        assert 0 < found["p_value"] <= 1  # type: ignore[operator]
        assert found["detected"] == (found["p_value"] <= 0.05)  # type: ignore[operator]


@pytest.mark.parametrize("size", ["quick", "full"])
def test_figures_name_parts_that_are_there(size: str, tmp_path: Path) -> None:
    figures = figures_of("unlearning", Size(size), Collections(tmp_path))  # type: ignore[arg-type]
    keys = [figure.key for figure in figures]
    assert keys == [
        "figure-6.2", "figure-6.3", "table-6.2", "unlearning-worth", "unlearning-canary",
    ]  # fmt: skip
    for figure in figures:
        parts = {part.name for part in figure.parts}
        assert len(parts) == len(figure.parts)
        assert all(isinstance(part, Study) for part in figure.parts)
        for claim in figure.claims:
            assert set(claim.parts) <= parts
            assert claim.estimate(Evidence({})).value is None
    (worth,) = (figure for figure in figures if figure.key == "unlearning-worth")
    pooled = [claim for claim in worth.claims if "mean over all" in claim.compared]
    assert len(pooled) == 2 * len(worth.parts)


def test_the_worth_of_history_is_averaged_within_each_repetition(tmp_path: Path) -> None:
    (figure,) = figures_of(
        "unlearning", Size("quick"), Collections(tmp_path), only=["unlearning-worth"]
    )
    part = figure.parts[0]
    assert isinstance(part, Study)
    rng = np.random.default_rng(1)
    outcomes: dict[tuple[str, str], list[StudyOutcome]] = {}
    differences: dict[int, list[float]] = {}
    for job in part.jobs:
        settings = job.settings
        assert isinstance(settings, UnlearningSettings)
        for steps in settings.local_steps:
            for interval in settings.intervals:
                values = rng.random(2)
                differences.setdefault(settings.seed, []).append(values[0] - values[1])
                names = settings.unlearned(steps, interval), settings.short(steps, interval)
                for name, value in zip(names, values, strict=True):
                    found = StudyOutcome(settings, {"offline_ndcg@10": value})
                    outcomes.setdefault((part.name, name), []).append(found)
    claim = next(one for one in figure.claims if "mean over all" in one.compared)
    estimate = claim.estimate(Evidence(outcomes))
    assert estimate.n == 5
    assert estimate.value == pytest.approx(np.mean([np.mean(d) for d in differences.values()]))
