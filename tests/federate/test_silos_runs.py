"""The four runs: what each learns from, and what crosses."""

from __future__ import annotations

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.core.ids import PartyId
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.forest_learner import ForestLearner
from cloister.federate.silos.linear_learners import LinearLearner
from cloister.federate.silos.round_robin import RoundRobinSettings
from cloister.federate.silos.runs import (
    RUNS,
    Learnt,
    PartyRows,
    RunName,
    SiloLearner,
    crossings,
    rows_for,
    train_run,
)
from cloister.privacy.level import Level
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.rank.forest import Forest, ForestMixture, ForestSettings

PARTIES = [PartyId("a"), PartyId("b"), PartyId("c")]


def made(seed: int) -> RankingData:
    rng = np.random.default_rng(seed)
    features = rng.random((200, 3))
    labels = np.clip(np.round(features @ [2.0, 1.0, -1.0]), 0, 2).astype(np.int8)
    return RankingData(features, labels, np.arange(0, 201, 10))


def rows(run: RunName) -> dict[PartyId, PartyRows]:
    return {
        party: rows_for(run, made(i), made(i + 10), augmented_weight=0.5)
        for i, party in enumerate(PARTIES)
    }


@pytest.mark.parametrize(
    ("run", "n_rows", "n_models"),
    [("local", 200, 3), ("local-plus", 400, 3), ("global", 200, 1), ("cs-f-ltr", 400, 1)],
)
def test_runs_learn_from_what_their_names_say(run: RunName, n_rows: int, n_models: int) -> None:
    given = rows(run)
    assert {one.data.n_rows for one in given.values()} == {n_rows}
    rankers = train_run(run, given, LinearLearner(), seed=1)
    assert list(rankers) == PARTIES
    assert len({id(ranker) for ranker in rankers.values()}) == n_models


def test_augmented_rows_count_by_their_weight() -> None:
    weights = rows("cs-f-ltr")[PARTIES[0]].weights
    assert weights[:200].tolist() == [1.0] * 200
    assert weights[200:].tolist() == [0.5] * 200


def test_rows_that_count_nothing_change_nothing_but_the_order() -> None:
    other = made(99)
    for labels in (other.labels, 2 - other.labels):
        changed = RankingData(other.features, labels, other.offsets)
        given = {PARTIES[0]: rows_for("local-plus", made(1), changed, augmented_weight=0.0)}
        ranker = train_run("local-plus", given, LinearLearner(), seed=1)[PARTIES[0]]
        found = ranker.score(made(2))
        if labels is other.labels:
            first = found
    assert np.array_equal(first, found)


def test_an_augmented_run_without_augmented_rows_is_refused() -> None:
    with pytest.raises(SettingsError, match="augmented"):
        rows_for("cs-f-ltr", made(1), None)


@pytest.mark.parametrize("learner", [LinearLearner(), ForestLearner(ForestSettings(n_trees=3))])
def test_each_run_lists_what_crosses(learner: SiloLearner) -> None:
    sketch = GaussianRelease(level="token", sigma=2.0, sensitivity=1.0)
    found = {}
    for run in RUNS:
        ranker = train_run(run, rows(run), learner, seed=1)[PARTIES[0]]
        found[run] = crossings(
            run, PARTIES, [Learnt(learner, ranker)], sketches=dict.fromkeys(PARTIES, (sketch,))
        )
    assert found["local"] == []
    assert {one.what for one in found["local-plus"]} == {"sketches"}
    assert {one.what for one in found["global"]} == {learner.what_crosses}
    assert {one.what for one in found["cs-f-ltr"]} == {"sketches", learner.what_crosses}
    assert all(one.sender not in one.recipients for run in RUNS for one in found[run])


def test_parameters_are_unprotected_and_sketches_are_what_their_release_says() -> None:
    sketch = GaussianRelease(level="token", sigma=2.0, sensitivity=1.0)
    learner = LinearLearner()
    ranker = train_run("cs-f-ltr", rows("cs-f-ltr"), learner, seed=1)[PARTIES[0]]
    found = crossings(
        "cs-f-ltr",
        PARTIES,
        [Learnt(learner, ranker)],
        sketches=dict.fromkeys(PARTIES, (sketch,)),
    )
    kinds = {one.what: one.release.losses(Level.TOKEN)[0].kind for one in found}
    assert kinds == {"sketches": "gaussian", "parameters": "unbounded"}
    assert {one.release.n_values for one in found if one.what == "parameters"} == {12 * (10 + 1)}


def test_exact_counts_that_cross_are_recorded_as_unprotected() -> None:
    held = dict(zip(PARTIES, (5, 6, 7), strict=True))
    found = crossings("local-plus", PARTIES, n_exact=held)
    assert {one.what for one in found} == {"exact counts"}
    assert {one.sender: one.release.n_values for one in found} == held
    assert {one.release.losses(Level.TOKEN)[0].kind for one in found} == {"unbounded"}


def test_unprotected_releases_of_a_simulation_are_marked_and_others_are_not() -> None:
    learner = LinearLearner()
    ranker = train_run("cs-f-ltr", rows("cs-f-ltr"), learner, seed=1)[PARTIES[0]]
    learnt = [Learnt(learner, ranker)] * 2
    for simulated in (False, True):
        found = crossings("cs-f-ltr", PARTIES, learnt, simulated=simulated)
        assert {one.what for one in found} == {"exact counts", "parameters", "validation figures"}
        assert all(one.release.simulated is simulated for one in found)


def test_the_parameters_of_every_variant_are_counted() -> None:
    short, long = (
        LinearLearner(round_robin=RoundRobinSettings(epochs=epochs)) for epochs in (3, 8)
    )
    learnt = [
        Learnt(one, train_run("global", rows("global"), one, seed=1)[PARTIES[0]])
        for one in (short, long)
    ]
    (alone,) = {one.release.n_values for one in crossings("global", PARTIES, learnt[:1])}
    both = crossings("global", PARTIES, learnt)
    (together,) = {one.release.n_values for one in both if one.what == "parameters"}
    assert (alone, together) == (12 * (3 + 1), 12 * (3 + 1) + 12 * (8 + 1))


def test_a_federated_run_without_what_it_learnt_is_refused() -> None:
    with pytest.raises(SettingsError, match="hands rankers round"):
        crossings("global", PARTIES)


def test_forests_of_several_parties_are_mixed_and_of_one_are_its_own() -> None:
    learner = ForestLearner(ForestSettings(n_trees=5))
    together = train_run("global", rows("global"), learner, seed=1)[PARTIES[0]]
    alone = train_run("local", rows("local"), learner, seed=1)
    assert isinstance(together, ForestMixture)
    assert isinstance(alone[PARTIES[0]], Forest)
    assert [one.text for one in together.forests] == [one.text for one in alone.values()]  # type: ignore[attr-defined]


def test_a_pooled_forest_says_that_rows_cross() -> None:
    learner = ForestLearner(ForestSettings(n_trees=5), pooled=True)
    ranker = train_run("global", rows("global"), learner, seed=1)[PARTIES[0]]
    assert isinstance(ranker, Forest)
    found = crossings("global", PARTIES, [Learnt(learner, ranker)])
    assert {one.what for one in found} == {"feature rows and labels"}
