"""Twenty users search at a node while hostile pods do their worst, and at one without such pods.

Both nodes are real services with the same honest pods: each user has a folder, and a pod on an
honest server. Their windows alternate; whichever is not searched is stopped (SIGSTOP), so that it
takes no time from the other. A pod that nobody searches saves up documents to be asked for, at most
those of 30 s; so each window begins with 30 s whose times do not count.

Each user has five documents in a folder and five on an honest server. Half of the users search for
a word that is in hostile documents and in all honest pods, too: the two documents that hold the
user's own word as well must be on the page. The others search for words that are in their own ten
documents alone: the page must be just these. Pages are drawn; documents with one's own word lead so
far that chance leaves one out in a million searches.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import CloisterError, StoreError
from cloister.core.ids import AgentId, PodId, ServerId
from cloister.core.rights import Rights
from cloister.federate.engines.agreement import FederationAgreement
from cloister.lab.bench import Advance, Figures
from cloister.lab.bench.child_process import child_process, cpu_s_of
from cloister.lab.bench.hostile_pod_server import (
    COMMON,
    HONEST,
    KINDS,
    N_HONEST,
    ward_of,
    word_of,
)
from cloister.lab.bench.process_memory import family_memory_mb
from cloister.pods.folder_pod import FolderPod
from cloister.pods.pod_syncing import PodSyncing
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.processes import Processes
from cloister.services.user_client import UserClient

__all__ = ["Size", "run", "run_quick", "run_size"]

NODE: Final = "clinic-a"
PAGE_LENGTH: Final = 10
N_FOLDER: Final = PAGE_LENGTH - N_HONEST  # documents in a user's folder
SERVER: Final = (sys.executable, "-m", f"{__package__}.hostile_pod_server")
THINK_S: Final = 1.0  # between two searches of a user, on the average


class Size(NamedTuple):
    """How much is done."""

    n_users: int = 20
    n_tiny: int = 10_000
    n_pairs: int = 7
    lead_s: float = 30.0  # of a window, whose times do not count
    window_s: float = 15.0
    sync_s: float = 20.0  # a node that is stopped for one window may not hide pods for that
    kinds: tuple[str, ...] = KINDS


QUICK: Final = Size(n_users=4, n_tiny=50, n_pairs=2, lead_s=1.0, window_s=6.0, sync_s=5.0)


class _Search(NamedTuple):
    took_s: float
    is_timed: bool
    is_shared: bool
    is_found: bool
    is_full: bool


class _Place(NamedTuple):
    """A node, its process, and where users' documents are."""

    folder: FederationFolder
    processes: Processes

    def client(self, number: int) -> UserClient:
        agent = _agent(number)
        return UserClient.in_folder(self.folder, agent, self.folder.token(agent, lifetime_s=3600))


def run(advance: Advance) -> Figures:
    """Measure; times are of the clock."""
    return run_size(Size(), advance)


def run_quick(advance: Advance) -> Figures:
    """Run at the smallest size."""
    return run_size(QUICK, advance)


