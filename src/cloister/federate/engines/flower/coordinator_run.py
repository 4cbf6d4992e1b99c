"""The coordinator on Flower: a ServerApp of ours, in this process, that runs the agreed rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import httpx
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from cloister.core.errors import SettingsError, StoreError
from cloister.federate.engines.coordinator_file import CoordinatorFile, opened_federation
from cloister.federate.engines.federation import SiteFederation, SiteRound
from cloister.federate.engines.flower.flower_engine import FlowerEngine
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.runtime_tasks import RuntimeTasks
from cloister.federate.engines.flower.superlink_control import SuperLinkControl
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.watching_engine import WatchingEngine
from cloister.privacy.identity import SigningIdentity

__all__ = ["Trained", "train"]

TASK_S: Final = 30.0  # until the SuperLink hands a run's task out
HELLO_S: Final = 10.0  # a SuperNode looks every three seconds
_POLL_S: Final = 0.1


class Trained(NamedTuple):
    """What a call of `train` has done.

    Parameters
    ----------
    met
        The sites that were there at the beginning; nobody where no round was left to run.
    rounds
        The rounds that this call ran.
    rounds_s
        What each took.
    n_rounds
        Rounds of the training that are done.
    """

    met: tuple[SiteId, ...]
    rounds: list[SiteRound]
    rounds_s: list[float]
    n_rounds: int


def train(
    folder: FlowerFolder,
    *,
    n_sites: int | None = None,
    meet_s: float = 60.0,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Trained:
    """Go on with the training up to the rounds of the coordinator's file, in one run of Flower's.

    Parameters
    ----------
    folder
        The coordinator's.
    n_sites
        How many sites to wait for before rounds begin; all unless given.
    meet_s
        How long to wait for them; then rounds begin with those that are there.
    advance
        Is told how many rounds are done, of how many.
    """
    settings = folder.settings
    if settings.role != "coordinator":
        raise SettingsError("rounds are run by the coordinator", where=str(folder.path))
    n_done, n_wanted = _rounds(folder)
    if n_done >= n_wanted:
        return Trained((), [], [], n_done)
    done: list[Trained] = []
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        done.append(_run_rounds(folder, grid, n_sites, meet_s, advance))

    with (
        SuperLinkControl(settings.address, folder.ca) as control,
        RuntimeTasks(settings.address, folder.secret, ca_file=folder.ca) as tasks,
    ):
        try:
            _run_as_server(control, tasks, app)
        except httpx.HTTPError as error:
            raise StoreError(
                f"the SuperLink is gone: {error}",
                where=settings.address,
                remedy="start it, and train again: rounds that are done stay",
            ) from None
    return done[0]


def _rounds(folder: FlowerFolder) -> tuple[int, int]:
    """Return how many rounds are done, and how many are asked for."""
    path = folder.party_file
    with opened_federation(path, InProcessEngine({})) as federation:
        return federation.n_rounds, CoordinatorFile.from_toml(path).n_rounds


def _run_as_server(control: SuperLinkControl, tasks: RuntimeTasks, app: ServerApp) -> None:
    run_id = control.start_run()
    deadline = time.monotonic() + TASK_S
    while not tasks.run_one(app, run_id):
        if time.monotonic() > deadline:
            control.stop_run(run_id)
            raise StoreError(
                "the SuperLink gave the run to nobody, or to somebody else",
                where=f"run {run_id}",
                remedy="see that no other program has the coordinator's secret",
            )
        time.sleep(_POLL_S)


def _run_rounds(
    folder: FlowerFolder,
    grid: Grid,
    n_sites: int | None,
    meet_s: float,
    advance: Callable[[int, int], None],
) -> Trained:
    path = folder.party_file
    file = CoordinatorFile.from_toml(path)
    known = FederationRoster.from_json(path.parent / file.roster).directory()
    flower = FlowerEngine(grid, SigningIdentity.load(folder.coordinator_key), known)
    met = flower.meet(len(known) if n_sites is None else n_sites, meet_s)
    with (
        WatchingEngine(flower, every_s=HELLO_S / 2, hello_s=HELLO_S) as engine,
        opened_federation(path, engine) as federation,
    ):
        return _stepped(federation, met, file.n_rounds, advance)


def _stepped(
    federation: SiteFederation,
    met: tuple[SiteId, ...],
    n_rounds: int,
    advance: Callable[[int, int], None],
) -> Trained:
    rounds, rounds_s = [], []
    for number in range(federation.n_rounds, n_rounds):
        advance(number, n_rounds)
        began = time.perf_counter()
        rounds.append(federation.step())
        rounds_s.append(time.perf_counter() - began)
    advance(n_rounds, n_rounds)
    return Trained(met, rounds, rounds_s, federation.n_rounds)
