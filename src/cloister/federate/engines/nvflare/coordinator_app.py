"""The coordinator's end of an NVFlare job: rounds until the training is done.

What is trained, and for how many rounds, is in ``local/coordinator.toml`` of the server's startup
kit. The training's state is in the database that this file names, so that a job which was killed
is followed by another that goes on.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any, Final

from nvflare.collab import collab

from cloister.core.errors import CloisterError
from cloister.federate.engines.coordinator_file import CoordinatorFile, opened_federation
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.nvflare.collab_engine import CollabEngine
from cloister.federate.engines.nvflare.job_folder import PAUSE, STATUS
from cloister.federate.engines.nvflare.kits import COORDINATOR_FILE
from cloister.federate.engines.watching_engine import WatchingEngine
from cloister.privacy.secure_aggregation.errors import AggregationFailed

__all__ = ["CoordinatorApp", "TrainingPaused"]

RETRY_S: Final = 1.0  # after a round with too few sites
_log: Final = logging.getLogger(__name__)


class TrainingPaused(CloisterError):
    """The job ends between two rounds, since the supervisor asked for it; another one goes on."""

    usual_remedy = "submit the job again"


class CoordinatorApp:
    """Runs the rounds of a training among the job's sites."""

    def __init__(self) -> None:
        self._paused = threading.Event()
        self._status: dict[str, Any] = {}

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> dict[str, Any]:
        """Train until all rounds are done; return how far it came."""
        path = Path(collab.workspace.get_site_config_dir(), COORDINATOR_FILE).resolve()
        engine = collab.fl_ctx.get_engine()
        engine.register_app_command(STATUS, self._tell)
        engine.register_app_command(PAUSE, self._pause)
        n_rounds = CoordinatorFile.from_toml(path).n_rounds
        with (
            WatchingEngine(CollabEngine(collab.clients)) as sites,
            opened_federation(path, sites) as federation,
        ):
            self._note(federation, n_rounds, sites)
            while federation.n_rounds < n_rounds:
                self._go_on(federation)
                self._note(federation, n_rounds, sites)
        return self._status

    def _go_on(self, federation: SiteFederation) -> None:
        """Train for one round; wait where too few sites answer; end where a pause was asked for."""
        if self._paused.is_set():
            raise TrainingPaused("the supervisor asked for a pause", where="training")
        try:
            done = federation.step()
        except AggregationFailed as error:
            _log.warning("%s", error)
            self._paused.wait(RETRY_S)
        else:
            _log.info("round %d: %d sites", done.round_number + 1, len(done.sites))

    def _note(self, federation: SiteFederation, n_rounds: int, sites: WatchingEngine) -> None:
        self._status = {
            "done": federation.n_rounds,
            "rounds": n_rounds,
            "sites": list(sites.sites()),
            "silent": list(sites.silent()),
        }

    def _tell(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:
        return dict(self._status)

    def _pause(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:
        self._paused.set()
        return dict(self._status)
