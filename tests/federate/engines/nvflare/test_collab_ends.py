"""The two ends of a Collab call: who may call a site, and what silence looks like."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from nvflare.apis.signal import Signal
from nvflare.collab.api.app import ClientApp
from nvflare.collab.api.context import Context, set_call_context
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from cloister.federate.engines.nvflare.collab_engine import CollabEngine
from cloister.federate.engines.nvflare.site_app import SiteApp
from cloister.federate.engines.site_call import SiteId, SiteReply, call_id_of
from cloister.federate.engines.watching_engine import HELLO
from federate.engines.made_files import write_federation

A, B = SiteId("clinic-a"), SiteId("clinic-b")
Ask = Callable[[str, bytes], SiteReply]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[[str], Ask]]:
    """Give a function that opens clinic-a's file in the kit of somebody."""
    files = write_federation(tmp_path)
    apps = []

    def make(kit_of: str) -> Ask:
        (tmp_path / "site.toml").write_bytes(files[A].read_bytes())
        site = SiteApp()
        app = ClientApp(site)
        app.name = kit_of
        app._workspace = SimpleNamespace(get_site_config_dir=lambda: str(tmp_path))
        apps.append((app, Context(app, kit_of, kit_of, Signal())))
        app.initialize(apps[-1][1])

        def ask(caller: str, content: bytes) -> SiteReply:
            set_call_context(Context(app, caller, kit_of, Signal()))
            try:
                return SiteReply.from_bytes(site.answer(content))
            finally:
                set_call_context(None)

        return ask

    yield make
    for app, context in apps:
        app.finalize(context)


def test_a_site_answers_the_coordinator_and_no_other_site(
    make_site: Callable[[str], Ask],
) -> None:
    ask = make_site(A)
    assert ask("server", HELLO.to_bytes()).call_id == call_id_of(HELLO)
    assert ask(B, HELLO.to_bytes()).fault == "AccessDenied"
    assert ask("server", b"no call").fault == "DataError"


def test_a_site_with_the_file_of_another_refuses_every_call(
    make_site: Callable[[str], Ask],
) -> None:
    assert make_site(B)("server", HELLO.to_bytes()).fault == "SettingsError"


def test_a_site_whose_file_is_wrong_refuses_and_does_not_fail_the_job(
    make_site: Callable[[str], Ask], tmp_path: Path
) -> None:
    (tmp_path / "roster.json").write_text("{}")
    assert make_site(A)("server", HELLO.to_bytes()).fault == "DataError"


class _Proxy:
    """Stands for one of NVFlare's proxies; what it does is the test's."""

    def __init__(self, name: str, answer: Callable[[bytes], object]) -> None:
        self.name = name
        self.answer = answer

    def __call__(self, *, timeout: float) -> _Proxy:
        return self


def _failing(content: bytes) -> object:
    raise CollabCallError("clinic-a", "answer", TimeoutError("no answer"))


def test_sites_are_called_at_the_same_time_and_a_failed_call_is_silence() -> None:
    both = threading.Barrier(2, timeout=10)

    def answer(content: bytes) -> bytes:
        both.wait()
        return SiteReply(call_id_of(HELLO), b"here").to_bytes()

    proxies = [_Proxy(B, answer), _Proxy(A, answer), _Proxy("clinic-c", _failing)]
    engine = CollabEngine(proxies)
    assert engine.sites() == (A, B, "clinic-c")
    asked = dict.fromkeys([*engine.sites(), SiteId("nobody")], HELLO)
    replies = engine.call(asked, 1.0)
    assert {site: reply.payload for site, reply in replies.items()} == {A: b"here", B: b"here"}
    assert engine.call({}, 1.0) == {}


def test_what_is_no_reply_is_a_fault_and_the_end_of_the_job_is_raised() -> None:
    engine = CollabEngine([_Proxy(A, lambda content: {"not": "bytes"})])
    assert engine.call({A: HELLO}, 1.0)[A].fault == "DataError"

    def aborted(content: bytes) -> object:
        raise RunAborted("over")

    with pytest.raises(RunAborted):
        CollabEngine([_Proxy(A, aborted)]).call({A: HELLO}, 1.0)
