"""Who may have spoilt sums, whatever the one site that does so does."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cloister.federate.engines.suspicion import TURN, Suspicion


class LoneAttacker(RuleBasedStateMachine):
    """One site misbehaves when it likes; rounds lose sites; the coordinator is started again."""

    @initialize(n_sites=st.integers(3, 9), data=st.data())
    def begin(self, n_sites: int, data: st.DataObject) -> None:
        self.sites = [f"clinic-{number}" for number in range(n_sites)]
        self.attacker = data.draw(st.sampled_from(self.sites))
        self.state = Suspicion()
        self.n_spoilt = 0

    def members(self, silent: int) -> list[str]:
        out = {self.state.left_out, *self.state.named}
        called = [site for site in self.sites if site not in out]
        return [site for site in called if site != called[silent % len(called)]]

    @precondition(lambda self: self.attacker not in self.state.named)
    @rule(silent=st.integers(0, 8))
    def spoil(self, silent: int) -> None:
        members = self.members(silent)
        if self.attacker in members:
            before = self.state.suspects
            self.state = self.state.after_spoilt(members)
            self.n_spoilt += 1
            assert not before or len(self.state.suspects) < len(before)

    @precondition(lambda self: self.attacker not in self.state.named)
    @rule(silent=st.integers(0, 8), victims=st.sets(st.integers(0, 8), min_size=1))
    def accuse(self, silent: int, victims: set[int]) -> None:
        """Others cannot read its shares, or it says that it cannot read theirs."""
        members = self.members(silent)
        others = [site for site in members if site != self.attacker]
        if self.attacker in members and others:
            found = {others[number % len(others)] for number in victims}
            pairs = {frozenset((self.attacker, site)) for site in found}
            before = self.state.suspects
            self.state = self.state.one_more(found).accused(pairs)
            self.n_spoilt += 1
            assert not before or len(self.state.suspects) < len(before)

    @rule(silent=st.integers(0, 8))
    def count(self, silent: int) -> None:
        before = self.state
        self.state = before.after_counted(self.members(silent))
        assert self.state.suspects.keys() == before.suspects.keys()

    @rule()
    def start_again(self) -> None:
        kept = json.loads(json.dumps(self.state.to_json()))
        assert Suspicion.from_json(kept) == self.state
        self.state = Suspicion.from_json(kept)

    @rule()
    def resume(self) -> None:
        self.state = self.state.resumed()

    @invariant()
    def no_honest_site_is_named_and_the_attacker_stays_a_suspect(self) -> None:
        assert set(self.state.named) <= {self.attacker}
        if self.n_spoilt and not self.state.named:
            assert self.attacker in self.state.suspects
            assert self.state.left_out in self.state.suspects

    @invariant()
    def it_spoils_no_more_sums_than_there_are_sites(self) -> None:
        assert self.n_spoilt <= len(self.sites)


TestLoneAttacker = LoneAttacker.TestCase
TestLoneAttacker.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("attacker", range(5))
def test_a_site_that_spoils_every_sum_is_named_after_five_spoilt_sums_of_five(
    attacker: int,
) -> None:
    sites, state, n_rounds, n_spoilt = [*"abcde"], Suspicion(), 0, 0
    while not state.named:
        members = [site for site in sites if site != state.left_out]
        spoilt = sites[attacker] in members
        state = state.after_spoilt(members) if spoilt else state.after_counted(members)
        n_rounds, n_spoilt = n_rounds + 1, n_spoilt + spoilt
    assert state.named == (sites[attacker],)
    assert n_spoilt == 5
    assert n_rounds <= 5 + 4 * TURN


def test_no_suspect_is_left_out_for_ever_while_rounds_count() -> None:
    sites, state, out = [*"abcd"], Suspicion().after_spoilt("abcd"), list[str]()
    for _ in range(2 * 4 * TURN):
        out.append(state.left_out)
        state = state.after_counted([site for site in sites if site != state.left_out])
    assert out == [site for site in sites * 2 for _ in range(TURN)]


def test_two_sites_that_take_turns_get_an_honest_one_named_and_are_seen_afterwards() -> None:
    """Which is why an operator decides, and why spoilt sums without the named site are told."""
    state = Suspicion().after_spoilt("abc").after_spoilt("bc")  # b spoils without a
    state = state.after_spoilt("ac")  # a spoils without b: both are cleared
    assert state.named == ("c",)
    state = state.after_spoilt("ab")  # and again without c
    assert (state.named, [*state.suspects]) == (("c",), ["a", "b"])
    assert state.readmitted("c").named == ()
