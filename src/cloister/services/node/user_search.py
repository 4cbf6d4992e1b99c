"""A user's search at the home node: this node and others are asked, the page is ranked and kept.

Who asks was verified before. Other nodes are asked with a token that this node issues for the user,
and check for themselves what that user may read. The broker learns the query's terms where it is to
choose nodes, and not who searches; the nodes that are asked learn the terms and the user.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from cloister.core.deadline import within
from cloister.core.errors import CloisterError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.rights import Reader
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_drawing import ServedRanker, page_for
from cloister.federate.online.page_table import ShownPage
from cloister.index.analysis import TextAnalysis
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.https_overlay import HttpsNode, HttpsOverlay
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.proofs import Credential
from cloister.search.explanation import explain
from cloister.search.merging import Merged
from cloister.search.node import Hit, SearchNode
from cloister.search.page_features import page_features
from cloister.search.search_outcome import SearchOutcome, refusing_pods
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import CONFIRM_TIMES
from cloister.services.node.broker_link import BrokerLink
from cloister.services.node.messages import ResultWhy
from cloister.services.node.why import page_whys
from cloister.services.service_file import NodeSearchSettings
from cloister.web.logs import log_event

__all__ = ["FoundPage", "PageKeeping", "Reach", "UserSearch"]

# All nodes are asked for documents, also those that have nothing for the query: whoever sees who is
# asked does not see who has something, and who is missing is named whatever it has.
_ALL: Final = SearchSettings(selection="all")
T = TypeVar("T")
_DocumentKey = tuple[ServerId, DocId]


class Reach(NamedTuple):
    """Whom a node can ask.

    Parameters
    ----------
    home
        The node's own name.
    own
        The node itself.
    others
        The other nodes; None where there are none.
    credential_of
        Gives the token with which others are asked for a user.
    broker
        Chooses among others; None where there is none.
    """

    home: ServerId
    own: InProcessOverlay
    others: HttpsOverlay | None
    credential_of: Callable[[Reader], Credential]
    broker: BrokerLink | None


class PageKeeping(NamedTuple):
    """What ranks a page, and where it is kept for its clicks."""

    serving: Callable[[], ServedRanker]
    log: ClickLog


class FoundPage(NamedTuple):
    """What a user is shown: documents in order, and which nodes and pods did not answer in time.

    Explanations, and why documents stand where they do, are there where they were asked for. The
    page is of ``n_found`` documents; there ``may_be_more`` where not all that match were found.
    """

    page_id: str
    shown: tuple[Merged, ...]
    explanations: tuple[tuple[str, ...], ...]
    missing: tuple[ServerId, ...]
    whys: tuple[ResultWhy, ...] = ()
    n_found: int = 0
    may_be_more: bool = False
    missing_pods: tuple[PodId, ...] = ()


class _DrawnPage(NamedTuple):
    """A page of confirmed documents, None where there is none, and what it was drawn from."""

    outcome: SearchOutcome
    page: ShownPage | None


class UserSearch:
    """Searches for a node's users. Threads may share it.

    Parameters
    ----------
    reach
        Whom to ask.
    keeping
        How pages are ranked and kept.
    settings
        How to search.
    rng
        Draws pages; an own generator in each thread is made from it.
    """

    def __init__(
        self,
        reach: Reach,
        keeping: PageKeeping,
        settings: NodeSearchSettings,
        rng: Callable[[], np.random.Generator] = np.random.default_rng,
    ) -> None:
        self._reach = reach
        self._keeping = keeping
        self._settings = settings
        self._rng = rng
        self._analysis = TextAnalysis()

    def search(self, reader: Reader, query: str, *, with_explanations: bool = False) -> FoundPage:
        """Search as somebody who was verified; keep the page if there is one."""
        settings = self._settings
        nodes, are_all = self._nodes(reader, query)
        searcher = Searcher(
            nodes,
            self._analysis,
            _ALL,
            ask=ask_within(settings.timeout_s),
        )
        outcome = searcher.search(
            query,
            k=settings.n_candidates,
            explain=True,
            explain_levels=with_explanations,
            with_texts=False,
        )
        served = self._keeping.serving()
        drawn = self._confirmed(searcher, query, outcome, served, reader)
        outcome, page = drawn.outcome, drawn.page
        n_found = len(outcome.candidates)
        is_whole = are_all and not outcome.missing and not outcome.missing_pods
        told = FoundPage(
            "",
            (),
            (),
            outcome.missing,
            n_found=n_found,
            may_be_more=not is_whole or n_found >= settings.n_candidates,
            missing_pods=outcome.missing_pods,
        )
        if page is None:
            return told
        shown = tuple(outcome.candidates[place] for place in page.places.tolist())
        told = told._replace(page_id=self._keeping.log.show(page), shown=shown)
        if not with_explanations:
            return told
        explanations = tuple(_explained(one) for one in shown)
        return told._replace(
            explanations=explanations, whys=page_whys(outcome, page, served.ranker)
        )

    def _confirmed(
        self,
        searcher: Searcher,
        query: str,
        outcome: SearchOutcome,
        served: ServedRanker,
        reader: Reader,
    ) -> _DrawnPage:
        """Draw a page, and confirm what is on it with its pods; draw again without the refused.

        Only documents that are to be shown are asked for. A pod that refuses most of them is asked
        for no more, and named. Once the time is used up the page is drawn from those that are
        confirmed already, and all pods that refused some are named.
        """
        confirmed: dict[_DocumentKey, Hit] = {}
        refused: dict[_DocumentKey, PodId] = {}
        ends = time.monotonic() + CONFIRM_TIMES * self._settings.confirm_s
        while outcome.candidates:
            page = page_for(
                served,
                reader.agent_id,
                page_features(outcome.candidates, home=self._reach.home),
                self._rng(),
                length=self._settings.page_length,
            )
            chosen = [outcome.candidates[place] for place in page.places.tolist()]
            with within(ends - time.monotonic()):
                found = searcher.show(query, [one for one in chosen if _key(one) not in confirmed])
            confirmed |= found.shown
            outcome = outcome._replace(missing=_joined(outcome.missing, found.missing))
            gone = [one for one in chosen if _key(one) not in confirmed]
            refused |= {
                _key(one): one.hit.pod_id
                for one in gone
                if one.hit.pod_id not in found.missing_pods and one.server_id not in found.missing
            }
            is_late = bool(gone) and time.monotonic() >= ends
            refusing = refusing_pods(refused.values(), (hit.pod_id for hit in confirmed.values()))
            left_out = sorted(frozenset(refused.values()) if is_late else refusing)
            named = _joined(found.missing_pods, tuple(left_out))
            outcome = outcome._replace(missing_pods=_joined(outcome.missing_pods, named))
            if not gone:
                return _DrawnPage(_with_texts(outcome, confirmed), page)
            outcome = _without(outcome, refused, confirmed, confirmed_alone=is_late)
        return _DrawnPage(outcome, None)

    def _nodes(self, reader: Reader, query: str) -> tuple[Sequence[SearchNode], bool]:
        """Return this node and those to ask beside it, as the reader reaches them; if all are."""
        own: list[SearchNode] = list(self._reach.own.nodes_for_trusted(reader))
        if self._reach.others is None:
            return own, True
        others = self._reach.others.nodes(self._reach.credential_of(reader))
        n_servers = self._settings.n_servers
        if n_servers is None or n_servers >= len(others):
            return own + list(others), True
        best = self._best(query, others, n_servers)
        return own + list[SearchNode](best), len(best) == len(others)

    def _best(self, query: str, others: list[HttpsNode], n_servers: int) -> list[HttpsNode]:
        """Return so many nodes: those that the broker chose, and by chance where it chose fewer.

        A term may be rare, or below what noise and thresholds show: that a node published nothing
        of it does not say that it has nothing. Where the broker is away or knows nothing, all are
        asked.
        """
        ranked = self._chosen(query, n_servers)
        if not ranked:
            return others
        rest = [node for node in others if node.server_id not in ranked]
        self._rng().shuffle(rest)
        known = [node for name in ranked for node in others if node.server_id == name]
        return [*known, *rest][:n_servers]

    def _chosen(self, query: str, n_servers: int) -> list[ServerId]:
        """Return the nodes that the broker chooses beside this one, best first."""
        broker, terms = self._reach.broker, self._analysis.terms(query)
        if broker is None or not terms:
            return []
        try:
            found = broker.chosen(terms, n_servers + 1)
        except CloisterError as error:
            log_event("broker_away", level=logging.WARNING, error=type(error).__name__)
            return []
        return [name for name in found if name != self._reach.home]


def _key(one: Merged) -> _DocumentKey:
    return one.server_id, one.hit.doc_id


def _without(
    outcome: SearchOutcome,
    refused: Collection[_DocumentKey],
    confirmed: Collection[_DocumentKey],
    *,
    confirmed_alone: bool,
) -> SearchOutcome:
    """Return an outcome without the refused, and without those whose node or pod is away."""
    candidates = tuple(
        one
        for one in outcome.candidates
        if _key(one) in confirmed
        or not (
            confirmed_alone
            or _key(one) in refused
            or one.server_id in outcome.missing
            or one.hit.pod_id in outcome.missing_pods
        )
    )
    return outcome._replace(candidates=candidates)


def _with_texts(outcome: SearchOutcome, confirmed: Mapping[_DocumentKey, Hit]) -> SearchOutcome:
    return outcome._replace(
        candidates=tuple(_with_text(one, confirmed.get(_key(one))) for one in outcome.candidates)
    )


def _with_text(one: Merged, shown: Hit | None) -> Merged:
    if shown is None:
        return one
    return one._replace(hit=one.hit._replace(snippet=shown.snippet, title=shown.title))


def _joined(some: tuple[T, ...], others: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*some, *others)))


def _explained(one: Merged) -> tuple[str, ...]:
    found = explain(one.hit)
    return () if found is None else tuple(found.text().splitlines())
