"""Flower's tasks, done by a process of ours.

A SuperNode or SuperLink with ``--isolation process`` leaves its tasks to whoever comes for them
with a secret. Flower's own SuperExec starts a new process for each and runs the app that came with
the run. We come ourselves: memory lasts from one message to the next, and no code that came over
the wire is run. This module is the only one that speaks Flower's Runtime API, which is not a public
one: look here first when Flower's version changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import httpx
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, run_from_proto
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.serverapp import ServerApp
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from cloister.core.errors import StoreError
from cloister.privacy.private_file import read_private_file

__all__ = ["RuntimeTasks"]

_PROTECTED: Final = frozenset({"/flwr.proto.Runtime/AcquireTask"})
_COMPONENT: Final = "cloister"
_log: Final = logging.getLogger(__name__)


class _Task(NamedTuple):
    """A task that was given to us."""

    run_id: int
    token: str


class RuntimeTasks:
    """The tasks of one SuperNode or SuperLink; close it, or use it in a ``with``.

    Parameters
    ----------
    address
        Of its Runtime API.
    secret_file
        What it shares with us.
    ca_file
        For TLS; without, the address is on loopback and in the open.
    """

    def __init__(self, address: str, secret_file: Path, *, ca_file: Path | None = None) -> None:
        self._address = address
        self._certificates = None if ca_file is None else ca_file.read_bytes()
        signing = SuperExecAuthHttpInterceptor(
            master_secret=read_private_file(secret_file), protected_methods=_PROTECTED
        )
        self._client = self._connected(signing)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def answer_one(self, app: ClientApp) -> bool:
        """Answer the next message, if there is one, by this app; say whether there was."""
        task = self._acquired(TaskType.CLIENT_APP)
        if task is None:
            return False
        with self._working(task) as client:
            message, context, _, _ = pull_task_input(client)
            reply = _answered(app, message, context)
            push_message(client, reply, context)
            push_task_output(client, context, SubStatus.COMPLETED, "")
        return True

    def run_one(self, app: ServerApp, run_id: int) -> bool:
        """Run this app as the server of a run of ours, if it is there; all others are refused."""
        task = self._acquired(TaskType.SERVER_APP)
        if task is None:
            return False
        with self._working(task) as client:
            if task.run_id != run_id:
                _log.warning("a run that is not ours was refused: %d", task.run_id)
                push_task_output(client, None, SubStatus.FAILED, "refused")
                return False
            given = client.PullTaskInput(PullTaskInputRequest())
            TaskIdentity.task_id = given.task_id  # messages carry it; one run a process
            TaskIdentity.run_id = given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid = self._grid(task)
            grid.set_run(run_from_proto(given.run))
            status = SubStatus.FAILED
            try:
                app(grid, context_from_proto(given.context))
                status = SubStatus.COMPLETED
            except RunNotRunningException:
                raise StoreError(
                    "somebody stopped the run",
                    where=f"run {run_id}",
                    remedy="train again: rounds that are done stay",
                ) from None
            finally:
                push_task_output(client, None, status, "")
                grid.close()
        return True

    def _acquired(self, kind: TaskType) -> _Task | None:
        request = AcquireTaskRequest(supported_task_types=[kind])
        try:
            given = self._client.AcquireTask(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.UNAUTHORIZED:
                raise
            raise StoreError(
                "Flower gives us no tasks",
                where=self._address,
                remedy="see that both sides have the same secret",
            ) from None
        return _Task(given.task.run_id, given.token) if given.token else None

    @contextmanager
    def _working(self, task: _Task) -> Iterator[RuntimeHttpClient]:
        """Give a client for a task, and let Flower know that it is worked on."""
        client = self._connected(RuntimeTokenHttpInterceptor(task.token))
        beat = HeartbeatSender(lambda: _beaten(client))
        beat.start()
        try:
            yield client
        finally:
            beat.stop()
            client.close()

    def _connected(
        self, who: SuperExecAuthHttpInterceptor | RuntimeTokenHttpInterceptor
    ) -> RuntimeHttpClient:
        return RuntimeHttpClient.from_server_address(
            server_address=self._address,
            insecure=self._certificates is None,
            root_certificates=self._certificates,
            interceptors=[RuntimeVersionHttpInterceptor(component_name=_COMPONENT), who],
        )

    def _grid(self, task: _Task) -> HttpGrid:
        return HttpGrid(
            runtime_api_address=self._address,
            insecure=self._certificates is None,
            root_certificates=self._certificates,
            token=task.token,
        )


def _beaten(client: RuntimeHttpClient) -> bool:
    """Say that a task is worked on; unlike Flower's own, do not end the process if nobody cares."""
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.HTTPError:
        return False
    return True


def _answered(app: ClientApp, message: Message, context: Context) -> Message:
    """Return the app's answer; what goes wrong is logged here, and its kind is all that leaves."""
    try:
        return app(message=message, context=context)
    except Exception as error:
        _log.warning("a message was refused: %s", error)
        kind = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, type(error).__name__)
        return Message(kind, reply_to=message)
