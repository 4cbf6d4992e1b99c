"""What operators and users of a federation folder ask its services."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloister.core.errors import CloisterError, Conflict, NotFound, SettingsError, StoreError
from cloister.services.federation_folder import BROKER, COORDINATOR, FederationFolder
from cloister.services.node.messages import require_query
from cloister.services.sole_process import process_of
from cloister.services.user_client import UserClient

if TYPE_CHECKING:
    from cloister.federate.engines.federation import SiteFederation

__all__ = ["asked", "ended", "excluded", "paused", "published", "searched", "status_of"]

ENDING_S: Final = 30.0


def asked(
    folder: Path,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    service: str = COORDINATOR,
) -> dict[str, Any]:
    """Ask a service as the operator."""
    with FederationFolder(folder).client(service, timeout_s=120.0) as client:
        calls = {"GET": lambda: client.get_json(path), "POST": lambda: client.post_json(path, body)}
        found = calls[method]() if method in calls else client.put_json(path, body)
    return dict(found or {})


def training_of_file(
    path: Path, change: Callable[[SiteFederation], None] = lambda training: None
) -> dict[str, Any]:
    """Change a training by its coordinator's file, as NVFlare and Flower have it; return it."""
    from cloister.federate.engines.coordinator_file import opened_federation
    from cloister.federate.engines.in_process import InProcessEngine

    with opened_federation(path, InProcessEngine({})) as training:
        change(training)
        found, n_rounds = training.suspicion, training.n_rounds
        told = found.to_json() | {"n_spoilt": training.log.n_spoilt()}
    return {"n_rounds": n_rounds, "suspicion": told}


def excluded(folder: Path, node: str, wanted: bool) -> dict[str, Any]:
    """Ask a node in no round any more, or again."""
    if folder.is_file():
        return training_of_file(
            folder, lambda training: (training.exclude if wanted else training.readmit)(node)
        )
    members = [member.name for member in FederationFolder(folder).roster.members]
    if node not in members:
        raise NotFound("no such node", where=node, remedy=f"name one of {', '.join(members)}")
    return asked(folder, "PUT", "/v1/exclusions", {"node": node, "excluded": wanted})


def paused(folder: Path, wanted: bool) -> dict[str, Any]:
    """Stop the schedule, or let it go on; of a coordinator's file, resume the training."""
    if folder.is_file():
        if wanted:
            raise SettingsError(
                "a coordinator's file has no schedule", where=str(folder), remedy="end its job"
            )
        return training_of_file(folder, lambda training: training.resume())
    return asked(folder, "PUT", "/v1/pause", {"paused": wanted})


def published(folder: Path, node: str) -> dict[str, Any]:
    """Have a node publish; return what became of it."""
    told = asked(folder, "POST", "/v1/publications", service=node)
    if told["state"] == "failed":
        raise Conflict(
            f"the publication failed and stays charged ({told['reason']})",
            where=node,
            remedy="see the log of the broker; what was published before still serves",
        )
    return told


def status_of(folder: Path) -> dict[str, Any]:
    """Return how each service stands; what does not answer is told so."""
    if folder.is_file():
        return {"services": {COORDINATOR: training_of_file(folder)}}
    found: dict[str, Any] = {}
    for service in FederationFolder(folder).services:
        try:
            found[service] = asked(folder, "GET", "/v1/status", service=service)
        except CloisterError as error:
            if error.wrong_usage:  # no certificate to ask with, say: nothing was asked
                raise
            found[service] = {"error": error.message, "remedy": error.remedy}
    members = found[COORDINATOR].get("members")
    for service, told in found.items():
        if members is not None and service not in (COORDINATOR, BROKER, *members):
            told["unknown_to_coordinator"] = True
    return {"services": found}


def searched(
    folder: Path,
    query: str,
    user: str,
    groups: list[str],
    clicks: list[int],
    *,
    explain: bool,
) -> dict[str, Any]:
    """Search as a user, and click."""
    made = FederationFolder(folder)
    require_query(query)
    token = made.token(user, groups=groups)
    with UserClient.in_folder(made, user, token) as client:
        answer = client.search(query, explain=explain)
        there = [rank for rank in clicks if rank <= len(answer.results)]
        for rank in there:
            client.click(answer.page_id, rank)
    told = {"query": query, "user": user, "clicked": there}
    return told | {"not_clicked": sorted(set(clicks) - set(there))} | answer.model_dump(mode="json")


def ended(folder: Path) -> dict[str, Any]:
    """End the services of a folder that run; return which they were."""
    made = FederationFolder(folder)
    running = {one: process_of(made.file(one)) for one in made.here}
    keeper = process_of(made.keeper_file)  # it would start again what ends; it ends what it started
    for process in running.values() if keeper is None else [keeper]:
        if process is not None:
            os.kill(process, signal.SIGTERM)
    until = time.monotonic() + ENDING_S
    while any(process_of(file) for file in (*map(made.file, made.here), made.keeper_file)):
        if time.monotonic() > until:
            raise StoreError("a service does not end", where=str(folder), remedy="see its log")
        time.sleep(0.05)
    return {"ended": [one for one, process in running.items() if process is not None]}
