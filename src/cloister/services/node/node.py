"""A node without its HTTP: everything that its routes and its thread do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from cloister.core.errors import CloisterError, SettingsError
from cloister.core.ids import AgentId, ServerId
from cloister.core.rights import Reader
from cloister.federate.engines.local_trainer import LocalTrainer
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site import Site
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.site_file import site_keys
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.logged_training import LoggedPage, flat_pages, train_users
from cloister.federate.online.page_drawing import page_for
from cloister.federate.online.ranker_files import RankerFiles
from cloister.federate.online.votes import VoteBox
from cloister.index.entity_weights import ModelSettings
from cloister.index.reader_view import ReaderView
from cloister.pods.overlay.frames import AskFrame
from cloister.pods.overlay.https_overlay import HttpsOverlay
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.proofs import ProofVerifier
from cloister.pods.overlay.tokens import TokenVerifier, refused
from cloister.pods.pod_syncing import PodSyncing, SyncOutcome
from cloister.pods.registry import MOST_SYNC_BYTES, MOST_SYNC_S, PodRegistry, RegisteredPod
from cloister.pods.sync import SyncCounts
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.search.node import SubQuery
from cloister.search.shard_node import ShardNode
from cloister.services.first_ranker import first_ranker, fits_pages
from cloister.services.node.broker_link import BrokerLink
from cloister.services.node.coordinator_link import CoordinatorLink
from cloister.services.node.messages import NodeStatus, Published
from cloister.services.node.publishing import Publisher
from cloister.services.node.serving_ranker import ServingRanker
from cloister.services.node.user_search import PageKeeping, Reach, UserSearch
from cloister.services.node_issuer import NodeIssuer, peer_verifier
from cloister.services.service_file import NodeFile
from cloister.services.user_tokens import UserTokens
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.web.callers import Caller, Role
from cloister.web.client import PeerClient
from cloister.web.logs import log_event

__all__ = ["Links", "Node", "opened_node"]

SYNC_WAIT_S: Final = 20.0  # that an operator waits for a sync


class Links(NamedTuple):
    """A node's ways to the other services; None where the roster has no such service."""

    coordinator: CoordinatorLink | None
    broker: BrokerLink | None
    others: HttpsOverlay | None


