"""A federation of five processes: searches, clicks, secure rounds, a node killed in mid-round."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from cloister.app.federation_commands import app
from cloister.core.errors import Conflict, NotFound
from cloister.federate.engines.round_messages import read_model
from cloister.federate.online.page_table import page_of
from cloister.federate.online.ranker_files import ranker_from_bytes
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.rank.logged_pages import logged_click_gradient
from cloister.rank.ranker import Ranker
from cloister.services.federation_folder import FederationFolder
from cloister.services.first_ranker import first_ranker
from cloister.services.processes import Processes
from cloister.services.sample_clinics import SampleClinics, SampleUser
from services.dying_node import DIE
from services.processes import NODES, made_clinics, user_client, wait_until

SETTLE_S = 1.0
VOTES_EPSILON = 50.0
SETTINGS = {
    "node": f"votes_epsilon = {VOTES_EPSILON}\nrefresh_s = 0.2\n"
    f'[clicks]\nsettle_s = {SETTLE_S}\n[publishing]\nform = "threshold"\nthreshold = 2\n',
    "broker": '\n[publishing]\nform = "threshold"\n',
    "coordinator": "\n[schedule]\ntimeout_s = 4.0\n"
    f"[trials]\nalpha = 0.2\nmin_votes = 5\nepsilon = {VOTES_EPSILON}\n",
}
PROGRAM = (str(Path(__file__).with_name("dying_node.py")),)
RATE = 0.1  # of one page, as FpdgdSettings has it
ATOL = 1e-6  # the literal gradients are in single precision


class Scene(NamedTuple):
    folder: FederationFolder
    clinics: SampleClinics
    processes: Processes
    counted: set[tuple[str, int]]  # nodes and the rounds that hold their updates

    def users(self) -> list[SampleUser]:
        """Return some users of every node; the parties may read at all nodes."""
        return [user for node in NODES for user in self.clinics.users(node)]

    def asked(self, service: str, path: str, *, post: bool = False) -> dict[str, Any]:
        with self.folder.client(service, timeout_s=60) as client:
            return dict(client.post_json(path) if post else client.get_json(path))

    def run_round(self) -> dict[str, Any]:
        done = self.asked("coordinator", "/v1/rounds", post=True)
        self.counted.update((node, done["round_number"] - 1) for node in done["nodes"])
        return done


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder, clinics = made_clinics(tmp_path_factory.mktemp("clinics") / "f", settings=SETTINGS)
    with Processes(folder, program=PROGRAM) as processes:
        processes.start()
        yield Scene(folder, clinics, processes, set())


def search_and_click(scene: Scene, first_query: int) -> int:
    """Let every user search once and click the first two results; return how many pages."""
    queries = scene.clinics.world.queries
    n_pages = 0
    for number, user in enumerate(scene.users()):
        with user_client(scene.folder, user) as client:
            answer = client.search(queries[(first_query + number) % len(queries)].text)
            n_pages += bool(answer.page_id)
            for rank in (1, 3):
                if rank <= len(answer.results):
                    client.click(answer.page_id, rank)
    return n_pages


class Row(NamedTuple):
    agent: str
    n_features: int
    features: bytes
    drawn: bytes
    places: bytes
    clicks: bytes
    taken_round: int


def logged(scene: Scene, node: str) -> dict[str, list[Row]]:
    """Read out of a node's database what is not learnt from yet, by user, oldest first."""
    path = scene.folder.folder / node / "state.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        found = connection.execute(
            "SELECT agent, n_features, features, drawn, places, clicks, taken_round "
            "FROM cloister_shown_page ORDER BY shown_at"
        ).fetchall()
    by_user: dict[str, list[Row]] = {}
    for row in (Row(*fields) for fields in found):
        if (node, row.taken_round) not in scene.counted:
            by_user.setdefault(row.agent, []).append(row)
    return by_user


def literal_mean(scene: Scene, model: NDArray[np.float64], *nodes: str) -> NDArray[np.float64]:
    """Move a model by the mean of what users learn, one gradient after the other."""
    settings = scene.folder.roster.agreement.ranker
    total, n_pages = np.zeros_like(model), 0
    for node in nodes:
        for rows in logged(scene, node).values():
            weights = model.astype(np.float32)
            for page in map(page_of, rows):
                ranker = Ranker(settings, weights)
                weights = weights + np.float32(RATE) * logged_click_gradient(ranker, *page)
            total += len(rows) * (weights - model.astype(np.float32)).astype(np.float64)
            n_pages += len(rows)
    return model + total / max(1, n_pages)


