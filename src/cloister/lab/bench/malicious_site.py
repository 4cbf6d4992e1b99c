"""One malicious site of five: how far the ranker moves, what the others pay, when it is named.

Five sites of 60 simulated users each, four of them needed, one colluder tolerated, by secure
aggregation: once with noise (epsilon 8 over 24 rounds), once without. The middle site follows one
strategy for 20 rounds. The operator resumes training whenever it stops, and excludes nobody: the
most that a site can cost.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

from cloister.adversary.malicious_site import BREACHES, STRATEGIES, Breach, MaliciousSite
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import iid
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.local_trainer import PopulationTrainer
from cloister.federate.engines.round_failed import RoundFailed, TrainingStopped
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import SiteId
from cloister.federate.population import Population
from cloister.lab.bench import Advance, Figures
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.store.database import Database

__all__ = ["run"]

DATA: Final = "world:features?queries=300&documents=20&features=10"
SITES: Final = tuple(SiteId(f"clinic-{letter}") for letter in "abcde")
MALICIOUS: Final = SITES[2]
USERS: Final = 60  # of each site
ROUNDS: Final = 20
SEED: Final = 3
ALL: Final = (*STRATEGIES, *BREACHES)
COUNTS: Final = ("count too high", "count negative")  # with noise no count is sent
COMMON: Final[dict[str, Any]] = {
    "name": "bench",
    "ranker": RankerSettings(n_features=10),
    "min_sites": 4,
    "n_colluders": 1,
    "secure_aggregation": True,
    "simulated": True,
}
PRIVACY: Final = SitePrivacy(epsilon=8.0, delta=1e-5, n_rounds=24, n_users=len(SITES) * USERS)
AGREEMENTS: Final = {
    "noise": FederationAgreement(**COMMON, privacy=PRIVACY),
    "no noise": FederationAgreement(**COMMON),
}


class _Outcome(NamedTuple):
    """What became of a training; 0 where nobody was named."""

    farthest_step: float
    rounds_counted: int
    sums_spoilt: int
    stops: int
    named_in_round: int
    honest_named: int
    releases_for_nothing: int  # of the honest site that paid most
    ndcg_at_10: float


def run(advance: Advance, *, rounds: int = ROUNDS, strategies: Collection[str] = ALL) -> Figures:
    """Train with each strategy, and say what it did."""
    fold = load_fold(DATA)
    users = Population(iid(fold.train, len(SITES) * USERS), click_model("perfect", 5))
    runs = [
        (way, strategy)
        for way in AGREEMENTS
        for strategy in strategies
        if way == "no noise" or strategy not in COUNTS
    ]
    figures: Figures = {
        f"{way}: largest_step": one.largest_step(len(SITES)) for way, one in AGREEMENTS.items()
    }
    for done, (way, strategy) in enumerate(runs):
        advance(done, len(runs))
        with TemporaryDirectory() as folder, ExitStack() as stack:
            found = _trained(Path(folder), stack, users, fold.test, way, strategy, rounds)
        figures |= {f"{way}, {strategy}: {name}": v for name, v in found._asdict().items()}
    advance(len(runs), len(runs))
    return figures


def _trained(
    folder: Path,
    stack: ExitStack,
    users: Population,
    test: RankingData,
    way: str,
    strategy: str,
    rounds: int,
) -> _Outcome:
    agreed = AGREEMENTS[way]
    identities = {site: SigningIdentity.generate() for site in SITES}
    directory = Directory({site: one.public for site, one in identities.items()})
    sites = {}
    for number, site in enumerate(SITES):
        database = stack.enter_context(Database.open(folder / f"{site}.db"))
        own = range(number * USERS, (number + 1) * USERS)
        trainer = PopulationTrainer(users, agreed, members=list(own), seed=SEED)
        keys = SiteKeys(
            identities[site], directory, SimulatedNoise(stream(SEED, "noise", str(site)))
        )
        sites[site] = Site(site, agreed, trainer, database, keys=keys)
    engine = MaliciousSite(
        InProcessEngine(sites),
        MALICIOUS,
        agreed,
        STRATEGIES.get(strategy, STRATEGIES["honest"]),
        rng=stream(SEED, "strategy", strategy),
        breach=BREACHES.get(strategy, Breach()),
        own=sites[MALICIOUS],
    )
    state = stack.enter_context(Database.open(folder / "coordinator.db"))
    federation = SiteFederation(engine, state, agreed, directory=directory)
    return _followed(federation, sites, test, rounds)


def _followed(
    federation: SiteFederation, sites: dict[SiteId, Site], test: RankingData, rounds: int
) -> _Outcome:
    farthest, n_stops, named_in = 0.0, 0, 0
    for _ in range(3 * rounds):  # attempts
        if federation.n_rounds == rounds:
            break
        before = federation.model
        try:
            federation.step()
        except TrainingStopped:
            n_stops += 1
            federation.resume()
        except RoundFailed:
            pass
        farthest = max(farthest, float(np.linalg.norm(federation.model - before)))
        if federation.suspicion.named and not named_in:
            named_in = federation.n_rounds
    past = federation.log.past()[0]
    counted = [one for one in past if not one.spoilt]
    for_nothing = [
        len(site.ledger.entries()) - sum(name in one.sites for one in counted)
        for name, site in sites.items()
        if name != MALICIOUS
    ]
    return _Outcome(
        farthest,
        len(counted),
        len(past) - len(counted),
        n_stops,
        named_in,
        sum(name != MALICIOUS for name in federation.suspicion.named),
        max(for_nothing),
        _quality(federation.ranker, test),
    )


def _quality(ranker: Ranker, test: RankingData) -> float:
    ranked = rank_labels(ranker.score(test.features), test.labels, test.offsets)
    return float(np.nanmean(ndcg(ranked, k=10)))
