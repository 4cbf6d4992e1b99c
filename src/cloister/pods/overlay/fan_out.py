"""One request to many nodes at once: what arrived in time, and who is missing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any, Final, Protocol, overload, runtime_checkable

from cloister.core.errors import SettingsError
from cloister.core.ids import ServerId
from cloister.core.own_thread import in_own_thread
from cloister.search.asking import Ask, NodeAnswers, ask_node
from cloister.search.node import (
    NodeAnswer,
    NodeRequest,
    SearchNode,
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)

__all__ = ["Carrier", "CarriedNode", "ask_all", "ask_within"]

# A carrier returns when the time has passed, with the answers of all its nodes that came. Whoever
# gave up at that same moment would lose them together with the one node that is silent.
HANDOVER_S: Final = 1.0


class Carrier(Protocol):
    """What brings requests to nodes."""

    def gather(
        self, nodes: Sequence[CarriedNode], request: NodeRequest, timeout_s: float
    ) -> dict[ServerId, Any]:
        """Return the answers that came in time, once it has passed; never raise for a node."""


@runtime_checkable
class CarriedNode(SearchNode, Protocol):
    """A node that knows who carries requests to it."""

    @property
    def carrier(self) -> Carrier:
        """The carrier."""


@overload
def ask_all(
    nodes: Iterable[SearchNode], request: SummaryRequest, timeout_s: float
) -> NodeAnswers[ServerSummary]: ...
@overload
def ask_all(
    nodes: Iterable[SearchNode], request: TableRequest, timeout_s: float
) -> NodeAnswers[ServerTable]: ...
@overload
def ask_all(
    nodes: Iterable[SearchNode], request: SubQuery, timeout_s: float
) -> NodeAnswers[SubAnswer]: ...
@overload
def ask_all(
    nodes: Iterable[SearchNode], request: NodeRequest, timeout_s: float
) -> NodeAnswers[Any]: ...
def ask_all(
    nodes: Iterable[SearchNode], request: NodeRequest, timeout_s: float
) -> NodeAnswers[Any]:
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
    return NodeAnswers(answers, tuple(name for name in names if name not in found))


def ask_within(timeout_s: float) -> Ask:
    """Return how a `cloister.search.searcher.Searcher` asks nodes: at once, for so long."""

    def ask(nodes: Sequence[SearchNode], request: NodeRequest) -> NodeAnswers[NodeAnswer]:
        return ask_all(nodes, request, timeout_s)

    return ask


def _gathered(
    nodes: Sequence[SearchNode], request: NodeRequest, timeout_s: float
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
    request: NodeRequest,
    timeout_s: float,
) -> dict[ServerId, Any]:
    gathering = [
        in_own_thread(partial(carrier.gather, carried, request, timeout_s), "ask-all")
        for carrier, carried in groups
    ]
    asking = [in_own_thread(partial(_asked, node, request), "ask-all") for node in plain]
    ends = time.monotonic() + timeout_s
    wait(asking, timeout_s)
    wait(gathering, max(0.0, ends - time.monotonic()) + HANDOVER_S)
    found: dict[ServerId, Any] = {}
    for future in (*gathering, *asking):
        if future.done():
            found |= future.result()
    return found


def _asked(node: SearchNode, request: NodeRequest) -> dict[ServerId, Any]:
    try:
        return {node.server_id: ask_node(node, request)}
    except Exception:  # a node that fails is a node that is missing
        return {}
