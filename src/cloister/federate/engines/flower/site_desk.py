"""A site at Flower's counter: a ClientApp that hands bytes in, and the site's answers out."""

from __future__ import annotations

from typing import Final

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from cloister.core.errors import AccessDenied, DataError
from cloister.federate.engines.flower.signed_messages import NodeId, SignedCall, SignedReply
from cloister.federate.engines.site import Site
from cloister.federate.engines.site_call import SiteCall, SiteMethod
from cloister.privacy.identity import Directory, SigningIdentity

__all__ = ["CONTENT", "MESSAGE_TYPE", "SiteDesk", "content_of", "with_content"]

MESSAGE_TYPE: Final = "query"
CONTENT: Final = "cloister"  # the record, and the field in it


class SiteDesk:
    """Answers the coordinator's calls to one node, and nobody else's.

    Parameters
    ----------
    site
        Who answers.
    identity
        The site's signing key.
    known
        The coordinator's public key.
    """

    def __init__(self, site: Site, identity: SigningIdentity, known: Directory) -> None:
        self._site = site
        self._identity = identity
        self._known = known

    def client_app(self) -> ClientApp:
        """Return the app; every message comes to this object, so that its memory lasts."""
        app = ClientApp()

        @app.query()
        def answer(message: Message, context: Context) -> Message:
            content = self.answer(content_of(message), context.node_id)
            return Message(with_content(content), reply_to=message)

        return app

    def answer(self, content: bytes, node: NodeId) -> bytes:
        """Answer a signed call; raise `AccessDenied` at a call that is not the coordinator's."""
        call = SignedCall.from_bytes(content)
        call.check(self._known, node)
        name = self._site.site_id
        if call.site != name and (call.site or not _is_hello(call.content)):
            raise AccessDenied("a call to another site", where=name, remedy="refuse the message")
        reply = self._site.answer(call.content)
        return SignedReply.made(self._identity, node, name, call, reply).to_bytes()


def with_content(content: bytes) -> RecordDict:
    """Return bytes as Flower carries them."""
    return RecordDict({CONTENT: ConfigRecord({CONTENT: content})})


def content_of(message: Message) -> bytes:
    """Return the bytes of a message; raise `DataError` where there are none."""
    records = message.content.config_records if message.has_content() else {}
    content = records[CONTENT].get(CONTENT) if CONTENT in records else None
    if not isinstance(content, bytes):
        raise DataError("no message of ours", where="Flower", remedy="refuse the message")
    return content


def _is_hello(content: bytes) -> bool:
    try:
        return SiteCall.from_bytes(content).method is SiteMethod.HELLO
    except DataError:
        return False
