"""Silent sites cost one timeout, and come back when they answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from cloister.federate.engines.site_call import (
    PROTOCOL_VERSION,
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
    call_id_of,
)
from cloister.federate.engines.watching_engine import WatchingEngine

A, B = SiteId("clinic-a"), SiteId("clinic-b")
CALL = SiteCall(SiteMethod.TRAIN, 0, PROTOCOL_VERSION, b"")


class Faint:
    """Two sites, some of which are silent."""

    def __init__(self) -> None:
        self.dead: set[SiteId] = set()
        self.asked: list[tuple[SiteMethod, tuple[SiteId, ...]]] = []
        self.broken = False

    def sites(self) -> tuple[SiteId, ...]:
        return (A, B)

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        self.asked.append((next(iter(calls.values())).method, tuple(calls)))
        if self.broken:
            self.broken = False
            raise ConnectionError
        answered = {site: call for site, call in calls.items() if site not in self.dead}
        return {site: SiteReply(call_id_of(call), b"") for site, call in answered.items()}


@pytest.fixture
def faint() -> Faint:
    return Faint()


@pytest.fixture
def watching(faint: Faint) -> Iterator[WatchingEngine]:
    with WatchingEngine(faint, every_s=0.01, hello_s=0.1) as engine:
        yield engine


def wait_for(wanted: tuple[SiteId, ...], engine: WatchingEngine) -> None:
    until = time.monotonic() + 5
    while engine.sites() != wanted and time.monotonic() < until:
        time.sleep(0.005)
    assert engine.sites() == wanted


def test_a_silent_site_is_left_alone_until_it_says_hello(
    faint: Faint, watching: WatchingEngine
) -> None:
    faint.dead.add(B)
    assert set(watching.call({A: CALL, B: CALL}, 1.0)) == {A}
    assert watching.sites() == (A,)
    assert watching.silent() == (B,)
    faint.dead.clear()
    wait_for((A, B), watching)
    hellos = [sites for method, sites in faint.asked if method is SiteMethod.HELLO]
    assert set(hellos) == {(B,)}


def test_looking_goes_on_after_an_error_of_what_carries_calls(
    faint: Faint, watching: WatchingEngine
) -> None:
    faint.dead.add(A)
    watching.call({A: CALL}, 1.0)
    faint.broken = True
    faint.dead.clear()
    wait_for((A, B), watching)


def test_nobody_is_asked_while_all_sites_answer(faint: Faint, watching: WatchingEngine) -> None:
    watching.call({A: CALL, B: CALL}, 1.0)
    time.sleep(0.05)
    assert [method for method, _ in faint.asked] == [SiteMethod.TRAIN]
