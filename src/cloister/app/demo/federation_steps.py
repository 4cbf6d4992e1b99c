"""The demo's steps with real services: index, search, clicks, secure rounds, gain, ledger."""

from __future__ import annotations

import time
from typing import Any, Final

from cloister.app.demo.clinic_federation import AGREEMENT, NODES, PRIVACY
from cloister.app.demo.state import DemoState, StepOutcome
from cloister.app.ledger_reading import read_ledger
from cloister.core.errors import AccessDenied
from cloister.services.user_client import UserClient

__all__ = ["index_records", "learn_together", "read_ledgers", "search_as_three", "start_services"]

N_ROUNDS: Final = 8
SEARCHES: Final = 1  # of each researcher, before each round


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
        {"rounds": N_ROUNDS, "searches": n_searches, "clicks": n_clicks,
         "ndcg@10_before": before.ndcg, "ndcg@10_after": after.ndcg,
         "gain": after.ndcg - before.ndcg,
         "held_out_searches": 0 if held is None else held.n_searches},
        [
            f"{n_searches} searches, {n_clicks} clicks; people here are in a hurry and open short "
            "records, which no ranker was told",
            f"{N_ROUNDS} rounds: clicks stay at each clinic, the coordinator sees the noisy sum "
            "over clinics alone",
            f"nDCG@10 of queries that nobody clicked on: {before.ndcg:.3f} before, "
            f"{after.ndcg:.3f} after ({after.ndcg - before.ndcg:+.3f})",
        ],
    )  # fmt: skip


def read_ledgers(state: DemoState) -> StepOutcome:
    """Read what every service has released, and what that cost."""
    office = state.life.office
    services = ("coordinator", *NODES)
    read = {service: read_ledger(office, service) for service in services}
    n_releases = {service: one.n_releases for service, one in read.items()}
    spent = read["coordinator"].epsilon_of(AGREEMENT.name, delta=PRIVACY.delta)
    return StepOutcome(
        {"releases": n_releases, "chains_hold": all(one.chain_holds for one in read.values()),
         "epsilon": spent, "epsilon_agreed": PRIVACY.epsilon, "delta": PRIVACY.delta},
        [
            f"{sum(n_releases.values())} releases on {len(services)} ledgers, each recorded before "
            "it was sent",
            f"the {N_ROUNDS} rankers have cost epsilon {spent:.2f} of the {PRIVACY.epsilon:g} that "
            f"{PRIVACY.n_rounds} rounds may cost (delta {PRIVACY.delta:g}): for a user with all "
            "clicks, against the coordinator and all who read rankers",
        ],
    )  # fmt: skip
