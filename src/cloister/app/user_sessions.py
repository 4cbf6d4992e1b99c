"""Ways of many users to their home nodes, kept open; tokens are renewed before they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from cloister.core.closing import Closing
from cloister.services.federation_folder import FederationFolder
from cloister.services.user_client import UserClient
from cloister.web.refusals import PeerUnreachable

__all__ = ["UserSessions"]

T = TypeVar("T")

LIFETIME_S: Final = 600.0  # of a token
MOST: Final = 200  # sessions
RENEW_S: Final = 450.0  # after which a new one is made


class _Session(NamedTuple):
    client: UserClient
    made_at: float
    lock: threading.Lock


class UserSessions(Closing):
    """Searches as users of a federation folder, by the keys of its nodes' own issuers.

    Whoever holds those keys can be every user: it is for people who were made up, and for an
    operator who tries out a node's own issuer.

    Parameters
    ----------
    folder
        The federation.
    """

    def __init__(self, folder: FederationFolder) -> None:
        self._folder = folder
        self._sessions: dict[tuple[str, frozenset[str]], _Session] = {}
        self._lock = threading.Lock()

    def call(self, agent: str, groups: Iterable[str], work: Callable[[UserClient], T]) -> T:
        """Do something as a user, one thing at a time for each.

        It is done anew where the connection had ended, or the service was started again.
        """
        who = agent, frozenset(groups)
        while True:
            session = self._session(who)
            with session.lock:
                if self._sessions.get(who) is session:  # not renewed since it was found
                    return self._done(session, work)

    def _done(self, session: _Session, work: Callable[[UserClient], T]) -> T:
        try:
            return work(session.client)
        except PeerUnreachable:
            return work(session.client)

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            for session in self._sessions.values():
                session.client.close()
            self._sessions.clear()

    def _session(self, who: tuple[str, frozenset[str]]) -> _Session:
        with self._lock:
            found = self._sessions.get(who)
            if found is None and len(self._sessions) >= MOST:
                self._drop_oldest()
            if found is not None and time.monotonic() - found.made_at < RENEW_S:
                return found
            agent, groups = who
            token = self._folder.token(agent, groups=groups, lifetime_s=LIFETIME_S)
            client = UserClient.in_folder(self._folder, agent, token)
            made = _Session(client, time.monotonic(), threading.Lock())
            self._sessions[who] = made
        if found is not None:
            _closed(found)
        return made

    def _drop_oldest(self) -> None:
        oldest = min(self._sessions, key=lambda who: self._sessions[who].made_at)
        threading.Thread(target=_closed, args=(self._sessions.pop(oldest),), daemon=True).start()


def _closed(session: _Session) -> None:
    """Close a session's connection once nobody uses it."""
    with session.lock:
        session.client.close()
