"""The forget page: a client is chosen, unlearnt and certified; what is not possible is refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from app.console.browser import Browser
from app.console.job_waiting import begun, ended, refused
from cloister.app.console import lab_world
from cloister.app.console.jobs import Job
from cloister.app.console.scene import Scene
from cloister.app.console.stored_clients import StoredClients
from cloister.app.console.unlearning_job import KEEP_EVERY
from cloister.core.contention import Busy
from cloister.lab.forgetting.certificate import verify_certificate
from cloister.lab.forgetting.federation import StoredFederation
from cloister.lab.forgetting.folder import WriterLock
from cloister.lab.forgetting.forgetting import forget, stored_training
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.identity import SigningIdentity
from services.processes import wait_until

SETTINGS = SimulationSettings(
    data="world:features?queries=30&documents=10&features=6&seed=1",
    clients=4,
    queries_per_round=3,
    rounds=20,
    seed=1,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_world, "WORLD", "world:features?queries=30&documents=10&features=6")


@pytest.fixture
def stored(scene: Scene) -> Path:
    """Return the folder of a federation of four honest clients."""
    folder = scene.home / "forgettable"
    with StoredFederation.create(folder, SETTINGS, keep_every=5) as federation:
        stored_training(federation)
    return folder


def test_without_a_federation_the_page_offers_to_train_one(browser: Browser) -> None:
    page = browser.get("/forget").text
    assert "No federation is here yet" in page
    assert "sends the opposite of what it learns" in page
    assert f"Of every {KEEP_EVERY}th round the length" in page
    assert "/forget/clients" not in page


def test_a_federation_is_trained_and_forgets_from_the_page(browser: Browser, scene: Scene) -> None:
    trained = ended(browser, scene, "/forget/training", n_rounds=20)
    assert trained.state == "done"
    assert trained.snapshot()["found"]["training"][-1][0] == 20
    page = browser.get("/forget").text
    assert f"of every {KEEP_EVERY}th round" in page
    assert page.count(">present<") == 10
    assert "client-9, which sends the opposite" in page

    job = ended(browser, scene, "/forget/clients", client="client-9", local_steps=2)
    assert job.state == "done", job.error
    found = job.snapshot()["found"]
    assert [n for n, _ in found["forgetting"]] == [1, 2]
    assert found["forgetting"][-1][1] == found["after"]
    assert "retraining" not in found
    page = browser.get(f"/forget?job={job.job_id}").text
    for words in (
        "signature verified now",
        "stay released",
        "training anew takes",
        ">forgotten<",
        "forgetting-by-round",
        'href="/search"',
    ):
        assert words in page


def test_the_certificate_can_be_fetched_and_verified(
    browser: Browser, scene: Scene, stored: Path
) -> None:
    ended(browser, scene, "/forget/clients", client="client-2")
    answer = browser.get("/forget/certificates/1.json")
    assert "attachment" in answer.headers["content-disposition"]
    certificate = answer.json()
    assert certificate["forgotten"] == ["client-2"]
    assert certificate == json.loads((stored / "certificates" / "0001.json").read_text())
    with StoredFederation.open(stored) as federation:
        verify_certificate(certificate, federation.identity.public)
    for number in ("0", "2", "-1"):
        assert browser.get(f"/forget/certificates/{number}.json").status_code == 404
    assert browser.get("/forget/certificates/..%2f..%2fx.json").status_code in (404, 422)


def test_full_retraining_beside_it_is_what_retraining_would_give(
    browser: Browser, scene: Scene, stored: Path, tmp_path: Path
) -> None:
    job = ended(browser, scene, "/forget/clients", client="client-1", beside="true")
    found = job.snapshot()["found"]
    other = tmp_path / "other"
    with StoredFederation.create(other, SETTINGS, keep_every=5) as federation:
        stored_training(federation)
        retrained = forget(federation, ["client-1"], method="retrain").certificate
    assert found["retrained"] == retrained["ndcg@10"]["after"]
    assert found["retraining"][-1] == (20, found["retrained"])
    assert "nDCG@10 of full retraining" in browser.get("/forget").text


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"client": "client-4"}, 404, "client-0 to client-3"),
        ({"client": "../x"}, 404, "client-0 to client-3"),
        ({"client": "client-0", "local_steps": "0"}, 422, "local_steps"),
        ({"client": "client-0", "method": "magic"}, 422, "method"),
        ({}, 422, "client"),
    ],
)
def test_wrong_input_is_refused_with_a_remedy(
    browser: Browser, stored: Path, form: dict[str, str], status: int, words: str
) -> None:
    refused(browser.post("/forget/clients", data=form), status, words)


def test_a_client_is_forgotten_once(browser: Browser, scene: Scene, stored: Path) -> None:
    ended(browser, scene, "/forget/clients", client="client-0", method="retrain")
    answer = browser.post("/forget/clients", data={"client": "client-0"})
    refused(answer, 409, "was forgotten already", "certificate 1")
    assert 'value="client-0"' not in browser.get("/forget").text


def test_a_stopped_job_leaves_all_as_it_was(
    browser: Browser, scene: Scene, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, go_on = threading.Event(), threading.Event()
    advance = Job.advance

    def slow(job: Job, done: int, total: int) -> None:
        at_work.set()
        go_on.wait(10)
        advance(job, done, total)

    monkeypatch.setattr(Job, "advance", slow)
    job = begun(browser, scene, "/forget/clients", client="client-0")
    at_work.wait(10)
    assert "data-live=" in browser.get("/forget").text
    refused(browser.post("/forget/clients", data={"client": "client-1"}), 409, "under way")
    browser.post(f"/jobs/{job.job_id}/stop", follow_redirects=False)
    go_on.set()
    wait_until(lambda: not job.running)
    page = browser.get("/forget").text
    assert "Nothing was changed" in page
    assert "data-live=" not in page
    assert page.count(">present<") == 4


def test_a_federation_can_be_put_aside_with_its_certificates(
    browser: Browser, scene: Scene, stored: Path
) -> None:
    ended(browser, scene, "/forget/clients", client="client-0")
    refused(browser.post("/forget/training", data={"n_rounds": "20"}), 409, "put it aside")
    ended(browser, scene, "/forget/training", n_rounds=20, aside="true")
    assert (scene.home / "forgettable-1" / "certificates" / "0001.json").is_file()
    assert "Nobody was forgotten here yet" in browser.get("/forget").text


def test_somebody_elses_training_is_not_put_aside(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.lab.forgetting.folder.WAIT_S", 0.1)
    lock = WriterLock(stored)
    lock.take()
    with pytest.raises(Busy):
        StoredClients(stored).put_aside()
    lock.let_go()
    assert stored.is_dir()


def test_a_damaged_federation_is_told_of(browser: Browser, stored: Path) -> None:
    (stored / "federation.db").write_bytes(b"no database")
    page = browser.get("/forget")
    assert page.status_code == 200
    assert "Put it aside and train" in page.text


def test_a_certificate_that_another_key_signed_does_not_pass(scene: Scene, stored: Path) -> None:
    with StoredFederation.open(stored) as federation:
        forget(federation, ["client-3"])
    (stored / "signing-key.pem").unlink()
    SigningIdentity.generate().save(stored / "signing-key.pem")
    seen = StoredClients(stored).look()
    assert seen is not None
    assert seen.certificates[0].problem == "the signature does not fit"
