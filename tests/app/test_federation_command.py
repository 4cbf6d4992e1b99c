"""``cloister federation``: made, run, searched, looked after, killed and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.outcome import Outcome
from app.outcome import Run as Call
from cloister.services.service_file import NodeFile, read_service_file
from services.processes import own_host, wait_until

Run = Callable[..., Outcome]
START = "from cloister.app.command_line import main; main()"
PROGRAM = [sys.executable, "-c", START]


@pytest.fixture
def run(call: Call) -> Run:
    """Run a command that leaves with the given exit code."""

    def with_code(*arguments: str, code: int = 0) -> Outcome:
        outcome = call(*arguments)
        assert outcome.code == code, outcome
        return outcome

    return with_code


def made(run: Run, folder: Path, *more: str) -> dict[str, Any]:
    wanted = ["federation", "init", str(folder), "--world", "--pods", "3", "--host", own_host()]
    return run(*wanted, "--settle", "2", *more, "--json").json


def service_of(pid: int) -> str:
    """Return the service of a process; nothing for one that has just begun or ended."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return Path(words[-2].decode()).parent.name if len(words) > 1 else ""


def children_of(pid: int) -> dict[str, int]:
    """Return the process of each service."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {service_of(int(child)): int(child) for child in listed}


def test_a_federation_is_made_run_searched_and_survives_a_kill(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "clinics"
    told = made(run, folder)
    assert set(told["services"]) == {"coordinator", "broker", "clinic-a", "clinic-b", "clinic-c"}
    assert "clinic-b:staff-005" in told["users"]["clinic-b"]
    with subprocess.Popen(
        [*PROGRAM, "federation", "up", str(folder), "--json"], stdout=subprocess.PIPE, text=True
    ) as up:
        try:
            assert up.stdout is not None
            assert json.loads(up.stdout.readline())["services"] == told["services"]
            killed = children_of(up.pid)["clinic-b"]
            os.kill(killed, signal.SIGKILL)
            search = ["federation", "search", str(folder), "pain", "--as", "clinic-a:party-100"]
            found = run(*search, "--click", "1", "--explain", "--json").json
            assert found["results"][0]["explanation"]
            assert found["clicked"] == [1]
            missed = run(*search, "--click", "99", "--json").json
            assert (missed["clicked"], missed["not_clicked"]) == ([], [99])
            assert missed["results"]
            second = run("federation", "up", str(folder), "--json", code=1).json
            assert "run already" in second["error"]
            assert "pain" in run(*search).out

            def back() -> bool:
                return children_of(up.pid).get("clinic-b", killed) != killed

            wait_until(back)
            wait_until(
                lambda: (
                    "error"
                    not in run("federation", "status", str(folder), "--json").json["services"][
                        "clinic-b"
                    ]
                )
            )
            ben = ["federation", "search", str(folder), "pain", "--as", "clinic-b:staff-005"]
            assert run(*ben, "--json").json["results"]  # a round needs new pages at two nodes
            time.sleep(2)
            done = run("federation", "round", str(folder), "--json").json
            assert done["n_interactions"] == 4
            assert "no new pages" in run("federation", "round", str(folder), code=1).err
            assert run("federation", "pause", str(folder), "--json").json["paused"]
            assert not run("federation", "resume", str(folder), "--json").json["paused"]
            tried = run("federation", "try", str(folder), "--share", "1", "--json").json
            assert tried["trial"]["share"] == 1
            assert "voting" in run("federation", "decide", str(folder)).out
            assert run("federation", "rollback", str(folder), code=1).err
            published = run("federation", "publish", str(folder), "clinic-c", "--json").json
            assert len(published["digest"]) == 64
            left = children_of(up.pid)
            down = run("federation", "down", str(folder), "--json").json
            assert set(down["ended"]) == set(told["services"])  # and `up` starts none again
            assert up.wait(30) == 0
        finally:
            if up.poll() is None:
                up.send_signal(signal.SIGTERM)
    assert left
    assert not [pid for pid in left.values() if Path(f"/proc/{pid}").exists()]


AGREED = ("--consent-unprotected", "ethics board")


def test_releases_without_a_bound_need_somebody_who_agreed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    asked = run("federation", "init", str(folder), code=2)
    assert "--consent-unprotected NAME" in " ".join(asked.err.replace("│", " ").split())
    assert not folder.exists()
    told = run("federation", "init", str(folder), *AGREED, "--json").json
    assert (told["consent"], told["limits"]["user"]) == ("ethics board", 10.0)
    file = read_service_file(folder / "clinic-a" / "service.toml")
    assert isinstance(file, NodeFile)
    agreed = {one.recipient for one in file.consents if one.name == "ethics board"}
    assert agreed == {"coordinator", "broker"}
    private = run("federation", "init", str(tmp_path / "g"), "--epsilon", "4", "--json").json
    assert private["consent"] == ""
    costly = run("federation", "init", str(tmp_path / "h"), "--epsilon", "30", "--json", code=2)
    assert "a node's limit is 10" in costly.json["error"]
    assert not (tmp_path / "h").exists()


def test_what_cannot_be_made_is_said(run: Run, tmp_path: Path) -> None:
    two = run(
        "federation", "init", str(tmp_path / "f"), "--nodes", "a,b", *AGREED, "--json", code=2
    ).json
    assert "three" in two["error"]
    made(run, tmp_path / "g")
    again = run("federation", "init", str(tmp_path / "g"), *AGREED, "--json", code=2).json
    assert "not empty" in again["error"]
    run("federation", "status", str(tmp_path / "nowhere"), code=2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--nodes", "a,a,b"], "different names"),
        (["--nodes", "broker,a,b"], "none of"),
        (["--nodes", "operator,authority,b"], "none of"),
        (["--nodes", "a,b,C d"], "small letters"),
        (["--port", "65534"], "ports"),
        (["--min-nodes", "5"], "more nodes than there are"),
        (["--nodes", "a,b,c,d", "--min-nodes", "2"], "more than half"),
    ],
)
def test_wrong_plans_are_refused_before_anything_is_written(
    run: Run, tmp_path: Path, wrong: list[str], said: str
) -> None:
    told = run("federation", "init", str(tmp_path / "f"), *wrong, *AGREED, "--json", code=2).json
    assert said in told["error"]
    assert not (tmp_path / "f").exists()


def test_services_are_ended_whoever_started_them(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    made(run, folder)
    assert run("federation", "down", str(folder), "--json").json == {"ended": []}
    with subprocess.Popen(
        [*PROGRAM, "serve", str(folder / "broker" / "service.toml"), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        assert json.loads(broker.stdout.readline())["address"]
        again = run("serve", str(folder / "broker" / "service.toml"), "--json", code=1).json
        assert "runs already" in again["error"]
        assert run("federation", "down", str(folder), "--json").json == {"ended": ["broker"]}
        assert broker.wait(20) == 0


def test_services_that_do_not_answer_are_told_in_the_status(run: Run, tmp_path: Path) -> None:
    made(run, tmp_path / "f", "--epsilon", "4", "--rounds", "5", "--users", "100")
    told = run("federation", "status", str(tmp_path / "f"), "--json").json["services"]
    assert all("error" in one for one in told.values())
    said = run("federation", "round", str(tmp_path / "f"), "--json", code=1).json
    assert said["remedy"]


def test_a_file_that_is_no_services_is_refused(run: Run, tmp_path: Path) -> None:
    for text in ("", 'kind = "bakery"', "kind ="):
        (tmp_path / "service.toml").write_text(text)
        told = run("serve", str(tmp_path / "service.toml"), "--json", code=2).json
        assert "service.toml" in told["error"]
