"""Keep a training going: submit its job, watch it, and submit it again until all rounds are done.

NVFlare fails a job when one of its worker processes is killed, and forgets it when the server is.
The next job goes on from the coordinator's database: nothing is counted twice, and a round that
was under way begins again. A site that came back cannot join a running job: the supervisor asks the
job to end between two rounds, and submits it again with all sites.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from pydantic import Field

from cloister.core.errors import StoreError
from cloister.core.settings import Settings
from cloister.federate.engines.nvflare.job_folder import write_job
from cloister.federate.engines.nvflare.operator_session import (
    COMPLETED,
    RUNNING,
    OperatorSession,
    ServerUnreachable,
    has_ended,
    opened_session,
)

__all__ = ["Supervised", "Supervision", "TrainingSupervisor"]

_log: Final = logging.getLogger(__name__)
Tell = Callable[[dict[str, Any]], None]


class Supervision(Settings):
    """How patient a supervisor is.

    Parameters
    ----------
    look_s
        How often it looks.
    gather_s
        How long it waits for all sites before a job begins without some.
    back_s
        How long a site that was silent must be heard again before it is taken back in.
    rejoin_s
        The shortest time between two pauses for sites that came back.
    patience_s
        How long the server may be away.
    n_in_vain
        How many jobs may end without a round before it gives up.
    """

    look_s: float = Field(default=0.5, gt=0)
    gather_s: float = Field(default=20.0, ge=0)
    back_s: float = Field(default=5.0, gt=0)
    rejoin_s: float = Field(default=30.0, ge=0)
    patience_s: float = Field(default=600.0, gt=0)
    n_in_vain: int = Field(default=5, ge=1)


class Supervised(NamedTuple):
    """What became of a training.

    Parameters
    ----------
    n_jobs
        Jobs that were submitted for it, or were running already.
    n_pauses
        How often a job was ended between rounds to take sites back in.
    n_away
        How often the server was away.
    progress
        The last that a job said of itself.
    seconds
        All of it.
    """

    n_jobs: int
    n_pauses: int
    n_away: int
    progress: dict[str, Any]
    seconds: float


class TrainingSupervisor:
    """Runs one training to its end.

    Parameters
    ----------
    operator
        The operator's kit.
    training
        The training's name, and the job's.
    sites
        All sites that are expected.
    min_sites
        No job begins with fewer.
    supervision
        How patient it is.
    tell
        Is told of what happens, one small object each time.
    """

    def __init__(
        self,
        operator: Path,
        training: str,
        sites: tuple[str, ...],
        *,
        min_sites: int = 1,
        supervision: Supervision | None = None,
        tell: Tell = lambda news: None,
    ) -> None:
        self._operator = operator
        self._training = training
        self._sites = frozenset(sites)
        self._min_sites = min_sites
        self._rules = supervision or Supervision()
        self._tell = tell
        self._job: str | None = None
        self._progress: dict[str, Any] = {}
        self._n_jobs = self._n_pauses = self._n_away = self._in_vain = 0
        self._done_before = -1
        self._gathering_since: float | None = None
        self._paused_at = float("-inf")
        self._lost: dict[str, float] = {}  # when silent sites were heard last, as first seen

    def run(self) -> Supervised:
        """Submit and watch until the training is done."""
        begin = time.monotonic()
        here_at = begin
        while True:
            try:
                with opened_session(self._operator) as session:
                    here_at = time.monotonic()
                    self._watch(session)
                break
            except ServerUnreachable as error:
                if time.monotonic() - here_at > self._rules.patience_s:
                    raise
                self._n_away += 1
                self._tell({"event": "server away", "error": error.what})
                time.sleep(self._rules.look_s)
        seconds = time.monotonic() - begin
        return Supervised(self._n_jobs, self._n_pauses, self._n_away, self._progress, seconds)

    def _watch(self, session: OperatorSession) -> None:
        """Look again and again; return when the training is done."""
        while not self._look(session):
            time.sleep(self._rules.look_s)

    def _look(self, session: OperatorSession) -> bool:
        """Do what is to be done now; say whether the training is done."""
        if self._job is None:
            self._begin(session)
            return False
        state = session.state(self._job)
        if state == COMPLETED:
            self._tell({"event": "done", "job": self._job, **self._progress})
            return True
        if has_ended(state):
            self._ended(state)
        elif state == RUNNING and not self._nearly_done():
            self._see_progress(session, self._job)
        return False

    def _begin(self, session: OperatorSession) -> None:
        """Go on with a job that runs, or submit one when all sites are there, or time is up."""
        self._job = session.live_job(self._training)
        if self._job is None and not self._gathered(session):
            return
        if self._job is None:
            with TemporaryDirectory(prefix="cloister-job-") as folder:
                written = write_job(Path(folder), self._training, min_sites=self._min_sites)
                self._job = session.submit(written)
        self._n_jobs += 1
        self._gathering_since = None
        self._progress.pop("rounds", None)  # the next job may have more
        self._lost.clear()
        self._tell({"event": "job", "job": self._job})

    def _gathered(self, session: OperatorSession) -> bool:
        now = time.monotonic()
        if self._gathering_since is None:
            self._gathering_since = now
        here = self._sites & session.sites().keys()
        late = now - self._gathering_since > self._rules.gather_s
        return here == self._sites or (late and len(here) >= self._min_sites)

    def _ended(self, state: str) -> None:
        """Take note of a job that ended early; give up where jobs do nothing but end."""
        done = int(self._progress.get("done", 0))
        self._in_vain = self._in_vain + 1 if done <= self._done_before else 0
        self._done_before = done
        self._tell({"event": "job ended", "job": self._job, "state": state, "done": done})
        self._job = None
        if self._in_vain >= self._rules.n_in_vain:
            raise StoreError(
                f"{self._in_vain} jobs ended without a round, the last as {state}",
                where=self._training,
                remedy="see log.txt in the kits of the server and of the sites",
            )

    def _nearly_done(self) -> bool:
        """Say whether the job has done its rounds, and has nothing to do but to end."""
        return "rounds" in self._progress and self._progress["done"] >= self._progress["rounds"]

    def _see_progress(self, session: OperatorSession, job: str) -> None:
        said = session.progress(job)
        if said is None:
            return
        if said != self._progress:
            self._tell({"event": "progress", **said})
        self._progress = said
        missing = self._sites - set(said["sites"])
        heard = session.sites() if missing else {}
        back = [site for site in missing if self._is_back(site, heard.get(site))]
        self._lost = {site: when for site, when in self._lost.items() if site in missing}
        if back and not self._nearly_done():
            self._pause(session, job, back)

    def _pause(self, session: OperatorSession, job: str, back: list[str]) -> None:
        """Ask a job to end between rounds, so that the next one has these sites, too."""
        now = time.monotonic()
        if now - self._paused_at > self._rules.rejoin_s and session.pause(job):
            self._paused_at = now
            self._n_pauses += 1
            self._tell({"event": "pause", "back": sorted(back)})

    def _is_back(self, site: str, heard: float | None) -> bool:
        """Say whether a missing site has been heard for a while since it was found missing."""
        if heard is None:
            return False
        first = self._lost.setdefault(site, heard)
        return heard - first >= self._rules.back_s
