"""Rounds that fail: what they say, what they cost, and who is asked again."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cloister.federate.engines.local_trainer import PopulationTrainer, SiteLesson
from cloister.federate.engines.round_failed import RoundFailed
from cloister.federate.engines.site_call import SiteMethod
from cloister.federate.engines.watching_engine import HELLO
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.limits import Limit
from federate.engines.made_federation import (
    SITES,
    STAGES,
    A,
    B,
    C,
    MakeScene,
    agreed,
    lost,
    private,
    refused,
    secure,
    unanswered,
)


def test_a_site_that_has_used_up_its_releases_costs_the_others_nothing(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(private(n_rounds=2).model_copy(update={"min_sites": 3}))
    federation = scene.coordinator()
    for site in (A, B):
        scene.engine.faults[site, SiteMethod.MASK_INPUT] = lost
    for _ in range(2):  # C alone has released
        with pytest.raises(RoundFailed, match="clients sent"):
            federation.step()
    assert scene.n_releases() == [0, 0, 2]
    scene.engine.faults.clear()
    for _ in range(3):
        with pytest.raises(RoundFailed, match="advertised keys") as caught:
            federation.step()
        assert caught.value.faults == {C: "BudgetExceeded"}
    assert scene.n_releases() == [0, 0, 2]


def test_a_limit_that_is_used_up_is_known_before_others_release(make_scene: MakeScene) -> None:
    scene = make_scene(private().model_copy(update={"min_sites": 3}))
    scene.sites[C].ledger.set_limit(C, Limit(epsilon=1.0, delta=1e-6), purpose="none such")
    for _ in range(3):
        with pytest.raises(RoundFailed, match="advertised keys") as caught:
            scene.coordinator().step()
        assert caught.value.faults == {C: "BudgetExceeded"}
    assert [entry.kind for entry in scene.sites[C].ledger.entries()] == ["limit"]
    assert [len(scene.sites[site].ledger.entries()) for site in (A, B)] == [0, 0]


def test_a_site_that_refused_in_a_failed_attempt_is_left_out_until_the_round_is_done(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure())
    scene.engine.faults = {(B, STAGES[2]): lost, (C, STAGES[2]): refused}
    federation = scene.coordinator()
    with pytest.raises(RoundFailed) as caught:
        federation.step()
    assert (caught.value.silent, caught.value.faults) == ((B,), {C: "DataError"})
    del scene.engine.faults[B, STAGES[2]]
    called = len(scene.engine.log)
    done = federation.step()
    assert (done.sites, done.silent, done.faults) == ((A, B), (), {})
    assert C not in {site for site, _, _ in scene.engine.log[called:]}
    scene.engine.faults.clear()
    assert federation.step().sites == SITES


def test_a_site_that_refused_is_asked_again_where_none_can_be_missed(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure(min_sites=3))
    scene.engine.faults[C, STAGES[2]] = refused
    federation = scene.coordinator()
    with pytest.raises(RoundFailed):
        federation.step()
    scene.engine.faults.clear()
    assert federation.step().sites == SITES


def test_a_failed_round_says_who_was_silent_and_who_refused(make_scene: MakeScene) -> None:
    scene = make_scene(agreed(min_sites=2))
    scene.engine.faults = {(A, SiteMethod.TRAIN): lost, (B, SiteMethod.TRAIN): refused}
    with pytest.raises(RoundFailed, match="1 sites answered") as caught:
        scene.coordinator().step()
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.silent, error.faults) == ((A,), {B: "DataError"})
        assert str(error) == str(caught.value)


def test_what_failed_attempts_released_waits_no_more_when_the_next_begins(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure())
    federation = scene.coordinator()
    scene.engine.faults = {(site, SiteMethod.SIGN_SURVIVORS): lost for site in (A, B)}
    for _ in range(3):
        with pytest.raises(RoundFailed):
            federation.step()
    scene.engine.faults = {(B, SiteMethod.MASK_INPUT): unanswered}
    assert federation.step().sites == (A, C)
    scene.engine.faults.clear()
    federation.step()
    for site in SITES:
        ledger = scene.sites[site].ledger
        check_ledger(ledger)
        assert len(ledger.entries()) == 5  # what they cost stays
        assert [entry.number for entry in ledger.pending()] == [5]


def test_a_site_says_hello_while_it_trains(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = make_scene(agreed())
    begun, go_on = threading.Event(), threading.Event()
    train = PopulationTrainer.train

    def slow(trainer: PopulationTrainer, *given: Any, **named: Any) -> SiteLesson:
        begun.set()
        assert go_on.wait(10)
        return train(trainer, *given, **named)

    monkeypatch.setattr(PopulationTrainer, "train", slow)
    with ThreadPoolExecutor(2) as pool:
        step = pool.submit(scene.coordinator().step)
        try:
            assert begun.wait(10)
            hello = pool.submit(scene.sites[A].handle, HELLO)
            assert hello.result(timeout=2) == scene.agreement.digest().encode()
        finally:
            go_on.set()
        assert step.result().sites == SITES
