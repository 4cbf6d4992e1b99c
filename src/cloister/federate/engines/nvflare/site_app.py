"""A site's end of an NVFlare job.

The job says nothing but the name of this class. Who the site is, its users, its agreement and its
keys come from ``local/site.toml`` in the site's own startup kit.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from nvflare.collab import collab

from cloister.core.errors import CloisterError
from cloister.federate.engines.nvflare.kits import SITE_FILE
from cloister.federate.engines.site import Site
from cloister.federate.engines.site_call import NO_CALL, SiteReply
from cloister.federate.engines.site_file import opened_site

__all__ = ["SiteApp"]

_COORDINATOR: Final = "server"  # NVFlare's name of a job's server, from its certificate
_log: Final = logging.getLogger(__name__)


class SiteApp:
    """Answers the coordinator's calls, and no other site's.

    A site whose own file is wrong refuses every call, and does not end the job of the others.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._site: Site | None = None
        self._fault = "SettingsError"

    @collab.init  # type: ignore[untyped-decorator]
    def open(self) -> None:
        """Open the site from its kit's folder ``local``."""
        path = Path(collab.workspace.get_site_config_dir(), SITE_FILE).resolve()  # or a link to it
        try:
            self._site = self._open.enter_context(opened_site(path))
        except CloisterError as error:
            self._fault = type(error).__name__
            _log.error("this site cannot be opened: %s", error)
            return
        if self._site.site_id != collab.site_name:
            _log.error("%s is the file of %s", path, self._site.site_id)
            self._site = None

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, content: bytes) -> bytes:
        """Answer one call of the coordinator's."""
        if collab.caller != _COORDINATOR or not isinstance(content, bytes):
            _log.warning("a call of %s was refused", collab.caller)
            return SiteReply(NO_CALL, b"", "AccessDenied").to_bytes()
        if self._site is None:
            return SiteReply(NO_CALL, b"", self._fault).to_bytes()
        return self._site.answer(content)

    @collab.final  # type: ignore[untyped-decorator]
    def close(self) -> None:
        """Close the site's database."""
        self._site = None
        self._open.close()