class Node:
    """One node of a federation. Threads may share it; `opened_node` makes it."""

    def __init__(
        self,
        file: NodeFile,
        roster: FederationRoster,
        database: Database,
        registry: PodRegistry,
        links: Links,
    ) -> None:
        self.name = ServerId(file.name)
        self._file, self._roster, self._links = file, roster, links
        self._registry = registry
        self._server = registry.search_server(self.name)
        self.tokens = UserTokens(
            roster.name,
            file.name,
            settings=file.users,
            own_keys=roster.member(file.name).token_keys,
        )
        self._peers: TokenVerifier = peer_verifier(roster)
        self._proofs = ProofVerifier(self.name, self._peers)
        self.log = ClickLog(database, file.clicks)
        self._site = Site(
            SiteId(file.name),
            roster.agreement,
            _trainer(file, roster, self.log),
            database,
            keys=site_keys(file.signing_key, file.name, roster, file.simulated),
            first=first_ranker(roster.agreement.ranker),
            limits=file.budgets,
            consents=file.consents,
        )
        self.ledger = self._site.ledger
        rankers = RankerFiles(file.files)
        self.serving = ServingRanker(
            database, rankers, roster.agreement.ranker, votes_epsilon=file.votes_epsilon
        )
        self._votes = _vote_box(file, self.log, self._site)
        self._publisher = self._made_publisher(Files(file.files))
        self._own = InProcessOverlay([self._server], timeout_s=file.search.timeout_s)
        self.search = self._made_search()
        self._syncing = PodSyncing(registry, _tell)
        self._began = time.monotonic()

    def answer_peer(self, caller: Caller, content: bytes) -> bytes:
        """Answer another node, which asks for one of its own users."""
        ask = AskFrame.from_bytes(content)
        if not self._peers.verify(ask.token).reader.agent_id.startswith(f"{caller.name}:"):
            raise refused()
        return self._server.reply(ask, self._proofs).to_bytes()

    def take_part(self, content: bytes) -> bytes:
        """Answer the coordinator's call of a round."""
        return self._site.answer(content)

    def publish(self) -> Published:
        """Make and record new statistics, and send them; they wait where the broker is away.

        Raises `Conflict`, and makes nothing, where the broker takes another form.
        """
        if self._publisher is None or self._links.broker is None:
            missing = "its file has no [publishing]" if self._publisher is None else "no broker"
            raise SettingsError(
                f"this node publishes nothing: {missing}",
                where="publishing",
                remedy="add [publishing] to its service.toml, and a broker to the roster",
            )
        self._publisher.require_form(self._links.broker)
        digest = self._publisher.make()
        self._do(self._send_statistics)
        state, reason = _publication(self._publisher.state())
        return Published(digest=digest, state=state or "waiting", reason=reason)

    def sync_pods(self) -> int:
        """Bring the index up to date with the pods; return how many documents changed.

        Pods that take long are synced on in the background.
        """
        done = self._syncing.sync(self._pods(), SYNC_WAIT_S)
        return sum(_n_changed(one.counts) for one in done if one.counts is not None)

    def sync_due_pods(self) -> None:
        """Begin to sync the pods that are due, in threads of their own."""
        if self._file.sync_s:
            self._syncing.begin(self._syncing.due(self._pods(), self._file.sync_s))

    def let_go_of_pods(self) -> None:
        """End all exchanges with pods: the node stops."""
        self._syncing.stop()

    def look_after(self) -> None:
        """Do what is due: ask what to serve, send votes and statistics, delete what is old."""
        for duty in (self._refresh, self._send_votes, self._send_statistics, self._forget_old):
            self._do(duty)

    def warm_up(self) -> None:
        """Search, draw and learn once, from nothing: kernels are compiled before anybody waits.

        On a machine that has them compiled already it takes a moment.
        """
        nobody = Reader(AgentId("nobody"))
        view = ReaderView(self._registry.shard(self.name).snapshot(), nobody)  # that nobody keeps
        ShardNode(self.name, lambda: view, lambda _: "").answer(
            SubQuery(("nothing",), ModelSettings(), 1, explain=True)
        )
        agreed, settings = self._roster.agreement, self._roster.agreement.ranker
        features = np.zeros((2, settings.n_features), np.float32)
        drawn = page_for(self.serving.now, nobody.agent_id, features, np.random.default_rng())
        clicked = np.array([True, False])
        page = LoggedPage(features, drawn.drawn, drawn.places, clicked)
        model = self.serving.now.ranker.parameters.astype(np.float64)
        pages = flat_pages([[page]], settings.n_features)
        train_users(pages, model, settings, agreed.training, round=0)

    def ready(self) -> dict[str, bool]:
        """Say of what the node needs whether it is there."""
        return {"database": self.log.database.answers()}

    @property
    def n_documents(self) -> int:
        """Documents in the index."""
        return self._registry.shard(self.name).n_documents

    @property
    def last_round(self) -> int:
        """The last round that was begun here, from 1 on; 0 for none."""
        return self._site.last_round() + 1

    def status(self) -> NodeStatus:
        """Return how the node stands."""
        pages, serving = self.log.state(), self.serving.now
        published = {} if self._publisher is None else self._publisher.state()
        return NodeStatus(
            name=self.name,
            serving=serving.digest,
            trial="" if serving.tried is None else serving.tried.trial_id,
            n_documents=self.n_documents,
            n_pods=len(self._pods()),
            pods_away=sorted(self._registry.away_pods()),
            pods_hidden=sorted(self._registry.hidden_pods(self.name)),
            n_pages=pages.n_pages,
            n_pages_ready=pages.n_ready,
            n_pages_locked=pages.n_locked,
            published=published.get("digest", ""),
            publication=_publication(published)[0],
            publication_reason=_publication(published)[1],
            last_round=self.last_round,
        )

    @property
    def n_pods_away(self) -> int:
        """Pods that no search asks: their servers misbehave, or they refuse much."""
        return len(self._registry.away_pods())

    @property
    def n_pods_hidden(self) -> int:
        """Pods that were not synced for too long, and are in no search."""
        return len(self._registry.hidden_pods(self.name))

    @property
    def slowest_sync_s(self) -> float:
        """The longest of all pods' last syncs."""
        times = self._registry.sync_times.all()
        return max((times[name].took_s for name in self._registry.pods if name in times), default=0)

    def close(self) -> None:
        """Let go of connections."""
        for link in self._links:
            if link is not None:
                link.close()

    def _pods(self) -> list[RegisteredPod]:
        return [pod for pod in self._registry.pods.values() if pod.server_id == self.name]

    def _do(self, duty: Callable[[], None]) -> None:
        """Do what is due; what cannot be done now is done at the next look."""
        try:
            duty()
        except CloisterError as error:
            log_event("waits", duty=duty.__name__.strip("_"), error=type(error).__name__)

    def _refresh(self) -> None:
        if self._links.coordinator is not None and self._file.simulated is None:
            self.serving.refresh(self._links.coordinator)
            trial = self.serving.trial  # pages of trials that are over are of no use
            self.log.forget_trials_but(None if trial is None else trial.trial_id)

    def _send_votes(self) -> None:
        trial, coordinator = self.serving.trial, self._links.coordinator
        if trial is None or trial.state != "voting" or coordinator is None:
            return
        if self._votes is not None:
            coordinator.send_votes(trial.trial_id, self._votes.cast(trial.trial_id))
            self._votes.delivered(trial.trial_id)

    def _send_statistics(self) -> None:
        if self._publisher is not None and self._links.broker is not None:
            self._publisher.send(self._links.broker)

    def _forget_old(self) -> None:
        self.log.forget_old()
        if time.monotonic() - self._began > MOST_SYNC_S:  # pods had the time to be synced first
            self._registry.erase_old_texts()

    def _made_publisher(self, files: Files) -> Publisher | None:
        wanted = self._file.publishing
        if wanted is None:
            return None
        shard = self._registry.shard(self.name)
        return Publisher(self.name, shard, self.ledger, files, wanted)

    def _made_search(self) -> UserSearch:
        issuer = NodeIssuer(self._roster.name, self.name, self._file.token_key)
        reach = Reach(
            self.name, self._own, self._links.others, issuer.credential, self._links.broker
        )
        keeping = PageKeeping(lambda: self.serving.now, self.log)
        return UserSearch(reach, keeping, self._file.search)


