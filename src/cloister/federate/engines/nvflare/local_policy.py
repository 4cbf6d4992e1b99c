"""What a participant allows, in its own kit: which classes run, who may do what, what leaves.

At a site nobody may bring programs, run shell commands or fetch files, and no log is sent away.
The files are the site's own: its administrator may change them, nobody else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from cloister.federate.engines.nvflare.job_folder import COORDINATOR_CLASSES, SITE_CLASSES

__all__ = ["CLIENT_LOST_S", "write_policy"]

CLIENT_LOST_S: Final = 15  # without a heartbeat; then a job is no longer sent to the site
_LOG_BYTES: Final = 5 << 20

_AT_SITES: Final = {
    "submit_job": "any",  # by the federation's operator; the classes are the site's choice
    "manage_job": "n:submitter",
    "view": "any",
    "clone_job": "none",
    "download_job": "none",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
_AT_SERVER: Final = _AT_SITES | {"app_command": "n:submitter"}  # how far is it; a pause

# Between a kit's process and the worker that runs its job, on the same machine: NVFlare has it in
# the clear, for every user of that machine.
_INSIDE: Final = {
    "allow_adhoc_conns": False,
    "internal": {
        "scheme": "tcp",
        "resources": {"host": "localhost", "connection_security": "mtls"},
    },
}


def write_policy(kit: Path, role: str) -> None:
    """Write a kit's policies next to NVFlare's defaults, which they replace."""
    local = kit / "local"
    if role == "operator":
        return
    usual = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    site = role == "site"
    _write(local / "resources.json", _of_site(usual) if site else _of_server(usual, kit))
    permissions = {"lead": dict(_AT_SITES if site else _AT_SERVER)}
    _write(local / "authorization.json", {"format_version": "1.0", "permissions": permissions})
    _write(local / "comm_config.json", _INSIDE)
    logging = json.loads((local / "log_config.json.default").read_text(encoding="utf-8"))
    _write(local / "log_config.json", _quieter(logging))


def _of_site(usual: dict[str, Any]) -> dict[str, Any]:
    parts = [part for part in usual["components"] if part["id"] != "site_log_streamer"]
    return usual | {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(SITE_CLASSES),
        "allow_log_streaming": False,
        "components": parts,
    }


def _of_server(usual: dict[str, Any], kit: Path) -> dict[str, Any]:
    """Keep jobs in the kit, where NVFlare has a folder that all users of the machine share."""
    server = usual["servers"][0] | {"heart_beat_timeout": CLIENT_LOST_S}
    parts = [part for part in usual["components"] if part["id"] != "log_receiver"]
    own = {
        "job_manager": {"uri_root": str(kit.absolute() / "jobs"), "job_store_id": "job_store"},
        "job_scheduler": {"max_jobs": 1},  # two would be two coordinators with one database
    }
    parts = [part | {"args": own[part["id"]]} if part["id"] in own else part for part in parts]
    snapshots = usual["snapshot_persistor"]
    snapshots["args"]["storage"]["args"]["root_dir"] = str(kit.absolute() / "snapshots")
    return usual | {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(COORDINATOR_CLASSES),
        "servers": [server],
        "snapshot_persistor": snapshots,
        "components": parts,
    }


def _quieter(usual: dict[str, Any]) -> dict[str, Any]:
    """Keep one log file and the errors: five copies of each line cost time and room."""
    kept = ("logFileHandler", "errorFileHandler")
    handlers = {
        n: h | {"maxBytes": _LOG_BYTES, "backupCount": 2}
        for n, h in usual["handlers"].items()
        if n in kept
    }
    loggers = {"root": {"level": "INFO", "handlers": list(kept)}}
    return usual | {"handlers": handlers, "loggers": loggers}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