def run_size(size: Size, advance: Advance) -> Figures:
    """Measure at a size."""
    with TemporaryDirectory(prefix="cloister-") as name, ExitStack() as stack:
        server, honest = (
            stack.enter_context(child_process([*SERVER, str(n)]))
            for n in (size.n_tiny, size.n_users)
        )
        places = {kind: _made(Path(name, kind), size) for kind in ("calm", "attacked")}
        honest_port = _port(honest)
        for place in places.values():
            _add_solid(place, honest_port, [f"{HONEST}{n}" for n in range(size.n_users)])
        _add_solid(places["attacked"], _port(server), size.kinds)
        for place in places.values():
            stack.enter_context(place.processes)
            place.processes.start(NODE)
        windows: dict[str, list[list[_Search]]] = {"calm": [], "attacked": []}
        for place in places.values():  # compiled and connected
            _searched(place, size._replace(lead_s=0.0, window_s=min(2.0, size.window_s)))
        _asked(server)  # it is hostile from now on
        places["calm"].processes.halt(NODE)
        first = _searched(places["attacked"], size._replace(lead_s=0.0))  # pods are not known yet
        for pair in range(size.n_pairs):
            order = ("calm", "attacked") if pair % 2 else ("attacked", "calm")
            for kind in order:
                with _alone(places, kind):
                    windows[kind].append(_searched(places[kind], size))
            advance(pair + 1, size.n_pairs)
        asked = _asked(server)  # the first window among them
        if missed := set(size.kinds) - {kind for kind, n in asked.items() if n}:
            what = f"the node asked for no document of {', '.join(sorted(missed))}"
            raise StoreError(what, where="bench hostile-pods")
        places["calm"].processes.go_on(NODE)
        places["attacked"].processes.go_on(NODE)
        with places["attacked"].folder.client(NODE, timeout_s=20) as operator:
            status = operator.get_json("/v1/status")
        memory = {
            f"memory_{kind}_mb": family_memory_mb(place.processes.pid(NODE))
            for kind, place in places.items()
        }
        began = time.perf_counter()
        places["attacked"].processes.close()
        stop_s = time.perf_counter() - began
        return (
            _figures(windows)
            | memory
            | {
                "first_window_p95_ms": 1e3 * _p95(one.took_s for one in first),
                "first_window_results_missing": sum(not one.is_found for one in first),
                "pods_away": len(status["pods_away"]),
                "pods_hidden": len(status["pods_hidden"]),
                "stop_wall_s": stop_s,
                "hostile_server_cpu_s": cpu_s_of([server]),
                **{f"asked_{kind}": n for kind, n in sorted(asked.items())},
            }
        )


def _figures(windows: dict[str, list[list[_Search]]]) -> Figures:
    searches = {
        kind: [one for window in listed for one in window] for kind, listed in windows.items()
    }
    figures: Figures = {}
    for name, chosen in (("", (True, False)), ("_shared", (True,)), ("_apart", (False,))):
        p95 = {
            kind: [
                _p95(one.took_s for one in window if one.is_timed and one.is_shared in chosen)
                for window in listed
            ]
            for kind, listed in windows.items()
        }
        ratios = [a / c for a, c in zip(p95["attacked"], p95["calm"], strict=True)]
        figures[f"p95_ratio_median{name}"] = statistics.median(ratios)
        for kind, values in p95.items():
            figures[f"p95_{kind}_ms{name}"] = 1e3 * statistics.median(values)
    return figures | {
        "honest_results_missing": sum(not one.is_found for one in searches["attacked"]),
        "honest_results_missing_without_attack": sum(not one.is_found for one in searches["calm"]),
        "short_pages": sum(not one.is_full for one in searches["attacked"]),
        "short_pages_without_attack": sum(not one.is_full for one in searches["calm"]),
        "searches": sum(map(len, searches.values())),
    }


def _p95(times: Iterable[float]) -> float:
    return float(np.quantile(list(times), 0.95))


@contextmanager
def _alone(places: dict[str, _Place], kind: str) -> Iterator[None]:
    """Let one node run, and stop the others meanwhile."""
    for name, place in places.items():
        (place.processes.go_on if name == kind else place.processes.halt)(NODE)
    time.sleep(0.2)
    yield


def _made(folder: Path, size: Size) -> _Place:
    """Make a node with a folder for each user."""
    agreement = FederationAgreement(
        name="bench",
        ranker=RankerSettings(n_features=len(PAGE_FEATURES)),
        secure_aggregation=True,
        min_sites=2,
    )
    host = f"127.78.{np.random.default_rng().integers(1, 250)}.{1 + len(folder.name)}"
    plan = FederationPlan(nodes=(NODE, "clinic-b"), agreement=agreement, host=host)
    made = FederationFolder.make(folder, plan)
    file = made.file(NODE)
    file.write_text(
        f"sync_s = {size.sync_s}\n" + file.read_text(encoding="utf-8"), encoding="utf-8"
    )
    pods = made.home(NODE) / "pods"
    pods.mkdir(parents=True)
    with PodRegistry(made.home(NODE)) as registry:
        for number in range(size.n_users):
            agent = _agent(number)
            place = pods / f"pod-{number}"
            store = FolderPod.create(place, PodId(f"pod-{number}"), agent)
            rights = Rights(owner=agent, public=True)
            for bed in range(N_FOLDER):
                text = f"{ward_of(number)}, bed {bed}" if bed else f"{word_of(number)} {COMMON}"
                store.write(f"{bed}.txt", text, rights=rights)
            registry.add(
                RegisteredPod(
                    pod_id=f"pod-{number}",
                    owner=agent,
                    server_id=NODE,
                    kind="folder",
                    address=str(place),
                )
            )
        PodSyncing(registry).sync(registry.pods.values())
    return _Place(made, Processes(made))


