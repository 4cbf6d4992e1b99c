"""What a release states, what it refuses to state, and how far one unit moves a tree of sums."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import UNBOUNDED, BoundedRelease, Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease, LaplaceRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.privacy.releases.reading import read_release
from cloister.privacy.releases.tree import TreeRelease

ALL = [
    GaussianRelease(level="user", sigma=2.0, sensitivity=0.5, sampling_rate=0.1, note="ä \x00"),
    DiscreteGaussianRelease(level="token", sigma=30.0, sensitivity=1.5, share_sigma=3.0),
    LaplaceRelease(level="document", scale=2.0, sensitivity=1.0, claimed_epsilon=0.1),
    DiscreteLaplaceRelease(level="token", scale=2.0, sensitivity=3, group_sizes={"user": 9}),
    RandomisedResponseRelease(level="interaction", keep_probability=0.5, n_options=11),
    TreeRelease(level="user", sigma=6.0, sensitivity=1.0, n_rounds=8, n_contributions=2),
    BoundedRelease(level="user", epsilon=1.0, delta=1e-9, mechanism_name="other"),
    UnprotectedRelease(level="token", simulated=True),
]


@pytest.mark.parametrize("release", ALL, ids=lambda release: release.mechanism)
def test_a_release_comes_back_from_its_text(release: Release) -> None:
    assert read_release(release.canonical()) == release
    assert type(read_release(release.canonical())) is type(release)


@pytest.mark.parametrize("release", ALL, ids=lambda release: release.mechanism)
@pytest.mark.parametrize("level", Level)
def test_a_unit_that_is_not_covered_has_no_bound(release: Release, level: Level) -> None:
    bounded = release.level.covers(level) or level in release.group_sizes
    if not bounded or isinstance(release, UnprotectedRelease):
        assert release.losses(level) == (UNBOUNDED,)
    else:
        assert UNBOUNDED not in release.losses(level)
    assert release.loss_counts(level).total() == len(release.losses(level))
    assert set(release.loss_counts(level)) == set(release.losses(level))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"mechanism":"magic"}', '{"mechanism":"none"}'])
def test_a_text_that_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"entry 7: not a release"):
        read_release(text, where="entry 7")


def test_a_text_with_an_impossible_parameter_is_refused() -> None:
    text = ALL[0].canonical().replace('"sigma":2.0', '"sigma":-2.0')
    with pytest.raises(DataError, match="greater than 0"):
        read_release(text)


@pytest.mark.parametrize("kind", [GaussianRelease, DiscreteGaussianRelease])
def test_sampling_is_accounted_for_units_added_or_removed_only(kind: type[Release]) -> None:
    fields = {"level": "user", "sigma": 9.0, "sensitivity": 1.0, "neighbours": "replace"}
    kind(**fields)
    with pytest.raises(SettingsError, match="added or removed only"):
        kind(**fields, sampling_rate=0.5)


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (GaussianRelease, {"sigma": 0.0, "sensitivity": 1.0}, "greater than 0"),
        (GaussianRelease, {"sigma": math.nan, "sensitivity": 1.0}, "finite|nan"),
        (GaussianRelease, {"sigma": math.inf, "sensitivity": 1.0}, "finite"),
        (GaussianRelease, {"sigma": 1.0, "sensitivity": 1.0, "sampling_rate": 1.5}, "less than"),
        (DiscreteGaussianRelease, {"sigma": 2.0, "sensitivity": 1.0}, "greater than 2"),
        (DiscreteGaussianRelease, {"sigma": 9, "sensitivity": 1, "share_sigma": 2.9}, "3"),
        (RandomisedResponseRelease, {"keep_probability": 0.1, "n_options": 2}, "as likely"),
        (RandomisedResponseRelease, {"keep_probability": 1.0, "n_options": 2}, "less than 1"),
        (LaplaceRelease, {"scale": 1, "sensitivity": 1, "group_sizes": {"token": 3}}, "not hold"),
        (LaplaceRelease, {"scale": 1, "sensitivity": 1, "group_sizes": {"user": 0}}, "at least"),
        (UnprotectedRelease, {"noise": 3}, "unknown setting"),
    ],
)
def test_impossible_releases_cannot_be_stated(
    kind: type[Release], fields: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        kind(level="interaction", **fields)


def test_an_answer_drawn_at_random_says_nothing() -> None:
    release = RandomisedResponseRelease(level="user", keep_probability=0.25, n_options=4)
    assert release.epsilon == 0
    assert release.losses(Level.USER) == (Loss("response", 1.0, 4),)


def test_a_bound_for_a_group_that_no_number_can_hold_is_none() -> None:
    release = BoundedRelease(
        level="token", epsilon=800.0, delta=1e-160, mechanism_name="x", group_sizes={"user": 2}
    )
    assert release.losses(Level.USER) == (Loss("bound", 1600.0, delta=1.0),)
    pure = BoundedRelease(level="token", epsilon=800.0, mechanism_name="x", group_sizes={"user": 2})
    assert pure.losses(Level.USER) == (Loss("bound", 1600.0),)


def brute_force_tree_sensitivity(n_rounds: int, n_contributions: int, between: int) -> float:
    """Try all rounds in which one unit may take part; each contribution moves its sums by 1."""
    nodes = [
        range(start, start + 2**height)
        for height in range(n_rounds.bit_length())
        for start in range(0, n_rounds - 2**height + 1, 2**height)
    ]
    worst = 0
    for n in range(1, n_contributions + 1):
        for rounds in combinations(range(n_rounds), n):
            if all(b - a >= between for a, b in pairwise(rounds)):
                moved = (sum(round_ in node for round_ in rounds) for node in nodes)
                worst = max(worst, sum(count**2 for count in moved))
    return math.sqrt(worst)


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 5, 7, 8, 11, 12])
@pytest.mark.parametrize("n_contributions", [1, 2, 3, 12])
@pytest.mark.parametrize("between", [1, 2, 3, 5])
def test_one_unit_moves_a_tree_no_further_than_stated(
    n_rounds: int, n_contributions: int, between: int
) -> None:
    release = TreeRelease(
        level="user",
        sigma=1.0,
        sensitivity=1.0,
        n_rounds=n_rounds,
        n_contributions=n_contributions,
        n_rounds_between=between,
    )
    worst = brute_force_tree_sensitivity(n_rounds, min(n_contributions, n_rounds), between)
    assert release.tree_sensitivity >= worst * (1 - 1e-12)
    if n_contributions == 1:
        assert release.tree_sensitivity == pytest.approx(worst)
    if between == 1 and n_contributions >= n_rounds and n_rounds in (1, 2, 8):
        assert release.tree_sensitivity == pytest.approx(worst)
