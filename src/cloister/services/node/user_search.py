"""A user's search at the home node: this node and others are asked, the page is ranked and kept.

Who asks was verified before. Other nodes are asked with a token that this node issues for the user,
and check for themselves what that user may read. The broker learns the query's terms where it is to
choose nodes, and not who searches; the nodes that are asked learn the terms and the user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import CloisterError
from cloister.core.ids import ServerId
from cloister.core.rights import Reader
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_drawing import ServedRanker, page_for
from cloister.index.analysis import TextAnalysis
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.https_overlay import HttpsNode, HttpsOverlay
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.proofs import Credential
from cloister.search.explanation import explain
from cloister.search.merging import Merged
from cloister.search.node import SearchNode
from cloister.search.page_features import page_features
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.services.node.broker_link import BrokerLink
from cloister.services.node.messages import ResultWhy
from cloister.services.node.why import page_whys
from cloister.services.service_file import NodeSearchSettings
from cloister.web.logs import log_event

__all__ = ["FoundPage", "PageKeeping", "Reach", "UserSearch"]

# All nodes are asked for documents, also those that have nothing for the query: whoever sees who is
# asked does not see who has something, and who is missing is named whatever it has.
_ALL: Final = SearchSettings(selection="all")


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
    """What a user is shown: documents in order, and which nodes gave no answer in time.

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
            query, k=settings.n_candidates, explain=True, explain_levels=with_explanations
        )
        n_found = len(outcome.candidates)
        is_whole = are_all and not outcome.missing and n_found < settings.n_candidates
        may_be_more = not is_whole
        if not outcome.candidates:
            return FoundPage("", (), (), outcome.missing, may_be_more=may_be_more)
        served = self._keeping.serving()
        page = page_for(
            served,
            reader.agent_id,
            page_features(outcome.candidates, home=self._reach.home),
            self._rng(),
            length=settings.page_length,
        )
        page_id = self._keeping.log.show(page)
        shown = tuple(outcome.candidates[place] for place in page.places.tolist())
        told: tuple[tuple[str, ...], ...] = ()
        whys: tuple[ResultWhy, ...] = ()
        if with_explanations:
            told = tuple(_explained(one) for one in shown)
            whys = page_whys(outcome, page, served.ranker)
        return FoundPage(page_id, shown, told, outcome.missing, whys, n_found, may_be_more)

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


def _explained(one: Merged) -> tuple[str, ...]:
    found = explain(one.hit)
    return () if found is None else tuple(found.text().splitlines())
