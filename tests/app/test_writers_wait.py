"""Writers of one home as separate processes: they wait for each other, and do all or nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.outcome import Run
from cloister.core.ids import DocId, PodId, ServerId
from cloister.pods import pod_files
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import UNFINISHED, PodRegistry


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Run) -> Path:
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    for name in ("ann", "bob", "eve"):
        (tmp_path / name).mkdir()
        for number in range(4):
            (tmp_path / name / f"{number}.txt").write_text(f"cough number{number} {name}")
    assert call("pods", "add", str(tmp_path / "ann"), "--owner", "ann").code == 0
    return tmp_path


def started(*arguments: str, paused_at: str = "") -> subprocess.Popen[str]:
    """Start a command; it stops itself (SIGSTOP) where it would call a function by that name."""
    code = "from cloister.app.command_line import main; main()"
    if paused_at:
        module, _, name = paused_at.rpartition(".")
        module, _, owner = module.rpartition(":")
        code = (
            "import importlib, os, signal\n"
            f"owner = getattr(importlib.import_module({module!r}), {owner!r})\n"
            f"done = getattr(owner, {name!r})\n"
            "def stopped(*a, **k):\n"
            "    os.kill(os.getpid(), signal.SIGSTOP)\n"
            "    return done(*a, **k)\n"
            f"setattr(owner, {name!r}, stopped)\n" + code
        )
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=pipe, stderr=pipe, text=True
    )


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "T":
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("the process did not come so far")


def pods(call: Run) -> dict[str, int]:
    listed = json.loads(call("pods", "list", "--json").out)["pods"]
    return {one["pod"]: one["documents"] for one in listed}


def test_writers_at_the_same_time_all_get_their_turn(call: Run, home: Path) -> None:
    writers = [
        *(started("grant", f"ann/{number}.txt", "--to", "bob") for number in range(3)),
        *(started("pods", "add", str(home / name), "--owner", name) for name in ("bob", "eve")),
        started("pods", "sync"),
    ]
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert writer.returncode == 0, (out, err)
    assert pods(call) == {"ann": 4, "bob": 4, "eve": 4}
    found = json.loads(call("search", "--as", "bob", "cough", "-k", "20", "--json").out)["results"]
    ids = {one["doc_id"] for one in found}
    assert ids == {f"ann/{n}.txt" for n in range(3)} | {f"bob/{n}.txt" for n in range(4)}


def test_a_pod_is_listed_when_it_is_indexed_and_not_before(call: Run, home: Path) -> None:
    adding = started(
        "pods", "add", str(home / "bob"), "--owner", "bob",
        paused_at="cloister.index.shard:Shard.commit",
    )  # fmt: skip
    wait_until_stopped(adding)
    assert pods(call) == {"ann": 4}
    os.kill(adding.pid, signal.SIGCONT)
    adding.communicate(timeout=60)
    assert adding.returncode == 0
    assert pods(call) == {"ann": 4, "bob": 4}


@pytest.mark.parametrize(
    "place",
    ["cloister.index.shard:Shard.commit", "cloister.pods.registry:PodRegistry._still_adding"],
)
def test_a_pod_whose_adding_was_killed_leaves_nothing(call: Run, home: Path, place: str) -> None:
    adding = started("pods", "add", str(home / "bob"), "--owner", "bob", paused_at=place)
    wait_until_stopped(adding)
    adding.kill()
    adding.communicate(timeout=60)
    assert pods(call) == {"ann": 4}
    with PodRegistry(home / "home") as registry:
        assert registry.shard(ServerId("home")).etags(PodId("bob")) == {}
    assert call("pods", "add", str(home / "bob"), "--owner", "bob").code == 0
    assert pods(call) == {"ann": 4, "bob": 4}


def test_a_grant_that_was_killed_between_pod_and_index_is_brought_to_its_end(
    call: Run, home: Path
) -> None:
    granting = started(
        "grant", "ann/0.txt", "--to", "bob", paused_at="cloister.index.shard:Shard.set_rights"
    )
    wait_until_stopped(granting)
    granting.kill()
    granting.communicate(timeout=60)
    rights = {one.doc_id: one.rights for one in FolderPod.open(home / "ann").resources()}
    assert "bob" in rights[DocId("ann/0.txt")].agents  # the pod was changed
    found = json.loads(call("search", "--as", "bob", "cough", "--json").out)["results"]
    assert [one["doc_id"] for one in found] == ["ann/0.txt"]
    assert list((home / "home" / UNFINISHED).iterdir()) == []


def test_a_grant_that_waits_in_vain_changes_neither_pod_nor_index(
    call: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.pods.registry.Shard.open", _impatient())
    before = [one.rights for one in FolderPod.open(home / "ann").resources()]
    with (home / "home" / "servers" / "home" / "LOCK").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = call("grant", "ann/0.txt", "--to", "bob", "--json")
    assert outcome.code == 1
    assert "another process is changing this index" in outcome.json["error"]
    assert "try again" in outcome.json["remedy"]
    assert [one.rights for one in FolderPod.open(home / "ann").resources()] == before
    assert call("grant", "ann/0.txt", "--to", "bob").code == 0


def _impatient():  # type: ignore[no-untyped-def]
    from cloister.index.shard import Shard, ShardSettings

    opened = Shard.open
    return lambda *a, **k: opened(*a, settings=ShardSettings(wait_s=0.1), **k)


def test_a_file_that_cannot_be_read_is_left_out_and_named(
    call: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pod_files._open

    def refusing(name: str, flags: int, folder: int) -> int:  # root may read everything
        if name == "0.txt":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, flags, folder)

    monkeypatch.setattr(pod_files, "_open", refusing)
    done = call("pods", "add", str(home / "bob"), "--owner", "bob", "--json")
    assert done.code == 0, done.err
    (synced,) = done.json["synced"]
    assert synced["added"] == 3
    assert synced["left_out_files"] == [
        {"name": "bob/0.txt", "reason": "cannot be read: Permission denied"}
    ]
    again = call("pods", "sync")
    assert again.code == 0
    assert "bob/0.txt: cannot be read: Permission denied" in again.err.replace("\n", " ")
    monkeypatch.undo()


def test_limits_of_a_ledger_set_at_the_same_time_all_hold(call: Run, tmp_path: Path) -> None:
    ledger = ["--ledger", str(tmp_path / "ledger.db")]
    assert call("ledger", "limit", "clinic", "--epsilon", "1", "--new", *ledger).code == 0
    writers = [
        started("ledger", "limit", "clinic", "--epsilon", str(n), *ledger) for n in range(2, 6)
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert writer.returncode == 0, err
    assert call("ledger", "check", *ledger).code == 0


def test_a_federation_whose_making_was_killed_is_made_anew(call: Run, tmp_path: Path) -> None:
    folder = tmp_path / "clinics"
    place = "cloister.services.federation_folder:FederationRoster.to_json"
    making = started(
        "federation", "init", "--consent-unprotected", "ann", str(folder), paused_at=place
    )
    wait_until_stopped(making)
    making.kill()
    making.communicate(timeout=60)
    assert any(folder.iterdir())
    assert call("federation", "up", str(folder)).code == 1
    (folder / "letters.txt").write_text("precious")  # is nobody's to delete
    assert call("federation", "init", "--consent-unprotected", "ann", str(folder)).code == 2
    assert (folder / "letters.txt").read_text() == "precious"
    (folder / "letters.txt").unlink()
    assert call("federation", "init", "--consent-unprotected", "ann", str(folder)).code == 0
    assert not (folder / ".unfinished").exists()
    assert (
        call("federation", "init", "--consent-unprotected", "ann", str(folder)).code == 2
    )  # now it is whole: not touched
    assert (folder / "roster.json").exists()
