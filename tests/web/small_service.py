"""A service for tests: a few routes of each kind, and ways to run it in a thread or a process."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI

from cloister.core.errors import (
    AccessDenied,
    BudgetExceeded,
    Conflict,
    DataError,
    NotFound,
    StoreError,
)
from cloister.web.admission import allowed
from cloister.web.callers import Caller, Role
from cloister.web.limits import ServiceLimits
from cloister.web.logs import configure_logs
from cloister.web.messages import BinaryAnswer, BinaryBody, Message, binary_answer, binary_body
from cloister.web.metrics import ServiceMetrics
from cloister.web.service import make_service
from cloister.web.serving import serve
from cloister.web.tls import TlsFiles

FEDERATION = "north"
TOKENS = {
    "ann's token": Caller(Role.USER, "clinic-a:ann", frozenset({"staff"})),
    "bob's token": Caller(Role.USER, "clinic-a:bob"),
    "a token that claims to be a node": Caller(Role.NODE, "clinic-a"),
}
_ERRORS = {
    "denied": AccessDenied("not yours"),
    "hidden": NotFound("no such thing as my-secret-document"),
    "conflict": Conflict("changed in the meantime"),
    "budget": BudgetExceeded("epsilon 3.2 of 3.0 is spent"),
    "data": DataError("the vector is short", where="/var/lib/inside"),
    "store": StoreError("cannot open /var/lib/inside"),
    "bug": ValueError("a text from inside"),
}


class Ask(Message):
    """A question."""

    text: str
    n: int = 1


class Told(Message):
    """An answer."""

    caller: str
    text: str


def identify(token: str) -> Caller:
    """Know three tokens."""
    if token not in TOKENS:
        raise AccessDenied("unknown token")
    return TOKENS[token]


router = APIRouter(prefix="/v1")


@router.post("/ask")
def ask(question: Ask, caller: Annotated[Caller, allowed(Role.USER)]) -> Told:
    return Told(caller=caller.name, text=question.text)


@router.get("/things/{thing}")
def thing(thing: str, caller: Annotated[Caller, allowed(Role.USER, Role.NODE)]) -> Told:
    if thing in _ERRORS:
        raise _ERRORS[thing]
    return Told(caller=caller.name, text=thing)


@router.post("/bytes", **binary_body("some bytes"), **binary_answer("the same"))
def echo(content: BinaryBody, caller: Annotated[Caller, allowed(Role.NODE)]) -> BinaryAnswer:
    return BinaryAnswer(content)


@router.get("/much/{n_bytes}", **binary_answer("many bytes"))
def much(n_bytes: int, caller: Annotated[Caller, allowed(Role.USER, Role.NODE)]) -> BinaryAnswer:
    return BinaryAnswer(bytes(n_bytes))


def small_service(limits: ServiceLimits, metrics: ServiceMetrics | None = None) -> FastAPI:
    """Return the service."""
    return make_service(
        "small",
        federation=FEDERATION,
        identify=identify,
        limits=limits,
        ready=lambda: {"store": True},
        metrics=metrics,
        routers=[router],
    )


@contextmanager
def serving(
    limits: ServiceLimits, tls: TlsFiles | None = None, metrics: ServiceMetrics | None = None
) -> Iterator[str]:
    """Serve in a thread and give the address."""
    told: queue.Queue[str | BaseException] = queue.Queue()
    stopping = threading.Event()

    def run() -> None:
        try:
            service = small_service(limits, metrics)
            serve(service, tls=tls, limits=limits, listening=told.put, stopping=stopping)
        except BaseException as error:
            told.put(error)
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    first = told.get(timeout=20)
    if isinstance(first, BaseException):
        raise first
    try:
        yield first
    finally:
        stopping.set()
        thread.join(timeout=20)
        assert not thread.is_alive()


def main(limits: str, *paths: str) -> None:
    """Serve in this process; the first line on standard output is the address."""
    configure_logs("small")
    names = ("certificate", "key", "authority", "revoked")
    tls = TlsFiles(**dict(zip(names, map(Path, paths), strict=True))) if paths else None
    settings = ServiceLimits.from_text(limits)

    def listening(address: str) -> None:
        sys.stdout.write(address + "\n")
        sys.stdout.flush()

    serve(small_service(settings), tls=tls, limits=settings, listening=listening)


if __name__ == "__main__":
    main(*sys.argv[1:])
