"""The job that a training runs as: two lists of classes that are installed everywhere.

NVFlare's own recipe puts the program into the job, and whoever submits jobs then runs any program
at all sites. Here a job has no program: sites forbid such jobs (`kits`), and run nothing but the
classes on their own list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from cloister.core.ids import checked_id

__all__ = ["COORDINATOR_CLASSES", "PAUSE", "SITE_CLASSES", "STATUS", "write_job"]

_HERE: Final = "cloister.federate.engines.nvflare"
_SITE: Final = f"{_HERE}.site_app.SiteApp"
_COORDINATOR: Final = f"{_HERE}.coordinator_app.CoordinatorApp"
_EXECUTOR: Final = "nvflare.collab.runtime.executor.CollabExecutor"
_CONTROLLER: Final = "nvflare.collab.runtime.controller.CollabController"

SITE_CLASSES: Final = (_EXECUTOR, _SITE)
COORDINATOR_CLASSES: Final = (_CONTROLLER, _COORDINATOR)
STATUS: Final = "cloister.status"  # asks a running job how far it is
PAUSE: Final = "cloister.pause"  # asks it to end after the round under way
_SYNC_S: Final = 60  # while sites load their data


def write_job(folder: Path, name: str, *, min_sites: int) -> Path:
    """Write a job; return its folder. It starts when so many sites are connected."""
    job = folder / checked_id(name)
    config = job / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    meta = {
        "name": name,
        "resource_spec": {},
        "min_clients": min_sites,
        "deploy_map": {"app": ["@ALL"]},
    }
    _write(job / "meta.json", meta)
    _write(config / "config_fed_client.json", _site_side())
    _write(config / "config_fed_server.json", _coordinator_side())
    return job


def _site_side() -> dict[str, Any]:
    executor = {"path": _EXECUTOR, "args": {"client_obj_id": "site"}}
    return {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": executor}],
        "components": [{"id": "site", "path": _SITE, "args": {}}],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def _coordinator_side() -> dict[str, Any]:
    args = {"server_obj_id": "coordinator", "sync_task_timeout": _SYNC_S}
    return {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": _CONTROLLER, "args": args}],
        "components": [{"id": "coordinator", "path": _COORDINATOR, "args": {}}],
        "task_data_filters": [],
        "task_result_filters": [],
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
