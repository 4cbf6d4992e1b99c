"""Three sites with simulated users who search and click, a coordinator, and what serves them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from cloister.core.ids import AgentId
from cloister.core.random import stream
from cloister.data.clicks import click_model, sample_clicks
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import SiteId
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.online.click_log import ClickLog, ClickLogSettings
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.page_drawing import ServedRanker, TriedRanker, page_for
from cloister.federate.online.ranker_files import RankerFiles
from cloister.federate.online.trials import Trials
from cloister.federate.online.votes import NodeVotes, VoteBox
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Consent, Limit
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.store.database import Database
from federate.online.made_pages import Clock

WORLD = "world:features?queries=120&documents=20&features=10"
SITES = tuple(map(SiteId, ("clinic-a", "clinic-b", "clinic-c")))
USERS_OF_SITE = 20
PAGES_OF_ROUND = 3
SETTLE_S = 60.0


class Node(NamedTuple):
    """A site with what an online loop needs."""

    log: ClickLog
    site: Site
    votes: VoteBox


class Loop:
    """The whole loop in one process: databases, noise, keys and coins are real, users are not."""

    def __init__(
        self, folder: Path, seed: int, privacy: SitePrivacy | None = None, min_sites: int = 2
    ) -> None:
        fold = load_fold(WORLD)
        self.train, self.test = fold.train, fold.test
        self.clicks = click_model("perfect", 5)
        self.clock = Clock()
        self.rng = stream(seed, "online loop")
        made_of = RankerSettings(n_features=self.train.n_features)
        self.agreement = FederationAgreement(
            name="pilot",
            ranker=made_of,
            training=FpdgdSettings(
                pdgd=PdgdSettings(learning_rate=0.3), queries_per_round=PAGES_OF_ROUND
            ),
            secure_aggregation=True,
            min_sites=min_sites,
            privacy=privacy,
        )
        self.databases = {name: Database.open(folder / f"{name}.db") for name in (*SITES, "hub")}
        identities = {site: SigningIdentity.generate() for site in SITES}
        directory = Directory({site: one.public for site, one in identities.items()})
        keys = {site: SiteKeys(identities[site], directory, SecureNoise()) for site in SITES}
        self.nodes = {site: self._node(site, keys[site]) for site in SITES}
        hub = self.databases["hub"]
        engine = InProcessEngine({site: node.site for site, node in self.nodes.items()})
        self.federation = SiteFederation(engine, hub, self.agreement, directory=directory)
        first = Ranker.initial(made_of)
        self.trials = Trials(hub, RankerFiles(folder / "rankers"), first)

    def _node(self, name: SiteId, keys: SiteKeys) -> Node:
        database = self.databases[name]
        log = ClickLog(database, ClickLogSettings(settle_s=SETTLE_S), clock=self.clock)
        site = Site(
            name,
            self.agreement,
            ClickTrainer(log, self.agreement),
            database,
            keys=keys,
            limits=(Limit(epsilon=30.0, delta=1e-3),),  # rounds, and votes of some trials
            consents=(Consent(name="test", recipient="coordinator", purpose=self.agreement.name),),
        )
        box = VoteBox(log, Ledger(database), party_id=name, source=SecureNoise())
        return Node(log, site, box)

    def served(self) -> ServedRanker:
        """Return what nodes serve with, as the coordinator says."""
        state, trial = self.trials.serving(), self.trials.trial()
        tried = None
        if trial is not None and trial.state == "open":
            candidate = self.trials.files.read(trial.candidate)
            tried = TriedRanker(trial.trial_id, candidate, trial.share)
        return ServedRanker(state.serving, self.trials.files.read(state.serving), tried)

    def search(self, n_pages: int) -> None:
        """Let every user search so many times and click; then wait until pages have settled."""
        served = self.served()
        for site, node in self.nodes.items():
            for user in range(USERS_OF_SITE):
                for _ in range(n_pages):
                    self._search_once(node, AgentId(f"{site}:{user}"), served)
        self.clock.now += SETTLE_S

    def search_as(self, site: SiteId, user: str) -> None:
        """Let a user search once and click."""
        self._search_once(self.nodes[site], AgentId(f"{site}:{user}"), self.served())

    def _search_once(self, node: Node, agent: AgentId, served: ServedRanker) -> None:
        query = int(self.rng.integers(self.train.n_queries))
        rows = slice(self.train.offsets[query], self.train.offsets[query + 1])
        page = page_for(served, agent, self.train.features[rows], self.rng)
        page_id = node.log.show(page)
        grades = self.train.labels[rows][page.places]
        clicked = sample_clicks(self.clicks, grades[None], seed=int(self.rng.integers(2**32)))[0]
        for rank in np.flatnonzero(clicked) + 1:
            node.log.click(page_id, agent, int(rank))

    def try_candidate(self, candidate: Ranker, n_pages: int, share: float = 1.0) -> str:
        """Try a ranker on a share of searches; return how the trial ended."""
        self.trials.open_trial(candidate, share)
        self.search(n_pages)
        trial = self.trials.call_votes()
        for site, node in self.nodes.items():
            self.trials.record_votes(site, NodeVotes.from_bytes(node.votes.cast(trial.trial_id)))
            node.votes.delivered(trial.trial_id)
        return self.trials.decide().state

    def quality(self, ranker: Ranker) -> float:
        """Return nDCG@10 on queries that nobody trains on."""
        return mean_ndcg(ranker, self.test)

    def close(self) -> None:
        for database in self.databases.values():
            database.close()


def mean_ndcg(ranker: Ranker, data: RankingData) -> float:
    ranked = rank_labels(ranker.score(data.features), data.labels, data.offsets)
    return float(np.nanmean(ndcg(ranked, k=10)))