def model_now(scene: Scene) -> NDArray[np.float64]:
    path = scene.folder.folder / "coordinator" / "state.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        query = "SELECT model FROM cloister_federation_round ORDER BY n_rounds DESC LIMIT 1"
        return read_model(connection.execute(query).fetchone()[0])


def test_a_federation_searches_learns_loses_a_node_in_mid_round_and_counts_everything_once(
    scene: Scene,
) -> None:
    for node in NODES:
        scene.asked(node, "/v1/publications", post=True)
    assert len(scene.asked("broker", "/v1/status")["tables"]) == 3
    first = first_ranker(scene.folder.roster.agreement.ranker).parameters.astype(np.float64)
    np.testing.assert_array_equal(model_now(scene), first)

    # The first round: all three nodes.
    n_shown = search_and_click(scene, 0)
    time.sleep(SETTLE_S + 0.2)
    wanted = literal_mean(scene, first, *NODES)
    done = scene.run_round()
    assert (done["nodes"], done["silent"], done["faults"]) == (list(NODES), [], {})
    n_counted = done["n_interactions"]
    assert n_counted == n_shown > 10
    np.testing.assert_allclose(model_now(scene), wanted, rtol=0, atol=ATOL)
    assert np.abs(wanted - first).max() > 100 * ATOL

    # The second: clinic-b dies with its pages taken and its sum not sent.
    n_shown += search_and_click(scene, 7)
    time.sleep(SETTLE_S + 0.2)
    (scene.folder.folder / "clinic-b" / DIE).touch()
    wanted = literal_mean(scene, model_now(scene), "clinic-a", "clinic-c")
    done = scene.run_round()
    assert scene.processes.wait_dead("clinic-b") == -9
    assert (done["nodes"], done["silent"]) == (["clinic-a", "clinic-c"], ["clinic-b"])
    n_counted += done["n_interactions"]
    assert n_counted < n_shown
    np.testing.assert_allclose(model_now(scene), wanted, rtol=0, atol=ATOL)
    with user_client(scene.folder, "clinic-a:party-100") as client:  # the others still answer
        answer = client.search(scene.clinics.world.queries[1].text)
    assert answer.missing_nodes == ["clinic-b"]
    n_shown += bool(answer.page_id)

    # The third: clinic-b is back, and what it lost is in.
    scene.processes.start("clinic-b")
    wait_until(lambda: not scene.asked("coordinator", "/v1/status")["silent_nodes"])
    n_shown += search_and_click(scene, 3)  # without new pages a node stays out
    time.sleep(SETTLE_S + 0.2)
    wanted = literal_mean(scene, model_now(scene), *NODES)
    done = scene.run_round()
    assert (done["nodes"], done["silent"], done["faults"]) == (list(NODES), [], {})
    n_counted += done["n_interactions"]
    np.testing.assert_allclose(model_now(scene), wanted, rtol=0, atol=ATOL)
    assert n_counted == n_shown  # no page lost, none twice
    check_ledgers(scene)
    check_history(scene)
    assert figure(scene, "coordinator", "rounds") == 3
    assert figure(scene, "coordinator", "silent_nodes") == 0
    assert figure(scene, "broker", "tables") == 3
    assert figure(scene, "clinic-c", "last_round") == 3


def test_status_says_which_node_the_coordinator_does_not_know(scene: Scene) -> None:
    path = scene.folder.folder / "roster.json"
    old = path.read_text()
    roster = json.loads(old)
    roster["members"].append(roster["members"][-1] | {"name": "clinic-d"})
    try:
        path.write_text(json.dumps(roster))
        run = CliRunner().invoke(app, ["status", str(scene.folder.folder)])
    finally:
        path.write_text(old)
    assert run.exit_code == 0
    assert "clinic-d is in no round: start the coordinator again" in run.stdout
    assert "clinic-c is in no round" not in run.stdout


def figure(scene: Scene, service: str, name: str) -> float:
    """Read a figure as Prometheus does."""
    with scene.folder.client(service) as client:
        lines = client.get_bytes("/metrics").decode().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"cloister_{name} "))
    return float(value)


