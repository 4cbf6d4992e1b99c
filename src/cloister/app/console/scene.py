"""What a console shows: a federation, its people where they are made up, a folder of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloister.app.console.jobs import Jobs
from cloister.app.demo.clinic_federation import DemoUser
from cloister.app.demo.clinic_life import ClinicLife
from cloister.app.office import Office
from cloister.app.user_sessions import UserSessions
from cloister.core.closing import Closing
from cloister.core.errors import CloisterError
from cloister.services.federation_folder import FederationFolder

__all__ = ["Scene"]


class Scene(Closing):
    """A console's subject. Threads may share it.

    Parameters
    ----------
    folder
        The federation.
    home
        The console's own folder: stored trainings and results.
    life
        The demo's clinics at work; None for a federation of real people.
    seed
        Of what the console simulates.
    story
        The demo's steps as they went: ``title``, ``seconds`` and ``lines`` of each.
    """

    def __init__(
        self,
        folder: FederationFolder,
        home: Path,
        *,
        life: ClinicLife | None = None,
        seed: int = 1,
        story: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.folder, self.home, self.life, self.seed = folder, home, life, seed
        self.story = tuple(story)
        self.jobs = Jobs()
        self.office = Office(folder) if life is None else life.office
        self.sessions = UserSessions(folder) if life is None else life.sessions
        self.users: tuple[DemoUser, ...] = () if life is None else life.federation.users
        home.mkdir(parents=True, exist_ok=True)
        self._open: dict[tuple[str, frozenset[str]], str] = {}  # the page that each user looks at
        self._lock = threading.Lock()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(member.name for member in self.folder.roster.members)

    def now_looks_at(self, agent: str, groups: frozenset[str], page_id: str) -> None:
        """Note which page a user looks at; the one before was left, and may be learnt from."""
        with self._lock:
            before = self._open.pop((agent, groups), None)
            if page_id:
                self._open[agent, groups] = page_id
        if before is not None:
            self._leave(agent, groups, before)

    def leave_pages(self) -> None:
        """Let all pages be left that were looked at: a round can then learn from their clicks."""
        with self._lock:
            left, self._open = self._open, {}
        for (agent, groups), page_id in left.items():
            self._leave(agent, groups, page_id)

    def _leave(self, agent: str, groups: frozenset[str], page_id: str) -> None:
        try:
            self.sessions.call(agent, groups, lambda client: client.leave(page_id))
        except CloisterError:  # it is closed already, or the node is away
            return

    def close(self) -> None:
        """Stop all jobs, and let go of what was opened here."""
        self.jobs.close()
        if self.life is None:
            self.sessions.close()
            self.office.close()
