"""A site beside its SuperNode: ``python -m cloister.federate.engines.flower.site_process FOLDER``.

It lives as long as the site takes part. Masks of secure aggregation are in its memory alone.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import httpx
from flwr.clientapp import ClientApp

from cloister.core.errors import SettingsError, StoreError
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.runtime_tasks import RuntimeTasks
from cloister.federate.engines.flower.signed_messages import COORDINATOR
from cloister.federate.engines.flower.site_desk import SiteDesk
from cloister.federate.engines.flower.supernode import SuperNode
from cloister.federate.engines.site_file import SiteFile, opened_site
from cloister.privacy.identity import Directory, SigningIdentity

__all__ = ["answer_until", "main"]

IDLE_S: Final = 0.1
_log: Final = logging.getLogger(__name__)


def answer_until(stop: threading.Event, folder: FlowerFolder) -> None:
    """Open the site, and answer what its SuperNode brings until told to stop."""
    settings, path = folder.settings, folder.party_file
    file = SiteFile.from_toml(path)
    if settings.role != "site" or file.signing_key is None:
        raise SettingsError("not a site's folder, or no signing key", where=str(folder.path))
    identity = SigningIdentity.load(path.parent / file.signing_key)
    known = Directory({COORDINATOR: bytes.fromhex(settings.coordinator_key)})
    node = SuperNode(folder)
    with opened_site(path) as site, RuntimeTasks(node.address, folder.secret) as tasks:
        app = SiteDesk(site, identity, known).client_app()
        _log.info("site %s is open", site.site_id)
        try:
            while not stop.is_set():
                node.keep()
                stop.wait(0.0 if _answered(tasks, app) else IDLE_S)
        finally:
            node.end()


def _answered(tasks: RuntimeTasks, app: ClientApp) -> bool:
    try:
        return tasks.answer_one(app)
    except httpx.HTTPError as error:  # it starts, or ends: what was lost is asked for again
        _log.debug("the SuperNode does not answer: %s", error)
    except StoreError:  # no secret of ours
        raise
    except Exception:  # of Flower's: a site outlives a message that went wrong
        _log.exception("a message was lost")
    return False


def main() -> None:
    """Answer until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    answer_until(stop, FlowerFolder(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
