"""A federation of three sites: right sums, faults at each stage, restarts at each point."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cloister.core.errors import BudgetExceeded, Conflict, SettingsError
from cloister.federate.database_update_store import DatabaseUpdateStore
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.round_failed import RoundFailed, TrainingStopped
from cloister.federate.engines.round_log import RoundLog
from cloister.federate.engines.round_messages import RoundAnnouncement
from cloister.federate.engines.site_call import SiteCall, SiteMethod, SiteReply
from cloister.federate.fpdgd import FPDGD
from cloister.federate.participation import draw_poisson
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.messages import (
    DeliveredShares,
    Roster,
    SurvivorSet,
    SurvivorSignatures,
)
from cloister.rank.ranker import Ranker
from federate.engines.made_federation import (
    N_USERS,
    POPULATION,
    SEED,
    SITES,
    STAGES,
    A,
    B,
    C,
    Fault,
    Killed,
    MakeScene,
    agreed,
    lost,
    private,
    repeated,
    secure,
    unanswered,
)

PRECISION = 3 * 2.0**-32  # three sites, each cut off at 32 binary digits


@pytest.mark.parametrize("agreement", [agreed(), secure(), secure(min_sites=3, n_colluders=1)])
def test_sites_teach_what_the_same_users_teach_in_one_simulation(
    make_scene: MakeScene, agreement: FederationAgreement
) -> None:
    learner = FPDGD(POPULATION, Ranker.initial(agreement.ranker), seed=SEED)
    scene = make_scene(agreement)
    federation = scene.coordinator()
    for number in range(4):
        done = federation.step()
        assert done == (number, SITES, (), {}, learner.step().n_interactions)
        assert np.abs(federation.model).max() > 0.01
        np.testing.assert_allclose(
            federation.ranker.parameters, learner.ranker.parameters, rtol=0, atol=1e-6
        )
    assert federation.n_rounds == 4
    assert scene.n_releases() == [4, 4, 4]
    assert len(federation.ledger.entries()) == 4


def test_a_secure_sum_is_the_plain_one_to_the_fixed_point_precision(make_scene: MakeScene) -> None:
    plain, masked = make_scene(agreed()), make_scene(secure())
    one, other = plain.coordinator(), masked.coordinator()
    one.step()
    other.step()
    np.testing.assert_allclose(other.model, one.model, rtol=0, atol=PRECISION)


DROPPED = {
    SiteMethod.ADVERTISE_KEYS: (A, C),
    SiteMethod.SHARE_KEYS: (A, C),
    SiteMethod.MASK_INPUT: (A, C),
    SiteMethod.SIGN_SURVIVORS: SITES,  # its masked vector has arrived, and counts
    SiteMethod.REVEAL_SHARES: SITES,
}


@pytest.mark.parametrize("fault", [lost, unanswered])
@pytest.mark.parametrize("stage", STAGES)
def test_a_site_that_dies_at_a_stage_is_called_no_more_and_comes_back_in_the_next_round(
    make_scene: MakeScene, stage: SiteMethod, fault: Fault
) -> None:
    scene = make_scene(secure())
    scene.engine.faults[B, stage] = fault
    federation = scene.coordinator()
    before = federation.model
    done = federation.step()
    assert (done.sites, done.silent, done.faults) == (DROPPED[stage], (B,), {})
    wanted = scene.mean_of(before, 0, *DROPPED[stage])
    np.testing.assert_allclose(federation.model, wanted, rtol=0, atol=PRECISION)
    called = [call.method for site, call, _ in scene.engine.log if site == B]
    assert [m for m in called if m in STAGES] == list(STAGES[: STAGES.index(stage) + 1])
    scene.engine.faults.clear()
    assert federation.step().sites == SITES


@pytest.mark.parametrize("stage", STAGES)
def test_a_site_that_is_started_again_in_a_session_leaves_it_and_joins_the_next(
    make_scene: MakeScene, stage: SiteMethod
) -> None:
    scene = make_scene(secure())

    def killed(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply | None:
        carried(call)
        scene.start(B)
        return carried(call)  # what was answered is answered again

    scene.engine.faults[B, stage] = killed
    federation = scene.coordinator()
    before = federation.model
    done = federation.step()
    in_sum = (A, C) if stage in STAGES[:2] else SITES
    assert (done.sites, done.silent) == (in_sum, ())
    assert done.faults == ({} if stage is STAGES[-1] else {B: "AggregationFailed"})
    wanted = scene.mean_of(before, 0, *in_sum)
    np.testing.assert_allclose(federation.model, wanted, rtol=0, atol=PRECISION)
    scene.engine.faults.clear()
    assert federation.step().sites == SITES


@pytest.mark.parametrize("agreement", [agreed(), secure()])
def test_calls_that_come_twice_count_once(
    make_scene: MakeScene, agreement: FederationAgreement
) -> None:
    scene, calm = make_scene(agreement), make_scene(agreement)
    scene.engine.faults = {(site, method): repeated for site in SITES for method in SiteMethod}
    noisy, quiet = scene.coordinator(), calm.coordinator()
    for _ in range(2):
        assert noisy.step() == quiet.step()
    np.testing.assert_array_equal(noisy.model, quiet.model)
    assert scene.n_releases() == calm.n_releases() == [2, 2, 2]


@pytest.mark.parametrize("agreement", [agreed(), secure()])
def test_calls_of_rounds_that_are_over_are_refused_and_release_nothing(
    make_scene: MakeScene, agreement: FederationAgreement
) -> None:
    scene = make_scene(agreement)
    federation = scene.coordinator()
    federation.step()
    old = [(site, call) for site, call, _ in scene.engine.log]
    federation.step()
    for site, call in old:
        reply = SiteReply.from_bytes(scene.sites[site].answer(call.to_bytes()))
        assert reply.fault in ("Conflict", "AggregationFailed")
        assert reply.payload == b""
    assert scene.n_releases() == [2, 2, 2]


def test_a_reply_to_an_earlier_call_is_not_counted(make_scene: MakeScene) -> None:
    scene = make_scene(agreed())
    federation = scene.coordinator()
    federation.step()
    late = next(reply for site, _, reply in scene.engine.log if site == B)
    scene.engine.faults[B, SiteMethod.TRAIN] = lambda call, carried: late
    before = federation.model
    done = federation.step()
    assert (done.sites, done.faults) == ((A, C), {B: "DataError"})
    np.testing.assert_allclose(federation.model, scene.mean_of(before, 1, A, C), atol=1e-12)


@pytest.mark.parametrize("stage", STAGES)
def test_a_site_that_speaks_in_anothers_name_is_left_out(
    make_scene: MakeScene, stage: SiteMethod
) -> None:
    scene = make_scene(secure())

    def as_another(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        said = next(r for s, c, r in scene.engine.log[::-1] if s == A and c.method is stage)
        assert said is not None
        return carried(call)._replace(payload=said.payload)

    scene.engine.faults[B, stage] = as_another
    done = scene.coordinator().step()
    assert done.faults == {B: "AggregationFailed"}
    assert done.sites == DROPPED[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_no_message_is_left_out(make_scene: MakeScene, stage: SiteMethod) -> None:
    scene = make_scene(secure())
    scene.engine.faults[B, stage] = lambda call, carried: carried(call)._replace(payload=b"\0" * 40)
    done = scene.coordinator().step()
    assert (done.faults, done.sites) == ({B: "DataError"}, DROPPED[stage])


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_asked_for_again_in_other_words_is_refused(
    make_scene: MakeScene, stage: SiteMethod
) -> None:
    scene = make_scene(secure())
    others = {SiteMethod.ADVERTISE_KEYS: "Conflict"}

    def asked_twice(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        reply = carried(call)
        again = _reworded(call)
        assert carried(again).fault == others.get(stage, "AggregationFailed")
        return reply

    scene.engine.faults[B, stage] = asked_twice
    done = scene.coordinator().step()
    assert (done.sites, done.faults) == (SITES, {})
    assert scene.n_releases() == [1, 1, 1]


def _reworded(call: SiteCall) -> SiteCall:
    """Return a call that asks for the same with another payload that can be read."""
    payload = call.payload
    match call.method:
        case SiteMethod.ADVERTISE_KEYS:
            told = RoundAnnouncement.from_bytes(payload)
            return call._replace(payload=told._replace(session_id="0" * 64).to_bytes())
        case SiteMethod.SHARE_KEYS:
            roster = Roster.from_bytes(payload)
            wrong = Roster(roster.context, roster.entries[:2]).to_bytes()
        case SiteMethod.MASK_INPUT:
            given = DeliveredShares.from_bytes(payload)
            wrong = replace(given, sharers=given.sharers[:2]).to_bytes()
        case SiteMethod.SIGN_SURVIVORS:
            survivors = SurvivorSet.from_bytes(payload)
            wrong = replace(survivors, survivors=survivors.survivors[:2]).to_bytes()
        case _:
            signed = SurvivorSignatures.from_bytes(payload)
            wrong = replace(signed, signatures=signed.signatures[:2]).to_bytes()
    return call._replace(payload=wrong)


def test_equal_calls_at_the_same_time_get_one_answer(make_scene: MakeScene) -> None:
    scene = make_scene(agreed())

    def at_once(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        with ThreadPoolExecutor(4) as pool:
            first, *others = pool.map(carried, [call] * 4)
        assert others == [first] * 3
        return first

    scene.engine.faults[B, SiteMethod.TRAIN] = at_once
    assert scene.coordinator().step().sites == SITES
    assert scene.n_releases() == [1, 1, 1]


def test_users_throw_new_coins_for_each_private_attempt(make_scene: MakeScene) -> None:
    scene = make_scene(private().model_copy(update={"sampling_rate": 0.5}))
    model = np.zeros(5)
    trainers = [scene.trainer(site) for site in SITES]
    counts = {
        sum(len(t.train(model, round=0, attempt=a).updates) for t in trainers) for a in range(9)
    }
    assert len(draw_poisson(12, 0.5, seed=SEED, round=0)) in counts  # as one simulation draws
    assert len(counts) > 2
    for attempt in range(2):
        one, other = (trainers[0].train(model, round=1, attempt=attempt) for _ in range(2))
        np.testing.assert_array_equal(one.updates, other.updates)


@pytest.mark.parametrize("when", ["kill_before", "kill_after"])
@pytest.mark.parametrize(("agreement", "n_calls"), [(agreed(), 1), (secure(), len(STAGES))])
def test_a_coordinator_that_is_killed_between_stages_goes_on_from_its_last_round(
    make_scene: MakeScene, agreement: FederationAgreement, n_calls: int, when: str
) -> None:
    calm = make_scene(agreement).coordinator()
    for _ in range(3):
        calm.step()
    for stage in range(n_calls):
        scene = make_scene(agreement)
        federation = scene.coordinator()
        federation.step()
        setattr(scene.engine, when, n_calls + stage)
        with pytest.raises(Killed):
            federation.step()
        federation = scene.coordinator()
        assert federation.n_rounds == 1
        assert [federation.step().sites for _ in range(2)] == [SITES, SITES]
        np.testing.assert_allclose(federation.model, calm.model, rtol=0, atol=2 * PRECISION)
        assert len(federation.ledger.entries()) == 3


@pytest.mark.parametrize("agreement", [agreed(), secure()])
@pytest.mark.parametrize("written", [False, True])
def test_a_round_is_written_whole_or_not_at_all(
    make_scene: MakeScene,
    agreement: FederationAgreement,
    written: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = make_scene(agreement).coordinator()
    calm.step()
    scene = make_scene(agreement)
    federation = scene.coordinator()
    with monkeypatch.context() as patch:
        owner, name = (RoundLog, "commit") if written else (RoundLog, "_insert")
        work = getattr(owner, name)

        def killed(*given: object, **named: object) -> None:
            work(*given, **named)
            raise Killed

        patch.setattr(owner, name, killed)
        with pytest.raises(Killed):
            federation.step()
    federation = scene.coordinator()
    assert federation.n_rounds == len(federation.ledger.entries()) == int(written)
    if not written:
        federation.step()
    np.testing.assert_allclose(federation.model, calm.model, rtol=0, atol=PRECISION)
    assert len(federation.ledger.entries()) == 1


def test_a_plain_round_that_begins_again_costs_sites_nothing(make_scene: MakeScene) -> None:
    scene = make_scene(agreed())
    scene.engine.kill_after = 0
    with pytest.raises(Killed):
        scene.coordinator().step()
    for site in SITES:
        scene.start(site)
    scene.coordinator().step()
    assert scene.n_releases() == [1, 1, 1]


def test_of_two_coordinators_one_is_refused(make_scene: MakeScene) -> None:
    scene = make_scene(agreed())
    first = scene.coordinator()

    def overtaken(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        scene.engine.faults.clear()
        first.step()
        return carried(call)

    scene.engine.faults[C, SiteMethod.TRAIN] = overtaken
    with pytest.raises(Conflict, match="done already"):
        first.step()
    assert first.n_rounds == len(first.ledger.entries()) == 1


@pytest.mark.parametrize("agreement", [agreed(min_sites=2), secure()])
def test_too_few_sites_change_nothing(
    make_scene: MakeScene, agreement: FederationAgreement
) -> None:
    scene = make_scene(agreement)
    for site in (A, B):
        scene.engine.faults[site, SiteMethod.TRAIN] = lost
        scene.engine.faults[site, SiteMethod.MASK_INPUT] = lost
    federation = scene.coordinator()
    with pytest.raises(AggregationFailed, match="needed"):
        federation.step()
    assert (federation.n_rounds, federation.ledger.entries()) == (0, [])
    scene.engine.faults.clear()
    assert federation.step().sites == SITES


def test_a_robust_rule_bears_a_site_that_poisons(make_scene: MakeScene) -> None:
    scene = make_scene(agreed(rule="median", n_attackers=1))

    def poisoned(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
        reply = carried(call)
        longest = np.full(5, -0.447)  # a longer one is refused
        return reply._replace(payload=reply.payload[:-40] + longest.tobytes())

    scene.engine.faults[B, SiteMethod.TRAIN] = poisoned
    federation = scene.coordinator()
    federation.step()
    assert 0 < np.abs(federation.model).max() < 0.4


def test_a_site_over_its_limit_stays_away_and_others_go_on(make_scene: MakeScene) -> None:
    scene = make_scene(private())
    scene.sites[B].ledger.set_limit(B, Limit(epsilon=1.0, delta=1e-6), purpose="none such")
    done = scene.coordinator().step()
    assert (done.sites, done.faults) == ((A, C), {B: "BudgetExceeded"})
    assert [len(scene.sites[s].ledger.entries()) for s in (A, C)] == [1, 1]


def test_sites_refuse_a_coordinator_with_another_agreement(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    scene.agreement = secure(n_colluders=0, largest_value=2.0**19)
    with pytest.raises(AggregationFailed):
        scene.coordinator().step()
    replies = [(call.method, reply) for _, call, reply in scene.engine.log if reply]
    assert {r.fault for method, r in replies if method in STAGES} == {"Conflict"}


def test_a_training_goes_on_by_its_own_agreement_only(make_scene: MakeScene) -> None:
    scene = make_scene(agreed())
    scene.coordinator().step()
    scene.agreement = agreed(min_sites=2)
    with pytest.raises(Conflict, match="another agreement"):
        scene.coordinator()


def test_private_training_moves_by_clipped_updates_and_the_noise_that_is_recorded(
    make_scene: MakeScene,
) -> None:
    agreement = private()
    protection = agreement.protection
    assert protection is not None
    misses = []
    scene = make_scene(agreement)
    federation = scene.coordinator()
    for number in range(3):
        before = federation.model
        assert federation.step().n_interactions is None
        lessons = [scene.trainer(site).train(before, round=number) for site in SITES]
        updates = np.concatenate([lesson.updates for lesson in lessons])
        assert np.linalg.norm(updates, axis=1).max() <= 0.3
        misses.append(12 * (federation.model - before) - updates.sum(axis=0, dtype=np.float64))
    sigma = np.sqrt(3) * protection.share_sigma  # all three added their shares
    assert 0.5 < np.std(misses) / sigma < 1.6
    cost = federation.ledger.cost("pilot", delta=1e-3, simulated=True)
    own = scene.sites[A].ledger.cost(A, delta=1e-3, simulated=True)
    assert 4.3 < cost.epsilon <= 5.0  # the report; the filter, for which noise is planned, has 5
    assert own == cost
    with pytest.raises(BudgetExceeded, match="3 rounds"):
        federation.step()


def test_a_coordinator_gets_no_more_noisy_sums_than_were_agreed_on(make_scene: MakeScene) -> None:
    scene = make_scene(private())
    federation = scene.coordinator()
    for site in (A, B):
        scene.engine.faults[site, SiteMethod.SIGN_SURVIVORS] = lost
    for _ in range(3):  # masked sums left the sites each time: they are paid for
        with pytest.raises(AggregationFailed):
            federation.step()
    scene.engine.faults.clear()
    with pytest.raises(TrainingStopped, match="3 rounds were spoilt"):
        federation.step()
    assert federation.suspicion.late == {A: 3, B: 3}
    federation.resume()
    with pytest.raises(RoundFailed, match="0 clients advertised keys") as caught:
        federation.step()
    assert scene.n_releases() == [3, 3, 3]
    assert caught.value.faults == dict.fromkeys(SITES, "BudgetExceeded")


def test_a_site_begins_no_training_that_fits_its_limit_at_the_plans_order_alone(
    make_scene: MakeScene,
) -> None:
    plan = SitePrivacy(epsilon=4.5, delta=1e-5, n_rounds=1000, n_users=N_USERS)
    agreement = secure(sampling_rate=0.01, privacy=plan)
    scene = make_scene(agreement)
    limit = Limit(epsilon=4.5, delta=1e-5)
    for order in (None, agreement.order):
        with Ledger.open(scene.folder / f"{A}.db") as ledger:
            set_now = limit.model_copy(update={"order": order})
            ledger.set_limit(A, set_now, purpose="test")
        if order is None:
            with pytest.raises(BudgetExceeded, match=f"order = {agreement.order!r}"):
                scene.start(A)
    scene.start(A)
    scene.coordinator().step()
    with Ledger.open(scene.folder / f"{A}.db") as ledger:
        ledger.set_limit(A, limit, purpose="changed in the middle")
    scene.start(A)  # it has begun: from now on the ledger decides, round by round


def test_noise_from_a_seed_is_refused_unless_it_is_a_simulation(make_scene: MakeScene) -> None:
    real = private().model_copy(update={"simulated": False})
    with pytest.raises(SettingsError, match="protect nobody"):
        make_scene(real)


def test_ledgers_of_all_parties_are_whole_and_delivered(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    federation = scene.coordinator()
    for _ in range(3):
        federation.step()
    ledgers: list[Ledger] = [federation.ledger, *(scene.sites[s].ledger for s in SITES)]
    for ledger in ledgers:
        check_ledger(ledger)
        assert [entry.number for entry in ledger.pending()] == [3]  # the last is not heard yet


def test_updates_are_kept_for_unlearning_with_their_round_or_not_at_all(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = make_scene(agreed())
    database = scene.database("coordinator")
    store = DatabaseUpdateStore(database, keep_every=2)
    federation = SiteFederation(scene.engine, database, scene.agreement, kept_updates=store)
    first = federation.model
    scene.engine.faults[B, SiteMethod.TRAIN] = lost
    federation.step()
    scene.engine.faults.clear()
    federation.step()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "release_in", _refuse)
        with pytest.raises(Killed):
            federation.step()
    assert [kept.round for kept in store.kept_rounds()] == [0]
    federation.step()
    kept = store.kept_rounds()
    assert [(k.round, k.clients.tolist()) for k in kept] == [(0, [0, 2]), (2, [0, 1, 2])]
    moves = [scene.mean_of(first, 0, site) - first for site in (A, C)]
    np.testing.assert_allclose(kept[0].lengths, np.linalg.norm(moves, axis=1), rtol=1e-6)


def _refuse(*given: object, **named: object) -> None:
    raise Killed


def test_a_site_whose_key_is_not_known_is_not_called(make_scene: MakeScene) -> None:
    scene = make_scene(secure())
    scene.directory.remove(C)
    done = scene.coordinator().step()
    assert done.sites == (A, B)
    assert C not in {site for site, _, _ in scene.engine.log}


@pytest.mark.parametrize("agreement", [agreed(min_sites=2), secure()])
def test_a_round_with_too_few_sites_to_call_says_so_and_changes_nothing(
    make_scene: MakeScene, agreement: FederationAgreement, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = make_scene(agreement)
    federation = scene.coordinator()
    monkeypatch.setattr(scene.engine, "sites", lambda: (A,))
    with pytest.raises(AggregationFailed, match="2 are needed"):
        federation.step()
    assert federation.n_rounds == 0
    monkeypatch.undo()
    assert federation.step().sites == SITES