def _publication(
    state: dict[str, Any],
) -> tuple[Literal["", "arrived", "waiting", "failed"], str]:
    """Say what became of the last tables, and why they failed."""
    if not state:
        return "", ""
    if reason := state.get("failed", ""):
        return "failed", reason
    return ("arrived" if state["arrived"] else "waiting"), ""


@contextmanager
def opened_node(file: NodeFile) -> Iterator[Node]:
    """Give a node with its database, index and ways to others; all are closed at the end."""
    roster = file.opened_roster()
    roster.member(file.name)
    if file.simulated is None and not fits_pages(roster.agreement.ranker):
        raise SettingsError(
            "the agreed ranker has other features than result pages",
            where=str(file.roster),
            remedy="agree on a ranker of the pages' features, or give simulated users",
        )
    with ExitStack() as stack:
        database = stack.enter_context(Database.open(file.state))
        registry = stack.enter_context(
            PodRegistry(
                file.home,
                sync_s=file.sync_s or None,
                confirm_s=file.search.confirm_s,
                read_rate=file.search.pod_documents_per_s,
                most_sync_bytes=MOST_SYNC_BYTES,
            )
        )
        node = Node(file, roster, database, registry, _links(file, roster))
        stack.callback(node.close)
        yield node


def _n_changed(done: SyncCounts) -> int:
    return done.added + done.changed + done.deleted + done.rights_changed


def _tell(outcome: SyncOutcome) -> None:
    if outcome.error is not None:
        kind = type(outcome.error).__name__
        log_event("pod_not_synced", level=logging.WARNING, pod=outcome.pod.pod_id, error=kind)


def _trainer(file: NodeFile, roster: FederationRoster, log: ClickLog) -> LocalTrainer:
    if file.simulated is not None:
        return file.simulated.trainer(roster.agreement)
    return ClickTrainer(log, roster.agreement, max_pages=file.max_pages)


def _vote_box(file: NodeFile, log: ClickLog, site: Site) -> VoteBox | None:
    if not file.votes_epsilon:
        return None
    noise = SecureNoise()
    return VoteBox(log, site.ledger, party_id=file.name, source=noise, epsilon=file.votes_epsilon)


def _links(file: NodeFile, roster: FederationRoster) -> Links:
    def client(url: str, role: Role, name: str) -> PeerClient:
        return PeerClient(url, file.tls, federation=roster.name, role=role, name=name)

    coordinator, broker = roster.coordinator, roster.broker
    others = {
        ServerId(one.name): client(one.url, Role.NODE, one.name)
        for one in roster.members
        if one.url and one.name != file.name
    }
    return Links(
        None
        if coordinator is None
        else CoordinatorLink(client(coordinator.url, Role.COORDINATOR, coordinator.name)),
        None if broker is None else BrokerLink(client(broker.url, Role.BROKER, broker.name)),
        HttpsOverlay(others, timeout_s=file.search.timeout_s) if others else None,
    )
