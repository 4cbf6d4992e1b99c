"""A node's way to the coordinator: what to rank with, and where votes go."""

from __future__ import annotations

from cloister.core.errors import DataError
from cloister.core.ids import content_id
from cloister.services.coordinator.messages import ServingAnswer
from cloister.web.client import PeerClient

__all__ = ["CoordinatorLink"]


class CoordinatorLink:
    """Asks the coordinator, and believes it no more than digests allow.

    Parameters
    ----------
    client
        Checks that it is the coordinator who answers.
    """

    def __init__(self, client: PeerClient) -> None:
        self._client = client

    def serving(self) -> ServingAnswer:
        """Return what nodes rank with."""
        try:
            return ServingAnswer.model_validate(self._client.get_json("/v1/serving"))
        except ValueError:
            raise DataError("not an answer of a coordinator", where="serving") from None

    def ranker(self, digest: str) -> bytes:
        """Return a ranker's bytes; raise `DataError` where they are not those of the digest."""
        content = self._client.get_bytes(f"/v1/rankers/{digest}")
        if content_id(content) != digest:
            raise DataError("another ranker than was asked for", where=digest)
        return content

    def send_votes(self, trial_id: str, content: bytes) -> None:
        """Send the node's votes; the same again change nothing."""
        self._client.post_bytes(f"/v1/trials/{trial_id}/votes", content)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()
