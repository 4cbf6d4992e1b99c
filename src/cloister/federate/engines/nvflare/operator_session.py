"""What the operator asks NVFlare's server for, over the FLARE API."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cloister.core.errors import MissingDependency, NotFound, StoreError
from cloister.federate.engines.nvflare.job_folder import PAUSE, STATUS
from cloister.federate.engines.nvflare.kits import read_kit

if TYPE_CHECKING:
    from nvflare.fuel.flare_api.flare_api import Session

__all__ = ["OperatorSession", "ServerUnreachable", "opened_session"]

T = TypeVar("T")
COMPLETED: Final = "FINISHED:COMPLETED"
RUNNING: Final = "RUNNING"
LOST: Final = "FINISHED:LOST"  # our word: with the server's process
_UNDER_WAY: Final = frozenset({RUNNING, "DISPATCHED"})


class ServerUnreachable(StoreError):
    """NVFlare's server did not answer, or the session with it is over."""

    usual_remedy = "see that the server's kit runs; then try again"


class OperatorSession:
    """A session of the operator's with the server; all methods may raise `ServerUnreachable`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def sites(self) -> dict[str, float]:
        """Return the connected sites, and when each was heard last, by the server's clock."""
        found = self._asked(self._session.get_connected_client_list)
        return {one.name: float(one.last_connect_time or 0.0) for one in found}

    def live_job(self, training: str) -> str | None:
        """Return the job of a training that has not ended, if there is one."""
        jobs = self._asked(lambda: self._session.list_jobs(name_prefix=training))
        named = [str(job["job_id"]) for job in jobs if job["job_name"] == training]
        live = [job_id for job_id in named if not has_ended(self.state(job_id))]
        return live[-1] if live else None

    def live_jobs(self) -> list[dict[str, Any]]:
        """Return all jobs that have not ended, with their state and how far they are."""
        jobs = self._asked(self._session.list_jobs)
        states = {str(job["job_id"]): self.state(str(job["job_id"])) for job in jobs}
        return [
            {
                "job": job["job_id"],
                "training": job["job_name"],
                "state": states[job["job_id"]],
                "progress": self.progress(job["job_id"]),
            }
            for job in jobs
            if not has_ended(states[job["job_id"]])
        ]

    def submit(self, job: Path) -> str:
        """Submit a job folder, signed with the operator's key; return the job's id."""
        return str(self._asked(lambda: self._session.submit_job(str(job.absolute()))))

    def state(self, job_id: str) -> str:
        """Return NVFlare's word for the state of a job, or `LOST`.

        A server that was started again believes that the jobs of its earlier life still run.
        """
        meta = self._asked(lambda: self._session.get_job_meta(job_id))
        state = str(meta["status"])
        if state in _UNDER_WAY:
            began_s = self._asked(self._session.get_system_info).server_info.start_time
            return LOST if float(meta["submit_time"]) < float(began_s) else state
        return state

    def progress(self, job_id: str) -> dict[str, Any] | None:
        """Return how far a running job is; None while it does not say."""
        return self._command(job_id, STATUS)

    def pause(self, job_id: str) -> bool:
        """Ask a job to end after its round; say whether it heard."""
        return self._command(job_id, PAUSE) is not None

    def close(self) -> None:
        """End the session."""
        with suppress(Exception):  # of a server that is gone
            self._session.close()

    def _command(self, job_id: str, topic: str) -> dict[str, Any] | None:
        from nvflare.fuel.flare_api import api_spec as flare

        quiet = (flare.JobNotRunning, flare.InternalError, flare.NoReply, flare.JobNotFound)
        try:
            found = self._asked(lambda: self._session.do_app_command(job_id, topic, None))
        except quiet:  # it is about to begin or to end
            return None
        return dict(found) or None

    def _asked(self, ask: Callable[[], T]) -> T:
        from nvflare.fuel.flare_api import api_spec as flare

        gone = (flare.NoConnection, flare.SessionClosed, flare.AuthenticationError, OSError)
        try:
            with redirect_stdout(io.StringIO()):
                return ask()
        except gone as error:
            raise ServerUnreachable(f"the server is not there: {error}", where="NVFlare") from None


def has_ended(state: str) -> bool:
    """Say whether a job's state is an end."""
    return state.startswith("FINISHED")


@contextmanager
def opened_session(operator: Path, *, timeout_s: float = 5.0) -> Iterator[OperatorSession]:
    """Give a session with the server that an operator's kit names."""
    try:
        from nvflare.fuel.flare_api.flare_api import new_secure_session
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"{error.name} is not installed", remedy="pip install 'cloister[engines]'"
        ) from None
    kit = read_kit(operator)
    if kit.role != "operator":
        raise NotFound("not the operator's kit", where=str(operator))
    try:
        with redirect_stdout(io.StringIO()):
            session = new_secure_session(
                kit.name, str(operator.absolute()), timeout=timeout_s, auto_login_max_tries=1
            )
    except Exception as error:  # NVFlare has many, and they all mean that it did not work
        raise ServerUnreachable(f"no session: {error}", where=kit.name) from None
    opened = OperatorSession(session)
    try:
        yield opened
    finally:
        opened.close()
