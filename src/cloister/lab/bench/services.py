"""A federation of five processes: searches, clicks and secure rounds over mutual TLS.

Beside them, in the same run: the same search and the same round in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from cloister.core.ids import AgentId
from cloister.core.rights import Reader
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.site import Site
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.site_file import site_keys
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.online.page_table import ShownPage
from cloister.lab.bench import Advance, Figures
from cloister.lab.bench.process_memory import family_memory_mb
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry
from cloister.privacy.ledger.limits import Consent
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.processes import Processes
from cloister.services.sample_clinics import SampleClinics, SampleUser
from cloister.services.user_client import UserClient
from cloister.store.database import Database

__all__ = ["run"]

NODES: Final = ("clinic-a", "clinic-b", "clinic-c")
N_SEARCHES: Final = 200
N_ROUNDS: Final = 20
MOST_ROUNDS: Final = 2 * N_ROUNDS  # those that are timed, and those around a silent node
OTHER: Final = AgentId("of:others")
TIMEOUT_S: Final = 3.0
SETTINGS: Final = {
    "node": '[clicks]\nsettle_s = 0.5\n[publishing]\nform = "threshold"\nthreshold = 2\n',
    "broker": '[publishing]\nform = "threshold"\n',
    "coordinator": f"[schedule]\ntimeout_s = {TIMEOUT_S}\n",
}
CONSENT: Final = "nobody: the data are made up"
N_STEPS: Final = 5


def run(advance: Advance) -> Figures:
    """Measure; times are of the clock."""
    agreement = FederationAgreement(
        name="bench",
        ranker=RankerSettings(n_features=len(PAGE_FEATURES)),
        secure_aggregation=True,
        min_sites=2,
    )
    with TemporaryDirectory(prefix="cloister-") as name:
        host = f"127.77.{np.random.default_rng().integers(1, 250)}.1"
        plan = FederationPlan(nodes=NODES, agreement=agreement, host=host, consent=CONSENT)
        folder = FederationFolder.make(Path(name, "clinics"), plan, settings=SETTINGS)
        clinics = SampleClinics(list(NODES))
        n_pods = clinics.fill({node: folder.home(node) for node in NODES})
        advance(1, N_STEPS)
        figures: Figures = {"documents": n_pods} | _in_process(folder, clinics)
        advance(2, N_STEPS)
        for node in NODES:
            with Database.open(folder.folder / node / "state.db") as database:
                _show_pages(database, folder.roster.agreement)
        with Processes(folder) as processes:
            figures["start_wall_s"] = _seconds(processes.start)
            figures |= _searches(folder, clinics)
            advance(3, N_STEPS)
            figures |= _rounds(folder)
            advance(4, N_STEPS)
            figures |= {
                f"memory_{service.replace('-', '_')}_mb": family_memory_mb(processes.pid(service))
                for service in folder.services
            }
            figures |= _silent_nodes(folder, processes)
    return figures


def _in_process(folder: FederationFolder, clinics: SampleClinics) -> Figures:
    """Measure the same search, and the same round, with nothing between."""
    user = _reader(clinics)
    stack = [PodRegistry(folder.home(node)) for node in NODES]
    servers = [server for registry in stack for server in registry.search_servers()]
    with InProcessOverlay(servers, timeout_s=60.0) as overlay:
        reader = Reader(user.agent_id, user.groups)
        searcher = Searcher(
            overlay.nodes_for_trusted(reader), settings=SearchSettings(selection="all")
        )
        texts = _texts(clinics)
        searcher.search(texts[0], k=50, explain=True)
        took = [
            _seconds(lambda text=text: searcher.search(text, k=50, explain=True))  # type: ignore[misc]
            for text in texts
        ]
    for registry in stack:
        registry.__exit__()
    return {
        "search_in_process_p50_ms": 1e3 * statistics.median(took),
        "round_in_process_p50_s": _round_in_process(folder),
    }


def _round_in_process(folder: FederationFolder) -> float:
    """Return the seconds of a secure round among three sites of this process, on SQLite."""
    roster = folder.roster
    with TemporaryDirectory(prefix="cloister-") as name:
        opened = {one: Database.open(Path(name, f"{one}.db")) for one in (*NODES, "coordinator")}
        sites = {
            SiteId(node): Site(
                SiteId(node),
                roster.agreement,
                ClickTrainer(ClickLog(opened[node]), roster.agreement),
                opened[node],
                keys=site_keys(folder.folder / node / "signing.key", node, roster, None),
                consents=(
                    Consent(name=CONSENT, recipient="coordinator", purpose=roster.agreement.name),
                ),
            )
            for node in NODES
        }
        for node in NODES:
            _show_pages(opened[node], roster.agreement)
        federation = SiteFederation(
            InProcessEngine(sites),
            opened["coordinator"],
            roster.agreement,
            directory=roster.directory(),
        )
        took = [_seconds(federation.step) for _ in range(N_ROUNDS)]
        for database in opened.values():
            database.close()
    return statistics.median(took)


def _show_pages(database: Database, agreement: FederationAgreement) -> None:
    """Put so many old pages into a node's log that it has new ones for every round."""
    log = ClickLog(database, clock=lambda: time.time() - 86_400)
    rng = np.random.default_rng(1)
    for _ in range(MOST_ROUNDS * agreement.training.queries_per_round):
        features = rng.random((10, len(PAGE_FEATURES)))
        page_id = log.show(ShownPage(OTHER, "0" * 64, features, np.zeros(10), rng.permutation(10)))
        log.click(page_id, OTHER, 1)


