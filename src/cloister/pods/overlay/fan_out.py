"""One request to many nodes at once: what arrived in time, and who is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

from cloister.core.errors import SettingsError
from cloister.core.ids import ServerId
from cloister.search.asking import Ask
from cloister.search.node import (
    SearchNode,
    ServerSummary,
    SubAnswer,
    SubQuery,
    SummaryRequest,
)

__all__ = [
    "Carrier",
    "CarriedNode",
    "GatheredAnswers",
    "GatheredSummaries",
    "ask_all",
    "ask_within",
]

Request = SummaryRequest | SubQuery


class GatheredSummaries(NamedTuple):
    """Summaries by server, and the servers that gave none; why they gave none is not told."""

    answers: dict[ServerId, ServerSummary]
    missing: tuple[ServerId, ...]


class GatheredAnswers(NamedTuple):
    """Answers by server, and the servers that gave none; why they gave none is not told."""

    answers: dict[ServerId, SubAnswer]
    missing: tuple[ServerId, ...]


class Carrier(Protocol):
    """What brings requests to nodes."""

    def gather(
        self, nodes: Sequence[CarriedNode], request: Request, timeout_s: float
    ) -> dict[ServerId, Any]:
        """Return the answers that came in time; never raise for what a node does."""


@runtime_checkable
class CarriedNode(SearchNode, Protocol):
    """A node that knows who carries requests to it."""

    @property
    def carrier(self) -> Carrier:
        """The carrier."""


@overload
def ask_all(
    nodes: Iterable[SearchNode], request: SummaryRequest, timeout_s: float
) -> GatheredSummaries: ...
@overload
def ask_all(
    nodes: Iterable[SearchNode], request: SubQuery, timeout_s: float
) -> GatheredAnswers: ...
def ask_all(
    nodes: Iterable[SearchNode], request: Request, timeout_s: float
) -> GatheredSummaries | GatheredAnswers:
    """Ask nodes at once and return what they answered before the time was over.

    Nodes of one carrier are asked together; other nodes each in a thread. The answers come in the
    order of the nodes.
    """
    listed = list(nodes)
    names = [node.server_id for node in listed]
    if len(set(names)) != len(names):
        raise SettingsError("a server is among the nodes twice", where="ask_all")
    found = _gathered(listed, request, timeout_s)
    answers = {name: found[name] for name in names if name in found}
    missing = tuple(name for name in names if name not in found)
    if isinstance(request, SubQuery):
        return GatheredAnswers(answers, missing)
    return GatheredSummaries(answers, missing)


def ask_within(timeout_s: float) -> Ask:
    """Return how a `cloister.search.searcher.Searcher` asks nodes: at once, for so long."""

    def ask(
        nodes: Sequence[SearchNode], request: Request
    ) -> tuple[Mapping[ServerId, ServerSummary | SubAnswer], tuple[ServerId, ...]]:
        if isinstance(request, SubQuery):
            return ask_all(nodes, request, timeout_s)
        return ask_all(nodes, request, timeout_s)

    return ask


def _gathered(
    nodes: Sequence[SearchNode], request: Request, timeout_s: float
) -> dict[ServerId, Any]:
    by_carrier: dict[int, tuple[Carrier, list[CarriedNode]]] = {}
    plain: list[SearchNode] = []
    for node in nodes:
        if isinstance(node, CarriedNode):
            by_carrier.setdefault(id(node.carrier), (node.carrier, []))[1].append(node)
        else:
            plain.append(node)
    if len(by_carrier) == 1 and not plain:
        ((carrier, carried),) = by_carrier.values()
        return carrier.gather(carried, request, timeout_s)
    return _gathered_in_threads(list(by_carrier.values()), plain, request, timeout_s)


def _gathered_in_threads(
    groups: Sequence[tuple[Carrier, list[CarriedNode]]],
    plain: Sequence[SearchNode],
    request: Request,
    timeout_s: float,
) -> dict[ServerId, Any]:
    n_threads = len(groups) + len(plain)
    if not n_threads:
        return {}
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="ask-all")
    futures: list[Future[dict[ServerId, Any]]] = [
        pool.submit(carrier.gather, carried, request, timeout_s) for carrier, carried in groups
    ]
    futures += [pool.submit(_asked, node, request) for node in plain]
    wait(futures, timeout_s)
    pool.shutdown(wait=False, cancel_futures=True)
    found: dict[ServerId, Any] = {}
    for future in futures:
        if future.done() and not future.cancelled():
            found |= future.result()
    return found


def _asked(node: SearchNode, request: Request) -> dict[ServerId, Any]:
    try:
        answer: ServerSummary | SubAnswer = (
            node.answer(request) if isinstance(request, SubQuery) else node.summarise(request)
        )
    except Exception:  # a node that fails is a node that is missing
        return {}
    return {node.server_id: answer}