def check_ledgers(scene: Scene) -> None:
    """See that every release is on a ledger, once, and that all chains hold."""
    masked = {"clinic-a": 3, "clinic-b": 2, "clinic-c": 3}  # clinic-b died before it recorded one
    for service, n_rounds in {"coordinator": 3, **masked}.items():
        with Ledger.reading(scene.folder.folder / service / "state.db") as ledger:
            check_ledger(ledger)
            rounds = [one for one in ledger.entries() if "round" in one.purpose]
            assert len(rounds) == n_rounds


def check_history(scene: Scene) -> None:
    """See what operators and officers are told of the three rounds, and the ranker after each."""
    with scene.folder.client("coordinator", holder="officer") as officer:
        told = officer.get_json("/v1/rounds")
        entries = officer.get_json("/v1/ledger")["entries"]
        assert officer.get_json("/v1/rounds?after=2")["rounds"] == told["rounds"][2:]
        with pytest.raises(NotFound):
            officer.get_bytes("/v1/rounds/0/ranker")
    times = {one["number"]: one["recorded_at"] for one in entries}
    assert told["n_rounds"] == 3
    assert [one["round_number"] for one in told["rounds"]] == [1, 2, 3]
    assert [one["left_out"] for one in told["rounds"]] == [[], ["clinic-b"], []]
    assert [one["nodes"] for one in told["rounds"]][1] == ["clinic-a", "clinic-c"]
    assert all(one["recorded_at"] == times[one["entry"]] for one in told["rounds"])
    with scene.folder.client("coordinator") as operator:
        rankers = [operator.get_bytes(f"/v1/rounds/{n}/ranker") for n in range(4)]
        serving = operator.get_json("/v1/serving")["serving"]
        assert rankers[0] == operator.get_bytes(f"/v1/rankers/{serving}")
        with pytest.raises(NotFound):
            operator.get_bytes("/v1/rounds/4/ranker")
    last = ranker_from_bytes(rankers[3]).parameters
    np.testing.assert_array_equal(last, model_now(scene).astype(np.float32))


def serving_at(scene: Scene) -> set[str]:
    return {str(scene.asked(node, "/v1/status")["serving"]) for node in NODES}


def teams_of(scene: Scene, node: str, page_id: str) -> bytes:
    """Look into a node's database, as no user can: which ranker picked each result."""
    path = scene.folder.folder / node / "state.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        query = "SELECT teams FROM cloister_shown_page WHERE page_id = ?"
        return bytes(connection.execute(query, (page_id,)).fetchone()[0])


def test_a_ranker_that_users_prefer_comes_to_serve_and_can_be_taken_back(scene: Scene) -> None:
    search_and_click(scene, 20)
    time.sleep(SETTLE_S + 0.2)
    scene.run_round()
    (first,) = serving_at(scene)
    with scene.folder.client("coordinator") as operator:
        trial = operator.post_json("/v1/trials", {"share": 1.0})["trial"]
        wait_until(
            lambda: all(
                scene.asked(node, "/v1/status")["trial"] == trial["trial_id"] for node in NODES
            )
        )
        assert serving_at(scene) == {first}
        for number, user in enumerate(scene.users()):
            with user_client(scene.folder, user) as client:
                answer = client.search(scene.clinics.world.queries[number % 9].text)
                if answer.page_id:
                    teams = teams_of(scene, user.agent_id.partition(":")[0], answer.page_id)
                    for rank in [place + 1 for place, team in enumerate(teams) if team == 1]:
                        client.click(answer.page_id, rank)
        operator.post_json("/v1/decisions")  # votes are called; nodes send theirs by themselves
        wait_until(lambda: bool(scene.asked("coordinator", "/v1/status")["trials"]))
        (past,) = scene.asked("coordinator", "/v1/status")["trials"]
        assert past["outcome"] == "promoted"
        assert past["margin"] > past["threshold"]
        wait_until(lambda: serving_at(scene) == {trial["candidate"]})
        assert operator.post_json("/v1/rollbacks")["serving"] == first
        wait_until(lambda: serving_at(scene) == {first})
        with pytest.raises(Conflict, match="rolled back"):
            operator.post_json("/v1/trials", {"share": 1.0})
    for node in NODES:  # each node's votes are on its ledger, once, and were delivered
        with Ledger.reading(scene.folder.folder / node / "state.db") as ledger:
            votes = [one for one in ledger.entries() if "votes" in one.purpose]
            assert [one.release.mechanism for one in votes] == ["discrete-laplace"]
            assert votes[0].number not in [one.number for one in ledger.pending()]
