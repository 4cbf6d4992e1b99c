"""The demo's steps with real services: index, search, clicks, secure rounds, gain, ledger."""

from __future__ import annotations

import time
from typing import Any, Final

from cloister.app.demo.clinic_federation import AGREEMENT, LIMIT, NODES, PRIVACY, VOTES_EPSILON
from cloister.app.demo.state import DemoState, StepOutcome
from cloister.app.ledger_reading import read_ledger
from cloister.core.errors import AccessDenied
from cloister.services.user_client import UserClient

__all__ = [
    "index_records",
    "learn_together",
    "read_ledgers",
    "search_as_three",
    "start_services",
    "vote",
]

N_ROUNDS: Final = 5
SEARCHES: Final = 1  # of each registry, before each round
TRIAL_SEARCHES: Final = 3  # of each registry, on trial


def index_records(state: DemoState) -> StepOutcome:
    """Make the clinics, write their records into patients' pods and index them."""
    life = state.make_life()
    began = time.perf_counter()
    n_records = life.federation.fill()
    seconds = time.perf_counter() - began
    world = life.federation.clinics.world
    n_bytes = sum(len(document.text.encode()) for document in world.documents())
    return StepOutcome(
        {"organisations": len(NODES), "records": n_records, "bytes": n_bytes,
         "users": len(life.federation.users), "index_seconds": seconds},
        [
            f"{len(NODES)} clinics: {', '.join(NODES)}; everybody and everything is made up",
            f"{n_records} patients' records, {n_bytes / 1e6:.1f} MB, each in a pod of its own with "
            f"a list of who may read it, written and indexed in {seconds:.1f} s",
        ],
    )  # fmt: skip


def start_services(state: DemoState) -> StepOutcome:
    """Start a node at each clinic, a broker and a coordinator, and publish noisy statistics."""
    life = state.life
    life.begin()
    life.publish()
    services = life.federation.folder.services
    return StepOutcome(
        {"services": len(services)},
        [
            f"{len(services)} processes: a node at each clinic, a broker, a coordinator; mutual "
            "TLS, loopback only",
            "each node publishes noisy counts of its words through the broker, recorded first",
        ],
    )


def search_as_three(state: DemoState) -> StepOutcome:
    """Ask the same as a patient, a doctor and a researcher, and as nobody."""
    life = state.life
    query = life.needs.asked[0].text
    patient = life.federation.user("patient")
    people = [patient, life.federation.user("doctor", patient.node),
              life.federation.user("researcher", patient.node)]  # fmt: skip
    found: dict[str, Any] = {}
    lines = [f"all three ask {patient.node} for {query!r}"]
    for person in people:
        page = life.sessions.call(
            person.agent_id, person.groups, lambda client: client.search(query)
        )
        servers = sorted({one.server for one in page.results})
        found[person.role] = {"results": len(page.results), "servers": servers}
        best = page.results[0].snippet if page.results else "nothing"
        lines.append(f"{person.name}, {person.role}: {len(page.results)} from "
                     f"{', '.join(servers) or 'nowhere'}; first: {best[:90]}")  # fmt: skip
    refusal = _stranger(state, query, patient.node)
    lines.append(f"somebody without a token is told: {refusal}")
    return StepOutcome({"query": query, "found": found, "stranger": refusal}, lines)


def _stranger(state: DemoState, query: str, node: str) -> str:
    folder = state.life.federation.folder
    with UserClient.in_folder(folder, f"{node}:nobody", "no-token") as client:
        try:
            return f"{len(client.search(query).results)} results"
        except AccessDenied as error:
            return error.what


def learn_together(state: DemoState) -> StepOutcome:
    """Let people search and click, and run secure rounds; measure before and after."""
    life = state.life
    before = life.measured(life.n_rounds())
    n_searches = n_clicks = 0
    for _ in range(N_ROUNDS):
        day = life.day(SEARCHES)
        n_searches, n_clicks = n_searches + day.n_searches, n_clicks + day.n_clicks
        life.run_round()
    after = life.measured(life.n_rounds())
    held = life.held_out
    return StepOutcome(
        {"rounds": after.n_rounds, "searches": n_searches, "clicks": n_clicks,
         "ndcg@10_before": before.ndcg, "ndcg@10_after": after.ndcg,
         "gain": after.ndcg - before.ndcg,
         "held_out_searches": 0 if held is None else held.n_searches},
        [
            f"{n_searches} searches, {n_clicks} clicks; people here are in a hurry and open short "
            "records, which no ranker was told",
            f"{after.n_rounds} rounds: clicks stay at each clinic, the coordinator sees the noisy "
            "sum over clinics alone",
            f"nDCG@10 of the newest ranker, on queries that nobody clicked on: {before.ndcg:.3f} "
            f"before, {after.ndcg:.3f} after ({after.ndcg - before.ndcg:+.3f})",
        ],
    )  # fmt: skip


def vote(state: DemoState) -> StepOutcome:
    """Show people pages of both rankers, mixed; let their clicks decide which one serves."""
    life = state.life
    before = life.served()
    decided = life.try_newest(TRIAL_SEARCHES)
    after = life.served()
    promoted = decided["outcome"] == "promoted"
    return StepOutcome(
        {"outcome": decided["outcome"], "margin": decided["margin"], "votes": decided["n_votes"],
         "threshold": decided["threshold"], "epsilon_of_a_vote": VOTES_EPSILON,
         "served_ndcg@10_before": before, "served_ndcg@10_after": after},
        [
            f"about {decided['n_votes']} people vote by their clicks on pages of both rankers; "
            f"counts leave each clinic with noise (epsilon {VOTES_EPSILON:g})",
            f"wins less losses: {decided['margin']}, more than {decided['threshold']} is needed: "
            + ("the learnt ranker serves from now on" if promoted else "the first ranker stays"),
            f"nDCG@10 of the ranker that people are served with: {before:.3f} before, {after:.3f} "
            "now",
        ],
    )  # fmt: skip


def read_ledgers(state: DemoState) -> StepOutcome:
    """Read what every service has released, and what that cost."""
    office = state.life.office
    services = ("coordinator", *NODES)
    read = {service: read_ledger(office, service) for service in services}
    n_releases = {service: one.n_releases for service, one in read.items()}
    spent = read["coordinator"].epsilon_of(AGREEMENT.name, delta=PRIVACY.delta)
    of_nodes = {node: read[node].epsilon_of(node, delta=LIMIT.delta) for node in NODES}
    dearest = max(of_nodes, key=of_nodes.__getitem__)
    of_node = of_nodes[dearest]
    return StepOutcome(
        {"releases": n_releases,
         "chains_hold": all(one.chain_holds for one in read.values()),
         "epsilon": spent, "epsilon_agreed": PRIVACY.epsilon, "delta": PRIVACY.delta,
         "epsilon_of_nodes": of_nodes, "limit_of_nodes": LIMIT.epsilon},
        [
            f"{sum(n_releases.values())} releases on {len(services)} ledgers, each recorded before "
            "it was sent",
            f"the {read['coordinator'].n_releases} rankers have cost epsilon {spent:.2f} of the "
            f"{PRIVACY.epsilon:g} that {PRIVACY.n_rounds} rounds may cost (delta "
            f"{PRIVACY.delta:g}): for a user with all clicks, against the coordinator and all who "
            "read rankers",
            f"with words and votes, {dearest} has spent {of_node:.2f} of its limit of "
            f"{LIMIT.epsilon:g}",
        ],
    )  # fmt: skip
