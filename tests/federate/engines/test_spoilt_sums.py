"""One site that sends what it likes: how far the ranker moves, who pays, who is named."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloister.adversary.malicious_site import BREACHES
from cloister.core.errors import NotFound
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.round_failed import RoundFailed, RoundSpoilt, TrainingStopped
from cloister.federate.engines.round_messages import RoundAnnouncement, SiteUpdate, UnreadShares
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteMethod, SiteReply
from cloister.federate.engines.suspicion import Suspicion
from cloister.lab.bench import malicious_site
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.secure_aggregation.messages import MaskedInput
from federate.engines.made_federation import (
    SITES,
    A,
    B,
    C,
    Fault,
    MakeScene,
    Scene,
    agreed,
    lost,
    private,
    refused,
    secure,
    unanswered,
)

HUGE = 2**62


def adds(*words: int) -> Fault:
    """Let a site add these to its vector, the last of them to all that follow."""

    def fault(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        reply = carried(call)
        masked = MaskedInput.from_bytes(reply.payload)
        added = [*words, *[words[-1]] * len(masked.values)][: len(masked.values)]
        wrong = replace(masked, values=masked.values + np.array(added, np.int64).view(np.uint64))
        return reply._replace(payload=wrong.to_bytes())

    return fault


def spoils(scene: Scene, *sites: SiteId) -> None:
    for site in SITES:
        scene.engine.faults.pop((site, SiteMethod.MASK_INPUT), None)
    for site in sites:
        scene.engine.faults[site, SiteMethod.MASK_INPUT] = adds(HUGE)


def spoilt_step(federation: SiteFederation) -> RoundSpoilt:
    with pytest.raises(RoundSpoilt) as caught:
        federation.step()
    return caught.value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (private, (HUGE,)),
        (private, (2**40,)),  # some hundred times all users
        (private, (-(2**63),)),
        (secure, (HUGE,)),
        (secure, (2**50, 0, 0, 0, 0, 0)),  # in range, and longer than was agreed on
        (secure, (0, 0, 0, 0, 0, 2**31)),  # half an interaction
        (secure, (0, 0, 0, 0, 0, -(2**45))),  # less than no interaction
    ],
)
def test_a_sum_that_honest_sites_cannot_make_is_discarded_and_paid_once(
    make_scene: MakeScene, make: Callable[[], FederationAgreement], words: tuple[int, ...]
) -> None:
    scene = make_scene(make())
    scene.engine.faults[B, SiteMethod.MASK_INPUT] = adds(*words)
    federation = scene.coordinator()
    before = federation.model
    error = spoilt_step(federation)
    np.testing.assert_array_equal(federation.model, before)
    assert federation.n_rounds == 1
    assert scene.n_releases() == [1, 1, 1]
    assert error.suspicion.suspects == dict.fromkeys(SITES, 0)
    assert error.suspicion.left_out == A
    assert federation.ledger.entries() == []  # readers of rankers got nothing
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.suspicion, str(copied)) == (error.suspicion, str(error))


def test_what_went_into_a_spoilt_sum_is_used_up(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    spoils(scene, B)
    federation = scene.coordinator()
    spoilt_step(federation)
    spoils(scene)
    assert federation.step().sites == (B, C)
    assert federation.step().sites == (B, C)
    told = [
        RoundAnnouncement.from_bytes(call.payload)
        for _, call, _ in scene.engine.log
        if call.method is SiteMethod.ADVERTISE_KEYS
    ]
    assert {(one.round_number, one.last_counted) for one in told} == {(0, -1), (1, 0), (2, 1)}


def test_every_spoilt_sum_clears_the_suspect_left_out_until_one_is_named(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure())
    spoils(scene, C)
    federation = scene.coordinator()
    assert spoilt_step(federation).suspicion.left_out == A
    federation = scene.coordinator()  # started again: nothing is forgotten
    assert spoilt_step(federation).suspicion.left_out == B
    error = spoilt_step(scene.coordinator())
    assert error.suspicion.named == (C,)
    federation = scene.coordinator()
    federation.resume()
    n_calls = len(scene.engine.log)
    for _ in range(3):
        assert federation.step().sites == (A, B)
    assert C not in {site for site, _, _ in scene.engine.log[n_calls:]}
    assert [one.spoilt != "" for one in federation.log.past()[0]] == [True] * 3 + [False] * 3
    assert federation.log.past()[0][0].recorded_at
    federation.readmit(C)
    spoils(scene)
    assert federation.step().sites == SITES


def test_training_stops_after_the_agreed_number_of_spoilt_sums(make_scene: MakeScene) -> None:
    scene = make_scene(secure(most_spoilt=2))
    spoils(scene, C)
    federation = scene.coordinator()
    assert not spoilt_step(federation).suspicion.stopped
    assert "2 rounds were spoilt" in spoilt_step(federation).suspicion.stopped
    released = scene.n_releases()
    for _ in range(2):
        with pytest.raises(TrainingStopped, match="2 rounds"):
            federation.step()
        federation = scene.coordinator()  # started again: it stays stopped
    assert scene.n_releases() == released
    federation.resume()
    assert spoilt_step(federation).suspicion.named == (C,)
    assert federation.step().sites == (A, B)


def test_training_stops_at_once_where_no_site_can_be_left_out(make_scene: MakeScene) -> None:
    scene = make_scene(secure(min_sites=3))
    spoils(scene, C)
    federation = scene.coordinator()
    error = spoilt_step(federation)
    assert "without clinic-a 2 sites are left, and 3 are needed" in error.suspicion.stopped
    with pytest.raises(TrainingStopped):
        federation.step()
    federation.exclude(C)
    federation.resume()
    with pytest.raises(RoundFailed, match="without clinic-c 2 sites are left; 3 are needed"):
        federation.step()


def test_an_operator_names_a_site_or_takes_it_back(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    federation = scene.coordinator()
    federation.exclude(B)
    assert federation.step().sites == (A, C)
    federation.readmit(B)
    assert federation.step().sites == SITES
    for wrong in (federation.exclude, federation.readmit):
        with pytest.raises(NotFound):
            wrong("nobody")


def test_in_the_open_a_site_whose_update_is_too_long_is_named_at_once(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(agreed())

    def long(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        update = SiteUpdate(1, np.full(5, 0.45))
        return carried(call)._replace(payload=update.to_bytes())

    scene.engine.faults[B, SiteMethod.TRAIN] = long
    done = scene.coordinator().step()
    assert (done.sites, done.faults) == ((A, C), {B: "DataError"})


@pytest.mark.parametrize("make", [agreed, secure])
def test_honest_sites_shorten_their_updates_to_what_was_agreed_on(
    make_scene: MakeScene, make: Callable[..., FederationAgreement]
) -> None:
    scene = make_scene(make(largest_update=1e-3))
    federation = scene.coordinator()
    before = federation.model
    assert federation.step().sites == SITES
    moved = np.linalg.norm(federation.model - before)
    assert 1e-4 < moved <= federation._agreement.largest_step(3)


def test_a_site_that_falls_silent_late_is_left_out_of_the_next_attempt(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure())
    scene.engine.faults = {(site, SiteMethod.REVEAL_SHARES): unanswered for site in (B, C)}
    federation = scene.coordinator()
    with pytest.raises(RoundFailed):
        federation.step()
    scene.engine.faults.clear()
    assert federation.step().sites == SITES  # both could not be missed
    scene.engine.faults[C, SiteMethod.SIGN_SURVIVORS] = unanswered
    scene.engine.faults[B, SiteMethod.MASK_INPUT] = unanswered
    with pytest.raises(RoundFailed):
        federation.step()
    scene.engine.faults.pop((B, SiteMethod.MASK_INPUT))
    assert federation.step().sites == (A, B)


def test_a_site_that_masks_with_another_seed_than_it_shared_out_spoils_the_sum(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(private())

    def other_seed(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        reply, open_session = carried(call), scene.sites[C]._open
        assert open_session is not None
        open_session.client._seed = bytes(32)
        return reply

    scene.engine.faults[C, SiteMethod.SHARE_KEYS] = other_seed
    assert spoilt_step(scene.coordinator()).suspicion.left_out == A


@pytest.mark.parametrize("name", BREACHES)
def test_a_site_that_breaks_the_protocol_costs_others_one_release_and_no_honest_site_is_named(
    tmp_path: Path, name: str
) -> None:
    """Four of five sites are needed, so that one can be missed."""
    figures = malicious_site.run(lambda done, total: None, rounds=3, strategies=[name])
    for way in malicious_site.AGREEMENTS:
        found = {
            key.rpartition(": ")[2]: value
            for key, value in figures.items()
            if key.startswith(f"{way}, ")
        }
        assert found["rounds_counted"] == 3
        assert found["honest_named"] == 0
        assert found["releases_for_nothing"] <= 1
        never = name.startswith("never answers")
        assert found["named_in_round"] == (0 if never else 1)


def test_a_proven_liar_is_asked_no_more_also_after_a_restart(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    lie = BREACHES["shares of another seed"].lie

    def lies(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        lie(scene.sites[C])
        return carried(call)

    scene.engine.faults[C, SiteMethod.SHARE_KEYS] = lies
    with pytest.raises(RoundFailed):
        scene.coordinator().step()
    scene.engine.faults.clear()
    federation = scene.coordinator()
    assert federation.suspicion.named == (C,)
    assert [federation.step().sites for _ in range(2)] == [(A, B)] * 2
    federation.readmit(C)
    assert federation.step().sites == SITES


def test_one_of_two_is_a_suspect_where_one_cannot_read_the_others_shares(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(secure())
    forge = BREACHES["shares that one site cannot read"].forge[SiteMethod.SHARE_KEYS]

    def unreadable(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        reply = carried(call)
        return reply._replace(payload=forge(reply.payload))

    scene.engine.faults[C, SiteMethod.SHARE_KEYS] = unreadable  # for A, the first
    federation = scene.coordinator()
    done = federation.step()
    assert (done.sites, done.faults) == ((B, C), {A: "AggregationFailed"})
    assert scene.n_releases() == [0, 1, 1]  # A stopped before it released anything
    assert [*federation.suspicion.suspects] == [A, C]
    assert federation.suspicion.left_out == A
    with pytest.raises(RoundFailed, match="1 clients sent a vector"):
        federation.step()  # now B cannot read them
    assert federation.suspicion.named == (C,)


def test_a_site_that_names_no_member_accuses_nobody(make_scene: MakeScene) -> None:
    scene = make_scene(secure())

    def accuses(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        return carried(call)._replace(payload=UnreadShares((C, "clinic-z")).to_bytes())

    scene.engine.faults[C, SiteMethod.MASK_INPUT] = accuses
    federation = scene.coordinator()
    assert federation.step().sites == (A, B)
    assert federation.suspicion == Suspicion()


def test_training_stops_after_attempts_that_were_paid_for_and_failed(
    make_scene: MakeScene,
) -> None:
    scene = make_scene(private(n_rounds=9).model_copy(update={"min_sites": 3, "most_spoilt": 2}))
    scene.engine.faults[C, SiteMethod.SIGN_SURVIVORS] = lost
    for _ in range(2):
        with pytest.raises(RoundFailed):
            scene.coordinator().step()
    scene.engine.faults.clear()
    federation = scene.coordinator()
    with pytest.raises(TrainingStopped, match="2 rounds were spoilt"):
        federation.step()
    assert federation.suspicion.told().startswith("dropped out late, times: clinic-c 2")
    federation.resume()
    assert federation.step().sites == SITES


def test_a_site_that_never_ends_sessions_is_asked_less_and_less(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    scene.engine.faults = {(C, SiteMethod.MASK_INPUT): refused, (C, SiteMethod.END_SESSION): lost}
    federation = scene.coordinator()
    for _ in range(16):
        federation.step()
    asked = [call for site, call, _ in scene.engine.log if site == C]
    n_ends = sum(call.method is SiteMethod.END_SESSION for call in asked)
    assert len(federation.log.open_sessions()) == 16
    assert n_ends <= 7  # of 32 passes; each costs one timeout
    scene.engine.faults.clear()
    for _ in range(40):
        federation.step()
    assert not federation.log.open_sessions()


def test_honest_sums_are_never_spoilt_even_if_all_users_pull_one_way() -> None:
    agreement = private(n_users=40, clip_norm=0.3)
    protection, n_sites = agreement.protection, 5
    assert protection is not None
    users = np.zeros((8, 5), np.float32)
    users[:, 0] = 0.3
    lengths = []
    for seed in range(300):
        source = SimulatedNoise(np.random.default_rng(seed))
        sums = [protection.protected_sum(users, source) for _ in range(n_sites)]
        lengths.append(np.linalg.norm(protection.decoded(np.sum(sums, axis=0))))
    assert max(lengths) < agreement.longest_sum(n_sites)
    assert min(lengths) > 0.5 * agreement.longest_sum(n_sites)  # close enough to tell
