"""A user's way to the home node: a token, and the federation's authority to know the node by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import httpx
from pydantic import ValidationError

from cloister.core.closing import Closing
from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    DataError,
    NotFound,
    SettingsError,
    kind_in_words,
)
from cloister.services.node.messages import KeptOfUser, SearchAnswer
from cloister.web.callers import Caller, Role
from cloister.web.messages import Message
from cloister.web.peer_socket import Deadline, peer_socket
from cloister.web.refusals import PeerBusy, PeerUnreachable
from cloister.web.tls import user_context

if TYPE_CHECKING:
    from cloister.services.federation_folder import FederationFolder

__all__ = ["UserClient"]

M = TypeVar("M", bound=Message)

_KINDS: Final[dict[int, type[CloisterError]]] = {
    400: DataError,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    422: DataError,
}


class UserClient(Closing):
    """Searches and clicks as one user; close it, or use it in a ``with``.

    Parameters
    ----------
    url
        Of the home node.
    token
        The user's.
    authority
        The federation's certificate authority, in PEM: no other is believed.
    timeout_s
        For an answer.
    revoked
        The authority's list of revoked certificates, as it is now: a node that it names gets
        nothing. Not looked at unless given.
    federation, node
        Whom the certificate must name before anything is sent. Unless they are given, the token
        goes to every service that the authority certified for the address.
    """

    def __init__(
        self,
        url: str,
        token: str,
        authority: str | Path,
        *,
        timeout_s: float = 30.0,
        revoked: str | Path | None = None,
        federation: str | None = None,
        node: str | None = None,
    ) -> None:
        context = user_context(Path(authority), None if revoked is None else Path(revoked))
        if (federation is None) != (node is None):
            raise SettingsError("federation and node go together", where="UserClient")
        if federation is not None and node is not None:
            expected = Caller(Role.NODE, node)
            context.sslsocket_class = peer_socket(expected, federation, Deadline())
        self._http = httpx.Client(
            base_url=url,
            verify=context,
            trust_env=False,
            timeout=timeout_s,
            headers={"authorization": f"Bearer {token}"},
        )

    @classmethod
    def in_folder(
        cls, folder: FederationFolder, agent: str, token: str, *, timeout_s: float = 30.0
    ) -> Self:
        """Return the way of a user of a federation folder to the home node, and no other."""
        node, authority = agent.partition(":")[0], folder.folder / "authority"
        return cls(
            folder.url(node),
            token,
            authority / "authority.pem",
            timeout_s=timeout_s,
            revoked=authority / "revoked.pem",
            federation=folder.roster.name,
            node=node,
        )

    def search(self, query: str, *, explain: bool = False) -> SearchAnswer:
        """Return a result page."""
        return self._asked("POST", "/v1/search", SearchAnswer, query=query, explain=explain)

    def click(self, page_id: str, rank: int) -> None:
        """Say that a result was opened."""
        self._answer("POST", f"/v1/pages/{page_id}/clicks", {"rank": rank})

    def leave(self, page_id: str) -> None:
        """Say that the page was left: it takes no more clicks, and rounds may learn from it."""
        self._answer("POST", f"/v1/pages/{page_id}/end", None)

    def kept(self) -> int:
        """Return how many pages the node keeps of this user."""
        return self._asked("GET", "/v1/me", KeptOfUser).n_pages

    def forget_me(self) -> int:
        """Have the node delete all pages of this user; return how many."""
        return self._asked("DELETE", "/v1/me", KeptOfUser).n_pages

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _asked(self, method: str, path: str, kind: type[M], **fields: Any) -> M:
        answer = self._answer(method, path, fields or None)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError:
            raise DataError("not an answer of a node", where=str(self._http.base_url)) from None

    def _answer(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise PeerUnreachable(
                f"no answer ({kind_in_words(error)})", where=str(self._http.base_url)
            ) from None
        if answer.is_success:
            return answer
        kind = _KINDS.get(answer.status_code, PeerBusy)
        raise kind(_told(answer), where=str(self._http.base_url))


def _told(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"refused with status {answer.status_code}"
