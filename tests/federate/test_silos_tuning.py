"""How much of what others sent a run uses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.ids import PartyId
from cloister.federate.silos.linear_learners import LinearLearner
from cloister.federate.silos.runs import Learnt, crossings
from cloister.federate.silos.tuning import VARIANTS, choose_variant
from cloister.privacy.release import UnprotectedRelease
from cloister.rank.pointwise import PointwiseModel, PointwiseSettings, initial_parameters

values = st.lists(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    min_size=len(VARIANTS),
    max_size=len(VARIANTS),
)


@given(values)
def test_no_variant_has_a_higher_mean_than_the_chosen_one(told: list[list[float]]) -> None:
    measured = dict(zip(VARIANTS, told, strict=True))
    chosen = choose_variant(VARIANTS, measured)
    assert sum(measured[chosen]) / 3 >= max(sum(one) / 3 for one in told) - 1e-12


def test_the_first_of_equals_is_kept() -> None:
    assert choose_variant(VARIANTS, {key: [0.5, 0.5] for key in VARIANTS}) == VARIANTS[0]


def test_a_party_without_judged_queries_has_no_say() -> None:
    measured = {key: [0.4, math.nan] for key in VARIANTS} | {VARIANTS[2]: [0.5, math.nan]}
    assert choose_variant(VARIANTS, measured) == VARIANTS[2]
    assert choose_variant(VARIANTS, {key: [math.nan] for key in VARIANTS}) == VARIANTS[0]


def test_nothing_to_choose_from_is_an_error() -> None:
    with pytest.raises(SettingsError, match="no variant"):
        choose_variant([], {})


def test_what_parties_tell_to_choose_is_listed_among_what_crosses() -> None:
    parties, settings = [PartyId("a"), PartyId("b")], PointwiseSettings()
    ranker = PointwiseModel(settings, initial_parameters(3, settings))
    learnt = [Learnt(LinearLearner(settings), ranker)] * len(VARIANTS)
    found = crossings("cs-f-ltr", parties, learnt)
    told = [one for one in found if one.what == "validation figures"]
    assert [one.sender for one in told] == parties
    assert all(isinstance(one.release, UnprotectedRelease) for one in told)
    assert all(one.release.n_values == len(VARIANTS) for one in told)
    alone = crossings("local-plus", parties, learnt)
    assert not [one for one in alone if one.what == "validation figures"]
