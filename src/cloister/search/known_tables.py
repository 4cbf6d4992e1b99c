"""Selector tables of the servers, kept: servers are chosen with no request at all.

A table says of a server what its summaries would say for any terms
(`cloister.search.selector_table`). With the tables at hand a search asks only the servers that it
chose, for documents. The others learn neither the query nor, but for when a table is renewed, that
there was one.

What holds. Choices and statistics are as old as ``max_age_s`` at most: then each server is asked
for its version, and for a new table where that is another one. An answer that came with another
version than the table mends it sooner (`KnownTables.noticed`). Documents are never old: each server
checks the rights at each request, and what was revoked is in no answer. So after a revocation a
user may for a while still choose servers by what they could read before, and get scores by it.

What does not hold. Whoever had a table keeps what it said. A document that is new on a server which
was not chosen counts only when its table is made anew. A term that a server does not have is taken
for one that it has once in ``2**hash_bits``: a df is too large then, and so are weights too small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cloister.core.errors import SettingsError
from cloister.core.ids import ServerId
from cloister.search.asking import Ask
from cloister.search.known_summaries import Gathered
from cloister.search.node import (
    SearchNode,
    ServerSummary,
    ServerTable,
    SummaryRequest,
    TableRequest,
)
from cloister.search.selector_table import SelectorTable
from cloister.search.summary_soundness import is_sound
from cloister.search.table_settings import TableSettings

__all__ = ["KnownTables", "TableSource"]

RETRY_S: Final = 5.0  # a server that gave no table is not asked again before

TableSource = Callable[[ServerId], SelectorTable | None]


@dataclass
class _Held:
    """What is known of one server, and since when."""

    table: SelectorTable | None = None
    true_s: float | None = None  # when this was asked for, or found to hold still
    tried_s: float | None = None  # when it was asked for in vain
    noticed: int | None = None  # the version of an answer that is not the table's
    to_renew: bool = False


class KnownTables:
    """The selector tables of some servers for one user. One object serves one thread at a time.

    A server is missing that gives no table, or one that cannot be true, or no new one when its own
    is too old or known to be of another version; it is asked again after some seconds.

    Parameters
    ----------
    nodes
        The servers.
    ask
        How they are asked.
    settings
        Of the tables that are asked for.
    max_age_s
        For how long a table is used without asking whether it still holds.
    source
        Gives a server's table in the place of its node, from the server's own pod for example; None
        where there is none for this user, which makes the server missing. What it gives is as old
        as it is there: ``max_age_s`` then only says how often it is looked at.
    clock
        The time in seconds.
    """

    def __init__(
        self,
        nodes: Sequence[SearchNode],
        ask: Ask,
        settings: TableSettings | None = None,
        max_age_s: float = 60.0,
        *,
        source: TableSource | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._nodes = nodes
        self._ask = ask
        self._request = TableRequest(settings or TableSettings())
        self._max_age_s = max_age_s
        self._source = source
        self._clock = clock
        self._held = {node.server_id: _Held() for node in nodes}

    def gather(
        self, terms: Sequence[str], *, with_pairs: bool = False, all_terms: bool = False
    ) -> Gathered:
        """Return what each server's table says of some terms; a server without one is missing."""
        if all_terms:
            raise SettingsError(
                "a table does not hold the terms themselves",
                where="KnownTables",
                remedy="ask for summaries, or rank by bm25 or lm",
            )
        now_s = self._clock()
        self._renew(now_s)
        request = SummaryRequest(tuple(dict.fromkeys(terms)), with_pairs=with_pairs)
        found: list[ServerSummary] = []
        missing: list[ServerId] = []
        for node in self._nodes:
            summary = self._summary(node.server_id, request, now_s)
            if summary is None:
                missing.append(node.server_id)
            else:
                found.append(summary)
        return Gathered(found, tuple(missing))

    def noticed(self, server_id: ServerId, version: int) -> None:
        """Take note of the version that an answer came with.

        Where it is not the table's, the table is asked for anew before the next query; once for
        each such version, since a table from elsewhere may be behind for longer.
        """
        held = self._held.get(server_id)
        if held is None or held.table is None:
            return
        if version not in (held.table.version, held.noticed):
            held.noticed = version
            held.to_renew = True

    def _summary(
        self, server_id: ServerId, request: SummaryRequest, now_s: float
    ) -> ServerSummary | None:
        """Return what a table says that can be used now; None where nothing can."""
        held = self._held[server_id]
        if held.table is None or held.to_renew or not self._holds(held, now_s):
            return None
        try:
            summary = held.table.summary(request.terms)
            if not is_sound(summary, server_id, request):
                return None
        except Exception:  # whatever is wrong with a table costs its server's share only
            return None
        return summary if request.with_pairs else _without_pairs(summary)

    def _renew(self, now_s: float) -> None:
        """Ask for what is not there, may be old, or is known to be old."""
        due = [node for node in self._nodes if self._is_due(self._held[node.server_id], now_s)]
        if not due:
            return
        if self._source is not None:
            for node in due:
                self._learn(node.server_id, _from_source(self._source, node.server_id), now_s)
            return
        known = [node for node in due if self._held[node.server_id].table is not None]
        asked = [node for node in known if not self._held[node.server_id].to_renew]
        answered = self._check_versions(asked, now_s) if asked else set()
        silent = {node.server_id for node in asked} - answered
        wanted = [
            node
            for node in due
            if node.server_id not in silent and self._is_due(self._held[node.server_id], now_s)
        ]
        self._fetch(wanted, now_s)

    def _check_versions(self, nodes: Sequence[SearchNode], now_s: float) -> set[ServerId]:
        """Ask servers for nothing but their version; return who said it."""
        answers, _ = self._ask(nodes, SummaryRequest(()))
        answered: set[ServerId] = set()
        for node in nodes:
            held, found = self._held[node.server_id], answers.get(node.server_id)
            if not isinstance(found, ServerSummary) or found.server_id != node.server_id:
                held.tried_s = now_s
                continue
            answered.add(node.server_id)
            if held.table is not None and held.table.version == found.version:
                held.true_s = now_s
            else:
                held.to_renew = True
        return answered

    def _fetch(self, nodes: Sequence[SearchNode], now_s: float) -> None:
        answers, _ = self._ask(nodes, self._request) if nodes else ({}, ())
        for node in nodes:
            answer = answers.get(node.server_id)
            self._learn(node.server_id, _unpacked(answer), now_s)

    def _learn(self, server_id: ServerId, table: SelectorTable | None, now_s: float) -> None:
        held = self._held[server_id]
        if table is None or table.server_id != server_id:
            held.tried_s = now_s
            return
        same = held.table is not None and held.table.version == table.version
        self._held[server_id] = _Held(table, now_s, noticed=held.noticed if same else None)

    def _is_due(self, held: _Held, now_s: float) -> bool:
        """Say whether a server is to be asked now."""
        wait_s = min(RETRY_S, self._max_age_s)
        if held.tried_s is not None and 0 <= now_s - held.tried_s < wait_s:
            return False
        return held.table is None or held.to_renew or not self._holds(held, now_s)

    def _holds(self, held: _Held, now_s: float) -> bool:
        """Say whether a table is young enough; where the clock was set back, none is."""
        if held.true_s == now_s:  # asked for with this very query
            return True
        return held.true_s is not None and 0 <= now_s - held.true_s < self._max_age_s


def _from_source(source: TableSource, server_id: ServerId) -> SelectorTable | None:
    try:
        return source(server_id)
    except Exception:  # a pod that fails, or holds something else, costs its share only
        return None


def _unpacked(answer: object) -> SelectorTable | None:
    """Read what a node sent; None where it is not a table of the version that it names."""
    if not isinstance(answer, ServerTable):
        return None
    try:
        table = SelectorTable.from_bytes(answer.content)
    except Exception:  # `DataError`, if all is well
        return None
    same = (table.server_id, table.version) == (answer.server_id, answer.version)
    return table if same else None


def _without_pairs(summary: ServerSummary) -> ServerSummary:
    """Leave out what no model but lm needs: servers would be told sums of it for nothing."""
    return summary._replace(
        documents=summary.documents._replace(n_pairs=0),
        pods=summary.pods._replace(n_pairs=0),
        n_terms=0,
    )
