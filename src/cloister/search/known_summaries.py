"""What the servers said of terms, kept until they say that something changed.

Each query asks every server, if only for its version: what was revoked in the meantime must not
count any more. Terms that are known for that version are not asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cloister.core.ids import ServerId
from cloister.search.asking import Ask
from cloister.search.asking_each import NodeGroup, ask_each
from cloister.search.node import SearchNode, ServerSummary, SummaryRequest
from cloister.search.summary_soundness import is_sound

__all__ = ["Gathered", "KnownSummaries"]

MAX_KEPT_TERMS: Final = 20_000  # of a server; then it is asked anew


class Gathered(NamedTuple):
    """Summaries in the order of the nodes, and the servers that gave none."""

    summaries: list[ServerSummary]
    missing: tuple[ServerId, ...]


@dataclass
class _KnownServer:
    summary: ServerSummary  # its terms are added to
    named: set[str]  # terms that were asked for by name, and so have their lists
    with_pairs: bool
    all_terms: bool


class KnownSummaries:
    """The summaries of some servers for one user. One object serves one thread at a time.

    Parameters
    ----------
    nodes
        The servers.
    ask
        How they are asked.
    n_best
        How many best documents are asked for with each term.
    """

    def __init__(self, nodes: Sequence[SearchNode], ask: Ask, n_best: int) -> None:
        self._nodes = nodes
        self._ask = ask
        self._n_best = n_best
        self._known: dict[ServerId, _KnownServer] = {}

    def gather(
        self, terms: Sequence[str], *, with_pairs: bool = False, all_terms: bool = False
    ) -> Gathered:
        """Return what each server says now of some terms, from memory where that still holds."""
        whole = SummaryRequest(tuple(dict.fromkeys(terms)), self._n_best, with_pairs, all_terms)
        missing = self._ask_for({node.server_id: self._open(node, whole) for node in self._nodes})
        again = {
            node.server_id: whole
            for node in self._nodes
            if node.server_id not in missing and self._open(node, whole) != _nothing(whole)
        }
        missing |= self._ask_for(again)
        found = [
            self._known[node.server_id].summary
            for node in self._nodes
            if node.server_id not in missing
        ]
        gone = tuple(node.server_id for node in self._nodes if node.server_id in missing)
        return Gathered(found, gone)

    def _open(self, node: SearchNode, whole: SummaryRequest) -> SummaryRequest:
        """Return what of a request is not known of a server."""
        known = self._known.get(node.server_id)
        if known is None:
            return whole
        without_lists = known.all_terms and not whole.n_best
        return whole._replace(
            terms=tuple(t for t in whole.terms if not without_lists and t not in known.named),
            with_pairs=whole.with_pairs and not known.with_pairs,
            all_terms=whole.all_terms and not known.all_terms,
        )

    def _ask_for(self, requests: dict[ServerId, SummaryRequest]) -> set[ServerId]:
        """Ask each server its own request, equal ones together; return who is missing."""
        groups: dict[SummaryRequest, list[SearchNode]] = {}
        for node in self._nodes:
            if node.server_id in requests:
                groups.setdefault(requests[node.server_id], []).append(node)
        missing: set[ServerId] = set()
        answers = ask_each(self._ask, [NodeGroup(nodes, one) for one, nodes in groups.items()])
        for request, nodes in groups.items():
            for node in nodes:
                summary = answers.get(node.server_id)
                if isinstance(summary, ServerSummary) and is_sound(
                    summary, node.server_id, request
                ):
                    self._learn(summary, request)
                else:
                    missing.add(node.server_id)
        return missing

    def _learn(self, summary: ServerSummary, request: SummaryRequest) -> None:
        """Add to what is known of a version, or begin anew with another one, or with all terms."""
        known = self._known.get(summary.server_id)
        if (
            known is None
            or known.summary.version != summary.version
            or request.all_terms  # it was checked as a whole: nothing else shall be mixed in
            or len(known.named) > MAX_KEPT_TERMS
        ):
            summary = summary._replace(terms=dict(summary.terms))
            self._known[summary.server_id] = _KnownServer(
                summary, set(request.terms), request.with_pairs, request.all_terms
            )
            return
        for term, found in summary.terms.items():
            if term not in known.named:
                known.summary.terms[term] = found
        known.named.update(request.terms)
        if request.with_pairs:
            known.summary = summary._replace(terms=known.summary.terms)
        known.with_pairs |= request.with_pairs


def _nothing(whole: SummaryRequest) -> SummaryRequest:
    return whole._replace(terms=(), with_pairs=False, all_terms=False)