def _port(server: subprocess.Popen[bytes]) -> int:
    told = b"" if server.stdout is None else server.stdout.readline()
    if not told:
        raise StoreError("a server of pods did not start", where="bench hostile-pods")
    return int(told)


def _add_solid(place: _Place, port: int, kinds: Iterable[str]) -> None:
    """Add pods of a server while it still behaves."""
    root = f"http://localhost:{port}/"
    secret = place.folder.folder / f"{port}.json"
    fields = {"issuer": root, "client_id": "i", "client_secret": "s", "web_id": f"{root}card#me"}
    secret.touch(mode=0o600)
    secret.write_text(json.dumps(fields), encoding="utf-8")
    with PodRegistry(place.folder.home(NODE)) as registry:
        added = [
            RegisteredPod(
                pod_id=f"{root}{kind}/",
                owner=f"{root}card#me",
                server_id=NODE,
                kind="solid",
                address=f"{root}{kind}/",
                credentials=str(secret),
            )
            for kind in kinds
        ]
        for pod in added:
            registry.add(pod)
        PodSyncing(registry).sync(added, timeout_s=120.0)
        if not registry.shard(ServerId(NODE)).etags(PodId(added[-1].pod_id)):
            raise StoreError("the pods could not be added", where="bench hostile-pods")


def _asked(server: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return how often each kind of hostile pod was asked for what makes it hostile."""
    if server.stdin is None or server.stdout is None:
        return {}
    server.stdin.write(b"asked\n")
    server.stdin.flush()
    return dict(json.loads(server.stdout.readline()))


def _searched(place: _Place, size: Size) -> list[_Search]:
    """Let all users search for some time."""
    begins = time.monotonic() + size.lead_s
    with ThreadPoolExecutor(size.n_users) as pool:
        found = pool.map(lambda one: _one_user(place, one, begins, size), range(size.n_users))
        return [one for listed in found for one in listed]


def _one_user(place: _Place, number: int, begins: float, size: Size) -> list[_Search]:
    ends = begins + size.window_s
    rng = np.random.default_rng([number, os.getpid(), threading.get_ident()])
    is_shared = number % 2 == 0
    query = f"{word_of(number)} {COMMON if is_shared else ward_of(number)}"
    in_folder, on_server = (1, 1) if is_shared else (N_FOLDER, N_HONEST)
    wanted = {f"pod-{number}/{file}.txt" for file in range(in_folder)}
    wanted |= {f"{HONEST}{number}/{file}.txt" for file in range(on_server)}
    n_expected = min(PAGE_LENGTH, 2 * size.n_users)  # that hold the shared word in honest pods
    done: list[_Search] = []
    with place.client(number) as client:
        time.sleep(rng.uniform(0, min(THINK_S, 1.0)))
        while time.monotonic() < ends or not any(one.is_timed for one in done):
            began, is_timed = time.perf_counter(), time.monotonic() >= begins
            try:
                found = client.search(query).results
                shown = {"/".join(one.doc_id.split("/")[-2:]) for one in found}
            except CloisterError:
                shown = set()
            took_s = time.perf_counter() - began
            is_found = wanted <= shown if is_shared else wanted == shown
            done.append(_Search(took_s, is_timed, is_shared, is_found, len(shown) >= n_expected))
            time.sleep(rng.uniform(0.5, 1.5) * THINK_S)
    return done


def _agent(number: int) -> AgentId:
    return AgentId(f"{NODE}:user-{number}")
