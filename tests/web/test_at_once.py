"""How many requests are worked on at the same time."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from cloister.web.at_once import AtOnce
from cloister.web.callers import Caller, Role
from cloister.web.limits import ServiceLimits
from cloister.web.refusals import TooMany

LIMITS = ServiceLimits(max_requests_at_once=8, max_binary_at_once=6)
FIRST, SECOND, THIRD = (Caller(Role.NODE, name) for name in ("first", "second", "third"))


def test_one_caller_with_large_bodies_leaves_room_for_others() -> None:
    at_once = AtOnce(LIMITS)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(at_once.work(FIRST, binary=True))
        with pytest.raises(TooMany, match="too many large") as found:
            stack.enter_context(at_once.work(FIRST, binary=True))
        assert not found.value.busy
        stack.enter_context(at_once.work(FIRST, binary=False))
        for _ in range(3):
            stack.enter_context(at_once.work(SECOND, binary=True))
        with pytest.raises(TooMany, match="busy") as found:
            stack.enter_context(at_once.work(THIRD, binary=True))
        assert found.value.busy
    for caller in (FIRST, SECOND, THIRD):
        with at_once.work(caller, binary=True):
            pass


def test_a_single_large_body_always_has_room() -> None:
    with AtOnce(ServiceLimits(max_binary_at_once=1)).work(FIRST, binary=True):
        pass