def _searches(folder: FederationFolder, clinics: SampleClinics) -> Figures:
    took, clicked, n_missing = [], [], 0
    with _client(folder, _reader(clinics)) as client:
        client.search("cough")
        for text in _texts(clinics):
            began = time.perf_counter()
            answer = client.search(text)
            took.append(time.perf_counter() - began)
            n_missing += len(answer.missing_nodes)
            if answer.page_id:
                clicked.append(_seconds(lambda page=answer.page_id: client.click(page, 1)))  # type: ignore[misc]
    return {
        "search_p50_ms": 1e3 * statistics.median(took),
        "search_p95_ms": 1e3 * float(np.quantile(took, 0.95)),
        "click_p50_ms": 1e3 * statistics.median(clicked),
        "searches": len(took),
        "missing_nodes": n_missing,
    }


def _rounds(folder: FederationFolder) -> Figures:
    time.sleep(1.0)  # pages settle
    with folder.client("coordinator", timeout_s=60.0) as client:
        first = client.post_json("/v1/rounds")
        took = [_seconds(lambda: client.post_json("/v1/rounds")) for _ in range(N_ROUNDS)]
    return {
        "pages_learnt_from": first["n_interactions"],
        "secure_round_p50_s": statistics.median(took),
        "secure_round_max_s": max(took),
    }


def _silent_nodes(folder: FederationFolder, processes: Processes) -> Figures:
    """Kill a node, then stop one: the first round after it may wait, the later ones do not."""
    figures: Figures = {"stage_timeout_s": TIMEOUT_S}
    with folder.client("coordinator", timeout_s=60.0) as client:

        def rounds(name: str) -> None:
            took = [_seconds(lambda: client.post_json("/v1/rounds")) for _ in range(6)]
            figures[f"round_after_{name}_s"] = took[0]
            figures[f"rounds_later_p50_s_{name}"] = statistics.median(took[1:])

        def back(name: str) -> None:
            began = time.perf_counter()
            while client.get_json("/v1/status")["silent_nodes"]:
                time.sleep(0.02)
            figures[f"back_after_{name}_s"] = time.perf_counter() - began

        processes.kill("clinic-b")
        rounds("kill")
        processes.start("clinic-b")
        back("kill")
        processes.halt("clinic-b")
        rounds("halt")
        processes.go_on("clinic-b")
        back("halt")
    return figures


def _client(folder: FederationFolder, user: SampleUser) -> UserClient:
    token = folder.token(user.agent_id, groups=user.groups)
    return UserClient.in_folder(folder, user.agent_id, token)


def _reader(clinics: SampleClinics) -> SampleUser:
    """Return the user who may read everything."""
    return clinics.users(NODES[0])[-1]


def _texts(clinics: SampleClinics) -> list[str]:
    queries = clinics.world.queries
    return [queries[number % len(queries)].text for number in range(N_SEARCHES)]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
