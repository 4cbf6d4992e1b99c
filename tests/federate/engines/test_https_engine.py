"""What the engine between services does with calls that come too late; rounds are in services."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from cloister.federate.engines import https_engine
from cloister.federate.engines.https_engine import HttpsEngine
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteReply, call_id_of
from cloister.federate.engines.watching_engine import HELLO
from cloister.web.client import PeerClient

A = SiteId("clinic-a")


class Hanging:
    """A node that answers nobody before it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.asked: list[int] = []

    def post_bytes(self, path: str, content: bytes, **options: Any) -> bytes:
        call = SiteCall.from_bytes(content)
        self.asked.append(call.round_number)
        assert self.may.wait(10)
        return SiteReply(call_id_of(call), b"").to_bytes()

    def close(self) -> None:
        self.may.set()


def test_calls_that_nobody_waits_for_any_more_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https_engine, "_SPARE_S", 0.05)
    node = Hanging()
    with HttpsEngine({A: cast(PeerClient, node)}) as engine:
        for number in range(4):  # two threads a node: the last two do not begin
            assert engine.call({A: HELLO._replace(round_number=number)}, 0.05) == {}
        node.may.set()
        last = HELLO._replace(round_number=9)
        assert engine.call({A: last}, 10)[A].call_id == call_id_of(last)
    assert sorted(node.asked) == [0, 1, 9]
