"""Calls and replies as Flower carries them: signed by who sends, for one node and one question.

Flower knows a SuperNode by a key, but lets whoever reaches a SuperLink's port register SuperNodes
and start runs. So nothing rests on it: a site answers the coordinator's signature alone, for its
own node, and the coordinator believes a reply by the site's signature alone. A message that
somebody else passes on, or sends again, fits no other node and no other question.

Against whom: everybody who can send through the SuperLink, the SuperLink itself included. It still
sees what is carried, and can hold it back.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NamedTuple, Self

from cloister.core.errors import AccessDenied
from cloister.federate.engines.site_call import SiteId, reading_message
from cloister.privacy.identity import SIGNATURE_BYTES, Directory, SigningIdentity
from cloister.privacy.secure_aggregation.wire import MessageWriter

__all__ = ["COORDINATOR", "NodeId", "SignedCall", "SignedReply"]

NodeId = int  # Flower's number of a SuperNode, 64 bits

COORDINATOR: Final = "coordinator"  # its name in a site's directory
NONCE_BYTES: Final = 16
_CALL: Final = b"CFC1"
_REPLY: Final = b"CFR1"
_CALLING: Final = b"cloister flower call"
_REPLYING: Final = b"cloister flower reply"
_NODE_BYTES: Final = 8
_DIGEST_BYTES: Final = 32


class SignedCall(NamedTuple):
    """What the coordinator sends to one node.

    Parameters
    ----------
    site
        Whom it asks; empty where it asks the node whose it is.
    nonce
        Never used before.
    content
        The call's bytes.
    signature
        The coordinator's.

    Examples
    --------
    >>> coordinator = SigningIdentity.generate()
    >>> call = SignedCall.made(coordinator, 7, SiteId("clinic-a"), b"a call")
    >>> known = Directory({"coordinator": coordinator.public})
    >>> SignedCall.from_bytes(call.to_bytes()).check(known, 7)
    >>> call.check(known, 8)
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: coordinator: the signature does not fit; ...
    """

    site: str
    nonce: bytes
    content: bytes
    signature: bytes = bytes(SIGNATURE_BYTES)

    @classmethod
    def made(cls, identity: SigningIdentity, node: NodeId, site: str, content: bytes) -> Self:
        """Sign a call to a node."""
        call = cls(site, secrets.token_bytes(NONCE_BYTES), content)
        return call._replace(signature=identity.sign(_CALLING, call._signed(node)))

    def check(self, known: Directory, node: NodeId) -> None:
        """Raise `AccessDenied` unless the coordinator signed this for this node."""
        known.verify(COORDINATOR, _CALLING, self._signed(node), self.signature)

    def digest(self) -> bytes:
        """Return 32 bytes that stand for this call, its nonce and its signature."""
        return hashlib.sha256(self.to_bytes()).digest()

    def to_bytes(self) -> bytes:
        """Return the call as bytes."""
        writer = MessageWriter().raw(_CALL).sized(self.site.encode())
        return writer.raw(self.nonce).sized(self.content).raw(self.signature).done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a call; raise `DataError` at anything else."""
        with reading_message("signed call", content, _CALL) as reader:
            site, nonce = reader.text(), reader.raw(NONCE_BYTES)
            return cls(site, nonce, reader.sized(), reader.raw(SIGNATURE_BYTES))

    def _signed(self, node: NodeId) -> bytes:
        unsigned = self._replace(signature=b"").to_bytes()
        return node.to_bytes(_NODE_BYTES, "little") + unsigned


class SignedReply(NamedTuple):
    """What a site sends back.

    Parameters
    ----------
    site
        Who replies.
    call
        The signed call that it answers, by `SignedCall.digest`.
    content
        The reply's bytes.
    signature
        The site's.
    """

    site: str
    call: bytes
    content: bytes
    signature: bytes = bytes(SIGNATURE_BYTES)

    @classmethod
    def made(
        cls, identity: SigningIdentity, node: NodeId, site: SiteId, call: SignedCall, content: bytes
    ) -> Self:
        """Sign a reply from a node."""
        reply = cls(site, call.digest(), content)
        return reply._replace(signature=identity.sign(_REPLYING, reply._signed(node)))

    def check(self, known: Directory, node: NodeId, call: SignedCall) -> SiteId:
        """Return who replied; raise `AccessDenied` unless a known site did, to this very call."""
        if self.call != call.digest() or (call.site and self.site != call.site):
            raise AccessDenied(
                "a reply to another call", where=self.site[:80], remedy="refuse the message"
            )
        known.verify(self.site, _REPLYING, self._signed(node), self.signature)
        return SiteId(self.site)

    def to_bytes(self) -> bytes:
        """Return the reply as bytes."""
        writer = MessageWriter().raw(_REPLY).sized(self.site.encode())
        return writer.raw(self.call).sized(self.content).raw(self.signature).done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a reply; raise `DataError` at anything else."""
        with reading_message("signed reply", content, _REPLY) as reader:
            site, call = reader.text(), reader.raw(_DIGEST_BYTES)
            return cls(site, call, reader.sized(), reader.raw(SIGNATURE_BYTES))

    def _signed(self, node: NodeId) -> bytes:
        unsigned = self._replace(signature=b"").to_bytes()
        return node.to_bytes(_NODE_BYTES, "little") + unsigned
