"""What crosses for each system of a repetition, as a ledger would have it."""

from __future__ import annotations

from typing import Any

import pytest

from cloister.core.errors import SettingsError
from cloister.core.ids import PartyId
from cloister.federate.silos.tuning import VARIANTS
from cloister.lab.silos.collections import make_parties
from cloister.lab.silos.rows import make_rows
from cloister.lab.silos.settings import SilosSettings
from cloister.lab.silos.training import (
    N_STEPS,
    SYSTEMS,
    TrainedSilos,
    narrowed,
    train_silos,
)
from cloister.privacy.release import UnprotectedRelease
from cloister.rank.forest import Forest, ForestMixture

WORLD = "world:clinic?servers=2&organisations=2&pods=40&queries=60&document_bytes=0&staff=8"
PARTIES = [PartyId("party-a"), PartyId("party-b")]


def tiny(**fields: Any) -> SilosSettings:
    given = {"counts": "exact", "epochs": 2, "n_others": 10, "n_parties": 2, **fields}
    return SilosSettings(collection="clinic", data=WORLD, **given)


@pytest.fixture(scope="module")
def exact() -> TrainedSilos:
    return train_silos(tiny())


def kinds(trained: TrainedSilos) -> dict[str, set[str]]:
    return {system: {one.what for one in trained.crossings(system)} for system in SYSTEMS}


def handed_round(trained: TrainedSilos, system: str) -> dict[PartyId, int]:
    return {
        one.sender: one.release.n_values
        for one in trained.crossings(system)
        if one.what in ("parameters", "trees")
    }


def test_every_system_says_what_crosses(exact: TrainedSilos) -> None:
    assert kinds(exact) == {
        "local": set(),
        "local-plus": {"exact counts"},
        "local-pooled": {"exact counts"},
        "global": {"parameters"},
        "cs-f-ltr": {"exact counts", "parameters"},
        "cs-f-ltr-tuned": {"exact counts", "parameters", "validation figures"},
        "mixture": {"exact counts", "parameters"},
    }
    for system in SYSTEMS:
        for one in exact.crossings(system):
            assert one.release.simulated
            assert {one.sender, *one.recipients} == set(PARTIES)


def test_pooled_statistics_need_counts_of_others_in_every_run() -> None:
    found = kinds(train_silos(tiny(local_statistics="pooled")))
    assert found["local"] == {"exact counts"}
    assert found["global"] == {"exact counts", "parameters"}


def test_exact_counts_are_counted(exact: TrainedSilos) -> None:
    for party in make_parties(narrowed(tiny())):
        n_pairs = sum(int((counts.counts > 0).sum()) for counts in party.fields.values())
        (told,) = {
            one.release.n_values
            for one in exact.crossings("local-plus")
            if one.sender == party.party_id
        }
        assert told == n_pairs


def test_the_tuned_run_hands_round_the_parameters_of_every_variant(exact: TrainedSilos) -> None:
    learnt = exact.systems["cs-f-ltr-tuned"].learnt
    assert len(learnt) == len(VARIANTS)
    n_parameters = len(learnt[0].scorer.parameters)  # type: ignore[attr-defined]
    passes = [one.learner.round_robin.epochs for one in learnt]  # type: ignore[attr-defined]
    assert len(set(passes)) > 1  # variants with fewer rows pass over them more often
    expected = sum(n_parameters * (n + 1) for n in passes)
    assert handed_round(exact, "cs-f-ltr-tuned") == dict.fromkeys(PARTIES, expected)
    assert handed_round(exact, "mixture") == handed_round(exact, "cs-f-ltr")
    assert handed_round(exact, "cs-f-ltr")[PARTIES[0]] == n_parameters * (passes[0] + 1)


def test_rankers_learnt_alone_were_handed_to_nobody(exact: TrainedSilos) -> None:
    for system in ("local", "local-plus", "local-pooled"):
        assert exact.systems[system].learnt == ()


def test_trees_cross_where_forests_are_trained() -> None:
    trained = train_silos(tiny(ranker="forest", n_trees=4))
    (learnt,) = trained.systems["cs-f-ltr"].learnt
    assert isinstance(learnt.scorer, ForestMixture)
    assert all(isinstance(one, Forest) for one in learnt.scorer.forests)
    assert {one.what for one in trained.crossings("global")} == {"trees"}
    assert min(handed_round(trained, "global").values()) > 4


def test_releases_of_sketches_are_those_of_the_rows() -> None:
    settings = tiny(counts="release", epsilon=8.0)
    trained, releases = train_silos(settings), make_rows(narrowed(settings)).releases
    assert releases is not None
    for party in PARTIES:
        found = [
            one.release
            for one in trained.crossings("cs-f-ltr-tuned")
            if (one.sender, one.what) == (party, "sketches")
        ]
        assert found == list(releases[party])
        assert not any(isinstance(one, UnprotectedRelease) for one in found)


def test_progress_counts_every_step_once() -> None:
    seen: list[tuple[int, int]] = []
    train_silos(tiny(), advance=lambda done, total: seen.append((done, total)))
    assert seen == [(done, N_STEPS) for done in range(1, N_STEPS + 1)]


def test_an_unknown_system_is_refused(exact: TrainedSilos) -> None:
    with pytest.raises(SettingsError, match="there are: local"):
        exact.crossings("central")
