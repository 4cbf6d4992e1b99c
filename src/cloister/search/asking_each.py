"""Asking servers each its own thing, at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import NamedTuple

from cloister.core.deadline import time_left, within
from cloister.core.ids import ServerId
from cloister.search.asking import Ask, NodeAnswers, ask_in_turn
from cloister.search.node import NodeAnswer, NodeRequest, SearchNode

__all__ = ["NodeGroup", "ask_each"]


class NodeGroup(NamedTuple):
    """Some nodes, and what they are asked."""

    nodes: Sequence[SearchNode]
    request: NodeRequest


def ask_each(ask: Ask, groups: Sequence[NodeGroup]) -> dict[ServerId, NodeAnswer]:
    """Return what arrived from each group of nodes; who is not there gave nothing.

    Several groups are asked at once, each from a thread, so that all together take as long as the
    slowest: ``ask`` must bear that. Only `ask_in_turn` stays in this thread. What ``ask`` raises,
    for a request that it cannot send, is raised here.
    """
    left_s = time_left()

    def ask_one(group: NodeGroup) -> NodeAnswers[NodeAnswer]:
        with within(left_s):
            return NodeAnswers(*ask(*group))

    if len(groups) < 2 or ask is ask_in_turn:
        found = list(starmap(ask, groups))
    else:
        with ThreadPoolExecutor(len(groups), thread_name_prefix="ask-each") as pool:
            found = list(pool.map(ask_one, groups))
    return {name: answer for answers, _ in found for name, answer in answers.items()}
